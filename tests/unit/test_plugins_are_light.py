"""Ansible's workers load filters and actions anew for each host and task: a heavy one costs all hosts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PLUGINS = Path(__file__).parents[2] / "plugins"
HEAVY = {"jsonschema", "sqlalchemy", "redfish", "requests", "asyncio", "netaddr"}
FOR_EVERY_HOST = sorted([*(PLUGINS / "filter").glob("*.py"), PLUGINS / "action" / "role_findings.py"])


@pytest.mark.parametrize("plugin", FOR_EVERY_HOST, ids=lambda path: path.stem)
def test_a_plugin_for_every_host_loads_nothing_heavy(plugin: Path):
    code = (
        "import sys, ansible.errors, ansible.plugins.action, importlib.util as u; before = set(sys.modules);"
        f"spec = u.spec_from_file_location('plugin', {str(plugin)!r});"
        "spec.loader.exec_module(u.module_from_spec(spec)); print(*(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(done.stdout.split())
    assert "firstlight" in loaded
    assert not HEAVY & loaded
