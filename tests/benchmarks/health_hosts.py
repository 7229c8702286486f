"""What asking hosts for their health costs the controller. By hand: make bench; never a test.

Two hundred names in the inventory, answered by a few containers whose tools (nvidia-smi, ibstat, lsblk, ...) print what
was recorded: one module call a host with all quick checks, as playbooks/health.yml makes it.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import yaml
from bench_hosts import PROJECT, Hosts
from bmc_discovery import machine

sys.path.append(str(PROJECT))  # the simulators are no installed package

from simulators import lab_files
from simulators.host import containers, disks

IMAGE = "localhost/firstlight-lab-host:latest"


def server(folder: Path, number: int) -> Path:
    """The folder that one server's tools answer by."""
    place = folder / f"server{number}"
    place.mkdir()
    facts = containers.hardware_facts(number, f"FLB{number:04d}")
    lab_files.write_json(place / "hardware.json", facts)
    drive = facts["drives"][0]
    disks.write(place, {"disk": {"root": {"serial": drive["serial"]}}}, facts["drives"])
    return place


def playbook_of(folder: Path) -> Path:
    profile = yaml.safe_load((PROJECT / "simulators" / "lab" / "profiles" / "xe9680.yml").read_text())
    task = {"host_check": {"profile": profile, "tier": "quick"}}
    path = folder / "health.yml"
    path.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": [task]}]))
    return path


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200, help="hosts (200)")
    parser.add_argument("--containers", type=int, default=10, help="containers that answer for them (10)")
    chosen = parser.parse_args(arguments)
    containers.build_image(IMAGE)
    folder = Path(tempfile.mkdtemp(prefix="firstlight-bench-"))
    hosts = Hosts(folder, "health")
    try:
        for number in range(1, chosen.containers + 1):
            hosts.start(1, IMAGE, "--volume", f"{server(folder, number)}:/run/simulator:ro")
        playbook = playbook_of(folder)
        hosts.play(playbook)  # Python's bytecode, caches
        print(f"{chosen.count} hosts, {chosen.containers} containers answer for them; {machine()}")
        print(f"{'':12} {'wall s':>8} {'CPU s':>8} {'CPU ms a host':>14}")
        for _ in range(3):
            cost = hosts.play(playbook, times=chosen.count // chosen.containers)
            print(f"{'quick tier':12} {cost.wall:8.1f} {cost.cpu:8.1f} {cost.cpu * 1000 / chosen.count:14.1f}")
    finally:
        hosts.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
