"""HPE iLO 5 and iLO 6.

Quirks: links end in a slash; InfiniBand ports are among the EthernetInterfaces, without link or kind; the adapters'
ports tell GUIDs; fans turn in percent; firmware ids are numbers; there is no PowerCycle; "On" while on is an error.
"""

from __future__ import annotations

from simulators.bmc import parts, vendors
from simulators.bmc.hardware import BOOT_NIC
from simulators.bmc.machine import Machine
from simulators.bmc.vendors import make
from simulators.bmc.vendors.make import V1, Making

SYSTEM, CHASSIS, MANAGER = f"{V1}/Systems/1", f"{V1}/Chassis/1", f"{V1}/Managers/1"
RESETS = ("On", "ForceOff", "GracefulShutdown", "ForceRestart", "Nmi", "PushPowerButton", "GracefulRestart")
TARGETS = ("None", "Cd", "Hdd", "Usb", "SDCard", "Utilities", "Diags", "BiosSetup", "Pxe", "UefiShell", "UefiTarget")
BIOS = {
    "AccessControlService": "Enabled", "BootMode": "Uefi", "EmbNicBoot1": "NetworkBoot", "IntelProcVtd": "Enabled",
    "MinProcIdlePower": "NoCStates", "PowerRegulator": "StaticHighPerf", "ProcVirtualization": "Enabled",
    "SecureBootStatus": "Disabled", "Slot1NicBoot1": "Disabled", "Sriov": "Enabled", "WorkloadProfile": "Custom",
}  # fmt: skip


def _build(machine: Machine, generation: int) -> vendors.Tree:
    new = generation == 6
    tree = Making(machine, slash=True)
    hardware = machine.hardware
    expand = {"ExpandAll": new, "Levels": new, "Links": False, "MaxLevels": 1, "NoLinks": True}
    tree.root("HPE", "1.13.0" if new else "1.6.0", expand, Product="ProLiant Simulated")
    tree.collect(f"{V1}/Systems", "ComputerSystem", ["1"])
    tree.collect(f"{V1}/Managers", "Manager", ["1"])
    tree.collect(f"{V1}/Chassis", "Chassis", ["1"])
    discovery = {"DeviceDiscoveryComplete": {"DeviceDiscovery": "vMainDeviceDiscoveryComplete"}}
    tree.put(
        SYSTEM, "ComputerSystem", "v1_17_0", Manufacturer="HPE", Model=parts.model(machine),
        SerialNumber=f"{parts.service_tag(machine)}   ", SKU="P52560-B21", SystemType="Physical",
        PowerState=machine.power, BiosVersion=f"U54 v{parts.version(machine, 'bios')} (03/01/2026)",
        UUID=hardware.uuid, Status=parts.health(machine), Oem={"Hpe": discovery},
        Boot=tree.boot(SYSTEM, TARGETS), Actions=tree.reset(SYSTEM, RESETS),
        Links={"Chassis": tree.links([CHASSIS]), "ManagedBy": tree.links([MANAGER])},
        **{name: tree.link(f"{SYSTEM}/{name}")
           for name in ("Bios", "EthernetInterfaces", "Processors", "Memory", "Storage", "PCIeDevices", "LogServices")},
        **make.summary(machine),
    )  # fmt: skip
    tree.logs(f"{SYSTEM}/LogServices", "IML")
    tree.bios(SYSTEM, BIOS, f"{SYSTEM}/Bios/Settings")
    _network(tree, new)
    _compute(tree)
    tree.put(
        CHASSIS, "Chassis", "v1_19_0", ChassisType="RackMount", Manufacturer="HPE", Model=parts.model(machine),
        SerialNumber=parts.service_tag(machine), Status=parts.health(machine),
        PhysicalSecurity={"IntrusionSensor": parts.intrusion(machine)},
        NetworkAdapters=tree.link(f"{CHASSIS}/NetworkAdapters"), PCIeDevices=tree.link(f"{CHASSIS}/PCIeDevices"),
        Power=tree.link(f"{CHASSIS}/Power"), Thermal=tree.link(f"{CHASSIS}/Thermal"),
        Links={"ComputerSystems": tree.links([SYSTEM]), "ManagedBy": tree.links([MANAGER])},
    )  # fmt: skip
    tree.legacy_power(CHASSIS)
    ilo = f"iLO {generation}"
    tree.manager(MANAGER, ilo, SYSTEM, FirmwareVersion=f"{ilo} v{parts.version(machine, 'bmc')}")
    names = {"1": ilo, "2": "System ROM", "3": "Redundant System ROM", "4": make.HCA_MODEL, "5": make.GPU_MODEL}
    versions = ("bmc", "bios", "bios", "hca", "gpu")
    tree.updates({key: parts.version(machine, part) for key, part in zip(names, versions, strict=True)}, names)
    return tree


