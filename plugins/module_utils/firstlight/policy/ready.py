"""Numbers that a site writes as a count (450) or as a share ("90%") of its hosts."""

from __future__ import annotations

import math
import re

from ..errors import InputError


def required_ready(fleet_min_ready: int | float | str, hosts: int) -> int:
    """Number of hosts that must be ready out of ``hosts``; ``fleet_min_ready`` is a count or a share like "90%"."""
    return at_least("fleet_min_ready", fleet_min_ready, hosts)


def at_least(key: str, value: int | float | str, hosts: int) -> int:
    """The fewest hosts that are this count or share of ``hosts``: a part of a host counts as one."""
    share, count = _parsed(key, value)
    return min(count, hosts) if share is None else math.ceil(hosts * share / 100 - 1e-9)


def at_most(key: str, value: int | float | str, hosts: int) -> int:
    """The most hosts that are within this count or share of ``hosts``: a part of a host counts as none."""
    share, count = _parsed(key, value)
    return min(count, hosts) if share is None else math.floor(hosts * share / 100 + 1e-9)


def _parsed(key: str, value: int | float | str) -> tuple[float | None, int]:
    text = str(value).strip()
    if match := re.fullmatch(r"(\d{1,3}(?:\.\d+)?)\s*%", text):
        share = float(match[1])
        if share <= 100:
            return share, 0
    elif re.fullmatch(r"\d+", text):
        return None, int(text)
    raise InputError(f'{key} is {text!r}; write a count like 450 or a share like "90%"')
