"""Proof after an installation: root is on the chosen disk, and no data drive was written.

Pure judgements over what was read on the host (module install_proof); standard library only.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Optional, Tuple

from .findings import Finding

CHECK = "os_disk"
HEAD_BYTES = 1024 * 1024
BLANK = hashlib.sha256(bytes(HEAD_BYTES)).hexdigest()
MAX_TEXT = 1024 * 1024
MAX_DISKS = 256
MAX_DEPTH = 16
# No disks that a server has: memory, files, other hosts' disks, what lies on disks.
NOT_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd", "mtdblock", "zd")


@dataclass(frozen=True)
class Disk:
    """One disk of the host. serials, wwids: as lsblk and the kernel tell them, for they can differ. size: bytes."""

    name: str
    serials: Tuple[str, ...] = ()
    wwids: Tuple[str, ...] = ()
    model: str = ""
    size: int = 0

    @property
    def serial(self) -> str:
        return self.serials[0] if self.serials else ""

    def __str__(self) -> str:
        model = " ".join(self.model.split()) or "unknown model"
        return f"{self.name} {model} serial {self.serial or 'unknown'} {_size(self.size)}"


@dataclass(frozen=True)
class Head:
    """The first MiB of a disk. sha256: empty where it could not be read; problem then says why."""

    sha256: str = ""
    content: str = ""
    problem: str = ""

    @property
    def blank(self) -> bool:
        return self.sha256 == BLANK


def read_lsblk(text: str) -> Optional[Tuple[List[Disk], Dict[str, List[str]]]]:
    """``lsblk --json --bytes``: the disks, and by number (major:minor) and name of each device the disks it lies on.

    None when the text is not that.
    """
    try:
        devices = json.loads(text[:MAX_TEXT])["blockdevices"]
        if not isinstance(devices, list):
            return None
        disks: Dict[str, Disk] = {}
        lies_on: Dict[str, List[str]] = {}
        for device in devices:
            _walk(device, None, disks, lies_on, 0)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return list(disks.values()), lies_on


def _walk(device: Any, disk: Optional[str], disks: Dict[str, Disk], lies_on: Dict[str, List[str]], depth: int) -> None:
    if depth > MAX_DEPTH or len(disks) > MAX_DISKS:
        raise ValueError("more than a server has")
    name = str(device["name"]).rsplit("/", 1)[-1]
    if disk is None and str(device.get("type")) == "disk" and not name.startswith(NOT_DISKS):
        size = _number(device.get("size"))
        if size:  # an empty card reader has none
            disk = name
            disks[name] = Disk(
                name, _texts(device.get("serial")), _texts(device.get("wwn")), str(device.get("model") or ""), size
            )
    for key in {str(device.get("maj:min") or ""), name} - {""}:
        if disk is not None and disk not in lies_on.setdefault(key, []):
            lies_on[key].append(disk)
    for child in device.get("children") or []:
        _walk(child, disk, disks, lies_on, depth + 1)


def read_findmnt(text: str) -> Optional[Tuple[str, str]]:
    """``findmnt --json`` of /: source, and major:minor number of its device; None when the text is not that."""
    try:
        found = json.loads(text[:MAX_TEXT])["filesystems"]
        root = found[-1]  # what is mounted last is what one sees
        return str(root.get("source") or ""), str(root.get("maj:min") or "")
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        return None


def disks_under(lies_on: Dict[str, List[str]], source: str, number: str) -> List[str]:
    """Names of the disks that a mounted file system lies on. Btrfs has a number of its own: its source tells then."""
    name = source.partition("[")[0].rsplit("/", 1)[-1]
    return lies_on.get(number) or lies_on.get(name) or []


def judge_root(wanted: Dict[str, Any], disks: List[Disk], on: List[str], source: str) -> List[Finding]:
    """Root is on the chosen disk, and on no other. wanted: {serial, model, size, name}. on: names of root's disks."""
    chosen = _wanted_text(wanted)
    found = [d for d in disks if d.name in on]
    where = ", ".join(str(d) for d in found)
    if not found:
        said = f"root is {source or 'unknown'}, of which no disk is known; chosen was {chosen}"
        return [Finding(CHECK, "unknown", "os_disk.unproven", "/", said, "escalate")]
    if not str(wanted.get("serial") or ""):
        said = f"root is on {where}; it is not known which disk was chosen"
        return [Finding(CHECK, "unknown", "os_disk.unproven", "/", said, "escalate")]
    if len(found) == 1 and _same(found[0], wanted.get("serial"), ""):
        twins = [d for d in disks if d is not found[0] and _same(d, wanted.get("serial"), "")]
        size = _number(wanted.get("size"))
        if not twins or (size and found[0].size == size and all(d.size != size for d in twins)):
            return [Finding(CHECK, "ok", CHECK, "/", f"root is on {where}")]
        said = f"root is on {where}, but {', '.join(map(str, twins))} has the same serial"
        return [Finding(CHECK, "unknown", "os_disk.unproven", "/", said, "escalate")]
    said = f"root is on {where}; chosen was {chosen}"
    return [Finding(CHECK, "fail", "os_disk.wrong_disk", "/", said, "escalate")]


