"""Why a task failed on a host, from its result: a symptom to group by and one line to read. Pure functions.

What hosts tell is hostile: any type may stand anywhere, and no character of it reaches the terminal unread.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..findings import shorten
from ..sshreason import judge_unreachable

SAID_MAX = 2000  # characters of a message; what refuses to do something says why at length
_CLOSED = re.compile(r"(?P<stage>[a-z_]+): (?P<passed>\d+) of (?P<total>\d+) passed(?:; (?P<symptoms>.*))?")
_COUNTED = re.compile(r"(\d+) (.+)")


@dataclass(frozen=True)
class Reason:
    """symptom: a dotted code. said: one printable line."""

    symptom: str
    said: str


@dataclass(frozen=True)
class Closed:
    """How a stage ended for the hosts that were in it; symptoms with the number of hosts that have each."""

    passed: int
    total: int
    symptoms: dict[str, int]


def why_failed(stage: str | None, result: Mapping[str, Any]) -> Reason:
    """Of a result with findings the first that says no, else ``STAGE.task_failed`` with what the task said."""
    found = result.get("findings")
    for finding in found if isinstance(found, list) else ():
        if isinstance(finding, Mapping) and finding.get("status") in ("fail", "unknown") and finding.get("symptom"):
            parts = (finding.get("locator"), finding.get("evidence"))
            said = ": ".join(str(part) for part in parts if part) or str(result.get("msg") or "")
            return Reason(shorten(finding["symptom"], 64), shorten(said, SAID_MAX))
    return Reason(f"{stage}.task_failed" if stage else "task_failed", shorten(said_of(result), SAID_MAX))


def why_unreachable(result: Mapping[str, Any]) -> Reason:
    reason = judge_unreachable(str(result.get("msg") or "no message"))
    return Reason(reason.symptom, shorten(reason.evidence, SAID_MAX))


def closed(message: Any) -> Closed | None:
    """What ``FleetAction.close_stage`` says, read back; None when it is something else."""
    match = _CLOSED.fullmatch(message) if isinstance(message, str) else None
    if match is None:
        return None
    counted = [_COUNTED.fullmatch(part) for part in (match["symptoms"] or "").split(", ")]
    symptoms = {shorten(one[2], 80): int(one[1]) for one in counted if one}
    return Closed(int(match["passed"]), int(match["total"]), symptoms)


def alike(host: str, said: str) -> str:
    """The message without what differs from host to host, so that the same trouble is told once."""
    return re.sub(r"\d+", "0", said.replace(host, "HOST"))


def clean(value: Any) -> Any:
    """The value, its texts without characters that a terminal obeys; lines and tabs stay."""
    if isinstance(value, str):
        if value.isprintable():
            return value
        return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in value.replace("\r\n", "\n"))
    if isinstance(value, Mapping):
        return {clean(key): clean(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(inner) for inner in value]
    return value


def said_of(result: Mapping[str, Any]) -> str:
    """Why a task failed: of a loop what its first failed item says, of a command what it printed last."""
    items = result.get("results")
    for item in items if isinstance(items, list) else ():
        if isinstance(item, Mapping) and (item.get("failed") or item.get("unreachable")):
            named = item.get("item")
            return f"{named}: {_why(item)}" if isinstance(named, (str, int)) else _why(item)
    return _why(result)


def _why(result: Mapping[str, Any]) -> str:
    if censored := result.get("censored"):
        return str(censored)
    message = str(result.get("msg") or "")
    if message in ("", "non-zero return code"):
        printed = (str(result.get(name) or "").strip() for name in ("stderr", "stdout"))
        last = next((text.splitlines()[-1] for text in printed if text), "")
        code = f"exit status {result['rc']}" if message and "rc" in result else message
        message = ": ".join(part for part in (code, last) if part)
    return message or "no message"
