"""Lenovo XCC.

Quirks: EthernetInterfaces hold only the link to the BMC; a port's MAC is in Oem.Lenovo, without colons; GPUs among the
Processors have neither model nor status, their PCIe devices have; changes need If-Match; boot settings go to
Systems/1/Pending; SKU is the machine type; a fan's SpeedPercent.Reading is in turns a minute.
"""

from __future__ import annotations

from simulators.bmc import parts, vendors
from simulators.bmc.hardware import Port
from simulators.bmc.machine import Machine
from simulators.bmc.vendors import make
from simulators.bmc.vendors.make import V1, Making

SYSTEM, CHASSIS, MANAGER = f"{V1}/Systems/1", f"{V1}/Chassis/1", f"{V1}/Managers/1"
RESETS = ("On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "Nmi", "ForceOn", "PowerCycle")
TARGETS = ("None", "Pxe", "Cd", "Usb", "Hdd", "BiosSetup", "Diags", "UefiTarget")
BIOS = {
    "BootModes_SystemBootMode": "UEFIMode", "DevicesandIOPorts_IntelVTforDirectedIOVTd": "Enabled",
    "DevicesandIOPorts_SRIOV": "Enabled", "NetworkStackSettings_IPv4PXESupport": "Enabled",
    "OperatingModes_ChooseOperatingMode": "MaximumPerformance", "Processors_CStates": "Disabled",
    "Processors_IntelVirtualizationTechnology": "Enabled", "Processors_PCIeACSCTL": "Enabled",
    "SecureBootConfiguration_SecureBootSetting": "Disabled",
}  # fmt: skip


def build(machine: Machine) -> vendors.Tree:
    """The whole tree."""
    tree = Making(machine)
    tree.root("Lenovo", "1.15.0",
              {"ExpandAll": True, "Levels": True, "Links": True, "NoLinks": True, "MaxLevels": 2})  # fmt: skip
    for name, kind in (("Systems", "ComputerSystem"), ("Managers", "Manager"), ("Chassis", "Chassis")):
        tree.collect(f"{V1}/{name}", kind, ["1"])
    settings = {"@odata.type": "#Settings.v1_3_0.Settings", "SettingsObject": make.ref(f"{SYSTEM}/Pending")}
    boot = tree.boot(SYSTEM, TARGETS)
    tree.put(
        SYSTEM, "ComputerSystem", "v1_17_0", Manufacturer="Lenovo", Model=parts.model(machine),
        SerialNumber=parts.service_tag(machine), SKU="7Z23CTO1WW", SystemType="Physical", PowerState=machine.power,
        BiosVersion=parts.version(machine, "bios"), UUID=machine.hardware.uuid, Status=parts.health(machine),
        Boot=boot, Actions=tree.reset(SYSTEM, RESETS, inline=False),
        Links={"Chassis": tree.links([CHASSIS]), "ManagedBy": tree.links([MANAGER])},
        **{name: tree.link(f"{SYSTEM}/{name}")
           for name in ("Bios", "EthernetInterfaces", "Processors", "Memory", "Storage", "LogServices")},
        **{"@Redfish.Settings": settings}, **make.summary(machine),
    )  # fmt: skip
    tree.put(f"{SYSTEM}/Pending", "ComputerSystem", "v1_17_0", Boot=boot)
    tree.logs(f"{SYSTEM}/LogServices", "PlatformLog")
    tree.bios(SYSTEM, BIOS, f"{SYSTEM}/Bios/Pending")
    tree.memory(f"{SYSTEM}/Memory")
    usb = {"MACAddress": make.usb_mac(machine), "InterfaceEnabled": True, "Description": "Host to manager"}
    tree.group(f"{SYSTEM}/EthernetInterfaces", "EthernetInterface", "v1_9_0", {"ToManager": usb})
    _network(tree)
    _compute(tree)
    tree.put(
        CHASSIS, "Chassis", "v1_19_0", ChassisType="RackMount", Manufacturer="Lenovo", Model=parts.model(machine),
        SerialNumber=parts.service_tag(machine), SKU="7Z23CTO1WW", Status=parts.health(machine),
        PhysicalSecurity={"IntrusionSensor": parts.intrusion(machine)},
        Links={"ComputerSystems": tree.links([SYSTEM]), "ManagedBy": tree.links([MANAGER])},
        **{name: tree.link(f"{CHASSIS}/{name}")
           for name in ("NetworkAdapters", "PCIeDevices", "Power", "Thermal", "PowerSubsystem", "ThermalSubsystem")},
    )  # fmt: skip
    tree.legacy_power(CHASSIS)
    tree.modern_power(CHASSIS)
    for number in range(1, 17):
        speed = parts.fan_rpm(machine, number)
        tree[f"{CHASSIS}/ThermalSubsystem/Fans/Fan{number}"]["SpeedPercent"] = {"Reading": speed, "SpeedRPM": speed}
    tree.manager(MANAGER, "Lenovo XClarity Controller", SYSTEM)
    now = {"BMC-Primary": "bmc", "BMC-Backup": "bmc", "UEFI": "bios", "Slot_31.Bundle": "hca", "Slot_3.1": "gpu"}
    tree.updates({identity: parts.version(machine, part) for identity, part in now.items()})
    return tree


def _network(tree: Making) -> None:
    machine, place = tree.machine, f"{CHASSIS}/NetworkAdapters"
    cards: dict[str, list[tuple[int | None, Port]]] = {"ob-1": [(None, nic) for nic in parts.nics(machine)]}
    cards |= {f"slot-{31 + number}": [(number, port)] for number, port in parts.hcas(machine)}
    for name, ports in cards.items():
        bodies: dict[str, make.Resource] = {}
        for count, (number, port) in enumerate(ports, 1):
            up = parts.nic_up(machine, port) if number is None else parts.hca_up(machine, number)
            bodies[str(count)] = {
                "PortId": str(count), "LinkStatus": "LinkUp" if up else "LinkDown",
                "LinkNetworkTechnology": "Ethernet" if number is None else "InfiniBand",
                "Ethernet": {"AssociatedMACAddresses": []}, "CurrentSpeedGbps": 25 if up and number is None else None,
                "Oem": {"Lenovo": {"PhysicalPortMacAddress": port.mac.replace(":", "")}}, "Status": parts.status(),
            }  # fmt: skip
        tree.group(f"{place}/{name}/Ports", "Port", "v1_6_0", bodies)
        number = ports[0][0] if ports else None
        tree.put(
            f"{place}/{name}", "NetworkAdapter", "v1_9_0", Ports=tree.link(f"{place}/{name}/Ports"),
            Manufacturer="Broadcom" if number is None else "MLNX",
            Model="Broadcom 57414 10/25GbE" if number is None else make.HCA_MODEL,
            SerialNumber=tree.hardware.serial(name, 12),
            Status=parts.rollup() if number is None else parts.hca_status(machine, number),
            Controllers=[{"PCIeInterface": tree.interface("hca", -2 if number is None else number),
                          "FirmwarePackageVersion": parts.version(machine, "nic" if number is None else "hca")}],
        )  # fmt: skip
    tree.collect(place, "NetworkAdapter", cards)


def _compute(tree: Making) -> None:
    machine = tree.machine
    devices, gpus = {}, {}
    for gpu in parts.gpus(machine):
        slot = f"slot_{3 + gpu.number}"
        devices[slot] = {
            "Name": make.GPU_MODEL, "SerialNumber": gpu.serial, "Status": parts.gpu_status(machine, gpu),
            "PCIeInterface": tree.interface("gpu", gpu.number), "FirmwareVersion": parts.version(machine, "gpu"),
            "Manufacturer": make.GPU_MAKER, "DeviceType": "SingleFunction",
        }  # fmt: skip
        gpus[f"GPU{gpu.number + 1}"] = {
            "ProcessorType": "GPU", "SerialNumber": gpu.serial, "Manufacturer": make.GPU_MAKER,
            "Links": {"PCIeDevice": tree.link(f"{CHASSIS}/PCIeDevices/{slot}")},
        }  # fmt: skip
    tree.group(f"{CHASSIS}/PCIeDevices", "PCIeDevice", "v1_9_0", devices)
    tree.group(f"{SYSTEM}/Processors", "Processor", "v1_14_0", make.cpus() | gpus)
    storage = f"{SYSTEM}/Storage"
    for name, disks in (("Direct_Attached_NVMe", parts.drives(machine)), ("M.2", parts.os_disks(machine))):
        bodies = {f"{name}_Disk.{disk.number}": tree.drive(disk) for disk in disks}
        for identity, body in bodies.items():
            tree.put(f"{storage}/{name}/Drives/{identity}", "Drive", "v1_15_0", **body)
        tree.put(f"{storage}/{name}", "Storage", "v1_12_0", Status=parts.rollup(),
                 Drives=tree.links(f"{storage}/{name}/Drives/{identity}" for identity in bodies))  # fmt: skip
    tree.collect(storage, "Storage", ["Direct_Attached_NVMe", "M.2"])


vendors.register(
    "lenovo-xcc", "ThinkSystem SR680a V3", "5.10",
    vendors.Shape(build, SYSTEM, MANAGER, levels=2, resets=RESETS, needs_etag=True, boot_targets=TARGETS, bios=BIOS,
                  bios_settings=f"{SYSTEM}/Bios/Pending", boot_at=f"{SYSTEM}/Pending"),
)  # fmt: skip
