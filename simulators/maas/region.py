"""The region as the API's handlers see it: settings, records, what happens over time, and one incoming call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from simulators.maas import status as st
from simulators.maas import view
from simulators.maas.forms import Form
from simulators.maas.lifecycle import Lifecycle
from simulators.maas.settings import Settings
from simulators.maas.status import ApiError
from simulators.maas.store import Machine, Store


@dataclass
class Call:
    """One request to the API: its parameters, and who sent it ("" when nobody signed it)."""

    method: str
    form: Form
    path: dict[str, str]
    user: str


@dataclass
class Text:
    """A plain text answer."""

    text: str
    status: int = 200


class Region:
    """Everything that a handler needs."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.store = Store(settings.lab_dir / "maas" / "state.json", settings.durable)
        self.life = Lifecycle(settings, self.store)
        wanted = {"zones": settings.zones, "resourcepools": settings.pools, "domains": settings.domains}
        named = self.store.data.setdefault("named", {})
        for kind, names in wanted.items():
            entries = named.setdefault(kind, [])
            for name in names:
                if all(entry["name"] != name for entry in entries):
                    self.add_named(kind, name, "")
        self.store.data.setdefault("ssh_keys", [])
        self.store.save()

    def add_named(self, kind: str, name: str, description: str) -> dict[str, Any]:
        """Add a zone, resource pool or domain."""
        entries = self.store.data["named"][kind]
        # The default ones have fixed ids in MAAS: zone 1, pool 0, domain 0.
        first = 1 if kind == "zones" else 0
        number = max((entry["id"] for entry in entries), default=first - 1) + 1
        entry: dict[str, Any] = {"id": number, "name": name}
        if kind != "domains":
            entry["description"] = description
        entries.append(entry)
        return entry

    @property
    def names(self) -> dict[str, set[str]]:
        """The names of the zones, resource pools and domains."""
        return {kind: {entry["name"] for entry in entries} for kind, entries in self.store.data["named"].items()}

    @property
    def has_images(self) -> bool:
        """False while a fault has taken the boot images away."""
        return "no_images" not in self.store.data["faults"]

    def machine(self, call: Call, change: bool = False) -> Machine:
        """The machine of this call; 404 when there is none, 403 when it is locked and would be changed."""
        machine = self.store.machines.get(call.path["system_id"])
        if machine is None:
            raise ApiError(404, "Not Found")
        if change and machine["locked"]:
            raise ApiError(403, "")
        return machine

    def show(self, machine: Machine) -> dict[str, Any]:
        """The machine as the API shows it."""
        return view.machine(self.settings, self.store.data["named"], machine)

    def saved(self, machine: Machine) -> dict[str, Any]:
        """Save, then show."""
        self.store.save()
        return self.show(machine)

    def label(self, machine: Machine) -> str:
        """The machine's status in words."""
        return st.LABELS[machine["status"]]


Handler = Callable[[Region, Call], Awaitable[Any]]
