"""What the callback plugin writes down of a host on which a task failed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from firstlight.findings import Finding
from firstlight.ledger.store import Ledger
from firstlight.sitefiles import PlannedHost

FILE = Path(__file__).parents[2] / "plugins" / "callback" / "firstlight.py"
BUILT = Finding("gpu_driver", "fail", "driver.not_built", "kernel 6.8", "no module", "escalate")
FOUND = {**BUILT.to_dict(), "role": "gpu_driver"}


@pytest.fixture
def callback(tmp_path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("callback_plugin", FILE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = module.CallbackModule()
    made.ledger = Ledger(f"sqlite:///{tmp_path}/ledger.sqlite")
    made.ledger.plan("s", [PlannedHost("h", "r1", 1, "192.0.2.1", "xe9680")])
    made.ledger.start_run("site.yml")
    made.ledger.begin_stage("configure", ["h"])
    made.stage, made.variables = "configure", {"groups": {"fleet": ["h"]}}
    return made


def failed(callback: Any, action: str = "ansible.builtin.command", **result: Any) -> list[str]:
    """The symptoms that the ledger holds after a task of a role failed."""
    task = SimpleNamespace(action=action, get_name=lambda: "role : Do it", _parent=None)
    host = SimpleNamespace(get_name=lambda: "h", vars={})
    callback.v2_runner_on_failed(SimpleNamespace(_task=task, _host=host, _result=result or {"msg": "it broke"}))
    return [finding["symptom"] for finding in callback.ledger.story(["h"])[0]["findings"]]


def facts(fact: Any) -> Any:
    return SimpleNamespace(get_vars=lambda host: {"ansible_facts": {"firstlight_findings": fact}})


def test_a_host_leaves_with_what_its_roles_had_found(callback: Any) -> None:
    callback.collects = facts([FOUND])
    assert failed(callback) == ["configure.task_failed", "driver.not_built"]


@pytest.mark.parametrize("fact", [None, [], "x", {"a": 1}, [None, 7, {"check": "c"}], [[]] * 1000])
def test_whatever_stands_in_the_fact(callback: Any, fact: Any) -> None:
    callback.collects = facts(fact)
    assert failed(callback) == ["configure.task_failed"]


def test_in_a_play_without_roles_there_is_nothing_more(callback: Any) -> None:
    assert failed(callback) == ["configure.task_failed"]


def test_packages_that_must_not_be_touched_are_no_task_to_try_again(callback: Any) -> None:
    refused = Finding("packages", "fail", "packages.refused", "apt", "would replace the kernel", "escalate")
    assert failed(callback, action="apt_plan", msg="refused", findings=[refused.to_dict()]) == ["packages.refused"]
    assert callback.ledger.story(["h"])[0]["findings"][0]["action"] == "escalate"
    # what a module of somebody else's calls findings is not ours
    assert failed(callback, msg="it broke", findings=[refused.to_dict()]) == ["configure.task_failed"]
    assert failed(callback, action="apt_plan", msg="dpkg-query: no_tool") == ["configure.task_failed"]


def test_a_host_that_a_role_refuses_at_once_leaves_with_its_finding(callback: Any) -> None:
    wrong = Finding("clock", "fail", "clock.skew", "against the controller", "61 s ahead", "escalate")
    assert failed(callback, action="role_findings", msg="wrong", findings=[wrong.to_dict()]) == ["clock.skew"]
    assert callback.ledger.story(["h"])[0]["findings"][0]["action"] == "escalate"


COMMAND = {
    "failed": True,
    "msg": "non-zero return code",
    "rc": 3,
    "stdout": "Reading\n",
    "stderr": "warned\nE: no space\n",
}


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (COMMAND, "exit status 3: E: no space"),
        ({**COMMAND, "stderr": ""}, "exit status 3: Reading"),
        ({**COMMAND, "stderr": "", "stdout": ""}, "exit status 3"),
        ({"msg": "no such package", "stderr": "more"}, "no such package"),
        ({"msg": "One or more items failed", "results": [{"item": "a"}, {**COMMAND, "item": "b"}]},
         "b: exit status 3: E: no space"),
        ({"msg": "One or more items failed", "results": [{**COMMAND, "msg": "full", "item": {"name": "x"}}]}, "full"),
        ({"msg": "it broke", "results": 5}, "it broke"),
        ({"msg": "it broke", "results": [None, 7, "x"]}, "it broke"),
        ({"censored": "hidden"}, "hidden"),
    ],
)  # fmt: skip
def test_the_evidence_says_why_a_task_failed(callback: Any, result: dict[str, Any], said: str) -> None:
    failed(callback, **result)
    assert callback.ledger.story(["h"])[0]["findings"][0]["evidence"] == f"role : Do it: {said}"


# -- the brake, and what a run leaves undecided -----------------------------------------------------------------------


MANY = [f"h{number}" for number in range(10)]


@pytest.fixture
def fleet(callback: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Ten ready hosts in the stage configure; what ends the process and what is written is kept aside."""
    callback.ledger.plan(
        "s", [PlannedHost(name, "r1", n + 2, f"192.0.2.{n + 2}", "xe9680") for n, name in enumerate(MANY)]
    )
    for name in MANY:
        callback.ledger.set_state(name, "ready", "test")
    callback.ledger.start_run("site.yml")
    callback.ledger.begin_stage("configure", MANY)
    callback.variables = {"groups": {"fleet": MANY}, "reports_dir": str(tmp_path / "reports")}
    callback.judged, callback.reports, callback.works = MANY, True, True
    callback.kept = callback.ledger
    callback.told, callback.ended = [], []
    monkeypatch.setattr(callback, "_tickets", lambda ledger: callback.told.append("tickets"))

    def end(status: int) -> None:
        callback.ended.append(status)
        raise SystemExit(status)

    monkeypatch.setattr(callback, "_exit", end)
    return callback


