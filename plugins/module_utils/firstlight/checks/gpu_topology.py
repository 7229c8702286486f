"""How GPUs, NICs and CPUs hang together: NVLinks between every two GPUs, NUMA nodes, a NIC near each GPU.

Reads ``nvidia-smi topo -m``, where the profile has ``gpus.topology`` or ``gpus.nvswitch``. With NVSwitch and no number
given, every two GPUs must be joined by NVLink, all by as many. ``gpus.topology`` is {gpus (what must stand between
every two of them: ``NV18``), nics (how far the nearest NIC may be from a GPU: ``PIX``, ``PXB``, ``PHB``, ``NODE``),
numa (the NUMA node of each GPU, in their order)}; what is not given is not judged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional

from ..findings import Finding
from ..profile import Profile
from .capture import Command, Source
from .engine import Captured, Check, Expect, asked, not_known, ok, unknown, unreadable
from .gpu import QUERY, expected, fewer_than_expected
from .gpu_log import parse_log

NAME = "gpu_topology"
MATRIX = Command(("nvidia-smi", "topo", "-m"), limit=30.0)
NEAR = ("PIX", "PXB", "PHB", "NODE", "SYS")  # the nearest first

_CONTROL = re.compile(r"\x1b\[[0-9;]{0,8}m")
_GPU = re.compile(r"^GPU\d{1,3}$")
_NOT_A_NIC = re.compile(r"^(CPU Affinity|NUMA Affinity|GPU NUMA ID)$")
_NUMA, _COLUMNS_MAX = "NUMA Affinity", 512
_WAY = re.compile(r"^(X|NV\d{1,3}|PIX|PXB|PHB|NODE|SYS)$")


@dataclass
class Row:
    """A GPU's row. gpus, nics: the way to each of the others by name, such as NV18, PXB. numa: empty if not told."""

    name: str
    gpus: Dict[str, str] = field(default_factory=dict)
    nics: Dict[str, str] = field(default_factory=dict)
    numa: str = ""


def reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    has = expected(profile) and (profile.gpus.get("topology") or profile.gpus.get("nvswitch"))
    if not has and not asked(expect, NAME):
        return {}
    return {"topology": MATRIX, "nvidia_smi": QUERY}


def parse_matrix(text: str) -> Optional[List[Row]]:
    """The GPUs' rows of ``nvidia-smi topo -m``; None when it is not that, or a row does not fit its heading."""
    lines = [[cell.strip() for cell in _CONTROL.sub("", line).split("\t")] for line in text.splitlines()]
    start = next((i for i, cells in enumerate(lines) if len(cells) > 1 and not cells[0] and cells[1] == "GPU0"), None)
    if start is None or len(lines[start]) > _COLUMNS_MAX:
        return None
    heading = lines[start]
    rows: List[Row] = []
    gpus = [name for name in heading if _GPU.match(name)]
    for cells in lines[start + 1 :]:
        if not _GPU.match(cells[0]):
            continue
        if len(rows) >= len(gpus):
            return None
        told = dict(zip(heading[1:], cells[1:]))  # noqa: B905 - the last columns may be empty, and left out
        row = Row(cells[0], numa=told.get(_NUMA, ""))
        for name, way in told.items():
            if not name or _NOT_A_NIC.match(name):
                continue
            if not _WAY.match(way):
                return None
            (row.gpus if _GPU.match(name) else row.nics)[name] = way
        if sorted(row.gpus) != sorted(gpus):
            return None
        row.gpus.pop(row.name, None)
        rows.append(row)
    return rows if [row.name for row in rows] == gpus else None


def judge(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    output = captured["topology"]
    if output.problem or output.code:
        return not_known(NAME, output, "nvidia-smi topo -m")
    rows = parse_matrix(output.text)
    if rows is None:
        return unreadable(NAME, output.text, "nvidia-smi topo -m")
    log = parse_log(captured["nvidia_smi"].text)
    same = log is not None and len(log.gpus) == len(rows)
    places = {row.name: f"GPU {log.gpus[i].bus}" if log and same else row.name for i, row in enumerate(rows)}
    want = profile.gpus.get("topology") or {}
    findings = fewer_than_expected(NAME, len(rows), log, profile, "nvidia-smi topo -m")
    numa_of_all = [] if findings else _judge_numa(rows, places, want.get("numa"))
    findings += _judge_gpus(rows, places, want, profile)
    findings += _judge_nics(rows, places, str(want.get("nics", "")))
    findings += numa_of_all
    ways = sorted({way for row in rows for way in row.gpus.values()})
    nics = sorted({_nearest(row) for row in rows})
    numa = " ".join(row.numa or "-" for row in rows)
    return findings or ok(
        NAME,
        f"{len(rows)} GPUs, between them {', '.join(ways) or 'nothing'}; nearest NIC {', '.join(nics)}; NUMA {numa}",
    )


def _fail(symptom: str, locator: str, evidence: str, action: str) -> Finding:
    return Finding(NAME, "fail", symptom, locator, evidence, action)


def _judge_gpus(rows: List[Row], places: Dict[str, str], want: Dict[str, Any], profile: Profile) -> List[Finding]:
    ways = [way for row in rows for way in row.gpus.values()]
    usual = str(want.get("gpus", ""))
    if not usual and profile.gpus.get("nvswitch") and ways:
        links = [int(way[2:]) for way in ways if way.startswith("NV")]
        usual = f"NV{max(links)}" if links else "NVLink"
    findings = []
    for row in rows if usual else []:
        wrong = {other: way for other, way in row.gpus.items() if way != usual}
        if wrong:
            evidence = f"{usual} expected; {', '.join(f'{way} to {other}' for other, way in wrong.items())}"
            findings.append(_fail("gpu.wrong_link", f"{places[row.name]} ({row.name})", evidence, "reboot"))
    return findings


def _nearest(row: Row) -> str:
    return min((way for way in row.nics.values() if way in NEAR), key=NEAR.index, default="none")


def _judge_nics(rows: List[Row], places: Dict[str, str], furthest: str) -> List[Finding]:
    if furthest not in NEAR:
        return []
    findings = []
    for row in rows:
        nearest = _nearest(row)
        if nearest == "none" or NEAR.index(nearest) > NEAR.index(furthest):
            told = ", ".join(f"{name} {way}" for name, way in row.nics.items()) or "no NIC"
            evidence = f"no NIC at {furthest} or nearer: {told}"
            findings.append(_fail("gpu.far_from_nic", f"{places[row.name]} ({row.name})", evidence, "escalate"))
    return findings


def _judge_numa(rows: List[Row], places: Dict[str, str], nodes: Any) -> List[Finding]:
    if not isinstance(nodes, list):
        return []
    if len(nodes) != len(rows):
        evidence = f"NUMA nodes of {len(nodes)} GPUs are known, {len(rows)} GPUs are there"
        return [unknown(NAME, "incomplete", evidence)]
    return [
        _fail(
            "gpu.wrong_numa",
            f"{places[row.name]} ({row.name})",
            f"NUMA node {row.numa or 'N/A'}, {node} expected",
            "escalate",
        )
        for row, node in zip(rows, nodes)  # noqa: B905 - of one length; strict= needs Python 3.10
        if row.numa != str(node)
    ]


CHECKS = [Check(NAME, "quick", reads, judge, needs=("gpus.topology", "gpus.nvswitch"))]
