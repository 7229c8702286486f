"""Triage of parts that are counted: GPUs, HCAs, NVMe drives, OS disk, power supplies. Each returns its findings."""

from __future__ import annotations

from collections.abc import Sequence

from ..findings import Finding
from ..profile import Profile
from .hardware import Drive, Gpu, Hardware, Psu
from .slots import missing_slots


def gpu_ids(hardware: Hardware) -> list[str]:
    return [gpu.id for gpu in hardware.gpus]


def hca_ids(hardware: Hardware) -> list[str]:
    """InfiniBand adapters; one adapter can have several ports."""
    adapters = [nic.adapter or nic.id for nic in hardware.nics if nic.kind == "infiniband"]
    return list(dict.fromkeys(adapters))


def nvme_ids(hardware: Hardware, profile: Profile) -> list[str]:
    return [drive.id for drive in _data_drives(hardware, profile)]


def psu_ids(hardware: Hardware) -> list[str]:
    return [psu.id for psu in hardware.psus]


def gpus(hardware: Hardware, profile: Profile, peers: Sequence[str] = ()) -> list[Finding]:
    """All GPUs are there, of the right model, and none is broken."""
    found = _counted("gpus", "gpu.missing", "GPU", gpu_ids(hardware), hardware, profile, peers)
    model = str(profile.gpus.get("model", ""))
    for gpu in hardware.gpus:
        if model and gpu.model and model not in gpu.model:
            evidence = f"is a {gpu.model}; the profile {profile.name} says {model}"
            found.append(Finding("gpus", "fail", "gpu.wrong_model", _where("GPU", gpu.id), evidence, "escalate"))
        found += _broken("gpus", "gpu.failed", _where("GPU", gpu.id), gpu, "replace")
    return found or [Finding("gpus", "ok", "gpus", "", _tally(len(hardware.gpus), profile, "gpus", "GPUs"))]


def hcas(hardware: Hardware, profile: Profile, peers: Sequence[str] = ()) -> list[Finding]:
    """All InfiniBand adapters are there."""
    ids = hca_ids(hardware)
    found = _counted("hcas", "hca.missing", "HCA", ids, hardware, profile, peers)
    return found or [Finding("hcas", "ok", "hcas", "", _tally(len(ids), profile, "hcas", "HCAs"))]


def nvme(hardware: Hardware, profile: Profile, peers: Sequence[str] = ()) -> list[Finding]:
    """All data drives are there, large enough, and none is broken."""
    drives = _data_drives(hardware, profile)
    unread = "drives" in hardware.unread
    found = _counted("nvme", "nvme.missing", "NVMe", [d.id for d in drives], hardware, profile, peers, part="drives")
    least = int(profile.nvme.get("min_bytes", 0))
    for drive in drives:
        if profile.count("nvme") and drive.size_bytes < least and not (unread and not drive.size_bytes):
            evidence = f"has {drive.size_bytes} bytes; the profile {profile.name} wants {least}"
            found.append(Finding("nvme", "fail", "nvme.too_small", _where("drive", drive.id), evidence, "replace"))
        found += _broken("nvme", "nvme.failed", _where("drive", drive.id), drive, "replace")
    return found or [Finding("nvme", "ok", "nvme", "", _tally(len(drives), profile, "nvme", "NVMe drives"))]


def os_disk(hardware: Hardware, profile: Profile) -> list[Finding]:
    """There is a disk to install on: behind the profile's controller, large enough, not broken."""
    wanted = str(profile.os_disk.get("controller", ""))
    if not wanted:
        return [Finding("os_disk", "ok", "os_disk", "", f"the profile {profile.name} names no controller")]
    least = int(profile.os_disk.get("min_bytes", 0))
    disks = [d for d in hardware.drives if wanted in d.controller]
    fitting = [d for d in disks if d.size_bytes >= least]
    if not fitting:
        if "drives" in hardware.unread:
            return [_unread("os_disk", "os_disk.missing", f"OS disk {wanted}", "the drives could not all be read")]
        evidence = f"no drive of {least} bytes or more behind a controller named {wanted}"
        if disks:
            evidence += f"; the largest has {max(d.size_bytes for d in disks)}"
        return [Finding("os_disk", "fail", "os_disk.missing", f"OS disk {wanted}", evidence, "reseat")]
    found = [
        f for disk in fitting for f in _broken("os_disk", "os_disk.failed", _where("drive", disk.id), disk, "replace")
    ]
    return found or [Finding("os_disk", "ok", "os_disk", fitting[0].id)]