def leave(callback: Any, names: list[str]) -> None:
    """A task failed on these hosts."""
    task = SimpleNamespace(action="ansible.builtin.apt", get_name=lambda: "docker : Install", _parent=None)
    for name in names:
        host = SimpleNamespace(get_name=lambda name=name: name, vars={})
        callback.v2_runner_on_failed(SimpleNamespace(_task=task, _host=host, _result={"msg": "no mirror answers"}))


def play(stage: str) -> Any:
    return SimpleNamespace(vars={"stage": stage})


def states(callback: Any) -> set[str]:
    known = callback.kept.states()
    return {known[name] for name in MANY}


def stats(callback: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(callback.v2_playbook_on_stats.__globals__, "_report_is_asked_for", lambda: True)
    with pytest.raises(SystemExit):
        callback.v2_playbook_on_stats(SimpleNamespace(dark={}, failures=dict.fromkeys(MANY, 1)))


def test_when_every_host_failed_its_tasks_the_brake_still_stops_the_run(
    fleet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(fleet, MANY)
    assert states(fleet) == {"ready"}
    stats(fleet, monkeypatch)
    run = fleet.kept.run(fleet.kept.run_id)
    assert (run["outcome"], fleet.ended) == ("broken", [1])
    assert run["message"].startswith("configure: the brake stops the run: 10 of 10 hosts have configure.task_failed")
    assert states(fleet) == {"ready"}


def test_no_later_stage_starts_after_the_brake(fleet: Any) -> None:
    leave(fleet, MANY[:5])
    with pytest.raises(SystemExit):
        fleet.v2_playbook_on_play_start(play("smoke"))
    assert fleet.ended == [1] and fleet.ledger is None
    assert fleet.kept.run(fleet.kept.run_id)["outcome"] == "broken" and states(fleet) == {"ready"}


def test_brake_false_lets_the_run_go_on(fleet: Any) -> None:
    fleet.variables["brake"] = "false"
    leave(fleet, MANY)
    fleet.v2_playbook_on_play_start(play("smoke"))
    assert fleet.ended == [] and states(fleet) == {"quarantined"}


def test_a_few_that_failed_their_tasks_are_quarantined_though_nobody_closed_the_stage(fleet: Any) -> None:
    leave(fleet, MANY[:2])
    fleet.v2_playbook_on_play_start(play("smoke"))
    known = fleet.kept.states()
    assert [name for name in MANY if known[name] == "quarantined"] == MANY[:2] and fleet.ended == []


def test_a_run_that_is_stopped_quarantines_who_failed_and_leaves_tickets_to_the_next(fleet: Any) -> None:
    leave(fleet, MANY[:1])
    fleet._stopped()
    assert fleet.kept.states()["h0"] == "quarantined" and fleet.told == []
    assert fleet.kept.run(fleet.kept.run_id)["outcome"] == "stopped"


@pytest.mark.parametrize(
    ("reported", "check", "told"), [(False, False, ["tickets"]), (True, False, []), (False, True, [])]
)
def test_tickets_are_told_once_and_not_in_check_mode(
    fleet: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reported: bool, check: bool, told: list[str]
) -> None:
    fleet.reported, fleet.scratch = reported, str(tmp_path / "scratch") if check else None
    stats(fleet, monkeypatch)
    assert fleet.told == told
