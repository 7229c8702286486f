"""What install does to one machine: calls that take time, made in threads of its pool. No deciding here."""

from __future__ import annotations

import base64
import binascii
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..findings import Finding
from . import steps
from .client import MaasClient, MaasError
from .consoles import Consoles
from .disks import Disk, choose_os_disk, wrong_layout
from .machines import Machine, disks_of, text_of
from .options import Commissioned, InstallOptions, Power, Wanted
from .reasons import NETWORK, BmcState, Look, reached

CHOOSE, LOOK, POWER, ABORT = "choose a disk", "look", "network boot", "abort"
LOG_TAIL = 65536


@dataclass
class Calls:
    """user_data, before_commission, commissioned, power: see ``install``."""

    client: MaasClient
    options: InstallOptions
    user_data: Callable[[str], str]
    before_commission: Callable[[MaasClient], None] | None = None
    commissioned: Callable[[MaasClient, Wanted, Machine], Commissioned | None] | None = None
    power: Power | None = None

    def __post_init__(self) -> None:
        self._first_commission = threading.Lock()
        self.consoles = Consoles(self.options.console_log)

    def choose(self, wanted: Wanted, machine: Machine) -> tuple[Disk | Finding, Commissioned | None]:
        """The disk for the operating system, and what our commissioning script saw."""
        known = self.commissioned(self.client, wanted, machine) if self.commissioned else None
        return self.os_disk(wanted, machine), known

    def os_disk(self, wanted: Wanted, machine: Machine) -> Disk | Finding:
        disks = disks_of(machine)
        if disks is None:
            disks = self.client.block_devices(wanted.system_id)
        return choose_os_disk(disks, wanted.os_disk, wanted.name)

    def commission(self, wanted: Wanted, machine: Machine, by_redfish: bool) -> Finding | None:
        with self._first_commission:  # the others wait for it
            if self.before_commission:
                self.before_commission(self.client)
                self.before_commission = None
        self._by_hand(wanted, machine, by_redfish)
        self.client.commission(wanted.system_id, self.options.testing_scripts)
        return self.network_boot(wanted.name) if by_redfish else None

    def deploy(self, wanted: Wanted, machine: Machine, disk: Disk, by_redfish: bool) -> Finding | None:
        boot = machine.get("boot_disk")
        is_boot_disk = isinstance(boot, dict) and boot.get("id") == disk["id"]
        user_data = self.user_data(wanted.name)
        self._by_hand(wanted, machine, by_redfish)
        laid_out = self.client.set_os_disk(wanted.system_id, disk["id"], is_boot_disk)
        wrong = wrong_layout(laid_out, disk, wanted.name)
        if wrong:
            return wrong
        self.client.deploy(
            wanted.system_id,
            wanted.distro_series or self.options.distro_series,
            base64.b64encode(user_data.encode()).decode() if user_data else None,
            wanted.hwe_kernel or self.options.hwe_kernel,
            "firstlight",
        )
        return self.network_boot(wanted.name) if by_redfish else None

    def release(self, wanted: Wanted, machine: Machine, because: str, by_redfish: bool) -> None:
        self._by_hand(wanted, machine, by_redfish)
        self.client.release(wanted.system_id, f"firstlight: {because}")

    def abort(self, wanted: Wanted, because: str) -> None:
        self.client.abort(wanted.system_id, f"firstlight: {because}")

    def network_boot(self, name: str) -> Finding | None:
        """Over Redfish; None when it was done, else why not."""
        return self.power.on(name) if self.power else None

    def put_power_back(self, wanted: Wanted) -> str:
        """MAAS switches the power again; a line when that could not be told to it."""
        settings = self.power.settings(wanted.name) if self.power else {}
        if not settings:
            return ""
        try:
            self.client.hide(settings.get("power_parameters_power_pass", ""))
            self.client.update(wanted.system_id, **settings)
        except MaasError as error:
            return f"{wanted.name}: MAAS still has its power as manual, which enlist puts right: {error}"
        return ""

    def look(self, wanted: Wanted, phase: str, failed: bool, console_mark: int) -> Look:
        """Everything to judge by. The BMC is asked only about a machine that did not get beyond the network boot."""
        notes: list[str] = []
        events: list[dict[str, Any]] = []
        try:
            events = self.client.events(wanted.system_id)
        except MaasError as error:
            notes.append(f"no events to judge by: {error}")
        console, problem = self.consoles.read(wanted.name, console_mark)
        if problem:
            notes.append(problem)
        found = Look(events, None, console, "", tuple(notes))
        far = reached(phase, found)
        log = self._installation_log(wanted, notes) if failed and phase == "deploy" and far > NETWORK else ""
        bmc: BmcState | None = None
        if self.power and far <= NETWORK and phase != "release":
            bmc = self.power.look(wanted.name)
        return Look(events, bmc, console, log, tuple(notes))

    def _by_hand(self, wanted: Wanted, machine: Machine, by_redfish: bool) -> None:
        """MAAS keeps its hands off the power: its driver, which fails, would end the operation."""
        if by_redfish and text_of(machine, "power_type") != "manual":
            self.client.update(wanted.system_id, power_type="manual")

    def _installation_log(self, wanted: Wanted, notes: list[str]) -> str:
        """The end of curtin's log, "" when there is none."""
        try:
            sets = self.client.call(
                "ScriptResults.read",
                {"system_id": wanted.system_id},
                {"type": "installation", "include_output": "true"},
            )
        except MaasError as error:
            notes.append(f"no installation log: {error}")
            return ""
        results = [r for s in _dicts(sets)[-1:] for r in _dicts(s.get("results"))]
        return "\n".join(_decoded(r.get("output")) for r in results)[-LOG_TAIL:]


def call_of(
    calls: Calls, kind: str, wanted: Wanted, machine: Machine, disk: Disk | None, because: str, by_redfish: bool
) -> Callable[[], Any]:
    """The call that a step is."""
    if kind == CHOOSE:
        return lambda: calls.choose(wanted, machine)
    if kind == steps.COMMISSION:
        return lambda: calls.commission(wanted, machine, by_redfish)
    if kind == steps.DEPLOY and disk is not None:
        return lambda: calls.deploy(wanted, machine, disk, by_redfish)
    if kind == steps.RELEASE:
        return lambda: calls.release(wanted, machine, because, by_redfish)
    if kind == ABORT:
        return lambda: calls.abort(wanted, because)
    if kind == POWER:
        return lambda: calls.network_boot(wanted.name)
    raise ValueError(f"no call is {kind!r}")


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _decoded(output: Any) -> str:
    if not isinstance(output, str):
        return ""
    try:
        return base64.b64decode(output[-2 * LOG_TAIL // 4 * 4 :], validate=False).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return ""
