"""How fast discovery is, beside what else one could use. By hand: make bench; never a test.

Each thing is measured in a process of its own against the same simulated BMCs, whose CPU is shared with it: so the
ratios within one run tell more than its seconds.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import redfish_info
from bench_fleet import EXPECTED, Fleet, Measured, fault_of, measure

DEADLINE = 30.0
IN_FLIGHT = 100
OTHER = {"macs": "bare aiohttp, same requests, MACs", "all": "bare aiohttp, same requests, record"}
OURS = {"macs": "firstlight, MACs", "all": "firstlight, whole record"}


class Table:
    """Rows of what was measured, printed as they come."""

    def __init__(self) -> None:
        self.checks: list[tuple[str, str, bool]] = []
        print(f"{'':44} {'BMCs':>5} {'wall s':>8} {'CPU s':>8} {'CPU ms/BMC':>11} {'peak MB':>8} {'req/BMC':>8}")

    def row(self, name: str, count: int, m: Measured, requests: float | None, note: str = "") -> None:
        per = m.cpu / count * 1000
        asked = "" if requests is None else f"{requests:.1f}"
        line = f"{name:44} {count:5} {m.wall:8.2f} {m.cpu:8.2f} {per:11.1f} {m.memory:8.0f} {asked:>8} {note}"
        print(line.rstrip(), flush=True)

    def check(self, what: str, found: str, met: bool) -> None:
        self.checks.append((what, found, met))

    def end(self) -> None:
        print("\nfigure                                                        measured            met")
        for what, found, met in self.checks:
            print(f"{what:60}  {found:18}  {'yes' if met else 'NO'}")


def plans(fleet: Fleet) -> dict[str, list[tuple[str, str]]]:
    """The requests that discovery makes for one BMC, as the BMC has seen them."""
    found = {}
    for number, what in enumerate(("macs", "all"), start=1):
        measure("run_discover.py", fleet, numbers=[number], options={"what": what})
        found[what] = [(str(r["method"]), str(r["path"])) for r in fleet.requests_of(f"n{number}")]
    return found


def sound(fleet: Fleet, table: Table) -> None:
    """A fleet without faults."""
    count = fleet.count
    asked = plans(fleet)
    for what, limit in (("macs", 10.0), ("all", 60.0)):
        requests = len(asked[what])
        bare = measure("run_bare.py", fleet, plan=asked[what], in_flight=IN_FLIGHT)
        table.row(OTHER[what], count, bare, requests, f"{bare.result['bytes'] / count / 1024:.0f} KiB a BMC")
        ours = measure("run_discover.py", fleet, options={"what": what, "deadline": DEADLINE})
        table.row(
            OURS[what], count, ours, requests, f"x{ours.wall / bare.wall:.2f} wall, x{ours.cpu / bare.cpu:.2f} CPU"
        )
        if what == "macs":
            table.check("MACs: wall at most 1.5 times a bare aiohttp loop", *_ratio(ours.wall / bare.wall, 1.5))
            table.check("MACs: CPU at most twice that", *_ratio(ours.cpu / bare.cpu, 2.0))
        table.check(f"{OURS[what]}: under {limit:g} s", f"{ours.wall:.1f} s", ours.wall < limit)
        counts = ours.result["counts"]
        found = ", ".join(f"{n} {c}" for c, n in counts.items())
        table.check(f"{OURS[what]}: every BMC ok", found, counts.get("ok", 0) == count)
        table.check(f"{OURS[what]}: under 500 MB", f"{ours.memory:.0f} MB", ours.memory < 500)


def _ratio(found: float, limit: float) -> tuple[str, bool]:
    return f"{found:.2f}", found <= limit


def broken(fleet: Fleet, table: Table) -> None:
    """A fleet with one BMC in ten broken."""
    for what in ("macs", "all"):
        before = {name: counters["failed_logins"] for name, counters in fleet.counters().items()}
        ours = measure("run_discover.py", fleet, options={"what": what, "deadline": DEADLINE})
        conditions = ours.result["conditions"]
        wrong = Counter(
            (fault_of(n) or "sound", conditions[f"n{n}"])
            for n in range(1, fleet.count + 1)
            if conditions[f"n{n}"] != EXPECTED.get(fault_of(n), "ok")
        )
        name = f"{OURS[what]}, 10 % broken"
        table.row(name, fleet.count, ours, None, ", ".join(f"{n} {c}" for c, n in ours.result["counts"].items()))
        table.check(f"{name}: in {DEADLINE:g} + 5 s", f"{ours.wall:.1f} s", ours.wall <= DEADLINE + 5)
        table.check(f"{name}: all classified rightly", _wrong(wrong), not wrong)
        after = {name: counters["failed_logins"] for name, counters in fleet.counters().items()}
        most = max(after[name] - before[name] for name in after)
        table.check(f"{name}: failed logins a BMC at most 1", str(most), most <= 1)


def _wrong(wrong: Counter[tuple[str, str]]) -> str:
    return ", ".join(f"{n} {fault} {condition}" for (fault, condition), n in wrong.items()) or "yes"


def others(fleet: Fleet, table: Table, sample: int) -> None:
    """What people use otherwise, on a sample."""
    few = list(range(1, min(sample, fleet.count) + 1))
    one = measure("run_sequential.py", fleet, numbers=few)
    note = f"one after the other: {one.wall / len(few) * fleet.count:.0f} s for {fleet.count}"
    table.row("redfish package, sequential, MACs", len(few), one, one.result["requests"], note)
    for what in ("macs", "all"):
        before = fleet.counters()
        found = redfish_info.ask(fleet, few, what, forks=len(few))
        if found is None:
            print("community.general.redfish_info: left out, the PyPI package ansible cannot be had or used here")
            return
        after = fleet.counters()
        asked = sum(after[f"n{n}"]["requests"] - before[f"n{n}"]["requests"] for n in few) / len(few)
        note = f"{len(few)} forks: {found.wall / len(few) * fleet.count:.0f} s for {fleet.count}"
        table.row(f"community.general.redfish_info, {what}", len(few), found, asked, note)


def machine() -> str:
    """What this runs on, in words."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown CPU")
    load = os.getloadavg()[0]
    return f"{os.cpu_count()} x {model}, Python {platform.python_version()}, load before {load:.1f}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=500, help="BMCs (500)")
    parser.add_argument("--latency", type=float, default=0.2, help="seconds that a BMC takes for a request (0.2)")
    parser.add_argument("--sample", type=int, default=10, help="BMCs that the slow ones are shown on (10)")
    parser.add_argument("--only", choices=("sound", "broken", "others"), help="one part of it")
    options: Any = parser.parse_args(arguments)
    print(f"{options.count} simulated BMCs, {options.latency * 1000:g} ms a request; {machine()}\n")
    table = Table()
    for part, faults in ((sound, None), (others, None), (broken, fault_of)):
        if options.only not in (None, part.__name__):
            continue
        folder = Path(tempfile.mkdtemp(prefix="firstlight-bench-"))
        fleet = Fleet(folder, options.count, options.latency)
        try:
            fleet.start(faults)
            if part is others:
                others(fleet, table, options.sample)
            else:
                part(fleet, table)
        finally:
            fleet.stop()
            shutil.rmtree(folder, ignore_errors=True)
    table.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
