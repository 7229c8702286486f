"""File systems: space and inodes of each that can be written, and none of them read-only or away. Drives: each reads.

Space is read of what lies on drives of this host; not of network file systems, nor of images and layers over others.
ZFS tells of its datasets what the pool has left: those of the pool that the site expects are the check zfs_pool's.

``disk_read`` reads 8 MiB of every drive, past the page cache, with a time limit of each drive's own: a dying drive
freezes its reader, in the kernel, where nothing can kill it. It is then left behind, and that drive is unknown.
"""

from __future__ import annotations

import json
import math
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
_TIMES = 8  # reads of each drive
_STOPPED = ("emergency_ro", "shutdown")  # ext4 from Linux 6.15 on, after an error; beside "rw"
_NOT_PERMITTED = (1, 13)  # EPERM, EACCES
_NO_NODE = 2  # ENOENT
_NOT_GIVEN = (1, 2)  # what a container gets for a device that it may not use: EPERM, ENOENT

# drives() gives name, model, serial, size in bytes, transport of every drive, as lsblk tells; without its answer as
# /sys does. Whoever calls it ends by os._exit.
# Only real drives: no loop, zram, md, dm, zvol, nbd; none that is removable or empty, as a BMC's virtual media are.
LIST_DRIVES = r"""
import json, os, re, select, signal, time
REAL = re.compile(r"(?:nvme[0-9]+n[0-9]+|(?:sd|vd|xvd|hd)[a-z]+|mmcblk[0-9]+|pmem[0-9]+)$")
def read(path):
    try:
        with open(path, "rb") as f:
            return f.read(256).decode("utf-8", "replace").strip()
    except OSError:
        return ""
def said_by(words):  # within 2 s, else ValueError: it is then left behind, since nothing may be able to kill it
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            null = os.open(os.devnull, os.O_RDWR)
            for number, end in enumerate((null, into, null)):
                os.dup2(end, number)
            os.execvp(words[0], words)
        finally:
            os._exit(127)
    os.close(into)
    said, end = b"", time.monotonic() + 2
    try:
        while select.select([out], [], [], max(0, end - time.monotonic()))[0]:
            some = os.read(out, 65536)
            said += some
            if not some or len(said) > 4194304:
                return said[:4194304].decode("utf-8", "replace")
    finally:
        os.close(out)
    os.kill(child, signal.SIGKILL)
    raise ValueError(words[0] + " hangs")
def drives():
    try:
        columns = "NAME,TYPE,SIZE,RM,TRAN,SERIAL,MODEL"
        rows = json.loads(said_by(["lsblk", "--json", "--bytes", "--nodeps", "--output", columns]))["blockdevices"]
    except (OSError, ValueError, KeyError, TypeError):
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
import mmap, stat, sys
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

# Prints as file_systems does, and source and type; or timed_out (seconds). Each is asked by a child of its own, which
# is left behind where its drive hangs. Of one source, mounted at several places, the first is asked; none where a mount
# over it hides it, or a file is mounted.
_LOCAL = r"""
import json, os, re, select, stat, sys, time
LIMIT = 3.0
KINDS = ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "jfs", "nilfs2", "bcachefs", "vfat", "exfat", "ntfs3")
def look(path):
    try:
        s, found = os.statvfs(path), os.stat(path)
        if not stat.S_ISDIR(found.st_mode):
            return {"hidden": True}
        return {"device": found.st_dev, "size": s.f_blocks * s.f_frsize, "available": s.f_bavail * s.f_frsize,
                "used": (s.f_blocks - s.f_bfree) * s.f_frsize, "inodes": s.f_files, "inodes_free": s.f_ffree}
    except OSError as error:
        return {"hidden": True} if error.errno == 2 else {"error": error.strerror or "error"}
mounted, rows, sources = {}, {path: {} for path in sys.argv[2:]}, set()
with open(sys.argv[1], "rb") as file:
    for line in file.read(4194304).decode("utf-8", "replace").splitlines():
        words = [re.sub(r"\\([0-7]{3})", lambda m: chr(int(m.group(1), 8)), word) for word in line.split()]
        if len(words) > 3:
            mounted[words[1]] = words  # the last one hides those before it
for source, path, kind, options in [words[:4] for words in mounted.values()]:
    row = {"source": source[:200], "type": kind}
    if path in rows:
        rows[path] = row
        sources.add(source)
for source, path, kind, options in [words[:4] for words in mounted.values()]:
    if kind in KINDS and "ro" not in options.split(",") and source not in sources and len(rows) < 256:
        rows[path] = {"source": source[:200], "type": kind}
        sources.add(source)
