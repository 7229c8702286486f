"""What the progress callback costs beside Ansible's default one, on the same results of 500 hosts and 60 tasks.

    .venv/bin/python tests/benchmarks/progress_callback.py [HOSTS] [TASKS]

CPU seconds of the callbacks alone, on results that were copied for them as Ansible copies them; the screen is
drawn twice a second on a terminal of 120x40, so its cost depends on how long a run takes and is given a second.
"""

from __future__ import annotations

import contextlib
import io
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ansible import context
from ansible.executor.task_result import CallbackTaskResult
from ansible.plugins.loader import callback_loader
from ansible.utils.context_objects import CLIArgs
from rich.console import Console

from firstlight.progress.screen import draw

ROOT = Path(__file__).parents[2]
RESULT = {"changed": False, "cmd": ["true"], "rc": 0, "stdout": "x" * 200, "stdout_lines": ["x" * 200], "stderr": ""}


class Task(SimpleNamespace):
    """As much of Ansible's as callbacks look at."""

    def get_name(self) -> str:
        return str(self.name)

    def get_path(self) -> str:
        return ""


def made_task(number: int, **other: Any) -> Task:
    known = {"name": f"role : Task {number}", "action": "ansible.builtin.command", "_uuid": f"u{number}", "loop": None}
    still = {"delegate_to": None, "no_log": False, "check_mode": False, "run_once": False, "_parent": None, "when": []}
    return Task(**{**known, **still, "ignore_errors": False, "ignore_unreachable": False, "args": {}, **other})


def made_play(names: list[str], name: str = "Configure", stage: str | None = "configure") -> SimpleNamespace:
    hosts = [SimpleNamespace(get_name=lambda n=n: n) for n in names]
    inventory = SimpleNamespace(get_hosts=lambda pattern, order=None: hosts)
    manager = SimpleNamespace(_inventory=inventory)
    return SimpleNamespace(
        get_name=lambda: name, strategy="linear", check_mode=False, vars={"stage": stage}, hosts="all",
        get_variable_manager=lambda: manager,
    )  # fmt: skip


def loaded(name: str, *, check: bool = False, **options: Any) -> Any:
    callback_loader.add_directory(str(ROOT / "plugins" / "callback"))
    context.CLIARGS = CLIArgs({"check": check})
    callback = callback_loader.get(name)
    callback.set_options(direct=options)
    return callback


def run(callback: Any, hosts: int, tasks: int) -> float:
    """CPU seconds of the callback."""
    names = [f"r{i // 20 + 1:02}-n{i % 20 + 1:02}" for i in range(hosts)]
    made = {name: SimpleNamespace(get_name=lambda n=name: n, vars={}) for name in names}
    spent = 0.0
    begun = time.process_time()
    callback.v2_playbook_on_start(SimpleNamespace(_file_name="site.yml"))
    callback.v2_playbook_on_play_start(made_play(names))
    spent += time.process_time() - begun
    for number in range(tasks):
        task = made_task(number)
        results = [CallbackTaskResult(made[name], task, dict(RESULT), {}) for name in names]
        begun = time.process_time()
        callback.v2_playbook_on_task_start(task, False)
        for index, (name, result) in enumerate(zip(names, results, strict=True)):
            callback.v2_runner_on_start(made[name], task)
            if (number * hosts + index) % 5000 == 17:
                callback.v2_runner_on_failed(result)
            else:
                callback.v2_runner_on_ok(result)
        spent += time.process_time() - begun
    return spent


def drawn(callback: Any) -> float:
    """CPU seconds of one frame."""
    console = Console(file=io.StringIO(), width=120, height=40, force_terminal=True)
    begun = time.process_time()
    for _ in range(20):
        console.print(draw(callback.run, time.monotonic(), 120, 40))
    return (time.process_time() - begun) / 20


def main() -> None:
    hosts, tasks = (int(word) for word in (*sys.argv[1:], "500", "60")[:2])
    spent = {}
    for name, options in (("default", {}), ("firstlight_progress", {"progress": "plain"})):
        callback = loaded(name, **options)
        with contextlib.redirect_stdout(io.StringIO()):
            spent[name] = run(callback, hosts, tasks)
    frame = drawn(callback)
    print(f"{hosts} hosts, {tasks} tasks: default {spent['default']:.2f} s, ours {spent['firstlight_progress']:.2f} s")
    print(f"ratio {spent['firstlight_progress'] / spent['default']:.2f}; a frame of the screen {frame * 1000:.1f} ms")


if __name__ == "__main__":
    main()
