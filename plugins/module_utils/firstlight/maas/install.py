"""Install: commission and deploy many machines in waves, watched with one list call per tick.

It takes every machine as it finds it: what a killed run has started is waited for, not started again. Nothing is
undone on the way out: machines that are installing go on when the run is interrupted.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from ..findings import Finding, blocking
from . import steps
from .client import MaasClient, MaasError
from .disks import Disk, choose_os_disk, describe
from .machines import Machine, address_of, disks_of, label, parse_subnets, status_name, status_of
from .options import Commissioned, InstallOptions, InstallResult, Power, Progress, Wanted
from .steps import Step, judge, next_step, owner_matters

__all__ = ["Commissioned", "InstallOptions", "InstallResult", "Power", "Progress", "Wanted", "install"]

CHOOSE = "choose a disk"

CALLS_AT_ONCE = 16
TRIES = 3  # of one call that fails, or that changes nothing


def install(
    client: MaasClient,
    wanted: Sequence[Wanted],
    options: InstallOptions,
    on_progress: Callable[[Progress], None] | None = None,
    on_deed: Callable[[str, str], None] | None = None,
    pause: Callable[[float], None] = time.sleep,
    *,
    user_data: Callable[[str], str] | None = None,
    before_commission: Callable[[MaasClient], None] | None = None,
    commissioned: Callable[[MaasClient, Wanted, Machine], Commissioned | None] | None = None,
    power: Power | None = None,
) -> dict[str, InstallResult]:
    """Bring every host to Deployed; one result per name, and a failing host stops no other.

    Raises MaasError when MAAS cannot be used from the start, KeyboardInterrupt through. on_deed: is told (name, line)
    of a destructive step before it is done; on_progress and on_deed are called in this thread, all that follows in
    threads of a pool, for several hosts at once:
    user_data: name -> text of the host's cloud-config, right before deploy is asked for (else options.user_data).
    before_commission: once, before the first commission of the run; again when it raised MaasError.
    commissioned: before the OS disk of a Ready machine is chosen; None when nothing is known.
    power: what switches machines on where MAAS does not.
    """
    run = _Run(client, wanted, options, on_progress, on_deed, pause)
    run.user_data = user_data or (lambda name: options.user_data)
    run.before_commission, run.commissioned, run.power = before_commission, commissioned, power
    return run.run()


@dataclass
class _Job:
    """One host on its way."""

    wanted: Wanted
    retries_left: int
    result: InstallResult = field(default_factory=InstallResult)
    active: bool = False
    over: bool = False
    began: float = 0.0
    phase: str = ""
    phase_began: float = 0.0
    call: Future[Any] | None = None
    call_name: str = ""
    seen_after: float = 0.0  # a list asked for before this does not show what our last call did
    tries: dict[str, int] = field(default_factory=dict)
    chosen: Disk | Finding | None = None  # what CHOOSE came to


class _Run:
    def __init__(
        self,
        client: MaasClient,
        wanted: Sequence[Wanted],
        options: InstallOptions,
        on_progress: Callable[[Progress], None] | None,
        on_deed: Callable[[str, str], None] | None,
        pause: Callable[[float], None],
    ) -> None:
        self.client = client
        self.options = options
        self.jobs = [_Job(w, options.retries) for w in wanted]
        self.networks = parse_subnets(options.subnets)
        self.user_data: Callable[[str], str]
        self.before_commission: Callable[[MaasClient], None] | None = None
        self.commissioned: Callable[[MaasClient, Wanted, Machine], Commissioned | None] | None = None
        self.power: Power | None = None
        self.first_commission = threading.Lock()
        self.on_progress = on_progress or (lambda progress: None)
        self.on_deed = on_deed or (lambda name, line: None)
        self.pause = pause
        self.us: str | None = None
        self.news: list[str] = []
        self.started = time.monotonic()
        self.last_seen = self.started
        self.pool = ThreadPoolExecutor(max_workers=CALLS_AT_ONCE, thread_name_prefix="maas")

    def run(self) -> dict[str, InstallResult]:
        machines = self._by_id(self.client.machines())  # the first answer must come: else nothing is begun
        if self.options.check:
            for job in self.jobs:
                self._foresee(job, machines.get(job.wanted.system_id))
            return {job.wanted.name: job.result for job in self.jobs}
        try:
            asked_at = self.started
            seen: dict[str, Machine] | None = machines
            while True:
                if seen is not None:
                    self._tick(seen, asked_at)
                self._report()
                if all(job.over for job in self.jobs):
                    return {job.wanted.name: job.result for job in self.jobs}
                self.pause(self.options.poll_seconds)
                asked_at = time.monotonic()
                seen = self._look()
        except KeyboardInterrupt:
            going = sum(job.active and not job.over for job in self.jobs)
            self.news.append(
                f"interrupted: {going} machines go on installing in MAAS; run install again to follow them"
            )
            self._report()
            raise
        finally:
            self.pool.shutdown(wait=False, cancel_futures=True)

    # -- one tick -------------------------------------------------------------------------------------------------

    def _look(self) -> dict[str, Machine] | None:
        """All machines by id; None while MAAS is away, which ends the run after outage_minutes."""
        try:
            machines = self._by_id(self.client.machines())
            self.last_seen = time.monotonic()
            return machines
        except MaasError as error:
            away = time.monotonic() - self.last_seen
            waited_enough = away > self.options.outage_minutes * 60
            if waited_enough or error.kind in ("auth_failed", "clock", "tls_failed"):
                for job in self.jobs:
                    if not job.over:
                        said = f"{error}; away for {away / 60:.1f} minutes; what was installing goes on"
                        where = f"MAAS machine {job.wanted.name}"
                        self._fail(job, Finding("install", "unknown", "maas.unreachable", where, said, "retry"))
            else:
                self.news.append(f"MAAS is away, asking again: {error}")
            return None

    def _tick(self, machines: dict[str, Machine], asked_at: float) -> None:
        # What is in progress takes its place in the wave before anything is begun.
        for job in sorted(self.jobs, key=lambda j: status_of(machines.get(j.wanted.system_id, {})) not in steps.PHASES):
            if job.over or not self._settled(job, asked_at):
                continue
            machine = machines.get(job.wanted.system_id)
            if machine is None:
                said = f"MAAS has no machine {job.wanted.system_id}; was it deleted? run enlist"
                self._fail(
                    job, Finding("install", "fail", "maas.missing", f"MAAS machine {job.wanted.name}", said, "retry")
                )
                continue
            job.result.status = status_name(machine)
            step = self._next(job, machine)
            if step.kind == steps.DONE:
                self._done(job, machine)
            elif step.kind == steps.FAIL:
                self._fail(job, step.finding or self._judge(job, machine, step.phase))
            elif step.kind == steps.WAIT:
                # It installs already, from a killed run: it counts, but never waits for its turn.
                self._activate(job)
                self._watch(job, machine, step)
            elif job.active or self._has_room(job):
                self._activate(job)
                self._act(job, machine, step)

    def _settled(self, job: _Job, asked_at: float) -> bool:
        """True when no call of ours is on its way and this list was asked for after the last one."""
        if job.call is None:
            return asked_at >= job.seen_after
        if not job.call.done():
            return False
        call, job.call = job.call, None
        job.seen_after = time.monotonic()
        error = call.exception()
        if error is None and job.call_name == CHOOSE:
            job.chosen = self._chosen(job, *call.result())
            job.seen_after = 0.0
            return True  # it changed nothing in MAAS: what was seen still holds
        if error is None:
            job.result.changed = True
        elif isinstance(error, MaasError):
            self._call_failed(job, error)
        else:
            raise error
        return False

    def _call_failed(self, job: _Job, error: MaasError) -> None:
        """A call failed. Its effect is seen in the next list; it is made again from there, but not for ever."""
        if error.outcome_unknown:
            job.result.changed = True
        if error.no_use:
            job.tries[job.call_name] -= 1  # MAAS is away for everybody: _look has a word on that
            return
        for_good = error.status in (400, 403, 404)
        if not for_good and job.tries[job.call_name] < TRIES:
            self.news.append(f"{job.wanted.name}: {error}; trying again")
            return
        # 503 to commission or deploy is MAAS's word for a BMC that its rack controller does not reach.
        no_power = error.status in (503, 504) and job.call_name in (steps.COMMISSION, steps.DEPLOY)
        symptom, action = ("install.power_failed", "reset_bmc") if no_power else ("install.failed", "escalate")
        said = f"{error}{f' (BMC {job.wanted.bmc})' if no_power and job.wanted.bmc else ''}"
        self._fail(job, Finding("install", "fail", symptom, f"MAAS machine {job.wanted.name}", said, action))

    def _next(self, job: _Job, machine: Machine) -> Step:
        if owner_matters(machine) and self.us is None:
            try:
                self.us = str(self.client.whoami().get("username") or "")
            except MaasError as error:
                return Step(steps.WAIT, str(error), phase=job.phase)
        return next_step(machine, job.retries_left, self.us)

    def _has_room(self, job: _Job) -> bool:
        active = [j for j in self.jobs if j.active and not j.over]
        if len(active) >= self.options.max_parallel:
            return False
        in_rack = sum(j.wanted.rack == job.wanted.rack for j in active)
        return not self.options.max_per_rack or in_rack < self.options.max_per_rack

    def _activate(self, job: _Job) -> None:
        if not job.active:
            job.active, job.began = True, time.monotonic()

    def _watch(self, job: _Job, machine: Machine, step: Step) -> None:
        now = time.monotonic()
        if step.phase != job.phase:
            job.phase, job.phase_began = step.phase, now
            self.news.append(f"{job.wanted.name}: {step.because}")
        minutes = self.options.minutes(step.phase)
        if now - job.phase_began > minutes * 60:
            self._fail(job, self._judge(job, machine, step.phase, minutes))

    def _judge(self, job: _Job, machine: Machine, phase: str, minutes: float | None = None) -> Finding:
        try:
            events = self.client.events(job.wanted.system_id)
        except MaasError as error:
            events = []
            self.news.append(f"{job.wanted.name}: no events to judge by: {error}")
        return judge(phase, machine, events, minutes)

    # -- what is done to a machine --------------------------------------------------------------------------------

    def _act(self, job: _Job, machine: Machine, step: Step) -> None:
        kind = CHOOSE if step.kind == steps.DEPLOY and job.chosen is None else step.kind
        disk: Disk | None = None
        if kind == steps.DEPLOY:
            chosen, job.chosen = job.chosen, None
            if isinstance(chosen, Finding):
                self._fail(job, chosen)
                return
            disk = chosen
        job.tries[kind] = job.tries.get(kind, 0) + 1
        if job.tries[kind] > TRIES + self.options.retries:
            said = f"{kind} was asked for {job.tries[kind] - 1} times, and it is {status_name(machine)} again"
            where = f"MAAS machine {label(machine)}"
            self._fail(job, Finding("install", "fail", "install.failed", where, said, "escalate"))
            return
        job.phase, job.call_name = "", kind
        if kind == CHOOSE:
            job.call = self.pool.submit(self._choose, job.wanted, machine)
            return
        if step.is_retry:
            job.retries_left -= 1
        self.news.append(f"{job.wanted.name}: {kind} ({step.because})")
        deed = _deed(job.wanted, step, disk, self.options)
        if deed:
            job.result.deeds.append(deed)
            self.on_deed(job.wanted.name, deed)
        job.call = self.pool.submit(self._call, job.wanted, step, machine, disk)

    def _chosen(self, job: _Job, found: Disk | Finding, known: Commissioned | None) -> Disk | Finding:
        """Keep what is known of the disks; a finding of commissioning that says no comes before the disk."""
        if known is not None:
            job.result.disks_before = dict(known.fingerprints)
            said_no = blocking(known.findings)
            new = [f for f in known.findings if f not in job.result.findings and f not in said_no[:1]]
            job.result.findings.extend(new)
            if said_no:
                return said_no[0]
        if not isinstance(found, Finding):
            job.result.os_disk = {key: found.get(key) for key in ("serial", "model", "size", "name")}
        return found

    # The next three run in threads of the pool.

    def _choose(self, wanted: Wanted, machine: Machine) -> tuple[Disk | Finding, Commissioned | None]:
        known = self.commissioned(self.client, wanted, machine) if self.commissioned else None
        return self._os_disk(wanted, machine), known

    def _call(self, wanted: Wanted, step: Step, machine: Machine, disk: Disk | None) -> None:
        if step.kind == steps.COMMISSION:
            self._prepare_commissioning()
            self.client.commission(wanted.system_id, self.options.testing_scripts)
        elif step.kind == steps.RELEASE:
            self.client.release(wanted.system_id, f"firstlight: {step.because}")
        elif step.kind == steps.DEPLOY and disk is not None:
            boot = machine.get("boot_disk")
            is_boot_disk = isinstance(boot, dict) and boot.get("id") == disk["id"]
            user_data = self.user_data(wanted.name)
            self.client.set_os_disk(wanted.system_id, disk["id"], is_boot_disk)
            self.client.deploy(
                wanted.system_id,
                wanted.distro_series or self.options.distro_series,
                base64.b64encode(user_data.encode()).decode() if user_data else None,
                wanted.hwe_kernel or self.options.hwe_kernel,
                "firstlight",
            )

    def _prepare_commissioning(self) -> None:
        with self.first_commission:  # the others wait for it
            if self.before_commission:
                self.before_commission(self.client)
                self.before_commission = None

    def _os_disk(self, wanted: Wanted, machine: Machine) -> Disk | Finding:
        disks = disks_of(machine)
        if disks is None:
            disks = self.client.block_devices(wanted.system_id)
        return choose_os_disk(disks, wanted.os_disk, wanted.name)

    def _foresee(self, job: _Job, machine: Machine | None) -> None:
        """Check mode: what would be done, as far as one can see."""
        if machine is None:
            job.result.changed = True  # enlist would make it first
            job.result.deeds = [f"would commission and deploy {job.wanted.name}, which is not in MAAS yet"]
            return
        job.result.status = status_name(machine)
        step = self._next(job, machine)
        if step.kind == steps.DONE:
            self._done(job, machine)
        elif step.kind == steps.FAIL:
            self._fail(job, step.finding or self._judge(job, machine, step.phase))
        elif step.kind == steps.DEPLOY:
            found = self._os_disk(job.wanted, machine)
            if isinstance(found, Finding):
                self._fail(job, found)
            else:
                job.result.changed = True
                job.result.deeds = [f"would {_deed(job.wanted, step, found, self.options)}"]
        elif step.kind != steps.WAIT:
            job.result.changed = True
            job.result.deeds = [f"would {step.kind} and deploy {label(machine)}, which is {step.because}"]

    # -- ends -----------------------------------------------------------------------------------------------------

    def _done(self, job: _Job, machine: Machine) -> None:
        job.result.address = address_of(machine, self.networks)
        if job.active:
            self.news.append(f"{job.wanted.name}: deployed, address {job.result.address or 'unknown'}")
        if job.result.address is None:
            where = f" in {', '.join(self.options.subnets)}" if self.options.subnets else ""
            said = f"{label(machine)} is deployed, but MAAS knows no address of it{where}"
            job.result.findings.append(
                Finding("install", "fail", "install.no_address", f"MAAS machine {label(machine)}", said, "escalate")
            )
        self._over(job)

    def _fail(self, job: _Job, finding: Finding) -> None:
        job.result.findings.append(finding)
        self.news.append(f"{job.wanted.name}: {finding.symptom}: {finding.evidence}")
        self._over(job)

    def _over(self, job: _Job) -> None:
        job.over = True
        job.result.seconds = round(time.monotonic() - job.began, 1) if job.active else 0.0

    def _report(self) -> None:
        counts: dict[str, int] = {}
        for job in self.jobs:
            if job.over:
                what = "failed" if blocking(job.result.findings) else "done"
            else:
                what = (job.phase or job.call_name) if job.active else "waiting"
            counts[what] = counts.get(what, 0) + 1
        news, self.news = self.news, []
        self.on_progress(Progress(round(time.monotonic() - self.started, 1), counts, news))

    @staticmethod
    def _by_id(machines: list[Machine]) -> dict[str, Machine]:
        return {machine["system_id"]: machine for machine in machines}


def _deed(wanted: Wanted, step: Step, disk: Disk | None, options: InstallOptions) -> str:
    """One line for the ledger about a step that destroys something, empty for others."""
    who = f"{wanted.name} ({wanted.system_id})"
    if step.kind == steps.DEPLOY and disk is not None:
        series = wanted.distro_series or options.distro_series or "the default image"
        return f"deploy {series} to {who}, overwriting {describe(disk)}"
    return f"release {who}: {step.because}" if step.kind == steps.RELEASE else ""
