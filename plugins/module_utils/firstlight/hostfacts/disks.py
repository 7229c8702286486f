"""The host's disks: a stable name for each, what is on it, and which of them the operating system lives on.

Pure functions over what lsblk, wipefs, /proc and /dev/disk/by-id say. What could not be read is None, never "nothing":
a role that erases disks must refuse where it does not know.
"""

from __future__ import annotations

import json
import re
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

LSBLK_COLUMNS = (
    "NAME,KNAME,TYPE,SIZE,ROTA,LOG-SEC,PHY-SEC,MODEL,SERIAL,WWN,TRAN,FSTYPE,LABEL,UUID,PTTYPE,MOUNTPOINTS,MAJ:MIN"
)
OS_MOUNTS = ("/", "/boot", "/boot/efi", "/efi", "/usr", "/var")
# md, device mapper and the like are no drives; zram and ram are memory
_NO_DRIVE = re.compile(r"^(zram|ram|loop|md|dm-|nbd|fd|sr|zd|drbd|rbd)")
_SAFE_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}\Z")
_NODES_MAX = 4096
# links of /dev/disk/by-id that stay with the drive, best first; the part after them holds model and serial, or an id
_STABLE = (
    re.compile(r"^nvme-eui\."),
    re.compile(r"^nvme-uuid\."),
    re.compile(r"^nvme-(?!nvme\.)"),
    re.compile(r"^nvme-nvme\."),
    re.compile(r"^wwn-"),
    re.compile(r"^ata-"),
    re.compile(r"^scsi-"),
    re.compile(r"^virtio-"),
    re.compile(r"^usb-"),
)

Node = Dict[str, Any]


class Blocks:
    """lsblk's tree as a graph. nodes: by kernel name, with ``type``, ``size``, ``mountpoints`` ...; parents: by it."""

    def __init__(self) -> None:
        self.nodes: Dict[str, Node] = {}
        self.parents: Dict[str, List[str]] = {}
        self.children: Dict[str, List[str]] = {}

    def below(self, name: str) -> List[str]:
        """The block device and everything that stands on it: partitions, arrays, volumes."""
        return _reach(name, self.children)

    def above(self, name: str) -> List[str]:
        """The block device and everything that it stands on, down to the drives."""
        return _reach(name, self.parents)

    def drives(self) -> List[str]:
        """Whole drives of a size, by kernel name, in order."""
        kinds = [n for n, node in self.nodes.items() if node.get("type") == "disk" and not _NO_DRIVE.match(n)]
        return sorted((n for n in kinds if _whole(self.nodes[n].get("size"))), key=natural)


def natural(text: str) -> List[Tuple[int, Any]]:
    """A key that sorts sda2 before sda10."""
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in re.split(r"(\d+)", text) if part]


def _reach(name: str, edges: Mapping[str, Sequence[str]]) -> List[str]:
    found, ahead = [], [name]
    while ahead:
        one = ahead.pop()
        if one not in found:
            found.append(one)
            ahead += edges.get(one, [])
    return found


def _whole(value: Any) -> Optional[int]:
    """A number of lsblk, which older ones quote; None for anything else and for 0."""
    text = str(value)
    return int(text) or None if re.fullmatch(r"[0-9]{1,20}", text) else None


def _flag(value: Any) -> Optional[bool]:
    return {"True": True, "1": True, "False": False, "0": False}.get(str(value))


def _text(value: Any) -> str:
    return " ".join(value.split())[:128] if isinstance(value, str) else ""


def _points(node: Node) -> List[str]:
    found = node.get("mountpoints")
    return [point for point in found if isinstance(point, str)] if isinstance(found, list) else []


def read_lsblk(text: str) -> Blocks:
    """``lsblk --json --bytes --output LSBLK_COLUMNS``; ValueError when it is not that."""
    blocks = Blocks()
    try:
        top = json.loads(text)["blockdevices"]
        ahead: List[Tuple[Node, str]] = [(node, "") for node in top]
        while ahead:
            node, parent = ahead.pop()
            name = str(node["kname"])
            if not _SAFE_NAME.match(name):
                raise ValueError(f"{name[:64]!r} is no name of a block device")
            if len(blocks.nodes) >= _NODES_MAX:
                raise ValueError(f"more than {_NODES_MAX} block devices")
            blocks.nodes[name] = node
            if parent and parent not in blocks.parents.setdefault(name, []):
                blocks.parents[name].append(parent)
                blocks.children.setdefault(parent, []).append(name)
            ahead += [(child, name) for child in node.get("children") or []]
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"lsblk's answer is not understood: {type(error).__name__}") from None
    return blocks


def read_wipefs(text: str) -> List[Dict[str, str]]:
    """``wipefs --json --output DEVICE,TYPE,LABEL,UUID,USAGE``: those rows; ValueError when it is not that."""
    if not text.strip():  # older ones print nothing for nothing
        return []
    try:
        rows = json.loads(text)["signatures"][:64]
        return [{key: _text(row.get(key)) for key in ("device", "type", "label", "uuid", "usage")} for row in rows]
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"wipefs's answer is not understood: {type(error).__name__}") from None


