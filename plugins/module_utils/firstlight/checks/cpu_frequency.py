"""CPU frequency: governor and energy preference of every online CPU, and caps that make a host slow.

The frequency is measured too: one core of each package is kept busy for a moment, and the kernel tells how fast it
ran. A core that stays near 2 GHz with every setting right is a matter of BIOS or power supply.

What CPUs can be set to is ``scaling_available_frequencies`` where the driver has such a table (acpi-cpufreq), else
``cpuinfo_max_freq``. With a table the latter is no measure: acpi-cpufreq tells the boost clock there, as CPPC has it,
while ``scaling_max_freq`` of a good host is the table's highest, and ``bios_limit`` is ACPI's P-state 0, which is the
same: the base clock. The hardware boosts above it by itself (``cpufreq/boost``).
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..findings import Finding
from ..profile import Profile
from .capture import Command, Output, Source
from .compared import LOAD, idle, joined, per_day, told, uptime
from .engine import Captured, Check, Expect, asked, not_known, ok, unknown, unreadable
from .pcie_acs import VIRTUALIZATION

NAME = "cpu_frequency"
DEFAULT_BUSY_PERCENT = 80.0  # of the base frequency
UNKNOWN_BASE = 0.7  # of the highest, where the base frequency is not told: what base is to turbo on servers
_CPUS_MAX = 4096
_ALWAYS = ("scaling_max_freq", "cpuinfo_max_freq")  # the kernel gives them to every CPU that has cpufreq
_NOT_THERE = "None"  # as the reader writes a file that there is none of

# Prints {"cpus": {number: {file: text}}, "driver": {file: text}, "busy": {number: kHz}, "throttled": {package:
# {"core", "package": the most that a CPU of it has counted since boot}}}; the last is of Intel's alone
_READER = r"""
import json, os, sys, time
top = "/sys/devices/system/cpu"
def read(path):
    try:
        with open(path) as f:
            return f.read(4096).strip()
    except OSError:
        return None
def numbers(text):
    found = []
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            found += range(int(first), int(last or first) + 1)
    return found[:4096]
names = ("scaling_driver", "scaling_governor", "scaling_available_governors", "energy_performance_preference",
         "energy_performance_available_preferences", "cpuinfo_max_freq", "scaling_max_freq", "bios_limit",
         "base_frequency", "scaling_available_frequencies")
cpus, packages, throttled = {}, {}, {}
for n in numbers(read(top + "/online")):
    folder = "%s/cpu%d/cpufreq/" % (top, n)
    found = {name: read(folder + name) for name in names} if os.path.isdir(folder) else {}
    cpus[n] = {name: text for name, text in found.items() if text is not None}
    package = read("%s/cpu%d/topology/physical_package_id" % (top, n))
    if found:
        packages[package] = n
    for kind in ("core", "package"):
        text = read("%s/cpu%d/thermal_throttle/%s_throttle_count" % (top, n, kind))
        if text is not None and text.isdigit():
            most = throttled.setdefault(package, {})
            most[kind] = max(most.get(kind, 0), int(text[:15]))
driver = {name: read(top + "/intel_pstate/" + name) for name in ("status", "no_turbo", "max_perf_pct")}
driver["boost"] = read(top + "/cpufreq/boost")
busy = {}
for n in list(packages.values())[:8]:
    out, into = os.pipe()
    if os.fork() == 0:
        try:
            os.sched_setaffinity(0, [n])
            end = time.monotonic() + 0.25
            while time.monotonic() < end:
                for _ in range(1000):
                    pass
            os.write(into, (read("%s/cpu%d/cpufreq/scaling_cur_freq" % (top, n)) or "").encode())
        except OSError:
            pass
        os._exit(0)
    os.close(into)
    busy[n] = out
for n, out in busy.items():
    busy[n] = os.read(out, 64).decode("ascii", "replace")
