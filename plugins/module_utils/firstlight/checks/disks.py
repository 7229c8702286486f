"""File systems: space and inodes of those that a host lives on, and none of them turned read-only."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Optional, Tuple

from ..findings import Finding
from ..profile import Profile
from .capture import Source, file_systems, read_files
from .engine import Captured, Check, Expect, not_known, ok, unknown, unreadable

USAGE, READ_ONLY = "disk_usage", "mounts_writable"
PATHS = ("/", "/var", "/var/tmp")  # noqa: S108 : looked at, nothing is written there
WATCHED = (*PATHS, "/tmp", "/home", "/var/log", "/var/lib/docker")  # noqa: S108
DEFAULT_USED_PERCENT = 95.0


def usage_reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    return {"statvfs": file_systems(*PATHS)}


def judge_usage(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    output = captured["statvfs"]
    if output.problem or output.code:
        return not_known(USAGE, output, "statvfs")
    try:
        systems = json.loads(output.text)
        items = sorted((str(path), dict(values)) for path, values in systems.items())
    except (ValueError, TypeError, AttributeError, RecursionError):
        return unreadable(USAGE, output.text, "statvfs")
    limit = profile.limit("disk_used_percent", DEFAULT_USED_PERCENT)
    findings: List[Finding] = []
    seen: List[str] = []
    devices = set()
    for path, values in items:
        if "error" in values:
            findings.append(unknown(USAGE, "unreadable", f"statvfs: {values['error']}", path))
            continue
        if values.get("device") in devices:
            continue  # the same file system as one already judged
        devices.add(values.get("device"))
        try:
            shares = (("disk.full", "space", _used(values)), ("disk.no_inodes", "inodes", _inodes(values)))
        except (KeyError, TypeError, ValueError, ZeroDivisionError, OverflowError):
            findings.append(unknown(USAGE, "unreadable", f"statvfs: {values}", path))
            continue
        seen.append(f"{path} {shares[0][2]:.0f} %")
        for symptom, what, share in shares:
            if share >= limit:
                evidence = f"{share:.1f} % of the {what} used, limit {limit:g} %"
                findings.append(Finding(USAGE, "fail", symptom, path, evidence, "escalate"))
    if not findings and not seen:
        return unreadable(USAGE, output.text, "statvfs")
    return findings or ok(USAGE, "used: " + ", ".join(seen))


def _used(values: Dict[str, Any]) -> float:
    """As df counts: of what an ordinary user can have."""
    used, available = float(values["used"]), float(values["available"])
    return 100.0 * used / (used + available)


def _inodes(values: Dict[str, Any]) -> float:
    inodes = float(values["inodes"])
    if inodes == 0:  # btrfs and others have no fixed number
        return 0.0
    return 100.0 * (inodes - float(values["inodes_free"])) / inodes


def mount_reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    return {"mounts": read_files("/proc/self/mounts", "/etc/fstab")}


def parse_mounts(text: str) -> List[Tuple[str, str, List[str]]]:
    """(mount point, type, options) of each line of /proc/mounts or fstab; later mounts come later."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 4 and not words[0].startswith("#"):
            point = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m.group(1), 8)), words[1])
            found.append((point, words[2], words[3].split(",")))
    return found


def _file(text: str, path: str) -> Optional[str]:
    try:
        value = json.loads(text)["files"].get(path)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return value if isinstance(value, str) else None


def judge_mounts(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    output = captured["mounts"]
    if output.problem or output.code:
        return not_known(READ_ONLY, output, "/proc/self/mounts")
    mounted = {point: options for point, _, options in parse_mounts(_file(output.text, "/proc/self/mounts") or "")}
    if "/" not in mounted:
        return unreadable(READ_ONLY, output.text, "/proc/self/mounts")
    # A read-only bind mount or image is nobody's fault: only what must be writable is judged.
    planned = [
        p
        for p, kind, options in parse_mounts(_file(output.text, "/etc/fstab") or "")
        if kind != "swap" and "ro" not in options
    ]
    watched = [point for point in dict.fromkeys((*WATCHED, *planned)) if point in mounted]
    findings = [
        Finding(READ_ONLY, "fail", "mount.read_only", point, f"mounted {','.join(mounted[point])}", "reboot")
        for point in watched
        if "ro" in mounted[point]
    ]
    return findings or ok(READ_ONLY, f"writable: {', '.join(watched)}")


CHECKS = [
    Check(USAGE, "quick", usage_reads, judge_usage, needs=("limits.disk_used_percent",)),
    Check(READ_ONLY, "quick", mount_reads, judge_mounts),
]
