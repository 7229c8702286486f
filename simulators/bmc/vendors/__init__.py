"""Synthesised trees in the shape of other vendors' BMCs. No real machine: shapes and quirks only.

A shape is a function from a machine to its whole tree, path -> resource; it is built once for each of the machine's
versions. Every shape takes its parts from `simulators.bmc.parts`, so that the same faults strike there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from simulators.bmc import errors, parts
from simulators.bmc.machine import Machine

Resource = dict[str, Any]
Tree = dict[str, Resource]
RESETS = ("On", "ForceOff", "ForceRestart", "GracefulShutdown", "GracefulRestart", "PushPowerButton", "Nmi")


@dataclass(frozen=True)
class Shape:
    """One vendor's BMC.

    build: the tree. levels: how deep $expand goes, 0 where it is not known. system, manager: their paths.
    resets: the reset types. needs_etag: changes want If-Match. on_when_on: what "On" means to a server that is on:
    "fine", or the MessageId of a refusal. boot_at: where boot settings are changed, if not at the system.
    """

    build: Callable[[Machine], Tree]
    system: str
    manager: str
    levels: int = 0
    resets: tuple[str, ...] = RESETS
    needs_etag: bool = False
    on_when_on: str = "fine"
    boot_targets: tuple[str, ...] = ("None", "Pxe", "Hdd", "Cd", "Usb", "BiosSetup", "UefiTarget")
    bios_settings: str | None = None
    boot_at: str | None = None
    bios: dict[str, Any] = field(default_factory=dict)


SHAPES: dict[str, Shape] = {}
_BUILT: dict[str, tuple[tuple[int, str], Tree]] = {}


def register(name: str, model: str, bmc_version: str, shape: Shape) -> None:
    """Take in a shape under the name that lab.json uses, with what its machine and its BMC's firmware are called."""
    SHAPES[name] = shape
    parts.MODELS[name] = model
    parts.BMC_VERSIONS[name] = bmc_version


def tree_of(machine: Machine) -> Tree:
    """Return the machine's tree as it is now."""
    stamp = (machine.version, machine.phase)
    found = _BUILT.get(machine.name)
    if found is None or found[0] != stamp:
        found = (stamp, SHAPES[machine.vendor].build(machine))
        _BUILT[machine.name] = found
    return found[1]


def lookup(machine: Machine, path: str) -> Resource:
    """Return one resource. RedfishError when there is none."""
    shape = SHAPES[machine.vendor]
    found = tree_of(machine).get(path.rstrip("/"))
    gone = machine.has("empty_systems") or machine.phase == "empty"
    if gone and path.startswith("/redfish/v1/Systems"):
        if path == "/redfish/v1/Systems" and found is not None:
            return found | {"Members": [], "Members@odata.count": 0}
        found = None
    if found is None or (machine.has("half_answering") and _is_gone(path)):
        raise errors.not_found(path)
    if "DateTime" in found:
        found = found | {"DateTime": machine.now().astimezone().isoformat()}
    if path == shape.system:
        found = found | {"@odata.etag": f'"{machine.version}"'}
    return found


def _is_gone(path: str) -> bool:
    return path.endswith(("/Bios", "/Thermal", "/ThermalSubsystem")) or path.endswith(("GPU2", "GPU_2", "GPU_SXM_2"))


def answer(machine: Machine, path: str, query: str) -> Resource:
    """Return the answer to a GET, $expand done where the vendor's firmware can. RedfishError."""
    body = lookup(machine, path)
    options = dict(parse_qsl(query, keep_blank_values=True))
    levels = SHAPES[machine.vendor].levels
    if "$expand" not in options:
        return body
    how = re.fullmatch(r"[*.~](?:\(\$levels=(\d+)\))?", options["$expand"])
    if how is None or not levels or int(how[1] or 1) > levels:
        raise errors.RedfishError(
            501 if not levels else 400,
            errors.BASE + ("QueryNotSupported" if not levels else "QueryParameterOutOfRange"),
            f"The value {options['$expand'][:100]} for the query parameter $expand is not supported.",
        )
    if "Members" not in body:
        return body
    return body | {"Members": [_whole(machine, member) for member in body["Members"]]}


def _whole(machine: Machine, member: Resource) -> Resource:
    try:
        return lookup(machine, member["@odata.id"]) if set(member) == {"@odata.id"} else member
    except errors.RedfishError:
        return member


from simulators.bmc.vendors import hpe, lenovo, nvidia, openbmc, supermicro  # noqa: E402, F401 - each registers itself
