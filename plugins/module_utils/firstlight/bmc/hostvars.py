"""What Ansible's inventory says of a planned host and its BMC: groups and variables. Pure."""

from __future__ import annotations

from typing import Any

from ..profile import Profile
from ..sitefiles import PlannedHost
from .hardware import Record
from .judge_rest import pxe_nic


def host_groups(host: PlannedHost, record: Record, state: str, grade: str = "") -> list[tuple[str, str]]:
    """The groups of a host, each with the group that it is below, "" for none; grade: golden, lemon or empty."""
    groups = [(f"rack_{host.rack}", "fleet"), (f"profile_{host.profile}", ""), (f"state_{state}", "")]
    if grade:
        groups.append((grade, ""))
    if record.condition == "ok":
        return [*groups, ("bmc_ok", "")]
    if record.condition == "not_asked":
        return [*groups, ("bmc_not_asked", "fleet")]
    return [*groups, (f"bmc_{record.condition}", "bmc_failed")]


def host_variables(host: PlannedHost, record: Record, profile: Profile, previous: Record | None) -> dict[str, Any]:
    """The variables of a host, plain values. previous: see known.before_it_changed."""
    hardware = record.hardware
    told = hardware.service_tag if hardware and not record.stale else ""
    tag = told or host.service_tag or (hardware.service_tag if hardware else "")
    nic = pxe_nic(hardware, profile) if hardware else None
    mac = (nic.mac if nic else None) or host.mac
    variables: dict[str, Any] = {
        "planned": host.to_dict(),
        "bmc_address": host.bmc_address,
        "bmc_port": host.bmc_port,
        "rack": host.rack,
        "unit": host.unit,
        "bmc_condition": record.condition,
        "bmc_record": {**record.to_dict(), "name": host.name},
    }
    if tag:
        variables["service_tag"] = tag
    if mac:
        variables["pxe_mac"] = mac
    if previous:
        variables["bmc_previous"] = previous.to_dict()
    return variables
