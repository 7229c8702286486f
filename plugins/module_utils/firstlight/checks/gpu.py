"""GPUs as the driver sees them: number, name, driver version; and their firmware.

All checks of GPUs read one ``nvidia-smi -q -x``, since each nvidia-smi costs seconds on an 8-GPU host: ``read_log``
gives them its answer, and a finding where there is none. Why GPUs or the driver are not there is for ``gpu_count`` to
say. Forms: nvsmi_device_v10.dtd to v13.dtd. What ``--query-gpu`` prints as CSV is understood as well.
"""

from __future__ import annotations

import csv
import functools
import re
from dataclasses import dataclass, field, replace
from typing import Dict, List, Optional, Tuple
from xml.parsers import expat
from xml.sax.saxutils import escape

from ..findings import Finding
from ..profile import Profile
from .capture import Command, Output, Source
from .engine import Captured, Check, Expect, not_known, ok, unknown, unreadable

NAME, FIRMWARE = "gpu_count", "gpu_firmware"
FIELDS = ("index", "name", "uuid", "pci.bus_id", "driver_version")
# nvidia-smi without a running persistence daemon initialises every GPU first: many seconds on an 8-GPU host
QUERY = Command(("nvidia-smi", "-q", "-x"), limit=30.0, max_bytes=4 * 1024 * 1024)

# a line between the rows; what is in a row is judged there
_LOST = re.compile(r"unable to determine the device handle for gpu|gpu is lost\. ?reboot", re.IGNORECASE)
# a value that nvidia-smi could not get: "[GPU is lost]", "[Unknown Error]", "ERR!"
_BROKEN_VALUE = re.compile(r"^\[?(gpu is lost|unknown error|err!|gpu requires reset)", re.IGNORECASE)
_GONE = re.compile(r"^\[?(gpu is lost|gpu requires reset)", re.IGNORECASE)
_INFOROM = re.compile(r"infoROM is corrupted at gpu ([0-9a-fA-F:.]{7,20})", re.IGNORECASE)
_IDENTITY = ("product_name", "uuid", "pci/pci_bus_id", "driver_version")

_ROOT = "nvidia_smi_log"
_ELEMENTS_MAX, _DEPTH_MAX, _PROCESSES_MAX, _VALUE_MAX = 200_000, 16, 200, 300
_SKIPPED = ("supported_clocks", "mig_devices", "accounted_processes", "vgpu_device_capability")
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_PROCESS_NAME = re.compile(r"<process_name>([^\n]{0,4096}?)</process_name>")
# words for "this GPU or driver does not tell that"
_NOT_TOLD = re.compile(r"^\[?(N/A|Not Supported|Not Available|Requested functionality has been deprecated)?\]?$", re.I)
_NUMBER = re.compile(r"^(-?\d{1,18}(?:\.\d{1,9})?)(?![\w.])")


@dataclass(frozen=True)
class Gpu:
    """One GPU as nvidia-smi tells of it.

    bus: as the kernel writes it, ``0000:9a:00.0``. values: text by path below ``<gpu>``, such as
    ``ecc_mode/current_ecc``, and the log's ``driver_version``. processes: of each its tags, such as pid, process_name.
    """

    bus: str
    values: Dict[str, str] = field(default_factory=dict)
    processes: Tuple[Dict[str, str], ...] = ()

    @property
    def locator(self) -> str:
        return f"GPU {self.bus}"

    def get(self, *paths: str) -> str:
        """The first of these that is told; empty when none is (not there, N/A, not supported, deprecated)."""
        told = (self.values.get(path, "") for path in paths)
        return next((value for value in told if not _NOT_TOLD.match(value)), "")

    def number(self, *paths: str) -> Optional[float]:
        """The number that the first told value begins with (``33 C``, ``700.00 W``); None when there is none."""
        found = _NUMBER.match(self.get(*paths))
        return float(found.group(1)) if found else None


@dataclass(frozen=True)
class SmiLog:
    """What ``nvidia-smi -q -x`` said. attached: how many GPUs it counts itself, None when it does not say."""

    driver: str
    attached: Optional[int]
    gpus: Tuple[Gpu, ...]


class _RefusedError(ValueError):
    """An XML document that nvidia-smi would not write."""


