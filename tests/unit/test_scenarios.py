"""Scenarios of molecule look at the host: none would pass where its role has done nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).parents[2] / "molecule"
SCENARIOS = sorted(path.parent.name for path in FOLDER.glob("*/molecule.yml"))
# what it converges does nothing by design: that it reboots is for the verification to ask for
NOTHING_CONVERGED = {"reboot"}


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def in_order(tasks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for task in tasks:
        yield task
        for part in ("block", "rescue", "always"):
            yield from in_order(task.get(part, []))


def verification(scenario: str) -> list[dict[str, Any]]:
    return [task for play in load(FOLDER / scenario / "verify.yml") for task in in_order(play["tasks"])]


def runs_the_role(task: dict[str, Any]) -> bool:
    included = str(task.get("ansible.builtin.include_tasks", ""))
    return "ansible.builtin.include_role" in task or "refused" in included


def conditions(task: dict[str, Any]) -> str:
    """What fails the task: its own condition, or that of an assertion, with the variables that it is made of."""
    asserted = task.get("ansible.builtin.assert", {}).get("that", [])
    texts = [task.get("failed_when", ""), asserted, task.get("vars", {})]
    return " ".join(str(text) for text in texts) if texts[0] or asserted else ""


@pytest.mark.parametrize("scenario", [s for s in SCENARIOS if s not in NOTHING_CONVERGED])
def test_what_the_role_left_is_looked_at_before_it_runs_again(scenario: str):
    tasks = verification(scenario)
    first = next((n for n, task in enumerate(tasks) if runs_the_role(task)), len(tasks))
    read = {task["register"] for task in tasks[:first] if "register" in task}
    read |= {"ansible_facts"} if any("ansible.builtin.service_facts" in task for task in tasks[:first]) else set()
    said = " ".join(conditions(task) for task in tasks[:first])
    assert any(re.search(rf"\b{name}\b", said) for name in read), "nothing is compared before the role runs again"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_verification_asserts_what_is_always_so(scenario: str):
    for task in verification(scenario):
        asserted = task.get("ansible.builtin.assert", {}).get("that")
        for condition in asserted if isinstance(asserted, list) else [asserted]:
            assert str(condition).strip().lower() not in ("true", "1", "not false", ""), task["name"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_a_verification_reads_it_compares(scenario: str):
    """A register that nothing looks at, of a task that cannot fail by what it read, proves nothing."""
    tasks = verification(scenario)
    text = (FOLDER / scenario / "verify.yml").read_text()
    for task in tasks:
        if "register" in task:
            assert len(re.findall(rf"\b{task['register']}\b", text)) > 1, task["name"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_must_be_refused_cannot_pass(scenario: str):
    """A rescue says why it failed; that it failed at all has to be said, too."""
    text = (FOLDER / scenario / "verify.yml").read_text() + "".join(
        path.read_text() for path in FOLDER.glob(f"{scenario}/tasks/*.yml")
    )
    rescues = len(re.findall(r"(?m)^ +rescue:$", text))
    ended = len(re.findall(r"msg: it passed|passed: true", text))
    assert ended >= rescues
    if "passed: true" in text:
        assert "passed is not defined" in text
