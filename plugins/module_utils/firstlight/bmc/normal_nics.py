"""NICs out of a tree: put together from places of which each can be empty while another is filled. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from .hardware import Nic
from .values import dig, health, link, mac, members, natural, number, real, resource, rows, state, text
from .vendors import dell

# The BMC's own and the USB NIC between BMC and host; a USB NIC can have the same MAC on every machine.
_NOT_THE_HOSTS = re.compile(
    r"tomanager|tohost|usb|^idrac|^bmc|host network interface|manager ethernet|virtual", re.IGNORECASE
)
_LINKS = {"linkup": "up", "up": "up", "linkdown": "down", "down": "down", "nolink": "down"}


class _Nics:
    """NICs by id; other names and paths that a BMC has for the same NIC lead to it."""

    def __init__(self) -> None:
        self.known: dict[str, dict[str, Any]] = {}
        self._names: dict[str, str] = {}

    def add(self, identity: str, adapter: str = "", **found: Any) -> str:
        """What one place says of one NIC; what another place said before stays. Returns its id, "" for none."""
        if not identity or _NOT_THE_HOSTS.search(identity):
            return ""
        name, address = identity, found.get("mac")
        identity = self._names.get(identity, identity)
        if identity not in self.known and address:
            same = [k for k, nic in self.known.items() if nic.get("mac") == address]
            identity = same[0] if same else identity
        self._names[name] = identity
        nic = self.known.setdefault(identity, {})
        parsed = dell.fqdd(identity)
        if parsed:
            nic.setdefault("port", parsed[1])
            nic.setdefault("partition", parsed[2])
        if adapter:
            nic["adapter"] = adapter
        elif parsed:
            nic.setdefault("adapter", parsed[0])
        for key, value in found.items():
            if value not in (None, "") and nic.get(key) in (None, ""):
                nic[key] = value
        return identity

    def also(self, name: str, identity: str) -> None:
        """Another name of a NIC."""
        if name and identity:
            self._names.setdefault(name, identity)

    def with_mac(self, addresses: list[str]) -> str:
        """The NIC that has one of these addresses, "" for none."""
        return next((k for k, nic in self.known.items() if nic.get("mac") in addresses), "")

    def named(self, name: str) -> str:
        return self._names.get(name, "")

    def of_port(self, port: str) -> list[str]:
        """The NICs on a Dell port: itself and its partitions."""
        return [k for k in self.known if k == port or k.startswith(f"{port}-")]


def adapters_of(
    tree: Mapping[str, Any], system: dict[str, Any], chassis: Iterable[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Network adapters: of the host's chassis, of all that were read; else through the system's interfaces."""
    found: dict[str, dict[str, Any]] = {}
    for one in chassis:
        for adapter in members(tree, link(one, "NetworkAdapters")):
            found.setdefault(link(adapter) or text(adapter, "Id"), adapter)
    if not found:
        for interface in members(tree, link(system, "NetworkInterfaces")):
            adapter = resource(tree, link(interface, "Links", "NetworkAdapter"))
            if adapter:
                found.setdefault(link(adapter) or text(adapter, "Id"), adapter)
    return list(found.values())


def nics_of(tree: Mapping[str, Any], system: dict[str, Any], adapters: list[dict[str, Any]]) -> list[Nic]:
    nics = _Nics()
    for interface in members(tree, link(system, "EthernetInterfaces")):
        words = (text(interface, "Id"), text(interface, "Description"), text(interface, "EthernetInterfaceType"))
        if any(_NOT_THE_HOSTS.search(word) for word in (*words, text(interface, "Name"))):
            continue
        nics.add(
            words[0],
            mac=_mac_of(interface),
            link=_link_state(interface),
            speed_mbps=number(interface, "SpeedMbps") or None,
            kind=_kind(words[0]),
        )
    for adapter in adapters:
        _add_adapter(tree, nics, adapter)
    for card in members(tree, link(system, "Oem", "Hpe", "Links", "NetworkAdapters")):
        name = text(card, "StructuredName") or text(card, "Id")
        for place, port in enumerate(rows(card, "PhysicalPorts"), 1):
            found = {"mac": mac(port.get("MacAddress")), "link": _link_state(port), "port": str(place)}
            nics.add(f"{name}/{place}", adapter=name, model=text(card, "Name"), **found)
    made = []
    for identity, nic in nics.known.items():
        if nic.get("mac") or dell.fqdd(identity) or nic.get("kind") == "infiniband":
            made.append(Nic(id=identity, **{k: v for k, v in nic.items() if v is not None}))
    return sorted(made, key=lambda nic: natural(nic.id))


