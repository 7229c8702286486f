"""From findings to yes or no with reasons, and to an exit status. Pure."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from ..findings import Finding, Verdict, shorten, verdict

FIT, NOT_FIT, NOT_TOLD = 0, 1, 2  # exit status; 2 is also that of wrong usage
NAMED_MAX = 40  # hosts that a line names
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


def record_of_nothing(name: str) -> Dict[str, Any]:
    """The record of a host that was asked for and that the report does not have: the ledger does not know it."""
    evidence = "the ledger does not know this host; is it in the fleet file?"
    found = [Finding(STAGE, "unknown", f"{STAGE}.no_answer", evidence=evidence, action="retry")]
    places = dict.fromkeys(("rack", "unit", "service_tag", "profile", "state"))
    return record(name, found, verdict(found), told=False, **places)


def status(records: Iterable[Mapping[str, Any]]) -> int:
    """0 all fit; 1 all told, and some not fit; 2 of some, or of none at all, nothing could be told."""
    told = [row["fit"] for row in records]
    if not told or None in told:
        return NOT_TOLD
    return FIT if all(told) else NOT_FIT


def lines(records: Iterable[Mapping[str, Any]], common: Iterable[Mapping[str, Any]] = ()) -> List[str]:
    """For people: of each host yes, no or not told, then its reasons, a line each; of a fit one its warnings.

    common: what many hosts have at once (``report.common``); it is said first and once.
    """
    shared = list(common)
    said = [text for entry in shared for text in common_lines(entry)]
    for row in records:
        said.append(f"{shorten(row['name'], 255)}: {_WORDS[row['fit']]}")
        warnings = [f for f in row["findings"] if f["status"] == "warn"]
        said += [f"    {text}" for text in reason_lines(row["reasons"], row["name"], shared)]
        said += [f"    warning: {line(warning)}" for warning in warnings]
    return said


def common_lines(entry: Mapping[str, Any]) -> List[str]:
    """What many hosts have at once: what, on how many, what it says, what one of them says, and which they are."""
    names, first = list(entry["hosts"]), entry["hosts"][0]
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return [
        f"{entry['symptom']} on {entry['count']} of {entry['of']} hosts: {entry['says']}",
        f"    {first} says: {entry['evidence'] or entry['symptom']}",
        f"    {', '.join(names[:NAMED_MAX])}{more}",
    ]


def reason_lines(
    reasons: Iterable[Mapping[str, str]], name: str, common: Iterable[Mapping[str, Any]] = ()
) -> List[str]:
    """A host's reasons, a line each; of what many hosts have at once only which part of this one it is."""
    shared = {(e["check"], e["symptom"], e["task"]): e["count"] for e in common if name in e["hosts"]}
    said = []
    for reason in reasons:
        count = shared.get(kind(reason))
        short = reason if count is None else {**reason, "evidence": f"as on {count} hosts"}
        said.append(line(short))
    return list(dict.fromkeys(said))


def kind(finding: Mapping[str, str]) -> Tuple[str, str, str]:
    """(check, symptom, task): what must be equal for the findings of two hosts to be the same failure.

    task: what failed, where the symptom only says that a task did.
    """
    task = finding["evidence"].partition(": ")[0] if finding["symptom"].endswith(".task_failed") else ""
    return finding["check"], finding["symptom"], task


def line(finding: Mapping[str, str]) -> str:
    """One finding on one line."""
    parts = (finding["symptom"], finding["locator"], finding["evidence"])
    action = finding["action"]
    return ", ".join(part for part in parts if part) + ("" if action == "none" else f" ({action})")
