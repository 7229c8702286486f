"""Triage of what is not counted: identity, NICs and PXE, clock, firmware, age of the inventory."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence

from ..findings import Finding
from ..profile import Profile
from ..sitefiles import PlannedHost
from .hardware import Hardware, Nic, Record
from .slots import missing_slots
from .values import moment

CLOCK_WARN_SECONDS = 30.0
CLOCK_FAIL_SECONDS = 3600.0  # from about here on certificates and tokens are refused during the installation
INVENTORY_DAYS = 30.0
GPU_BASEBOARD = "gpu_baseboard"  # as a component of firmware


def model(hardware: Hardware, profile: Profile) -> list[Finding]:
    """It is the hardware model that the profile describes."""
    if hardware.model == profile.model:
        return [Finding("model", "ok", "model", "", hardware.model)]
    told = f"{hardware.vendor} {hardware.model}".strip()
    if not hardware.model:
        return [Finding("model", "unknown", "host.wrong_model", "system", "the BMC names no model", "escalate")]
    evidence = f"is a {told}; the profile {profile.name} is for a {profile.vendor} {profile.model}"
    return [Finding("model", "fail", "host.wrong_model", "system", evidence, "escalate")]


def service_tag(planned: PlannedHost, hardware: Hardware) -> list[Finding]:
    """It is the very machine that was planned for this place, where the plan names its tag."""
    tag = hardware.service_tag
    if planned.service_tag is None or planned.service_tag == tag:
        return [Finding("service_tag", "ok", "service_tag", "", tag)]
    locator = f"rack {planned.rack} unit {planned.unit}"
    if not tag:
        evidence = f"the BMC tells no service tag; planned is {planned.service_tag}"
        return [Finding("service_tag", "unknown", "host.wrong_service_tag", locator, evidence, "escalate")]
    evidence = f"service tag {tag} answers at {planned.bmc_address}; planned is {planned.service_tag}"
    return [Finding("service_tag", "fail", "host.wrong_service_tag", locator, evidence, "escalate")]


def pxe_nic(hardware: Hardware, profile: Profile) -> Nic | None:
    """The NIC that installs: by the profile's FQDD; partition 1 of that port under NPAR."""
    wanted = str(profile.ethernet.get("pxe", ""))
    return hardware.nic(wanted) or next((n for n in hardware.nics if wanted and n.id == f"{wanted}-1"), None)


def nic_ids(hardware: Hardware) -> list[str]:
    """Ethernet ports; of those that are partitioned, the partition that boots."""
    return [nic.id for nic in hardware.nics if nic.kind == "ethernet" and nic.partition == 1]


def nics(hardware: Hardware, profile: Profile, peers: Sequence[str] = ()) -> list[Finding]:
    """All Ethernet ports are there, the one that installs above all."""
    wanted = str(profile.ethernet.get("pxe", ""))
    present = nic_ids(hardware)
    expected = profile.count("ethernet")
    evidence = f"{len(present)} of {expected} Ethernet ports: present {', '.join(present) or 'none'}"
    missing = wanted if wanted and pxe_nic(hardware, profile) is None else ""
    if not missing and len(present) < expected:
        known = list(profile.ethernet.get("slots", ())) or list(peers)
        missing = ", ".join(missing_slots(present, expected, known)) or f"{expected - len(present)} Ethernet ports"
    if not missing:
        return [Finding("nics", "ok", "nics", "", evidence)]
    if "nics" in hardware.unread:
        unread = f"{evidence}; not all could be read"
        return [Finding("nics", "unknown", "nic.missing", missing, unread, "reset_bmc")]
    return [Finding("nics", "fail", "nic.missing", missing, evidence, "reseat")]


def pxe_mac(planned: PlannedHost, hardware: Hardware, profile: Profile) -> list[Finding]:
    """The NIC that installs has the planned MAC, where the plan names one."""
    nic = pxe_nic(hardware, profile)
    if nic is None:
        return []  # nics() said so
    locator = nic.id
    if not nic.mac:
        evidence = "the BMC tells no MAC address of the NIC that installs"
        return [Finding("pxe_mac", "unknown", "nic.wrong_pxe_mac", locator, evidence, "reset_bmc")]
    if planned.mac is None or planned.mac == nic.mac:
        return [Finding("pxe_mac", "ok", "pxe_mac", locator, nic.mac)]
    evidence = f"has MAC {nic.mac}; planned is {planned.mac}"
    return [Finding("pxe_mac", "fail", "nic.wrong_pxe_mac", locator, evidence, "escalate")]


