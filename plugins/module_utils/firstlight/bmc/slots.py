"""Which part is missing: told from the slots that must be filled, or from the gap that the present ones leave."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

_NUMBER = re.compile(r"\d+")


def missing_slots(present: Sequence[str], expected: int, known: Iterable[str] = ()) -> list[str]:
    """The ids that are missing, as far as that can be told; [] when it cannot.

    present: ids that are there, e.g. Video.Slot.21-1. known: the ids that a complete host has, where somebody knows.
    """
    lacking = expected - len(set(present))
    if lacking <= 0:
        return []
    absent = [slot for slot in dict.fromkeys(known) if slot not in present]
    if len(absent) == lacking:
        return absent
    return _gaps(present, expected)


def _gaps(present: Sequence[str], expected: int) -> list[str]:
    """The holes, when slots count without holes and the first and the last one are there; [] when that is not so."""
    shapes = {_shape(identity) for identity in present}
    if len(shapes) != 1 or None in shapes:
        return []
    before, after = shapes.pop() or ("", "")
    there = {_number(identity) for identity in present}
    low, high = min(there), max(there)
    if high - low + 1 != expected:
        return []  # one at either end is missing, and which end cannot be told from here
    return [f"{before}{number}{after}" for number in range(low, high) if number not in there]


def _shape(identity: str) -> tuple[str, str] | None:
    """What stands before and after the slot's number, the first one in the id."""
    match = _NUMBER.search(identity)
    return (identity[: match.start()], identity[match.end() :]) if match and len(match[0]) < 6 else None


def _number(identity: str) -> int:
    match = _NUMBER.search(identity)
    return int(match[0]) if match else 0


def usual_slots(hosts: Iterable[Sequence[str]], expected: int) -> list[str]:
    """The ids that complete hosts of one profile have: those of most of them, [] when no host is complete."""
    complete = Counter(tuple(ids) for ids in hosts if expected and len(set(ids)) == expected)
    return list(complete.most_common(1)[0][0]) if complete else []
