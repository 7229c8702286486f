"""One run at a time works on a host: claims that the kernel gives back when a process ends, however it ends."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import struct
from collections.abc import Iterable
from pathlib import Path

from ..errors import FirstlightError

SHOWN = 5
_FLOCK = "hhqqi4x"  # struct flock of 64-bit Linux: l_type, l_whence, l_start, l_len, l_pid


class Claims:
    """Claims on hosts, in a file beside an SQLite ledger: one locked byte a host, at a place that its name gives.

    POSIX locks belong to a process: workers that it forks do not keep them when it is killed.
    """

    def __init__(self, ledger: Path) -> None:
        self._path = ledger.with_name(f"{ledger.name}.lock")
        self._file: int | None = None

    def take(self, names: Iterable[str]) -> None:
        """Claim all of these hosts or none; FirstlightError says who has which."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)  # less the umask, as the ledger
        except OSError as error:
            raise FirstlightError(f"{self._path} cannot be opened: {error.strerror}") from None
        busy: dict[str, int] = {}
        for name in names:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _place(name))
            except OSError:
                busy[name] = _holder(file, _place(name))
        if busy:
            os.close(file)  # gives back what was taken
            shown = ", ".join(list(busy)[:SHOWN]) + (f" and {len(busy) - SHOWN} more" if len(busy) > SHOWN else "")
            pids = ", ".join(str(pid) for pid in sorted(set(busy.values())) if pid)
            raise FirstlightError(
                f"another run{f' (process {pids})' if pids else ''} works on {shown}; wait for its end, or leave them "
                "out with -l"
            )
        self._file = file


def _place(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:7])


def _holder(file: int, place: int) -> int:
    """The process that holds a byte, 0 when that cannot be told."""
    with contextlib.suppress(OSError, struct.error):
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
        return int(struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, asked))[4])
    return 0
