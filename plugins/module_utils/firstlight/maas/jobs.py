"""The bookkeeping of install: one job a host, the places in a wave, and how it goes. No talking, no deciding."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from ..findings import Finding, blocking, shorten
from . import steps
from .disks import Disk, describe
from .machines import Machine, text_of
from .options import InstallOptions, InstallResult, Progress, Wanted
from .reasons import KERNEL, NETWORK, NOTHING, Look, boots
from .steps import Step

NAMED = 3  # of the machines that stall
RATE_SECONDS = 600.0


@dataclass
class Job:
    """One host on its way. Times are of the engine's clock, in seconds."""

    wanted: Wanted
    retries_left: int
    by_redfish: bool = False  # MAAS is told that its power is switched by hand, and we switch it
    put_back: bool = False  # MAAS's power settings have to be put back at the end
    result: InstallResult = field(default_factory=InstallResult)
    active: bool = False
    over: bool = False
    began: float = 0.0
    phase: str = ""
    phase_began: float = 0.0
    shown: str = ""  # what MAAS's list says that it does, and since when
    moved: float = 0.0
    look: Look | None = None  # what the last LOOK came to, until it is judged
    looked: float = 0.0
    reached: int | None = None  # how far it was then
    console_mark: int = 0
    chosen: Disk | Finding | None = None  # what CHOOSE came to
    call: Future[Any] | None = None
    call_name: str = ""
    seen_after: float = 0.0  # a list asked for before this does not show what our last call did
    not_before: float = 0.0  # MAAS asked us to wait so long
    commissioned: bool = False  # in this run
    tries: Counter[str] = field(default_factory=Counter)
    tried_again: str = ""  # the symptom that one automatic try more was spent on
    last_said: str = ""  # by MAAS, when its place in the wave went to another
    again: Callable[[], None] | None = None  # what its second try begins with, where MAAS still waits for the first

    @property
    def name(self) -> str:
        return self.wanted.name

    @property
    def ours(self) -> bool:
        """This run has begun with it, or found it begun; it may wait for its second try."""
        return self.active or bool(self.tried_again)

    @property
    def commission_first(self) -> bool:
        return self.wanted.commission_first and not self.commissioned

    def enters(self, phase: str, now: float) -> None:
        self.phase, self.phase_began = phase, now
        self.commissioned = self.commissioned or phase == "commission"
        self.starts_anew(now)

    def starts_anew(self, now: float) -> None:
        """Its patience begins again: something was done about it."""
        self.moved = self.looked = now
        self.look, self.reached = None, None

    def notice(self, machine: Machine, now: float) -> None:
        """What the list says of it; noted when it changes."""
        shown = f"{text_of(machine, 'status_message')} {text_of(machine, 'power_state')}"
        if shown != self.shown:
            self.shown, self.moved = shown, now

    def doing(self, machine: Machine) -> str:
        """What it waits for, in some words."""
        far = max(self.reached or NOTHING, NETWORK if boots(machine) else NOTHING)
        if self.phase == "release":
            return "releasing"
        if far == NOTHING:
            return "no PXE"
        return shorten(text_of(machine, "status_message"), 40) or ("no kernel" if far < KERNEL else "running")


class Wave:
    """How many machines are under way, in all and by rack; no more than there may be. per_rack 0: no limit."""

    def __init__(self, most: int, per_rack: int) -> None:
        self._most, self._per_rack = most, per_rack
        self.total = 0
        self.racks: Counter[str] = Counter()

    def has_room(self, rack: str) -> bool:
        return self.total < self._most and not (self._per_rack and self.racks[rack] >= self._per_rack)

    def take(self, rack: str) -> None:
        self.total += 1
        self.racks[rack] += 1

    def give(self, rack: str) -> None:
        self.total -= 1
        self.racks[rack] -= 1


class Tally:
    """How it goes, counted as it happens."""

    def __init__(self, jobs: list[Job], now: float) -> None:
        self._jobs, self._started = jobs, now
        self._ends: deque[float] = deque()

    def ended(self, now: float) -> None:
        self._ends.append(now)

    def progress(self, machines: dict[str, Machine], news: list[str], now: float, slow_seconds: float) -> Progress:
        """slow_seconds: how long a machine shows nothing new until it is named."""
        counts: Counter[str] = Counter()
        slow: list[tuple[float, Job]] = []
        for job in self._jobs:
            if job.over:
                counts["failed" if blocking(job.result.findings) else "done"] += 1
                continue
            counts[(job.phase or job.call_name) if job.active else "waiting"] += 1
            if job.active and job.phase and now - job.moved > slow_seconds:
                slow.append((job.moved, job))
        while self._ends and now - self._ends[0] > RATE_SECONDS:
            self._ends.popleft()
        window = min(max(now - self._started, 1.0), RATE_SECONDS)
        slow.sort(key=lambda pair: pair[0])
        named = [
            f"{job.name} {job.doing(machines.get(job.wanted.system_id, {}))} for {_minutes(now - since)}"
            for since, job in slow[:NAMED]
        ]
        rate = round(len(self._ends) * 60 / window, 1)
        return Progress(round(now - self._started, 1), dict(counts), news, rate, len(slow), named)


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"


def shown(disk: Disk) -> dict[str, Any]:
    """What of a chosen disk goes into the result."""
    return {key: disk.get(key) for key in ("serial", "model", "size", "name")}


def deed_of(wanted: Wanted, step: Step, disk: Disk | None, options: InstallOptions) -> str:
    """One line for the ledger about a step that destroys something, empty for others."""
    who = f"{wanted.name} ({wanted.system_id})"
    if step.kind == steps.DEPLOY and disk is not None:
        series = wanted.distro_series or options.distro_series or "the default image"
        return f"deploy {series} to {who}, overwriting {describe(disk)}"
    return f"release {who}: {step.because}" if step.kind == steps.RELEASE else ""
