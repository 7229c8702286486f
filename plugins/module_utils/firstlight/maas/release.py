"""Release: give machines back to MAAS, so that they are Ready and switched off again.

Like install it takes every machine as it finds it, watches all of them with one list a tick, and leaves what goes on
alone when it is interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from ..errors import InputError
from ..findings import Finding
from .client import MaasClient, MaasError
from .machines import Machine, label, status_name
from .release_steps import (
    ABORT,
    DONE,
    ERASES,
    FAIL,
    RELEASE,
    WAIT,
    Releasing,
    Step,
    find,
    judge,
    next_step,
)

__all__ = ["ReleaseOptions", "ReleaseResult", "Releasing", "release", "release_options"]

CALLS_AT_ONCE = 16
TRIES = 2  # of a release that fails, and of a call
# Minutes until a machine must be Ready: a graceful end of power control; a network boot of a big server; whole drives.
MINUTES = {"none": 15.0, "quick": 45.0, "secure": 180.0}


@dataclass(frozen=True)
class ReleaseOptions:
    """erase: none | quick | secure. minutes: 0 for what is usual for that. max_parallel: machines at once."""

    erase: str = "none"
    minutes: float = 0.0
    max_parallel: int = 64
    poll_seconds: float = 5.0
    outage_minutes: float = 5.0
    check: bool = False

    def limit(self) -> float:
        return self.minutes or MINUTES[self.erase]


@dataclass
class ReleaseResult:
    """before, after: MAAS's status. deeds: one line for each step that ends what runs. ready: it is given back."""

    changed: bool = False
    before: str = "not there"
    after: str = "not there"
    findings: list[Finding] = field(default_factory=list)
    deeds: list[str] = field(default_factory=list)
    ready: bool = False
    seconds: float = 0.0


def release_options(value: Callable[[str], Any], *, erase: str | None = None, check: bool = False) -> ReleaseOptions:
    """The options from a site's settings; InputError names the setting that is wrong. value: gives one by name."""
    chosen = erase or value("release_erase") or "none"
    if chosen not in ERASES:
        raise InputError(f"release_erase is {chosen!r}; it must be one of {', '.join(ERASES)}")
    numbers: dict[str, tuple[float, float]] = {
        "minutes": (0.0, 0.01),
        "max_parallel": (64, 1),
        "poll_seconds": (5.0, 0.1),
        "outage_minutes": (5.0, 0),
    }
    found: dict[str, float] = {}
    for name, (default, least) in numbers.items():
        given = value(f"release_{name}")
        try:
            found[name] = default if given is None else float("nan") if isinstance(given, bool) else float(given)
        except (TypeError, ValueError):
            found[name] = float("nan")
        if given is not None and not least <= found[name] < 1e6:
            raise InputError(f"release_{name} is {given!r}; it must be a number of {least:g} or more")
    return ReleaseOptions(
        chosen,
        found["minutes"],
        int(found["max_parallel"]),
        found["poll_seconds"],
        found["outage_minutes"],
        check,
    )


