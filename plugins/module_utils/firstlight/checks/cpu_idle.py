"""C-states: no CPU may sleep so deeply that it wakes late (``limits.cpu_idle_microseconds``, their exit latency).

What limits them can be the kernel's command line, states switched off in /sys, or a process that holds
/dev/cpu_dma_latency (tuned does, with ``force_latency``): all three are read, whoever set them.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Dict, List, Optional

from ..findings import Finding
from ..profile import Profile
from .capture import Command, Source
from .engine import Captured, Check, Expect, asked, not_known, ok, unknown, unreadable
from .pcie_acs import VIRTUALIZATION

NAME = "cpu_idle"
_STATES_MAX = 4096

# Prints {"driver": text, "states": [[name, latency, disable, number of CPUs, first CPU]], "qos": microseconds}
_READER = r"""
import glob, json, os, struct
def read(path):
    try:
        with open(path) as f:
            return f.read(256).strip()
    except OSError:
        return None
states = {}
for folder in glob.glob("/sys/devices/system/cpu/cpu[0-9]*/cpuidle/state[0-9]*")[:65536]:
    cpu = int(folder.split("/")[5][3:])
    key = tuple(read(os.path.join(folder, name)) for name in ("name", "latency", "disable"))
    count, first = states.get(key, (0, cpu))
    states[key] = (count + 1, min(first, cpu))
qos = None
try:
    fd = os.open("/dev/cpu_dma_latency", os.O_RDONLY)
    qos = struct.unpack("=i", os.read(fd, 4))[0]
except (OSError, struct.error):
    pass
print(json.dumps({"driver": read("/sys/devices/system/cpu/cpuidle/current_driver"), "qos": qos,
                  "states": [list(key) + list(value) for key, value in sorted(states.items(), key=str)]}))
"""
_SYSFS = Command((sys.executable or "python3", "-I", "-S", "-c", _READER), limit=8.0)


def reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    if "cpu_idle_microseconds" not in profile.limits and not asked(expect, NAME):
        return {}
    return {"sysfs": _SYSFS, "virtualization": VIRTUALIZATION}


def judge(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    output, machine = captured["sysfs"], captured["virtualization"]
    if output.problem or output.code:
        return not_known(NAME, output, "/sys/devices/system/cpu/cpu*/cpuidle")
    try:
        said = json.loads(output.text)
        rows = [[_number(row[1]), str(row[0]), row[2] == "1", int(row[3]), int(row[4])] for row in said["states"]]
        qos, driver = _number(said["qos"]), str(said["driver"] or "none")
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, OverflowError):
        return unreadable(NAME, output.text, "/sys/devices/system/cpu/cpu*/cpuidle")
    if len(rows) > _STATES_MAX:
        return unreadable(NAME, "", "/sys/devices/system/cpu/cpu*/cpuidle")
    if not rows:
        return _no_states(machine.text.strip()[:32] if not machine.problem else "", driver)
    if "cpu_idle_microseconds" not in profile.limits:
        return [unknown(NAME, "not_expected", "the profile has no limits.cpu_idle_microseconds")]
    limit = profile.limit("cpu_idle_microseconds", 0)
    if any(row[0] is None for row in rows):
        return [unknown(NAME, "unreadable", "a state without a latency")]
    on = [row for row in rows if not row[2] and row[0] > limit]
    if on and qos is not None and qos <= limit:
        return ok(NAME, f"/dev/cpu_dma_latency is held at {qos} µs, limit {limit:g} µs")
    if on:
        said = ", ".join(f"{name} ({latency} µs) on {count} CPUs" for latency, name, _, count, _ in on[:8])
        evidence = f"enabled: {said}; limit {limit:g} µs, driver {driver[:32]}"
        return [
            Finding(
                NAME,
                "fail",
                "cpu.deep_sleep",
                f"CPU {min(row[4] for row in on)}" + (" and more" if sum(row[3] for row in on) > 1 else ""),
                evidence,
                "escalate",
            )
        ]
    deepest = max((row for row in rows if not row[2]), key=lambda row: row[0], default=None)
    return ok(NAME, f"deepest is {deepest[1]}, {deepest[0]} µs" if deepest else "every state is switched off")


def _no_states(kind: str, driver: str) -> List[Finding]:
    if kind and kind != "none":
        said = f"runs in {kind}, whose machine decides how deeply its CPUs sleep"
        return [Finding(NAME, "warn", f"{NAME}.virtual", "", said)]
    if kind == "none" and driver == "none":  # idle=poll, or cpuidle.off: then no CPU sleeps but by its own halt
        return ok(NAME, "no cpuidle driver: CPUs only halt or poll")
    return [unknown(NAME, "no_states", f"no state in /sys, driver {driver[:32]}")]


def _number(value: Any) -> Optional[int]:
    text = str(value)
    return int(text) if text.isdecimal() and len(text) < 12 else None


CHECKS = [Check(NAME, "quick", reads, judge, needs=("limits.cpu_idle_microseconds",))]
