"""Operations on machines: POST machines/ID/?op=..., with what MAAS checks before each."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from simulators.maas import forms
from simulators.maas import machines as mm
from simulators.maas import status as st
from simulators.maas.power import PowerError
from simulators.maas.region import Call, Region, Text
from simulators.maas.status import ApiError, bad_field, conflict, unavailable
from simulators.maas.store import Machine

NO_EPHEMERAL = "Ephemeral operating system ubuntu jammy is unavailable."


def _need_rack(region: Region, text: str) -> None:
    """503 without a rack controller; 504 with one that does not answer."""
    if "unreachable_rack" in region.store.data["faults"]:
        raise ApiError(504, "Timed out waiting for the rack controller.")
    if not region.life.has_rack:
        raise unavailable(text)


async def begin_commissioning(region: Region, machine: Machine, user: str) -> None:
    """Commission a machine whose state allows it.

    The first time that a BMC is used MAAS looks for a rack that reaches it, while the client waits. Later power
    actions run in the background, and their failure only shows in the machine's status.
    """
    _need_rack(region, "Unable to connect to any rack controller; no rack controllers are connected.")
    if machine["power_type"] == "redfish" and not machine["bmc_known"]:
        try:
            await region.life.query(machine)
        except PowerError:
            region.store.save()
            raise unavailable(f"No rack controllers can access the BMC of node: {machine['hostname']}") from None
        _check_commission(machine)
    machine["owner"] = user
    machine["error_description"] = machine["status_message"] = ""
    region.life.set_status(machine, st.COMMISSIONING)
    region.life.event(machine, "Commissioning", "", user)
    region.life.start_job(machine, "commission", "power")


def _check_commission(machine: Machine) -> None:
    if machine["status"] not in st.CAN_COMMISSION:
        raise bad_field("__all__", "Commission is not available because of the current state of the node.")


async def commission(region: Region, call: Call) -> Any:
    """Start commissioning."""
    machine = region.machine(call, change=True)
    _check_commission(machine)
    if not region.has_images or (region.settings.is_34 and not region.life.has_rack):
        raise ApiError(400, NO_EPHEMERAL)
    await begin_commissioning(region, machine, call.user)
    return region.saved(machine)


def _acquire(region: Region, machine: Machine, user: str) -> None:
    region.life.set_status(machine, st.ALLOCATED)
    machine["owner"] = user


async def deploy(region: Region, call: Call) -> Any:
    """Start a deployment; answers as soon as it has begun."""
    machine = region.machine(call, change=True)
    if machine["status"] not in (st.READY, st.ALLOCATED):
        raise conflict(f"Can't deploy a machine that is in the '{region.label(machine)}' state")
    osystem, series = forms.series(region.settings, call.form, region.has_images)
    user_data = None
    if call.form.get("user_data"):
        try:
            user_data = base64.b64encode(base64.b64decode(call.form.get("user_data"))).decode()
        except (binascii.Error, ValueError):
            raise ApiError(400, "Invalid base64-encoded string") from None
    _check_deployable(region, machine)
    if not region.life.has_rack:
        if region.settings.is_34:
            raise ApiError(400, NO_EPHEMERAL)
        raise ApiError(500, "No rack controllers can access the BMC of node: " + machine["hostname"])
    address = mm.claim_address(region.store, machine, region.settings.subnet, region.settings.first_address)
    if address is None:
        raise ApiError(503, "No more IPs available in subnet: " + region.settings.subnet)
    if machine["status"] == st.READY:
        _acquire(region, machine, call.user)
    machine["interfaces"][0]["link"]["ip_address"] = address
    machine.update(
        osystem=osystem,
        distro_series=series,
        hwe_kernel=call.form.get("hwe_kernel") or None,
        user_data=user_data,
        netboot=True,
        error_description="",
        status_message="",
    )
    region.life.set_status(machine, st.DEPLOYING)
    region.life.event(machine, "Deploying", call.form.get("comment"), call.user)
    region.life.start_job(machine, "deploy", "power")
    return region.saved(machine)


def _check_deployable(region: Region, machine: Machine) -> None:
    if not any(nic["link"] for nic in machine["interfaces"]):
        raise bad_field("network", "Node must be configured to use a network")
    problems = []
    if not machine["disks"]:
        problems.append("Specify a storage device to be able to deploy this node.")
    if (machine["layout"] or {}).get("name", "blank") in ("blank", "custom"):
        problems.append("Mount the root '/' filesystem to be able to deploy this node.")
    if problems:
        raise bad_field("storage", *problems)


async def release(region: Region, call: Call) -> Any:
    """Give a machine back; Ready once its power is seen off. Repeating it is no error."""
    machine = region.machine(call, change=True)
    if machine["status"] in (st.RELEASING, st.READY):
        return region.show(machine)
    if machine["status"] not in st.CAN_RELEASE:
        raise conflict(f"Machine cannot be released in its current state ('{region.label(machine)}').")
    machine["error_description"] = machine["status_message"] = ""
    erase = any(call.form.flag(name) for name in ("erase", "quick_erase", "secure_erase"))
    if erase and machine["status"] != st.ALLOCATED:
        region.life.set_status(machine, st.DISK_ERASING)
        region.life.start_job(machine, "erase", "power")
    else:
        region.life.release_now(machine)
    return region.saved(machine)


async def abort(region: Region, call: Call) -> Any:
    """Stop what is going on: the machine is powered off, then goes back to what it was."""
    machine = region.machine(call, change=True)
    status = machine["status"]
    if status not in st.CAN_ABORT:
        raise conflict(
            f"Cannot abort in current state: node {machine['system_id']} is in state {region.label(machine)}."
        )
    before = machine["previous_status"]
    back = {
        st.DEPLOYING: st.ALLOCATED,
        st.DISK_ERASING: st.FAILED_DISK_ERASING,
        st.COMMISSIONING: before if before in (st.NEW, st.READY, st.BROKEN) else st.NEW,
    }[status]
    region.life.start_job(machine, "abort", "off", to=back)
    return region.saved(machine)


async def power_on(region: Region, call: Call) -> Any:
    """Power on, in the background. An allocated machine starts to deploy, as in MAAS."""
    machine = region.machine(call, change=True)
    if machine["owner"] is None:
        raise conflict("Can't start node: it hasn't been allocated.")
    if machine["status"] == st.ALLOCATED:
        return await deploy(region, call)
    return _switch(region, machine, True)


async def power_off(region: Region, call: Call) -> Any:
    """Power off, in the background."""
    return _switch(region, region.machine(call, change=True), False)


def _switch(region: Region, machine: Machine, on: bool) -> Any:
    word = "on" if on else "off"
    _need_rack(region, "Unable to connect to any rack controller; no rack controllers are connected.")
    if machine["power_type"] in ("", "manual"):
        raise conflict(f"Can't power {word} node: its power type does not allow it.")
    if region.life.is_busy(machine):
        raise unavailable(
            f"Unable to change power state to '{word}' for node {machine['hostname']}: another action is already in "
            "progress for that node."
        )
    region.life.event(machine, f"Powering {word}")
    region.life.spawn(machine, region.life.switch(machine, on))
    return region.saved(machine)


async def lock(region: Region, call: Call) -> Any:
    """Lock a deployed machine: nothing changes it until it is unlocked."""
    machine = region.machine(call)
    if machine["status"] not in (st.DEPLOYED, st.DEPLOYING):
        raise conflict(f"Can't lock a machine that is in the '{region.label(machine)}' state")
    machine["locked"] = True
    return region.saved(machine)


async def unlock(region: Region, call: Call) -> Any:
    """Undo lock."""
    machine = region.machine(call)
    if not machine["locked"]:
        raise conflict("Can't unlock a machine that is not locked.")
    machine["locked"] = False
    return region.saved(machine)


async def mark_broken(region: Region, call: Call) -> Any:
    """Take the machine out of use, from any state."""
    machine = region.machine(call, change=True)
    comment = call.form.get("comment")
    machine["job"] = None
    if machine["status"] in st.FAILED:
        # What ran is over; there is nothing that could go on after mark_fixed.
        region.life.set_status(machine, st.FAILED[machine["status"]])
    region.life.set_status(machine, st.BROKEN)
    machine["error_description"] = comment or "Manually marked as broken by user"
    if region.settings.is_34:
        machine["owner"] = None
    return region.saved(machine)


async def mark_fixed(region: Region, call: Call) -> Any:
    """Undo mark_broken: the previous status comes back."""
    machine = region.machine(call, change=True)
    if machine["status"] != st.BROKEN:
        raise conflict("Can't mark a non-broken node as 'Ready'.")
    region.life.set_status(machine, machine["previous_status"])
    machine["error_description"] = ""
    return region.saved(machine)


async def set_storage_layout(region: Region, call: Call) -> Any:
    """Plan partitions: the root file system goes to root_device, or to the boot disk."""
    machine = region.machine(call, change=True)
    if machine["status"] != st.READY:
        raise conflict("Cannot change the storage layout on a machine that is not Ready.")
    layout = call.form.get("storage_layout")
    if not layout:
        raise bad_field("storage_layout", "This field is required.")
    if layout not in forms.LAYOUTS:
        raise bad_field("storage_layout", f"Select a valid choice. {layout} is not one of the available choices.")
    if not machine["disks"]:
        raise ApiError(400, "Machine is missing a boot disk; no storage layout can be applied.")
    wanted = call.form.get("root_device")
    root = mm.find_disk(machine, wanted) if wanted else mm.boot_disk(machine)
    if root is None:
        raise ApiError(
            400,
            f"Failed to configure storage layout '{layout}': root_device: Select a valid choice. '{wanted}' is not one "
            "of the available choices.",
        )
    forms.size("boot_size", call.form.get("boot_size"), root["size"])
    size = forms.size("root_size", call.form.get("root_size"), root["size"])
    if size is not None and size > root["size"] - mm.EFI_SIZE:
        raise ApiError(
            400,
            f"Failed to configure storage layout '{layout}': root_size: Size is too large. Maximum size is "
            f"{root['size'] - mm.EFI_SIZE}.",
        )
    mm.apply_layout(machine, layout, root, size)
    return region.saved(machine)


async def set_owner_data(region: Region, call: Call) -> Any:
    """Set keys of owner_data; an empty value deletes its key."""
    machine = region.machine(call, change=True)
    for key in call.form.values:
        value = call.form.get(key)
        if key in ("op", "system_id"):
            continue
        if value:
            machine["owner_data"][key] = value
        else:
            machine["owner_data"].pop(key, None)
    return region.saved(machine)


async def query_power_state(region: Region, call: Call) -> Any:
    """Ask the BMC: {"state": "on"|"off"|"unknown"}."""
    machine = region.machine(call)
    _need_rack(region, "No rack controllers can access the BMC of node: " + machine["hostname"])
    if machine["power_type"] in ("", "manual"):
        return {"state": "unknown"}
    try:
        state = await region.life.query(machine)
    except PowerError as error:
        raise ApiError(500, str(error)) from None
    finally:
        region.store.save()
    return {"state": state}


async def power_parameters(region: Region, call: Call) -> Any:
    """The power parameters, passwords in clear text, as MAAS gives them."""
    return region.machine(call)["power_parameters"]


async def set_boot_disk(region: Region, call: Call) -> Any:
    """Choose the disk that the machine boots from. The root file system stays where the layout has put it."""
    machine = region.machine(call, change=True)
    disk = mm.find_disk(machine, call.path["id"])
    if disk is None:
        raise ApiError(404, "Not Found")
    if machine["status"] != st.READY:
        raise conflict("Cannot set boot disk because the machine is not Ready.")
    machine["boot_disk"] = disk["id"]
    region.store.save()
    return Text("OK")