def release(
    client: MaasClient,
    hosts: Sequence[Releasing],
    options: ReleaseOptions,
    machines: Sequence[Machine] | None = None,
    on_progress: Callable[[str], None] | None = None,
    on_deed: Callable[[str, str], None] | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> dict[str, ReleaseResult]:
    """Give each host's machine back; one result per name, and a failing host stops no other.

    machines: MAAS's list, where the caller has it. on_progress: gets one line at a time. on_deed: is told (name, line)
    right before what runs on a host is ended. Raises MaasError when MAAS cannot be used from the start,
    KeyboardInterrupt through.
    """
    return _Run(client, hosts, options, on_progress, on_deed, pause).run(machines)


@dataclass
class _Job:
    """One host on its way. asked: what was asked for last. released: MAAS took our release."""

    host: Releasing
    system_id: str = ""
    result: ReleaseResult = field(default_factory=ReleaseResult)
    over: bool = False
    released: bool = False
    began: float | None = None
    call: Future[Any] | None = None
    asked: str = ""
    tries: dict[str, int] = field(default_factory=dict)
    seen_after: float = 0.0  # a list asked for before this does not show what our last call did


class _Run:
    def __init__(
        self,
        client: MaasClient,
        hosts: Sequence[Releasing],
        options: ReleaseOptions,
        on_progress: Callable[[str], None] | None,
        on_deed: Callable[[str, str], None] | None,
        pause: Callable[[float], None],
    ) -> None:
        self.client, self.options, self.pause = client, options, pause
        self.jobs = [_Job(host) for host in hosts]
        self.tell = on_progress or (lambda line: None)
        self.on_deed = on_deed or (lambda name, line: None)
        self.us = ""
        self.counts = ""
        self.started = self.last_seen = time.monotonic()
        self.pool = ThreadPoolExecutor(max_workers=CALLS_AT_ONCE, thread_name_prefix="maas")

    def run(self, machines: Sequence[Machine] | None) -> dict[str, ReleaseResult]:
        known = self.client.machines() if machines is None else machines
        self.us = str(self.client.whoami().get("username", ""))
        for job in self.jobs:
            self._find(job, known)
        if not self.options.check:
            self._follow({machine["system_id"]: machine for machine in known})
        return {job.host.name: job.result for job in self.jobs}

    def _find(self, job: _Job, machines: Sequence[Machine]) -> None:
        found = find(job.host, machines)
        if found is None:
            job.result.ready = job.over = True  # MAAS does not have it: nothing to give back
            return
        if isinstance(found, Finding):
            self._fail(job, found)
            return
        job.system_id = found["system_id"]
        job.result.before = job.result.after = status_name(found)
        step = next_step(found, self.us)
        if step.kind == FAIL and step.finding:
            self._fail(job, step.finding)
        elif step.kind == DONE:
            self._done(job, found)
        elif self.options.check:
            job.over = job.result.changed = True
            if step.kind != WAIT:
                job.result.deeds.append(f"would {self._deed(job, step, found)}")
            job.result.after = "ready"

    def _follow(self, machines: Mapping[str, Machine]) -> None:
        try:
            asked_at: float = self.started
            seen: Mapping[str, Machine] | None = machines
            while True:
                if seen is not None:
                    self._tick(seen, asked_at)
                self._report()
                if all(job.over for job in self.jobs):
                    return
                self.pause(self.options.poll_seconds)
                asked_at = time.monotonic()
                seen = self._look()
        except KeyboardInterrupt:
            going = sum(job.began is not None and not job.over for job in self.jobs)
            self.tell(f"interrupted: {going} machines go on being released in MAAS; run release again to follow them")
            raise
        finally:
            self.pool.shutdown(wait=False, cancel_futures=True)

    def _look(self) -> Mapping[str, Machine] | None:
        """All machines by id; None while MAAS is away, which ends the run after outage_minutes."""
        try:
            machines = {machine["system_id"]: machine for machine in self.client.machines()}
            self.last_seen = time.monotonic()
            return machines
        except MaasError as error:
            away = time.monotonic() - self.last_seen
            if away > self.options.outage_minutes * 60 or error.kind in ("auth_failed", "clock", "tls_failed"):
                said = f"{error}; away for {away / 60:.1f} minutes; what was being released goes on"
                for job in self.jobs:
                    if not job.over:
                        where = f"MAAS machine {job.host.name}"
                        self._fail(job, Finding("release", "unknown", "maas.unreachable", where, said, "retry"))
            else:
                self.tell(f"release: MAAS is away, asking again: {error}")
            return None

    def _tick(self, machines: Mapping[str, Machine], asked_at: float) -> None:
        for job in self.jobs:
            if job.over or not self._settled(job, asked_at):
                continue
            machine = machines.get(job.system_id)
            if machine is None:
                said = f"MAAS has no machine {job.system_id} any more; somebody deleted it"
                where = f"MAAS machine {job.host.name}"
                self._fail(job, Finding("release", "fail", "maas.missing", where, said, "retry"))
                continue
            job.result.after = status_name(machine)
            step = next_step(machine, self.us, began=job.began is not None, released=job.released)
            if step.kind == ABORT and job.asked == ABORT:
                step = Step(WAIT, step.because)  # it takes effect once the power is seen off
            late = job.began is not None and time.monotonic() - job.began > self.options.limit() * 60
            if step.kind == DONE:
                self._done(job, machine)
            elif step.kind == FAIL and step.finding:
                self._fail(job, step.finding)
            elif late:
                said = f"still {status_name(machine)} after {self.options.limit():g} minutes"
                self._fail(job, judge(machine, self._events(job), said, "release.timed_out"))
            elif step.kind == WAIT:
                job.began = job.began or time.monotonic()
            elif job.began is not None or self._has_room():
                self._act(job, machine, step)

    def _has_room(self) -> bool:
        return sum(job.began is not None and not job.over for job in self.jobs) < self.options.max_parallel

    def _settled(self, job: _Job, asked_at: float) -> bool:
        """True when no call of ours is on its way and this list was asked for after the last one."""
        if job.call is None:
            return asked_at >= job.seen_after
        if not job.call.done():
            return False
        call, job.call = job.call, None
        job.seen_after = time.monotonic()
        error = call.exception()
        if error is None:
            job.result.changed = True
            job.released |= job.asked == RELEASE
        elif not isinstance(error, MaasError):
            raise error
        else:
            kind, job.asked = job.asked, ""
            job.result.changed = job.result.changed or error.outcome_unknown
            if error.no_use:
                job.tries[kind] -= 1  # MAAS is away for everybody: _look has a word on that
            elif error.status in (400, 403, 404) or job.tries[kind] >= TRIES:
                where = f"MAAS machine {job.host.name}"
                self._fail(job, Finding("release", "fail", "maas.refused", where, str(error), "escalate"))
            else:
                self.tell(f"{job.host.name}: {error}; trying again")
        return False

    def _act(self, job: _Job, machine: Machine, step: Step) -> None:
        job.tries[step.kind] = job.tries.get(step.kind, 0) + 1
        if job.tries[step.kind] > TRIES:
            said = f"{step.kind} was asked for {TRIES} times, and it is {status_name(machine)} again"
            self._fail(job, judge(machine, self._events(job), said, "release.failed"))
            return
        deed = self._deed(job, step, machine)
        job.result.deeds.append(deed)
        self.on_deed(job.host.name, deed)
        job.began = job.began or time.monotonic()
        job.asked = step.kind
        job.call = self.pool.submit(self._call, job.system_id, step)

    def _call(self, system_id: str, step: Step) -> None:
        """Runs in a thread of the pool."""
        said = f"firstlight: release, it was {step.because}"
        if step.kind == ABORT:
            self.client.abort(system_id, said)
        elif step.kind == RELEASE:
            erase = self.options.erase
            self.client.release(system_id, said, quick_erase=erase == "quick", secure_erase=erase == "secure")

    def _deed(self, job: _Job, step: Step, machine: Machine) -> str:
        erase = {"quick": ", erasing the ends of its disks", "secure": ", erasing its disks"}.get(
            self.options.erase, ""
        )
        how = erase if step.kind == RELEASE else ""
        return f"{step.kind} {job.host.name} ({machine['system_id']}), which is {step.because}{how}"

    def _events(self, job: _Job) -> list[dict[str, Any]]:
        try:
            return self.client.events(job.system_id)
        except MaasError:
            return []

    def _done(self, job: _Job, machine: Machine) -> None:
        job.result.after = status_name(machine)
        job.result.ready = job.over = True
        job.result.seconds = round(time.monotonic() - job.began, 1) if job.began else 0.0
        if job.began:
            self.tell(f"{job.host.name}: {label(machine)} is {status_name(machine)}")

    def _fail(self, job: _Job, finding: Finding) -> None:
        job.result.findings.append(finding)
        job.over = True
        self.tell(f"{job.host.name}: {finding.symptom}: {finding.evidence}")

    def _report(self) -> None:
        counts: dict[str, int] = {}
        for job in self.jobs:
            what = job.result.after if not job.over else "failed" if job.result.findings else "done"
            counts[what] = counts.get(what, 0) + 1
        said = ", ".join(f"{count} {what}" for what, count in counts.items())
        if said != self.counts:
            self.counts = said
            self.tell(f"release: {time.monotonic() - self.started:.0f} s: {said}")
