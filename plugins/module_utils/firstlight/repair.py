"""Repair: which parts of a server are others than before, what that asks for, and what a repair order was not given.

Pure. Parts are told apart by what they carry themselves: serial numbers, of network ports their MAC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .findings import Finding, shorten
from .policy.causes import part_of
from .tickets.links import of_link
from .tickets.model import OPEN, Ticket

BOARD = "board"
PARTS_MAX = 256  # of one kind: what a BMC tells is data from a stranger
SERIAL_MAX = 120

# kind -> where a BMC's record has it, by what it is told apart, and the names in ``unread`` that make it not known
_KINDS = {
    "gpu": ("gpus", "serial", ("gpus",)),
    "drive": ("drives", "serial", ("drives",)),
    "psu": ("psus", "serial", ("psus",)),
    "memory": ("dimms", "serial", ("dimms",)),
    "nic": ("nics", "mac", ("nics",)),
    "hca": ("nics", "mac", ("nics", "hcas")),
}
WORDS = {
    "gpu": "GPU", "drive": "drive", "psu": "power supply", "memory": "memory module", "nic": "network port",
    "hca": "HCA port", BOARD: "board",
}  # fmt: skip
# What is new is burnt in: parts that compute, carry a job's data or hold its memory.
_BURNT_IN = frozenset({"gpu", "hca", "drive", "memory", "cpu", BOARD})

Parts = dict[str, dict[str, str]]


@dataclass(frozen=True)
class Change:
    """A part that is another one than before. removed, installed: serials, "" where there was none or it is unknown."""

    kind: str
    locator: str
    removed: str
    installed: str

    def line(self) -> str:
        was = f"{self.removed} -> " if self.removed else ""
        how = "replaced" if self.removed else "new here"
        return f"{WORDS.get(self.kind, self.kind)} in {self.locator}: serial {was}{self.installed}: {how}"


def parts_of(hardware: Mapping[str, Any] | None) -> Parts:
    """``{kind: {place: serial}}`` of a record's hardware; a kind that could not be read, or has none, is left out."""
    told: Parts = {}
    if not hardware:
        return told
    unread = set(hardware.get("unread") or ())
    for kind, (where, key, names) in _KINDS.items():
        if unread & set(names):
            continue
        found: dict[str, str] = {}
        for part in hardware.get(where) or ():
            if where == "nics" and (part.get("kind") == "infiniband") != (kind == "hca"):
                continue
            place, serial = _text(part.get("id")), _text(part.get(key))
            if place and serial and len(found) < PARTS_MAX:
                found[place] = serial
        if found:
            told[kind] = found
    board = _text(hardware.get("board_serial"))
    return {**told, BOARD: {"system board": board}} if board else told


def compare(before: Any, now: Parts) -> list[Change]:
    """What was put in. before: as it was remembered, whatever anybody made of it.

    A part that only moved within the server is none, nor is one that is missing: discover says so.
    """
    known = readable(before)
    changes = []
    for kind, places in now.items():
        was = known.get(kind)
        if not was:
            continue  # the first look
        there, gone = set(was.values()), set(was.values()) - set(places.values())
        for place, serial in places.items():
            old = was.get(place, "")
            if serial != old and serial not in there:
                changes.append(Change(kind, place, old if old in gone else "", serial))
    return changes


def merged(before: Any, now: Parts) -> Parts:
    """What is to be remembered: a place that is empty now keeps its last serial, unless that part sits elsewhere."""
    known = readable(before)
    result: Parts = {}
    for kind in {*known, *now}:
        here = now.get(kind, {})
        left = {p: s for p, s in known.get(kind, {}).items() if p not in here and s not in here.values()}
        result[kind] = dict(list({**here, **left}.items())[:PARTS_MAX])
    return result


def readable(remembered: Any) -> Parts:
    if not isinstance(remembered, Mapping):
        return {}
    return {
        str(kind): {str(place): _text(serial) for place, serial in places.items()}
        for kind, places in remembered.items()
        if isinstance(places, Mapping)
    }


def burn_in_level(kinds: Iterable[str]) -> str:
    """The tier of checks after parts of these kinds were replaced or reseated: long, or quick where that will do."""
    return "long" if _BURNT_IN & set(kinds) else "quick"


def ordered(tickets: Iterable[Ticket], begun: str = "") -> list[str]:
    """The kinds of parts that a host's tickets were about which were open when its repair began, or are open now.

    What is reseated keeps its serial: that it was taken in hand is known from its ticket alone. begun: ISO 8601.
    """
    held = (t for t in tickets if t.state == OPEN or (begun and t.updated >= begun))
    return sorted({ticket.cause.kind for ticket in held})


def not_replaced(tickets: Iterable[Ticket], now: Parts, replaced: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """Open tickets that asked to replace a part, and nothing of that kind and place is another one since.

    replaced: rows of the ledger's table of parts. Of a part that was to be reseated the serial stays as it is.
    """
    rows = list(replaced)
    found = []
    for ticket in tickets:
        kind, part = ticket.cause.kind, ticket.cause.part
        if ticket.state != OPEN or ticket.action != "replace" or kind not in now:
            continue
        if of_link(ticket):
            continue  # a cable, or a transceiver: the port stays the same
        since = [row for row in rows if row["kind"] == kind and str(row["at"]) >= ticket.opened]
        places = {_spelled(kind, place): place for place in now[kind]}
        if part.startswith("serial "):
            still = next((place for place, serial in now[kind].items() if f"serial {serial}" == part), "")
            if not still:
                continue
            where, what = still, f"its serial is still {part.removeprefix('serial ')}"
        elif part in places:
            where = places[part]
            if any(_spelled(kind, str(row["locator"])) == part for row in since):
                continue
            what = f"its serial is the same, {now[kind][where]}"
        elif since:
            continue  # which one it was cannot be told by its name; one of them was
        else:
            where, what = part or WORDS.get(kind, kind), f"no {WORDS.get(kind, kind)} has another serial"
        said = f"ticket {ticket.id} asked to replace {WORDS.get(kind, kind)} {where}; {what}"
        found.append(Finding("repair", "warn", "repair.part_not_replaced", where, said, "replace"))
    return found


def _spelled(kind: str, place: str) -> str:
    """As the cause of a ticket spells a place."""
    return part_of(Finding("repair", "fail", f"{kind}.failed", place))


def _text(value: Any) -> str:
    return shorten(value, SERIAL_MAX).strip() if isinstance(value, str) else ""
