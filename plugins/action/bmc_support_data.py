"""Collect Dell's support data from BMCs (see plugins/modules/bmc_support_data.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from firstlight.bmc.client import BmcClient
from firstlight.bmc.control import Change, Say
from firstlight.bmc.support_data import DATA, MAX_BYTES, SECONDS, Wanted, collect, data_named
from firstlight.bmc_action import BmcAction, seconds_spec
from firstlight.errors import InputError
from firstlight.fleet_action import reports_folder

DOWNLOAD_SECONDS = 900.0


class ActionModule(BmcAction):
    ABOUT = "support_data"
    CLAIMS = False  # reading disturbs nobody
    SPEC: ClassVar[dict[str, Any]] = {
        "data": {"type": "list", "elements": "str", "default": list(DATA)},
        "accept_eula": {"type": "bool", "default": False},
        "max_mbytes": {"type": "int", "default": MAX_BYTES // 1024**2},
        "wait_seconds": seconds_spec(SECONDS),
    }

    def seconds(self) -> float:
        return self.options["wait_seconds"] + DOWNLOAD_SECONDS

    def function(self) -> Callable[[str, Say, Say], Callable[[BmcClient], Change]]:
        options = self.options
        if options["max_mbytes"] < 1:
            raise InputError(f"bmc_support_data: max_mbytes is {options['max_mbytes']}; 1 or more")
        try:
            data = data_named(options["data"])
        except ValueError as error:
            raise InputError(f"bmc_support_data: data: {error}") from None
        wanted = Wanted(
            reports_folder(self.variables) / "support",
            data,
            options["accept_eula"],
            options["wait_seconds"],
            options["max_mbytes"] * 1024**2,
        )
        return lambda name, note, say: lambda bmc: collect(bmc, wanted, check=self.check, note=note, say=say)
