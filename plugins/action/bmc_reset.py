"""Restart BMCs and wait until they answer again (see plugins/modules/bmc_reset.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from firstlight.bmc.client import BmcClient
from firstlight.bmc.control import Change, Say
from firstlight.bmc.power import reset_bmc
from firstlight.bmc_action import BmcAction, seconds_spec


class ActionModule(BmcAction):
    ABOUT = "reset"
    SPEC: ClassVar[dict[str, Any]] = {"wait_seconds": seconds_spec(600.0)}

    def seconds(self) -> float:
        return self.options["wait_seconds"]

    def function(self) -> Callable[[str, Say, Say], Callable[[BmcClient], Change]]:
        wait = self.options["wait_seconds"]
        return lambda name, note, say: lambda bmc: reset_bmc(bmc, wait, check=self.check, note=note)
