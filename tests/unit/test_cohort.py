"""Hosts beside hosts of their profile: who differs is told, noise and rollouts are not, and nothing raises."""

from __future__ import annotations

import json
import random
import re
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstlight.cohort import FINDINGS_MAX, HOSTS_MIN, NUMBERS, judge
from firstlight.findings import Finding


def fleet(name: str, values: list[Any], profile: str = "xe9680") -> dict[str, dict[str, Any]]:
    return {f"n{n:03}": {"profile": profile, "values": {name: value}} for n, value in enumerate(values)}


def said(found: dict[str, list[Finding]]) -> dict[str, list[str]]:
    return {name: [f"{f.symptom} {f.locator}" for f in findings] for name, findings in found.items() if findings}


def test_one_text_that_differs_is_told_with_what_the_others_have() -> None:
    found = judge(fleet("gpu.driver", ["580.95.05"] * 7 + ["570.1"]))

    evidence = "570.1; 7 of 8 hosts of profile xe9680 have 580.95.05"
    assert found.pop("n007") == [Finding("cohort", "warn", "cohort.differs", "gpu.driver", evidence)]
    assert found == {f"n{n:03}": [] for n in range(7)}


@pytest.mark.parametrize(
    ("values", "odd"),
    [
        (["a"] * 4 + ["b"], ["n004"]),
        (["a"] * 3 + ["b"] * 2, []),  # no majority
        (["a"] * 3 + ["b"], []),  # too few hosts
        (["a"] * 15 + ["b"] * 5, ["n015", "n016", "n017", "n018", "n019"]),
        (["a"] * 14 + ["b"] * 6, []),  # a roll-out under way
        (["a"] * 4 + [""], ["n004"]),
        ([1] * 9 + [2], []),  # a number that no rule is for
    ],
)
def test_a_text_needs_a_clear_majority_of_enough_hosts(values: list[Any], odd: list[str]) -> None:
    assert sorted(said(judge(fleet("kernel.release", values)))) == odd


def test_hosts_are_compared_within_their_profile_only() -> None:
    hosts = {**fleet("gpu.driver", ["a"] * 6), "x": {"profile": "other", "values": {"gpu.driver": "b"}}}

    assert said(judge(hosts)) == {}
    assert said(judge({**hosts, "x": {"profile": "xe9680", "values": {"gpu.driver": "b"}}})) == {
        "x": ["cohort.differs gpu.driver"]
    }


def test_a_host_that_does_not_tell_a_value_is_no_odd_one() -> None:
    hosts = {**fleet("gpu.driver", ["a"] * 6), "x": {"profile": "xe9680", "values": {"kernel.release": "6.1"}}}
    assert said(judge(hosts)) == {}


def test_a_number_far_from_the_median_is_told_with_median_and_spread() -> None:
    reads = [0.0021, 0.0022, 0.0020, 0.0021, 0.0023, 0.0022, 0.0180]
    found = judge(fleet("drive.read_seconds_max", reads))

    assert said(found) == {"n006": ["cohort.outlier drive.read_seconds_max"]}
    evidence = found["n006"][0].evidence
    assert evidence.startswith("0.018 s; the median of 7 hosts of profile xe9680 is 0.0022, half of them lie within 0.")
    assert found["n006"][0].status == "warn"
    assert found["n006"][0].action == "none"


