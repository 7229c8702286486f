"""A week in the life of a small fleet, made from a seed: what fails, when, and what mends it. Pure."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

SHORTEST = 5  # days: bring-up, three on which the lemon fails, and the one without a mirror


@dataclass(frozen=True)
class Failure:
    """One host fails. parameters: of the simulator's fault. symptom: what must be found. part: what staff replace, as
    scripts/lab replace calls it; "" where mending it changes no part."""

    host: str
    fault: str
    parameters: tuple[str, ...]
    symptom: str
    part: str = ""


@dataclass(frozen=True)
class Week:
    """days: what fails on the second day, the third ...; the first brings the fleet up, the last has no mirror.

    lemon: the host that fails three times by its GPU.
    """

    lemon: str
    days: tuple[tuple[Failure, ...], ...]

    def commands(self) -> int:
        """How many commands an operator starts: see week.py."""
        failures = sum(len(day) for day in self.days)
        return 1 + len(self.days) + 1 + failures + 4


def plan(seed: int, hosts: Sequence[str], days: int = 7) -> Week:
    """ValueError where there are too few hosts or days for what must happen."""
    if days < SHORTEST or len(hosts) < 2:
        raise ValueError(f"a week has {SHORTEST} days or more, and two hosts or more")
    chosen = random.Random(seed)
    lemon, gpu = chosen.choice(list(hosts)), chosen.randrange(8)
    working = days - 2
    lemon_days = set(chosen.sample(range(working), 3))
    others = [host for host in hosts if host != lemon]
    planned = []
    for day in range(working):
        failures = []
        if day in lemon_days:
            failures.append(Failure(lemon, "gpu_lost", (f"gpu={gpu}",), "gpu.lost", f"gpu{gpu}"))
        if day not in lemon_days or chosen.random() < 0.4:
            failures.append(_any_failure(chosen, chosen.choice(others)))
        planned.append(tuple(failures))
    return Week(lemon, tuple(planned))


def _any_failure(chosen: random.Random, host: str) -> Failure:
    number = chosen.randrange(1, 8)
    return chosen.choice(
        (
            Failure(host, "pcie_narrow", (f"gpu={number}", "width=4"), "pcie.narrow"),
            Failure(host, "psu_failed", (f"psu={1 + number % 6}",), "psu.failed", f"psu{1 + number % 6}"),
            Failure(host, "nvme_failed", (f"drive={number}",), "nvme.failed", f"nvme{number}"),
        )
    )


def spread(seed: int, kills: int, commands: int) -> list[int]:
    """How often each command is killed before it may end: ``kills`` in all."""
    chosen = random.Random(seed)
    counted = Counter(chosen.randrange(commands) for _ in range(kills))
    return [counted[number] for number in range(commands)]
