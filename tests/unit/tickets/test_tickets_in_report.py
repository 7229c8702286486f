"""The report's action goes on whatever becomes of tickets and lights."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

from firstlight.ledger.store import Ledger, ledger_url
from firstlight.policy.settings import Policy
from firstlight.sitefiles import PlannedHost

ACTION = Path(__file__).resolve().parents[3] / "plugins" / "action" / "fleet_report.py"


@pytest.fixture
def module():
    spec = importlib.util.spec_from_file_location("fleet_report_of_a_test", ACTION)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture
def action(module, tmp_path):
    made = object.__new__(module.ActionModule)
    made.ledger = Ledger(ledger_url("ledger.sqlite", tmp_path))
    made.ledger.plan("lab", [PlannedHost("n1", "r1", 1, "10.0.0.1", "p")])
    made.ledger.start_run("site.yml")
    made.variables = {"policy_file": str(tmp_path / "policy.yml"), "reports_dir": str(tmp_path / "reports")}
    made.warned = []
    made._display = SimpleNamespace(warning=made.warned.append)
    made.run_hosts, made.policy, made.tell = lambda: ["n1"], Policy, lambda line: None
    (tmp_path / "tickets.yml").write_text("locator_led: true\n")
    return made


@pytest.mark.parametrize("broken", ["kept_by_brake", "work", "set_lights", "settings_of"])
def test_whatever_is_raised_is_a_warning_without_its_text(module, action, monkeypatch, broken):
    def raises(*_, **__):
        raise RecursionError("S3CRET")

    monkeypatch.setattr(module, broken, raises)
    told = action._tickets()
    assert action.warned == told.problems
    (line,) = told.problems
    assert line.startswith("tickets: RecursionError")
    assert "S3CRET" not in line
