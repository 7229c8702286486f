"""What the kernel log says since boot, or since a moment that the site gives (``expect.kernel_log``).

Two checks: ``kernel_xid``, errors of GPUs and NVSwitches (see ``xid``); ``kernel_log``, all other lines (see
``kernel_log_rules``, and ``kernel_log_site`` for what a site adds): the bad ones are findings, the harmless ones are
passed over, and the rest at warning or worse is counted as new.

Reads dmesg, and the journal's kernel lines, which a full ring buffer does not lose; both hold the same, so the longer
count is the true one. Required, but in a container: an unprivileged one may read neither, and says so as ``warn``. An
empty kernel log is not a clean one, since a kernel that booted has said something; nor is a text that is no kernel log.
Where both begin later than what is asked for, that is said (``incomplete``), as ``warn``: what is gone stays gone, and
a host that is ready now is looked at from here on.
"""

from __future__ import annotations

import re
import time
from collections import deque
from typing import Deque, Dict, FrozenSet, Iterable, List, Optional, Tuple

from ..findings import Finding
from ..profile import Profile
from . import xid
from .capture import CONTAINER, Command, Output, Source, inside
from .engine import Captured, Check, Expect, not_known, ok, unknown, unreadable
from .kernel_log_lines import WARNING, Line, first_moment, is_log, parse
from .kernel_log_rules import BESIDE, DUMP_LINES, DUMPS, RULES, Rule, companion, is_harmless
from .kernel_log_site import KEY, LOOKED_AT, Site, read_site

XIDS, LOG = "kernel_xid", "kernel_log"
_BYTES = 8 * 1024 * 1024
_DMESG = Command(("dmesg", "-x", "--time-format", "iso"), max_bytes=_BYTES, keep="tail")
_KERNEL = ("journalctl", "-k", "-b", "-q", "--no-pager", "-o", "short-unix")
_JOURNAL = Command((*_KERNEL, "-n", "50000"), max_bytes=_BYTES, keep="tail")
# the journal's lines of this kind do not say how severe they are: these are warnings or worse
_WARNINGS = Command((*_KERNEL, "-p", "warning", "-n", "20000"), max_bytes=_BYTES, keep="tail")

_SITE_SECONDS = 3.0  # for a site's patterns, all lines together
_FIRST_LINE = "Linux version "  # of the kernel's log after boot
_KINDS_MAX = 2000
_KINDS_SHOWN = 4
_VARIABLE = re.compile(
    r"\b(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]\b|0x[0-9a-fA-F]{1,16}"
    r"|\b(?=[0-9a-f]{0,15}\d)[0-9a-f]{4,16}\b|\d{1,20}"
)

_WORDS = tuple((rule.word, rule) for rule in RULES)

Counts = Dict[Tuple[Rule, str], int]


class Seen:
    """What one log held. counts, first: by rule and place. kinds: new lines by their text without numbers."""

    def __init__(self) -> None:
        self.counts: Counts = {}
        self.first: Dict[Tuple[Rule, str], str] = {}
        self.kinds: Dict[str, int] = {}
        self.example: Dict[str, Line] = {}
        self.lines = self.known = 0

    def add(self, rule: Rule, place: str, text: str) -> None:
        key = (rule, place)
        self.counts[key] = self.counts.get(key, 0) + 1
        self.first.setdefault(key, text)

    def add_new(self, line: Line) -> None:
        kind = _VARIABLE.sub("#", line.text)[:200]
        if kind not in self.kinds and len(self.kinds) >= _KINDS_MAX:
            kind = "..."
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        self.example.setdefault(kind, line)


class _Near:
    """Lines that say nothing alone: known where a rule's line that they come with is near, new elsewhere."""

    def __init__(self, seen: Seen) -> None:
        self.seen, self.number = seen, 0
        self.last: Dict[str, int] = {}  # by kind, where the last of those that are known was
        self.hits: Dict[str, int] = {}  # by symptom, where its last line was
        self.waiting: Deque[Tuple[int, str, FrozenSet[str], Line]] = deque()

    def next_line(self) -> None:
        self.number += 1
        while self.waiting and self.number - self.waiting[0][0] > BESIDE:
            self.seen.add_new(self.waiting.popleft()[3])

    def hit(self, symptom: str) -> None:
        self.hits[symptom] = self.number
        left = [row for row in self.waiting if row[2] and symptom not in row[2]]
        self.seen.known += len(self.waiting) - len(left)
        self.waiting = deque(left)

    def add(self, kind: str, owners: FrozenSet[str], line: Line) -> None:
        hits = [number for symptom, number in self.hits.items() if not owners or symptom in owners]
        if self.number - max([*hits, self.last.get(kind, -BESIDE)]) < BESIDE:
            self.last[kind] = self.number
            self.seen.known += 1
        else:
            self.waiting.append((self.number, kind, owners, line))

    def end(self) -> None:
        for *_, line in self.waiting:
            self.seen.add_new(line)


