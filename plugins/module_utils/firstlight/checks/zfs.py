"""The ZFS pool that the site expects (``expect.zfs_pool``): imported, whole, its drives without errors, room in it.

``zpool status -j`` where there is (OpenZFS 2.3 and later), else the text that zfs/status.py reads.
"""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any, Dict, Iterator, List, Mapping, Tuple

from ..findings import Finding
from ..profile import Profile
from ..zfs.health import DEFAULT_DRIVE_ERRORS, judge_pool
from ..zfs.properties import SERIALS, read_serials
from ..zfs.status import STATES, Leaf, Pool, read_pools
from .capture import NO_TOOL, Command, Output, Source
from .engine import Captured, Check, Expect, not_known, ok, unknown, unreadable

NAME = "zfs_pool"
WARN_USED_PERCENT = 90  # from here on ZFS looks long for room, and writes become slow
DEFAULT_USED_PERCENT = 95.0
_LEAVES_MAX = 1024
# as zpool_main.c writes them, where the text has another word; HEALTHY is in its manual page
_STATES = {"HEALTHY": "ONLINE", "CANT_OPEN": "UNAVAIL", "CLOSED": "UNAVAIL", "UNKNOWN": "UNAVAIL"}
_SECTIONS = (
    ("vdevs", ""),
    ("spares", "spares"),
    ("logs", "logs"),
    ("l2cache", "cache"),
    ("special", "special"),
    ("dedup", "dedup"),
)
_ERRORS = ("read", "write", "checksum")
_NAME = re.compile(r"^[a-z][A-Za-z0-9_.:-]{0,63}$")


def _wanted(expect: Expect) -> Mapping[str, Any]:
    wanted = expect.get("zfs_pool") or {}
    return wanted if isinstance(wanted, Mapping) else {}


def reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    pool = str(_wanted(expect).get("name") or "")
    if not _NAME.match(pool):
        return {}
    return {
        "status_json": Command(("zpool", "status", "-j", "-p", "-P"), limit=20.0),
        "status": Command(("zpool", "status", "-p", "-P"), limit=20.0),
        "used": Command(("zpool", "list", "-H", "-p", "-o", "name,capacity"), limit=20.0),
        "drives": Command(("zfs", "get", "-H", "-o", "value", SERIALS, pool), limit=20.0),
    }


