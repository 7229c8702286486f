"""The findings of roles: a fact of the host that grows while the stage runs, and is read when it closes.

Pure functions; the action plugin role_findings and fleet_stage speak with Ansible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .errors import InputError
from .findings import Finding, blocking, shorten

FACT = "firstlight_findings"
REBOOT = "reboot_needed"
NOTHING_CHECKED = "host_check.nothing_checked"
COLLECTED = "findings_collected"  # a play's variable: its close reads the fact
OF_A_ROLE_MAX, OF_A_HOST_MAX = 100, 500
SHOWN_MAX = 5


def read(role: str, rows: Any) -> list[Finding]:
    """The findings that a role hands over; InputError when they are none (a bug of the role, or a hostile host)."""
    if not isinstance(rows, list) or len(rows) > OF_A_ROLE_MAX:
        raise InputError(f"role_findings: findings of {role} must be a list of at most {OF_A_ROLE_MAX}")
    try:
        findings = [Finding.from_dict(row) for row in rows]
    except (TypeError, KeyError, ValueError) as error:
        raise InputError(f"role_findings: a finding of {role} is not readable: {error}") from None
    # says no to a whole run; where the site has switched off the one check that a role asks for, the role did its work
    return [finding for finding in findings if finding.symptom != NOTHING_CHECKED]


def readable(fact: Any) -> list[Finding]:
    """Those rows of the fact that are findings; a host's own facts may have put anything there."""
    found = []
    for row in fact[:OF_A_HOST_MAX] if isinstance(fact, list) else ():
        try:
            found.append(Finding.from_dict(row))
        except (TypeError, KeyError, ValueError):
            continue
    return found


def add(known: Any, role: str, findings: Iterable[Finding]) -> list[dict[str, str]]:
    """The fact with this role's findings in place of those that it had; each row names the role."""
    others = [dict(row) for row in known or [] if isinstance(row, Mapping) and row.get("role") != role]
    return [*others, *({**finding.to_dict(), "role": role} for finding in findings)]


def ask(known: Any, role: str, reason: str) -> dict[str, str]:
    """The fact reboot_needed, reasons by role, with this role's reason in place of the one that it had."""
    others = {str(r): str(why) for r, why in known.items() if r != role} if isinstance(known, Mapping) else {}
    return {**others, role: shorten(reason)} if reason.strip() else others


def lines(findings: Iterable[Finding]) -> list[str]:
    """Each finding on one line, as a person reads it."""
    return [
        " ".join(part for part in (f.symptom, f.locator, f"({f.evidence})" if f.evidence else "") if part)
        for f in findings
    ]


def refusal(role: str, findings: Iterable[Finding]) -> str:
    """One line that says why the host is not as the role wants it; empty when nothing says so."""
    bad = blocking(findings)
    more = f"; and {len(bad) - SHOWN_MAX} more" if len(bad) > SHOWN_MAX else ""
    return f"{role}: {'; '.join(lines(bad[:SHOWN_MAX]))}{more}" if bad else ""
