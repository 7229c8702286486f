"""Triage of what keeps the parts alive: redundancy, fans, temperatures, memory, intrusion, PCIe, baseboards."""

from __future__ import annotations

from collections.abc import Sequence

from ..findings import Finding
from ..profile import Profile
from .hardware import Hardware, PcieLink, Temperature
from .judge_parts import counted, where

FAN_PERCENT = 98.0
COOL = 0.75  # of the critical threshold
_KINDS = {"gpu": "gpus", "hca": "hcas", "nvme": "nvme", "nic": "ethernet"}  # of a link -> where the profile tells


def dimm_ids(hardware: Hardware) -> list[str]:
    return [dimm.id for dimm in hardware.dimms]


def fan_ids(hardware: Hardware) -> list[str]:
    return [fan.id for fan in hardware.fans]


def redundancy(hardware: Hardware, found: Sequence[Finding]) -> list[Finding]:
    """Power and fans bear the loss of one. found: what else is wrong; a failed supply or fan says it already."""
    lost = []
    for group in hardware.redundancy:
        if group.health not in ("Warning", "Critical") or any(
            f.status != "ok" and f.check == f"{group.kind}s" for f in found
        ):
            continue
        told = f"Health {group.health}, State {group.state or 'not told'}, though no {group.kind} is called bad"
        status = "fail" if group.health == "Critical" else "warn"
        action = "reseat" if status == "fail" else "none"  # a cord, a feed, or a supply of another model
        lost.append(Finding("redundancy", status, f"{group.kind}.redundancy_lost", group.id, told, action))
    return lost or [Finding("redundancy", "ok", "redundancy", "", f"{len(hardware.redundancy)} groups")]


def fans(hardware: Hardware, profile: Profile, peers: Sequence[str] = ()) -> list[Finding]:
    """All fans are there and turn; while the host is off they stand still."""
    found = counted("fans", "fan.missing", "fan", fan_ids(hardware), hardware, profile, peers, part="thermal")
    for fan in hardware.fans:
        told = f"Health {fan.health or 'not told'}, {fan.rpm if fan.rpm is not None else 'no'} rpm"
        if fan.health == "Critical":
            found.append(Finding("fans", "fail", "fan.failed", where("fan", fan.id), told, "replace"))
        elif fan.health == "Warning":
            found.append(Finding("fans", "warn", "fan.failed", where("fan", fan.id), told))
    return found or _full_speed(hardware, profile)


def _full_speed(hardware: Hardware, profile: Profile) -> list[Finding]:
    """All fans at their limit while nothing is hot: the BMC misses a sensor, and cools for the worst."""
    percents = [fan.percent for fan in hardware.fans if fan.percent is not None]
    hot = _hottest(hardware.temperatures)
    limit = profile.limit("fan_percent", FAN_PERCENT)
    if hardware.power_state != "On" or not percents or hot is None or min(percents) < limit:
        return [Finding("fans", "ok", "fans", "", f"{len(hardware.fans)} fans")]
    share = hot.celsius / (hot.critical or 1)
    if share > COOL:
        return [Finding("fans", "ok", "fans", "", f"{len(hardware.fans)} fans at {min(percents)} %, it is hot")]
    evidence = (
        f"{len(percents)} fans at {min(percents)} % or more, but the hottest sensor, {hot.id}, has {hot.celsius:g} of "
        f"{hot.critical:g} degrees"
    )
    return [Finding("fans", "warn", "fan.full_speed", "fans", evidence, "reset_bmc")]


def _hottest(temperatures: Sequence[Temperature]) -> Temperature | None:
    """The sensor that is nearest to its critical threshold; None when none tells one."""
    known = [one for one in temperatures if one.critical]
    return max(known, key=lambda one: one.celsius / (one.critical or 1), default=None)


def temperatures(hardware: Hardware, profile: Profile) -> list[Finding]:
    """Nothing is too hot: by the BMC's own word, by its thresholds, or at the inlet by the profile."""
    found = []
    inlet = profile.limits.get("inlet_celsius")
    for one in hardware.temperatures:
        told = f"{one.celsius:g} degrees; warning at {_told(one.warning)}, critical at {_told(one.critical)}"
        # A sensor of a part that failed is Critical too, at 30 degrees: the part's own finding tells that.
        cool = one.critical is not None and one.celsius < (one.warning or one.critical)
        if cool and not (inlet is not None and _is_inlet(one)):
            continue
        if not cool and (one.health == "Critical" or (one.critical is not None and one.celsius >= one.critical)):
            found.append(Finding("temperatures", "fail", "temperature.high", one.id, told, "escalate"))
        elif (one.health == "Warning" and not cool) or (one.warning is not None and one.celsius >= one.warning):
            found.append(Finding("temperatures", "warn", "temperature.high", one.id, told))
        elif inlet is not None and _is_inlet(one) and one.celsius > inlet:
            evidence = f"{one.celsius:g} degrees; the profile {profile.name} wants {inlet:g} at most"
            found.append(Finding("temperatures", "warn", "temperature.inlet", one.id, evidence))
    return found or [Finding("temperatures", "ok", "temperatures", "", f"{len(hardware.temperatures)} sensors")]


