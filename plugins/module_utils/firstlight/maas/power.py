"""Power past MAAS, over Redfish: boot from the network once, and what the BMC says of a machine that stalls."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..bmc.boot import set_one_time_pxe
from ..bmc.client import BmcClient
from ..bmc.control import manager_of, many, system_of
from ..bmc.errors import AuthFailed, Blocked, BmcError
from ..bmc.pool import Target
from ..bmc.power import power
from ..bmc.values import link, rows, text
from ..findings import Finding, blocking, shorten
from .desired import Desired
from .reasons import BmcState

DEADLINE = 120.0  # seconds for one BMC: reads, a PATCH, a reset, and its reading back
BACK_SECONDS = 60.0  # within which the power must read On
PACE_SECONDS = 5.0  # between two conversations with one BMC
_LOGS = ("Sel", "SEL", "IML", "Log1", "EventLog")


class RedfishPower:
    """The BMCs of the hosts of a run; its methods may be called from many threads.

    targets: by host name. nics: which port boots, by host name. settings: MAAS's power fields of each host (with the
    password), to be put back after an installation that went past MAAS's driver.
    """

    def __init__(
        self,
        targets: Mapping[str, Target],
        ca_file: str,
        nics: Mapping[str, str] | None = None,
        settings: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self._targets, self._ca_file, self._nics = targets, ca_file, nics or {}
        self._settings = settings or {}
        self._locks = {name: threading.Lock() for name in targets}
        self._last: dict[str, float] = {}
        self._refused: dict[str, BmcError] = {}  # three refused logins within a minute make an iDRAC block us

    def on(self, name: str) -> Finding | None:
        """Boot this host from the network, once, whatever state it is in; None when that reads back."""
        nic = self._nics.get(name, "")

        def boot(client: BmcClient) -> tuple[Finding, ...]:
            once = set_one_time_pxe(client, nic_fqdd=nic)
            reset = power(client, "restart", wait=BACK_SECONDS)
            return (*once.findings, *reset.findings)

        came = self._ask(name, boot)
        if isinstance(came, BmcError):
            return _failed(name, f"Redfish power on: bmc.{came.condition}: {came.evidence}")
        said_no = blocking(came)
        return _failed(name, f"Redfish power on: {said_no[0].evidence}") if said_no else None

    def look(self, name: str) -> BmcState:
        """What the BMC says now; never raises."""
        came = self._ask(name, lambda client: _state(client, self._nics.get(name, "")))
        if isinstance(came, BmcError):
            return BmcState(error=f"bmc.{came.condition}: {came.evidence}", nic=self._nics.get(name, ""))
        return came

    def settings(self, name: str) -> dict[str, str]:
        """MAAS's power fields of the host, {} when not known."""
        return dict(self._settings.get(name, {}))

    def _ask(self, name: str, function: Callable[[BmcClient], Any]) -> Any:
        target = self._targets.get(name)
        if target is None:
            return BmcError("its BMC is not known")
        with self._locks[name]:
            if name in self._refused:
                return self._refused[name]
            wait = self._last.get(name, 0.0) + PACE_SECONDS - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            try:
                came = many([target], function, ca_file=self._ca_file, deadline=DEADLINE)[name]
            finally:
                self._last[name] = time.monotonic()
            if isinstance(came, AuthFailed | Blocked):
                self._refused[name] = came
            return came


def power_settings(address: str, port: int, username: str, password: str) -> dict[str, str]:
    """MAAS's power fields for a BMC, as enlist writes them."""
    bmc = Desired("", (), "", address, username, password, bmc_port=port)
    return bmc.power()


def _state(client: BmcClient, nic: str) -> BmcState:
    _path, system = system_of(client)
    return BmcState(
        power=shorten(text(system, "PowerState"), 20),
        link=_link(client, system, nic),
        nic=nic,
        post=shorten(text(system, "BootProgress", "LastState"), 60),
        logs=_logs(client),
    )


def _link(client: BmcClient, system: dict[str, Any], nic: str) -> str:
    """up, down, or "" where the BMC does not tell."""
    interfaces = link(system, "EthernetInterfaces")
    if not nic or not interfaces:
        return ""
    try:
        status = text(client.get(f"{interfaces.rstrip('/')}/{nic}"), "LinkStatus")
    except BmcError:
        return ""
    return {"LinkUp": "up", "LinkDown": "down", "NoLink": "down"}.get(status, "")


def _logs(client: BmcClient) -> tuple[str, ...]:
    """The latest entries that are no mere notice, newest first; () where that is not cheap."""
    try:
        services = link(manager_of(client)[1], "LogServices").rstrip("/")
        if not services:
            return ()
        known = {link(r).rstrip("/").rsplit("/", 1)[-1] for r in rows(client.get(services), "Members")}
        name = next((n for n in _LOGS if n in known), "")
        entries = rows(client.get(f"{services}/{name}/Entries?$top=5"), "Members")[:5] if name else []
    except BmcError:
        return ()
    worth = [e for e in entries if text(e, "Severity") in ("Warning", "Critical") and text(e, "Message")]
    worth.sort(key=lambda e: text(e, "Created"), reverse=True)
    return tuple(shorten(f"{text(e, 'Created')} {text(e, 'Message')}", 120) for e in worth[:3])


def _failed(name: str, evidence: str) -> Finding:
    return Finding("install", "fail", "install.power_failed", f"BMC of {name}", evidence, "reset_bmc")
