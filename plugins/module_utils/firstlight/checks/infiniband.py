"""InfiniBand HCAs: number, port state, rate; firmware. See hca_errors.py for errors, hca_module.py for transceivers.

Ports that have no cable by design are left out by ``hcas.cabled`` of the profile, which names those that have one.
Reads /sys/class/infiniband; where the kernel shows none there, ibstat.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..findings import Finding
from ..profile import Profile
from .capture import Command, Source, read_files
from .compared import joined, told
from .engine import Captured, Check, Expect, not_known, ok, unknown, unreadable

NAME, FIRMWARE = "hca_state", "hca_firmware"
FOLDER = "/sys/class/infiniband"
LINK_LAYERS = f"{FOLDER}/*/ports/*/link_layer"
VIRTUAL = f"{FOLDER}/*/device/physfn/vendor"  # there only on virtual functions
SYSFS = read_files(
    *(f"{FOLDER}/*/ports/*/{name}" for name in ("state", "phys_state", "rate", "link_layer")),
    VIRTUAL,
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
        return not_known(NAME, sysfs, FOLDER)
    ports = parse_sysfs(sysfs.text)
    if ports is None:
        return unreadable(NAME, sysfs.text, FOLDER)
    if not ports and not ibstat.problem and ibstat.code == 0:
        ports = parse_ibstat(ibstat.text)
        if ports is None:
            return unreadable(NAME, ibstat.text, "ibstat")
    elif not ports and ibstat.problem and ibstat.problem != "no_tool":
        return not_known(NAME, ibstat, "ibstat")
    # an Ethernet port of the same family of cards is no HCA of the fabric
    fabric = [port for port in ports if port.layer.lower() != "ethernet"]
    findings = _judge_count(fabric, profile)
    cabled, absent = _cabled(fabric, profile)
    if absent and not findings:  # else the names have moved on to other devices
        evidence = f"the profile {profile.name} says that it is cabled; seen: {_names(fabric)}"
        findings += [Finding(NAME, "fail", "hca.no_port", f"HCA {name}", evidence, "escalate") for name in absent]
    for port in cabled:
        findings += _judge_port(port, profile)
    if findings:
        return findings
    rest = f"; not cabled by the profile: {len(fabric) - len(cabled)}" if len(cabled) < len(fabric) else ""
    return ok(NAME, f"{len(cabled)} ports Active at {profile.hcas.get('rate_gbps', 'any')} Gb/s or more{rest}")


def _cabled(ports: List[Port], profile: Profile) -> Tuple[List[Port], List[str]]:
    """The ports that must have link, and what the profile calls cabled and is not there: ``mlx5_0``, with all its
    ports, or ``mlx5_0/1``."""
    named = profile.hcas.get("cabled")
    if named is None:
        return ports, []
    cabled = [port for port in ports if {port.device, f"{port.device}/{port.number}"} & set(named)]
    seen = {name for port in ports for name in (port.device, f"{port.device}/{port.number}")}
    return cabled, [name for name in named if name not in seen]


def _names(ports: List[Port]) -> str:
    return ", ".join(f"{port.device}/{port.number}" for port in ports[:32]) or "none"


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


FIRMWARE_FILES = read_files(
    f"{FOLDER}/*/fw_ver",
    f"{FOLDER}/*/board_id",
    LINK_LAYERS,
    VIRTUAL,
)


def firmware_reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    return {"sysfs": FIRMWARE_FILES, "ibstat": IBSTAT} if profile.count("hcas") else {}


def read_answer(text: str) -> Optional[Dict[str, str]]:
    """File contents by path of physical functions, from what ``read_files`` printed."""
    try:
        files = {str(path): str(value).strip() for path, value in json.loads(text)["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    virtual = {found.group(1) for found in (_SYSFS_VIRTUAL.match(path) for path in files) if found}
    return {path: value for path, value in files.items() if device_of(path) not in virtual}


def device_of(path: str) -> str:
    """``mlx5_0`` of a path below /sys/class/infiniband, empty for another."""
    return path[len(FOLDER) + 1 :].partition("/")[0] if path.startswith(FOLDER) else ""


def ethernet_devices(files: Mapping[str, str]) -> List[str]:
    """Devices that have ports, and only Ethernet ones."""
    layers: Dict[str, List[str]] = {}
    for path, value in files.items():
        if path.endswith("/link_layer"):
            layers.setdefault(device_of(path), []).append(value.lower())
    return [device for device, found in layers.items() if set(found) == {"ethernet"}]


def parse_firmware(text: str) -> Optional[Dict[str, Tuple[str, str]]]:
    """(board id, firmware version) of each InfiniBand device by name; None when it is something else."""
    files = read_answer(text)
    if files is None:
        return None
    ethernet = ethernet_devices(files)
    named = sorted({device_of(path) for path in files if path.endswith(("/fw_ver", "/link_layer"))} - {"", *ethernet})
    return {d: (files.get(f"{FOLDER}/{d}/board_id", ""), files.get(f"{FOLDER}/{d}/fw_ver", "")) for d in named}


def parse_ibstat_firmware(text: str) -> Dict[str, Tuple[str, str]]:
    """The same from ``ibstat``, which tells the type in place of the board."""
    told: Dict[str, Dict[str, str]] = {}
    device = ""
    for line in text.splitlines():
        key, _, value = line.strip().partition(":")
        if line.startswith("CA '"):
            device = line[len("CA '") :].partition("'")[0]
            told[device] = {}
        elif device and key in ("CA type", "Firmware version"):
            told[device].setdefault(key, value.strip())
        elif device and key == "Link layer" and value.strip().startswith("Ethernet"):
            told[device][key] = "Ethernet"
    rows = {device: row for device, row in told.items() if "Link layer" not in row}
    return {device: (row.get("CA type", ""), row.get("Firmware version", "")) for device, row in rows.items()}


def version_key(text: str) -> Optional[Tuple[int, ...]]:
    """``28.43.2026`` as numbers, None for what is no version of numbers."""
    return tuple(int(n) for n in text.split(".")) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9}){1,5}", text) else None


def is_below(version: str, floor: str) -> Optional[bool]:
    """None where one of them is no version of numbers."""
    seen, least = version_key(version), version_key(floor)
    return None if seen is None or least is None else seen < least


def judge_firmware(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    sysfs, ibstat = captured["sysfs"], captured["ibstat"]
    if sysfs.problem:
        return not_known(FIRMWARE, sysfs, FOLDER)
    found = parse_firmware(sysfs.text)
    if found is None:
        return unreadable(FIRMWARE, sysfs.text, FOLDER)
    if not found and ibstat.problem not in ("", "no_tool"):
        return not_known(FIRMWARE, ibstat, "ibstat")
    found = found or parse_ibstat_firmware(ibstat.text)
    if not found:
        return none_here(FIRMWARE)
    exact, floor = str(expect.get("hca_firmware") or ""), str(profile.hcas.get("firmware") or "")
    findings = []
    for device, (board, version) in sorted(found.items()):
        locator = f"HCA {device}"
        evidence = f"version {version or 'not told'}; board {board or 'not told'}"
        if version_key(version) is None or (not board and any(kind for kind, _ in found.values())):
            findings.append(unknown(FIRMWARE, "unreadable", evidence, locator))
            continue
        if exact and version != exact:
            evidence += f"; expected {exact}"
            findings.append(Finding(FIRMWARE, "fail", "hca.firmware_version", locator, evidence, "update_firmware"))
        below = is_below(version, floor) if floor else False
        evidence = f"version {version}; the profile {profile.name} wants {floor}"
        if below is None:
            findings.append(unknown(FIRMWARE, "unreadable", evidence, locator))
        elif below:
            findings.append(Finding(FIRMWARE, "fail", "firmware.below_floor", locator, evidence, "update_firmware"))
    return findings or judge_mixed(FIRMWARE, "hca.firmware_mixed", found)


def judge_mixed(check: str, symptom: str, found: Mapping[str, Tuple[str, str]]) -> List[Finding]:
    """found: (kind, version) by device. Of one kind all should have one version."""
    kinds: Dict[str, Dict[str, List[str]]] = {}
    for device, (kind, version) in sorted(found.items()):
        kinds.setdefault(kind, {}).setdefault(version, []).append(device)
    findings = []
    for kind, versions in sorted(kinds.items()):
        if len(versions) > 1:
            evidence = "; ".join(f"{version}: {', '.join(devices)}" for version, devices in sorted(versions.items()))
            findings.append(Finding(check, "warn", symptom, kind, evidence, "update_firmware"))
    told = ", ".join(f"{kind} {version}" for kind, versions in sorted(kinds.items()) for version in versions)
    return findings or ok(check, f"{len(found)}: {told}")


def none_here(check: str) -> List[Finding]:
    """The finding of a check of HCAs where the kernel has none: not this check's failure, and nothing was proved."""
    evidence = f"no HCA in {FOLDER}; whether that is right, hca_state says"
    return [Finding(check, "warn", f"{check}.no_device", "", evidence, "none")]


def values(captured: Captured, profile: Profile) -> Dict[str, Any]:
    ports = parse_sysfs(captured["sysfs"].text) or parse_ibstat(captured["ibstat"].text) or []
    rates = [port.rate for port in ports if port.layer.lower() != "ethernet" and port.rate is not None]
    return told({"hca.rate_gbps": joined(f"{rate:g}" for rate in rates)})


def firmware_values(captured: Captured, profile: Profile) -> Dict[str, Any]:
    found = parse_firmware(captured["sysfs"].text) or parse_ibstat_firmware(captured["ibstat"].text)
    return told({"hca.firmware": joined(f"{kind} {version}" for kind, version in found.values())})


_FIRMWARE_NEEDS = ("hcas.firmware", "expect.hca_firmware")
CHECKS = [
    Check(NAME, "quick", reads, judge, needs=("hcas.count", "hcas.rate_gbps", "hcas.cabled"), values=values),
    Check(FIRMWARE, "quick", firmware_reads, judge_firmware, needs=_FIRMWARE_NEEDS, values=firmware_values),
]
