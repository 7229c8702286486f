"""What nvidia-smi says of all GPUs, in the three forms that it prints: parsed here, judged by the checks.

``nvidia-smi -q -x`` (XML, nvsmi_device_v10.dtd to v13.dtd) is what the checks read. ``nvidia-smi -q`` (text, as support
bundles have it) and ``--query-gpu --format=csv`` are understood as well, as far as something is judged in them.
"""

from __future__ import annotations

import csv
import functools
import re
from dataclasses import dataclass, field, replace
from typing import Dict, List, Optional, Tuple
from xml.parsers import expat
from xml.sax.saxutils import escape

FIELDS = ("index", "name", "uuid", "pci.bus_id", "driver_version")

_ROOT = "nvidia_smi_log"
_ELEMENTS_MAX, _DEPTH_MAX, _GPUS_MAX, _PROCESSES_MAX, _VALUE_MAX = 200_000, 16, 128, 200, 300
_SKIPPED = ("supported_clocks", "mig_devices", "accounted_processes", "vgpu_device_capability")
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# words for "this GPU or driver does not tell that"
_NOT_TOLD = re.compile(r"^\[?(N/A|Not Supported|Not Available|Requested functionality has been deprecated)?\]?$", re.I)
_NUMBER = re.compile(r"^(-?\d{1,18}(?:\.\d{1,9})?)(?![\w.])")
_BEFORE_HOPPER = ("kepler", "maxwell", "pascal", "volta", "turing", "ampere", "ada lovelace")
_HOPPER_NAME = re.compile(r"\bG?[HBR][0-9]{2,3}\b")


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

    @property
    def from_hopper(self) -> bool:
        """Whether it is of Hopper or later, which tell more than those before; by its name where that is not told."""
        kind = self.get("product_architecture")
        return kind.lower() not in _BEFORE_HOPPER if kind else bool(_HOPPER_NAME.search(self.get("product_name")))

    @property
    def driver(self) -> Optional[int]:
        """580 of 580.95.05."""
        found = re.match(r"^([0-9]{3,4})\.", self.get("driver_version"))
        return int(found.group(1)) if found else None


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
        if self.path[1:] == ["gpu"] and len(self.gpus) >= _GPUS_MAX:
            raise _RefusedError("more GPUs than a host has")
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
    """The answer in any of the forms; None when it is none, or an XML document that is not whole and well-formed."""
    return parse_xml(text) or parse_text(text) or _from_query(text)


def parse_xml(text: str) -> Optional[SmiLog]:
    """From ``nvidia-smi -q -x``. Lines around the document do not matter.

    nvidia-smi writes names of processes as they are, markup and all; those are escaped where the document is broken.
    """
    start, end = text.find("<?xml"), text.rfind(f"</{_ROOT}>")
    start = start if start >= 0 else text.find(f"<{_ROOT}>")
    if start < 0 or end < start:
        return None
    document = _ILLEGAL.sub("?", text[start : end + len(_ROOT) + 3])
    reader = _read(document) or _read(_with_names_escaped(document))
    if reader is None:
        return None
    driver, attached = reader.top.get("driver_version", ""), reader.top.get("attached_gpus", "")
    gpus = [
        Gpu(bus_id(values.get("pci/pci_bus_id") or bus), {**values, "driver_version": driver}, tuple(processes))
        for bus, values, processes in reader.gpus
    ]
    return _log(driver, attached, gpus)


def _read(document: str) -> Optional[_Reader]:
    reader = _Reader()
    try:
        reader.read(document)
    except (expat.ExpatError, ValueError, LookupError):
        return None
    return reader


def _with_names_escaped(document: str) -> str:
    first, *rest = document.split("<process_name>")
    pieces = [piece.partition("</process_name>") for piece in rest]
    return first + "".join(f"<process_name>{escape(name)}{end}{behind}" for name, end, behind in pieces)


