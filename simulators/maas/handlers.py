"""Machines, their disks and their interfaces: reading, adding, changing, deleting."""

from __future__ import annotations

import asyncio
from typing import Any

from simulators.maas import forms, view
from simulators.maas import machines as mm
from simulators.maas import operations as ops
from simulators.maas import status as st
from simulators.maas.region import Call, Region, Text
from simulators.maas.status import ApiError, conflict
from simulators.maas.store import Machine


async def list_machines(region: Region, call: Call) -> Any:
    """All machines that pass the filters."""
    return [region.show(m) for m in forms.list_filter(call.form, region.store, region.names)]


async def create_machine(region: Region, call: Call) -> Any:
    """Add a machine, and commission it unless told not to. Without a signature: what an enlisting machine sends."""
    form = call.form
    if not call.user:
        for mac in forms.mac_addresses(form, needed=True):
            existing = region.store.by_mac(mac)
            if existing is not None:
                return view.anonymous_machine(existing)
    fields, errors = _check_new(region, form)
    if errors:
        raise ApiError(400, errors)
    commission = bool(call.user) and form.flag("commission", True) and not form.flag("deployed")
    if commission and region.settings.is_34 and not region.life.has_rack:
        raise ApiError(400, ops.NO_EPHEMERAL)
    # MAAS checks first and stores later, without a lock between: concurrent requests make duplicates.
    await asyncio.sleep(region.settings.create_gap)
    machine = mm.new_machine(region.store, **fields)
    if form.flag("deployed"):
        machine["owner"] = call.user
        region.life.set_status(machine, st.DEPLOYED)
    region.store.save()
    if commission:
        await ops.begin_commissioning(region, machine, call.user)
    if not call.user:
        region.store.save()
        return view.anonymous_machine(machine)
    return region.saved(machine)


def _check_new(region: Region, form: forms.Form) -> tuple[dict[str, Any], dict[str, Any]]:
    """The checked fields of a new machine, and all field errors together, as Django's forms give them."""
    fields: dict[str, Any] = {"hostname": "", "macs": []}
    errors: dict[str, Any] = {}

    def checked(check: Any) -> Any:
        try:
            return check()
        except ApiError as error:
            if error.status != 400 or not isinstance(error.body, dict):
                raise
            errors.update(error.body)
            return None

    kind = form.get("power_type")
    if not form.get("architecture"):
        errors["architecture"] = ["This field is required."]
    else:
        text = form.get("architecture")
        if form.get("subarchitecture") and "/" not in text:
            text = f"{text}/{form.get('subarchitecture')}"
        fields["architecture"] = checked(lambda: forms.architecture(text, region.has_images))
    fields["macs"] = checked(lambda: forms.mac_addresses(form, needed=kind != "ipmi")) or []
    if form.get("hostname"):
        fields["hostname"] = checked(lambda: forms.hostname(region.store, form.get("hostname")))
    taken = [(mac, other) for mac in fields["macs"] if (other := region.store.by_mac(mac))]
    if taken:
        errors["mac_addresses"] = [f"MAC address {mac} already in use on {m['hostname']}." for mac, m in taken]
        if kind:
            errors["power_type"] = [f"Can't set power type to {kind} without network interfaces"]
    fields.update(checked(lambda: forms.places(form, region.names)) or {})
    fields.update(checked(lambda: forms.power(form)) or {})
    for name in ("description", "min_hwe_kernel"):
        fields[name] = form.get(name)
    if not region.settings.is_34:
        fields["is_dpu"] = bool(checked(lambda: form.flag("is_dpu")))
    return fields, errors


async def read_machine(region: Region, call: Call) -> Any:
    """One machine."""
    return region.show(region.machine(call))


async def update_machine(region: Region, call: Call) -> Any:
    """Change a machine; power parameters that are not given stay."""
    machine, form = region.machine(call, change=True), call.form
    changes: dict[str, Any] = {}
    if form.get("hostname"):
        changes["hostname"] = forms.hostname(region.store, form.get("hostname"), machine)
    if form.get("architecture"):
        changes["architecture"] = forms.architecture(form.get("architecture"), region.has_images)
    changes.update(forms.places(form, region.names))
    power = forms.power(form, machine)
    if power and power["power_parameters"].get("power_address") != machine["power_parameters"].get("power_address"):
        changes["bmc_known"] = False
    changes.update(power)
    for name in ("description", "min_hwe_kernel"):
        if name in form:
            changes[name] = form.get(name)
    for name in ("cpu_count", "memory"):
        if name in form:
            changes[name] = form.integer(name, 0)
    machine.update(changes)
    return region.saved(machine)


async def delete_machine(region: Region, call: Call) -> Any:
    """Forget a machine. Its address stays with its MAC."""
    machine = region.machine(call, change=True)
    region.life.forget(machine)
    del region.store.machines[machine["system_id"]]
    region.store.save()
    return Text("", 204)


async def allocate(region: Region, call: Call) -> Any:
    """Take a Ready machine: the one of this system_id or name, or any that fits."""
    form = call.form
    wanted = form.get("system_id")
    for machine in region.store.machines.values():
        if machine["status"] != st.READY or (wanted and machine["system_id"] != wanted):
            continue
        fits = (
            (not form.get("name") or machine["hostname"] == form.get("name").split(".")[0])
            and (not form.get("zone") or machine["zone"] == form.get("zone"))
            and (not form.get("pool") or machine["pool"] == form.get("pool"))
            and set(form.all("tags")) <= set(machine["tags"])
        )
        if fits:
            if not form.flag("dry_run"):
                region.life.set_status(machine, st.ALLOCATED)
                machine["owner"] = call.user
            return region.saved(machine)
    if wanted:
        raise conflict(f"No machine with system ID {wanted} available.")
    raise conflict("No available machine matches constraints.")


async def release_machines(region: Region, call: Call) -> Any:
    """Release several machines; all of them or none."""
    found: list[Machine] = []
    for system_id in call.form.all("machines"):
        machine = region.store.machines.get(system_id)
        if machine is None:
            raise ApiError(400, f"Unknown machine(s): {system_id}.")
        if machine["locked"]:
            raise ApiError(403, "")
        if machine["status"] not in st.CAN_RELEASE | {st.READY, st.RELEASING}:
            raise conflict(f"Machine(s) cannot be released in their current state: {system_id}.")
        found.append(machine)
    for machine in found:
        if machine["status"] in st.CAN_RELEASE:
            region.life.release_now(machine)
    region.store.save()
    return [machine["system_id"] for machine in found]


async def is_registered(region: Region, call: Call) -> Any:
    """Whether a MAC belongs to a machine."""
    return region.store.by_mac(call.form.get("mac_address").lower()) is not None


async def list_power_parameters(region: Region, call: Call) -> Any:
    """Power parameters of several machines, by system_id."""
    wanted = call.form.all("id")
    return {i: m["power_parameters"] for i, m in region.store.machines.items() if not wanted or i in wanted}


async def list_block_devices(region: Region, call: Call) -> Any:
    """The disks of a machine, lowest id first."""
    machine = region.machine(call)
    return [view.block_device(machine, disk) for disk in sorted(machine["disks"], key=lambda d: d["id"])]


async def read_block_device(region: Region, call: Call) -> Any:
    """One disk."""
    machine = region.machine(call)
    disk = mm.find_disk(machine, call.path["id"])
    if disk is None:
        raise ApiError(404, "Not Found")
    return view.block_device(machine, disk)
