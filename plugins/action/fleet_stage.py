"""Open or close a stage whose work is done on the hosts themselves (see plugins/modules/fleet_stage.py)."""

from __future__ import annotations

from typing import Any

from firstlight.errors import InputError
from firstlight.findings import Finding
from firstlight.fleet_action import FleetAction, plain
from firstlight.stages import admit


class ActionModule(FleetAction):
    _VALID_ARGS = frozenset({"stage", "event", "findings_from"})

    def work(self) -> dict[str, Any]:
        stage, event = self._task.args["stage"], self._task.args["event"]
        if self._only_a_part(stage):
            admission = admit(self.ledger, stage, self.hosts)
            said = f"{stage}: only a part runs (--tags); nothing is recorded"
            return {"admitted": admission.admitted, "left_out": admission.left_out, "msg": said}
        if event == "open":
            admission = self.open_stage(stage)
            return {"admitted": admission.admitted, "left_out": admission.left_out}
        if event != "close":
            raise InputError(f"fleet_stage: event {event!r} is neither open nor close")
        register = self._task.args.get("findings_from")
        findings = {name: self._findings(name, stage, register) for name in self.hosts}
        return {"msg": self.close_stage(stage, findings, {})}

    def _only_a_part(self, stage: str) -> bool:
        """With --tags or --skip-tags that leave a part of the stage out, the stage has not been passed by it."""
        wanted, skipped = set(self.variables["ansible_run_tags"]), set(self.variables["ansible_skip_tags"])
        return bool(skipped) or not wanted & {"all", stage}

    def _findings(self, name: str, stage: str, register: str | None) -> list[Finding]:
        if register is None:  # every task of the stage went well: that is the finding
            return [Finding(stage, "ok", stage, evidence="every role read back what it did")]
        found = plain(self.host_variables(name).get(register, {}).get("findings"))
        try:
            return [Finding.from_dict(f) for f in found]
        except (TypeError, KeyError, ValueError) as error:
            said = f"the host's answer is not readable: {type(error).__name__}"
            return [Finding(stage, "unknown", f"{stage}.no_answer", evidence=said, action="retry")]
