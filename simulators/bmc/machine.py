"""One simulated server: what must survive a restart of the simulator, and what need not."""

from __future__ import annotations

import collections
import copy
import datetime
import functools
import time
from pathlib import Path
from typing import Any

from simulators import lab_files
from simulators.bmc import bios, faults, lclog
from simulators.bmc.hardware import PARTS_OF, Hardware

BOOT_ORDER = ("Boot0000", "Boot0001")  # the NIC, then the OS disk
DEFAULT_VENDOR = "dell-idrac9"
REQUEST_LOG = 1000
RUN_LOG = 500  # log entries that are kept beyond the machine's made-up past
BMC_UTC_OFFSET = datetime.timezone(datetime.timedelta(hours=-5))  # Dell's factory default is US Central


class Machine:
    """State of one server and its BMC; every change goes through `save`.

    machines/NAME/state.json is for everybody (see simulators/README.md), machines/NAME/bmc.json is the simulator's.
    """

    def __init__(self, lab_dir: Path, lab: lab_files.Lab, entry: dict[str, Any]) -> None:
        """Load the machine's state, or make that of a new machine: off, empty disk, the NIC first in boot order."""
        self.name: str = entry["name"]
        self.entry = entry
        self.settings: dict[str, Any] = lab.get("bmc", {})
        self.vendor: str = entry.get("vendor", self.settings.get("vendor", DEFAULT_VENDOR))
        self.folder = lab_dir / "machines" / self.name
        public = lab_files.read_json(self.folder / "state.json", {})
        private = lab_files.read_json(self.folder / "bmc.json", {})
        self.power: str = public.get("power", "Off")
        self.boots: int = public.get("boots", 0)
        self.last_boot: str | None = public.get("last_boot")
        self.disk: dict[str, Any] | None = public.get("disk")
        self.replaced: dict[str, int] = public.get("replaced", {})  # by part how often it was
        self.tags: dict[int, str] = lab.setdefault("_tags", _tags(lab))  # service tags of all machines, by index
        self.faults: faults.Faults = (
            private["faults"] if "faults" in private else faults.from_lab(entry.get("faults", []))
        )
        self.born: float = private.get("born", time.time())
        self._inventory_at: float = private.get("inventory_at", self.born - 3 * 86400)
        self.reset_at: float = private.get("reset_at", self.born - 3 * 86400)
        self.booting: bool = private.get("booting", False)
        self.running: str | None = private.get("running")  # what answers the power button: "disk", "network" or nothing
        self.boot: dict[str, Any] = private.get(
            "boot", {"enabled": "Disabled", "target": "None", "mode": "UEFI", "order": list(BOOT_ORDER)}
        )
        self.asset_tag: str = private.get("asset_tag", "")
        self.light: str = private.get("light", "Lit")  # Blinking: the locator
        self.bios: dict[str, Any] = private.get(
            "bios", dict(entry.get("bios", {}))
        )  # only what differs from the defaults
        self.bios_pending: dict[str, Any] = private.get("bios_pending", {})
        self.jobs: list[dict[str, Any]] = private.get("jobs", [])
        self.firmware: dict[str, str] = private.get("firmware", {})  # what updates put in place, by component
        self.uploads: dict[str, dict[str, str]] = private.get("uploads", {})  # packages that wait for an update
        self.sel_cleared: int = private.get("sel_cleared", 0)  # the newest entry that is cleared from the event log
        self.log: list[dict[str, Any]] = private.get("log", [])
        self.version: int = private.get("version", 1)  # counts changes; the number in ETags
        self.new = not private
        self.counters: dict[str, int] = {"requests": 0, "writes": 0, "failed_logins": 0} | private.get("counters", {})
        self.requests: collections.deque[tuple[float, str, str, str, int]] = collections.deque(maxlen=REQUEST_LOG)
        self.phase = "ready"  # or, after a reset of the BMC: away, starting, empty
        self._written: dict[str, Any] | None = None  # what state.json holds, once this process has written it
        self.unsaved = not (self.folder / "bmc.json").exists()

    @functools.cached_property
    def hardware(self) -> Hardware:
        """What is built into it."""
        return Hardware(int(self.entry["index"]), str(self.entry["service_tag"]), dict(self.replaced))

    def replace(self, part: str) -> None:
        """Put another part in the place of this one (see hardware.REPLACEABLE); nothing is on a new OS disk."""
        for one in (part, *PARTS_OF.get(part, ())):
            self.replaced[one] = self.replaced.get(one, 0) + 1
        if part == "osdisk":
            self.disk = None
        self.__dict__.pop("hardware", None)
        self.changed()

    @property
    def login(self) -> tuple[str, str]:
        """User and password that its BMC takes."""
        return self.hardware.bmc_login(str(self.settings["username"]), str(self.settings["password"]))

    @property
    def address(self) -> tuple[str, int]:
        """Where its BMC listens."""
        return str(self.entry["bmc_address"]), int(self.entry.get("bmc_port", self.settings.get("port", 8443)))

    def has(self, fault: str) -> bool:
        """Say whether it has this fault now."""
        return fault in self.faults

    def fault_number(self, fault: str, parameter: str) -> int | None:
        """Return which part a fault took, or None when the machine does not have that fault."""
        return int(self.faults[fault][parameter]) if fault in self.faults else None

    def recent(self) -> list[dict[str, Any]]:
        """Return the last requests to its BMC, the oldest first."""
        return [dict(zip(("time", "client", "method", "path", "status"), one, strict=True)) for one in self.requests]

    def begin(self, fault: str, values: dict[str, faults.Value]) -> None:
        """Write into the event log what a fault that begins leaves there."""
        if fault not in faults.EVENTS:
            return
        message_id, severity, _, category = faults.EVENTS[fault]
        text, arguments = faults.event_text(fault, values)
        created = self.now() - datetime.timedelta(hours=float(values.get("hours", 0)))
        for _ in range(int(values.get("count", 1))):
            self.record(message_id, text, arguments, severity, category, created)

    @property
    def inventory_at(self) -> float:
        """When the BMC last took stock: at the last boot (seconds since 1970)."""
        return self._inventory_at - 86400 * float(self.faults.get("old_inventory", {}).get("days", 0))

    @inventory_at.setter
    def inventory_at(self, moment: float) -> None:
        self._inventory_at = moment

    def now(self) -> datetime.datetime:
        """What the BMC takes for the time."""
        offset = float(self.faults.get("clock_wrong", {}).get("seconds", 0))
        return datetime.datetime.now(BMC_UTC_OFFSET).replace(microsecond=0) + datetime.timedelta(seconds=offset)

    def bios_now(self) -> dict[str, Any]:
        """Return what differs from the defaults now: what was set, and what a fault put there."""
        wrong = self.faults.get("bios_wrong")
        return self.bios | {str(wrong["attribute"]): wrong["value"]} if wrong else self.bios

    def bios_value(self, name: str) -> Any:
        """Return the current value of a BIOS attribute."""
        return self.bios_now().get(name, bios.DEFAULTS.get(name))

    def record(
        self,
        message_id: str,
        message: str,
        arguments: tuple[str, ...] = (),
        severity: str = "OK",
        category: str = "Audit",
        created: datetime.datetime | None = None,
    ) -> None:
        """Write an entry into the Lifecycle log; created: when, if not now."""
        number = self.log[-1]["id"] + 1 if self.log else lclog.PAST + 1
        self.log.append(
            {
                "id": number,
                "created": (created or self.now()).isoformat(),
                "message_id": message_id,
                "message": message,
                "arguments": list(arguments),
                "severity": severity,
                "category": category,
            }
        )
        del self.log[:-RUN_LOG]
        self.unsaved = True

    def changed(self) -> None:
        """Keep a change: a new version, and both files written."""
        self.version += 1
        self.save()

    def public(self) -> dict[str, Any]:
        """Return what state.json holds."""
        return {
            "simulated": True,
            "name": self.name,
            "service_tag": self.entry["service_tag"],
            "power": self.power,
            "faults": sorted(self.faults),
            "fault_parameters": {name: values for name, values in sorted(self.faults.items()) if values},
            "boots": self.boots,
            "last_boot": self.last_boot,
            "disk": self.disk,
            "replaced": dict(self.replaced),
        }

    def save(self) -> None:
        """Write what changed, each file as a whole."""
        public = self.public()
        if public != self._written:
            lab_files.write_json(self.folder / "state.json", public)
            self._written = copy.deepcopy(public)
        lab_files.write_json(
            self.folder / "bmc.json",
            {
                "faults": self.faults,
                "born": self.born,
                "inventory_at": self._inventory_at,
                "reset_at": self.reset_at,
                "booting": self.booting,
                "running": self.running,
                "boot": self.boot,
                "asset_tag": self.asset_tag,
                "light": self.light,
                "bios": self.bios,
                "bios_pending": self.bios_pending,
                "jobs": self.jobs,
                "firmware": self.firmware,
                "uploads": self.uploads,
                "sel_cleared": self.sel_cleared,
                "log": self.log,
                "version": self.version,
                "counters": self.counters,
            },
        )
        self.unsaved = False


def _tags(lab: lab_files.Lab) -> dict[int, str]:
    return {int(entry["index"]): str(entry["service_tag"]) for entry in lab["machines"]}


def utc(moment: float) -> str:
    """Write a time as iDRAC's inventory does: UTC, with its offset."""
    return datetime.datetime.fromtimestamp(int(moment), datetime.UTC).isoformat()


def local(moment: float) -> str:
    """Write a time as iDRAC's clock does: with the BMC's own offset."""
    return datetime.datetime.fromtimestamp(int(moment), BMC_UTC_OFFSET).isoformat()
