"""Become ansible-playbook: its environment from the runner, not from a file; its end with the runner's.

ansible-runner writes the environment that it is given into its artifacts. So it is given none of the operator's, in
which there may be passwords: that is read here, from the process that drives the shard.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

from . import locks

_PR_SET_PDEATHSIG = 1


def main(lock: str, parent: int, command: list[str]) -> int:
    """Becomes the command; returns only where the runner is gone or another process has the shard's lock."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)  # a shell that starts something with & ignores Ctrl-C for it
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)  # as Ctrl-C: the callback then closes the run
    try:
        environment = _environment(parent)
    except OSError:
        environment = None
    if environment is None or os.getppid() != parent:
        print("fleet: the process that drives this shard is gone", file=sys.stderr)
        return 1
    if locks.hold(Path(lock), through_exec=True) is None:
        print(f"fleet: process {locks.holder(Path(lock))} still works on this shard", file=sys.stderr)
        return 1
    return os.execvpe(command[0], command, {**environment, **os.environ})  # noqa: S606


def _environment(process: int) -> dict[str, str]:
    """What a process was started with."""
    words = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    pairs = (os.fsdecode(word).partition("=") for word in words if b"=" in word)
    return {name: value for name, _, value in pairs}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
