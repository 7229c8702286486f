"""What install is told and what it tells: hosts, options, progress, results."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ..errors import InputError
from ..findings import Finding
from .disks import OsDisk
from .machines import parse_subnets
from .reasons import BmcState


@dataclass(frozen=True)
class Wanted:
    """A host to install. os_disk: from discovery. bmc: where its BMC is, for the texts. rack: for max_per_rack.

    distro_series, hwe_kernel: of this host, as it is pinned (images.py); where empty those of the options.
    commission_first: drives were replaced since MAAS saw them; also a Ready machine is commissioned, once.
    """

    name: str
    system_id: str
    os_disk: OsDisk
    bmc: str = ""
    rack: str = ""
    distro_series: str = ""
    hwe_kernel: str = ""
    commission_first: bool = False


@dataclass(frozen=True)
class InstallOptions:
    """max_parallel: machines installing at once, max_per_rack: of one rack (0: no limit). retries: per machine.

    user_data: text of a cloud-config. subnets: for the address. outage_minutes: how long MAAS may be away.
    pxe_minutes: from switching on to the first that is seen of a network boot. stall_minutes: how long a machine that
    booted may show nothing new until it is looked at. power: maas, redfish, or auto (MAAS, and past it where it fails).
    console_log: path of the machines' console logs with {name} in it.
    """

    max_parallel: int = 32
    max_per_rack: int = 0
    distro_series: str = ""
    hwe_kernel: str | None = None
    user_data: str = ""
    testing_scripts: str | None = None
    commission_minutes: float = 30
    deploy_minutes: float = 45
    release_minutes: float = 15
    outage_minutes: float = 5
    pxe_minutes: float = 15
    stall_minutes: float = 15
    poll_seconds: float = 10
    power: str = "auto"
    console_log: str = ""
    retries: int = 1
    subnets: tuple[str, ...] = ()
    check: bool = False

    def minutes(self, phase: str) -> float:
        return {"commission": self.commission_minutes, "deploy": self.deploy_minutes}.get(phase, self.release_minutes)


@dataclass(frozen=True)
class Commissioned:
    """What our commissioning script saw of a machine. fingerprints: of its disks, by serial.

    findings: what else it tells, e.g. of the host's clock; one that fails or is unknown ends the installation of this
    machine before a disk is chosen.
    """

    fingerprints: dict[str, Any] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


class Power(Protocol):
    """What switches machines on past MAAS, see power.RedfishPower. Called in threads."""

    def on(self, name: str) -> Finding | None:
        """Boot this host from the network, once, whatever state it is in.

        None when that reads back, else the finding that says why not.
        """

    def look(self, name: str) -> BmcState:
        """What the BMC says of it now."""

    def settings(self, name: str) -> dict[str, str]:
        """MAAS's power fields of the host, to be put back after an installation past MAAS's driver."""


@dataclass
class InstallResult:
    """status: MAAS's, in lower case. address: where the installed host is. seconds: from its first step on.

    deeds: one line for each destructive step (done, or in check mode to be done), naming host, id and disk.
    os_disk: {serial, model, size in bytes, name} of the disk that was chosen. disks_before: fingerprints of the disks
    as they were at commissioning, by serial. Both are empty where this run deployed nothing.
    """

    changed: bool = False
    status: str = "unknown"
    address: str | None = None
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0
    deeds: list[str] = field(default_factory=list)
    os_disk: dict[str, Any] = field(default_factory=dict)
    disks_before: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Progress:
    """counts: hosts by what they do (waiting, commission, deploy, release, done, failed). news: since last time.

    rate: hosts that came to an end a minute, of the last ten minutes. stalled: how many show nothing new for long;
    slowest: the worst of them, in words.
    """

    seconds: float
    counts: dict[str, int]
    news: list[str]
    rate: float = 0.0
    stalled: int = 0
    slowest: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {what}" for what, count in self.counts.items() if count)
        rate = f", {self.rate:g} a minute" if self.rate else ""
        stalled = f"; {self.stalled} stall: {', '.join(self.slowest)}" if self.stalled else ""
        return f"{counts}{rate}{stalled}"


# Settings of a site that are numbers, install_X: their kind, and the least that makes sense.
_NUMBERS: dict[str, tuple[type, float]] = {
    "max_parallel": (int, 1),  # with none at a time nothing would ever end
    "max_per_rack": (int, 0),
    "retries": (int, 0),
    "commission_minutes": (float, 0.01),
    "deploy_minutes": (float, 0.01),
    "release_minutes": (float, 0.01),
    "outage_minutes": (float, 0),
    "pxe_minutes": (float, 0.01),
    "stall_minutes": (float, 0.01),
    "poll_seconds": (float, 0.1),
}
SSH_MINUTES = 10.0
POWERS = ("auto", "maas", "redfish")


def install_options(value: Callable[[str], Any], *, check: bool = False) -> InstallOptions:
    """The options from a site's settings; InputError names the setting that is wrong. value: gives one by name."""
    options: dict[str, Any] = {}
    for name, (kind, least) in _NUMBERS.items():
        given = value(f"install_{name}")
        if given is not None:
            options[name] = _number(f"install_{name}", given, kind, least)
    options.update(_power_and_console(value))
    if value("install_testing_scripts") is not None:
        options["testing_scripts"] = str(value("install_testing_scripts"))
    subnets = value("maas_subnets") or []
    if not isinstance(subnets, list):
        raise InputError(f"maas_subnets is {subnets!r}; write a list like [10.31.0.0/24]")
    try:
        parse_subnets(subnets)
    except ValueError as error:
        raise InputError(f"maas_subnets: {error}") from None
    return InstallOptions(**options, subnets=tuple(subnets), check=check)


def ssh_minutes(value: Callable[[str], Any]) -> float:
    """How long a host has to answer on SSH after its installation."""
    given = value("install_ssh_minutes")
    return SSH_MINUTES if given is None else _number("install_ssh_minutes", given, float, 0)


def _number(name: str, given: Any, kind: type, least: float) -> Any:
    try:
        number = kind(given) if not isinstance(given, bool) else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if not least <= number < 1e6:  # also what is no number at all
        what = "whole number" if kind is int else "number"
        raise InputError(f"{name} is {given!r}; it must be a {what} of {least:g} or more")
    return number


def _power_and_console(value: Callable[[str], Any]) -> dict[str, str]:
    power = value("install_power")
    if power is not None and power not in POWERS:
        raise InputError(f"install_power is {power!r}; it must be one of {', '.join(POWERS)}")
    console = value("install_console_log")
    if console and (not isinstance(console, str) or "{name}" not in console or not Path(console).is_absolute()):
        raise InputError(
            f"install_console_log is {console!r}; write a whole path with {{name}} in it, e.g. "
            "/var/log/conserver/{name}.log"
        )
    return {"power": str(power or "auto"), "console_log": console or ""}
