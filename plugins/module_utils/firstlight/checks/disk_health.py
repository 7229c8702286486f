"""What every drive tells of its own health: warnings, wear, errors.

Reads ``nvme smart-log -o json`` of each NVMe drive and ``smartctl -j`` of every other, and of those too where nvme-cli
is missing; each with a time limit of its own. Not required: neither tool is part of a minimal installation. What a
volume of a RAID card hides, the BMC tells at discovery.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..findings import Finding
from ..profile import Profile
from .capture import NOT_PERMITTED, TIMED_OUT, Command, Source
from .disks import LIST_DRIVES, parse_drives, place
from .engine import Captured, Check, Expect, asked, not_known, ok, unknown, unreadable

NAME = "disk_health"
DEFAULT_WEAR_PERCENT = 90.0
DEFAULT_MEDIA_ERRORS = 100.0  # over a drive's life; a good one has none, an aging one a few

# Prints {"drives": [as LIST_DRIVES has them, with tool, code, text, error, or problem: timed_out or no_tool]}
_SCRIPT = (
    LIST_DRIVES
    + r"""
import shutil, subprocess, sys, threading
LIMIT, TEXT = 3.0, 262144
# without vfork, which would stop all threads where the tool cannot be loaded
FORK = {"user": os.geteuid()} if sys.version_info >= (3, 10) else {}
def ask(row):
    path = "/dev/" + row["name"]
    tools = [("smartctl", ["-j", "-i", "-H", "-A", "-l", "error", path])]
    if row["name"].startswith("nvme"):
        tools.insert(0, ("nvme", ["smart-log", path, "-o", "json"]))
    for tool, words in tools:
        if not shutil.which(tool):
            continue
        row.update(tool=tool, problem="timed_out")
        try:
            process = subprocess.Popen([tool] + words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, start_new_session=True, **FORK)
        except OSError as error:
            row.update(code=126, text="", error=error.strerror or "error", problem="")
            return
        running.append(process)
        said = process.stdout.read(TEXT).decode("utf-8", "replace")
        row["error"] = process.stderr.read(500).decode("utf-8", "replace")
        row.update(code=process.wait(), text=said, problem="")
        return
    row.update(problem="no_tool", tool=tools[0][0])
rows, running = drives(), []
asking = [threading.Thread(target=ask, args=(row,), daemon=True) for row in rows if not row["name"].startswith("vd")]
for one in asking:
    one.start()
end = time.monotonic() + LIMIT
for one in asking:
    one.join(max(0, end - time.monotonic()))
said = json.dumps({"drives": [dict(row) for row in rows]})  # copies: a late answer may still come
for process in running:
    if process.returncode is None:
        process.kill()
sys.stdout.write(said)
sys.stdout.flush()
os._exit(0)
"""
)
READER = Command((sys.executable or "python3", "-I", "-S", "-c", _SCRIPT), 7.0, 16 * 1024 * 1024)

# critical_warning of the NVMe base specification, SMART / Health Information log page
_WARNINGS = (
    (0x01, "spare space is below its threshold"),
    (0x04, "its reliability is degraded"),
    (0x08, "its media are read-only"),
    (0x10, "the backup of its volatile memory has failed"),
    (0x20, "its persistent memory is read-only"),
)
_TOO_HOT = 0x02
_UNREADABLE_SECTORS = {197: "pending", 198: "offline uncorrectable"}  # ATA attributes
_REPLACED_SECTORS = {5: "reallocated", 187: "reported uncorrectable"}
_WEAR = re.compile(r"wear|life|endurance", re.IGNORECASE)


@dataclass(frozen=True)
class Health:
    """What a drive says of itself. warning: the bits of critical_warning; wear: percent of its life that is used.

    errors: what could not be read or written, over its life; replaced: sectors that were; None where not told.
    failing: why the drive says that it fails, else empty. supported: False where the device has no SMART. odd: what
    such a drive tells, and this one does not, or in no known form.
    """

    warning: int = 0
    spare: Optional[float] = None
    threshold: Optional[float] = None
    wear: Optional[float] = None
    errors: Optional[float] = None
    replaced: float = 0
    celsius: Optional[float] = None
    failing: str = ""
    supported: bool = True
    odd: Tuple[str, ...] = ()


def reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    wanted = profile.count("nvme") or profile.os_disk or asked(expect, NAME)
    return {"drives": READER} if wanted else {}


def _number(value: Any) -> Optional[float]:
    """A number as nvme-cli and smartctl write them: 12, 12.0, "12", "1,234"."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    text = str(value).replace(",", "").strip()
    return float(text) if re.fullmatch(r"[0-9]{1,40}(\.[0-9]{1,6})?", text) else None


