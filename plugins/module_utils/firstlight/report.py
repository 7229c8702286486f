"""The fleet report: one record per host, the counts, and whether the policy is met. Pure but for ``write``."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from .errors import FirstlightError
from .findings import Finding, blocking, highest_action, shorten
from .health.verdicts import common_lines, kind, reason_lines
from .ledger.standing import IN_REPAIR, QUARANTINED
from .ledger.store import STAGES, now
from .policy import required_ready
from .policy.ready import spares_left, spares_line
from .wholefile import write_whole

UNFINISHED = "verdict.unfinished"
OUT_OF_USE = "verdict.out_of_use"

# A failure is common where this many hosts have it, and they are this share of those that came as far as to have it.
# About one new host in ten fails at first, by all faults together: twice that by one fault alone is not the hosts.
COMMON_MIN, COMMON_SHARE = 3, 0.2
# or this share of a rack: what a rack shares (switch, power) is no large part of a fleet
RACK_SHARE = 0.5
COMMON_MAX = 20  # entries of a report


def host_report(story: dict[str, Any]) -> dict[str, Any]:
    """One host's record from its story (see ``Ledger.story``).

    Ready only with every stage passed, nothing found that says no, and not held, in quarantine or in repair.
    """
    findings = [{k: f[k] for k in Finding.__dataclass_fields__} for f in story["findings"]]
    known = [Finding.from_dict(f) for f in findings]
    reasons = blocking(known)
    stages = story["stages"]
    open_stage = next((s for s in STAGES if stages.get(s, {}).get("result") != "passed"), None)
    out = _out_of_use(story, bool(reasons) or open_stage is not None)
    reasons, known = [*out, *reasons], [*known, *out]
    ready = not reasons and open_stage is None
    if not ready and not reasons:
        begun = open_stage in stages
        said = f"{open_stage} was begun and not ended" if begun else f"{open_stage} was not reached"
        if begun and open_stage and stages[open_stage]["result"] == "undone":
            said = f"{open_stage} was undone: the machine was released"
        reasons = [Finding("verdict", "unknown", UNFINISHED, evidence=said, action="retry")]
        known += reasons
    return {
        "name": story["name"],
        "rack": story["rack"],
        "unit": story["unit"],
        "service_tag": story["service_tag"],
        "profile": story["profile"],
        "stage": _stage_reached(stages),
        "state": story["state"],
        "held": story.get("held") or "",
        "verdict": "ready" if ready else "not ready",
        "reasons": [reason.to_dict() for reason in reasons],
        "findings": findings,
        "action": "none" if ready else highest_action(known),
        "seconds": {stage: stages[stage]["seconds"] for stage in STAGES if stage in stages},
    }


def _out_of_use(story: dict[str, Any], has_reasons: bool) -> list[Finding]:
    """Who keeps the host out of use, or, where nothing else says no, that it is."""
    name, said = story["name"], ""
    if held := story.get("held"):
        said = f"held: {held}; playbooks/readmit.yml -e host={name} gives it back"
    elif story["state"] == IN_REPAIR:
        said = f"in repair; playbooks/reprovision.yml -e host={name} brings it back"
    elif story["state"] == QUARANTINED and not has_reasons:
        said = "quarantined until it passes smoke without what quarantined it"
    return [Finding("verdict", "unknown", OUT_OF_USE, evidence=said)] if said else []


def _stage_reached(stages: dict[str, Any]) -> str | None:
    """The stage at which a host left or is: the first that it has not passed, or the last of all."""
    for stage in STAGES:
        if stage not in stages:
            before = STAGES[: STAGES.index(stage)]
            return before[-1] if before else None
        if stages[stage]["result"] != "passed":
            return stage
    return STAGES[-1]


def build(
    site: str,
    stories: Iterable[dict[str, Any]],
    fleet_min_ready: int | float | str,
    run: dict[str, Any] | None = None,
    judged: Iterable[str] | None = None,
    fleet: Iterable[str] = (),
    spares: int | str = 0,
) -> dict[str, Any]:
    """The whole report as plain values, ready for JSON.

    judged: names of the hosts that the policy is judged on (those that the run was limited to); all by default.
    fleet: names of all hosts that the site has; those without a story were in no run yet, and are named.
    spares: as the policy has it; told of all hosts, whatever the run was limited to.
    """
    hosts = [host_report(story) for story in stories]
    names = {h["name"] for h in hosts} if judged is None else set(judged)
    in_run = [h for h in hosts if h["name"] in names]
    ready = sum(h["verdict"] == "ready" for h in in_run)
    all_ready = sum(h["verdict"] == "ready" for h in hosts)
    required = required_ready(fleet_min_ready, len(in_run))
    return {
        "site": site,
        "written": now(),
        "run": run or {},
        "policy": {
            "fleet_min_ready": fleet_min_ready,
            "hosts": len(in_run),
            "required": required,
            "ready": ready,
            "met": ready >= required,
        },
        "counts": {
            "hosts": len(hosts),
            "ready": all_ready,
            "not_ready": len(hosts) - all_ready,
            "by_state": dict(sorted(Counter(h["state"] for h in hosts).items())),
            "by_symptom": dict(sorted(Counter(r["symptom"] for h in hosts for r in h["reasons"]).items())),
        },
        "spares": spares_left(fleet_min_ready, spares, len(hosts), all_ready),
        "not_seen": sorted(set(fleet) - {h["name"] for h in hosts}),
        "common": common(in_run),
        "hosts": hosts,
    }


def common(hosts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The failures that so many of these hosts (``host_report``) have that it is probably not the hosts; most hosts
    first.

    Each: check, symptom, task, action (the highest), hosts, racks, count, of (how many came as far, in these racks
    where it is a matter of racks), evidence (of the first host), says.
    """
    known = list(hosts)
    kinds: dict[tuple[str, str, str], dict[str, dict[str, str]]] = {}
    for host in known:
        for reason in host["reasons"]:
            if reason["symptom"] not in (UNFINISHED, OUT_OF_USE):
                kinds.setdefault(kind(reason), {}).setdefault(host["name"], reason)
    found = [entry for what, reasons in kinds.items() for entry in _common(known, what, reasons)]
    return sorted(found, key=lambda entry: (-entry["count"], entry["symptom"]))[:COMMON_MAX]


