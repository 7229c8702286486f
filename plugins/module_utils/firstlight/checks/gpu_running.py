"""What GPUs are doing: nobody else's processes, not throttled, power limit, clocks and temperature as they should be.

Reads ``nvidia-smi -q -x``. A host that is judged has no work: any process on a GPU is unwanted, unless
``expect.gpu_processes`` names it (patterns with ``*``, of the path or its last part). In a container processes of
others are not seen; memory that is in use tells of them.
Idle and the power cap hold clocks down on a healthy GPU, and are not judged.
"""

from __future__ import annotations

import fnmatch
import re
from typing import Any, Dict, List, Optional, Tuple

from ..findings import Finding
from ..profile import Profile
from .compared import joined, told
from .engine import Captured, Check, Expect, unknown
from .gpu import conclude, read_log, reads
from .gpu_log import Gpu

NAME = "gpu_running"
MEMORY_USED_MIB = 1024  # an idle H100 uses none, drivers before 510 count some 500 of their own
# before driver 535 they were called throttle reasons
_REASON = re.compile(r"^clocks_(?:event|throttle)_reasons/clocks_(?:event|throttle)_reason_(\w{1,60})$")
_HARMLESS = ("gpu_idle", "sw_power_cap")
_REASONS: Dict[str, Tuple[str, str, str]] = {
    "hw_thermal_slowdown": ("fail", "too hot, clocks halved or less", "escalate"),
    "hw_power_brake_slowdown": ("fail", "the power supply asserts the power brake", "escalate"),
    "sw_thermal_slowdown": ("fail", "warmer than its operating temperature", "escalate"),
    # seen for a moment at changes of clocks too; what lasts has one of the causes above
    "hw_slowdown": ("warn", "clocks halved or less, no cause told", "none"),
    "sync_boost": ("warn", "a sync boost group holds it down", "none"),
    "applications_clocks_setting": ("warn", "application clocks are set", "none"),
    "display_clocks_setting": ("warn", "a display holds it down", "none"),
}
_MUST = tuple(name for name in _REASONS if "slowdown" in name)  # those that every GPU and driver tells
_LIMIT = ("gpu_power_readings/current_power_limit", "power_readings/enforced_power_limit", "power_readings/power_limit")
_DRAW = (
    "gpu_power_readings/average_power_draw",
    "gpu_power_readings/power_draw",
    "gpu_power_readings/instant_power_draw",
    "power_readings/power_draw",
)
_DEFAULT = ("gpu_power_readings/default_power_limit", "power_readings/default_power_limit")


