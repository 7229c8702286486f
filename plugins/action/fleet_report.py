"""Write and show the fleet report (see plugins/modules/fleet_report.py)."""

from __future__ import annotations

import shutil
import sys
from typing import Any

from firstlight import report
from firstlight.fleet_action import FleetAction, reports_folder, write_report


class ActionModule(FleetAction):
    def work(self) -> dict[str, Any]:
        built = write_report(self.ledger, self.variables, self.run_hosts(), check=self.check)
        width = max(120, shutil.get_terminal_size((150, 24)).columns)
        self.tell(report.text(built, width=width, colour=sys.stdout.isatty()))
        return {
            "msg": report.summary(built),
            "policy": built["policy"],
            "counts": built["counts"],
            "folder": str(reports_folder(self.variables)),
        }
