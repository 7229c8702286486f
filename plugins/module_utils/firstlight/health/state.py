"""Where a host by itself remembers: one file, read and written whole. What is wrong with it is a warning, no error."""

from __future__ import annotations

import json
import os
import stat
from typing import List, Tuple

from ..findings import Finding
from ..wholefile import write_whole
from . import earlier
from .earlier import Memory

FORMAT = 1
CHECK = "earlier"  # what looked, in the findings about it
_BYTES_MAX = earlier.BYTES_MAX + 4096


def load(path: str) -> Tuple[Memory, List[Finding]]:
    """What the file remembers, and what is wrong with it; nothing of one that is not there yet."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe must not be waited for
    except FileNotFoundError:
        return {}, []
    except OSError as error:
        return {}, [_unreadable(path, error.strerror or "")]
    try:
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ValueError("is no plain file")
            content = file.read(_BYTES_MAX + 1)
        if len(content) > _BYTES_MAX:
            raise ValueError(f"has more than {_BYTES_MAX} bytes")
        return _parse(content), []
    except OSError as error:
        return {}, [_unreadable(path, error.strerror or "")]
    except ValueError as error:
        return {}, [_unreadable(path, str(error))]


def _parse(content: bytes) -> Memory:
    try:
        document = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):
        raise ValueError("is no JSON") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"is not of format {FORMAT}")
    return earlier.read(document.get("earlier"))


def save(path: str, memory: Memory) -> List[Finding]:
    """Write the file, whole or not at all; the finding where that is not possible."""
    try:
        write_whole(path, json.dumps({"format": FORMAT, "earlier": memory}, indent=1, sort_keys=True) + "\n")
    except OSError as error:
        return [Finding(CHECK, "warn", "earlier.not_written", path, error.strerror or "")]
    return []


def _unreadable(path: str, why: str) -> Finding:
    return Finding(CHECK, "warn", "earlier.unreadable", path, f"{why}; what was remembered is lost, it begins anew")
