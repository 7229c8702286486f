"""The engine: what a check is, and how all checks of one host run in one round trip.

A check declares what it reads; its judge is a pure function from what was read to findings. ``unknown`` is what
could not be read, and never ok. In a check that is not required it is reported as ``warn`` with the same symptom and
"unknown:" before its evidence, so that one rule of readiness (``findings.verdict``) is enough; a site makes such a
check required by naming it in ``require``.
"""

from __future__ import annotations

import datetime
import json
import math
import re
import time
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, FrozenSet, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from ..findings import ACTIONS, STATUSES, Finding, Verdict, highest_action, shorten, verdict
from ..profile import Profile
from .capture import NO_TOOL, NOT_PERMITTED, TIMED_OUT, TOO_MUCH, Command, Output, Source, run_all

# each has the checks of those before it too; with it the seconds that one command may take at most
TIERS = {"quick": 30.0, "long": 3600.0}
FINDINGS_MAX = 20  # of one check; the rest is counted
ASKED = "asked"  # in expect: the checks that were asked for by name
NOT_RUN = "not_run"  # the reason of a check that held back; what it found before still holds
NOTHING = "nothing_checked"  # of host_check: no check has judged anything
KEPT_MAX = 32 * 1024  # characters, as JSON, of what one check keeps for the next run
VALUES_MAX = 100  # of one host
VALUE_TEXT_MAX = 120

Captured = Dict[str, Output]
Expect = Dict[str, Any]
Value = Union[str, int, float]
Keep = Callable[[Captured], Optional[Dict[str, Any]]]
Plan = List[Tuple["Check", Dict[str, Source]]]
Run = Callable[[Iterable[Source], float], Dict[Source, Output]]

_VALUE_NAME = re.compile(r"[a-z0-9_.]{1,64}")
_UNKNOWN_ACTION = {TIMED_OUT: "retry", NO_TOOL: "escalate", NOT_PERMITTED: "escalate", TOO_MUCH: "escalate"}


@dataclass(frozen=True)
class Check:
    """One check.

    reads: from profile and expect to what is read, by name; empty when the host is not expected to have it.
    judge: from what was read (same names), profile and expect to findings; pure, at least one finding. It is also given
    captures of other hosts: it looks at nothing of this one, nor at its clock.
    needs: the profile's and expect's values that it looks at, e.g. ``gpus.count``.
    required: whether being unable to read makes the host not ready.
    excused: from what was read to whether this host need not have it, as a container its machine's log; there the check
    is as one that is not required.
    keeps: what the next run is to know of what was read, by the key of expect under which the judge then finds it: a
    small mapping, ready for JSON, or None where nothing can be kept.
    values: from what was read and the profile to scalars by name, e.g. ``gpu.driver``, by which hosts alike are
    compared; none where nothing can be told. Names are of small letters, digits, ``_`` and ``.``.
    explains: symptoms of it after which the tool that it reads may answer nobody, such as a lost GPU for nvidia-smi:
    what other checks could not read by that tool then asks for the same action, not for people.
    """

    name: str
    tier: str
    reads: Callable[[Profile, Expect], Dict[str, Source]]
    judge: Callable[[Captured, Profile, Expect], List[Finding]]
    needs: Tuple[str, ...] = ()
    required: bool = True
    keeps: Mapping[str, Keep] = field(default_factory=dict)
    values: Optional[Callable[[Captured, Profile], Dict[str, Any]]] = None
    explains: FrozenSet[str] = frozenset()
    excused: Optional[Callable[[Captured], bool]] = None


@dataclass(frozen=True)
class Skip:
    """One check switched off, why, and the last day on which that holds."""

    check: str
    reason: str
    until: datetime.date


@dataclass(frozen=True)
class Result:
    """What all checks of a host found.

    seconds: by check, that of its slowest reading plus the judging. kept: by key of expect, what the next run is to
    know (``Check.keeps``). values: by check, those of ``Check.values``, bounded. time: when the checks began, in
    seconds since 1970 by the host's clock. ran: the checks whose findings take the place of earlier ones: those that
    were judged or switched off, and those that have nothing to look at on this host.
    """

    findings: List[Finding]
    verdict: Verdict
    seconds: Dict[str, float] = field(default_factory=dict)
    kept: Dict[str, Dict[str, Any]] = field(default_factory=dict)
    values: Dict[str, Dict[str, Value]] = field(default_factory=dict)
    time: float = 0.0
    ran: List[str] = field(default_factory=list)


def asked(expect: Expect, name: str) -> bool:
    """Whether this check was asked for by name, so that it reads although the profile says nothing of its part."""
    return name in expect.get(ASKED, ())


def ok(check: str, evidence: str) -> List[Finding]:
    """The finding of a check that found nothing wrong."""
    return [Finding(check, "ok", check, evidence=evidence)]


