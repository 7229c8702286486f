"""Bring the self-contained file of the checks onto a host (see plugins/modules/checks_file.py)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

from firstlight.health.selfcontained import NAME, build


class ActionModule(ActionBase):
    TRANSFERS_FILES = True
    _supports_check_mode = True
    _supports_diff = True
    _VALID_ARGS = frozenset({"dest"})

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        dest = self._task.args.get("dest")
        if not dest:
            return {**result, "failed": True, "msg": "checks_file: dest is missing"}
        with tempfile.TemporaryDirectory(prefix="firstlight-checks-") as folder:
            source = build(Path(folder) / NAME)
            task = self._task.copy()
            task.args = {"src": str(source), "dest": dest, "owner": "root", "group": "root", "mode": "0755"}
            copy = self._shared_loader_obj.action_loader.get(
                "ansible.legacy.copy",
                task=task,
                connection=self._connection,
                play_context=self._play_context,
                loader=self._loader,
                templar=self._templar,
                shared_loader_obj=self._shared_loader_obj,
            )
            result.update(copy.run(task_vars=task_vars))
        return result
