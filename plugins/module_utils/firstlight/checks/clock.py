"""The clock: kept by chrony (or systemd-timesyncd), by the site's server, and not off.

chronyd tells how far the clock is from its source also where it may not set it (``chronyd -x``), so what it says is
the same proof on every host: as long as it follows a source, and has heard of it lately. timedatectl is believed only
where a service that it knows of keeps the clock.
A host that can never set its clock (its capability bounding set lacks CAP_SYS_TIME: an unprivileged container, never
bare metal) and follows no server is no failure of its own: that is said as ``warn``, as unknown.
"""

from __future__ import annotations

import csv
import json
import math
import re
from typing import Any, Dict, List, Optional

from ..findings import Finding
from ..profile import Profile
from .capture import NO_TOOL, Command, Output, Source, read_files
from .compared import told
from .engine import Captured, Check, Expect, not_known, ok, unknown, unreadable

NAME = "clock"
DEFAULT_OFFSET = 1.0
DEFAULT_DISTANCE = 1.0  # chrony itself takes no source from 3 s on (maxdistance)
DEFAULT_AGE = 21600.0  # eight of its longest usual polls (maxpoll 10) are 2 h 20 min
_TRACKING = Command(("chronyc", "-c", "-n", "tracking"), limit=5.0)
_SOURCES = Command(("chronyc", "-c", "-n", "sources"), limit=5.0)
_NAMES = Command(("chronyc", "-c", "-N", "sources"), limit=5.0)  # names as in its configuration, no DNS
_TIMEDATE = Command(("timedatectl", "show"), limit=8.0)
_TIMESYNC = Command(("timedatectl", "show-timesync"), limit=8.0)
_NOW = Command(("date", "+%s"), limit=5.0)
_STATUS = read_files("/proc/self/status")
_CAP_SYS_TIME = 25
_LOCAL_REFERENCE = ("7F7F0101", "127.127.1.1")


def reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    if not expect.get("clock", True):
        return {}
    return {
        "tracking": _TRACKING,
        "sources": _SOURCES,
        "names": _NAMES,
        "timedatectl": _TIMEDATE,
        "timesync": _TIMESYNC,
        "status": _STATUS,
        "now": _NOW,
    }


def parse_tracking(text: str) -> Optional[List[str]]:
    """The 14 fields of ``chronyc -c tracking``; None when it is not that."""
    try:
        rows = [row for row in csv.reader(text.splitlines()) if row]
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 and len(rows[0]) == 14 else None


def parse_selected(text: str) -> Optional[int]:
    """The row number of the source that chrony follows in ``chronyc -c sources``; None when there is none."""
    return next((i for i, row in enumerate(_rows(text)) if row[1] == "*"), None)


def _rows(text: str) -> List[List[str]]:
    rows = [line.split(",") for line in text.splitlines()]
    return [row for row in rows if len(row) >= 10]


