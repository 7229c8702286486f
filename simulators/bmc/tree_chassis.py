"""Redfish tree of a simulated iDRAC9: Chassis, with network adapters, power supplies and cooling."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from simulators.bmc.hardware import ENCLOSURE, FANS, MODEL, PSUS, Port
from simulators.bmc.machine import Machine
from simulators.bmc.tree import CHASSIS, MANAGER, OK, OK_ROLLUP, ROOT, SYSTEM, Resource, collection, head, ref, resource
from simulators.bmc.tree_storage import NVME, STORAGE
from simulators.bmc.tree_system import gpus, health, nic_up, nics

ADAPTERS = f"{CHASSIS}/NetworkAdapters"
EMBEDDED = "NIC.Embedded.1"


def _adapters(machine: Machine) -> dict[str, list[Port]]:
    """The network cards and their ports: one Ethernet card with two ports, an InfiniBand card a slot."""
    cards = {EMBEDDED: nics(machine)}
    cards.update({port.fqdd.removesuffix("-1"): [port] for port in machine.hardware.hcas})
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
            "Processors": [ref(f"{SYSTEM}/Processors/{gpu.fqdd}") for gpu in gpus(machine)],
            "Processors@odata.count": len(gpus(machine)),
        },
        "Location": {
            "InfoFormat": "DataCenter;RoomName;Aisle;RackName;RackSlot",
            "Info": f";;;{machine.entry.get('rack', '')};{machine.entry.get('unit', '')}",
            "Placement": {"Rack": str(machine.entry.get("rack", "")), "Row": ""},
        },
        "Manufacturer": "Dell Inc.",
        "Model": MODEL,
        "NetworkAdapters": ref(ADAPTERS),
        "PartNumber": "0WMWCRA01",
        "PhysicalSecurity": {"IntrusionSensor": "Normal", "IntrusionSensorNumber": 115},
        "Power": ref(f"{CHASSIS}/Power"),
        "PowerState": machine.power,
        "SKU": machine.hardware.service_tag,
        "SerialNumber": machine.hardware.board_serial,
        "Status": health(machine),
        "Thermal": ref(f"{CHASSIS}/Thermal"),
        "UUID": machine.hardware.uuid,
    }


@resource(f"{ROOT}/Chassis/{ENCLOSURE}")
def enclosure(machine: Machine) -> Resource:
    """The backplane of the NVMe drives."""
    drives = [ref(f"{STORAGE}/{NVME}/Drives/{disk.fqdd}") for disk in machine.hardware.drives]
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


def _adapter_body(machine: Machine, name: str, ports: Iterable[Port]) -> Resource:
    path = f"{ADAPTERS}/{name}"
    infiniband = name.startswith("InfiniBand.")
    functions = [ref(f"{path}/NetworkDeviceFunctions/{port.fqdd}") for port in ports]
    links = [ref(f"{path}/NetworkPorts/{port.port}") for port in ports]
    return head(path, "NetworkAdapter", "v1_9_0", "Network Adapter View") | {
        "Controllers": [
            {
                "ControllerCapabilities": {
                    "NetworkDeviceFunctionCount": len(functions),
                    "NetworkPortCount": len(links),
                },
                "FirmwarePackageVersion": "28.39.35.60" if infiniband else "22.92.06.10",
                "Links": {
                    "NetworkDeviceFunctions": functions,
                    "NetworkDeviceFunctions@odata.count": len(functions),
                    "NetworkPorts": links,
                    "NetworkPorts@odata.count": len(links),
                },
            }
        ],
        "Controllers@odata.count": 1,
        "Manufacturer": "Mellanox Technologies" if infiniband else "Broadcom Inc. and subsidiaries",
        "Model": "NVIDIA ConnectX-7 Single Port NDR OSFP PCIe Adapter" if infiniband else None,
        "NetworkDeviceFunctions": ref(f"{path}/NetworkDeviceFunctions"),
        "NetworkPorts": ref(f"{path}/NetworkPorts"),
        "PartNumber": "0J1XDC" if infiniband else None,
        "SerialNumber": machine.hardware.serial(name, 12) if infiniband else None,
        "Status": dict(OK_ROLLUP),
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
    oem: dict[str, Any] = {"@odata.type": "#DellOem.v1_3_0.DellOemResources"}
    if infiniband:
        oem["DellInfiniBand"] = {
            "DeviceDescription": port.description,
            "FQDD": fqdd,
            "FamilyVersion": "28.39.35.60",
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
            "FamilyVersion": "22.92.06.10",
            "PCIVendorID": "14e4",
            "ProductName": f"Broadcom Adv. Dual 25Gb Ethernet - {port.mac}",
            "Protocol": "NIC",
            "VendorName": "Broadcom Corp",
        }
    path = f"{ADAPTERS}/{name}/NetworkDeviceFunctions/{fqdd}"
    return head(path, "NetworkDeviceFunction", "v1_9_0", "NetworkDeviceFunction") | {
        "AssignablePhysicalPorts": [ref(port_path)],
        "AssignablePhysicalPorts@odata.count": 1,
        "Ethernet": {"MACAddress": port.mac, "MTUSize": None, "PermanentMACAddress": port.mac, "VLAN": {}},
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
    up = machine.power == "On" if infiniband else nic_up(machine, port)
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


def _power_supply(machine: Machine, number: int, on: bool) -> Resource:
    failed = machine.fault_number("psu_failed", "psu") == number
    output = 0.0 if failed or not on else 410.0
    return {
        "@odata.context": f"{ROOT}/$metadata#Power.Power",
        "@odata.id": f"{CHASSIS}/Power#/PowerSupplies/{number - 1}",
        "@odata.type": "#Power.v1_7_1.PowerSupply",
        "FirmwareVersion": "00.1B.53",
        "HotPluggable": True,
        "LineInputVoltage": 0 if failed else 240,
        "LineInputVoltageType": "AC240V",
        "Manufacturer": "DELL",
        "MemberId": str(number - 1),
        "Model": "PWR SPLY,2800W,RDNT,LTON",
        "Name": f"PS{number} Status",
        "Oem": {
            "Dell": {
                "@odata.type": "#DellOem.v1_3_0.DellOemResources",
                "DellPowerSupply": {
                    "Id": f"PSU.Slot.{number}",
                    "OperationalStatus": ["Error" if failed else "OK"],
                },
                "DellPowerSupplyView": {
                    "DetailedState": "Presence Detected, Failure Detected" if failed else "Presence Detected",
                    "DeviceDescription": f"Power Supply {number}",
                },
            }
        },
        "PartNumber": "0D8PXKA01",
        "PowerCapacityWatts": 2800,
        "PowerInputWatts": output and output + 40.0,
        "PowerOutputWatts": output,
        "PowerSupplyType": "AC",
        "Redundancy": [ref(f"{CHASSIS}/Power#/Redundancy/0")],
        "Redundancy@odata.count": 1,
        "SerialNumber": machine.hardware.serial(f"psu{number}", 14),
        "Status": {"Health": "Critical" if failed else "OK", "State": "Enabled"},
    }


@resource(f"{CHASSIS}/Power")
def power(machine: Machine) -> Resource:
    """Power supplies and their redundancy."""
    on = machine.power == "On"
    supplies = [_power_supply(machine, number, on) for number in range(1, PSUS + 1)]
    return head(f"{CHASSIS}/Power", "Power", "v1_7_1", "Power") | {
        "PowerControl": [
            {
                "@odata.id": f"{CHASSIS}/Power#/PowerControl/0",
                "@odata.type": "#Power.v1_7_1.PowerControl",
                "MemberId": "0",
                "Name": "System Power Control",
                "PowerAllocatedWatts": 11200,
                "PowerCapacityWatts": 2800 * PSUS,
                "PowerConsumedWatts": sum(int(supply["PowerInputWatts"]) for supply in supplies) or 95,
            }
        ],
        "PowerControl@odata.count": 1,
        "PowerSupplies": supplies,
        "PowerSupplies@odata.count": len(supplies),
        "Redundancy": [
            {
                "@odata.id": f"{CHASSIS}/Power#/Redundancy/0",
                "@odata.type": "#Redundancy.v1_4_0.Redundancy",
                "MaxNumSupported": PSUS,
                "MemberId": "0",
                "MinNumNeeded": 3,
                "Mode": "N+m",
                "Name": "System Board PS Redundancy",
                "RedundancySet": [ref(supply["@odata.id"]) for supply in supplies],
                "RedundancySet@odata.count": len(supplies),
                "Status": {"Health": "Critical", "State": "Enabled"} if machine.has("psu_failed") else dict(OK),
            }
        ],
        "Redundancy@odata.count": 1,
    }


@resource(f"{CHASSIS}/Thermal")
def thermal(machine: Machine) -> Resource:
    """Fans and temperatures; with the power off, fans stand still and the CPUs say nothing."""
    on = machine.power == "On"
    fans = [
        {
            "@odata.id": f"{CHASSIS}/Thermal#/Fans/{number}",
            "@odata.type": "#Thermal.v1_7_1.Fan",
            "FanName": f"System Board Fan{number + 1}",
            "HotPluggable": True,
            "LowerThresholdCritical": 480,
            "MemberId": str(number),
            "Name": f"System Board Fan{number + 1}",
            "PhysicalContext": "SystemBoard",
            "Reading": 9600 if on else 0,
            "ReadingUnits": "RPM",
            "Status": dict(OK) if on else {"Health": None, "State": "Disabled"},
        }
        for number in range(FANS)
    ]
    readings = {"System Board Inlet Temp": 23, "System Board Exhaust Temp": 38}
    if on:
        readings |= {"CPU1 Temp": 51, "CPU2 Temp": 53}
    temperatures = [
        {
            "@odata.id": f"{CHASSIS}/Thermal#/Temperatures/{number}",
            "@odata.type": "#Thermal.v1_7_1.Temperature",
            "MemberId": str(number),
            "Name": name,
            "ReadingCelsius": reading,
            "Status": dict(OK),
            "UpperThresholdCritical": 100 if name.startswith("CPU") else 75,
            "UpperThresholdNonCritical": 95 if name.startswith("CPU") else 70,
        }
        for number, (name, reading) in enumerate(readings.items())
    ]
    return head(f"{CHASSIS}/Thermal", "Thermal", "v1_7_1", "Thermal") | {
        "Fans": fans,
        "Fans@odata.count": len(fans),
        "Temperatures": temperatures,
        "Temperatures@odata.count": len(temperatures),
    }
