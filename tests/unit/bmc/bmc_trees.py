"""Synthesised Redfish trees: what BMCs answer, made up here in the shapes that their vendors use. No real machine."""

from __future__ import annotations

import datetime
from typing import Any

Tree = dict[str, Any]

V1 = "/redfish/v1"
SYSTEM = f"{V1}/Systems/System.Embedded.1"
CHASSIS = f"{V1}/Chassis/System.Embedded.1"
MANAGER = f"{V1}/Managers/iDRAC.Embedded.1"
ADAPTERS = f"{CHASSIS}/NetworkAdapters"
PXE_NIC = "NIC.Embedded.1-1-1"
OK = {"Health": "OK", "State": "Enabled"}
NOW = datetime.datetime(2026, 11, 1, 12, 0, 0, tzinfo=datetime.UTC)


def ref(path: str) -> dict[str, str]:
    return {"@odata.id": path}


def put(tree: Tree, path: str, **body: Any) -> None:
    """One resource with its id."""
    tree[path] = {"@odata.id": path, "Id": path.rsplit("/", 1)[1], **body}


def collect(tree: Tree, path: str, members: dict[str, dict[str, Any]]) -> None:
    """A collection and its members."""
    for name, body in members.items():
        put(tree, f"{path}/{name}", **body)
    tree[path] = {"@odata.id": path, "Members": [ref(f"{path}/{name}") for name in members]}


def xe9680(number: int = 1) -> Tree:
    """An iDRAC9 in front of 8 GPUs, 8 InfiniBand adapters, 2 Ethernet ports, 8 NVMe drives, BOSS, 6 PSUs."""
    tree: Tree = {}
    tree[V1] = {
        "@odata.id": V1,
        "Systems": ref(f"{V1}/Systems"),
        "Managers": ref(f"{V1}/Managers"),
        "UpdateService": ref(f"{V1}/UpdateService"),
        "Links": {"Sessions": ref(f"{V1}/SessionService/Sessions")},
        "Vendor": "Dell",
    }
    system = {
        "Manufacturer": "Dell Inc.",
        "Model": "PowerEdge XE9680",
        "SKU": f"SYN{number:04d}",
        "SerialNumber": f"BOARD{number:04d}",
        "SystemType": "Physical",
        "PowerState": "On",
        "BiosVersion": "2.1.0",
        "MemorySummary": {"TotalSystemMemoryGiB": 2048},
        "ProcessorSummary": {"Count": 2},
        "Links": {"Chassis": [ref(CHASSIS)]},
        "EthernetInterfaces": ref(f"{SYSTEM}/EthernetInterfaces"),
        "Processors": ref(f"{SYSTEM}/Processors"),
        "Storage": ref(f"{SYSTEM}/Storage"),
        "Memory": ref(f"{SYSTEM}/Memory"),
        "Bios": ref(f"{SYSTEM}/Bios"),
        "Boot": {"BootOrder": ["Boot0001", "Boot0000"], "BootOptions": ref(f"{SYSTEM}/BootOptions")},
        "Oem": {"Dell": {"DellSystem": {"LastSystemInventoryTime": "2026-10-30T00:00:00+00:00"}}},
    }
    collect(tree, f"{V1}/Systems", {"System.Embedded.1": system})
    clock = {
        "DateTime": "2026-11-01T07:00:02-05:00",
        "FirmwareVersion": "7.10.0.0",
        "Model": "16G Monolithic",
        "LogServices": ref(f"{MANAGER}/LogServices"),
    }
    collect(tree, f"{V1}/Managers", {"iDRAC.Embedded.1": clock})
    put(
        tree,
        CHASSIS,
        NetworkAdapters=ref(ADAPTERS),
        PowerSubsystem=ref(f"{CHASSIS}/PowerSubsystem"),
        Thermal=ref(f"{CHASSIS}/Thermal"),
        PCIeDevices=ref(f"{CHASSIS}/PCIeDevices"),
        PhysicalSecurity={"IntrusionSensor": "Normal"},
    )
    _network(tree, number)
    gpus = {f"Video.Slot.{slot}-1": _gpu(number, slot) for slot in range(21, 29)}
    cpus = {f"CPU.Socket.{socket}": {"ProcessorType": "CPU", "Status": OK} for socket in (1, 2)}
    collect(tree, f"{SYSTEM}/Processors", cpus | gpus)
    _storage(tree, number)
    psus = {f"PSU.Slot.{n}": {"PowerCapacityWatts": 2800, "Status": dict(OK)} for n in range(1, 7)}
    collect(tree, f"{CHASSIS}/PowerSubsystem/PowerSupplies", psus)
    redundancy = [{"RedundancyType": "NPlusM", "Status": dict(OK)}]
    supplies = ref(f"{CHASSIS}/PowerSubsystem/PowerSupplies")
    put(tree, f"{CHASSIS}/PowerSubsystem", PowerSupplies=supplies, PowerSupplyRedundancy=redundancy)
    _cooling(tree)
    _memory(tree, number)
    _pcie(tree, number)
    _logs(tree)
    attributes = {
        "BootMode": "Uefi",
        "PxeDev1EnDis": "Enabled",
        "PxeDev1Interface": PXE_NIC,
        "PxeDev2EnDis": "Disabled",
        "SriovGlobalEnable": "Enabled",
        "SysProfile": "PerfOptimized",
    }
    put(tree, f"{SYSTEM}/Bios", Attributes=attributes | {"SomethingElse": "x", "NumCores": 56})
    firmware = {
        "Installed-1-2.1.0__BIOS.Setup.1-1": {"Version": "2.1.0"},
        "Installed-2-7.10.0.0__iDRAC.Embedded.1-1": {"Version": "7.10.0.0"},
        "Installed-0-28.39.1__InfiniBand.Slot.31-1": {"Version": "28.39.1"},
        "Previous-1-1.9.9__BIOS.Setup.1-1": {"Version": "1.9.9"},
        "Current-1-2.1.0__BIOS.Setup.1-1": {"Version": "2.1.0"},
    }
    collect(tree, f"{V1}/UpdateService/FirmwareInventory", firmware)
    return tree


