"""The Lifecycle log of a simulated server: a made-up past, and what happened since."""

from __future__ import annotations

import datetime
from typing import Any

PAST = 120  # entries from before the simulation began
PAGE = 50

_PAST_EVENTS = (
    (
        "USR0030",
        "Successfully logged in using root, from 192.0.2.10 and REDFISH.",
        ("root", "192.0.2.10", "REDFISH"),
        "Audit",
    ),
    (
        "USR0032",
        "The session for root from 192.0.2.10 using REDFISH is logged off.",
        ("root", "192.0.2.10", "REDFISH"),
        "Audit",
    ),
    ("PWR2262", "The Intel Management Engine has reported an internal system error.", (), "SystemHealth"),
    ("SYS1003", "System CPU Resetting.", (), "SystemHealth"),
    ("SYS1001", "System is turning off.", (), "SystemHealth"),
    ("SYS1000", "System is turning on.", (), "SystemHealth"),
    ("LOG007", "The previous log entry was repeated 3 times.", ("3",), "Audit"),
    (
        "PR36",
        "Version change detected for BIOS firmware. Previous version:2.4.4, Current version:2.5.4",
        ("BIOS", "2.4.4", "2.5.4"),
        "Updates",
    ),
)


def entries(born: float, log: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return all entries, the newest first, as {id, created, message_id, message, arguments, severity, category}."""
    past = []
    zone = datetime.timezone(datetime.timedelta(hours=-5))
    for number in range(1, PAST + 1):
        message_id, message, arguments, category = _PAST_EVENTS[number % len(_PAST_EVENTS)]
        created = datetime.datetime.fromtimestamp(int(born) - (PAST - number + 1) * 1800, zone)
        past.append(
            {
                "id": number,
                "created": created.isoformat(),
                "message_id": message_id,
                "message": message,
                "arguments": list(arguments),
                "severity": "OK",
                "category": category,
            }
        )
    return [*reversed(log), *reversed(past)]
