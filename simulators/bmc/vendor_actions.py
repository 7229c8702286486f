"""What a client can change on a BMC of another vendor: power, boot settings, BIOS attributes, the BMC's own reset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from simulators.bmc import bios, errors, vendors
from simulators.bmc.actions import MODES, OVERRIDES, Done
from simulators.bmc.machine import BOOT_ORDER, Machine

if TYPE_CHECKING:
    from simulators.bmc.listener import Bmc

MANAGER_RESETS = ("GracefulRestart", "ForceRestart")


def act(bmc: Bmc, method: str, path: str, body: dict[str, Any], headers: Mapping[str, str]) -> Done:
    """Do what a POST or PATCH asks for. RedfishError when it cannot be done."""
    machine = bmc.machine
    shape = vendors.SHAPES[machine.vendor]
    if method == "POST" and path == f"{shape.system}/Actions/ComputerSystem.Reset":
        kind = _one_of(body, "ResetType", shape.resets)
        if kind == "On" and machine.power == "On":
            if shape.on_when_on == "fine":
                return Done(204)
            raise errors.RedfishError(400, shape.on_when_on, "The operation is invalid for the current power state.")
        if kind == "ForceOff" and machine.power == "Off":
            return Done(204)
        bmc.power.reset(kind)
        return Done(200, errors.success())
    if method == "POST" and path == f"{shape.manager}/Actions/Manager.Reset":
        _one_of(body, "ResetType", MANAGER_RESETS)
        bmc.restart()
        return Done(200, errors.success())
    vendors.lookup(machine, path)  # 404 before 405
    if method != "PATCH" or path not in (shape.system, shape.boot_at, shape.bios_settings):
        raise errors.method_not_allowed()
    wanted = headers.get("If-Match", "").strip()
    if not wanted and shape.needs_etag:
        raise errors.needs_etag()
    if wanted not in ("", "*") and wanted.removeprefix("W/").strip('"') != str(machine.version):
        raise errors.stale()
    if path == shape.bios_settings:
        _set_bios(machine, shape, body)
    else:
        if shape.boot_at not in (None, path):
            raise errors.not_writable("Boot")
        _set_boot(machine, shape, body)
    machine.changed()
    return Done(200, errors.success())


def _one_of(body: dict[str, Any], name: str, allowed: tuple[str, ...]) -> str:
    value = body.get(name)
    if value is None:
        raise errors.missing(name)
    if value not in allowed:
        raise errors.value_not_in_list(value, name)
    return str(value)


def _set_bios(machine: Machine, shape: vendors.Shape, body: dict[str, Any]) -> None:
    attributes = body.get("Attributes")
    if not isinstance(attributes, dict) or not attributes:
        raise errors.missing("Attributes")
    for name, value in attributes.items():
        if name not in shape.bios:
            raise errors.unknown_property(name)
        if not isinstance(value, type(shape.bios[name])):
            raise errors.value_not_in_list(value, name)
    machine.bios_pending |= attributes
    bios.commit(machine)  # nothing waits for a job here: the next boot takes what is pending


def _set_boot(machine: Machine, shape: vendors.Shape, body: dict[str, Any]) -> None:
    boot = body.get("Boot")
    if not isinstance(boot, dict):
        raise errors.missing("Boot")
    new = dict(machine.boot)
    for name, value in boot.items():
        if name == "BootOrder":
            if not isinstance(value, list) or sorted(map(str, value)) != sorted(BOOT_ORDER):
                raise errors.value_not_in_list(value, name)
            new["order"] = list(value)
        elif name == "BootSourceOverrideTarget":
            new["target"] = _one_of(boot, name, shape.boot_targets)
        elif name == "BootSourceOverrideEnabled":
            new["enabled"] = _one_of(boot, name, OVERRIDES)
        elif name == "BootSourceOverrideMode":
            new["mode"] = _one_of(boot, name, MODES)
        else:
            raise errors.not_writable(name)
    if "BootSourceOverrideTarget" in boot and "BootSourceOverrideEnabled" not in boot:
        new["enabled"] = "Once"
    if new["enabled"] == "Disabled" or new["target"] == "None":
        new.update(enabled="Disabled", target="None")
    machine.boot = new
