"""Power actions over Redfish (see plugins/modules/bmc_power.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from firstlight.bmc.client import BmcClient
from firstlight.bmc.control import Change, Say
from firstlight.bmc.power import ACTIONS, DESTRUCTIVE, power
from firstlight.bmc_action import BmcAction, seconds_spec


class ActionModule(BmcAction):
    ABOUT = "power"
    SPEC: ClassVar[dict[str, Any]] = {
        "action": {"type": "str", "choices": list(ACTIONS), "required": True},
        "confirm": {"type": "bool", "default": False},
        "wait_seconds": seconds_spec(60.0),
    }

    def destroys(self) -> str:
        action = self.options["action"]
        return f"power {action} ends what runs" if action in DESTRUCTIVE else ""

    def seconds(self) -> float:
        return self.options["wait_seconds"] + 30.0

    def function(self) -> Callable[[str, Say, Say], Callable[[BmcClient], Change]]:
        action, wait = self.options["action"], self.options["wait_seconds"]
        return lambda name, note, say: lambda bmc: power(bmc, action, check=self.check, wait=wait, note=note)
