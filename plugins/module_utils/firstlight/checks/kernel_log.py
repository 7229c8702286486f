"""GPU and NVSwitch errors (Xid, SXid) in the kernel log since boot.

Reads dmesg, and the journal's kernel lines, which a full ring buffer does not lose. Not required: an unprivileged
container may read neither, and says so as ``warn``; on a host where root may, every line counts.
An empty kernel log is not a clean one: a kernel that booted has said something.
"""

from __future__ import annotations

import re
from typing import Dict, List, Tuple

from ..findings import Finding
from ..profile import Profile
from .capture import Command, Source
from .engine import Captured, Check, Expect, not_known, ok, unreadable

NAME = "kernel_xid"
_BYTES = 8 * 1024 * 1024
_DMESG = Command(("dmesg",), max_bytes=_BYTES, keep="tail")
_JOURNAL = Command(
    ("journalctl", "-k", "-b", "-q", "--no-pager", "-o", "short", "-n", "50000"), max_bytes=_BYTES, keep="tail"
)

_XID = re.compile(r"NVRM: Xid \(([^)]{1,80})\): (\d{1,6})\b(.*)")
_SXID = re.compile(r"nvidia-nvswitch(\d{1,4}): SXid \(([^)]{1,80})\): (\d{1,6}),(.*)")
_FALLEN = re.compile(r"NVRM: GPU (?:at )?(?:PCI:)?([0-9a-fA-F:.]{5,20}): GPU has fallen off the bus")

# Usually the application's doing, or a notice: worth a look, no reason against the host.
_APPLICATION = {13: "graphics exception", 31: "memory page fault", 43: "channel stopped", 45: "channel preempted"}
_NOTICE = {63: "row remapping recorded", 94: "contained ECC error", 154: "recovery action changed"}
# number: (meaning, action); what is in no table is a failure that a person must look at
_HARDWARE: Dict[int, Tuple[str, str]] = {
    48: ("double-bit ECC error", "reboot"),
    61: ("microcontroller breakpoint", "reboot"),
    62: ("microcontroller halt", "reboot"),
    64: ("row remapping failed", "replace"),
    74: ("NVLink error", "reboot"),
    79: ("GPU has fallen off the bus", "power_cycle"),
    92: ("high rate of single-bit ECC errors", "escalate"),
    95: ("uncontained ECC error", "reboot"),
    119: ("GSP does not answer", "reboot"),
    120: ("GSP error", "reboot"),
    140: ("unrecovered ECC error", "reboot"),
}


def reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    return {"dmesg": _DMESG, "journal": _JOURNAL} if profile.count("gpus") else {}


def judge(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    readable = [o for o in (captured["dmesg"], captured["journal"]) if not o.problem and not o.code and o.text.strip()]
    if not readable:
        dmesg = captured["dmesg"]
        if dmesg.problem or dmesg.code:
            return not_known(NAME, dmesg, "dmesg")
        return unreadable(NAME, dmesg.text, "dmesg")
    counts: Dict[Tuple[str, str, int], int] = {}
    first: Dict[Tuple[str, str, int], str] = {}
    for output in readable:
        here: Dict[Tuple[str, str, int], int] = {}
        for key, line in _events(output.text):
            here[key] = here.get(key, 0) + 1
            first.setdefault(key, line)
        for key, count in here.items():  # the two logs hold the same lines: the longer count is the true one
            counts[key] = max(count, counts.get(key, 0))
    counts = {key: n for key, n in counts.items() if key[0] != "sxid" or ("sxid_fatal", *key[1:]) not in counts}
    findings = [_judge_event(key, counts[key], first[key]) for key in sorted(counts)]
    return findings or ok(NAME, "no Xid in the kernel log")


def _events(text: str) -> List[Tuple[Tuple[str, str, int], str]]:
    """((kind, place, number), text) of each Xid, SXid and lost GPU."""
    found: List[Tuple[Tuple[str, str, int], str]] = []
    for line in text.splitlines():
        if "NVRM" not in line and "SXid" not in line:
            continue
        match = _XID.search(line)
        if match:
            found.append((("xid", _place(match.group(1)), int(match.group(2))), match.group(0)))
            continue
        match = _SXID.search(line)
        if match:
            said = match.group(4).strip().lower()
            # details that follow a line that said whether it was fatal
            mild = said.startswith(("non-fatal", "data {", "severity "))
            kind = "sxid" if mild else "sxid_fatal"
            found.append(
                ((kind, f"NVSwitch {match.group(1)} {_place(match.group(2))}", int(match.group(3))), match.group(0))
            )
            continue
        match = _FALLEN.search(line)
        if match:
            found.append((("xid", _place(match.group(1)), 79), match.group(0)))
    return found


def _place(text: str) -> str:
    """``PCI:0000:3B:00`` as ``0000:3b:00``, other words (a GPU instance) kept; without a function number."""
    place = re.sub(r"^PCI:", "", text.strip())
    return re.sub(r"^([0-9A-Fa-f:]+)\.\d", lambda m: m.group(1), place).replace("PCI:", "").lower()


def _judge_event(key: Tuple[str, str, int], count: int, line: str) -> Finding:
    kind, place, number = key
    times = f" ({count} times)" if count > 1 else ""
    if kind != "xid":
        fatal = kind == "sxid_fatal"
        return Finding(
            NAME, "fail" if fatal else "warn", f"sxid.{number}", place, line + times, "reboot" if fatal else "none"
        )
    locator = f"GPU {place}"
    meaning = _APPLICATION.get(number) or _NOTICE.get(number)
    if meaning:
        return Finding(NAME, "warn", f"xid.{number}", locator, f"{meaning}{times}: {line}", "none")
    meaning, action = _HARDWARE.get(number, ("not a usual application error", "escalate"))
    return Finding(NAME, "fail", f"xid.{number}", locator, f"{meaning}{times}: {line}", action)


CHECKS = [Check(NAME, "quick", reads, judge, needs=("gpus.count",), required=False)]