def read_mounts(text: str) -> List[Tuple[str, str, str, str]]:
    """(major:minor, mount point, type, source) of each line of /proc/self/mountinfo, the later over the earlier."""
    found: Dict[str, Tuple[str, str, str, str]] = {}
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        words, more = before.split(), after.split()
        if len(words) >= 6 and len(more) >= 2:
            found[_plain(words[4])] = (words[2], _plain(words[4]), more[0], _plain(more[1]))
    return list(found.values())


def _plain(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda m: chr(int(m.group(1), 8)), text)


def read_swaps(text: str) -> List[str]:
    """The paths of /proc/swaps that are partitions or volumes (a swap file is on a file system that is mounted)."""
    rows = [line.split() for line in text.splitlines()[1:]]
    return [_plain(row[0]) for row in rows if len(row) >= 2 and row[1] == "partition"]


def os_drives(
    blocks: Blocks, mounts: Iterable[Tuple[str, str, str, str]], swaps: Iterable[str], real: Mapping[str, str]
) -> Tuple[List[str], List[str]]:
    """Drives that the system lives on, and what of it could not be followed to a drive (its mount points, swaps).

    real: by path of a device (``/dev/mapper/root``) its kernel name, for paths that are links.
    """
    by_number = {str(node.get("maj:min", "")).strip(): name for name, node in blocks.nodes.items()}
    drives: List[str] = []
    lost: List[str] = []
    asked = [(point, _carriers(blocks, by_number, row, real)) for row in mounts if (point := row[1]) in OS_MOUNTS]
    for path in swaps:
        name = real.get(path, path.rpartition("/")[2])
        if not _NO_DRIVE.match(name) or name.startswith(("md", "dm-")):  # swap in memory is on no drive
            asked.append((f"swap {path}", [name] if name in blocks.nodes else []))
    for what, carriers in asked:
        below = [name for carrier in carriers for name in blocks.above(carrier)]
        mine = [name for name in below if blocks.nodes[name].get("type") == "disk" and not _NO_DRIVE.match(name)]
        drives += mine
        if not mine:
            lost.append(what)
    if not any(point == "/" for point, _ in asked):
        lost.append("/")
    return sorted(set(drives), key=natural), lost


def _carriers(
    blocks: Blocks, by_number: Mapping[str, str], row: Tuple[str, str, str, str], real: Mapping[str, str]
) -> List[str]:
    """The block devices that hold one mounted file system."""
    number, _, kind, source = row
    if kind == "zfs":
        pool = source.split("/")[0]
        return [
            n for n, node in blocks.nodes.items() if node.get("fstype") == "zfs_member" and node.get("label") == pool
        ]
    name = by_number.get(number) or real.get(source) or source.rpartition("/")[2]
    if name not in blocks.nodes:
        return []
    uuid = blocks.nodes[name].get("uuid")
    if kind in ("btrfs", "bcachefs") and uuid:  # of several devices, any one is named
        return [n for n, node in blocks.nodes.items() if node.get("uuid") == uuid]
    return [name]


def stable_name(links: Iterable[str], shared: Iterable[str] = ()) -> Optional[str]:
    """The best of a drive's names in /dev/disk/by-id, or None. shared: ids that another drive has too."""
    known = sorted(links, key=lambda name: (len(name), name))
    bad = [part.lower() for part in shared if part]
    for pattern in _STABLE:
        for name in known:
            if pattern.match(name) and not any(part in name.lower() for part in bad):
                return name
    return None


def describe(
    blocks: Blocks,
    links: Mapping[str, Sequence[str]],
    signatures: Mapping[str, Optional[List[Dict[str, str]]]],
    os_names: Sequence[str],
) -> List[Dict[str, Any]]:
    """One row a drive, as documented in the module host_facts.

    links: by kernel name the drive's links in by-id. signatures: by kernel name of the drive; None: not readable.
    """
    drives = blocks.drives()
    ids = [_text(blocks.nodes[name].get("wwn")) for name in drives]
    # drives of one batch with the same EUI are known; by-id then points at only one of them
    shared = [re.sub(r"^(eui\.|0x|nvme\.)", "", one) for one in set(ids) if one and ids.count(one) > 1]
    rows = []
    for name in drives:
        node = blocks.nodes[name]
        tree = [n for n in blocks.below(name) if n != name]
        points = [p for n in [name, *tree] for p in _points(blocks.nodes[n])]
        rows.append(
            {
                "name": name,
                "by_id": stable_name(links.get(name, []), shared),
                "serial": _text(node.get("serial")),
                "wwn": _text(node.get("wwn")),
                "model": _text(node.get("model")),
                "size": _whole(node.get("size")) or 0,
                "transport": _text(node.get("tran")),
                "rotational": _flag(node.get("rota")),
                "logical_sector": _whole(node.get("log-sec")),
                "physical_sector": _whole(node.get("phy-sec")),
                "is_os": name in os_names,
                "mounted": sorted(set(points)),
                "holders": sorted({n for n in tree if blocks.nodes[n].get("type") != "part"}, key=natural),
                "partitions": sorted({n for n in tree if blocks.nodes[n].get("type") == "part"}, key=natural),
                "signatures": signatures.get(name),
            }
        )
    return rows
