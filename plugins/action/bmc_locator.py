"""Switch the light that shows people which server it is (see plugins/modules/bmc_locator.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from firstlight.bmc.client import BmcClient
from firstlight.bmc.control import Change, Say
from firstlight.bmc.power import set_locator
from firstlight.bmc_action import BmcAction


class ActionModule(BmcAction):
    ABOUT = "locator"
    CLAIMS = False  # a light disturbs nobody
    SPEC: ClassVar[dict[str, Any]] = {"lit": {"type": "bool", "required": True}}

    def function(self) -> Callable[[str, Say, Say], Callable[[BmcClient], Change]]:
        return lambda name, note, say: lambda bmc: set_locator(bmc, self.options["lit"], check=self.check)