def judge(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    output = captured["nvidia_smi"]
    log, findings = read_log(NAME, output)
    if log is None:
        return findings
    for gpu in log.gpus:
        found = _judge_processes(gpu, profile, expect) + _judge_reasons(gpu) + _judge_power(gpu, profile)
        found += _judge_clocks(gpu, profile) + _judge_temperature(gpu, profile)
        findings += [finding for finding in found if finding.status != "unknown"]
        odd = [finding.evidence for finding in found if finding.status == "unknown"]
        if odd:
            findings.append(unknown(NAME, "unreadable", f"not told: {', '.join(odd)}", gpu.locator))
    hottest = max((gpu.number("temperature/gpu_temp") or 0.0 for gpu in log.gpus), default=0.0)
    return conclude(NAME, output, findings, f"{len(log.gpus)} GPUs free, not throttled, at most {hottest:g} C")


def _finding(gpu: Gpu, status: str, symptom: str, evidence: str, action: str = "none") -> Finding:
    return Finding(NAME, status, symptom, gpu.locator, evidence, action)


def _odd(gpu: Gpu, what: str, value: str) -> Finding:
    return unknown(NAME, "unreadable", f"{what} {value or 'N/A'}", gpu.locator)


def wanted(name: str, patterns: Any) -> bool:
    """Whether one of these patterns is for this process, by its path or the last part of that."""
    listed = patterns if isinstance(patterns, (list, tuple)) else ()
    names = (name, name.split(" ")[0].rpartition("/")[2])
    return any(fnmatch.fnmatchcase(word, str(pattern)) for word in names for pattern in listed)


def _judge_processes(gpu: Gpu, profile: Profile, expect: Expect) -> List[Finding]:
    patterns = expect.get("gpu_processes") or ()
    names = [process.get("process_name") or "name not told" for process in gpu.processes]
    unwanted = [
        f"{process.get('pid', '?')} {name} {process.get('used_memory', '')}".strip()
        for process, name in zip(gpu.processes, names)  # noqa: B905 - of one length; strict= needs Python 3.10
        if not wanted(name, patterns)
    ]
    if unwanted:
        more = f"; and {len(unwanted) - 5} more" if len(unwanted) > 5 else ""
        return [_finding(gpu, "fail", "gpu.process", "; ".join(unwanted[:5]) + more, "escalate")]
    used, most = gpu.number("fb_memory_usage/used"), profile.limit("gpu_memory_used_mib", MEMORY_USED_MIB)
    if used is None:
        return [_odd(gpu, "memory in use", gpu.get("fb_memory_usage/used"))]
    if used > most and not patterns:
        evidence = f"{used:g} MiB of its memory are in use, limit {most:g}, and no process is seen"
        return [_finding(gpu, "fail", "gpu.memory_in_use", evidence, "reboot")]
    return []


def _judge_reasons(gpu: Gpu) -> List[Finding]:
    told = {found.group(1): value for path, value in gpu.values.items() for found in [_REASON.match(path)] if found}
    states = {name: value for name, value in told.items() if value in ("Active", "Not Active")}
    if not states:
        return [_odd(gpu, "clock event reasons", next(iter(told.values()), ""))]
    active = [name for name, value in states.items() if value == "Active" and name not in _HARMLESS]
    if any(name.startswith("hw_") and name != "hw_slowdown" for name in active):
        active = [name for name in active if name != "hw_slowdown"]  # which only sums up the others
    kind = next(_REASON.match(path) for path in gpu.values if _REASON.match(path))
    prefix = kind.group(0)[: -len(kind.group(1))] if kind else ""
    odd = [name for name in _REASONS if name not in states and (name in _MUST or gpu.get(prefix + name))]
    findings = [_odd(gpu, name, told.get(name, "")) for name in odd]
    for name in active:
        status, meaning, action = _REASONS.get(name, ("warn", "a reason that is not known", "none"))
        symptom = "gpu.throttled" if status == "fail" else "gpu.clocks_held"
        findings.append(_finding(gpu, status, symptom, f"{name}: {meaning}", action))
    return findings


def _judge_power(gpu: Gpu, profile: Profile) -> List[Finding]:
    limit, usual, want = gpu.number(*_LIMIT), gpu.number(*_DEFAULT), profile.gpus.get("power_watts")
    if want is not None:
        if limit is None:
            return [_odd(gpu, "power limit", gpu.get(*_LIMIT))]
        if abs(limit - float(want)) > 1:
            evidence = f"power limit {limit:g} W, the profile wants {want:g} W"
            return [_finding(gpu, "fail", "gpu.power_limit", evidence, "escalate")]
    elif (limit is None) != (usual is None):
        return [_odd(gpu, "power limit and its default", gpu.get(*_LIMIT) or gpu.get(*_DEFAULT))]
    elif limit is not None and usual is not None and limit < usual - 1:
        return [_finding(gpu, "warn", "gpu.power_limit", f"power limit {limit:g} W, its default is {usual:g} W")]
    return []


def _judge_clocks(gpu: Gpu, profile: Profile) -> List[Finding]:
    findings = []
    most, want = gpu.number("max_clocks/sm_clock"), profile.gpus.get("sm_mhz")
    if want is not None and most is None:
        findings.append(_odd(gpu, "highest SM clock", gpu.get("max_clocks/sm_clock")))
    elif want is not None and most is not None and most < float(want):
        evidence = f"highest SM clock {most:g} MHz, the profile wants {want:g} MHz"
        findings.append(_finding(gpu, "fail", "gpu.slow_clocks", evidence, "escalate"))
    now, usual = (gpu.number(f"{kind}applications_clocks/graphics_clock") for kind in ("", "default_"))
    if (now is None) != (usual is None):
        findings.append(_odd(gpu, "application clocks and their default", f"{now or 'N/A'}, {usual or 'N/A'}"))
    if now is not None and usual is not None and now < usual:
        evidence = f"application clocks are set to {now:g} MHz, default is {usual:g} MHz (nvidia-smi -rac)"
        findings.append(_finding(gpu, "warn", "gpu.clocks_held", evidence))
    return findings


def _judge_temperature(gpu: Gpu, profile: Profile) -> List[Finding]:
    """Hopper and later tell how far they are below the slowdown (T.Limit), the others their thresholds."""
    now, left = gpu.number("temperature/gpu_temp"), gpu.number("temperature/gpu_temp_tlimit")
    if now is None:
        return [_odd(gpu, "temperature", gpu.get("temperature/gpu_temp"))]
    most = profile.limits.get("gpu_celsius")
    slow = gpu.number("temperature/gpu_temp_max_gpu_threshold", "temperature/gpu_temp_slow_threshold")
    least = gpu.number("temperature/gpu_temp_max_gpu_tlimit_threshold") or 0.0
    memory, memory_most = (gpu.number(f"temperature/{t}") for t in ("memory_temp", "gpu_temp_max_mem_threshold"))
    if left is None and slow is None and most is None:
        return [_odd(gpu, f"temperature {now:g} C, and its threshold", "")]
    if memory is None and memory_most is not None:
        return [_odd(gpu, "temperature of the memory", gpu.get("temperature/memory_temp"))]
    why = ""
    if most is not None and now > most:
        why = f"limit {most:g} C"
    elif left is not None and left <= least:
        why = f"{left:g} C below its slowdown"
    elif left is None and slow is not None and now >= slow:
        why = f"threshold {slow:g} C"
    elif memory is not None and memory_most is not None and memory >= memory_most:
        why = f"memory at {memory:g} C, threshold {memory_most:g} C"
    return [_finding(gpu, "fail", "gpu.hot", f"{now:g} C: {why}", "escalate")] if why else []


def values(captured: Captured, profile: Profile) -> Dict[str, Any]:
    """Limits and clocks as they are set; heat and power only of GPUs that all rest: at work they are the job's."""
    log, _ = read_log(NAME, captured["nvidia_smi"])
    gpus = log.gpus if log else ()
    found: Dict[str, Any] = {
        "gpu.power_limit_watts": joined(_text(gpu.number(*_LIMIT)) for gpu in gpus),
        "gpu.sm_mhz": joined(_text(gpu.number("max_clocks/sm_clock")) for gpu in gpus),
        "gpu.memory_mhz": joined(_text(gpu.number("max_clocks/mem_clock")) for gpu in gpus),
        "gpu.clocks_held": joined(reason for gpu in gpus for reason in _held(gpu)),
    }
    if gpus and all(_rests(gpu, profile) for gpu in gpus):
        heat, power = ([gpu.number(*paths) for gpu in gpus] for paths in (("temperature/gpu_temp",), _DRAW))
        found["gpu.idle_celsius_max"] = max((value for value in heat if value is not None), default=None)
        found["gpu.idle_watts_max"] = max((value for value in power if value is not None), default=None)
    return told(found)


def _text(number: Optional[float]) -> str:
    return "" if number is None else f"{number:g}"


def _held(gpu: Gpu) -> List[str]:
    """What holds its clocks down, ``none`` for nothing."""
    named = {found.group(1): value for path, value in gpu.values.items() for found in [_REASON.match(path)] if found}
    active = [name for name, value in named.items() if value == "Active" and name not in _HARMLESS]
    return active or (["none"] if "Not Active" in named.values() else [])


def _rests(gpu: Gpu, profile: Profile) -> bool:
    used = gpu.number("fb_memory_usage/used")
    most = profile.limit("gpu_memory_used_mib", MEMORY_USED_MIB)
    return not gpu.processes and not gpu.number("utilization/gpu_util") and used is not None and used <= most


CHECKS = [
    Check(
        NAME,
        "quick",
        reads,
        judge,
        needs=(
            "gpus.count",
            "gpus.power_watts",
            "gpus.sm_mhz",
            "limits.gpu_celsius",
            "limits.gpu_memory_used_mib",
            "expect.gpu_processes",
        ),
        values=values,
    )
]
