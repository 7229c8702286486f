"""GPUs, drives, memory and PCIe links out of a tree. Pure; what does not fit is left out, nothing raises."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from .hardware import Dimm, Drive, Gpu, Nic, PcieLink
from .values import dig, entries, health, link, members, natural, number, real, resource, rows, state, text
from .vendors import nvidia
from .vendors.vendor import told

Node = dict[str, Any]
Tree = Mapping[str, Any]

# Display controller, 3D: a GPU without a screen; 0x0300 is the BMC's own VGA. 0x1200: processing accelerator.
_GPU_CLASS = re.compile(r"^0x(0302|1200)", re.IGNORECASE)
# Gbit/s of one lane, as drives tell it -> PCIe generation
_LANE_SPEEDS = ((2.0, 1), (4.0, 2), (7.88, 3), (15.75, 4), (31.5, 5), (63.0, 6))


def pcie_devices(tree: Tree, chassis: Iterable[Node], system: Node) -> list[Node]:
    """PCIe devices: of the chassis that were read, or as the system lists them."""
    found: dict[str, Node] = {}
    for one in chassis:
        for device in members(tree, link(one, "PCIeDevices")):
            found.setdefault(link(device) or text(device, "Id"), device)
    return list(found.values()) or entries(tree, rows(system, "PCIeDevices"))


def gpus_of(tree: Tree, processors: list[Node], devices: list[Node], chassis: Node, firmware: list[Node]) -> list[Gpu]:
    """GPUs: among the processors; where none is there, among the PCIe devices, or in an iLO's own list."""
    found: dict[str, Gpu] = {}
    for processor in processors:
        if text(processor, "ProcessorType") == "GPU" and text(processor, "Id") and state(processor) != "Absent":
            device = _device_of(tree, processor)
            gpu = _gpu(text(processor, "Id"), processor)
            found[gpu.id] = replace(
                gpu,  # Lenovo tells neither model nor status among the processors
                model=gpu.model or told(device, "Model") or told(device, "Name"),
                health=gpu.health or health(device),
                state=gpu.state or state(device),
            )
    for device in devices if not found else ():
        if _is_gpu(tree, device) and state(device) != "Absent":
            gpu = _gpu(text(device, "Id"), device)
            found[gpu.id] = replace(gpu, model=gpu.model or told(device, "Name"))
    for device in members(tree, link(chassis, "Oem", "Hpe", "Links", "Devices")) if not found else ():
        if text(device, "DeviceType") == "GPU":
            name = text(device, "Location") or text(device, "Id")
            found[name] = replace(_gpu(name, device), model=text(device, "Name"))
    for identity, (level, how) in nvidia.gpu_firmware(firmware).items():
        known = found.get(identity)
        if known and (level == "Critical" or how == "Absent"):  # the firmware inventory asks the GPU, Processors do not
            found[identity] = replace(known, health="Critical", state=how or known.state)
    return sorted(found.values(), key=lambda gpu: natural(gpu.id))


def _gpu(identity: str, node: Node) -> Gpu:
    return Gpu(identity, told(node, "Model"), told(node, "SerialNumber"), health(node), state(node))


def _device_of(tree: Tree, processor: Node) -> Node:
    """The PCIe device of a processor; an R750 links one below Systems, and lists it below Chassis too."""
    return resource(tree, link(processor, "Links", "PCIeDevice"))


def _is_gpu(tree: Tree, device: Node) -> bool:
    if text(device, "Oem", "Supermicro", "GPUVendor") or number(device, "Oem", "Supermicro", "GPUSlot"):
        return True
    functions = members(tree, link(device, "PCIeFunctions")) or entries(tree, rows(device, "Links", "PCIeFunctions"))
    return any(_GPU_CLASS.match(text(function, "ClassCode")) for function in functions)


def drives_of(tree: Tree, controllers: list[Node], chassis: Iterable[Node]) -> list[Drive]:
    """Drives of the storage controllers, and of chassis that are backplanes."""
    found: dict[str, Drive] = {}
    for controller in controllers:
        listed = rows(controller, "Drives") or [
            {"@odata.id": link(drive)} for drive in members(tree, link(controller, "Drives"))
        ]
        for drive in entries(tree, listed):
            _add_drive(found, drive, text(controller, "Id"), _protocol(drive, controller))
    for one in chassis:
        for drive in members(tree, link(one, "Drives")):
            _add_drive(found, drive, text(one, "Id"), _protocol(drive, {}))
    drives = list({(d.serial or key, d.id): d for key, d in reversed(found.items())}.values())  # two ways to one
    twice = {drive.id for drive in drives if sum(other.id == drive.id for other in drives) > 1}
    named = [replace(d, id=f"{d.controller}/{d.id}") if d.id in twice else d for d in drives]
    return sorted(named, key=lambda drive: natural(drive.id))


def _add_drive(found: dict[str, Drive], drive: Node, controller: str, protocol: str) -> None:
    identity = text(drive, "Id")
    if not identity or state(drive) == "Absent" or (link(drive) or identity) in found:
        return
    left = number(drive, "PredictedMediaLifeLeftPercent")
    used = number(drive, "Oem", "Supermicro", "PercentageDriveLifeUsed")
    slot = text(drive, "PhysicalLocation", "PartLocation", "ServiceLabel")
    bus = text(drive, "Oem", "Dell", "DellPCIeSSD", "Bus")
    device = text(drive, "Oem", "Dell", "DellPCIeSSD", "Device")
    found[link(drive) or identity] = Drive(
        id=identity,
        name=text(drive, "Name"),
        model=text(drive, "Model"),
        serial=text(drive, "SerialNumber"),
        size_bytes=number(drive, "CapacityBytes") or 0,
        protocol=protocol,
        controller=controller,
        bus=f"{bus.lower()}:{device.zfill(2)}" if bus and device else "",
        bay=_bay(drive),
        slot=slot,
        firmware=text(drive, "Revision") or text(drive, "FirmwareVersion"),
        wear=100 - left if left is not None and left <= 100 else used if used is not None and used <= 255 else None,
        health=health(drive),
        state=state(drive),
        failure_predicted=drive.get("FailurePredicted") is True,
    )


