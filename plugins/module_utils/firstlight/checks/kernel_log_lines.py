"""Lines of a kernel log, in whatever form: when, how severe, from the kernel or not, and the text.

Forms: ``dmesg``, ``dmesg -x --time-format iso``, ``dmesg -T``, ``dmesg -r``, /dev/kmsg, ``journalctl -o short``,
``short-unix`` and ``short-iso``. Pure.
"""

from __future__ import annotations

import datetime
import re
from typing import Any, Iterator, List, NamedTuple, Optional, Tuple

LEVELS = {"emerg": 0, "alert": 1, "crit": 2, "err": 3, "warn": 4, "notice": 5, "info": 6, "debug": 7}
WARNING = 4
LINE_MAX = 1000  # characters that are looked at

Words = Tuple[str, ...]

_HEAD, _HEAD_LINES = 65536, 50  # of a text, to tell what it is

_ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_DECODED = re.compile(rf"(\w+)\s*:(\w+)\s*: (?:({_ISO}) |\[[^\]]{{1,40}}\] )?")
_RAW = re.compile(r"<(\d{1,3})>")
_KMSG = re.compile(r"(\d{1,4}),\d{1,20},\d{1,20},[^;]{0,80};")
_SECONDS = re.compile(r"\[\s*\d{1,10}\.\d{1,9}\] ?")
_CLOCK = re.compile(r"\[[A-Z][a-z]{2} [A-Z][a-z]{2}\s+\d{1,2} \d\d:\d\d:\d\d \d{4}\] ?")
_JOURNAL = re.compile(rf"(?:(\d{{9,11}}\.\d{{1,9}})|({_ISO})) \S{{1,255}} ([^\s:]{{1,80}}): ")
_SHORT = re.compile(r"[A-Z][a-z]{2}\s+\d{1,2} \d\d:\d\d:\d\d \S{1,255} ([^\s:]{1,80}): ")
_MOMENT = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?")


class Line(NamedTuple):
    """time: seconds since 1970, None where the form does not say. level: 0 (emerg) to 7, or None. kernel: whether the
    kernel itself said it, and not a program through it."""

    text: str
    time: Optional[float] = None
    level: Optional[int] = None
    kernel: bool = True


_UNWANTED = Line("")


def moment(value: Any) -> float:
    """Seconds since 1970 from such a number, or ISO 8601 with a zone (``2027-03-01T08:00:00Z``); ValueError else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e11:
        return float(value)
    text = str(value).strip()
    if re.fullmatch(r"\d{1,11}(\.\d{1,9})?", text):
        return float(text)
    time = _iso(text)
    if time is None:
        raise ValueError(f"{str(value)[:60]!r} is no moment such as 2027-03-01T08:00:00Z")
    return time


def _iso(text: str) -> Optional[float]:
    """Seconds since 1970; None when it is not such a moment, or has no zone."""
    found = _MOMENT.fullmatch(text)
    if not found or not found.group(8):
        return None
    zone = datetime.timezone.utc
    if found.group(8) != "Z":
        sign, digits = found.group(8)[0], found.group(8)[1:].replace(":", "")
        minutes = int(digits[:2]) * 60 + int(digits[2:])
        if minutes >= 24 * 60:
            return None
        zone = datetime.timezone(datetime.timedelta(minutes=-minutes if sign == "-" else minutes))
    try:
        fields = [int(found.group(n)) for n in range(1, 7)]
        stamp = datetime.datetime(*fields, tzinfo=zone).timestamp()  # type: ignore[arg-type,misc]
    except (ValueError, OverflowError):
        return None
    return stamp + float(f"0.{found.group(7) or 0}")


def is_log(text: str) -> bool:
    """Whether this is a kernel log: at least half of its first lines begin as such lines do."""
    lines = _head(text)
    return bool(lines) and 2 * sum(map(_has_form, lines)) >= len(lines)


def first_moment(text: str) -> Optional[float]:
    """When the first line was said whose form tells it, in seconds since 1970."""
    lines = (_parse_line(raw, None, True) for raw in _head(text))
    return next((line.time for line in lines if line is not None and line.time is not None), None)


def _head(text: str) -> List[str]:
    return [raw for raw in text[:_HEAD].split("\n") if raw and not raw[0].isspace()][:_HEAD_LINES]


def _has_form(raw: str) -> bool:
    found = _DECODED.match(raw)
    if found and found.group(2) in LEVELS:
        return True
    return any(form.match(raw) for form in (_JOURNAL, _KMSG, _SECONDS, _CLOCK, _RAW, _SHORT))


def parse(text: str, since: Optional[float] = None, level: Optional[int] = None, words: Words = ()) -> Iterator[Line]:
    """The lines of a log from ``since`` on (seconds since 1970); one whose time is not known counts as later.

    level: what lines have that do not say it themselves, where the source was asked for no other ones.
    words: only lines with one of these. An indented line without a beginning of its own belongs to the one before.
    """
    last: Optional[Line] = None
    for raw in text.split("\n"):  # only there: a program's name may hold other ends of lines
        wanted = not words or any(word in raw for word in words)
        line = _parse_line(raw, level, since is not None) if wanted or raw[:1].isspace() else _UNWANTED
        if line is None:
            if last is not None and raw.strip():
                last = last._replace(text=f"{last.text} {raw.strip()}"[:LINE_MAX])
            continue
        if last is not None:
            yield last
        early = since is not None and line.time is not None and line.time < since
        last = None if early or line is _UNWANTED else line
    if last is not None:
        yield last


def _parse_line(raw: str, level: Optional[int], timed: bool) -> Optional[Line]:
    """One line; None where it begins like none. timed: whether its time is wanted, which takes long."""
    first, time = raw[:1], None
    if first.isdigit():
        found = _JOURNAL.match(raw)
        if found:
            if timed:
                time = float(found.group(1)) if found.group(1) else _iso(found.group(2))
            return Line(raw[found.end() : found.end() + LINE_MAX], time, level, found.group(3) == "kernel")
        found = _KMSG.match(raw)
        if found:
            return _numbered(raw[found.end() :], int(found.group(1)))
    elif first == "[":
        found = _SECONDS.match(raw) or _CLOCK.match(raw)
        if found:
            return Line(raw[found.end() : found.end() + LINE_MAX], None, level)
    elif first == "<":
        found = _RAW.match(raw)
        if found:
            return _numbered(raw[found.end() :], int(found.group(1)))
    elif first.isspace() or not first:
        return None
    else:
        found = _DECODED.match(raw)
        if found and found.group(2) in LEVELS:
            time = _iso(found.group(3)) if timed and found.group(3) else None
            kernel = found.group(1) == "kern"
            return Line(raw[found.end() : found.end() + LINE_MAX], time, LEVELS[found.group(2)], kernel)
        found = _SHORT.match(raw)
        if found:
            return Line(raw[found.end() : found.end() + LINE_MAX], None, level, found.group(1) == "kernel")
    return Line(raw[:LINE_MAX], None, level)


def _numbered(rest: str, priority: int) -> Line:
    """A line after its priority, which is 8 for each facility, the kernel's being 0, and the level."""
    found = _SECONDS.match(rest)
    start = found.end() if found else 0
    return Line(rest[start : start + LINE_MAX], None, priority & 7, priority < 8)
