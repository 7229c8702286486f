"""The sites that come with the repository: settings that a site copies must hold anywhere."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import jinja2
import pytest
import yaml

INVENTORY = Path(__file__).resolve().parents[2] / "inventory"


@pytest.mark.parametrize("site", ["lab", "example"])
def test_ssh_gets_the_file_of_known_hosts_whole_when_its_path_has_a_space(site):
    settings = yaml.safe_load((INVENTORY / site / "group_vars" / "all" / "site.yml").read_text())
    values = {"known_hosts_file": "/home/a b/known_hosts", "inventory_hostname": "r1-n01"}
    words = shlex.split(jinja2.Template(settings["ansible_ssh_common_args"]).render(values))
    asked = subprocess.run(["ssh", "-G", *words, "r1-n01"], capture_output=True, text=True, timeout=30, check=True)
    assert "userknownhostsfile /home/a b/known_hosts" in asked.stdout.splitlines()
    assert "hostkeyalias r1-n01" in asked.stdout.splitlines()