def _common(
    hosts: list[dict[str, Any]], what: tuple[str, str, str], reasons: dict[str, dict[str, str]]
) -> list[dict[str, Any]]:
    """The entry for one failure, if it is common. reasons: of the hosts that have it."""
    have = [host for host in hosts if host["name"] in reasons]
    if len(have) < COMMON_MIN:
        return []
    came = [host for host in hosts if _how_far(host) >= min(map(_how_far, have))]
    if len(have) < COMMON_SHARE * len(came):
        by_rack, failed = Counter(h["rack"] for h in came), Counter(h["rack"] for h in have)
        racks = {r for r, count in failed.items() if count >= max(COMMON_MIN, RACK_SHARE * by_rack[r])}
        came, have = ([host for host in of if host["rack"] in racks] for of in (came, have))
        if not have:
            return []
        where = f"most hosts of {_racks(racks)} have it"
    else:
        racks = {host["rack"] for host in have}
        alone = len(racks) == 1 and any(host["rack"] not in racks for host in came)
        where = f"all of them in {_racks(racks)}" if alone else ""
    known = [Finding.from_dict(reasons[host["name"]]) for host in have]
    check, symptom, task = what
    return [
        {
            "check": check,
            "symptom": symptom,
            "task": task,
            "action": highest_action(known),
            "hosts": [host["name"] for host in have],
            "racks": sorted(racks, key=str),
            "count": len(have),
            "of": len(came),
            "evidence": ", ".join(part for part in (known[0].locator, known[0].evidence) if part),
            "says": f"{where}; {_SHARED_IN_RACK}" if where else _SHARED,
        }
    ]


_SHARED = "probably not the hosts, but what they share: network, mirror, image, time server, a setting of the site"
_SHARED_IN_RACK = "probably not the hosts, but what they share there: switch, power, cables"


def _racks(racks: Iterable[str]) -> str:
    names = sorted(map(str, racks))
    return f"rack {names[0]}" if len(names) == 1 else f"racks {', '.join(names)}"


def _how_far(host: dict[str, Any]) -> int:
    """The number of the stage at which a host is; -1 before all of them."""
    return STAGES.index(host["stage"]) if host["stage"] in STAGES else -1


def could_be_met(report: dict[str, Any], judged: Iterable[str]) -> bool:
    """Whether enough of the judged hosts are ready, or have nothing against them but stages that are to come."""
    names = set(judged)
    hopeful = [
        h for h in report["hosts"] if h["name"] in names and all(r["symptom"] == UNFINISHED for r in h["reasons"])
    ]
    return len(hopeful) >= report["policy"]["required"]


