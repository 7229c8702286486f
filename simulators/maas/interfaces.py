"""The interfaces of a machine: reading, adding, changing, deleting, and their network."""

from __future__ import annotations

from typing import Any

from simulators.maas import forms, view
from simulators.maas import machines as mm
from simulators.maas import status as st
from simulators.maas.region import Call, Region, Text
from simulators.maas.status import ApiError, bad_field, conflict
from simulators.maas.store import Machine

EDITABLE = {st.NEW, st.READY, st.FAILED_TESTING, st.ALLOCATED, st.BROKEN}
# MAAS really says "update interface interface"
_WRONG_STATE = "Cannot {} interface because the machine is not New, Ready, Allocated, or Broken."


async def list_interfaces(region: Region, call: Call) -> Any:
    """The interfaces of a machine."""
    machine = region.machine(call)
    return [view.interface(region.settings, machine, nic) for nic in machine["interfaces"]]


async def read_interface(region: Region, call: Call) -> Any:
    """One interface, by id or name."""
    machine = region.machine(call)
    return view.interface(region.settings, machine, _find(machine, call))


async def create_physical(region: Region, call: Call) -> Any:
    """One more interface, connected to nothing."""
    machine = region.machine(call, change=True)
    _check_state(machine, "create")
    mac = _mac(region, call.form, None)
    names = {nic["name"] for nic in machine["interfaces"]}
    name = call.form.get("name") or next(n for i in range(len(names) + 1) if (n := f"eth{i}") not in names)
    if name in names:
        text = f"Node {machine['hostname']} already has an interface named '{name}'."
        raise bad_field("name", text)
    mm.add_interface(region.store, machine, name, mac)
    region.store.save()
    return view.interface(region.settings, machine, machine["interfaces"][-1])


async def update_interface(region: Region, call: Call) -> Any:
    """Another MAC or name; of a Deployed machine too, for a NIC that was replaced."""
    machine = region.machine(call, change=True)
    nic = _find(machine, call)
    _check_state(machine, "update interface", st.DEPLOYED)
    if "mac_address" in call.form:
        nic["mac_address"] = _mac(region, call.form, nic)
    if call.form.get("name"):
        nic["name"] = call.form.get("name")
    region.store.save()
    return view.interface(region.settings, machine, nic)


async def delete_interface(region: Region, call: Call) -> Any:
    """Forget an interface. Where it was the one that boots, that is the one with the lowest id from now on."""
    machine = region.machine(call, change=True)
    nic = _find(machine, call)
    _check_state(machine, "delete interface")
    booted = machine["interfaces"][0] is nic
    machine["interfaces"].remove(nic)
    if booted:
        machine["interfaces"].sort(key=lambda other: other["id"])
    region.store.save()
    return Text("", 204)


async def disconnect_interface(region: Region, call: Call) -> Any:
    """Take the network configuration off an interface."""
    return _link(region, call, None)


async def link_interface(region: Region, call: Call) -> Any:
    """Give an interface an address from the subnet when the machine is deployed."""
    return _link(region, call, {"id": region.store.next_id(), "mode": call.form.get("mode", "auto").lower()})


def _link(region: Region, call: Call, link: dict[str, Any] | None) -> Any:
    machine = region.machine(call, change=True)
    nic = _find(machine, call)
    _check_state(machine, "disconnect" if link is None else "link subnet")
    nic["link"] = link
    region.store.save()
    return view.interface(region.settings, machine, nic)


def _find(machine: Machine, call: Call) -> Any:
    for nic in machine["interfaces"]:
        if call.path["id"] in (str(nic["id"]), nic["name"]):
            return nic
    raise ApiError(404, "Not Found")


def _check_state(machine: Machine, what: str, *more: int) -> None:
    if machine["status"] not in EDITABLE | set(more):
        raise conflict(_WRONG_STATE.format(what))


def _mac(region: Region, form: forms.Form, mine: dict[str, Any] | None) -> str:
    text = form.get("mac_address").strip()
    if not text:
        raise bad_field("mac_address", "This field is required." if mine is None else "This field cannot be blank.")
    if not forms.MAC.fullmatch(text):
        raise bad_field("mac_address", f"'{text}' is not a valid MAC address.")
    mac = text.lower().replace("-", ":")
    for machine in region.store.machines.values():
        for nic in machine["interfaces"]:
            if nic["mac_address"] == mac and nic is not mine:
                owner = f"{nic['name']} (physical) on {machine['hostname']}"
                raise bad_field("mac_address", f"This MAC address is already in use by {owner}.")
    return mac
