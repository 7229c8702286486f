"""Redfish tree of a simulated iDRAC9: Chassis, with network adapters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from simulators.bmc import parts, tree_pcie
from simulators.bmc.hardware import ENCLOSURE, Port
from simulators.bmc.machine import Machine
from simulators.bmc.tree import CHASSIS, MANAGER, OK_ROLLUP, ROOT, SYSTEM, Resource, collection, head, ref, resource
from simulators.bmc.tree_storage import NVME, STORAGE

ADAPTERS = f"{CHASSIS}/NetworkAdapters"
EMBEDDED = "NIC.Embedded.1"


def _adapters(machine: Machine) -> dict[str, list[Port]]:
    """The network cards and their ports: one Ethernet card with two ports, an InfiniBand card a slot."""
    cards = {EMBEDDED: parts.nics(machine)}
    cards.update({port.fqdd.removesuffix("-1"): [port] for _, port in parts.hcas(machine)})
    return cards


def _port(machine: Machine, adapter: str, attribute: str, value: str) -> Port | None:
    ports = _adapters(machine).get(adapter, [])
    return next((port for port in ports if getattr(port, attribute) == value), None)


@resource(f"{ROOT}/Chassis")
def chassis_collection(machine: Machine) -> Resource:
    """The server and the enclosure of its drives."""
    ids = ["System.Embedded.1", ENCLOSURE]
    return collection(machine, f"{ROOT}/Chassis", "Chassis", "Collection of Chassis", ids)


@resource(CHASSIS)
def chassis(machine: Machine) -> Resource:
    """The server's body."""
    return head(CHASSIS, "Chassis", "v1_23_0", "Computer System Chassis") | {
        "AssetTag": machine.asset_tag,
        "ChassisType": "RackMount",
        "Links": {
            "ComputerSystems": [ref(SYSTEM)],
            "ComputerSystems@odata.count": 1,
            "Contains": [ref(f"{ROOT}/Chassis/{ENCLOSURE}")],
            "Contains@odata.count": 1,
            "ManagedBy": [ref(MANAGER)],
            "ManagedBy@odata.count": 1,
            "Processors": [ref(f"{SYSTEM}/Processors/{gpu.fqdd}") for gpu in parts.gpus(machine)],
            "Processors@odata.count": len(parts.gpus(machine)),
        },
        "Location": {
            "InfoFormat": "DataCenter;RoomName;Aisle;RackName;RackSlot",
            "Info": f";;;{machine.entry.get('rack', '')};{machine.entry.get('unit', '')}",
            "Placement": {"Rack": str(machine.entry.get("rack", "")), "Row": ""},
        },
        "Manufacturer": "Dell Inc.",
        "Model": parts.model(machine),
        "NetworkAdapters": ref(ADAPTERS),
        "PCIeDevices": ref(f"{CHASSIS}/PCIeDevices"),
        "PartNumber": "0WMWCRA01",
        "PhysicalSecurity": {"IntrusionSensor": parts.intrusion(machine), "IntrusionSensorNumber": 115},
        "Power": ref(f"{CHASSIS}/Power"),
        "PowerState": machine.power,
        "SKU": parts.service_tag(machine),
        "SerialNumber": machine.hardware.board_serial,
        "Status": parts.health(machine),
        "Thermal": ref(f"{CHASSIS}/Thermal"),
        "UUID": machine.hardware.uuid,
    }


@resource(f"{ROOT}/Chassis/{ENCLOSURE}")
def enclosure(machine: Machine) -> Resource:
    """The backplane of the NVMe drives."""
    drives = [ref(f"{STORAGE}/{NVME}/Drives/{disk.fqdd}") for disk in parts.drives(machine)]
    return head(f"{ROOT}/Chassis/{ENCLOSURE}", "Chassis", "v1_23_0", "PCIe SSD Backplane 1") | {
        "ChassisType": "Enclosure",
        "Links": {
            "ContainedBy": ref(CHASSIS),
            "Drives": drives,
            "Drives@odata.count": len(drives),
        },
        "Manufacturer": "DELL",
        "Model": "PCIe SSD Backplane 1",
        "PowerState": machine.power,
        "Status": dict(OK_ROLLUP),
    }


