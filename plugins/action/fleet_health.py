"""Begin a run of playbooks/health.yml (see plugins/modules/fleet_health.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from firstlight.checks import TIERS
from firstlight.errors import InputError
from firstlight.fleet_action import FleetAction, reports_folder
from firstlight.plainvalue import plain


class ActionModule(FleetAction):
    _VALID_ARGS = frozenset({"tier", "note"})
    REPORTS = False  # nothing has happened yet

    def work(self) -> dict[str, Any]:
        tier = self._task.args.get("tier", "quick")
        if tier not in TIERS:
            raise InputError(f"tier {str(tier)!r} is none of {', '.join(TIERS)}")
        note = self._task.args.get("note")
        if note:
            name = "check" if self.check else "latest"
            told = {
                "report": str(reports_folder(self.variables) / f"{name}.json"),
                "run_id": self.ledger.run_id,
                "hosts": self.run_hosts(),
                "groups": plain(list(self.variables["groups"])),
            }
            try:
                Path(str(note)).write_text(json.dumps(told))
            except OSError as error:
                raise InputError(f"{note} cannot be written: {error.strerror}") from None
        return {"tier": tier}
