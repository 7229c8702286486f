"""GPUs as the driver sees them: number, name, driver version; and their firmware.

All checks of GPUs read one ``nvidia-smi -q -x``, since each nvidia-smi costs seconds on an 8-GPU host: ``read_log``
gives them its answer, and a finding where there is none. Why GPUs or the driver are not there is for ``gpu_count`` to
say.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

from ..findings import Finding
from ..profile import Profile
from .capture import Command, Output, Source
from .compared import joined, told
from .engine import Captured, Check, Expect, not_known, ok, unknown, unreadable
from .gpu_log import Gpu, SmiLog, bus_id, parse_log, parse_query

__all__ = ["CHECKS", "QUERY", "conclude", "expected", "parse_query", "read_log", "reads"]
NAME, FIRMWARE = "gpu_count", "gpu_firmware"
# nvidia-smi without a running persistence daemon initialises every GPU first: many seconds on an 8-GPU host
QUERY = Command(("nvidia-smi", "-q", "-x"), limit=30.0, max_bytes=4 * 1024 * 1024)

# a line between the rows; what is in a row is judged there
_LOST = re.compile(r"unable to determine the device handle for gpu|gpu is lost\. ?reboot", re.IGNORECASE)
# a value that nvidia-smi could not get: "[GPU is lost]", "[Unknown Error]", "ERR!"
_BROKEN_VALUE = re.compile(r"^\[?(gpu is lost|unknown error|err!|gpu requires reset)", re.IGNORECASE)
_GONE = re.compile(r"^\[?(gpu is lost|gpu requires reset)", re.IGNORECASE)
_PLACE = re.compile(r"^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]$")
_VERSION = re.compile(r"^[0-9]{3,4}\.[0-9]{1,4}(\.[0-9]{1,4})?$")
_INFOROM = re.compile(r"infoROM is corrupted at gpu ([0-9a-fA-F:.]{7,20})", re.IGNORECASE)
_IDENTITY = ("product_name", "uuid", "pci/pci_bus_id", "driver_version")


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
    log = parse_log(output.text)
    if log is None:
        return lost or (
            not_known(NAME, output, "nvidia-smi") if output.code else unreadable(NAME, output.text, "nvidia-smi")
        )
    gpus, twice = _each_once(log.gpus)
    silent = max(len(lost), (log.attached or 0) - len(log.gpus))
    if silent > len(lost):
        evidence = f"nvidia-smi counts {log.attached} GPUs and tells of {len(gpus)}"
        lost.append(_fail("gpu.lost", f"{silent - len(lost)} of {log.attached} GPUs", evidence, "power_cycle"))
    findings = [*lost, *_judge_count(gpus, profile, silent)]
    findings += [unknown(NAME, "unreadable", f"told of twice: {gpu.get('uuid')}", gpu.locator) for gpu in twice]
    broken = {gpu.bus: value for gpu in gpus for value in [_broken(gpu)] if value}
    sound = [gpu for gpu in gpus if gpu.bus not in broken]
    findings += [_fail("gpu.lost", gpu.locator, broken[gpu.bus], "power_cycle") for gpu in gpus if gpu.bus in broken]
    findings += _judge_names(sound, profile) + _judge_identity(sound) + _judge_driver(sound, expect)
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


def _each_once(gpus: Sequence[Gpu]) -> Tuple[List[Gpu], List[Gpu]]:
    """Each GPU once, and those that were told of before, by their place or their UUID."""
    found: List[Gpu] = []
    twice: List[Gpu] = []
    seen: Set[str] = set()
    for gpu in gpus:
        names = {gpu.bus, gpu.get("uuid")} if gpu.get("uuid").startswith("GPU-") else {gpu.bus}
        (twice if names & seen else found).append(gpu)
        seen |= names
    return found, twice


def fewer_than_expected(check: str, told: int, log: Optional[SmiLog], profile: Profile, what: str) -> List[Finding]:
    """``unknown`` where ``what`` tells of fewer GPUs than the profile has, or than nvidia-smi -q does (``log``)."""
    want = max(profile.count("gpus"), len(_each_once(log.gpus)[0]) if log else 0)
    return [unknown(check, "incomplete", f"{what} tells of {told} GPUs, {want} expected")] if told < want else []


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
    findings: List[Finding] = []
    for gpu in gpus:
        name = gpu.get("product_name")
        if not name:
            findings.append(unknown(NAME, "unreadable", "its name is not told", gpu.locator))
        elif model.lower() not in name.lower():
            findings.append(_fail("gpu.wrong_model", gpu.locator, f"{name}, expected {model}", "escalate"))
    return findings


def _judge_identity(gpus: List[Gpu]) -> List[Finding]:
    """Without place and UUID nobody knows whether a GPU is told of twice."""
    findings: List[Finding] = []
    for gpu in gpus:
        wrong = [] if _PLACE.match(gpu.bus) else [f"its place {gpu.bus[:40] or 'N/A'}"]
        wrong += [] if gpu.get("uuid").startswith("GPU-") else [f"its UUID {gpu.get('uuid')[:40] or 'N/A'}"]
        if wrong:
            findings.append(unknown(NAME, "unreadable", f"not told: {', '.join(wrong)}", gpu.locator))
    return findings


def _judge_driver(gpus: List[Gpu], expect: Expect) -> List[Finding]:
    silent = [gpu.bus for gpu in gpus if not _VERSION.match(gpu.get("driver_version"))]
    if silent:
        said = next(gpu.get("driver_version")[:40] for gpu in gpus if gpu.bus in silent)
        return [unknown(NAME, "unreadable", f"driver version not told of {len(silent)} GPUs: {said or 'N/A'}")]
    versions = sorted({gpu.values.get("driver_version", "") for gpu in gpus})
    if len(versions) > 1:
        return [_fail("gpu.driver_mismatch", "", f"GPUs report drivers {', '.join(versions)}", "reboot")]
    wanted = str(expect.get("gpu_driver", ""))
    if wanted and versions and versions[0] != wanted:
        return [_fail("gpu.driver_version", "", f"driver {versions[0]}, expected {wanted}", "escalate")]
    return []


def judge_firmware(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    """VBIOS as expected, or at the profile's floor and alike on all boards of one part number; no corrupted infoROM."""
    output = captured["nvidia_smi"]
    log, findings = read_log(FIRMWARE, output)
    if log is None:
        return findings
    for place in dict.fromkeys(_INFOROM.findall(output.text + "\n" + output.errors)):
        evidence = "nvidia-smi: infoROM is corrupted"
        findings.append(Finding(FIRMWARE, "fail", "gpu.inforom", f"GPU {bus_id(place)}", evidence, "replace"))
    exact, floor = str(expect.get("gpu_vbios") or ""), profile.gpus.get("vbios", "")
    by_board: Dict[str, Dict[str, List[str]]] = {}
    for gpu in log.gpus:
        version = gpu.get("vbios_version")
        if vbios(version) is None:
            evidence = f"VBIOS version not told: {version or 'N/A'}"
            findings.append(unknown(FIRMWARE, "unreadable", evidence, gpu.locator))
        elif exact and vbios(version) != vbios(exact):
            evidence = f"VBIOS {version}, expected {exact}; board {gpu.get('board_part_number') or 'not told'}"
            findings.append(Finding(FIRMWARE, "fail", "gpu.firmware_version", gpu.locator, evidence, "update_firmware"))
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