def _hca_number(machine: Machine, name: str) -> int | None:
    """The number of an InfiniBand adapter, counted from 0; None for an Ethernet card."""
    return next((number for number, port in parts.hcas(machine) if port.fqdd == f"{name}-1"), None)


def _adapter_body(machine: Machine, name: str, ports: Iterable[Port]) -> Resource:
    path = f"{ADAPTERS}/{name}"
    infiniband = name.startswith("InfiniBand.")
    functions = [ref(f"{path}/NetworkDeviceFunctions/{port.fqdd}") for port in ports]
    links = [ref(f"{path}/NetworkPorts/{port.port}") for port in ports]
    firmware = parts.version(machine, "hca" if infiniband else "nic")
    number = _hca_number(machine, name)
    status = dict(OK_ROLLUP) if number is None else parts.hca_status(machine, number)
    controller: Resource = {
        "ControllerCapabilities": {
            "NetworkDeviceFunctionCount": len(functions),
            "NetworkPortCount": len(links),
        },
        "FirmwarePackageVersion": firmware,
        "Links": {
            "NetworkDeviceFunctions": functions,
            "NetworkDeviceFunctions@odata.count": len(functions),
            "NetworkPorts": links,
            "NetworkPorts@odata.count": len(links),
        },
    }
    for device in tree_pcie.devices(machine) if number is not None else ():
        if device.link[1].startswith(f"{path}/"):
            controller["PCIeInterface"] = tree_pcie.interface(device)
            controller["Links"]["PCIeDevices"] = [ref(f"{tree_pcie.DEVICES}/{device.id}")]
    return head(path, "NetworkAdapter", "v1_9_0", "Network Adapter View") | {
        "Controllers": [controller],
        "Controllers@odata.count": 1,
        "Manufacturer": "Mellanox Technologies" if infiniband else "Broadcom Inc. and subsidiaries",
        "Model": "NVIDIA ConnectX-7 Single Port NDR OSFP PCIe Adapter" if infiniband else None,
        "NetworkDeviceFunctions": ref(f"{path}/NetworkDeviceFunctions"),
        "NetworkPorts": ref(f"{path}/NetworkPorts"),
        "PartNumber": "0J1XDC" if infiniband else None,
        "SerialNumber": machine.hardware.serial(name, 12) if infiniband else None,
        "Status": status,
    }


@resource(ADAPTERS)
def adapters(machine: Machine) -> Resource:
    """The network cards."""
    return collection(machine, ADAPTERS, "NetworkAdapter", "Network Adapter Collection", _adapters(machine))


@resource(f"{ADAPTERS}/*")
def adapter(machine: Machine, name: str) -> Resource | None:
    """One network card."""
    cards = _adapters(machine)
    return _adapter_body(machine, name, cards[name]) if name in cards else None


@resource(f"{ADAPTERS}/*/NetworkDeviceFunctions")
def functions(machine: Machine, name: str) -> Resource | None:
    """The functions of a card."""
    cards = _adapters(machine)
    if name not in cards:
        return None
    path = f"{ADAPTERS}/{name}/NetworkDeviceFunctions"
    ids = [port.fqdd for port in cards[name]]
    return collection(machine, path, "NetworkDeviceFunction", "Network Device Function Collection", ids)


