"""A worker that is told to end while it prints leaves no lock behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import weakref
from typing import Any

import pytest

from firstlight.fleet_action import FleetAction
from firstlight.signals import PutOff

CONTEXT = multiprocessing.get_context("fork")


class Queue:
    """As Ansible's: the lock is shared with the process that started this one."""

    def __init__(self, number: int) -> None:
        self.lock, self.number, self.lines = CONTEXT.Lock(), number, CONTEXT.SimpleQueue()

    def display(self, line: str) -> None:
        with self.lock:
            os.kill(os.getpid(), self.number)
            self.lines.put(line)


def worker(queue: Queue) -> None:
    def end(number: int, frame: Any) -> None:  # what Ansible's workers do
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(queue.number, end)
    action = object.__new__(FleetAction)
    action._display = queue
    action._signals.install()
    action._signals.install()  # once for every action of the process, and no harm in more
    action.tell("half of it")
    os._exit(7)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_line_is_printed_whole_before_the_process_ends(number: int) -> None:
    queue = Queue(number)
    process = CONTEXT.Process(target=worker, args=(queue,))
    process.start()
    process.join(30)
    assert process.exitcode == -number
    assert queue.lock.acquire(timeout=5)
    assert queue.lines.get() == "half of it"


def test_outside_a_block_nothing_is_put_off() -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: came.append(number))
    try:
        put_off = PutOff()
        put_off.install()
        os.kill(os.getpid(), signal.SIGTERM)
        assert came == [signal.SIGTERM]
        with put_off:
            os.kill(os.getpid(), signal.SIGTERM)
            assert came == [signal.SIGTERM]
        assert came == [signal.SIGTERM] * 2
    finally:
        signal.signal(signal.SIGTERM, before)


def interrupted_in_a_collection() -> None:
    """Ctrl-C while Python collects garbage: what the handler raises there goes nowhere."""

    class Thing:
        pass

    thing = Thing()
    reference = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGINT))
    del thing
    assert reference() is None


def test_an_interrupt_that_python_throws_away_is_raised_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    put_off = PutOff()
    put_off.check()
    put_off.keep_what_is_lost()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        interrupted_in_a_collection()
    finally:
        signal.signal(signal.SIGINT, before)
    with pytest.raises(KeyboardInterrupt):
        put_off.check()
    put_off.check()  # once
    assert capsys.readouterr().err == ""


def test_other_errors_in_a_collection_are_shown_as_before(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    put_off = PutOff()
    put_off.keep_what_is_lost()

    class Thing:
        def __del__(self) -> None:
            raise ValueError("in a collection")

    Thing()
    put_off.check()
    assert "in a collection" in capsys.readouterr().err
