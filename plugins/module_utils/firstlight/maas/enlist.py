"""Enlist: make MAAS hold exactly the machines of the fleet. enlist_plan.py says what, this carries it out.

A second run reads the list of machines once and writes nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..findings import Finding
from .client import MaasClient, MaasError
from .desired import Desired, without_shared_macs
from .enlist_plan import ADOPT, CONFLICT, CREATE, NOTHING, UPDATE, Step, Taking, plan
from .machines import DEPLOYED, FLEET_TAG, Machine, label, macs_of, status_of, tags_of
from .retired import names_to_delete

__all__ = ["Desired", "EnlistOptions", "EnlistResult", "delete", "enlist", "enlist_options", "plan"]

IN_PARALLEL = 4  # a region serialises most of its work anyway
_OF_ONE_MACHINE = frozenset({CREATE, ADOPT, UPDATE})


@dataclass(frozen=True)
class EnlistResult:
    """changed: something was (in check mode: would be) written. action: create|adopt|update|nothing|conflict."""

    changed: bool
    system_id: str | None
    diff: str
    findings: list[Finding]
    action: str = NOTHING


@dataclass(frozen=True)
class EnlistOptions:
    """adopt_deployed: see ``enlist``. delete_retired: names of machines that may be deleted, see ``to_delete``."""

    adopt_deployed: bool = False
    delete_retired: tuple[str, ...] = ()


def enlist_options(value: Callable[[str], Any]) -> EnlistOptions:
    """The options from a site's settings; InputError names the setting that is wrong. value: gives one by name."""
    adopt = value("enlist_adopt_deployed")
    if isinstance(adopt, str) and adopt.lower() in ("true", "false"):  # from -e
        adopt = adopt.lower() == "true"
    if adopt is not None and not isinstance(adopt, bool):
        raise InputError(f"enlist_adopt_deployed is {adopt!r}; it must be true or false")
    return EnlistOptions(bool(adopt), tuple(names_to_delete(value("enlist_delete_retired"))))


def enlist(
    client: MaasClient,
    desired: Sequence[Desired],
    check: bool = False,
    on_progress: Callable[[str], None] | None = None,
    fleet_names: Iterable[str] = (),
    machines: Sequence[Machine] | None = None,
    adopt_deployed: bool = False,
) -> dict[str, EnlistResult]:
    """Carry the plan out: one result per name. One machine's error is its finding and stops no other.

    Raises MaasError when MAAS cannot be used at all. check: plan only. on_progress: gets one line per machine written.
    fleet_names: see ``plan``. machines: MAAS's list, where the caller has it. adopt_deployed: take in machines that are
    deployed, but not by us, as they are.
    """
    client.hide(*(d.bmc_password for d in desired))
    names = {*fleet_names, *(d.name for d in desired)}
    machines = client.machines() if machines is None else machines
    taking = Taking(adopt_deployed, _us(client, desired, machines) if adopt_deployed else "")
    steps = plan(desired, machines, client.mark_key, names, taking)
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
            if step.action in _OF_ONE_MACHINE:
                tell(f"{step.name}: {step.action} ({step.system_id})")
    _tag(client, done, {tag for machine in machines for tag in tags_of(machine)})
    return {name: _result(step) for name, step in done.items()}


def _us(client: MaasClient, desired: Sequence[Desired], machines: Sequence[Machine]) -> str:
    """Our user in MAAS, asked for only when a machine that might be taken in is somebody's."""
    macs = {mac for d in desired for mac in d.all_macs()}
    foreign = (x for x in machines if status_of(x) == DEPLOYED and FLEET_TAG not in tags_of(x))
    return str(client.whoami().get("username", "")) if any(macs & set(macs_of(x)) for x in foreign) else ""


def _carry_out(client: MaasClient, desired: Desired, step: Step, names: set[str], out_of_use: list[MaasError]) -> Step:
    try:
        if out_of_use and step.action in _OF_ONE_MACHINE:
            raise out_of_use[0]
        if step.action == CREATE:
            machine = client.create(
                desired.name, desired.all_macs(), desired.architecture, desired.power(), **step.writes
            )
            again = plan([desired], [machine], client.mark_key, names)[0]
            if again.action == CONFLICT:
                return again
            # Usually nothing is left but tags. If the lost POST, another run or PXE made it, the rest follows.
            step = Step(
                step.name, CREATE, machine["system_id"], again.writes, again.tags, step.diff, again.findings,
                again.untags, again.nic,
            )  # fmt: skip
        if step.nic and step.system_id:
            if step.nic.interface_id is None:
                client.add_nic(step.system_id, step.nic.mac)
            else:
                client.set_mac(step.system_id, step.nic.interface_id, step.nic.mac)
        if step.writes and step.system_id:
            client.update(step.system_id, **step.writes)
        return step
    except MaasError as error:
        if error.no_use:
            out_of_use.append(error)
        return Step(step.name, CONFLICT, step.system_id, findings=[_finding_of(error, desired)])


def _finding_of(error: MaasError, desired: Desired) -> Finding:
    if "mac_addresses" in error.fields or "mac_address" in error.fields:
        symptom, action = "maas.mac_conflict", "escalate"
    elif "hostname" in error.fields:
        symptom, action = "maas.name_conflict", "escalate"
    elif error.outcome_unknown or error.no_use:
        symptom, action = "maas.unreachable", "retry"
    else:
        symptom, action = "maas.refused", "escalate"
    return Finding("enlist", "fail", symptom, f"MAAS machine {desired.name}", str(error), action)


def _tag(client: MaasClient, done: dict[str, Step], seen: set[str]) -> None:
    """Add each tag to all machines that lack it and take it off all that have it no more, in one request per tag.

    seen: tags that machines have, which need not be made. What tags there are is asked once, if one may be new.
    """
    lacking: dict[str, list[Step]] = {}
    having: dict[str, list[Step]] = {}
    for step in done.values():
        if step.system_id and step.action != CONFLICT:
            for tags, of in ((step.tags, lacking), (step.untags, having)):
                for tag in tags:
                    of.setdefault(tag, []).append(step)
    if set(lacking) - seen:
        with contextlib.suppress(MaasError):  # making a tag that is there is no error
            seen = seen | client.tags()
    for tag in dict.fromkeys([*lacking, *having]):
        add, remove = lacking.get(tag, []), having.get(tag, [])
        try:
            if add and tag not in seen:
                client.ensure_tag(tag, "set by firstlight")
            client.tag_machines(tag, [str(s.system_id) for s in add], [str(s.system_id) for s in remove])
        except MaasError as error:
            for step in [*add, *remove]:
                finding = Finding("enlist", "fail", "maas.not_tagged", f"tag {tag}", str(error), "retry")
                step.findings.append(finding)


def delete(
    client: MaasClient, machines: Sequence[Machine], on_deed: Callable[[str, str], None]
) -> list[tuple[str, str | None]]:
    """Delete these machines from MAAS, which the caller was told by name; per machine its label and the error, if any.

    on_deed: is told (hostname, line) before it is done.
    """
    done: list[tuple[str, str | None]] = []
    for machine in machines:
        on_deed(str(machine.get("hostname")), f"delete {label(machine)} from MAAS")
        try:
            client.delete_machine(machine["system_id"])
            done.append((label(machine), None))
        except MaasError as error:
            done.append((label(machine), str(error)))
    return done


def _result(step: Step) -> EnlistResult:
    return EnlistResult(step.action in _OF_ONE_MACHINE, step.system_id, step.diff, list(step.findings), step.action)
