"""Errors on InfiniBand ports, as they grow.

The ports' counters are compared with an earlier reading, ``expect["hca_counters"]`` (what ``keep`` made of it then);
without one, or across a reboot, with zero when the host booted. A number alone says little: errors in a time are
judged. The kernel gives every InfiniBand port all counters of the port (ib_core), so that one that is not told is
``unknown``; those of ``hw_counters`` are the driver's, and must be alike on all ports.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..findings import Finding
from ..profile import Profile
from .capture import Source, read_files
from .compared import per_day, told
from .engine import Captured, Check, Expect, not_known, ok, unknown, unreadable
from .infiniband import FOLDER, LINK_LAYERS, VIRTUAL, device_of, ethernet_devices, none_here, read_answer

NAME = "hca_errors"
DEFAULT_ERRORS_PER_HOUR = 10.0
DEFAULT_DOWNS_PER_DAY = 2.0
# what a port of this host received or sent wrong, with the largest number that the counter can hold (InfiniBand
# Architecture Specification, PortCounters); above it counts no more
_OWN = {
    "symbol_error": 0xFFFF,
    "link_error_recovery": 0xFF,
    "port_rcv_errors": 0xFFFF,
    "local_link_integrity_errors": 0xF,
    "excessive_buffer_overrun_errors": 0xF,
    "port_rcv_constraint_errors": 0xFF,
    "port_xmit_constraint_errors": 0xFF,
}
_DOWN, _REMOTE = "link_downed", "port_rcv_remote_physical_errors"
_FULL = {**_OWN, _DOWN: 0xFF, _REMOTE: 0xFFFF}
# packets that were lost or sent again, wherever the fault is
_AGAIN = ("local_ack_timeout_err", "out_of_sequence", "packet_seq_err", "req_transport_retries_exceeded")
COUNTERS = read_files(
    *(f"{FOLDER}/*/ports/*/counters/{name}" for name in _FULL),
    *(f"{FOLDER}/*/ports/*/hw_counters/{name}" for name in _AGAIN),
    LINK_LAYERS,
    VIRTUAL,
    "/proc/uptime",
    "/proc/sys/kernel/random/boot_id",
)
_COUNTER = re.compile(r"/sys/class/infiniband/([^/]+)/ports/(\d+)/(?:hw_)?counters/(\w+)$")
_LAYER = re.compile(r"/sys/class/infiniband/([^/]+)/ports/(\d+)/link_layer$")


def reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    return {"counters": COUNTERS} if profile.count("hcas") else {}


def reading(text: str) -> Optional[Dict[str, Any]]:
    """The counters that are judged: ``{"boot": id, "uptime": seconds, "ports": {"mlx5_0/1": {name: n}}}``.

    None when the text is something else.
    """
    files = read_answer(text)
    if files is None:
        return None
    uptime = re.match(r"[0-9]{1,12}(\.[0-9]+)?", files.get("/proc/uptime", ""))
    ethernet = ethernet_devices(files)
    ports: Dict[str, Dict[str, int]] = {}
    for path, value in files.items():
        found = _COUNTER.match(path)
        if not found or found.group(1) in ethernet or not re.fullmatch(r"[0-9]{1,20}", value):
            continue
        if found.group(3) in _FULL or found.group(3) in _AGAIN:
            ports.setdefault(f"{found.group(1)}/{found.group(2)}", {})[found.group(3)] = int(value)
    if not uptime:
        return None
    boot = files.get("/proc/sys/kernel/random/boot_id", "")[:64]
    return {"boot": boot, "uptime": float(uptime.group()), "ports": ports}


def keep(captured: Captured) -> Optional[Dict[str, Any]]:
    """A reading for the next run: what ``reading`` gives, less the counters that are zero; None where there is none."""
    output = captured["counters"]
    now = None if output.problem or output.code else reading(output.text)
    if not now or not now["ports"]:
        return None
    return {**now, "ports": {port: {k: n for k, n in row.items() if n} for port, row in now["ports"].items()}}


def judge(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    output = captured["counters"]
    if output.problem or output.code:
        return not_known(NAME, output, f"{FOLDER}/*/ports/*/counters")
    now = reading(output.text)
    if now is None:
        return unreadable(NAME, output.text, f"{FOLDER}/*/ports/*/counters")
    if not now["ports"]:
        files = read_answer(output.text) or {}
        if any(path.endswith("/link_layer") and device_of(path) not in ethernet_devices(files) for path in files):
            return [unknown(NAME, "unreadable", f"{FOLDER} has ports, and no counters")]
        return none_here(NAME)
    before, passed = _earlier(expect.get("hca_counters"), now)
    findings = []
    again = {name for row in now["ports"].values() for name in row if name in _AGAIN}
    for port in sorted({*now["ports"], *_fabric_ports(output.text)}):
        counters = now["ports"].get(port, {})
        if not any(name in counters for name in _OWN):
            findings.append(unknown(NAME, "unreadable", "no error counter", _port(port)))
            continue
        if silent := sorted({*_FULL, *again} - set(counters)):
            findings.append(unknown(NAME, "unreadable", f"counters not told: {', '.join(silent)}", _port(port)))
        if port in before:
            grown, seconds, since = _grown(counters, before[port]), passed, f"within {_span(passed)}"
        else:
            seconds = max(now["uptime"], 1.0)
            grown, since = counters, f"within {_span(seconds)}, since the boot"
        findings += _judge_port(_port(port), grown, seconds, since, profile)
        full = sorted(name for name, most in _FULL.items() if counters.get(name, 0) >= most)
        if full:
            said = f"{', '.join(full)} can count no further; a restart of the driver, or perfquery -R, clears them"
            findings.append(Finding(NAME, "warn", "hca.counter_full", _port(port), said, "none"))
    since_when = f"in the last {_span(passed)}" if before else "since the boot"
    return findings or ok(NAME, f"{len(now['ports'])} ports: errors within their limits, {since_when}")


def _fabric_ports(text: str) -> List[str]:
    """The InfiniBand ports that there are, as ``reading`` names them, whether they tell counters or not."""
    files = read_answer(text) or {}
    ethernet = ethernet_devices(files)
    found = [(_LAYER.match(path), value) for path, value in files.items()]
    ports = [(layer.group(1), layer.group(2)) for layer, value in found if layer and value.lower() != "ethernet"]
    return [f"{device}/{number}" for device, number in ports if device not in ethernet]


def _port(name: str) -> str:
    device, _, number = name.partition("/")
    return f"HCA {device} port {number}"


def _earlier(said: Any, now: Mapping[str, Any]) -> Tuple[Dict[str, Dict[str, int]], float]:
    """The earlier counters by port, and the seconds since then; none of another boot, or of another form."""
    try:
        passed = float(now["uptime"]) - float(said["uptime"])
        if str(said["boot"]) == now["boot"] and passed > 0:
            ports = {str(port): {str(k): int(v) for k, v in row.items()} for port, row in said["ports"].items()}
            return ports, passed
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        pass
    return {}, 0.0


def _grown(now: Mapping[str, int], before: Mapping[str, int]) -> Dict[str, int]:
    """By how much; a counter that is lower than before was cleared, and has grown by what it is at least."""
    return {name: n - before.get(name, 0) if n >= before.get(name, 0) else n for name, n in now.items()}


def _span(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours / 24:.1f} days" if hours >= 48 else f"{hours:.1f} h" if hours >= 1 else f"{seconds / 60:.0f} min"


def _judge_port(locator: str, grown: Mapping[str, int], seconds: float, since: str, profile: Profile) -> List[Finding]:
    """A limit per hour is also what a shorter time may bring, so that one error in a minute is no alarm."""
    per_hour = profile.limit("hca_errors_per_hour", DEFAULT_ERRORS_PER_HOUR)
    per_day = profile.limit("hca_link_downs_per_day", DEFAULT_DOWNS_PER_DAY)
    errors, downs = per_hour * max(seconds / 3600, 1), per_day * max(seconds / 86400, 1)
    findings = []
    own = {name: grown[name] for name in _OWN if grown.get(name, 0) > errors}
    if own:
        evidence = f"{_list(own)} {since}; limit {per_hour:g} an hour"
        findings.append(Finding(NAME, "fail", "hca.errors", locator, evidence, "reseat"))
    if grown.get(_DOWN, 0) > downs:
        evidence = f"the link went down {grown[_DOWN]} times {since}; limit {per_day:g} a day"
        findings.append(Finding(NAME, "fail", "hca.link_flaps", locator, evidence, "reseat"))
    if grown.get(_REMOTE, 0) > errors:
        evidence = f"{_REMOTE} {grown[_REMOTE]} {since}: a fault beyond the switch that this port hangs on"
        findings.append(Finding(NAME, "warn", "hca.remote_errors", locator, evidence, "none"))
    again = {name: grown[name] for name in _AGAIN if grown.get(name, 0) > errors}
    if again:
        evidence = f"{_list(again)} {since}: packets are lost on the way"
        findings.append(Finding(NAME, "warn", "hca.retransmissions", locator, evidence, "none"))
    return findings


def _list(counters: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in counters.items())


def values(captured: Captured, profile: Profile) -> Dict[str, Any]:
    """What all ports together received or sent wrong, and how often a link went down, over the time since boot."""
    now = reading(captured["counters"].text)
    if not now or not now["ports"]:
        return {}
    total = sum(row.get(name, 0) for row in now["ports"].values() for name in (*_OWN, _DOWN))
    return told({"hca.errors_per_day": per_day(total, now["uptime"])})


CHECKS = [
    Check(
        NAME,
        "quick",
        reads,
        judge,
        needs=(
            "hcas.count",
            "limits.hca_errors_per_hour",
            "limits.hca_link_downs_per_day",
            "expect.hca_counters",
        ),
        keeps={"hca_counters": keep},
        values=values,
    )
]
