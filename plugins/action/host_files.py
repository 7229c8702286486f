"""Fills in the templates of a list of files, and has the host write them all (see plugins/modules/host_files.py)."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.plugins.loader import lookup_loader

from firstlight.plainvalue import plain


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_diff = True
    _VALID_ARGS = frozenset({"files"})

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        files = self._task.args.get("files")
        if not isinstance(files, list) or not all(isinstance(entry, dict) for entry in files):
            raise AnsibleActionFail("host_files: files must be a list of mappings, each with a path")
        filled = [self._fill_in(dict(entry), task_vars or {}) for entry in files]
        return {
            **result,
            **self._execute_module(module_name="host_files", module_args={"files": filled}, task_vars=task_vars),
        }

    def _fill_in(self, entry: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """The entry with the text of its template as its content."""
        name = entry.pop("template", None)
        if name is None:
            return entry
        where = f"host_files: {entry.get('path')}"
        if entry.get("content") is not None:
            raise AnsibleActionFail(f"{where}: template and content exclude each other")
        if not isinstance(name, str) or not name.strip("./"):
            raise AnsibleActionFail(f"{where}: template must be the name of a file")
        # the lookup plugin, and with it all of how a role's templates are found and what they may use
        lookup = lookup_loader.get("ansible.builtin.template", loader=self._loader, templar=self._templar)
        text = plain(lookup.run([name], variables=task_vars)[0])
        if text is None:  # it rendered to nothing
            text = ""
        if isinstance(text, (int, float)) and not isinstance(text, bool):
            text = str(text)
        if not isinstance(text, str):
            raise AnsibleActionFail(f"{where}: template {name} gives no text; put to_json or another filter after it")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise AnsibleActionFail(f"{where}: template {name} is not UTF-8") from None
        return {**entry, "content": text}
