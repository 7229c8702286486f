"""The loop of install: one list of all machines a tick, the next step of each, and what to do about those that stall.

Whatever takes time is a call in a thread of the pool, one at a time for each machine; the loop itself waits for the
list alone, and its work is linear in the number of machines that are not over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from typing import Any

from ..findings import Finding, blocking
from . import reasons, steps
from .calls import ABORT, CHOOSE, LOOK, POWER, Calls, call_of
from .client import MaasError
from .disks import Disk, choose_os_disk
from .jobs import Job, Tally, Wave, deed_of, shown
from .machines import Machine, address_of, disks_of, label, parse_subnets, status_name, status_of, text_of
from .options import Commissioned, InstallResult, Progress, Wanted
from .steps import Step, next_step, owner_matters

CALLS_AT_ONCE = 16
TRIES = 3  # of one call that fails, or that changes nothing
END_SECONDS = 120.0  # for what is still put back at the end


class Engine:
    """One run; see ``install`` for the arguments."""

    def __init__(
        self,
        calls: Calls,
        wanted: Sequence[Wanted],
        on_progress: Callable[[Progress], None] | None = None,
        on_deed: Callable[[str, str], None] | None = None,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.calls, self.client, self.options = calls, calls.client, calls.options
        always = self.options.power == "redfish" and calls.power is not None
        self.jobs = [Job(w, self.options.retries, by_redfish=always) for w in wanted]
        self.live = list(self.jobs)
        self.wave = Wave(self.options.max_parallel, self.options.max_per_rack)
        self.networks = parse_subnets(self.options.subnets)
        self.on_progress = on_progress or (lambda progress: None)
        self.on_deed = on_deed or (lambda name, line: None)
        self.pause, self.clock = pause, clock
        self.us: str | None = None
        self.news: list[str] = []
        self.last_seen = clock()
        self.tally = Tally(self.jobs, self.last_seen)
        self.endings: list[Future[str]] = []
        self.pool = ThreadPoolExecutor(max_workers=CALLS_AT_ONCE, thread_name_prefix="maas")

    def run(self) -> dict[str, InstallResult]:
        asked_at = self.clock()
        seen: dict[str, Machine] | None = self._by_id(self.client.machines())  # else nothing is begun
        known = seen or {}
        try:
            while True:
                if seen is not None:
                    known = seen
                    self._tick(seen, asked_at)
                self._report(known)
                if not self.live:
                    self._wait_for_endings(known)
                    return self._results()
                self.pause(self.options.poll_seconds)
                asked_at = self.clock()
                seen = self._look_at_all()
        except KeyboardInterrupt:
            going = sum(job.ours for job in self.live)
            self.news.append(
                f"interrupted: {going} machines go on installing in MAAS; run install again to follow them"
            )
            self._report(known)
            raise
        finally:
            self.pool.shutdown(wait=False, cancel_futures=True)

    # -- one tick -------------------------------------------------------------------------------------------------

    def _look_at_all(self) -> dict[str, Machine] | None:
        """All machines by id; None while MAAS is away, which ends the run after outage_minutes."""
        try:
            machines = self._by_id(self.client.machines())
            self.last_seen = self.clock()
            return machines
        except MaasError as error:
            away = self.clock() - self.last_seen
            if away > self.options.outage_minutes * 60 or error.kind in ("auth_failed", "clock", "tls_failed"):
                said = f"{error}; away for {away / 60:.1f} minutes; what was installing goes on"
                for job in list(self.live):
                    where = f"MAAS machine {job.name}"
                    self._fail(job, Finding("install", "unknown", "maas.unreachable", where, said, "retry"))
                self._leave_out_the_ended()
            else:
                self.news.append(f"MAAS is away, asking again: {error}")
            return None

    def _tick(self, machines: dict[str, Machine], asked_at: float) -> None:
        # What is in progress takes its place in the wave before anything is begun; second tries wait for the others.
        def turn(job: Job) -> int:
            begun = status_of(machines.get(job.wanted.system_id, {})) in steps.PHASES
            return 2 if job.tried_again and not job.active else 0 if begun else 1

        for job in sorted(self.live, key=turn):
            if self._settled(job, asked_at) and not job.over:
                self._go_on(job, machines.get(job.wanted.system_id))
        self._leave_out_the_ended()

    def _go_on(self, job: Job, machine: Machine | None) -> None:
        if machine is None:
            said = f"MAAS has no machine {job.wanted.system_id}; was it deleted? run enlist"
            self._fail(job, Finding("install", "fail", "maas.missing", f"MAAS machine {job.name}", said, "retry"))
            return
        job.result.status = status_name(machine)
        step = self._next(job, machine)
        if job.again is not None and self._waits(job, machine, step, job.again):
            return
        if step.kind == steps.DONE:
            self._done(job, machine)
        elif step.kind == steps.WAIT:
            # It installs already, from a killed run: it counts, but never waits for its turn.
            self._activate(job)
            if step.phase:
                self._watch(job, machine, step)
        elif step.kind == steps.FAIL and step.finding:
            self._fail(job, step.finding)
        elif job.active or self.wave.has_room(job.wanted.rack):
            self._activate(job)
            if step.kind == steps.FAIL:
                self._failed_phase(job, machine, step)
            else:
                self._act(job, machine, step)

    def _waits(self, job: Job, machine: Machine, step: Step, again: Callable[[], None]) -> bool:
        """True while its second try is to come, and when it has just begun."""
        if step.kind != steps.WAIT or text_of(machine, "status_message") != job.last_said:
            job.again = None  # it went on by itself, or MAAS gave it up: judged from here
            return False
        if self.wave.has_room(job.wanted.rack):
            job.again = None
            self._activate(job)
            again()
        return True

    def _next(self, job: Job, machine: Machine) -> Step:
        if owner_matters(machine) and self.us is None:
            try:
                self.us = str(self.client.whoami().get("username") or "")
            except MaasError as error:
                return Step(steps.WAIT, str(error), phase=job.phase)
        # What failed before this run began is tried as if it were new; what fails in it is judged first.
        return next_step(machine, 0 if job.active else 1, self.us, job.commission_first)

    def _activate(self, job: Job) -> None:
        if not job.active:
            job.active, job.began = True, job.began if job.tried_again else self.clock()
            job.console_mark = self.calls.consoles.mark(job.name)
            self.wave.take(job.wanted.rack)

    # -- calls and what came of them ------------------------------------------------------------------------------

    def _submit(self, job: Job, kind: str, function: Callable[[], Any]) -> None:
        job.call_name = kind
        job.call = self.pool.submit(function)

    def _settled(self, job: Job, asked_at: float) -> bool:
        """True when no call of ours is on its way and this list was asked for after the last one that did something."""
        if job.call is None:
            return asked_at >= max(job.seen_after, job.not_before)
        if not job.call.done():
            return False
        call, job.call = job.call, None
        error = call.exception()
        if error is None and job.call_name in (CHOOSE, LOOK):
            if job.call_name == CHOOSE:
                job.chosen = self._chosen(job, *call.result())
            else:
                job.look, job.looked = call.result(), self.clock()
                self.news.extend(f"{job.name}: {note}" for note in job.look.notes)
            return True  # it changed nothing: what was seen still holds
        job.seen_after = self.clock()
        if isinstance(error, MaasError):
            self._call_failed(job, error)
        elif error is not None:
            raise error
        else:
            job.result.changed = True
            if job.call_name in (steps.COMMISSION, ABORT):
                job.commissioned = job.call_name == steps.COMMISSION
            if isinstance(call.result(), Finding):
                self._fail(job, call.result())
            elif job.call_name == POWER:
                job.enters(job.phase, self.clock())
        return False

    def _call_failed(self, job: Job, error: MaasError) -> None:
        """A call failed. Its effect is seen in the next list; it is made again from there, but not for ever."""
        if error.outcome_unknown:
            job.result.changed = True
        job.not_before = self.clock() + error.retry_after
        if error.no_use:
            job.tries[job.call_name] -= 1  # MAAS is away for everybody: _look_at_all has a word on that
            return
        # MAAS's word for a BMC that its rack controllers do not reach; 3.7 says 500 to deploy.
        no_power = job.call_name in (steps.COMMISSION, steps.DEPLOY) and (
            error.status in (503, 504) or (error.status == 500 and "BMC" in str(error))
        )
        for_good = error.status in (400, 403)  # a machine that is gone (404) is missing in the next list
        if no_power and job.tries[job.call_name] > 1 and self._can_go_past(job):
            self._go_past(job, str(error))
            return
        if not for_good and job.tries[job.call_name] < TRIES:
            self.news.append(f"{job.name}: {error}; trying again")
            return
        symptom, action = ("install.power_failed", "reset_bmc") if no_power else ("install.failed", "escalate")
        said = f"{error}{f' (BMC {job.wanted.bmc})' if no_power and job.wanted.bmc else ''}"
        self._fail(job, Finding("install", "fail", symptom, f"MAAS machine {job.name}", said, action))

    def _act(self, job: Job, machine: Machine, step: Step) -> None:
        kind = CHOOSE if step.kind == steps.DEPLOY and job.chosen is None else step.kind
        disk: Disk | None = None
        if kind == steps.DEPLOY:
            chosen, job.chosen = job.chosen, None
            if isinstance(chosen, Finding):
                self._fail(job, chosen)
                return
            disk = chosen
        job.tries[kind] += 1
        if job.tries[kind] > TRIES + self.options.retries:
            said = f"{kind} was asked for {job.tries[kind] - 1} times, and it is {status_name(machine)} again"
            where = f"MAAS machine {label(machine)}"
            self._fail(job, Finding("install", "fail", "install.failed", where, said, "escalate"))
            return
        job.phase, job.look = "", None
        if kind != CHOOSE:
            self.news.append(f"{job.name}: {kind} ({step.because})")
            deed = deed_of(job.wanted, step, disk, self.options)
            if deed:
                job.result.deeds.append(deed)
                self.on_deed(job.name, deed)
            job.console_mark = self.calls.consoles.mark(job.name)
            job.put_back = job.put_back or job.by_redfish
        self._submit(job, kind, call_of(self.calls, kind, job.wanted, machine, disk, step.because, job.by_redfish))

    def _chosen(self, job: Job, found: Disk | Finding, known: Commissioned | None) -> Disk | Finding:
        """Keep what is known of the disks; a finding of commissioning that says no comes before the disk."""
        if known is not None:
            job.result.disks_before = dict(known.fingerprints)
            said_no = blocking(known.findings)
            new = [f for f in known.findings if f not in job.result.findings and f not in said_no[:1]]
            job.result.findings.extend(new)
            if said_no:
                return said_no[0]
        if not isinstance(found, Finding):
            job.result.os_disk = shown(found)
        return found

    # -- machines that do not come --------------------------------------------------------------------------------

    def _watch(self, job: Job, machine: Machine, step: Step) -> None:
        now = self.clock()
        if step.phase != job.phase:
            job.enters(step.phase, now)
            self.news.append(f"{job.name}: {step.because}")
            # A run that was killed has left it so.
            job.put_back = job.put_back or text_of(machine, "power_type") == "manual"
        job.notice(machine, now)
        minutes = self.options.minutes(step.phase)
        late = now - job.phase_began > minutes * 60
        if job.look is None:
            patience = self._patience(job, machine) * 60
            if late or (step.phase != "release" and now - max(job.moved, job.looked) > patience):
                self._submit(job, LOOK, self._looker(job, failed=False))
            return
        look, job.look = job.look, None
        before, job.reached = job.reached, reasons.reached(step.phase, look)
        if late:
            self._consider(job, machine, step, reasons.judge(step.phase, machine, look, minutes), failed=False)
            return
        idle = round((now - job.moved) / 60, 1)
        finding = reasons.judge_stalled(step.phase, machine, look, idle, before)
        if finding is not None:
            self._consider(job, machine, step, finding, failed=False)

    def _failed_phase(self, job: Job, machine: Machine, step: Step) -> None:
        """MAAS gave up on it: look why, then think."""
        job.phase = step.phase
        if job.look is None:
            self._submit(job, LOOK, self._looker(job, failed=True))
            return
        look, job.look = job.look, None
        self._consider(job, machine, step, reasons.judge(step.phase, machine, look), failed=True)

    def _consider(self, job: Job, machine: Machine, step: Step, finding: Finding, failed: bool) -> None:
        """One automatic try more where that helps, else the end. failed: MAAS has given up itself."""
        again = next_step(machine, 1, self.us) if failed else step
        if finding.symptom == "install.power_failed" and self._can_go_past(job) and again.kind != steps.FAIL:
            self._go_past(job, finding.evidence)
            self._try_again(job, machine, again, failed, power=True)
            return
        how = reasons.again(finding)
        useless = again.kind == steps.FAIL or (not failed and step.phase == "release")
        if how == reasons.NO or job.retries_left < 1 or useless:
            if job.tried_again:
                also = "again" if job.tried_again == finding.symptom else f"{job.tried_again} before"
                finding = replace(finding, evidence=f"tried twice ({also}): {finding.evidence}")
            self._fail(job, finding)
            return
        job.retries_left -= 1
        job.tried_again = finding.symptom
        self.news.append(f"{job.name}: {finding.symptom}: {finding.evidence}; trying once more")
        self._try_again(job, machine, again, failed, power=how == reasons.POWER_CYCLE)

    def _try_again(self, job: Job, machine: Machine, step: Step, failed: bool, power: bool) -> None:
        """At once where only the way to switch its power was wrong; else behind those that have had no try yet."""
        if not job.tried_again:
            self._begin_again(job, machine, step, failed, power)
            return
        job.active, job.last_said = False, text_of(machine, "status_message")
        self.wave.give(job.wanted.rack)
        if not failed:
            job.again = partial(self._begin_again, job, machine, step, failed, power)

    def _begin_again(self, job: Job, machine: Machine, step: Step, failed: bool, power: bool) -> None:
        if failed:
            self._act(job, machine, step)
            return
        # MAAS still waits for it: a boot from the network is all that it needs. Else everything is done again.
        kind = POWER if power and self.calls.power else ABORT
        if kind == POWER:
            self.news.append(f"{job.name}: one-time network boot set and restarted over Redfish")
        job.console_mark = self.calls.consoles.mark(job.name)
        because = job.tried_again or "power"
        self._submit(job, kind, call_of(self.calls, kind, job.wanted, machine, None, because, job.by_redfish))

    def _can_go_past(self, job: Job) -> bool:
        return self.calls.power is not None and self.options.power == "auto" and not job.by_redfish

    def _go_past(self, job: Job, why: str) -> None:
        """From now on we switch its power; what was tried before does not count."""
        job.by_redfish = True
        job.tries.clear()
        self.news.append(f"{job.name}: MAAS cannot switch its power, Redfish does: {why}")
        said = f"MAAS's power driver failed, Redfish was used instead: {why}"
        where = f"BMC of {job.name}"
        job.result.findings.append(Finding("install", "warn", "install.power_by_redfish", where, said, "reset_bmc"))

    def _patience(self, job: Job, machine: Machine) -> float:
        """Minutes that it may show nothing new."""
        booted = reasons.boots(machine) or (job.reached or reasons.NOTHING) > reasons.NOTHING
        return self.options.stall_minutes if booted else self.options.pxe_minutes

    def _looker(self, job: Job, failed: bool) -> Callable[[], Any]:
        wanted, phase, mark = job.wanted, job.phase, job.console_mark
        return lambda: self.calls.look(wanted, phase, failed, mark)

    # -- ends -----------------------------------------------------------------------------------------------------

    def _done(self, job: Job, machine: Machine) -> None:
        if job.active and not job.result.os_disk and job.chosen is None and not self.options.check:
            # A run that was killed has begun it: what it chose and saw is found out again.
            self._submit(job, CHOOSE, call_of(self.calls, CHOOSE, job.wanted, machine, None, "", False))
            return
        if not job.result.os_disk and (disks := disks_of(machine)):
            found = choose_os_disk(disks, job.wanted.os_disk, job.name)
            job.result.os_disk = {} if isinstance(found, Finding) else shown(found)
        job.result.address = address_of(machine, self.networks)
        if job.ours:
            self.news.append(f"{job.name}: deployed, address {job.result.address or 'unknown'}")
        if job.result.address is None:
            where = f" in {', '.join(self.options.subnets)}" if self.options.subnets else ""
            said = f"{label(machine)} is deployed, but MAAS knows no address of it{where}"
            job.result.findings.append(
                Finding("install", "fail", "install.no_address", f"MAAS machine {label(machine)}", said, "escalate")
            )
        self._over(job)

    def _fail(self, job: Job, finding: Finding) -> None:
        job.result.findings.append(finding)
        self.news.append(f"{job.name}: {finding.symptom}: {finding.evidence}")
        self._over(job)

    def _over(self, job: Job) -> None:
        job.over = True
        now = self.clock()
        job.result.seconds = round(now - job.began, 1) if job.ours else 0.0
        self.tally.ended(now)
        if job.active:
            self.wave.give(job.wanted.rack)
        if job.put_back:
            self.endings.append(self.pool.submit(self.calls.put_power_back, job.wanted))

    def _wait_for_endings(self, known: dict[str, Machine]) -> None:
        if self.endings:
            wait(self.endings, timeout=END_SECONDS)
            self.news.extend(f.result() for f in self.endings if f.done() and not f.exception() and f.result())
            self._report(known)

    def _leave_out_the_ended(self) -> None:
        self.live = [job for job in self.live if not job.over]

    def _report(self, machines: dict[str, Machine]) -> None:
        news, self.news = self.news, []
        slow = min(self.options.pxe_minutes, self.options.stall_minutes) * 60 / 2
        self.on_progress(self.tally.progress(machines, news, self.clock(), slow))

    def _results(self) -> dict[str, InstallResult]:
        return {job.name: job.result for job in self.jobs}

    @staticmethod
    def _by_id(machines: list[Machine]) -> dict[str, Machine]:
        return {machine["system_id"]: machine for machine in machines}
