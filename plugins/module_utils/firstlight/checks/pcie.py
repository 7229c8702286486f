"""PCIe links: every GPU, HCA, Ethernet port and NVMe drive, and the bridges above them, at full width and generation.

Reads ``current_link_*`` and ``max_link_*`` of /sys/bus/pci/devices. Expected is what the profile says (``gpus.pcie``
and so on); without a word from it what both ends of the link can do, and less than that is only a warning.

Not every slow link is broken: GPUs without NVSwitch go down to 2.5 GT/s while they idle, with all lanes kept. So a GPU
that is slow is a failure only when nvidia-smi says that it is in a performance state for work (P0 to P4).
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..findings import Finding
from ..profile import Profile
from .capture import Command, Output, Source
from .compared import LOAD, per_day, told, uptime
from .engine import Captured, Check, Expect, asked, not_known, ok, unknown, unreadable
from .gpu import QUERY, expected
from .gpu_log import parse_log
from .pcie_acs import VIRTUALIZATION

NAME = "pcie_link"
_FOLDER = "/sys/bus/pci/devices"
KINDS = {"gpus": "GPU", "hcas": "HCA", "nvme": "NVMe", "ethernet": "NIC"}
_PLURALS = {"gpus": "GPUs", "hcas": "HCAs", "nvme": "NVMe drives", "ethernet": "Ethernet ports"}
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
_WIDTHS = (1, 2, 4, 8, 12, 16, 32)
_ALL_ONES = 63  # the width that a device shows that does not answer any more: its register reads as all ones
_ROOT = re.compile(r"^pci[0-9a-f]{4,8}:[0-9a-f]{2}$")
_DEVICES_MAX = 4096
_WORKING = ("P0", "P1", "P2", "P3", "P4")

# Prints {address: {file: text, "above": the bridge's address or the root's name, "names": {folder: [names]}}}
_READER = r"""
import json, os
top = "/sys/bus/pci/devices"
def read(path):
    try:
        with open(path, "rb") as f:
            return f.read(256).decode("utf-8", "replace").strip()
    except OSError:
        return None
