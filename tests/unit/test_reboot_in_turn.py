"""The action that reboots a host when its turn has come."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FILE = ROOT / "plugins" / "action" / "reboot_in_turn.py"
# a run on a host of its own, whose reboot takes some seconds and notes when it was
RUN = """
import json, sys, time
from tests.unit.test_reboot_in_turn import action, plugin
found = plugin()
def run(self, tmp, variables):
    began = time.monotonic()
    time.sleep(3)
    return {"rebooted": True, "began": began, "ended": time.monotonic()}
found.Reboot.run = run
variables = {"ledger_url": sys.argv[1], "inventory_hostname": "n1"}
print(json.dumps(action(found, max_parallel=sys.argv[2]).run(None, variables)))
"""


def plugin() -> Any:
    spec = importlib.util.spec_from_file_location("reboot_in_turn_plugin", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def action(found: Any, *, check: bool = False, **arguments: Any) -> Any:
    made = object.__new__(found.ActionModule)
    made._task = SimpleNamespace(args=arguments, check_mode=check)
    made.said = []
    made._display = SimpleNamespace(display=made.said.append)
    return made


@pytest.fixture
def reboots(monkeypatch: pytest.MonkeyPatch) -> Any:
    found = plugin()
    monkeypatch.setattr(found.Reboot, "run", lambda self, tmp, variables: {"rebooted": True, "args": self._task.args})
    return found


@pytest.mark.parametrize("most", ["1", "2"])
def test_of_three_runs_on_one_ledger_no_more_reboot_at_once(tmp_path: Path, most: str) -> None:
    words = [sys.executable, "-c", RUN, f"sqlite:///{tmp_path}/ledger.sqlite", most]
    several = [
        subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": "."})
        for _ in range(3)
    ]
    times = [json.loads(p.communicate(timeout=300)[0]) for p in several]
    turns = sorted((one["began"], one["ended"]) for one in times)
    down = max(sum(began <= at < ended for began, ended in turns) for at, _ in turns)
    assert down <= int(most), turns


def test_what_it_was_told_goes_to_ansible_s_own(reboots: Any, tmp_path: Path) -> None:
    variables = {"ledger_url": f"sqlite:///{tmp_path}/ledger.sqlite"}
    result = action(reboots, max_parallel=4, msg="why").run(None, variables)
    assert result == {"rebooted": True, "args": {"msg": "why"}}


@pytest.mark.parametrize(("check", "variables"), [(True, {"ledger_url": "sqlite:////none/x"}), (False, {})])
def test_in_check_mode_and_for_a_host_of_no_site_nothing_is_counted(reboots: Any, check: bool, variables: Any) -> None:
    assert action(reboots, check=check, max_parallel=1).run(None, variables)["rebooted"]


@pytest.mark.parametrize("said", ["0", "-1", "many", "", None, "1.5"])
def test_a_wrong_limit_is_one_line(reboots: Any, said: Any) -> None:
    result = action(reboots, max_parallel=said).run(None, {})
    assert result["failed"] and "it must be a whole number of 1 or more" in result["msg"]


def test_a_ledger_that_cannot_be_used_reboots_nothing(reboots: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = action(reboots, max_parallel=1).run(None, {"ledger_url": f"sqlite:///{tmp_path}/file/ledger.sqlite"})
    assert result["failed"] and result["rebooted"] is False and "cannot be opened" in result["msg"]
