"""Enlist: make MAAS hold exactly the machines of the fleet. ``plan`` is pure, ``enlist`` carries it out.

A second run reads the list of machines once and writes nothing.

Passwords in MAAS cannot be compared without reading them in clear text (op=power_parameters), every run, for the whole
fleet, through every proxy and log in between. So what we set is remembered where the list shows it: a mark at the end
of the description, an HMAC over power type, address, user and password. Its key is the secret part of the API key,
which can read the clear text anyway; without it a weak password cannot be guessed from the mark. What the mark cannot
see is power settings that somebody changed in MAAS by hand; and another API key updates every machine once.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from ..findings import Finding
from .client import MaasClient, MaasError
from .machines import (
    ALLOCATED,
    DEPLOYED,
    DEPLOYING,
    FLEET_TAG,
    RESERVED,
    Machine,
    is_locked,
    label,
    macs_of,
    name_in,
    status_name,
    status_of,
    tags_of,
    text_of,
)

IN_PARALLEL = 4  # a region serialises most of its work anyway
# A machine of one of these belongs to somebody; its name is in use.
_TAKEN = frozenset({DEPLOYED, DEPLOYING, ALLOCATED, RESERVED})

CREATE, ADOPT, UPDATE, NOTHING, CONFLICT = "create", "adopt", "update", "nothing", "conflict"


@dataclass(frozen=True)
class Desired:
    """A machine as it shall be in MAAS. macs: all known MACs of the host, pxe_mac: that of the NIC that installs.

    pool, zone: None leaves them as they are. tags: besides ``firstlight``, which every machine gets.
    """

    name: str
    macs: tuple[str, ...]
    pxe_mac: str
    bmc_address: str
    bmc_username: str
    bmc_password: str = field(repr=False)
    bmc_port: int = 443
    architecture: str = "amd64/generic"
    pool: str | None = None
    zone: str | None = None
    tags: tuple[str, ...] = ()
    description: str = ""

    def all_macs(self) -> list[str]:
        """The MAC that installs first: MAAS takes the first as the boot interface."""
        return list(dict.fromkeys(m.lower() for m in (self.pxe_mac, *self.macs) if m))

    def all_tags(self) -> list[str]:
        return list(dict.fromkeys((FLEET_TAG, *self.tags)))

    def power_address(self) -> str:
        """As MAAS's redfish driver wants it: ip, ip:port or [v6]:port; a URL makes MAAS fail with 500."""
        host = f"[{self.bmc_address}]" if ":" in self.bmc_address else self.bmc_address
        return host if self.bmc_port == 443 else f"{host}:{self.bmc_port}"

    def power(self) -> dict[str, str]:
        return {
            "power_type": "redfish",
            "power_parameters_power_address": self.power_address(),
            "power_parameters_power_user": self.bmc_username,
            "power_parameters_power_pass": self.bmc_password,
        }


@dataclass(frozen=True)
class Step:
    """What has to be done for one machine. writes: arguments of update() or create(). tags: those to be added."""

    name: str
    action: str
    system_id: str | None = None
    writes: dict[str, str] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    diff: str = ""
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True)
class EnlistResult:
    """changed: something was (in check mode: would be) written. action: create|adopt|update|nothing|conflict."""

    changed: bool
    system_id: str | None
    diff: str
    findings: list[Finding]
    action: str = NOTHING


def description_with_mark(desired: Desired, key: bytes) -> str:
    """The description with the mark of the power settings, which must not change between releases of Firstlight."""
    said = "\0".join(desired.power().values()).encode()
    mark = hmac.new(key, said, hashlib.sha256).hexdigest()[:16]
    return f"{desired.description} [power {mark}]".strip()


def plan(
    desired: Sequence[Desired], machines: Sequence[Machine], key: bytes, fleet_names: Iterable[str] = ()
) -> list[Step]:
    """What has to be done, one step per desired machine, in order. key: the client's ``mark_key``.

    A machine is found by MAC, else by name. fleet_names: all hosts of the fleet, where ``desired`` is a part of it:
    a machine of their name is not taken for another host, whatever MAC it has.
    """
    desired = without_shared_macs(desired)
    by_mac: dict[str, list[Machine]] = {}
    for machine in machines:
        for mac in macs_of(machine):
            by_mac.setdefault(mac, []).append(machine)
    found = {d.name: _unique(m for mac in d.all_macs() for m in by_mac.get(mac, ())) for d in desired}
    world = _World(key, {*fleet_names, *(d.name for d in desired)}, {text_of(m, "hostname"): m for m in machines})
    for name, candidates in found.items():
        for machine in candidates:
            world.claims.setdefault(machine["system_id"], []).append(name)
    for d in desired:
        world.installs.setdefault(d.pxe_mac.lower(), []).append(d.name)
    return [_plan_one(d, found[d.name], world) for d in desired]


