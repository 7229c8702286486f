"""BIOS attributes over Redfish (see plugins/modules/bmc_bios.py)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

from firstlight.bmc.bios import AWAY_SECONDS, PENDING, SCHEDULE_SECONDS, WHEN, set_bios
from firstlight.bmc.client import BmcClient
from firstlight.bmc.control import Change, Say
from firstlight.bmc_action import BmcAction, seconds_spec
from firstlight.errors import InputError
from firstlight.plainvalue import plain


class ActionModule(BmcAction):
    ABOUT = "bios"
    SPEC: ClassVar[dict[str, Any]] = {
        "attributes": {"type": "dict"},
        "apply": {"type": "str", "choices": list(WHEN), "default": "next_boot"},
        "pending": {"type": "str", "choices": list(PENDING), "default": "report"},
        "wait_seconds": seconds_spec(1800.0),
        "confirm": {"type": "bool", "default": False},
    }

    def destroys(self) -> str:
        return "BIOS settings with apply: now restart the server" if self.options["apply"] == "now" else ""

    def seconds(self) -> float:
        """A job of somebody else, the schedule, ours, and reading back."""
        return 2 * self.options["wait_seconds"] + SCHEDULE_SECONDS + AWAY_SECONDS

    def function(self) -> Callable[[str, Say, Say], Callable[[BmcClient], Change]]:
        wanted = {name: self._wanted(name) for name in self.hosts}
        options = {
            "when": self.options["apply"],
            "pending": self.options["pending"],
            "wait": self.options["wait_seconds"],
            "check": self.check,
        }

        def make(name: str, note: Say, say: Say) -> Callable[[BmcClient], Change]:
            return functools.partial(set_bios, wanted=wanted[name], note=note, say=say, **options)

        return make

    def _wanted(self, name: str) -> dict[str, Any]:
        profile = self.host_value(name, "profile") or {}
        wanted = plain(self.options["attributes"]) or profile.get("bios")
        if not wanted:
            where = f"profile {profile.get('name', '?')} of {name}"
            raise InputError(f"bmc_bios: no attributes are wanted; set attributes, or bios: in the {where}")
        return dict(wanted)
