"""Measured by maas_fleet.py: firstlight.maas.enlist over a fleet, whose MACs the BMCs tell first (not measured)."""

from __future__ import annotations

import json
import sys
from collections import Counter

from bench_fleet import PASSWORD, USER, Stopwatch, Target, address
from bench_region import API, KEY

from firstlight.bmc.discover import discover
from firstlight.maas.client import MaasClient
from firstlight.maas.enlist import Desired, enlist

PXE = "NIC.Embedded.1-1-1"
order = json.load(sys.stdin)
targets = [Target(f"n{n}", address(n), order["port"], USER, PASSWORD) for n in range(1, order["count"] + 1)]
records = discover(targets, ca_file=order["ca_file"], what="macs")
desired = []
for number, target in enumerate(targets, start=1):
    hardware = records[target.name].hardware
    nics = [nic for nic in hardware.nics if nic.mac and nic.kind == "ethernet"] if hardware else []
    desired.append(
        Desired(
            name=target.name,
            macs=tuple(nic.mac for nic in nics),
            pxe_mac=next((nic.mac for nic in nics if nic.id.startswith(PXE)), ""),
            bmc_address=target.address,
            bmc_port=target.port,
            bmc_username=USER,
            bmc_password=PASSWORD,
            tags=("profile-xe9680", f"rack-r{1 + number // 32}"),
            description=f"rack r{1 + number // 32} unit {number % 32}",
        )
    )
client = MaasClient(f"https://{API}/MAAS", KEY, order["ca_file"])
watch = Stopwatch()
results = enlist(client, desired)
taken = watch.read()
problems = Counter(f.symptom for r in results.values() for f in r.findings if f.status == "fail")
print(json.dumps({**taken, "actions": Counter(r.action for r in results.values()), "problems": problems}))
