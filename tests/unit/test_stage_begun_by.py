"""What the close of a stage takes over from the action that opened it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from test_stage_findings import plugin  # noqa: F401

from firstlight.findings import Finding

ROW = Finding("install", "ok", "install", evidence="deployed").to_dict()
REGISTERED = {"__install": {"hosts": {"a": {"findings": [ROW], "seconds": 12.5}, "c": {"findings": [ROW]}}}}


@pytest.mark.parametrize(
    ("register", "variables", "found", "seconds"),
    [
        ("__install", REGISTERED, {"a": 1}, {"a": 12.5}),
        ("__install", {"__install": {}}, {}, {}),
        ("__install", {}, {}, {}),
        (None, REGISTERED, {}, {}),
    ],
)
def test_findings_and_seconds_of_the_hosts_that_are_still_in_it(plugin: Any, register, variables, found, seconds):  # noqa: F811
    action = object.__new__(plugin)
    action.hosts, action._host_variables = ["a", "b"], {"a": variables}
    action._task = SimpleNamespace(args={"begun_by": register} if register else {})
    earlier, took = action._begun_by(["a", "b"])
    assert {name: len(rows) for name, rows in earlier.items()} == found
    assert took == seconds
