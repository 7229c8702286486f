"""Machines of ours in MAAS that are in no fleet any more, and what may be deleted when a person names it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from . import machines as m
from .desired import service_tag_of
from .enlist_plan import is_stray
from .machines import FLEET_TAG, Machine, is_locked, label, macs_of, status_name, status_of, tags_of, text_of

# Nobody is on a machine of one of these, and nothing is going on with it.
_DELETABLE = frozenset({m.NEW, m.FAILED_COMMISSIONING, m.MISSING, m.READY, m.RETIRED, m.BROKEN, m.FAILED_TESTING})


@dataclass(frozen=True)
class Known:
    """What the whole fleet is known by besides its names, whatever part of it a run is limited to."""

    macs: frozenset[str]
    service_tags: frozenset[str]


def retired(machines: Sequence[Machine], site: str, names: Iterable[str], known: Callable[[], Known]) -> list[Machine]:
    """Machines with the tag firstlight and this site's tag that are no host of the fleet, by name, MAC or service tag.

    site: the site's tag; without one nothing is known to be retired, since several sites may share a region. names: of
    the whole fleet. known: asked only where there is a machine that the names do not explain.
    """
    fleet_names = set(names)
    unknown = [
        machine
        for machine in machines
        if site and {FLEET_TAG, site} <= set(tags_of(machine)) and text_of(machine, "hostname") not in fleet_names
    ]
    if not unknown:
        return []
    fleet = known()
    return [
        machine
        for machine in unknown
        if not fleet.macs & set(macs_of(machine)) and service_tag_of(machine) not in fleet.service_tags
    ]


def to_delete(
    names: Iterable[str], machines: Sequence[Machine], gone: Sequence[Machine], fleet_macs: Callable[[], Iterable[str]]
) -> list[Machine]:
    """The machines that a person has named for deletion; InputError when one of them must not be.

    Only retired ones (``gone``), and those that MAAS made by itself of a NIC of the fleet. A name that MAAS does not
    have is done already.
    """
    found: dict[str, Machine] = {}
    retired_ids = {machine["system_id"] for machine in gone}
    for name in dict.fromkeys(names):
        for machine in [x for x in machines if name in (text_of(x, "hostname"), x["system_id"])]:
            if machine["system_id"] not in retired_ids and not is_stray(machine, fleet_macs()):
                known = ", ".join(text_of(x, "hostname") for x in gone) or "there are none"
                raise InputError(
                    f"enlist_delete_retired: {label(machine)} is not retired; nothing was done. Retired are: {known}"
                )
            if is_locked(machine) or status_of(machine) not in _DELETABLE or text_of(machine, "owner"):
                how = "locked" if is_locked(machine) else status_name(machine)
                owner = f" to {text_of(machine, 'owner')}" if text_of(machine, "owner") else ""
                raise InputError(
                    f"enlist_delete_retired: {label(machine)} is {how}{owner} in MAAS; nothing was done. "
                    "Unlock and release it in MAAS first"
                )
            found[machine["system_id"]] = machine
    return list(found.values())


def names_to_delete(value: Any) -> list[str]:
    """The setting enlist_delete_retired: a list of names, or one text with commas (-e); InputError for all else."""
    names = value.split(",") if isinstance(value, str) else value
    if names is None:
        return []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"enlist_delete_retired is {value!r}; name the machines that may be deleted: [r9-n01, r9-n02]")
    found = [name.strip() for name in names if name.strip()]
    for name in found:
        if name.lower() in ("true", "yes", "all", "*"):
            raise InputError(f"enlist_delete_retired: {name!r} names no machine; write each name: [r9-n01, r9-n02]")
    return found


def shown(machine: Machine) -> dict[str, str]:
    """For a task's result."""
    return {
        "name": text_of(machine, "hostname"),
        "system_id": machine["system_id"],
        "status": status_name(machine),
        "service_tag": service_tag_of(machine),
    }
