"""Values by which hosts alike are compared (``Check.values``): small helpers for the checks that offer some.

A counter that only grows says how old it is. So it is given per day: over the time that it has counted, at least a day,
since what a day may bring, less than a day may too. What a job changes (heat, the pace of a core or a drive) is given
only while the host is idle: else the hosts that work would be the odd ones, or those that do not.
"""

from __future__ import annotations

import json
import re
from typing import Any, Dict, Iterable, Mapping, Optional, Set

from .capture import Output, read_files

# Up to this load of each CPU a host is idle: 3 on 112 CPUs. A training job keeps a core busy for each GPU at least.
IDLE_LOAD = 0.03
CPUS_MAX = 8192
_UPTIME, _LOAD, _ONLINE = "/proc/uptime", "/proc/loadavg", "/sys/devices/system/cpu/online"
# how long the host is up, and how busy; equal sources run once, so that several checks read it at the price of one
LOAD = read_files(_UPTIME, _LOAD, _ONLINE)


def joined(words: Iterable[Any]) -> str:
    """Each different word once, in order: ``96.00.61.00.01, 96.00.74.00.01`` of a host whose GPUs differ."""
    return ", ".join(sorted({str(word).strip() for word in words} - {""}))


def told(values: Mapping[str, Any]) -> Dict[str, Any]:
    """Without those that nothing is known of."""
    return {name: value for name, value in values.items() if value not in (None, "")}


def per_day(count: Optional[float], seconds: Optional[float]) -> Optional[float]:
    """A counter as a rate; None where one of both is not known."""
    return None if count is None or seconds is None else round(count / max(seconds / 86400, 1.0), 3)


def uptime(output: Optional[Output]) -> Optional[float]:
    """Seconds since boot from LOAD, None where not told."""
    return _first_number(_files(output).get(_UPTIME))


def idle(output: Optional[Output]) -> bool:
    """Whether LOAD says that the host has nothing to do; no when it does not tell."""
    files = _files(output)
    load, cpus = _first_number(files.get(_LOAD)), parse_cpus(str(files.get(_ONLINE)))
    return load is not None and bool(cpus) and load <= IDLE_LOAD * len(cpus or ())


def parse_cpus(text: str) -> Optional[Set[int]]:
    """``0-3,8`` as numbers; None where it is no list of CPUs."""
    found: Set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", part.strip())
        if not match or int(match.group(2) or match.group(1)) >= CPUS_MAX:
            return None
        found |= set(range(int(match.group(1)), int(match.group(2) or match.group(1)) + 1))
    return found


def _files(output: Optional[Output]) -> Dict[str, Any]:
    try:
        return dict(json.loads(output.text if output else "")["files"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}


def _first_number(text: Any) -> Optional[float]:
    found = re.match(r"[0-9]{1,12}(\.[0-9]{1,6})?(?=\s)", str(text))
    return float(found.group()) if found else None
