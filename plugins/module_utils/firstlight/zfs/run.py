"""A host's pool made as wanted: read, plan, do, read again. The only part that talks to the host.

``run`` takes a list of arguments and gives (status, output, errors), as AnsibleModule.run_command does; a program that
is not there has status 127.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

from ..findings import Finding, shorten
from . import properties
from .health import judge_pool
from .plan import BY_ID, CHECK, Plan, Wanted, fail, make_plan, serial_map
from .status import Pool, read_pools

Run = Callable[[List[str]], Tuple[int, str, str]]
Datasets = Sequence[Tuple[str, Mapping[str, str]]]
NOT_FOUND = 127
NONE = "no pools available to import"


class CannotRead(Exception):
    """ZFS does not answer; the finding says why."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.evidence)
        self.finding = finding


@dataclass
class Outcome:
    """action: as of the plan. commands: what was done, or in check mode would be. settings: commands that only set."""

    action: str
    commands: List[List[str]] = field(default_factory=list)
    findings: List[Finding] = field(default_factory=list)
    groups: List[List[str]] = field(default_factory=list)
    spares: List[str] = field(default_factory=list)


def imported(run: Run) -> List[Pool]:
    """The pools that are imported, their members with device and number; CannotRead when ZFS does not answer.

    A drive has several links in /dev/disk/by-id, and ZFS may have taken another one than host_facts: what says that
    they are the same is the device. The number is what a drive is exchanged by: zpool takes no path of a partition
    that it made itself.
    """
    plain, real, numbers = (_pools(run, ["zpool", "status", "-p", *more]) for more in (["-P"], ["-P", "-L"], ["-g"]))
    shapes = [[(pool.name, len(pool.leaves)) for pool in pools] for pools in (plain, real, numbers)]
    if not shapes[0] == shapes[1] == shapes[2]:
        raise CannotRead(fail("zfs.unreadable", "", "pools change while they are looked at", "retry"))
    return [_joined(*rows) for rows in zip(plain, real, numbers)]  # noqa: B905  (Python 3.9)


def _joined(plain: Pool, real: Pool, numbers: Pool) -> Pool:
    leaves = [
        replace(one, device=two.name if two.name.startswith("/") else "", number=three.name)
        for one, two, three in zip(plain.leaves, real.leaves, numbers.leaves)  # noqa: B905
    ]
    return replace(plain, leaves=tuple(leaves))


def _pools(run: Run, command: List[str]) -> List[Pool]:
    code, text, errors = run(command)
    if code == NOT_FOUND:
        raise CannotRead(fail("zfs.not_installed", "zpool", "is not installed"))
    if code != 0:
        raise CannotRead(fail("zfs.no_module", "zpool", shorten(errors or text) or f"exit status {code}"))
    return _understood(text)


def _understood(text: str) -> List[Pool]:
    try:
        return read_pools(text)
    except ValueError as error:
        raise CannotRead(fail("zfs.unreadable", "zpool", str(error))) from None


def importable(run: Run) -> List[Pool]:
    """The pools that could be imported. That there is none is believed only where zpool says so: CannotRead otherwise.

    zpool says it among its errors, with status 0 (import_pools in zpool_main.c, OpenZFS 0.8 to 2.4).
    """
    command = ["zpool", "import", "-d", BY_ID]
    code, text, errors = run(command)
    said = [line.strip() for line in [*text.splitlines(), *errors.splitlines()] if line.strip()]
    if code != 0 and said != [NONE]:
        raise CannotRead(_failed(command, code, text, errors))
    pools = _understood(text)
    if not pools and NONE not in said:
        why = f"zpool import names no pool, and does not say that there is none: {shorten(errors or text, 200)}"
        raise CannotRead(fail("zfs.unreadable", "zpool", why.rstrip(": ")))
    return pools


