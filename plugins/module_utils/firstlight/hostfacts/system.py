"""What kind of machine this is and which kernels it has: pure functions over captured text."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Mapping, Optional

from .disks import natural

_WORD = re.compile(r"^[a-z0-9_-]{1,32}\Z")
_RELEASE = re.compile(r"^[0-9][A-Za-z0-9._+~-]{2,63}\Z")


def virtualization(container: str, machine: str) -> Optional[str]:
    """``bare_metal``, ``container``, or the kind of virtual machine; None when it is not known.

    container, machine: what ``systemd-detect-virt --container`` and ``--vm`` print; empty when they could not run.
    """
    inside, below = container.strip(), machine.strip()
    if inside and inside != "none" and _WORD.match(inside):
        return "container"
    if not inside or not below or not _WORD.match(below):
        return None
    return "bare_metal" if below == "none" else below


def distribution(os_release: str) -> str:
    """As inventory/versions.yml writes it: ``debian-12``, ``ubuntu-24.04``; empty when it is not told."""
    values = dict(re.findall(r'^([A-Z_]+)="?([^"\n]*)"?$', os_release, re.MULTILINE))
    name, version = values.get("ID", ""), values.get("VERSION_ID", "")
    if name != "ubuntu":
        version = version.split(".")[0]
    return f"{name}-{version}" if _WORD.match(name) and version else ""


def kernels(running: str, images: Iterable[str], modules: Mapping[str, bool]) -> Dict[str, Any]:
    """running, installed (those with an image, the newest last), headers (those that modules can be built for).

    images: names in /boot. modules: by folder of /lib/modules whether it has a ``build`` that leads somewhere.
    """
    found = [name[len("vmlinuz-") :] for name in images if name.startswith("vmlinuz-")]
    usable = [one for one in found if _RELEASE.match(one)]
    headers = [one for one, there in modules.items() if there and _RELEASE.match(one)]
    return {
        "running": running,
        "installed": sorted(set(usable), key=natural),
        "headers": sorted(set(headers), key=natural),
    }


def secure_boot(efi: bool, variable: Optional[bytes], inside: bool) -> Optional[bool]:
    """Whether the firmware enforces it; None when that cannot be seen.

    efi: is there /sys/firmware/efi. variable: the content of its SecureBoot-..., 4 octets of attributes before the
    value. inside: a container, whose machine's firmware says nothing to it.
    """
    if inside:
        return None
    if not efi:
        return False
    return variable[4] == 1 if variable is not None and len(variable) == 5 else None


def cpu_list(text: str) -> List[int]:
    """``0-3,8`` as numbers; ValueError when it is not that."""
    found: List[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if not re.fullmatch(r"[0-9]{1,5}", first) or not re.fullmatch(r"[0-9]{1,5}", last or first):
            raise ValueError(f"{text[:40]!r} is no list of CPUs")
        found += range(int(first), int(last or first) + 1)
    return found


def cpufreq(online: str, policies: Mapping[str, Mapping[str, str]]) -> Dict[str, Any]:
    """driver, governors, energy_preferences, online_cpus (None when not readable).

    policies: by ``policyN`` the text of its files. Offered is what every policy offers; there may be none at all.
    """
    try:
        cpus: Optional[int] = len(cpu_list(online))
    except ValueError:
        cpus = None
    rows = [policies[name] for name in sorted(policies, key=natural)]
    return {
        "driver": next((row["scaling_driver"].strip() for row in rows if row.get("scaling_driver")), ""),
        "governors": _offered(rows, "scaling_available_governors"),
        "energy_preferences": _offered(rows, "energy_performance_available_preferences"),
        "policies": len(rows),
        "online_cpus": cpus,
    }


def _offered(rows: List[Mapping[str, str]], key: str) -> List[str]:
    every = [row.get(key, "").split() for row in rows]
    return [word for word in every[0] if all(word in words for words in every)] if every else []
