"""A program that cannot be begun: the kernel asks this process before it runs it, and gets no answer.

To whoever runs it that is a drive which does not answer: execve does not return, whatever is sent to it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

FAN_CLASS_CONTENT, FAN_MARK_ADD, FAN_OPEN_EXEC_PERM, AT_FDCWD = 4, 1, 0x40000, -100  # fanotify(7)


@contextmanager
def never_begins(program: Path) -> Iterator[None]:
    """Until the end; then whoever waits goes on. The test is skipped where the kernel does not let us."""
    libc = ctypes.CDLL(None)
    asked = libc.fanotify_init(FAN_CLASS_CONTENT, os.O_RDONLY)
    if asked < 0:
        pytest.skip("needs root, and a kernel that asks before it runs a program")
    try:
        events = ctypes.c_uint64(FAN_OPEN_EXEC_PERM)
        if libc.fanotify_mark(asked, FAN_MARK_ADD, events, AT_FDCWD, os.fsencode(program)):
            pytest.skip("needs a kernel that asks before it runs a program")
        yield
    finally:
        os.close(asked)