def parse_smart_log(text: str) -> Optional[Health]:
    """``nvme smart-log -o json`` of nvme-cli 1.x and 2.x; None when it is something else."""
    try:
        log = dict(json.loads(text))
    except (ValueError, TypeError, RecursionError):
        return None
    warning = log.get("critical_warning")
    bits = _number(warning.get("value") if isinstance(warning, dict) else warning)  # a mapping with -v
    wear = _number(log.get("percent_used", log.get("percentage_used")))
    errors = _number(log.get("media_errors"))
    if bits is None or wear is None or errors is None:
        return None
    heat = _number(log.get("temperature"))
    return Health(
        warning=int(bits) & 0xFF,
        spare=_number(log.get("avail_spare")),
        threshold=_number(log.get("spare_thresh")),
        wear=wear,
        errors=errors,
        celsius=None if heat is None else heat - 273 if heat > 200 else heat,
        odd=_not_numbers(log, "avail_spare", "spare_thresh"),
    )


def _not_numbers(row: Mapping[str, Any], *keys: str) -> Tuple[str, ...]:
    """Those of these keys whose value is none, or not there."""
    return tuple(f"{key} {str(row.get(key, 'not there'))[:40]}" for key in keys if _number(row.get(key)) is None)


def parse_smartctl(text: str) -> Optional[Health]:
    """``smartctl -j`` 7.0 and later of an NVMe, ATA or SCSI drive; None when it tells no health."""
    try:
        said = dict(json.loads(text))
        if (said.get("smart_support") or {}).get("available") is False:
            return Health(supported=False)
        passed = (said.get("smart_status") or {}).get("passed")
        failing = "smartctl: SMART overall-health self-assessment FAILED" if passed is False else ""
        log = said.get("nvme_smart_health_information_log")
        if isinstance(log, dict):
            return _nvme_of_smartctl(log, failing)
        rows = (said.get("ata_smart_attributes") or {}).get("table")
        verdict = () if isinstance(passed, bool) else ("smart_status",)
        if isinstance(rows, list):
            return _ata(said, rows, failing, verdict)
        counters = said.get("scsi_error_counter_log")
        if passed is None and not counters:
            return None
        kinds = [row if isinstance(row, dict) else {} for row in (counters or {}).values()]
        odd = verdict if counters or counters is None else (*verdict, "scsi_error_counter_log empty")
        for key in ("scsi_percentage_used_endurance_indicator", "scsi_grown_defect_list"):
            odd += _not_numbers(said, key) if key in said else ()
        return Health(
            wear=_number(said.get("scsi_percentage_used_endurance_indicator")),
            errors=sum(_number(row.get("total_uncorrected_errors")) or 0 for row in kinds),
            replaced=_number(said.get("scsi_grown_defect_list")) or 0,
            failing=failing,
            odd=(*odd, *(words for row in kinds for words in _not_numbers(row, "total_uncorrected_errors"))),
        )
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def _message(text: str) -> str:
    """Why smartctl gave no answer, in its words."""
    found = re.search(r'"string": *"([^"]{1,300})"', text[:65536])
    return found.group(1) if found else ""


def _nvme_of_smartctl(log: Mapping[str, Any], failing: str) -> Optional[Health]:
    bits, wear = _number(log.get("critical_warning")), _number(log.get("percentage_used"))
    if bits is None or wear is None:
        return None
    return Health(
        warning=int(bits) & 0xFF,
        spare=_number(log.get("available_spare")),
        threshold=_number(log.get("available_spare_threshold")),
        wear=wear,
        errors=_number(log.get("media_errors")),
        celsius=_number(log.get("temperature")),
        failing=failing,
        odd=_not_numbers(log, "available_spare", "available_spare_threshold", "media_errors"),
    )


def _ata(said: Mapping[str, Any], rows: List[Any], failing: str, odd: Tuple[str, ...]) -> Health:
    errors, replaced, left = 0.0, 0.0, None
    odd = odd if rows else (*odd, "no attribute")
    for row in rows:
        wears = bool(_WEAR.search(str(row.get("name"))))
        if _number(row.get("id")) is None:
            odd = (*odd, f"the number of attribute {str(row.get('name'))[:40]}")
        if row.get("id") in (*_UNREADABLE_SECTORS, *_REPLACED_SECTORS):
            odd += tuple(f"attribute {row['id']}: {words}" for words in _not_numbers(row.get("raw") or {}, "value"))
        if wears:
            odd += tuple(f"attribute {row.get('id')}: {words}" for words in _not_numbers(row, "value"))
        raw, value = _number((row.get("raw") or {}).get("value")), _number(row.get("value"))
        if row.get("id") in _UNREADABLE_SECTORS:
            errors = max(errors, raw or 0)  # the same sectors, counted twice
        if row.get("id") in _REPLACED_SECTORS:
            replaced += raw or 0
        # these count down from 100, whatever their raw value means
        if wears and value is not None and value <= 100:
            left = value if left is None else min(left, value)
    used = _number((said.get("endurance_used") or {}).get("current_percent"))
    odd += _not_numbers(said["endurance_used"] or {}, "current_percent") if "endurance_used" in said else ()
    wear = used if used is not None else None if left is None else 100 - left
    return Health(wear=wear, errors=errors, replaced=replaced, failing=failing, odd=odd)


