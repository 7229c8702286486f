"""Numbers that a site writes as a count (450) or as a share ("90%") of its hosts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

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


def spares_left(
    fleet_min_ready: int | float | str, spares: int | float | str, hosts: int, ready: int
) -> dict[str, Any]:
    """The spares of a fleet of so many hosts, of which so many are ready: those beyond ``fleet_min_ready``.

    Of required and spares together no more than all hosts can be wanted. Each: spares, fleet_min_ready (as the policy
    has them); wanted, missing, required, hosts, ready (numbers of hosts).
    """
    required = at_least("fleet_min_ready", fleet_min_ready, hosts)
    wanted = min(at_least("spares", spares, hosts), hosts - required)
    missing = max(wanted - max(ready - required, 0), 0)
    return {
        "spares": spares, "wanted": wanted, "missing": missing,
        "fleet_min_ready": fleet_min_ready, "required": required, "hosts": hosts, "ready": ready,
    }  # fmt: skip


def spares_line(told: Mapping[str, Any]) -> str:
    """What is missing of the spares, for people; "" where nothing is. told: of ``spares_left``."""
    if not told["missing"]:
        return ""
    required = f"{told['required']} required{_share(told['fleet_min_ready'])}"
    wanted = f"{_spares(told['wanted'])} wanted{_share(told['spares'])}"
    return f"ready {told['ready']} of {told['hosts']}; {required}, {wanted}: {_spares(told['missing'])} missing"


def _spares(number: int) -> str:
    return f"{number} spare" if number == 1 else f"{number} spares"


def _share(amount: int | float | str) -> str:
    return f" ({amount})" if "%" in str(amount) else ""


def _parsed(key: str, value: int | float | str) -> tuple[float | None, int]:
    text = str(value).strip()
    if match := re.fullmatch(r"(\d{1,3}(?:\.\d+)?)\s*%", text):
        share = float(match[1])
        if share <= 100:
            return share, 0
    elif re.fullmatch(r"\d+", text):
        return None, int(text)
    raise InputError(f'{key} is {text!r}; write a count like 450 or a share like "90%"')
