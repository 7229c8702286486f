"""Saying how far asking many BMCs is, once that takes long enough for people to wonder."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

from .hardware import Record

FIRST_SECONDS = 5.0


class Progress:
    """Counts records, and tells a line after some seconds and then as often again, also when no BMC answers.

    Use it in a ``with`` statement, and give it each record. tell: shows a line; called from a thread of its own.
    """

    def __init__(self, total: int, tell: Callable[[str], None], every: float = FIRST_SECONDS) -> None:
        self.counts: Counter[str] = Counter()
        self._total = total
        self._tell = tell
        self._every = every
        self._started = time.monotonic()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._done.set()
        self._thread.join(1.0)

    def add(self, record: Record) -> None:
        self.counts[record.condition] += 1

    def line(self) -> str:
        """E.g. "480 of 500 BMCs done after 6 s: 470 ok, 10 unreachable"."""
        seconds = time.monotonic() - self._started
        said = ", ".join(f"{count} {condition}" for condition, count in self.counts.copy().most_common())
        line = f"{sum(self.counts.values())} of {self._total} BMCs done after {seconds:.0f} s"
        return f"{line}: {said}" if said else line

    def _watch(self) -> None:
        while not self._done.wait(self._every):
            self._tell(self.line())
