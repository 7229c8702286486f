"""Boot order and one-time PXE over Redfish: each does nothing when it is already so, and reads back what it set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..findings import Finding
from .client import BmcClient, Resource
from .control import Change, system_of
from .errors import HalfAnswering, Refused
from .fetch import read_collection
from .values import dig, link, rows, text


def ensure_pxe_first(client: BmcClient, nic_fqdd: str, check: bool = False) -> Change:
    """Put the PXE boot option of this NIC first in the boot order. before, after: display names in order.

    check: say what would change, change nothing. Raises BmcError; Refused when the NIC has no PXE boot option.
    """
    path, system = system_of(client)
    order = dig(system, "Boot", "BootOrder")
    if not isinstance(order, list) or not all(isinstance(entry, str) for entry in order):
        raise HalfAnswering(f"GET {path}: tells no boot order")
    options = {_reference(o): o for o in read_collection(client, link(system, "Boot", "BootOptions"))}
    wanted = _pxe_option(client, system, options, nic_fqdd)
    names = {reference: text(option, "DisplayName") or reference for reference, option in options.items()}
    before = [names.get(entry, entry) for entry in order]
    new = [wanted, *(entry for entry in order if entry != wanted)]
    after = [names.get(entry, entry) for entry in new]
    if wanted in (_first(order), _first(dig(_pending_boot(client, system), "BootOrder"))):
        return Change(False, before, before)
    if check:
        return Change(True, before, after)

    def stands() -> bool:
        now = system_of(client)[1]
        return wanted in (_first(dig(now, "Boot", "BootOrder")), _first(dig(_pending_boot(client, now), "BootOrder")))

    _set_boot(client, path, system, {"BootOrder": new}, stands, "boot order")
    return Change(True, before, after)


def set_one_time_pxe(client: BmcClient, check: bool = False, nic_fqdd: str = "") -> Change:
    """Make the next boot, and only that, come from the network. before, after: the override.

    nic_fqdd: the NIC that must boot; where the BIOS does not let it, there is a warning among the findings, since the
    override then does nothing.
    """
    path, system = system_of(client)
    wanted = {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"}
    before = _override(system)
    findings = _pxe_in_bios(client, system, nic_fqdd) if nic_fqdd else ()

    def stands(now: Resource) -> bool:
        return wanted in (_override(now), _override({"Boot": _pending_boot(client, now)}))

    if stands(system):
        return Change(False, wanted, wanted, findings)
    if check:
        return Change(True, before, wanted, findings)
    _set_boot(client, path, system, wanted, lambda: stands(system_of(client)[1]), "one-time PXE boot")
    return Change(True, before, wanted, findings)


def _pxe_in_bios(client: BmcClient, system: Resource, nic: str) -> tuple[Finding, ...]:
    """A warning where Dell's BIOS attributes say that this NIC does not boot from the network."""
    path = link(system, "Bios")
    try:
        attributes = dig(client.get(path), "Attributes") if path else None
    except Refused:
        return ()
    devices = [d for n in range(1, 17) if text(attributes, f"{(d := f'PxeDev{n}')}EnDis")]
    enabled = {d: text(attributes, f"{d}Interface") for d in devices if text(attributes, f"{d}EnDis") == "Enabled"}
    if not devices or nic in enabled.values():
        return ()
    how = ", ".join(f"{device} on {other}" for device, other in enabled.items()) or "none is enabled"
    evidence = f"PXE devices in the BIOS: {how}; a one-time PXE boot of {nic} does nothing until one of them is {nic}"
    return (Finding("boot", "warn", "bios.pxe_disabled", nic, evidence),)


def _override(system: Resource) -> dict[str, str]:
    keys = ("BootSourceOverrideTarget", "BootSourceOverrideEnabled")
    return {key: text(system, "Boot", key) for key in keys}


def _reference(option: Resource) -> str:
    return text(option, "BootOptionReference") or text(option, "Id")


def _first(order: Any) -> Any:
    return order[0] if isinstance(order, list) and order else None


def _pending_boot(client: BmcClient, system: Resource) -> Any:
    """What waits for the next reset, on a BMC that keeps it in its settings object."""
    settings = link(system, "@Redfish.Settings", "SettingsObject")
    if not settings:
        return None
    try:
        return dig(client.get(settings), "Boot")
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