def text(report: dict[str, Any], width: int = 150, colour: bool = False) -> str:
    """For people: a table, what many hosts have at once, what is wrong with each that is not ready, and the sum."""
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=colour, color_system="standard" if colour else None)
    console.print(_table(report["hosts"], width))
    for entry in report["common"]:
        first, *more = common_lines(entry)
        console.print(Text(first))
        for line in more:
            console.print(Padding(Text(line.strip()), (0, 0, 0, 4)))
        console.print()
    for host in report["hosts"]:
        if host["verdict"] != "ready":
            _print_details(console, host, report["common"])
    if line := spares_line(report["spares"]):
        console.print(Text(line))
    console.print(Text(summary(report)))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


_REASON_WIDTH = 18  # narrower than this, a symptom and its part cannot be read
_GAP = 3


def _table(hosts: list[dict[str, Any]], width: int) -> Table:
    """A line per host; on a narrow screen without its state, and with the stages' seconds in one column."""
    columns: dict[str, list[str]] = {
        "host": [h["name"] for h in hosts],
        "rack/unit": [f"{h['rack']}/{h['unit']}" for h in hosts],
        "service tag": [shorten(h["service_tag"] or "-", 40) for h in hosts],
        "stage": [h["stage"] or "-" for h in hosts],
        "state": [h["state"] for h in hosts],
        "verdict": [h["verdict"] for h in hosts],
        "first reason": [_first_reason(h) for h in hosts],
        "action": [h["action"] for h in hosts],
    }
    seconds = {stage: [_seconds(h["seconds"].get(stage)) for h in hosts] for stage in STAGES}
    taken = sum(max(map(len, (name, *values))) + _GAP for name, values in (columns | seconds).items())
    reasons = max(map(len, ("first reason", *columns["first reason"])))
    title = "stages in seconds"
    if taken - reasons + min(reasons, _REASON_WIDTH) > width:
        title = f"seconds: {', '.join(STAGES)}"
        seconds = {"seconds": [" ".join(of_host) for of_host in zip(*seconds.values(), strict=True)]}
        del columns["state"]
    table = Table(box=SIMPLE_HEAD, pad_edge=False, title=title, title_justify="right", title_style="dim")
    for name in columns:
        table.add_column(name, overflow="fold", no_wrap=name != "first reason")
    for name in seconds:
        table.add_column(name, justify="right", no_wrap=True)
    for row in zip(*(columns | seconds).values(), strict=True):
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    return table


_STYLES = {"ready": "green", "not ready": "bold red"}


def _print_details(console: Console, host: dict[str, Any], common: list[dict[str, Any]]) -> None:
    """A host that is not ready: where it stands, what to do, and every reason with its evidence."""
    tag = shorten(host["service_tag"] or "service tag not known", 40)
    console.print(Text(f"{host['name']}: rack {host['rack']} unit {host['unit']}, {tag}: {host['action']}"))
    for line in reason_lines(host["reasons"], host["name"], common):
        console.print(Padding(Text(line), (0, 0, 0, 4)))
    console.print()


def summary(report: dict[str, Any]) -> str:
    """One line: how many are ready, and whether that is enough."""
    policy, counts = report["policy"], report["counts"]
    met = "met" if policy["met"] else "NOT met"
    line = f"site {report['site']}: {counts['ready']} of {counts['hosts']} hosts ready; "
    if policy["hosts"] != counts["hosts"]:
        line += f"{policy['ready']} of the {policy['hosts']} in this run; "
    line += f"policy fleet_min_ready={policy['fleet_min_ready']} ({policy['required']} of {policy['hosts']}) {met}"
    if report["not_seen"]:
        line += f"; {len(report['not_seen'])} more of the fleet were in no run yet"
    run = report.get("run") or {}
    if run.get("outcome") not in _OUTCOMES:
        return line
    return f"{line}; the run {_OUTCOMES[run['outcome']]}" + (f": {run['message']}" if run.get("message") else "")


_OUTCOMES = {"broken": "broke", "stopped": "was stopped"}


def _first_reason(host: dict[str, Any]) -> str:
    if not host["reasons"]:
        return ""
    first, more = host["reasons"][0], len(host["reasons"]) - 1
    said = " ".join(part for part in (first["symptom"], first["locator"]) if part)
    return f"{said} (+{more})" if more else said


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}" if value < 10 else f"{value:.0f}"


def write(report: dict[str, Any], folder: Path, name: str = "latest") -> None:
    """Write NAME.json and NAME.txt, each whole or not at all; FirstlightError where that is not possible."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / f"{name}.json", json.dumps(report, indent=2) + "\n")
        write_whole(folder / f"{name}.txt", text(report))
    except OSError as error:
        said = f"the report cannot be written to {folder}: {error.strerror}; free it, or name another reports_dir"
        raise FirstlightError(said) from None
