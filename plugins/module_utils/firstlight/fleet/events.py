"""What the events of ansible-runner come to: where a shard is, and who failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ..findings import shorten

KEPT = frozenset({"runner_on_failed", "runner_on_unreachable", "playbook_on_stats"})  # files of the others are dropped


@dataclass
class Progress:
    """Fed with every event in turn."""

    play: str = ""
    task: str = ""
    failed: dict[str, str] = field(default_factory=dict)  # by host the task at which it left
    finished: bool = False  # the playbook came to its end

    def take(self, event: Mapping[str, Any]) -> bool:
        """Whether the event is worth a file: there is one for each host and task, a million a day in a large fleet."""
        kind, data = event.get("event"), event.get("event_data") or {}
        if kind == "playbook_on_play_start":
            self.play, self.task = _text(data.get("play") or data.get("name")), ""
        elif kind in ("playbook_on_task_start", "playbook_on_handler_task_start"):
            self.task = _text(data.get("task") or data.get("name"))
        elif kind in ("runner_on_failed", "runner_on_unreachable") and not data.get("ignore_errors"):
            self.failed[_text(data.get("host"))] = _text(data.get("task"))
        elif kind == "playbook_on_stats":
            self.finished = True
            # a failure that a rescue took care of is none
            lost = {*(data.get("failures") or {}), *(data.get("dark") or {})}
            self.failed = {host: task for host, task in self.failed.items() if host in lost}
        return kind in KEPT

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def _text(value: Any) -> str:
    return shorten(str(value or ""), 200)
