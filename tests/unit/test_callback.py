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


def failed(callback: Any, **result: Any) -> list[str]:
    """The symptoms that the ledger holds after a task of a role failed."""
    task = SimpleNamespace(action="ansible.builtin.command", get_name=lambda: "role : Do it", _parent=None)
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
        ({"censored": "hidden"}, "no message"),
    ],
)  # fmt: skip
def test_the_evidence_says_why_a_task_failed(callback: Any, result: dict[str, Any], said: str) -> None:
    failed(callback, **result)
    assert callback.ledger.story(["h"])[0]["findings"][0]["evidence"] == f"role : Do it: {said}"
