"""Answers to GET requests, encoded once: a fleet of 500 BMCs must cost little more than its TLS."""

from __future__ import annotations

from typing import Any

from simulators.bmc import personality, wire
from simulators.bmc.machine import Machine

Stamp = tuple[int, str, int]
MAX_BYTES = 128 * 1024**2  # the oldest answers go when there are more


class Answers:
    """Encoded answers of all machines, each good until its machine changes."""

    def __init__(self) -> None:
        """Start empty."""
        self._known: dict[tuple[str, str, str], tuple[Stamp, bytes, str | None]] = {}
        self._bytes = 0

    def get(self, machine: Machine, path: str, query: str) -> tuple[bytes, str | None]:
        """Return an encoded answer and its ETag. RedfishError when there is none."""
        key = (machine.name, path, query)
        newest = machine.log[-1]["id"] if machine.log and "/Entries" in path else 0
        stamp = (machine.version, machine.phase, newest)
        found = self._known.get(key)
        if found is not None and found[0] == stamp:
            return found[1], found[2]
        body = personality.of(machine).answer(machine, path, query)
        content, etag = wire.dumps(body), body.get("@odata.etag")
        if not _has_clock(body):
            self._keep(key, (stamp, content, etag))
        return content, etag

    def _keep(self, key: tuple[str, str, str], entry: tuple[Stamp, bytes, str | None]) -> None:
        old = self._known.pop(key, None)
        if old is not None:
            self._bytes -= len(old[1])
        self._known[key] = entry
        self._bytes += len(entry[1])
        while self._bytes > MAX_BYTES:
            oldest = next(iter(self._known))
            self._bytes -= len(self._known.pop(oldest)[1])


def _has_clock(body: dict[str, Any]) -> bool:
    """Say whether an answer tells the time, and so is another one next time."""
    members = body.get("Members")
    inside = members if isinstance(members, list) else ()
    return "DateTime" in body or any(isinstance(member, dict) and "DateTime" in member for member in inside)
