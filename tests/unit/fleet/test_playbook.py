"""The process that becomes ansible-playbook."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from firstlight.fleet.locks import holder

# what drives a shard: it forgets its environment, and starts the command that stands in its arguments
DRIVER = """
import os, subprocess, sys
for name in list(os.environ):
    del os.environ[name]
words = [sys.argv[1], sys.argv[2] or str(os.getpid()), *sys.argv[3:]]
added = {"BY_RUNNER": "1", "BOTH": "runner"}
done = subprocess.run([sys.executable, "-m", "firstlight.fleet.playbook", *words], env=added)
sys.exit(done.returncode % 256)
"""


def drive(lock: Path, *command: str, parent: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(lock), parent, *command],
        env={"PATH": os.environ["PATH"], "SECRET": "s=1\n2", "BOTH": "operator"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_it_has_what_the_driver_was_started_with_and_what_the_runner_adds(tmp_path: Path) -> None:
    process = drive(tmp_path / "lock", "env", "-0")
    out, error = process.communicate(timeout=60)
    assert process.returncode == 0, error
    known = dict(word.split("=", 1) for word in out.split("\0") if word)
    assert (known["SECRET"], known["BY_RUNNER"], known["BOTH"]) == ("s=1\n2", "1", "runner")
    assert known["PATH"] == os.environ["PATH"]


def test_a_driver_that_is_gone_starts_nothing(tmp_path: Path) -> None:
    for parent in ("1", "4194305"):  # not its parent; no process at all
        process = drive(tmp_path / "lock", "touch", str(tmp_path / "done"), parent=parent)
        _, error = process.communicate(timeout=60)
        assert process.returncode == 1 and error == "fleet: the process that drives this shard is gone\n"
    assert not (tmp_path / "done").exists()


def test_one_at_a_time_works_on_a_shard(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    first = drive(lock, "sleep", "60")
    try:
        working = _wait_for_holder(lock)
        second = drive(lock, "touch", str(tmp_path / "done"))
        _, error = second.communicate(timeout=60)
        assert second.returncode == 1 and error == f"fleet: process {working} still works on this shard\n"
        assert not (tmp_path / "done").exists()
    finally:
        first.kill()
        first.communicate()


def test_it_gets_ctrl_c_when_its_driver_is_killed(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    note = f"trap 'echo interrupted >{tmp_path}/note; exit' INT; echo ready >{tmp_path}/ready; sleep 60 & wait"
    driver = drive(lock, "sh", "-c", note)
    _wait_for_holder(lock)
    _wait(lambda: (tmp_path / "ready").exists())
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    _wait(lambda: not holder(lock))
    assert (tmp_path / "note").read_text() == "interrupted\n"


def _wait_for_holder(lock: Path) -> int:
    _wait(lambda: holder(lock))
    return holder(lock)


def _wait(holds: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)
