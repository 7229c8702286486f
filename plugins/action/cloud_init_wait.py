"""Wait until cloud-init is done on a host (see plugins/modules/cloud_init_wait.py)."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from firstlight.errors import InputError
from firstlight.maas.cloudinit import judge_cloud_init
from firstlight.maas.options import ssh_minutes


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _supports_check_mode = True
    _VALID_ARGS = frozenset({"minutes"})

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        try:
            minutes = ssh_minutes({"install_ssh_minutes": self._task.args.get("minutes")}.get)
        except InputError as error:
            return {**result, "failed": True, "msg": str(error)}
        if self._task.check_mode:
            return {**result, "changed": False, "skipped": True, "msg": "not asked in check mode"}
        seconds = max(1, int(minutes * 60))
        waited = self._command(["timeout", str(seconds), "cloud-init", "status", "--wait"], task_vars)
        if waited.get("unreachable"):
            return {**result, **waited}
        status = waited.get("rc")
        if not isinstance(status, int):
            return {**result, "failed": True, "msg": f"cloud-init: {waited.get('msg', 'no answer')}"}
        told = self._command(["cloud-init", "status", "--long", "--format", "json"], task_vars) if status else {}
        if status and not str(told.get("stdout") or "").strip():  # an old one knows no format
            told = self._command(["cloud-init", "status", "--long"], task_vars)
        finding = judge_cloud_init(status, str(told.get("stdout") or ""), minutes)
        result.update(changed=False, rc=status, findings=[finding.to_dict()], msg=finding.evidence)
        if finding.status == "warn":
            name = (task_vars or {}).get("inventory_hostname", "")
            self._display.display(f"{name}: warning: {finding.evidence}", color="yellow")
        return {**result, "failed": finding.status == "fail"}

    def _command(self, argv: list[str], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        answer: dict[str, Any] = self._execute_module(
            module_name="ansible.builtin.command", module_args={"argv": argv}, task_vars=task_vars
        )
        return answer
