"""Every drive is read at its start, middle and end, 1 GiB at each, past the page cache: errors, and how fast.

Reads only, four drives at once, in the idle class of I/O where the kernel's scheduler knows it. A drive gets 10 s at
each place, so that of a slow one less is read; one that hangs costs its own limit and is left behind, as in
``disk_read``. How fast it must be say the profile's ``limits.drive_read_mbytes_per_second`` (data drives alone, the OS
disk is another model) and the drives of the same model in the same host.
"""

from __future__ import annotations

import statistics
import sys
from collections import Counter
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ..findings import Finding
from ..profile import Profile
from .capture import TIMED_OUT, Command, Output, Source
from .disks import LIST_DRIVES, parse_drives, place
from .engine import Captured, Check, Expect, asked, not_known, ok, unknown, unreadable
from .gpu_running import wanted
from .pcie_acs import VIRTUALIZATION

NAME = "drive_read"
PLACES = ("start", "middle", "end")
PEERS_MIN = 3  # of fewer drives a median says nothing
SLOW_SHARE = 0.5  # of the median at the same place: a hard disk is half as fast at its end as at its start
_LEAST_BYTES = 32 * 1024 * 1024  # read within a second, fewer tell no speed: a drive that small, or a file in its place
_NOT_PERMITTED = (1, 13)  # EPERM, EACCES
_NO_NODE = (0, 2)  # no system error; ENOENT
_NOT_GIVEN = (1, 2)  # what a container gets for a device that it may not use: EPERM, ENOENT

# Prints {"drives": [as LIST_DRIVES has them, with places: [[bytes, seconds] of each place that was read whole or for
# SPAN seconds], and with error, errno and offset (bytes), or timed_out]}. LIMIT: seconds of one drive.
_SCRIPT = (
    LIST_DRIVES
    + r"""
import mmap, stat, sys
BLOCK, AMOUNT, AT_ONCE, SPAN, LIMIT = 4194304, 1073741824, 4, 10.0, 45.0
def measure(name):
    path, places, at = "/dev/" + name, [], None
    try:
        fd = os.open(path, os.O_RDONLY | (os.O_DIRECT if stat.S_ISBLK(os.stat(path).st_mode) else 0))
        size, buffer = os.lseek(fd, 0, os.SEEK_END), memoryview(mmap.mmap(-1, BLOCK))
        amount = min(AMOUNT, size // 3) // 4096 * 4096
        if not amount:
            return {"error": "%d bytes" % size, "errno": 0, "places": []}
        for first in (0, (size - amount) // 2 // 4096 * 4096, (size - amount) // 4096 * 4096):
            at, started, now = first, time.monotonic(), 0.0
            while at < first + amount and now < SPAN:
                count = os.preadv(fd, [buffer[:min(BLOCK, first + amount - at)]], at)
                if not count:
                    return {"error": "it ends here", "errno": 5, "offset": at, "places": places}
                at += count
                now = time.monotonic() - started
            places.append([at - first, round(now, 6)])
        return {"places": places}
    except OSError as error:
        return {"error": error.strerror or "error", "errno": error.errno or 0, "offset": at, "places": places}
def start(row):
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(null, 2)
        try:
            os.write(into, json.dumps(measure(row["name"])).encode())
        finally:
            os._exit(0)
    os.close(into)
    return out, (row, child, time.monotonic() + LIMIT)
try:
    said_by(["ionice", "-c", "3", "-p", str(os.getpid())])
except (OSError, ValueError):
    pass
rows, waiting = drives(), {}
queue = list(rows)
while queue or waiting:
    while queue and len(waiting) < AT_ONCE:
        out, started = start(queue.pop(0))
        waiting[out] = started
    first = min(end for _, _, end in waiting.values())
    ready = select.select(list(waiting), [], [], max(0, first - time.monotonic()))[0]
    for out in list(waiting):
        row, child, end = waiting[out]
        if out in ready:
            try:
                row.update(json.loads(os.read(out, 4096).decode()))
            except ValueError:
                row.update(error="its reader died", errno=0, places=[])
        elif time.monotonic() >= end:
            row["timed_out"] = LIMIT
            os.kill(child, signal.SIGKILL)  # in vain where the kernel waits for the drive
        else:
            continue
        os.close(out)
        del waiting[out]
sys.stdout.write(json.dumps({"drives": rows}))
sys.stdout.flush()
os._exit(0)
"""
)
# 128 drives that all hang, four at a time
READER = Command((sys.executable or "python3", "-I", "-S", "-c", _SCRIPT), 1500.0, 4 * 1024 * 1024, alone=True)


def reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    used = profile.count("nvme") or profile.os_disk or asked(expect, NAME)
    return {"drives": READER, "virtualization": VIRTUALIZATION} if used else {}


def _readings(drive: Mapping[str, Any]) -> Optional[List[List[float]]]:
    """Bytes and seconds at each place; None where they are not told."""
    rows = drive.get("places")
    if not isinstance(rows, list) or len(rows) != len(PLACES):
        return None
    good = all(isinstance(row, list) and len(row) == 2 and all(_is_positive(n) for n in row) for row in rows)
    return rows if good else None


