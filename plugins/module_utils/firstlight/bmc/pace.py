"""How many BMCs are spoken with at a time: more while that costs nothing, fewer again when it makes answers slow."""

from __future__ import annotations

import time

_EVERY = 0.5  # seconds between two looks
_ANSWERS = 20  # that a look is judged from
_CALM, _BUSY = 0.5, 0.7  # CPU of this process, where 1 is all that Python's threads can use
_QUICK, _SLOW = 1.4, 1.7  # times the quickest answers of this run


class Pace:
    """From ``workers`` to twice as many. ``limit`` is the number now, ``usual`` the seconds that an answer takes now.

    BMCs do not slow each other down, but a controller that does too much at once is late for all of them, and then
    healthy ones look as if they did not answer.
    """

    def __init__(self, workers: int) -> None:
        self._least, self._most = workers, 2 * workers
        self.limit = workers
        self.usual = 0.0
        self._quickest = float("inf")
        self._seen = (time.monotonic(), time.process_time(), 0.0, 0)

    def look(self, spent: float, answers: int) -> None:
        """Judge anew, when it is time to. spent: seconds that all answers so far took; answers: their number."""
        now, cpu = time.monotonic(), time.process_time()
        then, cpu_then, spent_then, answers_then = self._seen
        if now - then < _EVERY or answers - answers_then < _ANSWERS:
            return
        self._seen = (now, cpu, spent, answers)
        self.judge((spent - spent_then) / (answers - answers_then), (cpu - cpu_then) / (now - then))

    def judge(self, seconds: float, cpu: float) -> None:
        """seconds: what an answer took since the last look; cpu: this process's CPU seconds per second."""
        self.usual = seconds
        self._quickest = min(self._quickest, seconds)
        if cpu > _BUSY or seconds > _SLOW * self._quickest:
            self.limit = max(self._least, int(self.limit * 0.9))
        elif cpu < _CALM and seconds < _QUICK * self._quickest:
            self.limit = min(self._most, self.limit + max(1, self._least // 10))
