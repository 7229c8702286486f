"""Write and show the fleet report, and tell of tickets (see plugins/modules/fleet_report.py)."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from typing import Any

from firstlight import report
from firstlight.bmc.control import Change, many
from firstlight.bmc.errors import BmcError
from firstlight.bmc.power import set_locator
from firstlight.fleet_action import FleetAction, reports_folder, write_report
from firstlight.quarantine import kept_by_brake
from firstlight.tickets.locator import set_lights
from firstlight.tickets.run import Told, settings_of, work
from firstlight.tickets.telling import reason

LIGHT_SECONDS = 30.0  # for all lights, which are switched at the same time


class ActionModule(FleetAction):
    def work(self) -> dict[str, Any]:
        built = write_report(self.ledger, self.variables, self.run_hosts(), check=self.check)
        width = max(120, shutil.get_terminal_size((150, 24)).columns)
        self.tell(report.text(built, width=width, colour=sys.stdout.isatty()))
        told = Told() if self.check else self._tickets()
        if not self.check:
            self.mirror_states(self.run_hosts())
        return {
            "msg": report.summary(built),
            "policy": built["policy"],
            "counts": built["counts"],
            "folder": str(reports_folder(self.variables)),
            "tickets": {
                "opened": [ticket.id for ticket in told.made.opened],
                "updated": [ticket.id for ticket in told.made.updated],
                "closed": [ticket.id for ticket in told.made.closed],
                "open": told.open,
                "problems": told.problems,
            },
        }

    def _tickets(self) -> Told:
        """Of the hosts of this run; not of those that the brake kept from quarantine, since it is probably not they."""
        names = self.run_hosts()
        try:
            stopped = kept_by_brake(self.ledger, names)
            told = work(self.ledger, self.variables, self.policy(), names=names, stopped=stopped)
        except Exception as error:
            told = Told(problems=[f"tickets: {reason(error)}"])
        if told.line():
            self.tell(told.line())
        try:
            if settings_of(self.variables, strict=False).locator_led:
                told.problems.extend(f"tickets: {line}" for line in set_lights(self.ledger, names, self._switch))
        except Exception as error:
            told.problems.append(f"tickets: {reason(error)}")
        for problem in dict.fromkeys(told.problems):
            self._display.warning(problem)
        return told

    def _switch(self, wanted: Mapping[str, bool]) -> Mapping[str, Change | BmcError]:
        return many(
            [self.bmc_target(name) for name in wanted],
            lambda bmc: set_locator(bmc, wanted[bmc.name]),
            ca_file=self.needed("bmc_ca_file", "name it as ca_file: in the inventory's *.redfish_bmc.yml"),
            deadline=LIGHT_SECONDS,
        )
