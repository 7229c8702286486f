"""Measured by bmc_discovery.py: firstlight.bmc.discover over a fleet."""

from __future__ import annotations

import json
import sys
from collections import Counter

from bench_fleet import PASSWORD, USER, Stopwatch, Target, address

from firstlight.bmc.discover import discover

order = json.load(sys.stdin)
numbers = order.get("numbers") or range(1, order["count"] + 1)
targets = [Target(f"n{n}", address(n), order["port"], USER, PASSWORD) for n in numbers]
watch = Stopwatch()
records = discover(targets, ca_file=order["ca_file"], **order.get("options", {}))
taken = watch.read()
conditions = {name: record.condition for name, record in records.items()}
macs = sum(1 for r in records.values() if r.hardware and any(nic.mac for nic in r.hardware.nics))
counts = Counter(conditions.values())
print(json.dumps({**taken, "conditions": conditions, "counts": counts, "macs": macs}))
