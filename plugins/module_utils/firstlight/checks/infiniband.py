"""InfiniBand HCAs: number, port state, rate. Reads /sys/class/infiniband; where the kernel shows none there, ibstat."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Dict, List, Optional

from ..findings import Finding
from ..profile import Profile
from .capture import Command, Source, read_files
from .engine import Captured, Check, Expect, not_known, ok, unreadable

NAME = "hca_state"
_FOLDER = "/sys/class/infiniband"
SYSFS = read_files(
    *(f"{_FOLDER}/*/ports/*/{name}" for name in ("state", "phys_state", "rate", "link_layer")),
    f"{_FOLDER}/*/device/physfn/vendor",  # there only on virtual functions
)
IBSTAT = Command(("ibstat",))

_SYSFS_PORT = re.compile(r"/sys/class/infiniband/([^/]+)/ports/(\d+)/(\w+)$")
_SYSFS_VIRTUAL = re.compile(r"/sys/class/infiniband/([^/]+)/device/physfn/")


@dataclass
class Port:
    """One port of an HCA. state, physical: words as in ``Active``, ``LinkUp``. rate: Gb/s, None when not readable."""

    device: str
    number: str
    state: str = ""
    physical: str = ""
    rate: Optional[float] = None
    layer: str = ""


def reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    return {"sysfs": SYSFS, "ibstat": IBSTAT} if profile.count("hcas") else {}


def parse_sysfs(text: str) -> Optional[List[Port]]:
    """InfiniBand and Ethernet ports of physical functions, from what ``read_files`` printed."""
    try:
        files = json.loads(text)["files"]
        items = sorted((str(path), str(value).strip()) for path, value in files.items())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    virtual = {found.group(1) for found in (_SYSFS_VIRTUAL.match(path) for path, _ in items) if found}
    ports: Dict[str, Port] = {}
    for path, value in items:
        found = _SYSFS_PORT.match(path)
        if not found or found.group(1) in virtual:
            continue
        port = ports.setdefault(f"{found.group(1)}/{found.group(2)}", Port(found.group(1), found.group(2)))
        _set(port, found.group(3), value.partition(":")[2].strip() if ":" in value else value)
    return list(ports.values())


def _set(port: Port, name: str, value: str) -> None:
    if name == "state":
        port.state = value.capitalize()
    elif name == "phys_state":
        port.physical = value
    elif name == "link_layer":
        port.layer = value
    elif name == "rate":
        number = re.match(r"\d{1,6}(\.\d+)?", value)
        port.rate = float(number.group()) if number else None


def parse_ibstat(text: str) -> Optional[List[Port]]:
    """Ports from ``ibstat``; None when it is not its output. An empty list where it names no CA."""
    ports: List[Port] = []
    device, keys = "", {"State": "state", "Physical state": "phys_state", "Rate": "rate", "Link layer": "link_layer"}
    for line in text.splitlines():
        found = re.match(r"\s*CA '([^']+)'", line)
        if found:
            device = found.group(1)
            continue
        found = re.match(r"\s*Port (\d+):\s*$", line)
        if found and device:
            ports.append(Port(device, found.group(1)))
            continue
        key, colon, value = line.strip().partition(":")
        if colon and ports and ports[-1].device == device and key in keys:
            _set(ports[-1], keys[key], value.strip())
    return ports if device or not text.strip() else None


def judge(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    sysfs, ibstat = captured["sysfs"], captured["ibstat"]
    if sysfs.problem:
        return not_known(NAME, sysfs, _FOLDER)
    ports = parse_sysfs(sysfs.text)
    if ports is None:
        return unreadable(NAME, sysfs.text, _FOLDER)
    if not ports and not ibstat.problem and ibstat.code == 0:
        ports = parse_ibstat(ibstat.text)
        if ports is None:
            return unreadable(NAME, ibstat.text, "ibstat")
    elif not ports and ibstat.problem and ibstat.problem != "no_tool":
        return not_known(NAME, ibstat, "ibstat")
    # an Ethernet port of the same family of cards is no HCA of the fabric
    fabric = [port for port in ports if port.layer.lower() != "ethernet"]
    findings = _judge_count(fabric, profile)
    for port in fabric:
        findings += _judge_port(port, profile)
    if findings:
        return findings
    return ok(NAME, f"{len(fabric)} ports Active at {profile.hcas.get('rate_gbps', 'any')} Gb/s or more")


def _judge_count(ports: List[Port], profile: Profile) -> List[Finding]:
    devices, want = sorted({port.device for port in ports}), profile.count("hcas")
    evidence = f"{len(devices)} HCAs, {want} expected; seen: {', '.join(devices) or 'none'}"
    if len(devices) < want:
        locator = f"{want - len(devices)} of {want} HCAs"
        return [Finding(NAME, "fail", "hca.missing", locator, evidence, "reseat")]
    if len(devices) > want:
        return [Finding(NAME, "warn", "hca.unexpected", "", evidence, "none")]
    return []


def _judge_port(port: Port, profile: Profile) -> List[Finding]:
    locator = f"HCA {port.device} port {port.number}"
    evidence = f"state {port.state or 'not given'}, physical state {port.physical or 'not given'}, rate {port.rate}"
    if not port.state:
        return [Finding(NAME, "unknown", f"{NAME}.unreadable", locator, evidence, "escalate")]
    if port.state != "Active":
        if port.physical == "LinkUp":  # the cable is fine; the subnet manager has not brought the port up
            return [Finding(NAME, "fail", "hca.not_active", locator, f"{evidence}, expected Active", "escalate")]
        return [Finding(NAME, "fail", "hca.no_link", locator, f"{evidence}, expected Active and LinkUp", "reseat")]
    want = profile.hcas.get("rate_gbps")
    if want is None:
        return []
    if port.rate is None:
        return [Finding(NAME, "unknown", f"{NAME}.unreadable", locator, evidence, "escalate")]
    if port.rate < float(want):
        return [Finding(NAME, "fail", "hca.slow", locator, f"rate {port.rate:g} Gb/s, expected {want}", "reseat")]
    return []


CHECKS = [Check(NAME, "quick", reads, judge, needs=("hcas.count", "hcas.rate_gbps"))]
