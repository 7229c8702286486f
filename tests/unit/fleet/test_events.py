"""What the events of a shard come to."""

from __future__ import annotations

from firstlight.fleet.events import Progress


def event(kind: str, **data: object) -> dict[str, object]:
    return {"event": kind, "event_data": data}


def test_play_task_and_who_failed() -> None:
    progress = Progress()
    assert not progress.take(event("playbook_on_play_start", play="Configure"))
    assert not progress.take(event("playbook_on_task_start", task="Install\x1b[31m  Docker"))
    assert not progress.take(event("runner_on_ok", host="a1", task="Install Docker"))
    assert progress.take(event("runner_on_failed", host="a2", task="Install Docker"))
    assert progress.take(event("runner_on_unreachable", host="a3", task="Install Docker"))
    assert progress.take(event("runner_on_failed", host="a4", task="Look", ignore_errors=True))
    assert progress.as_dict() == {
        "play": "Configure",
        "task": "Install?[31m Docker",
        "failed": {"a2": "Install Docker", "a3": "Install Docker"},
        "finished": False,
    }


def test_a_new_play_has_no_task_yet() -> None:
    progress = Progress()
    progress.take(event("playbook_on_task_start", task="Judge"))
    progress.take(event("playbook_on_play_start", play="Enlist"))
    assert (progress.play, progress.task) == ("Enlist", "")


def test_a_failure_that_was_rescued_is_none_at_the_end() -> None:
    progress = Progress()
    for host in ("a1", "a2", "a3"):
        progress.take(event("runner_on_failed", host=host, task="Try"))
    assert progress.take(event("playbook_on_stats", failures={"a2": 1}, dark={"a3": 1}, ok={"a1": 3}))
    assert progress.finished and set(progress.failed) == {"a2", "a3"}


def test_events_of_no_use_do_no_harm() -> None:
    progress = Progress()
    for odd in ({}, {"event": "verbose", "stdout": "x"}, {"event": "runner_on_failed", "event_data": None}):
        progress.take(odd)
    assert set(progress.failed) == {""} and progress.play == ""
