"""What hosts alike are compared by: the values of every check from its cases, and how names of values are told."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from check_cases import CASES, Case

from firstlight.checks import ALL_CHECKS
from firstlight.checks.capture import Output
from firstlight.checks.engine import Check


def load(days: float = 2.0, busy: float = 0.0) -> Output:
    """How long a host of 100 CPUs is up, and its load."""
    files = {"/proc/uptime": f"{days * 86400:.2f} 1.00\n", "/proc/loadavg": f"{busy:.2f} 0.10 0.05 1/900 4242\n"}
    files["/sys/devices/system/cpu/online"] = "0-99\n"
    return Output(json.dumps({"files": files, "errors": {}}))


def values_of(case: Case, **more: Output) -> dict[str, Any]:
    """The values of a case's check, of a host that is up for two days and has nothing to do."""
    check = next(check for check in OFFERING if check.name == case.check)
    assert check.values is not None
    return check.values({**case.captured, "load": load(), **more}, case.wanted_profile())


OFFERING: list[Check] = [check for check in ALL_CHECKS if check.values]


@lru_cache
def value_names() -> set[str]:
    """Every name that a check gives a value for one of its cases."""
    offering = {check.name for check in OFFERING}
    return {name for case in CASES if case.check in offering for name in values_of(case)}
