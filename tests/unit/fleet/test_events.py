"""What the events of a shard come to."""

from __future__ import annotations

import json

from firstlight.fleet.events import Failure, Progress


def event(kind: str, **data: object) -> dict[str, object]:
    return {"event": kind, "event_data": data}


def test_play_task_and_who_failed() -> None:
    progress = Progress()
    assert not progress.take(event("playbook_on_play_start", play="Configure"))
    assert not progress.take(event("playbook_on_task_start", task="Install\x1b[31m  Docker"))
    assert not progress.take(event("runner_on_ok", host="a1", task="Install Docker"))
    failed = {"rc": 100, "msg": "non-zero return code", "stderr": "E: no such\n\x1b[31mpackage"}
    assert progress.take(event("runner_on_failed", host="a2", task="Install Docker", res=failed))
    assert progress.take(event("runner_on_unreachable", host="a3", task="Install Docker", res={"msg": "timed out"}))
    assert progress.take(event("runner_on_failed", host="a4", task="Look", ignore_errors=True))
    assert (progress.play, progress.task, progress.finished) == ("Configure", "Install?[31m Docker", False)
    assert progress.where() == "Configure: Install?[31m Docker"
    assert progress.failed == progress.lost() == {
        "a2": Failure("Install Docker", "exit status 100: ?[31mpackage"),
        "a3": Failure("Install Docker", "timed out", unreachable=True),
    }  # fmt: skip
    assert Progress.from_dict(json.loads(json.dumps(progress.as_dict()))) == progress


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


def test_a_host_that_goes_on_after_its_failure_was_rescued_though_the_end_never_came() -> None:
    progress = Progress()
    for host in ("a1", "a2"):
        progress.take(event("runner_on_failed", host=host, task="Try"))
    progress.take(event("runner_on_start", host="a1", task="Try another way"))
    assert set(progress.lost()) == {"a2"}
    progress.take(event("runner_on_failed", host="a1", task="Try another way"))
    progress.take(event("runner_on_start", host="a1", task="Clean up, always"))
    progress.take(event("playbook_on_stats", failures={"a1": 1}))
    assert {host: failure.task for host, failure in progress.lost().items()} == {"a1": "Try another way"}


def test_the_failure_of_one_call_for_all_hosts_is_no_host_s() -> None:
    progress = Progress()
    for host, action in (("a1", "fleet_install"), ("a2", "bmc_power"), ("a3", "ansible.builtin.fail")):
        progress.take(event("runner_on_failed", host=host, task="Work", task_action=action))
    assert set(progress.failed) == {"a1", "a2", "a3"} and set(progress.lost()) == {"a3"}


def test_what_an_older_release_or_a_damaged_file_has_is_left_out() -> None:
    for odd in ({}, {"failed": {"a1": "Install"}}, {"failed": ["a1"], "play": None, "task": 7}):
        assert Progress.from_dict(odd).failed == {}


def test_events_of_no_use_do_no_harm() -> None:
    progress = Progress()
    for odd in ({}, {"event": "verbose", "stdout": "x"}, {"event": "runner_on_failed", "event_data": None}):
        progress.take(odd)
    assert set(progress.failed) == {""} and progress.play == ""