def _add_adapter(tree: Mapping[str, Any], nics: _Nics, adapter: dict[str, Any]) -> None:
    name = text(adapter, "Id")
    about = {"model": text(adapter, "Model"), "health": health(adapter), "state": state(adapter)}
    for function in members(tree, link(adapter, "NetworkDeviceFunctions")):
        identity = nics.add(
            _nic_id(name, text(function, "Id")),
            adapter=name,
            mac=_mac_of(dig(function, "Ethernet")),
            kind=_kind(text(function, "Id"), text(function, "NetDevFuncType")),
            **about,
        )
        for assignment in ("PhysicalPortAssignment", "PhysicalNetworkPortAssignment"):
            nics.also(link(function, "Links", assignment), identity)
    ports: dict[str, dict[str, Any]] = {}
    for collection in ("NetworkPorts", "Ports"):  # the same ports twice where a BMC has both
        for port in members(tree, link(adapter, collection)):
            ports.setdefault(f"{collection}/{text(port, 'Id')}", port)
    for port in ports.values():
        _add_port(nics, name, about, port)


def _add_port(nics: _Nics, adapter: str, about: dict[str, str], port: dict[str, Any]) -> None:
    identity = text(port, "Id")
    found: dict[str, Any] = {
        **about,
        "mac": _port_mac(port),
        "link": _link_state(port),
        "speed_mbps": number(port, "CurrentLinkSpeedMbps") or _gbps(port),
        "kind": _kind(identity, text(port, "ActiveLinkTechnology") or text(port, "LinkNetworkTechnology")),
        "port": text(port, "PhysicalPortNumber") or text(port, "PortId"),
    }
    if not dell.fqdd(identity):
        nics.add(
            nics.named(link(port)) or nics.with_mac(_guid_macs(port)) or _nic_id(adapter, identity),
            adapter=adapter,
            **found,
        )
        return
    partitions = nics.of_port(identity)
    if len(partitions) > 1:
        found["mac"] = None  # one address of the port does not tell which partition's it is
    for nic in partitions or [identity]:
        nics.add(nic, adapter=adapter, **found)


def _nic_id(adapter: str, identity: str) -> str:
    """The FQDD where there is one; elsewhere two adapters can both have a port "1"."""
    return identity if dell.fqdd(identity) or not identity else f"{adapter}/{identity}"


def _mac_of(node: Any) -> str | None:
    return mac(dig(node, "MACAddress")) or mac(dig(node, "PermanentMACAddress"))


def _port_mac(port: dict[str, Any]) -> str | None:
    for place in (("AssociatedNetworkAddresses",), ("Ethernet", "AssociatedMACAddresses")):
        listed = dig(port, *place)
        for address in listed if isinstance(listed, list) else []:
            if mac(address):
                return mac(address)
    return mac(dig(port, "Oem", "Lenovo", "PhysicalPortMacAddress"))


def _guid_macs(port: dict[str, Any]) -> list[str]:
    """The MACs that an InfiniBand port's GUIDs were made of; HPE lists such a port as an EthernetInterface too."""
    found = []
    for place in (("AssociatedNetworkAddresses",), ("InfiniBand", "AssociatedPortGUIDs")):
        listed = dig(port, *place)
        for guid in listed if isinstance(listed, list) else []:
            digits = guid.replace(":", "") if isinstance(guid, str) else ""
            address = mac(digits[:6] + digits[10:]) if len(digits) == 16 else None
            found += [address] if address else []
    return found


def _link_state(node: dict[str, Any]) -> str | None:
    return _LINKS.get(text(node, "LinkStatus").lower())


def _kind(identity: str, technology: str = "") -> str | None:
    if identity.startswith("InfiniBand.") or technology == "InfiniBand":
        return "infiniband"
    return "ethernet" if technology == "Ethernet" else None


def _gbps(port: dict[str, Any]) -> int | None:
    value = real(port, "CurrentSpeedGbps")
    return int(value * 1000) if value and 0 < value < 10000 else None
