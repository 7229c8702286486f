"""What the kernel log says since boot, or since a moment that the site gives (``expect.kernel_log``).

Two checks: ``kernel_xid``, errors of GPUs and NVSwitches (see ``xid``); ``kernel_log``, all other lines (see
``kernel_log_rules``, and ``kernel_log_site`` for what a site adds): the bad ones are findings, the harmless ones are
passed over, and the rest at warning or worse is counted as new.

Reads dmesg, and the journal's kernel lines, which a full ring buffer does not lose; both hold the same, so the longer
count is the true one. Not required: an unprivileged container may read neither, and says so as ``warn``; on a host
where root may, every line counts. An empty kernel log is not a clean one: a kernel that booted has said something.
"""

from __future__ import annotations

import re
import time
from typing import Dict, Iterable, List, Optional, Tuple

from ..findings import Finding
from ..profile import Profile
from . import xid
from .capture import Command, Output, Source
from .engine import Captured, Check, Expect, not_known, ok, unknown, unreadable
from .kernel_log_lines import WARNING, Line, parse
from .kernel_log_rules import COMPANIONS, DUMP_LINES, DUMPS, HARMLESS, RULES, XID, Rule
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


class TooSlow(Exception):
    """A site's patterns took longer than all checks together may."""


def xid_reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    return {"dmesg": _DMESG, "journal": _JOURNAL} if profile.count("gpus") else {}


def judge_xids(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    try:
        since = read_site(expect).since
    except ValueError as error:
        return [_wrong_setting(XIDS, error)]
    readable = _readable(captured, ("dmesg", "journal"))
    if not readable:
        return _not_readable(XIDS, captured["dmesg"])
    logs, broken = [], []
    for output in readable.values():
        events, odd = xid.parse(line.text for line in parse(output.text, since, words=xid.WORDS) if line.kernel)
        logs.append(events)
        broken += odd
    findings = xid.judge(XIDS, logs)
    if broken:
        findings.append(unknown(XIDS, "unreadable", f"{len(broken)} lines not understood, first: {broken[0]}"))
    return findings or ok(XIDS, f"no Xid in the kernel log{_scope(since, readable)}")


def log_reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    return {"dmesg": _DMESG, "journal": _JOURNAL, "warnings": _WARNINGS}


def judge_log(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    try:
        site = read_site(expect)
    except ValueError as error:
        return [_wrong_setting(LOG, error)]
    readable = _readable(captured, ("dmesg", "journal", "warnings"))
    if not set(readable) - {"warnings"}:
        return _not_readable(LOG, captured["dmesg"])
    clock = [time.monotonic() + _SITE_SECONDS]
    try:
        logs = [
            look(parse(output.text, site.since, WARNING if name == "warnings" else None), site, clock)
            for name, output in readable.items()
        ]
    except TooSlow:
        evidence = f"the site's patterns took more than {_SITE_SECONDS:g} s: give fewer, or begin them with ^"
        return [unknown(LOG, "patterns_too_slow", evidence, f"expect.{KEY}")]
    findings = _judge_rules(logs) + _judge_new(logs)
    if findings:
        return findings
    most = max(seen.lines for seen in logs)
    return ok(LOG, f"nothing bad or new in {most} lines of the kernel log{_scope(site.since, readable)}")


def look(lines: Iterable[Line], site: Site, clock: Optional[List[float]] = None) -> Seen:
    """Sort the lines of one log. clock: the monotonic time after which TooSlow is raised for the site's patterns."""
    seen, until, left = Seen(), None, 0
    patterns = bool(site.harmless or site.bad)
    for line in lines:
        if not line.kernel:
            continue
        text, seen.lines = line.text, seen.lines + 1
        severe = line.level is not None and line.level <= WARNING
        if ("NVRM" in text or "SXid" in text) and XID.search(text):
            seen.known += severe
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
        elif rule is not None:
            seen.add(rule, place, text)
        elif severe and (until or COMPANIONS.search(text) or HARMLESS.search(text)):
            seen.known += 1
        elif severe:
            seen.add_new(line)
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
    return {name: o for name, o in outputs.items() if not o.problem and not o.code and o.text.strip()}


def _not_readable(check: str, dmesg: Output) -> List[Finding]:
    if dmesg.problem or dmesg.code:
        return not_known(check, dmesg, "dmesg")
    return unreadable(check, dmesg.text, "dmesg")


def _wrong_setting(check: str, error: ValueError) -> Finding:
    where, _, what = str(error).partition(": ")
    return unknown(check, "wrong_setting", what, where)


def _scope(since: Optional[float], readable: Dict[str, Output]) -> str:
    if since is not None:
        return time.strftime(" since %Y-%m-%dT%H:%M:%SZ", time.gmtime(since))
    whole = any(_FIRST_LINE in output.text[:4000] for output in readable.values())
    return "" if whole else "; its first lines after boot are gone"


XID_CHECK = Check(XIDS, "quick", xid_reads, judge_xids, needs=("gpus.count", f"expect.{KEY}"), required=False)
LOG_CHECK = Check(LOG, "quick", log_reads, judge_log, needs=(f"expect.{KEY}",), required=False)
CHECKS = [XID_CHECK, LOG_CHECK]
