"""Findings, actions and verdicts: what every stage speaks.

Standard library only: this file also runs on the hosts.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Dict, Iterable, List

STATUSES = ("ok", "warn", "fail", "unknown")

# Ordered: a host's action is the highest one of its findings.
ACTIONS = (
    "none",
    "wait",
    "retry",
    "reset_bmc",
    "reboot",
    "power_cycle",
    "update_firmware",
    "reseat",
    "replace",
    "escalate",
)

# What a host sends is data from a stranger: nothing of it is kept longer than this.
EVIDENCE_MAX = 500


@dataclass(frozen=True)
class Finding:
    """One judged observation.

    check: what looked, e.g. ``gpu_count``.
    status: one of STATUSES.
    symptom: stable dotted code, e.g. ``gpu.missing``; for status ok the check's own name.
    locator: the part and where it sits, e.g. ``Video.Slot.7-1``.
    evidence: the raw line or value, with the expected one.
    action: one of ACTIONS.
    """

    check: str
    status: str
    symptom: str
    locator: str = ""
    evidence: str = ""
    action: str = "none"

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"status {self.status!r} is none of {', '.join(STATUSES)}")
        if self.action not in ACTIONS:
            raise ValueError(f"action {self.action!r} is none of {', '.join(ACTIONS)}")
        object.__setattr__(self, "check", shorten(self.check, 64))
        object.__setattr__(self, "symptom", shorten(self.symptom, 64))
        object.__setattr__(self, "evidence", shorten(self.evidence))
        object.__setattr__(self, "locator", shorten(self.locator, 120))

    def to_dict(self) -> Dict[str, str]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Dict[str, Any]) -> "Finding":
        """Read one finding back; ValueError or KeyError when it is not one."""
        if not isinstance(data, dict):
            raise ValueError(f"a finding is a mapping, not {type(data).__name__}")
        return cls(
            check=str(data["check"]),
            status=str(data["status"]),
            symptom=str(data["symptom"]),
            locator=str(data.get("locator", "")),
            evidence=str(data.get("evidence", "")),
            action=str(data.get("action", "none")),
        )


@dataclass(frozen=True)
class Verdict:
    """Ready or not. reasons: the findings that say no, worst action first. action: the one thing to do."""

    ready: bool
    reasons: List[Finding]
    action: str


def shorten(text: str, limit: int = EVIDENCE_MAX) -> str:
    """Text on one line, printable, at most ``limit`` characters."""
    cut = str(text)[: limit * 4]
    if not cut.isprintable():  # most is, and this is done thousands of times for a host
        cut = "".join(c if c.isprintable() or c.isspace() else "?" for c in cut)
    line = " ".join(cut.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def printable(text: str) -> str:
    """Text of any number of lines that a terminal only shows: no escape, no carriage return, no lone surrogate."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(c if c == "\n" or c.isprintable() else " " if c.isspace() else "?" for c in text)


def highest_action(findings: Iterable[Finding]) -> str:
    """The highest action of these findings, ``none`` for no finding."""
    return max((f.action for f in findings), key=ACTIONS.index, default="none")


def blocking(findings: Iterable[Finding]) -> List[Finding]:
    """Those that say no (fail or unknown), worst action first, failures before unknowns."""
    said_no = [f for f in findings if f.status in ("fail", "unknown")]
    return sorted(said_no, key=lambda f: (f.status != "fail", -ACTIONS.index(f.action)))


def verdict(findings: Iterable[Finding]) -> Verdict:
    """Judge a host by its findings. No finding at all is no proof of anything: not ready."""
    known = list(findings)
    reasons = blocking(known)
    if not known:
        reasons = [Finding("verdict", "unknown", "verdict.no_findings", evidence="nothing was checked", action="retry")]
    return Verdict(ready=not reasons, reasons=reasons, action=highest_action(known + reasons))
