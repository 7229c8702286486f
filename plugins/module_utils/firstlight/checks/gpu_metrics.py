"""What dcgm-exporter serves: metrics of every GPU, the counters that matter among them.

Runs where the site names ``dcgm_exporter`` among its exporters and the profile has GPUs.
"""

from __future__ import annotations

import re
from typing import Dict, List, Set

from ..findings import Finding
from ..profile import Profile
from .capture import REFUSED, Get, Source
from .engine import Captured, Check, Expect, not_known, ok, unreadable

NAME = "gpu_metrics"
EXPORTER = "dcgm_exporter"

# what told the truth in the field, by DCGM's names; a GPU that does not say one of them is blind there
FIELDS = (
    "DCGM_FI_DEV_SM_CLOCK",
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
    "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_XID_ERRORS",
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
    "DCGM_FI_DEV_ROW_REMAP_FAILURE",
)
NVLINK_FIELD = "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"  # where the profile has NVLink
_SAMPLE = re.compile(r'^(DCGM_\w{1,80})\{(?:[^\n]{0,500}?,)?UUID="([^"\n]{1,80})"', re.MULTILINE)


def reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    port = (expect.get("exporters") or {}).get(EXPORTER)
    if port is None or profile.count("gpus") == 0:
        return {}
    return {"metrics": Get(f"127.0.0.1:{int(port)}", "/metrics", 10.0, 4 * 1024 * 1024)}


def parse_metrics(text: str) -> Dict[str, Set[str]]:
    """By GPU (its UUID) the names of what is told of it."""
    found: Dict[str, Set[str]] = {}
    for name, uuid in _SAMPLE.findall(text):
        found.setdefault(uuid, set()).add(name)
    return found


def judge(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    output = captured["metrics"]
    if output.problem == REFUSED:
        return [_fail("dcgm.not_answering", f"/metrics: {output.errors}", "escalate")]
    if output.problem:
        return not_known(NAME, output, "dcgm-exporter /metrics")
    if output.code != 200:
        return [_fail("dcgm.not_answering", f"/metrics: HTTP {output.code} {output.text[:200]}", "escalate")]
    gpus, want = parse_metrics(output.text), profile.count("gpus")
    if not gpus and output.text.strip() and "DCGM_" not in output.text:
        return unreadable(NAME, output.text, "dcgm-exporter /metrics")
    if len(gpus) < want:
        evidence = f"metrics of {len(gpus)} GPUs, {want} expected; seen: {', '.join(sorted(gpus)) or 'none'}"
        return [_fail("dcgm.gpu_missing", evidence, "escalate", f"{want - len(gpus)} of {want} GPUs")]
    findings: List[Finding] = []
    for field in (*FIELDS, *([NVLINK_FIELD] if profile.gpus.get("nvlink") else [])):
        silent = sorted(uuid for uuid, names in gpus.items() if field not in names)
        if silent:
            evidence = f"{field} is not told of {len(silent)} of {len(gpus)} GPUs: {', '.join(silent)}"
            findings.append(Finding(NAME, "warn", "dcgm.counter_missing", field, evidence))
    return findings or ok(NAME, f"{len(gpus)} GPUs, {len(set().union(*gpus.values()) if gpus else ())} counters")


def _fail(symptom: str, evidence: str, action: str, locator: str = "nvidia-dcgm-exporter.service") -> Finding:
    return Finding(NAME, "fail", symptom, locator, evidence, action)


CHECKS = [Check(NAME, "quick", reads, judge, needs=("gpus.count", "expect.exporters"))]