@pytest.mark.parametrize(
    ("name", "values", "odd"),
    [
        # alike to the last digit: then nothing but the floor decides
        ("gpu.idle_celsius_max", [31.0] * 9 + [40.0], []),
        ("gpu.idle_celsius_max", [31.0] * 9 + [42.0], ["n009"]),
        ("gpu.idle_celsius_max", [31.0] * 9 + [10.0], []),  # cooler is well
        # wide apart as they are, this is one of them
        ("gpu.idle_celsius_max", [30, 34, 38, 42, 46, 50, 54, 58, 62, 80], []),
        ("drive.read_mbytes_min", [6800, 6900, 6750, 6820, 6850, 3100], ["n005"]),
        ("drive.read_mbytes_min", [6800, 6900, 6750, 6820, 6850, 9900], []),  # faster is well
        ("cpu.busy_mhz_min", [3700.0] * 9 + [2000.0], ["n009"]),
        ("memory.total_bytes", [2**41] * 9 + [2**41 * 31 // 32], ["n009"]),
        ("memory.total_bytes", [2**41] * 9 + [2**41 * 33 // 32], ["n009"]),
        ("memory.total_bytes", [2**41] * 9 + [2**41 - 2**30], []),
        ("gpu.corrected_errors_per_day", [0.0] * 9 + [9.0], []),
        ("gpu.corrected_errors_per_day", [0.0] * 9 + [90.0], ["n009"]),
        # two kinds of hosts are no outliers
        ("cpu.busy_mhz_min", [3700.0] * 7 + [2000.0] * 3, []),
        ("cpu.busy_mhz_min", [3700.0] * 3 + [2000.0], []),  # too few hosts
        ("cpu.busy_mhz_min", [3700.0] * 9 + ["2000"], []),  # a text where a number belongs
    ],
)
def test_floor_direction_and_groups(name: str, values: list[Any], odd: list[str]) -> None:
    assert sorted(said(judge(fleet(name, values)))) == odd


@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_every_rule_names_one_far_host_and_none_of_a_tight_cohort(name: str) -> None:
    rule = NUMBERS[name]
    usual = 100.0
    far = usual + 3 * max(rule.least, rule.share * usual) * (-1 if rule.worse == "less" else 1)
    near = usual + 0.9 * max(rule.least, rule.share * usual)

    assert rule.worse in ("more", "less", "either")
    assert max(rule.least, rule.share) > 0
    assert sorted(said(judge(fleet(name, [usual] * 8 + [near])))) == []
    assert sorted(said(judge(fleet(name, [usual] * 8 + [far])))) == ["n008"]


def test_noise_of_a_large_fleet_is_no_finding() -> None:
    """The floors away, so that the spread alone decides: 500 hosts, a hundred runs."""
    chance = random.Random(7)
    named = 0
    for _ in range(100):
        temperatures = [60 + chance.gauss(0, 5) for _ in range(500)]
        named += len(said(judge(fleet("gpu.idle_celsius_max", temperatures))))
    assert named <= 2


def test_a_host_that_differs_in_everything_is_not_a_hundred_lines() -> None:
    names = [f"v{n:02}" for n in range(60)]
    hosts = {f"n{n}": {"profile": "p", "values": dict.fromkeys(names, "a")} for n in range(8)}
    hosts["odd"] = {"profile": "p", "values": dict.fromkeys(names, "b")}

    found = judge(hosts)["odd"]

    assert len(found) == FINDINGS_MAX
    assert (found[-1].symptom, found[-1].evidence) == ("cohort.more", "41 more values differ, first: v19")


def test_what_hosts_tell_is_bounded_in_number_and_length() -> None:
    hosts = fleet("gpu.driver", ["a"] * 6 + ["b\x1b[2J\n" * 5000])
    hosts["n000"]["values"].update({f"x{n}": "y" for n in range(5000)})

    evidence = judge(hosts)["n006"][0].evidence

    assert len(evidence) < 250
    assert evidence.isprintable()


SCALAR = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(10**400)
ANYTHING = st.recursive(SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SCALAR, inner, max_size=3))
VALUES = st.dictionaries(st.sampled_from([*NUMBERS, "gpu.driver", "A B", ""]) | st.text(max_size=5), SCALAR, max_size=8)
HOST = ANYTHING | st.fixed_dictionaries({"profile": st.sampled_from(["a", "b"]) | SCALAR, "values": VALUES | ANYTHING})


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.text(max_size=3), HOST, max_size=12))
def test_no_value_raises_and_all_hosts_are_answered(hosts: dict[str, Any]) -> None:
    found = judge(hosts)

    assert set(found) == set(hosts)
    for finding in (f for findings in found.values() for f in findings):
        assert (finding.check, finding.status, finding.action) == ("cohort", "warn", "none")
        assert re.fullmatch(r"[a-z0-9_.]*", finding.locator)
    json.dumps([f.to_dict() for findings in found.values() for f in findings], allow_nan=False)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "c"]) | st.floats(), max_size=40), st.sampled_from(["gpu.driver", *NUMBERS]))
def test_at_most_a_quarter_is_odd_and_the_order_of_hosts_does_not_matter(values: list[Any], name: str) -> None:
    hosts = fleet(name, values)
    found = said(judge(hosts))

    assert len(found) <= len(hosts) / 4
    assert len(hosts) >= HOSTS_MIN or not found
    assert said(judge(dict(reversed(hosts.items())))) == found


def test_a_thousand_hosts_with_sixty_values_cost_little() -> None:
    chance = random.Random(1)
    hosts = {
        f"n{n}": {
            "profile": "p",
            "values": {f"t{i}": "x" for i in range(46)} | {name: chance.gauss(100, 1) for name in NUMBERS},
        }
        for n in range(1000)
    }
    before = time.process_time()
    judge(hosts)
    assert time.process_time() - before < 10  # far below a second on a free machine; no test fails for being slow
