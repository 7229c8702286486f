"""The fleet's policy: how many hosts must be ready for a run to count as a success."""

from __future__ import annotations

import math
import re

from .errors import InputError


def required_ready(fleet_min_ready: int | float | str, hosts: int) -> int:
    """Number of hosts that must be ready out of ``hosts``; ``fleet_min_ready`` is a count or a share like "90%"."""
    text = str(fleet_min_ready).strip()
    if match := re.fullmatch(r"(\d{1,3}(?:\.\d+)?)\s*%", text):
        share = float(match[1])
        if share <= 100:
            return math.ceil(hosts * share / 100 - 1e-9)
    elif re.fullmatch(r"\d+", text):
        return min(int(text), hosts)
    raise InputError(f'fleet_min_ready is {text!r}; write a count like 450 or a share like "90%"')
