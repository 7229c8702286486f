"""Note which parts of servers are others than before (see plugins/modules/fleet_parts.py)."""

from __future__ import annotations

from typing import Any

from firstlight import repair
from firstlight.fleet_action import FleetAction
from firstlight.ledger.parts import note_part
from firstlight.ledger.repairs import parts_known, remember_parts


class ActionModule(FleetAction):
    _VALID_ARGS: frozenset[str] = frozenset()
    REPORTS = False  # the stage has just written it

    def work(self) -> dict[str, Any]:
        known = parts_known(self.ledger, self.hosts)
        told: dict[str, repair.Parts] = {}
        changes: dict[str, list[repair.Change]] = {}
        for name in self.hosts:
            record = self.host_value(name, "bmc_record") or {}
            if record.get("stale") or not (now := repair.parts_of(record.get("hardware"))):
                continue
            changes[name] = repair.compare(known.get(name), now)
            merged = repair.merged(known.get(name), now)
            if merged != known.get(name):
                told[name] = merged
        noted = 0
        for name, of_host in changes.items():
            for change in of_host:
                if note_part(self.ledger, name, change.kind, change.locator, change.removed, change.installed):
                    self.tell(f"{name}: {change.line()}")
                    noted += 1
        remember_parts(self.ledger, told)  # last: after a kill in between they are compared again
        return {"msg": f"{noted} parts replaced"}
