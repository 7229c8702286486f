"""A NIC that was swapped: what has to change in MAAS so that it knows the MAC that the host installs by. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import machines as m
from .desired import Desired
from .machines import Machine, label, macs_of, status_name, status_of

# MAAS changes interfaces in these (maasserver/api/interfaces.py: ALLOWED_STATES), 409 in all others; a MAC in Deployed
# too, "to allow a bad interface to be replaced while the machine remains deployed".
EDITABLE = frozenset({m.NEW, m.READY, m.FAILED_TESTING, m.ALLOCATED, m.BROKEN})
# Here a NIC that MAAS did not know gets its network at the commissioning that is to come.
_NOT_COMMISSIONED = frozenset({m.NEW, m.FAILED_TESTING, m.BROKEN})
_PASSES = frozenset({m.COMMISSIONING, m.TESTING, m.DEPLOYING, m.RELEASING, m.ERASING})


@dataclass(frozen=True)
class NicChange:
    """mac: what MAAS has to know. interface_id: of the NIC in whose place it is (before: its MAC), None: one more."""

    mac: str
    interface_id: int | None = None
    before: str = ""
    interface_name: str = ""

    def lines(self) -> list[str]:
        """For a diff."""
        name = f" ({self.interface_name})" if self.interface_name else ""
        gone = [f"- nic: {self.before}{name}"] if self.interface_id is not None else []
        return [*gone, f"+ nic: {self.mac}{name}"]


@dataclass(frozen=True)
class Unchangeable:
    """It cannot be changed: why, what to do, and whether that is to wait."""

    said: str
    wait: bool = False


def nic_change(desired: Desired, machine: Machine) -> NicChange | Unchangeable | None:
    """What to do so that the machine has the MAC that installs; None when it has.

    Where the NIC that MAAS boots it by is gone from the hardware, the new one takes its place: one request, and it
    keeps its name, its network, and that it boots (no release of MAAS lets an API client set boot_interface). Other
    NICs are left to commissioning, which adds what it finds and drops what is gone.
    """
    mac = desired.pxe_mac.lower()
    if mac in macs_of(machine):
        return None
    status, who = status_of(machine), label(machine)
    unknown = f"MAAS does not know NIC {mac}, by which {desired.name} installs; {who} is {status_name(machine)}"
    if status in _PASSES:
        return Unchangeable(f"{unknown}: enlist again when it is done", wait=True)
    gone = _gone(desired, machine)
    if gone is not None:
        if status in EDITABLE or status == m.DEPLOYED:
            return NicChange(mac, gone["id"], str(gone["mac_address"]).lower(), str(gone.get("name") or ""))
        return Unchangeable(f"{unknown}, where it changes no NIC: {_way_out(status)}, and enlist again")
    if status in _NOT_COMMISSIONED:
        return NicChange(mac)
    return Unchangeable(f"{unknown}, and the NICs it knows are all there: {_way_out(status)}, and enlist again")


def _gone(desired: Desired, machine: Machine) -> dict[str, Any] | None:
    """The NIC that was replaced: the one MAAS boots by if the BMC does not see it, else the only such one."""
    seen = {mac.lower() for mac in desired.hardware_macs}
    if not seen:
        return None
    nics = machine.get("interface_set")
    gone = (
        [n for n in nics if _is_physical(n) and n["mac_address"].lower() not in seen] if isinstance(nics, list) else []
    )
    boots = machine.get("boot_interface")
    boot_id = boots.get("id") if isinstance(boots, dict) else None
    found = [n for n in gone if n["id"] == boot_id] or gone
    return found[0] if len(found) == 1 else None


def _is_physical(nic: Any) -> bool:
    return (
        isinstance(nic, dict)
        and isinstance(nic.get("mac_address"), str)
        and isinstance(nic.get("id"), int)
        and nic.get("type", "physical") == "physical"
    )


def _way_out(status: int) -> str:
    if status in (m.DEPLOYED, m.FAILED_DEPLOYMENT, m.FAILED_RELEASING, m.FAILED_ERASING):
        return "release it (playbooks/release.yml)"
    if status in (m.READY, m.ALLOCATED):
        return "add that NIC to it in MAAS and commission it"
    return "mark it broken in MAAS, enlist, mark it fixed"
