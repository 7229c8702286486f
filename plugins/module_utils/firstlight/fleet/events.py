"""What the events of ansible-runner come to: where a shard is, and who failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ..findings import shorten
from ..progress.reasons import said_of

KEPT = frozenset({"runner_on_failed", "runner_on_unreachable", "playbook_on_stats"})  # files of the others are dropped
# Actions of ours that are one call for all hosts: one host's name stands at their failure, which is the run's.
_FOR_ALL = ("fleet_", "bmc_")


@dataclass
class Failure:
    """How a host left. for_all: it is the run's failure, not this host's. went_on: a rescue took care of it."""

    task: str
    said: str = ""
    unreachable: bool = False
    for_all: bool = False
    went_on: bool = False


@dataclass
class Progress:
    """Fed with every event in turn."""

    play: str = ""
    task: str = ""
    failed: dict[str, Failure] = field(default_factory=dict)  # by host
    finished: bool = False  # the playbook came to its end

    def take(self, event: Mapping[str, Any]) -> bool:
        """Whether the event is worth a file: there is one for each host and task, a million a day in a large fleet."""
        kind, data = event.get("event"), event.get("event_data") or {}
        if kind == "playbook_on_play_start":
            self.play, self.task = _text(data.get("play") or data.get("name")), ""
        elif kind in ("playbook_on_task_start", "playbook_on_handler_task_start"):
            self.task = _text(data.get("task") or data.get("name"))
        elif kind in ("runner_on_failed", "runner_on_unreachable") and not data.get("ignore_errors"):
            result = data.get("res")
            self.failed[_text(data.get("host"))] = Failure(
                task=_text(data.get("task")),
                said=shorten(said_of(result)) if isinstance(result, Mapping) else "",
                unreachable=kind == "runner_on_unreachable",
                for_all=str(data.get("task_action") or "").startswith(_FOR_ALL),
            )
        elif kind in ("runner_on_start", "runner_on_ok"):
            if left := self.failed.get(_text(data.get("host"))):
                left.went_on = True
        elif kind == "playbook_on_stats":
            self.finished = True
            # a failure that a rescue took care of is none
            lost = {*(data.get("failures") or {}), *(data.get("dark") or {})}
            self.failed = {host: failure for host, failure in self.failed.items() if host in lost}
        return kind in KEPT

    def lost(self) -> dict[str, Failure]:
        """Whom a failure of their own took out of the run."""
        return {
            host: failure
            for host, failure in self.failed.items()
            if not failure.for_all and (self.finished or not failure.went_on)
        }

    def where(self) -> str:
        """The last task, "" where there was none."""
        return ": ".join(part for part in (self.play, self.task) if part)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Progress:
        """As ``as_dict`` gave it, read back from a file; what is of another form in it is left out."""
        failed = saved.get("failed")
        known = {
            _text(host): Failure(
                _text(one.get("task")),
                shorten(str(one.get("said") or "")),
                *(bool(one.get(key)) for key in ("unreachable", "for_all", "went_on")),
            )
            for host, one in (failed.items() if isinstance(failed, Mapping) else ())
            if isinstance(one, Mapping)
        }
        return cls(_text(saved.get("play")), _text(saved.get("task")), known, bool(saved.get("finished")))


def _text(value: Any) -> str:
    return shorten(str(value or ""), 200)