def without_shared_macs(desired: Sequence[Desired]) -> list[Desired]:
    """The same without MACs that several hosts have: some USB NICs have one and the same everywhere.

    The MAC that installs stays; where that is shared, the hosts conflict.
    """
    owners = Counter(mac for d in desired for mac in d.all_macs())
    return [replace(d, macs=tuple(m for m in d.all_macs() if owners[m] == 1)) for d in desired]


@dataclass(frozen=True)
class _World:
    """What one machine is judged against. claims: names by system id; installs: names by the MAC that installs."""

    key: bytes
    fleet_names: set[str]
    by_name: dict[str, Machine]
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
        both = " and ".join(label(m) for m in found)
        return _conflict(desired, "maas.mac_conflict", f"MAAS has {both} with MACs of {desired.name} ({macs})")
    namesake = world.by_name.get(desired.name)
    if not found:
        if namesake is not None:
            has = ", ".join(macs_of(namesake)) or "no MAC"
            said = f"MAAS has another machine of this name, {label(namesake)} with {has}; this host has {macs}"
            return _conflict(desired, "maas.name_conflict", said)
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
    return _compare(desired, machine, world.key)


def _create(desired: Desired, key: bytes) -> Step:
    writes = {"description": description_with_mark(desired, key)}
    writes.update({k: v for k, v in (("pool", desired.pool), ("zone", desired.zone)) if v})
    lines = [
        f"+ hostname: {desired.name}",
        f"+ macs: {', '.join(desired.all_macs())}",
        f"+ architecture: {desired.architecture}",
        f"+ power: {_power_text(desired)}",
        *(f"+ {name}: {value}" for name, value in writes.items() if name != "description"),
        f"+ description: {desired.description}",
        f"+ tags: {', '.join(desired.all_tags())}",
    ]
    return Step(desired.name, CREATE, None, writes, desired.all_tags(), "\n".join(lines))


def _compare(desired: Desired, machine: Machine, key: bytes) -> Step:
    system_id = machine["system_id"]
    hostname = text_of(machine, "hostname")
    writes: dict[str, str] = {}
    lines: list[str] = []
    if hostname != desired.name:
        writes["hostname"] = desired.name
        lines += [f"- hostname: {hostname}", f"+ hostname: {desired.name}"]
    for name, wanted in (("pool", desired.pool), ("zone", desired.zone)):
        if wanted and name_in(machine, name) != wanted:
            writes[name] = wanted
            lines += [f"- {name}: {name_in(machine, name)}", f"+ {name}: {wanted}"]
    described, is_described = description_with_mark(desired, key), text_of(machine, "description")
    power_type = text_of(machine, "power_type")
    if power_type != "redfish" or _mark(described) != _mark(is_described):
        writes.update(desired.power())
        if power_type != "redfish":
            was = power_type or "none"
        elif _mark(is_described):
            was = "redfish, other address, user or password"
        else:
            was = "redfish, not set by firstlight"
        lines += [f"- power: {was}", f"+ power: {_power_text(desired)}"]
    if is_described != described:
        writes["description"] = described
        if _without_mark(is_described) != desired.description:
            lines += [f"- description: {_without_mark(is_described)}", f"+ description: {desired.description}"]
    tags = [t for t in desired.all_tags() if t not in tags_of(machine)]
    if tags:
        lines.append(f"+ tags: {', '.join(tags)}")
    if not writes and not tags:
        return Step(desired.name, NOTHING, system_id)
    if is_locked(machine):
        said = f"{label(machine)} is locked in MAAS and differs in: {', '.join([*writes, *(['tags'] if tags else [])])}"
        # The right machine under the right name can be used as it is.
        status = "fail" if "hostname" in writes else "warn"
        return _conflict(desired, "maas.locked", _without_power(said), system_id=system_id, status=status)
    if "hostname" in writes and status_of(machine) in _TAKEN:
        said = (
            f"{label(machine)} has this host's MAC and is {status_name(machine)} under another name; release it first"
        )
        return _conflict(desired, "maas.mac_conflict", said, system_id=system_id)
    action = ADOPT if "hostname" in writes or FLEET_TAG in tags else UPDATE
    return Step(desired.name, action, system_id, writes, tags, "\n".join(lines))


