"""What the callback prints of made-up results: a line a task, each trouble once, nothing that a terminal obeys."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible import context
from ansible.executor.stats import AggregateStats
from ansible.executor.task_result import CallbackTaskResult
from ansible.module_utils._internal._messages import Event, WarningSummary
from ansible.utils.context_objects import CLIArgs

from tests.benchmarks.progress_callback import loaded, made_play, made_task

NAMES = [f"r{i // 20 + 1:02}-n{i % 20 + 1:02}" for i in range(500)]
FINDING = {"status": "fail", "symptom": "docker.not_answering", "locator": "", "evidence": "no socket"}


class Screen:
    """A callback in a run of one play, and what it printed since the last look."""

    def __init__(
        self, capsys: pytest.CaptureFixture[str], names: list[str], check: bool = False, **options: Any
    ) -> None:
        self.capsys, self.names, self.stats = capsys, names, AggregateStats()
        options = {"progress": "plain", "past": "", "interval": 0, "check_mode_markers": True, **options}
        self.callback = loaded("firstlight_progress", check=check, **options)
        self.callback._display.columns = 79
        self.callback.v2_playbook_on_start(SimpleNamespace(_file_name="/x/site.yml"))
        self.callback.v2_playbook_on_play_start(made_play(names))

    def task(self, number: int = 1, **other: Any) -> Any:
        made = made_task(number, **other)
        self.callback.v2_playbook_on_task_start(made, False)
        return made

    def result(self, task: Any, name: str, result: dict[str, Any]) -> CallbackTaskResult:
        host = SimpleNamespace(get_name=lambda: name, vars={})
        self.callback.v2_runner_on_start(host, task)
        made = CallbackTaskResult(host, task, result, {})
        self.callback._current_task_result = made
        return made

    def ok(self, task: Any, names: list[str], changed: bool = False, **result: Any) -> None:
        for name in names:
            self.stats.increment("ok", name)
            self.callback.v2_runner_on_ok(self.result(task, name, {"changed": changed, **result}))

    def fail(self, task: Any, names: list[str], ignore: bool = False, **result: Any) -> None:
        for name in names:
            self.stats.increment("failures", name)
            self.callback.v2_runner_on_failed(self.result(task, name, {**result, "failed": True}), ignore)

    def read(self) -> list[str]:
        return [line for line in self.capsys.readouterr().out.splitlines() if line]

    def end(self) -> list[str]:
        self.read()
        self.stats.processed = dict.fromkeys(self.names, 1)
        self.callback.v2_playbook_on_stats(self.stats)
        return self.read()


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "CLIARGS", CLIArgs({"check": False}))


@pytest.fixture
def screen(capsys: pytest.CaptureFixture[str]) -> Screen:
    return Screen(capsys, NAMES)


def test_a_task_of_500_hosts_is_a_header_and_a_line(screen: Screen) -> None:
    assert [line.rstrip(" *") for line in screen.read()] == ["PLAY [Configure]"]
    task = screen.task()
    screen.ok(task, NAMES[:480])
    screen.ok(task, NAMES[480:490], changed=True)
    screen.ok(task, NAMES[490:491])
    assert screen.read() == []
    screen.task(2)
    header, line = screen.read()
    assert header.startswith("TASK [role : Task 1] ***")
    assert line == "481 ok, 10 changed"


def test_failures_are_told_once_and_counted_with_names(screen: Screen) -> None:
    task = screen.task()
    screen.read()
    screen.ok(task, NAMES[3:])
    screen.fail(task, NAMES[:3], msg="no", findings=[FINDING])
    screen.task(2)
    assert [line.rstrip(" *") for line in screen.read()] == [
        "TASK [role : Task 1]",
        "fatal: [r01-n01]: FAILED! => docker.not_answering: no socket",
        "497 ok, 3 failed (r01-n01, r01-n02, r01-n03)",
        "Configure: 3 hosts: docker.not_answering (r01-n01, r01-n02, r01-n03)",
    ]


def test_500_hosts_that_all_fail_otherwise_are_few_lines(screen: Screen) -> None:
    task = screen.task()
    screen.read()
    for number, name in enumerate(NAMES):
        screen.fail(task, [name], msg=f"reason {chr(97 + number % 26)}{chr(97 + number // 26)}")
    screen.task(2)
    said = screen.read()
    assert len(said) == 9 and sum("FAILED!" in line for line in said) == 5
    assert said[-1] == "495 other failures: see reports/latest.txt, or use -v"


def test_what_hosts_say_moves_no_cursor(screen: Screen) -> None:
    hostile = "\x1b[2J\x9b2J\r[red]"
    task = screen.task(name=f"role : {hostile}")
    screen.fail(task, NAMES[:1], msg=hostile)
    screen.fail(task, NAMES[1:2], msg="m", findings=[{**FINDING, "symptom": hostile}])
    debug = screen.task(2, action="ansible.builtin.debug")
    screen.ok(debug, NAMES[2:4], msg=hostile, _ansible_verbose_always=True)
    diffed = screen.task(3)
    diff = {"before": "a\n", "after": f"{hostile}\n", "after_header": hostile}
    screen.callback.v2_on_file_diff(screen.result(diffed, NAMES[5], {"changed": True, "diff": diff}))
    said = "\n".join([*screen.read(), *screen.end()])
    assert not [c for c in said if not c.isprintable() and c != "\n"]
    assert "[2J" in said  # it was shown


def test_a_message_or_a_difference_that_hosts_share_is_shown_once(screen: Screen) -> None:
    debug = screen.task(action="ansible.builtin.debug")
    screen.read()
    screen.ok(debug, NAMES[:400], msg="one", _ansible_verbose_always=True)
    screen.ok(debug, NAMES[400:], msg="two", _ansible_verbose_always=True)
    diffed = screen.task(2)
    assert "ok: [r01-n01, r01-n02, r01-n03 and 397 more] => {" in screen.read()
    for name in NAMES:
        result = screen.result(diffed, name, {"changed": True, "diff": {"before": "a\n", "after": "b\n"}})
        screen.callback.v2_on_file_diff(result)
    screen.ok(diffed, NAMES, changed=True)
    screen.task(3)
    said = screen.read()
    assert [line.rstrip(" *") for line in said[:6]] == [
        "TASK [role : Task 2]", "r01-n01:", "--- before", "+++ after", "@@ -1 +1 @@", "-a",
    ]  # fmt: skip
    assert said[-2:] == ["500 changed", "499 hosts have a difference that is shown above"]


def test_skipped_tasks_are_no_line_and_ignored_failures_are_none(screen: Screen) -> None:
    task = screen.task()
    screen.read()
    for name in NAMES:
        screen.callback.v2_runner_on_skipped(screen.result(task, name, {"skipped": True}))
    second = screen.task(2)
    assert screen.read() == []
    screen.fail(second, NAMES[:4], ignore=True, msg="never mind")
    screen.task(3)
    assert screen.read()[1:] == [
        "fatal: [r01-n01]: FAILED! => configure.task_failed: never mind", "...ignoring", "4 ignored",
    ]  # fmt: skip
    assert not screen.callback.run.gone


def test_a_failure_that_a_rescue_waits_for_is_none_and_one_in_the_rescue_is(screen: Screen) -> None:
    first, second = made_task(1), made_task(2)
    block = SimpleNamespace(rescue=[second], always=[], _parent=None)
    first._parent = second._parent = block
    for task in (first, second):
        screen.callback.v2_playbook_on_task_start(task, False)
        screen.fail(task, NAMES[:1], msg=f"in {task.name}")
        assert list(screen.callback.run.gone) == ([] if task is first else NAMES[:1])


def test_warnings_of_500_hosts_are_few_and_move_no_cursor(screen: Screen, capsys: pytest.CaptureFixture[str]) -> None:
    task = screen.task()
    for number, name in enumerate(NAMES):
        said = f"disk {number} of {name} is odd \x1b[2J" if number % 2 else f"odd {chr(0x4E00 + number)}"
        screen.ok(task, [name], warnings=[WarningSummary(event=Event(msg=said))])
    told = capsys.readouterr()
    screen.task(2)
    assert told.err.count("[WARNING]") == 5 and "disk 1 of r01-n02 is odd ?[2J" in told.err
    assert "\x1b[2J" not in told.err
    assert screen.read()[-1] == "246 other warnings (-v shows them)"


def test_loops_tell_of_the_item_that_failed(screen: Screen) -> None:
    task = screen.task(loop=["a", "b"])
    screen.read()
    items = [{"item": "a", "failed": False}, {"item": "b", "failed": True, "msg": "gone"}]
    screen.callback.v2_runner_item_on_failed(screen.result(task, "r01-n01", items[1]))
    screen.fail(task, NAMES[:1], msg="One or more items failed", results=items)
    assert screen.read()[1:] == ["fatal: [r01-n01]: FAILED! => configure.task_failed: b: gone"]


def test_unreachable_hosts_and_the_end_of_a_stage_are_counted(screen: Screen) -> None:
    task = screen.task()
    result = screen.result(task, "r01-n01", {"msg": "Permission denied", "unreachable": True})
    screen.callback.v2_runner_on_unreachable(result)
    close = screen.task(2, action="fleet_stage", run_once=True)
    screen.ok(close, NAMES[1:2], msg="configure: 490 of 499 passed; 9 gpu.missing")
    said = screen.end()
    assert "  Configure: 9 hosts: gpu.missing" in said
    assert "  Configure: 1 host: ssh.login_refused: role : Task 1 (r01-n01)" in said


def test_the_end_of_a_large_run_is_a_summary_and_of_a_small_one_a_line_a_host(
    screen: Screen, capsys: pytest.CaptureFixture[str]
) -> None:
    screen.ok(screen.task(), NAMES[30:])
    screen.fail(screen.task(2), NAMES[:30], msg="no")
    said = screen.end()
    assert "500 hosts : 470 without a failed task, 0 changed, 30 failed" in said
    assert "  and 10 more (see reports/latest.txt)" in said and len(said) < 40
    small = Screen(capsys, NAMES[:50])
    small.ok(small.task(), NAMES[:50])
    assert sum(" ok=1 " in line for line in small.end()) == 50
    wanted = Screen(capsys, NAMES, recap="hosts")
    wanted.ok(wanted.task(), NAMES)
    assert sum(" ok=1 " in line for line in wanted.end()) == 500


@pytest.mark.parametrize("recap", ["hosts", "summary"])
def test_check_mode_is_marked(capsys: pytest.CaptureFixture[str], recap: str) -> None:
    screen = Screen(capsys, NAMES, recap=recap, check=True)
    assert "check mode: nothing is changed" in screen.read()
    screen.ok(screen.task(check_mode=True), NAMES)
    screen.task(2)
    assert screen.read()[0].startswith("TASK [role : Task 1] [CHECK MODE]")
    assert "check mode: nothing was changed" in screen.end()


def test_verbose_shows_what_ansible_shows(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from ansible.utils.display import Display

    monkeypatch.setattr(Display(), "verbosity", 1)
    screen = Screen(capsys, NAMES[:2])
    screen.ok(screen.task(), NAMES[:2], rc=0)
    said = screen.read()
    assert 'ok: [r01-n01] => {"changed": false, "rc": 0}' in said and len(said) == 4


def test_a_task_that_takes_its_time_is_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(capsys, NAMES, interval=3600)
    screen.read()
    task = screen.task()
    screen.ok(task, NAMES[:100])
    screen.callback._still()
    assert screen.read() == []
    screen.callback.spoke -= 3600
    screen.callback._still()
    screen.callback.terminal.close()
    said = screen.read()
    assert said[0].startswith("TASK [role : Task 1]")
    assert said[-1].startswith("100 of 500 hosts after 0:00")


@pytest.mark.parametrize("name", ["CI", "NO_COLOR"])
def test_where_the_environment_says_so_there_is_no_screen(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    from firstlight.progress import plays

    terminal = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr(plays, "sys", SimpleNamespace(stdout=terminal, stdin=terminal))
    for other in ("CI", "NO_COLOR", "ANSIBLE_NOCOLOR"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert plays.has_a_screen()
    monkeypatch.setenv(name, "1")
    assert not plays.has_a_screen()
    monkeypatch.delenv(name)
    monkeypatch.setenv("TERM", "dumb")
    assert not plays.has_a_screen()
