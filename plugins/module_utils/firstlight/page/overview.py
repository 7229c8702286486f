"""What the page shows, as plain values ready for JSON: the report of now, and what the ledger remembers. Pure."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from ..findings import shorten
from ..ledger.history import HostHistory
from ..ledger.store import STAGES
from ..policy.ready import spares_line
from ..report import UNFINISHED

WEEKS = 12  # that are looked back on
OFFENDERS_MAX = 25
REASONS_MAX = 3  # of a host, in full; the rest is counted
EVIDENCE_MAX = 240
VALUES_MAX = 8  # of one version name and profile, the most frequent
_COMMON = ("symptom", "count", "of", "says", "evidence", "action", "hosts")
ODD_MAX = 5  # hosts that are named with a value that few have
# states in which a host stands still until someone acts; the page tells them from those that only wait for a stage
HELD = ("quarantined", "in_repair")


def overview(
    report: Mapping[str, Any],
    machines: Sequence[HostHistory],
    values: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Everything that the page shows.

    report: of ``report.build``. machines: of ``history``, going back to ``weeks_before`` for WEEKS.
    values: by host {profile, values {name: text or number}}, by which versions are counted.
    """
    named = {machine.name: machine for machine in machines if machine.name}
    hosts = [_host(host, named.get(host["name"])) for host in report["hosts"]]
    of_fleet = [named[host["name"]] for host in hosts if host["name"] in named]
    return {
        "site": report["site"],
        "written": report["written"],
        "run": report.get("run") or {},
        "policy": report["policy"],
        "spares": {**report["spares"], "says": spares_line(report["spares"])},
        "counts": report["counts"],
        "tickets": report.get("tickets", {"open": 0, "by_action": {}}),
        "not_seen": report["not_seen"],
        "common": [{key: one[key] for key in _COMMON} for one in report["common"]],
        "weeks_back": WEEKS,
        "hosts": hosts,
        "bring_up": bring_up(of_fleet),
        "causes": causes(hosts, of_fleet),
        "offenders": offenders(hosts, of_fleet),
        "weeks": weekly(machines, report["written"]),
        "versions": versions({name: told for name, told in (values or {}).items() if name in named}),
    }


def _host(host: Mapping[str, Any], machine: HostHistory | None) -> dict[str, Any]:
    """A host of the report, its texts bounded, with how it stands and since when."""
    reasons = [
        {**{key: reason[key] for key in ("symptom", "locator", "action")}, "evidence": _brief(reason["evidence"])}
        for reason in host["reasons"]
    ]
    held = [failure.first_seen for failure in machine.failures if failure.cleared is None] if machine else []
    return {
        **{key: host[key] for key in ("name", "rack", "unit", "profile", "stage", "state", "verdict", "action")},
        "service_tag": shorten(host["service_tag"] or "", 40),
        "standing": standing(host),
        "reasons": reasons[:REASONS_MAX],
        "reasons_left_out": max(0, len(reasons) - REASONS_MAX),
        "symptoms": sorted({reason["symptom"] for reason in reasons}),
        "tickets": host.get("tickets", []),
        "seconds": host["seconds"],
        "since": min(held, default=None),
    }


def _brief(evidence: str) -> str:
    return shorten(evidence, EVIDENCE_MAX)


def standing(host: Mapping[str, Any]) -> str:
    """How a host stands: ready, quarantined, in_repair, failed (at a stage), planned, or under_way."""
    if host["verdict"] == "ready":
        return "ready"
    if host["state"] in HELD:
        return str(host["state"])
    if any(reason["symptom"] != UNFINISHED for reason in host["reasons"]):
        return "failed"
    return "planned" if host["state"] == "planned" else "under_way"


def bring_up(machines: Iterable[HostHistory]) -> list[dict[str, Any]]:
    """By stage that any passed: how many hosts had passed it after how long, from each host's own beginning.

    Each: stage, hosts, median_seconds, slowest {name, seconds}, points [[seconds, hosts], ...] rising in both.
    """
    taken: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for machine in machines:
        for stage, at in machine.passed.items():
            if machine.began:
                taken[stage].append((max(0.0, _seconds(machine.began, at)), machine.name or ""))
    found = []
    for stage in STAGES:
        times = sorted(taken[stage])
        if times:
            slowest = {"name": times[-1][1], "seconds": times[-1][0]}
            median = statistics.median(seconds for seconds, _ in times)
            points = [[seconds, number] for number, (seconds, _) in enumerate(times, 1)]
            found.append({"stage": stage, "hosts": len(times), "median_seconds": median, "slowest": slowest})
            found[-1]["points"] = points
    return found


