"""A key of the policy that was left in variables would be read by nobody: validate refuses it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from firstlight.errors import InputError
from firstlight.policy.settings import POLICY_SCHEMA, Policy

FILE = Path(__file__).parents[2] / "plugins" / "action" / "fleet_validate.py"


@pytest.fixture(scope="module")
def plugin():
    spec = importlib.util.spec_from_file_location("fleet_validate_plugin", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ActionModule


@pytest.mark.parametrize("key", POLICY_SCHEMA["properties"])
def test_every_key_of_the_policy_is_refused_in_variables(plugin, key):
    action = object.__new__(plugin)
    action._policy = Policy()
    action.variables, action.hosts = {}, ["n1", "n2"]
    action._host_variables = {"n1": {}, "n2": {"install_max_parallel": 1}}
    action._policy_is_in_its_file()
    action._host_variables["n2"][key] = 1
    with pytest.raises(InputError, match=f"^{key} of n2 belongs into policy.yml now, and not into variables"):
        action._policy_is_in_its_file()