def not_known(check: str, output: Output, what: str) -> List[Finding]:
    """The finding for a reading that failed: ``what`` names the command or file."""
    reason = output.problem or "failed"
    said = _first_line(output.errors) or _first_line(output.text) or f"exit status {output.code}"
    if reason == TIMED_OUT:
        said = f"did not end within {output.seconds:.0f} s"
    if reason == TOO_MUCH:
        said = f"printed more than {len(output.text)} characters"
    return [unknown(check, reason, f"{what}: {said}", action=_UNKNOWN_ACTION.get(reason, "escalate"))]


def unreadable(check: str, text: str, what: str) -> List[Finding]:
    """The finding for an answer in a form that is not understood."""
    return [unknown(check, "unreadable", f"{what}: answer not understood: {_first_line(text) or 'empty'}")]


def unknown(check: str, reason: str, evidence: str, locator: str = "", action: str = "escalate") -> Finding:
    return Finding(check, "unknown", f"{check}.{reason}", locator, evidence, action)


def not_run(check: str, evidence: str) -> List[Finding]:
    """The finding of a check that held back this time, as from a load that would disturb a job."""
    return [Finding(check, "warn", f"{check}.not_run", evidence=evidence)]


def _first_line(text: str) -> str:
    return next((line.strip() for line in text[:4000].splitlines() if line.strip()), "")[:200]