print(json.dumps({"cpus": cpus, "driver": driver, "busy": busy, "throttled": throttled}))
"""
_SYSFS = Command((sys.executable or "python3", "-I", "-S", "-c", _READER), limit=8.0, max_bytes=8 * 1024 * 1024)

Values = Mapping[str, str]


def reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    wanted = profile.tuning.get("cpu_governor") or profile.tuning.get("cpu_energy_preference")
    if not wanted and not asked(expect, NAME):
        return {}
    return {"sysfs": _SYSFS, "virtualization": VIRTUALIZATION, "load": LOAD}


def parse(text: str) -> Optional[Tuple[Dict[int, Values], Values, Dict[int, str]]]:
    """Files by CPU, the driver's, and kHz by busy CPU, of what the reader printed; None when it is something else."""
    try:
        said = json.loads(text)
        cpus: Dict[int, Values] = {int(n): {str(k): str(v) for k, v in row.items()} for n, row in said["cpus"].items()}
        driver = {str(k): str(v) for k, v in said["driver"].items()}
        return cpus, driver, {int(n): str(khz).strip() for n, khz in said["busy"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def judge(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    output = captured["sysfs"]
    if output.problem or output.code:
        return not_known(NAME, output, "/sys/devices/system/cpu")
    said = parse(output.text)
    if said is None:
        return unreadable(NAME, output.text, "/sys/devices/system/cpu")
    cpus, driver, busy = said
    if not cpus or len(cpus) > _CPUS_MAX:
        return unreadable(NAME, output.text, "/sys/devices/system/cpu/online")
    without = sorted(n for n, row in cpus.items() if not row)
    if len(without) == len(cpus):
        return [_no_cpufreq(captured["virtualization"], f"none of {len(cpus)} CPUs has a cpufreq folder in /sys")]
    findings = []
    if without:
        evidence = f"no cpufreq folder in /sys, as the other {len(cpus) - len(without)} have"
        findings.append(_fail("cpu.no_cpufreq", _cpus(without), evidence, "escalate"))
    known = {n: row for n, row in cpus.items() if row}
    findings += _judge_word(known, profile.tuning.get("cpu_governor"), "cpu.governor", "scaling_governor")
    findings += _judge_preference(known, profile.tuning.get("cpu_energy_preference"))
    findings += _judge_caps(known, driver)
    measured = _judge_busy(known, busy, profile)
    findings += measured + _judge_throttled(output.text)
    if odd := _odd(known, driver, busy, output.text):
        more = f", and {len(odd) - 6} more" if len(odd) > 6 else ""
        findings.append(unknown(NAME, "unreadable", f"not told: {', '.join(odd[:6])}{more}"))
    if any(f.status != "ok" for f in findings):
        return [f for f in findings if f.status != "ok"]
    governors = sorted({row.get("scaling_governor", "") for row in known.values()})
    return ok(NAME, f"{len(known)} CPUs, {_driver(known)}, governor {', '.join(governors)}; {measured[0].evidence}")


def _odd(cpus: Mapping[int, Values], driver: Values, busy: Mapping[int, str], text: str) -> List[str]:
    """What every CPU with cpufreq tells, and these do not, or in no known form."""
    odd = []
    some = {key for row in cpus.values() for key in row}
    for key in ("scaling_max_freq", "cpuinfo_max_freq", "bios_limit", "base_frequency"):
        wanted = key in some or key in _ALWAYS
        silent = [n for n, row in cpus.items() if wanted and _number(row.get(key)) is None]
        odd += [f"{key} of {_cpus(silent)}"] if silent else []
    for key in ("scaling_available_frequencies", "energy_performance_preference"):
        words = {n: row.get(key, "").split() for n, row in cpus.items()}
        table = key == "scaling_available_frequencies"
        silent = [n for n, said in words.items() if not said or (table and None in map(_number, said))]
        odd += [f"{key} of {_cpus(silent)}"] if silent and key in some else []
    # which of these there are depends on driver and kernel
    for key in ("no_turbo", "boost", "max_perf_pct"):
        value = driver.get(key, _NOT_THERE)
        if value != _NOT_THERE and (_number(value) is None or (key != "max_perf_pct" and value not in ("0", "1"))):
            odd.append(f"{key} {value[:20] or 'empty'}")
    odd += [f"how fast CPU {n} runs busy: {khz[:20] or 'nothing'}" for n, khz in busy.items() if _number(khz) is None]
    odd += [] if busy else ["how fast a busy CPU runs"]
    return odd if throttled(text) is not None else [*odd, "how often cores were slowed down for heat"]


def _no_cpufreq(machine: Output, evidence: str) -> Finding:
    kind = machine.text.strip()
    if machine.problem or not kind:
        return unknown(NAME, "no_cpufreq", f"{evidence}; whether this is bare metal is not known")
    if kind != "none":
        return Finding(NAME, "warn", "cpu.no_cpufreq", "", f"{evidence}; it runs in {kind}, whose machine decides")
    said = f"{evidence}; let the BIOS leave P-states to the operating system (OS DBPM, OS control)"
    return _fail("cpu.no_cpufreq", "", said, "escalate")


def _driver(cpus: Mapping[int, Values]) -> str:
    return ", ".join(sorted({row.get("scaling_driver", "no driver") for row in cpus.values()}))


def _judge_word(cpus: Mapping[int, Values], wanted: Optional[str], symptom: str, key: str) -> List[Finding]:
    if not wanted:
        return []
    wrong: Dict[str, List[int]] = {}
    for n, row in cpus.items():
        if row.get(key) != wanted:
            wrong.setdefault(row.get(key, "nothing"), []).append(n)
    offered = next((row.get("scaling_available_governors", "") for row in cpus.values()), "")
    more = f"; {_driver(cpus)} offers {offered}" if key == "scaling_governor" and wanted not in offered.split() else ""
    return [_fail(symptom, _cpus(ns), f"{seen}, expected {wanted}{more}", "retry") for seen, ns in wrong.items()]


def _judge_preference(cpus: Mapping[int, Values], wanted: Optional[str]) -> List[Finding]:
    # acpi-cpufreq, and intel_pstate without HWP, have none: the governor decides alone
    able = {n: row for n, row in cpus.items() if "energy_performance_preference" in row}
    return _judge_word(able, wanted, "cpu.energy_preference", "energy_performance_preference")


def _number(text: Optional[str]) -> Optional[float]:
    return float(text) if text and re.fullmatch(r"[0-9]{1,12}", text) else None


def _settable(row: Values) -> Optional[float]:
    """The highest clock in kHz that this CPU can be set to; None where the kernel does not tell."""
    table = [khz for khz in map(_number, row.get("scaling_available_frequencies", "").split()) if khz]
    if table or row.get("scaling_driver") == "acpi-cpufreq":
        return max(table, default=None)
    return _number(row.get("cpuinfo_max_freq"))


def _base(row: Values) -> Optional[float]:
    """The base clock in kHz. Where acpi-cpufreq has a table its highest entry is that one, or 1 MHz above."""
    base = _number(row.get("base_frequency"))
    return base or (_settable(row) if row.get("scaling_driver") == "acpi-cpufreq" else None)


def _judge_caps(cpus: Mapping[int, Values], driver: Values) -> List[Finding]:
    """What keeps CPUs below what the hardware can, by settings."""
    capped: Dict[str, List[int]] = {}
    for n, row in cpus.items():
        highest = _settable(row)
        for key, symptom in (("scaling_max_freq", "cpu.capped"), ("bios_limit", "cpu.bios_limit")):
            limit = _number(row.get(key))
            if highest and limit is not None and limit < highest * 0.99:
                capped.setdefault(f"{symptom} {key} {_mhz(limit)}, highest {_mhz(highest)}", []).append(n)
    findings = []
    for said, ns in capped.items():
        symptom, _, evidence = said.partition(" ")
        findings.append(_fail(symptom, _cpus(ns), evidence, "escalate"))
    if driver.get("no_turbo") == "1":
        findings.append(Finding(NAME, "warn", "cpu.no_turbo", "", "intel_pstate/no_turbo is 1"))
    if driver.get("boost") == "0":
        findings.append(Finding(NAME, "warn", "cpu.no_turbo", "", "cpufreq/boost is 0"))
    share = _number(driver.get("max_perf_pct"))
    if share is not None and share < 100:
        findings.append(_fail("cpu.capped", "", f"intel_pstate/max_perf_pct is {share:.0f}, expected 100", "escalate"))
    return findings


def _judge_busy(cpus: Mapping[int, Values], busy: Mapping[int, str], profile: Profile) -> List[Finding]:
    share = profile.limit("cpu_busy_percent", DEFAULT_BUSY_PERCENT)
    findings, seen = [], []
    for n, text in busy.items():
        row, khz = cpus.get(n, {}), _number(text)
        base, highest = _base(row), _number(row.get("cpuinfo_max_freq"))
        if khz is None or not (base or highest):
            continue
        normal = base or (highest or 0) * UNKNOWN_BASE
        seen.append(f"CPU {n} busy at {_mhz(khz)}")
        if khz < normal * share / 100:
            of = f"base frequency {_mhz(base)}" if base else f"highest {_mhz(highest or 0)}, base not told"
            evidence = f"busy it runs at {_mhz(khz)}; {of}; limit {_mhz(normal * share / 100)}"
            findings.append(_fail("cpu.slow", f"CPU {n}", evidence, "escalate"))
    if findings:
        return findings
    return ok(NAME, ", ".join(seen) if seen else "frequency under load not told")


def throttled(text: str) -> Optional[Dict[str, Dict[str, int]]]:
    """How often cores, and the package, were slowed down for their heat since boot, by package; of Intel's alone.

    None where what was printed is something else.
    """
    try:
        rows = json.loads(text)["throttled"]
        return {str(n): {k: int(row[k]) for k in ("core", "package") if k in row} for n, row in rows.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return None


def _judge_throttled(text: str) -> List[Finding]:
    findings = []
    for package, counts in (throttled(text) or {}).items():
        if any(counts.values()):
            said = f"slowed down for heat since boot: a core {counts.get('core', 0)} times, "
            said += f"the package {counts.get('package', 0)} times"
            findings.append(Finding(NAME, "warn", "cpu.throttled", f"package {package}", said))
    return findings


def _mhz(khz: float) -> str:
    return f"{khz / 1000:.0f} MHz"


def _cpus(numbers: List[int]) -> str:
    """``CPU 0-3, 8``."""
    ranges: List[List[int]] = []
    for n in sorted(numbers):
        if ranges and ranges[-1][1] == n - 1:
            ranges[-1][1] = n
        else:
            ranges.append([n, n])
    return "CPU " + ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def _fail(symptom: str, locator: str, evidence: str, action: str) -> Finding:
    return Finding(NAME, "fail", symptom, locator, evidence, action)


def values(captured: Captured, profile: Profile) -> Dict[str, Any]:
    """How the CPUs are set; how fast one runs, only of a host that has nothing else to do: else it shares the power."""
    said = parse(captured["sysfs"].text)
    if said is None or not said[0]:
        return {}
    cpus, _, busy = said
    found: Dict[str, Any] = {
        "cpu.driver": joined(row.get("scaling_driver", "") for row in cpus.values()),
        "cpu.governor": joined(row.get("scaling_governor", "") for row in cpus.values()),
    }
    speeds = [khz for khz in map(_number, busy.values()) if khz]
    if speeds and idle(captured.get("load")):
        found["cpu.busy_mhz_min"] = round(min(speeds) / 1000)
    counts = [count for row in (throttled(captured["sysfs"].text) or {}).values() for count in row.values()]
    found["cpu.throttles_per_day"] = per_day(max(counts), uptime(captured.get("load"))) if counts else None
    return told(found)


CHECKS = [
    Check(
        NAME,
        "quick",
        reads,
        judge,
        needs=("tuning.cpu_governor", "tuning.cpu_energy_preference", "limits.cpu_busy_percent"),
        values=values,
    )
]
