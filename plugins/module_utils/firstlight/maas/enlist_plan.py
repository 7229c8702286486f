"""What enlist has to do, from the fleet and MAAS's list of machines alone: pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..findings import Finding, shorten
from . import machines as m
from .desired import (
    Desired,
    description_with_mark,
    mark_in,
    service_tag_of,
    sites_of,
    stale_tags,
    without_mark,
    without_shared_macs,
)
from .machines import FLEET_TAG, Machine, is_locked, label, macs_of, name_in, status_name, status_of, tags_of, text_of
from .nics import NicChange, Unchangeable, nic_change

# A machine of one of these belongs to somebody; its name is in use.
TAKEN = frozenset({m.DEPLOYED, m.DEPLOYING, m.ALLOCATED, m.RESERVED})

CREATE, ADOPT, UPDATE, NOTHING, CONFLICT = "create", "adopt", "update", "nothing", "conflict"


@dataclass(frozen=True)
class Step:
    """What has to be done for one machine. writes: arguments of update() or create(). tags: those to be added.

    untags: those to be taken off. nic: the interface to be changed.
    """

    name: str
    action: str
    system_id: str | None = None
    writes: dict[str, str] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    diff: str = ""
    findings: list[Finding] = field(default_factory=list)
    untags: list[str] = field(default_factory=list)
    nic: NicChange | None = None


@dataclass(frozen=True)
class Taking:
    """Which machines that are in use may be taken in as they are. us: our user in MAAS, where that matters."""

    deployed: bool = False
    us: str = ""


def plan(
    desired: Sequence[Desired],
    machines: Sequence[Machine],
    key: bytes,
    fleet_names: Iterable[str] = (),
    taking: Taking | None = None,
) -> list[Step]:
    """What has to be done, one step per desired machine, in order. key: the client's ``mark_key``.

    A machine is found by MAC, else by name where it is shown to be the same server. fleet_names: all hosts of the
    fleet, where ``desired`` is a part of it: a machine of their name is not taken for another host, whatever MAC it
    has.
    """
    desired = without_shared_macs(desired)
    by_mac: dict[str, list[Machine]] = {}
    for machine in machines:
        for mac in macs_of(machine):
            by_mac.setdefault(mac, []).append(machine)
    found = {d.name: _unique(machine for mac in d.all_macs() for machine in by_mac.get(mac, ())) for d in desired}
    world = _World(
        key,
        {*fleet_names, *(d.name for d in desired)},
        {text_of(machine, "hostname"): machine for machine in machines},
        {tag: machine for machine in machines if (tag := service_tag_of(machine))},
        taking or Taking(),
    )
    for name, candidates in found.items():
        for machine in candidates:
            world.claims.setdefault(machine["system_id"], []).append(name)
    for d in desired:
        world.installs.setdefault(d.pxe_mac.lower(), []).append(d.name)
    return [_plan_one(d, found[d.name], world) for d in desired]


@dataclass(frozen=True)
class _World:
    """What one machine is judged against. claims: names by system id; installs: names by the MAC that installs."""

    key: bytes
    fleet_names: set[str]
    by_name: dict[str, Machine]
    by_service_tag: dict[str, Machine]
    taking: Taking
    claims: dict[str, list[str]] = field(default_factory=dict)
    installs: dict[str, list[str]] = field(default_factory=dict)


def _plan_one(desired: Desired, found: list[Machine], world: _World) -> Step:
    macs = ", ".join(desired.all_macs())
    if not desired.pxe_mac:
        return _conflict(desired, "maas.no_mac", "the MAC of the NIC that installs is not known", "escalate")
    if len(world.installs[desired.pxe_mac.lower()]) > 1:
        both = " and ".join(world.installs[desired.pxe_mac.lower()])
        return _conflict(desired, "maas.mac_conflict", f"{both} have the same MAC {desired.pxe_mac} to install by")
    if len(found) > 1:
        return _several(desired, found)
    namesake = world.by_name.get(desired.name)
    if not found:
        if namesake is not None and _is_shown_to_be(namesake, desired):
            return _compare(desired, namesake, world)
        if namesake is not None:
            has = ", ".join(macs_of(namesake)) or "no MAC"
            said = f"MAAS has another machine of this name, {label(namesake)} with {has}{_whose(namesake)}; "
            return _conflict(desired, "maas.name_conflict", said + f"this host has {macs}{_tag_text(desired)}")
        twin = world.by_service_tag.get(desired.service_tag) if desired.service_tag else None
        if twin is not None:
            said = f"{label(twin)} in MAAS has this host's service tag {desired.service_tag}, but another name and none"
            return _conflict(desired, "maas.name_conflict", f"{said} of its MACs ({macs}); rename or delete it in MAAS")
        return _create(desired, world.key)
    machine = found[0]
    rivals = [name for name in world.claims[machine["system_id"]] if name != desired.name]
    if rivals:
        said = f"{label(machine)} in MAAS has MACs of {desired.name} and of {', '.join(rivals)}"
        return _conflict(desired, "maas.mac_conflict", said)
    if namesake is not None and namesake is not machine:
        said = f"{label(machine)} has this host's MAC {macs}, but the name is that of {label(namesake)}"
        return _conflict(desired, "maas.name_conflict", said)
    hostname = text_of(machine, "hostname")
    if hostname != desired.name and hostname in world.fleet_names:
        said = f"this host's MAC {macs} belongs to {label(machine)} in MAAS, which is another host of the fleet"
        return _conflict(desired, "maas.mac_conflict", said)
    if hostname != desired.name and _is_another_server(machine, desired):
        said = f"this host's MAC {macs} belongs to {label(machine)} in MAAS{_whose(machine)}"
        return _conflict(desired, "maas.mac_conflict", f"{said}; this host{_tag_text(desired)}")
    return _compare(desired, machine, world)


def _several(desired: Desired, found: list[Machine]) -> Step:
    """More than one machine has MACs of this host."""
    both = " and ".join(label(machine) for machine in found)
    macs = [mac for mac in desired.all_macs() if sum(mac in macs_of(machine) for machine in found) > 1]
    if macs:
        said = f"MAAS holds MAC {', '.join(macs)} twice: {both}; delete the one that is not in use in MAAS"
        return _conflict(desired, "maas.duplicate", said)
    said = f"MAAS has {both} with MACs of {desired.name} ({', '.join(desired.all_macs())})"
    strays = [machine for machine in found if is_stray(machine, desired.all_macs())]
    if len(strays) == len(found) - 1:
        names = ", ".join(text_of(machine, "hostname") for machine in strays)
        said += f"; it found {names} by itself, and nothing is on it: -e enlist_delete_retired={names} deletes it"
    return _conflict(desired, "maas.mac_conflict", said)


def is_stray(machine: Machine, macs: Iterable[str]) -> bool:
    """MAAS made this machine by itself when a NIC of ours booted, and nobody has done anything with it since."""
    return (
        status_of(machine) == m.NEW
        and not text_of(machine, "power_type")
        and not text_of(machine, "owner")
        and not tags_of(machine)
        and not is_locked(machine)
        and bool(macs_of(machine))
        and set(macs_of(machine)) <= set(macs)
    )


def _is_shown_to_be(machine: Machine, desired: Desired) -> bool:
    """A machine of this host's name with none of its MACs: the same server when its service tag says so."""
    if not desired.service_tag or FLEET_TAG not in tags_of(machine) or _is_another_server(machine, desired):
        return False
    hardware = machine.get("hardware_info")
    serial = hardware.get("system_serial") if isinstance(hardware, dict) else None
    return desired.service_tag in (service_tag_of(machine), serial)


