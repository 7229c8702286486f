"""A repair as the ledger knows it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from firstlight.findings import Finding
from firstlight.ledger import repairs
from firstlight.ledger.store import STAGES, Ledger, ledger_url
from firstlight.sitefiles import PlannedHost

HOSTS = ("a", "b", "c")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger(ledger_url("ledger.sqlite", tmp_path))
    ledger.plan("test", [PlannedHost(name, "r1", n, f"10.0.0.{n}", "xe9680") for n, name in enumerate(HOSTS, 1)])
    return ledger


def begin(ledger: Ledger, name: str = "a") -> None:
    repairs.begin(ledger, name, "new GPU", f"{repairs.BEGUN}new GPU")


def passes(ledger: Ledger, *stages: str, name: str = "a") -> None:
    for stage in stages:
        ledger.begin_stage(stage, [name])
        assert ledger.end_stage(stage, name, [Finding(stage, "ok", stage)])


def test_a_repair_goes_on_until_the_host_is_ready(ledger: Ledger) -> None:
    assert repairs.current(ledger, "a") is None
    passes(ledger, *STAGES)
    begin(ledger)
    repair = repairs.current(ledger, "a")
    assert repair is not None and not repair.installing and not repair.installed
    passes(ledger, "install")
    repair = repairs.current(ledger, "a")
    assert repair is not None and not repair.installed  # nothing was deployed: it is the old system
    ledger.deed("a", "deploy bookworm to a (abc), overwriting X")
    ledger.begin_stage("install", ["a"])
    repair = repairs.current(ledger, "a")
    assert repair is not None and repair.installing and not repair.installed and not repair.tried
    ledger.end_stage("install", "a", [Finding("install", "fail", "install.no_ssh")])
    repair = repairs.current(ledger, "a")
    assert repair is not None and repair.tried and not repair.installed
    ledger.begin_stage("install", ["a"])
    repair = repairs.current(ledger, "a")
    assert repair is not None and not repair.tried
    ledger.end_stage("install", "a", [Finding("install", "ok", "install")])
    repair = repairs.current(ledger, "a")
    assert repair is not None and repair.installed and repair.tried
    passes(ledger, "configure", "smoke")
    assert ledger.states()["a"] == "in_repair"
    ledger.readmit("a", "done")
    assert repairs.current(ledger, "a") is None
    assert repairs.smoke_passed_at(ledger, "a") and not repairs.smoke_passed_at(ledger, "b")


def test_a_second_repair_does_not_take_the_first_ones_installation_for_its_own(ledger: Ledger) -> None:
    begin(ledger)
    ledger.deed("a", "deploy bookworm to a (abc), overwriting X")
    passes(ledger, *STAGES)
    ledger.readmit("a", "done")
    begin(ledger)
    repair = repairs.current(ledger, "a")
    assert repair is not None and not repair.installing and not repair.installed


def test_others_count_while_their_runs_go_on(ledger: Ledger) -> None:
    first = ledger.start_run("reprovision.yml")
    begin(ledger, "b")
    second = ledger.start_run("reprovision.yml")
    begin(ledger, "c")
    assert repairs.under_way(ledger, "a") == ["b", "c"]
    assert repairs.under_way(ledger, "b") == ["c"]
    ledger.end_run(second, "done")
    assert repairs.under_way(ledger, "a") == ["b"]
    third = ledger.start_run("reprovision.yml")  # the first was killed; its host's was started again
    ledger.deed("b", f"{repairs.GOES_ON}since then")
    assert repairs.under_way(ledger, "a") == ["b"]
    ledger.end_run(third, "done")
    assert repairs.under_way(ledger, "a") == []
    assert ledger.run(first)["ended"] is None


def test_findings_of_a_repair_hold_until_they_are_gone(ledger: Ledger) -> None:
    warning = Finding("repair", "warn", "repair.part_not_replaced", "Video.Slot.22-1", "the same", "replace")
    repairs.note_findings(ledger, "a", [warning])
    passes(ledger, *STAGES)
    assert [f["symptom"] for f in ledger.story(["a"])[0]["findings"] if f["stage"] == "repair"] == [warning.symptom]
    repairs.note_findings(ledger, "a", [])
    assert not [f for f in ledger.story(["a"])[0]["findings"] if f["stage"] == "repair"]


def test_parts_outlive_what_is_installed(ledger: Ledger) -> None:
    assert repairs.parts_known(ledger, HOSTS) == {}
    repairs.remember_parts(ledger, {"a": {"gpu": {"Video.Slot.22-1": "A2"}}})
    ledger.remember({"a": {"values": {"x": {}}}})
    passes(ledger, *STAGES)
    ledger.undo("a", "install", "released")
    assert ledger.remembered(["a"])["a"] == {"hardware": {"gpu": {"Video.Slot.22-1": "A2"}}}
    assert repairs.parts_known(ledger, HOSTS) == {"a": {"gpu": {"Video.Slot.22-1": "A2"}}}


def test_of_repairs_that_begin_at_once_no_more_begin_than_may(tmp_path: Path, ledger: Ledger) -> None:
    def start(name: str) -> list[str]:
        own = Ledger(ledger_url("ledger.sqlite", tmp_path))
        own.run_id = own.start_run("reprovision.yml")
        barrier.wait(10)
        return repairs.begin(own, name, "fan 3", f"{repairs.BEGUN}fan 3", most=1)

    barrier = threading.Barrier(len(HOSTS))
    with ThreadPoolExecutor(len(HOSTS)) as pool:
        refused = list(pool.map(start, HOSTS))
    assert [bool(others) for others in refused].count(False) == 1
    assert sorted(ledger.states().values()) == ["in_repair", "planned", "planned"]
    (first,) = [name for name, others in zip(HOSTS, refused, strict=True) if not others]
    assert [others for others in refused if others] == [[first]] * 2
