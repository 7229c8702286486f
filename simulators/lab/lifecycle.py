"""The lab's life: up, down, status.

A lab that runs is kept as it is. When neither simulator runs, "up" makes a new data centre: the same servers, switched
off, with empty disks, and a MAAS that knows none of them; passwords, certificates and keys stay.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any

from simulators import lab_files
from simulators.host import containers
from simulators.lab import plan, processes, site
from simulators.lab_files import Lab, LabError

FOLDER_MODE = 0o700


def up(lab_dir: Path, inventory_dir: Path, fleet: int | None, block: int, fresh: bool, sound: bool = False) -> Lab:
    """Bring the lab up; returns lab.json. LabError says what is in the way."""
    try:
        return _up(lab_dir, inventory_dir, fleet, block, fresh, sound)
    finally:
        give_to_caller(lab_dir, inventory_dir)


def _up(lab_dir: Path, inventory_dir: Path, fleet: int | None, block: int, fresh: bool, sound: bool) -> Lab:
    lab_dir.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    lab_dir.chmod(FOLDER_MODE)
    if fresh:
        down(lab_dir)
        _forget(lab_dir, everything=True)
    alive = [name for name in processes.SIMULATORS if processes.running(lab_dir, name)]
    lab = _lab_file(lab_dir, fleet, block, sound, keep=bool(alive))
    _refuse_stranger(lab, alive)
    if not alive:
        lab_files.write_json(lab_dir / "lab.json", lab, 0o600)
    lab_files.make_certificates(lab_dir, lab)
    site.write(lab_dir, lab, inventory_dir)
    _say("container engine and images (the first time takes some minutes)")
    containers.build_image(lab["host"]["image"])
    if not alive:
        containers.remove_all(lab)
        _forget(lab_dir)
        if raised := containers.make_room(len(lab["machines"])):
            _say(raised)
    containers.make_network(lab)
    bmcs = [(machine["bmc_address"], lab["bmc"]["port"]) for machine in lab["machines"] if not _silent(machine)]
    listeners = {
        "bmc": [lab_files.split_address(lab["bmc"]["admin"]), *bmcs],
        "maas": [lab_files.split_address(lab["maas"][key]) for key in ("listen", "admin")],
    }
    for name in processes.SIMULATORS:
        # once it runs, a fault may have closed a BMC's port: only a new one is waited for
        started = processes.start(lab_dir, name, listeners[name])
        _say(f"{name} simulator {'started' if started else 'runs already'}")
    return lab


def down(lab_dir: Path) -> bool:
    """Stop the simulators, remove containers and network, and end the engine if nobody else uses it.

    Returns whether there was a lab.
    """
    if not (lab_dir / "lab.json").exists():
        return False
    lab = lab_files.load(lab_dir)
    # MAAS first: it would ask the BMCs to switch things on
    for name in reversed(processes.SIMULATORS):
        processes.stop(lab_dir, name)
    containers.remove_all(lab)
    containers.end_engine()
    give_to_caller(lab_dir)
    return True


def status(lab_dir: Path) -> dict[str, Any]:
    """What runs: the simulators' process ids, and each machine's power, faults, container and address."""
    lab = lab_files.load(lab_dir)
    found = containers.running(lab) if os.geteuid() == 0 else {}
    machines = []
    for machine in lab["machines"]:
        state = lab_files.read_json(lab_dir / "machines" / machine["name"] / "state.json", {})
        disk = state.get("disk") or {}
        machines.append(
            {
                "name": machine["name"],
                "service_tag": machine["service_tag"],
                "bmc": f"{machine['bmc_address']}:{lab['bmc']['port']}",
                "power": state.get("power", "Off"),
                "container": found.get(machine["name"], "-"),
                "hostname": disk.get("hostname", "-"),
                "address": disk.get("address", "-"),
                "faults": state.get("faults", []),
            }
        )
    return {
        "simulators": {name: processes.running(lab_dir, name) for name in processes.SIMULATORS},
        "machines": machines,
    }


def give_to_caller(*folders: Path) -> None:
    """Under sudo, what root wrote belongs to the person who called it."""
    uid, gid = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if os.geteuid() or not uid.isdigit() or not gid.isdigit() or uid == "0":
        return
    for folder in folders:
        for path in (folder, *folder.rglob("*")):
            with contextlib.suppress(FileNotFoundError):  # what a running simulator replaces meanwhile
                os.chown(path, int(uid), int(gid), follow_symlinks=False)


def _lab_file(lab_dir: Path, fleet: int | None, block: int, sound: bool, keep: bool) -> Lab:
    """What lab.json holds, or is to hold: it is written when no other lab has these addresses. A folder without it has
    no lab, and "down" there must not take the other's containers."""
    path = lab_dir / "lab.json"
    old: Lab | None = lab_files.load(lab_dir) if path.exists() else None
    if old and keep:
        size = len(old["machines"])
        if fleet not in (None, size) or block != old["block"]:
            raise LabError(
                f"the lab already runs, with {size} servers in address block {old['block']}; "
                "stop it first (scripts/lab down, or make lab-down)"
            )
        return old
    secret = plan.new_secrets()
    if old:
        secret = {
            "bmc_username": old["bmc"]["username"],
            "bmc_password": old["bmc"]["password"],
            "maas_api_key": old["maas"]["api_key"],
        }
    return plan.plan(fleet or plan.DEFAULT_FLEET, block, secret, sound)


def _refuse_stranger(lab: Lab, alive: list[str]) -> None:
    """Another lab with the same addresses would lose its containers to this one."""
    for name in processes.SIMULATORS:
        if name not in alive and processes.answers(lab_files.split_address(lab[name]["admin"])):
            raise LabError(
                f"something listens on {lab[name]['admin']} already, another lab perhaps; "
                "stop that one, or give this one addresses of its own with --block"
            )


def _forget(lab_dir: Path, everything: bool = False) -> None:
    """Remove the state of the servers and of MAAS, and what the product remembers of them in the lab's folder."""
    for name in ("machines", "maas"):
        shutil.rmtree(lab_dir / name, ignore_errors=True)
    names = ["known_hosts", *(path.name for path in lab_dir.glob("ledger.sqlite*"))]
    if everything:
        names += ["lab.json", "ca.pem", "ca.key"]
        shutil.rmtree(lab_dir / "tls", ignore_errors=True)
    for name in names:
        (lab_dir / name).unlink(missing_ok=True)


def _silent(machine: dict[str, Any]) -> bool:
    names = [fault if isinstance(fault, str) else fault.get("name") for fault in machine["faults"]]
    return "unreachable" in names


def _say(text: str) -> None:
    print(f"lab: {text}", flush=True)
