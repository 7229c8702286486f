"""Memory: its size, where the profile states one; and errors that were found in it.

``memory_size`` judges what the kernel has to give (``MemTotal``) by ``limits.memory_min_bytes``; without that by the
modules together, ``dimms.total_gib``, less 2 % and 4 GiB. What the kernel describes its memory with is one byte in 64
(``struct page``), where AMD's SEV-SNP is on the table of pages one in 256; firmware, the kernel itself, its hash tables
and the memory put by for a crash take some GiB of any host. A module of 32 is 3 %, so that on hosts of 512 GiB and more
a lost one is seen. Modules are those of a machine: inside a virtual machine or container they prove nothing.

``memory_errors`` reads the kernel's error detection (EDAC), which counts by module since its driver was loaded, and the
memory that the kernel has given up (``HardwareCorrupted``). Not required: on servers whose firmware keeps errors to
itself EDAC has no memory controller, and the BMC's log is what tells.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

from ..findings import Finding
from ..profile import Profile
from .capture import Source, read_files
from .compared import per_day, told
from .engine import Captured, Check, Expect, asked, not_known, ok, unknown, unreadable
from .pcie_acs import VIRTUALIZATION

GIB = 1024**3
NAME, ERRORS = "memory_size", "memory_errors"
DEFAULT_CORRECTED_PER_DAY = 100.0
_EDAC = "/sys/devices/system/edac/mc"
# mc0/dimm3, and mc0/csrow0 of older drivers with its channels in file names
EDAC = read_files(
    *(f"{_EDAC}/mc*/{name}" for name in ("seconds_since_reset", "ce_noinfo_count", "ue_noinfo_count", "mc_name")),
    *(f"{_EDAC}/mc*/dimm*/{name}" for name in ("dimm_label", "dimm_ce_count", "dimm_ue_count")),
    *(f"{_EDAC}/mc*/rank*/{name}" for name in ("dimm_label", "dimm_ce_count", "dimm_ue_count")),
    f"{_EDAC}/mc*/ce_count",
    f"{_EDAC}/mc*/ue_count",
    "/proc/meminfo",
)


MODULES_SHARE, MODULES_BYTES = 0.02, 4 * GIB


def reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    least, of_modules = least_bytes(profile)
    meminfo: Dict[str, Source] = {"meminfo": read_files("/proc/meminfo")}
    if least <= 0:
        return {}
    return {**meminfo, "virtualization": VIRTUALIZATION} if of_modules else meminfo


def least_bytes(profile: Profile) -> Tuple[float, bool]:
    """The least that the kernel may have, 0 where nothing says; and whether that is by the modules."""
    if "memory_min_bytes" in profile.limits:
        return profile.limit("memory_min_bytes", 0), False
    return float(profile.dimms.get("total_gib", 0)) * GIB * (1 - MODULES_SHARE) - MODULES_BYTES, True


def _read_answer(text: str) -> Optional[Dict[str, str]]:
    """File contents by path, from what ``read_files`` printed."""
    try:
        return {str(path): str(value) for path, value in json.loads(text)["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def judge(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    output = captured["meminfo"]
    if output.problem or output.code:
        return not_known(NAME, output, "/proc/meminfo")
    text = (_read_answer(output.text) or {}).get("/proc/meminfo")
    if text is None:
        return unreadable(NAME, output.text, "/proc/meminfo")
    found = re.search(r"^MemTotal:\s*([0-9]{1,15}) kB", text, re.MULTILINE)
    if not found:
        return unreadable(NAME, text, "/proc/meminfo")
    total, (least, of_modules) = int(found.group(1)) * 1024, least_bytes(profile)
    machine = captured.get("virtualization")
    if of_modules and machine and total < least:
        kind = machine.text.strip()[:32]
        if machine.problem or not kind:
            return not_known(NAME, machine, "systemd-detect-virt")
        if kind != "none":
            said = f"runs in {kind}, with {total} bytes: the modules that the profile tells of are its machine's"
            return [Finding(NAME, "warn", f"{NAME}.virtual", "", said)]
    if total < least:
        evidence = f"{total} bytes, expected {least:.0f} or more"
        evidence += f" of modules of {profile.dimms['total_gib']:g} GiB" if of_modules else ""
        return [Finding(NAME, "fail", "memory.missing", "", evidence, "reseat")]
    return ok(NAME, f"{total} bytes")


@dataclass
class Counted:
    """Errors of one module, or of a controller that could not tell the module. label: as printed on the board."""

    place: str
    label: str = ""
    corrected: Optional[int] = None
    uncorrected: Optional[int] = None

    @property
    def locator(self) -> str:
        return f"DIMM {self.label}, {self.place}" if self.label else self.place


def error_reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    wanted = profile.count("dimms") or profile.limit("memory_min_bytes", 0) > 0 or asked(expect, ERRORS)
    return {"edac": EDAC, "virtualization": VIRTUALIZATION} if wanted else {}


def parse_edac(files: Dict[str, str]) -> Dict[str, Counted]:
    """Counts by place, ``mc0/dimm3``; ``mc0`` for what could not be told to a module.

    Where a controller tells of no module at all its own sums count.
    """
    found: Dict[str, Counted] = {}
    for path, value in sorted(files.items()):
        match = re.match(r"/sys/devices/system/edac/mc/(mc[0-9]{1,4})(/(?:dimm|rank)[0-9]{1,4})?/(\w+)$", path)
        if not match:
            continue
        place, name, text = match.group(1) + (match.group(2) or ""), match.group(3), value.strip()
        counted = found.setdefault(place, Counted(place))
        number = int(text) if re.fullmatch(r"[0-9]{1,19}", text) else None
        if name == "dimm_label":
            counted.label = text[:64]
        elif name in ("dimm_ce_count", "ce_noinfo_count"):
            counted.corrected = number
        elif name in ("dimm_ue_count", "ue_noinfo_count"):
            counted.uncorrected = number
    for controller in [place for place in found if "/" not in place]:
        if not any(place.startswith(f"{controller}/") for place in found):
            for name in ("ce_count", "ue_count"):
                text = files.get(f"{_EDAC}/{controller}/{name}", "").strip()
                number = int(text) if re.fullmatch(r"[0-9]{1,19}", text) else None
                setattr(found[controller], "corrected" if name == "ce_count" else "uncorrected", number)
    return found


def judge_errors(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    output, machine = captured["edac"], captured["virtualization"]
    if output.problem or output.code:
        return not_known(ERRORS, output, _EDAC)
    files = _read_answer(output.text)
    if files is None:
        return unreadable(ERRORS, output.text, _EDAC)
    findings = _judge_given_up(files.get("/proc/meminfo", ""))
    kind = machine.text.strip()[:32]
    if not machine.problem and kind and kind != "none":
        said = f"runs in {kind}: errors of the memory below are its machine's to count"
        return findings or [Finding(ERRORS, "warn", f"{ERRORS}.virtual", "", said)]
    counted = parse_edac(files)
    if not counted:
        said = f"no memory controller in {_EDAC}: no EDAC driver, or the firmware keeps errors to itself"
        return [*findings, unknown(ERRORS, "no_edac", said)]
    for one in counted.values():
        findings += _judge_counted(one, _seconds(files, one.place), profile)
    total = sum(one.corrected or 0 for one in counted.values())
    return findings or ok(ERRORS, f"{len(counted)} modules and controllers, {total} corrected errors")


def _judge_given_up(meminfo: str) -> List[Finding]:
    found = re.search(r"^HardwareCorrupted:\s*([0-9]{1,15}) kB", meminfo, re.MULTILINE)
    if not found or int(found.group(1)) == 0:
        return []
    evidence = f"HardwareCorrupted {found.group(1)} kB: pages with uncorrectable errors, given up until the next boot"
    return [Finding(ERRORS, "fail", "memory.given_up", "", evidence, "reboot")]


def _seconds(files: Dict[str, str], place: str) -> Optional[float]:
    text = files.get(f"{_EDAC}/{place.partition('/')[0]}/seconds_since_reset", "").strip()
    return float(text) if re.fullmatch(r"[0-9]{1,12}", text) else None


def _judge_counted(one: Counted, seconds: Optional[float], profile: Profile) -> List[Finding]:
    if one.corrected is None or one.uncorrected is None:
        return [unknown(ERRORS, "unreadable", "its counts of errors cannot be read", one.locator)]
    if one.uncorrected:
        evidence = f"{one.uncorrected} uncorrectable errors, {one.corrected} corrected"
        return [Finding(ERRORS, "fail", "memory.uncorrectable", one.locator, evidence, "replace")]
    if not one.corrected:
        return []
    limit = profile.limit("memory_corrected_per_day", DEFAULT_CORRECTED_PER_DAY)
    days = max((seconds or 0) / 86400, 1)  # what a day may bring, less than a day may too
    evidence = f"{one.corrected} corrected errors within {days:.1f} days; limit {limit:g} a day"
    if one.corrected > limit * days:
        return [Finding(ERRORS, "fail", "memory.corrected", one.locator, evidence, "replace")]
    return [Finding(ERRORS, "warn", "memory.corrected", one.locator, evidence, "none")]


def error_values(captured: Captured, profile: Profile) -> Dict[str, Any]:
    """Corrected errors of all modules since their driver was loaded."""
    files = _read_answer(captured["edac"].text) or {}
    counted = parse_edac(files).values()
    rates = [per_day(one.corrected, _seconds(files, one.place)) for one in counted]
    known = [rate for rate in rates if rate is not None]
    return told({"memory.corrected_per_day": round(sum(known), 3) if known else None})


CHECKS = [
    Check(NAME, "quick", reads, judge, needs=("limits.memory_min_bytes", "dimms.total_gib")),
    Check(
        ERRORS,
        "quick",
        error_reads,
        judge_errors,
        needs=("dimms.count", "limits.memory_corrected_per_day"),
        required=False,
        values=error_values,
    ),
]
