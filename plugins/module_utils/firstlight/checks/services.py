"""What must run on a host: Docker, the metric exporters; and units that systemd could not start.

Docker is asked over its own socket, for which no command is needed: whether containers can have GPUs
(``expect.docker_gpu``, as the role docker_engine set it up), and which containers there are. ``expect.containers``
names those that may be (patterns as in ``dcgm-*``); then every other one is a failure. Without it three kinds are
reported, as warnings: what is left over from a job, what holds the whole host (privileged, the host's processes), and
what runs while no job may.
"""

from __future__ import annotations

import json
import re
import sys
from fnmatch import fnmatchcase
from typing import Any, Dict, List, Mapping, Optional

from ..findings import Finding
from ..profile import Profile
from .capture import REFUSED, Command, Get, Output, Source, read_files
from .compared import told
from .engine import Captured, Check, Expect, not_known, ok, unknown, unreadable
from .gpu_running import wanted

DOCKER, EXPORTERS, UNITS = "docker", "exporters", "failed_units"
DOCKER_SOCKET = "/run/docker.sock"
DEFAULT_EXPORTERS = {"node_exporter": 9100}

_CONTAINERS_MAX = 256
# Prints {"containers": [{id, name, image, state, status, privileged, pid, caps}], "more": number not looked at}
_CONTAINERS = r"""
import http.client, json, socket, sys, time
END = time.monotonic() + 4
class Docker(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(max(0.1, END - time.monotonic()))
        self.sock.connect(sys.argv[1])
def get(path, most):
    docker = Docker("localhost")
    docker.request("GET", path)
    answer = docker.getresponse()
    text = answer.read(most).decode("utf-8", "replace")
    if answer.status == 404:
        return None
    if answer.status != 200:
        raise ValueError("GET %s: HTTP %d %s" % (path, answer.status, text[:200]))
    return json.loads(text)
try:
    found, rows = [], get("/containers/json?all=1", 8388608)
except (OSError, ValueError, http.client.HTTPException) as error:
    sys.exit("%s %s" % (type(error).__name__, error))
for row in rows[:256]:
    one = {"id": str(row["Id"])[:12], "name": "".join(row.get("Names") or [])[:128].lstrip("/"), "image":
           str(row.get("Image"))[:128], "state": str(row.get("State")), "status": str(row.get("Status"))[:64]}
    try:
        said = get("/containers/%s/json" % row["Id"], 1048576)
        if said is None:
            continue  # removed meanwhile
        config = said.get("HostConfig") or {}
        one.update(privileged=config.get("Privileged"), pid=config.get("PidMode"), caps=config.get("CapAdd") or [])
    except (OSError, ValueError, http.client.HTTPException) as error:
        one["error"] = str(error)[:200]
    found.append(one)
print(json.dumps({"containers": found, "more": max(0, len(rows) - 256)}))
"""
CONTAINERS = Command((sys.executable or "python3", "-I", "-S", "-c", _CONTAINERS, DOCKER_SOCKET), limit=6.0)

_METRIC = re.compile(r"^[a-zA-Z_:][a-zA-Z0-9_:]*(\{[^\n]*\})? [-+0-9.NI]", re.MULTILINE)


