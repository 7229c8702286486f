"""The simulators' processes: started once, known by their own ids, stopped by them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from simulators.host.containers import ENGINE
from simulators.lab_files import LabError, write_atomic

REPOSITORY = Path(__file__).resolve().parents[2]
SIMULATORS = ("bmc", "maas")
READY_SECONDS = 60
STOP_SECONDS = 10
TAIL = 15  # lines of a log that are shown when its simulator dies


def running(lab_dir: Path, name: str) -> int | None:
    """The process id of a simulator, or None; an id that went to another process since does not count.

    pid/NAME.process holds the id and when the process started; pid/NAME.pid is the simulator's own.
    """
    try:
        pid, started = (lab_dir / "pid" / f"{name}.process").read_text().split()
    except (OSError, ValueError):
        return None
    return int(pid) if pid.isdigit() and _started(int(pid)) == started else None


def start(lab_dir: Path, name: str, addresses: Sequence[tuple[str, int]]) -> bool:
    """Start a simulator unless it runs; return whether it had to be started, once it accepts connections.

    The BMC simulator starts and stops containers, so it lives where podman works. LabError with the log's end when it
    dies or does not get ready.
    """
    if running(lab_dir, name):
        return False
    log = lab_dir / "log" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", f"simulators.{name}", "--lab-dir", str(lab_dir)]
    if name == "bmc":
        command = [str(ENGINE), "run", *command]
    environment = os.environ | {
        "FIRSTLIGHT_LAB_DIR": str(lab_dir),
        "PYTHONPATH": str(REPOSITORY),
        "PYTHONUNBUFFERED": "1",
    }
    with log.open("ab") as stream:
        process = subprocess.Popen(
            command, cwd=REPOSITORY, env=environment, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
            start_new_session=True,
        )  # fmt: skip
    # the engine replaces itself by the command: the id stays the simulator's
    write_atomic(lab_dir / "pid" / f"{name}.process", f"{process.pid} {_started(process.pid)}\n")
    try:
        _wait_ready(process, name, log, addresses)
    except LabError:
        stop(lab_dir, name)
        raise
    return True


def answers(address: tuple[str, int]) -> bool:
    """Say whether anything accepts connections there."""
    try:
        socket.create_connection(address, timeout=1).close()
    except OSError:
        return False
    return True


def stop(lab_dir: Path, name: str) -> bool:
    """Stop a simulator, by force if it does not end by itself; return whether it ran."""
    pid = running(lab_dir, name)
    if pid:
        for kind in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, kind)
            if _gone(lab_dir, name, pid, STOP_SECONDS):
                break
    (lab_dir / "pid" / f"{name}.process").unlink(missing_ok=True)
    return pid is not None


def _wait_ready(process: subprocess.Popen[bytes], name: str, log: Path, addresses: Sequence[tuple[str, int]]) -> None:
    until = time.monotonic() + READY_SECONDS
    waiting = list(addresses)
    while waiting:
        if process.poll() is not None:
            raise LabError(
                f"the {name} simulator ended with status {process.returncode}; the end of {log}:\n{_end(log)}"
            )
        if answers(waiting[0]):
            waiting.pop(0)
        elif time.monotonic() > until:
            what = f"does not listen on {waiting[0][0]}:{waiting[0][1]} after {READY_SECONDS} s"
            raise LabError(f"the {name} simulator {what}; the end of {log}:\n{_end(log)}")
        else:
            time.sleep(0.1)


def _started(pid: int) -> str:
    """When a process started, in the kernel's own count; empty when it does not exist (or is a zombie)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def _gone(lab_dir: Path, name: str, pid: int, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        if running(lab_dir, name) != pid:
            return True
        time.sleep(0.05)
    return False


def _end(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join(f"  {line}" for line in lines[-TAIL:]) or "  (empty)"