def causes(hosts: Iterable[Mapping[str, Any]], machines: Iterable[HostHistory]) -> list[dict[str, Any]]:
    """By symptom how many hosts have it now, and how many had it within the weeks; the most frequent first."""
    now = Counter(symptom for host in hosts for symptom in host["symptoms"] if symptom != UNFINISHED)
    lately = Counter(symptom for machine in machines for symptom in {f.symptom for f in machine.failures})
    order = sorted(now | lately, key=lambda symptom: (-now[symptom], -lately[symptom], symptom))
    return [
        {"symptom": symptom, "now": now[symptom], "lately": max(now[symptom], lately[symptom])} for symptom in order
    ]


def offenders(hosts: Iterable[Mapping[str, Any]], machines: Iterable[HostHistory]) -> list[dict[str, Any]]:
    """Hosts that failed more than once within the weeks, the worst first; at most OFFENDERS_MAX.

    A failure is a moment at which something new was found, however many findings tell of it. Each: name, rack, unit,
    service_tag, standing, failures, quarantined (times), last (time), symptoms [[symptom, times], ...], last_deed.
    """
    by_name = {host["name"]: host for host in hosts}
    found = []
    for machine in machines:
        moments = sorted({failure.first_seen for failure in machine.failures})
        if len(moments) < 2 or machine.name not in by_name:
            continue
        host = by_name[machine.name]
        symptoms = Counter(symptom for _, symptom in {(f.first_seen, f.symptom) for f in machine.failures})
        found.append(
            {
                **{key: host[key] for key in ("name", "rack", "unit", "service_tag", "standing")},
                "failures": len(moments),
                "quarantined": sum(change.after == "quarantined" for change in machine.changes),
                "last": moments[-1],
                "symptoms": [[symptom, times] for symptom, times in symptoms.most_common(REASONS_MAX)],
                "last_deed": {"at": machine.last_deed[0], "what": _brief(machine.last_deed[1])}
                if machine.last_deed
                else None,
            }
        )
    found.sort(key=lambda one: (-one["failures"], -one["quarantined"], one["name"]))
    return found[:OFFENDERS_MAX]


def weekly(machines: Iterable[HostHistory], at: str, weeks: int = WEEKS) -> list[dict[str, Any]]:
    """Of the machines that were ready at some time in a week, how many left that state for quarantine; oldest first.

    Each: week (2026-W07), first_day, ready, failed, share (None where none was ready). The last is the week of ``at``,
    which is not over. Machines that were taken out of their rack since are counted too.
    """
    day = datetime.fromisoformat(at).replace(hour=0, minute=0, second=0, microsecond=0)
    monday = day - timedelta(days=day.weekday())
    known = list(machines)
    found = []
    for back in reversed(range(weeks)):
        start = monday - timedelta(weeks=back)
        end = start + timedelta(weeks=1)
        told = [_week(machine, start, end) for machine in known]
        ready, failed = sum(was for was, _ in told), sum(did for _, did in told)
        year, number, _ = start.isocalendar()
        found.append(
            {
                "week": f"{year}-W{number:02d}",
                "first_day": start.date().isoformat(),
                "ready": ready,
                "failed": failed,
                "share": failed / ready if ready else None,
            }
        )
    return found


def _week(machine: HostHistory, start: datetime, end: datetime) -> tuple[bool, bool]:
    """Whether the machine was ready at some time from start to end, and whether it failed while it was."""
    ready = machine.changes[0].before == "ready" if machine.changes else machine.state == "ready"
    was, failed = False, False
    for change in machine.changes:
        at = datetime.fromisoformat(change.at)
        if at >= end:
            break
        if at >= start:
            was = was or ready
            failed = failed or (change.before == "ready" and change.after == "quarantined")
        ready = change.after == "ready"
    return was or ready or failed, failed  # the changes of a ledger that was imported need not fit together


def versions(values: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """By profile and name of a text value, which hosts have which; those with more than one value first.

    Each: profile, name, values [{value, hosts, names}], most frequent first; names where few have the value, else [].
    """
    having: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for host, told in values.items():
        for name, value in told["values"].items():
            if isinstance(value, str):
                having[told["profile"], name][shorten(value, 120)].append(host)
    found = []
    for (profile, name), hosts in having.items():
        ranked = sorted(hosts.items(), key=lambda one: (-len(one[1]), one[0]))
        rows = [
            {"value": value, "hosts": len(names), "names": sorted(names) if number and len(names) <= ODD_MAX else []}
            for number, (value, names) in enumerate(ranked)
        ]
        found.append(
            {"profile": profile, "name": name, "values": rows[:VALUES_MAX], "left_out": max(0, len(rows) - VALUES_MAX)}
        )
    return sorted(found, key=lambda one: (len(one["values"]) == 1, one["profile"], one["name"]))


def _seconds(start: str, end: str) -> float:
    return round((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds(), 1)
