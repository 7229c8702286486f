"""Doing one thing with many BMCs at once, so that a bad one costs only its own time.

Every BMC is contacted first (its service root is read), and then worked with, those that answered slowest first. So
broken ones are found out within the first seconds, and their time runs while the others are worked with.
"""

from __future__ import annotations

import collections
import datetime
import heapq
import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from .client import DEADLINE, LOGOUT_SECONDS, BmcClient
from .errors import BmcError, HalfAnswering, TimedOut, Unreachable
from .pace import Pace
from .transport import tls_context

WORKERS = 100  # more at once starve each other of CPU here, and healthy BMCs look unreachable
# A BMC that has been silent for so long costs nothing, and does not count as one of the workers.
CONTACT_PATIENCE = 0.8
WORK_PATIENCE = (0.8, 5.0)  # at least and at most; between them four times what an answer takes in this run
# Connections that are open at a time: contacted BMCs wait with theirs, and a process may have 1024 files open.
CONNECTIONS = 600
# A host whose deadline passed gets this long to log out and end, then nobody waits for it any more.
GRACE_SECONDS = LOGOUT_SECONDS + 1.0
# Once so long over the deadline, those that are left and silent are not waited for, however late they were begun.
OVERTIME = 1.5
PROBE_PAUSE = 1.0
_TICK = 0.05


@dataclass(frozen=True)
class Target:
    """One BMC to ask: name of its host, address, port, and how to log in."""

    name: str
    address: str
    port: int
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class Outcome:
    """What came of one BMC: value, or error; when it was asked (UTC) and how many seconds it took."""

    value: Any
    error: BmcError | None
    asked_at: datetime.datetime
    seconds: float


@dataclass
class _Attempt:
    target: Target
    client: BmcClient
    budget: float  # seconds that are left to this host
    probes: int  # how often it may still be found unreachable
    begun: datetime.datetime | None = None
    not_before: float = 0.0
    started: float = 0.0  # of the contact, or of the work
    used: float = 0.0
    contacted: bool = False
    thread: threading.Thread | None = None
    stopped: bool = False

    def silent(self, now: float) -> float:
        """Seconds since it was begun, or last answered."""
        return now - max(self.started, self.client.heard)


def run(
    targets: Iterable[Target],
    work: Callable[[BmcClient], Any],
    *,
    ca_file: str,
    workers: int = WORKERS,
    deadline: float = DEADLINE,
    on_outcome: Callable[[str, Outcome], None] | None = None,
    on_tick: Callable[[], None] | None = None,
) -> dict[str, Outcome]:
    """Log in to each BMC, do ``work`` with its client, log out.

    workers: BMCs that are spoken with at a time, up to twice as many while that slows nothing down (see Pace); those
    that do not answer are not counted. deadline: seconds that each BMC has, waiting for its turn not counted.

    A BMC that is unreachable is tried once more, after the others: with many connections at once a healthy one can
    look so. Nothing else is tried again, a refused password least of all, nor work that has sent a change already.

    Whatever BMCs do that do not answer, this returns within deadline + 5 seconds for up to 500 targets, unless those
    that do answer take longer. on_outcome is called in the caller's thread, and so is on_tick, many times a second.
    InputError when the CA is unusable.
    """
    return _Run(targets, work, ca_file, max(1, workers), deadline, on_outcome, on_tick).all()


