"""What files and folders a host is to have, as a task of the module host_files lists them; standard library only."""

from __future__ import annotations

import dataclasses
import os
import re
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

STATES = ("file", "directory", "absent")
MODES = {"file": "0644", "directory": "0755"}
SHOWN_BYTES = 256 * 1024


@dataclasses.dataclass(frozen=True)
class Entry:
    """One file, folder, or name that is not to be there. ``content`` is a file's whole text, encoded."""

    path: Path
    state: str
    content: bytes = b""
    owner: str = "root"
    group: str = "root"
    mode: str = ""


def read(files: Iterable[dict[str, Any]]) -> list[Entry]:
    """The entries, in their order. A wrong one is a ValueError that names it."""
    entries: list[Entry] = []
    for number, given in enumerate(files, 1):
        path, state, content, mode = given["path"], given["state"], given.get("content"), given.get("mode")
        said = path or f"entry {number}"
        if not path.startswith("/") or os.path.normpath(path) != path or path in ("/", "//") or "\0" in path:
            raise ValueError(f"{said}: path must be absolute, and without '..', '//' or a slash at its end")
        if state == "file" and content is None:
            raise ValueError(f"{said}: a file needs a template or its content")
        if state != "file" and content is not None:
            raise ValueError(f"{said}: state {state} goes with neither template nor content")
        if state == "absent":
            mode = ""
        else:
            mode = mode or MODES[state]
            if not re.fullmatch(r"0[0-7]{3,4}", mode):
                raise ValueError(f'{said}: mode {mode} must be octal digits in quotes, as in "0644"')
        if any(Path(path) == other.path for other in entries):
            raise ValueError(f"{said}: is listed twice")
        owner, group = given.get("owner") or "root", given.get("group") or "root"
        entries.append(Entry(Path(path), state, (content or "").encode(), owner, group, mode))
    return entries


def kind_of(path: Path) -> str:
    """What is there, by one look: ``file``, ``directory``, ``link``, ``other`` or ``nothing``."""
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "nothing"
    if stat.S_ISLNK(mode):
        return "link"
    return "directory" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"


def obstacle(
    entries: list[Entry], kind: Callable[[Path], str] = kind_of, is_folder: Callable[[Path], bool] = Path.is_dir
) -> str:
    """Why they cannot all be made, in one line, or nothing: looked for before the first is written."""
    made: set[Path] = set()
    for entry in entries:
        there = kind(entry.path)
        if entry.state == "directory":
            # it is made with the folders above it
            for path in (entry.path, *entry.path.parents):
                if kind(path) != "nothing" and not is_folder(path):
                    return f"{path}: is no folder, and is not replaced by one"
                made.add(path)
        elif there == "directory":
            return f"{entry.path}: is a folder, and is not removed or replaced by a file"
        elif there == "other":
            return f"{entry.path}: is a device, socket or pipe, and is not removed or replaced by a file"
        parent = entry.path.parent
        if entry.state == "file" and parent not in made and not is_folder(parent):
            return f"{entry.path}: there is no folder {parent}; list it before, with state directory"
    return ""


def shown(content: bytes | None) -> str:
    """A file's content for people who asked for differences; what is no text of bearable length is described."""
    if content is None:
        return ""
    if len(content) > SHOWN_BYTES:
        return f"(of {len(content)} bytes, not shown)\n"
    try:
        return content.decode()
    except UnicodeDecodeError:
        return f"(of {len(content)} bytes that are no text)\n"