def bring_about(wanted: Wanted, datasets: Datasets, facts: Mapping[str, Any], run: Run, check: bool) -> Outcome:
    """Make the pool as wanted. facts: as in the module host_facts, gathered just before. check: change nothing."""
    try:
        pools = imported(run)
        offered = [] if any(pool.name == wanted.name for pool in pools) else importable(run)
    except CannotRead as error:
        if not (check and error.finding.symptom == "zfs.not_installed"):
            return Outcome("refuse", findings=[error.finding])
        pools, offered = [], []  # what the run would have installed before
    pool_now, now = _settings(run, wanted.name) if _has(pools, wanted.name) else ({}, {})
    serials = properties.read_serials(now.get(wanted.name, {}).get(properties.SERIALS, ""))
    plan = make_plan(wanted, facts["disks"], facts["os_disks"], facts["os_unresolved"], pools, offered, serials)
    outcome = Outcome(plan.action, list(plan.commands), list(plan.findings), plan.groups, plan.spares)
    if plan.action == "refuse":
        return outcome
    if check:
        if plan.action == "import":  # what it holds is seen only then
            return outcome
        root = {} if plan.action == "create" else wanted.properties
        pool_wanted = {} if plan.action == "create" else wanted.pool_properties
        outcome.commands += properties.set_commands(
            wanted.name, pool_wanted, root, datasets, pool_now, {wanted.name: {}, **now}
        )
        return _judged(outcome, pools, wanted, serials)
    try:
        _do(run, plan.commands)
        if plan.commands:
            pools = imported(run)
        if not _has(pools, wanted.name):
            raise CannotRead(fail("zfs.command_failed", wanted.name, f"after {plan.action} there is no such pool"))
        return _judged(_set(outcome, wanted, datasets, facts, pools, run), imported(run), wanted, serials)
    except CannotRead as error:
        outcome.findings.append(error.finding)
        return outcome


def _set(
    outcome: Outcome, wanted: Wanted, datasets: Datasets, facts: Mapping[str, Any], pools: List[Pool], run: Run
) -> Outcome:
    pool_now, now = _settings(run, wanted.name)
    before = now.get(wanted.name, {}).get(properties.SERIALS, "")
    pool = next(one for one in pools if one.name == wanted.name)
    serials = serial_map(pool, facts["disks"], properties.read_serials(before))
    root = {**wanted.properties, properties.SERIALS: properties.write_serials(serials)}
    commands = properties.set_commands(wanted.name, wanted.pool_properties, root, datasets, pool_now, now)
    _do(run, commands)
    outcome.commands += commands
    return outcome


def _judged(outcome: Outcome, pools: List[Pool], wanted: Wanted, serials: Mapping[str, str]) -> Outcome:
    pool = next((one for one in pools if one.name == wanted.name), None)
    if pool is not None:
        found = judge_pool(pool, serials, wanted.drives)
        outcome.findings += [f for f in found if f.status != "ok" or not outcome.findings]
    return outcome


def _has(pools: Sequence[Pool], name: str) -> bool:
    return any(pool.name == name for pool in pools)


def _settings(run: Run, pool: str) -> Tuple[Dict[str, str], Dict[str, Dict[str, str]]]:
    """The pool's properties, and by dataset its properties."""
    texts = []
    for command in (
        ["zpool", "get", "-H", "-p", "-o", "name,property,value", "all", pool],
        ["zfs", "get", "-H", "-p", "-r", "-t", "filesystem", "-o", "name,property,value", "all", pool],
    ):
        code, text, errors = run(command)
        if code != 0:
            raise CannotRead(fail("zfs.unreadable", pool, f"{' '.join(command[:2])}: {shorten(errors, 200)}"))
        texts.append(properties.read_properties(text))
    return texts[0].get(pool, {}), texts[1]


def _do(run: Run, commands: Sequence[List[str]]) -> None:
    for command in commands:
        code, text, errors = run(command)
        if code != 0:
            raise CannotRead(_failed(command, code, text, errors))


def _failed(command: List[str], code: int, text: str, errors: str) -> Finding:
    said = shorten(errors or text, 300) or f"exit status {code}"
    return fail("zfs.command_failed", " ".join(command)[:110], said)


__all__ = ["CHECK", "Outcome", "Plan", "bring_about", "importable", "imported"]
