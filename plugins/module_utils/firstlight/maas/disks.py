"""Which of a machine's disks gets the operating system: by identity, never by /dev order or MAAS's default."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..findings import Finding

Disk = dict[str, Any]

PATTERN_MAX = 64  # of a serial; with so little text and no regular expression a pattern costs nothing
SERIAL_MAX = 256
SIZE_SLACK = 0.01  # a BMC rounds sizes


@dataclass(frozen=True)
class Known:
    """A drive as the BMC tells of it; empty and 0 where it does not."""

    serial: str = ""
    model: str = ""
    size: int = 0


@dataclass(frozen=True)
class OsDisk:
    """What is known about the disk that may be overwritten; all that is given must hold.

    serials: of the disk, or of each where a RAID card hides several behind one volume. controller: text within the
    name of its controller, which such a volume has in its model (BOSS). model: text within the model that the
    operating system sees. min_bytes, max_bytes: its size. bus: nvme | sata | sas | virtio | usb. serial: a pattern
    as of file names (* ? []). not_serials: of the data drives, which must never be chosen; own, data: the BMC's drives
    themselves, which tell apart disks that share one serial. exclude_data_drives: whatever is none of the data drives,
    of which so many must be known: data_drives.
    """

    serials: tuple[str, ...] = ()
    controller: str = ""
    min_bytes: int = 0
    not_serials: tuple[str, ...] = ()
    model: str = ""
    max_bytes: int = 0
    bus: str = ""
    serial: str = ""
    exclude_data_drives: bool = False
    data_drives: int = 0
    own: tuple[Known, ...] = ()
    data: tuple[Known, ...] = ()

    def __str__(self) -> str:
        parts = [f"serial {' or '.join(self.serials)}"] if self.serials else []
        parts += [f"controller {self.controller!r}"] if self.controller else []
        parts += [f"model with {self.model!r}"] if self.model else []
        parts += [f"at least {_size(self.min_bytes)}"] if self.min_bytes else []
        parts += [f"at most {_size(self.max_bytes)}"] if self.max_bytes else []
        parts += [f"bus {self.bus}"] if self.bus else []
        parts += [f"serial like {self.serial!r}"] if self.serial else []
        parts += ["none of the data drives"] if self.exclude_data_drives else []
        return ", ".join(parts) or "nothing known about it"


def os_disk_of(profile: Mapping[str, Any], hardware: Mapping[str, Any] | None) -> OsDisk:
    """What profile and discovery say about a host's OS disk. hardware: as a dict, None when discovery knows nothing.

    The BMC's drives to which everything in the profile applies are it; all others are data drives.
    """
    spec = profile.get("os_disk") or {}
    nvme = profile.get("nvme") or {}
    wanted = OsDisk(
        controller=str(spec.get("controller") or ""),
        model=str(spec.get("model") or ""),
        min_bytes=int(spec.get("min_bytes") or 0),
        max_bytes=int(spec.get("max_bytes") or 0),
        bus=str(spec.get("bus") or ""),
        serial=str(spec.get("serial") or ""),
        exclude_data_drives=spec.get("exclude_data_drives") is True,
        data_drives=int(nvme.get("count") or 0),
    )
    own: list[Known] = []
    data: list[Known] = []
    for drive in (hardware or {}).get("drives") or []:
        known = Known(
            str(drive.get("serial") or "").strip(), str(drive.get("model") or ""), _bytes(drive, "size_bytes")
        )
        (own if _is_own(wanted, drive, known, int(nvme.get("min_bytes") or 0)) else data).append(known)
    serials = tuple(k.serial for k in own if k.serial)
    return OsDisk(
        **{
            **wanted.__dict__,
            "serials": serials,
            # some controllers have one serial for all disks
            "not_serials": tuple(k.serial for k in data if k.serial and k.serial not in serials),
            "own": tuple(own),
            "data": tuple(data),
        }
    )


def _is_own(wanted: OsDisk, drive: Mapping[str, Any], known: Known, data_bytes: int) -> bool:
    """Whether a drive that the BMC sees is, or belongs to, the OS disk."""
    if wanted.controller:
        return wanted.controller.casefold() in str(drive.get("controller") or "").casefold()
    if str(wanted) == str(OsDisk()):
        return False
    protocol = str(drive.get("protocol") or "").casefold()
    if wanted.exclude_data_drives and wanted.data_drives and protocol == "nvme" and known.size >= data_bytes:
        return False
    return (
        (not wanted.model or _within(wanted.model, known.model))
        and (not known.size or _size_fits(wanted, known.size))
        and (not wanted.bus or not protocol or wanted.bus == protocol)
        and (not wanted.serial or not known.serial or _like(wanted.serial, known.serial))
    )


def choose_os_disk(disks: Sequence[Disk], wanted: OsDisk, name: str) -> Disk | Finding:
    """The one disk that fits, else the finding that says why there is none. disks: MAAS's JSON of them.

    A data drive never fits. Of the others all that the profile says must hold. The controller's condition holds for
    the disks with the serials that the BMC saw behind it; where MAAS has none of them, for those that have its name in
    their model: a RAID card such as BOSS shows its BMC the serials of its drives, and the operating system one volume.
    """
    if str(wanted) == str(OsDisk()):
        return _none("os_disk.missing", "no disk fits", wanted, disks, name)
    known = len({_normal(s) for s in (*wanted.not_serials, *(k.serial for k in wanted.data))} - {""})
    is_named = wanted.serials or wanted.controller or wanted.model or wanted.serial
    if known < wanted.data_drives and (wanted.exclude_data_drives or not is_named):
        said = f"the BMC tells serials of {known} data drives, the profile has {wanted.data_drives}: any could be one"
        return _none("os_disk.data_drives_unknown", said, wanted, disks, name)
    free = [d for d in disks if not _is_data(d, wanted)]
    fits = [
        d
        for d in free
        if _size_fits(wanted, _bytes(d))
        and (not wanted.model or _within(wanted.model, d.get("model")))
        and (not wanted.bus or bus_of(d) == wanted.bus)
        and (not wanted.serial or _like(wanted.serial, str(d.get("serial") or "")))
    ]
    found = _behind(wanted, fits)
    if len(found) == 1:
        return found[0]
    if found:
        return _none("os_disk.ambiguous", f"{len(found)} disks fit", wanted, found, name)
    behind = _behind(wanted, free)
    if behind and (wanted.controller or wanted.serials):
        said = "no disk fits: the disk of this controller or serial is not as the profile says"
        return _none("os_disk.contradictory", said, wanted, behind, name)
    return _none("os_disk.missing", "no disk fits", wanted, disks, name)


def _behind(wanted: OsDisk, disks: list[Disk]) -> list[Disk]:
    """Those of the disks that are behind the controller, or have one of the serials; all where neither is known."""
    serials = {_normal(s) for s in wanted.serials} - {""}
    found = [d for d in disks if _normal(d.get("serial")) in serials]
    if wanted.controller and len(found) != 1:
        # On some controllers all disks have one serial.
        return [d for d in found or disks if _within(wanted.controller, d.get("model"))]
    return found if serials and not _other_conditions(wanted) else found or disks


def _other_conditions(wanted: OsDisk) -> bool:
    """Whether the profile itself tells disks apart; serials are then only what the BMC has seen of them."""
    return bool(wanted.model or wanted.bus or wanted.serial or wanted.max_bytes or wanted.exclude_data_drives)


def _is_data(disk: Disk, wanted: OsDisk) -> bool:
    """Whether this is one of the data drives, or cannot be told from one."""
    serial = _normal(disk.get("serial"))
    if serial and serial in {_normal(s) for s in wanted.not_serials}:
        return True
    shared = serial in {_normal(drive.serial) for drive in wanted.data}
    if serial and not shared and serial in {_normal(s) for s in wanted.serials}:
        return False
    for drive in wanted.data:
        if _normal(drive.serial) not in ("", serial):
            continue
        like_data = _resemblance(disk, drive)
        if not _normal(drive.serial) or not serial:  # no serial to tell by: all that is told of the drive decides
            if like_data and like_data == bool(drive.size) + bool(_normal(drive.model)):
                return True
            continue
        # One serial for several disks: it must look more like the OS disk than like this drive.
        own = [_resemblance(disk, o) for o in wanted.own if _normal(o.serial) == serial]
        named = bool(wanted.controller) and _within(wanted.controller, disk.get("model"))
        if max(own, default=0) + named <= like_data:
            return True
    return False


def _resemblance(disk: Disk, drive: Known) -> int:
    """How much of size and model agrees: 0, 1 or 2."""
    size = _bytes(disk)
    same_size = bool(drive.size) and abs(size - drive.size) <= drive.size * SIZE_SLACK
    same_model = bool(_normal(drive.model)) and _normal(drive.model) == _normal(disk.get("model"))
    return same_size + same_model


def bus_of(disk: Disk) -> str:
    """nvme, virtio, usb, sata or sas from MAAS's fields of a disk; sas is also what a RAID card shows. Else empty."""
    name = str(disk.get("name") or "")
    path = str(disk.get("id_path") or "").rsplit("/", 1)[-1]
    tags = {str(t).casefold() for t in disk.get("tags") or []} if isinstance(disk.get("tags"), list) else set()
    for bus, is_so in (
        ("nvme", name.startswith("nvme") or path.startswith("nvme-")),
        ("virtio", name.startswith("vd") or path.startswith("virtio-")),
        ("usb", path.startswith("usb-") or bool(tags & {"usb", "removable"})),
        ("sata", path.startswith("ata-") or "sata" in tags),
        ("sas", name.startswith("sd")),
    ):
        if is_so:
            return bus
    return ""


