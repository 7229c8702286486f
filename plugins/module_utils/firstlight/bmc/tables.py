"""What scripts/bmc shows: hosts with their findings, as plain values for JSON and as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..findings import Finding, blocking, highest_action, shorten
from ..profile import Profile
from ..sitefiles import Fleet, PlannedHost
from .hardware import Hardware, Record
from .judge_rest import pxe_nic
from .known import age
from .triage import peers_of, triage, triage_fleet

_STYLES = {"ok": "green", "not_asked": "dim"}


def host_views(
    fleet: Fleet,
    records: Mapping[str, Record],
    profiles: Mapping[str, Profile],
    names: Collection[str],
    previous: Mapping[str, Record | None] | None = None,
) -> list[dict[str, Any]]:
    """Of each of these hosts: its place, its record, and the findings where its profile is known."""
    twins, before = triage_fleet(records), previous or {}
    members: dict[str, list[str]] = {}
    for host in fleet.hosts:
        members.setdefault(host.profile, []).append(host.name)
    peers = {name: peers_of(records, profiles[name], members[name]) for name in members if name in profiles}
    views = []
    for host in fleet.hosts:
        if host.name in names:
            profile, record = profiles.get(host.profile), records[host.name]
            known = triage(host, record, profile, peers[host.profile], before.get(host.name)) if profile else []
            views.append(view_of(host, record, [*known, *twins.get(host.name, [])], profile))
    return views


def view_of(host: PlannedHost, record: Record, findings: list[Finding], profile: Profile | None) -> dict[str, Any]:
    nic = pxe_nic(record.hardware, profile) if record.hardware and profile else None
    told = record.to_dict()
    told.pop("name")
    return {
        "name": host.name,
        "rack": host.rack,
        "unit": host.unit,
        "bmc_address": host.bmc_address,
        "bmc_port": host.bmc_port,
        "profile": host.profile,
        "profile_known": profile is not None,
        "service_tag": (record.hardware.service_tag if record.hardware else "") or host.service_tag,
        "pxe_mac": (nic.mac if nic else None) or host.mac,
        "well": record.condition == "ok" and not record.stale and not blocking(findings),
        "action": highest_action(findings),
        "findings": [finding.to_dict() for finding in findings],
        **told,
    }


def is_well(view: Mapping[str, Any]) -> bool:
    """True when the BMC answered and no finding says no."""
    return bool(view["well"])


def as_json(fleet: Fleet, views: list[dict[str, Any]]) -> dict[str, Any]:
    """The document that --json prints."""
    return {"site": fleet.site, "counts": dict(Counter(v["condition"] for v in views)), "hosts": views}


def fleet_table(views: list[dict[str, Any]], title: str = "") -> RenderableType:
    """One row a host, below it what is wrong with whom."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, title=title or None, title_justify="left")
    for column in ("host", "rack", "unit", "BMC", "condition", "model", "service tag", "power", "PXE MAC", "GPUs"):
        table.add_column(column, no_wrap=column in ("host", "PXE MAC"))
    table.add_column("asked")
    table.add_column("first finding", overflow="fold")
    for view in views:
        hardware = view["hardware"] or {}
        condition = f"{view['condition']}, stale" if view["stale"] else view["condition"]
        table.add_row(
            Text(view["name"]),
            Text(view["rack"]),
            str(view["unit"]),
            Text(_bmc(view)),
            Text(condition, style=_STYLES.get(condition, "red")),
            Text(hardware.get("model", "")),
            Text(view["service_tag"] or ""),
            Text(hardware.get("power_state", "")),
            Text(view["pxe_mac"] or ""),
            str(len(hardware["gpus"])) if hardware else "",
            _ago(view),
            Text(_first(view)),
        )
    return Group(table, *(_details(v) for v in views if not is_well(v)), Text(summary(views)))


def host_page(view: dict[str, Any], record: Record) -> RenderableType:
    """All about one host."""
    parts: list[RenderableType] = [Text(_headline(view), style="bold")]
    if record.evidence:
        parts.append(Text(f"    {shorten(record.evidence)}"))
    if record.hardware:
        parts += hardware_tables(record.hardware)
    parts.append(findings_table(view))
    return Group(*parts)