@resource(f"{ADAPTERS}/*/NetworkDeviceFunctions/*")
def function(machine: Machine, name: str, fqdd: str) -> Resource | None:
    """One function. That of an InfiniBand port carries an Ethernet MAC and no type, as on a Dell."""
    port = _port(machine, name, "fqdd", fqdd)
    if port is None:
        return None
    infiniband = fqdd.startswith("InfiniBand.")
    port_path = f"{ADAPTERS}/{name}/NetworkPorts/{port.port}"
    address = None if machine.has("odd_macs") and not infiniband else port.mac
    oem: dict[str, Any] = {"@odata.type": "#DellOem.v1_3_0.DellOemResources"}
    if infiniband:
        oem["DellInfiniBand"] = {
            "DeviceDescription": port.description,
            "FQDD": fqdd,
            "FamilyVersion": parts.version(machine, "hca"),
            "PCIDeviceID": "1021",
            "PCIVendorID": "15b3",
            "PermanentPortGUID": "",
            "ProductName": "NVIDIA ConnectX-7 Single Port NDR OSFP PCIe Adapter",
            "Protocol": "RDMA,InfiniBand",
            "VendorName": "Mellanox Technologies, Inc.",
        }
    else:
        oem["DellNIC"] = {
            "DeviceDescription": port.description,
            "FQDD": fqdd,
            "FamilyVersion": parts.version(machine, "nic"),
            "PCIVendorID": "14e4",
            "ProductName": f"Broadcom Adv. Dual 25Gb Ethernet - {port.mac}",
            "Protocol": "NIC",
            "VendorName": "Broadcom Corp",
        }
    path = f"{ADAPTERS}/{name}/NetworkDeviceFunctions/{fqdd}"
    return head(path, "NetworkDeviceFunction", "v1_9_0", "NetworkDeviceFunction") | {
        "AssignablePhysicalPorts": [ref(port_path)],
        "AssignablePhysicalPorts@odata.count": 1,
        "Ethernet": {"MACAddress": address, "MTUSize": None, "PermanentMACAddress": address, "VLAN": {}},
        "FibreChannel": {},
        "Links": {"PhysicalPortAssignment": ref(port_path)},
        "NetDevFuncCapabilities": [] if infiniband else ["Disabled", "Ethernet"],
        "NetDevFuncType": None if infiniband else "Ethernet",
        "Oem": {"Dell": oem},
        "Status": dict(OK_ROLLUP),
    }


@resource(f"{ADAPTERS}/*/NetworkPorts")
def ports(machine: Machine, name: str) -> Resource | None:
    """The ports of a card."""
    cards = _adapters(machine)
    if name not in cards:
        return None
    ids = [port.port for port in cards[name]]
    return collection(machine, f"{ADAPTERS}/{name}/NetworkPorts", "NetworkPort", "Network Port Collection", ids)


@resource(f"{ADAPTERS}/*/NetworkPorts/*")
def network_port(machine: Machine, name: str, port_id: str) -> Resource | None:
    """One port. InfiniBand ports have link only while the server is on."""
    port = _port(machine, name, "port", port_id)
    if port is None:
        return None
    infiniband = port_id.startswith("InfiniBand.")
    number = _hca_number(machine, name)
    up = parts.nic_up(machine, port) if number is None else parts.hca_up(machine, number)
    addresses: list[str | None] = [None] if machine.has("half_answering") else [port.mac]
    return head(f"{ADAPTERS}/{name}/NetworkPorts/{port_id}", "NetworkPort", "v1_4_1", "Network Port View") | {
        "ActiveLinkTechnology": "InfiniBand" if infiniband else "Ethernet",
        "AssociatedNetworkAddresses": addresses,
        "CurrentLinkSpeedMbps": None if infiniband else (25000 if up else 0),
        "LinkStatus": "Up" if up else "Down",
        "PhysicalPortNumber": "1",
        "Status": dict(OK_ROLLUP),
        "SupportedLinkCapabilities": [
            {
                "AutoSpeedNegotiation": None if infiniband else True,
                "LinkNetworkTechnology": "InfiniBand" if infiniband else "Ethernet",
                "LinkSpeedMbps": None if infiniband else 25000,
            }
        ],
        "SupportedLinkCapabilities@odata.count": 1,
        "VendorId": "15b3" if infiniband else "14e4",
    }


@resource(f"{SYSTEM}/NetworkInterfaces")
def network_interfaces(machine: Machine) -> Resource:
    """The system's links to the network cards."""
    path = f"{SYSTEM}/NetworkInterfaces"
    return collection(machine, path, "NetworkInterface", "Collection of Network Interfaces", _adapters(machine))


@resource(f"{SYSTEM}/NetworkInterfaces/*")
def network_interface(machine: Machine, name: str) -> Resource | None:
    """The system's link to one network card."""
    if name not in _adapters(machine):
        return None
    path = f"{SYSTEM}/NetworkInterfaces/{name}"
    return head(path, "NetworkInterface", "v1_2_2", "Network Device View") | {
        "Links": {"NetworkAdapter": ref(f"{ADAPTERS}/{name}")},
        "NetworkDeviceFunctions": ref(f"{ADAPTERS}/{name}/NetworkDeviceFunctions"),
        "NetworkPorts": ref(f"{ADAPTERS}/{name}/NetworkPorts"),
        "Status": dict(OK_ROLLUP),
    }
