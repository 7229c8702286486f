"""From a Redfish tree to one Hardware. Pure; what is missing, null or of the wrong type is left out, nothing raises."""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection, Mapping
from typing import Any

from . import dell
from .hardware import Drive, Gpu, Hardware, Nic, Psu
from .values import dig, health, link, mac, moment, number, rows, state, text

ROOT = "/redfish/v1"

# The BMC's own and the USB NIC between BMC and host; a USB NIC can have the same MAC on every machine.
_NOT_THE_HOSTS = re.compile(r"tomanager|tohost|usb|^idrac|^bmc|host network interface|virtual", re.IGNORECASE)
_LINKS = {"linkup": "up", "up": "up", "linkdown": "down", "down": "down", "nolink": "down"}


def normalise(
    tree: Mapping[str, Any], clock_read_at: datetime.datetime | None = None, unread: Collection[str] = ()
) -> Hardware:
    """Hardware from fetched resources (path -> JSON object).

    clock_read_at: our time when the manager's clock was read. unread: parts that could not be wholly read.
    """
    root = _resource(tree, ROOT)
    systems = _members(tree, link(root, "Systems") or f"{ROOT}/Systems")
    system = next((s for s in systems if text(s, "SystemType") in ("Physical", "")), systems[0] if systems else {})
    chassis = _resource(tree, link(system, "Links", "Chassis", 0))
    managers = _members(tree, link(root, "Managers") or f"{ROOT}/Managers")
    manager = managers[0] if managers else {}
    is_dell = dell.is_dell(system)
    adapters = _members(tree, link(chassis, "NetworkAdapters"))
    return Hardware(
        vendor=text(system, "Manufacturer"),
        model=text(system, "Model"),
        service_tag=dell.service_tag(system) if is_dell else text(system, "SerialNumber"),
        board_serial=text(system, "SerialNumber"),
        power_state=text(system, "PowerState"),
        memory_gib=_gib(dig(system, "MemorySummary", "TotalSystemMemoryGiB")),
        cpus=number(system, "ProcessorSummary", "Count"),
        nics=_nics(tree, _members(tree, link(system, "EthernetInterfaces")), adapters),
        gpus=_gpus(_members(tree, link(system, "Processors"))),
        drives=_drives(tree, _members(tree, link(system, "Storage"))),
        psus=_psus(tree, chassis),
        firmware=_firmware(tree, root, system, manager),
        bios=_bios(_resource(tree, link(system, "Bios"))),
        inventory_time=(dell.inventory_time(system) or None) if is_dell else None,
        bmc_clock_skew_seconds=_skew(manager, clock_read_at),
        unread=sorted(unread),
    )


def _resource(tree: Mapping[str, Any], path: str) -> dict[str, Any]:
    found = tree.get(path.rstrip("/")) if path else None
    return found if isinstance(found, dict) else {}


def _members(tree: Mapping[str, Any], path: str) -> list[dict[str, Any]]:
    """The members of a collection that were read; inline ones (an unflattened $expand) too."""
    found = []
    for entry in rows(_resource(tree, path), "Members"):
        member = _resource(tree, link(entry)) or (entry if len(entry) > 1 else {})
        if member:
            found.append(member)
    return found