def read_pools_json(text: str) -> List[Pool]:
    """Pools in the output of ``zpool status -j -p -P``; ValueError when it is not understood."""
    try:
        said = json.loads(text)
        said["output_version"]["command"]
        return [_pool(pool) for pool in (said.get("pools") or {}).values()]
    except (KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise ValueError(f"zpool's JSON is not understood: {type(error).__name__} {error}") from None


def _pool(said: Mapping[str, Any]) -> Pool:
    state = str(said["state"])
    if state not in STATES:
        raise ValueError(f"zpool's JSON is not understood: state {state[:40]!r}")
    scan, count = said.get("scan_stats") or {}, said.get("error_count")
    errors = "" if count is None else f"{int(count)} data errors, use '-v' for a list"
    leaves = []
    for key, section in _SECTIONS:
        tops = said.get(key) or {}
        for top in tops.values():
            # the pool itself is the one vdev at the top of "vdevs"
            under = top["vdevs"].values() if key == "vdevs" else [top]
            leaves += [_leaf(one, groups, section) for vdev in under for one, groups in _ends(vdev)]
    if len(leaves) > _LEAVES_MAX:
        raise ValueError(f"zpool tells of {len(leaves)} drives")
    return Pool(
        name=str(said["name"]),
        state=state,
        number=str(said.get("pool_guid") or said.get("guid") or ""),
        message=str(said.get("msgid") or ""),
        scan=_scan(scan),
        errors=errors if count is None or int(count) else "No known data errors",
        leaves=tuple(leaves),
    )


def _ends(vdev: Mapping[str, Any], groups: Tuple[str, ...] = ()) -> Iterator[Tuple[Mapping[str, Any], Tuple[str, ...]]]:
    """The drives below a vdev, each with the vdevs that it is in."""
    below = vdev.get("vdevs")
    if not below:
        yield vdev, groups
        return
    if len(groups) > 8:
        raise ValueError("zpool's JSON is not understood: vdevs in vdevs in vdevs")
    for one in below.values():
        yield from _ends(one, (*groups, str(vdev["name"])))


def _leaf(said: Mapping[str, Any], groups: Tuple[str, ...], section: str) -> Leaf:
    state = str(said["state"])
    state = _STATES.get(state, state)
    if state not in STATES:
        raise ValueError(f"zpool's JSON is not understood: state {state[:40]!r}")
    was = str(said.get("was") or "")
    note = f"was {was}" if was else str(said.get("aux") or "").lower().replace("_", " ")
    # of a lost drive they are not told, and of a spare that rests
    counted = section not in ("spares",) and state in ("ONLINE", "DEGRADED")
    numbers = [said[f"{kind}_errors"] if counted else said.get(f"{kind}_errors") or 0 for kind in _ERRORS]
    read, write, checksum = map(int, numbers)
    path, number = was or str(said.get("path") or ""), str(said.get("guid") or "")
    return Leaf(str(said["name"]), state, path, read, write, checksum, groups, section, note, number=number)


def _scan(said: Mapping[str, Any]) -> str:
    """In the words of the text form, which ``zfs.status.progress`` and the evidence read."""
    function, state = str(said.get("function", "")).lower(), said.get("state")
    if state == "SCANNING":
        return f"{function} in progress"
    if state == "FINISHED":
        done = "resilvered" if function == "resilver" else "scrub repaired"
        return f"{done} {said.get('processed', 0)} bytes with {said.get('errors', 0)} errors"
    return "none requested"


def judge(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    wanted = _wanted(expect)
    name = str(wanted.get("name"))
    status = captured["status"]
    if status.problem == NO_TOOL:
        return [Finding(NAME, "fail", "zfs.not_installed", name, "no zpool on this host", "escalate")]
    in_json, pools = captured.get("status_json"), None
    if in_json is not None and not in_json.problem and not in_json.code:
        with contextlib.suppress(ValueError):  # then the text tells
            pools = read_pools_json(in_json.text)
    if pools is None and (status.problem or status.code):
        return not_known(NAME, status, "zpool status")
    try:
        pools = read_pools(status.text) if pools is None else pools
    except ValueError:
        return unreadable(NAME, status.text, "zpool status")
    pool = next((one for one in pools if one.name == name), None)
    if pool is None:
        others = ", ".join(one.name for one in pools) or "none"
        return [Finding(NAME, "fail", "zfs.no_pool", name, f"is not imported; imported: {others}", "escalate")]
    drives = captured["drives"]
    serials = {} if drives.problem or drives.code else read_serials(drives.text)
    findings = judge_pool(
        pool, serials, int(wanted.get("drives") or 0), profile.limit("zfs_drive_errors", DEFAULT_DRIVE_ERRORS)
    )
    if silent := _silent(pool):
        findings.append(unknown(NAME, "unreadable", f"zpool status: not told: {', '.join(silent)}", name))
    findings += _judge_used(captured["used"], name, profile)
    wrong = [finding for finding in findings if finding.status != "ok"]
    return wrong or findings[:1] or ok(NAME, f"{name} ONLINE")


def _silent(pool: Pool) -> List[str]:
    """What every pool tells, and this one does not."""
    silent = [] if pool.errors else ["errors"]
    silent += [] if any(not leaf.section for leaf in pool.leaves) else ["its drives"]
    return silent


def _judge_used(output: Output, name: str, profile: Profile) -> List[Finding]:
    used = re.search(rf"^{re.escape(name)}\t([0-9]{{1,3}})%?$", output.text, re.MULTILINE)
    if output.problem or output.code:
        return not_known(NAME, output, "zpool list")
    if used is None:
        return [unknown(NAME, "unreadable", f"zpool list: how much is used is not told: {output.text[:80]!r}", name)]
    share, limit = int(used.group(1)), profile.limit("disk_used_percent", DEFAULT_USED_PERCENT)
    if share < min(WARN_USED_PERCENT, limit):
        return []
    if share >= limit:
        evidence = f"{share} % of the pool is used, limit {limit:g} %"
        return [Finding(NAME, "fail", "zfs.pool_full", name, evidence, "escalate")]
    evidence = f"{share} % of the pool is used, from {WARN_USED_PERCENT} % on writing is slow"
    return [Finding(NAME, "warn", "zfs.pool_full", name, evidence, "none")]


_NEEDS = ("expect.zfs_pool", "limits.disk_used_percent", "limits.zfs_drive_errors")
CHECKS = [Check(NAME, "quick", reads, judge, needs=_NEEDS)]