def docker_reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    if not expect.get("docker", True):
        return {}
    return {
        "unit": Command(("systemctl", "is-active", "docker")),
        "info": Get(DOCKER_SOCKET, "/info", 10.0),
        "containers": CONTAINERS,
        "cdi": read_files("/etc/cdi/*", "/var/run/cdi/*"),
    }


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
        daemon = dict(json.loads(info.text))
        version = str(daemon["ServerVersion"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return unreadable(DOCKER, info.text, f"{DOCKER_SOCKET} /info")
    findings = _judge_gpu_access(daemon, captured.get("cdi"), str(expect.get("docker_gpu") or ""))
    listed = captured.get("containers")
    told: List[str] = []
    if listed is not None:
        findings += _judge_containers(listed, expect.get("containers"), told, wanted("", expect.get("gpu_processes")))
    return findings or ok(DOCKER, ", ".join([f"active, version {version}", *told]))


def _judge_gpu_access(daemon: Mapping[str, Any], cdi: Optional[Output], wanted: str) -> List[Finding]:
    """Whether containers can have GPUs in the way that was set up. That they see each one, the role proved."""
    runtimes = daemon.get("Runtimes") or {}
    if not isinstance(runtimes, dict):
        return unreadable(DOCKER, json.dumps(runtimes), f"{DOCKER_SOCKET} /info, Runtimes")
    if wanted == "auto":  # as the role chose: by the version, which may have been another then
        major = str(daemon["ServerVersion"]).partition(".")[0]
        new = major.isdecimal() and int(major) >= 25
        wanted = "cdi" if new and "nvidia" not in runtimes else "runtime"
    if wanted == "runtime" and "nvidia" not in runtimes:
        evidence = f"no runtime nvidia; there are {', '.join(sorted(runtimes))[:200] or 'none'}"
        return [_docker("docker.no_gpu", evidence, "escalate")]
    if wanted != "cdi":
        return []
    devices = daemon.get("DiscoveredDevices")  # Docker 28.2 and later
    if isinstance(devices, list):
        if any(str(one.get("ID") if isinstance(one, dict) else "").startswith("nvidia.com/gpu=") for one in devices):
            return []
        return [_docker("docker.no_gpu", f"{len(devices)} devices discovered, none is nvidia.com/gpu", "escalate")]
    if cdi is None or cdi.problem or cdi.code:
        return not_known(DOCKER, cdi or Output(errors="not read", code=1), "/etc/cdi, /var/run/cdi")
    if "nvidia.com/gpu" in cdi.text:
        return []
    return [_docker("docker.no_gpu", "no file in /etc/cdi or /var/run/cdi describes nvidia.com/gpu", "escalate")]


def _judge_containers(output: Output, allowed: Any, told: List[str], in_use: bool) -> List[Finding]:
    """told: gets what to say of them when nothing is wrong. in_use: whether a job may run, and so its containers."""
    if output.problem or output.code:
        return not_known(DOCKER, output, f"{DOCKER_SOCKET} /containers")
    try:
        said = json.loads(output.text)
        rows, more = [dict(row) for row in said["containers"]], int(said["more"])
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return unreadable(DOCKER, output.text, f"{DOCKER_SOCKET} /containers")
    if len(rows) > _CONTAINERS_MAX or more:
        return [unknown(DOCKER, "too_many", f"{len(rows) + more} containers, {_CONTAINERS_MAX} are looked at")]
    patterns = [str(pattern) for pattern in allowed] if isinstance(allowed, (list, tuple)) else None
    judged = [(row, _judge_container(row, patterns)) for row in rows]
    findings = [finding for _, found in judged for finding in found]
    other = [row for row, found in judged if not found and row.get("state") == "running"]
    if other and patterns is None and not in_use:
        names = ", ".join(f"{row.get('name') or row.get('id')} ({row.get('status') or 'running'})" for row in other[:8])
        evidence = f"{names}{' and more' * (len(other) > 8)}; nobody has said that they may"
        findings.append(Finding(DOCKER, "warn", "container.running", f"{len(other)} containers", evidence, "none"))
    running = sum(row.get("state") == "running" for row in rows)
    told.append(f"{running} of {len(rows)} containers running")
    return findings


def _judge_container(row: Mapping[str, Any], patterns: Optional[List[str]]) -> List[Finding]:
    name, state = str(row.get("name") or row.get("id")), str(row.get("state"))
    if any(fnmatchcase(name, pattern) for pattern in patterns or ()):
        return []
    locator, evidence = f"container {name}", f"{row.get('image')}, {row.get('status') or state}"
    status, action = ("warn", "none") if patterns is None else ("fail", "escalate")
    over = state not in ("running", "restarting", "paused")
    findings = []
    caps = [str(cap).replace("CAP_", "") for cap in row["caps"]] if isinstance(row.get("caps"), list) else []
    how = (
        "privileged"
        if row.get("privileged") is True
        else "sees the host's processes"
        if row.get("pid") == "host"
        else ""
    )
    how = how or ", ".join(f"has {cap}" for cap in caps if cap in ("ALL", "SYS_ADMIN"))
    if how:
        findings.append(Finding(DOCKER, status, "container.privileged", locator, f"{how}: {evidence}", action))
    elif "error" in row:
        findings.append(unknown(DOCKER, "unreadable", f"{evidence}: {row['error']}", locator))
    if over or (patterns is not None and not findings):
        findings.append(Finding(DOCKER, status, "container.leftover", locator, evidence, action))
    return findings


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


_DOCKER_NEEDS = ("expect.docker", "expect.docker_gpu", "expect.containers")


def docker_values(captured: Captured, profile: Profile) -> Dict[str, Any]:
    try:
        return told({"docker.version": str(json.loads(captured["info"].text)["ServerVersion"])})
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}


CHECKS = [
    Check(DOCKER, "quick", docker_reads, judge_docker, needs=_DOCKER_NEEDS, values=docker_values),
    Check(EXPORTERS, "quick", exporter_reads, judge_exporters, needs=("expect.exporters",)),
    Check(UNITS, "quick", unit_reads, judge_units, required=False),
]
