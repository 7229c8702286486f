"""Capturing one BMC's Redfish tree for a bug report: whole, in the mockup form, with nothing that identifies it."""

from __future__ import annotations

import datetime
import re
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import FirstlightError
from .client import ROOT, BmcClient, Resource, _is_path
from .errors import AuthFailed, Blocked, BmcError, TimedOut, Unreachable
from .fetch import read_tree
from .pool import Target, run
from .pseudonyms import Pseudonyms
from .treefiles import NOTES, is_writable_path, write_tree

CAPTURE_SECONDS = 300.0
MAX_RESOURCES = 3000
_FATAL = (AuthFailed, Blocked, TimedOut, Unreachable)

# Accounts, sessions and keys are nobody's business; schemas and registries are the vendor's and large.
_SKIPPED = re.compile(
    r"/(AccountService|SessionService|Sessions|Accounts|Certificate\w*|JsonSchemas|Registries|EventService|TaskService"
    r"|TelemetryService|KeyService|Jobs|Subscriptions|Actions|\w*Metrics)(/|$)|/LogServices/[^/]+/Entries/.|/\$metadata"
)


@dataclass
class RawTree:
    """What a BMC said, unchanged: resources and failures (evidence) by path; whether that is all."""

    resources: dict[str, Resource] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    clock_read_at: datetime.datetime | None = None
    complete: bool = True


class _Recorder:
    """A Reader that keeps what it reads; without $expand, so that each resource is kept as its BMC tells it."""

    can_expand = False

    def __init__(self, client: BmcClient) -> None:
        self._client = client
        self.raw = RawTree(resources={ROOT: client.root})

    def get(self, path: str, expand: bool = False) -> Resource:
        known = self.raw.resources.get(path.rstrip("/"))
        if known is not None:
            return known
        try:
            body = self._client.get(path)
        except BmcError as error:
            self.raw.failures[path] = error.evidence
            raise
        self.raw.resources[path.rstrip("/")] = body
        return body


def crawl(client: BmcClient, seconds: float = CAPTURE_SECONDS, max_resources: int = MAX_RESOURCES) -> RawTree:
    """Read all that Firstlight reads, then whatever is linked, until all, or time or number, is used up."""
    until = time.monotonic() + seconds * 0.8
    recorder = _Recorder(client)
    raw = recorder.raw
    try:
        raw.clock_read_at = read_tree(recorder, client.root).clock_read_at
        waiting = deque(link for resource in list(raw.resources.values()) for link in _links(resource))
        seen = set(raw.resources) | set(raw.failures)
        while waiting:
            path = waiting.popleft()
            if path in seen or _SKIPPED.search(path):
                continue
            if time.monotonic() > until or len(raw.resources) >= max_resources:
                raw.complete = False
                break
            seen.add(path)
            try:
                waiting.extend(_links(recorder.get(path)))
            except _FATAL:
                raise
            except BmcError:
                continue  # noted; one resource that cannot be read is what a bug report may be about
    except _FATAL:
        if len(raw.resources) < 2:
            raise
        raw.complete = False
    except BmcError:  # no system, or one that is not ready: what it does say may be the bug
        raw.complete = False
    _join_pages(raw.resources)
    return raw


def capture(
    target: Target, folder: Path | str, *, ca_file: str, seconds: float = CAPTURE_SECONDS
) -> tuple[RawTree, int]:
    """Capture one BMC into a new folder. Returns what was read, and how many resources were written.

    Raises a BmcError when it does not answer, InputError when the folder is not new.
    """
    folder = Path(folder)
    is_new = not folder.exists()
    write_tree(folder, {}, {})  # shows now whether it can be written
    (folder / NOTES).unlink()
    try:
        outcome = run([target], lambda client: crawl(client, seconds), ca_file=ca_file, workers=1, deadline=seconds)
        result = outcome[target.name]
        if result.error:
            raise result.error
        raw: RawTree = result.value
        return raw, write(raw, folder, target)
    except FirstlightError:
        if is_new and not any(folder.iterdir()):
            folder.rmdir()
        raise


def write(raw: RawTree, folder: Path | str, target: Target) -> int:
    """Write what was read, with everything replaced that identifies the machine, its site or its people."""
    pseudonyms = Pseudonyms([target.password], [target.address], [target.username])
    resources, failures = pseudonyms.replace_tree(raw.resources, raw.failures)
    kept = {path: resource for path, resource in resources.items() if is_writable_path(path)}
    if not kept:
        raise FirstlightError(f"{target.name}: its BMC told nothing that could be captured")
    write_tree(folder, kept, _notes(raw, failures))
    return len(kept)


def _notes(raw: RawTree, failures: dict[str, str]) -> dict[str, Any]:
    return {
        "about": "A Redfish tree captured by Firstlight. Serial numbers, addresses and names are replaced.",
        "captured_at": raw.clock_read_at.isoformat() if raw.clock_read_at else None,
        "complete": raw.complete,
        "failures": failures,
    }


def _links(value: Any) -> list[str]:
    """All links within a resource, in their order."""
    found: list[str] = []
    waiting = deque([value])
    while waiting:
        node = waiting.popleft()
        if isinstance(node, dict):
            path = node.get("@odata.id")
            if isinstance(path, str):
                path = path.partition("#")[0].rstrip("/")
                if _is_path(path) and "?" not in path:
                    found.append(path)
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
    return list(dict.fromkeys(found))


def _join_pages(resources: dict[str, Resource]) -> None:
    """Put the pages of a collection together: a folder has no place for ``?$skip=50``."""
    for path in [p for p in resources if "?" not in p]:
        body, joined = resources[path], 0
        following = body.get("Members@odata.nextLink")
        while isinstance(following, str) and joined < 100:
            page = resources.get(following.rstrip("/"), {})
            joined += 1
            members = page.get("Members")
            body = {**body, "Members": [*body.get("Members", []), *(members if isinstance(members, list) else [])]}
            following = page.get("Members@odata.nextLink")
        if joined:
            body.pop("Members@odata.nextLink", None)
            resources[path] = body
    for path in [p for p in resources if "?" in p]:
        del resources[path]