# section/label of the text form: path in the XML form
_LABELS = {
    "Product Name": "product_name",
    "Product Architecture": "product_architecture",
    "GPU UUID": "uuid",
    "VBIOS Version": "vbios_version",
    "Board Part Number": "board_part_number",
    "GPU Recovery Action": "gpu_recovery_action",
    "GPU Reset Status/Reset Required": "gpu_reset_status/reset_required",
    "GPU Reset Status/Drain and Reset Recommended": "gpu_reset_status/drain_and_reset_recommended",
    "MIG Mode/Current": "mig_mode/current_mig",
    "Performance State": "performance_state",
    "FB Memory Usage/Used": "fb_memory_usage/used",
    "ECC Mode/Current": "ecc_mode/current_ecc",
    "ECC Mode/Pending": "ecc_mode/pending_ecc",
    "ECC Errors/Channel Repair Pending": "ecc_errors/channel_repair_pending",
    "ECC Errors/TPC Repair Pending": "ecc_errors/tpc_repair_pending",
    "ECC Errors/Unrepairable Memory": "ecc_errors/unrepairable_memory",
    "Retired Pages/Single Bit ECC": "retired_pages/multiple_single_bit_retirement/retired_count",
    "Retired Pages/Double Bit ECC": "retired_pages/double_bit_retirement/retired_count",
    "Retired Pages/Pending Page Blacklist": "retired_pages/pending_retirement",
    "Remapped Rows/Correctable Error": "remapped_rows/remapped_row_corr",
    "Remapped Rows/Uncorrectable Error": "remapped_rows/remapped_row_unc",
    "Remapped Rows/Pending": "remapped_rows/remapped_row_pending",
    "Remapped Rows/Remapping Failure Occurred": "remapped_rows/remapped_row_failure",
    "Remapped Rows/Bank Remap Availability Histogram/None": (
        "remapped_rows/row_remapper_histogram/row_remapper_histogram_none"
    ),
    "Temperature/GPU Current Temp": "temperature/gpu_temp",
    "Temperature/GPU T.Limit Temp": "temperature/gpu_temp_tlimit",
    "Temperature/GPU Current T.Limit Temp": "temperature/gpu_temp_tlimit",  # from driver 610 on
    "Temperature/GPU Max Operating T.Limit Temp": "temperature/gpu_temp_max_gpu_tlimit_threshold",
    "Temperature/GPU Max Operating Temp": "temperature/gpu_temp_max_gpu_threshold",
    "Temperature/GPU Slowdown Temp": "temperature/gpu_temp_slow_threshold",
    "Temperature/Memory Current Temp": "temperature/memory_temp",
    "Temperature/Memory Max Operating Temp": "temperature/gpu_temp_max_mem_threshold",
    "GPU Power Readings/Current Power Limit": "gpu_power_readings/current_power_limit",
    "GPU Power Readings/Default Power Limit": "gpu_power_readings/default_power_limit",
    "Power Readings/Enforced Power Limit": "power_readings/enforced_power_limit",
    "Power Readings/Default Power Limit": "power_readings/default_power_limit",
    "Applications Clocks/Graphics": "applications_clocks/graphics_clock",
    "Default Applications Clocks/Graphics": "default_applications_clocks/graphics_clock",
    "Max Clocks/SM": "max_clocks/sm_clock",
    "Fabric/State": "fabric/state",
    "Fabric/Status": "fabric/status",
    "Fabric/Health/Summary": "fabric/health/summary",
    "Fabric/Health/Bandwidth": "fabric/health/bandwidth",
    "Fabric/Health/Route Recovery in progress": "fabric/health/route_recovery_in_progress",
    "Fabric/Health/Route Unhealthy": "fabric/health/route_unhealthy",
    "Fabric/Health/Access Timeout Recovery": "fabric/health/access_timeout_recovery",
    "Fabric/Health/Incorrect Configuration": "fabric/health/incorrect_configuration",
}
_COUNTERS = {
    "SRAM Correctable": "sram_correctable",
    "SRAM Uncorrectable": "sram_uncorrectable",
    "SRAM Uncorrectable Parity": "sram_uncorrectable_parity",
    "SRAM Uncorrectable SEC-DED": "sram_uncorrectable_secded",
    "DRAM Correctable": "dram_correctable",
    "DRAM Uncorrectable": "dram_uncorrectable",
    "Single Bit/Total": "single_bit/total",
    "Double Bit/Total": "double_bit/total",
    "SRAM Threshold Exceeded": "sram_threshold_exceeded",
}
for _period in ("Volatile", "Aggregate"):
    _LABELS.update(
        {f"ECC Errors/{_period}/{label}": f"ecc_errors/{_period.lower()}/{tag}" for label, tag in _COUNTERS.items()}
    )
