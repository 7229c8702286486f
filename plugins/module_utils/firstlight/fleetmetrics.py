"""The report as metrics of the fleet, for a node exporter's folder of text files (Prometheus' text format 0.0.4).

Beside health/metrics.py, which is what a host says of itself: this is what the ledger holds, of hosts that are off too.
Pure but for ``write``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from .errors import FirstlightError
from .findings import ACTIONS
from .health.metrics import escaped
from .ledger.store import STATES
from .wholefile import write_whole

SYMPTOMS_MAX = 200  # series of firstlight_findings, the most frequent; hosts name them, and a fleet has some dozens
_HELP = {
    "firstlight_report_timestamp_seconds": "When the report was written that these metrics are of.",
    "firstlight_policy_met": "Whether fleet_min_ready is met (1) or not (0), by all hosts of the fleet.",
    "firstlight_run_stopped": "Whether the last run did not go to its end (1), stopped or broken, or did (0).",
    "firstlight_hosts": "Hosts of the fleet by their state in the ledger.",
    "firstlight_hosts_ready": "Hosts that are ready to train: every stage passed and nothing held against them.",
    "firstlight_spares_wanted": "Ready hosts that are to be kept beside those that fleet_min_ready asks for.",
    "firstlight_spares_missing": "How many of firstlight_spares_wanted are not there.",
    "firstlight_host_state": "1 for the state that a host has in the ledger.",
    "firstlight_host_ready": "Whether a host is ready to train (1) or not (0).",
    "firstlight_tickets_open": "Open tickets of the fleet by the action that they ask for.",
    "firstlight_findings": "Hosts that have such a finding, other than ok.",
}


def text(report: Mapping[str, Any]) -> str:
    """The file's text. report: of ``report.build``."""
    site = ("site", report["site"])
    hosts = report["hosts"]
    states = Counter(host["state"] for host in hosts)
    found = Counter(
        pair
        for host in hosts
        for pair in {(f["symptom"], f["status"]) for f in host["findings"] if f["status"] != "ok"}
    )
    by_frequency = sorted(found.items(), key=lambda one: (-one[1], one[0]))[:SYMPTOMS_MAX]
    rows: dict[str, list[tuple[list[tuple[str, Any]], int | float]]] = {
        "firstlight_report_timestamp_seconds": [([site], datetime.fromisoformat(report["written"]).timestamp())],
        "firstlight_policy_met": [([site], int(report["spares"]["ready"] >= report["spares"]["required"]))],
        "firstlight_run_stopped": [([site], int((report["run"] or {}).get("outcome") in ("stopped", "broken")))],
        "firstlight_hosts": [([site, ("state", state)], states[state]) for state in STATES],
        "firstlight_hosts_ready": [([site], report["counts"]["ready"])],
        "firstlight_spares_wanted": [([site], report["spares"]["wanted"])],
        "firstlight_spares_missing": [([site], report["spares"]["missing"])],
        "firstlight_host_state": [([site, *_place(host), ("state", host["state"])], 1) for host in hosts],
        "firstlight_host_ready": [([site, *_place(host)], int(host["verdict"] == "ready")) for host in hosts],
        "firstlight_findings": [
            ([site, ("symptom", symptom), ("status", status)], number) for (symptom, status), number in by_frequency
        ],
    }
    if "tickets" in report:
        by_action = report["tickets"]["by_action"]
        rows["firstlight_tickets_open"] = [
            ([site, ("action", action)], by_action.get(action, 0)) for action in ACTIONS[1:]
        ]
    lines = []
    for name, series in rows.items():
        lines += [f"# HELP {name} {_HELP[name]}", f"# TYPE {name} gauge"]
        lines += [f"{name}{{{_labels(labels)}}} {value}" for labels, value in series]
    return "\n".join(lines) + "\n"


def _place(host: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The labels that the targets of playbooks/prometheus.yml have too, so that series can be joined."""
    unit = "" if host["unit"] is None else host["unit"]
    return [("host", host["name"]), ("rack", host["rack"]), ("unit", unit), ("profile", host["profile"])]


def _labels(labels: list[tuple[str, Any]]) -> str:
    return ",".join(f'{name}="{escaped(str(value))}"' for name, value in labels)


def write(report: Mapping[str, Any], folder: Path, name: str) -> None:
    """Write NAME.prom, whole or not at all; FirstlightError where that is not possible."""
    try:
        write_whole(folder / f"{name}.prom", text(report))
    except OSError as error:
        said = f"the metrics cannot be written to {folder}: {error.strerror}; free it, or name another reports_dir"
        raise FirstlightError(said) from None
