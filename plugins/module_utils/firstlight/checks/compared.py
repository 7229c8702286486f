"""Values by which hosts alike are compared (``Check.values``): small helpers for the checks that offer some.

A counter that only grows says how old it is. So it is given per day: over the time that it has counted, at least a day,
since what a day may bring, less than a day may too.
"""

from __future__ import annotations

import json
import re
from typing import Any, Dict, Iterable, Mapping, Optional, Tuple

from .capture import Output, read_files

IDLE_LOAD = 0.1  # up to this load of each CPU a host is idle; the checks themselves are some of it
# how long the host is up, and how busy; equal sources run once, so that several checks read it at the price of one
LOAD = read_files("/proc/uptime", "/proc/loadavg")


def joined(words: Iterable[Any]) -> str:
    """Each different word once, in order: ``96.00.61.00.01, 96.00.74.00.01`` of a host whose GPUs differ."""
    return ", ".join(sorted({str(word).strip() for word in words} - {""}))


def told(values: Mapping[str, Any]) -> Dict[str, Any]:
    """Without those that nothing is known of."""
    return {name: value for name, value in values.items() if value not in (None, "")}


def per_day(count: Optional[float], seconds: Optional[float]) -> Optional[float]:
    """A counter as a rate; None where one of both is not known."""
    return None if count is None or seconds is None else round(count / max(seconds / 86400, 1.0), 3)


def uptime_and_load(output: Optional[Output]) -> Tuple[Optional[float], Optional[float]]:
    """Seconds since boot, and the load of the last minute, from LOAD; None where not told."""
    try:
        files = dict(json.loads(output.text if output else "")["files"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None, None
    return _first_number(files.get("/proc/uptime")), _first_number(files.get("/proc/loadavg"))


def _first_number(text: Any) -> Optional[float]:
    found = re.match(r"[0-9]{1,12}(\.[0-9]{1,6})?(?=\s)", str(text))
    return float(found.group()) if found else None
