"""Judging a BMC's record against the plan and the profile, before anything is installed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..clocks import MAAS_SECONDS, Reading, judge_bmc
from ..findings import Finding
from ..profile import Profile
from ..sitefiles import PlannedHost
from . import judge_bios as bios
from . import judge_changes as past
from . import judge_chassis as chassis
from . import judge_parts as parts
from . import judge_rest as rest
from .hardware import Hardware, Record
from .slots import usual_slots

CLOCK_UNCERTAINTY = 2.0  # seconds: BMCs tell whole ones, and are asked over the network

# condition -> status and action of the finding about the BMC itself
_BMC = {
    "unreachable": ("fail", "reseat"),  # its cable, its power, or its address in the plan
    "tls_failed": ("fail", "escalate"),
    "auth_failed": ("fail", "escalate"),
    "blocked": ("fail", "wait"),
    "busy": ("fail", "retry"),
    "not_ready": ("fail", "wait"),
    "half_answering": ("fail", "reset_bmc"),
    "timed_out": ("fail", "reset_bmc"),
    "not_asked": ("unknown", "retry"),
}
_HINTS = {
    "unreachable": "check its cable and power, and bmc_address in the fleet file",
    "tls_failed": "its certificate must be signed by the site's CA for this address",
    "auth_failed": "user name and password must be those of the site; it was asked once",
    "blocked": "it blocks our address after wrong passwords; it lets go by itself",
    "busy": "all its sessions are taken",
    "not_ready": "it is still starting",
}


@dataclass(frozen=True)
class Peers:
    """Which ids complete hosts of the same profile have: tells which one is missing here."""

    nics: list[str] = field(default_factory=list)
    gpus: list[str] = field(default_factory=list)
    hcas: list[str] = field(default_factory=list)
    nvme: list[str] = field(default_factory=list)
    psus: list[str] = field(default_factory=list)
    fans: list[str] = field(default_factory=list)
    dimms: list[str] = field(default_factory=list)


def triage(
    planned: PlannedHost,
    record: Record,
    profile: Profile,
    peers: Peers | None = None,
    previous: Record | None = None,
    firmware: Mapping[str, str] | None = None,
) -> list[Finding]:
    """Findings of one host, one ok finding for each check that found nothing wrong.

    peers: what complete hosts of this profile have, see peers_of. previous: what this BMC said the last time that it
    answered; it tells what was changed since, and which part it is that is missing. firmware: the exact version by
    component, where versions.yml has one.
    When the BMC did not answer there is one finding, about the BMC: what it said before proves nothing about now.
    """
    place = f"BMC {planned.bmc_address}"
    hardware = record.hardware
    if record.condition not in ("ok", "half_answering") or record.stale or hardware is None:
        return [_bmc(place, record)]
    peers = _with(peers or Peers(), previous, profile)
    pxe = bios.bios_pxe(hardware, profile)
    checks = [
        [_bmc(place, record)],
        rest.model(hardware, profile),
        rest.service_tag(planned, hardware),
        rest.nics(hardware, profile, peers.nics),
        rest.pxe_mac(planned, hardware, profile),
        rest.link(hardware, profile),
        chassis.baseboard(hardware),
        parts.gpus(hardware, profile, peers.gpus),
        parts.hcas(hardware, profile, peers.hcas),
        parts.nvme(hardware, profile, peers.nvme),
        parts.os_disk(hardware, profile),
        parts.psus(hardware, profile, peers.psus),
        chassis.fans(hardware, profile, peers.fans),
        chassis.temperatures(hardware, profile),
        chassis.dimms(hardware, profile, peers.dimms),
        chassis.pcie(hardware, profile),
        chassis.intrusion(hardware),
        rest.clock(hardware, profile),
        pxe,
        bios.bios_settings(hardware, profile, pxe=all(f.status == "ok" for f in pxe)),
        rest.firmware(hardware, profile, firmware or {}),
        rest.inventory_age(hardware, record, profile),
        past.changes(hardware, previous),
    ]
    found = [finding for check in checks for finding in check]
    found += chassis.redundancy(hardware, found)
    return found + past.log(hardware, found)


def bmc_clock(record: Record) -> Reading | None:
    """A BMC's clock as it was read just now."""
    hardware = record.hardware
    if record.stale or hardware is None or hardware.bmc_clock_skew_seconds is None:
        return None
    return Reading("BMC", float(hardware.bmc_clock_skew_seconds), CLOCK_UNCERTAINTY)


