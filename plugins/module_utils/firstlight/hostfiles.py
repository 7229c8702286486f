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
KEYS = ("path", "state", "template", "content", "owner", "group", "mode")
MODES = {"file": "0644", "directory": "0755", "absent": "0"}
SHOWN_BYTES = 256 * 1024
NAME_BYTES = 240  # of the 255 that a name may have: a file has a longer one while it is written


@dataclasses.dataclass(frozen=True)
class Entry:
    """One file, folder, or name that is not to be there. ``content`` is a file's whole text, encoded."""

    path: Path
    state: str
    content: bytes = b""
    owner: str = "root"
    group: str = "root"
    mode: int = 0o644


def read(files: Iterable[Any]) -> list[Entry]:
    """The entries, in their order. A wrong one is a ValueError, one line that names it."""
    entries: list[Entry] = []
    for number, given in enumerate(files, 1):
        if not isinstance(given, dict):
            raise ValueError(f"entry {number}: is no mapping with a path")
        path = given.get("path")
        if not isinstance(path, str) or not path or not path.isprintable():
            raise ValueError(f"entry {number}: path must be the absolute path of a file or folder")
        try:
            entries.append(_entry(path, given))
        except UnicodeError:
            raise ValueError(f"{path}: is not UTF-8") from None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        _refuse_contradictions(entries)
    return entries


def _entry(path: str, given: dict[str, Any]) -> Entry:
    if unknown := [str(key) for key in given if key not in KEYS]:
        raise ValueError(f"{unknown[0]!r} is no option; {', '.join(KEYS)} are")
    if not path.startswith("/") or os.path.normpath(path) != path or path in ("/", "//"):
        raise ValueError("path must be absolute, and without '..', '//' or a slash at its end")
    if any(len(name.encode()) > NAME_BYTES for name in path.split("/")):
        raise ValueError(f"a name in a path may have {NAME_BYTES} bytes")
    state, content = given.get("state") or "file", given.get("content")
    if state not in STATES:
        raise ValueError(f"state {state!r} must be one of {', '.join(STATES)}")
    for key in ("content", "owner", "group", "mode"):
        if given.get(key) is not None and not isinstance(given[key], str):
            raise ValueError(f"{key} must be text; put it in quotes, or through a filter such as to_nice_json")
    if state == "file" and content is None:
        raise ValueError("a file needs a template or its content")
    if state != "file" and content is not None:
        raise ValueError(f"state {state} goes with neither template nor content")
    mode = given.get("mode") or MODES[state]
    if state != "absent" and not re.fullmatch(r"0[0-7]{3,4}", mode):
        raise ValueError(f'mode {mode} must be octal digits in quotes, as in "0644"')
    owner, group = given.get("owner") or "root", given.get("group") or "root"
    return Entry(Path(path), state, (content or "").encode(), owner, group, int(mode, 8))


def _refuse_contradictions(entries: list[Entry]) -> None:
    """Between the last entry and those before it."""
    *before, last = entries
    for other in before:
        if other.path == last.path:
            raise ValueError(f"{last.path}: is listed twice")
        for above, below in ((other, last), (last, other)):
            if above.path in below.path.parents and above.state != "directory":
                raise ValueError(f"{below.path}: cannot be below {above.path}, which is listed as {above.state}")


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


def shown(content: bytes) -> str:
    """A file's content for people who asked for differences; what is no text of bearable length is described."""
    if len(content) > SHOWN_BYTES:
        return f"(of {len(content)} bytes, not shown)\n"
    try:
        return content.decode()
    except UnicodeDecodeError:
        return f"(of {len(content)} bytes that are no text)\n"


def attributes(mode: int, owner: int, group: int) -> str:
    """Permissions and owners (numbers of user and group) for people, a line each."""
    return f"mode: {mode:04o}\nowner: {owner}\ngroup: {group}\n"
