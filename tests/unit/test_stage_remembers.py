"""Stage smoke from its open to its close: what hosts are told of before, what is stored, what holds on, who is odd."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_stage_findings import plugin  # noqa: F401

from firstlight.checks import ALL_CHECKS
from firstlight.findings import Finding
from firstlight.health.answers import held_over, read_answer, usable
from firstlight.ledger.store import Ledger, ledger_url
from firstlight.sitefiles import PlannedHost

WELL = Finding("gpu_count", "ok", "gpu_count").to_dict()
SLOW = Finding("drive_read", "fail", "drive.slow", "nvme3", "90 MB/s", "replace").to_dict()
QUICK = [check.name for check in ALL_CHECKS if check.tier == "quick"]
EVERY = [check.name for check in ALL_CHECKS]
MEMORY = {"nvlink_counters": {"time": 1.5, "boot": "b", "value": {"GPU-0": {}}}}
LATER = {"nvlink_counters": {"time": 4000.5, "boot": "b", "value": {"GPU-0": {"1": {"CRC Errors": 1}}}}}


class Stage:
    """One site's smoke stage, as the playbooks run it: open, then close with what hosts answered."""

    def __init__(self, plugin: Any, ledger: Ledger, hosts: list[str]) -> None:  # noqa: F811
        self.plugin, self.ledger, self.hosts = plugin, ledger, hosts
        self.told: list[str] = []

    def action(self, event: str, answers: dict[str, Any], **more: Any) -> Any:
        action = object.__new__(self.plugin)
        action.hosts, action.ledger, action.check = self.hosts, self.ledger, more.get("check", False)
        action._task = SimpleNamespace(args={"stage": "smoke", "event": event, "findings_from": "__smoke"})
        action.variables = {"ansible_run_tags": more.get("tags", ["all"]), "ansible_skip_tags": []}
        lost = more.get("lost", [])
        action._host_variables = {
            name: {
                "__smoke": answers.get(name),
                "ansible_host": None if name in lost else "10.0.0.1",
                "bmc_record": more.get("records", {}).get(name),
            }
            for name in self.hosts
        }
        action.tell = self.told.append
        return action

    def run(self, answers: dict[str, Any], **more: Any) -> dict[str, Any]:
        """What the hosts were told when it opened."""
        self.ledger.start_run("health.yml")
        opened = self.action("open", {}, **more).work()
        self.action("close", answers, **more).work()
        return opened["earlier"]

    def held(self, name: str) -> set[str]:
        return {f["symptom"] for f in self.ledger.story([name])[0]["findings"] if f["stage"] == "smoke"}


@pytest.fixture
def stage(plugin, tmp_path: Path) -> Stage:  # noqa: F811
    ledger = Ledger(ledger_url("ledger.sqlite", tmp_path))
    names = ["a", "b", "c"]
    ledger.plan("s", [PlannedHost(name, "r1", n, f"10.0.0.{n}", "xe9680") for n, name in enumerate(names)])
    for name in names:
        for before in ("discover", "enlist", "install", "configure"):
            ledger.end_stage(before, name, [])
    return Stage(plugin, ledger, names)


def answer(*findings: dict[str, Any], ran: Any = QUICK, **more: Any) -> dict[str, Any]:
    return {"findings": [WELL, *findings], "ran": ran, **more}


def test_what_a_host_gives_back_is_what_its_next_run_is_told(stage: Stage) -> None:
    first = stage.run({"a": answer(remember=MEMORY), "b": answer(), "c": answer(remember={})})
    assert first == {"a": {}, "b": {}, "c": {}}
    assert stage.run({"a": answer(remember=LATER), "b": answer()}) == {"a": MEMORY, "b": {}, "c": {}}
    assert stage.run({"a": answer(), "b": answer(), "c": answer()})["a"] == LATER
    assert stage.run({})["a"] == LATER


def test_in_check_mode_and_of_a_part_nothing_is_remembered(stage: Stage) -> None:
    stage.run({"a": answer(remember=MEMORY)}, check=True)
    assert stage.ledger.remembered(["a"]) == {"a": {}}
    skipped = stage.action("open", {}, tags=["configure"]).work()
    assert (skipped["admitted"], skipped["earlier"]) == ([], {})


