"""Ctrl-C in one of Ansible's worker processes, put off while the worker holds a lock that outlives it.

A worker prints through a queue whose lock it shares with the main process, and Ansible ends it wherever a signal
finds it. One that dies inside the lock leaves a run that hangs for ever after Ctrl-C.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType, TracebackType
from typing import Any

Handler = Callable[[int, FrameType | None], Any]


class PutOff:
    """``with put_off:`` lets no signal end this process inside the block; one that came is handled at its end."""

    def __init__(self) -> None:
        self._inside = False
        self._came: list[tuple[Handler, int]] = []

    def install(self) -> None:
        """Stand before the handlers that are there; only a process's main thread can."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            before = signal.getsignal(number)
            if callable(before) and not (isinstance(before, partial) and before.func == self._handle):
                signal.signal(number, partial(self._handle, before))

    def _handle(self, before: Handler, number: int, frame: FrameType | None) -> None:
        if self._inside:
            self._came.append((before, number))
        else:
            before(number, frame)

    def __enter__(self) -> None:
        self._inside = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inside = False
        while self._came:
            before, number = self._came.pop(0)
            before(number, None)
