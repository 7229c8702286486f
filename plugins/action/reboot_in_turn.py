"""Reboots a host when its turn has come, of all runs on the ledger (see plugins/modules/reboot_in_turn.py)."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action.reboot import ActionModule as Reboot

from firstlight.errors import FirstlightError
from firstlight.ledger.turns import turn
from firstlight.plainvalue import plain

WHAT = "turn to reboot"  # in the ledger's claims


class ActionModule(Reboot):
    _VALID_ARGS = Reboot._VALID_ARGS | {"max_parallel"}

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        variables = task_vars or {}
        arguments = dict(self._task.args)
        said = str(arguments.pop("max_parallel", ""))
        if not said.isdigit() or int(said) < 1:
            return {"failed": True, "msg": f"max_parallel is {said!r}; it must be a whole number of 1 or more"}
        self._task.args = arguments
        url = str(plain(variables.get("ledger_url")) or "")
        if self._task.check_mode or not url:  # a host of no site
            return dict(super().run(tmp, task_vars))

        def waits() -> None:
            host = variables.get("inventory_hostname", "")
            self._display.display(f"{host}: waits for its turn to reboot, {said} others do; see docs/policy.md")

        try:
            with turn(url, WHAT, int(said), waits):
                return dict(super().run(tmp, task_vars))
        except FirstlightError as error:
            return {"failed": True, "rebooted": False, "msg": str(error)}
