"""NVLink: every link active, at its speed, without errors; and the fabric that NVSwitch makes of them.

``nvlink`` reads ``nvidia-smi nvlink -s`` and ``-e``, where the profile has ``gpus.nvlink`` or ``gpus.nvswitch``. What
no number is given for must be alike on all links. The counters count since the driver was loaded: they are ``warn``;
what is more than at an earlier reading, ``expect.nvlink_counters`` (what ``keep`` made of it then), may be ``fail``.
``gpu_fabric`` reads how far the GPUs are registered, and the fabric manager, where the profile has ``gpus.nvswitch``.
Whether its package is of the driver's version is for ``gpu_driver`` to say; here it is the one that runs. In a
container the fabric manager is not seen (``warn``), to a virtual machine it may belong or not: there GPUs that are
registered are proof enough.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Dict, FrozenSet, List, Optional, Tuple

from ..findings import Finding
from ..profile import Profile
from .capture import CONTAINER, NO_TOOL, VIRTUAL_MACHINE, Command, Output, Source, inside
from .compared import LOAD, per_day, uptime
from .compared import told as known
from .engine import Captured, Check, Expect, asked, not_known, ok, unknown, unreadable
from .gpu import QUERY, conclude, expected, fewer_than_expected, read_log
from .gpu_log import Gpu, SmiLog, parse_log

NAME, FABRIC = "nvlink", "gpu_fabric"
# of one counter of a link. NVIDIA's DCGM fails a link for 100 CRC errors a second, and for any replay
DEFAULT_ERRORS_PER_HOUR = 360_000.0
DEFAULT_REPLAYS_PER_HOUR = 10.0
STATUS = Command(("nvidia-smi", "nvlink", "-s"), limit=30.0)
ERRORS = Command(("nvidia-smi", "nvlink", "-e"), limit=30.0)
_UNIT = "nvidia-fabricmanager.service"
_MANAGER = Command(("systemctl", "show", _UNIT, "-p", "LoadState,ActiveState,SubState,Result"))
_VERSION = Command(("nv-fabricmanager", "--version"))

_GPU = re.compile(r"^GPU (\d{1,4}): .{0,120}\(UUID: ([^)\s]{1,80})\)\s*$")
_LINK = re.compile(r"^\s+Link (\d{1,3}): (\S.{0,80}?)\s*$")
_SPEED = re.compile(r"^(\d{1,6}(?:\.\d{1,6})?) GB/s$")
_COUNTER = re.compile(r"^\s+Link (\d{1,3}): ([A-Za-z][\w /-]{0,60}): (\S{1,40})\s*$")
_COUNT = re.compile(r"^[0-9]{1,20}$")
# the corrected code words of NVLink 5, billions on a good link; rates; a sum of two others
_NO_ERRORS = re.compile(r"^(FEC |Total )|BER$")
_MANAGER_VERSION = re.compile(r"Fabric Manager version is\s*:\s*(\d{3}(?:\.\d{1,4}){1,3})")

_GPUS_MAX = 128
# its log tells why it does not run; what NVSwitch reports there is in the kernel log too, where it is judged
_LOG = Command(("tail", "-c", "65536", "/var/log/fabricmanager.log"))
_LOG_ERROR = re.compile(r"^\[[^\]]{1,40}\] \[(?:ERROR|CRITICAL|FATAL)\] (?:\[tid \d{1,12}\] )?(.+)$", re.MULTILINE)

Errors = Dict[str, Dict[str, Dict[str, int]]]


@dataclass
class Links:
    """A GPU's links. speeds: GB/s by number, None where inactive. said: what was printed in their place."""

    index: str
    uuid: str
    speeds: Dict[int, Optional[float]] = field(default_factory=dict)
    said: str = ""


def reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    has = expected(profile) and (profile.gpus.get("nvlink") or profile.gpus.get("nvswitch"))
    if not has and not asked(expect, NAME):
        return {}
    return {"status": STATUS, "errors": ERRORS, "nvidia_smi": QUERY, "load": LOAD}