def judge_check(check: Check, captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    """Judge what one check read: bounded, never empty, never an exception."""
    try:
        findings = list(check.judge(captured, profile, expect))
    except Exception as error:  # a judge that breaks on what a host said must not take the other checks with it
        findings = [unknown(check.name, "judge_failed", f"{type(error).__name__}: {error}")]
    if not findings:
        findings = [unknown(check.name, "no_result", "the check said nothing")]
    if len(findings) > FINDINGS_MAX:
        findings = _bounded(check.name, findings)
    if not check.required or (check.excused and check.excused(captured)):
        findings = [_optional(f) if f.status == "unknown" else f for f in findings]
    return findings


def _bounded(name: str, findings: Sequence[Finding]) -> List[Finding]:
    worst = sorted(findings, key=lambda f: (-_severity(f.status), -ACTIONS.index(f.action)))
    kept, rest = worst[: FINDINGS_MAX - 1], worst[FINDINGS_MAX - 1 :]
    evidence = f"{len(rest)} more findings of this kind, first: {rest[0].symptom} {rest[0].locator}"
    return [*kept, Finding(name, rest[0].status, f"{name}.more", evidence=evidence, action=highest_action(rest))]


def _severity(status: str) -> int:
    return ("ok", "warn", "unknown", "fail").index(status) if status in STATUSES else 3


_OPTIONAL = "unknown: "


def _optional(finding: Finding) -> Finding:
    return replace(finding, status="warn", evidence=f"{_OPTIONAL}{finding.evidence}", action="none")


def _is_unknown(finding: Finding) -> bool:
    """Also where a check that is not required could not look."""
    return finding.status == "unknown" or (finding.status == "warn" and finding.evidence.startswith(_OPTIONAL))


def _nothing(findings: Sequence[Finding]) -> str:
    """Why nothing was judged."""
    why = ", ".join(finding.symptom for finding in findings)
    return f"no check has judged anything: {why}" if why else "the profile and the site ask for no check"


def _reads(check: Check, profile: Profile, expect: Expect) -> Tuple[Dict[str, Source], str]:
    """What a check reads, and why that cannot be told: never an exception, as with its judge."""
    try:
        return dict(check.reads(profile, expect)), ""
    except Exception as error:
        return {}, f"what it reads cannot be told: {type(error).__name__}: {error}"


def _chosen(checks: Iterable[Check], tier: str, wanted: FrozenSet[str]) -> List[Check]:
    tiers = list(TIERS)
    allowed = tiers[: tiers.index(tier) + 1]
    return [check for check in checks if (check.name in wanted if wanted else check.tier in allowed)]


def plan(
    checks: Iterable[Check], profile: Profile, expect: Expect, tier: str = "quick", only: Iterable[str] = ()
) -> Plan:
    """The checks of a tier, or those named in ``only``, with what each reads; nothing where none is expected."""
    wanted = frozenset(only)
    expect = {**expect, ASKED: wanted}
    return [(check, _reads(check, profile, expect)[0]) for check in _chosen(checks, tier, wanted)]


def run_checks(
    checks: Iterable[Check],
    profile: Profile,
    expect: Optional[Expect] = None,
    tier: str = "quick",
    skips: Iterable[Skip] = (),
    require: Iterable[str] = (),
    timeout: Optional[float] = None,
    today: Optional[datetime.date] = None,
    only: Iterable[str] = (),
    run: Run = run_all,
) -> Result:
    """Run all checks of a tier that the profile asks for; everything they read runs at once.

    timeout: seconds that any one command may take at most, by default the tier's. today: decides which skips still
    hold. only: run just the checks of these names, whatever their tier. That is an order: what the profile says
    nothing of is judged all the same (see ``asked``), and a check that has nothing to read then is unknown.
    A host of which no check could judge anything is not ready, whatever was switched off or is not required.
    run: what gives each source's output; a capture's instead of this host's, to judge what was read elsewhere.
    """
    wanted = frozenset(only)
    expect = {**(expect or {}), ASKED: wanted}
    required = set(require)
    day = today or datetime.date.today()
    off = {skip.check: skip for skip in skips if skip.until >= day}
    findings: List[Finding] = []
    planned: Plan = []
    ran: List[str] = []
    at = time.time()
    answered = False
    for check in _chosen(checks, tier, wanted):
        reads, wrong = _reads(check, profile, expect)
        ran.append(check.name)
        if not reads and not wrong:
            if wanted:
                findings.append(unknown(check.name, "not_expected", "the profile expects none of it on this host"))
            continue
        if check.name in off:
            findings.append(_skipped(off[check.name]))
            continue
        if check.name in required:
            check = replace(check, required=True, excused=None)
        if wrong:
            finding = unknown(check.name, "judge_failed", wrong)
            findings.append(finding if check.required else _optional(finding))
            continue
        planned.append((check, reads))
    outputs = run((source for _, reads in planned for source in reads.values()), timeout or TIERS[tier])
    seconds = {}
    kept: Dict[str, Dict[str, Any]] = {}
    told: Dict[str, Any] = {}
    for check, reads in planned:
        captured = {name: outputs[source] for name, source in reads.items()}
        started = time.monotonic()
        found = judge_check(check, captured, profile, expect)
        findings += found
        held_back = all(finding.symptom == f"{check.name}.{NOT_RUN}" for finding in found)
        if held_back:
            ran.remove(check.name)
        answered = answered or not (held_back or all(map(_is_unknown, found)))
        kept.update(_kept(check, captured))
        told[check.name] = _values(check, captured, profile)
        slowest = max(output.seconds for output in captured.values())
        seconds[check.name] = round(slowest + time.monotonic() - started, 3)
    if not answered and not any(finding.status in ("fail", "unknown") for finding in findings):
        findings.append(unknown("host_check", NOTHING, _nothing(findings)))
    findings = _explained(findings, planned)
    return Result(findings, verdict(findings), seconds, kept, bounded_values(told), at, ran)


def _explained(findings: List[Finding], planned: Plan) -> List[Finding]:
    """The same, where a check says why a tool answers nobody, with its action for what could not be read by that."""
    tools = {
        check.name: {source.argv[0] for source in reads.values() if isinstance(source, Command)}
        for check, reads in planned
    }
    roots = [
        (tools[check.name], finding)
        for check, _ in planned
        for finding in findings
        if finding.check == check.name and finding.symptom in check.explains
    ]

    def explain(finding: Finding) -> Finding:
        root = next((found for reads, found in roots if reads & tools.get(finding.check, set())), None)
        if root is None or (finding.status, finding.action) != ("unknown", "escalate"):
            return finding
        return replace(finding, action=root.action, evidence=f"see {root.symptom}: {finding.evidence}")

    return [explain(finding) for finding in findings]


def _kept(check: Check, captured: Captured) -> Dict[str, Dict[str, Any]]:
    """What this check keeps, by key; nothing where that is not possible, or too much."""
    kept = {}
    for key, keep in check.keeps.items():
        try:
            reading = keep(captured)
            if reading is not None and len(json.dumps(reading, allow_nan=False)) <= KEPT_MAX:
                kept[key] = reading
        except Exception:  # noqa: S112 - as in judge_check; the judge has said already what it could not read
            continue
    return kept


def _values(check: Check, captured: Captured, profile: Profile) -> Any:
    try:
        return check.values(captured, profile) if check.values else {}
    except Exception:  # as above
        return {}


def bounded_values(told: Any) -> Dict[str, Dict[str, Value]]:
    """Of values by check only what is in bounds: names, texts of at most VALUE_TEXT_MAX characters, finite numbers, at
    most VALUES_MAX of all checks together."""
    found: Dict[str, Dict[str, Value]] = {}
    left = VALUES_MAX
    for check, values in told.items() if isinstance(told, dict) else ():
        for name, value in values.items() if isinstance(values, dict) else ():
            if left and _VALUE_NAME.fullmatch(str(name)) and _is_value(value):
                text = isinstance(value, str)
                found.setdefault(shorten(check, 64), {})[str(name)] = shorten(value, VALUE_TEXT_MAX) if text else value
                left -= 1
    return found


def _is_value(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return False
    return isinstance(value, str) or (abs(value) < 1e18 and math.isfinite(value))


def _skipped(skip: Skip) -> Finding:
    evidence = f"switched off until {skip.until.isoformat()}: {skip.reason}"
    return Finding(skip.check, "warn", f"{skip.check}.skipped", evidence=evidence)
