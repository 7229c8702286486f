"""Xids and SXids: what NVIDIA's driver says of GPUs and NVSwitches in the kernel log; parsed, and judged.

What a number means is in ``xid_catalog`` and ``sxid_catalog``. Lines that say more than their number are judged by what
they say: Xid 144 to 150 by the unit and its error bits, Xid 154 by the action that it names, an SXid by "Fatal".
A number in no catalogue is a failure that a person must look at.

Forms (NVIDIA's kernel_rc.c, gpu.c, common_nvswitch.h and error_nvswitch.c):
``NVRM: Xid (PCI:0000:3b:00 GPU-I:05 GPU-CI:00): 94, pid=7194, name=x, Contained: ...`` with or without instances (MIG),
pid and name; ``NVRM: Xid (0000:03:00): 14, ...`` of old drivers;
``NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000 ...)``;
``nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Fatal, Link 30 LTSSM Fault Up``, then lines with its details.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from ..findings import ACTIONS, Finding
from .sxid_catalog import SXIDS
from .xid_catalog import NVLINK, XIDS

FAULTS = ("hardware", "driver", "application", "system")
LOST = 79  # the GPU does not answer any more: said in several ways
RECOVERY = 154
MEMORY_ERRORS = (94, 95)
WORDS = ("NVRM", "SXid")  # one of them is in every line that is parsed here

_XID = re.compile(r"NVRM: Xid \(([^()]{1,80})\): (\d{1,6})\b(.{0,1000})")
_SXID = re.compile(r"nvidia-nvswitch(\d{1,4}): SXid \(([^()]{1,80})\): (\d{1,6})\b,?(.{0,1000})")
# whatever else it says: a line that is meant to be one
_ONE = re.compile(r"NVRM: (?:.{0,60})?\bXid|\bSXid|NVRM: .{0,200}fallen off the bus")
_FALLEN = re.compile(r"NVRM: GPU (?:at )?(?:PCI:)?([0-9a-fA-F:.]{5,20}): GPU has fallen off the bus")
# The same over several lines: "The NVIDIA GPU <place>", "(PCI ID: ...) installed in this system has", "fallen off ..."
_NAMED = re.compile(r"NVRM: The NVIDIA GPU ([0-9a-fA-F:.]{5,20})")
_FELL = re.compile(r"NVRM: fallen off the bus and is not responding to commands")
_BDF = r"(?:[0-9A-Fa-f]{1,8}:)?[0-9A-Fa-f]{1,4}:[0-9A-Fa-f]{1,2}"
_PLACE = re.compile(rf"(?:PCI:)?({_BDF})(?:\.[0-9A-Fa-f])?((?: [\w:-]{{1,20}}){{0,4}})$")
_UNIT = re.compile(
    r"(?:^|, )([A-Z][A-Z0-9_]{1,40}(?:/[A-Z][A-Z0-9_]{1,40})?)\s+(Nonfatal|Fatal)"
    r"\s+XC\d\s+i\d{1,3}\s+Link\s+(-?\d{1,3})"
    r"\s+\((0x[0-9a-fA-F]{1,8})\s+(0x[0-9a-fA-F]{1,8})\b"
)
_RECOVERY = re.compile(r"GPU recovery action changed from 0x[0-9a-fA-F]{1,4} .{0,80}? to 0x([0-9a-fA-F]{1,4})\b")
_LINK = re.compile(r"\bLink (\d{1,3})\b")
_SEVERITY = re.compile(r"severity (\d)")

_RANK = ("ok", "warn", "unknown", "fail")
_BIT_UNITS = range(144, 149)  # their second word has a bit for each error
_SHOWN = 12  # links in the evidence


class Entry(NamedTuple):
    """What a catalogue says of a number. fault: one of FAULTS. status, action: as in a finding."""

    name: str
    fault: str
    status: str
    action: str
    meaning: str


# what Xid 154 advises, by NV2080_CTRL_GPU_RECOVERY_ACTION_*
_ADVICE = {
    0: Entry("", "hardware", "ok", "none", "the driver advises nothing for the GPU any more"),
    1: Entry("", "hardware", "fail", "reboot", "the driver advises to reset the GPU"),
    2: Entry("", "hardware", "fail", "reboot", "the driver advises to reboot the host"),
    3: Entry("", "hardware", "warn", "none", "the driver advises to end what uses peers of the GPU"),
    4: Entry("", "hardware", "fail", "reboot", "the driver advises to end what uses the GPU, and to reset it"),
    5: Entry("", "system", "fail", "escalate", "the driver advises to recover the GPU's NVLink domain (IMEX)"),
}
_RESET = re.compile(r"\bRST: Yes\b")  # of Xid 94 and 95: whether the GPU must be reset
_UNLISTED = Entry("", "", "fail", "escalate", "in no catalogue of NVIDIA's")


@dataclass(frozen=True)
class Event:
    """One line of the log. kind: ``xid`` or ``sxid``. place: locator. link: number, or None. detail: more about an
    event that has its own line."""

    kind: str
    place: str
    number: int
    entry: Entry
    text: str
    link: Optional[int] = None
    detail: bool = False


def _table(text: str, words: int) -> List[List[str]]:
    return [line.split(None, words) for line in text.strip().splitlines()]


@lru_cache(maxsize=None)
def xids() -> Dict[int, Entry]:
    """The catalogue of Xids by number."""
    return {int(row[0]): Entry(*row[1:]) for row in _table(XIDS, 5)}


@lru_cache(maxsize=None)
def sxids() -> Dict[int, Entry]:
    """The catalogue of SXids by number."""
    return {int(row[0]): Entry(*row[1:]) for row in _table(SXIDS, 5)}


@lru_cache(maxsize=None)
def nvlink_rules() -> Dict[Tuple[int, str, int, int], Entry]:
    """Xid 144 to 150 by number, unit, bits 20 to 25 of the first word, and second word."""
    rules: Dict[Tuple[int, str, int, int], Entry] = {}
    for number, units, codes, errors, *rest in _table(NVLINK, 7):
        for unit in units.split("/"):
            for code in codes.split(","):
                for error in errors.split(","):
                    rules[int(number), unit, int(code), int(error, 16)] = Entry(unit, *rest)
    return rules


def parse(lines: Iterable[str]) -> Tuple[List[Event], List[str]]:
    """The events in these lines of a kernel log, and lines that are meant to be one and are not understood."""
    events: List[Event] = []
    broken: List[str] = []
    named, age = "", 0
    for line in lines:
        if not any(word in line for word in WORDS):
            continue
        found = _NAMED.search(line)
        if found:
            named, age = found.group(1), 0
        age += 1
        event = _event(line)
        if event is None and named and age <= 4 and _FELL.search(line):
            event = _lost(named, line)
        if event is not None:
            events.append(event)
        elif _ONE.search(line):
            broken.append(line)
    return events, broken


def is_one(line: str) -> bool:
    """Whether ``parse`` makes something of it: an event, or a line that is not understood."""
    return any(word in line for word in WORDS) and bool(_ONE.search(line))


def _event(line: str) -> Optional[Event]:
    found = _XID.search(line)
    if found:
        place = _place(found.group(1))
        return _xid(f"GPU {place}", int(found.group(2)), found.group(3), found.group(0)) if place else None
    found = _SXID.search(line)
    if found:
        place = _place(found.group(2))
        where = f"NVSwitch {int(found.group(1))} {place}"
        return _sxid(where, int(found.group(3)), found.group(4), found.group(0)) if place else None
    found = _FALLEN.search(line)
    return _lost(found.group(1), found.group(0)) if found else None


def _place(text: str) -> str:
    """``PCI:0000:3B:00 GPU-I:05`` as ``0000:3b:00 gpu-i:05``; without a function; empty when it is no place."""
    found = _PLACE.match(text.strip())
    if not found:
        return ""
    place = found.group(1).lower()
    return (place if place.count(":") == 2 else f"0000:{place}") + found.group(2).lower()


def _lost(place: str, text: str) -> Optional[Event]:
    where = _place(place)
    return Event("xid", f"GPU {where}", LOST, xids()[LOST], text, detail=True) if where else None


def _xid(place: str, number: int, said: str, text: str) -> Event:
    entry, link = xids().get(number, _UNLISTED), None
    found = _UNIT.search(said)
    if found and 144 <= number <= 150:
        unit, fatal, link = found.group(1), found.group(2) == "Fatal", int(found.group(3))
        entry = _nvlink(number, unit, fatal, int(found.group(4), 16), int(found.group(5), 16))
    elif number == RECOVERY:
        advice = _RECOVERY.search(said)
        if advice:
            entry = _ADVICE.get(int(advice.group(1), 16), _UNLISTED)
    elif number in MEMORY_ERRORS and _RESET.search(said):
        entry = entry._replace(status="fail", action="reboot")
    return Event("xid", place, number, entry, text, link if link is not None and link >= 0 else None)


def _nvlink(number: int, unit: str, fatal: bool, first: int, second: int) -> Entry:
    """What the unit's words mean. Several bits at once: the worst of them. In no rule: what the line calls itself."""
    rules, code = nvlink_rules(), first >> 20 & 0x3F
    for name in unit.split("/"):
        if (number, name, code, second) in rules:
            return rules[number, name, code, second]
        if number in _BIT_UNITS:
            bits = [rules.get((number, name, code, 1 << bit)) for bit in range(32) if second >> bit & 1]
            known = [entry for entry in bits if entry]
            if known and len(known) == len(bits):
                return max(known, key=_severity)
    base = xids()[number]
    meaning = f"{base.meaning} ({unit})"
    if fatal:
        return Entry(unit, base.fault, "fail", "reboot", meaning)
    return Entry(unit, base.fault, "warn", "none", meaning)


