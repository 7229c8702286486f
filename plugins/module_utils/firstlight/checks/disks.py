"""File systems: space and inodes of those that a host lives on, and none of them turned read-only. Drives: each reads.

``disk_read`` reads 8 MiB of every drive, past the page cache, with a time limit of each drive's own: a dying drive
freezes its reader, in the kernel, where nothing can kill it. It is then left behind, and that drive is unknown.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..findings import Finding
from ..profile import Profile
from .capture import TIMED_OUT, Command, Source, file_systems, read_files
from .compared import LOAD, idle, told
from .engine import Captured, Check, Expect, asked, not_known, ok, unknown, unreadable
from .pcie_acs import VIRTUALIZATION

USAGE, READ_ONLY, READ = "disk_usage", "mounts_writable", "disk_read"
PATHS = ("/", "/var", "/var/tmp")  # noqa: S108 : looked at, nothing is written there
WATCHED = (*PATHS, "/tmp", "/home", "/var/log", "/var/lib/docker")  # noqa: S108
DEFAULT_USED_PERCENT = 95.0
DEFAULT_READ_SECONDS = 1.0  # for 1 MiB; a healthy drive that is busy needs a tenth of that
_DRIVES_MAX = 128
_READ_BYTES = 8 * 1024 * 1024
_NOT_PERMITTED = (1, 13)  # EPERM, EACCES
_NO_NODE = 2  # ENOENT
_NOT_GIVEN = (1, 2)  # what a container gets for a device that it may not use: EPERM, ENOENT

# drives() gives name, model, serial, size in bytes, transport of every drive, as lsblk tells; without it as /sys does.
# Only real drives: no loop, zram, md, dm, zvol, nbd; none that is removable or empty, as a BMC's virtual media are.
LIST_DRIVES = r"""
import json, os, re, subprocess
REAL = re.compile(r"(?:nvme[0-9]+n[0-9]+|(?:sd|vd|xvd|hd)[a-z]+|mmcblk[0-9]+|pmem[0-9]+)$")
def read(path):
    try:
        with open(path, "rb") as f:
            return f.read(256).decode("utf-8", "replace").strip()
    except OSError:
        return ""
def drives():
    columns = "NAME,TYPE,SIZE,RM,TRAN,SERIAL,MODEL"
    try:
        said = subprocess.run(["lsblk", "--json", "--bytes", "--nodeps", "--output", columns], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=2).stdout
        rows = json.loads(said[:4194304].decode("utf-8", "replace"))["blockdevices"]
    except (OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError):
        rows = [{"name": name, "size": int(read("/sys/block/%s/size" % name) or 0) * 512, "rm":
                 read("/sys/block/%s/removable" % name) == "1", "model": read("/sys/block/%s/device/model" % name)}
                for name in sorted(os.listdir("/sys/block")) if os.path.exists("/sys/block/%s/device" % name)
                and read("/sys/block/%s/hidden" % name) != "1"]
    found = []
    for row in rows:
        name, size = str(row.get("name")), row.get("size")
        size = int(size) if str(size).isdigit() else 0
        if REAL.match(name) and size and row.get("rm") in (None, False, 0, "0"):
            found.append({"name": name, "size": size, "model": str(row.get("model") or "").strip(),
                          "serial": str(row.get("serial") or "").strip(), "transport": str(row.get("tran") or "")})
    return found[:128]
"""

# Prints {"drives": [as above, with bytes and seconds (of each MiB), or error and errno, or timed_out]}
_READ_DRIVES = (
    LIST_DRIVES
    + r"""
import mmap, select, stat, sys, time
LIMIT, BLOCK, TIMES = 2.0, 1048576, 8
def look(name):
    path, done = "/dev/" + name, []
    try:
        flags = os.O_RDONLY | (os.O_DIRECT if stat.S_ISBLK(os.stat(path).st_mode) else 0)
        fd = os.open(path, flags)
        size, buffer, total = os.lseek(fd, 0, os.SEEK_END), mmap.mmap(-1, BLOCK), 0
        if size < BLOCK:
            return {"error": "%d bytes" % size, "errno": 0}
        for n in range(TIMES):  # from its first MiB to its last
            offset = (size - BLOCK) * n // (TIMES - 1) // 4096 * 4096
            started = time.monotonic()
            total += os.preadv(fd, [buffer], offset)
            done.append(round(time.monotonic() - started, 4))
        return {"bytes": total, "seconds": done}
    except OSError as error:
        return {"error": error.strerror or "error", "errno": error.errno or 0, "seconds": done}
rows = drives()
waiting = {}
for row in rows:
    out, into = os.pipe()
    if os.fork() == 0:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(null, 2)
        try:
            os.write(into, json.dumps(look(row["name"])).encode())
        finally:
            os._exit(0)
    os.close(into)
    waiting[out] = row
end = time.monotonic() + LIMIT
while waiting:
    ready = select.select(list(waiting), [], [], max(0, end - time.monotonic()))[0]
    if not ready:
        break
    for out in ready:
        row = waiting.pop(out)
        try:
            row.update(json.loads(os.read(out, 4096).decode()))
        except ValueError:
            row.update(error="its reader died", errno=0)
for row in waiting.values():
    row["timed_out"] = LIMIT