def _network(tree: Tree, number: int) -> None:
    interfaces = {
        f"NIC.Embedded.{port}-1-1": {
            "MACAddress": f"02:AA:00:00:{number:02X}:0{port}",
            "LinkStatus": "LinkUp",
            "SpeedMbps": 25000,
            "Description": f"Embedded NIC {port} Port 1 Partition 1",
        }
        for port in (1, 2)
    }
    collect(tree, f"{SYSTEM}/EthernetInterfaces", interfaces)
    adapters: dict[str, dict[str, Any]] = {"NIC.Embedded.1": {}}
    for slot in range(31, 39):
        name = f"InfiniBand.Slot.{slot}"
        adapters[name] = {
            "SerialNumber": f"H{number:04d}{slot}",
            "NetworkPorts": ref(f"{ADAPTERS}/{name}/NetworkPorts"),
            "NetworkDeviceFunctions": ref(f"{ADAPTERS}/{name}/NetworkDeviceFunctions"),
            "Controllers": [{"ControllerCapabilities": {"NetworkDeviceFunctionCount": 1}}],
        }
        address = f"02:BB:00:00:{number:02X}:{slot:02X}"
        port = {"LinkStatus": "Up", "ActiveLinkTechnology": "InfiniBand", "AssociatedNetworkAddresses": [address]}
        function = {"Ethernet": {"MACAddress": address}, "NetDevFuncType": None}
        collect(tree, f"{ADAPTERS}/{name}/NetworkPorts", {f"{name}-1": port})
        collect(tree, f"{ADAPTERS}/{name}/NetworkDeviceFunctions", {f"{name}-1": function})
    collect(tree, ADAPTERS, adapters)


def _cooling(tree: Tree) -> None:
    fans = [
        {"Name": f"System Board Fan{n}", "Reading": 9000, "ReadingUnits": "RPM", "MaxReadingRange": 18000, "Status": OK}
        for n in range(1, 17)
    ]
    temperatures = [
        {"Name": name, "ReadingCelsius": now, "UpperThresholdCritical": high, "PhysicalContext": where, "Status": OK}
        for name, now, high, where in (("Inlet", 23, 42, "Intake"), ("CPU1", 50, 99, "CPU"), ("GPU1", 40, 90, "GPU"))
    ]
    put(tree, f"{CHASSIS}/Thermal", Fans=fans, Temperatures=temperatures)


def _memory(tree: Tree, number: int) -> None:
    dimms = {
        f"DIMM.Socket.{bank}{n}": {
            "CapacityMiB": 65536,
            "OperatingSpeedMhz": 4800,
            "SerialNumber": f"M{number:04d}{bank}{n}",
            "Status": dict(OK),
        }
        for bank in "AB"
        for n in range(1, 17)
    }
    collect(tree, f"{SYSTEM}/Memory", dimms)


def _pcie(tree: Tree, number: int) -> None:
    interface = {"LanesInUse": 16, "MaxLanes": 16, "PCIeType": "Gen5", "MaxPCIeType": "Gen5"}
    devices = {
        f"{slot}-0": {"Manufacturer": "NVIDIA Corporation", "PCIeInterface": interface} for slot in range(21, 29)
    }
    devices |= {
        f"{slot}-0": {"Manufacturer": "Mellanox", "SerialNumber": f"H{number:04d}{slot}", "PCIeInterface": interface}
        for slot in range(31, 39)
    }
    collect(tree, f"{CHASSIS}/PCIeDevices", devices)


