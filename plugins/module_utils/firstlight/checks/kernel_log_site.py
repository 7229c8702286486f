"""What a site says of its kernel logs (``expect.kernel_log``): since when they count, what is harmless, what is bad.

``since``: a moment (ISO 8601 with its zone, or seconds since 1970); what was before is not looked at. ``harmless``:
patterns. ``bad``: mappings of name and pattern, and if wanted action, status (warn or fail) and meaning. Patterns are
Python's regular expressions, searched in the text of a line without its time. They are tried on every line of every
host, so those that could take long are refused.
"""

from __future__ import annotations

import re
import warnings
from typing import Any, Dict, List, NamedTuple, Optional, Pattern, Tuple

from ..findings import ACTIONS
from .kernel_log_lines import moment
from .kernel_log_rules import Rule

KEY = "kernel_log"
PATTERN_MAX = 200  # characters of a pattern
PATTERNS_MAX = 100  # of each list
LOOKED_AT = 400  # characters of a line that a site's patterns are tried on
COST_MAX = 100_000_000  # steps that one pattern could need for one line
_KEYS = ("since", "harmless", "bad")
_BAD_KEYS = ("name", "pattern", "action", "status", "meaning")
_REPEAT = re.compile(r"[*+?]|\{(\d{0,6})(,?)(\d{0,6})\}")


class Site(NamedTuple):
    since: Optional[float] = None
    harmless: Tuple[Pattern[str], ...] = ()
    bad: Tuple[Rule, ...] = ()


def read_site(expect: Dict[str, Any]) -> Site:
    """A site's settings; ValueError with one line that begins with where they are wrong, as in
    ``expect.kernel_log.harmless[0]``."""
    where = f"expect.{KEY}"
    given = expect.get(KEY) or {}
    if not isinstance(given, dict):
        raise ValueError(f"{where}: must be a mapping, not {type(given).__name__}")
    for key in given:
        if key not in _KEYS:
            raise ValueError(f"{where}: unknown key {str(key)[:60]!r}; known are {', '.join(_KEYS)}")
    since = given.get("since")
    try:
        start = None if since is None or since == "" else moment(since)
    except ValueError as error:
        raise ValueError(f"{where}.since: {error}") from None
    harmless = [
        _pattern(f"{where}.harmless[{number}]", item)
        for number, item in enumerate(_list(f"{where}.harmless", given.get("harmless")))
    ]
    bad = [_bad(f"{where}.bad[{number}]", item) for number, item in enumerate(_list(f"{where}.bad", given.get("bad")))]
    return Site(start, tuple(harmless), tuple(bad))


def _list(where: str, value: Any) -> List[Any]:
    if value is None:
        return []
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{where}: must be a list, not {type(value).__name__}")
    if len(value) > PATTERNS_MAX:
        raise ValueError(f"{where}: has {len(value)} patterns, at most {PATTERNS_MAX} are tried")
    return list(value)


def _bad(where: str, item: Any) -> Rule:
    if not isinstance(item, dict):
        raise ValueError(f"{where}: must be a mapping with name and pattern, not {type(item).__name__}")
    for key in item:
        if key not in _BAD_KEYS:
            raise ValueError(f"{where}: unknown key {str(key)[:60]!r}; known are {', '.join(_BAD_KEYS)}")
    name, action, status = str(item.get("name", "")), item.get("action") or "escalate", item.get("status") or "fail"
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", name):
        raise ValueError(f"{where}.name: {name[:60]!r} is no name of small letters, digits and _")
    if action not in ACTIONS:
        raise ValueError(f"{where}.action: {str(action)[:60]!r} is none of {', '.join(ACTIONS)}")
    if status not in ("warn", "fail"):
        raise ValueError(f"{where}.status: {str(status)[:60]!r} is neither warn nor fail")
    meaning = str(item.get("meaning") or "the site calls this line bad")
    return Rule(f"site.{name}", status, action, meaning[:200], "", _pattern(f"{where}.pattern", item.get("pattern")))


def _pattern(where: str, value: Any) -> Pattern[str]:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{where}: must be a pattern, not {str(value)[:60]!r}")
    if len(value) > PATTERN_MAX:
        raise ValueError(f"{where}: has {len(value)} characters, at most {PATTERN_MAX} are allowed")
    try:
        _bounded(value)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of what a later Python will read otherwise
            pattern = re.compile(value)
    except (re.error, OverflowError, RecursionError, Warning) as error:
        raise ValueError(f"{where}: {value!r} is no regular expression: {error}") from None
    except ValueError as error:
        raise ValueError(f"{where}: {value!r} could take too long: {error}") from None
    if pattern.search("") or pattern.search("\x01"):
        raise ValueError(f"{where}: {value!r} fits every line")
    return pattern


def _bounded(text: str) -> None:
    """ValueError for a pattern whose search could take very many steps.

    Python's search goes back and tries anew: repeats side by side, and choices, take the product of their numbers;
    with a repeat or a choice within a repeat the time is exponential.
    """
    cost = 1 if text.startswith("^") else LOOKED_AT
    groups = [_Group()]
    place = 0
    while place < len(text):
        char, inner = text[place], False
        if char == "\\":
            if text[place + 1 : place + 2].isdigit():
                raise ValueError("it refers back to a group")
            place += 1
        elif char == "[":
            place = _end_of_set(text, place)
        elif char == "(":
            asks = text[place + 1 : place + 2] == "?"
            if asks and text[place + 2 : place + 3] != ":":
                raise ValueError("of groups with (? only (?: is allowed")
            groups.append(_Group())
            place += 3 if asks else 1
            continue
        elif char == ")" and len(groups) > 1:
            closed = groups.pop()
            inner = closed.varies or closed.choices > 1
            cost *= closed.choices
            groups[-1].varies = groups[-1].varies or inner
        elif char == "|":
            groups[-1].choices += 1
        place += 1
        found = _REPEAT.match(text, place)
        if found and char not in "|^":
            least, most = _times(found)
            place = found.end() + (text[found.end() : found.end() + 1] == "?")
            if text[place : place + 1] in ("*", "+", "?"):
                raise ValueError("it repeats a repeat")
            if most > 1 and inner:
                raise ValueError("a repeat has a repeat or a choice within")
            groups[-1].varies = groups[-1].varies or most > least
            cost *= max(1, most - least + 1)
    if groups[0].choices > 1 and text.startswith("^"):  # the ^ holds for the first choice only
        cost *= LOOKED_AT
    if cost * groups[0].choices > COST_MAX:
        raise ValueError("too many repeats and choices; begin it with ^, or bound them, as in .{0,20}")


class _Group:
    """An open group of a pattern: how many choices it has, and whether something in it can be of several lengths."""

    def __init__(self) -> None:
        self.choices, self.varies = 1, False


def _times(found: "re.Match[str]") -> Tuple[int, int]:
    """How often this repeat must and can hold."""
    sign = found.group()
    if sign in ("*", "+"):
        return 0, LOOKED_AT
    if sign == "?":
        return 0, 1
    least, comma, most = found.groups()
    low = min(LOOKED_AT, int(least or 0))
    return low, min(LOOKED_AT, int(most or LOOKED_AT)) if comma else low


def _end_of_set(text: str, place: int) -> int:
    """Where the set that begins here ends, or the end of the text."""
    place += 1
    if text[place : place + 1] == "^":
        place += 1
    if text[place : place + 1] == "]":
        place += 1
    while place < len(text) and text[place] != "]":
        place += 2 if text[place] == "\\" else 1
    return place
