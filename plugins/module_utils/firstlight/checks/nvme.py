"""NVMe data drives: number and size.

Reads ``nvme list -o json``, or where that tool is missing the kernel's block devices; and the state that the kernel
gives each controller, because a dead one is not in that list any more.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

from ..findings import Finding
from ..profile import Profile
from .capture import NO_TOOL, Command, Source, read_files
from .compared import joined, told
from .engine import Captured, Check, Expect, not_known, ok, unreadable

NAME = "nvme_count"
LIST = Command(("nvme", "list", "-o", "json"))
# block/nvme0n1/size is in sectors of 512 bytes, whatever the drive's own sector is
SYSFS = read_files("/sys/class/nvme/*/state", "/sys/block/nvme*n*/size", "/sys/block/nvme*n*/device/model")


@dataclass(frozen=True)
class Drive:
    """One namespace. size: bytes."""

    device: str
    model: str
    size: int
    serial: str = ""
    firmware: str = ""


def reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    return {"nvme_list": LIST, "sysfs": SYSFS} if profile.count("nvme") else {}


def parse_list(text: str) -> Optional[List[Drive]]:
    """Drives from ``nvme list -o json`` in its flat form (nvme-cli 1.x, 2.x) and its nested one (2.11 and later)."""
    if not text.strip() or "No NVMe devices detected" in text:
        return []
    try:
        devices = json.loads(text)["Devices"]
        drives: List[Drive] = []
        for entry in devices:
            if "DevicePath" in entry:
                drives.append(_drive(entry["DevicePath"], entry, entry))
                continue
            for subsystem in entry["Subsystems"]:
                drives += _nested(subsystem)
        return drives
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, OverflowError):
        return None


def _nested(subsystem: Dict[str, Any]) -> List[Drive]:
    controllers = subsystem["Controllers"]
    spaces = list(subsystem.get("Namespaces") or [])
    if spaces:
        return [_drive(space["NameSpace"], controllers[0], space) for space in spaces]
    return [_drive(space["NameSpace"], c, space) for c in controllers for space in c.get("Namespaces") or []]


def _drive(device: Any, controller: Dict[str, Any], space: Dict[str, Any]) -> Drive:
    name = str(device).rsplit("/", 1)[-1]
    model = str(controller.get("ModelNumber", "")).strip()
    serial, firmware = (str(controller.get(key, "")).strip() for key in ("SerialNumber", "Firmware"))
    return Drive(name, model, int(space["PhysicalSize"]), serial, firmware)


def parse_sysfs(text: str) -> Optional[Dict[str, str]]:
    """File contents by path, from what ``read_files`` printed."""
    try:
        return {str(path): str(value).strip() for path, value in json.loads(text)["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _kernel_drives(files: Dict[str, str]) -> List[Drive]:
    drives = []
    for path, value in files.items():
        found = re.match(r"/sys/block/(nvme\d+n\d+)/size$", path)
        if found and re.fullmatch(r"[0-9]{1,18}", value):
            model = files.get(f"/sys/block/{found.group(1)}/device/model", "")
            drives.append(Drive(found.group(1), model, int(value) * 512))
    return drives


def judge(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    listed, sysfs = captured["nvme_list"], captured["sysfs"]
    if sysfs.problem:
        return not_known(NAME, sysfs, "/sys/class/nvme")
    files = parse_sysfs(sysfs.text)
    if files is None:
        return unreadable(NAME, sysfs.text, "/sys/class/nvme")
    if listed.problem == NO_TOOL:
        drives: Optional[List[Drive]] = _kernel_drives(files)
    elif listed.problem or listed.code:
        return not_known(NAME, listed, "nvme list")
    else:
        drives = parse_list(listed.text)
    if drives is None:
        return unreadable(NAME, listed.text, "nvme list")
    findings = [
        Finding(
            NAME, "fail", "nvme.not_live", path.split("/")[4], f"controller state {state}, expected live", "replace"
        )
        for path, state in files.items()
        if re.match(r"/sys/class/nvme/nvme\d+/state$", path) and state != "live"
    ]
    return findings + _judge_drives(drives, profile, bool(findings))


def _data_drives(drives: List[Drive], profile: Profile) -> List[Drive]:
    """Those that are not the OS disk, which can be an NVMe device itself (a BOSS-N1 card is one)."""
    system = str(profile.os_disk.get("controller") or profile.os_disk.get("model") or "").lower()
    return [d for d in drives if not (system and system in d.model.lower())]


def _each_once(drives: List[Drive]) -> List[Drive]:
    """Each drive once: what is told of twice, and namespaces of one serial number, of which the largest counts."""
    found: Dict[str, Drive] = {}
    for drive in {drive.device: drive for drive in reversed(drives)}.values():
        name = drive.serial or drive.device
        if name not in found or found[name].size <= drive.size:
            found[name] = drive
    return sorted(found.values(), key=lambda drive: [d.device for d in drives].index(drive.device))


def _judge_drives(drives: List[Drive], profile: Profile, judged: bool) -> List[Finding]:
    want, least = profile.count("nvme"), int(profile.nvme.get("min_bytes", 0))
    data = _each_once(_data_drives(drives, profile))
    large = [d for d in data if d.size >= least]
    if len(large) < want:
        missing = want - len(large)
        small = [d for d in data if d.size < least]
        findings = [
            Finding(NAME, "fail", "nvme.too_small", d.device, f"{d.size} bytes, expected {least} or more", "replace")
            for d in small[:missing]
        ]
        if missing > len(small):
            seen = ", ".join(f"{d.device} ({d.serial})" if d.serial else d.device for d in large)
            evidence = f"{len(data)} data drives, {want} expected; seen: {seen or 'none'}"
            findings.append(
                Finding(NAME, "fail", "nvme.missing", f"{missing - len(small)} of {want} drives", evidence, "reseat")
            )
        return findings
    if len(large) > want:
        evidence = f"{len(large)} data drives, {want} expected"
        return [Finding(NAME, "warn", "nvme.unexpected", "", evidence, "none")]
    return [] if judged else ok(NAME, f"{want} data drives of {least} bytes or more")


def values(captured: Captured, profile: Profile) -> Dict[str, Any]:
    drives = parse_list(captured["nvme_list"].text) or []
    return told({"drive.firmware": joined(f"{d.model} {d.firmware}" for d in drives if d.firmware)})


_NEEDS = ("nvme.count", "nvme.min_bytes", "os_disk.controller", "os_disk.model")
CHECKS = [Check(NAME, "quick", reads, judge, needs=_NEEDS, values=values)]
