"""What a run shows: one screen for 500 hosts on a terminal, a line a task in logs."""

from __future__ import annotations

import atexit
import dataclasses
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible import constants as C
from ansible import context
from ansible.plugins.callback.default import CallbackModule as Default

from firstlight.findings import shorten
from firstlight.progress import lines, past, screen
from firstlight.progress.model import Group, Run, Task
from firstlight.progress.plays import has_a_screen, hosts_of, is_linear, is_rescued
from firstlight.progress.reasons import Reason, alike, clean, closed, why_failed, why_unreachable
from firstlight.progress.terminal import FRAMES_A_SECOND, Terminal, ask_without_screen, before_sigterm, every
from firstlight.progress.told import Told

DOCUMENTATION = r"""
name: firstlight_progress
type: stdout
short_description: A run of hundreds of hosts on one screen, or as a line a task
description:
  - On a terminal a screen at its bottom shows stages with counts, rate and time to go, the task that goes on, and
    failures grouped by symptom. What is told meanwhile scrolls by above it.
  - Elsewhere, and where C(CI), C(NO_COLOR) or C(TERM=dumb) is set, each task is a header and a line of counts.
  - A failure is told once for all hosts that fail alike. With C(-v) everything is shown as Ansible shows it.
extends_documentation_fragment:
  - default_callback
  - result_format_callback
options:
  progress:
    description: How the run is shown; C(auto) chooses between C(live) and C(plain).
    type: str
    choices: [auto, live, plain, default]
    default: auto
    env: [{name: FIRSTLIGHT_PROGRESS}]
    ini: [{section: callback_firstlight_progress, key: progress}]
  interval:
    description: Seconds between two lines on a task that takes its time; 0 for none.
    type: float
    default: 10
    env: [{name: FIRSTLIGHT_PROGRESS_INTERVAL}]
    ini: [{section: callback_firstlight_progress, key: interval}]
  recap:
    description: At the end a line a host, or a summary; C(auto) is a line a host up to 50 hosts.
    type: str
    choices: [auto, hosts, summary]
    default: auto
    env: [{name: FIRSTLIGHT_PROGRESS_RECAP}]
    ini: [{section: callback_firstlight_progress, key: recap}]
  past:
    description: File, relative to ansible.cfg, that keeps how long plays took, for the time to go. Empty for none.
    type: str
    default: .cache/progress.json
    env: [{name: FIRSTLIGHT_PROGRESS_PAST}]
    ini: [{section: callback_firstlight_progress, key: past}]
requirements: [set as stdout_callback in configuration]
"""

RECAP_HOSTS = 50
REPORT = "reports/latest.txt"