sys.stdout.write(json.dumps({"drives": rows}))
sys.stdout.flush()
os._exit(0)
"""
)
READER = Command((sys.executable or "python3", "-I", "-S", "-c", _READ_DRIVES), limit=6.0)


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


def read_reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    wanted = profile.count("nvme") or profile.os_disk or asked(expect, READ)
    return {"drives": READER, "virtualization": VIRTUALIZATION, "load": LOAD} if wanted else {}


def parse_drives(text: str) -> Optional[List[Dict[str, Any]]]:
    """The drives of a reader's answer; None when it is something else."""
    try:
        rows = [dict(row) for row in json.loads(text)["drives"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return rows if len(rows) <= _DRIVES_MAX and all(isinstance(row.get("name"), str) for row in rows) else None


def place(drive: Mapping[str, Any]) -> str:
    """``nvme3n1, serial S5`` of one of these rows."""
    serial = str(drive.get("serial") or "")
    return f"{drive['name']}, serial {serial}" if serial else str(drive["name"])


def judge_read(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    output, machine = captured["drives"], captured["virtualization"]
    if output.problem or output.code:
        return not_known(READ, output, "the reader of all drives")
    drives = parse_drives(output.text)
    if drives is None:
        return unreadable(READ, output.text, "the reader of all drives")
    if not drives:
        return [unknown(READ, "no_drive", "neither lsblk nor /sys/block shows a drive")]
    kind = "none" if machine.problem else machine.text.strip()[:32] or "none"
    if kind != "none" and all(drive.get("errno") in _NOT_GIVEN for drive in drives):
        names = ", ".join(drive["name"] for drive in drives[:16])
        said = f"runs in {kind}, which is given none of its machine's drives: {names}"
        return [Finding(READ, "warn", f"{READ}.virtual", "", said)]
    limit = profile.limit("disk_read_seconds", DEFAULT_READ_SECONDS)
    findings = [finding for drive in drives for finding in _judge_drive(drive, limit)]
    if findings:
        return findings
    slowest = max(drives, key=lambda drive: max(drive["seconds"]))
    return ok(READ, f"{len(drives)} drives read; slowest MiB {max(slowest['seconds']):.3f} s, {slowest['name']}")


def _judge_drive(drive: Mapping[str, Any], limit: float) -> List[Finding]:
    locator, seconds = place(drive), drive.get("seconds")
    if "timed_out" in drive:
        evidence = f"reading 8 MiB did not end within {drive['timed_out']} s; the reader was left behind"
        return [unknown(READ, TIMED_OUT, evidence, locator, "retry")]
    if "error" in drive:
        number, evidence = drive.get("errno"), f"reading /dev/{drive['name']}: {drive['error']}"
        if number in _NOT_PERMITTED:
            return [unknown(READ, "not_permitted", evidence, locator)]
        if number in (0, _NO_NODE):
            return [unknown(READ, "unreadable", evidence, locator)]
        return [Finding(READ, "fail", "disk.read_error", locator, evidence, "replace")]
    if not isinstance(seconds, list) or not _are_times(seconds):
        return [unknown(READ, "unreadable", f"no times: {str(seconds)[:80]}", locator)]
    if drive.get("bytes") != _READ_BYTES:
        return [unknown(READ, "unreadable", f"{drive.get('bytes')} bytes read, expected {_READ_BYTES}", locator)]
    slow = [s for s in seconds if s >= limit]
    if not slow:
        return []
    evidence = f"{len(slow)} of {len(seconds)} reads of 1 MiB took {limit:g} s or more, the slowest {max(slow):.2f} s"
    if 2 * len(slow) < len(seconds):  # once may be its garbage collection, or a load that is not ours
        return [Finding(READ, "warn", "disk.slow", locator, evidence, "none")]
    return [Finding(READ, "fail", "disk.slow", locator, evidence, "replace")]


def read_values(captured: Captured, profile: Profile) -> Dict[str, Any]:
    """The slowest drive's usual time for 1 MiB, the median of its reads; the OS disk, a slower kind, apart."""
    if not idle(captured.get("load")):
        return {}
    system = str(profile.os_disk.get("controller") or profile.os_disk.get("model") or "").lower()
    slowest: Dict[str, float] = {}
    for drive in parse_drives(captured["drives"].text) or []:
        seconds = drive.get("seconds")
        if drive.get("bytes") != _READ_BYTES or not isinstance(seconds, list) or not _are_times(seconds):
            continue
        is_system = bool(system) and system in str(drive.get("model")).lower()
        name = "drive.os_read_seconds_max" if is_system else "drive.read_seconds_max"
        slowest[name] = max(slowest.get(name, 0.0), round(statistics.median(seconds), 5))
    return told(slowest)


def _are_times(seconds: List[Any]) -> bool:
    return bool(seconds) and all(isinstance(s, (int, float)) for s in seconds)


CHECKS = [
    Check(USAGE, "quick", usage_reads, judge_usage, needs=("limits.disk_used_percent",)),
    Check(READ_ONLY, "quick", mount_reads, judge_mounts),
    Check(READ, "quick", read_reads, judge_read, needs=("nvme.count", "limits.disk_read_seconds"), values=read_values),
]
