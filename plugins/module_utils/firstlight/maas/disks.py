"""Which of a machine's disks gets the operating system: by identity, never by /dev order or MAAS's default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..findings import Finding

Disk = dict[str, Any]


@dataclass(frozen=True)
class OsDisk:
    """What is known about the disk that may be overwritten.

    serials: of the disk (of each, where a RAID card hides several behind one). model: text within the model that
    the operating system sees, e.g. ``BOSS``. min_bytes: the least size. not_serials: of the data drives, which must
    never be chosen.
    """

    serials: tuple[str, ...] = ()
    model: str = ""
    min_bytes: int = 0
    not_serials: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [f"serial {' or '.join(self.serials)}"] if self.serials else []
        parts += [f"model with {self.model!r}"] if self.model else []
        parts += [f"at least {_size(self.min_bytes)}"] if self.min_bytes else []
        return ", ".join(parts) or "nothing known about it"


def os_disk_of(profile: Mapping[str, Any], hardware: Mapping[str, Any] | None) -> OsDisk:
    """What profile and discovery say about a host's OS disk. hardware: as a dict, None when discovery knows nothing.

    The drives on the profile's controller are it; all others are data drives.
    """
    spec = profile.get("os_disk") or {}
    controller = str(spec.get("controller") or "")
    own: list[str] = []
    others: list[str] = []
    for drive in (hardware or {}).get("drives") or []:
        serial = str(drive.get("serial") or "").strip()
        if serial:
            is_own = bool(controller) and controller.casefold() in str(drive.get("controller") or "").casefold()
            (own if is_own else others).append(serial)
    return OsDisk(
        serials=tuple(own),
        model=str(spec.get("model") or controller),
        min_bytes=int(spec.get("min_bytes") or 0),
        not_serials=tuple(s for s in others if s not in own),  # some controllers have one serial for all disks
    )


def choose_os_disk(disks: Sequence[Disk], wanted: OsDisk, name: str) -> Disk | Finding:
    """The one disk that fits, else the finding that says why there is none. disks: MAAS's JSON of them.

    The serial decides. Where none of the serials is there, the model does, if one disk alone has it: a RAID card
    such as BOSS shows its BMC the serials of its drives, and the operating system only the volume.
    """
    excluded = {_normal(s) for s in wanted.not_serials}
    fits = [d for d in disks if _normal(d.get("serial")) not in excluded and _bytes(d) >= wanted.min_bytes]
    serials = {_normal(s) for s in wanted.serials if s.strip()}
    found = [d for d in fits if _normal(d.get("serial")) in serials]
    # On some controllers all disks have one serial.
    if len(found) != 1 and wanted.model:
        found = [d for d in found or fits if wanted.model.casefold() in str(d.get("model", "")).casefold()]
    if len(found) == 1:
        return found[0]
    symptom = "os_disk.ambiguous" if found else "os_disk.missing"
    shown = "; ".join(describe(d) for d in found or disks) or "no disk at all"
    said = f"{len(found)} disks fit" if found else "no disk fits"
    evidence = f"{said} ({wanted}); {'they are' if found else 'MAAS sees'}: {shown}"
    return Finding("os_disk", "fail", symptom, f"OS disk of {name}", evidence, "escalate")


def describe(disk: Disk) -> str:
    """A disk for people: name, model, serial, size."""
    model = " ".join(str(disk.get("model") or "").split()) or "unknown model"
    return f"{disk.get('name') or '?'} {model} serial {disk.get('serial') or 'unknown'} {_size(_bytes(disk))}"


def _bytes(disk: Disk) -> int:
    size = disk.get("size")
    return size if isinstance(size, int) else 0


def _normal(serial: Any) -> str:
    return str(serial or "").strip().casefold()


def _size(size: int) -> str:
    return f"{size / 1e12:.1f} TB" if size >= 1e12 else f"{size / 1e9:.0f} GB"