def _offset(text: str) -> Optional[float]:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def judge(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    tracking = captured["tracking"]
    if tracking.problem and tracking.problem != NO_TOOL:
        return not_known(NAME, tracking, "chronyc tracking")
    if tracking.problem == NO_TOOL or (tracking.code and "506 " in tracking.text + tracking.errors):
        return _judge_timedate(captured, tracking, expect)
    if tracking.code:
        return not_known(NAME, tracking, "chronyc tracking")
    fields = parse_tracking(tracking.text)
    offset = _offset(fields[4]) if fields else None
    if fields is None or offset is None:
        return unreadable(NAME, tracking.text, "chronyc tracking")
    if fields[13] == "Not synchronised":
        return [_not_synchronised(captured, "chronyc tracking: Not synchronised")]
    if fields[0].upper() in _LOCAL_REFERENCE or fields[1] in _LOCAL_REFERENCE:
        return [_fail("clock.local_only", "chrony follows its own clock, no server", "escalate")]
    limit = profile.limit("clock_offset_seconds", DEFAULT_OFFSET)
    if abs(offset) > limit:
        return [_fail("clock.skew", f"{offset:+.3f} s from its source, limit {limit:g} s", "escalate")]
    sources = captured["sources"]
    if sources.problem or sources.code:
        return not_known(NAME, sources, "chronyc sources")
    if parse_selected(sources.text) is None:
        states = ", ".join(f"{row[2]} {row[1]}" for row in _rows(sources.text)[:8]) or "none"
        return [_not_synchronised(captured, f"chronyc sources: none is followed; there are: {states}")]
    findings = _judge_old(captured.get("now"), fields, profile) + _judge_source(captured, fields[1], expect)
    return findings or ok(NAME, f"follows {fields[1]}, {offset:+.6f} s off")


def _judge_old(clock: Optional[Output], fields: List[str], profile: Profile) -> List[Finding]:
    """Whether what chrony says of the clock is of now, and how sure it is. clock: none in captures of before."""
    delay, dispersion, reference = _offset(fields[10]), _offset(fields[11]), _offset(fields[3])
    if delay is None or dispersion is None or reference is None:
        return unreadable(NAME, ",".join(fields), "chronyc tracking")
    distance, limit = dispersion + delay / 2, profile.limit("clock_distance_seconds", DEFAULT_DISTANCE)
    if distance > limit:
        said = f"by chrony's own estimate up to {distance:.3f} s off, limit {limit:g} s"
        return [
            _fail("clock.uncertain", f"{said}; root dispersion {dispersion:.3f} s, root delay {delay:.3f} s", "wait")
        ]
    now = None if clock is None or clock.problem or clock.code else _offset(clock.text.strip())
    age, most = (0.0 if now is None else now - reference), profile.limit("clock_age_seconds", DEFAULT_AGE)
    if abs(age) > most:
        since = f"{age / 3600:.1f} h ago" if age > 0 else f"{-age / 3600:.1f} h from now"
        return [_fail("clock.stale", f"last set by its source {since}, limit {most / 3600:.1f} h", "escalate")]
    return []


def _judge_source(captured: Captured, reference: str, expect: Expect) -> List[Finding]:
    wanted = _wanted(expect)
    if not wanted:
        return []
    names = {reference.lower()}
    for name in ("sources", "names"):
        selected = parse_selected(captured["sources"].text)
        rows = _rows(captured[name].text)
        if selected is not None and not captured[name].problem and selected < len(rows):
            names.add(rows[selected][2].lower())
    return _wrong_source(names, wanted)


def _wrong_source(names: "set[str]", wanted: List[str]) -> List[Finding]:
    if names & set(wanted):
        return []
    evidence = f"follows {', '.join(sorted(names))}; expected {', '.join(wanted)}"
    return [_fail("clock.wrong_source", evidence, "escalate")]


def _wanted(expect: Expect) -> List[str]:
    return [str(server).lower() for server in expect.get("ntp_servers") or []]


def _judge_timedate(captured: Captured, tracking: Output, expect: Expect) -> List[Finding]:
    """No chronyd answers: systemd-timesyncd may keep the clock instead."""
    output = captured["timedatectl"]
    if output.problem or output.code:
        what = "chronyd does not answer" if tracking.problem != NO_TOOL else "no chronyc"
        return not_known(NAME, output, f"{what}; timedatectl show")
    values = dict(line.partition("=")[::2] for line in output.text.splitlines() if "=" in line)
    if values.get("NTP") not in ("yes", "no") or values.get("NTPSynchronized") not in ("yes", "no"):
        return unreadable(NAME, output.text, "timedatectl show")
    # Without a service of its own, "synchronised" can be a flag that somebody else's kernel left set.
    if values["NTP"] == "no":
        return [_fail("clock.no_service", "neither chronyd nor systemd-timesyncd keeps the clock", "escalate")]
    if values["NTPSynchronized"] == "no":
        return [_not_synchronised(captured, "timedatectl: NTPSynchronized=no")]
    wanted = _wanted(expect)
    if not wanted:
        return ok(NAME, "timedatectl: NTP=yes, NTPSynchronized=yes")
    timesync = dict(line.partition("=")[::2] for line in captured["timesync"].text.splitlines() if "=" in line)
    names = {timesync.get(key, "").lower() for key in ("ServerName", "ServerAddress")} - {""}
    if not names:
        return [unknown(NAME, "unreadable", f"timedatectl show-timesync names no server; expected {', '.join(wanted)}")]
    return _wrong_source(names, wanted) or ok(NAME, f"timedatectl: synchronised to {', '.join(sorted(names))}")


def _not_synchronised(captured: Captured, evidence: str) -> Finding:
    if may_set_clock(captured["status"].text):
        return _fail("clock.not_synchronised", evidence, "wait")
    evidence = f"unknown: {evidence}; this host may not set its clock (no CAP_SYS_TIME)"
    return Finding(NAME, "warn", "clock.not_settable", "", evidence, "none")


def may_set_clock(text: str) -> bool:
    """Whether root on this host could set the clock, from ``read_files("/proc/self/status")``; yes when in doubt."""
    try:
        status = str(json.loads(text)["files"]["/proc/self/status"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return True
    found = re.search(r"^CapBnd:\s*([0-9a-f]{1,32})$", status, re.MULTILINE)
    return not found or bool(int(found.group(1), 16) >> _CAP_SYS_TIME & 1)


def _fail(symptom: str, evidence: str, action: str) -> Finding:
    return Finding(NAME, "fail", symptom, "", evidence, action)


def values(captured: Captured, profile: Profile) -> Dict[str, Any]:
    """How far the clock is from its source, either way, where it follows one."""
    fields = parse_tracking(captured["tracking"].text)
    if fields is None or fields[13] == "Not synchronised" or parse_selected(captured["sources"].text) is None:
        return {}
    offset = _offset(fields[4])
    return told({"clock.offset_seconds": None if offset is None else abs(offset)})


_NEEDS = (
    "limits.clock_offset_seconds",
    "limits.clock_distance_seconds",
    "limits.clock_age_seconds",
    "expect.ntp_servers",
)
CHECKS = [Check(NAME, "quick", reads, judge, needs=_NEEDS, values=values)]
