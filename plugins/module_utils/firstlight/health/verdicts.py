"""From findings to yes or no with reasons, and to an exit status. Pure."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Optional

from ..findings import Finding, Verdict

FIT, NOT_FIT, NOT_TOLD = 0, 1, 2  # exit status; 2 is also that of wrong usage
STAGE = "smoke"  # what the ledger has health's findings under
_WORDS: Dict[Optional[bool], str] = {True: "yes", False: "no", None: "not told"}


def record(name: str, findings: Iterable[Finding], verdict: Verdict, told: bool = True, **more: Any) -> Dict[str, Any]:
    """One host as the JSON has it: name, fit (true, false, or null where nothing could be told), action, reasons and
    findings, and whatever ``more`` adds."""
    return {
        "name": name,
        "fit": verdict.ready if told else None,
        "action": verdict.action,
        "reasons": [finding.to_dict() for finding in verdict.reasons],
        "findings": [finding.to_dict() for finding in findings],
        **more,
    }


def record_of_report(host: Mapping[str, Any]) -> Dict[str, Any]:
    """The record of a host from the report's (``report.host_report``) after a run of health.

    Where its checks gave nothing, what is held against it is the stage's own finding: it was not reached, a task
    failed, it told nothing that can be read. Then it is not known whether it is fit.
    """
    told = not any(reason["check"] == STAGE for reason in host["reasons"])
    kept = ("name", "rack", "unit", "service_tag", "profile", "state", "action", "reasons", "findings")
    fit = host["verdict"] == "ready" if told else None
    return {**{name: host[name] for name in kept}, "fit": fit}


def status(records: Iterable[Mapping[str, Any]]) -> int:
    """0 all fit; 1 all told, and some not fit; 2 of some, or of none at all, nothing could be told."""
    told = [row["fit"] for row in records]
    if not told or None in told:
        return NOT_TOLD
    return FIT if all(told) else NOT_FIT


def lines(records: Iterable[Mapping[str, Any]]) -> List[str]:
    """For people: of each host yes, no or not told, then its reasons, a line each; of a fit one its warnings."""
    said = []
    for row in records:
        said.append(f"{row['name']}: {_WORDS[row['fit']]}")
        warnings = [f for f in row["findings"] if f["status"] == "warn"]
        said += [f"    {line(reason)}" for reason in row["reasons"]]
        said += [f"    warning: {line(warning)}" for warning in warnings]
    return said


def line(finding: Mapping[str, str]) -> str:
    """One finding on one line."""
    parts = (finding["symptom"], finding["locator"], finding["evidence"])
    action = finding["action"]
    return ", ".join(part for part in parts if part) + ("" if action == "none" else f" ({action})")