def judge(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    output = captured["drives"]
    if output.problem or output.code:
        return not_known(NAME, output, "the tools of all drives")
    drives = parse_drives(output.text)
    if drives is None:
        return unreadable(NAME, output.text, "the tools of all drives")
    real = [drive for drive in drives if not drive["name"].startswith("vd")]  # a virtual machine's have no health
    if not drives:
        return [unknown(NAME, "no_drive", "neither lsblk nor /sys/block shows a drive")]
    if not real:
        return [Finding(NAME, "warn", f"{NAME}.not_told", "", f"only virtual drives: {len(drives)}", "none")]
    limit = profile.limit("nvme_wear_percent", DEFAULT_WEAR_PERCENT)
    system = str(profile.os_disk.get("controller") or profile.os_disk.get("model") or "").lower()
    most = profile.limit("nvme_media_errors", DEFAULT_MEDIA_ERRORS)
    findings = [finding for drive in real for finding in _judge_drive(drive, limit, most, system)]
    return findings or ok(NAME, f"{len(real)} drives tell their health, all good")


def _judge_drive(drive: Mapping[str, Any], limit: float, most: float, system: str) -> List[Finding]:
    locator, problem = place(drive), str(drive.get("problem", "failed"))
    tool, text, said = str(drive.get("tool")), str(drive.get("text")), str(drive.get("error")).strip()
    if problem:
        evidence = "no answer in 3 s" if problem == TIMED_OUT else "not found: install nvme-cli and smartmontools"
        action = "retry" if problem == TIMED_OUT else "escalate"
        return [unknown(NAME, problem[:16], f"{tool}: {evidence}", locator, action)]
    health = parse_smart_log(text) if tool == "nvme" else parse_smartctl(text)
    if health is None or not health.supported:
        if health is not None or (system and system in str(drive.get("model")).lower()):
            evidence = "tells no health of its own: the volume of a RAID card? Its BMC tells"
            return [Finding(NAME, "warn", f"{NAME}.not_told", locator, evidence, "none")]
        said = said or _message(text) or text.strip() or "nothing"
        reason = NOT_PERMITTED if "ermission denied" in said else "unreadable"
        return [unknown(NAME, reason, f"{tool}, exit status {drive.get('code')}: {said}", locator)]
    kind = "nvme" if str(drive["name"]).startswith("nvme") else "disk"
    findings = [
        Finding(NAME, "fail", f"{kind}.failed", locator, evidence, "replace") for evidence in _failures(health, kind)
    ]
    if health.odd:
        more = f", and {len(health.odd) - 4} more" if len(health.odd) > 4 else ""
        evidence = f"{tool}: not told: {', '.join(health.odd[:4])}{more}"
        findings.append(unknown(NAME, "unreadable", evidence, locator))
    if health.warning & _TOO_HOT:
        evidence = (
            f"critical warning: temperature, {'not told' if health.celsius is None else f'{health.celsius:.0f} °C'}"
        )
        findings.append(Finding(NAME, "warn", f"{kind}.hot", locator, evidence, "escalate"))
    if health.wear is not None and health.wear >= limit:
        evidence = f"{health.wear:g} % of its life is used; {limit:g} are allowed"
        findings.append(Finding(NAME, "fail", f"{kind}.worn", locator, evidence, "replace"))
    if kind == "nvme" and health.errors:
        evidence = f"{health.errors:.0f} media errors over its life, limit {most:g}"
        status, action = ("fail", "replace") if health.errors > most else ("warn", "none")
        findings.append(Finding(NAME, status, "nvme.media_errors", locator, evidence, action))
    if health.replaced:
        evidence = f"{health.replaced:.0f} sectors were bad, and are replaced"
        findings.append(Finding(NAME, "warn", "disk.bad_sectors", locator, evidence, "none"))
    return findings


def _failures(health: Health, kind: str) -> List[str]:
    """Why a drive must be replaced, in words."""
    found = [health.failing] if health.failing else []
    found += [f"critical warning {health.warning:#04x}: {words}" for bit, words in _WARNINGS if health.warning & bit]
    spare, threshold = health.spare, health.threshold
    if spare is not None and threshold is not None and spare < threshold and not health.warning & 1:
        found.append(f"{spare:g} % spare space, its threshold is {threshold:g} %")
    if kind == "disk" and health.errors:
        found.append(f"{health.errors:.0f} sectors or transfers that cannot be read")
    return found


_NEEDS = ("nvme.count", "limits.nvme_wear_percent", "limits.nvme_media_errors")
CHECKS = [Check(NAME, "quick", reads, judge, needs=_NEEDS, required=False)]