def judge_clocks(known: list[Finding], record: Record, profile: Profile, maas: Reading | None) -> list[Finding]:
    """The findings with the BMC's clock judged against MAAS's, where that is known: the controller may be wrong."""
    clock = bmc_clock(record)
    if maas is None or clock is None or not any(f.check == "clock" for f in known):
        return known
    limit = profile.limit("clock_skew_seconds", rest.CLOCK_WARN_SECONDS)
    found = judge_bmc(clock, maas, limit, profile.limit("bmc_clock_fail_seconds", MAAS_SECONDS))
    return [f for f in known if f.check != "clock"] + found


def _with(peers: Peers, previous: Record | None, profile: Profile) -> Peers:
    """The ids that this very host had when it was complete go before those of its peers."""
    before = previous.hardware if previous else None
    if before is None:
        return peers
    mine = _complete([before], profile)
    return Peers(**{name: getattr(mine, name) or getattr(peers, name) for name in Peers.__dataclass_fields__})


def triage_fleet(records: Mapping[str, Record]) -> dict[str, list[Finding]]:
    """What only the whole fleet shows: findings for hosts that share a MAC or a service tag; no entry for the others.

    One host behind two addresses of the plan looks so, and boards that were copied.
    """
    current = _current(records)
    macs: dict[str, set[str]] = {}
    tags: dict[str, set[str]] = {}
    for name, hardware in current.items():
        for nic in hardware.nics:
            if nic.mac:
                macs.setdefault(nic.mac, set()).add(name)
        if hardware.service_tag:
            tags.setdefault(hardware.service_tag, set()).add(name)
    found: dict[str, list[Finding]] = {}
    for symptom, what, owners in (
        ("nic.duplicate_mac", "MAC", macs),
        ("host.duplicate_service_tag", "service tag", tags),
    ):
        for value, names in sorted(owners.items()):
            for name in sorted(names) if len(names) > 1 else ():
                mine = found.setdefault(name, [])
                if not any(f.symptom == symptom for f in mine):  # one of a host's ten equal MACs says it all
                    others = ", ".join(sorted(names - {name}))
                    evidence = f"{what} {value} is also that of {others}"
                    mine.append(Finding("unique", "fail", symptom, f"{what} {value}", evidence, "escalate"))
    return found


def peers_of(records: Mapping[str, Record], profile: Profile, names: Iterable[str]) -> Peers:
    """Which ids the complete ones among these hosts of one profile have."""
    current = _current(records)
    return _complete([current[name] for name in names if name in current], profile)


def _complete(same: Sequence[Hardware], profile: Profile) -> Peers:
    return Peers(
        nics=usual_slots((rest.nic_ids(h) for h in same), profile.count("ethernet")),
        gpus=usual_slots((parts.gpu_ids(h) for h in same), profile.count("gpus")),
        hcas=usual_slots((parts.hca_ids(h) for h in same), profile.count("hcas")),
        nvme=usual_slots((parts.nvme_ids(h, profile) for h in same), profile.count("nvme")),
        psus=usual_slots((parts.psu_ids(h) for h in same), profile.count("psus")),
        fans=usual_slots((chassis.fan_ids(h) for h in same), profile.count("fans")),
        dimms=usual_slots((chassis.dimm_ids(h) for h in same), profile.count("dimms")),
    )


def _current(records: Mapping[str, Record]) -> dict[str, Hardware]:
    return {name: r.hardware for name, r in records.items() if r.hardware is not None and not r.stale}


def _bmc(place: str, record: Record) -> Finding:
    if record.condition == "ok" and not record.stale and record.hardware is not None:
        return Finding("bmc", "ok", "bmc", place)
    if record.condition == "ok":
        return Finding(
            "bmc", "unknown", "bmc.timed_out", place, "its last answer is old; it was not asked now", "retry"
        )
    status, action = _BMC[record.condition]
    hint = _HINTS.get(record.condition)
    evidence = "; ".join(text for text in (record.evidence, hint) if text)
    return Finding("bmc", status, f"bmc.{record.condition}", place, evidence, action)