class TooSlow(Exception):
    """A site's patterns took longer than all checks together may."""


def xid_reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    return {"dmesg": _DMESG, "journal": _JOURNAL, "container": CONTAINER} if profile.count("gpus") else {}


def judge_xids(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    try:
        since = read_site(expect).since
    except ValueError as error:
        return [_wrong_setting(XIDS, error)]
    readable = _readable(captured, ("dmesg", "journal"))
    if not readable:
        return _not_readable(XIDS, captured["dmesg"])
    logs: List[List[xid.Event]] = []
    broken: List[str] = []
    for output in readable.values():
        events, odd = xid.parse(line.text for line in parse(output.text, since, words=xid.WORDS) if line.kernel)
        logs.append(events)
        broken = max(broken, odd, key=len)
    findings = xid.judge(XIDS, logs)
    if broken:
        findings.append(unknown(XIDS, "unreadable", f"{len(broken)} lines not understood, first: {broken[0]}"))
    findings += _incomplete(XIDS, since, readable)
    return findings or ok(XIDS, f"no Xid in the kernel log{_scope(since)}")


def log_reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    return {"dmesg": _DMESG, "journal": _JOURNAL, "warnings": _WARNINGS, "container": CONTAINER}


def judge_log(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    try:
        site = read_site(expect)
    except ValueError as error:
        return [_wrong_setting(LOG, error)]
    readable = _readable(captured, ("dmesg", "journal", "warnings"))
    if not set(readable) - {"warnings"}:
        return _not_readable(LOG, captured["dmesg"])
    clock = [time.monotonic() + _SITE_SECONDS]
    xids = bool(profile.count("gpus"))
    try:
        logs = [
            look(parse(output.text, site.since, WARNING if name == "warnings" else None), site, clock, xids)
            for name, output in readable.items()
        ]
    except TooSlow:
        evidence = f"the site's patterns took more than {_SITE_SECONDS:g} s: give fewer, or begin them with ^"
        return [unknown(LOG, "patterns_too_slow", evidence, f"expect.{KEY}")]
    findings = _judge_rules(logs) + _judge_new(logs) + _incomplete(LOG, site.since, readable)
    if findings:
        return findings
    most = max(seen.lines for seen in logs)
    return ok(LOG, f"nothing bad or new in {most} lines of the kernel log{_scope(site.since)}")


def look(lines: Iterable[Line], site: Site, clock: Optional[List[float]] = None, xids: bool = True) -> Seen:
    """Sort the lines of one log. clock: the monotonic time after which TooSlow is raised for the site's patterns.

    xids: those are left to the check that judges them.
    """
    seen, until, left = Seen(), None, 0
    near = _Near(seen)
    patterns = bool(site.harmless or site.bad)
    for line in lines:
        if not line.kernel:
            continue
        text, seen.lines = line.text, seen.lines + 1
        near.next_line()
        severe = line.level is not None and line.level <= WARNING
        if xids and xid.is_one(text):
            seen.known += severe
            near.hit(XIDS)
            continue
        if patterns and clock and time.monotonic() > clock[0]:
            raise TooSlow
        rule, place = _rule_of(text, site)
        if until is not None:
            left -= 1
            if left <= 0 or until.search(text):
                until = None
        elif "cut here" in text or "oom-killer" in text:
            until, left = next((end for start, end in DUMPS if start in text), None), DUMP_LINES
            severe = severe and until is None
        if (rule is not None or severe) and any(pattern.search(text[:LOOKED_AT]) for pattern in site.harmless):
            seen.known += severe
            if rule is not None:
                near.hit(rule.symptom)  # what comes along is as harmless
        elif rule is not None:
            seen.add(rule, place, text)
            near.hit(rule.symptom)
        elif severe and (until or is_harmless(text)):
            seen.known += 1
        elif severe:
            kind, owners = companion(text)
            if kind:
                near.add(kind, owners, line)
            else:
                seen.add_new(line)
    near.end()
    return seen


def _rule_of(text: str, site: Site) -> Tuple[Optional[Rule], str]:
    """The first rule that fits, the site's first; and where it says that it was."""
    for rule in site.bad:
        if rule.pattern.search(text[:LOOKED_AT]):
            return rule, ""
    for word, rule in _WORDS:
        if word in text:
            found = rule.pattern.search(text)
            if found:
                place = (found.groupdict().get("place") or "").strip()
                return rule, f"{rule.place} {place}".strip() if place else ""
    return None, ""


def _judge_rules(logs: List[Seen]) -> List[Finding]:
    """One finding for each symptom and place. The forms of a rule tell of the same events: the longest count holds."""
    counts: Dict[Tuple[str, str], int] = {}
    first: Dict[Tuple[str, str], Tuple[Rule, str]] = {}
    for seen in logs:
        for (rule, place), count in seen.counts.items():
            key = (rule.symptom, place)
            counts[key] = max(count, counts.get(key, 0))
            first.setdefault(key, (rule, seen.first[rule, place]))
    findings = []
    for key, (rule, text) in first.items():
        if counts[key] >= rule.least:
            times = f" ({counts[key]} times)" if counts[key] > 1 else ""
            findings.append(Finding(LOG, rule.status, key[0], key[1], f"{rule.meaning}{times}: {text}", rule.action))
    return sorted(findings, key=lambda f: (f.status != "fail", f.symptom, f.locator))


def _judge_new(logs: List[Seen]) -> List[Finding]:
    kinds: Dict[str, int] = {}
    example: Dict[str, Line] = {}
    for seen in logs:
        for kind, count in seen.kinds.items():
            kinds[kind] = max(count, kinds.get(kind, 0))
            example.setdefault(kind, seen.example[kind])
    if not kinds:
        return []
    shown = sorted(kinds, key=lambda kind: (example[kind].level or 0, -kinds[kind], kind))[:_KINDS_SHOWN]
    said = "; ".join(f"{kinds[kind]}x {example[kind].text[:90]}" for kind in shown)
    evidence = f"{sum(kinds.values())} lines of {len(kinds)} kinds at warning or worse that nothing is known of: {said}"
    return [Finding(LOG, "warn", "kernel.new", "", evidence, "none")]


def _readable(captured: Captured, names: Iterable[str]) -> Dict[str, Output]:
    outputs = {name: captured[name] for name in names}
    return {name: o for name, o in outputs.items() if not o.problem and not o.code and is_log(o.text)}


def _not_readable(check: str, dmesg: Output) -> List[Finding]:
    if dmesg.problem or dmesg.code:
        return not_known(check, dmesg, "dmesg")
    return unreadable(check, dmesg.text, "dmesg")


def _wrong_setting(check: str, error: ValueError) -> Finding:
    where, _, what = str(error).partition(": ")
    return unknown(check, "wrong_setting", what, where)


def _scope(since: Optional[float]) -> str:
    return "" if since is None else f" since {_time(since)}"


def _time(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


def _incomplete(check: str, since: Optional[float], readable: Dict[str, Output]) -> List[Finding]:
    """The finding for logs that all begin later than they should: after the boot, and after ``since``."""
    logs = [output.text for name, output in readable.items() if name != "warnings"]
    if any(_FIRST_LINE in text[:4000] for text in logs):
        return []
    begin = min((moment for moment in map(first_moment, logs) if moment is not None), default=None)
    if begin is not None and since is not None and begin <= since:
        return []
    begins = "at a moment that it does not tell" if begin is None else f"at {_time(begin)}"
    wanted = "the boot" if since is None else _time(since)
    evidence = f"the log begins {begins}, and should with {wanted}: what was between is lost from dmesg and journal"
    return [Finding(check, "warn", f"{check}.incomplete", "", evidence, "none")]


def _in_container(captured: Captured) -> bool:
    return "container" in captured and inside(captured["container"])


XID_CHECK = Check(XIDS, "quick", xid_reads, judge_xids, needs=("gpus.count", f"expect.{KEY}"), excused=_in_container)
LOG_CHECK = Check(LOG, "quick", log_reads, judge_log, needs=("gpus.count", f"expect.{KEY}"), excused=_in_container)
CHECKS = [XID_CHECK, LOG_CHECK]
