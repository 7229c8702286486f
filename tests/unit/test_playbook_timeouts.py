"""A host that never ends its checks is given up by health and smoke, and the others go on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from firstlight.checks import ALL_CHECKS, TIERS
from firstlight.checks.capture import LATE_SECONDS, Command, Source
from firstlight.checks.engine import plan
from firstlight.profile import Profile

REPOSITORY = Path(__file__).parents[2]
PROFILE = REPOSITORY / "inventory" / "profiles" / "xe9680.yml"
STUB = """
import time
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule({key: {"type": "raw"} for key in ("profile", "tier", "expect", "skip", "require", "earlier")})
time.sleep(module.params["profile"])
module.exit_json(findings=[])
"""


def checks_task(playbook: str) -> dict[str, Any]:
    plays = yaml.safe_load((REPOSITORY / "playbooks" / playbook).read_text())
    (task,) = (task for play in plays for task in play.get("tasks", []) if "host_check" in task)
    return dict(task)


def longest(tier: str) -> float:
    """What all of a host may take: one source beside the others, and then one by one those that are alone."""
    profile = Profile.from_dict(yaml.safe_load(PROFILE.read_text()))
    planned = plan(ALL_CHECKS, profile, {"dcgm_diag_level": 3}, tier)
    sources: list[Source] = list({source: 0 for _, reads in planned for source in reads.values()})
    alone = [min(s.limit, TIERS[tier]) + LATE_SECONDS for s in sources if isinstance(s, Command) and s.alone]
    beside = max(s.limit for s in sources if not (isinstance(s, Command) and s.alone))
    return min(beside, TIERS[tier]) + LATE_SECONDS + sum(alone)


@pytest.mark.parametrize("playbook", ["health.yml", "smoke.yml"])
@pytest.mark.parametrize("tier", list(TIERS))
def test_checks_have_time_enough_and_not_for_ever(playbook: str, tier: str) -> None:
    said = checks_task(playbook)["timeout"]

    seconds = Templar(DataLoader(), variables={"tier": tier}).template(trust_as_template(said))

    assert 1.3 * longest(tier) < seconds <= 7200


def test_a_host_that_hangs_is_given_up_and_the_others_are_judged(tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "host_check.py").write_text(STUB)
    (tmp_path / "ansible.cfg").write_text("[defaults]\nlibrary = library\nmodule_utils = none\n")
    task = {**checks_task("health.yml"), "become": False}
    task["host_check"] = {**task["host_check"], "profile": "{{ sleeps }}", "expect": {}, "earlier": {}}
    told = {"name": "Say", "ansible.builtin.debug": {"msg": "hung: {{ hostvars.hangs.__health.msg }}"}}
    play = {"hosts": "all", "gather_facts": False, "vars": {"host_check_seconds": 3}, "tasks": [task, told]}
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    known = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    hosts = {"hangs": {"sleeps": 8}, "good": {"sleeps": 0}}
    (tmp_path / "hosts.yaml").write_text(json.dumps({"all": {"hosts": hosts, "vars": known}}))
    environment = {**os.environ, "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}

    done = subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", "-i", "hosts.yaml", "play.yml"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert done.returncode == 2, done.stdout + done.stderr
    assert "hung: Task failed: Timed out after 3 second(s)." in done.stdout
    assert "ok: [good]" in done.stdout