def _is_another_server(machine: Machine, desired: Desired) -> bool:
    tag = service_tag_of(machine)
    return bool(tag and desired.service_tag) and tag != desired.service_tag


def _whose(machine: Machine) -> str:
    tag = service_tag_of(machine)
    return f", described as service tag {tag}" if tag else ""


def _tag_text(desired: Desired) -> str:
    return f" has service tag {desired.service_tag}" if desired.service_tag else ""


def _create(desired: Desired, key: bytes) -> Step:
    writes = {"description": description_with_mark(desired, key)}
    writes.update({k: v for k, v in (("pool", desired.pool), ("zone", desired.zone)) if v})
    lines = [
        f"+ hostname: {desired.name}",
        f"+ macs: {', '.join(desired.all_macs())}",
        f"+ architecture: {desired.architecture}",
        f"+ power: {desired.power_text()}",
        *(f"+ {name}: {value}" for name, value in writes.items() if name != "description"),
        f"+ description: {desired.description}",
        f"+ tags: {', '.join(desired.all_tags())}",
    ]
    return Step(desired.name, CREATE, None, writes, desired.all_tags(), "\n".join(lines))


def _compare(desired: Desired, machine: Machine, world: _World) -> Step:
    step = _differences(desired, machine, world)
    if status_of(machine) == m.BROKEN:  # by people: we mark none
        said = text_of(machine, "error_description") or text_of(machine, "status_message") or "no reason given"
        said = f"{label(machine)} is marked broken in MAAS: {shorten(said, 200)}; once repaired, mark it fixed there"
        step.findings.append(Finding("enlist", "fail", "maas.broken", f"MAAS machine {desired.name}", said, "escalate"))
    return step


