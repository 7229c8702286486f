"""Supermicro with an HGX board.

Quirks: MACs in upper and lower case; two adapters with a port "1" each, and add-on cards' interfaces that are all
called AOC_NIC1; GPUs are PCIe devices of the chassis; drives hang from a backplane that is a chassis; BIOS attributes
end in a number; reset types in an ActionInfo; no expansion.
"""

from __future__ import annotations

from simulators.bmc import parts, vendors
from simulators.bmc.machine import Machine
from simulators.bmc.vendors import make
from simulators.bmc.vendors.make import V1, Making

SYSTEM, CHASSIS, MANAGER = f"{V1}/Systems/1", f"{V1}/Chassis/1", f"{V1}/Managers/1"
BACKPLANE = f"{V1}/Chassis/NVMeSSD.0.Group.0.StorageBackplane"
RESETS = ("On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "Nmi", "ForceOn")
TARGETS = ("None", "Pxe", "Floppy", "Cd", "Usb", "Hdd", "BiosSetup", "UsbCd", "UefiBootNext", "UefiHttp")
BIOS = {
    "BootModeSelect_00DC": "UEFI", "CPUC6Report_003E": "Disable", "EnhancedHaltState_C1E__0042": "Disable",
    "IPv4PXESupport_0119": "Enabled", "IntelVTforDirectedI_O_VT_d__0072": "Enable",
    "IntelVirtualizationTechnology_0021": "Enable", "PCIeACSCTL_0088": "Enable",
    "PowerPerformanceTuning_0030": "BIOS Controls EPB", "SR_IOVSupport_00BA": "Enabled",
    "SecureBootEnable_0107": "Disabled",
}  # fmt: skip


def build(machine: Machine) -> vendors.Tree:
    """The whole tree."""
    tree = Making(machine)
    tree.root("Supermicro", "1.14.0")
    tree.collect(f"{V1}/Systems", "ComputerSystem", ["1"])
    tree.collect(f"{V1}/Managers", "Manager", ["1"])
    tree.collect(f"{V1}/Chassis", "Chassis", ["1", BACKPLANE.rsplit("/", 1)[1]])
    tree.put(
        SYSTEM, "ComputerSystem", "v1_14_0", Manufacturer="Supermicro", Model=parts.model(machine),
        SerialNumber=parts.service_tag(machine), SKU="091715D9", SystemType="Physical", PowerState=machine.power,
        BiosVersion=parts.version(machine, "bios"), UUID=machine.hardware.uuid, Status=parts.health(machine),
        Boot=tree.boot(SYSTEM, TARGETS), Actions=tree.reset(SYSTEM, RESETS, inline=False),
        Links={"Chassis": tree.links([CHASSIS]), "ManagedBy": tree.links([MANAGER])},
        **{name: tree.link(f"{SYSTEM}/{name}")
           for name in ("Bios", "EthernetInterfaces", "Processors", "Memory", "Storage", "LogServices")},
        **make.summary(machine),
    )  # fmt: skip
    tree.logs(f"{SYSTEM}/LogServices", "Log1")
    tree.bios(SYSTEM, BIOS, f"{SYSTEM}/Bios/SD")
    tree.memory(f"{SYSTEM}/Memory")
    tree.group(f"{SYSTEM}/Processors", "Processor", "v1_11_0", make.cpus())
    _network(tree)
    devices = {
        f"GPU{gpu.number + 1}": {
            "Name": f"GPU{gpu.number + 1}", "Model": make.GPU_MODEL, "SerialNumber": gpu.serial,
            "Manufacturer": "NVIDIA", "FirmwareVersion": parts.version(machine, "gpu"),
            "PCIeInterface": tree.interface("gpu", gpu.number), "Status": parts.gpu_status(machine, gpu),
            "Oem": {"Supermicro": {"GPUVendor": "NVIDIA", "GPUSlot": gpu.number + 1}},
        }
        for gpu in parts.gpus(machine)
    }  # fmt: skip
    tree.group(f"{CHASSIS}/PCIeDevices", "PCIeDevice", "v1_9_0", devices)
    tree.put(
        CHASSIS, "Chassis", "v1_19_0", ChassisType="Other", Manufacturer="Supermicro", Model=parts.model(machine),
        SerialNumber=parts.service_tag(machine), Status=parts.health(machine),
        PhysicalSecurity={"IntrusionSensor": parts.intrusion(machine)},
        Links={"ComputerSystems": tree.links([SYSTEM]), "ManagedBy": tree.links([MANAGER])},
        **{name: tree.link(f"{CHASSIS}/{name}") for name in ("NetworkAdapters", "PCIeDevices", "Power", "Thermal")},
    )  # fmt: skip
    tree.legacy_power(CHASSIS)
    _storage(tree)
    tree.manager(MANAGER, "ASPEED", SYSTEM)
    now = {"BMC": "bmc", "Backup_BMC": "bmc", "BIOS": "bios", "AOC_NIC1": "nic", "AOC_IB1": "hca"}
    tree.updates({identity: parts.version(machine, part) for identity, part in now.items()})
    return tree


def _network(tree: Making) -> None:
    machine = tree.machine
    interfaces, cards = {}, {}
    for number, nic in enumerate(parts.nics(machine), 1):
        up = parts.nic_up(machine, nic)
        address = nic.mac if number % 2 else nic.mac.lower()
        interfaces[str(number)] = {"MACAddress": address, "Description": "Ethernet Interface Onboard_NIC",
                                   "LinkStatus": "LinkUp" if up else "LinkDown", "SpeedMbps": 25000 if up else 0,
                                   "Status": parts.status()}  # fmt: skip
        cards[str(number)] = (nic.mac if number % 2 else nic.mac.lower(), "Ethernet", up, parts.rollup(), "Broadcom")
    for number, port in parts.hcas(machine):
        up = parts.hca_up(machine, number)
        status = parts.hca_status(machine, number)
        cards[str(3 + number)] = (port.mac.lower(), "InfiniBand", up, status, make.HCA_MODEL)
    interfaces["ToManager"] = {"MACAddress": make.usb_mac(machine), "Description": "Host Network Interface"}
    tree.group(f"{SYSTEM}/EthernetInterfaces", "EthernetInterface", "v1_8_0", interfaces)
    place = f"{CHASSIS}/NetworkAdapters"
    for name, (address, technology, up, status, model) in cards.items():
        link = "LinkUp" if up else "LinkDown"
        body = {"LinkStatus": link, "LinkNetworkTechnology": technology,
                "Ethernet": {"AssociatedMACAddresses": [address]}, "PortId": "1"}  # fmt: skip
        tree.group(f"{place}/{name}/Ports", "Port", "v1_6_0", {"1": body})
        function = {"NetDevFuncType": technology, "Ethernet": {"MACAddress": address, "PermanentMACAddress": address}}
        tree.group(f"{place}/{name}/NetworkDeviceFunctions", "NetworkDeviceFunction", "v1_8_0", {"1": function})
        infiniband = technology == "InfiniBand"
        slot = tree.interface("hca", int(name) - 3) if infiniband else {}
        tree.put(
            f"{place}/{name}", "NetworkAdapter", "v1_8_0", Model=model, Status=status,
            Ports=tree.link(f"{place}/{name}/Ports"),
            NetworkDeviceFunctions=tree.link(f"{place}/{name}/NetworkDeviceFunctions"),
            SerialNumber=tree.hardware.serial(f"card{name}", 12),
            Controllers=[{"FirmwarePackageVersion": parts.version(machine, "hca" if infiniband else "nic"),
                          **({"PCIeInterface": slot} if slot else {})}],
        )  # fmt: skip
    tree.collect(place, "NetworkAdapter", cards)


def _storage(tree: Making) -> None:
    machine, storage = tree.machine, f"{SYSTEM}/Storage"
    bays = [f"Disk.Bay.{disk.number}" for disk in parts.drives(machine)]
    for name, disk in zip(bays, parts.drives(machine), strict=True):
        body = tree.drive(disk)
        del body["Protocol"]
        tree.put(f"{BACKPLANE}/Drives/{name}", "Drive", "v1_6_2", **body)
    tree.put(BACKPLANE, "Chassis", "v1_14_0", ChassisType="Enclosure", Drives=tree.link(f"{BACKPLANE}/Drives"),
             Links={"Drives": tree.links(f"{BACKPLANE}/Drives/{name}" for name in bays)})  # fmt: skip
    tree.collect(f"{BACKPLANE}/Drives", "Drive", bays)
    tree.put(f"{storage}/NVMeSSD", "Storage", "v1_7_0", Status=parts.rollup(),
             Drives=tree.links(f"{BACKPLANE}/Drives/{name}" for name in bays))  # fmt: skip
    boot = {f"Disk.{disk.number}": tree.drive(disk, Protocol="NVMe") for disk in parts.os_disks(machine)}
    for name, body in boot.items():
        tree.put(f"{storage}/M2/Drives/{name}", "Drive", "v1_6_2", **body)
    tree.put(f"{storage}/M2", "Storage", "v1_7_0", Status=parts.rollup(),
             Drives=tree.links(f"{storage}/M2/Drives/{name}" for name in boot))  # fmt: skip
    tree.collect(storage, "Storage", ["NVMeSSD", "M2"])


vendors.register(
    "supermicro", "SYS-821GE-TNHR", "01.03.16",
    vendors.Shape(build, SYSTEM, MANAGER, resets=RESETS, boot_targets=TARGETS, bios=BIOS,
                  bios_settings=f"{SYSTEM}/Bios/SD"),
)  # fmt: skip
