"""The policy file of a site (``policy.yml``), and what it says of findings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..findings import ACTIONS, Finding
from ..yamlfile import read_yaml
from .ready import at_least

_NUMBER = r"^([0-9]{1,6}|[0-9]{1,3}(\.[0-9]{1,3})?\s*%)$"
_AMOUNT = {"type": ["integer", "string"], "minimum": 0, "maximum": 999999, "pattern": _NUMBER}
_AMOUNT["x-hint"] = 'write a count like 40 or a share like "15%"'
_SYMPTOMS = {
    "type": "array",
    "maxItems": 200,
    "items": {
        "type": "string",
        "pattern": r"^[a-z][a-z0-9_]{0,31}\.([a-z0-9_]{1,31}\*?|\*)$",
        "x-hint": "a symptom like gpu.rows_used_up, or the beginning of some, like kernel.*",
    },
}


def _whole(minimum: int, maximum: int) -> dict[str, Any]:
    return {
        "type": "integer", "minimum": minimum, "maximum": maximum,
        "x-hint": f"a whole number from {minimum} to {maximum}",
    }  # fmt: skip


POLICY_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "fleet_min_ready": _AMOUNT,
        "quarantine_never": _SYMPTOMS,
        "quarantine_warnings": _SYMPTOMS,
        "brake_min_hosts": _whole(1, 10000),
        "brake_max_quarantined": _AMOUNT,
        "brake_max_same_cause": _AMOUNT,
        "reboot_max_parallel": _whole(1, 1000),
        "reinstall_max_parallel": _whole(1, 1000),
        "escalate_days": _whole(1, 3650),
        "lemon_failures": _whole(2, 100),
        "lemon_days": _whole(1, 3650),
        "golden_days": _whole(1, 3650),
        "spares": _AMOUNT,
        "ticket_min_action": {"enum": list(ACTIONS[1:]), "x-hint": f"one of {', '.join(ACTIONS[1:])}"},
    },
}


@dataclass(frozen=True)
class Policy:
    """A site's policy; what its file leaves out is as here. docs/policy.md says what each key means.

    Amounts are a count or a share of hosts such as "15%".
    """

    fleet_min_ready: int | str = "90%"
    quarantine_never: tuple[str, ...] = ()
    quarantine_warnings: tuple[str, ...] = ()
    brake_min_hosts: int = 5
    brake_max_quarantined: int | str = "25%"
    brake_max_same_cause: int | str = "10%"
    reboot_max_parallel: int = 4
    reinstall_max_parallel: int = 8
    escalate_days: int = 14
    lemon_failures: int = 3
    lemon_days: int = 30
    golden_days: int = 14
    spares: int | str = "15%"
    ticket_min_action: str = "reseat"

    def quarantines(self, finding: Finding) -> bool:
        """Whether this finding alone takes its host out of use."""
        if _matches(finding.symptom, self.quarantine_never):
            return False
        if finding.status == "warn":
            return _matches(finding.symptom, self.quarantine_warnings)
        return finding.status in ("fail", "unknown")

    def quarantining(self, findings: Iterable[Finding]) -> list[Finding]:
        return [finding for finding in findings if self.quarantines(finding)]


def _matches(symptom: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(symptom, pattern) for pattern in patterns)


def load_policy(path: Path | str) -> Policy:
    """Read one policy file; InputError, one line with file, line and key, where it is wrong."""
    file = read_yaml(path)
    file.check(POLICY_SCHEMA)
    data = {f.name: file.data[f.name] for f in fields(Policy) if f.name in file.data}
    for key in ("fleet_min_ready", "brake_max_quarantined", "brake_max_same_cause", "spares"):
        if key in data:
            try:
                at_least(key, data[key], 100)
            except InputError as error:  # a share above 100 %
                raise InputError(str(error), file.where([key])) from None
    for key in ("quarantine_never", "quarantine_warnings"):
        if key in data:
            data[key] = tuple(data[key])
    policy = Policy(**data)
    both = sorted(set(policy.quarantine_never) & set(policy.quarantine_warnings))
    if both:
        raise InputError(f"{both[0]} is also in quarantine_never; keep one", file.where(["quarantine_warnings"]))
    return policy
