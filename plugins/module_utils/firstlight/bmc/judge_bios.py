"""Triage of BIOS settings: those that keep the machine from booting over the network, and those that slow training."""

from __future__ import annotations

import re

from ..findings import Finding
from ..profile import Profile
from .hardware import Hardware
from .vendors import vendor_of

_PXE_SWITCH = re.compile(r"(ipv4_?pxe|network_?stack|^prebootnetwork)", re.IGNORECASE)
_OFF = ("disabled", "disable", "false", "off")
_LEGACY = re.compile(r"legacy|^bios$|csm", re.IGNORECASE)


def bios_pxe(hardware: Hardware, profile: Profile) -> list[Finding]:
    """The BIOS lets the NIC that installs boot from the network: a one-time PXE boot does nothing otherwise."""
    bios = hardware.bios
    told = {n: bios[n] for n in bios if re.match(r"^PxeDev\d+EnDis$", n)}
    if told:
        return _dell_pxe(bios, list(told), str(profile.ethernet.get("pxe", "")))
    if not bios and "bios" in hardware.unread:
        evidence = "the BIOS attributes could not be read"
        return [Finding("bios_pxe", "unknown", "bios.pxe_disabled", "BIOS", evidence, "reset_bmc")]
    vendor = vendor_of(hardware.vendor)
    switches = {n: v for n, v in bios.items() if vendor.meaning(n) == "pxe" and _PXE_SWITCH.search(n)}
    if not switches:
        return [Finding("bios_pxe", "warn", "bios.pxe_disabled", "BIOS", "the BMC does not tell its PXE settings")]
    off = [f"{name} is {value}" for name, value in switches.items() if value.lower() in _OFF]
    if off:
        return [Finding("bios_pxe", "fail", "bios.pxe_disabled", "BIOS", "; ".join(off), "escalate")]
    return [Finding("bios_pxe", "ok", "bios_pxe", "BIOS", ", ".join(switches))]


def _dell_pxe(bios: dict[str, str], switches: list[str], wanted: str) -> list[Finding]:
    enabled = [n.removesuffix("EnDis") for n in switches if bios[n] == "Enabled"]
    interfaces = {device: bios.get(f"{device}Interface", "") for device in enabled}
    device = next((d for d, nic in interfaces.items() if nic == wanted), None)
    if device:
        return [Finding("bios_pxe", "ok", "bios_pxe", "BIOS", f"{device} is enabled on {wanted}")]
    how = ", ".join(f"{d} on {nic or 'no NIC'}" for d, nic in interfaces.items()) or "no PXE device is enabled"
    evidence = f"{how}; PxeDev1EnDis must be Enabled and PxeDev1Interface {wanted}"
    return [Finding("bios_pxe", "fail", "bios.pxe_disabled", "BIOS", evidence, "escalate")]


def bios_settings(hardware: Hardware, profile: Profile, pxe: bool = True) -> list[Finding]:
    """Attributes are as the profile wants them; and the boot mode is UEFI, whatever it says.

    pxe: judge those about PXE too; False where bios_pxe found them wrong.
    """
    if not hardware.bios:
        return []  # bios_pxe said so
    vendor = vendor_of(hardware.vendor)
    found, judged = [], set()
    for name, wanted in sorted(profile.bios.items()):
        attribute = _attribute(hardware.bios, name)
        meaning = vendor.meaning(attribute or name) or "setting"
        if meaning == "pxe" and not pxe:
            continue
        symptom = f"bios.{meaning}"
        if attribute is None:
            evidence = f"the BMC does not tell it; the profile {profile.name} wants {wanted}"
            found.append(Finding("bios", "warn", symptom, f"BIOS {name}", evidence))
            continue
        judged.add(attribute)
        if hardware.bios[attribute] != str(wanted):
            evidence = f"is {hardware.bios[attribute]}; the profile {profile.name} wants {wanted}"
            found.append(Finding("bios", "fail", symptom, f"BIOS {attribute}", evidence, "escalate"))
    for name, value in hardware.bios.items():
        if vendor.meaning(name) == "boot_mode" and name not in judged and _LEGACY.search(value):
            evidence = f"is {value}; an installation needs UEFI"
            found.append(Finding("bios", "fail", "bios.boot_mode", f"BIOS {name}", evidence, "escalate"))
    return found or [Finding("bios", "ok", "bios", "BIOS", f"{len(profile.bios)} settings")]


def _attribute(bios: dict[str, str], name: str) -> str | None:
    """The attribute's name in this BIOS: Supermicro adds a number that changes with the version."""
    if name in bios:
        return name
    return next((n for n in bios if re.fullmatch(re.escape(name) + r"_[0-9A-F]{4}", n)), None)
