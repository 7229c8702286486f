"""Where the parts of a host sit: read beside what the checks read, told in the evidence of their findings.

``dmidecode -t slot`` (SMBIOS type 9) says which PCI device sits in which slot, as the slot is printed on the board;
where it says nothing, /sys/bus/pci/slots does. The device that sits in a slot may be a switch, with the GPU behind it:
then the slot is that of the nearest bridge above. What is not told is not known, and no finding says so.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Dict, Iterable, List, Mapping, Optional, Tuple

from ..findings import Finding, verdict
from ..slots import address_of, is_slot, serials, with_slot
from .capture import Command, Output, Source, read_files, run_all
from .engine import Result, Run
from .gpu import QUERY
from .gpu_log import parse_log

SMBIOS = Command(("dmidecode", "-t", "slot"), limit=5.0, max_bytes=256 * 1024)
SYSFS = read_files(
    "/sys/bus/pci/slots/*/address",
    "/sys/bus/pci/devices/*/secondary_bus_number",
    "/sys/bus/pci/devices/*/subordinate_bus_number",
    "/sys/class/infiniband/*/device/uevent",
    "/sys/class/nvme/*/address",
)
SLOTS_MAX = 512

_ROW = re.compile(r"^\s+(Designation|Current Usage|Bus Address): *(\S.*?)\s*$")
_NO_NAME = re.compile(
    r"(n/?a|none|other|unknown|not specified|default string|undefined|to be filled by o\.e\.m\.)", re.IGNORECASE
)
_NO_DEVICE = ("0000:00:00", "0000:ff:1f", "ffff:ff:1f")  # what firmware writes that knows no address
_NAMED = re.compile(r"/sys/class/(?:infiniband|nvme)/([A-Za-z0-9_.-]{1,32})/(?:device/uevent|address)")
_BRIDGE = re.compile(r"/sys/bus/pci/devices/([^/]{1,32})/(secondary|subordinate)_bus_number")
_UEVENT = re.compile(r"(?m)^PCI_SLOT_NAME=(\S+)$")
_WORD = re.compile(r"[A-Za-z0-9_.-]+")
_NVME = re.compile(r"(nvme\d+)n\d+")


@dataclass(frozen=True)
class Places:
    """slots: by PCI address, without the function, the slot that it sits in. behind: by address of a bridge its domain
    and the first and last bus behind it. named: by device (``mlx5_3``, ``nvme2``) its address."""

    slots: Mapping[str, str] = field(default_factory=dict)
    behind: Mapping[str, Tuple[str, int, int]] = field(default_factory=dict)
    named: Mapping[str, str] = field(default_factory=dict)

    def slot(self, locator: str) -> str:
        """Where the one part that it names sits; empty where that is not known."""
        address = address_of(locator)
        if not address:
            words = (_NVME.sub(r"\1", word) for word in _WORD.findall(locator))
            known = {self.named[word] for word in words if word in self.named}
            address = known.pop() if len(known) == 1 else ""
        if not address or address in self.slots:
            return self.slots.get(address, "")
        domain, bus = address[:-6], int(address[-5:-3], 16)
        above = [
            (last - first, self.slots[bridge])
            for bridge, (of, first, last) in self.behind.items()
            if of == domain and first <= bus <= last and bridge in self.slots
        ]
        return min(above)[1] if above else ""


def read_places(smbios: Output, sysfs: Output) -> Places:
    """Whatever these two told; nothing of what failed or is not understood."""
    slots = {} if smbios.problem or smbios.code else parse_smbios(smbios.text)
    files = {} if sysfs.problem else _files(sysfs.text)
    named, buses = {}, {}  # type: Dict[str, str], Dict[str, Dict[str, int]]
    for path, value in files.items():
        if found := _NAMED.fullmatch(path):
            told = _UEVENT.search(value) if path.endswith("uevent") else re.match(r"(\S+)", value)
            address = address_of(told.group(1)) if told else ""
            if address:
                named[found.group(1)] = address
        elif (found := _BRIDGE.fullmatch(path)) and re.fullmatch(r"[0-9]{1,3}", value.strip()):
            buses.setdefault(address_of(found.group(1)), {})[found.group(2)] = int(value)
    behind = {
        bridge: (bridge[:-6], bus["secondary"], bus["subordinate"])
        for bridge, bus in buses.items()
        if bridge and len(bus) == 2 and 0 < bus["secondary"] <= bus["subordinate"]
    }
    return Places(slots or _of_kernel(files), behind, named)


def parse_smbios(text: str) -> Dict[str, str]:
    """Slot by PCI address, from ``dmidecode -t slot``; not of empty slots, nor where two say to have one device."""
    found: List[Tuple[str, str]] = []
    for record in re.split(r"(?m)^(?=Handle )", text)[: SLOTS_MAX + 1]:
        rows = {match[1]: match[2] for match in map(_ROW.match, record.splitlines()) if match}
        if "System Slot Information" in record and rows.get("Current Usage") != "Available":
            found.append((address_of(rows.get("Bus Address", "")), rows.get("Designation", "")))
    return _unique(found)


def _of_kernel(files: Mapping[str, str]) -> Dict[str, str]:
    """The same from /sys/bus/pci/slots. The kernel adds -1 and so on to a number that firmware gave twice."""
    paths = ((path.split("/"), value) for path, value in files.items() if path.startswith("/sys/bus/pci/slots/"))
    return _unique([(address_of(value.strip()), parts[5]) for parts, value in paths if re.fullmatch(r"\d+", parts[5])])


def _unique(found: List[Tuple[str, str]]) -> Dict[str, str]:
    named = [(address, f"slot {name}" if name.isdigit() else name) for address, name in found[:SLOTS_MAX]]
    sound = {(a, n) for a, n in named if a and a not in _NO_DEVICE and is_slot(n) and not _NO_NAME.fullmatch(n)}
    times = Counter(address for address, _ in sound)
    return {address: name for address, name in sorted(sound) if times[address] == 1}


def _files(text: str) -> Dict[str, str]:
    try:
        return {str(path): str(value) for path, value in json.loads(text)["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


class Placing:
    """A ``run`` for ``run_checks`` that also reads where parts sit, in the same round trip."""

    def __init__(self, run: Run = run_all) -> None:
        self._run = run
        self.places = Places()
        self.serials: Dict[str, str] = {}  # of GPUs by PCI address, as nvidia-smi told them

    def __call__(self, sources: Iterable[Source], limit: float) -> Dict[Source, Output]:
        wanted = list(sources)
        if not wanted:
            return self._run(wanted, limit)
        outputs = self._run([*wanted, SMBIOS, SYSFS], limit)
        self.places = read_places(outputs[SMBIOS], outputs[SYSFS])
        self.serials = serials_of(outputs.get(QUERY))
        return outputs

    def told(self, result: Result) -> Result:
        """The result whose findings say where their part sits, those that are not ok and name one."""
        findings = [self._told(finding) for finding in result.findings]
        return replace(result, findings=findings, verdict=verdict(findings))

    def _told(self, finding: Finding) -> Finding:
        slot = self.places.slot(finding.locator) if finding.status != "ok" else ""
        return with_slot(finding, slot) if slot else finding


def serials_of(smi: Optional[Output]) -> Dict[str, str]:
    """Serial numbers of the GPUs by PCI address; nothing where ``nvidia-smi -q -x`` was not asked or told nothing."""
    log = parse_log(smi.text) if smi and not smi.problem else None
    return serials({address_of(gpu.bus): gpu.get("serial") for gpu in log.gpus}) if log else {}
