"""What is in a simulated server now, and in which state: its hardware less its faults. Every tree asks here."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

from simulators.bmc.hardware import (
    BIOS_VERSION,
    BMC_VERSION,
    BOOT_NIC,
    DIMMS,
    MODEL,
    PSUS,
    Disk,
    Gpu,
    Port,
    boot_mac,
)
from simulators.bmc.machine import Machine

Status = dict[str, str]

INLET, EXHAUST, CPU = 23.0, 38.0, 52.0  # degrees Celsius
FAN_RPM, FAN_FULL_RPM = 9600, 16800
PCIE_GENERATION = 5

# What an inventory calls the firmware, without faults and updates.
FIRMWARE = {
    "bios": BIOS_VERSION,
    "bmc": BMC_VERSION,
    "hca": "28.39.35.60",
    "gpu": "96.00.A5.00.01",
    "nic": "22.92.06.10",
    "nvme": "1.2.3",
    "psu": "00.1B.53",
}
MODELS = {"dell-idrac8": "PowerEdge C4130", "dell-idrac10": "PowerEdge XE9780"}
BMC_VERSIONS = {"dell-idrac8": "2.86.86.86", "dell-idrac10": "1.20.50.50"}
_CRITICAL = (
    "psu_failed", "psu_unplugged", "psu_missing", "redundancy_lost", "nvme_failed", "gpu_failed", "hca_failed",
    "fan_failed", "too_hot", "dimm_failed", "intrusion", "sel_critical",
)  # fmt: skip


_Made = TypeVar("_Made")


def once(make: Callable[[Machine], _Made]) -> Callable[[Machine], _Made]:
    """Keep what was made for a machine until it changes or another one is asked for.

    The members of a collection are built one after the other, each from the same lists.
    """
    kept: list[tuple[Machine, int, _Made]] = []

    def made(machine: Machine) -> _Made:
        if not kept or kept[0][0] is not machine or kept[0][1] != machine.version:
            kept[:] = [(machine, machine.version, make(machine))]
        return kept[0][2]

    return functools.update_wrapper(made, make)


def status(level: str = "OK", state: str = "Enabled") -> Status:
    """Return a Status object without a rollup."""
    return {"Health": level, "State": state}


def rollup(level: str = "OK", state: str = "Enabled") -> Status:
    """Return a Status object with its rollup."""
    return {"Health": level, "HealthRollup": level, "State": state}


def level(bad: bool) -> str:
    """Return Critical or OK."""
    return "Critical" if bad else "OK"


def health(machine: Machine) -> Status:
    """The rolled-up status of the whole server."""
    return rollup(level(any(machine.has(name) for name in _CRITICAL)))


def model(machine: Machine) -> str:
    """What it calls itself."""
    fault = machine.faults.get("wrong_model")
    return str(fault["model"] if fault else machine.entry.get("model", MODELS.get(machine.vendor, MODEL)))


def service_tag(machine: Machine) -> str:
    """The tag on the machine, or what the BMC takes for it."""
    if machine.has("no_tag"):
        return ""
    if machine.has("wrong_tag"):
        return str(machine.faults["wrong_tag"]["tag"])
    other = machine.fault_number("duplicate_tag", "of")
    return machine.hardware.service_tag if other is None else machine.tags.get(other, f"DUP{other:04d}")


@once
def gpus(machine: Machine) -> list[Gpu]:
    """The GPUs that are there."""
    gone = machine.fault_number("gpu_missing", "gpu")
    return [gpu for gpu in machine.hardware.gpus if gpu.number != gone]


def gpu_status(machine: Machine, gpu: Gpu) -> Status:
    """How one GPU is."""
    return status(level(machine.fault_number("gpu_failed", "gpu") == gpu.number))


@once
def nics(machine: Machine) -> list[Port]:
    """The Ethernet ports that are there."""
    found = [nic for nic in machine.hardware.nics if not (machine.has("nic_missing") and nic.fqdd == BOOT_NIC)]
    other = machine.fault_number("duplicate_mac", "of")
    if other is None:
        return found
    return [
        Port(nic.fqdd, nic.port, boot_mac(other), nic.description) if nic.fqdd == BOOT_NIC else nic for nic in found
    ]


def nic_up(machine: Machine, nic: Port) -> bool:
    """Say whether an Ethernet port has link. Only the boot NIC's cable is ever in another port."""
    return not (nic.fqdd == BOOT_NIC and (machine.has("no_link") or machine.has("cable_in_wrong_port")))


def can_pxe(machine: Machine) -> bool:
    """Say whether the boot NIC is there, has link, and the BIOS boots from it."""
    boots = machine.bios_value("PxeDev1EnDis") == "Enabled" and machine.bios_value("PxeDev1Interface") == BOOT_NIC
    return boots and any(nic.fqdd == BOOT_NIC and nic_up(machine, nic) for nic in nics(machine))


@once
def hcas(machine: Machine) -> list[tuple[int, Port]]:
    """The InfiniBand adapters that are there, each with its number from 0."""
    gone = machine.fault_number("hca_missing", "hca")
    return [(number, port) for number, port in enumerate(machine.hardware.hcas) if number != gone]


def hca_status(machine: Machine, number: int) -> Status:
    """How one InfiniBand adapter is."""
    return rollup(level(machine.fault_number("hca_failed", "hca") == number))