for _place in ("L2", "SM", "Microcontroller", "PCIE", "Other"):
    _LABELS[f"ECC Errors/Aggregate Uncorrectable SRAM Sources/SRAM {_place}"] = (
        f"ecc_errors/aggregate_uncorrectable_sram_sources/sram_{_place.lower()}"
    )
_OLD_REASONS = "Clocks Throttle Reasons"
_REASONS = ("Clocks Event Reasons", _OLD_REASONS)
_REASON_TAGS = {"Idle": "gpu_idle", "Display Clock Setting": "display_clocks_setting"}
_PROCESS_TAGS = {"Process ID": "pid", "Type": "type", "Name": "process_name", "Used GPU Memory": "used_memory"}
_TEXT_HEAD, _LINE_MAX = "NVSMI LOG", 1000
_TEXT_LINE = re.compile(r"^( *)(\S.{0,80}?)(?: +: ?(.*))?$")
_TEXT_GPU = re.compile(r"^GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])$")


def parse_text(text: str) -> Optional[SmiLog]:
    """From ``nvidia-smi -q``; None when it has not its heading. Only what is judged is taken."""
    start = text.find(_TEXT_HEAD)
    if start < 0:
        return None
    top: Dict[str, str] = {}
    gpus: List[Gpu] = []
    path: List[str] = []
    for line in text[start:].splitlines()[1:]:
        if len(line) > _LINE_MAX:
            continue
        gpu, found = _TEXT_GPU.match(line), _TEXT_LINE.match(line.rstrip())
        if gpu and len(gpus) >= _GPUS_MAX:
            return None
        if gpu:
            gpus.append(Gpu(bus_id(gpu.group(1)), {"driver_version": top.get("Driver Version", "")}))
        if gpu or not found:
            continue
        depth, value = len(found.group(1)) // 4, (found.group(3) or "").strip()[:_VALUE_MAX]
        path[max(depth - 1, 0) :] = [found.group(2)]
        if depth == 0:
            top[found.group(2)] = value
        elif gpus and value:
            gpus[-1] = _with_line(gpus[-1], path, value)
    return _log(top.get("Driver Version", ""), top.get("Attached GPUs", ""), gpus)


def _with_line(gpu: Gpu, path: List[str], value: str) -> Gpu:
    """The GPU with one more line of the text form."""
    if path[0] == "Processes":
        tag, processes = _PROCESS_TAGS.get(path[-1]), list(gpu.processes)
        if tag == "pid" and len(processes) < _PROCESSES_MAX:
            return replace(gpu, processes=(*processes, {"pid": value}))
        if tag and processes:
            processes[-1].setdefault(tag, value)
        return gpu
    if path[0] in _REASONS:
        tag = _REASON_TAGS.get(path[-1], path[-1].lower().replace(" ", "_"))
        kind = "throttle" if path[0] == _OLD_REASONS else "event"
        gpu.values[f"clocks_{kind}_reasons/clocks_{kind}_reason_{tag}"] = value
    elif "/".join(path) in _LABELS:
        gpu.values[_LABELS["/".join(path)]] = value
    return gpu


def _log(driver: str, attached: str, gpus: List[Gpu]) -> SmiLog:
    return SmiLog(driver, int(attached) if re.match(r"^[0-9]{1,6}$", attached) else None, tuple(gpus))


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
