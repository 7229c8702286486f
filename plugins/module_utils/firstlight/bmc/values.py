"""Taking values out of what a BMC sent, which may be anything: what does not fit is left out, nothing raises."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..findings import shorten
from ..sitefiles import normal_mac

TEXT_MAX = 200
HEALTHS = {"ok": "OK", "warning": "Warning", "critical": "Critical"}


def dig(node: Any, *keys: str | int) -> Any:
    """The value below these keys and indexes, or None."""
    for key in keys:
        if isinstance(key, str):
            node = node.get(key) if isinstance(node, dict) else None
        else:
            node = node[key] if isinstance(node, list) and -len(node) <= key < len(node) else None
    return node


def text(node: Any, *keys: str | int) -> str:
    """A short printable string, or ""."""
    value = dig(node, *keys)
    return shorten(value, TEXT_MAX) if isinstance(value, str) else ""


def number(node: Any, *keys: str | int) -> int | None:
    """A whole number that is not negative, or None."""
    value = dig(node, *keys)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**63:
        return None
    return int(value)


def rows(node: Any, *keys: str | int) -> list[dict[str, Any]]:
    """The mappings in a list, or []."""
    value = dig(node, *keys)
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def link(node: Any, *keys: str | int) -> str:
    """The @odata.id of a link, or ""."""
    value = dig(node, *keys, "@odata.id")
    return value if isinstance(value, str) else ""


def health(node: Any) -> str:
    """Status.Health as OK, Warning or Critical, or ""."""
    return HEALTHS.get(text(node, "Status", "Health").lower(), "")


def state(node: Any) -> str:
    """Status.State, e.g. Enabled or Absent, or ""."""
    return text(node, "Status", "State")


def mac(value: Any) -> str | None:
    """A MAC address with colons in lower case; None for everything else (GUIDs, WWNs, zeros, null)."""
    if not isinstance(value, str) or not 12 <= len(value) <= 17:
        return None
    try:
        return normal_mac(value)
    except ValueError:
        return None


def moment(value: Any) -> datetime.datetime | None:
    """An ISO time with its zone (UTC when it names none), or None."""
    if not isinstance(value, str) or len(value) > 40:
        return None
    try:
        time = datetime.datetime.fromisoformat(value)
        time = time if time.tzinfo else time.replace(tzinfo=datetime.UTC)
        time.astimezone(datetime.UTC)  # years 1 and 9999 may not survive this
    except (ValueError, OverflowError):
        return None
    return time


def real(node: Any, *keys: str | int) -> float | None:
    """A number of a measurable size, or None."""
    value = dig(node, *keys)
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e6 < value < 1e6:
        return None
    return float(value)


def resource(tree: Mapping[str, Any], path: str) -> dict[str, Any]:
    """What was read at a path, or {}."""
    found = tree.get(path.rstrip("/")) if path else None
    return found if isinstance(found, dict) else {}


def members(tree: Mapping[str, Any], path: str) -> list[dict[str, Any]]:
    """The members of a collection that were read; inline ones (an unflattened $expand) too."""
    return entries(tree, rows(resource(tree, path), "Members"))


def entries(tree: Mapping[str, Any], listed: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a list of links and inline resources stands for, as far as it was read."""
    found = []
    for entry in listed:
        one = resource(tree, link(entry)) or (entry if len(entry) > 1 else {})
        if one:
            found.append(one)
    return found


def natural(identity: str) -> list[tuple[int, str]]:
    """A sort key: slot 9 comes before slot 10."""
    return [(int(part[:9]), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", identity)]
