"""Who may enter a stage: a host that fails leaves the run at its stage, the others go on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .ledger.store import STAGES, Ledger


@dataclass(frozen=True)
class Admission:
    """admitted: hosts that enter the stage, in order. left_out: the others, each with the reason in words."""

    admitted: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


def admit(ledger: Ledger, stage: str, names: Iterable[str]) -> Admission:
    """Admit the hosts that passed every stage before ``stage`` at their last try."""
    before = STAGES[: STAGES.index(stage)]
    wanted = list(names)
    passed = {earlier: ledger.passed(earlier, wanted) for earlier in before}
    admission = Admission()
    for name in wanted:
        missed = next((earlier for earlier in before if name not in passed[earlier]), None)
        if missed is None:
            admission.admitted.append(name)
        else:
            admission.left_out[name] = f"did not pass {missed}"
    return admission