@pytest.mark.parametrize(
    "remember",
    [["x"], {"nvlink_counters": 7}, {"nvlink_counters": {**MEMORY["nvlink_counters"], "time": float("nan")}},
     {"nvlink_counters": {"time": 1, "boot": "b", "value": {"x": "y" * 70_000}}}],
)  # fmt: skip
def test_what_cannot_be_remembered_is_a_warning_and_takes_nothing_away(stage: Stage, remember: Any) -> None:
    stage.run({"a": answer(remember=MEMORY)})

    stage.run({"a": answer(remember=remember), "b": answer(), "c": answer()})

    assert stage.held("a") == {"gpu_count", "earlier.refused"}
    assert stage.ledger.passed("smoke", ["a"]) == {"a"}
    assert stage.run({})["a"] == MEMORY


LOST = Finding("gpu_count", "fail", "gpu.lost", "GPU 0000:1b:00.0", "GPU is lost", "power_cycle").to_dict()
SERIALS = {"0000:1b:00": "1653922000123", "0000:43:00": "1653922000124"}
RECORD = {
    "hardware": {
        "gpus": [
            {"id": "Video.Slot.25-1", "serial": "1653922000123"},
            {"id": "Video.Slot.26-1", "serial": "1653922000124"},
        ]
    }
}
EXCHANGED = {
    "hardware": {
        "gpus": [
            {"id": "Video.Slot.25-1", "serial": "1653922000124"},
            {"id": "Video.Slot.26-1", "serial": "1653922000123"},
        ]
    }
}


def test_a_gpu_is_told_by_the_bmc_s_slot_also_when_it_is_lost(stage: Stage) -> None:
    records = dict.fromkeys("abc", RECORD)

    def evidence(found: dict[str, Any], record: Any) -> str:
        stage.run({"a": answer(found), "b": answer(), "c": answer()}, records={**records, "a": record})
        return next(f["evidence"] for f in stage.ledger.story(["a"])[0]["findings"] if f["symptom"] == "gpu.lost")

    assert evidence(LOST, RECORD) == "GPU is lost"  # it has never told its serial number
    stage.run({"a": answer(serials=SERIALS), "b": answer(serials={"x": 7}), "c": answer(serials=9)}, records=records)
    assert evidence(LOST, RECORD) == "GPU is lost; sits in Video.Slot.25-1"
    placed = {**LOST, "evidence": "GPU is lost; sits in PCIe Slot 33"}
    assert evidence(placed, RECORD) == "GPU is lost; sits in PCIe Slot 33, Video.Slot.25-1"
    for record in (EXCHANGED, None, {"hardware": None}, {"hardware": {"gpus": [7, {"id": ["x"], "serial": None}]}}):
        assert evidence(LOST, record) == "GPU is lost"
    assert evidence(LOST, RECORD) == "GPU is lost; sits in Video.Slot.25-1"  # a BMC that was silent once


def test_what_only_the_long_checks_find_holds_until_they_run_again(stage: Stage) -> None:
    stage.run({name: answer(SLOW, ran=EVERY) if name == "a" else answer(ran=EVERY) for name in "abc"})
    assert stage.ledger.passed("smoke", "abc") == {"b", "c"}

    stage.run({name: answer() for name in "abc"})
    assert stage.ledger.passed("smoke", "abc") == {"b", "c"}
    assert stage.held("a") == {"gpu_count", "drive.slow"}
    assert stage.told[-1] == "smoke: 2 of 3 passed; 1 drive.slow (found before)"

    stage.run({"b": answer(), "c": answer()})
    assert stage.held("a") == {"smoke.no_answer", "drive.slow"}

    held_back = {"a": answer(ran=[name for name in EVERY if name != "drive_read"])}
    stage.run(held_back)
    assert stage.held("a") == {"gpu_count", "drive.slow"}

    stage.run({"a": answer(ran=EVERY)})
    assert stage.held("a") == {"gpu_count"}
    assert stage.ledger.passed("smoke", "a") == {"a"}


def test_a_host_that_is_lost_keeps_what_the_long_checks_found(stage: Stage) -> None:
    stage.run({name: answer(SLOW, ran=EVERY) for name in "abc"})

    stage.run({name: answer() for name in "bc"}, lost=["a"])

    assert stage.held("a") == {"maas.no_address", "drive.slow"}