def parse_status(text: str) -> Optional[List[Links]]:
    """From ``nvidia-smi nvlink -s``; None when a line is not understood."""
    found: List[Links] = []
    for line in text.splitlines():
        gpu, link = _GPU.match(line), _LINK.match(line)
        if gpu and len(found) >= _GPUS_MAX:
            return None
        if gpu:
            found.append(Links(gpu.group(1), gpu.group(2)))
        elif link and found:
            speed = _SPEED.match(link.group(2))
            if not speed and "inactive" not in link.group(2).lower():
                return None
            found[-1].speeds[int(link.group(1))] = float(speed.group(1)) if speed else None
        elif line.strip() and found:
            found[-1].said = found[-1].said or line.strip()
        elif line.strip():
            return None
    return found


def reading(text: str) -> Errors:
    """Of ``nvidia-smi nvlink -e`` the counts by GPU (UUID), link (as text) and counter."""
    found: Errors = {}
    links: Dict[str, Dict[str, int]] = {}
    for line in text.splitlines():
        gpu, counter = _GPU.match(line), _COUNTER.match(line)
        if gpu:
            links = found.setdefault(gpu.group(2), {})
        elif counter and _COUNT.match(counter.group(3)) and not _NO_ERRORS.search(counter.group(2)):
            links.setdefault(counter.group(1), {})[counter.group(2)] = int(counter.group(3))
    return found


def _names(text: str) -> FrozenSet[str]:
    """The counters of errors that ``nvidia-smi nvlink -e`` names on any link, with a number or without."""
    names = {found.group(2) for found in map(_COUNTER.match, text.splitlines()) if found}
    return frozenset(name for name in names if not _NO_ERRORS.search(name))


def keep(captured: Captured) -> Optional[Dict[str, Any]]:
    """A reading for the next run: what ``reading`` gives, less what is zero (of a good host nothing but the GPUs), and
    under ``uptime`` how long the host was up, where that is told.

    None where no counter is told.
    """
    output = captured["errors"]
    found = {} if output.problem or output.code else reading(output.text)
    kept: Dict[str, Any] = {}
    for gpu, links in found.items():
        if links:
            counts = {link: {name: n for name, n in row.items() if n} for link, row in links.items()}
            kept[gpu] = {link: row for link, row in counts.items() if row}
    up = uptime(captured.get("load"))
    return {**kept, **({} if up is None else {"uptime": up})} if kept else None


def _hours(earlier: Any, output: Optional[Output]) -> float:
    """How long ago the earlier reading was, at least an hour; all since the boot where it does not tell."""
    now = uptime(output) or 0.0
    then = earlier.get("uptime") if isinstance(earlier, dict) else None
    known = isinstance(then, (int, float)) and not isinstance(then, bool) and 0 <= then <= now
    return max((now - float(then if known and then else 0)) / 3600, 1.0)


def judge(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    status = captured["status"]
    if status.problem:
        return not_known(NAME, status, "nvidia-smi nvlink -s")
    gpus = parse_status(status.text)
    if status.code and not gpus:
        return not_known(NAME, status, "nvidia-smi nvlink -s")
    if gpus is None:
        return unreadable(NAME, status.text, "nvidia-smi nvlink -s")
    if not gpus:
        return [_fail("nvlink.missing", "all GPUs", "nvidia-smi nvlink -s tells of no GPU with NVLink", "escalate")]
    log = parse_log(captured["nvidia_smi"].text)
    places = {gpu.get("uuid"): gpu.locator for gpu in log.gpus} if log else {}
    findings = _judge_told(gpus, log, profile)
    for gpu in gpus:
        findings += _judge_links(gpu, places.get(gpu.uuid, f"GPU {gpu.index} {gpu.uuid}"), profile, gpus)
    hours = _hours(expect.get("nvlink_counters"), captured.get("load"))
    findings += _judge_errors(captured["errors"], gpus, places, profile, expect, hours)
    if findings:
        return findings
    if status.code:
        return not_known(NAME, status, "nvidia-smi nvlink -s")
    speeds = sorted({speed for gpu in gpus for speed in gpu.speeds.values() if speed is not None})
    links = sorted({len(gpu.speeds) for gpu in gpus})
    return ok(NAME, f"{len(gpus)} GPUs, links each: {_list(links)}, GB/s each: {_list(speeds)}; no errors")


def _fail(symptom: str, locator: str, evidence: str, action: str) -> Finding:
    return Finding(NAME, "fail", symptom, locator, evidence, action)


def _list(values: List[Any]) -> str:
    return ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)


