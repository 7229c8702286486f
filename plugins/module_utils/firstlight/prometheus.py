"""Prometheus' targets from the inventory: files for file_sd_configs, one a job. Pure functions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .errors import InputError

NODE, DCGM, HEAD_NODE = "node", "dcgm", "head_node"
JOBS = (NODE, DCGM)  # of the fleet's hosts
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


@dataclass(frozen=True)
class HeadNode:
    """A machine that serves the fleet and is no host of it. port: of its node exporter."""

    name: str
    address: str
    port: int = 9100


def targets(
    hosts: Iterable[Scraped], node_port: int = 9100, dcgm_port: int = 9400, head_nodes: Iterable[HeadNode] = ()
) -> dict[str, list[dict[str, Any]]]:
    """By job what its file holds: a group a host, hosts in the order of their names.

    Hosts without an address are left out: nothing runs there yet. ``dcgm`` has those with GPUs. A head node is in a
    job of its own, with nothing but its name: whatever has rack, profile or ledger_state is a host of the fleet.
    """
    ports = {NODE: node_port, DCGM: dcgm_port}
    for job, port in ports.items():
        _require_port(job, port)
    found: dict[str, list[dict[str, Any]]] = {job: [] for job in (*JOBS, HEAD_NODE)}
    for host in sorted(hosts, key=lambda one: one.name):
        if not host.address:
            continue
        at = _reached(host.name, host.address)
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
    for head in sorted(head_nodes, key=lambda one: one.name):
        _require_port(HEAD_NODE, head.port)
        at = _reached(head.name, head.address)
        found[HEAD_NODE].append({"targets": [f"{at}:{head.port}"], "labels": {"host": head.name}})
    return found


def _require_port(job: str, port: int) -> None:
    if not 1 <= port <= 65535:
        raise InputError(f"port of job {job}: {port} is none from 1 to 65535")


def _reached(name: str, address: str) -> str:
    """As it is written before a colon and a port."""
    if not _ADDRESS.match(address):
        raise InputError(f"ansible_host of {name}: {address[:80]!r} is no name or address")
    return f"[{address}]" if ":" in address else address


def file_text(groups: list[dict[str, Any]]) -> str:
    """A file for file_sd_configs."""
    return json.dumps(groups, indent=2, sort_keys=True) + "\n"
