"""OpenBMC as it comes: the standard and nothing else.

Quirks: no EthernetInterfaces of the host, no MACs but those of the adapters; temperatures are sensors; a power supply
or fan tells little; the BIOS tells no attributes; boot order is not known; $expand goes deep.
"""

from __future__ import annotations

from simulators.bmc import parts, vendors
from simulators.bmc.machine import Machine
from simulators.bmc.vendors import make
from simulators.bmc.vendors.make import V1, Making

SYSTEM, CHASSIS, MANAGER = f"{V1}/Systems/system", f"{V1}/Chassis/chassis", f"{V1}/Managers/bmc"
RESETS = ("On", "ForceOff", "ForceOn", "ForceRestart", "GracefulRestart", "GracefulShutdown", "PowerCycle", "Nmi")
TARGETS = ("None", "Pxe", "Hdd", "Cd", "Diags", "BiosSetup", "Usb")


def build(machine: Machine) -> vendors.Tree:
    """The whole tree."""
    tree = Making(machine)
    tree.root("OpenBMC", "1.17.0",
              {"ExpandAll": True, "Levels": True, "Links": True, "NoLinks": True, "MaxLevels": 6})  # fmt: skip
    tree.collect(f"{V1}/Systems", "ComputerSystem", ["system"])
    tree.collect(f"{V1}/Managers", "Manager", ["bmc"])
    tree.collect(f"{V1}/Chassis", "Chassis", ["chassis"])
    boot = tree.boot(SYSTEM, TARGETS)
    del boot["BootOrder"], boot["BootOptions"]
    tree.put(
        SYSTEM, "ComputerSystem", "v1_22_0", Manufacturer="Simulated Computers", Model=parts.model(machine),
        SerialNumber=parts.service_tag(machine), PartNumber="", SystemType="Physical", PowerState=machine.power,
        BiosVersion=parts.version(machine, "bios"), Status=parts.health(machine), Boot=boot,
        Actions=tree.reset(SYSTEM, RESETS, inline=False),
        Links={"Chassis": tree.links([CHASSIS]), "ManagedBy": tree.links([MANAGER])},
        **{name: tree.link(f"{SYSTEM}/{name}") for name in ("Bios", "Processors", "Memory", "Storage", "LogServices")},
        **make.summary(machine),
    )  # fmt: skip
    tree.put(f"{SYSTEM}/Bios", "Bios", "v1_1_0", Actions={})
    tree.logs(f"{SYSTEM}/LogServices", "EventLog")
    tree.memory(f"{SYSTEM}/Memory")
    gpus = {
        f"GPU_{gpu.number}": {
            "ProcessorType": "GPU", "Model": make.GPU_MODEL, "Manufacturer": "NVIDIA", "SerialNumber": gpu.serial,
            "Status": parts.gpu_status(machine, gpu),
            "SystemInterface": {"InterfaceType": "PCIe", "PCIe": tree.interface("gpu", gpu.number)},
        }
        for gpu in parts.gpus(machine)
    }  # fmt: skip
    tree.group(f"{SYSTEM}/Processors", "Processor", "v1_18_0", make.cpus() | gpus)
    _adapters(tree)
    drives = {f"nvme{disk.number}": tree.drive(disk) for disk in parts.drives(machine)}
    drives |= {f"m2_{disk.number}": tree.drive(disk) for disk in parts.os_disks(machine)}
    for name, body in drives.items():
        tree.put(f"{SYSTEM}/Storage/1/Drives/{name}", "Drive", "v1_7_0", **body)
    tree.put(f"{SYSTEM}/Storage/1", "Storage", "v1_13_0", Status=parts.status(),
             Drives=tree.links(f"{SYSTEM}/Storage/1/Drives/{name}" for name in drives))  # fmt: skip
    tree.collect(f"{SYSTEM}/Storage", "Storage", ["1"])
    tree.put(
        CHASSIS, "Chassis", "v1_25_0", ChassisType="RackMount", Model=parts.model(machine), PowerState=machine.power,
        SerialNumber=parts.service_tag(machine), Status=parts.status(),
        PhysicalSecurity={"IntrusionSensor": parts.intrusion(machine)},
        Links={"ComputerSystems": tree.links([SYSTEM]), "ManagedBy": tree.links([MANAGER])},
        **{name: tree.link(f"{CHASSIS}/{name}")
           for name in ("NetworkAdapters", "PowerSubsystem", "ThermalSubsystem", "Sensors")},
    )  # fmt: skip
    tree.modern_power(CHASSIS, sensors=True)
    tree.manager(MANAGER, "OpenBmc", SYSTEM)
    tree.updates({"bmc_active": parts.version(machine, "bmc"), "bios_active": parts.version(machine, "bios")},
                 HttpPushUri=f"{V1}/UpdateService/update")  # fmt: skip
    return tree


def _adapters(tree: Making) -> None:
    machine, place = tree.machine, f"{CHASSIS}/NetworkAdapters"
    names = []
    found = [(f"nic{n}", nic, None, parts.nic_up(machine, nic)) for n, nic in enumerate(parts.nics(machine))]
    found += [(f"ib{n}", port, n, parts.hca_up(machine, n)) for n, port in parts.hcas(machine)]  # type: ignore[misc]
    for name, port, number, up in found:
        names.append(name)
        technology = "Ethernet" if number is None else "InfiniBand"
        body = {"LinkStatus": "LinkUp" if up else "LinkDown", "LinkNetworkTechnology": technology,
                "Ethernet": {"AssociatedMACAddresses": [port.mac]}}  # fmt: skip
        tree.group(f"{place}/{name}/Ports", "Port", "v1_7_0", {"0": body})
        link: make.Resource = {} if number is None else {"PCIeInterface": tree.interface("hca", number)}
        tree.put(
            f"{place}/{name}", "NetworkAdapter", "v1_9_0", Ports=tree.link(f"{place}/{name}/Ports"),
            Status=parts.rollup() if number is None else parts.hca_status(machine, number),
            Controllers=[{"FirmwarePackageVersion": parts.version(machine, "hca" if link else "nic"), **link}],
        )  # fmt: skip
    tree.collect(place, "NetworkAdapter", names)


vendors.register(
    "openbmc", "GPU Server", "2.18.0",
    vendors.Shape(build, SYSTEM, MANAGER, levels=6, resets=RESETS, boot_targets=TARGETS),
)  # fmt: skip
