"""What MAAS says about one machine, read carefully: pure functions over its JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import netaddr

Machine = dict[str, Any]

FLEET_TAG = "firstlight"

NEW, COMMISSIONING, FAILED_COMMISSIONING, MISSING, READY, RESERVED, DEPLOYED, RETIRED, BROKEN = range(9)
DEPLOYING, ALLOCATED, FAILED_DEPLOYMENT, RELEASING, FAILED_RELEASING, ERASING, FAILED_ERASING = range(9, 16)
RESCUE, ENTERING_RESCUE, FAILED_ENTERING_RESCUE, EXITING_RESCUE, FAILED_EXITING_RESCUE = range(16, 21)
TESTING, FAILED_TESTING = 21, 22

# Numbers do not change between releases; the words that MAAS shows do. These are the names of its status filter.
STATUS_NAMES = {
    NEW: "new",
    COMMISSIONING: "commissioning",
    FAILED_COMMISSIONING: "failed_commissioning",
    MISSING: "missing",
    READY: "ready",
    RESERVED: "reserved",
    DEPLOYED: "deployed",
    RETIRED: "retired",
    BROKEN: "broken",
    DEPLOYING: "deploying",
    ALLOCATED: "allocated",
    FAILED_DEPLOYMENT: "failed_deployment",
    RELEASING: "releasing",
    FAILED_RELEASING: "failed_releasing",
    ERASING: "disk_erasing",
    FAILED_ERASING: "failed_disk_erasing",
    RESCUE: "rescue_mode",
    ENTERING_RESCUE: "entering_rescue_mode",
    FAILED_ENTERING_RESCUE: "failed_entering_rescue_mode",
    EXITING_RESCUE: "exiting_rescue_mode",
    FAILED_EXITING_RESCUE: "failed_exiting_rescue_mode",
    TESTING: "testing",
    FAILED_TESTING: "failed_testing",
}


def status_of(machine: Machine) -> int:
    """The status as a number, -1 when MAAS did not say one."""
    value = machine.get("status")
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def status_name(machine: Machine) -> str:
    """The status in lower case with underscores, e.g. ``failed_deployment``."""
    status = status_of(machine)
    return STATUS_NAMES.get(status, f"status_{status}" if status >= 0 else "unknown")


def macs_of(machine: Machine) -> list[str]:
    """MACs of all interfaces in lower case, in MAAS's order, each once."""
    found: dict[str, None] = {}
    for nic in [*_list(machine.get("interface_set")), machine.get("boot_interface")]:
        mac = nic.get("mac_address") if isinstance(nic, dict) else None
        if isinstance(mac, str) and mac:
            found[mac.lower()] = None
    return list(found)


def tags_of(machine: Machine) -> list[str]:
    return [t for t in _list(machine.get("tag_names")) if isinstance(t, str)]


def name_in(machine: Machine, key: str) -> str:
    """The name of the pool or zone (MAAS gives them as mappings), empty when there is none."""
    value = machine.get(key)
    if isinstance(value, dict):
        value = value.get("name")
    return value if isinstance(value, str) else ""


def text_of(machine: Machine, key: str) -> str:
    value = machine.get(key)
    return value if isinstance(value, str) else ""


def is_locked(machine: Machine) -> bool:
    return machine.get("locked") is True


def label(machine: Machine) -> str:
    """The machine for people: name and system id."""
    return f"{text_of(machine, 'hostname') or '?'} ({text_of(machine, 'system_id') or '?'})"


def disks_of(machine: Machine) -> list[dict[str, Any]] | None:
    """Physical disks as MAAS found them at commissioning; None when the machine's JSON has no such part."""
    for key in ("physicalblockdevice_set", "blockdevice_set"):
        devices = machine.get(key)
        if isinstance(devices, list):
            return [d for d in devices if isinstance(d, dict) and d.get("type", "physical") == "physical"]
    return None


def parse_subnets(subnets: Iterable[str]) -> list[netaddr.IPNetwork]:
    """CIDRs as networks; ValueError names the one that is none."""
    networks = []
    for text in subnets:
        try:
            networks.append(netaddr.IPNetwork(text))
        except (netaddr.AddrFormatError, ValueError, TypeError):
            raise ValueError(f"{text!r} is not a subnet; it looks like 10.31.0.0/24") from None
    return networks


def address_of(machine: Machine, subnets: Sequence[netaddr.IPNetwork] = ()) -> str | None:
    """The address to reach the machine at.

    The first one in the first of ``subnets`` that has any; without preference the first IPv4 address, else IPv6.
    None when MAAS knows no address, or none in any of the subnets asked for.
    """
    addresses = []
    for text in _list(machine.get("ip_addresses")):
        try:
            addresses.append(netaddr.IPAddress(text))
        except (netaddr.AddrFormatError, ValueError, TypeError):
            continue
    if subnets:
        found = next((a for network in subnets for a in addresses if a in network), None)
        return str(found) if found is not None else None
    addresses.sort(key=lambda a: a.version)
    return str(addresses[0]) if addresses else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