files = ("class", "vendor", "current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
found = {}
for address in sorted(os.listdir(top))[:8192]:
    folder = os.path.join(top, address)
    kind = read(folder + "/class") or ""
    if kind[:6] not in ("0x0108", "0x0200", "0x0207", "0x0300", "0x0302", "0x0604"):
        continue
    one = {name: read(os.path.join(folder, name)) for name in files}
    one["above"] = os.path.basename(os.path.dirname(os.path.realpath(folder)))
    one["virtual"] = os.path.exists(folder + "/physfn")
    for name in ("infiniband", "nvme", "net"):
        try:
            one.setdefault("names", {})[name] = sorted(os.listdir(os.path.join(folder, name)))[:4]
        except OSError:
            pass
    for name in one.get("names", {}).get("nvme", []):
        one["model"] = read(os.path.join(folder, "nvme", name, "model"))
    found[address] = one
print(json.dumps(found))
"""
SYSFS = Command((sys.executable or "python3", "-I", "-S", "-c", _READER), limit=5.0, max_bytes=4 * 1024 * 1024)


@dataclass(frozen=True)
class Device:
    """One PCI function. kind: a key of KINDS, or "bridge"; width and generation: None where not told."""

    address: str
    kind: str
    name: str
    above: str
    width: Optional[int]
    generation: Optional[int]
    max_width: Optional[int]
    max_generation: Optional[int]
    gone: bool = False

    @property
    def locator(self) -> str:
        return f"{KINDS.get(self.kind, 'bridge')} {self.name + ' ' if self.name else ''}{self.address}"


def reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    if not any(profile.count(kind) for kind in KINDS) and not asked(expect, NAME):
        return {}
    sources: Dict[str, Source] = {"sysfs": SYSFS, "virtualization": VIRTUALIZATION}
    if expected(profile):
        sources.update(nvidia_smi=QUERY, load=LOAD)
    return sources


def parse_devices(text: str, os_disk: str = "") -> Optional[List[Device]]:
    """Devices and bridges of what the reader printed; None when it is something else.

    os_disk: text within the model of an NVMe device that is no data drive.
    """
    try:
        rows = {str(address): dict(row) for address, row in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    if len(rows) > _DEVICES_MAX:
        return None
    found = []
    for address, row in sorted(rows.items()):
        kind = _kind(row, os_disk)
        if kind and not row.get("virtual"):  # a virtual function has no link of its own
            found.append(_device(address, kind, row))
    return found


def _kind(row: Mapping[str, Any], os_disk: str) -> str:
    code, nvidia = str(row.get("class"))[:6], row.get("vendor") == "0x10de"
    if code == "0x0302" or (code == "0x0300" and nvidia):  # else a server's own VGA
        return "gpus"
    if code == "0x0108":
        return "" if os_disk and os_disk in str(row.get("model") or "").lower() else "nvme"
    return {"0x0207": "hcas", "0x0200": "ethernet", "0x0604": "bridge"}.get(code, "")


def _device(address: str, kind: str, row: Mapping[str, Any]) -> Device:
    names = row.get("names")
    folder = {"hcas": "infiniband", "nvme": "nvme", "ethernet": "net"}.get(kind, "")
    listed = names.get(folder) if isinstance(names, dict) else None
    width, speed = str(row.get("current_link_width")), str(row.get("current_link_speed"))
    return Device(
        address=address,
        kind=kind,
        name=str(listed[0]) if isinstance(listed, list) and listed else "",
        above=str(row.get("above") or ""),
        width=_width(width),
        generation=generation(speed),
        max_width=_width(str(row.get("max_link_width"))),
        max_generation=generation(str(row.get("max_link_speed"))),
        gone=width == str(_ALL_ONES) and generation(speed) is None,
    )


def _width(text: str) -> Optional[int]:
    return int(text) if text.isdecimal() and len(text) < 4 and int(text) in _WIDTHS else None


def generation(text: str) -> Optional[int]:
    """``32.0 GT/s PCIe`` is 5; None for ``Unknown``."""
    found = re.match(r"([0-9]{1,3}(?:\.[0-9])?) GT/s", text)
    return _GENERATIONS.get(float(found.group(1))) if found else None


def read_states(output: Optional[Output]) -> Dict[str, str]:
    """Performance states (``P0``) by PCI address as in /sys, empty when nvidia-smi does not tell."""
    log = None if output is None or output.problem else parse_log(output.text)
    states = {gpu.bus: gpu.get("performance_state") for gpu in log.gpus} if log else {}
    return {bus: state for bus, state in states.items() if re.fullmatch(r"P[0-9]{1,2}", state)}


def judge(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    output, machine = captured["sysfs"], captured["virtualization"]
    if output.problem or output.code:
        return not_known(NAME, output, _FOLDER)
    devices = parse_devices(output.text, _os_disk(profile))
    if devices is None:
        return unreadable(NAME, output.text, _FOLDER)
    missing = _missing(devices, profile)
    bare = machine.text.strip() == "none"
    if missing and not bare and (machine.problem or not machine.text.strip()):
        return not_known(NAME, machine, "systemd-detect-virt")
    findings = list(missing.values()) if bare else _virtual(missing, machine.text.strip()[:32])
    by_address = {device.address: device for device in devices}
    states = read_states(captured.get("nvidia_smi"))
    asleep: List[str] = []
    ends = [d for d in devices if d.kind != "bridge" and not _is_twin(d, by_address)]
    if not bare:  # what is on the bus of a container's machine, or in no full number, need not be this host's
        ends = [device for device in ends if device.kind not in missing]
    for device in ends:
        findings += _judge_end(device, by_address, profile, states.get(device.address), bare, asleep)
    findings += _judge_bridges(ends, by_address, profile, bare)
    if findings:
        return findings
    told = ", ".join(f"{sum(d.kind == kind for d in ends)} {name}" for kind, name in _PLURALS.items())
    rest = f"; asleep, so only their lanes are judged: {', '.join(asleep)}" if asleep else ""
    return ok(NAME, f"links as expected: {told}{rest}")


def _os_disk(profile: Profile) -> str:
    return str(profile.os_disk.get("controller") or profile.os_disk.get("model") or "").lower()


def _is_twin(device: Device, devices: Mapping[str, Device]) -> bool:
    """Whether this is a further function of a card, which shares the link of the first."""
    first = devices.get(device.address[:-1] + "0")
    return first is not None and first is not device and first.kind == device.kind


def _missing(devices: List[Device], profile: Profile) -> Dict[str, Finding]:
    """By kind what is not on the bus at all. For Ethernet ports that is no failure: many sit behind USB or a DPU."""
    found = {}
    for kind in KINDS:
        seen, want = [d.address for d in devices if d.kind == kind], profile.count(kind)
        if len(seen) < want:
            locator = f"{want - len(seen)} of {want} {_PLURALS[kind]}"
            evidence = f"{len(seen)} on the PCIe bus, {want} expected; seen: {', '.join(seen) or 'none'}"
            status, action = ("warn", "none") if kind == "ethernet" else ("fail", "reseat")
            found[kind] = Finding(NAME, status, "pcie.missing", locator, evidence, action)
    return found


def _virtual(missing: Mapping[str, Finding], machine: str) -> List[Finding]:
    if not missing:
        return []
    parts = ", ".join(finding.locator for finding in missing.values())
    said = f"runs in {machine}, whose bus does not show {parts}: their links cannot be seen"
    return [Finding(NAME, "warn", f"{NAME}.virtual", "", said)]


def _wanted(device: Device, profile: Profile) -> Tuple[Optional[int], Optional[int]]:
    """(lanes, generation) that the profile wants of such a device, None where it says nothing."""
    wanted = getattr(profile, device.kind).get("pcie")
    if not isinstance(wanted, dict):
        return None, None
    lanes, level = wanted.get("lanes"), wanted.get("generation")
    return (lanes if isinstance(lanes, int) else None), (level if isinstance(level, int) else None)


def _could_be(lower: Device, upper: Optional[Device]) -> Tuple[Optional[int], Optional[int]]:
    """(lanes, generation) that both ends of a link can do."""
    widths = [end.max_width for end in (lower, upper) if end and end.max_width]
    levels = [end.max_generation for end in (lower, upper) if end and end.max_generation]
    return min(widths, default=None), min(levels, default=None)


def _judge_end(
    device: Device,
    devices: Mapping[str, Device],
    profile: Profile,
    state: Optional[str],
    bare: bool,
    asleep: List[str],
) -> List[Finding]:
    lanes, level = _wanted(device, profile)
    wanted = lanes is not None or level is not None
    upper = devices.get(device.above)
    could = _could_be(device, upper)
    if device.kind == "ethernet":  # those on the board often sit on fewer lanes by design: only both ends tell
        could = (upper and upper.max_width and could[0]) or None, (upper and upper.max_generation and could[1]) or None
    if device.gone:
        evidence = "its registers read as all ones: it has fallen off the bus"
        return [Finding(NAME, "fail", "pcie.no_answer", device.locator, evidence, "power_cycle")]
    if device.width is None or device.generation is None:
        if not wanted:
            return []  # a part of the processor, or a device of a virtual machine: it has no link
        evidence = f"no link is told; {_by(profile, lanes, level)}"
        if bare:
            return [unknown(NAME, "unreadable", evidence, device.locator)]
        return [Finding(NAME, "warn", f"{NAME}.virtual", device.locator, evidence)]
    told = f"{_link(device.width, device.generation)} of {_link(*could)}"
    evidence = f"{told}; {_by(profile, lanes, level)}" if wanted else told
    status, action = ("fail", "reseat") if wanted else ("warn", "none")
    findings = []
    if device.width < (lanes or could[0] or 0):
        findings.append(Finding(NAME, status, "pcie.narrow", device.locator, evidence, action))
    if device.generation < (level or could[1] or 0):
        if device.kind == "gpus" and state is not None and state not in _WORKING:
            asleep.append(f"{device.address} {state}")
        elif device.kind == "gpus" and state is None and wanted:
            evidence += "; nvidia-smi does not tell whether it sleeps"
            findings.append(unknown(NAME, "maybe_asleep", evidence, device.locator, "retry"))
        else:
            evidence += f"; in state {state}" if state else ""
            findings.append(Finding(NAME, status, "pcie.slow", device.locator, evidence, action))
    if device.kind == "ethernet" and wanted and not findings:
        # what the profile wants is the least of cards of many kinds, so that more may be usual for this one
        pairs = (("pcie.narrow", device.width, could[0]), ("pcie.slow", device.generation, could[1]))
        less = [symptom for symptom, seen, most in pairs if seen < (most or 0)]
        findings = [Finding(NAME, "warn", symptom, device.locator, evidence, "none") for symptom in less]
    return findings


def _judge_bridges(ends: List[Device], devices: Mapping[str, Device], profile: Profile, bare: bool) -> List[Finding]:
    """The links between switches and the processor, once each.

    They fail when they are below what a device under them needs by the profile, and are a warning when they are only
    less than they could be. From a device up, links and the insides of switches take turns.
    """
    below: Dict[str, List[Device]] = {}
    findings = []
    for device in ends:
        chain: List[str] = []
        above = device.above
        while above in devices and devices[above].kind == "bridge" and above not in chain and len(chain) < 32:
            chain.append(above)
            above = devices[above].above
        if bare and _wanted(device, profile) != (None, None) and not _ROOT.match(above):
            said = f"what it hangs on is not told: {above[:40] or 'N/A'}"
            findings.append(unknown(NAME, "unreadable", said, device.locator))
        for address in chain[1:-1:2]:
            below.setdefault(address, []).append(device)
    for address, under in sorted(below.items()):
        lower = devices[address]
        could = _could_be(lower, devices.get(lower.above))
        if lower.gone:
            continue  # then nothing below it answers either
        if lower.width is None or lower.generation is None:
            # what is below has a link of its own, or is unknown by itself
            answering = [device for device in under if device.width is not None and not device.gone]
            if answering and bare:
                evidence = f"no link is told, above {answering[0].locator}, which has one"
                findings.append(unknown(NAME, "unreadable", evidence, lower.locator))
            continue
        wants = [_wanted(device, profile) for device in under]
        lanes = max([want[0] or 0 for want in wants], default=0)
        level = max([want[1] or 0 for want in wants], default=0)
        evidence = f"{_link(lower.width, lower.generation)} of {_link(*could)}; above {under[0].locator}"
        evidence += f" and {len(under) - 1} more" if len(under) > 1 else ""
        for symptom, seen, need, most in (
            ("pcie.narrow", lower.width, lanes, could[0] or 0),
            ("pcie.slow", lower.generation, level, could[1] or 0),
        ):
            if seen < need:
                said = f"{evidence}; {_by(profile, lanes or None, level or None)} below it"
                findings.append(Finding(NAME, "fail", symptom, lower.locator, said, "reseat"))
            elif seen < most:
                findings.append(Finding(NAME, "warn", symptom, lower.locator, evidence, "none"))
    return findings


def _link(lanes: Optional[int], level: Optional[int]) -> str:
    return f"x{lanes or '?'} Gen{level or '?'}"


def _by(profile: Profile, lanes: Optional[int], level: Optional[int]) -> str:
    return f"the profile {profile.name} wants {_link(lanes, level)}"


def values(captured: Captured, profile: Profile) -> Dict[str, Any]:
    """How many devices of a kind have which link, such as ``8 x16 Gen5``; of GPUs, which may sleep, what they can do.

    Replayed packets are those of all GPUs since boot.
    """
    devices = parse_devices(captured["sysfs"].text, _os_disk(profile)) or []
    by_address = {device.address: device for device in devices}
    found: Dict[str, Any] = {}
    for kind in KINDS:
        # without a width: parts of the processor, devices of a virtual machine
        ends = [d for d in devices if d.kind == kind and d.width and not _is_twin(d, by_address)]
        links = Counter(_link(d.width, d.max_generation if kind == "gpus" else d.generation) for d in ends)
        found[f"pcie.{kind}"] = ", ".join(f"{count} {link}" for link, count in sorted(links.items()))
    smi = captured.get("nvidia_smi")
    log = None if smi is None or smi.problem else parse_log(smi.text)
    counts = [gpu.number("pci/replay_counter") for gpu in (log.gpus if log else ())]
    known = [count for count in counts if count is not None]
    rate = per_day(sum(known), uptime(captured.get("load"))) if known else None
    return told({**found, "gpu.pcie_replays_per_day": rate})


CHECKS = [
    Check(
        NAME,
        "quick",
        reads,
        judge,
        needs=("gpus.pcie", "hcas.pcie", "nvme.pcie", "ethernet.pcie", "os_disk.controller", "os_disk.model"),
        values=values,
    )
]