def _judge_told(gpus: List[Links], log: Optional[SmiLog], profile: Profile) -> List[Finding]:
    """Whether it told of every GPU: of one without NVLink it says nothing at all."""
    told = {gpu.uuid for gpu in gpus}
    silent = (
        [gpu for gpu in log.gpus if gpu.get("uuid").startswith("GPU-") and gpu.get("uuid") not in told] if log else []
    )
    if len(silent) == len(log.gpus if log else ()):  # then both name none alike
        silent = []
    evidence = "nvidia-smi -q tells of it, nvidia-smi nvlink -s does not"
    findings = [_fail("nvlink.missing", gpu.locator, evidence, "escalate") for gpu in silent]
    return findings or fewer_than_expected(NAME, len(told), log, profile, "nvidia-smi nvlink -s")


def _judge_links(gpu: Links, place: str, profile: Profile, gpus: List[Links]) -> List[Finding]:
    want = profile.gpus.get("nvlink") or {}
    number = int(want.get("links", 0)) or max(len(other.speeds) for other in gpus)
    if not gpu.speeds and "inactive" in gpu.said:
        return [_fail("nvlink.inactive", place, gpu.said, "reboot")]
    if not gpu.speeds:
        evidence = f"no link is told{': ' + gpu.said if gpu.said else ''}"
        return [_fail("nvlink.missing", place, evidence, "escalate")]
    active = {link: speed for link, speed in gpu.speeds.items() if speed is not None}
    down = sorted(set(gpu.speeds) - set(active))
    findings: List[Finding] = []
    if down and len(active) < number:
        evidence = f"{len(active)} of {number} links are active"
        findings.append(_fail("nvlink.inactive", f"{place} link {_list(down)}", evidence, "reboot"))
    elif len(active) < number:
        evidence = f"{len(active)} links, {number} expected; told: {_list(sorted(active))}"
        findings.append(_fail("nvlink.missing", place, evidence, "escalate"))
    every = [speed for other in gpus for speed in other.speeds.values() if speed is not None]
    speed = float(want.get("gbytes_per_second", 0)) or max(every, default=0.0)
    slow = {link: had for link, had in active.items() if had < speed * 0.99}
    if slow:
        evidence = f"{_list(sorted(set(slow.values())))} GB/s, {speed:g} GB/s expected"
        findings.append(_fail("nvlink.slow", f"{place} link {_list(sorted(slow))}", evidence, "reboot"))
    return findings


def _judge_errors(
    output: Output, gpus: List[Links], places: Dict[str, str], profile: Profile, expect: Expect, hours: float
) -> List[Finding]:
    if output.problem:
        return not_known(NAME, output, "nvidia-smi nvlink -e")
    errors = reading(output.text)
    if not errors:
        what = "nvidia-smi nvlink -e"
        return not_known(NAME, output, what) if output.code else unreadable(NAME, output.text, what)
    earlier = expect.get("nvlink_counters")
    findings: List[Finding] = []
    for gpu in gpus:
        place, counts = places.get(gpu.uuid, f"GPU {gpu.index} {gpu.uuid}"), errors.get(gpu.uuid, {})
        silent = _silent(gpu, counts, _names(output.text))
        if silent:
            findings.append(unknown(NAME, "unreadable", f"nvidia-smi nvlink -e: {silent}", place))
        before = earlier.get(gpu.uuid) if isinstance(earlier, dict) else None
        if isinstance(before, dict):
            findings += _judge_growth(place, counts, before, profile, hours)
        else:
            told = [f"link {n}: {name} {count}" for n in counts for name, count in counts[n].items() if count]
            if told:
                findings.append(Finding(NAME, "warn", "nvlink.errors", place, _some(told)))
    return findings


def _silent(gpu: Links, counts: Dict[str, Dict[str, int]], names: FrozenSet[str]) -> str:
    """What is not told of the errors of its active links; all links have the same counters."""
    active = [str(link) for link, speed in gpu.speeds.items() if speed is not None]
    if active and not counts:
        return "no error counter is told"
    lost = {link: sorted(names - set(counts.get(link, {}))) for link in active}
    told = [f"link {link}: {', '.join(missing)}" for link, missing in lost.items() if missing]
    return f"not told: {_some(told)}" if told else ""