def test_a_check_that_is_no_more_holds_nothing(stage: Stage) -> None:
    gone = Finding("of_before", "fail", "of.before").to_dict()
    stage.run({"a": answer(gone, ran=EVERY)})
    assert stage.held("a") == {"gpu_count", "of.before"}

    stage.run({"a": answer()})
    assert stage.held("a") == {"gpu_count"}


def of_driver(number: int, version: str) -> dict[str, Any]:
    return answer(values={"gpu_count": {"gpu.driver": version}}, ran=EVERY if number == 9 else QUICK)


def test_who_differs_from_the_others_of_its_profile_is_told_of_those_that_were_judged(plugin, tmp_path) -> None:  # noqa: F811
    names = [f"n{number}" for number in range(12)]
    ledger = Ledger(ledger_url("ledger.sqlite", tmp_path))
    ledger.plan("s", [PlannedHost(name, "r1", n, f"10.0.0.{n}", "xe9680") for n, name in enumerate(names)])
    for name in names:
        for before in ("discover", "enlist", "install", "configure"):
            ledger.end_stage(before, name, [])
    fleet = Stage(plugin, ledger, names)

    fleet.run({name: of_driver(n, "580.1" if n == 3 else "580.2") for n, name in enumerate(names)})

    assert [name for name in names if "cohort.differs" in fleet.held(name)] == ["n3"]
    assert ledger.passed("smoke", ["n3"]) == {"n3"}

    alone = Stage(plugin, ledger, ["n4"])
    alone.run({"n4": of_driver(4, "580.1")})
    assert "cohort.differs" in alone.held("n4")
    alone.run({"n4": of_driver(4, "580.2")})
    assert "cohort.differs" not in alone.held("n4")
    assert "cohort.differs" in fleet.held("n3")


def test_values_of_checks_that_did_not_run_stay(stage: Stage) -> None:
    long, quick = {"drive_read": {"drive.mbytes": 90.5}}, {"gpu_count": {"gpu.driver": "580"}}
    stage.run({"a": answer(ran=EVERY, values={**long, **quick, "of_before": {"x": 1}})})
    stage.run({"a": answer(values={"disk_usage": {"disk.used": 5}})})
    assert stage.ledger.values()["a"]["values"] == {"drive.mbytes": 90.5, "disk.used": 5}

    stage.run({"a": answer(ran=EVERY, values=quick)})
    assert stage.ledger.values()["a"]["values"] == {"gpu.driver": "580"}


def test_values_that_were_damaged_in_the_ledger_are_replaced(stage: Stage) -> None:
    for damaged in (["drive_read"], {"drive_read": 7}, "x"):
        stage.ledger.remember({"a": {"values": damaged}})
        stage.run({"a": answer(values={"disk_usage": {"disk.used": 5}})})
        assert stage.ledger.values()["a"]["values"] == {"disk.used": 5}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=20,
)


@given(JSON | st.fixed_dictionaries({"ran": JSON, "remember": JSON, "values": JSON}))
def test_whatever_a_host_answers_is_taken_in_bounds(told: Any) -> None:
    taken = read_answer(told)

    assert taken.ran <= set(EVERY)
    assert set(taken.values) <= set(EVERY)
    assert usable(taken.memory) == taken.memory
    assert all(finding.status == "warn" for finding in taken.findings)
    assert held_over(taken.ran) <= set(EVERY) - set(QUICK)


def test_an_answer_nested_too_deep_is_none(stage: Stage) -> None:
    deep: Any = []
    for _ in range(3000):
        deep = [deep]

    stage.run({"a": {"findings": deep, "ran": QUICK}, "b": answer(remember={"x": deep}), "c": answer()})

    assert stage.held("a") == {"smoke.no_answer"}
    assert stage.held("b") == {"smoke.no_answer"}
    assert stage.held("c") == {"gpu_count"}


def test_of_a_damaged_ledger_the_rest_is_usable() -> None:
    assert usable({**MEMORY, "kernel_log": "x", "values": {"gpu_count": {}}}) == MEMORY
