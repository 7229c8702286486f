"""NVIDIA DGX H100 (AMI firmware on the host's side), and GB200 (OpenBMC on both sides).

Quirks: the GPUs are in a second system, HGX_Baseboard_0, behind a second BMC, HGX_BMC_0. While that is down
(fault baseboard_starting), its Processors still say OK; its Manager says Starting, and the firmware inventory
HGX_FW_GPU_n Absent and Critical. A GB200's host system names neither maker nor model nor serial number: its shelf, a
chassis, does. DGX wants If-Match.
"""

from __future__ import annotations

from typing import Any

from simulators.bmc import parts, vendors
from simulators.bmc.machine import Machine
from simulators.bmc.vendors import make
from simulators.bmc.vendors.make import V1, Making

BASEBOARD, HGX_BMC, HGX_CHASSIS = (
    f"{V1}/Systems/HGX_Baseboard_0", f"{V1}/Managers/HGX_BMC_0", f"{V1}/Chassis/HGX_Chassis_0",
)  # fmt: skip
RESETS = ("On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "ForceOn", "PowerCycle", "Nmi")
TARGETS = ("None", "Pxe", "Floppy", "Cd", "Usb", "Hdd", "BiosSetup", "Utilities", "Diags", "UefiTarget", "UefiHttp")
BIOS: dict[str, Any] = {
    "AcsEnable": "Enable", "BootModeSelect": "UEFI", "C6Enable": "Disable", "Ipv4Pxe": "Enabled",
    "PwrPerfTuning": "BIOS Controls EPB", "SecureBootSupport": "Disabled", "SriovSupport": "Enabled",
    "TurboMode": "Enable", "VTdSupport": "Enable", "ProcessorVmxEnable": "Enable",
}  # fmt: skip


class _Names:
    """How the two machines name their resources."""

    def __init__(self, superchip: bool) -> None:
        self.superchip = superchip
        self.system = f"{V1}/Systems/{'System_0' if superchip else 'DGX'}"
        self.manager = f"{V1}/Managers/{'BMC_0' if superchip else 'BMC'}"
        self.chassis = f"{V1}/Chassis/{'Chassis_0' if superchip else 'DGX'}"
        self.gpus = 4 if superchip else 8

    def gpu(self, number: int) -> str:
        """GPU_0 and up, or GPU_SXM_1 and up."""
        return f"GPU_{number}" if self.superchip else f"GPU_SXM_{number + 1}"


def _build(machine: Machine, names: _Names) -> vendors.Tree:
    tree = Making(machine)
    expand = {"ExpandAll": True, "Levels": True, "Links": True, "NoLinks": True, "MaxLevels": 6}
    tree.root("NVIDIA" if names.superchip else "AMI", "1.17.0" if names.superchip else "1.11.0", expand)
    identities = (names.system, names.manager, names.chassis)
    system, manager, chassis = (path.rsplit("/", 1)[1] for path in identities)
    modules = [f"HGX_{names.gpu(gpu.number)}" for gpu in parts.gpus(machine) if gpu.number < names.gpus]
    tree.collect(f"{V1}/Systems", "ComputerSystem", ["HGX_Baseboard_0", system])
    tree.collect(f"{V1}/Managers", "Manager", [manager, "HGX_BMC_0"])
    tree.collect(f"{V1}/Chassis", "Chassis", ["HGX_Chassis_0", chassis, *modules])
    _host(tree, names)
    _chassis(tree, names)
    _baseboard(tree, names)
    tree.manager(names.manager, "OpenBmc" if names.superchip else "DGX", names.system)
    starting = machine.has("baseboard_starting")
    state = {"Health": None, "State": "Starting"} if starting else parts.status()
    tree.manager(HGX_BMC, "OpenBmc", BASEBOARD, FirmwareVersion="" if starting else "HGX-22.10-1", Status=state)
    now = {"HostBMC_0": parts.version(machine, "bmc"), "HostBIOS_0": parts.version(machine, "bios")}
    now |= {f"CX7_{number}": parts.version(machine, "hca") for number, _ in parts.hcas(machine)}
    now |= {f"HGX_FW_{names.gpu(n)}": "" if starting else parts.version(machine, "gpu") for n in range(names.gpus)}
    tree.updates(now)
    for number in range(names.gpus):
        entry = tree[f"{V1}/UpdateService/FirmwareInventory/HGX_FW_{names.gpu(number)}"]
        gone = f"HGX_{names.gpu(number)}" not in modules
        if starting or gone:
            entry["Status"] = {"Health": "Critical", "State": "Absent"}
    return tree


def _host(tree: Making, names: _Names) -> None:
    machine, path = tree.machine, names.system
    told: dict[str, Any] = {"Manufacturer": "NVIDIA", "Model": parts.model(machine),
                            "SerialNumber": parts.service_tag(machine), "SKU": "DGX"}  # fmt: skip
    tree.put(
        path, "ComputerSystem", "v1_22_0", SystemType="Physical", PowerState=machine.power,
        BiosVersion=parts.version(machine, "bios"), UUID=machine.hardware.uuid, Status=parts.health(machine),
        Boot=tree.boot(path, TARGETS), Actions=tree.reset(path, RESETS, inline=False),
        Links={"Chassis": tree.links([names.chassis]), "ManagedBy": tree.links([names.manager])},
        **{name: tree.link(f"{path}/{name}")
           for name in ("Bios", "EthernetInterfaces", "Processors", "Memory", "Storage", "LogServices")},
        **make.summary(machine), **({} if names.superchip else told),
    )  # fmt: skip
    tree.logs(f"{path}/LogServices", "EventLog")
    tree.bios(path, BIOS, f"{path}/Bios/{'Settings' if names.superchip else 'SD'}")
    tree.memory(f"{path}/Memory")
    tree.group(f"{path}/Processors", "Processor", "v1_18_0", make.cpus())
    interfaces: dict[str, Any] = {}
    for number, nic in enumerate(parts.nics(machine)):
        up = parts.nic_up(machine, nic)
        interfaces[f"EthernetInterface{number}"] = {
            "MACAddress": nic.mac, "LinkStatus": "LinkUp" if up else "LinkDown", "SpeedMbps": 25000 if up else 0,
        }  # fmt: skip
    interfaces["usb0"] = {"MACAddress": make.usb_mac(machine), "Description": "Host USB interface"}
    tree.group(f"{path}/EthernetInterfaces", "EthernetInterface", "v1_9_0", interfaces)
    drives = {f"NVMe_{disk.number}": tree.drive(disk) for disk in parts.drives(machine)}
    boot = {f"M2_{disk.number}": tree.drive(disk) for disk in parts.os_disks(machine)}
    for controller, disks in (("1", drives), ("M2", boot)):
        for name, body in disks.items():
            tree.put(f"{path}/Storage/{controller}/Drives/{name}", "Drive", "v1_17_0", **body)
        tree.put(f"{path}/Storage/{controller}", "Storage", "v1_13_0", Status=parts.status(),
                 Drives=tree.links(f"{path}/Storage/{controller}/Drives/{name}" for name in disks))  # fmt: skip
    tree.collect(f"{path}/Storage", "Storage", ["1", "M2"])


def _chassis(tree: Making, names: _Names) -> None:
    machine, path = tree.machine, names.chassis
    for number, port in parts.hcas(machine):
        place = f"{path}/NetworkAdapters/CX7_{number}"
        link = "LinkUp" if parts.hca_up(machine, number) else "LinkDown"
        body = {"LinkStatus": link, "LinkNetworkTechnology": "InfiniBand", "CurrentSpeedGbps": 400,
                "Ethernet": {"AssociatedMACAddresses": [port.mac]}}  # fmt: skip
        tree.group(f"{place}/Ports", "Port", "v1_7_0", {"0": body})
        tree.put(
            place, "NetworkAdapter", "v1_9_0", Model=make.HCA_MODEL, Manufacturer="Nvidia",
            SerialNumber=tree.hardware.serial(port.fqdd.removesuffix("-1"), 12), Ports=tree.link(f"{place}/Ports"),
            Status=parts.hca_status(machine, number),
            Controllers=[{"FirmwarePackageVersion": parts.version(machine, "hca"),
                          "PCIeInterface": tree.interface("hca", number)}],
        )  # fmt: skip
    tree.collect(f"{path}/NetworkAdapters", "NetworkAdapter", [f"CX7_{number}" for number, _ in parts.hcas(machine)])
    tree.put(
        path, "Chassis", "v1_25_0", ChassisType="Shelf" if names.superchip else "RackMount", Manufacturer="NVIDIA",
        Model=parts.model(machine), SerialNumber=parts.service_tag(machine), Status=parts.health(machine),
        PhysicalSecurity={"IntrusionSensor": parts.intrusion(machine)},
        Links={"ComputerSystems": tree.links([names.system]), "ManagedBy": tree.links([names.manager])},
        **{name: tree.link(f"{path}/{name}")
           for name in ("NetworkAdapters", "PowerSubsystem", "ThermalSubsystem", "Sensors")},
    )  # fmt: skip
    tree.modern_power(path, sensors=True)


def _baseboard(tree: Making, names: _Names) -> None:
    machine = tree.machine
    gpus = {}
    for gpu in parts.gpus(machine):
        if gpu.number >= names.gpus:
            continue
        name = names.gpu(gpu.number)
        model = "GB200 186GB HBM3e" if names.superchip else "H100 80GB HBM3"
        gpus[name] = {
            "ProcessorType": "GPU", "Manufacturer": "NVIDIA", "Model": f"NVIDIA {model}",
            "SerialNumber": gpu.serial, "UUID": gpu.uuid.removeprefix("GPU-"),
            "Status": parts.gpu_status(machine, gpu), "FirmwareVersion": parts.version(machine, "gpu"),
            "SystemInterface": {"InterfaceType": "PCIe", "PCIe": tree.interface("gpu", gpu.number)},
            "Links": {"Chassis": tree.link(f"{V1}/Chassis/HGX_{name}")},
        }  # fmt: skip
        tree.put(f"{V1}/Chassis/HGX_{name}", "Chassis", "v1_25_0", ChassisType="Module", Manufacturer="NVIDIA",
                 Model=f"NVIDIA {model}", SerialNumber=gpu.serial, Status=parts.gpu_status(machine, gpu))  # fmt: skip
    tree.group(f"{BASEBOARD}/Processors", "Processor", "v1_20_0", gpus)
    tree.put(
        BASEBOARD, "ComputerSystem", "v1_22_0", SystemType="Physical", Manufacturer="NVIDIA",
        PowerState=machine.power, Processors=tree.link(f"{BASEBOARD}/Processors"), Status=parts.rollup(),
        Links={"Chassis": tree.links([HGX_CHASSIS]), "ManagedBy": tree.links([HGX_BMC])},
    )  # fmt: skip
    tree.put(HGX_CHASSIS, "Chassis", "v1_25_0", ChassisType="Module", Manufacturer="NVIDIA", Model="HGX Baseboard",
             SerialNumber=tree.hardware.serial("hgx", 13), Status=parts.status())  # fmt: skip


def _dgx(machine: Machine) -> vendors.Tree:
    return _build(machine, _Names(superchip=False))


def _gb200(machine: Machine) -> vendors.Tree:
    return _build(machine, _Names(superchip=True))


for _vendor, _model, _version, _make, _names in (
    ("nvidia-dgx-h100", "DGXH100", "24.09.17", _dgx, _Names(superchip=False)),
    ("nvidia-gb200", "GB200 NVL", "GB200Nvl-25.01-9", _gb200, _Names(superchip=True)),
):
    _settings = f"{_names.system}/Bios/{'Settings' if _names.superchip else 'SD'}"
    vendors.register(
        _vendor, _model, _version,
        vendors.Shape(_make, _names.system, _names.manager, levels=6, resets=RESETS, boot_targets=TARGETS, bios=BIOS,
                      needs_etag=not _names.superchip, bios_settings=_settings),
    )  # fmt: skip
