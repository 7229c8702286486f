"""A captured Redfish tree from a folder, served as it is: nothing is added, nothing is repaired.

Two forms: DMTF's mockups (`redfish/v1/.../index.json`, or the folder below `redfish` or `redfish/v1`), and flat files
(`_redfish_v1_A_B.json`, each under its @odata.id). `custom.json` in place of an index holds {"status", "body"}: an
answer that was no resource.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from simulators.bmc import errors
from simulators.bmc.actions import Done
from simulators.bmc.machine import Machine
from simulators.bmc.tree import ROOT

if TYPE_CHECKING:
    from simulators.bmc.listener import Bmc

MAX_FILE = 16 * 1024**2


class TreeError(Exception):
    """The folder holds no tree; the message says what was looked for."""


class AsItIs(Exception):
    """An answer whose bytes come from a file."""

    def __init__(self, status: int, content: bytes) -> None:
        """Keep the answer."""
        super().__init__(status)
        self.status = status
        self.content = content


class Captured:
    """The files of a captured tree, by path."""

    def __init__(self, folder: Path) -> None:
        """Find the files. TreeError when there is no service root among them."""
        self._files: dict[str, Path] = {}
        if not folder.is_dir():
            raise TreeError(f"{folder}: no such folder")
        for path in sorted(folder.rglob("*.json")):
            place = self._place(folder, path)
            if place is not None and path.is_file() and not path.is_symlink():
                self._files.setdefault(place, path)
        if ROOT not in self._files:
            raise TreeError(
                f"{folder}: no service root: neither redfish/v1/index.json nor index.json nor _redfish_v1.json"
            )
        self.root = self._object(ROOT)
        links = self.root.get("Links")
        sessions = links.get("Sessions") if isinstance(links, dict) else None
        where = sessions.get("@odata.id") if isinstance(sessions, dict) else None
        self.sessions = where.rstrip("/") if isinstance(where, str) else f"{ROOT}/SessionService/Sessions"

    @staticmethod
    def _place(folder: Path, path: Path) -> str | None:
        """The resource path of a file, or None for one that is no resource."""
        if path.name in ("index.json", "custom.json"):
            parts = list(path.relative_to(folder).parent.parts)
            head = {"redfish": [], "v1": ["redfish"]}.get(parts[0] if parts else "", ["redfish", "v1"])
            return "/" + "/".join(head + parts)
        if path.name.startswith("_redfish_v1"):
            try:
                own = json.loads(path.read_bytes()).get("@odata.id")
            except (ValueError, AttributeError):
                own = None
            name = path.name.removesuffix(".json").replace("_", "/")
            return own.rstrip("/") if isinstance(own, str) and own.startswith(ROOT) else name
        return None

    def __len__(self) -> int:
        """How many resources there are."""
        return len(self._files)

    def _object(self, path: str) -> dict[str, Any]:
        try:
            found = json.loads(self._files[path].read_bytes())
        except (KeyError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def answer(self, machine: Machine, path: str, query: str) -> dict[str, Any]:
        """Raise the answer to a GET as AsItIs; return one only where the tree's BMC expands. RedfishError (404)."""
        file = self._files.get(path)
        if file is None:
            raise errors.not_found(path)
        if file.name == "custom.json":
            custom = self._object(path)
            raise AsItIs(int(custom.get("status", 500)), str(custom.get("body", "")).encode())
        body = self._object(path)
        if "$expand" in dict(parse_qsl(query)) and self._expands() and isinstance(body.get("Members"), list):
            return body | {"Members": [self._whole(member) for member in body["Members"]]}
        raise AsItIs(200, file.read_bytes()[:MAX_FILE])

    def _expands(self) -> bool:
        features = self.root.get("ProtocolFeaturesSupported")
        expand = features.get("ExpandQuery") if isinstance(features, dict) else None
        return isinstance(expand, dict) and expand.get("ExpandAll") is True

    def _whole(self, member: Any) -> Any:
        link = member.get("@odata.id") if isinstance(member, dict) else None
        return (self._object(link.rstrip("/")) or member) if isinstance(link, str) else member

    @staticmethod
    def act(bmc: Bmc, method: str, path: str, body: dict[str, Any], headers: Mapping[str, str]) -> Done:
        """Refuse every change: there is no machine behind a captured tree."""
        raise errors.method_not_allowed()