def _sxid(place: str, number: int, said: str, text: str) -> Event:
    entry, words = sxids().get(number, _UNLISTED), said.strip().lower()
    severity = _SEVERITY.match(words)
    detail = severity is not None or words.startswith("data {")
    if words.startswith(("non-fatal", "correctable")) or (severity and severity.group(1) == "0"):
        status = "ok" if entry.status == "ok" else "warn"
        entry = entry._replace(status=status, action=entry.action if entry.status == "warn" else "none")
    elif (words.startswith("fatal") or (severity and severity.group(1) == "1")) and entry.status != "fail":
        entry = entry._replace(status="fail", action="reboot")
    elif words.startswith("data {"):
        entry = entry._replace(status="ok", action="none")  # numbers only: the line before it says what it is
    link = _LINK.search(said)
    return Event("sxid", place, number, entry, text, int(link.group(1)) if link else None, detail)


def _severity(entry: Entry) -> Tuple[int, int]:
    return _RANK.index(entry.status), ACTIONS.index(entry.action)


@dataclass
class _Group:
    """Events of one number at one place. worst, last: of them; links: that they name."""

    worst: Event
    last: Event
    count: int = 0
    details: int = 0
    links: Set[int] = field(default_factory=set)

    def add(self, event: Event) -> None:
        self.count += not event.detail
        self.details += event.detail
        self.last = event
        self.links |= {event.link} if event.link is not None else set()
        if _severity(event.entry) > _severity(self.worst.entry):
            self.worst = event

    def merge(self, other: "_Group") -> None:
        """Add what another log says of the same time."""
        self.count, self.details = max(self.count, other.count), max(self.details, other.details)
        self.links |= other.links
        if _severity(other.worst.entry) > _severity(self.worst.entry):
            self.worst = other.worst


