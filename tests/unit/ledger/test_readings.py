"""What the checks of a host read is remembered with the machine; and findings of checks that did not run stay."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from firstlight.findings import Finding
from firstlight.ledger.store import Ledger, ledger_url
from firstlight.sitefiles import PlannedHost

OK = Finding("gpu_count", "ok", "gpu_count")
FEW = Finding("gpu_count", "fail", "gpu.missing", "1 of 8", "7", "reseat")
SLOW = Finding("drive_read", "fail", "drive.slow", "nvme3", "90 MB/s", "replace")
WARM = Finding("drive_read", "warn", "drive.slow", "nvme4")
COUNTERS: dict[str, Any] = {"nvlink_counters": {"time": 1.5, "boot": "b", "value": {"GPU-0": {}}}}


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(ledger_url("ledger.sqlite", tmp_path))
    hosts = [
        PlannedHost(f"n{n}", "r1", n, f"10.0.0.{n}", "xe9680", service_tag=tag)
        for n, tag in ((1, "AAA"), (2, "BBB"), (3, None))
    ]
    ledger.plan("test", hosts)
    return ledger


def test_readings_are_replaced_by_kind(ledger):
    ledger.remember({"n1": {**COUNTERS, "kernel_log": {"x": 1}}, "n2": {}, "nobody": COUNTERS})
    ledger.remember({"n1": {"kernel_log": {"x": 2}}})

    assert ledger.remembered(["n1", "n2", "nobody"]) == {"n1": {**COUNTERS, "kernel_log": {"x": 2}}, "n2": {}}


def test_readings_belong_to_the_machine_and_not_to_its_name(ledger):
    ledger.remember({"n1": COUNTERS, "n2": {"kernel_log": {}}, "n3": {"kernel_log": {"x": 3}}})

    ledger.identify("n2", "AAA")  # the server of n1 answers at the place of n2 now
    ledger.identify("n3", "CCC")  # the first tag that its BMC tells
    ledger.plan("test", [PlannedHost("n1", "r1", 1, "10.0.0.1", "xe9680")])

    assert ledger.remembered(["n1", "n2", "n3"]) == {"n1": {}, "n2": COUNTERS, "n3": {"kernel_log": {"x": 3}}}


@pytest.mark.parametrize(("first", "left"), [("discover", {}), ("install", {}), ("configure", COUNTERS)])
def test_a_released_host_has_forgotten_what_its_checks_read(ledger, first, left):
    ledger.remember({"n1": COUNTERS, "n2": COUNTERS})

    ledger.undo("n1", first, "released")

    assert ledger.remembered(["n1", "n2"]) == {"n1": left, "n2": COUNTERS}


def test_values_of_all_hosts_that_have_some(ledger):
    ledger.remember({"n1": {"values": {"gpu": {"gpu.driver": "580"}, "disk": {"drive.s": 0.1}}}, "n2": COUNTERS})

    assert ledger.values() == {"n1": {"profile": "xe9680", "values": {"gpu.driver": "580", "drive.s": 0.1}}}


def test_a_damaged_reading_is_left_out(ledger, tmp_path):
    ledger.remember({"n1": {**COUNTERS, "values": {"gpu": {"a": 1}}}, "n2": {"values": {"gpu": 7}}})
    with sqlite3.connect(tmp_path / "ledger.sqlite") as db:
        db.execute("UPDATE reading SET value = '{' WHERE kind = 'nvlink_counters'")
        db.execute("UPDATE reading SET value = '[]' WHERE host_id = 1 AND kind = 'values'")

    assert ledger.remembered(["n1"]) == {"n1": {"values": []}}
    assert ledger.values() == {"n2": {"profile": "xe9680", "values": {}}}


def test_a_copy_has_the_readings_and_is_apart(ledger, tmp_path):
    again = Ledger(ledger_url("ledger.sqlite", tmp_path))
    again.remember({"n1": COUNTERS})

    other = Ledger(ledger_url("other.sqlite", tmp_path))
    again.copy_to(other)
    other.remember({"n2": COUNTERS})
    assert other.remembered(["n1", "n2"]) == {"n1": COUNTERS, "n2": COUNTERS}
    assert again.remembered(["n2"]) == {"n2": {}}


# ---------------------------------------------------------------- findings of checks that did not run


def held(ledger) -> set[tuple[str, str]]:
    return {(f["symptom"], f["locator"]) for f in ledger.story(["n1"])[0]["findings"]}


def test_what_a_check_found_that_did_not_run_is_held_and_says_no(ledger):
    for stage in ("discover", "enlist", "install", "configure"):
        ledger.end_stage(stage, "n1", [])
    assert not ledger.end_stage("smoke", "n1", [OK, SLOW, WARM])

    assert not ledger.end_stage("smoke", "n1", [OK], keep=["drive_read"])
    assert held(ledger) == {("gpu_count", ""), ("drive.slow", "nvme3"), ("drive.slow", "nvme4")}
    assert ledger.passed("smoke", ["n1"]) == set()
    assert ledger.states()["n1"] == "configured"

    assert ledger.end_stage("smoke", "n1", [OK, Finding("drive_read", "ok", "drive_read")])
    assert held(ledger) == {("gpu_count", ""), ("drive_read", "")}
    assert ledger.states()["n1"] == "ready"


def test_only_those_checks_are_held_over(ledger):
    ledger.end_stage("smoke", "n1", [FEW, WARM])

    assert ledger.end_stage("smoke", "n1", [OK], keep=["drive_read"])
    assert held(ledger) == {("gpu_count", ""), ("drive.slow", "nvme4")}


def test_what_is_held_is_forgotten_with_the_installation(ledger):
    ledger.end_stage("smoke", "n1", [SLOW])

    ledger.undo("n1", "install", "released")

    assert held(ledger) == set()
