"""What must run on a host: Docker, the metric exporters; and units that systemd could not start."""

from __future__ import annotations

import json
import re
from typing import Dict, List

from ..findings import Finding
from ..profile import Profile
from .capture import REFUSED, Command, Get, Source
from .engine import Captured, Check, Expect, not_known, ok, unreadable

DOCKER, EXPORTERS, UNITS = "docker", "exporters", "failed_units"
DOCKER_SOCKET = "/run/docker.sock"
DEFAULT_EXPORTERS = {"node_exporter": 9100}

_METRIC = re.compile(r"^[a-zA-Z_:][a-zA-Z0-9_:]*(\{[^\n]*\})? [-+0-9.NI]", re.MULTILINE)


def docker_reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    if not expect.get("docker", True):
        return {}
    return {"unit": Command(("systemctl", "is-active", "docker")), "info": Get(DOCKER_SOCKET, "/info", 10.0)}


def judge_docker(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    unit, info = captured["unit"], captured["info"]
    state = unit.text.strip()
    if not unit.problem and state in ("inactive", "failed", "deactivating"):
        return [_docker("docker.not_running", f"systemctl is-active docker: {state}", "escalate")]
    if not unit.problem and state in ("activating", "reloading"):
        return [_docker("docker.starting", f"systemctl is-active docker: {state}", "wait")]
    if unit.problem or state != "active":
        return not_known(DOCKER, unit, "systemctl is-active docker")
    if info.problem == REFUSED:
        return [_docker("docker.not_answering", f"{DOCKER_SOCKET}: {info.errors}", "escalate")]
    if info.problem:
        return not_known(DOCKER, info, DOCKER_SOCKET)
    if info.code != 200:
        return [_docker("docker.not_answering", f"GET /info: HTTP {info.code} {info.text[:200]}", "escalate")]
    try:
        version = json.loads(info.text)["ServerVersion"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return unreadable(DOCKER, info.text, f"{DOCKER_SOCKET} /info")
    return ok(DOCKER, f"active, version {version}")


def _docker(symptom: str, evidence: str, action: str) -> Finding:
    return Finding(DOCKER, "fail", symptom, "docker.service", evidence, action)


def _exporters(expect: Expect) -> Dict[str, int]:
    return {str(name): int(port) for name, port in expect.get("exporters", DEFAULT_EXPORTERS).items()}


def exporter_reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    return {name: Get(f"127.0.0.1:{port}", "/metrics", 8.0) for name, port in _exporters(expect).items()}


def judge_exporters(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    findings: List[Finding] = []
    for name, port in _exporters(expect).items():
        output, locator = captured[name], f"{name} 127.0.0.1:{port}"
        if output.problem == REFUSED:
            evidence = f"/metrics: {output.errors}"
        elif output.problem:
            findings += not_known(EXPORTERS, output, locator)
            continue
        elif output.code != 200:
            evidence = f"/metrics: HTTP {output.code}, expected 200"
        elif not _METRIC.search(output.text):
            evidence = f"/metrics holds no metric: {output.text[:100]}"
        else:
            continue
        findings.append(Finding(EXPORTERS, "fail", "exporter.not_answering", locator, evidence, "escalate"))
    return findings or ok(EXPORTERS, "answering: " + ", ".join(_exporters(expect)))


def unit_reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    return {"units": Command(("systemctl", "list-units", "--state=failed", "--plain", "--no-legend", "--no-pager"))}


def judge_units(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    output = captured["units"]
    if output.problem or output.code:
        return not_known(UNITS, output, "systemctl list-units")
    findings: List[Finding] = []
    for line in output.text.splitlines():
        words = line.replace("●", " ").split()
        if not words:
            continue
        if len(words) < 4 or "." not in words[0]:
            return unreadable(UNITS, line, "systemctl list-units")
        evidence = f"{words[1]} {words[2]} {words[3]}"
        findings.append(Finding(UNITS, "warn", "unit.failed", words[0], evidence, "none"))
    return findings or ok(UNITS, "no failed unit")


CHECKS = [
    Check(DOCKER, "quick", docker_reads, judge_docker, needs=("expect.docker",)),
    Check(EXPORTERS, "quick", exporter_reads, judge_exporters, needs=("expect.exporters",)),
    Check(UNITS, "quick", unit_reads, judge_units, required=False),
]