def hardware_tables(hardware: Hardware) -> list[RenderableType]:
    """What a server consists of."""
    h = hardware
    facts = {
        "model": " ".join(part for part in (h.vendor, h.model) if part),
        "service tag": h.service_tag,
        "power": h.power_state,
        "CPUs, memory": f"{h.cpus if h.cpus is not None else '?'}, {h.memory_gib or '?'} GiB",
        "BIOS, BMC": f"{h.firmware.get('bios', '?')}, {h.firmware.get('bmc', '?')}",
        "inventory of": h.inventory_time or "",
        "BMC's clock": "" if h.bmc_clock_skew_seconds is None else f"{h.bmc_clock_skew_seconds:+d} s",
        "not read": ", ".join(h.unread),
    }
    about = Table(box=None, show_header=False, pad_edge=False)
    for name, value in facts.items():
        if value:
            about.add_row(f"  {name}", Text(shorten(value, 200)))
    tables: list[RenderableType] = [about]
    nics = [[n.id, n.kind, n.mac, n.link, n.speed_mbps and f"{n.speed_mbps} Mb/s"] for n in h.nics]
    tables += _part("NICs", ("id", "kind", "MAC", "link", "speed"), nics)
    gpus = [[g.id, g.model, g.serial, g.health, g.state] for g in h.gpus]
    tables += _part("GPUs", ("id", "model", "serial", "health", "state"), gpus)
    drives = [[d.id, d.model, d.serial, _size(d.size_bytes), d.protocol, d.health] for d in h.drives]
    tables += _part("drives", ("id", "model", "serial", "size", "protocol", "health"), drives)
    tables += _part("PSUs", ("id", "health", "state", "watts"), [[p.id, p.health, p.state, p.watts] for p in h.psus])
    return tables


def _part(title: str, columns: tuple[str, ...], rows: list[list[Any]]) -> list[RenderableType]:
    if not rows:
        return [Text(f"  no {title}")]
    table = Table(box=SIMPLE_HEAD, pad_edge=False, title=f"{len(rows)} {title}", title_justify="left")
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*(Text("" if value is None else str(value)) for value in row))
    return [table]


def findings_table(view: Mapping[str, Any]) -> RenderableType:
    """All findings that are not ok, the worst first."""
    if not view["profile_known"] and not view["findings"]:
        return Text(f"  profile {view['profile'] or 'unknown'} is not known: nothing was judged")
    found = [Finding.from_dict(f) for f in view["findings"]]
    shown = blocking(found) + [f for f in found if f.status == "warn"]
    if not shown:
        return Text(f"  {len(found)} checks, nothing is wrong", style="green")
    table = Table(box=SIMPLE_HEAD, pad_edge=False, title="findings", title_justify="left")
    for column in ("status", "symptom", "part", "evidence", "action"):
        table.add_column(column, overflow="fold")
    for finding in shown:
        style = "yellow" if finding.status == "warn" else "red"
        row = (finding.status, finding.symptom, finding.locator, finding.evidence, finding.action)
        table.add_row(*(Text(value, style=style if n == 0 else "") for n, value in enumerate(row)))
    return table


def summary(views: list[dict[str, Any]]) -> str:
    """E.g. "6 hosts: 5 ok, 1 unreachable; 4 with nothing to do"."""
    counts = Counter(v["condition"] for v in views)
    said = ", ".join(f"{count} {condition}" for condition, count in counts.most_common())
    return f"{len(views)} hosts: {said}; {sum(map(is_well, views))} with nothing to do"


def _reasons(view: Mapping[str, Any]) -> list[Finding]:
    return [] if view["well"] else blocking(Finding.from_dict(f) for f in view["findings"])


def _first(view: Mapping[str, Any]) -> str:
    reasons = _reasons(view)
    if not reasons:
        return "" if view["profile_known"] else "profile not known"
    more = f" (+{len(reasons) - 1})" if len(reasons) > 1 else ""
    return " ".join(part for part in (reasons[0].symptom, reasons[0].locator) if part) + more


def _details(view: Mapping[str, Any]) -> Text:
    lines = [f"{_headline(view)}: {view['action']}"]
    for reason in _reasons(view):
        parts = (reason.symptom, reason.locator, reason.evidence)
        lines.append(f"    {', '.join(part for part in parts if part)} ({reason.action})")
    if len(lines) == 1:
        lines.append(f"    {view['condition']}: {shorten(view['evidence'] or 'its record is old')}")
    return Text("\n".join(lines))


def _headline(view: Mapping[str, Any]) -> str:
    tag = view["service_tag"] or "service tag not known"
    place = f"rack {view['rack']} unit {view['unit']}, BMC {_bmc(view)}, " if view["bmc_address"] else ""
    return f"{view['name']}: {place}{shorten(tag, 60)}, {view['condition']}{', stale' if view['stale'] else ''}"


def _bmc(view: Mapping[str, Any]) -> str:
    address, port = view["bmc_address"], view["bmc_port"]
    if port == 443:
        return str(address)
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _ago(view: Mapping[str, Any]) -> str:
    seconds = age(Record("", view["condition"], "", view["asked_at"], 0.0))
    if seconds < 0:
        return ""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"


def _size(size: int) -> str:
    return f"{size / 1e12:.2f} TB" if size >= 1e12 else f"{size / 1e9:.0f} GB" if size else ""
