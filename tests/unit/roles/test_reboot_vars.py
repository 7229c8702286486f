"""Whether role reboot may reboot a host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

ROLE = Path(__file__).parents[3] / "roles/reboot"
BUSY = {"rc": 0, "stdout": "4711\n"}


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