def judge(check: str, logs: Iterable[List[Event]]) -> List[Finding]:
    """One finding for each number and place. logs: the same time from several sources, so the longest count is right.

    Xid 154 says what is advised now, so the last one counts; of the others the worst.
    """
    merged: Dict[Tuple[str, str, int], _Group] = {}
    for events in logs:
        here: Dict[Tuple[str, str, int], _Group] = {}
        for event in events:
            here.setdefault((event.kind, event.place, event.number), _Group(event, event)).add(event)
        for key, group in here.items():
            merged.setdefault(key, group).merge(group)
    found = [(key, _finding(check, key, group)) for key, group in merged.items()]
    found = [(key, finding) for key, finding in found if finding.status != "ok"]
    found.sort(key=lambda item: (item[0][0], item[0][0] == "sxid" and item[1].status == "fail", item[0][1:]))
    return [finding for _, finding in found]


def _finding(check: str, key: Tuple[str, str, int], group: _Group) -> Finding:
    kind, place, number = key
    event = group.last if (kind, number) == ("xid", RECOVERY) else group.worst
    entry, count, links = event.entry, group.count or group.details, sorted(group.links)
    notes = [f"usually {entry.fault}"] if entry.fault else []
    if count > 1:
        notes.append(f"{count} times")
    if len(links) > 1:
        notes.append("links " + ", ".join(map(str, links[:_SHOWN])) + (" and more" if len(links) > _SHOWN else ""))
    said = f"{entry.meaning} ({'; '.join(notes)})" if notes else entry.meaning
    return Finding(check, entry.status, f"{kind}.{number}", place, f"{said}: {event.text}", entry.action)
