"""The screen on a real terminal: it shows the run, asks without itself, and leaves the terminal as it was."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pexpect
import pytest
import yaml

ROOT = Path(__file__).parents[2]
HOSTS = [f"r1-n{i:02}" for i in range(1, 31)]
LONG = [
    {"name": "Quick", "ansible.builtin.set_fact": {"x": 1}},
    {
        "name": "Break three",
        "ansible.builtin.fail": {"msg": "GPU gone"},
        "when": "inventory_hostname in ['r1-n01', 'r1-n02', 'r1-n03']",
    },
    {"name": "Take long", "ansible.builtin.command": "sleep 120", "when": "inventory_hostname == 'r1-n04'"},
]
ASKS = [
    {"name": "Wait for a key", "ansible.builtin.pause": {"prompt": "Press enter to go on"}},
    {"name": "Say it", "ansible.builtin.debug": {"msg": "went on"}, "run_once": True},
]
PROMPT = {"vars_prompt": [{"name": "word", "prompt": "Type the word", "private": False}]}
HIDDEN = "\x1b[?25l"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    fleet = {"fleet": {"vars": local, "hosts": {name: {} for name in HOSTS}}}
    (tmp_path / "site.yaml").write_text(yaml.safe_dump(fleet))
    return tmp_path


def play(site: Path, tasks: list[dict[str, Any]]) -> list[str]:
    content = [{"name": "Try", "hosts": "fleet", "gather_facts": False, "tasks": tasks}]
    (site / "try.yml").write_text(yaml.safe_dump(content, sort_keys=False))
    return [str(ROOT / ".venv/bin/ansible-playbook"), str(site / "try.yml")]


def environment(site: Path) -> dict[str, str]:
    dropped = ("ANSIBLE_", "FIRSTLIGHT_", "CI", "NO_COLOR")
    known = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return known | {
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_INVENTORY": str(site / "site.yaml"),
        "FIRSTLIGHT_PROGRESS_PAST": str(site / "progress.json"),
        "TERM": "xterm-256color",
    }


def on_a_terminal(site: Path, command: list[str]) -> Any:
    return pexpect.spawn(
        command[0], command[1:], cwd=str(ROOT), env=environment(site), dimensions=(24, 80), timeout=120,
        encoding="utf-8", codec_errors="strict",
    )  # fmt: skip


def text(raw: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", raw)


@pytest.mark.parametrize("how", ["ctrl-c", "sigterm"])
def test_a_run_that_is_stopped_leaves_the_terminal_as_it_was(site: Path, how: str) -> None:
    child = on_a_terminal(site, play(site, LONG))
    before = termios.tcgetattr(child.child_fd)
    child.expect("Take long, 29 of 30 hosts|Take long, 26 of 27 hosts")
    shown = child.before + child.after
    assert "3 hosts failed" in text(shown) and "task_failed" in text(shown)
    time.sleep(1)  # all is started: Ansible's own handler of Ctrl-C breaks off badly while it starts workers
    child.sendintr() if how == "ctrl-c" else child.kill(signal.SIGTERM)
    child.expect(pexpect.EOF)
    child.wait()
    raw = shown + child.before
    assert child.exitstatus == 99 if how == "ctrl-c" else child.signalstatus == signal.SIGTERM
    assert termios.tcgetattr(child.child_fd) == before
    assert HIDDEN not in raw and "\x1b[?1049h" not in raw  # no cursor was hidden, no other screen was opened
    assert raw.endswith("\n")
    assert "Try : 27 of 30 hosts, 3 failed" in text(child.before) and "not ended" in text(child.before)
    assert "Traceback" not in raw


def test_the_screen_is_away_while_somebody_is_asked(site: Path) -> None:
    command = play(site, ASKS)
    second = {"name": "Second", "hosts": "fleet", "gather_facts": False, "tasks": ASKS[1:], **PROMPT}
    (site / "try.yml").write_text(yaml.safe_dump([*yaml.safe_load((site / "try.yml").read_text()), second]))
    child = on_a_terminal(site, [*command, "--limit", "r1-n0*"])
    for question, answer in (("Press enter to go on", ""), ("Type the word: ", "frog")):
        child.expect(question)
        child.expect(pexpect.TIMEOUT, timeout=2)
        assert "\x1b[" not in child.before.replace("\x1b[0m", ""), "something is drawn while it waits"
        child.sendline(answer)
    child.expect("Second : 9 of 9 hosts")
    child.expect("PLAY RECAP")
    child.expect(pexpect.EOF)
    child.wait()
    assert child.exitstatus == 0


def test_in_a_pipe_there_are_lines(site: Path) -> None:
    done = subprocess.run(
        play(site, LONG[:2]), cwd=ROOT, env=environment(site), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "\x1b" not in done.stdout
    assert "TASK [Quick] ***" in done.stdout and "\n30 ok\n" in done.stdout
    assert done.stdout.count("FAILED!") == 1
    assert "Try: 3 hosts: task_failed (r1-n01, r1-n02, r1-n03)" in done.stdout
    assert len(re.findall(r" ok=\d+ ", done.stdout)) == 30