def _judge_growth(
    place: str, counts: Dict[str, Dict[str, int]], before: Dict[str, Any], profile: Profile, hours: float
) -> List[Finding]:
    """A link that had to be recovered is failing; of other errors it depends on how many come in an hour."""
    bad: List[str] = []
    seen: List[str] = []
    for link in counts:
        for name, count in counts[link].items():
            then = _earlier(before, link, name)
            grown = count - then if count >= then else count  # less than before: counted anew since a reset
            if grown <= 0:
                continue
            text = f"link {link}: {name} {then} then, {count} now"
            over = grown > _most(name, profile, hours)
            (bad if over or "recovery" in name.lower() else seen).append(text)
    findings = [_fail("nvlink.errors_growing", place, _some(bad), "reboot")] if bad else []
    if seen:
        findings.append(Finding(NAME, "warn", "nvlink.errors", place, _some(seen)))
    return findings


def _most(name: str, profile: Profile, hours: float) -> float:
    """How much a counter may have grown in that time; ``nvlink_errors`` is a number for whatever time."""
    if "nvlink_errors" in profile.limits:
        return profile.limit("nvlink_errors", 0)
    if "replay" in name.lower():
        return hours * profile.limit("nvlink_replays_per_hour", DEFAULT_REPLAYS_PER_HOUR)
    return hours * profile.limit("nvlink_errors_per_hour", DEFAULT_ERRORS_PER_HOUR)


def _earlier(before: Dict[str, Any], link: str, name: str) -> int:
    counters = before.get(link)
    count = counters.get(name) if isinstance(counters, dict) else None
    return count if isinstance(count, int) and count >= 0 else 0


def _some(texts: List[str]) -> str:
    return "; ".join(texts[:5]) + (f"; and {len(texts) - 5} more" if len(texts) > 5 else "")


def last_error(text: str) -> str:
    """The last error in the log of the fabric manager; empty when there is none."""
    errors = _LOG_ERROR.findall(text[-65536:])
    return errors[-1].strip()[:300] if errors else ""


def reads_fabric(profile: Profile, expect: Expect) -> Dict[str, Source]:
    if not (expected(profile) and profile.gpus.get("nvswitch") is True) and not asked(expect, FABRIC):
        return {}
    return {
        "nvidia_smi": QUERY,
        "manager": _MANAGER,
        "version": _VERSION,
        "log": _LOG,
        "container": CONTAINER,
        "virtual": VIRTUAL_MACHINE,
    }


