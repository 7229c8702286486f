"""Which pool a host gets: made over every drive that is not the system's, imported, or mended. Pure functions.

The rule above all: a drive that holds anything is named and left alone, unless the site lists its serial for wiping;
a drive of the operating system, one that is mounted or in use is left alone whatever is listed. So is one with the
label of a pool that has the wanted name and is not imported, unless the site gives that pool up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ..findings import Finding
from .status import OTHER_HOST, Leaf, Pool, drive_of

CHECK = "zfs_pool"
BY_ID = "/dev/disk/by-id/"
LEVELS = ("auto", "mirror", "raidz1", "raidz2", "raidz3", "stripe")
LEAST = {"stripe": 1, "mirror": 2, "raidz1": 3, "raidz2": 4, "raidz3": 5}
FUZZ = 16 * 1024 * 1024  # sizes that differ by less are the same to zpool
_SAFE_ID = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.:+@-]{0,200}\Z")

Disk = Mapping[str, Any]


@dataclass(frozen=True)
class Wanted:
    """What the site wants. name: of the pool; level: one of LEVELS; max_width: most drives in one group.

    ashift: 0 for what the drives ask for. drives: how many there must be, 0 for any. wipe, ignore: serials.
    replace: old drive (serial, by-id name or the number that zpool shows) to new drive (serial or by-id name).
    force_import: also a pool that another host had last. mixed_sizes: also drives that differ in size. anew: a pool
    of that name that is not imported is given up, where each of its drives may be wiped.
    """

    name: str
    level: str = "auto"
    max_width: int = 11
    ashift: int = 0
    drives: int = 0
    wipe: Tuple[str, ...] = ()
    ignore: Tuple[str, ...] = ()
    replace: Mapping[str, str] = field(default_factory=dict)
    force_import: bool = False
    mixed_sizes: bool = False
    anew: bool = False
    pool_properties: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """action: create, import, keep or refuse. commands: what does it, in order, each a list of arguments.

    groups: the drives' by-id names of each group of a new pool; spares; wiped: drives that are emptied before.
    """

    action: str
    commands: List[List[str]] = field(default_factory=list)
    findings: List[Finding] = field(default_factory=list)
    groups: List[List[str]] = field(default_factory=list)
    spares: List[str] = field(default_factory=list)
    wiped: List[str] = field(default_factory=list)


def label(disk: Disk) -> str:
    """How a person finds the drive: serial, model, name."""
    parts = (f"serial {disk.get('serial') or 'unknown'}", disk.get("model"), disk.get("name"))
    return ", ".join(str(part) for part in parts if part)


def is_system(disk: Disk, os_disks: Iterable[Disk]) -> bool:
    """Whether the operating system is on this drive: by what is mounted, or by the identity of the drive."""
    if disk.get("is_os") or "/" in (disk.get("mounted") or []):
        return True
    keys = ("serial", "wwn", "by_id", "name")
    return any(disk.get(key) and disk.get(key) == one.get(key) for one in os_disks for key in keys)


def in_use(disk: Disk) -> str:
    """Why the drive cannot even be wiped; empty when it can."""
    if disk.get("mounted"):
        return f"mounted at {', '.join(disk['mounted'])}"
    if disk.get("holders"):
        return f"in use by {', '.join(disk['holders'])}"
    return ""


def content(disk: Disk) -> str:
    """What is on the drive; empty when it is blank."""
    found = []
    for row in disk.get("signatures") or []:
        name = f" {row['label']!r}" if row.get("label") else ""
        found.append(f"{row.get('type') or 'something'}{name} on {row.get('device') or disk.get('name')}")
    if not found and disk.get("partitions"):
        found = [f"partitions {', '.join(disk['partitions'])}"]
    return "; ".join(found)


def members_of(disk: Disk) -> List[str]:
    """The names of the pools that the labels on the drive speak of."""
    rows = disk.get("signatures") or []
    return sorted({row.get("label") or "?" for row in rows if row.get("type") == "zfs_member"})


def shape(count: int, level: str = "auto", max_width: int = 11) -> Tuple[str, int, int, int]:
    """(level, groups, width, spares) for so many drives; ValueError when there is none.

    auto: 2 a mirror; 3 to 5 raidz1; 6 and more raidz2, in groups of equal width where they are more than max_width.
    Groups are wider than that only where one more of them would be less than the level takes.
    """
    if level == "auto":
        level = "mirror" if count == 2 else "raidz1" if count < 6 else "raidz2"
    if level == "stripe":
        return level, count, 1, 0
    least = LEAST[level]
    if count < least:
        raise ValueError(f"drives: {count}, too few for {level}, which takes {least} at least")
    if level == "mirror":
        return level, count // 2, 2, count % 2
    groups = -(-count // max(max_width, least))
    while count // groups < least:  # a narrow limit must not leave groups that are none
        groups -= 1
    return level, groups, count // groups, count % groups


def ashift_of(disks: Iterable[Disk]) -> int:
    """The power of two of the largest sector, 12 at least: a drive that says 512 is mostly not speaking the truth."""
    largest = max((int(disk.get("physical_sector") or 0) for disk in disks), default=0)
    return min(max(12, (largest - 1).bit_length() if largest > 1 else 0), 16)


def make_plan(
    wanted: Wanted,
    disks: Optional[Sequence[Disk]],
    os_disks: Optional[Sequence[Disk]],
    os_unresolved: Sequence[str],
    pools: Sequence[Pool],
    importable: Sequence[Pool],
    serials: Optional[Mapping[str, str]] = None,
) -> Plan:
    """What to do. disks, os_disks, os_unresolved: as in the module host_facts. serials: by by-id name, as last seen."""
    if disks is None or os_disks is None:
        return _refused("zfs.disks_unknown", "", "the drives of this host cannot be listed")
    mine = next((pool for pool in pools if pool.name == wanted.name), None)
    if mine is not None:
        return _keep(wanted, mine, disks, os_disks, pools, serials or {})
    candidates = [d for d in disks if not is_system(d, os_disks) and _counts(d, wanted)]
    found = [pool for pool in importable if pool.name == wanted.name]
    if found and not wanted.anew:
        return _import(wanted, found)
    if os_unresolved:
        where = ", ".join(os_unresolved)
        return _refused("zfs.os_disk_unknown", where, "it is not known which drive it is on, so none is touched")
    return _create(wanted, sorted(candidates, key=_order), disks, pools)


def _order(disk: Disk) -> Tuple[str, str]:
    return str(disk.get("by_id") or ""), str(disk.get("serial") or "")


def _counts(disk: Disk, wanted: Wanted) -> bool:
    """USB drives are the virtual media of BMCs, and sticks that somebody forgot."""
    return disk.get("transport") != "usb" and (disk.get("serial") or None) not in wanted.ignore


def _refused(symptom: str, locator: str, evidence: str) -> Plan:
    return Plan("refuse", findings=[fail(symptom, locator, evidence)])


def fail(symptom: str, locator: str, evidence: str, action: str = "escalate") -> Finding:
    return Finding(CHECK, "fail", symptom, locator, evidence, action)


def _import(wanted: Wanted, found: Sequence[Pool]) -> Plan:
    if len(found) > 1:
        numbers = ", ".join(pool.number for pool in found)
        return _refused("zfs.two_pools", wanted.name, f"{len(found)} pools of that name could be imported: {numbers}")
    pool = found[0]
    if pool.state not in ("ONLINE", "DEGRADED"):
        lost = ", ".join(leaf.path or leaf.name for leaf in pool.leaves if leaf.state not in ("ONLINE", "DEGRADED"))
        return _refused("zfs.pool_unavailable", pool.name, f"state {pool.state}, without {lost or 'its drives'}")
    if pool.message == OTHER_HOST and not wanted.force_import:
        evidence = "another system used it last; zfs_pool_import_forced: true imports it all the same"
        return _refused("zfs.pool_of_other_host", pool.name, evidence)
    force = ["-f"] if pool.message == OTHER_HOST else []
    return Plan("import", [["zpool", "import", *force, "-d", BY_ID, pool.number or pool.name]])


def _create(wanted: Wanted, candidates: List[Disk], disks: Sequence[Disk], pools: Sequence[Pool]) -> Plan:
    blamed = [finding for disk in candidates for finding in against(disk, wanted, disks, pools)]
    missing = wanted.drives - len(candidates)
    if not candidates:
        blamed.append(fail("zfs.no_drive", wanted.name, "there is no drive but the system's", "reseat"))
    elif missing > 0:
        evidence = f"{len(candidates)} of {wanted.drives} drives: {', '.join(label(d) for d in candidates)}"
        blamed.append(fail("zfs.drive_missing", wanted.name, evidence, "reseat"))
    try:
        level, groups, width, _ = shape(len(candidates), wanted.level, wanted.max_width)
    except ValueError as error:
        blamed += [] if missing > 0 or not candidates else [fail("zfs.too_few_drives", wanted.name, str(error))]
        return Plan("refuse", findings=blamed)
    sizes = [int(disk.get("size") or 0) for disk in candidates]
    if max(sizes) - min(sizes) > FUZZ and not wanted.mixed_sizes:
        smallest, largest = (candidates[sizes.index(pick(sizes))] for pick in (min, max))
        evidence = f"{label(smallest)} has {min(sizes)} bytes, {label(largest)} {max(sizes)}"
        blamed.append(fail("zfs.mixed_sizes", wanted.name, f"{evidence}; zfs_pool_mixed_sizes: true takes them"))
    if blamed:
        return Plan("refuse", findings=blamed)
    names = [str(disk["by_id"]) for disk in candidates]
    parts = [names[i * width : (i + 1) * width] for i in range(groups)]
    spares = names[groups * width :]
    wiped = [disk for disk in candidates if not blank(disk)]
    command = ["zpool", "create", "-o", f"ashift={wanted.ashift or ashift_of(candidates)}"]
    for option, properties in (("-o", wanted.pool_properties), ("-O", wanted.properties)):
        for key in sorted(properties):
            command += [option, f"{key}={properties[key]}"]
    if wanted.mixed_sizes and max(sizes) - min(sizes) > FUZZ:
        command.append("-f")  # only this speaks against it: what is on each drive was looked at above
    command.append(wanted.name)
    for part in parts:
        command += [*([] if level == "stripe" else [level]), *(BY_ID + name for name in part)]
    command += ["spare", *(BY_ID + name for name in spares)] if spares else []
    commands = [*(line for disk in wiped for line in wipe(disk)), command]
    return Plan("create", commands, [], parts, spares, [str(disk["by_id"]) for disk in wiped])


def blank(disk: Disk) -> bool:
    return disk.get("signatures") == [] and not disk.get("partitions")


def wipe(disk: Disk) -> List[List[str]]:
    """The commands that empty a drive, partitions first: ZFS's labels within them outlive the table."""
    path = BY_ID + str(disk["by_id"])
    numbers = [re.search(r"[0-9]+$", name) for name in disk.get("partitions") or []]
    parts = [f"{path}-part{number.group(0)}" for number in numbers if number]
    return [["wipefs", "--all", "--quiet", one] for one in (*parts, path)] + [["udevadm", "settle"]]