def hca_up(machine: Machine, number: int) -> bool:
    """Say whether an InfiniBand port has link: only while the server is on."""
    return machine.power == "On" and machine.fault_number("hca_no_link", "hca") != number


@once
def drives(machine: Machine) -> list[Disk]:
    """The data drives that are there."""
    gone = machine.fault_number("nvme_missing", "drive")
    built_in = machine.hardware.drives[: machine.entry.get("drives")]
    return [disk for disk in built_in if disk.number != gone]


def os_disks(machine: Machine) -> list[Disk]:
    """The drives behind the boot card that are there."""
    return [] if machine.has("os_disk_missing") else list(machine.hardware.os_disks[: machine.entry.get("os_disks")])


def drive_failed(machine: Machine, disk: Disk) -> bool:
    """Say whether a data drive has failed."""
    return disk in machine.hardware.drives and machine.fault_number("nvme_failed", "drive") == disk.number


def life_left(machine: Machine, disk: Disk) -> int:
    """Percent of a drive's life that is left."""
    if drive_failed(machine, disk):
        return 0
    if disk in machine.hardware.drives and machine.fault_number("nvme_worn", "drive") == disk.number:
        return int(machine.faults["nvme_worn"]["percent_left"])
    return 100


def width(machine: Machine, kind: str, number: int, widest: int) -> int:
    """Lanes in use of a part; kind: gpu, hca or drive."""
    fault = machine.faults.get("pcie_narrow")
    return min(int(fault["width"]), widest) if fault and int(fault[kind]) == number else widest


def generation(machine: Machine, kind: str, number: int) -> int:
    """The PCIe generation that a part runs at."""
    fault = machine.faults.get("pcie_slow")
    return int(fault["generation"]) if fault and int(fault.get(kind, -1)) == number else PCIE_GENERATION


def psus(machine: Machine) -> list[int]:
    """The numbers of the power supplies that are there."""
    gone = machine.fault_number("psu_missing", "psu")
    return [number for number in range(1, PSUS + 1) if number != gone]


def psu_status(machine: Machine, number: int) -> Status:
    """How one power supply is; one without its cord is not broken, but gives nothing."""
    if machine.fault_number("psu_unplugged", "psu") == number:
        return status("Critical", "UnavailableOffline")
    return status(level(machine.fault_number("psu_failed", "psu") == number))


def psu_works(machine: Machine, number: int) -> bool:
    """Say whether a power supply gives power."""
    return number in psus(machine) and psu_status(machine, number)["Health"] == "OK"


def redundancy(machine: Machine) -> Status:
    """How the power supplies' redundancy is."""
    lost = machine.has("redundancy_lost") or not all(psu_works(machine, number) for number in range(1, PSUS + 1))
    return status(level(lost))


def fan_rpm(machine: Machine, number: int) -> int:
    """Turns a minute of one fan (from 1)."""
    if machine.power != "On" or machine.fault_number("fan_failed", "fan") == number:
        return 0
    return FAN_FULL_RPM if machine.has("fan_full_speed") else FAN_RPM


def fan_percent(machine: Machine, number: int) -> int:
    """Speed of one fan, in percent."""
    return round(100 * fan_rpm(machine, number) / FAN_FULL_RPM)


def fan_status(machine: Machine, number: int) -> dict[str, str | None]:
    """How one fan is."""
    if machine.fault_number("fan_failed", "fan") == number:
        return {"Health": "Critical", "State": "Enabled"}
    return {"Health": "OK", "State": "Enabled"} if machine.power == "On" else {"Health": None, "State": "Disabled"}


def temperatures(machine: Machine) -> list[tuple[str, float, float, str]]:
    """Sensors that tell something: (name, degrees, upper critical threshold, health)."""
    inlet = float(machine.faults["too_hot"]["celsius"]) if machine.has("too_hot") else INLET
    found = [
        ("System Board Inlet Temp", inlet, 47.0, level(inlet > 47)),
        ("System Board Exhaust Temp", EXHAUST - INLET + inlet, 80.0, "OK"),
    ]
    if machine.power == "On":
        found += [(f"CPU{number} Temp", CPU - INLET + inlet, 100.0, "OK") for number in (1, 2)]
        found += [
            (f"GPU{gpu.number + 1} Temp", 34.0 - INLET + inlet, 92.0, gpu_status(machine, gpu)["Health"])
            for gpu in gpus(machine)
        ]
    return found


@once
def dimms(machine: Machine) -> list[str]:
    """The slots that hold a DIMM: A1 and so on."""
    gone = machine.fault_number("dimm_missing", "dimm")
    return [slot for number, slot in enumerate(DIMMS, 1) if number != gone]


def dimm_status(machine: Machine, slot: str) -> Status:
    """How one DIMM is."""
    return status(level(machine.fault_number("dimm_failed", "dimm") == DIMMS.index(slot) + 1))


def intrusion(machine: Machine) -> str:
    """What the chassis switch says, as Redfish writes it."""
    return "HardwareIntrusion" if machine.has("intrusion") else "Normal"


def version(machine: Machine, component: str) -> str:
    """The firmware that runs on a component: what an update put there, else what it came with."""
    fault = machine.faults.get("old_firmware")
    if fault and fault["component"] == component:
        return str(fault["version"])
    usual = BMC_VERSIONS.get(machine.vendor, BMC_VERSION) if component == "bmc" else FIRMWARE[component]
    return str(machine.firmware.get(component, usual))
