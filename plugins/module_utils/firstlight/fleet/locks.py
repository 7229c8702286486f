"""Which process works: a lock on a file, which the kernel gives back however the process ends.

A POSIX lock belongs to a process, not to what it forks; it outlasts exec, and the kernel tells who holds it. It is lost
when its process closes any descriptor of that file, so a holder must not ask about its own.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from pathlib import Path

_FLOCK = "hhqqi4x"  # struct flock of 64-bit Linux: l_type, l_whence, l_start, l_len, l_pid


def hold(path: Path, *, through_exec: bool = False) -> int | None:
    """Lock the file until this process ends; its descriptor, or None where another process holds it."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return None
    os.set_inheritable(file, through_exec)
    return file


def holder(path: Path) -> int:
    """The process that holds the lock, 0 when there is none."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    with contextlib.closing(os.fdopen(file)):
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, asked))
        return 0 if kind == fcntl.F_UNLCK else int(pid)
