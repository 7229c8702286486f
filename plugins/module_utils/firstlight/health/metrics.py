"""Findings as metrics for the node exporter's folder of text files (Prometheus' text format 0.0.4)."""

from __future__ import annotations

from typing import Iterable

from ..findings import Finding

FINDINGS_MAX = 200  # series of one host; the rest is a number
_HELP = {
    "firstlight_health_ready": "Whether the host is fit to train by its own checks (1) or not (0).",
    "firstlight_health_timestamp_seconds": "When the checks ran.",
    "firstlight_health_duration_seconds": "How long they took.",
    "firstlight_health_findings": "Findings other than ok, also those that are no series of firstlight_finding.",
    "firstlight_finding": "1 for each finding other than ok.",
}
_ORDER = ("fail", "unknown", "warn")


def text(findings: Iterable[Finding], ready: bool, at: float, seconds: float) -> str:
    """The file's text. at: seconds since 1970."""
    found = sorted((f for f in findings if f.status in _ORDER), key=lambda f: _ORDER.index(f.status))
    series = {}  # the exporter refuses a file that has a series twice
    for finding in found:
        labels = ",".join(
            f'{name}="{escaped(getattr(finding, name))}"'
            for name in ("check", "symptom", "locator", "status", "action")
        )
        series[f"firstlight_finding{{{labels}}}"] = "1"
    values = {
        "firstlight_health_ready": {"firstlight_health_ready": "1" if ready else "0"},
        "firstlight_health_timestamp_seconds": {"firstlight_health_timestamp_seconds": f"{at:.3f}"},
        "firstlight_health_duration_seconds": {"firstlight_health_duration_seconds": f"{seconds:.3f}"},
        "firstlight_health_findings": {"firstlight_health_findings": str(len(found))},
        "firstlight_finding": dict(list(series.items())[:FINDINGS_MAX]),
    }
    lines = []
    for name, rows in values.items():
        lines += [f"# HELP {name} {_HELP[name]}", f"# TYPE {name} gauge"]
        lines += [f"{row} {value}" for row, value in rows.items()]
    return "\n".join(lines) + "\n"


def escaped(value: str) -> str:
    clean = value.encode("utf-8", "replace").decode("utf-8")
    return clean.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
