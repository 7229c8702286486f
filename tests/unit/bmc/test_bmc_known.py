"""What is known of the BMCs, whom a limit means, and how progress is told."""

from __future__ import annotations

import datetime
import time

import pytest

from firstlight.bmc.hardware import Gpu, Hardware, Record
from firstlight.bmc.known import (
    age,
    before_it_changed,
    from_entries,
    is_fresh,
    limited_to,
    merge,
    not_asked,
    to_entries,
)
from firstlight.bmc.progress import Progress
from firstlight.sitefiles import Fleet, PlannedHost

HOSTS = [PlannedHost(f"n{n}", f"r-{n % 2}", n, f"10.0.0.{n}", "xe9680") for n in range(1, 5)]
FLEET = Fleet("test", HOSTS)


def record(name: str = "n1", condition: str = "ok", seconds_ago: float = 0, **more: object) -> Record:
    asked = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds_ago)
    return Record(name, condition, "", asked.isoformat(), 1.0, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("limit", "hosts"),
    [
        (None, None),
        ("", None),
        ("n1", {"n1"}),
        ("n1,n3", {"n1", "n3"}),
        ("n1:n3", {"n1", "n3"}),
        ("rack_r_1", {"n1", "n3"}),
        ("rack_r_1:!n3", {"n1", "n3"}),  # asking one too many is no harm
        ("fleet:&rack_r_1", {"n1", "n2", "n3", "n4"}),
        ("state_ready,n4", {"n2", "n4"}),
        ("localhost,n2", {"n2"}),
        ("localhost", set()),
        ("profile_xe9680", {"n1", "n2", "n3", "n4"}),
        ("!n1", None),
        ("n*", None),
        ("n[1:2]", None),
        ("~n1", None),
        ("@retry", None),
        ("bmc_ok", None),
        ("n1,canary", None),
        ("rack_r-1", None),
    ],
)
def test_whom_a_limit_means_at_most(limit: str | None, hosts: set[str] | None) -> None:
    assert limited_to(limit, FLEET, {"n2": "ready"}) == hosts


def test_entries_come_back() -> None:
    known = {"n1": record(hardware=Hardware(model="x")), "n2": record("n2", "unreachable")}
    previous = {"n1": record(hardware=Hardware(model="y")), "n3": None}
    entries = to_entries(FLEET, known, previous)
    assert from_entries(FLEET, entries) == known
    assert from_entries(FLEET, entries, "previous") == {"n1": previous["n1"]}


def test_entries_of_another_address_or_of_nonsense_are_worth_nothing() -> None:
    entries = to_entries(FLEET, {"n1": record()}, {})
    moved = Fleet("test", [PlannedHost("n1", "r", 1, "10.0.0.99", "xe9680")])
    assert from_entries(moved, entries) == {}
    for nonsense in (None, 3, [], {"n1": 3}, {"n1": {"bmc": "10.0.0.1 port 443", "record": {"condition": "fine"}}}):
        assert from_entries(FLEET, nonsense) == {}


def test_a_failure_keeps_the_last_good_hardware() -> None:
    good, bad = record(hardware=Hardware(model="x")), record(condition="unreachable")
    merged = merge(bad, good)
    assert (merged.condition, merged.stale, merged.hardware) == ("unreachable", True, good.hardware)
    assert merge(bad, merged).hardware == good.hardware
    assert merge(good, merged) == good
    assert merge(bad, None) == bad


def test_what_was_before_parts_changed_is_kept() -> None:
    """A GPU that vanished between two answers is still missed at the third."""
    eight = record(hardware=Hardware(gpus=[Gpu(str(n)) for n in range(8)]))
    seven = record(hardware=Hardware(gpus=[Gpu(str(n)) for n in range(7)]))
    gone = record(condition="unreachable")
    assert before_it_changed(eight, None, None) is None
    assert before_it_changed(eight, eight, None) is None
    assert before_it_changed(seven, eight, None) is eight
    assert before_it_changed(seven, seven, eight) is eight
    assert before_it_changed(gone, seven, eight) is eight
    assert before_it_changed(seven, merge(gone, eight), None).hardware == eight.hardware
    old = record(hardware=eight.hardware, seconds_ago=31 * 86400)
    assert before_it_changed(seven, seven, old) is None


def test_ages() -> None:
    assert is_fresh(record(seconds_ago=59))
    assert not is_fresh(record(seconds_ago=61))
    assert not is_fresh(record(seconds_ago=-5)), "from the future"
    assert age(not_asked("n1", "x")) == -1


def test_progress_is_told_also_when_nobody_answers() -> None:
    told: list[str] = []
    with Progress(3, told.append, every=0.05) as progress:
        time.sleep(0.2)
        progress.add(record())
        progress.add(record(condition="unreachable"))
        time.sleep(0.2)
    count = len(told)
    assert told[0].startswith("0 of 3 BMCs done after 0 s")
    assert told[-1].endswith(": 1 ok, 1 unreachable")
    time.sleep(0.2)
    assert len(told) == count


def test_what_is_quick_is_not_told() -> None:
    told: list[str] = []
    with Progress(1, told.append) as progress:
        progress.add(record())
    assert told == []
