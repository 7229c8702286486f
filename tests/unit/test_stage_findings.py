"""What the close of a stage takes for a host's findings."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from firstlight.checks import ALL_CHECKS
from firstlight.checks.engine import FINDINGS_MAX
from firstlight.findings import Finding

FILE = Path(__file__).parents[2] / "plugins" / "action" / "fleet_stage.py"
ROW = {**Finding("c", "fail", "c.wrong", "CPU 4", "2 of 2", "escalate").to_dict(), "role": "cpu"}
FACT = "firstlight_findings"
MOST_OF_CHECKS = len(ALL_CHECKS) * FINDINGS_MAX


@pytest.fixture(scope="module")
def plugin() -> Any:
    spec = importlib.util.spec_from_file_location("fleet_stage_plugin", FILE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ActionModule


def taken(plugin: Any, register: str | None, variables: dict[str, Any]) -> list[tuple[str, str]]:
    action = object.__new__(plugin)
    action._host_variables = {"h": variables}
    return [(f.status, f.symptom) for f in action._findings("h", "configure", register)]


@pytest.mark.parametrize(
    ("status", "symptom", "words", "action"),
    [
        ("broken", "maas.broken", "it is marked broken in MAAS", "escalate"),
        ("ready", "maas.no_address", "in MAAS it is ready", "retry"),
        (None, "maas.no_address", "in MAAS it is not there", "retry"),
    ],
)
def test_a_host_without_an_address_that_people_marked_broken_says_so(plugin, status, symptom, words, action):
    action_ = object.__new__(plugin)
    action_._host_variables = {"h": {"maas_status": status} if status else {}}
    found = action_._no_address("h", "smoke")
    assert (found.status, found.symptom, found.action) == ("fail", symptom, action)
    assert words in found.evidence


WELL = ("ok", "configure")
LOST = ("unknown", "configure.no_answer")


@pytest.mark.parametrize(
    ("register", "variables", "want"),
    [
        (None, {}, [WELL]),
        (FACT, {}, [WELL]),
        (FACT, {"ansible_facts": {}}, [WELL]),
        (FACT, {"ansible_facts": {FACT: []}}, [WELL]),
        (FACT, {"ansible_facts": {FACT: [ROW, ROW]}}, [WELL, ("fail", "c.wrong"), ("fail", "c.wrong")]),
        (FACT, {"ansible_facts": {FACT: [{"check": "c"}]}}, [LOST]),
        ("smoke", {"smoke": {"findings": [ROW] * MOST_OF_CHECKS}}, [("fail", "c.wrong")] * MOST_OF_CHECKS),
        (FACT, {"ansible_facts": {FACT: [ROW] * 5000}}, [LOST]),
        (FACT, {"ansible_facts": {FACT: "none"}}, [LOST]),
        ("smoke", {"smoke": {"findings": [ROW]}}, [("fail", "c.wrong")]),
        ("smoke", {"smoke": {"findings": []}}, [LOST]),
        ("smoke", {}, [LOST]),
    ],
)
def test_findings_of_a_stage(plugin, register, variables, want):
    assert taken(plugin, register, variables) == want
