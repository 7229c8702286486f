"""Where hosts stand: racks beside each other, units from the top. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ..sitefiles import RACK_UNITS

SPAN_MAX = 8  # rack units that a host is drawn over at most


@dataclass(frozen=True)
class Rack:
    """hosts: from the top. rows: by host's name the first row (1 is the top) and how many rows it is drawn over."""

    name: str
    hosts: list[Mapping[str, Any]]
    rows: dict[str, tuple[int, int]]


def racks(hosts: Sequence[Mapping[str, Any]]) -> tuple[list[Rack], int]:
    """The racks in the order in which people count (r2 before r10), and the units between two rows' marks.

    The fleet file says at which unit a host begins and not how high it is. So all are drawn as high as the smallest
    step between two of them, the lowest unit at the bottom; rows of all racks are at one height.
    """
    by_rack: dict[str, list[Mapping[str, Any]]] = {}
    for host in hosts:
        by_rack.setdefault(host["rack"], []).append(host)
    for members in by_rack.values():
        members.sort(key=lambda host: (-_unit(host), host["name"]))
    steps = [_unit(above) - _unit(host) for members in by_rack.values() for above, host in pairwise(members)]
    span = min((step for step in steps if step > 0), default=SPAN_MAX)
    span = min(span, SPAN_MAX)
    top = max((_unit(host) for host in hosts), default=0) + span - 1
    found = []
    for name in sorted(by_rack, key=natural):
        rows = {host["name"]: (top - _unit(host) - span + 2, span) for host in by_rack[name]}
        found.append(Rack(name, by_rack[name], rows))
    return found, span


def _unit(host: Mapping[str, Any]) -> int:
    """Its rack unit; 0, below all, where it has none, or one that no rack has, as an imported ledger may say."""
    unit = int(host["unit"] or 0)
    return unit if 0 < unit <= RACK_UNITS else 0


def natural(text: str) -> list[tuple[int, int, str]]:
    """A key that sorts r2 before r10."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d{1,18})", text) if part]


def places(found: Iterable[Rack]) -> list[tuple[int, int]]:
    """Every (row, span) that occurs, for the page's style sheet."""
    return sorted({place for rack in found for place in rack.rows.values()})
