"""Measured by maas_fleet.py: firstlight.maas.install over an enlisted fleet."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections import Counter
from pathlib import Path

from bench_fleet import PASSWORD, USER, Stopwatch, Target, address
from bench_region import API, KEY

from firstlight.findings import blocking
from firstlight.maas.client import MaasClient
from firstlight.maas.disks import OsDisk
from firstlight.maas.install import InstallOptions, Progress, Wanted, install
from firstlight.maas.power import RedfishPower

order = json.load(sys.stdin)
client = MaasClient(f"https://{API}/MAAS", KEY, order["ca_file"])
machines = client.machines()
targets = {
    m["hostname"]: Target(m["hostname"], address(int(m["hostname"][1:])), order["port"], USER, PASSWORD)
    for m in machines
}
power = RedfishPower(targets, order["ca_file"], dict.fromkeys(targets, "NIC.Embedded.1-1-1"))
wanted = [Wanted(m["hostname"], m["system_id"], OsDisk(model="BOSS"), rack="r1") for m in machines]
watch = Stopwatch()
started = time.monotonic()
memory: list[float] = []  # MB, at each tick
done_at: list[float] = []
seen = {"done": 0}


def resident() -> float:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize() / 1e6


def on_progress(progress: Progress) -> None:
    memory.append(resident())
    done = progress.counts.get("done", 0)
    done_at.extend([time.monotonic() - started] * (done - seen["done"]))
    seen["done"] = done


results = install(client, wanted, InstallOptions(**order["options"]), on_progress, power=power)
taken = watch.read()
causes = {name: [f.symptom for f in blocking(r.findings)] for name, r in results.items() if blocking(r.findings)}
quarter = max(1, len(memory) // 4)
print(
    json.dumps(
        {
            **taken,
            "installed": sum(r.status == "deployed" and not blocking(r.findings) for r in results.values()),
            "causes": causes,
            "symptoms": Counter(c for found in causes.values() for c in found),
            "last_good": max(done_at, default=0.0),
            "ticks": len(memory),
            # MAAS's list itself grows until the last machines are commissioned and tell their disks
            "memory_third_quarter": max(memory[-2 * quarter : -quarter]),
            "memory_end": max(memory[-quarter:]),
        }
    )
)
