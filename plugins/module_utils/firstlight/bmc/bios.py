"""BIOS attributes: what would change, and changing it through the BMC's jobs.

A change waits in the settings object until the server boots; on Dell a job carries it out, and while one waits nothing
more can be set. Jobs and values of somebody else are told, never deleted and never committed with ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..findings import Finding, shorten
from .client import BmcClient, Resource
from .control import PAUSE, Change, Say, again, silent, system_of, until_true
from .errors import HalfAnswering, Refused
from .jobs import DONE, FAILED, RUNNING, SCHEDULED, Job, job_for, unfinished_jobs, wait_for_job
from .power import power
from .values import dig, link

WHEN = ("next_boot", "now")
PENDING = ("report", "wait")
# "already committed", "a job operation is already running", "pending attribute changes or a job in progress"
_TAKEN = {"SYS011", "RAC0679", "LC068"}
SCHEDULE_SECONDS = 120.0
AWAY_SECONDS = 300.0
READ_BACK_SECONDS = 30.0


@dataclass(frozen=True)
class Bios:
    """What the BMC tells of the BIOS: values now, values that wait, and where to send new ones."""

    path: str
    now: dict[str, Any]
    waiting: dict[str, Any]
    settings: str
    apply_times: tuple[str, ...] = ()
    dell_jobs: str = ""  # where a job for the settings is made, on Dell


@dataclass(frozen=True)
class Plan:
    """changes: name -> (value now, value wanted). sent: those of them that wait for a boot already.

    others: values of somebody else that wait. wrong: name -> what is wrong with what is wanted; nothing is sent then.
    """

    changes: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    sent: frozenset[str] = frozenset()
    others: dict[str, Any] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)

    @property
    def before(self) -> dict[str, Any]:
        return {name: now for name, (now, _wanted) in sorted(self.changes.items())}

    @property
    def after(self) -> dict[str, Any]:
        return {name: wanted for name, (_now, wanted) in sorted(self.changes.items())}


def plan(wanted: Mapping[str, Any], bios: Bios) -> Plan:
    """Compare what is wanted with what is. Pure. A number and its digits in quotes are the same."""
    changes, wrong = {}, {}
    for name, value in wanted.items():
        if name not in bios.now:
            wrong[name] = "this BIOS has no such attribute"
        elif isinstance(value, bool) and isinstance(bios.now[name], str):
            wrong[name] = f"{str(value).lower()} is no value of it, it is {bios.now[name]!r}; quote words as On and Off"
        elif not isinstance(value, str | int | float):
            wrong[name] = f"a value is text or a number, not {value!r}"
        elif not _same(bios.now[name], value):
            changes[name] = (bios.now[name], _as(bios.now[name], value))
    sent = frozenset(n for n, (_now, value) in changes.items() if n in bios.waiting and _same(bios.waiting[n], value))
    others = {
        name: value
        for name, value in bios.waiting.items()
        if name not in changes and name in bios.now and not _same(bios.now[name], value)
    }
    replaced = [n for n in changes if n in bios.waiting and n not in sent and not _same(bios.waiting[n], bios.now[n])]
    return Plan(changes, sent, others | {n: bios.waiting[n] for n in replaced}, wrong)


def read_bios(client: BmcClient) -> Bios:
    """The BIOS attributes of the server. Refused when its BMC has none."""
    path = link(system_of(client)[1], "Bios")
    if not path:
        raise Refused("the BMC tells of no BIOS attributes")
    body = client.get(path)
    now = dig(body, "Attributes")
    if not isinstance(now, dict) or not now:
        raise HalfAnswering(f"GET {path}: Attributes is not a mapping with something in it")
    settings = link(body, "@Redfish.Settings", "SettingsObject")
    pending: Resource = client.get(settings) if settings else {}
    waiting = dig(pending, "Attributes")
    times = dig(body, "@Redfish.Settings", "SupportedApplyTimes")
    return Bios(
        path=path,
        now=_plain(now),
        waiting=_plain(waiting) if isinstance(waiting, dict) else {},
        settings=settings,
        apply_times=tuple(t for t in times if isinstance(t, str)) if isinstance(times, list) else (),
        dell_jobs=link(pending, "Oem", "Dell", "Jobs"),
    )


def set_bios(
    client: BmcClient,
    wanted: Mapping[str, Any],
    *,
    when: str = "next_boot",
    pending: str = "report",
    wait: float = 1800.0,
    check: bool = False,
    note: Say = silent,
    say: Say = silent,
    pause: float = PAUSE,
) -> Change:
    """Make these BIOS attributes so. before, after: the values that differ.

    when: ``next_boot`` schedules them; ``now`` also restarts the server (switches it on) and sees them done.
    pending: what to do about a BIOS job that is there already: ``report`` it, or ``wait`` for its end. wait: seconds
    for one job. note: called right before something is sent. say: progress. Raises BmcError.
    """
    bios = read_bios(client)
    todo = plan(wanted, bios)
    before, after = todo.before, todo.after
    if todo.wrong:
        found = [_fail("wrong_attribute", name, reason, "escalate") for name, reason in todo.wrong.items()]
        return Change(False, before, before, tuple(found))
    if not todo.changes:
        return Change(False, before, before, _undone_soon(wanted, bios))
    job = next((j for j in unfinished_jobs(client) if j.about("bios")), None)
    if job and todo.sent != set(todo.changes):
        if pending != "wait" or check:
            finding = _fail("job_pending", job.id, f"{job}; nothing more can be set until it has ended", "wait")
            return Change(False, before, before, (finding,))
        say(f"waits for {job}")
        ended = wait_for_job(client, job.path, wait, say=say, pause=pause)
        if not ended.ended:
            finding = _fail("job_pending", job.id, f"{ended} after {wait:g} s; nothing was sent", "wait")
            return Change(False, before, before, (finding,))
        options: dict[str, Any] = {"when": when, "wait": wait, "note": note, "say": say, "pause": pause}
        return set_bios(client, wanted, pending="report", **options)
    if todo.others:
        values = ", ".join(f"{name}={value}" for name, value in sorted(todo.others.items()))
        evidence = f"values that somebody else set wait already, and would be committed with ours: {values}"
        return Change(False, before, before, (_fail("others_pending", "BIOS", evidence, "escalate"),))
    if job and when != "now":
        return Change(False, before, before, (_waits(job),))
    if check:
        return Change(True, before, after)
    sent = not job
    path = job.path if job else ""
    if sent:
        note("BIOS: " + ", ".join(f"{name} {was} -> {value}" for name, (was, value) in sorted(todo.changes.items())))
        try:
            path = _send(client, bios, after)
        except Refused as error:
            if not _TAKEN.intersection(error.codes):
                raise
            there = error.evidence + ("; our values wait without a job" if _stands(client, after) else "")
            return Change(False, before, before, (_fail("job_pending", "BIOS", there, "wait"),))
        if not path and not _stands(client, after):
            raise HalfAnswering(f"PATCH {bios.settings}: accepted, but the values do not wait there")
    if when != "now":
        return Change(True, before, after, (_waits(again(client, lambda: _job(client, path), AWAY_SECONDS, pause)),))
    return Change(True, before, after, _run_now(client, path, after, wait, note, say, pause))


def _run_now(
    client: BmcClient, path: str, after: dict[str, Any], wait: float, note: Say, say: Say, pause: float
) -> tuple[Finding, ...]:
    """Restart the server, and see the values done; findings say what became of them."""
    if path:  # a job that the boot does not know yet would be missed by it
        job = wait_for_job(client, path, SCHEDULE_SECONDS, say=say, pause=pause, until=(SCHEDULED, RUNNING))
        if not job.ended and job.state not in (SCHEDULED, RUNNING):
            return (_fail("job_unfinished", job.id, f"{job}; not ready for a boot, so none was made", "reset_bmc"),)
    power(client, "restart", note=note)
    if path:
        job = wait_for_job(client, path, wait, say=say, pause=pause)
        if job.state == FAILED:
            return (_fail("job_failed", job.id, str(job), "escalate"),)
        if job.state != DONE:
            return (_fail("job_unfinished", job.id, f"{job} after {wait:g} s", "power_cycle"),)

    def done() -> bool:
        return not again(client, lambda: plan(after, read_bios(client)), AWAY_SECONDS, pause).changes

    if until_true(done, READ_BACK_SECONDS if path else wait, pause):
        return (Finding("bios", "ok", "bios", "BIOS", f"{len(after)} attributes read back as set"),)
    still = plan(after, read_bios(client)).before
    values = ", ".join(f"{name} is {value}" for name, value in still.items())
    return (_fail("not_applied", "BIOS", f"the restart is over, and {values}", "escalate"),)


def _send(client: BmcClient, bios: Bios, values: dict[str, Any]) -> str:
    """Send the values; the path of the job that carries them out, "" where the BMC makes none."""
    if not bios.settings:
        raise Refused(f"GET {bios.path}: names no settings object; its BIOS cannot be set")
    body: Resource = {"Attributes": values}
    if "OnReset" in bios.apply_times:
        body["@Redfish.SettingsApplyTime"] = {"ApplyTime": "OnReset"}
    try:
        client.patch(bios.settings, body)
    except Refused as error:
        if len(body) == 1 or "SettingsApplyTime" not in error.evidence:
            raise
        client.patch(bios.settings, {"Attributes": values})  # it offers an apply time and does not take it
    if client.location:
        return job_for(client, client.location)
    if not bios.dell_jobs:
        return ""
    client.post(bios.dell_jobs, {"TargetSettingsURI": bios.settings})
    return job_for(client, client.location) if client.location else ""


def _stands(client: BmcClient, values: dict[str, Any]) -> bool:
    bios = read_bios(client)
    return all(n in bios.waiting and _same(bios.waiting[n], v) for n, v in values.items())


def _job(client: BmcClient, path: str) -> Job | None:
    return wait_for_job(client, path, 0) if path else None


def _waits(job: Job | None) -> Finding:
    evidence = f"{job}; " if job else ""
    return Finding("bios", "warn", "bios.waits_for_boot", "BIOS", f"{evidence}set at the server's next boot")


def _undone_soon(wanted: Mapping[str, Any], bios: Bios) -> tuple[Finding, ...]:
    """All is as wanted; a warning when what waits would change that."""
    undone = {n: bios.waiting[n] for n, v in wanted.items() if n in bios.waiting and not _same(bios.waiting[n], v)}
    if not undone:
        return (Finding("bios", "ok", "bios", "BIOS", f"{len(wanted)} attributes are as wanted"),)
    values = ", ".join(f"{name}={value}" for name, value in sorted(undone.items()))
    evidence = f"as wanted now, but somebody set for the next boot: {values}"
    return (Finding("bios", "warn", "bios.others_pending", "BIOS", evidence),)


def _fail(symptom: str, locator: str, evidence: str, action: str) -> Finding:
    return Finding("bios", "fail", f"bios.{symptom}", locator, evidence, action)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return one == other or str(one) == str(other)


_WHOLE = re.compile(r"-?[0-9]{1,18}")


def _as(now: Any, value: Any) -> Any:
    """The wanted value in the type that the BIOS has it in."""
    if isinstance(now, int) and not isinstance(now, bool) and isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    return str(value) if isinstance(now, str) and not isinstance(value, str) else value


def _plain(attributes: dict[Any, Any]) -> dict[str, Any]:
    """Attributes with short printable names and values; what is neither text nor a number nor null is left out."""
    kept: dict[str, Any] = {}
    for name, value in list(attributes.items())[:5000]:
        if isinstance(value, str):
            kept[shorten(name, 200)] = shorten(value, 200)
        elif value is None or isinstance(value, bool | int | float):
            kept[shorten(name, 200)] = value
    return kept
