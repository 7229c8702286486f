"""The ZFS pool that the site expects (``expect.zfs_pool``): imported, whole, its drives without errors, room in it.

``zpool status`` is in text because only OpenZFS 2.3 and later can print JSON; see zfs/status.py.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping

from ..findings import Finding
from ..profile import Profile
from ..zfs.health import judge_pool
from ..zfs.properties import SERIALS, read_serials
from ..zfs.status import read_pools
from .capture import NO_TOOL, Command, Source
from .engine import Captured, Check, Expect, not_known, ok, unreadable

NAME = "zfs_pool"
WARN_USED_PERCENT = 90  # from here on ZFS looks long for room, and writes become slow
_NAME = re.compile(r"^[a-z][A-Za-z0-9_.:-]{0,63}$")


def _wanted(expect: Expect) -> Mapping[str, Any]:
    wanted = expect.get("zfs_pool") or {}
    return wanted if isinstance(wanted, Mapping) else {}


def reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    pool = str(_wanted(expect).get("name") or "")
    if not _NAME.match(pool):
        return {}
    return {
        "status": Command(("zpool", "status", "-p", "-P"), limit=20.0),
        "used": Command(("zpool", "list", "-H", "-p", "-o", "name,capacity"), limit=20.0),
        "drives": Command(("zfs", "get", "-H", "-o", "value", SERIALS, pool), limit=20.0),
    }


def judge(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    wanted = _wanted(expect)
    name = str(wanted.get("name"))
    status = captured["status"]
    if status.problem == NO_TOOL:
        return [Finding(NAME, "fail", "zfs.not_installed", name, "no zpool on this host", "escalate")]
    if status.problem or status.code:
        return not_known(NAME, status, "zpool status")
    try:
        pools = read_pools(status.text)
    except ValueError:
        return unreadable(NAME, status.text, "zpool status")
    pool = next((one for one in pools if one.name == name), None)
    if pool is None:
        others = ", ".join(one.name for one in pools) or "none"
        return [Finding(NAME, "fail", "zfs.no_pool", name, f"is not imported; imported: {others}", "escalate")]
    drives = captured["drives"]
    serials = {} if drives.problem or drives.code else read_serials(drives.text)
    findings = judge_pool(pool, serials, int(wanted.get("drives") or 0))
    used = re.search(rf"^{re.escape(name)}\t([0-9]{{1,3}})$", captured["used"].text, re.MULTILINE)
    if used and int(used.group(1)) >= WARN_USED_PERCENT:
        findings = [finding for finding in findings if finding.status != "ok"]
        evidence = f"{used.group(1)} % of the pool is used, from {WARN_USED_PERCENT} % on writing is slow"
        findings.append(Finding(NAME, "warn", "zfs.pool_full", name, evidence, "none"))
    return findings or ok(NAME, f"{name} ONLINE")


CHECKS = [Check(NAME, "quick", reads, judge, needs=("expect.zfs_pool",))]