def against(disk: Disk, wanted: Wanted, disks: Sequence[Disk], pools: Sequence[Pool]) -> List[Finding]:
    """What speaks against giving this drive to the pool: nothing, or one finding that names what is on it."""
    serial, where = disk.get("serial") or "", label(disk)
    if not disk.get("by_id") or not _SAFE_ID.match(str(disk["by_id"])):
        return [fail("zfs.no_stable_name", where, "has no name of its own in /dev/disk/by-id")]
    if sum(one.get("by_id") == disk["by_id"] for one in disks) > 1:
        return [fail("zfs.no_stable_name", where, f"shares the name {disk['by_id']} with another drive")]
    if in_use(disk):
        return [fail("zfs.drive_in_use", where, f"{in_use(disk)}: {content(disk) or 'no signature'}")]
    for pool in pools:
        if any(_is_on(leaf, disk) for leaf in pool.leaves):
            return [fail("zfs.drive_in_use", where, f"belongs to the pool {pool.name}, which is imported")]
    if blank(disk):
        return []
    if disk.get("signatures") is None:
        return [fail("zfs.drive_unreadable", where, "what is on it cannot be read", "replace")]
    # one that a pool of this name, imported by now, does not have was taken out of it: the label is all that is left
    known = any(pool.name == wanted.name for pool in pools)
    if wanted.name in members_of(disk) and not known and not wanted.anew:
        evidence = (
            f"is of a pool {wanted.name} that cannot be imported; only zfs_pool_anew gives it up: {content(disk)}"
        )
        return [fail("zfs.pool_unavailable", where, evidence)]
    if bool(serial) and serial in wanted.wipe and sum(one.get("serial") == serial for one in disks) == 1:
        return []
    evidence = f"holds {content(disk)}; to wipe it list its serial in zfs_pool_wipe_serials"
    return [fail("zfs.drive_not_empty", where, evidence)]