def _network(tree: Making, new: bool) -> None:
    machine = tree.machine
    interfaces = {}
    for number, nic in enumerate(parts.nics(machine), 1):
        up = parts.nic_up(machine, nic)
        interfaces[str(number)] = {
            "MACAddress": nic.mac.lower(), "LinkStatus": "LinkUp" if up else "LinkDown",
            "SpeedMbps": 25000 if up else None, "Name": "", "Status": parts.status(),
        }  # fmt: skip
    for number, port in parts.hcas(machine):
        interfaces[str(10 + number)] = {"MACAddress": port.mac.lower(), "LinkStatus": None, "SpeedMbps": None}
    tree.group(f"{SYSTEM}/EthernetInterfaces", "EthernetInterface", "v1_4_1", interfaces)
    place = f"{CHASSIS}/NetworkAdapters"
    tree.collect(place, "NetworkAdapter", ["DC080000", *(f"DE{number:02d}0000" for number, _ in parts.hcas(machine))])
    ports = {
        str(1 if nic.fqdd == BOOT_NIC else 2): {
            "LinkStatus": "LinkUp" if parts.nic_up(machine, nic) else "LinkDown",
            "Ethernet": {"AssociatedMACAddresses": [nic.mac.lower()]}, "LinkNetworkTechnology": "Ethernet",
        }
        for nic in parts.nics(machine)
    }  # fmt: skip
    tree.group(f"{place}/DC080000/Ports", "Port", "v1_6_0", ports)
    tree.put(f"{place}/DC080000", "NetworkAdapter", "v1_9_0", Model="BCM 57414 10/25GbE 2p", Manufacturer="Broadcom",
             Ports=tree.link(f"{place}/DC080000/Ports"), Status=parts.status())  # fmt: skip
    for number, port in parts.hcas(machine):
        path = f"{place}/DE{number:02d}0000"
        link = "LinkUp" if parts.hca_up(machine, number) else "LinkDown"
        infiniband = {"InfiniBand": {"AssociatedPortGUIDs": [make.guid(port.mac)]}}
        tree.group(f"{path}/Ports", "Port", "v1_6_0",
                   {"1": {"LinkStatus": link, "LinkNetworkTechnology": "InfiniBand", **infiniband}})  # fmt: skip
        tree.put(
            path, "NetworkAdapter", "v1_9_0", Model=make.HCA_MODEL, Manufacturer=make.HCA_MAKER,
            SerialNumber=tree.hardware.serial(port.fqdd.removesuffix("-1"), 12),
            Status=parts.hca_status(machine, number),
            Ports=tree.link(f"{path}/Ports"), Name=f"InfiniBand adapter in slot {number + 1}",
            Controllers=[{"FirmwarePackageVersion": parts.version(machine, "hca"),
                          "PCIeInterface": tree.interface("hca", number)}],
        )  # fmt: skip


def _compute(tree: Making) -> None:
    machine = tree.machine
    gpus = {
        f"GPU{gpu.number + 1}": {
            "ProcessorType": "GPU", "Model": make.GPU_MODEL, "Manufacturer": make.GPU_MAKER,
            "SerialNumber": gpu.serial, "Status": parts.gpu_status(machine, gpu),
        }
        for gpu in parts.gpus(machine)
    }  # fmt: skip
    tree.group(f"{SYSTEM}/Processors", "Processor", "v1_14_0", make.cpus() | gpus)
    tree.memory(f"{SYSTEM}/Memory")
    devices = {
        f"PCI-E Slot {gpu.number + 9}".replace(" ", "_"): {
            "Name": make.GPU_MODEL, "DeviceType": "SingleFunction", "SerialNumber": gpu.serial,
            "Status": parts.gpu_status(machine, gpu), "PCIeInterface": tree.interface("gpu", gpu.number),
            "Manufacturer": make.GPU_MAKER,
        }
        for gpu in parts.gpus(machine)
    }  # fmt: skip
    tree.group(f"{CHASSIS}/PCIeDevices", "PCIeDevice", "v1_9_0", devices)
    tree[f"{SYSTEM}/PCIeDevices"] = tree[f"{CHASSIS}/PCIeDevices"]
    storage = f"{SYSTEM}/Storage"
    for controller, disks in (("DA000000", parts.drives(machine)), ("DA000001", parts.os_disks(machine))):
        names = {f"{controller}{disk.number:02d}": tree.drive(disk) for disk in disks}
        for name, body in names.items():
            tree.put(f"{CHASSIS}/Drives/{name}", "Drive", "v1_14_0", **body)
        os_disk = controller == "DA000001"
        tree.put(
            f"{storage}/{controller}", "Storage", "v1_12_0", Status=parts.rollup(),
            Name="NS204i-p boot device" if os_disk else "NVMe storage",
            Drives=tree.links(f"{CHASSIS}/Drives/{name}" for name in names),
        )  # fmt: skip
    tree.collect(storage, "Storage", ["DA000000", "DA000001"])


def _ilo5(machine: Machine) -> vendors.Tree:
    return _build(machine, 5)


def _ilo6(machine: Machine) -> vendors.Tree:
    return _build(machine, 6)


_ERROR = "iLO.2.14.InvalidOperationForSystemState"
for _name, _model, _version, _make, _levels in (
    ("hpe-ilo5", "ProLiant XL675d Gen10 Plus", "3.08", _ilo5, 0),
    ("hpe-ilo6", "ProLiant DL380a Gen11", "1.62", _ilo6, 1),
):
    vendors.register(
        _name, _model, _version,
        vendors.Shape(_make, SYSTEM, MANAGER, levels=_levels, resets=RESETS, boot_targets=TARGETS, on_when_on=_ERROR,
                      bios=BIOS, bios_settings=f"{SYSTEM}/Bios/Settings"),
    )  # fmt: skip
