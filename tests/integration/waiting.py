"""Waiting for what another process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def until(condition: Callable[[], Any], seconds: float = 10) -> Any:
    """The first true value of condition(); AssertionError when none comes within these seconds."""
    limit = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < limit, f"not within {seconds} s: last {value!r}"
        time.sleep(0.03)
    return value
