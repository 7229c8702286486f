"""How many BMCs are spoken with at a time: more while that costs nothing, fewer again when it makes answers slow."""

from __future__ import annotations

import time
from pathlib import Path

_EVERY = 0.5  # seconds between two looks
_ANSWERS = 20  # that a look is judged from
_CALM, _BUSY = 0.5, 0.7  # CPU of this process, where 1 is all that Python's threads can use
_QUICK, _SLOW = 1.4, 1.7  # times the quickest answers of this run
_STARVED = 0.6  # share of its time that this process waited for a CPU when it could have run


class Pace:
    """From ``workers`` to twice as many; down to a quarter of them where other programs take the CPU.

    ``limit`` is the number now, ``usual`` the seconds that an answer takes now.

    BMCs do not slow each other down, but a controller that does too much at once is late for all of them, and then
    healthy ones look as if they did not answer.
    """

    def __init__(self, workers: int) -> None:
        self._least, self._most = workers, 2 * workers
        self.limit = workers
        self.usual = 0.0
        self._quickest = float("inf")
        self._seen = (time.monotonic(), time.process_time(), 0.0, 0)
        self._waited = _cpu_wait()

    def look(self, spent: float, answers: int) -> None:
        """Judge anew, when it is time to. spent: seconds that all answers so far took; answers: their number."""
        now, cpu = time.monotonic(), time.process_time()
        then, cpu_then, spent_then, answers_then = self._seen
        if now - then < _EVERY or answers - answers_then < _ANSWERS:
            return
        self._seen = (now, cpu, spent, answers)
        ran_then, waited_then = self._waited
        self._waited = _cpu_wait()
        ran, waited = self._waited[0] - ran_then, self._waited[1] - waited_then
        starved = waited > _STARVED * (ran + waited) > 0
        self.judge((spent - spent_then) / (answers - answers_then), (cpu - cpu_then) / (now - then), starved)

    def judge(self, seconds: float, cpu: float, starved: bool = False) -> None:
        """seconds: what an answer took since the last look; cpu: this process's CPU seconds per second.

        starved: this process mostly waits for a CPU. Then fewer at a time get as much done, each well within its time.
        """
        self.usual = seconds
        slow = seconds > _SLOW * self._quickest
        self._quickest = min(self._quickest, seconds)
        if starved and slow:
            self.limit = max(1, self._least // 4, int(self.limit * 0.8))
        elif self.limit < self._least:
            self.limit = min(self._least, self.limit + max(1, self._least // 10))
        elif cpu > _BUSY or slow:
            self.limit = max(self._least, int(self.limit * 0.9))
        elif cpu < _CALM and seconds < _QUICK * self._quickest:
            self.limit = min(self._most, self.limit + max(1, self._least // 10))


def _cpu_wait() -> tuple[float, float]:
    """Nanoseconds that the main thread ran, and waited for a CPU; zeros where the system does not tell."""
    try:
        ran, waited, _slices = Path("/proc/self/schedstat").read_text().split()
        return float(ran), float(waited)
    except (OSError, ValueError):
        return 0.0, 0.0