def speeds(drive: Mapping[str, Any]) -> Optional[List[float]]:
    """MB/s (of 10^6 bytes) at each place; None where they are not told, or too little was read."""
    rows = _readings(drive)
    if rows is None or any(count < _LEAST_BYTES and seconds < 1 for count, seconds in rows):
        return None
    return [count / seconds / 1e6 for count, seconds in rows]


def _is_positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e15


def _peers(drives: Sequence[Mapping[str, Any]]) -> Dict[str, List[List[float]]]:
    """The speeds of all drives of each model."""
    found: Dict[str, List[List[float]]] = {}
    for drive in drives:
        told = speeds(drive)
        if told and drive.get("model"):
            found.setdefault(str(drive["model"]), []).append(told)
    return found


def judge(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    output = captured["drives"]
    if output.problem or output.code:
        return not_known(NAME, output, "the reader of all drives")
    drives = parse_drives(output.text)
    if drives is None:
        return unreadable(NAME, output.text, "the reader of all drives")
    if not drives:
        return [unknown(NAME, "no_drive", "neither lsblk nor /sys/block shows a drive")]
    kind = _machine(captured["virtualization"])
    if kind != "none" and all(drive.get("errno") in _NOT_GIVEN for drive in drives):
        names = ", ".join(drive["name"] for drive in drives[:16])
        said = f"runs in {kind}, which is given none of its machine's drives: {names}"
        return [Finding(NAME, "warn", f"{NAME}.virtual", "", said)]
    peers = _peers(drives)
    findings: List[Finding] = []
    for drive in drives:
        told = speeds(drive)
        problem = _judge_reading(drive)
        if problem:
            findings.append(problem)
        elif told:
            findings += _judge_speed(drive, told, peers.get(str(drive.get("model")), []), profile, expect)
    if findings:
        return findings
    measured = [(min(told), drive["name"]) for drive in drives for told in [speeds(drive)] if told]
    slowest = "; slowest {1}, {0:.0f} MB/s".format(*min(measured)) if measured else ""
    return ok(NAME, f"{len(drives)} drives read at start, middle and end{slowest}")


def _machine(output: Output) -> str:
    return "none" if output.problem else output.text.strip()[:32] or "none"


def _judge_reading(drive: Mapping[str, Any]) -> Optional[Finding]:
    """What is wrong with the reading itself, or None."""
    locator = place(drive)
    if "timed_out" in drive:
        evidence = f"reading it did not end within {drive['timed_out']} s; the reader was left behind"
        return unknown(NAME, TIMED_OUT, evidence, locator, "retry")
    if "error" in drive:
        number, offset = drive.get("errno"), drive.get("offset")
        at = f" at byte {offset}, sector {offset // 512}" if isinstance(offset, int) else ""
        evidence = f"reading /dev/{drive['name']}{at}: {drive['error']}"
        if number in _NOT_PERMITTED:
            return unknown(NAME, "not_permitted", evidence, locator)
        if number in _NO_NODE:
            return unknown(NAME, "unreadable", evidence, locator)
        return Finding(NAME, "fail", "drive.read_error", locator, evidence, "replace")
    if _readings(drive) is None:
        return unknown(NAME, "unreadable", f"no speeds: {str(drive.get('places'))[:80]}", locator)
    return None


def _judge_speed(
    drive: Mapping[str, Any], told: List[float], peers: List[List[float]], profile: Profile, expect: Expect
) -> List[Finding]:
    """Against the limit (a failure, unless a job may have read too), else against its like (a warning)."""
    locator, limit = place(drive), profile.limits.get("drive_read_mbytes_per_second")
    system = str(profile.os_disk.get("controller") or profile.os_disk.get("model") or "").lower()
    speed = min(told)
    where = PLACES[told.index(speed)]
    if limit and speed < limit and not (system and system in str(drive.get("model")).lower()):
        evidence = f"{where}: {speed:.0f} MB/s, at least {limit:g} expected"
        if wanted("", expect.get("gpu_processes")):
            return [Finding(NAME, "warn", "drive.slow", locator, f"{evidence}; a job may have read too")]
        return [Finding(NAME, "fail", "drive.slow", locator, evidence, "replace")]
    if len(peers) < PEERS_MIN:
        return []
    for number, name in enumerate(PLACES):
        median = statistics.median(peer[number] for peer in peers)
        if told[number] < SLOW_SHARE * median:
            evidence = (
                f"{name}: {told[number]:.0f} MB/s, the median of {len(peers)} drives of its model is {median:.0f}"
            )
            return [Finding(NAME, "warn", "drive.slow", locator, evidence)]
    return []


def values(captured: Captured, profile: Profile) -> Dict[str, Any]:
    """The slowest place of the drives of the most frequent model: the data drives."""
    output = captured["drives"]
    peers = _peers(parse_drives(output.text) or []) if not output.problem else {}
    if not peers:
        return {}
    model = Counter({model: len(drives) for model, drives in peers.items()}).most_common(1)[0][0]
    return {"drive.read_mbytes_min": round(min(min(told) for told in peers[model]), 1)}


CHECKS = [Check(NAME, "long", reads, judge, needs=("nvme.count", "limits.drive_read_mbytes_per_second"), values=values)]
