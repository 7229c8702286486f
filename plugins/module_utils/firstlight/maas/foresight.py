"""Check mode of install: what would be done, from one list, without doing it."""

from __future__ import annotations

from ..findings import Finding
from . import reasons, steps
from .engine import Engine
from .jobs import Job, deed_of
from .machines import Machine, label, status_name
from .options import InstallResult


class Foresight(Engine):
    """Takes one look, and says for each machine as far as one can see."""

    def run(self) -> dict[str, InstallResult]:
        machines = self._by_id(self.client.machines())
        for job in self.jobs:
            self._foresee(job, machines.get(job.wanted.system_id))
        return self._results()

    def _foresee(self, job: Job, machine: Machine | None) -> None:
        """What would be done, as far as one can see."""
        if machine is None:
            job.result.changed = True  # enlist would make it first
            job.result.deeds = [f"would commission and deploy {job.name}, which is not in MAAS yet"]
            return
        job.result.status = status_name(machine)
        step = self._next(job, machine)
        if step.kind == steps.DONE:
            self._done(job, machine)
        elif step.kind == steps.FAIL:
            look = self.calls.look(job.wanted, step.phase, True, 0) if step.finding is None else None
            self._fail(job, step.finding or reasons.judge(step.phase, machine, look or reasons.Look()))
        elif step.kind == steps.DEPLOY:
            found = self.calls.os_disk(job.wanted, machine)
            if isinstance(found, Finding):
                self._fail(job, found)
            else:
                job.result.changed = True
                job.result.deeds = [f"would {deed_of(job.wanted, step, found, self.options)}"]
        elif step.kind != steps.WAIT:
            job.result.changed = True
            job.result.deeds = [f"would {step.kind} and deploy {label(machine)}, which is {step.because}"]