def _logs(tree: Tree) -> None:
    logs = f"{MANAGER}/LogServices"
    services = {name: {"Entries": ref(f"{logs}/{name}/Entries")} for name in ("Sel", "Lclog")}
    collect(tree, logs, services)
    for name, message, severity, when in (
        ("Sel", "The power input for power supply 1 is restored.", "OK", "2026-10-30T06:00:00-05:00"),
        ("Lclog", "The chassis was opened long ago.", "Critical", "2025-01-01T00:00:00-05:00"),
    ):
        entry = {"Message": message, "Severity": severity, "Created": when, "MessageId": "IDRAC.2.8.PSU0033"}
        collect(tree, f"{logs}/{name}/Entries", {"1": entry})


def _gpu(number: int, slot: int) -> dict[str, Any]:
    return {
        "Links": {"PCIeDevice": ref(f"{CHASSIS}/PCIeDevices/{slot}-0")},
        "ProcessorType": "GPU",
        "Model": "NVIDIA H100 80GB HBM3",
        "SerialNumber": f"G{number:04d}{slot}",
        "Status": dict(OK),
    }


def _storage(tree: Tree, number: int) -> None:
    controllers: dict[str, dict[str, Any]] = {}
    layout = {
        "CPU.1": [f"Disk.Bay.{bay}:Enclosure.Internal.0-1" for bay in range(8)],
        "BOSS.SL.12-1": [f"Disk.Direct.{n}-{n}:BOSS.SL.12-1" for n in range(2)],
    }
    for controller, names in layout.items():
        path = f"{SYSTEM}/Storage/{controller}"
        for name in names:
            put(
                tree,
                f"{path}/Drives/{name}",
                Protocol="PCIe" if controller == "CPU.1" else "SATA",
                CapacityBytes=3_840_000_000_000 if controller == "CPU.1" else 480_000_000_000,
                Model="Synthetic drive",
                SerialNumber=f"D{number:04d}{name[5:12]}",
                PredictedMediaLifeLeftPercent=97,
                FailurePredicted=False,
                Status=dict(OK),
            )
        controllers[controller] = {"Drives": [ref(f"{path}/Drives/{name}") for name in names]}
    collect(tree, f"{SYSTEM}/Storage", controllers)


def without(tree: Tree, collection: str, name: str) -> Tree:
    """The same tree, without one member of a collection."""
    path = f"{collection}/{name}"
    members = [m for m in tree[collection]["Members"] if m["@odata.id"] != path]
    assert len(members) < len(tree[collection]["Members"]), f"{path} is not there to be removed"
    return {k: v for k, v in tree.items() if k != path} | {collection: tree[collection] | {"Members": members}}


def changed(tree: Tree, path: str, **values: Any) -> Tree:
    """The same tree, with other values in one resource."""
    return tree | {path: tree[path] | values}


def lenovo() -> Tree:
    """An XCC: no EthernetInterfaces, MACs at the ports only, two adapters that both have a port 1, legacy Power."""
    tree: Tree = {}
    system, chassis = f"{V1}/Systems/1", f"{V1}/Chassis/1"
    tree[V1] = {"@odata.id": V1, "Systems": ref(f"{V1}/Systems"), "Managers": ref(f"{V1}/Managers")}
    body = {
        "Manufacturer": "Lenovo",
        "Model": "ThinkSystem SR675 V3",
        "SerialNumber": "SYNLENOVO1",
        "SKU": "7D9RCTO1WW",
        "Links": {"Chassis": [ref(chassis)]},
        "EthernetInterfaces": ref(f"{system}/EthernetInterfaces"),
        "Processors": ref(f"{system}/Processors"),
    }
    collect(tree, f"{V1}/Systems", {"1": body})
    collect(tree, f"{V1}/Managers", {"1": {"DateTime": "2026-11-01T12:00:00Z"}})
    collect(tree, f"{system}/EthernetInterfaces", {})
    collect(tree, f"{system}/Processors", {"GPU1": {"ProcessorType": "GPU", "Model": None, "Status": None}})
    put(tree, chassis, NetworkAdapters=ref(f"{chassis}/NetworkAdapters"), Power=ref(f"{chassis}/Power"))
    put(tree, f"{chassis}/Power", PowerSupplies=[{"MemberId": "0", "Status": OK}, {"MemberId": "1", "Status": None}])
    adapters = {}
    for number in (1, 2):
        name = f"slot-{number}"
        path = f"{chassis}/NetworkAdapters/{name}"
        adapters[name] = {"Ports": ref(f"{path}/Ports")}
        address = {"PhysicalPortMacAddress": f"02CC0000000{number}"}
        port = {"LinkStatus": "LinkUp", "LinkNetworkTechnology": "Ethernet", "Ethernet": {"AssociatedMACAddresses": []}}
        collect(tree, f"{path}/Ports", {"1": port | {"Oem": {"Lenovo": address}, "CurrentSpeedGbps": 25}})
    collect(tree, f"{chassis}/NetworkAdapters", adapters)
    return tree