def _gib(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e7:
        return None
    return float(value)


def _skew(manager: dict[str, Any], read_at: datetime.datetime | None) -> int | None:
    theirs = moment(manager.get("DateTime"))
    return round((theirs - read_at).total_seconds()) if theirs and read_at else None


class _Nics:
    """NICs by id, put together from places of which each can be empty while another is filled."""

    def __init__(self) -> None:
        self.known: dict[str, dict[str, Any]] = {}

    def add(self, identity: str, adapter: str = "", **found: Any) -> None:
        """What one place says of one NIC; what another place said before stays."""
        if not identity or _NOT_THE_HOSTS.search(identity):
            return
        address = found.get("mac")
        if identity not in self.known and address:
            same = [k for k, nic in self.known.items() if nic.get("mac") == address]
            identity = same[0] if same else identity
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

    def of_port(self, port: str) -> list[str]:
        """The NICs on a Dell port: itself and its partitions."""
        return [k for k in self.known if k == port or k.startswith(f"{port}-")]


def _nics(tree: Mapping[str, Any], interfaces: list[dict[str, Any]], adapters: list[dict[str, Any]]) -> list[Nic]:
    nics = _Nics()
    for interface in interfaces:
        words = (text(interface, "Id"), text(interface, "Description"), text(interface, "EthernetInterfaceType"))
        if any(_NOT_THE_HOSTS.search(word) for word in words):
            continue
        nics.add(
            words[0],
            mac=mac(interface.get("MACAddress")) or mac(interface.get("PermanentMACAddress")),
            link=_link_state(interface),
            speed_mbps=number(interface, "SpeedMbps") or None,
            kind=_kind(words[0]),
        )
    for adapter in adapters:
        name = text(adapter, "Id")
        for function in _members(tree, link(adapter, "NetworkDeviceFunctions")):
            ethernet = dig(function, "Ethernet")
            nics.add(
                _nic_id(name, text(function, "Id")),
                adapter=name,
                mac=mac(dig(ethernet, "MACAddress")) or mac(dig(ethernet, "PermanentMACAddress")),
                kind=_kind(text(function, "Id"), text(function, "NetDevFuncType")),
            )
        ports = _members(tree, link(adapter, "NetworkPorts")) or _members(tree, link(adapter, "Ports"))
        for port in ports:
            _add_port(nics, name, port)
    made = []
    for identity, nic in nics.known.items():
        if nic.get("mac") or dell.fqdd(identity):
            made.append(Nic(id=identity, **{k: v for k, v in nic.items() if v is not None}))
    return sorted(made, key=lambda nic: _natural(nic.id))


def _add_port(nics: _Nics, adapter: str, port: dict[str, Any]) -> None:
    identity = text(port, "Id")
    found = {
        "mac": _port_mac(port),
        "link": _link_state(port),
        "speed_mbps": number(port, "CurrentLinkSpeedMbps") or _gbps(dig(port, "CurrentSpeedGbps")),
        "kind": _kind(identity, text(port, "ActiveLinkTechnology") or text(port, "LinkNetworkTechnology")),
        "port": text(port, "PhysicalPortNumber"),
    }
    if not dell.fqdd(identity):
        nics.add(_nic_id(adapter, identity), adapter=adapter, **found)
        return
    partitions = nics.of_port(identity)
    if len(partitions) > 1:
        found["mac"] = None  # one address of the port does not tell which partition's it is
    for nic in partitions or [identity]:
        nics.add(nic, adapter=adapter, **found)


def _nic_id(adapter: str, identity: str) -> str:
    """The FQDD where there is one; elsewhere two adapters can both have a port "1"."""
    return identity if dell.fqdd(identity) or not identity else f"{adapter}/{identity}"


def _port_mac(port: dict[str, Any]) -> str | None:
    for place in (("AssociatedNetworkAddresses",), ("Ethernet", "AssociatedMACAddresses")):
        listed = dig(port, *place)
        for address in listed if isinstance(listed, list) else []:
            if mac(address):
                return mac(address)
    return mac(dig(port, "Oem", "Lenovo", "PhysicalPortMacAddress"))


def _link_state(node: dict[str, Any]) -> str | None:
    return _LINKS.get(text(node, "LinkStatus").lower())


def _kind(identity: str, technology: str = "") -> str | None:
    if identity.startswith("InfiniBand.") or technology == "InfiniBand":
        return "infiniband"
    return "ethernet" if technology == "Ethernet" else None


def _gbps(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 10000:
        return None
    return int(value * 1000)


def _gpus(processors: list[dict[str, Any]]) -> list[Gpu]:
    gpus = [
        Gpu(text(p, "Id"), text(p, "Model"), text(p, "SerialNumber"), health(p), state(p))
        for p in processors
        if text(p, "ProcessorType") == "GPU" and text(p, "Id") and state(p) != "Absent"
    ]
    return sorted(gpus, key=lambda gpu: _natural(gpu.id))


def _drives(tree: Mapping[str, Any], controllers: list[dict[str, Any]]) -> list[Drive]:
    drives: dict[str, Drive] = {}
    for controller in controllers:
        for entry in rows(controller, "Drives"):
            drive = _resource(tree, link(entry)) or (entry if len(entry) > 1 else {})
            identity = text(drive, "Id")
            if not identity or state(drive) == "Absent":
                continue
            left = number(drive, "PredictedMediaLifeLeftPercent")
            drives[link(drive) or identity] = Drive(
                id=identity,
                name=text(drive, "Name"),
                model=text(drive, "Model"),
                serial=text(drive, "SerialNumber"),
                size_bytes=number(drive, "CapacityBytes") or 0,
                protocol=_protocol(drive),
                controller=text(controller, "Id"),
                bay=_bay(drive),
                wear=100 - left if left is not None and left <= 100 else None,
                health=health(drive),
                state=state(drive),
                failure_predicted=drive.get("FailurePredicted") is True,
            )
    return sorted(drives.values(), key=lambda drive: _natural(drive.id))


def _protocol(drive: dict[str, Any]) -> str:
    """Dell calls an NVMe drive's protocol PCIe, and says NVMe elsewhere."""
    told = text(drive, "Protocol")
    device = text(drive, "Oem", "Dell", "DellPCIeSSD", "DeviceProtocol")
    return "NVMe" if told in ("NVMe", "PCIe") or device.startswith("NVMe") else told


def _bay(drive: dict[str, Any]) -> int | None:
    match = re.match(r"^Disk\.(?:Bay|Direct)\.(\d{1,3})", text(drive, "Id"))
    return int(match[1]) if match else number(drive, "PhysicalLocation", "PartLocation", "LocationOrdinalValue")


def _psus(tree: Mapping[str, Any], chassis: dict[str, Any]) -> list[Psu]:
    below = link(chassis, "PowerSubsystem").rstrip("/")
    told = _members(tree, f"{below}/PowerSupplies") if below else []
    told = told or rows(_resource(tree, link(chassis, "Power")), "PowerSupplies")
    psus = []
    for number_, supply in enumerate(told, 1):
        name = text(supply, "Oem", "Dell", "DellPowerSupply", "Id") or text(supply, "Id")
        if state(supply) == "Absent":
            continue
        psus.append(
            Psu(
                id=name or f"PSU {text(supply, 'MemberId') or number_}",
                health=health(supply),
                state=state(supply),
                watts=number(supply, "PowerCapacityWatts"),
            )
        )
    return sorted(psus, key=lambda psu: _natural(psu.id))


def _firmware(
    tree: Mapping[str, Any], root: dict[str, Any], system: dict[str, Any], manager: dict[str, Any]
) -> dict[str, str]:
    """Versions by component: "bios", "bmc", and each entry of the inventory by its id (Dell: by its FQDD)."""
    found = {"bios": text(system, "BiosVersion"), "bmc": text(manager, "FirmwareVersion")}
    updates = link(root, "UpdateService").rstrip("/")
    for entry in _members(tree, f"{updates}/FirmwareInventory") if updates else []:
        identity = text(entry, "Id")
        component = dell.firmware_component(identity) if dell.is_dell(system) else identity
        if component:
            found[component] = text(entry, "Version")
    return {component: version for component, version in sorted(found.items()) if version}


def _bios(bios: dict[str, Any]) -> dict[str, str]:
    attributes = dig(bios, "Attributes")
    if not isinstance(attributes, dict):
        return {}
    names = sorted(n for n in attributes if isinstance(n, str) and dell.BIOS_ATTRIBUTES.match(n))
    return {name: text(attributes, name) for name in names if text(attributes, name)}


def _natural(identity: str) -> list[tuple[int, str]]:
    """So that slot 9 comes before slot 10."""
    return [(int(part[:9]), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", identity)]
