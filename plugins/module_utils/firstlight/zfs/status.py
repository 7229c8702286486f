"""What ``zpool status -p -P`` and ``zpool import`` print, as pools with their drives. Pure functions.

The text is read because only OpenZFS 2.3 and later can print JSON, and Debian 12 and Ubuntu 22.04 have 2.1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Tuple

STATES = ("ONLINE", "DEGRADED", "FAULTED", "OFFLINE", "REMOVED", "UNAVAIL", "SUSPENDED", "AVAIL", "INUSE", "SPLIT")
SECTIONS = ("spares", "logs", "cache", "special", "dedup")
# https://openzfs.github.io/openzfs-docs/msg/ZFS-8000-EY: last used by another system
OTHER_HOST = "ZFS-8000-EY"
_GROUP = re.compile(r"^(mirror|raidz[123]|draid[123]?[:0-9a-z]*|replacing|spare)-[0-9]+$|^indirect-[0-9]+$")
_LINES_MAX = 20000


@dataclass(frozen=True)
class Leaf:
    """One drive or partition of a pool.

    name: as ZFS prints it, a path or, of a lost one, its number. path: where it is or was, empty when not told.
    groups: the vdevs that it is in, outermost first (``raidz2-0``, ``replacing-1``); section: one of SECTIONS or "".
    device: its kernel name's path, and number: the id that zpool always knows it by, both where they were asked for.
    """

    name: str
    state: str
    path: str = ""
    read: int = 0
    write: int = 0
    checksum: int = 0
    groups: Tuple[str, ...] = ()
    section: str = ""
    note: str = ""
    device: str = ""
    number: str = ""


@dataclass(frozen=True)
class Pool:
    """name, state; number: its id (of an importable one); message: the code of ZFS's message, ``ZFS-8000-2Q``."""

    name: str
    state: str
    number: str = ""
    message: str = ""
    scan: str = ""
    errors: str = ""
    leaves: Tuple[Leaf, ...] = field(default_factory=tuple)


def read_pools(text: str) -> List[Pool]:
    """Pools in the output of ``zpool status -p -P [-L]`` or ``zpool import``; ValueError when it is not understood."""
    lines = text.splitlines()
    if len(lines) > _LINES_MAX:
        raise ValueError(f"zpool printed more than {_LINES_MAX} lines")
    blocks: List[List[str]] = []
    for line in lines:
        if re.match(r"^ *pool: ", line):
            blocks.append([])
        if blocks:
            blocks[-1].append(line)
    return [_pool(block) for block in blocks]


def _pool(lines: List[str]) -> Pool:
    values: Dict[str, str] = {}
    rows: List[str] = []
    last = ""
    for line in lines:
        label = re.match(r"^ *([a-z]{2,12}): ?(.*)$", line) if not line.startswith("\t") else None
        if label:
            last = label.group(1)
            values.setdefault(last, label.group(2).strip())
        elif last == "config":
            rows.append(line)
        elif last:
            values[last] = f"{values[last]} {line.strip()}".strip()
    name, state = values.get("pool", ""), values.get("state", "")
    if not name or state not in STATES:
        raise ValueError(f"zpool's answer is not understood: pool {name[:40]!r}, state {state[:40]!r}")
    message = re.search(r"\bZFS-8000-[0-9A-Z]{2}\b", values.get("see", "") + " " + values.get("status", ""))
    return Pool(
        name=name,
        state=state,
        number=values.get("id", ""),
        message=message.group(0) if message else "",
        scan=values.get("scan", ""),
        errors=values.get("errors", ""),
        leaves=tuple(_leaves(rows, name)),
    )


def _leaves(rows: List[str], pool: str) -> List[Leaf]:
    found: List[Leaf] = []
    section = ""
    groups: List[str] = []
    counts = any(row.split() == ["NAME", "STATE", "READ", "WRITE", "CKSUM"] for row in rows)  # not of zpool import
    tree = [(_depth(row), row.split()) for row in rows if row.split()[:1] not in ([], ["NAME"])]
    below = [depth for depth, _ in tree[1:]] + [0]
    for (depth, words), next_depth in zip(tree, below):  # noqa: B905  (Python 3.9)
        if depth == 0:
            section = words[0] if words[0] in SECTIONS and (len(words) == 1 or words[0] != pool) else ""
            groups = []
            continue
        groups = groups[: depth - 1]
        # with -g a group is a number, as drives are: what stands below it tells
        if _GROUP.match(words[0]) or (words[0].isdigit() and next_depth > depth):
            groups = [*groups, words[0]]
            continue
        if len(words) < 2 or words[1] not in STATES:
            raise ValueError(f"zpool's answer is not understood: {' '.join(words)[:120]!r}")
        told = [word for word in words[2:5] if re.fullmatch(r"[0-9]{1,20}", word)]
        if counts and words[1] in ("ONLINE", "DEGRADED") and section != "spares" and len(told) < 3:
            raise ValueError(f"zpool's answer is not understood: errors of {' '.join(words)[:120]!r}")
        found.append(_leaf(words, tuple(groups), section))
    return found


def _depth(row: str) -> int:
    body = row[1:] if row.startswith("\t") else row
    return (len(body) - len(body.lstrip(" "))) // 2


def _leaf(words: List[str], groups: Tuple[str, ...], section: str) -> Leaf:
    numbers = words[2:5] if all(re.fullmatch(r"[0-9]{1,20}|-", word) for word in words[2:5]) else []
    note = " ".join(words[2 + len(numbers) :])
    was = re.search(r"\bwas (/\S+)", note)
    path = words[0] if words[0].startswith("/") else was.group(1) if was else ""
    counts = [0 if word == "-" else int(word) for word in numbers] + [0, 0, 0]
    return Leaf(words[0], words[1], path, counts[0], counts[1], counts[2], groups, section, note)


def drive_of(path: str) -> str:
    """The name of the whole drive: ``/dev/disk/by-id/X-part1`` is on X, ``/dev/nvme0n1p1`` on nvme0n1."""
    path = re.sub(r"/old$", "", path)  # as ZFS calls one that another at its own place takes over from
    name = path.rpartition("/")[2]
    if "/by-" in path:
        return re.sub(r"-part[0-9]+$", "", name)
    return re.sub(r"^((?:nvme[0-9]+n|mmcblk)[0-9]+)p[0-9]+$|^((?:sd|vd|xvd|hd)[a-z]+)[0-9]+$", r"\1\2", name)


def progress(pool: Pool) -> Optional[str]:
    """What runs in the pool now, ``resilver`` or ``scrub``; None when nothing does."""
    found = re.match(r"(resilver|scrub) (?:in progress|paused)", pool.scan)
    return found.group(1) if found else None
