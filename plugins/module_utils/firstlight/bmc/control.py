"""What all control over BMCs shares: a change and how it is told, many BMCs at once, coming back after a restart."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from ..findings import Finding
from .client import DEADLINE, ROOT, BmcClient, Resource
from .errors import AuthFailed, BmcError, HalfAnswering, NotReady, Refused, TimedOut
from .fetch import read_collection
from .pool import WORKERS, Target, run
from .values import link

_T = TypeVar("_T")
PAUSE = 2.0  # seconds between two looks at what takes minutes

# What a function calls to say how it goes, in one line; and, right before it does what cannot be undone, to note it.
Say = Callable[[str], None]


def silent(line: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class Change:
    """What a function did, or would do in check mode.

    before and after: plain values for a diff. findings: what else there is to know; one that fails says that it was
    not, or not wholly, done.
    """

    changed: bool
    before: Any
    after: Any
    findings: tuple[Finding, ...] = ()


def many(
    targets: Iterable[Target],
    function: Callable[[BmcClient], _T],
    *,
    ca_file: str,
    workers: int = WORKERS,
    deadline: float = DEADLINE,
    on_result: Callable[[str, _T | BmcError], None] | None = None,
    lines: queue.SimpleQueue[str] | None = None,
    tell: Say = silent,
) -> dict[str, _T | BmcError]:
    """Do one thing with many BMCs at once, e.g. ``lambda bmc: power(bmc, "on")``; bmc.name is the host's.

    By target name: what the function returned, or the BmcError that came of it. Bounded in time, see pool.run.
    on_result is called in this thread as they come. lines: what functions put there is told in this thread.
    """
    results: dict[str, _T | BmcError] = {}

    def keep(name: str, outcome: Any) -> None:
        results[name] = outcome.error if outcome.error is not None else outcome.value
        if on_result:
            on_result(name, results[name])

    def drain() -> None:
        while lines is not None and not lines.empty():
            tell(lines.get())

    def work(client: BmcClient) -> _T:
        try:
            return function(client)
        except BmcError as error:
            if not client.wrote or isinstance(error, Refused):
                raise
            evidence = f"{error.evidence}; what was sent before may have been done"
            raise type(error)(evidence, error.status, error.codes) from None

    try:
        run(targets, work, ca_file=ca_file, workers=workers, deadline=deadline, on_outcome=keep, on_tick=drain)
    finally:
        drain()
    return results


def system_of(client: BmcClient) -> tuple[str, Resource]:
    """Path and resource of the server. Raises NotReady when the BMC, as after a start, tells of none."""
    path = link(client.root, "Systems") or f"{ROOT}/Systems"
    systems = read_collection(client, path)
    if not systems:
        raise NotReady(f"GET {path}: 200 without any system; a BMC that has just started says so")
    return link(systems[0]), systems[0]


def manager_of(client: BmcClient) -> tuple[str, Resource]:
    """Path and resource of the BMC itself: the one that manages the server, where there are several."""
    _path, system = system_of(client)
    path = link(system, "Links", "ManagedBy", 0)
    if path:
        return path, client.get(path)
    managers = read_collection(client, link(client.root, "Managers"))
    if not managers:
        raise HalfAnswering(f"GET {link(client.root, 'Managers') or ROOT}: tells of no manager")
    return link(managers[0]), managers[0]


def reconnect(client: BmcClient, seconds: float, pause: float = PAUSE) -> None:
    """Log in anew to a BMC that restarts, and wait until it tells of its server; at most so many seconds.

    A refused password ends it: a second try could block our address. Raises TimedOut with the last thing seen.
    """
    until = time.monotonic() + seconds
    while True:
        client.close()
        try:
            client.open()
            system_of(client)
        except AuthFailed:
            raise
        except BmcError as error:
            if client.stopped or time.monotonic() + pause >= until:
                raise TimedOut(f"does not answer as it should after {seconds:g} s: {error.evidence}") from None
            time.sleep(pause)
        else:
            return


def again(client: BmcClient, read: Callable[[], _T], away_seconds: float, pause: float = PAUSE) -> _T:
    """Read something from a BMC that may restart meanwhile: log in anew and read again, at most so many seconds.

    A session that ended with the restart is no wrong password; a refused password ends it.
    """
    until = time.monotonic() + away_seconds
    while True:
        try:
            return read()
        except (AuthFailed, Refused):
            raise
        except BmcError:
            if client.stopped or time.monotonic() + pause >= until:
                raise
        reconnect(client, until - time.monotonic(), pause)


def until_true(test: Callable[[], bool], seconds: float, pause: float = PAUSE) -> bool:
    """Look again and again, at most so many seconds; True when it came true."""
    end = time.monotonic() + seconds
    while not test():
        if time.monotonic() + pause > end:
            return False
        time.sleep(pause)
    return True
