"""Open or close a stage whose work is done on the hosts themselves (see plugins/modules/fleet_stage.py)."""

from __future__ import annotations

from typing import Any

from firstlight.errors import InputError
from firstlight.findings import Finding
from firstlight.fleet_action import FleetAction, plain
from firstlight.stages import admit


class ActionModule(FleetAction):
    _VALID_ARGS = frozenset({"stage", "event", "findings_from", "parts"})

    def work(self) -> dict[str, Any]:
        stage, event = self._task.args["stage"], self._task.args["event"]
        whole, part = self._wanted(stage)
        if not (whole or part):
            return {"admitted": [], "msg": f"{stage}: not asked for (--tags)"}
        if not whole:
            admission = admit(self.ledger, stage, self.hosts)
            said = f"{stage}: only a part runs (--tags, --skip-tags); nothing is recorded"
            return {"admitted": admission.admitted, "left_out": admission.left_out, "msg": said}
        if event == "open":
            admission = self.open_stage(stage)
            return {"admitted": admission.admitted, "left_out": admission.left_out}
        if event != "close":
            raise InputError(f"fleet_stage: event {event!r} is neither open nor close")
        register = self._task.args.get("findings_from")
        findings = {name: self._findings(name, stage, register) for name in self.hosts}
        return {"msg": self.close_stage(stage, findings, {})}

    def _wanted(self, stage: str) -> tuple[bool, bool]:
        """Whether --tags and --skip-tags ask for the whole stage, and whether for a part of it at least."""
        parts = self._task.args.get("parts") or []

        def of_a_part(tags: list[str]) -> bool:
            return any(tag == part or tag.startswith(f"{part}_") for tag in tags for part in parts)

        run = list(self.variables["ansible_run_tags"])
        all_of_it = not {"all", "tagged", stage}.isdisjoint(run)
        return all_of_it and not of_a_part(list(self.variables["ansible_skip_tags"])), all_of_it or of_a_part(run)

    def _findings(self, name: str, stage: str, register: str | None) -> list[Finding]:
        if register is None:  # every task of the stage went well: that is the finding
            return [Finding(stage, "ok", stage, evidence="every role read back what it did")]
        found = plain(self.host_variables(name).get(register, {}).get("findings"))
        try:
            return [Finding.from_dict(f) for f in found]
        except (TypeError, KeyError, ValueError) as error:
            said = f"the host's answer is not readable: {type(error).__name__}"
            return [Finding(stage, "unknown", f"{stage}.no_answer", evidence=said, action="retry")]