class _Reader:
    """Expat's events as values by path; no entity is declared or expanded, and what it takes is bounded."""

    def __init__(self) -> None:
        self.path: List[str] = []
        self.text: List[str] = []
        self.elements = 0
        self.top: Dict[str, str] = {}
        self.gpus: List[Tuple[str, Dict[str, str], List[Dict[str, str]]]] = []

    def read(self, text: str) -> None:
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        parser.StartDoctypeDeclHandler = self.doctype
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.text.append
        parser.Parse(text, True)

    def doctype(self, name: str, system: Optional[str], public: Optional[str], internal: int) -> None:
        if internal:
            raise _RefusedError("the document declares things of its own")

    def start(self, name: str, attributes: Dict[str, str]) -> None:
        self.elements += 1
        if self.elements > _ELEMENTS_MAX or len(self.path) >= _DEPTH_MAX or (not self.path and name != _ROOT):
            raise _RefusedError("not a log of nvidia-smi")
        self.path.append(name)
        del self.text[:]
        if self.path[1:] == ["gpu"]:
            self.gpus.append((attributes.get("id", ""), {}, []))
        elif self.path[1:] == ["gpu", "processes", "process_info"] and len(self.gpus[-1][2]) < _PROCESSES_MAX:
            self.gpus[-1][2].append({})

    def end(self, name: str) -> None:
        value = "".join(self.text).strip()[:_VALUE_MAX]
        below = self.path[2:]
        if not value or (below and below[0] in _SKIPPED):
            pass
        elif self.path[1:2] != ["gpu"]:
            self.top["/".join(self.path[1:])] = value
        elif below[:2] == ["processes", "process_info"] and below[2:] and self.gpus[-1][2]:
            self.gpus[-1][2][-1].setdefault("/".join(below[2:]), value)
        else:
            self.gpus[-1][1]["/".join(below)] = value
        self.path.pop()
        del self.text[:]


@functools.lru_cache(maxsize=2)
def parse_log(text: str) -> Optional[SmiLog]:
    """The answer of ``nvidia-smi -q -x``; None when it is none, whole and well-formed. Lines around it do not matter.

    nvidia-smi writes names of processes as they are, markup and all; those are escaped where the document is broken.
    """
    start, end = text.find("<?xml"), text.rfind(f"</{_ROOT}>")
    start = start if start >= 0 else text.find(f"<{_ROOT}>")
    if start < 0 or end < start:
        return None
    document = _ILLEGAL.sub("?", text[start : end + len(_ROOT) + 3])
    reader = _read(document) or _read(_PROCESS_NAME.sub(_escaped, document))
    if reader is None:
        return None
    driver, attached = reader.top.get("driver_version", ""), reader.top.get("attached_gpus", "")
    gpus = [
        Gpu(bus_id(values.get("pci/pci_bus_id") or bus), {**values, "driver_version": driver}, tuple(processes))
        for bus, values, processes in reader.gpus
    ]
    return SmiLog(driver, int(attached) if re.match(r"^[0-9]{1,6}$", attached) else None, tuple(gpus))


def _read(document: str) -> Optional[_Reader]:
    reader = _Reader()
    try:
        reader.read(document)
    except (expat.ExpatError, ValueError, LookupError):
        return None
    return reader


def _escaped(found: "re.Match[str]") -> str:
    return f"<process_name>{escape(found.group(1))}</process_name>"


def read_log(check: str, output: Output) -> Tuple[Optional[SmiLog], List[Finding]]:
    """What ``nvidia-smi -q -x`` said of the GPUs that answer, and ``unknown`` for each that does not.

    None where it said nothing of any GPU, and what this check says then.
    """
    if output.problem:
        return None, not_known(check, output, "nvidia-smi -q")
    log = parse_log(output.text)
    if log is not None and log.gpus:
        gone = [(gpu, why) for gpu in log.gpus for why in [_broken(gpu)] if why]
        sound = tuple(gpu for gpu in log.gpus if not _broken(gpu))
        return replace(log, gpus=sound), [unknown(check, "unreadable", why, gpu.locator) for gpu, why in gone]
    if output.code:
        return None, not_known(check, output, "nvidia-smi -q")
    return None, unreadable(check, output.text, "nvidia-smi -q")


def conclude(check: str, output: Output, findings: List[Finding], evidence: str) -> List[Finding]:
    """These findings, or that all is well; a log without fault does not make a failed nvidia-smi good."""
    if findings:
        return findings
    return not_known(check, output, "nvidia-smi -q") if output.code else ok(check, evidence)


