"""Triage of parts that are counted: GPUs, HCAs, NVMe drives, OS disk, power supplies. Each returns its findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..findings import Finding
from ..profile import Profile
from .hardware import Drive, Gpu, Hardware, Nic, Psu
from .slots import missing_slots

WEAR_PERCENT = 90.0


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
    found = counted("gpus", "gpu.missing", "GPU", gpu_ids(hardware), hardware, profile, peers)
    model = str(profile.gpus.get("model", ""))
    down = any(c.health == "Critical" or c.state not in ("", "Enabled") for c in hardware.controllers)
    for gpu in hardware.gpus:
        if model and gpu.model and model not in gpu.model:
            evidence = f"is a {gpu.model}; the profile {profile.name} says {model}"
            found.append(Finding("gpus", "fail", "gpu.wrong_model", where("GPU", gpu.id), evidence, "escalate"))
        if not (down and gpu.state == "Absent"):  # the baseboard's finding tells these
            found += _broken("gpus", "gpu.failed", where("GPU", gpu.id), gpu, "replace")
    return found or [Finding("gpus", "ok", "gpus", "", _tally(len(hardware.gpus), profile, "gpus", "GPUs"))]


def hcas(hardware: Hardware, profile: Profile, peers: Sequence[str] = ()) -> list[Finding]:
    """All InfiniBand adapters are there, none is broken, and while the host is on its ports have link."""
    ids = hca_ids(hardware)
    found = counted("hcas", "hca.missing", "HCA", ids, hardware, profile, peers)
    ports = [nic for nic in hardware.nics if nic.kind == "infiniband"]
    for name, nic in {nic.adapter or nic.id: nic for nic in ports}.items():
        found += _broken("hcas", "hca.failed", name, nic, "replace")
    if hardware.power_state == "On" and any(nic.link == "up" for nic in ports):  # else the BMC is no witness
        for nic in ports:
            if nic.link == "down":
                evidence = "link down while other InfiniBand ports have link; check its cable if it does not train"
                found.append(Finding("hcas", "warn", "hca.no_link", nic.id, evidence))
    return found or [Finding("hcas", "ok", "hcas", "", _tally(len(ids), profile, "hcas", "HCAs"))]


def nvme(hardware: Hardware, profile: Profile, peers: Sequence[str] = ()) -> list[Finding]:
    """All data drives are there, large enough, and none is broken."""
    drives = _data_drives(hardware, profile)
    unread = "drives" in hardware.unread
    found = counted("nvme", "nvme.missing", "NVMe", [d.id for d in drives], hardware, profile, peers, part="drives")
    least = int(profile.nvme.get("min_bytes", 0))
    for drive in drives:
        if profile.count("nvme") and drive.size_bytes < least and not (unread and not drive.size_bytes):
            evidence = f"has {drive.size_bytes} bytes; the profile {profile.name} wants {least}"
            found.append(Finding("nvme", "fail", "nvme.too_small", where("drive", drive.id), evidence, "replace"))
        broken = _broken("nvme", "nvme.failed", where("drive", drive.id), drive, "replace")
        found += broken or _worn(drive, profile)
    return found or [Finding("nvme", "ok", "nvme", "", _tally(len(drives), profile, "nvme", "NVMe drives"))]


def _worn(drive: Drive, profile: Profile) -> list[Finding]:
    limit = profile.limit("nvme_wear_percent", WEAR_PERCENT)
    if drive.wear is None or drive.wear < limit:
        return []
    evidence = f"{drive.wear} % of its life is used; {limit:g} are allowed; {drive.model}, serial {drive.serial}"
    return [Finding("nvme", "fail", "nvme.worn", where("drive", drive.id), evidence, "replace")]


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
        f for disk in fitting for f in _broken("os_disk", "os_disk.failed", where("drive", disk.id), disk, "replace")
    ]
    return found or [Finding("os_disk", "ok", "os_disk", fitting[0].id)]


def psus(hardware: Hardware, profile: Profile, peers: Sequence[str] = ()) -> list[Finding]:
    """All power supplies are there and give power."""
    found = counted("psus", "psu.missing", "PSU", psu_ids(hardware), hardware, profile, peers)
    for psu in hardware.psus:
        broken = _broken("psus", "psu.failed", where("PSU", psu.id), psu, "replace")
        if broken and _no_input(psu):  # a supply without its power cord is often all that is wrong
            cord = f"{broken[0].evidence}; check its cord and its feed"
            broken = [replace(broken[0], symptom="psu.no_input", evidence=cord, action="reseat")]
        found += broken
    return found or [Finding("psus", "ok", "psus", "", _tally(len(hardware.psus), profile, "psus", "PSUs"))]


def _no_input(psu: Psu) -> bool:
    """Whether a bad power supply only lacks its input; a broken one shows no voltage either, but says more."""
    if psu.detail:
        return any(word in psu.detail.lower() for word in ("input lost", "noinput", "no input", "unplugged"))
    return psu.state.startswith("Unavailable") or psu.input_volts == 0


def _data_drives(hardware: Hardware, profile: Profile) -> list[Drive]:
    """NVMe drives that are not the OS disk's."""
    system, model = str(profile.os_disk.get("controller", "")), str(profile.os_disk.get("model", "")).casefold()
    if system:
        return [d for d in hardware.drives if d.protocol == "NVMe" and system not in d.controller]
    return [d for d in hardware.drives if d.protocol == "NVMe" and not (model and model in d.model.casefold())]


def counted(
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
        return [Finding(check, "fail", symptom, where(word, slot), evidence, "reseat") for slot in missing]
    return [Finding(check, "fail", symptom, f"{lacking} {word}{'s' if lacking > 1 else ''}", evidence, "reseat")]


def _broken(check: str, symptom: str, locator: str, part: Gpu | Drive | Psu | Nic, action: str) -> list[Finding]:
    """A finding when the BMC calls a part bad. A part that it says nothing about is not bad."""
    told = f"Health {part.health or 'not told'}, State {part.state or 'not told'}"
    if isinstance(part, (Gpu, Drive)):
        told += f", {part.model or 'model not told'}, serial {part.serial or 'not told'}"
    if isinstance(part, Psu):
        told += f", {part.detail or 'no detail'}, input {part.input_volts if part.input_volts is not None else '?'} V"
    predicted = isinstance(part, Drive) and part.failure_predicted
    # A network adapter that nothing uses yet is called Disabled, too.
    away = ("Unavailable",) if isinstance(part, Nic) else ("Unavailable", "Disabled")
    if part.health == "Critical" or part.state.startswith(away):
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


def where(word: str, identity: str) -> str:
    """The id of a part, with what it is where that is a mere number."""
    return identity if any(c.isalpha() for c in identity) else f"{word} {identity}"
