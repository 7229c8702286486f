"""One-time PXE and boot order over Redfish (see plugins/modules/bmc_boot.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from firstlight.bmc.boot import ensure_pxe_first, set_one_time_pxe
from firstlight.bmc.client import BmcClient
from firstlight.bmc.control import Change, Say
from firstlight.bmc_action import BmcAction
from firstlight.errors import InputError


class ActionModule(BmcAction):
    ABOUT = "boot"
    SPEC: ClassVar[dict[str, Any]] = {
        "one_time_pxe": {"type": "bool", "default": False},
        "pxe_first": {"type": "bool", "default": False},
        "nic": {"type": "str"},
    }

    def function(self) -> Callable[[str, Say, Say], Callable[[BmcClient], Change]]:
        once, first = self.options["one_time_pxe"], self.options["pxe_first"]
        if not once and not first:
            raise InputError("bmc_boot: nothing is asked for; set one_time_pxe or pxe_first to true")

        def make(name: str, note: Say, say: Say) -> Callable[[BmcClient], Change]:
            nic = self.options["nic"] or self.host_value(name, "profile")["ethernet"]["pxe"]
            return lambda client: self._boot(client, nic, once, first)

        return make

    def _boot(self, client: BmcClient, nic: str, once: bool, first: bool) -> Change:
        before: dict[str, Any] = {}
        after: dict[str, Any] = {}
        changes = []
        if first:
            changes.append(ensure_pxe_first(client, nic, check=self.check))
            before["boot order"], after["boot order"] = (", ".join(o) for o in (changes[0].before, changes[0].after))
        if once:
            change = set_one_time_pxe(client, check=self.check, nic_fqdd=nic)
            changes.append(change)
            for side, value in ((before, change.before), (after, change.after)):
                side["next boot"] = f"{value['BootSourceOverrideTarget']}, {value['BootSourceOverrideEnabled']}"
        findings = tuple(finding for change in changes for finding in change.findings)
        return Change(any(change.changed for change in changes), before, after, findings)