def link(hardware: Hardware, profile: Profile) -> list[Finding]:
    """The NIC that installs has link.

    Only evidence while the host is off, and when the BMC calls every Ethernet port down: a running R750 was seen to do
    so, whose InfiniBand ports had link.
    """
    nic = pxe_nic(hardware, profile)
    if nic is None:
        return []
    locator = nic.id
    if nic.link != "down":
        told = f"link {nic.link}" if nic.link else "the BMC does not tell"
        return [Finding("link", "ok", "link", locator, told)]
    powered = hardware.power_state == "On"
    cabled = profile.ethernet.get("cabled")
    wrong = [n.id for n in hardware.nics if n.kind == "ethernet" and n.link == "up" and n.id not in (cabled or ())]
    if cabled and wrong:  # evidence also while the host is off: the BMC sees this link, and not that one
        evidence = f"no link, but {', '.join(wrong)} has link where the profile {profile.name} expects no cable"
        status, action = ("fail", "reseat") if powered else ("warn", "none")
        return [Finding("link", status, "nic.wrong_port", locator, evidence, action)]
    others_up = any(n.link == "up" for n in hardware.nics if n.kind == "ethernet" and n.id != nic.id)
    evidence = f"link down, power {hardware.power_state or 'not told'}"
    if powered and others_up:
        return [Finding("link", "fail", "nic.no_link", locator, f"{evidence}, other ports have link", "reseat")]
    return [Finding("link", "warn", "nic.no_link", locator, f"{evidence}; check its cable if it does not PXE-boot")]


def clock(hardware: Hardware, profile: Profile) -> list[Finding]:
    """The BMC's clock is right; the host takes its time from there at its first boot."""
    skew = hardware.bmc_clock_skew_seconds
    if skew is None:
        return [Finding("clock", "warn", "clock.skew", "BMC", "the BMC does not tell its time")]
    warn = profile.limit("clock_skew_seconds", CLOCK_WARN_SECONDS)
    fail = max(warn, profile.limit("bmc_clock_fail_seconds", CLOCK_FAIL_SECONDS))
    evidence = f"the BMC's clock is {abs(skew)} s {'ahead' if skew > 0 else 'behind'}; {warn:g} s are allowed"
    if abs(skew) <= warn:
        return [Finding("clock", "ok", "clock", "BMC", f"off by {skew} s")]
    if abs(skew) <= fail:
        return [Finding("clock", "warn", "clock.skew", "BMC", evidence)]
    return [Finding("clock", "fail", "clock.skew", "BMC", evidence, "reset_bmc")]


def firmware(hardware: Hardware, profile: Profile, exact: Mapping[str, str]) -> list[Finding]:
    """No component is below the profile's floor, or other than ``exact`` where that has it.

    A component's name, its beginning up to a dot, or ``gpu_baseboard``: the BMCs of the GPUs' baseboards.
    """
    found = []
    for component, wanted in sorted({**profile.firmware, **exact}.items()):
        is_exact = component in exact
        symptom = "firmware.version" if is_exact else "firmware.below_floor"
        wants = f"versions.yml has {wanted}" if is_exact else f"the profile {profile.name} wants {wanted}"
        installed = _installed(hardware, component)
        if not installed:
            evidence = f"no version is told; {wants}"
            found.append(Finding("firmware", "unknown", symptom, component, evidence, "escalate"))
        for name, version in installed.items():
            have, want = version_key(version), version_key(wanted)
            if have != want if is_exact else have < want:
                evidence = f"version {version}; {wants}"
                found.append(Finding("firmware", "fail", symptom, name, evidence, "update_firmware"))
    judged = f"{len(profile.firmware.keys() - exact.keys())} floors, {len(exact)} exact versions"
    return found or [Finding("firmware", "ok", "firmware", "", judged)]


def _installed(hardware: Hardware, component: str) -> dict[str, str]:
    """Versions by name of what the component means."""
    if component == GPU_BASEBOARD:
        return {controller.id: controller.firmware for controller in hardware.controllers if controller.firmware}
    if exact := hardware.firmware.get(component):
        return {component: exact}
    return {
        name: version
        for name, version in hardware.firmware.items()
        if name.lower() == component.lower() or name.lower().startswith(f"{component.lower()}.")
    }


def version_key(version: str) -> list[tuple[int, int, str]]:
    """For comparing versions such as 7.10.50.00 or 00.1B.53; a part that is no number sorts after numbers."""
    pieces = [p for p in re.split(r"[.\-_ ]", version.strip()) if p]
    key = [(0, int(p), "") if p.isdecimal() and len(p) < 19 else (1, 0, p.upper()) for p in pieces]
    while key and key[-1] == (0, 0, ""):  # 2.5 is 2.5.0
        key.pop()
    return key


def inventory_age(hardware: Hardware, record: Record, profile: Profile) -> list[Finding]:
    """The BMC took stock lately enough; Dell's do so when the host boots."""
    taken, asked = moment(hardware.inventory_time), moment(record.asked_at)
    if taken is None or asked is None:
        return [Finding("inventory_age", "ok", "inventory_age", "", "the BMC does not tell")]
    days = (asked + datetime.timedelta(seconds=hardware.bmc_clock_skew_seconds or 0) - taken).total_seconds() / 86400
    limit = profile.limit("inventory_days", INVENTORY_DAYS)
    evidence = f"inventory of {hardware.inventory_time}"
    if days <= limit:
        return [Finding("inventory_age", "ok", "inventory_age", "", evidence)]
    evidence = f"{evidence} is {days:.0f} days old; parts may have changed since, a boot renews it"
    return [Finding("inventory_age", "warn", "inventory.stale", "BMC", evidence)]