def values(captured: Captured, profile: Profile) -> Dict[str, Any]:
    output = captured["nvidia_smi"]
    log, _ = read_log(NAME, output)
    if log is None:
        return {}
    found = {
        "gpu.driver": joined(gpu.get("driver_version") for gpu in log.gpus),
        "gpu.model": joined(gpu.get("product_name") for gpu in log.gpus),
        "gpu.query_seconds": round(output.seconds, 2) or None,
    }
    return told(found)


def firmware_values(captured: Captured, profile: Profile) -> Dict[str, Any]:
    log, _ = read_log(FIRMWARE, captured["nvidia_smi"])
    gpus = log.gpus if log else ()
    found = {
        "gpu.vbios": joined(gpu.get("vbios_version") for gpu in gpus),
        "gpu.inforom": joined(gpu.get("inforom_version/img_version") for gpu in gpus),
    }
    return told(found)


_FIRMWARE_NEEDS = ("gpus.count", "gpus.vbios", "expect.gpu_vbios")
CHECKS = [
    Check(
        NAME,
        "quick",
        reads,
        judge,
        needs=("gpus.count", "gpus.model", "expect.gpu_driver"),
        values=values,
        explains=frozenset({"gpu.lost", "gpu.missing", "gpu.driver_mismatch", "gpu.driver_not_loaded"}),
    ),
    Check(FIRMWARE, "quick", reads, judge_firmware, needs=_FIRMWARE_NEEDS, values=firmware_values),
]
