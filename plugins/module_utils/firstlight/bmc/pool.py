"""Doing one thing with many BMCs at once, so that a bad one costs only its own time."""

from __future__ import annotations

import collections
import datetime
import queue
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from .client import DEADLINE, LOGOUT_SECONDS, BmcClient
from .errors import BmcError, HalfAnswering, TimedOut, Unreachable
from .transport import tls_context

WORKERS = 64
# A host counts as one of the workers for so long; one that takes longer mostly waits, and must not hold up others.
SLOT_SECONDS = 5.0
# A host whose deadline passed gets this long to log out and end, then nobody waits for it any more.
GRACE_SECONDS = LOGOUT_SECONDS + 1.0
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
    budget: float  # seconds that are left to this host
    probes: int  # how often it may still be found unreachable
    begun: datetime.datetime | None = None
    not_before: float = 0.0
    started: float = 0.0
    used: float = 0.0
    client: BmcClient | None = None
    thread: threading.Thread | None = None
    stopped: bool = False


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
    """Log in to each BMC, do ``work`` with its client, log out; each on a thread of its own.

    A BMC that is unreachable is tried once more, after the others: with many connections at once a healthy one can
    look so. Nothing else is tried again, a refused password least of all, nor work that has sent a change already.

    Whatever the BMCs do, this returns within deadline + 3 seconds for up to ``workers`` targets, and 5 seconds later
    for each ``workers`` targets more. on_outcome is called in the caller's thread, and so is on_tick, many times
    a second. InputError when the CA is unusable.
    """
    context = tls_context(ca_file)
    waiting = collections.deque(_Attempt(target, deadline, probes=2) for target in targets)
    running: dict[str, _Attempt] = {}
    finished: queue.SimpleQueue[tuple[_Attempt, Any, BmcError | None]] = queue.SimpleQueue()
    outcomes: dict[str, Outcome] = {}

    def settle(attempt: _Attempt, value: Any, error: BmcError | None) -> None:
        now = time.monotonic()
        attempt.used += now - attempt.started
        wrote = attempt.client is not None and attempt.client.wrote
        again_allowed = attempt.probes > 1 and not wrote and attempt.used + PROBE_PAUSE < deadline
        if isinstance(error, Unreachable) and again_allowed:
            again = _Attempt(attempt.target, deadline - attempt.used, attempt.probes - 1, attempt.begun)
            again.used, again.not_before = attempt.used, now + PROBE_PAUSE
            waiting.append(again)
            return
        begun = attempt.begun or datetime.datetime.now(datetime.UTC)
        outcome = Outcome(value, error, begun, round(attempt.used, 2))
        outcomes[attempt.target.name] = outcome
        if on_outcome:
            on_outcome(attempt.target.name, outcome)

    def start(attempt: _Attempt) -> None:
        target = attempt.target
        attempt.started = time.monotonic()
        attempt.begun = attempt.begun or datetime.datetime.now(datetime.UTC)
        attempt.client = BmcClient(
            target.address,
            target.port,
            target.username,
            target.password,
            context=context,
            ca_file=ca_file,
            deadline=attempt.budget,
        )
        attempt.client.name = target.name
        # A daemon: should a BMC manage to hold a thread for good, the program can still end.
        attempt.thread = threading.Thread(target=_work, args=(attempt, work, finished), daemon=True)
        running[target.name] = attempt
        attempt.thread.start()

    try:
        while waiting or running:
            if on_tick:
                on_tick()
            now = time.monotonic()
            busy = sum(now - attempt.started < SLOT_SECONDS for attempt in running.values())
            for _ in range(len(waiting)):
                if busy >= workers:
                    break
                attempt = waiting.popleft()
                if attempt.not_before > now:
                    waiting.append(attempt)
                    continue
                start(attempt)
                busy += 1
            try:
                attempt, value, error = finished.get(timeout=_TICK)
            except queue.Empty:
                pass
            else:
                if running.get(attempt.target.name) is attempt:
                    del running[attempt.target.name]
                    settle(attempt, value, error)
            for attempt in _overdue(running.values()):
                del running[attempt.target.name]
                settle(attempt, None, TimedOut(f"held the connection past its {deadline:g} s"))
    finally:
        _end(running.values())
    return outcomes


def _work(attempt: _Attempt, work: Callable[[BmcClient], Any], finished: queue.SimpleQueue[Any]) -> None:
    value, error = None, None
    client = attempt.client
    try:
        assert client is not None  # noqa: S101  start() made it
        with client:
            value = work(client)
    except BmcError as problem:
        error = problem
    except Exception as problem:  # a BMC's odd answer must not take the other hosts down
        error = HalfAnswering(f"its answers cannot be made sense of ({type(problem).__name__})")
    finished.put((attempt, value, error))


def _overdue(attempts: Iterable[_Attempt]) -> list[_Attempt]:
    """Wake those whose time is up; return those that did not even end then."""
    now = time.monotonic()
    late = []
    for attempt in list(attempts):
        over = now - attempt.started - attempt.budget
        if over > 0.2 and attempt.client and not attempt.stopped:
            attempt.stopped = True  # once: what it does next is to log out
            attempt.client.stop()
        if over > GRACE_SECONDS:
            late.append(attempt)
            if attempt.client:
                attempt.client.stop(force=True)
    return late


def _end(attempts: Iterable[_Attempt]) -> None:
    """After an interruption: let every BMC be logged out of, within a moment."""
    left = list(attempts)
    for attempt in left:
        if attempt.client:
            attempt.client.stop()
    until = time.monotonic() + LOGOUT_SECONDS
    for attempt in left:
        if attempt.thread:
            attempt.thread.join(max(0.0, until - time.monotonic()))
