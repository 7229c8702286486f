"""Read what the facts are made of. Everything is bounded in time and size; a disk that hangs costs its own limit."""

from __future__ import annotations

import os
import pathlib
from typing import Any, Callable, Dict, List, Mapping, Optional, TypeVar

from ..checks.capture import Command, Output, run_all
from . import disks, pci, system

LSBLK = Command(("lsblk", "--json", "--bytes", "--output", disks.LSBLK_COLUMNS), limit=20.0, max_bytes=4 * 1024 * 1024)
CONTAINER = Command(("systemd-detect-virt", "--container"), limit=5.0)
MACHINE = Command(("systemd-detect-virt", "--vm"), limit=5.0)
SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_FUNCTIONS_MAX = 8192
_CPUFREQ = ("scaling_driver", "scaling_available_governors", "energy_performance_available_preferences")
_T = TypeVar("_T")


def gather(root: str = "/", limit: float = 30.0) -> Dict[str, Any]:
    """The facts, as documented in the module host_facts. root: where /proc, /sys, /dev and /boot are."""
    top = pathlib.Path(root)
    outputs = run_all([LSBLK, CONTAINER, MACHINE], limit)
    kind = system.virtualization(_printed(outputs[CONTAINER]), _printed(outputs[MACHINE]))
    facts: Dict[str, Any] = {
        "virtualization": kind,
        "distribution": system.distribution(_read(top / "etc/os-release")),
        "architecture": os.uname().machine,
        "kernels": _kernels(top),
        "secure_boot": system.secure_boot(
            (top / "sys/firmware/efi").is_dir(), _octets(top / SECURE_BOOT, 16), kind == "container"
        ),
        "pci": _pci(top),
        "cpufreq": _cpufreq(top),
        "problems": [],
    }
    facts.update(_disks(top, outputs[LSBLK], limit, facts["problems"]))
    return facts


def _printed(output: Output) -> str:
    """What systemd-detect-virt printed; it exits with 1 for "none"."""
    return "" if output.problem else output.text


def _read(path: pathlib.Path, limit: int = 1024 * 1024) -> str:
    return (_octets(path, limit) or b"").decode("utf-8", "replace")


def _octets(path: pathlib.Path, limit: int) -> Optional[bytes]:
    try:
        with path.open("rb") as file:
            return file.read(limit)
    except OSError:
        return None


def _names(path: pathlib.Path, limit: int = 4096) -> List[str]:
    try:
        return sorted(entry.name for entry in path.iterdir())[:limit]
    except OSError:
        return []


def _kernels(top: pathlib.Path) -> Dict[str, Any]:
    folders = _names(top / "lib/modules")
    built = {name: (top / "lib/modules" / name / "build").exists() for name in folders}
    return system.kernels(os.uname().release, _names(top / "boot"), built)


def _pci(top: pathlib.Path) -> Dict[str, Any]:
    functions = []
    configs: Dict[str, Optional[bytes]] = {}
    for name in _names(top / "sys/bus/pci/devices", _FUNCTIONS_MAX):
        function = pci.read_uevent(_read(top / "sys/bus/pci/devices" / name / "uevent", 4096))
        if function is None:
            continue
        functions.append(function)
        if function.kind == pci.BRIDGE_PCI:
            configs[function.address] = _octets(top / "sys/bus/pci/devices" / name / "config", 4096)
    return pci.summary(functions, configs)


def _cpufreq(top: pathlib.Path) -> Dict[str, Any]:
    folder = top / "sys/devices/system/cpu"
    policies: Dict[str, Mapping[str, str]] = {
        name: {key: _read(folder / "cpufreq" / name / key, 4096) for key in _CPUFREQ}
        for name in _names(folder / "cpufreq")
        if name.startswith("policy")
    }
    return system.cpufreq(_read(folder / "online", 4096), policies)


def _disks(top: pathlib.Path, listed: Output, limit: float, problems: List[str]) -> Dict[str, Any]:
    unknown: Dict[str, Any] = {"os_disks": None, "os_unresolved": ["/"], "disks": None}
    blocks = _understood(lambda: disks.read_lsblk(listed.text), "lsblk", listed, problems)
    if blocks is None:
        return unknown
    links = _links(top)
    real = {f"/dev/mapper/{name}": kernel for name, kernel in _targets(top / "dev/mapper").items()}
    mounts = disks.read_mounts(_read(top / "proc/self/mountinfo"))
    swaps = disks.read_swaps(_read(top / "proc/swaps"))
    os_names, lost = disks.os_drives(blocks, mounts, swaps, real)
    wipefs = {}
    for name in blocks.drives():
        paths = [f"/dev/{n}" for n in blocks.below(name) if n == name or blocks.nodes[n].get("type") == "part"]
        if all(pathlib.Path(path).exists() for path in paths):  # a container sees drives that it has no nodes for
            columns = "DEVICE,TYPE,LABEL,UUID,USAGE"
            wipefs[name] = Command(("wipefs", "--json", "--output", columns, *sorted(paths)), limit=15.0)
        else:
            problems.append(f"{name}: no node in /dev")
    outputs = run_all(wipefs.values(), limit)
    signatures = {}
    for name, command in wipefs.items():
        output = outputs[command]
        signatures[name] = _understood(lambda o=output: disks.read_wipefs(o.text), f"{name}: wipefs", output, problems)  # type: ignore[misc]
    rows = disks.describe(blocks, links, signatures, os_names)
    keep = ("name", "serial", "wwn", "by_id", "model")
    return {
        "os_disks": [{key: row[key] for key in keep} for row in rows if row["is_os"]],
        "os_unresolved": lost,
        "disks": rows,
    }


def _understood(read: Callable[[], _T], what: str, output: Output, problems: List[str]) -> Optional[_T]:
    """What was read, or None with a line among the problems."""
    if output.problem or output.code:
        said = " ".join(output.errors.split())[:200] or f"exit status {output.code}"
        problems.append(f"{what}: {output.problem or said}")
        return None
    try:
        return read()
    except ValueError as error:
        problems.append(f"{what}: {error}")
        return None


def _targets(folder: pathlib.Path) -> Dict[str, str]:
    """By name of each link in a folder the kernel name that it leads to."""
    found = {}
    for name in _names(folder):
        try:
            found[name] = (folder / name).readlink().name
        except OSError:
            continue
    return found


def _links(top: pathlib.Path) -> Dict[str, List[str]]:
    by_kernel_name: Dict[str, List[str]] = {}
    for name, kernel in _targets(top / "dev/disk/by-id").items():
        by_kernel_name.setdefault(kernel, []).append(name)
    return by_kernel_name