def wrong_layout(machine: Mapping[str, Any], disk: Disk, name: str) -> Finding | None:
    """What MAAS's JSON of a machine says against installing on this disk, and on it alone; None when all is so."""
    boot = machine.get("boot_disk")
    boot = boot if isinstance(boot, dict) else {}
    listed = machine.get("blockdevice_set") or machine.get("physicalblockdevice_set")
    devices = [d for d in listed if isinstance(d, dict)] if isinstance(listed, list) else []
    boots_right = bool(boot) and boot.get("id") == disk.get("id")
    problems = [] if boots_right else [f"it boots from {describe(boot) if boot else 'no disk'}"]
    roots = 0
    for device in devices:
        parted = device.get("partitions")
        parts = [p for p in parted if isinstance(p, dict)] if isinstance(parted, list) else []
        points = [_mount_point(part) for part in (device, *parts)]
        roots += points.count("/")
        if device.get("id") == disk.get("id"):
            if "/" not in points:
                problems.append("its root file system is not there")
        elif device.get("type", "physical") != "physical":
            problems.append(f"there is a {device['type']} device {device.get('name')}")
        elif parts or device.get("filesystem"):
            used = ", ".join(p for p in points if p) or "partitions"
            problems.append(f"{describe(device)} would be written too ({used})")
    if not any(d.get("id") == disk.get("id") for d in devices):
        problems.append("MAAS does not list it any more")
    elif roots != 1:
        problems.append(f"{roots} root file systems are planned")
    if not problems:
        return None
    said = f"MAAS does not say that {describe(disk)} alone is installed on: {'; '.join(problems)}"
    return Finding("os_disk", "fail", "install.wrong_layout", f"OS disk of {name}", said, "escalate")


