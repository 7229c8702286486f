"""The scripted week on paper: the same from the same seed, and with everything in it that must happen."""

from __future__ import annotations

import pytest

from simulators.bmc.faults import FAULTS, parameters
from simulators.lab import week_plan

HOSTS = ("r1-n01", "r1-n02", "r2-n01", "r2-n02")


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("days", [5, 7, 12])
def test_the_lemon_fails_three_times_by_the_same_gpu_and_every_day_somebody_fails(seed: int, days: int) -> None:
    week = week_plan.plan(seed, HOSTS, days)
    assert len(week.days) == days - 2
    assert all(week.days)
    lost = [failure for day in week.days for failure in day if failure.fault == "gpu_lost"]
    assert [failure.host for failure in lost] == [week.lemon] * 3
    assert len({failure.parameters for failure in lost}) == 1
    for day in week.days:
        assert len({failure.host for failure in day}) == len(day)
    for failure in (failure for day in week.days for failure in day):
        given = dict(word.split("=") for word in failure.parameters)
        assert parameters(failure.fault, {key: int(value) for key, value in given.items()})
        assert failure.fault in FAULTS


def test_a_week_is_made_by_its_seed_alone() -> None:
    assert week_plan.plan(7, HOSTS) == week_plan.plan(7, HOSTS)
    assert len({week_plan.plan(seed, HOSTS) for seed in range(20)}) > 15


@pytest.mark.parametrize(("hosts", "days"), [(HOSTS, 4), (HOSTS[:1], 7)])
def test_too_short_a_week_or_too_small_a_fleet_is_refused(hosts: tuple[str, ...], days: int) -> None:
    with pytest.raises(ValueError, match="5 days or more, and two hosts or more"):
        week_plan.plan(1, hosts, days)


def test_all_kills_are_spread_over_the_commands() -> None:
    week = week_plan.plan(7, HOSTS)
    spread = week_plan.spread(7, 50, week.commands())
    assert len(spread) == week.commands()
    assert sum(spread) == 50
    assert len({week_plan.spread(seed, 50, 20)[0] for seed in range(10)}) > 1
