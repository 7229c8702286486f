"""Redfish trees on disk: captured ones read, our own written.

Read are the DMTF's mockup form (``.../redfish/v1/Systems/index.json``, or the folder that is ``/redfish/v1`` itself),
a flat folder (``_redfish_v1_Systems.json``, or any names where each file says its ``@odata.id``), and mixtures.
"""

from __future__ import annotations

import datetime
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import InputError
from .client import ROOT, Resource, _is_path
from .values import moment

NOTES = "firstlight-capture.json"
MAX_FILES = 20_000
MAX_FILE_BYTES = 8 * 1024 * 1024
MAX_TREE_BYTES = 256 * 1024 * 1024


@dataclass
class CapturedTree:
    """resources: path -> JSON object. captured_at: when (UTC), where the tree says so. skipped: files of no use."""

    resources: dict[str, Resource] = field(default_factory=dict)
    captured_at: datetime.datetime | None = None
    skipped: list[str] = field(default_factory=list)


def load_tree(folder: Path | str) -> CapturedTree:
    """Read a captured tree; InputError when the folder holds none. One unreadable file is skipped, and named."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError("no such folder", str(folder))
    tree = CapturedTree()
    total = 0
    for path in _json_files(folder):
        relative = path.relative_to(folder)
        data, size = _read(path)
        total += size
        if total > MAX_TREE_BYTES:
            raise InputError(f"holds more than {MAX_TREE_BYTES} bytes; is this one BMC's tree?", str(folder))
        if str(relative) == NOTES:
            tree.captured_at = moment(data.get("captured_at")) if data else None
            continue
        place = _place(relative, data) if data is not None else None
        if data is None or place is None:
            tree.skipped.append(str(relative))
        elif path.name == "index.json" or place not in tree.resources:
            tree.resources[place] = data
    if not any(path == ROOT or path.startswith(f"{ROOT}/") for path in tree.resources):
        raise InputError("holds no Redfish tree: no redfish/v1/index.json, no file with an @odata.id", str(folder))
    return tree


def write_tree(folder: Path | str, resources: Mapping[str, Resource], notes: Mapping[str, Any]) -> None:
    """Write a tree in the mockup form, into a folder that does not exist yet or is empty."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InputError("is not empty; name a new folder", str(folder))
        for path, resource in resources.items():
            place = folder / path.lstrip("/") / "index.json"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(json.dumps(resource, indent=2) + "\n", encoding="utf-8")
        (folder / NOTES).write_text(json.dumps(dict(notes), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", error.filename or str(folder)) from None


def is_writable_path(path: str) -> bool:
    """True for a Redfish path that can be a folder here: it came from a BMC, and must not lead elsewhere."""
    parts = path.split("/")[1:]
    return (
        _is_path(path)
        and len(parts) <= 32
        and all(part and part not in (".", "..", "index.json") and len(part.encode()) <= 200 for part in parts)
        and not set(path) & set('\0\\?*|<>"')
    )


def _json_files(folder: Path) -> Iterator[Path]:
    """All JSON files, links not followed, in a fixed order."""
    count = 0
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(parent, name)
            if path.suffix != ".json" or path.is_symlink():
                continue
            count += 1
            if count > MAX_FILES:
                raise InputError(f"holds more than {MAX_FILES} files; is this one BMC's tree?", str(folder))
            yield path


def _read(path: Path) -> tuple[Resource | None, int]:
    """The JSON object in a file (None when it is something else), and how large the file is."""
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            return None, 0
        data = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return None, 0
    return (data if isinstance(data, dict) else None), size


def _place(relative: Path, data: Resource | None) -> str | None:
    """Which resource a file is: by its folder, by its name, else by what it says of itself."""
    parts = relative.parts
    if relative.name == "index.json":
        for start in range(len(parts) - 2, -1, -1):
            if parts[start : start + 2] == ("redfish", "v1"):
                return "/" + "/".join(parts[start:-1])
        if parts[-2:-1] == ("redfish",):
            return "/redfish"
    flat = re.search(r"redfish_v1(.*)\.json$", relative.name)
    said = data.get("@odata.id") if data else None
    said = said.partition("#")[0].rstrip("/") if isinstance(said, str) and _is_path(said) else None
    if relative.name == "index.json":  # the folder is /redfish/v1 itself
        return "/".join((ROOT, *parts[:-1]))
    if said:
        return said
    return ROOT + flat[1].replace("_", "/").rstrip("/") if flat else None
