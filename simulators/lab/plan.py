"""The lab on paper: which simulated servers there are, where they listen, and which of them are broken.

Sizes: two racks up to 16 servers, then one rack for every 8. Whatever the size (3 and more), two servers are broken:
the last of the first rack lacks a GPU, the BMC of the last rack's last server refuses the password.
"""

from __future__ import annotations

import secrets
from typing import Any

import yaml

from simulators.lab_files import Lab, LabError

DEFAULT_BLOCK = 31
DEFAULT_FLEET = 6
LARGEST_FLEET = 200
PER_RACK = 8
FIRST_UNIT, UNITS = 4, 6  # an XE9680 takes six rack units
BMC_PORT = 8443
PROFILE = "xe9680"
IMAGE = "localhost/firstlight-lab-host"


def new_secrets() -> dict[str, str]:
    """Make the lab's passwords and keys; the MAAS key has MAAS's own form, three parts."""
    parts = (secrets.token_hex(9), secrets.token_hex(9), secrets.token_hex(16))
    return {"bmc_username": "root", "bmc_password": secrets.token_urlsafe(15), "maas_api_key": ":".join(parts)}


def network_name(block: int) -> str:
    """The podman network of a lab; labs of different address blocks have different ones."""
    return "firstlight-lab" if block == DEFAULT_BLOCK else f"firstlight-lab-{block}"


def plan(fleet: int, block: int, secret: dict[str, str], sound: bool = False) -> Lab:
    """Return what lab.json holds: `fleet` servers in 127.BLOCK.0.0/16 and 10.BLOCK.0.0/24.

    LabError when the fleet or the block is out of range. With `sound`, no server is broken.
    """
    if not 1 <= fleet <= LARGEST_FLEET:
        raise LabError(f"--fleet {fleet}: a lab has 1 to {LARGEST_FLEET} servers")
    if not 1 <= block <= 254:
        raise LabError(f"--block {block}: must be from 1 to 254, the second number of the lab's addresses")
    return {
        "block": block,
        "bmc": {
            "port": BMC_PORT, "admin": f"127.{block}.0.1:8450", "username": secret["bmc_username"],
            "password": secret["bmc_password"], "latency": 0.05, "boot_seconds": 2,
        },
        "maas": {
            "listen": f"127.{block}.0.2:5443", "admin": f"127.{block}.0.2:5450", "api_key": secret["maas_api_key"],
            "commission_seconds": 4, "deploy_seconds": 6, "distro_series": ["bookworm"],
            "subnet": f"10.{block}.0.0/24", "first_address": f"10.{block}.0.11",
        },
        "host": {"network": network_name(block), "subnet": f"10.{block}.0.0/24", "image": IMAGE},
        "machines": _machines(fleet, block, sound),
    }  # fmt: skip


def _machines(fleet: int, block: int, sound: bool) -> list[dict[str, Any]]:
    racks = min(fleet, max(2, -(-fleet // PER_RACK)))
    machines: list[dict[str, Any]] = []
    for rack in range(1, racks + 1):
        size = fleet // racks + (1 if rack <= fleet % racks else 0)
        machines += [
            {
                "name": f"r{rack}-n{number:02d}",
                "rack": f"r{rack}",
                "unit": FIRST_UNIT + UNITS * (number - 1),
                "index": len(machines) + number,
                "service_tag": f"FLB{len(machines) + number:04d}",
                "bmc_address": f"127.{block}.{rack}.{10 + number}",
                "faults": [],
            }
            for number in range(1, size + 1)
        ]
    if fleet >= 3 and not sound:
        first_rack = [machine for machine in machines if machine["rack"] == "r1"]
        first_rack[-1]["faults"] = [{"name": "gpu_missing", "gpu": 5}]
        machines[-1]["faults"] = ["wrong_password"]
    return machines


def fleet_file(lab: Lab) -> str:
    """The rack plan of the lab's site, as an operator would write it; tags of every second server are not known yet."""
    hosts = [
        {"name": machine["name"], "rack": machine["rack"], "unit": machine["unit"],
         "bmc_address": machine["bmc_address"], "bmc_port": lab["bmc"]["port"], "profile": PROFILE}
        | ({"service_tag": machine["service_tag"]} if machine["index"] % 2 else {})
        for machine in lab["machines"]
    ]  # fmt: skip
    lines = "".join(
        f"  - {yaml.safe_dump(host, default_flow_style=True, sort_keys=False, width=200)}" for host in hosts
    )
    return f"---\n# The lab's rack plan, written by scripts/lab.\nsite: lab\nhosts:\n{lines}"