waiting = {}
for path, row in rows.items():
    out, into = os.pipe()
    if os.fork() == 0:
        try:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 1)
            os.dup2(null, 2)
            os.write(into, json.dumps(look(path)).encode())
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
            row["error"] = "its reader died"
        os.close(out)
for row in waiting.values():
    row["timed_out"] = LIMIT
sys.stdout.write(json.dumps({path: row for path, row in rows.items() if "hidden" not in row}))
sys.stdout.flush()
os._exit(0)
"""
LOCAL = Command((sys.executable or "python3", "-I", "-S", "-c", _LOCAL, "/proc/self/mounts", *PATHS), limit=6.0)


def usage_reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    return {"local": LOCAL, "statvfs": file_systems(*PATHS)}  # the second for captures that have no other


def judge_usage(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    output = captured.get("local")
    if output is None or output.problem == "not_captured":
        output = captured["statvfs"]
    if output.problem or output.code:
        return not_known(USAGE, output, "statvfs")
    try:
        systems = json.loads(output.text)
        items = sorted((str(path), dict(values)) for path, values in systems.items())
    except (ValueError, TypeError, AttributeError, RecursionError):
        return unreadable(USAGE, output.text, "statvfs")
    wanted = expect.get("zfs_pool")
    pool = str(wanted.get("name") or "") if isinstance(wanted, dict) else ""
    limit = profile.limit("disk_used_percent", DEFAULT_USED_PERCENT)
    findings: List[Finding] = []
    seen: List[str] = []
    devices = set()
    for path, values in items:
        if pool and values.get("type") == "zfs" and str(values.get("source")).partition("/")[0] == pool:
            continue
        if "timed_out" in values:
            evidence = f"statvfs did not end within {values['timed_out']} s; its reader was left behind"
            findings.append(unknown(USAGE, TIMED_OUT, evidence, path, "retry"))
            continue
        if "error" in values:
            findings.append(unknown(USAGE, "unreadable", f"statvfs: {values['error']}", path))
            continue
        if not isinstance(values.get("device"), int):
            findings.append(unknown(USAGE, "unreadable", f"statvfs: {values}", path))
            continue
        if values["device"] in devices:
            continue  # the same file system as one already judged
        devices.add(values["device"])
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
    return findings or ok(USAGE, f"used: {', '.join(seen[:16])}" + (f" and {len(seen) - 16} more" * (len(seen) > 16)))


def _used(values: Dict[str, Any]) -> float:
    """As df counts: of what an ordinary user can have."""
    used, available = float(values["used"]), float(values["available"])
    return _share(used, used + available)


def _inodes(values: Dict[str, Any]) -> float:
    inodes = float(values["inodes"])
    if inodes == 0:  # btrfs and others have no fixed number
        return 0.0
    return _share(inodes - float(values["inodes_free"]), inodes)


def _share(part: float, whole: float) -> float:
    """In percent; ValueError for what is none, as of numbers that are none (NaN)."""
    if not (math.isfinite(whole) and 0 <= part <= whole):
        raise ValueError(f"{part} of {whole}")
    return 100.0 * part / whole


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
    fstab = [
        (_point(point), options)
        for point, kind, options in parse_mounts(_file(output.text, "/etc/fstab") or "")
        if kind != "swap" and point.startswith("/")
    ]
    # A read-only bind mount or image is nobody's fault: only what must be writable is judged, and whatever the kernel
    # itself has stopped writing to.
    planned = [point for point, options in fstab if "ro" not in options]
    watched = [point for point in dict.fromkeys((*WATCHED, *planned)) if point in mounted]
    findings = [
        Finding(READ_ONLY, "fail", "mount.read_only", point, f"mounted {','.join(options)}", "reboot")
        for point, options in mounted.items()
        if set(_STOPPED) & set(options) or (point in watched and "ro" in options)
    ]
    findings += [
        Finding(READ_ONLY, "fail", "mount.missing", point, "in /etc/fstab, and not mounted", "escalate")
        for point, options in dict(fstab).items()
        if point not in mounted and not {"noauto", "nofail"} & set(options)
    ]
    return findings or ok(READ_ONLY, f"writable: {', '.join(watched)}")


def _point(text: str) -> str:
    return text.rstrip("/") or "/"


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
    """One of each read, and numbers: NaN is none, nor is a truth value."""
    return len(seconds) == _TIMES and all(type(s) in (int, float) and 0 <= s < math.inf for s in seconds)


CHECKS = [
    Check(USAGE, "quick", usage_reads, judge_usage, needs=("limits.disk_used_percent",)),
    Check(READ_ONLY, "quick", mount_reads, judge_mounts),
    Check(READ, "quick", read_reads, judge_read, needs=("nvme.count", "limits.disk_read_seconds"), values=read_values),
]
