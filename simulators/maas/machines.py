"""The records of machines: how they come to be, their names, addresses, disks and interfaces."""

from __future__ import annotations

import hashlib
import ipaddress
import random
import time
from typing import Any

from simulators.maas import status as st
from simulators.maas.store import Machine, Store

ADMIN = "admin"
EFI_SIZE = 536870912  # bytes of the partition that a UEFI machine boots from
_ADJECTIVES = "able bold calm deft eager fond glad keen loved mighty noble proud quick ruling sharp tidy upward wise"
_ANIMALS = "adder bison crane dingo egret finch gecko heron ibex koala lemur moth newt otter panda quail raven tapir"


def random_hostname(store: Store) -> str:
    """An adjective and an animal, as MAAS names machines that nobody named."""
    for _ in range(1000):
        name = f"{random.choice(_ADJECTIVES.split())}-{random.choice(_ANIMALS.split())}"
        if store.by_hostname(name) is None:
            return name
    return f"machine-{store.next_id()}"


def new_machine(store: Store, hostname: str, macs: list[str], **fields: Any) -> Machine:
    """Add a machine to the store (not saved yet) and return its record."""
    machine: Machine = {
        "id": store.next_id(),
        "system_id": store.new_system_id(),
        "hostname": hostname or random_hostname(store),
        "description": "",
        "architecture": "amd64/generic",
        "min_hwe_kernel": "",
        "hwe_kernel": None,
        "domain": "maas",
        "zone": "default",
        "pool": "default",
        "owner": None,
        "locked": False,
        "status": st.NEW,
        "previous_status": st.NEW,
        "status_message": "",
        "error_description": "",
        "power_type": "",
        "power_parameters": {},
        "power_state": "unknown",
        "bmc_known": False,
        "interfaces": [],
        "disks": [],
        "boot_disk": None,
        "layout": None,
        "osystem": "",
        "distro_series": "",
        "netboot": True,
        "user_data": None,
        "tags": [],
        "owner_data": {},
        "cpu_count": 0,
        "memory": 0,
        "service_tag": "",
        "is_dpu": False,
        "job": None,
        "created": time.time(),
    }
    machine.update(fields)
    for number, mac in enumerate(macs):
        add_interface(store, machine, f"eth{number}", mac)
    store.machines[machine["system_id"]] = machine
    return machine


def add_interface(store: Store, machine: Machine, name: str, mac: str) -> None:
    """Give the machine one more interface, not configured yet."""
    machine["interfaces"].append({"id": store.next_id(), "name": name, "mac_address": mac, "link": None})


def boots_by(machine: Machine, mac: str) -> None:
    """A machine that is New or is commissioned boots by this NIC: the first in its record is the boot interface."""
    if machine["status"] in (st.NEW, st.COMMISSIONING):
        machine["interfaces"].sort(key=lambda nic: (nic["mac_address"] != mac, nic["id"]))


def fqdn(machine: Machine) -> str:
    """The machine's full name."""
    return f"{machine['hostname']}.{machine['domain']}"


def learn(store: Store, machine: Machine, inventory: dict[str, Any]) -> None:
    """Take over what commissioning found (power.Bmc.inventory): disks, interfaces, processors, memory."""
    machine["cpu_count"] = int(inventory["cpu_count"])
    machine["memory"] = int(inventory["memory"])
    _learn_disks(store, machine, inventory["disks"])
    known = {nic["mac_address"] for nic in machine["interfaces"]}
    for nic in inventory["nics"]:
        # The same MAC on two machines (USB adapters) stays with the first one, as in MAAS.
        if nic["mac"] not in known and store.by_mac(nic["mac"]) is None:
            add_interface(store, machine, f"eth{len(machine['interfaces'])}", nic["mac"])
    configure_network(store, machine)
    apply_layout(machine, "flat", None, None)


def configure_network(store: Store, machine: Machine) -> None:
    """The boot interface (the first) gets an automatic address when the machine is deployed."""
    if machine["interfaces"] and machine["interfaces"][0]["link"] is None:
        machine["interfaces"][0]["link"] = {"id": store.next_id(), "mode": "auto"}


def _learn_disks(store: Store, machine: Machine, found: list[dict[str, Any]]) -> None:
    """Name disks as a kernel might: not in the BMC's order, and the same way at every commissioning."""

    def order(disk: dict[str, Any]) -> bytes:
        return hashlib.sha256(f"{machine['service_tag']}:{disk['model']}:{disk['serial']}".encode()).digest()

    names: dict[bool, int] = {True: 0, False: 0}
    disks = []
    for disk in sorted(found, key=order):
        number = names[disk["nvme"]]
        names[disk["nvme"]] += 1
        name = f"nvme{number}n1" if disk["nvme"] else f"sd{chr(ord('a') + number % 26)}"
        name = disk.get("name") or name  # a real machine says how its kernel named them
        disks.append({**disk, "name": name})
    disks.sort(key=lambda disk: disk["name"])
    before = {(disk["serial"], disk["name"]): disk["id"] for disk in machine["disks"]}
    for disk in disks:
        disk["id"] = before.get((disk["serial"], disk["name"])) or store.next_id()
    machine["disks"] = disks
    if machine["boot_disk"] not in {disk["id"] for disk in disks}:
        machine["boot_disk"] = None


def boot_disk(machine: Machine) -> dict[str, Any] | None:
    """The chosen boot disk, else the one with the lowest id."""
    chosen = [disk for disk in machine["disks"] if disk["id"] == machine["boot_disk"]]
    return (chosen or sorted(machine["disks"], key=lambda disk: disk["id"]) or [None])[0]


def root_disk(machine: Machine) -> dict[str, Any] | None:
    """Model, serial and size of the disk that the layout has the root file system on."""
    root = (machine["layout"] or {}).get("root")
    disk = next((disk for disk in machine["disks"] if disk["id"] == root), None)
    return {key: disk[key] for key in ("model", "serial", "size")} if disk else None


def find_disk(machine: Machine, text: str) -> dict[str, Any] | None:
    """A disk by id, name or /dev path."""
    for disk in machine["disks"]:
        if text in (str(disk["id"]), disk["name"], f"/dev/{disk['name']}", f"/dev/disk/by-dname/{disk['name']}"):
            return disk
    return None


def apply_layout(machine: Machine, name: str, root: dict[str, Any] | None, root_size: int | None) -> None:
    """Lay out storage: the root file system goes to root, or to what is the boot disk now. Nothing without disks."""
    boot = boot_disk(machine)
    if boot is not None:
        target = root or boot
        machine["layout"] = {"name": name, "boot": boot["id"], "root": target["id"], "root_size": root_size}


def claim_address(store: Store, machine: Machine, subnet: str, first: str) -> str | None:
    """The machine's address, the same one as last time; None when the subnet is used up."""
    key = machine["interfaces"][0]["mac_address"]
    addresses = store.data["addresses"]
    if key in addresses:
        return str(addresses[key])
    network = ipaddress.ip_network(subnet)
    candidate = ipaddress.ip_address(first)
    used = set(addresses.values())
    while candidate in network and candidate != network.broadcast_address:
        if str(candidate) not in used:
            addresses[key] = str(candidate)
            return str(candidate)
        candidate += 1
    return None
