"""What the ledger tells of weeks: how machines came up, what failed on them, how they changed."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from firstlight.errors import FirstlightError
from firstlight.findings import Finding
from firstlight.ledger import history as ledger_history
from firstlight.ledger import store
from firstlight.ledger.history import Change, Failure, history, weeks_before
from firstlight.ledger.store import STAGES, Ledger, ledger_url
from firstlight.sitefiles import PlannedHost

OK = Finding("gpu_count", "ok", "gpu_count", evidence="8 of 8")
WARN = Finding("nic", "warn", "nic.no_link", "NIC.1")
MISSING = Finding("gpu_count", "fail", "gpu.missing", "Video.Slot.6-1", "7 of 8", "reseat")


class Clock:
    """Each look at it is a minute later."""

    def __init__(self) -> None:
        self.minute = 0

    def __call__(self) -> str:
        self.minute += 1
        return at(self.minute)


def at(minute: int) -> str:
    return f"2026-03-02T{minute // 60:02d}:{minute % 60:02d}:00.000+00:00"


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "now", Clock())
    ledger = Ledger(ledger_url("ledger.sqlite", tmp_path))
    ledger.plan("test", [PlannedHost(f"n{n}", "r1", n, f"10.0.0.{n}", "xe9680", service_tag=f"T{n}") for n in (1, 2)])
    return ledger


def through(ledger, name, findings=(OK,), stages=STAGES):
    for stage in stages:
        ledger.begin_stage(stage, [name])
        ledger.end_stage(stage, name, findings)


def one(ledger):
    return history(ledger, at(0))[0]


def test_a_host_that_no_run_has_met(ledger):
    first, second = history(ledger, at(0))
    assert (first.name, first.service_tag, first.state) == ("n1", "T1", "planned")
    assert (first.began, first.passed, first.failures, first.changes, first.last_deed) == (None, {}, [], [], None)
    assert second.name == "n2"


def test_stages_are_told_from_the_first_pass_and_not_from_later_ones(ledger):
    through(ledger, "n1")
    before = one(ledger)
    assert before.began == at(1)
    assert before.passed == {stage: at(2 * number) for number, stage in enumerate(STAGES, 1)}
    through(ledger, "n1")
    assert (one(ledger).began, one(ledger).passed) == (before.began, before.passed)


def test_a_stage_that_failed_is_not_passed_until_it_is(ledger):
    through(ledger, "n1", [MISSING], STAGES[:1])
    assert one(ledger).passed == {}
    through(ledger, "n1", stages=STAGES[:1])
    assert one(ledger).passed == {"discover": at(4)}


def test_after_a_release_it_begins_anew(ledger):
    through(ledger, "n1")
    ledger.undo("n1", "install", "released")
    assert (one(ledger).began, one(ledger).passed) == (None, {})
    through(ledger, "n1", stages=STAGES[:2])
    assert sorted(one(ledger).passed) == ["discover", "enlist"]
    assert one(ledger).began > at(10)


def test_failures_and_nothing_else_with_when_they_came_and_went(ledger):
    through(ledger, "n1", [OK, WARN, MISSING], STAGES[:1])
    held = Failure("discover", "gpu.missing", "Video.Slot.6-1", "reseat", at(2), at(2))
    assert one(ledger).failures == [held]
    through(ledger, "n1", stages=STAGES[:1])
    assert [failure.cleared for failure in one(ledger).failures] == [at(4)]
    through(ledger, "n1", [MISSING], STAGES[:1])
    assert [failure.first_seen for failure in one(ledger).failures] == [at(2), at(6)]


def test_failures_from_before_are_left_out_but_those_that_hold(ledger):
    through(ledger, "n1", [MISSING], STAGES[:1])
    through(ledger, "n1", stages=STAGES[:1])
    through(ledger, "n2", [MISSING], STAGES[:1])
    first, second = history(ledger, at(1000))
    assert first.failures == []
    assert [failure.symptom for failure in second.failures] == ["gpu.missing"]


def test_a_finding_that_comes_and_goes_is_told_so_often_and_no_more(ledger, monkeypatch):
    monkeypatch.setattr(ledger_history, "FAILURES_MAX", 4)
    for _ in range(5):
        ledger.end_stage("discover", "n1", [MISSING, Finding("psu", "fail", "psu.failed")])
        ledger.end_stage("discover", "n1", [])
    assert [failure.first_seen for failure in one(ledger).failures] == [at(7), at(7), at(9), at(9)]


def test_changes_of_state_and_the_last_deed(ledger):
    through(ledger, "n1")
    ledger.deed("n1", "disk erased")
    ledger.deed("n1", "released")
    ledger.set_state("n1", "quarantined", "smoke: gpu.missing")
    told = one(ledger)
    assert [change.after for change in told.changes][-2:] == ["ready", "quarantined"]
    assert told.changes[0] == Change(at(2), "planned", "discovered", "passed discover")
    assert told.last_deed == (at(12), "released")


def test_a_machine_whose_name_went_to_another_is_told_without_name(ledger):
    through(ledger, "n1", [MISSING], STAGES[:1])
    ledger.identify("n1", "NEW1")
    told = {machine.service_tag: machine for machine in history(ledger, at(0))}
    assert (told["T1"].name, len(told["T1"].failures)) == (None, 1)
    assert (told["NEW1"].name, told["NEW1"].failures) == ("n1", [])


def test_a_ledger_that_cannot_be_read_is_one_line(ledger):
    with ledger._engine.begin() as connection:
        connection.execute(text("DROP TABLE finding"))
    with pytest.raises(FirstlightError, match=r"ledger .*ledger\.sqlite cannot be used: "):
        history(ledger, at(0))


@pytest.mark.parametrize(
    ("now", "weeks", "monday"),
    [
        ("2026-03-05T14:20:00.000+00:00", 1, "2026-03-02T00:00:00.000+00:00"),
        ("2026-03-02T00:00:00.000+00:00", 1, "2026-03-02T00:00:00.000+00:00"),
        ("2026-03-01T23:59:59.999+00:00", 2, "2026-02-16T00:00:00.000+00:00"),
    ],
)
def test_weeks_begin_on_monday(now, weeks, monday):
    assert weeks_before(now, weeks) == monday
