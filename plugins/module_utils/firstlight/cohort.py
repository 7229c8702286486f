"""The fleet view: hosts of one profile beside each other. Who differs is told, also where no threshold is broken. Pure.

What is compared are the values that checks offer (``Check.values``), by name. Texts must be what nearly all have. Of
numbers those of NUMBERS are judged, against the median; a number that is not named there is not judged, since nobody
has said how much of it is noise.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .findings import Finding, shorten

CHECK = "cohort"
HOSTS_MIN = 5  # of fewer one cannot say which are the odd ones
# Where less than this share has one value, or lies near the median, there are two groups and not some odd hosts: half
# of the fleet has the new driver already, two kinds of drives were bought.
MAJORITY = 0.75
# In standard deviations, as the median absolute deviation estimates them (by SIGMA, for a normal distribution). Beyond
# the usual 3.5 lies one of 4,300 values to one side, so a sound host or two in each run of 500 hosts with a dozen
# numbers; beyond 5 one of 3.5 million.
DEVIATIONS = 5.0
SIGMA = 1.4826
FINDINGS_MAX = 20  # of one host; the rest is counted
VALUES_MAX = 100  # of one host, in the order in which it told them
TEXT_MAX = 120
NUMBER_MAX = 1e18  # beyond it nothing is measured, and arithmetic overflows
_NAME = re.compile(r"[a-z0-9_.]{1,64}")


@dataclass(frozen=True)
class Number:
    """How a number is judged.

    worse: ``more`` or ``less`` than the median, or ``either``. share (of the median) and least (in the number's unit):
    nearer to the median is noise, however alike the others are.
    """

    worse: str
    share: float
    least: float
    unit: str


NUMBERS = {
    # servers that follow one source keep within a millisecond of it; ten are a network path or a bad oscillator
    "clock.offset_seconds": Number("more", 0.0, 0.01, "s"),
    # one core alone has turbo; between processors of one model that differs by some percent
    "cpu.busy_mhz_min": Number("less", 0.1, 0.0, "MHz"),
    # Intel's cores and packages, slowed down for heat: some are normal under load, a fan or a paste is what is not
    "cpu.throttles_per_day": Number("more", 1.0, 100.0, "a day"),
    # read past the cache: once may be the drive's own housekeeping, so it is each drive's median, and that doubled
    "drive.read_seconds_max": Number("more", 1.0, 0.002, "s"),
    "drive.os_read_seconds_max": Number("more", 1.0, 0.002, "s"),
    # measured for seconds; drives of one model differ by a few percent
    "drive.read_mbytes_min": Number("less", 0.2, 0.0, "MB/s"),
    # corrected errors are normal, and more than others have says that a part begins to fail
    "gpu.corrected_errors_per_day": Number("more", 1.0, 10.0, "a day"),
    "memory.corrected_per_day": Number("more", 1.0, 10.0, "a day"),
    "nvlink.errors_per_day": Number("more", 1.0, 10.0, "a day"),
    "hca.errors_per_day": Number("more", 1.0, 10.0, "a day"),
    "gpu.pcie_replays_per_day": Number("more", 1.0, 10.0, "a day"),
    # only of GPUs without work; place in the rack and the air of the room make some degrees
    "gpu.idle_celsius_max": Number("more", 0.0, 10.0, "°C"),
    # GPUs of one model differ by a tenth or two; one that does not rest draws much more
    "gpu.idle_watts_max": Number("more", 0.3, 20.0, "W"),
    # all checks run at once, so that it is never exact
    "gpu.query_seconds": Number("more", 1.0, 2.0, "s"),
    # NVIDIA takes a port out of its fabric for a change of 10 °C
    "hca.celsius_max": Number("more", 0.0, 10.0, "°C"),
    "hca.module_celsius_max": Number("more", 0.0, 10.0, "°C"),
    # DCGM's own measurement of the way between GPU and processor
    "gpu.to_host_gbytes_min": Number("less", 0.15, 0.0, "GB/s"),
    "gpu.from_host_gbytes_min": Number("less", 0.15, 0.0, "GB/s"),
    # one DIMM of 32 is 3 %; what the firmware keeps to itself is less
    "memory.total_bytes": Number("either", 0.02, 0.0, "bytes"),
}


def judge(hosts: Mapping[str, Mapping[str, Any]]) -> dict[str, list[Finding]]:
    """What each host differs in from the hosts of its profile: ``warn`` findings, none for most hosts.

    hosts: by name ``{"profile": name, "values": {name: text or number}}``, as hosts told it: what is in no such form
    is left out, and nothing raises. Every host is in the answer.
    """
    found: dict[str, list[Finding]] = {name: [] for name in hosts}
    cohorts: dict[str, dict[str, dict[str, str | float]]] = {}
    for name, host in hosts.items():
        profile, values = _read(host)
        if profile and values:
            cohorts.setdefault(profile, {})[name] = values
    for profile, cohort in sorted(cohorts.items()):
        for value, column in sorted(_columns(cohort).items()):
            for name, finding in _judge_column(value, column, profile).items():
                found[name].append(finding)
    return {name: _bounded(findings) for name, findings in found.items()}


def _read(host: Any) -> tuple[str, dict[str, str | float]]:
    """The profile and the readable values of a host; both may be empty."""
    if not isinstance(host, Mapping):
        return "", {}
    profile, values = host.get("profile"), host.get("values")
    if not isinstance(profile, str) or not isinstance(values, Mapping):
        return "", {}
    kept: dict[str, str | float] = {}
    for name, value in list(values.items())[:VALUES_MAX]:
        if not isinstance(name, str) or not _NAME.fullmatch(name) or isinstance(value, bool):
            continue
        if isinstance(value, str) and name not in NUMBERS:
            kept[name] = shorten(value, TEXT_MAX)
        elif isinstance(value, (int, float)) and name in NUMBERS and -NUMBER_MAX <= value <= NUMBER_MAX:
            kept[name] = float(value)  # what is not a number at all, NaN, compares false above
    return profile, kept


def _columns(cohort: Mapping[str, Mapping[str, str | float]]) -> dict[str, dict[str, str | float]]:
    """By value's name what each host has; only those that enough hosts tell."""
    columns: dict[str, dict[str, str | float]] = {}
    for name, values in cohort.items():
        for value, told in values.items():
            columns.setdefault(value, {})[name] = told
    return {value: column for value, column in columns.items() if len(column) >= HOSTS_MIN}


def _judge_column(value: str, column: Mapping[str, str | float], profile: str) -> dict[str, Finding]:
    numbers = {name: told for name, told in column.items() if isinstance(told, float)}
    texts = {name: told for name, told in column.items() if isinstance(told, str)}
    if value in NUMBERS:
        return _judge_numbers(value, NUMBERS[value], numbers, profile)
    return _judge_texts(value, texts, profile)


def _judge_texts(value: str, column: Mapping[str, str], profile: str) -> dict[str, Finding]:
    usual, hosts = Counter(column.values()).most_common(1)[0]
    if hosts < MAJORITY * len(column):
        return {}
    told = f"{hosts} of {len(column)} hosts of profile {profile} have {usual or 'nothing'}"
    return {
        name: Finding(CHECK, "warn", "cohort.differs", value, f"{text or 'nothing'}; {told}")
        for name, text in column.items()
        if text != usual
    }


def _judge_numbers(value: str, rule: Number, column: Mapping[str, float], profile: str) -> dict[str, Finding]:
    median = statistics.median(column.values())
    spread = statistics.median(abs(number - median) for number in column.values())
    allowed = max(rule.least, rule.share * abs(median), DEVIATIONS * SIGMA * spread)
    odd = {name: number for name, number in column.items() if _away(number - median, rule.worse) > allowed}
    if len(odd) > (1 - MAJORITY) * len(column):
        return {}
    told = f"the median of {len(column)} hosts of profile {profile} is {median:.6g}"
    told += f", half of them lie within {spread:.3g} of it, and up to {allowed:.3g} counts as noise"
    return {
        name: Finding(CHECK, "warn", "cohort.outlier", value, f"{number:.6g} {rule.unit}; {told}")
        for name, number in odd.items()
    }


def _away(difference: float, worse: str) -> float:
    return {"more": difference, "less": -difference}.get(worse, abs(difference))


def _bounded(findings: list[Finding]) -> list[Finding]:
    """A host that differs in everything is one odd host, not a hundred lines."""
    if len(findings) <= FINDINGS_MAX:
        return findings
    kept, rest = findings[: FINDINGS_MAX - 1], findings[FINDINGS_MAX - 1 :]
    more = f"{len(rest)} more values differ, first: {rest[0].locator}"
    return [*kept, Finding(CHECK, "warn", "cohort.more", evidence=more)]
