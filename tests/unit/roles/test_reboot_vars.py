"""Whether role reboot may reboot a host."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import filter_loader
from ansible.template import Templar

ROOT = Path(__file__).parents[3]
ROLE = ROOT / "roles/reboot"
BUSY = {"processes": ["4711"]}


@pytest.mark.parametrize(
    ("confirm", "state", "processes", "allowed"),
    [
        (False, "configured", {}, True),
        (False, "ready", {}, False),
        (False, "configured", BUSY, False),
        (True, "ready", BUSY, True),
        ("true", "ready", BUSY, True),  # text, which is what -e reboot_confirm=true gives
        ("false", "ready", {}, False),
    ],
)
def test_a_host_that_works_is_left_alone_unless_told(confirm, state, processes, allowed):
    loader = DataLoader()
    known: dict[str, Any] = {"ansible_facts": {}, "profile": {}}
    for file in ("defaults/main.yml", "vars/main.yml"):
        known |= loader.load_from_file(str(ROLE / file), trusted_as_template=True)
    known |= {"reboot_confirm": confirm, "reboot_host_state": state, "__reboot_processes": processes}
    # a condition must be a boolean
    assert Templar(loader=loader, variables=known).template(known["__reboot_allowed"]) is allowed


@pytest.mark.parametrize(
    ("policy", "variable", "limit"),
    [
        (None, 0, 4),  # of no site, or of one without a file: the policy's default
        ("reboot_max_parallel: 7\n", 0, 7),
        ("spares: 2\n", 0, 4),
        ("reboot_max_parallel: 7\n", 2, 2),
        ("reboot_max_parallel: 7\n", "3", "3"),
    ],
)
def test_how_many_reboot_at_once_is_the_policy_s_unless_a_play_says_otherwise(tmp_path, policy, variable, limit):
    filter_loader.add_directory(str(ROOT / "plugins/filter"))
    loader = DataLoader()
    known: dict[str, Any] = {"reboot_max_parallel": variable}
    if policy is not None:
        (tmp_path / "policy.yml").write_text(policy)
        known["policy_file"] = str(tmp_path / "policy.yml")
    text = loader.load_from_file(str(ROLE / "vars/main.yml"), trusted_as_template=True)["__reboot_max_parallel"]
    assert Templar(loader=loader, variables=known).template(text) == limit


def test_a_policy_that_is_changed_is_read_anew_and_a_wrong_one_is_one_line(tmp_path):
    filter_loader.add_directory(str(ROOT / "plugins/filter"))
    found = filter_loader.get("site_policy")
    file = tmp_path / "policy.yml"
    for number in (3, 5):
        file.write_text(f"reboot_max_parallel: {number}\n")
        os.utime(file, ns=(number, number))
        assert found.j2_function(str(file))["reboot_max_parallel"] == number
    file.write_text("reboot_max_parallel: 0\n")
    with pytest.raises(AnsibleFilterError, match=r"policy\.yml:1: reboot_max_parallel: 0 is not right; a whole number"):
        found.j2_function(str(file))
