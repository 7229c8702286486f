"""Redfish tree of a simulated iDRAC: PCIe devices and functions, with the width and speed of their links."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from simulators.bmc import parts
from simulators.bmc.machine import Machine
from simulators.bmc.tree import CHASSIS, ROOT, SYSTEM, Resource, collection, head, ref, resource

DEVICES = f"{CHASSIS}/PCIeDevices"
GPU_CLASS, VGA_CLASS = "0x030200", "0x030000"


@dataclass(frozen=True)
class Device:
    """One PCIe device: id, what it is, what it negotiated, and where it is told otherwise."""

    id: str
    name: str
    vendor: str
    serial: str | None
    firmware: str
    class_code: str
    device_class: str
    status: dict[str, str]
    slot: int | None
    lanes: int
    widest: int
    generation: int
    link: tuple[str, str]  # what its function links to: (name of the list, path)


@parts.once
def devices(machine: Machine) -> list[Device]:
    """All PCIe devices that are there."""
    return list(_devices(machine))


def _devices(machine: Machine) -> Iterator[Device]:
    for gpu in parts.gpus(machine):
        yield Device(
            f"{27 + 16 * gpu.number}-0", "NVIDIA H100 80GB HBM3", "NVIDIA Corporation", gpu.serial,
            parts.version(machine, "gpu"), GPU_CLASS, "DisplayController",
            parts.rollup(parts.gpu_status(machine, gpu)["Health"]), 21 + gpu.number,
            parts.width(machine, "gpu", gpu.number, 16), 16, parts.generation(machine, "gpu", gpu.number),
            ("Processors", f"{SYSTEM}/Processors/{gpu.fqdd}"),
        )  # fmt: skip
    for number, port in parts.hcas(machine):
        yield Device(
            f"{29 + 16 * number}-0", "NVIDIA ConnectX-7 Single Port NDR OSFP PCIe Adapter",
            "Mellanox Technologies", machine.hardware.serial(port.fqdd.removesuffix("-1"), 12),
            parts.version(machine, "hca"), "0x020700", "NetworkController",
            parts.hca_status(machine, number), 31 + number, parts.width(machine, "hca", number, 16), 16,
            parts.generation(machine, "hca", number),
            ("NetworkDeviceFunctions",
             f"{CHASSIS}/NetworkAdapters/{port.fqdd.removesuffix('-1')}/NetworkDeviceFunctions/{port.fqdd}"),
        )  # fmt: skip
    for disk in parts.drives(machine):
        yield Device(
            f"{160 + disk.number}-0", disk.model, "KIOXIA Corporation", disk.serial, parts.version(machine, "nvme"),
            "0x010802", "MassStorageController",
            parts.rollup(parts.level(parts.drive_failed(machine, disk))), disk.number,
            parts.width(machine, "drive", disk.number, 4), 4, parts.PCIE_GENERATION,
            ("Drives", f"{SYSTEM}/Storage/CPU.1/Drives/{disk.fqdd}"),
        )  # fmt: skip
    yield Device(
        "3-0", "Integrated Matrox G200eW3 Graphics Controller", "Matrox Electronics Systems Ltd.", None, "",
        VGA_CLASS, "DisplayController", parts.rollup(), None, 1, 1, 1, ("Processors", ""),
    )  # fmt: skip


def links(machine: Machine) -> list[Resource]:
    """Links to all devices."""
    return [ref(f"{DEVICES}/{device.id}") for device in devices(machine)]


def link_to(machine: Machine, path: str) -> list[Resource]:
    """Links to the device that is another resource."""
    return [ref(f"{DEVICES}/{device.id}") for device in devices(machine) if device.link[1] == path]


def interface(device: Device) -> Resource:
    """What a link negotiated, and what it could."""
    return {
        "LanesInUse": device.lanes,
        "MaxLanes": device.widest,
        "MaxPCIeType": f"Gen{max(device.generation, parts.PCIE_GENERATION if device.widest > 1 else 1)}",
        "PCIeType": f"Gen{device.generation}",
    }


def _find(machine: Machine, identity: str) -> Device | None:
    return next((device for device in devices(machine) if device.id == identity), None)


@resource(DEVICES)
def pcie_devices(machine: Machine) -> Resource:
    """All PCIe devices."""
    ids = [device.id for device in devices(machine)]
    return collection(machine, DEVICES, "PCIeDevice", "PCIeDevice Collection", ids)


@resource(f"{DEVICES}/*")
def pcie_device(machine: Machine, identity: str) -> Resource | None:
    """One PCIe device."""
    device = _find(machine, identity)
    if device is None:
        return None
    path = f"{DEVICES}/{identity}"
    body = head(path, "PCIeDevice", "v1_11_0", device.name) | {
        "DeviceType": "SingleFunction",
        "FirmwareVersion": device.firmware,
        "Links": {"Chassis": [ref(CHASSIS)], "Chassis@odata.count": 1},
        "Manufacturer": device.vendor,
        "Model": None,
        "PCIeFunctions": ref(f"{path}/PCIeFunctions"),
        "PCIeInterface": interface(device),
        "SerialNumber": device.serial,
        "Status": device.status,
    }
    if device.slot is not None:
        body["Slot"] = {
            "Lanes": device.widest,
            "Location": {"PartLocation": {"LocationOrdinalValue": device.slot, "LocationType": "Slot"}},
            "PCIeType": f"Gen{parts.PCIE_GENERATION}",
            "SlotType": "FullLength" if device.widest == 16 else "U2",
        }
    return body


@resource(f"{DEVICES}/*/PCIeFunctions")
def pcie_functions(machine: Machine, identity: str) -> Resource | None:
    """The one function of a device."""
    if _find(machine, identity) is None:
        return None
    path = f"{DEVICES}/{identity}/PCIeFunctions"
    return collection(machine, path, "PCIeFunction", "PCIeFunction Collection", [f"{identity}-0"])


@resource(f"{DEVICES}/*/PCIeFunctions/*")
def pcie_function(machine: Machine, identity: str, function: str) -> Resource | None:
    """The one function of a device."""
    device = _find(machine, identity)
    if device is None or function != f"{identity}-0":
        return None
    kind, target = device.link
    return head(f"{DEVICES}/{identity}/PCIeFunctions/{function}", "PCIeFunction", "v1_5_0", device.name) | {
        "ClassCode": device.class_code,
        "DeviceClass": device.device_class,
        "FunctionId": 0,
        "FunctionType": "Physical",
        "Links": {"PCIeDevice": ref(f"{DEVICES}/{identity}")} | ({kind: [ref(target)]} if target else {}),
        "Status": device.status,
    }


@resource(f"{ROOT}/Systems/System.Embedded.1/PCIeDevices")
def pcie_devices_of_system(machine: Machine) -> Resource:
    """The same, where some clients look for it."""
    ids = [device.id for device in devices(machine)]
    body = collection(machine, DEVICES, "PCIeDevice", "PCIeDevice Collection", ids)
    return body | {"@odata.id": f"{SYSTEM}/PCIeDevices"}