def judge_fabric(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    output = captured["nvidia_smi"]
    log, findings = read_log(FABRIC, output)
    if log is None:
        return findings
    told = frozenset(name for name in _HEALTHY if any(gpu.get(f"fabric/health/{name}") for gpu in log.gpus))
    for gpu in log.gpus:
        findings += _judge_registration(gpu, told)
    registered = not findings and all(gpu.get("fabric/state") == "Completed" for gpu in log.gpus)
    if inside(captured["container"]):
        evidence = "a container: the fabric manager of its machine is not seen"
        findings.append(Finding(FABRIC, "warn", "fabric_manager.container", "", evidence))
    else:
        findings += _judge_manager(captured, log.driver, registered)
    how = "registered" if registered else "their generation does not tell its registration"
    return conclude(FABRIC, output, findings, f"{len(log.gpus)} GPUs: {how}; no fault of the fabric manager")


def _fabric(status: str, symptom: str, locator: str, evidence: str, action: str) -> Finding:
    return Finding(FABRIC, status, symptom, locator, evidence, action)


def _judge_registration(gpu: Gpu, told: FrozenSet[str]) -> List[Finding]:
    """state: of the registration; status: how it ended; health: of the GPU's ways through the fabric (NVLink 5).

    told: what of the health any GPU of this host tells. Those before Hopper are not registered, and tell no state.
    """
    state, status = gpu.get("fabric/state"), gpu.get("fabric/status")
    if state == "In Progress":
        return [_fabric("fail", "gpu.fabric_waiting", gpu.locator, "registration in progress", "wait")]
    if state == "Not Started":
        return [_fabric("fail", "gpu.fabric_not_started", gpu.locator, "registration has not started", "reboot")]
    if state != "Completed" and (state or gpu.from_hopper):
        return [unknown(FABRIC, "unreadable", f"fabric state {state[:60] or 'N/A'}", gpu.locator)]
    if state and status != "Success":
        evidence = f"registration ended with status {status or 'not told'}"
        return [_fabric("fail", "gpu.fabric_failed", gpu.locator, evidence, "reboot")]
    health = [(name, gpu.get(f"fabric/health/{name}")) for name in _HEALTHY]
    sick = [f"{name} {value}" for name, value in health if value and value.lower() not in _HEALTHY[name]]
    if sick:
        return [_fabric("fail", "gpu.fabric_unhealthy", gpu.locator, ", ".join(sick), "reboot")]
    silent = [name for name, value in health if not value and name in told]
    return (
        [unknown(FABRIC, "unreadable", f"fabric health not told: {', '.join(silent)}", gpu.locator)] if silent else []
    )


_HEALTHY: Dict[str, Tuple[str, ...]] = {
    "summary": ("healthy",),
    "bandwidth": ("full", "not degraded"),
    "route_recovery_in_progress": ("false", "no"),
    "route_unhealthy": ("false", "no"),
    "access_timeout_recovery": ("false", "no"),
    "incorrect_configuration": ("false", "no", "none"),
}


def _judge_manager(captured: Captured, driver: str, registered: bool) -> List[Finding]:
    manager, version = captured["manager"], captured["version"]
    if manager.problem or manager.code:
        return not_known(FABRIC, manager, f"systemctl show {_UNIT}")
    unit = dict(line.split("=", 1) for line in manager.text.splitlines() if "=" in line)
    load, active = unit.get("LoadState", ""), unit.get("ActiveState", "")
    if not load or not active:
        return unreadable(FABRIC, manager.text, f"systemctl show {_UNIT}")
    if active != "active" and registered and load == "not-found" and inside(captured["virtual"]):
        return []
    if active in ("activating", "reloading"):
        return [_fabric("fail", "fabric_manager.starting", _UNIT, f"it is {active}", "wait")]
    if active != "active":
        evidence = f"it is {active}, {unit.get('SubState', '')} ({load}); result {unit.get('Result', 'not told')}"
        told = last_error(captured["log"].text)
        evidence += f"; its log: {told}" if told else ""
        action = "escalate" if load == "not-found" else "reboot"
        return [_fabric("fail", "fabric_manager.not_running", _UNIT, evidence, action)]
    if version.problem == NO_TOOL:
        return [unknown(FABRIC, NO_TOOL, "nv-fabricmanager: not found, though its unit is active", _UNIT)]
    if version.problem:
        return not_known(FABRIC, version, "nv-fabricmanager --version")
    have = _MANAGER_VERSION.search(version.text + version.errors)
    if not have or not driver:
        return unreadable(FABRIC, version.text, "nv-fabricmanager --version")
    if have.group(1) != driver:
        evidence = f"fabric manager {have.group(1)}, driver {driver}"
        return [_fabric("fail", "fabric_manager.version", _UNIT, evidence, "reboot")]
    return []


def values(captured: Captured, profile: Profile) -> Dict[str, Any]:
    """Errors of all links, over the time since boot: the driver's counters cannot be older."""
    links = [counts for gpu in reading(captured["errors"].text).values() for counts in gpu.values()]
    total = sum(n for counts in links for n in counts.values()) if links else None
    return known({"nvlink.errors_per_day": per_day(total, uptime(captured.get("load")))})


CHECKS = [
    Check(
        NAME,
        "quick",
        reads,
        judge,
        needs=(
            "gpus.nvlink",
            "gpus.nvswitch",
            "limits.nvlink_errors",
            "limits.nvlink_errors_per_hour",
            "limits.nvlink_replays_per_hour",
            "expect.nvlink_counters",
        ),
        keeps={"nvlink_counters": keep},
        values=values,
    ),
    Check(FABRIC, "quick", reads_fabric, judge_fabric, needs=("gpus.nvswitch",)),
]
