"""Boot order, one-time PXE and power over Redfish: each does nothing when it is already so."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from .client import DEADLINE, ROOT, BmcClient, Resource
from .errors import BmcError, HalfAnswering, NotReady, Refused
from .fetch import read_collection
from .pool import WORKERS, Target, run
from .values import dig, link, rows, text

_T = TypeVar("_T")

# What to ask for, in the order of preference; BMCs differ in what they offer.
_RESETS = {
    "on": ("On", "ForceOn"),
    "off": ("ForceOff",),
    "restart": ("ForceRestart", "PowerCycle", "GracefulRestart"),
}
_ALREADY = {"on": "PSU501", "off": "PSU502"}  # "Server is already powered ON / OFF."


@dataclass(frozen=True)
class Change:
    """What a function did, or would do in check mode. before and after: plain values for a diff."""

    changed: bool
    before: Any
    after: Any


def ensure_pxe_first(client: BmcClient, nic_fqdd: str, check: bool = False) -> Change:
    """Put the PXE boot option of this NIC first in the boot order. before, after: display names in order.

    check: say what would change, change nothing. Raises BmcError; Refused when the NIC has no PXE boot option.
    """
    path, system = _system(client)
    order = dig(system, "Boot", "BootOrder")
    if not isinstance(order, list) or not all(isinstance(entry, str) for entry in order):
        raise HalfAnswering(f"GET {path}: tells no boot order")
    options = {_reference(o): o for o in read_collection(client, link(system, "Boot", "BootOptions"))}
    wanted = _pxe_option(client, system, options, nic_fqdd)
    names = {reference: text(option, "DisplayName") or reference for reference, option in options.items()}
    before = [names.get(entry, entry) for entry in order]
    new = [wanted, *(entry for entry in order if entry != wanted)]
    after = [names.get(entry, entry) for entry in new]
    if wanted in (_first(order), _first(_pending(client, system))):
        return Change(False, before, before)
    if check:
        return Change(True, before, after)

    def stands() -> bool:
        return (
            _first(dig(_system(client)[1], "Boot", "BootOrder")) == wanted or _first(_pending(client, system)) == wanted
        )

    _set_boot(client, path, system, {"BootOrder": new}, stands, "boot order")
    return Change(True, before, after)


def set_one_time_pxe(client: BmcClient, check: bool = False) -> Change:
    """Make the next boot, and only that, come from the network. before, after: the override."""
    path, system = _system(client)
    wanted = {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"}
    before = _override(system)
    if before == wanted:
        return Change(False, before, before)
    if check:
        return Change(True, before, wanted)
    _set_boot(client, path, system, wanted, lambda: _override(_system(client)[1]) == wanted, "one-time PXE boot")
    return Change(True, before, wanted)


def power(client: BmcClient, action: str, check: bool = False) -> Change:
    """Switch the server: action is on, off or restart. before, after: On, Off, or what the BMC says.

    A restart of a server that is off switches it on. "Already on" is success without a change.
    """
    if action not in _RESETS:
        raise ValueError(f"action {action!r} is none of {', '.join(_RESETS)}")
    path, system = _system(client)
    before = text(system, "PowerState")
    if action == "restart" and before == "Off":
        action = "on"
    after = "Off" if action == "off" else "On"
    if action != "restart" and before == after:
        return Change(False, before, before)
    if check:
        return Change(True, before, after)
    target = text(system, "Actions", "#ComputerSystem.Reset", "target") or f"{path}/Actions/ComputerSystem.Reset"
    try:
        client.post(target, {"ResetType": _reset_type(client, system, action)})
    except BmcError as error:
        if _ALREADY.get(action, "-") not in error.codes:
            raise
        return Change(False, before, after)
    return Change(True, before, after)


def many(
    targets: Iterable[Target],
    function: Callable[[BmcClient], _T],
    *,
    ca_file: str,
    workers: int = WORKERS,
    deadline: float = DEADLINE,
    on_result: Callable[[str, _T | BmcError], None] | None = None,
) -> dict[str, _T | BmcError]:
    """Do one of these with many BMCs at once, e.g. ``lambda bmc: power(bmc, "on")``.

    By target name: what the function returned, or the BmcError that came of it. Bounded in time, see pool.run.
    on_result is called in this thread as they come.
    """
    results: dict[str, _T | BmcError] = {}

    def keep(name: str, outcome: Any) -> None:
        results[name] = outcome.error if outcome.error is not None else outcome.value
        if on_result:
            on_result(name, results[name])

    run(targets, function, ca_file=ca_file, workers=workers, deadline=deadline, on_outcome=keep)
    return results


def _system(client: BmcClient) -> tuple[str, Resource]:
    path = link(client.root, "Systems") or f"{ROOT}/Systems"
    systems = read_collection(client, path)
    if not systems:
        raise NotReady(f"GET {path}: 200 without any system; a BMC that has just started says so")
    return link(systems[0]), systems[0]


def _override(system: Resource) -> dict[str, str]:
    keys = ("BootSourceOverrideTarget", "BootSourceOverrideEnabled")
    return {key: text(system, "Boot", key) for key in keys}


def _reference(option: Resource) -> str:
    return text(option, "BootOptionReference") or text(option, "Id")


def _first(order: Any) -> Any:
    return order[0] if isinstance(order, list) and order else None


def _pending(client: BmcClient, system: Resource) -> Any:
    """The boot order that waits for the next reset, on a BMC that keeps it in its settings object."""
    settings = link(system, "@Redfish.Settings", "SettingsObject")
    if not settings:
        return None
    try:
        return dig(client.get(settings), "Boot", "BootOrder")
    except Refused:
        return None


def _pxe_option(client: BmcClient, system: Resource, options: dict[str, Resource], fqdd: str) -> str:
    """The reference of the NIC's PXE boot option: by its related item, its MAC, or Dell's words for the NIC."""
    interfaces = read_collection(client, link(system, "EthernetInterfaces"))
    nic = next((i for i in interfaces if text(i, "Id") == fqdd), {})
    bare_mac = text(nic, "MACAddress").replace(":", "").replace("-", "").upper()
    words = text(nic, "Description")
    for reference, option in options.items():
        name, device = text(option, "DisplayName"), text(option, "UefiDevicePath")
        if "PXE" not in name.upper() and text(option, "Alias") != "Pxe":
            continue
        related = [link(item).rsplit("/", 1)[-1] for item in rows(option, "RelatedItem")]
        by_mac = bool(bare_mac) and f"MAC({bare_mac}" in device.upper()
        by_words = bool(words) and name.rpartition(": ")[2] == words
        if fqdd in related or by_mac or by_words:
            return reference
    known = ", ".join(text(o, "DisplayName") for o in options.values()) or "none"
    raise Refused(f"no PXE boot option for {fqdd}; boot options are {known}")


def _set_boot(
    client: BmcClient, path: str, system: Resource, boot: Resource, stands: Callable[[], bool], what: str
) -> None:
    """PATCH the system, and where it refuses, its settings object (iDRAC10); then read back."""
    try:
        client.patch(path, {"Boot": boot})
    except Refused as error:
        settings = link(system, "@Redfish.Settings", "SettingsObject")
        if not settings or error.status not in (400, 403, 405):
            raise
        client.patch(settings, {"Boot": boot})
    if not stands():
        raise HalfAnswering(f"PATCH {path}: accepted, but the {what} reads back as it was")


def _reset_type(client: BmcClient, system: Resource, action: str) -> str:
    """A reset type that this BMC allows; Dell and HPE list them inline, Supermicro and DGX in ResetActionInfo."""
    reset = dig(system, "Actions", "#ComputerSystem.Reset")
    allowed = dig(reset, "ResetType@Redfish.AllowableValues")
    info = text(reset, "@Redfish.ActionInfo")
    if not isinstance(allowed, list) and info:
        parameters = client.get(info).get("Parameters")
        for parameter in parameters if isinstance(parameters, list) else []:
            if text(parameter, "Name") == "ResetType":
                allowed = dig(parameter, "AllowableValues")
    if not isinstance(allowed, list):
        return _RESETS[action][0]
    for kind in _RESETS[action]:
        if kind in allowed:
            return kind
    raise Refused(f"cannot {action}: it offers {', '.join(str(a) for a in allowed[:12])}")