def _is_inlet(one: Temperature) -> bool:
    return any(word in one.id.lower() for word in ("inlet", "ambient")) and "gpu" not in one.id.lower()


def _told(degrees: float | None) -> str:
    return "no value" if degrees is None else f"{degrees:g}"


def dimms(hardware: Hardware, profile: Profile, peers: Sequence[str] = ()) -> list[Finding]:
    """All memory modules are there and none is broken; together they have the profile's size."""
    found = counted("dimms", "dimm.missing", "DIMM", dimm_ids(hardware), hardware, profile, peers)
    for dimm in hardware.dimms:
        told = (
            f"Health {dimm.health or 'not told'}, State {dimm.state or 'not told'}, serial {dimm.serial or 'not told'}"
        )
        if dimm.health == "Critical" or dimm.state == "Disabled":
            found.append(Finding("dimms", "fail", "dimm.failed", where("DIMM", dimm.id), told, "replace"))
        elif dimm.health == "Warning":
            found.append(Finding("dimms", "warn", "dimm.failed", where("DIMM", dimm.id), told))
    wanted, total = float(profile.dimms.get("total_gib", 0)), hardware.memory_gib
    if not found and wanted and total is not None and total < wanted:
        evidence = f"{total:g} GiB of memory; the profile {profile.name} wants {wanted:g}"
        found.append(Finding("dimms", "fail", "dimm.too_little", "memory", evidence, "reseat"))
    return found or [Finding("dimms", "ok", "dimms", "", f"{len(hardware.dimms)} DIMMs")]


def intrusion(hardware: Hardware) -> list[Finding]:
    """Nobody opened the chassis; somebody who repairs it does, so it never blocks."""
    if hardware.intrusion in ("", "Normal"):
        return [Finding("intrusion", "ok", "intrusion", "", hardware.intrusion or "the BMC does not tell")]
    evidence = f"the chassis switch says {hardware.intrusion}; close it, or clear the state after a repair"
    return [Finding("intrusion", "warn", "chassis.intrusion", "chassis", evidence)]


def pcie(hardware: Hardware, profile: Profile) -> list[Finding]:
    """PCIe links have the width and speed that the profile wants; where it says nothing, what both ends can do.

    A card in a slot that was made narrower on purpose, and a GPU that saves power, have less than they can: without a
    word from the profile that is a warning.
    """
    found = [finding for one in hardware.pcie for finding in _degraded(one, profile)]
    return found or [Finding("pcie", "ok", "pcie", "", f"{len(hardware.pcie)} links")]


def _degraded(one: PcieLink, profile: Profile) -> list[Finding]:
    wanted = getattr(profile, _KINDS.get(one.kind, ""), {}).get("pcie", {})
    if one.kind == "nic" and not wanted:
        return []  # those on the board often sit on fewer lanes by design
    lanes, generation = wanted.get("lanes"), wanted.get("generation")
    told = f"x{one.lanes or '?'} Gen{one.generation or '?'} of x{one.max_lanes or '?'} Gen{one.max_generation or '?'}"
    by = f"; the profile {profile.name} wants x{lanes or '?'} Gen{generation or '?'}" if wanted else ""
    status = "fail" if wanted else "warn"
    action = "reseat" if wanted else "none"
    locator = where(one.kind.upper(), one.id)
    found = []
    if one.lanes and one.lanes < (lanes or one.max_lanes or 0):
        found.append(Finding("pcie", status, "pcie.narrow", locator, told + by, action))
    if one.generation and one.generation < (generation or one.max_generation or 0):
        found.append(Finding("pcie", status, "pcie.slow", locator, told + by, action))
    return found


def baseboard(hardware: Hardware) -> list[Finding]:
    """The BMC of the GPUs' baseboard runs; while it does not, what is said about the GPUs is old."""
    found = []
    for controller in hardware.controllers:
        if controller.health == "Critical" or controller.state not in ("", "Enabled"):
            evidence = f"Health {controller.health or 'not told'}, State {controller.state or 'not told'}"
            absent = [gpu.id for gpu in hardware.gpus if gpu.state == "Absent"]
            evidence += f"; the firmware of {', '.join(absent)} is absent" if absent else ""
            found.append(Finding("baseboard", "fail", "gpu.baseboard_down", controller.id, evidence, "power_cycle"))
    return found or [Finding("baseboard", "ok", "baseboard", "", f"{len(hardware.controllers)} baseboards")]
