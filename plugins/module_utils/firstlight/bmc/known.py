"""What is known of the BMCs from earlier, and whom to ask again. Pure."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import re
from collections.abc import Mapping
from typing import Any

from ..sitefiles import Fleet, PlannedHost
from . import hardware
from .hardware import Hardware, Record

REFUSED = ("auth_failed", "blocked")
# Of kept records. Changes whenever a part of Hardware does: a part that was not looked for then is not missing now.
VERSION = hashlib.sha256(
    repr(
        [
            (kind.__name__, [f.name for f in dataclasses.fields(kind)])
            for kind in vars(hardware).values()
            if isinstance(kind, type) and dataclasses.is_dataclass(kind)
        ]
    ).encode()
).hexdigest()[:12]
REMEMBERED_DAYS = 30
FRESH_SECONDS = 60  # three wrong passwords in a minute make an iDRAC block the address that they came from


def group_name(text: str) -> str:
    """As Ansible wants the names of groups: letters, digits and underscores."""
    return re.sub(r"[^A-Za-z0-9_]", "_", text)


def merge(new: Record, old: Record | None) -> Record:
    """The new record; when it tells nothing about the hardware, with what was known before, marked stale."""
    if new.hardware is None and old is not None and old.hardware is not None:
        return dataclasses.replace(new, hardware=old.hardware, stale=True)
    return new


def not_asked(name: str, why: str) -> Record:
    """The record of a BMC of which nothing is known."""
    return Record(name, "not_asked", f"not asked yet: {why}", "", 0.0)


def age(record: Record) -> float:
    """Seconds since the BMC was asked; negative when the record is from the future, or says nothing."""
    try:
        asked = datetime.datetime.fromisoformat(record.asked_at)
        return (datetime.datetime.now(datetime.UTC) - asked).total_seconds()
    except (TypeError, ValueError):
        return -1.0


def is_fresh(record: Record, seconds: float = FRESH_SECONDS) -> bool:
    return 0 <= age(record) < seconds


def before_it_changed(new: Record, old: Record | None, previous: Record | None) -> Record | None:
    """The last good record with other parts than now: what triage compares with.

    old: the record before this one. previous: what this function said then. Asking again does not forget it, only
    REMEMBERED_DAYS do: by then somebody knows that a part was replaced.
    """
    if old and old.hardware and new.hardware and not new.stale and _parts_of(old.hardware) != _parts_of(new.hardware):
        return old
    if previous is None or not 0 <= age(previous) < REMEMBERED_DAYS * 86400:
        return None
    return previous


def updated(new: Record, old: Record | None, previous: Record | None) -> tuple[Record, Record | None]:
    """What is known after an answer: merge and before_it_changed of it."""
    return merge(new, old), before_it_changed(new, old, previous)


def _parts_of(told: Hardware) -> tuple[Any, ...]:
    parts = (told.nics, told.gpus, told.drives, told.psus, told.dimms, told.fans)
    macs = [(nic.id, nic.mac) for nic in told.nics]
    return told.service_tag, told.board_serial, macs, [[part.id for part in kind] for kind in parts]


def to_entries(fleet: Fleet, known: Mapping[str, Record], previous: Mapping[str, Record | None]) -> dict[str, Any]:
    """Records, and those of before_it_changed, as plain values for a cache."""
    entries: dict[str, Any] = {}
    for host in fleet.hosts:
        if host.name in known:
            entries[host.name] = {"bmc": _bmc_of(host), "record": known[host.name].to_dict()}
            before = previous.get(host.name)
            if before:
                entries[host.name]["previous"] = before.to_dict()
    return entries


def from_entries(fleet: Fleet, entries: Any, key: str = "record") -> dict[str, Record]:
    """Records from a cache, which anybody may have written; those of another BMC address are worth nothing.

    key: "record", or "previous" for those of before_it_changed.
    """
    known: dict[str, Record] = {}
    for host in fleet.hosts:
        entry = entries.get(host.name) if isinstance(entries, Mapping) else None
        if not isinstance(entry, Mapping) or entry.get("bmc") != _bmc_of(host):
            continue
        try:
            known[host.name] = dataclasses.replace(Record.from_dict(entry.get(key)), name=host.name)
        except (TypeError, ValueError):
            continue  # written by another version, or by hand
    return known


def limited_to(limit: str | None, fleet: Fleet, states: Mapping[str, str]) -> set[str] | None:
    """The planned hosts that Ansible's --limit can mean at most; None when that cannot be told, or there is no limit.

    It is judged before the BMCs are asked and before other inventories are read. So only names of planned hosts, and
    of groups that follow from the plan and the ledger, tell; a pattern, or the name of any other group, may mean
    everyone. Exclusions (!) and intersections (&) only take hosts away.
    """
    terms = [term.strip() for term in re.split(r"[,:]", limit or "") if term.strip()]
    names = {host.name for host in fleet.hosts}
    groups: dict[str, set[str]] = {"all": names, "fleet": names}
    for host in fleet.hosts:
        for group in (f"rack_{host.rack}", f"profile_{host.profile}", f"state_{states.get(host.name, 'planned')}"):
            groups.setdefault(group_name(group), set()).add(host.name)
    found: set[str] = set()
    positive = [term for term in terms if term[0] not in "!&"]
    for term in positive:
        if term in groups:
            found |= groups[term]
        elif term in names:
            found.add(term)
        elif term != "localhost":
            return None
    return found if positive else None


def _bmc_of(host: PlannedHost) -> str:
    return f"{host.bmc_address} port {host.bmc_port}"
