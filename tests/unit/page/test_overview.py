"""What the page counts: standings, the bring-up, causes, repeat offenders, weeks, versions."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from firstlight import report
from firstlight.findings import Finding
from firstlight.ledger.history import Change, Failure, HostHistory
from firstlight.ledger.store import STAGES
from firstlight.page import overview as page
from firstlight.page.overview import overview

BAD = Finding("gpu_count", "fail", "gpu.missing", "Video.Slot.6-1", "7 of 8", "reseat")
WARN = Finding("nic", "warn", "nic.no_link", "NIC.1")
NOW = "2026-03-05T14:00:00.000+00:00"  # a Thursday


def story(name, findings=(), state="ready", stages=STAGES, **more):
    ran = {stage: {"result": "passed", "seconds": 2.0} for stage in stages}
    held = [{**finding.to_dict(), "stage": "smoke", "first_seen": "2026-01-01"} for finding in findings]
    place = {"rack": "r1", "unit": 4, "service_tag": "T1", "profile": "xe9680"}
    return {"name": name, "state": state, "findings": held, "stages": ran, **place, **more}


def built(*stories):
    return {**report.build("lab", stories, "50%"), "written": NOW}


def failure(symptom="gpu.missing", at="2026-03-04T10:00:00.000+00:00", cleared=None):
    return Failure("smoke", symptom, "x", "reseat", at, at, cleared)


def machine(name="n1", **more):
    return HostHistory("T1", name, more.pop("state", "ready"), **more)


def change(at, before, after):
    return Change(f"{at}T12:00:00.000+00:00", before, after)


def standing_of(*arguments, **more):
    return overview(built(story("n1", *arguments, **more)), [])["hosts"][0]["standing"]


def test_how_a_host_stands():
    assert standing_of() == "ready"
    assert standing_of([WARN]) == "ready"
    assert standing_of([BAD], "planned", stages=()) == "failed"
    assert standing_of([BAD], "quarantined") == "quarantined"
    assert standing_of([], "in_repair", stages=STAGES[:2]) == "in_repair"
    assert standing_of([], "planned", stages=()) == "planned"
    assert standing_of([], "enlisted", stages=STAGES[:2]) == "under_way"


def test_texts_and_numbers_of_reasons_are_bounded_and_what_is_left_out_is_counted():
    many = [Finding("x", "fail", f"x.{n}", evidence="e" * 500) for n in range(9)]
    host = overview(built(story("n1", many, service_tag="T" * 300)), [])["hosts"][0]
    assert (len(host["reasons"]), host["reasons_left_out"]) == (page.REASONS_MAX, 9 - page.REASONS_MAX)
    assert max(len(reason["evidence"]) for reason in host["reasons"]) == page.EVIDENCE_MAX
    assert len(host["service_tag"]) == 40
    assert len(host["symptoms"]) == 9  # to filter by, all of them


def test_since_when_a_host_is_not_ready():
    held, gone = failure(at="2026-02-01T00:00:00+00:00"), failure(at="2026-01-01T00:00:00+00:00", cleared=NOW)
    told = overview(built(story("n1", [BAD]), story("n2")), [machine(failures=[gone, held]), machine("n2")])
    assert [host["since"] for host in told["hosts"]] == [held.first_seen, None]


def test_the_bring_up_counts_hosts_by_their_own_time():
    machines = [
        machine("n1", began="2026-03-01T00:00:00+00:00", passed={"discover": "2026-03-01T00:00:04+00:00"}),
        machine("n2", began="2026-03-02T00:00:00+00:00", passed={"discover": "2026-03-02T00:00:02+00:00"}),
        machine("n3", began="2026-03-02T00:00:00+00:00"),
        machine("n4"),
    ]
    (discover,) = page.bring_up(machines)
    assert discover["points"] == [[2.0, 1], [4.0, 2]]
    assert (discover["hosts"], discover["median_seconds"]) == (2, 3.0)
    assert discover["slowest"] == {"name": "n1", "seconds": 4.0}


def test_causes_now_and_lately():
    machines = [
        machine("n1", failures=[failure(), failure(cleared=NOW)]),
        machine("n2", failures=[failure("psu.failed", cleared=NOW)]),
        machine("n3", failures=[failure("psu.failed", cleared=NOW)]),
    ]
    told = overview(built(story("n1", [BAD]), story("n2"), story("n3")), machines)["causes"]
    assert told == [{"symptom": "gpu.missing", "now": 1, "lately": 1}, {"symptom": "psu.failed", "now": 0, "lately": 2}]


def test_a_host_that_only_waits_is_no_cause():
    assert overview(built(story("n1", stages=())), [])["causes"] == []


def test_offenders_failed_at_two_moments_and_not_with_two_findings_at_one():
    once = machine("n1", failures=[failure("gpu.lost"), failure("nvlink.inactive")])
    twice = machine(
        "n2",
        failures=[failure("xid.79", "2026-03-01T00:00:00+00:00", NOW), failure("xid.79"), failure("gpu.lost")],
        changes=[change("2026-03-01", "ready", "quarantined"), change("2026-03-02", "quarantined", "ready")],
        last_deed=("2026-03-03T00:00:00+00:00", "released"),
    )
    gone = machine(None, failures=twice.failures)
    (told,) = overview(built(story("n1"), story("n2", rack="r9")), [once, twice, gone])["offenders"]
    assert (told["name"], told["rack"], told["failures"], told["quarantined"]) == ("n2", "r9", 2, 1)
    assert told["symptoms"][0] == ["xid.79", 2]
    assert told["last"] == failure().first_seen
    assert told["last_deed"] == {"at": "2026-03-03T00:00:00+00:00", "what": "released"}


def test_the_worst_offenders_come_first_and_not_without_end():
    moments = [f"2026-02-{day:02d}T00:00:00+00:00" for day in range(1, 28)]
    machines = [machine(f"n{n}", failures=[failure(at=at) for at in moments[: n % 20 + 2]]) for n in range(60)]
    told = overview(built(*(story(f"n{n}") for n in range(60))), machines)["offenders"]
    assert len(told) == page.OFFENDERS_MAX
    assert [one["failures"] for one in told] == sorted((one["failures"] for one in told), reverse=True)


def test_weeks_count_those_that_were_ready_and_those_of_them_that_fell():
    steady = machine("n1", changes=[change("2026-02-10", "configured", "ready")])
    fell = machine(
        "n2",
        changes=[
            change("2026-02-10", "configured", "ready"),
            change("2026-02-17", "ready", "quarantined"),
            change("2026-03-03", "quarantined", "ready"),
        ],
    )
    removed = machine(None, changes=[change("2026-02-16", "configured", "ready")])
    never = machine("n3", state="planned")
    rows = page.weekly([steady, fell, removed, never], NOW, weeks=4)
    assert [(row["week"], row["ready"], row["failed"]) for row in rows] == [
        ("2026-W07", 2, 0),
        ("2026-W08", 3, 1),
        ("2026-W09", 2, 0),
        ("2026-W10", 3, 0),
    ]
    assert rows[1]["share"] == 1 / 3
    assert rows[0]["first_day"] == "2026-02-09"


def test_a_week_in_which_nothing_was_ready_has_no_share():
    assert [row["share"] for row in page.weekly([machine(state="planned")], NOW)] == [None] * page.WEEKS


def test_falling_twice_in_a_week_is_one_host():
    days = [("2026-03-02", "quarantined"), ("2026-03-03", "ready"), ("2026-03-04", "quarantined")]
    before, changes = "ready", []
    for day, after in days:
        changes.append(change(day, before, after))
        before = after
    assert page.weekly([machine(changes=changes)], NOW)[-1]["failed"] == 1


def test_versions_by_profile_those_that_differ_first_with_the_names_of_the_few():
    def told(driver, **more):
        return {"profile": "a", "values": {"gpu.driver": driver, "kernel": "6.8", "load": 1.5, **more}}

    values = {f"n{n}": told("580.1") for n in range(7)} | {"n7": told("575.9"), "other": {**told("1"), "profile": "b"}}
    first, *rest = page.versions(values)
    assert (first["profile"], first["name"]) == ("a", "gpu.driver")
    assert first["values"] == [
        {"value": "580.1", "hosts": 7, "names": []},
        {"value": "575.9", "hosts": 1, "names": ["n7"]},
    ]
    assert [(one["profile"], one["name"]) for one in rest] == [("a", "kernel"), ("b", "gpu.driver"), ("b", "kernel")]


def test_versions_are_bounded():
    values = {f"n{n}": {"profile": "a", "values": {"x": f"{n:02d}-" * 100}} for n in range(30)}
    (one,) = page.versions(values)
    assert (len(one["values"]), one["left_out"]) == (page.VALUES_MAX, 30 - page.VALUES_MAX)
    assert max(len(row["value"]) for row in one["values"]) <= 120


def test_hosts_that_are_not_of_the_fleet_have_no_versions_in_it():
    gone = {"old": {"profile": "a", "values": {"x": "1"}}}
    assert overview(built(story("n1")), [machine("n1")], gone)["versions"] == []


@given(st.text(), st.text(), st.text())
def test_whatever_a_host_says_it_is_json(symptom, evidence, tag):
    told = overview(
        built(story("n1", [Finding("x", "fail", symptom, evidence=evidence)], service_tag=tag)),
        [machine(failures=[failure(symptom)])],
        {"n1": {"profile": "a", "values": {"x": evidence}}},
    )
    assert json.loads(json.dumps(told)) == told


def test_changes_that_do_not_fit_together_give_no_share_above_all():
    odd = machine(changes=[change("2026-03-02", "planned", "installed"), change("2026-03-03", "ready", "quarantined")])
    (*_, last) = page.weekly([odd], NOW)
    assert (last["ready"], last["failed"], last["share"]) == (1, 1, 1.0)
