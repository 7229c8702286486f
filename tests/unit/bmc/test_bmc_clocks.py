"""BMC clocks against MAAS's at discovery."""

from __future__ import annotations

from dataclasses import replace

import bmc_trees as trees
import pytest

from firstlight.bmc.fetch import TreeReader, read_tree
from firstlight.bmc.hardware import Record
from firstlight.bmc.normalise import normalise
from firstlight.bmc.triage import bmc_clock, judge_clocks, triage
from firstlight.clocks import Reading
from firstlight.profile import Profile
from firstlight.sitefiles import PlannedHost

PLANNED = PlannedHost("n1", "r1", 4, "192.0.2.1", "p")
PROFILE = Profile("p", "Dell Inc.", "PowerEdge XE9680", limits={"clock_skew_seconds": 30})


def record(skew: int | None, **more: object) -> Record:
    read = read_tree(TreeReader(trees.xe9680()))
    hardware = replace(normalise(read.resources, trees.NOW, read.failures), bmc_clock_skew_seconds=skew)
    return Record("n1", "ok", "", trees.NOW.isoformat(), 1.0, hardware=hardware, **more)


def clocks(skew: int | None, maas: Reading | None, profile: Profile = PROFILE) -> list[tuple[str, str]]:
    seen = record(skew)
    found = judge_clocks(triage(PLANNED, seen, profile), seen, profile, maas)
    return [(f.status, f.evidence) for f in found if f.check == "clock"]


def maas(skew: float) -> Reading:
    return Reading("MAAS's clock", skew, 0.5)


def test_without_maas_the_controllers_clock_counts():
    ((status, evidence),) = clocks(400, None)
    assert (status, evidence) == ("warn", "the BMC's clock is 400 s ahead; 30 s are allowed")


@pytest.mark.parametrize(
    ("skew", "of_maas", "status"),
    [(5, 0, "ok"), (400, 0, "fail"), (200, 0, "warn"), (400, 395, "ok"), (0, 400, "fail")],
)
def test_with_maas_its_clock_counts_and_there_is_one_finding(skew, of_maas, status):
    ((found, _),) = clocks(skew, maas(of_maas))
    assert found == status


def test_the_profile_can_allow_more_before_it_stops_the_host():
    profile = replace(PROFILE, limits={"bmc_clock_fail_seconds": 3600})
    assert [s for s, _ in clocks(400, maas(0), profile)] == ["warn"]


def test_a_clock_that_was_not_read_now_is_not_compared():
    assert bmc_clock(record(3, stale=True)) is None
    assert bmc_clock(record(None)) is None
    assert clocks(None, maas(0)) == [("warn", "the BMC does not tell its time")]
    dead = Record("n1", "unreachable", "no route", trees.NOW.isoformat(), 1.0)
    known = triage(PLANNED, dead, PROFILE)
    assert judge_clocks(known, dead, PROFILE, maas(0)) == known