def _protocol(drive: Node, controller: Node) -> str:
    """Dell calls an NVMe drive's protocol PCIe and says NVMe elsewhere; Supermicro's drives say none."""
    said = text(drive, "Protocol")
    device = text(drive, "Oem", "Dell", "DellPCIeSSD", "DeviceProtocol")
    if said in ("NVMe", "PCIe") or device.startswith("NVMe"):
        return "NVMe"
    if not said:
        speaks = dig(controller, "StorageControllers", 0, "SupportedDeviceProtocols")
        if speaks == ["NVMe"] or "nvme" in text(controller, "Id").lower():
            return "NVMe"
    return said


def _bay(drive: Node) -> int | None:
    match = re.match(r"^Disk\.(?:Bay|Direct)\.(\d{1,3})", text(drive, "Id"))
    return int(match[1]) if match else number(drive, "PhysicalLocation", "PartLocation", "LocationOrdinalValue")


def dimms_of(modules: list[Node]) -> list[Dimm]:
    """Memory modules that are there."""
    found = []
    for module in modules:
        identity = text(module, "Id")
        if not identity or state(module) == "Absent":
            continue
        if not any(c.isalpha() for c in identity):
            identity = text(module, "DeviceLocator") or text(module, "Name") or identity
        found.append(
            Dimm(
                id=identity,
                size_mib=number(module, "CapacityMiB") or 0,
                speed_mhz=number(module, "OperatingSpeedMhz"),
                part=text(module, "PartNumber"),
                serial=text(module, "SerialNumber"),
                health=health(module),
                state=state(module),
            )
        )
    return sorted(found, key=lambda dimm: natural(dimm.id))


def links_of(
    tree: Tree, processors: list[Node], devices: list[Node], adapters: list[Node], controllers: list[Node],
    gpus: list[Gpu], nics: list[Nic], drives: list[Drive],
) -> list[PcieLink]:  # fmt: skip
    """PCIe links of GPUs, network adapters and NVMe drives, where the BMC tells them."""
    found: dict[str, PcieLink] = {}
    names = {gpu.id for gpu in gpus}
    for processor in processors:
        if text(processor, "Id") in names:
            told_here = dig(processor, "SystemInterface", "PCIe")
            _add_link(found, text(processor, "Id"), "gpu", told_here or _interface(_device_of(tree, processor)))
    for device in devices:
        if text(device, "Id") in names:
            _add_link(found, text(device, "Id"), "gpu", _interface(device))
    infiniband = {nic.adapter for nic in nics if nic.kind == "infiniband"}
    serials = {text(device, "SerialNumber"): device for device in devices if told(device, "SerialNumber")}
    for adapter in adapters:
        name, controller = text(adapter, "Id"), dig(adapter, "Controllers", 0)
        interface = dig(controller, "PCIeInterface") or _interface(
            resource(tree, link(controller, "Links", "PCIeDevices", 0))
            or serials.get(told(adapter, "SerialNumber"))
            or {}
        )
        _add_link(found, name, "hca" if name in infiniband else "nic", interface)
    for controller in controllers:
        for drive in entries(tree, rows(controller, "Drives")):
            mine = next((d for d in drives if d.serial and d.serial == text(drive, "SerialNumber")), None)
            if mine and mine.protocol == "NVMe":
                _add_link(found, mine.id, "nvme", _drive_link(drive, controller))
    return list(found.values())


def _interface(device: Node) -> Any:
    return dig(device, "PCIeInterface") or dig(device, "Slot")


def _add_link(found: dict[str, PcieLink], identity: str, kind: str, interface: Any) -> None:
    if not identity or not isinstance(interface, dict) or identity in found:
        return
    made = PcieLink(
        id=identity,
        kind=kind,
        lanes=number(interface, "LanesInUse"),
        max_lanes=number(interface, "MaxLanes"),
        generation=_generation(interface, "PCIeType"),
        max_generation=_generation(interface, "MaxPCIeType"),
    )
    if made.lanes or made.generation:
        found[identity] = made


def _generation(interface: Node, key: str) -> int | None:
    match = re.match(r"^Gen(\d)$", text(interface, key))
    return int(match[1]) if match else None


def _drive_link(drive: Node, controller: Node) -> Any:
    """A drive's link as a PCIeInterface: Dell tells it in its own words, HPE at the drive's controller."""
    ssd = dig(drive, "Oem", "Dell", "DellPCIeSSD")
    if isinstance(ssd, dict):
        return {
            "LanesInUse": _width(text(ssd, "PCIeNegotiatedLinkWidth")),
            "MaxLanes": _width(text(ssd, "PCIeCapableLinkWidth")),
            "PCIeType": _speed(real(drive, "NegotiatedSpeedGbs")),
            "MaxPCIeType": _speed(real(drive, "CapableSpeedGbs")),
        }
    one_drive = len(rows(controller, "Drives")) == 1
    return dig(controller, "StorageControllers", 0, "PCIeInterface") if one_drive else None


def _width(told_width: str) -> int | None:
    match = re.match(r"^x(\d{1,2})$", told_width)
    return int(match[1]) if match else None


def _speed(gbps: float | None) -> str:
    for speed, generation in _LANE_SPEEDS:
        if gbps is not None and abs(gbps - speed) < speed * 0.1:
            return f"Gen{generation}"
    return ""
