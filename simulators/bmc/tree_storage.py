"""Redfish tree of a simulated iDRAC9: Storage, with the NVMe drives and the BOSS card."""

from __future__ import annotations

from simulators.bmc import parts
from simulators.bmc.hardware import BOSS, ENCLOSURE, Disk
from simulators.bmc.machine import Machine
from simulators.bmc.tree import CHASSIS, OK_ROLLUP, ROOT, SYSTEM, Resource, collection, head, ref, resource

STORAGE = f"{SYSTEM}/Storage"
NVME = "CPU.1"  # where iDRAC puts drives that hang directly on a CPU
_NAMES = {NVME: "CPU.1", BOSS: "BOSS-N1"}


def _disks(machine: Machine, controller: str) -> list[Disk]:
    if controller == NVME:
        return parts.drives(machine)
    return parts.os_disks(machine) if controller == BOSS else []


def _failed(machine: Machine, controller: str, disk: Disk) -> bool:
    return controller == NVME and parts.drive_failed(machine, disk)


@resource(STORAGE)
def storage_collection(machine: Machine) -> Resource:
    """The storage controllers."""
    return collection(machine, STORAGE, "Storage", "Storage Collection", [NVME, BOSS])


@resource(f"{STORAGE}/*")
def storage(machine: Machine, controller: str) -> Resource | None:
    """One controller and links to its drives."""
    if controller not in _NAMES:
        return None
    path = f"{STORAGE}/{controller}"
    drives = [ref(f"{path}/Drives/{disk.fqdd}") for disk in reversed(_disks(machine, controller))]
    level = "Critical" if controller == NVME and machine.has("nvme_failed") else "OK"
    body = head(path, "Storage", "v1_15_1", _NAMES[controller]) | {
        "Drives": drives,
        "Drives@odata.count": len(drives),
        "Links": {"Enclosures": [ref(f"{ROOT}/Chassis/{ENCLOSURE}"), ref(CHASSIS)], "Enclosures@odata.count": 2},
        "Status": {"Health": level, "HealthRollup": level, "State": "Enabled"},
        "Volumes": ref(f"{path}/Volumes"),
    }
    if controller == BOSS:
        body["StorageControllers"] = [
            {
                "@odata.id": f"{path}#/StorageControllers/0",
                "@odata.type": "#Storage.v1_15_1.StorageController",
                "FirmwareVersion": "2.1.13.2025",
                "Manufacturer": "DELL",
                "MemberId": "0",
                "Model": "BOSS-N1",
                "Name": "BOSS-N1",
                "Status": dict(OK_ROLLUP),
                "SupportedControllerProtocols": ["PCIe"],
                "SupportedDeviceProtocols": ["NVMe"],
                "SupportedRAIDTypes": ["RAID0", "RAID1"],
            }
        ]
        body["StorageControllers@odata.count"] = 1
    return body


@resource(f"{STORAGE}/*/Drives/*")
def drive(machine: Machine, controller: str, fqdd: str) -> Resource | None:
    """One drive."""
    for disk in _disks(machine, controller):
        if disk.fqdd == fqdd:
            break
    else:
        return None
    path = f"{STORAGE}/{controller}/Drives/{fqdd}"
    failed = _failed(machine, controller, disk)
    level = "Critical" if failed else "OK"
    nvme = controller == NVME
    name = f"PCIe SSD in Slot {disk.number} in Bay 1" if nvme else f"SSD {disk.number}"
    volume = fqdd if nvme else machine.hardware.os_volume
    return head(path, "Drive", "v1_17_0", name) | {
        "BlockSizeBytes": 512,
        "CapableSpeedGbs": 31.5 if nvme else 15.75,
        "CapacityBytes": disk.size,
        "EncryptionAbility": "None",
        "FailurePredicted": failed,
        "HotspareType": "None",
        "Identifiers": [{"DurableName": None, "DurableNameFormat": None}],
        "Links": {
            "Chassis": ref(f"{ROOT}/Chassis/{ENCLOSURE}" if nvme else CHASSIS),
            "Volumes": [ref(f"{STORAGE}/{controller}/Volumes/{volume}")],
            "Volumes@odata.count": 1,
        },
        "Manufacturer": "KIOXIA Corporation " if nvme else "DELL",
        "MediaType": "SSD",
        "Model": disk.model,
        "NegotiatedSpeedGbs": 31.5 if nvme else 15.75,
        "Oem": {
            "Dell": {
                "@odata.type": "#DellOem.v1_3_0.DellOemResources",
                "DellPCIeSSD": {
                    "AvailableSparePercent": parts.life_left(machine, disk),
                    "BusProtocol": "PCIE",
                    "DeviceProtocol": "NVMe 1.4",
                    "DriveState": "Failed" if failed else "Ready",
                    "PCIeCapableLinkWidth": "x4",
                    "PCIeNegotiatedLinkWidth": f"x{parts.width(machine, 'drive', disk.number, 4) if nvme else 4}",
                    "Slot": disk.number,
                },
            }
        },
        "PhysicalLocation": {"PartLocation": {"LocationOrdinalValue": disk.number, "LocationType": "Slot"}},
        "PredictedMediaLifeLeftPercent": parts.life_left(machine, disk),
        "Protocol": "PCIe" if nvme else "NVMe",
        "Revision": parts.version(machine, "nvme"),
        "RotationSpeedRPM": None,
        "SerialNumber": disk.serial,
        "Status": {"Health": level, "HealthRollup": level, "State": "Enabled"},
        "WriteCacheEnabled": False,
    }


@resource(f"{STORAGE}/*/Volumes")
def volumes(machine: Machine, controller: str) -> Resource | None:
    """Each NVMe drive is a volume by itself; the BOSS card has one mirror."""
    if controller not in _NAMES:
        return None
    ids = (
        [machine.hardware.os_volume][: len(parts.os_disks(machine))]
        if controller == BOSS
        else [disk.fqdd for disk in parts.drives(machine)]
    )
    return collection(machine, f"{STORAGE}/{controller}/Volumes", "Volume", "Volume Collection", ids)


@resource(f"{STORAGE}/*/Volumes/*")
def volume(machine: Machine, controller: str, name: str) -> Resource | None:
    """One volume."""
    mirror = controller == BOSS and name == machine.hardware.os_volume
    disks = [disk for disk in _disks(machine, controller) if mirror or disk.fqdd == name]
    if not disks:
        return None
    level = "Critical" if any(_failed(machine, controller, disk) for disk in disks) else "OK"
    return head(f"{STORAGE}/{controller}/Volumes/{name}", "Volume", "v1_8_0", "VD_0" if mirror else name) | {
        "BlockSizeBytes": 512,
        "CapacityBytes": disks[0].size,
        "DisplayName": "OS" if mirror else None,
        "Links": {
            "Drives": [ref(f"{STORAGE}/{controller}/Drives/{disk.fqdd}") for disk in disks],
            "Drives@odata.count": len(disks),
        },
        "RAIDType": "RAID1" if mirror else None,
        "Status": {"Health": level, "HealthRollup": level, "State": "Enabled"},
        "VolumeType": "Mirrored" if mirror else "RawDevice",
    }