def _is_on(leaf: Leaf, disk: Disk) -> bool:
    """By its name in by-id, or by its kernel name, which another drive may have by now where the member is gone."""
    gone = leaf.state in ("UNAVAIL", "REMOVED")
    paths = [path for path in (leaf.path, leaf.device) if "/by-" in path or not gone]
    return bool({drive_of(path) for path in paths if path} & {disk.get("by_id"), disk.get("name")})


def _keep(
    wanted: Wanted,
    pool: Pool,
    disks: Sequence[Disk],
    os_disks: Sequence[Disk],
    pools: Sequence[Pool],
    serials: Mapping[str, str],
) -> Plan:
    """The pool is there: exchange the drives that the site names, take back those that are there again."""
    commands: List[List[str]] = []
    findings: List[Finding] = []
    wiped: List[str] = []
    for old, new in sorted(wanted.replace.items()):
        # done already, or under way: the new one is in the pool
        disk = next((d for d in disks if new and new in (d.get("serial"), d.get("by_id"))), None)
        if disk is not None and any(_is_on(leaf, disk) for leaf in pool.leaves):
            continue
        leaf = _leaf_of(old, pool, disks, serials)
        if leaf is None:
            findings.append(fail("zfs.replace_unknown", old, f"zfs_pool_replace: {pool.name} has no such drive"))
        elif disk is None:
            findings.append(fail("zfs.replace_unknown", new, "zfs_pool_replace: this host has no such drive", "reseat"))
        elif is_system(disk, os_disks):
            findings.append(fail("zfs.drive_in_use", label(disk), "the operating system is on it"))
        else:
            blamed = against(disk, wanted, disks, pools)
            findings += blamed
            if not blamed:
                commands += [] if blank(disk) else wipe(disk)
                wiped += [] if blank(disk) else [str(disk["by_id"])]
                commands.append(["zpool", "replace", pool.name, leaf.number or leaf.name, BY_ID + str(disk["by_id"])])
    for leaf in pool.leaves:
        # reseated; or ZED took the partition table that zpool had just written for the drive's removal (OpenZFS 2.1)
        disk = next((d for d in disks if leaf.state == "REMOVED" and _is_on(leaf, d)), None)
        names = {leaf.name, leaf.number, *((disk.get("serial"), disk.get("by_id")) if disk else ())}
        if disk is not None and not names & set(wanted.replace):
            commands.append(["zpool", "online", pool.name, leaf.number or leaf.name])
    for disk in disks:
        spoken_of = {disk.get("serial"), disk.get("by_id")} & set(wanted.replace.values())
        if is_system(disk, os_disks) or not _counts(disk, wanted) or spoken_of:
            continue
        if not any(_is_on(leaf, disk) for one in pools for leaf in one.leaves):
            evidence = f"is in no pool; {content(disk) or 'it is blank'}"
            if wanted.name in members_of(disk):
                evidence += "; zfs_pool_replace takes it again, with its serial in zfs_pool_wipe_serials"
            findings.append(Finding(CHECK, "warn", "zfs.drive_unused", label(disk), evidence, "none"))
    return Plan("keep", commands, findings, wiped=wiped)


def _leaf_of(old: str, pool: Pool, disks: Sequence[Disk], serials: Mapping[str, str]) -> Optional[Leaf]:
    """The member that a site calls by its serial, its by-id name, or as zpool prints it."""
    disk = next((d for d in disks if old and old in (d.get("serial"), d.get("by_id"))), None)
    names = {old, *(name for name, serial in serials.items() if serial == old)}
    for leaf in pool.leaves:
        named = old in (leaf.name, leaf.number) or (leaf.path != "" and drive_of(leaf.path) in names)
        if named or (disk is not None and _is_on(leaf, disk)):
            return leaf
    return None


def serial_map(pool: Pool, disks: Sequence[Disk], before: Mapping[str, str]) -> Dict[str, str]:
    """By by-id name the serial of each member: of those here as they say, of those gone as they were last seen."""
    found = {}
    for leaf in pool.leaves:
        name = drive_of(leaf.path)
        disk = next((d for d in disks if _is_on(leaf, d)), None)
        serial = str(disk.get("serial") or "") if disk else before.get(name, "")
        if name and serial:
            found[name] = serial
    return found