class _Run:
    def __init__(
        self,
        targets: Iterable[Target],
        work: Callable[[BmcClient], Any],
        ca_file: str,
        workers: int,
        deadline: float,
        on_outcome: Callable[[str, Outcome], None] | None,
        on_tick: Callable[[], None] | None,
    ) -> None:
        self.work, self.ca_file, self.deadline = work, ca_file, deadline
        self.pace = Pace(workers)
        self.spent, self.answers = 0.0, 0  # of those that have ended
        self.on_outcome, self.on_tick = on_outcome, on_tick
        self.context = tls_context(ca_file)
        self.waiting = collections.deque(self._attempt(target, deadline, probes=2) for target in targets)
        self.contacted: list[tuple[float, int, _Attempt]] = []  # a heap, the slowest first
        self.running: dict[str, _Attempt] = {}
        self.finished: queue.SimpleQueue[tuple[_Attempt, Any, BmcError | None]] = queue.SimpleQueue()
        self.outcomes: dict[str, Outcome] = {}
        self.number = itertools.count()
        self.begun = time.monotonic()

    def _attempt(self, target: Target, budget: float, probes: int) -> _Attempt:
        client = BmcClient(
            target.address,
            target.port,
            target.username,
            target.password,
            context=self.context,
            ca_file=self.ca_file,
            deadline=budget,
        )
        client.name = target.name
        return _Attempt(target, client, budget, probes)

    def all(self) -> dict[str, Outcome]:
        try:
            while self.waiting or self.contacted or self.running:
                if self.on_tick:
                    self.on_tick()
                self._start_some()
                self._take_results()
                self._stop_the_late()
        finally:
            self._end()
        return self.outcomes

    def _start_some(self) -> None:
        now = time.monotonic()
        clients = [attempt.client for attempt in self.running.values() if attempt.contacted]
        spent, answers = sum(c.spent for c in clients), sum(c.answers for c in clients)
        self.pace.look(self.spent + spent, self.answers + answers)
        # Longer where all are slow, or we are.
        patience = min(max(4 * self.pace.usual, WORK_PATIENCE[0]), WORK_PATIENCE[1])
        busy = sum(a.silent(now) < (patience if a.contacted else CONTACT_PATIENCE) for a in self.running.values())
        for _ in range(len(self.waiting)):
            if busy >= self.pace.limit or len(self.running) + len(self.contacted) >= CONNECTIONS:
                break
            attempt = self.waiting.popleft()
            if attempt.not_before > now:
                self.waiting.append(attempt)
                continue
            self._start(attempt)
            busy += 1
        while self.contacted and busy < self.pace.limit:
            self._start(heapq.heappop(self.contacted)[2])
            busy += 1

    def _start(self, attempt: _Attempt) -> None:
        attempt.started = time.monotonic()
        attempt.begun = attempt.begun or datetime.datetime.now(datetime.UTC)
        attempt.client.allow(attempt.budget)
        self.running[attempt.target.name] = attempt
        # A daemon: should a BMC manage to hold a thread for good, the program can still end.
        attempt.thread = threading.Thread(target=self._in_thread, args=(attempt,), daemon=True)
        attempt.thread.start()

    def _in_thread(self, attempt: _Attempt) -> None:
        value, error = None, None
        client = attempt.client
        try:
            if not attempt.contacted:
                client.contact()
            else:
                client.login()
                value = self.work(client)
        except BmcError as problem:
            error = problem
        except Exception as problem:  # a BMC's odd answer must not take the other hosts down
            error = HalfAnswering(f"its answers cannot be made sense of ({type(problem).__name__})")
        if attempt.contacted or error:
            client.close()
        self.finished.put((attempt, value, error))

    def _take_results(self) -> None:
        """Wait for a result, a moment at most; take all that are there."""
        try:
            result = self.finished.get(timeout=_TICK)
            while True:
                self._take(*result)
                result = self.finished.get_nowait()
        except queue.Empty:
            pass

    def _take(self, attempt: _Attempt, value: Any, error: BmcError | None) -> None:
        name = attempt.target.name
        if self.running.get(name) is not attempt:
            return  # it was given up
        del self.running[name]
        if attempt.contacted or error:
            self._settle(attempt, value, error)
            return
        seconds = time.monotonic() - attempt.started
        attempt.used += seconds
        attempt.budget -= seconds
        attempt.contacted = True
        heapq.heappush(self.contacted, (-seconds, next(self.number), attempt))

    def _settle(self, attempt: _Attempt, value: Any, error: BmcError | None) -> None:
        now = time.monotonic()
        attempt.used += now - attempt.started
        client = attempt.client
        self.spent, self.answers = self.spent + client.spent, self.answers + client.answers
        # A login without an answer may have been one with a refused password, and a change may have been made.
        again_allowed = attempt.probes > 1 and not (client.wrote or client.logging_in or attempt.stopped)
        if isinstance(error, Unreachable) and again_allowed and attempt.used + PROBE_PAUSE < self.deadline:
            again = self._attempt(attempt.target, self.deadline - attempt.used, attempt.probes - 1)
            again.begun, again.used, again.not_before = attempt.begun, attempt.used, now + PROBE_PAUSE
            self.waiting.append(again)
            return
        begun = attempt.begun or datetime.datetime.now(datetime.UTC)
        outcome = Outcome(value, error, begun, round(attempt.used, 2))
        self.outcomes[attempt.target.name] = outcome
        if self.on_outcome:
            self.on_outcome(attempt.target.name, outcome)

    def _stop_the_late(self) -> None:
        """Wake those whose time is up; give up those that do not even end then."""
        now = time.monotonic()
        overtime = (
            now - self.begun > self.deadline + OVERTIME
            and not self.waiting
            and not self.contacted
            and all(a.silent(now) > WORK_PATIENCE[0] for a in self.running.values())
        )
        for attempt in list(self.running.values()):
            over = now - attempt.started - attempt.budget
            if (over > 0.2 or overtime) and not attempt.stopped:
                attempt.stopped = True  # once: what it does next is to log out
                attempt.budget = min(attempt.budget, now - attempt.started)
                attempt.client.stop()
            if over > GRACE_SECONDS:
                del self.running[attempt.target.name]
                self._settle(attempt, None, TimedOut(f"held the connection past its {self.deadline:g} s"))
                attempt.client.stop(force=True)

    def _end(self) -> None:
        """After an interruption: let every BMC be logged out of, within a moment."""
        for _seconds, _number, attempt in self.contacted:
            attempt.client.close()
        left = list(self.running.values())
        for attempt in left:
            attempt.client.stop()
        until = time.monotonic() + LOGOUT_SECONDS
        for attempt in left:
            if attempt.thread:
                attempt.thread.join(max(0.0, until - time.monotonic()))