def enlist(
    client: MaasClient,
    desired: Sequence[Desired],
    check: bool = False,
    on_progress: Callable[[str], None] | None = None,
    fleet_names: Iterable[str] = (),
) -> dict[str, EnlistResult]:
    """Carry the plan out: one result per name. One machine's error is its finding and stops no other.

    Raises MaasError when MAAS cannot be used at all. check: plan only. on_progress: gets one line per machine written.
    fleet_names: see ``plan``.
    """
    client.hide(*(d.bmc_password for d in desired))
    names = {*fleet_names, *(d.name for d in desired)}
    steps = plan(desired, client.machines(), client.mark_key, names)
    if check:
        return {s.name: _result(s) for s in steps}
    tell = on_progress or (lambda line: None)
    wanted = {d.name: d for d in without_shared_macs(desired)}
    done: dict[str, Step] = {}
    out_of_use: list[MaasError] = []  # when MAAS is gone, the rest need not each find that out
    # Hosts have no MAC in common (plan sees to it), so no two requests in flight are about the same one: MAAS has
    # stored the same MAC twice when they were.
    with ThreadPoolExecutor(max_workers=IN_PARALLEL) as pool:
        for step in pool.map(lambda s: _carry_out(client, wanted[s.name], s, names, out_of_use), steps):
            done[step.name] = step
            if step.action not in (NOTHING, CONFLICT):
                tell(f"{step.name}: {step.action} ({step.system_id})")
    _tag(client, done)
    return {name: _result(step) for name, step in done.items()}


def _carry_out(client: MaasClient, desired: Desired, step: Step, names: set[str], out_of_use: list[MaasError]) -> Step:
    try:
        if out_of_use and step.action not in (NOTHING, CONFLICT):
            raise out_of_use[0]
        if step.action == CREATE:
            machine = client.create(
                desired.name, desired.all_macs(), desired.architecture, desired.power(), **step.writes
            )
            again = plan([desired], [machine], client.mark_key, names)[0]
            # Usually nothing is left but tags. If the lost POST, another run or PXE made it, the rest follows.
            step = Step(step.name, CREATE, machine["system_id"], again.writes, again.tags, step.diff, again.findings)
            if again.action == CONFLICT:
                return again
        if step.writes and step.system_id:
            client.update(step.system_id, **step.writes)
        return step
    except MaasError as error:
        if error.no_use:
            out_of_use.append(error)
        return Step(step.name, CONFLICT, step.system_id, findings=[_finding_of(error, desired)])


def _finding_of(error: MaasError, desired: Desired) -> Finding:
    if "mac_addresses" in error.fields:
        symptom, action = "maas.mac_conflict", "escalate"
    elif "hostname" in error.fields:
        symptom, action = "maas.name_conflict", "escalate"
    elif error.outcome_unknown or error.no_use:
        symptom, action = "maas.unreachable", "retry"
    else:
        symptom, action = "maas.refused", "escalate"
    return Finding("enlist", "fail", symptom, f"MAAS machine {desired.name}", str(error), action)


def _tag(client: MaasClient, done: dict[str, Step]) -> None:
    """Add each tag to all machines that lack it, in one request per tag."""
    lacking: dict[str, list[Step]] = {}
    for step in done.values():
        if step.system_id and step.action != CONFLICT:
            for tag in step.tags:
                lacking.setdefault(tag, []).append(step)
    for tag, steps in lacking.items():
        try:
            client.ensure_tag(tag, "set by firstlight")
            client.tag_machines(tag, [s.system_id for s in steps if s.system_id])
        except MaasError as error:
            for step in steps:
                finding = Finding("enlist", "fail", "maas.not_tagged", f"tag {tag}", str(error), "retry")
                step.findings.append(finding)


def _result(step: Step) -> EnlistResult:
    changed = step.action in (CREATE, ADOPT, UPDATE)
    return EnlistResult(changed, step.system_id, step.diff, list(step.findings), step.action)


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


def _power_text(desired: Desired) -> str:
    return f"redfish {desired.bmc_username}@{desired.power_address()}"


def _without_power(text: str) -> str:
    """Names of parameters for people: the three power parameters are one thing."""
    parts = [p for p in text.replace("power_type", "power").split(", ") if "power_parameters_" not in p]
    return ", ".join(parts)


def _mark(description: str) -> str:
    _, found, tail = description.rpartition("[power ")
    return tail[:-1] if found and tail.endswith("]") else ""


def _without_mark(description: str) -> str:
    return description.rpartition("[power ")[0].strip() if _mark(description) else description


def _unique(machines: Iterable[Machine]) -> list[Machine]:
    return list({m["system_id"]: m for m in machines}.values())