def _differences(desired: Desired, machine: Machine, world: _World) -> Step:
    system_id, is_ours = machine["system_id"], FLEET_TAG in tags_of(machine)
    refused = _refusal(desired, machine, world.taking)
    if refused is not None:
        return refused
    hostname = text_of(machine, "hostname")
    writes: dict[str, str] = {}
    lines: list[str] = []
    if hostname != desired.name:
        writes["hostname"] = desired.name
        lines += [f"- hostname: {hostname}", f"+ hostname: {desired.name}"]
    nic = nic_change(desired, machine)
    if isinstance(nic, Unchangeable):
        return _conflict(desired, "maas.nic_unknown", nic.said, "wait" if nic.wait else "escalate", system_id)
    lines += nic.lines() if nic else []
    for name, wanted in (("pool", desired.pool), ("zone", desired.zone)):
        if wanted and name_in(machine, name) != wanted:
            writes[name] = wanted
            lines += [f"- {name}: {name_in(machine, name)}", f"+ {name}: {wanted}"]
    described, is_described = description_with_mark(desired, world.key), text_of(machine, "description")
    power_type = text_of(machine, "power_type")
    if power_type != "redfish" or mark_in(described) != mark_in(is_described):
        writes.update(desired.power())
        was = "redfish, other address, user or password" if mark_in(is_described) else "redfish, not set by firstlight"
        lines += [f"- power: {was if power_type == 'redfish' else power_type or 'none'}"]
        lines += [f"+ power: {desired.power_text()}"]
    if is_described != described:
        writes["description"] = described
        if without_mark(is_described) != desired.description:
            lines += [f"- description: {without_mark(is_described)}", f"+ description: {desired.description}"]
    tags = [t for t in desired.all_tags() if t not in tags_of(machine)]
    untags = stale_tags(desired, machine)
    lines += [f"- tags: {', '.join(untags)}"] if untags else []
    lines += [f"+ tags: {', '.join(tags)}"] if tags else []
    if not (writes or tags or untags or nic):
        return Step(desired.name, NOTHING, system_id)
    if is_locked(machine):
        differs = [*writes, *(["tags"] if tags or untags else []), *(["nic"] if nic else [])]
        said = _without_power(f"{label(machine)} is locked in MAAS and differs in: {', '.join(differs)}")
        # The right machine under the right name can be used as it is.
        status = "fail" if "hostname" in writes or nic else "warn"
        return _conflict(desired, "maas.locked", said, system_id=system_id, status=status)
    action = ADOPT if "hostname" in writes or not is_ours else UPDATE
    return Step(desired.name, action, system_id, writes, tags, "\n".join(lines), [], untags, nic)


def _refusal(desired: Desired, machine: Machine, taking: Taking) -> Step | None:
    """Why this machine, which has the host's MAC or is shown to be it, is not to be touched; None when it may be."""
    system_id, who, status = machine["system_id"], label(machine), status_of(machine)
    others = [tag for tag in sites_of(machine) if tag not in desired.tags]
    if FLEET_TAG in tags_of(machine) and others and not set(sites_of(machine)) & set(desired.tags):
        said = f"{who} has the tag {others[0]} in MAAS: it is of another site; take that tag off if it moved here"
        return _conflict(desired, "maas.foreign", said, system_id=system_id)
    if status not in TAKEN or is_locked(machine):
        return None  # locked ones are judged by what would change
    is_ours, renamed = FLEET_TAG in tags_of(machine), text_of(machine, "hostname") != desired.name
    may_take = taking.deployed and status == m.DEPLOYED
    if not is_ours:
        owner = text_of(machine, "owner")
        said = f"{who} is {status_name(machine)} in MAAS to {owner or 'nobody'}, and not by firstlight"
        if not may_take:
            said += "; release it in MAAS" + (
                ", or set enlist_adopt_deployed: true to take it in as it is" if status == m.DEPLOYED else ""
            )
            return _conflict(desired, "maas.foreign", said, system_id=system_id)
        if owner and owner != taking.us:
            said += f"; we are {taking.us or 'not known'}, and what another user has is not taken"
            return _conflict(desired, "maas.foreign", said, system_id=system_id)
    if renamed and not may_take:
        said = f"{who} has this host's MAC and is {status_name(machine)} under another name; release it first"
        return _conflict(desired, "maas.mac_conflict", said, system_id=system_id)
    if _is_another_server(machine, desired):
        said = f"{who} is {status_name(machine)}{_whose(machine)}, but this host{_tag_text(desired)}: was the server "
        said += "replaced? Release it (playbooks/release.yml): what is installed is not of this one"
        return _conflict(desired, "maas.replaced", said, system_id=system_id)
    return None


def _conflict(
    desired: Desired,
    symptom: str,
    evidence: str,
    action: str = "escalate",
    system_id: str | None = None,
    status: str = "fail",
) -> Step:
    finding = Finding("enlist", status, symptom, f"MAAS machine {desired.name}", evidence, action)
    return Step(desired.name, CONFLICT, system_id, findings=[finding])


def _without_power(text: str) -> str:
    """Names of parameters for people: the three power parameters are one thing."""
    parts = [p for p in text.replace("power_type", "power").split(", ") if "power_parameters_" not in p]
    return ", ".join(parts)


def _unique(machines: Iterable[Machine]) -> list[Machine]:
    return list({machine["system_id"]: machine for machine in machines}.values())
