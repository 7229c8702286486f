"""Prometheus' targets from the inventory: files for file_sd_configs, one a job. Pure functions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .errors import InputError

NODE, DCGM = "node", "dcgm"
JOBS = (NODE, DCGM)
_ADDRESS = re.compile(r"^[A-Za-z0-9_.:-]{1,255}\Z")


@dataclass(frozen=True)
class Scraped:
    """One host. address: where it is reached, a name or an address. gpus: how many it must have."""

    name: str
    address: str
    site: str
    rack: str
    unit: str
    profile: str
    state: str
    gpus: int = 0


def targets(hosts: Iterable[Scraped], node_port: int = 9100, dcgm_port: int = 9400) -> dict[str, list[dict[str, Any]]]:
    """By job what its file holds: a group a host, hosts in the order of their names.

    Hosts without an address are left out: nothing runs there yet. ``dcgm`` has those with GPUs.
    """
    ports = {NODE: node_port, DCGM: dcgm_port}
    for job, port in ports.items():
        if not 1 <= port <= 65535:
            raise InputError(f"port of job {job}: {port} is none from 1 to 65535")
    found: dict[str, list[dict[str, Any]]] = {job: [] for job in JOBS}
    for host in sorted(hosts, key=lambda one: one.name):
        if not host.address:
            continue
        if not _ADDRESS.match(host.address):
            raise InputError(f"ansible_host of {host.name}: {host.address[:80]!r} is no name or address")
        at = f"[{host.address}]" if ":" in host.address else host.address
        labels = {
            "host": host.name,
            "site": host.site,
            "rack": host.rack,
            "unit": host.unit,
            "profile": host.profile,
            "ledger_state": host.state,  # "state" is a label of the exporters' own metrics
        }
        for job in JOBS:
            if job == NODE or host.gpus > 0:
                found[job].append({"targets": [f"{at}:{ports[job]}"], "labels": labels})
    return found


def file_text(groups: list[dict[str, Any]]) -> str:
    """A file for file_sd_configs."""
    return json.dumps(groups, indent=2, sort_keys=True) + "\n"