class CallbackModule(Default):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "firstlight_progress"

    def __init__(self) -> None:
        super().__init__()
        self.mode = "plain"
        self.seen: Run | None = None
        self.terminal: Terminal | None = None
        self.headed: str | None = None  # the task whose header was printed
        self.spoke = 0.0
        self.told = Told()  # of this task
        self.debugged: dict[str, list[str]] = {}
        self.groups: dict[int, tuple[Group, int]] = {}  # failures of this task, with their count before it
        self.linear = True
        self.asking: Any = None
        self.task_now: Any = None

    def set_options(self, *args: Any, **kwargs: Any) -> None:
        super().set_options(*args, **kwargs)
        wanted = self.get_option("progress")
        if wanted == "auto":
            wanted = "live" if has_a_screen() else "plain"
        if type(self).CALLBACK_NAME != CallbackModule.CALLBACK_NAME:
            wanted = "plain"  # ansible-runner's, which is made from this one, owns its terminal
        self.mode = "default" if self._display.verbosity else wanted

    # -- the run ----------------------------------------------------------------------------------------------------

    def v2_playbook_on_start(self, playbook: Any) -> None:
        super().v2_playbook_on_start(playbook)
        if context.CLIARGS.get("check") and not self._as_ever():
            self._display.display("check mode: nothing is changed")
        self.seen = Run(Path(playbook._file_name).name, time.monotonic(), check=bool(context.CLIARGS.get("check")))

    def v2_playbook_on_vars_prompt(self, *args: Any, **kwargs: Any) -> None:
        self._end_task()
        if self.terminal is not None:  # until the play begins
            self.asking = self.terminal.away()
            self.asking.__enter__()

    def v2_playbook_on_play_start(self, play: Any) -> None:
        if self._as_ever():
            return super().v2_playbook_on_play_start(play)
        self._end_task()
        self.linear = is_linear(play)
        if self.mode == "live":
            self._play = play
            self._log(f"PLAY [{play.get_name().strip()}]")
        else:
            super().v2_playbook_on_play_start(play)
        name = clean(play.get_name().strip())
        hosts = hosts_of(play)
        file, now = self._past(), time.monotonic()
        with self._display._lock:
            known = past.expected(file, self.run.playbook, name, len(hosts)) if file and not self.run.check else None
            self.run.play(name, play.vars.get("stage"), hosts, now, known)
        self._begin_to_show()
        return None

    def v2_playbook_on_stats(self, stats: Any) -> None:
        if self._as_ever():
            return super().v2_playbook_on_stats(stats)
        self._end_task()
        now = time.monotonic()
        self.run.end_play(now)
        self._close(interrupted=False)
        if (file := self._past()) and not self.run.check:
            past.remember(file, self.run)
        totals = {name: stats.summarize(name) for name in sorted(stats.processed)}
        several = len(self.run.stages) > 1
        for line in lines.printable(["", *lines.ending(self.run, now, several=several)]):
            self._display.display(line)
        if self.run.check:
            self._display.display("check mode: nothing was changed")
        recap = self.get_option("recap")
        if recap == "hosts" or (recap == "auto" and len(totals) <= RECAP_HOSTS):
            return super().v2_playbook_on_stats(stats)
        self._display.banner("PLAY RECAP")
        for line in lines.printable(lines.summary(self.run, totals, REPORT)):
            self._display.display(line)
        self._display.display("")
        return None

    # -- tasks ------------------------------------------------------------------------------------------------------

    def _task_start(self, task: Any, prefix: str | None = None) -> None:
        if self._as_ever():
            return super()._task_start(task, prefix)
        if self.run.task is not None and self.run.task.key == task._uuid:
            return None  # a meta task is told of once for each host
        self._end_task()
        if prefix is not None:
            self._task_type_cache[task._uuid] = prefix
        self._last_task_name = clean(task.get_name().strip())
        now = time.monotonic()
        once = bool(task.run_once) if isinstance(task.run_once, bool) else False
        with self._display._lock:
            self.run.begin_task(task._uuid, self._last_task_name, now, once=once)
        self.spoke = now
        self.task_now = task
        if once:  # it tells what it does while it does it
            self._head(task)
        return None

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        if self._as_ever():
            return super().v2_runner_on_start(host, task)
        self.run.started(task._uuid)
        return None

    def v2_runner_on_ok(self, result: Any) -> None:
        if self._as_ever():
            return super().v2_runner_on_ok(result)
        self._warn(result)
        self._count(result, "changed" if result.is_changed() else "ok")
        action = result.task.action
        if action in C._ACTION_DEBUG:
            self._debugged(result)
        elif action.startswith("fleet_") and (judged := closed(result.result.get("msg"))):
            self.run.close(judged)
        return None

    def v2_runner_on_skipped(self, result: Any) -> None:
        if self._as_ever():
            return super().v2_runner_on_skipped(result)
        self._warn(result)
        self._count(result, "skipped")
        return None

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        if self._as_ever():
            return super().v2_runner_on_failed(result, ignore_errors)
        self._warn(result)
        outcome = "ignored" if ignore_errors else "rescued" if is_rescued(result.task) else "failed"
        self._count(result, outcome)
        reason = why_failed(self.run.stage.stage if self.run.stage else None, result.result)
        self._failed(result, reason, outcome)
        return None

    def v2_runner_on_unreachable(self, result: Any) -> None:
        if self._as_ever():
            return super().v2_runner_on_unreachable(result)
        outcome = "ignored" if result.task.ignore_unreachable else "unreachable"
        self._count(result, outcome)
        self._failed(result, why_unreachable(result.result), outcome)
        return None

    def v2_runner_item_on_ok(self, result: Any) -> None:
        if self._as_ever():
            return super().v2_runner_item_on_ok(result)
        if result.task.action in C._ACTION_DEBUG:
            self._debugged(result)
        return None

    def v2_runner_item_on_failed(self, result: Any) -> None:
        if self._as_ever():  # else its task's own result says it
            super().v2_runner_item_on_failed(result)

    def v2_runner_item_on_skipped(self, result: Any) -> None:
        if self._as_ever():
            super().v2_runner_item_on_skipped(result)

    def v2_runner_retry(self, result: Any) -> None:
        if self._as_ever():
            return super().v2_runner_retry(result)
        with self._display._lock:
            self.run.retried(result.task._uuid, result.host.get_name())
        return None

    def v2_runner_on_async_poll(self, result: Any) -> None:
        if self._as_ever():
            super().v2_runner_on_async_poll(result)

    def v2_runner_on_async_ok(self, result: Any) -> None:
        if self._as_ever():
            super().v2_runner_on_async_ok(result)

    def v2_runner_on_async_failed(self, result: Any) -> None:
        if self._as_ever():
            super().v2_runner_on_async_failed(result)

    def v2_playbook_on_include(self, included_file: Any) -> None:
        if self._as_ever():
            super().v2_playbook_on_include(included_file)

    def v2_on_file_diff(self, result: Any) -> None:
        if self._as_ever():
            return super().v2_on_file_diff(result)
        known = result.result
        several = known.get("results") if result.task.loop else None
        for one in several if isinstance(several, list) else [known]:
            if isinstance(one, Mapping) and one.get("diff") and one.get("changed"):
                shown = self._get_diff(one["diff"])
                if shown and self.told.may("difference", shown):
                    self._head(result.task)
                    self._display.display(f"{result.host.get_name()}:\n{shown}")
        return None

    def _get_diff(self, difflist: Any) -> str:
        return str(super()._get_diff(clean(difflist)))

    def _dump_results(self, *args: Any, **kwargs: Any) -> Any:
        dumped = super()._dump_results(*args, **kwargs)
        return clean(dumped) if isinstance(dumped, str) else dumped

    # -- what comes of it -------------------------------------------------------------------------------------------

    @property
    def run(self) -> Run:
        if self.seen is None:  # Ansible's own commands start none
            self.seen = Run("", time.monotonic())
        return self.seen

    def _as_ever(self) -> bool:
        return self.mode == "default"

    def _count(self, result: Any, outcome: str) -> None:
        with self._display._lock:
            self.run.ended(result.task._uuid, result.host.get_name(), outcome, time.monotonic())

    def _failed(self, result: Any, reason: Reason, outcome: str) -> None:
        host, name = result.host.get_name(), clean(result.task.get_name().strip())
        if outcome in ("failed", "unreachable"):
            with self._display._lock:
                before = self.run.groups.get((self.run.stages[-1].name, reason.symptom, name))
                count = before.count if before else 0
                group = self.run.left(host, name, reason.symptom, reason.said)
            self.groups.setdefault(id(group), (group, count))
        if not self.told.may("failure", alike(host, f"{outcome}: {reason.symptom}: {reason.said}")):
            return  # its group is told when the task ends
        self._head(result.task)
        after = {"ignored": "...ignoring", "rescued": "...rescued"}.get(outcome, "")
        colour = C.COLOR_UNREACHABLE if outcome == "unreachable" else C.COLOR_ERROR
        said = f"{'UNREACHABLE!' if outcome == 'unreachable' else 'FAILED!'} => {reason.symptom}: {reason.said}"
        to_stderr = self.get_option("display_failed_stderr")
        where = f"{name}: " if self.mode == "live" else ""
        self._display.display(
            f"{where}fatal: [{clean(self.host_label(result))}]: {said}", color=colour, stderr=to_stderr
        )
        if after:
            self._display.display(after, color=C.COLOR_SKIP)

    def _warn(self, result: Any) -> None:
        for warning in result.warnings:
            text = warning.event.msg
            if not self.told.may("warning", alike(result.host.get_name(), text)):
                continue
            event = dataclasses.replace(warning.event, msg=clean(text))
            self._display._warning(dataclasses.replace(warning, event=event))
        for deprecation in result.deprecations:
            self._display._deprecated(deprecation)

    def _debugged(self, result: Any) -> None:
        if result.task.loop and "results" in result.result:
            return  # its items were told
        known = dict(result.result)
        self._clean_results(known, result.task.action)
        said = self._dump_results(known)
        names = self.debugged.setdefault(said, [])
        if result.host.get_name() not in names:
            names.append(result.host.get_name())

    def _head(self, task: Any) -> None:
        """The task's header, once; on the screen it is always to be seen."""
        if self.headed == task._uuid:
            return
        self.headed = task._uuid
        if self.mode == "live":
            self._log(f"TASK [{clean(task.get_name().strip())}]")
        else:
            self._print_task_banner(task)

    def _end_task(self) -> None:
        """A line for all its hosts, in place of one for each."""
        with self._display._lock:
            task = self.run.end_task(time.monotonic())
        if task is None:
            return
        of = self.task_now
        if of.action in C._ACTION_META and of._get_meta() == "end_host":
            self.run.only(task.outcome["skipped"] if of.when else ())
        self._tell_debugged(of)
        if self.linear and task.done > task.count("skipped"):
            if of.action not in C._ACTION_META and not of.action.endswith(("include_role", "include_tasks")):
                self._head(of)
            if self.headed == of._uuid:
                self._line(lines.outcomes(task), _colour(task))
        for group, before in self.groups.values():
            count = group.count - before
            if count > 1:
                names = group.hosts[before:]
                shown = dataclasses.replace(group, count=count, hosts=names, task="")
                self._line(f"{shorten(self.run.stages[-1].name, 60)}: {lines.group(shown)}", C.COLOR_ERROR)
        for line in self.told.rest():
            self._display.display(line)
        self.groups, self.told = {}, Told()

    def _tell_debugged(self, task: Any) -> None:
        for said, names in self.debugged.items():
            if self.told.may("message", said):
                self._head(task)
                self._display.display(f"ok: [{lines.some(names)}] => {said}", color=C.COLOR_OK)
        self.debugged = {}

    def _line(self, text: str, colour: str | None = None) -> None:
        """One line for logs; the screen shows it another way."""
        line = lines.printable([text])[0]
        if self.mode == "live":
            self._log(line)
        else:
            self._display.display(line, color=colour)

    def _log(self, text: str) -> None:
        """Into ANSIBLE_LOG_PATH alone."""
        self._display.display(clean(text), log_only=True)

    # -- the screen -------------------------------------------------------------------------------------------------

    def _past(self) -> Path | None:
        file = self.get_option("past")
        base = Path(C.CONFIG_FILE).parent if C.CONFIG_FILE else Path.cwd()
        return base / file if file else None

    def _begin_to_show(self) -> None:
        if self.asking is not None:
            self.asking.__exit__(None, None, None)
            self.asking = None
        if self.terminal is not None:
            return
        self.terminal = Terminal(self._display._lock, self._draw)
        atexit.register(self._close)
        if self.mode == "live":
            ask_without_screen(self._display, self.terminal)
            before_sigterm(self._close)
            self.terminal.start()
            every(1 / FRAMES_A_SECOND, self.terminal.over, self.terminal.refresh)
        elif (interval := self.get_option("interval")) > 0:
            every(min(1.0, max(0.1, interval / 2)), self.terminal.over, self._still)

    def _draw(self, width: int, height: int) -> Any:
        return screen.draw(self.run, time.monotonic(), width, height)

    def _still(self) -> None:
        """A line on a task that takes its time, so that a log shows that the run lives."""
        with self._display._lock:
            task, now = self.run.task, time.monotonic()
            if task is None or task.ended is not None or now - self.spoke < self.get_option("interval"):
                return
            self.spoke = now
            self._head(self.task_now)
            self._display.display(lines.going_on(task, now))
            sys.stdout.flush()

    def _close(self, interrupted: bool = True) -> None:
        """The screen goes; of a run that was interrupted it is said how far it came."""
        terminal, self.terminal = self.terminal, None
        if terminal is None or os.getpid() != terminal.pid:
            return
        shown = terminal.live is not None
        terminal.close()
        if interrupted and shown:
            for line in lines.printable(lines.ending(self.run, time.monotonic())):
                self._display.display(line)


def _colour(task: Task) -> str:
    if task.count("failed") or task.count("unreachable"):
        return str(C.COLOR_ERROR)
    return str(C.COLOR_CHANGED if task.count("changed") else C.COLOR_OK)
