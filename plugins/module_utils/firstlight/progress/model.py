"""A run as it is seen from outside: stages, the task that goes on, and failures by symptom.

Nothing here talks or reads a clock: who tells of an event also tells when it was (seconds of any monotonic clock).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .reasons import Closed

RATE_HOSTS, RATE_SECONDS = 3, 5.0  # fewer results, or a shorter time, give no rate
NAMED_MAX = 20  # hosts that a group of failures remembers by name
OUTCOMES = ("ok", "changed", "skipped", "failed", "unreachable", "ignored", "rescued")


@dataclass
class Task:
    """One task on its hosts. total: hosts that are expected to take part; seconds: when it began and was last heard."""

    key: str
    name: str
    total: int
    begun: float
    heard: float
    once: bool = False
    running: int = 0
    retrying: set[str] = field(default_factory=set)
    outcome: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in OUTCOMES})
    ended: float | None = None

    @property
    def done(self) -> int:
        return sum(len(hosts) for hosts in self.outcome.values())

    def count(self, outcome: str) -> int:
        return len(self.outcome[outcome])

    def rate(self, now: float) -> float | None:
        """Hosts a minute since it began; None while too little is known."""
        seconds = (self.ended if self.ended is not None else now) - self.begun
        if self.once or self.done < RATE_HOSTS or seconds < RATE_SECONDS:
            return None
        return self.done * 60 / seconds

    def eta(self, now: float) -> float | None:
        """Seconds to go at that rate; None when there is no rate, or when nothing came for much longer than usual."""
        rate = self.rate(now)
        if rate is None or self.ended is not None:
            return None
        if now - self.heard > max(30.0, 10 * 60 / rate):
            return None
        return max(0, self.total - self.done) * 60 / rate


@dataclass
class Group:
    """Hosts that failed alike. count: of hosts; said: what the first of them told."""

    stage: str
    symptom: str
    task: str
    said: str = ""
    count: int = 0
    hosts: list[str] = field(default_factory=list)


@dataclass
class Stage:
    """A play. total: hosts that it began with. expected: seconds that it took the last time, if known."""

    name: str
    stage: str | None
    hosts: set[str]
    begun: float
    expected: float | None = None
    ended: float | None = None
    tasks: int = 0
    failed: set[str] = field(default_factory=set)
    judged: Closed | None = None
    task: Task | None = None

    def __post_init__(self) -> None:
        self.total = len(self.hosts)
        self.alive = set(self.hosts)

    @property
    def said_no(self) -> int:
        """Hosts that failed a task, and those that the stage's end held back."""
        return len(self.failed) + (self.judged.total - self.judged.passed if self.judged else 0)

    @property
    def passed(self) -> int:
        return self.judged.passed if self.judged else len(self.alive)

    @property
    def left_out(self) -> int:
        return max(0, self.total - self.passed - self.said_no)

    def seconds(self, now: float) -> float:
        return (self.ended if self.ended is not None else now) - self.begun

    def rate(self, now: float) -> float | None:
        """Of an ended stage its hosts a minute; of one that goes on those of its task."""
        if self.ended is None:
            return self.task.rate(now) if self.task else None
        seconds = self.seconds(now)
        return self.passed * 60 / seconds if seconds >= RATE_SECONDS and self.passed else None

    def eta(self, now: float) -> float | None:
        """Seconds to go if it takes as long as the last time; None once it takes longer."""
        if self.ended is not None or self.expected is None:
            return None
        left = self.expected - self.seconds(now)
        return left if left > 0 else None


class Run:
    """All of it. Events come in the order in which Ansible tells them."""

    def __init__(self, playbook: str, begun: float, *, check: bool = False) -> None:
        self.playbook, self.begun, self.check = playbook, begun, check
        self.stages: list[Stage] = []
        self.groups: dict[tuple[str, str, str], Group] = {}
        self.gone: dict[str, str] = {}  # hosts that left the run, with the symptom

    @property
    def stage(self) -> Stage | None:
        return self.stages[-1] if self.stages and self.stages[-1].ended is None else None

    @property
    def task(self) -> Task | None:
        return self.stage.task if self.stage else None

    def play(
        self, name: str, stage: str | None, hosts: Iterable[str], now: float, expected: float | None = None
    ) -> None:
        self.end_play(now)
        self.stages.append(Stage(name, stage, set(hosts) - set(self.gone), now, expected))

    def end_play(self, now: float) -> None:
        if (stage := self.stage) is not None:
            self.end_task(now)
            stage.ended = now

    def begin_task(self, key: str, name: str, now: float, *, once: bool = False) -> Task | None:
        """A task that is begun again is the same one: Ansible tells of a meta task once for each host."""
        stage = self.stage
        if stage is None:
            return None
        if stage.task is None or stage.task.key != key:
            self.end_task(now)
            stage.tasks += 1
            stage.task = Task(key, name, 1 if once else len(stage.alive), now, now, once)
        return stage.task

    def end_task(self, now: float) -> Task | None:
        if self.task is not None and self.task.ended is None:
            self.task.ended = now
            return self.task
        return None

    def started(self, key: str) -> None:
        if (task := self._of(key)) is not None:
            task.running += 1
            task.total = max(task.total, task.done + task.running) if not task.once else 1

    def retried(self, key: str, host: str) -> None:
        if (task := self._of(key)) is not None:
            task.retrying.add(host)

    def ended(self, key: str, host: str, outcome: str, now: float) -> Task | None:
        task = self._of(key)
        if task is None:
            return None
        task.outcome[outcome].append(host)
        task.heard = now
        task.running = max(0, task.running - 1)
        task.total = max(task.total, task.done)
        task.retrying.discard(host)
        return task

    def left(self, host: str, task: str, symptom: str, said: str) -> Group:
        """The host leaves the run; returns the group that it falls into."""
        if (stage := self.stage) is not None:
            stage.failed.add(host)
            stage.alive.discard(host)
        self.gone[host] = symptom
        group = self._group(symptom, task)
        group.count += 1
        group.said = group.said or said
        if len(group.hosts) < NAMED_MAX:
            group.hosts.append(host)
        return group

    def only(self, hosts: Iterable[str]) -> None:
        """The others have left the play, without a failure."""
        if (stage := self.stage) is not None:
            stage.alive &= set(hosts)

    def close(self, closed: Closed) -> None:
        """The stage has been judged: a second judgement, of hosts that came to it another way, adds to the first."""
        stage = self.stage
        if stage is None:
            return
        before = stage.judged or Closed(0, 0, {})
        stage.judged = Closed(before.passed + closed.passed, before.total + closed.total, {})
        for symptom, count in closed.symptoms.items():
            self._group(symptom, "").count += count

    def failures(self) -> list[Group]:
        """Most hosts first."""
        return sorted(self.groups.values(), key=lambda group: -group.count)

    def _of(self, key: str) -> Task | None:
        """The task that goes on, when it is this one: an event of another tells nothing that is shown."""
        return self.task if self.task is not None and self.task.key == key else None

    def _group(self, symptom: str, task: str) -> Group:
        stage = self.stages[-1].name if self.stages else ""
        return self.groups.setdefault((stage, symptom, task), Group(stage, symptom, task))
