"""What a client can change on a simulated BMC: boot settings, BIOS attributes, jobs, resets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from simulators.bmc import bios, errors, lclog, tree
from simulators.bmc.machine import BOOT_ORDER, Machine
from simulators.bmc.power import Power
from simulators.bmc.tree import MANAGER, ROOT, SYSTEM
from simulators.bmc.tree_manager import JOBS, LOGS
from simulators.bmc.tree_system import BOOT_TARGETS, RESET_TYPES

OVERRIDES = ("Disabled", "Once", "Continuous")
MODES = ("UEFI", "Legacy")
LIGHTS = ("Lit", "Blinking", "Off")


@dataclass
class Done:
    """The answer to a change."""

    status: int
    body: dict[str, Any] | None = None
    headers: dict[str, str] | None = None


def act(
    machine: Machine,
    power: Power,
    restart: Callable[[], None],
    method: str,
    path: str,
    body: dict[str, Any],
    headers: Mapping[str, str],
) -> Done:
    """Do what a POST, PATCH or DELETE asks for. RedfishError when it cannot be done."""
    if method == "PATCH":
        return _patch(machine, path, body, headers)
    if method == "POST":
        return _post(machine, power, restart, path, body)
    if method == "DELETE":
        for place in (JOBS, f"{ROOT}/JobService/Jobs", f"{ROOT}/TaskService/Tasks"):
            if path.startswith(f"{place}/"):
                if not bios.delete_job(machine, path[len(place) + 1 :]):
                    raise errors.not_found(path)
                machine.changed()
                return Done(200, errors.success())
    raise errors.method_not_allowed() if tree.exists(path) else errors.not_found(path)


def _post(machine: Machine, power: Power, restart: Callable[[], None], path: str, body: dict[str, Any]) -> Done:
    if path == f"{SYSTEM}/Actions/ComputerSystem.Reset":
        power.reset(_reset_type(body, RESET_TYPES))
        return Done(204)
    if path == f"{LOGS}/Sel/Actions/LogService.ClearLog":
        machine.sel_cleared = machine.log[-1]["id"] if machine.log else lclog.PAST
        machine.changed()
        return Done(204)
    if path == f"{MANAGER}/Actions/Manager.Reset":
        _reset_type(body, ("GracefulRestart",))
        restart()
        return Done(204)
    if path == f"{bios.SETTINGS}/Actions/Oem/DellManager.ClearPending":
        if bios.job_waits(machine):
            raise errors.pending_job()
        machine.bios_pending = {}
        machine.changed()
        return Done(200, errors.success())
    if path in (JOBS, f"{MANAGER}/Jobs"):
        target = body.get("TargetSettingsURI")
        if target is None:
            raise errors.missing("TargetSettingsURI")
        if target != bios.SETTINGS:
            raise errors.value_not_in_list(target, "TargetSettingsURI")
        job_id = bios.create_job(machine)
        machine.changed()
        return Done(200, errors.success(), {"Location": f"{JOBS}/{job_id}"})
    raise errors.method_not_allowed() if tree.exists(path) else errors.not_found(path)


def _reset_type(body: dict[str, Any], allowed: tuple[str, ...]) -> str:
    kind = body.get("ResetType")
    if kind is None:
        raise errors.missing("ResetType")
    if kind not in allowed:
        raise errors.value_not_in_list(kind, "ResetType")
    return str(kind)


def _patch(machine: Machine, path: str, body: dict[str, Any], headers: Mapping[str, str]) -> Done:
    if path not in (SYSTEM, f"{SYSTEM}/Settings", bios.SETTINGS):
        raise errors.method_not_allowed() if tree.exists(path) else errors.not_found(path)
    tree.lookup(machine, path)  # a BMC whose Systems are empty has nothing to change
    wanted = headers.get("If-Match", "*").strip()
    if wanted != "*" and wanted.removeprefix("W/").strip('"') != f"gen-{machine.version}":
        raise errors.stale()
    if path == bios.SETTINGS:
        return _patch_bios(machine, body)
    # iDRAC9 takes a boot override at the system only, iDRAC10 at the settings object only.
    usual = "only" if machine.vendor == "dell-idrac10" else machine.settings.get("boot_settings", "reject")
    style = machine.entry.get("boot_settings", usual)
    at_settings = path != SYSTEM
    boot = body.get("Boot")
    for name in body:
        if name != "Boot" and (name not in ("AssetTag", "IndicatorLED") or at_settings):
            raise errors.not_writable(name) if name in tree.lookup(machine, SYSTEM) else errors.unknown_property(name)
    if boot is not None:
        if style == "only" and not at_settings:
            raise errors.not_writable("Boot")
        _set_boot(machine, boot, override_allowed=not at_settings or style in ("accept", "only"))
    if "IndicatorLED" in body:
        if body["IndicatorLED"] not in LIGHTS:
            raise errors.value_not_in_list(body["IndicatorLED"], "IndicatorLED")
        machine.light = body["IndicatorLED"]
    if "AssetTag" in body:
        machine.asset_tag = str(body["AssetTag"])[:63]
    if not body:
        raise errors.missing("Boot")
    machine.changed()
    return Done(200, errors.success())


def _set_boot(machine: Machine, boot: Any, override_allowed: bool) -> None:
    if not isinstance(boot, dict):
        raise errors.value_not_in_list(boot, "Boot")
    new = dict(machine.boot)
    choices = {
        "BootSourceOverrideEnabled": ("enabled", OVERRIDES),
        "BootSourceOverrideTarget": ("target", BOOT_TARGETS),
        "BootSourceOverrideMode": ("mode", MODES),
    }
    for name, value in boot.items():
        if name == "BootOrder":
            if not isinstance(value, list) or sorted(map(str, value)) != sorted(BOOT_ORDER):
                raise errors.value_not_in_list(value, name)
            new["order"] = list(value)
        elif name in choices:
            key, allowed = choices[name]
            if key != "mode" and not override_allowed:
                raise errors.not_writable(name)
            if value not in allowed:
                raise errors.value_not_in_list(value, name)
            new[key] = value
        else:
            raise errors.not_writable(name)
    if "BootSourceOverrideTarget" in boot and "BootSourceOverrideEnabled" not in boot:
        new["enabled"] = "Once"
    if new["enabled"] == "Disabled" or new["target"] == "None":
        new.update(enabled="Disabled", target="None")
    machine.boot = new


def _patch_bios(machine: Machine, body: dict[str, Any]) -> Done:
    bios.set_pending(machine, body.get("Attributes"))
    when = body.get("@Redfish.SettingsApplyTime")
    if when is None:
        machine.changed()
        return Done(200, errors.success())
    if not isinstance(when, dict) or when.get("ApplyTime") != "OnReset":
        raise errors.value_not_in_list(when, "@Redfish.SettingsApplyTime")
    job_id = bios.create_job(machine)  # with an apply time, the PATCH schedules the job by itself
    machine.changed()
    return Done(202, errors.success(), {"Location": f"{ROOT}/TaskService/Tasks/{job_id}"})
