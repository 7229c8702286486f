"""Ctrl-C in one of Ansible's processes, put off where it would do harm or be lost.

A worker prints through a queue whose lock it shares with the main process, and Ansible ends it wherever a signal
finds it. One that dies inside the lock leaves a run that hangs for ever after Ctrl-C.

In the main process Ansible's handler raises KeyboardInterrupt, and Python throws away what is raised while it collects
garbage: a Ctrl-C that falls there would show a traceback and be forgotten.
"""

from __future__ import annotations

import signal
import sys
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
        self._lost = False

    def install(self) -> None:
        """Stand before the handlers that are there; only a process's main thread can."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            before = signal.getsignal(number)
            if callable(before) and not (isinstance(before, partial) and before.func == self._handle):
                signal.signal(number, partial(self._handle, before))

    def keep_what_is_lost(self) -> None:
        """From now on a Ctrl-C that Python throws away is not shown, and raised again by ``check``."""
        before = sys.unraisablehook

        def unraisable(what: sys.UnraisableHookArgs) -> None:
            if issubclass(what.exc_type, KeyboardInterrupt):
                self._lost = True
            else:
                before(what)

        sys.unraisablehook = unraisable

    def check(self) -> None:
        """Raise KeyboardInterrupt if one was thrown away."""
        if self._lost:
            self._lost = False
            raise KeyboardInterrupt

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
