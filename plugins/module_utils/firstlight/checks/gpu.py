"""GPUs as the driver sees them: number, name, driver version. Reads ``nvidia-smi --query-gpu`` as CSV."""

from __future__ import annotations

import csv
import re
from typing import Dict, List, Optional

from ..findings import Finding
from ..profile import Profile
from .capture import Command, Source
from .engine import Captured, Check, Expect, not_known, ok, unreadable

NAME = "gpu_count"
FIELDS = ("index", "name", "uuid", "pci.bus_id", "driver_version")
# nvidia-smi without a running persistence daemon initialises every GPU first: many seconds on an 8-GPU host
QUERY = Command(("nvidia-smi", "--query-gpu=" + ",".join(FIELDS), "--format=csv"), limit=30.0)

# a line between the rows; what is in a row is judged there
_LOST = re.compile(r"unable to determine the device handle for gpu|gpu is lost\. ?reboot", re.IGNORECASE)
# a value that nvidia-smi could not get: "[GPU is lost]", "[Unknown Error]", "ERR!"
_BROKEN_VALUE = re.compile(r"^\[?(gpu is lost|unknown error|err!|gpu requires reset)", re.IGNORECASE)


def reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    if profile.count("gpus") == 0 or profile.gpus.get("driver_required") is False:
        return {}
    return {"nvidia_smi": QUERY}


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
    gpus = parse_query(output.text)
    if gpus is None:
        return lost or (
            not_known(NAME, output, "nvidia-smi") if output.code else unreadable(NAME, output.text, "nvidia-smi")
        )
    findings = [*lost, *_judge_count(gpus, profile, len(lost))]
    broken = [gpu for gpu in gpus if any(_BROKEN_VALUE.match(value) for value in gpu.values())]
    sound = [gpu for gpu in gpus if gpu not in broken]
    findings += [_fail("gpu.lost", _locator(gpu), ", ".join(gpu.values()), "power_cycle") for gpu in broken]
    findings += _judge_names(sound, profile) + _judge_driver(sound, expect)
    if output.code and not findings:
        return not_known(NAME, output, "nvidia-smi")
    if findings:
        return findings
    return ok(NAME, f"{len(gpus)} x {gpus[0]['name']}, driver {gpus[0]['driver_version']}")


def _fail(symptom: str, locator: str, evidence: str, action: str) -> Finding:
    return Finding(NAME, "fail", symptom, locator, evidence, action)


def _locator(gpu: Dict[str, str]) -> str:
    return f"GPU {bus_id(gpu['pci.bus_id'])}"


def _lost_locator(line: str) -> str:
    found = re.search(r"([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])", line, re.IGNORECASE)
    return f"GPU {bus_id(found.group(1))}" if found else ""


def _judge_count(gpus: List[Dict[str, str]], profile: Profile, lost: int = 0) -> List[Finding]:
    """lost: GPUs that answer no more and are in no row; they are not missing from the board."""
    want, seen = profile.count("gpus"), ", ".join(bus_id(gpu["pci.bus_id"]) for gpu in gpus)
    missing = want - len(gpus) - lost
    if missing > 0:
        evidence = f"{len(gpus) + lost} GPUs, {want} expected; seen: {seen or 'none'}"
        return [_fail("gpu.missing", f"{missing} of {want} GPUs", evidence, "reseat")]
    if len(gpus) > want:
        return [_fail("gpu.unexpected", "", f"{len(gpus)} GPUs, {want} expected; seen: {seen}", "escalate")]
    return []


def _judge_names(gpus: List[Dict[str, str]], profile: Profile) -> List[Finding]:
    model = str(profile.gpus.get("model", ""))
    return [
        _fail("gpu.wrong_model", _locator(gpu), f"{gpu['name']}, expected {model}", "escalate")
        for gpu in gpus
        if model.lower() not in gpu["name"].lower()
    ]


def _judge_driver(gpus: List[Dict[str, str]], expect: Expect) -> List[Finding]:
    versions = sorted({gpu["driver_version"] for gpu in gpus})
    if len(versions) > 1:
        return [_fail("gpu.driver_mismatch", "", f"GPUs report drivers {', '.join(versions)}", "reboot")]
    wanted = str(expect.get("gpu_driver", ""))
    if wanted and versions and versions[0] != wanted:
        return [_fail("gpu.driver_version", "", f"driver {versions[0]}, expected {wanted}", "escalate")]
    return []


CHECKS = [Check(NAME, "quick", reads, judge, needs=("gpus.count", "gpus.model"))]
