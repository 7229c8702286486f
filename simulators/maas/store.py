"""What the simulated region remembers, in one file that survives a kill at any moment."""

from __future__ import annotations

import json
import random
import string
import time
from pathlib import Path
from typing import Any

from simulators import lab_files

Machine = dict[str, Any]
MAX_EVENTS = 5000
_ID_LETTERS = "".join(c for c in string.ascii_lowercase + string.digits if c not in "01ilo5s2zu")


class Store:
    """The region's records. Every change is on disk before anybody is told about it: call save()."""

    def __init__(self, path: Path, durable: bool = True) -> None:
        """durable: False where nobody wants to kill it, and writing all of 500 machines at each change would cost."""
        self.path = path
        self.durable = durable
        self.data: dict[str, Any] = lab_files.read_json(path, None) or {
            "next_id": 1,
            "machines": {},
            "tags": {},
            "events": [],
            "addresses": {},
            "faults": {},
        }

    @property
    def machines(self) -> dict[str, Machine]:
        """Machines by system_id, in order of creation."""
        return self.data["machines"]

    def save(self) -> None:
        """Write everything, atomically. The file holds BMC passwords, so only its owner may read it."""
        if self.durable:
            lab_files.write_atomic(self.path, json.dumps(self.data), 0o600)

    def next_id(self) -> int:
        """A number that was not used before, for machines, interfaces, disks and events alike."""
        number = self.data["next_id"]
        self.data["next_id"] = number + 1
        return number

    def new_system_id(self) -> str:
        """Six letters, as MAAS makes them."""
        while True:
            system_id = "".join(random.choices(_ID_LETTERS, k=6))
            if system_id not in self.machines:
                return system_id

    def by_mac(self, mac: str) -> Machine | None:
        """The first machine that has an interface with exactly this MAC."""
        for machine in self.machines.values():
            if any(nic["mac_address"] == mac for nic in machine["interfaces"]):
                return machine
        return None

    def by_hostname(self, hostname: str) -> Machine | None:
        """The machine of this name."""
        return next((m for m in self.machines.values() if m["hostname"] == hostname), None)

    def add_event(self, machine: Machine, kind: str, level: str, text: str, user: str) -> None:
        """Record one event of a machine; the oldest are forgotten."""
        events = self.data["events"]
        events.append(
            {
                "id": self.next_id(),
                "node": machine["system_id"],
                "hostname": machine["hostname"],
                "level": level,
                "created": time.strftime("%a, %d %b. %Y %H:%M:%S", time.gmtime()),
                "type": kind,
                "description": text,
                "username": user,
            }
        )
        del events[:-MAX_EVENTS]