def psus(hardware: Hardware, profile: Profile, peers: Sequence[str] = ()) -> list[Finding]:
    """All power supplies are there and give power."""
    found = _counted("psus", "psu.missing", "PSU", psu_ids(hardware), hardware, profile, peers)
    for psu in hardware.psus:
        # A supply without its power cord is often all that is wrong.
        action = "reseat" if psu.state.startswith("Unavailable") else "replace"
        found += _broken("psus", "psu.failed", _where("PSU", psu.id), psu, action)
    return found or [Finding("psus", "ok", "psus", "", _tally(len(hardware.psus), profile, "psus", "PSUs"))]


def _data_drives(hardware: Hardware, profile: Profile) -> list[Drive]:
    """NVMe drives that are not the OS disk's."""
    system = str(profile.os_disk.get("controller", ""))
    return [d for d in hardware.drives if d.protocol == "NVMe" and not (system and system in d.controller)]


def _counted(
    check: str,
    symptom: str,
    word: str,
    present: Sequence[str],
    hardware: Hardware,
    profile: Profile,
    peers: Sequence[str],
    part: str = "",
) -> list[Finding]:
    """A finding for each part that is missing: with its slot where it can be told, else one for all."""
    expected = profile.count(check)
    lacking = expected - len(set(present))
    if lacking <= 0:
        return []
    evidence = f"{len(set(present))} of {expected} {word}s: present {', '.join(present) or 'none'}"
    if (part or check) in hardware.unread:
        return [_unread(check, symptom, f"{lacking} {word}s", f"{evidence}; not all could be read")]
    slots = list(getattr(profile, check).get("slots", ())) or list(peers)
    missing = missing_slots(present, expected, slots)
    if missing:
        return [Finding(check, "fail", symptom, _where(word, slot), evidence, "reseat") for slot in missing]
    return [Finding(check, "fail", symptom, f"{lacking} {word}{'s' if lacking > 1 else ''}", evidence, "reseat")]


def _broken(check: str, symptom: str, locator: str, part: Gpu | Drive | Psu, action: str) -> list[Finding]:
    """A finding when the BMC calls a part bad. A part that it says nothing about is not bad."""
    told = f"Health {part.health or 'not told'}, State {part.state or 'not told'}"
    if isinstance(part, (Gpu, Drive)):
        told += f", {part.model or 'model not told'}, serial {part.serial or 'not told'}"
    predicted = isinstance(part, Drive) and part.failure_predicted
    if part.health == "Critical" or part.state.startswith(("Unavailable", "Disabled")):
        return [Finding(check, "fail", symptom, locator, told, action)]
    if predicted:
        return [Finding(check, "fail", symptom, locator, f"{told}; it predicts its own failure", action)]
    if part.health == "Warning":
        return [Finding(check, "warn", symptom, locator, told)]
    return []


def _unread(check: str, symptom: str, locator: str, evidence: str) -> Finding:
    return Finding(check, "unknown", symptom, locator, evidence, "reset_bmc")


def _tally(count: int, profile: Profile, check: str, words: str) -> str:
    return f"{count} of {profile.count(check)} {words}"


def _where(word: str, identity: str) -> str:
    """The id of a part, with what it is where that is a mere number."""
    return identity if any(c.isalpha() for c in identity) else f"{word} {identity}"