def expected(profile: Profile) -> bool:
    """Whether the host must have GPUs, and the driver for them."""
    return profile.count("gpus") > 0 and profile.gpus.get("driver_required") is not False


def reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    return {"nvidia_smi": QUERY} if expected(profile) else {}


def parse_query(text: str) -> Optional[List[Dict[str, str]]]:
    """Rows by column name from ``nvidia-smi --query-gpu --format=csv`` (with its heading); None when it is not that."""
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines(), strict=False) if row]
    except csv.Error:
        return None
    start = next((i for i, row in enumerate(rows) if row[0] == FIELDS[0]), None)
    if start is None or not set(FIELDS) <= set(rows[start]):
        return None
    heading, found = rows[start], []
    for row in rows[start + 1 :]:
        if len(row) != len(heading):
            if len(row) == 1:  # a message between the rows; it is judged as text
                continue
            return None
        found.append(dict(zip(heading, row)))  # noqa: B905 - of one length; strict= needs Python 3.10
    return found


def _from_query(text: str) -> Optional[SmiLog]:
    rows = parse_query(text)
    if rows is None:
        return None
    paths = {"name": "product_name", "uuid": "uuid", "driver_version": "driver_version", "pci.bus_id": "pci/pci_bus_id"}
    gpus = [Gpu(bus_id(row["pci.bus_id"]), {path: row[name] for name, path in paths.items()}) for row in rows]
    return SmiLog(gpus[0].values["driver_version"] if gpus else "", None, tuple(gpus))


def bus_id(text: str) -> str:
    """``00000000:9A:00.0`` as the kernel writes it: ``0000:9a:00.0``."""
    domain, _, rest = text.lower().partition(":")
    return f"{domain[-4:]}:{rest}" if rest.count(":") == 1 else text.lower()