def judge_data(
    before: Iterable[Dict[str, Any]], disks: List[Disk], heads: Dict[str, Head], on: List[str]
) -> List[Finding]:
    """The disks that root is not on are as they were, or blank. before: fingerprints of commissioning, perhaps none."""
    known = [b for b in before if isinstance(b, dict)][:MAX_DISKS]
    others = [d for d in disks if d.name not in on]
    findings: List[Finding] = []
    unchanged = blank = 0
    for disk in others:
        head = heads.get(disk.name, Head(problem="it was not read"))
        was = [b for b in known if _same(disk, b.get("serial"), b.get("wwid"))]
        sums = {str(b.get("sha256")) for b in was if b.get("sha256")}
        if not head.sha256:
            said = f"{disk}: {head.problem}"
            findings.append(Finding(CHECK, "unknown", "os_disk.data_drive_unread", disk.name, said, "reboot"))
        elif head.sha256 in sums:
            unchanged += 1
        elif head.blank and (not sums or BLANK in sums):
            blank += 1
        elif head.blank:
            said = f"{disk} was not blank at commissioning, and is now"
            findings.append(Finding(CHECK, "warn", "os_disk.data_drive_wiped", disk.name, said))
        elif sums:
            held = "blank" if sums == {BLANK} else "something else"
            said = f"{disk} holds {head.content}; at commissioning it was {held} (first MiB)"
            findings.append(Finding(CHECK, "fail", "os_disk.data_drive_written", disk.name, said, "escalate"))
        else:
            said = f"{disk} holds {head.content}; what it held before the installation is not known"
            findings.append(Finding(CHECK, "warn", "os_disk.data_drive_in_use", disk.name, said))
    findings += _gone(known, disks)
    if not findings:
        said = f"{len(others)} other disks: {unchanged} as at commissioning, {blank} blank"
        findings.append(Finding(CHECK, "ok", CHECK, "data drives", said))
    return findings


def _gone(known: List[Dict[str, Any]], disks: List[Disk]) -> List[Finding]:
    """Disks that were there at commissioning and are not any more."""
    findings = []
    left = list(disks)
    for was in known:
        match = next((d for d in left if _same(d, was.get("serial"), was.get("wwid"))), None)
        if match is not None:
            left.remove(match)  # of disks that share a serial each counts once
        elif _identity(was.get("serial")) or _identity(was.get("wwid")):
            gone = Disk(
                str(was.get("name")),
                _texts(was.get("serial")),
                (),
                str(was.get("model") or ""),
                _number(was.get("size")),
            )
            said = f"{gone} was there at commissioning, and is not any more"
            findings.append(Finding(CHECK, "fail", "os_disk.drive_gone", f"serial {gone.serial}", said, "reseat"))
    return findings


def content_of(head: bytes) -> str:
    """What the first MiB of a disk says it is: by its best known magic numbers."""
    found = []
    for what, offset, magic in _MAGICS:
        if head[offset : offset + len(magic)] == magic:
            found.append(what)
    if "a GPT" in found and "an MBR" in found:  # every GPT has a protective one
        found.remove("an MBR")
    if any(head[k * 1024 : k * 1024 + 8] in _ZFS for k in range(128, 256)):
        found.append("ZFS")
    if found:
        return " and ".join(found)
    first = next((i for i, byte in enumerate(head) if byte), None)
    return "nothing" if first is None else f"data of no known kind (from byte {first})"


# Offsets in bytes, as in libblkid's superblocks.
_MAGICS = (
    ("a GPT", 512, b"EFI PART"),
    ("a GPT", 4096, b"EFI PART"),
    ("an MBR", 510, b"\x55\xaa"),
    ("ext4", 1080, b"\x53\xef"),
    ("XFS", 0, b"XFSB"),
    ("btrfs", 65600, b"_BHRfS_M"),
    ("LVM", 512, b"LABELONE"),
    ("md RAID", 4096, b"\xfc\x4e\x2b\xa9"),
    ("md RAID", 0, b"\xfc\x4e\x2b\xa9"),
    ("LUKS", 0, b"LUKS\xba\xbe"),
    ("swap", 4086, b"SWAPSPACE2"),
    ("NTFS", 3, b"NTFS    "),
)
# The uberblocks of ZFS's first label, in either byte order.
_ZFS = (b"\x0c\xb1\xba\x00\x00\x00\x00\x00", b"\x00\x00\x00\x00\x00\xba\xb1\x0c")


def _same(disk: Disk, serial: Any, wwid: Any) -> bool:
    serials = {_identity(s) for s in disk.serials} - {""}
    wwids = {_identity(w) for w in disk.wwids} - {""}
    mine, world = _identity(serial), _identity(wwid)
    if world and wwids and _kind(wwid) in {_kind(w) for w in disk.wwids}:
        return world in wwids  # it is unique where serials are not
    return bool(mine) and mine in serials


def _identity(text: Any) -> str:
    """Without what different tools write differently: case, blanks, punctuation, and the kind of a WWN."""
    value = str(text or "")[:256].strip().casefold()
    for prefix in ("naa.", "eui.", "0x", "nvme.", "t10."):
        if value.startswith(prefix):
            value = value[len(prefix) :]
    return "".join(c for c in value if c.isalnum())


def _kind(wwid: Any) -> str:
    """Which kind of name this is: those of different kinds of one disk differ."""
    value = str(wwid or "").strip().casefold()
    return "naa" if value.startswith(("naa.", "0x")) else value.partition(".")[0]


def _texts(value: Any) -> Tuple[str, ...]:
    text = str(value or "").strip()[:256]
    return (text,) if text else ()


def _number(value: Any) -> int:
    """A size: a number, or text as older versions of lsblk write it."""
    try:
        return max(0, int(value))
    except (TypeError, ValueError, OverflowError):
        return 0


def _wanted_text(wanted: Dict[str, Any]) -> str:
    if not wanted.get("serial"):
        return "a disk that is not known"
    model = " ".join(str(wanted.get("model") or "").split()) or "unknown model"
    return f"{model} serial {wanted['serial']} {_size(_number(wanted.get('size')))}"


def _size(size: int) -> str:
    return f"{size / 1e12:.1f} TB" if size >= 1e12 else f"{size / 1e9:.0f} GB"
