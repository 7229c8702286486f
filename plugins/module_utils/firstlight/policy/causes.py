"""What is behind findings: which kind of part, and which one. Several findings with one root are one cause.

A GPU that fell off the bus is told by half a dozen checks, each with other words; people mend it once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from ..findings import ACTIONS, Finding

# What is no finding about a part, but that something could not be looked at.
UNSEEN = "unseen"
# Kinds of which a part can be worn out; everything else is set or started, and is never replaced for failing often.
HARDWARE = ("gpu", "hca", "nic", "drive", "psu", "fan", "memory", "cpu", "board", "bmc", "host")
# Kinds that are mended as one: where in them it failed does not make it another cause.
_WHOLE = ("bmc", "host", "cpu", "cooling")

# The longest beginning of a symptom that is here tells its kind; else the kind is the symptom's first word.
_KINDS = {
    "gpu.": "gpu", "xid.": "gpu", "sxid.": "gpu", "nvlink.": "gpu", "kernel.gpu_init": "gpu",
    "gpu.driver_": "driver", "fabric_manager.": "driver",
    "gpu.process": "job", "gpu.memory_in_use": "job", "container.": "job",
    "gpu.power_limit": "gpu_setting", "gpu.slow_clocks": "gpu_setting", "gpu.clocks_held": "gpu_setting",
    "gpu.ecc_off": "gpu_setting", "gpu.ecc_pending": "gpu_setting", "gpu.unexpected": "gpu_setting",
    "gpu.wrong_model": "gpu_setting", "gpu.wrong_numa": "gpu_setting", "gpu.far_from_nic": "gpu_setting",
    "gpu.firmware": "firmware", "hca.firmware": "firmware", "hca.module_firmware": "firmware",
    "hca.": "hca", "kernel.nic_": "hca",
    "nic.": "nic", "install.no_link": "nic", "nic.duplicate_mac": "identity", "nic.wrong_pxe_mac": "identity",
    "nvme.": "drive", "disk.": "drive", "drive.": "drive", "zfs.drive_": "drive", "zfs.no_drive": "drive",
    "os_disk.missing": "drive", "os_disk.failed": "drive", "os_disk.drive_gone": "drive",
    "kernel.disk_error": "drive", "kernel.nvme_": "drive", "install.disk_write": "drive",
    "disk.full": "disk_space", "disk.no_inodes": "disk_space", "zfs.pool_full": "disk_space",
    "zfs.drive_not_empty": "zfs", "zfs.drive_in_use": "zfs", "zfs.drive_offline": "zfs",
    "psu.": "psu", "fan.": "fan", "temperature.": "cooling", "gpu.hot": "cooling", "gpu.throttled": "cooling",
    "hca.hot": "cooling", "hca.module_hot": "cooling", "nvme.hot": "cooling", "kernel.cpu_throttled": "cooling",
    "dimm.": "memory", "memory.": "memory", "kernel.memory_": "memory",
    "kernel.machine_check": "cpu", "pcie.": "board", "kernel.pcie_": "board", "chassis.": "board",
    "bmc.": "bmc", "install.power_": "bmc", "release.power_failed": "bmc", "power.": "bmc",
    "ssh.unreachable": "host", "kernel.oops": "host", "kernel.lockup": "host", "kernel.rcu_stall": "host",
    "kernel.hung_task": "host", "install.kernel_panic": "host", "install.no_first_boot": "host",
    "install.no_pxe": "host", "install.no_ssh": "host", "ssh.": "trust",
    "host.": "identity", "os_disk.": "os_disk", "clock.": "clock", "install.clock": "clock",
    "cpu.": "cpu_setting", "hugepages.": "tuning", "sysctl.": "tuning", "swap.": "tuning", "limits.": "tuning",
    "tmp.": "tuning", "dcgm.": "exporter", "verdict.": UNSEEN,
}  # fmt: skip
_BY_LENGTH = sorted(_KINDS, key=len, reverse=True)

# The part itself is gone or dead, so that what follows from it is no fault of its own.
_ROOTS = re.compile(
    r"(gpu|hca|nvme|nic|os_disk|psu|fan|dimm|pcie|memory)\.(missing|lost|failed)|pcie\.no_answer|kernel\.pcie_lost"
    r"|xid\.79|gpu\.(sram_errors|rows_failed|memory_unrepairable|inforom|baseboard_down)|nvme\.not_live"
    r"|(disk|drive)\.(failed|read_error)|zfs\.drive_(missing|failed|unreadable)|kernel\.(disk_error|nvme_lost)"
)
# What nvidia-smi could not tell, because of a GPU that is gone.
_UNTOLD = re.compile(r"(gpu|nvlink|dcgm)[a-z_]*\..*")
# What follows from a part of that kind: of links and pools, which are between or over parts.
_FOLLOWS = {
    "gpu": re.compile(
        r"nvlink\..*|sxid\..*|gpu\.(fabric_.*|wrong_link|far_from_nic)|fabric_manager\.not_running|dcgm\.gpu_missing"
        r"|docker\.(gpu_missing|no_gpu)|xid\.(74|144|145|146|147|148|149|150)"
    ),
    "drive": re.compile(r"zfs\.(pool_degraded|pool_unavailable|data_lost)|mount\.read_only|kernel\.file_system"),
    "hca": re.compile(r"rdma\.no_device"),
    "psu": re.compile(r"psu\.redundancy_lost|cpu\.bios_limit"),
}
LINKS = "links"

_TASK = re.compile(r"(?<! ): ")  # what ends its name in the evidence; "role : name" is one

_COUNTED = re.compile(r"(all|\d+)( of \d+)?( [a-z]+){0,3}(:.*)?", re.IGNORECASE)
_PCI = re.compile(r"\b([0-9a-f]{4,8}:[0-9a-f]{2,4}:[0-9a-f]{2})\b", re.IGNORECASE)
_SERIAL = re.compile(r"\bserial ([A-Za-z0-9._-]+)")
_HCA = re.compile(r"\bmlx\d+_\d+\b")
_NVME = re.compile(r"\bnvme\d+")
_SD = re.compile(r"\b(sd[a-z]{1,2})\d*\b")
_WORD = re.compile(r"[a-z][a-z0-9_]{0,31}")
_SLOT = re.compile(r"(?!NIC)([A-Za-z]+\.[A-Za-z]+\.[A-Za-z0-9]+)")
_OF_LOCATOR = (
    (re.compile(r"^(GPU|Video\.)", re.IGNORECASE), "gpu"),
    (re.compile(r"^(HCA|InfiniBand)|\bHCAs?\b|\bmlx\d", re.IGNORECASE), "hca"),
    (re.compile(r"^(Disk|nvme|sd[a-z])|\bNVMe\b", re.IGNORECASE), "drive"),
    (re.compile(r"^NIC|\bEthernet\b", re.IGNORECASE), "nic"),
    (re.compile(r"\bGPUs?\b"), "gpu"),
)


@dataclass(frozen=True, order=True)
class Cause:
    """kind: of part, e.g. ``gpu``, or of setting. part: which one, "" where no finding says or it does not matter."""

    kind: str
    part: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.part}".rstrip()


def kind_of(finding: Finding) -> str:
    """The kind of part that a finding is about; UNSEEN where it only says that something could not be read."""
    if finding.status == "unknown":
        return UNSEEN
    beginning = next((b for b in _BY_LENGTH if finding.symptom.startswith(b)), None)
    kind = _KINDS[beginning] if beginning else finding.symptom.partition(".")[0]
    if not _WORD.fullmatch(kind):  # a stranger's symptom; a kind becomes part of names
        return "other"
    if kind == "board":  # PCIe is where all of them sit
        return next((of for pattern, of in _OF_LOCATOR if pattern.search(finding.locator)), kind)
    if kind == "clock" and finding.locator == "BMC":
        return "bmc"
    return kind


def part_of(finding: Finding) -> str:
    """Which part, spelled the same by every check that names it so; "" where the locator names none."""
    if kind_of(finding) in _WHOLE or kind_of(finding) not in HARDWARE:
        return ""
    locator = finding.locator.strip()
    if not locator or _COUNTED.fullmatch(locator) or finding.symptom == "psu.redundancy_lost":
        return ""
    if finding.symptom.startswith("zfs.") and "serial " not in locator and "." not in locator:
        return ""  # a pool
    if match := _SERIAL.search(locator):
        return f"serial {match[1]}"
    for pattern in (_HCA, _NVME):
        if match := pattern.search(locator):
            return match[0]
    if match := _PCI.search(locator):
        return match[1].lower()
    if (match := _SD.match(locator)) or (match := _SLOT.match(locator)):
        return match[1].lower()
    return " ".join(locator.lower().split())


T = TypeVar("T", bound=Finding)


def group(findings: Iterable[T]) -> dict[Cause, list[T]]:
    """These findings of one host by what is behind them; each is in exactly one group, the worst action first."""
    known = sorted(findings, key=_worst_first)
    gone = {kind_of(f) for f in known if f.status == "fail" and _ROOTS.fullmatch(f.symptom)}
    groups: dict[str, dict[str, list[T]]] = {}
    later: list[tuple[str, T]] = []
    for finding in known:
        kind, part = kind_of(finding), part_of(finding)
        over = next((k for k, pattern in _FOLLOWS.items() if pattern.fullmatch(finding.symptom)), None)
        if kind == UNSEEN and "gpu" in gone and _UNTOLD.fullmatch(finding.symptom):
            later.append(("gpu", finding))
        elif finding.status == "fail" and over in gone:
            later.append((str(over), finding))
        elif kind == over == "gpu":
            groups.setdefault(kind, {}).setdefault(LINKS, []).append(finding)  # a link is of two GPUs or a switch
        elif kind in HARDWARE and not part and kind not in _WHOLE:
            later.append((kind, finding))
        else:
            groups.setdefault(kind, {}).setdefault(part, []).append(finding)
    for parts in groups.values():
        _join_spellings(parts)
    for kind, finding in later:
        parts = groups.setdefault(kind, {"": []})
        parts[_main(parts)].append(finding)
    return {
        Cause(kind, part): sorted(parts[part], key=_worst_first)
        for kind, parts in sorted(groups.items())
        for part in parts
    }


def shared(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    """These findings of one host by what it may have in common with other hosts: the kind of part or of setting.

    A failed task is a cause of its own for each task; what could not be looked at is of the kind that it is about.
    """
    found: dict[str, list[Finding]] = {}
    for cause, known in group(findings).items():
        for finding in known:
            name = cause.kind
            if finding.symptom.endswith(".task_failed"):
                name = f"{finding.symptom}: {_TASK.split(finding.evidence, maxsplit=1)[0]}"
            elif name == UNSEEN:
                name = kind_of(replace(finding, status="fail"))
            found.setdefault(name, []).append(finding)
    return found


def _worst_first(finding: Finding) -> tuple[int, str, str]:
    return -ACTIONS.index(finding.action), finding.symptom, finding.locator


def _main(parts: Mapping[str, list[T]]) -> str:
    """The part that is gone, else the one with the worst action: what names no part is told with that."""
    return min(
        parts,
        key=lambda part: (
            not any(_ROOTS.fullmatch(f.symptom) for f in parts[part]),
            -max((ACTIONS.index(f.action) for f in parts[part]), default=0),
            part,
        ),
    )


def _join_spellings(parts: dict[str, list[T]]) -> None:
    """One dead part that the BMC calls by its slot, and one that the kernel calls by its address, are the same."""
    dead = [part for part, found in parts.items() if any(_ROOTS.fullmatch(f.symptom) for f in found)]
    slots = [part for part in dead if re.match(r"[a-z]+\.[a-z]+\.", part)]
    others = [part for part in dead if part not in slots]
    if len(slots) == 1 and len(others) == 1:
        parts[slots[0]] += parts.pop(others[0])