def judge(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    output = captured["nvidia_smi"]
    if output.problem:
        return not_known(NAME, output, "nvidia-smi")
    said = output.text + "\n" + output.errors
    if "Driver/library version mismatch" in said:
        return [
            _fail(
                "gpu.driver_mismatch", "", "Driver/library version mismatch: kernel module and library differ", "reboot"
            )
        ]
    if "couldn't communicate with the NVIDIA driver" in said:
        return [_fail("gpu.driver_not_loaded", "", "nvidia-smi cannot communicate with the NVIDIA driver", "reboot")]
    lost = [
        _fail("gpu.lost", _lost_locator(line), line, "power_cycle") for line in said.splitlines() if _LOST.search(line)
    ]
    if "No devices were found" in said:
        return [*lost, *_judge_count([], profile)]
    log = parse_log(output.text) or _from_query(output.text)
    if log is None:
        return lost or (
            not_known(NAME, output, "nvidia-smi") if output.code else unreadable(NAME, output.text, "nvidia-smi")
        )
    gpus = list(log.gpus)
    silent = max(len(lost), (log.attached or 0) - len(gpus))
    if silent > len(lost):
        evidence = f"nvidia-smi counts {log.attached} GPUs and tells of {len(gpus)}"
        lost.append(_fail("gpu.lost", f"{silent - len(lost)} of {log.attached} GPUs", evidence, "power_cycle"))
    findings = [*lost, *_judge_count(gpus, profile, silent)]
    broken = {gpu.bus: value for gpu in gpus for value in [_broken(gpu)] if value}
    sound = [gpu for gpu in gpus if gpu.bus not in broken]
    findings += [_fail("gpu.lost", gpu.locator, broken[gpu.bus], "power_cycle") for gpu in gpus if gpu.bus in broken]
    findings += _judge_names(sound, profile) + _judge_driver(sound, expect)
    if output.code and not findings:
        return not_known(NAME, output, "nvidia-smi")
    if findings:
        return findings
    first = gpus[0].values if gpus else {}
    return ok(NAME, f"{len(gpus)} x {first.get('product_name', '')}, driver {log.driver}")


def _fail(symptom: str, locator: str, evidence: str, action: str) -> Finding:
    return Finding(NAME, "fail", symptom, locator, evidence, action)


def _broken(gpu: Gpu) -> str:
    """What says that this GPU answers no more; empty when nothing does."""
    for path, value in gpu.values.items():
        if (_BROKEN_VALUE if path in _IDENTITY else _GONE).match(value):
            return f"{path}: {value}"
    return ""


def _lost_locator(line: str) -> str:
    found = re.search(r"([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])", line, re.IGNORECASE)
    return f"GPU {bus_id(found.group(1))}" if found else ""


def _judge_count(gpus: List[Gpu], profile: Profile, lost: int = 0) -> List[Finding]:
    """lost: GPUs that answer no more and are told of nowhere; they are not missing from the board."""
    want, seen = profile.count("gpus"), ", ".join(gpu.bus for gpu in gpus)
    missing = want - len(gpus) - lost
    if missing > 0:
        evidence = f"{len(gpus) + lost} GPUs, {want} expected; seen: {seen or 'none'}"
        return [_fail("gpu.missing", f"{missing} of {want} GPUs", evidence, "reseat")]
    if len(gpus) > want:
        return [_fail("gpu.unexpected", "", f"{len(gpus)} GPUs, {want} expected; seen: {seen}", "escalate")]
    return []


def _judge_names(gpus: List[Gpu], profile: Profile) -> List[Finding]:
    model = str(profile.gpus.get("model", ""))
    return [
        _fail("gpu.wrong_model", gpu.locator, f"{gpu.values.get('product_name', '?')}, expected {model}", "escalate")
        for gpu in gpus
        if model.lower() not in gpu.values.get("product_name", "").lower()
    ]


def _judge_driver(gpus: List[Gpu], expect: Expect) -> List[Finding]:
    versions = sorted({gpu.values.get("driver_version", "") for gpu in gpus})
    if len(versions) > 1:
        return [_fail("gpu.driver_mismatch", "", f"GPUs report drivers {', '.join(versions)}", "reboot")]
    wanted = str(expect.get("gpu_driver", ""))
    if wanted and versions and versions[0] != wanted:
        return [_fail("gpu.driver_version", "", f"driver {versions[0]}, expected {wanted}", "escalate")]
    return []


def judge_firmware(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    """VBIOS at the profile's floor and alike on all boards of one part number; no corrupted infoROM."""
    output = captured["nvidia_smi"]
    log, findings = read_log(FIRMWARE, output)
    if log is None:
        return findings
    for place in dict.fromkeys(_INFOROM.findall(output.text + "\n" + output.errors)):
        evidence = "nvidia-smi: infoROM is corrupted"
        findings.append(Finding(FIRMWARE, "fail", "gpu.inforom", f"GPU {bus_id(place)}", evidence, "replace"))
    floor = profile.gpus.get("vbios", "")
    by_board: Dict[str, Dict[str, List[str]]] = {}
    for gpu in log.gpus:
        version = gpu.get("vbios_version")
        if vbios(version) is None:
            evidence = f"VBIOS version not told: {version or 'N/A'}"
            findings.append(unknown(FIRMWARE, "unreadable", evidence, gpu.locator))
        elif floor and _older(version, str(floor)):
            evidence = f"VBIOS {version}, the profile accepts {floor} or later"
            findings.append(Finding(FIRMWARE, "fail", "gpu.firmware", gpu.locator, evidence, "update_firmware"))
        else:
            by_board.setdefault(gpu.get("board_part_number"), {}).setdefault(version, []).append(gpu.bus)
    for board, versions in by_board.items():
        if len(versions) > 1:
            evidence = "; ".join(f"{version}: {', '.join(gpus)}" for version, gpus in sorted(versions.items()))
            findings.append(Finding(FIRMWARE, "warn", "gpu.firmware_mixed", board, f"VBIOS {evidence}"))
    return conclude(FIRMWARE, output, findings, f"VBIOS {', '.join(sorted(v for vs in by_board.values() for v in vs))}")


def vbios(version: str) -> Optional[Tuple[int, ...]]:
    """``96.00.A5.00.1A`` as numbers that compare: its parts are hexadecimal. None when it is none."""
    if not re.match(r"^[0-9A-Fa-f]{1,4}(\.[0-9A-Fa-f]{1,4}){2,7}$", version):
        return None
    return tuple(int(part, 16) for part in version.split("."))


def _older(version: str, floor: str) -> bool:
    have, least = vbios(version), vbios(floor)
    return have is None or least is None or have < least


CHECKS = [
    Check(NAME, "quick", reads, judge, needs=("gpus.count", "gpus.model", "expect.gpu_driver")),
    Check(FIRMWARE, "quick", reads, judge_firmware, needs=("gpus.count", "gpus.vbios")),
]
