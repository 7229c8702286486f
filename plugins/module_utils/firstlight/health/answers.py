"""What the module host_check told of a host, as the controller takes it: a host's answer is a stranger's. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..checks import ALL_CHECKS, TIERS
from ..checks.engine import Value, bounded_values
from ..findings import Finding
from ..slots import serials
from .earlier import Memory, read
from .state import CHECK

_NAMES = frozenset(check.name for check in ALL_CHECKS)
_NONE: frozenset[str] = frozenset()
# what every run looks at anew; all else is looked at now and then, and what it found holds meanwhile
_EVERY_TIME = next(iter(TIERS))


@dataclass(frozen=True)
class Answer:
    """ran: names of the checks whose findings take the place of earlier ones. memory: what to give the host's next run,
    nothing where it cannot be taken. values: by check what hosts are compared by. findings: what is wrong with these.
    serials: of its GPUs by PCI address.
    """

    ran: frozenset[str] = _NONE
    memory: Memory = field(default_factory=dict)
    values: dict[str, dict[str, Value]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    serials: dict[str, str] = field(default_factory=dict)


def read_answer(told: Any) -> Answer:
    """Whatever a host told, bounded; nothing of one that told nothing."""
    if not isinstance(told, Mapping):
        return Answer()
    names = told.get("ran")
    ran = (
        frozenset(name for name in names if isinstance(name, str)) & _NAMES if isinstance(names, list) else frozenset()
    )
    values = {check: found for check, found in bounded_values(told.get("values")).items() if check in _NAMES}
    gpus = serials(told.get("serials"))
    try:
        return Answer(ran, read(told.get("remember") or {}), values, serials=gpus)
    except ValueError as error:
        evidence = f"what the host would have remembered {error}; what is known of it stays"
        return Answer(ran, {}, values, [Finding(CHECK, "warn", "earlier.refused", evidence=evidence)], gpus)


def held_over(ran: Collection[str] = ()) -> frozenset[str]:
    """The checks whose findings hold on after a run in which only these ran: those of the tiers beyond quick."""
    return frozenset(check.name for check in ALL_CHECKS if check.tier != _EVERY_TIME and check.name not in ran)


def usable(remembered: Mapping[str, Any]) -> Memory:
    """Of what the ledger remembers of a host all that can be given to its next run."""
    memory: Memory = {}
    for kind, value in remembered.items():
        try:
            memory.update(read({kind: value}))
        except ValueError:
            continue
    return memory
