"""Transceivers and cables of InfiniBand HCAs: their firmware, and how warm they and the adapters are.

Temperatures come from hwmon, where the mlx5 driver offers it (Linux 6.7 and later); firmware and the module's own
thresholds from ``mlxlink -m`` (NVIDIA's MFT or mstflint's mstlink), one process per HCA, each with a time limit of its
own. Not required: neither is there on every host, and a copper cable has nothing to tell.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..findings import Finding
from ..profile import Profile
from .capture import TIMED_OUT, Command, Source, read_files
from .compared import LOAD, idle, told
from .engine import Captured, Check, Expect, not_known, ok, unknown, unreadable
from .infiniband import (
    FOLDER,
    LINK_LAYERS,
    VIRTUAL,
    device_of,
    ethernet_devices,
    is_below,
    judge_mixed,
    none_here,
    read_answer,
)

NAME = "hca_module"
DEFAULT_CELSIUS = 70.0  # from where on NVIDIA takes a port out of its fabric
_MODULES_MAX = 128
HWMON = read_files(
    *(f"{FOLDER}/*/device/hwmon/hwmon*/temp*_{name}" for name in ("label", "input", "crit")),
    f"{FOLDER}/*/fw_ver",
    LINK_LAYERS,
    VIRTUAL,
)
# Prints {device: {"code", "text", "error"} or {"problem": "timed_out"}}, or {"problem": "no_tool"}
_READER = r"""
import json, os, shutil, subprocess, sys, threading, time
top, LIMIT, found, running = "/sys/class/infiniband", 4.0, {}, []
tool = shutil.which("mlxlink") or shutil.which("mstlink")
def ask(name):
    try:
        process = subprocess.Popen([tool, "-d", name, "-m", "--json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
    except OSError as error:
        found[name] = {"code": 126, "text": "", "error": error.strerror or "error"}
        return
    running.append(process)
    text = process.stdout.read(65536).decode("utf-8", "replace")
    error = process.stderr.read(500).decode("utf-8", "replace")
    found[name] = {"code": process.wait(), "text": text, "error": error}
names = sorted(os.listdir(top))[:128] if os.path.isdir(top) else []
names = [name for name in names if not os.path.exists("%s/%s/device/physfn" % (top, name))]
asking = [threading.Thread(target=ask, args=(name,), daemon=True) for name in names if tool]
for one in asking:
    one.start()
end = time.monotonic() + LIMIT
for one in asking:
    one.join(max(0, end - time.monotonic()))
said = dict(found)
print(json.dumps({"devices": {name: said.get(name, {"problem": "timed_out"}) for name in names} if tool else {},
                  "problem": "" if tool else "no_tool"}))
for process in running:
    if process.returncode is None:
        process.kill()
sys.stdout.flush()
os._exit(0)
"""
MLXLINK = Command((sys.executable or "python3", "-I", "-S", "-c", _READER), limit=6.0, max_bytes=16 * 1024 * 1024)


@dataclass(frozen=True)
class Module:
    """A transceiver or cable as mlxlink tells it. celsius, highest: None where not told; sensor: False for copper."""

    part: str = ""
    serial: str = ""
    firmware: str = ""
    celsius: Optional[float] = None
    highest: Optional[float] = None
    sensor: bool = True


@dataclass(frozen=True)
class Sensor:
    """One temperature of the driver's. label: ``asic``, ``Module0``. critical: None where it tells none."""

    device: str
    label: str
    celsius: float
    critical: Optional[float]


def reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    return {"hwmon": HWMON, "mlxlink": MLXLINK, "load": LOAD} if profile.count("hcas") else {}


def parse_mlxlink(text: str) -> Optional[Module]:
    """The section "Module Info" of ``mlxlink -m``, as JSON or text; None where there is none."""
    rows: Mapping[str, Any]
    try:
        rows = dict(json.loads(text)["result"]["output"]["Module Info"])
    except (ValueError, KeyError, TypeError, RecursionError):
        plain = re.sub(r"\x1b\[[0-9;]*m", "", text).partition("Module Info")[2]
        pairs = [line.partition(" : ") for line in plain.splitlines()]
        rows = {key.strip(): value.strip() for key, colon, value in pairs if colon}
    if not rows or ("Temperature [C]" not in rows and "FW Version" not in rows):
        return None
    heat = re.match(
        r"(-?[0-9]{1,3}(?:\.[0-9]+)?)C?(?: *\[(-?[0-9.]+)C?\.\.(-?[0-9.]+)C?\])?", _word(rows, "Temperature [C]")
    )
    return Module(
        part=_word(rows, "Vendor Part Number"),
        serial=_word(rows, "Vendor Serial Number"),
        firmware=_word(rows, "FW Version"),
        celsius=float(heat.group(1)) if heat else None,
        highest=_number(heat.group(3)) if heat else None,
        sensor=_word(rows, "Digital Diagnostic Monitoring").lower() != "no"
        and "passive copper" not in _word(rows, "Cable Type").lower(),
    )


def _word(rows: Mapping[str, Any], key: str) -> str:
    value = str(rows.get(key) or "").strip()
    return "" if value.upper() in ("N/A", "NA", "-") else value[:64]


def _number(text: Optional[str]) -> Optional[float]:
    return float(text) if text and re.fullmatch(r"-?[0-9]{1,6}(\.[0-9]{1,6})?", text) else None


def parse_hwmon(files: Mapping[str, str]) -> List[Sensor]:
    """Temperatures in degrees Celsius; the files are in thousandths."""
    found = []
    for path, value in sorted(files.items()):
        milli = _number(value)
        if path.endswith("_input") and milli is not None:
            stem = path[: -len("_input")]
            critical = _number(files.get(f"{stem}_crit"))
            label = files.get(f"{stem}_label", stem.rpartition("/")[2])
            found.append(Sensor(device_of(path), label, milli / 1000, None if critical is None else critical / 1000))
    return found


def judge(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    hwmon, mlxlink = captured["hwmon"], captured["mlxlink"]
    if hwmon.problem or hwmon.code:
        return not_known(NAME, hwmon, FOLDER)
    files = read_answer(hwmon.text)
    if files is None:
        return unreadable(NAME, hwmon.text, FOLDER)
    ethernet = ethernet_devices(files)
    devices = sorted({device_of(path) for path in files} - {""} - set(ethernet))
    if not devices:
        return none_here(NAME)
    sensors = [sensor for sensor in parse_hwmon(files) if sensor.device in devices]
    findings = _judge_sensors(sensors, profile) + _judge_odd(files, devices)
    if mlxlink.problem or mlxlink.code:
        return findings + not_known(NAME, mlxlink, "mlxlink")
    said = _answers(mlxlink.text, devices)
    if said is None:
        return findings + unreadable(NAME, mlxlink.text, "mlxlink")
    answers, problem = said
    if problem or not answers:
        cold = sorted(set(devices) - {sensor.device for sensor in sensors}) if sensors else []
        findings += [unknown(NAME, "unreadable", "no temperature in hwmon", f"HCA {device}") for device in cold]
        if sensors and not profile.hcas.get("module_firmware"):
            return findings or ok(NAME, f"{_told(sensors)}; no mlxlink, so firmware of modules is not told")
        evidence = "neither mlxlink nor mstlink is there" if problem else "mlxlink was asked for no HCA"
        evidence += ", which tells the firmware of modules" if sensors else ", and no temperature in hwmon"
        return [*findings, unknown(NAME, (problem or "unreadable")[:16], evidence)]
    silent = sorted(set(devices) - set(answers))
    findings += [unknown(NAME, "unreadable", "mlxlink's answers lack it", f"HCA {device}") for device in silent]
    modules = {}
    for device, answer in sorted(answers.items()):
        module = parse_mlxlink(str(answer.get("text")))
        if module is None:
            findings.append(_no_module(device, answer))
        else:
            modules[device] = module
    seen = {sensor.device for sensor in sensors if _is_module(sensor)}
    for device, module in modules.items():
        findings += _judge_module(device, module, profile)
        if module.celsius is None and module.sensor and device not in seen:
            locator = f"HCA {device}, {module.part or 'module'} {module.serial}".strip()
            findings.append(unknown(NAME, "unreadable", "its temperature is not told", locator))
    mixed = judge_mixed(
        NAME, "hca.module_firmware_mixed", {d: (m.part, m.firmware) for d, m in modules.items() if m.firmware}
    )
    findings += [finding for finding in mixed if finding.status != "ok"]
    return findings or ok(NAME, f"{len(modules)} modules; {_told(sensors) if sensors else _warmest(modules)}")


def _answers(text: str, devices: List[str]) -> Optional[Tuple[Dict[str, Dict[str, Any]], str]]:
    """mlxlink's answer by device, and why there is none; None when the reader printed something else."""
    try:
        said = json.loads(text)
        answers = {str(name): dict(row) for name, row in said["devices"].items() if str(name) in devices}
        return answers, str(said["problem"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _no_module(device: str, answer: Mapping[str, Any]) -> Finding:
    locator, said = f"HCA {device}", str(answer.get("error")).strip() or str(answer.get("text")).strip()
    if answer.get("problem") == TIMED_OUT:
        return unknown(NAME, TIMED_OUT, "mlxlink did not answer within 4 s", locator, "retry")
    reason = "not_permitted" if "ermission" in said or "root" in said else "unreadable"
    return unknown(NAME, reason, f"mlxlink, exit status {answer.get('code')}: {said or 'nothing'}", locator)


def _told(sensors: List[Sensor]) -> str:
    warm = max(sensors, key=lambda sensor: sensor.celsius)
    return f"{len(sensors)} sensors, the warmest {warm.device} {warm.label} {warm.celsius:.0f} °C"


def _warmest(modules: Mapping[str, Module]) -> str:
    warm = [(module.celsius, device) for device, module in modules.items() if module.celsius is not None]
    return f"the warmest {max(warm)[1]} {max(warm)[0]:.0f} °C" if warm else "none with a sensor"


def _is_module(sensor: Sensor) -> bool:
    return sensor.label.lower().startswith("module")


def _judge_sensors(sensors: List[Sensor], profile: Profile) -> List[Finding]:
    findings = []
    for sensor in sensors:
        locator, module = f"HCA {sensor.device} {sensor.label}", _is_module(sensor)
        if sensor.critical and sensor.celsius >= sensor.critical:
            evidence = f"{sensor.celsius:.0f} °C, critical from {sensor.critical:.0f} °C"
            findings.append(Finding(NAME, "fail", "hca.hot", locator, evidence, "escalate"))
        elif module:
            findings += _judge_heat(locator, sensor.celsius, profile)
    return findings


def _judge_odd(files: Mapping[str, str], devices: List[str]) -> List[Finding]:
    """Temperatures in hwmon that are no numbers."""
    odd: Dict[str, List[str]] = {}
    for path, value in sorted(files.items()):
        if path.endswith(("_input", "_crit")) and device_of(path) in devices and _number(value) is None:
            odd.setdefault(device_of(path), []).append(f"{path.rpartition('/')[2]} {value[:20] or 'empty'}")
    return [unknown(NAME, "unreadable", f"hwmon: {', '.join(said)}", f"HCA {device}") for device, said in odd.items()]


def _judge_heat(locator: str, celsius: float, profile: Profile) -> List[Finding]:
    """Against the profile's limit, else against the usual one, which is then only a warning."""
    limit = profile.limit("hca_module_celsius", DEFAULT_CELSIUS)
    if celsius < limit:
        return []
    status = "fail" if "hca_module_celsius" in profile.limits else "warn"
    return [Finding(NAME, status, "hca.module_hot", locator, f"{celsius:.0f} °C, limit {limit:g} °C", "escalate")]


def _judge_module(device: str, module: Module, profile: Profile) -> List[Finding]:
    locator = f"HCA {device}, {module.part or 'module'} {module.serial}".strip()
    findings = []
    if module.celsius is not None and module.highest and module.celsius >= module.highest:
        evidence = f"{module.celsius:.0f} °C, its own threshold is {module.highest:g} °C"
        findings.append(Finding(NAME, "fail", "hca.module_hot", locator, evidence, "escalate"))
    elif module.celsius is not None:
        findings += _judge_heat(locator, module.celsius, profile)
    floors = profile.hcas.get("module_firmware")
    floor = str(floors.get(module.part) or "") if isinstance(floors, dict) else ""
    if floors and not module.part:
        findings.append(
            unknown(NAME, "unreadable", "its part number is not told, nor which firmware it needs", locator)
        )
    if not floor:
        return findings
    lower, evidence = (
        is_below(module.firmware, floor),
        f"firmware {module.firmware or 'not told'}, expected {floor} or later",
    )
    if lower is None:
        findings.append(unknown(NAME, "unreadable", evidence, locator))
    elif lower:
        findings.append(Finding(NAME, "fail", "firmware.below_floor", locator, evidence, "update_firmware"))
    return findings


def values(captured: Captured, profile: Profile) -> Dict[str, Any]:
    """The warmest adapter, and the warmest transceiver or cable."""
    if not idle(captured.get("load")):
        return {}
    files = read_answer(captured["hwmon"].text) or {}
    devices = sorted({device_of(path) for path in files} - {""} - set(ethernet_devices(files)))
    sensors = [sensor for sensor in parse_hwmon(files) if sensor.device in devices]
    heat = {kind: [s.celsius for s in sensors if _is_module(s) == kind] for kind in (True, False)}
    answers, _ = _answers(captured["mlxlink"].text, devices) or ({}, "")
    modules = [parse_mlxlink(str(answer.get("text"))) for answer in answers.values()]
    heat[True] += [module.celsius for module in modules if module and module.celsius is not None]
    found = {
        "hca.celsius_max": max(heat[False], default=None),
        "hca.module_celsius_max": max(heat[True], default=None),
    }
    return told(found)


CHECKS = [
    Check(
        NAME,
        "quick",
        reads,
        judge,
        needs=("hcas.count", "hcas.module_firmware", "limits.hca_module_celsius"),
        values=values,
        required=False,
    )
]
