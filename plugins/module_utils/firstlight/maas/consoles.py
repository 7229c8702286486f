"""Console logs of machines, as conserver or a BMC's collector write them: the end of what came since a moment."""

from __future__ import annotations

import os
import stat

from ..findings import shorten

TAIL_BYTES = 65536


class Consoles:
    """template: path of a machine's log with ``{name}`` in it, "" when the site has none."""

    def __init__(self, template: str) -> None:
        self._template = template

    def path(self, name: str) -> str:
        return self._template.replace("{name}", name) if self._template else ""

    def mark(self, name: str) -> int:
        """Where the log ends now: what comes later is of what is begun now. 0 when there is none."""
        path = self.path(name)
        try:
            return os.stat(path).st_size if path else 0  # noqa: PTH116 - no object for one call a step
        except OSError:
            return 0

    def read(self, name: str, mark: int) -> tuple[str, str]:
        """The text since the mark, its end at most, and why it could not be read ("" when it could)."""
        path = self.path(name)
        if not path:
            return "", ""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe must not hold us
        except OSError as error:
            return "", f"console log {path}: {error.strerror}"
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return "", f"console log {path}: not a file"
            begin = mark if mark <= status.st_size else 0  # it was rotated
            begin = max(begin, status.st_size - TAIL_BYTES)
            return os.pread(descriptor, TAIL_BYTES, begin).decode("utf-8", "replace"), ""
        except OSError as error:
            return "", shorten(f"console log {path}: {error.strerror}", 200)
        finally:
            os.close(descriptor)
