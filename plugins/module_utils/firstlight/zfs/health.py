"""Findings about a pool as it is: its state, its drives, its errors. Pure functions."""

from __future__ import annotations

import re
from typing import List, Mapping

from ..findings import Finding
from .plan import CHECK, fail
from .status import Leaf, Pool, drive_of, progress

GOOD = ("ONLINE", "AVAIL", "INUSE")
# of one drive, of all kinds, until zpool clear. ZFS itself gives up one that has ten in ten minutes
DEFAULT_DRIVE_ERRORS = 100.0


def judge_pool(
    pool: Pool, serials: Mapping[str, str], drives: int = 0, most: float = DEFAULT_DRIVE_ERRORS
) -> List[Finding]:
    """At least one finding. serials: of members by by-id name, as last seen. drives: how many it must have, 0 any.
    most: errors that a drive may have."""
    findings = [_drive(leaf, serials) for leaf in pool.leaves if leaf.state not in GOOD]
    running = progress(pool)
    if pool.state != "ONLINE" and not findings:
        findings.append(fail("zfs.pool_degraded", pool.name, f"state {pool.state} {pool.message}".strip()))
    if running == "resilver":
        findings.append(Finding(CHECK, "warn", "zfs.resilvering", pool.name, pool.scan, "wait"))
    for leaf in pool.leaves:
        errors = leaf.read + leaf.write + leaf.checksum
        if leaf.state in GOOD and errors > 0:
            evidence = f"errors: {leaf.read} reading, {leaf.write} writing, {leaf.checksum} checksums; limit {most:g}"
            status, action = ("fail", "replace") if errors > most else ("warn", "none")
            findings.append(Finding(CHECK, status, "zfs.drive_errors", _where(leaf, serials), evidence, action))
    # the only sentence that means none; a count, or names of files, otherwise
    if pool.errors and not pool.errors.startswith("No known data errors"):
        findings.append(fail("zfs.data_lost", pool.name, pool.errors))
    data = [leaf for leaf in pool.leaves if not leaf.section and not _replaced(leaf)]
    spares = [leaf for leaf in pool.leaves if leaf.section == "spares"]
    replacing = {g for leaf in pool.leaves for g in leaf.groups if g.startswith("replacing")}
    count = len(data) + len(spares) + len(replacing)
    if count < drives:
        evidence = f"made over {count} drives, the profile has {drives}"
        findings.append(Finding(CHECK, "warn", "zfs.fewer_drives", pool.name, evidence, "none"))
    return findings or [Finding(CHECK, "ok", CHECK, pool.name, f"ONLINE over {count} drives; {_scan(pool)}")]


def _scan(pool: Pool) -> str:
    found = re.match(r"(scrub repaired|resilvered|scrub in progress)[^.]*", pool.scan)
    return found.group(0)[:120] if found else "not scrubbed yet"


def _where(leaf: Leaf, serials: Mapping[str, str]) -> str:
    name = drive_of(leaf.path) or leaf.name
    return f"serial {serials[name]}, {name}" if name in serials else name


def _drive(leaf: Leaf, serials: Mapping[str, str]) -> Finding:
    evidence = f"{leaf.state} in {leaf.groups[-1] if leaf.groups else 'the pool'}; {leaf.note}".rstrip("; ")
    if _replaced(leaf):
        return Finding(CHECK, "warn", "zfs.drive_replaced", _where(leaf, serials), evidence, "wait")
    gone = leaf.state in ("UNAVAIL", "REMOVED")
    if leaf.state == "OFFLINE":
        return fail("zfs.drive_offline", _where(leaf, serials), evidence)
    symptom = "zfs.drive_missing" if gone else "zfs.drive_failed"
    hint = "zfs_pool_replace: {OLD: NEW} exchanges it"
    return fail(symptom, _where(leaf, serials), f"{evidence}; {hint}", "reseat" if gone else "replace")


def _replaced(leaf: Leaf) -> bool:
    return any(group.startswith("replacing") for group in leaf.groups)
