"""Give a freshly installed host an SSH key of its own (see plugins/modules/host_key.py)."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from firstlight.errors import FirstlightError, InputError
from firstlight.findings import shorten
from firstlight.maas.hostkeys import BOOTSTRAP, KnownHosts, fingerprint, rotate
from firstlight.plainvalue import plain


class _HostSaidNo(FirstlightError):
    """The module failed on the host."""


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _supports_check_mode = True
    _VALID_ARGS = frozenset({"folder", "service"})

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        self._variables = task_vars or {}
        try:
            result.update(self._rotate(plain(self._variables["inventory_hostname"])))
        except (FirstlightError, ValueError) as error:
            result.update(failed=True, msg=shorten(str(error)))
        return result

    def _rotate(self, name: str) -> dict[str, Any]:
        path = self._templar.template(self._variables.get("known_hosts_file"))
        if not path:
            raise InputError(f"known_hosts_file of {name} is not set; see inventory/example/group_vars/all/site.yml")
        known = KnownHosts(plain(path))
        if self._task.check_mode:
            return {"changed": bool(known.keys(name, BOOTSTRAP))}
        if not rotate(known, name, self._on_host, self._reconnect):
            return {"changed": False}
        return {"changed": True, "fingerprint": fingerprint(known.keys(name)[0])}

    def _on_host(self, step: str, arguments: dict[str, Any]) -> Any:
        answer = self._execute_module(
            module_name="host_key",
            module_args={**plain(self._task.args), **arguments, "step": step},
            task_vars=self._variables,
        )
        if answer.get("failed"):
            raise _HostSaidNo(shorten(str(answer.get("msg") or "the module host_key failed on the host")))
        return plain(answer.get("key"))

    def _reconnect(self) -> None:
        """A new connection, which the new key alone verifies."""
        self._connection.reset()
        answer = self._low_level_execute_command("true", sudoable=False)
        if answer.get("rc") != 0:
            raise AnsibleConnectionFailure("no connection with the new host key: " + shorten(str(answer.get("stderr"))))
