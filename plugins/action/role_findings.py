"""Adds a role's findings to the host's (see plugins/modules/role_findings.py)."""

from __future__ import annotations

from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase

from firstlight import rolefindings
from firstlight.errors import InputError
from firstlight.findings import blocking
from firstlight.plainvalue import plain


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True
    _VALID_ARGS = frozenset({"role", "findings", "reboot", "at_once"})

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        variables = task_vars or {}
        _, options = self.validate_argument_spec(
            {
                "role": {"type": "str", "required": True},
                "findings": {"type": "list", "elements": "dict", "required": True},
                "reboot": {"type": "str"},
                "at_once": {"type": "bool", "default": False},
            }
        )
        role = str(options["role"])
        try:
            findings = rolefindings.read(role, plain(options["findings"]))
        except InputError as error:
            return {"failed": True, "msg": str(error)}
        host = variables.get("inventory_hostname", "")
        for line in rolefindings.lines(f for f in findings if f.status == "warn"):
            self._display.display(f"{host}: {role}: warning: {line}", color="yellow")
        facts = plain(variables.get("ansible_facts", {}))
        new: dict[str, Any] = {rolefindings.FACT: rolefindings.add(facts.get(rolefindings.FACT), role, findings)}
        if options["reboot"] is not None:
            new[rolefindings.REBOOT] = rolefindings.ask(facts.get(rolefindings.REBOOT), role, str(options["reboot"]))
        result = {"changed": False, "ansible_facts": new}
        said = rolefindings.refusal(role, findings)
        collected = self._templar.template(variables.get(rolefindings.COLLECTED, False))
        if said and (options["at_once"] or not boolean(collected, strict=False)):
            rows = [finding.to_dict() for finding in blocking(findings)]
            return {**result, "failed": True, "msg": said, "findings": rows}
        return {**result, "msg": said or f"{role}: {len(findings)} findings, nothing against the host"}
