"""What enlisting and installing a fleet costs its controller. By hand: make bench; never a test.

Simulated machines install in seconds instead of half an hour, and are looked at more often than real ones would be, so
the share of a core that is measured here is more than a real site pays.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import bench_region
import requests
from bench_fleet import Fleet, measure
from bmc_discovery import Table, machine

AT_ONCE = 64
COMMISSION_SECONDS, DEPLOY_SECONDS, POLL_SECONDS = 6.0, 10.0, 5.0
# Of every twenty machines the last never comes, in one of these ways: fault, whose it is, symptoms that name it.
NEVER: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("no_link", "bmc", ("install.no_link",)),
    ("unreachable", "bmc", ("install.power_failed",)),
    ("no_dhcp", "maas", ("install.no_dhcp",)),
    ("no_kernel", "maas", ("install.no_kernel",)),
    ("clock", "maas", ("install.clock",)),
    ("disk_write", "maas", ("install.disk_write",)),
    ("curtin", "maas", ("install.curtin_failed",)),
)


def never(number: int) -> tuple[str, str, tuple[str, ...]] | None:
    return NEVER[(number // 20) % len(NEVER)] if number % 20 == 0 else None


def options(folder: Path) -> dict[str, Any]:
    return {
        "max_parallel": AT_ONCE,
        "distro_series": "bookworm",
        "poll_seconds": POLL_SECONDS,
        "commission_minutes": 2.0,
        "deploy_minutes": 2.0,
        # to an installation here what the defaults, 15 minutes, are to a real one
        "pxe_minutes": 0.35,
        "stall_minutes": 0.35,
        "console_log": str(folder / "console" / "{name}.log"),
    }


def enlist(fleet: Fleet, region: bench_region.Region, table: Table, is_shown: bool) -> None:
    for first in (True, False):
        region.counted()
        found = measure("run_enlist.py", fleet)
        reads, writes = region.counted()
        name = "first enlist" if first else "second enlist"
        if is_shown:
            table.row(name, fleet.count, found, (reads + writes) / fleet.count, f"{reads} reads, {writes} writes")
        if found.result["problems"]:
            raise SystemExit(f"{name}: {found.result['problems']}")
        if is_shown and first:
            tags = 2 + -(-fleet.count // 32) * 1 + 1
            limit = fleet.count + 2 * tags
            table.check("first enlist: at most 2 reads", str(reads), reads <= 2)
            table.check("first enlist: a write a machine, two a tag", f"{writes} (at most {limit})", writes <= limit)
            table.check("first enlist: at most 20 CPU seconds", f"{found.cpu:.1f} s", found.cpu <= 20)
        elif is_shown:
            table.check("second enlist: 1 read, 0 writes", f"{reads}, {writes}", (reads, writes) == (1, 0))


def break_some(fleet: Fleet) -> dict[str, tuple[str, ...]]:
    """Give one machine in twenty its fault; returns the symptoms that are right, by name."""
    expected = {}
    for number in range(1, fleet.count + 1):
        fault = never(number)
        if fault:
            name, owner, symptoms = fault
            admin = fleet.admin if owner == "bmc" else bench_region.ADMIN
            answer = requests.put(f"http://{admin}/machines/n{number}/faults/{name}", json={}, timeout=60)
            answer.raise_for_status()
            expected[f"n{number}"] = symptoms
    return expected


def install(fleet: Fleet, region: bench_region.Region, table: Table, expected: dict[str, tuple[str, ...]]) -> float:
    """Install all; returns when the last good one was there, in seconds."""
    region.counted()
    found = measure("run_install.py", fleet, options=options(fleet.folder))
    reads, writes = region.counted()
    what = found.result
    share = found.cpu / found.wall
    name = f"install, {len(expected)} never come" if expected else "install, all come"
    table.row(name, fleet.count, found, (reads + writes) / fleet.count, f"{what['ticks']} ticks, {share:.1%} of a core")
    wrong = Counter(
        (expected.get(host, ("",))[0], *what["causes"].get(host, ["none"]))
        for host in {*expected, *what["causes"]}
        if not set(what["causes"].get(host, [])) & set(expected.get(host, ()))
    )
    table.check(
        f"{name}: all good ones installed", f"{what['installed']}", what["installed"] == fleet.count - len(expected)
    )
    table.check(f"{name}: under 10 % of a core", f"{share:.1%}", share < 0.1)
    growth = what["memory_end"] / what["memory_third_quarter"] - 1
    table.check(f"{name}: memory flat (last quarter within 10 %)", f"{growth:+.1%}", growth < 0.1)
    if expected:
        said = ", ".join(f"{n} x {' '.join(w)}" for w, n in wrong.items()) or "yes"
        table.check(f"{name}: every one named with its cause", said, not wrong)
    return float(what["last_good"])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=511, help="machines (511)")
    parser.add_argument("--only", choices=("enlist", "install"), help="one part of it")
    chosen = parser.parse_args(arguments)
    print(f"{chosen.count} simulated machines, {AT_ONCE} at a time; {machine()}\n")
    table = Table()
    last: list[float] = []
    for is_broken in (False, True):
        folder = Path(tempfile.mkdtemp(prefix="firstlight-bench-"))
        fleet = Fleet(folder, chosen.count, 0.0, bench_region.settings(COMMISSION_SECONDS, DEPLOY_SECONDS))
        region = bench_region.Region(fleet)
        try:
            fleet.start()
            region.start()
            enlist(fleet, region, table, is_shown=not is_broken)
            if chosen.only == "enlist":
                break
            expected = break_some(fleet) if is_broken else {}
            last.append(install(fleet, region, table, expected))
        finally:
            region.stop()
            fleet.stop()
            shutil.rmtree(folder, ignore_errors=True)
    if len(last) == 2:
        ratio = last[1] / last[0]
        table.check("the last good one is not delayed by the bad ones (1.1)", f"{ratio:.2f}", ratio <= 1.1)
    table.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
