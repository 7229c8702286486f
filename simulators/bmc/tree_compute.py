"""Redfish tree of a simulated iDRAC9: processors, GPUs among them, and memory."""

from __future__ import annotations

from simulators.bmc import parts, tree_pcie
from simulators.bmc.hardware import DIMM_GIB, GPU_SLOTS
from simulators.bmc.machine import Machine
from simulators.bmc.tree import CHASSIS, OK, SYSTEM, Resource, collection, head, ref, resource
from simulators.bmc.tree_system import CORES, CPU_MODEL


@resource(f"{SYSTEM}/Processors")
def processors(machine: Machine) -> Resource:
    """CPUs, and among them the GPUs."""
    ids = ["CPU.Socket.1", "CPU.Socket.2", *(gpu.fqdd for gpu in parts.gpus(machine))]
    return collection(machine, f"{SYSTEM}/Processors", "Processor", "Processors Collection", ids)


@resource(f"{SYSTEM}/Processors/*")
def processor(machine: Machine, fqdd: str) -> Resource | None:
    """One CPU or GPU."""
    path = f"{SYSTEM}/Processors/{fqdd}"
    if fqdd in ("CPU.Socket.1", "CPU.Socket.2"):
        name = f"CPU {fqdd[-1]}"
        return head(path, "Processor", "v1_18_0", name, "Represents the properties of a Processor") | {
            "InstructionSet": "x86-64",
            "Links": {"Chassis": ref(CHASSIS)},
            "Manufacturer": "Intel",
            "MaxSpeedMHz": 4000,
            "Model": CPU_MODEL,
            "OperatingSpeedMHz": 2000,
            "ProcessorArchitecture": "x86",
            "ProcessorId": {
                "EffectiveFamily": "6",
                "EffectiveModel": "143",
                "IdentificationRegisters": "0x000806F8",
                "MicrocodeInfo": "0x2B0005C0",
                "Step": "8",
                "VendorId": "GenuineIntel",
            },
            "ProcessorType": "CPU",
            "Socket": fqdd,
            "Status": dict(OK),
            "TotalCores": CORES,
            "TotalEnabledCores": CORES,
            "TotalThreads": 2 * CORES,
            "TurboState": "Enabled",
        }
    for gpu in parts.gpus(machine):
        if gpu.fqdd == fqdd:
            socket = "CPU.Socket.1" if GPU_SLOTS[gpu.number] < 25 else "CPU.Socket.2"
            return head(path, "Processor", "v1_18_0", fqdd, "Represents the properties of the GPU") | {
                "Links": {
                    "Chassis": ref(CHASSIS),
                    "Oem": {
                        "Dell": {
                            "@odata.type": "#DellOem.v1_3_0.DellOemLinks",
                            "CPUAffinity": [ref(f"{SYSTEM}/Processors/{socket}")],
                            "CPUAffinity@odata.count": 1,
                        }
                    },
                    "PCIeDevice": tree_pcie.link_to(machine, path)[0],
                },
                "FirmwareVersion": parts.version(machine, "gpu"),
                "Manufacturer": "NVIDIA Corporation",
                "Model": "NVIDIA H100 80GB HBM3",
                "PartNumber": "692-2G520-0200-000",
                "ProcessorType": "GPU",
                "SerialNumber": gpu.serial,
                "Status": parts.gpu_status(machine, gpu),
            }
    return None


@resource(f"{SYSTEM}/Memory")
def memory(machine: Machine) -> Resource:
    """The DIMMs."""
    ids = [f"DIMM.Socket.{slot}" for slot in parts.dimms(machine)]
    return collection(machine, f"{SYSTEM}/Memory", "Memory", "Memory Devices Collection", ids)


@resource(f"{SYSTEM}/Memory/*")
def dimm(machine: Machine, fqdd: str) -> Resource | None:
    """One DIMM."""
    slot = fqdd.removeprefix("DIMM.Socket.")
    if slot not in parts.dimms(machine):
        return None
    return head(f"{SYSTEM}/Memory/{fqdd}", "Memory", "v1_17_0", f"DIMM {slot}") | {
        "CapacityMiB": DIMM_GIB * 1024,
        "DeviceLocator": f"DIMM {slot}",
        "ErrorCorrection": "MultiBitECC",
        "Manufacturer": "Hynix Semiconductor",
        "MemoryDeviceType": "DDR5",
        "MemoryType": "DRAM",
        "OperatingSpeedMhz": 4800,
        "PartNumber": "HMCG94AGBRA177N",
        "RankCount": 2,
        "SerialNumber": machine.hardware.serial(f"dimm{slot}", 8),
        "Status": parts.dimm_status(machine, slot),
    }
