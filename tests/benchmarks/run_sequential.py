"""Measured by bmc_discovery.py: the redfish package as its README uses it, one BMC after the other, no $expand.

What most scripts do: system, then each Ethernet interface by itself. TLS is verified, as everywhere here.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import redfish
from bench_fleet import PASSWORD, USER, Stopwatch, address

order = json.load(sys.stdin)


def macs(number: int) -> tuple[int, int]:
    """How many MACs one BMC tells, and how many requests that took."""
    client = redfish.redfish_client(
        base_url=f"https://{address(number)}:{order['port']}",
        username=USER,
        password=PASSWORD,
        cafile=order["ca_file"],
        timeout=20,
        max_retry=0,
    )
    client.login()
    asked = 2

    def get(path: str) -> Any:
        nonlocal asked
        asked += 1
        return client.get(path).dict

    try:
        system = get(get("/redfish/v1/Systems")["Members"][0]["@odata.id"])
        listed = get(system["EthernetInterfaces"]["@odata.id"])["Members"]
        found = [get(member["@odata.id"]).get("MACAddress") for member in listed]
    finally:
        client.logout()
    return len([mac for mac in found if mac]), asked + 1


watch = Stopwatch()
results = [macs(number) for number in order["numbers"]]
taken = watch.read()
print(json.dumps({**taken, "macs": sum(1 for found, _ in results if found), "requests": results[0][1]}))