def _mount_point(part: Mapping[str, Any]) -> str:
    system = part.get("filesystem")
    return str(system.get("mount_point") or "") if isinstance(system, dict) else ""


def describe(disk: Mapping[str, Any]) -> str:
    """A disk for people: name, model, serial, size."""
    model = " ".join(str(disk.get("model") or "").split()) or "unknown model"
    return f"{disk.get('name') or '?'} {model} serial {disk.get('serial') or 'unknown'} {_size(_bytes(disk))}"


def _none(symptom: str, said: str, wanted: OsDisk, shown: Iterable[Disk], name: str) -> Finding:
    listed = "; ".join(describe(d) for d in shown) or "no disk at all"
    verb = "MAAS sees" if symptom in ("os_disk.missing", "os_disk.data_drives_unknown") else "they are"
    evidence = f"{said} ({wanted}); {verb}: {listed}"
    return Finding("os_disk", "fail", symptom, f"OS disk of {name}", evidence, "escalate")


def _size_fits(wanted: OsDisk, size: int) -> bool:
    return size >= wanted.min_bytes and (not wanted.max_bytes or size <= wanted.max_bytes)


def _within(text: str, value: Any) -> bool:
    return text.casefold() in str(value or "").casefold()


def _like(pattern: str, serial: str) -> bool:
    return fnmatch.fnmatchcase(serial.strip()[:SERIAL_MAX].casefold(), pattern[:PATTERN_MAX].casefold())


def _bytes(disk: Mapping[str, Any], key: str = "size") -> int:
    size = disk.get(key)
    return size if isinstance(size, int) else 0


def _normal(text: Any) -> str:
    """Without what BMC, kernel and MAAS write differently: case, blanks, punctuation."""
    return "".join(c for c in str(text or "")[:SERIAL_MAX].casefold() if c.isalnum())


def _size(size: int) -> str:
    return f"{size / 1e12:.1f} TB" if size >= 1e12 else f"{size / 1e9:.0f} GB"
