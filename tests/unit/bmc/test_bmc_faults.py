"""Every fault that the simulator's hardware can have becomes the finding that names it, and no other one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bmc_simulated import machine, record_of, strike

from firstlight.bmc.triage import peers_of, triage, triage_fleet
from firstlight.findings import Finding, verdict
from firstlight.profile import Profile
from firstlight.sitefiles import PlannedHost, load_profiles

PROFILES = Path(__file__).resolve().parents[3] / "inventory" / "profiles"
PLANNED = PlannedHost("n1", "r1", 1, "127.0.0.1", "xe9680", service_tag="SIM0001")
PXE = "NIC.Embedded.1-1-1"


@pytest.fixture(scope="module")
def profile() -> Profile:
    return load_profiles(PROFILES)["xe9680"]


def bad(findings: list[Finding]) -> list[Finding]:
    return [f for f in findings if f.status != "ok"]


FAULTS: list[tuple[str, dict[str, Any], str, str, str, str, str]] = [
    # fault, its parameters, status, symptom, locator, part of the evidence, action
    ("wrong_model", {}, "fail", "host.wrong_model", "system", "PowerEdge R760xa", "escalate"),
    ("wrong_tag", {}, "fail", "host.wrong_service_tag", "rack r1 unit 1", "WR0NG01", "escalate"),
    ("nic_missing", {}, "fail", "nic.missing", PXE, "1 of 2 Ethernet ports", "reseat"),
    ("no_link", {}, "fail", "nic.no_link", PXE, "link down, power On", "reseat"),
    ("hca_missing", {}, "fail", "hca.missing", "InfiniBand.Slot.33", "7 of 8 HCAs", "reseat"),
    ("hca_failed", {}, "fail", "hca.failed", "InfiniBand.Slot.33", "Health Critical", "replace"),
    ("hca_no_link", {}, "warn", "hca.no_link", "InfiniBand.Slot.33-1", "link down", "none"),
    ("gpu_missing", {}, "fail", "gpu.missing", "Video.Slot.24-1", "7 of 8 GPUs", "reseat"),
    ("gpu_failed", {}, "fail", "gpu.failed", "Video.Slot.24-1", "Health Critical", "replace"),
    ("nvme_missing", {}, "fail", "nvme.missing", "Disk.Bay.1:Enclosure.Internal.0-1", "7 of 8", "reseat"),
    ("nvme_failed", {}, "fail", "nvme.failed", "Disk.Bay.1:Enclosure.Internal.0-1", "Critical", "replace"),
    ("nvme_worn", {}, "fail", "nvme.worn", "Disk.Bay.1:Enclosure.Internal.0-1", "98 % of its life", "replace"),
    ("os_disk_missing", {}, "fail", "os_disk.missing", "OS disk BOSS", "no drive", "reseat"),
    ("pcie_narrow", {}, "fail", "pcie.narrow", "Video.Slot.24-1", "x1 Gen5 of x16 Gen5", "reseat"),
    (
        "pcie_narrow",
        {"gpu": -1, "hca": 2, "width": 8},
        "fail",
        "pcie.narrow",
        "InfiniBand.Slot.33",
        "x8 Gen5",
        "reseat",
    ),
    (
        "pcie_narrow",
        {"gpu": -1, "drive": 1},
        "fail",
        "pcie.narrow",
        "Disk.Bay.1:Enclosure.Internal.0-1",
        "x1",
        "reseat",
    ),
    ("pcie_slow", {}, "fail", "pcie.slow", "Video.Slot.24-1", "x16 Gen3 of x16 Gen5", "reseat"),
    ("psu_missing", {}, "fail", "psu.missing", "PSU.Slot.2", "5 of 6 PSUs", "reseat"),
    ("psu_failed", {}, "fail", "psu.failed", "PSU.Slot.2", "Failure Detected", "replace"),
    ("psu_unplugged", {}, "fail", "psu.no_input", "PSU.Slot.2", "check its cord", "reseat"),
    ("redundancy_lost", {}, "fail", "psu.redundancy_lost", "System Board PS Redundancy", "Critical", "reseat"),
    ("fan_failed", {}, "fail", "fan.failed", "System Board Fan1", "0 rpm", "replace"),
    ("fan_full_speed", {}, "warn", "fan.full_speed", "fans", "16 fans at 100 %", "reset_bmc"),
    ("too_hot", {}, "fail", "temperature.high", "System Board Inlet Temp", "52 degrees", "escalate"),
    ("dimm_failed", {}, "fail", "dimm.failed", "DIMM.Socket.A4", "Health Critical", "replace"),
    ("dimm_missing", {}, "fail", "dimm.missing", "DIMM.Socket.A4", "31 of 32 DIMMs", "reseat"),
    ("intrusion", {}, "warn", "chassis.intrusion", "chassis", "HardwareIntrusion", "none"),
    ("clock_wrong", {}, "fail", "clock.skew", "BMC", "behind", "reset_bmc"),
    ("old_inventory", {}, "warn", "inventory.stale", "BMC", "days old", "none"),
    ("old_firmware", {}, "fail", "firmware.below_floor", "bios", "1.1.2", "update_firmware"),
    ("bios_wrong", {}, "fail", "bios.pxe_disabled", "BIOS", "PxeDev1EnDis must be Enabled", "escalate"),
    (
        "bios_wrong",
        {"attribute": "SysProfile", "value": "Custom"},
        "fail",
        "bios.performance_profile",
        "BIOS SysProfile",
        "is Custom; the profile xe9680 wants PerfOptimized",
        "escalate",
    ),
    (
        "bios_wrong",
        {"attribute": "BootMode", "value": "Bios"},
        "fail",
        "bios.boot_mode",
        "BIOS BootMode",
        "is Bios",
        "escalate",
    ),
    (
        "bios_wrong",
        {"attribute": "SriovGlobalEnable", "value": "Disabled"},
        "fail",
        "bios.sriov",
        "BIOS SriovGlobalEnable",
        "is Disabled",
        "escalate",
    ),
    ("sel_critical", {}, "warn", "log.critical", "BMC log Sel", "internal error (IERR)", "none"),
]


@pytest.mark.parametrize(
    ("fault", "given", "status", "symptom", "locator", "evidence", "action"),
    FAULTS,
    ids=[f"{fault}-{symptom}" for fault, _, _, symptom, _, _, _ in FAULTS],
)
def test_a_fault_is_one_finding(
    fault: str,
    given: dict[str, Any],
    status: str,
    symptom: str,
    locator: str,
    evidence: str,
    action: str,
    profile: Profile,
    tmp_path: Path,
) -> None:
    record = record_of(strike(machine(tmp_path), fault, **given))
    other = record_of(machine(tmp_path, number=2))
    peers = peers_of({"n1": record, "n2": other}, profile, ["n1", "n2"])
    (found,) = bad(triage(PLANNED, record, profile, peers))
    assert (found.status, found.symptom, found.action) == (status, symptom, action)
    if symptom == "log.critical":
        assert found.locator.startswith("BMC log")
    elif symptom == "firmware.below_floor":
        assert found.locator in ("bios", "BIOS.Setup.1-1")
    else:
        assert found.locator == locator
    assert evidence in found.evidence


@pytest.mark.parametrize("power", ["On", "Off"])
@pytest.mark.parametrize("vendor", ["dell-idrac9"])
def test_a_sound_machine_is_ready_whether_it_is_on_or_off(
    vendor: str, power: str, profile: Profile, tmp_path: Path
) -> None:
    record = record_of(machine(tmp_path, vendor, power=power))
    findings = triage(PLANNED, record, profile)
    assert bad(findings) == []
    assert verdict(findings).ready


def test_a_missing_part_is_named_by_what_was_there_before(profile: Profile, tmp_path: Path) -> None:
    """Without peers nobody could tell which end of the row it is that is missing."""
    before = record_of(machine(tmp_path))
    now = record_of(strike(machine(tmp_path), "gpu_missing", gpu=0))
    assert [f.locator for f in bad(triage(PLANNED, now, profile))] == ["1 GPU"]
    assert [f.locator for f in bad(triage(PLANNED, now, profile, previous=before))] == ["Video.Slot.21-1"]


def test_another_machine_than_last_time_is_told(profile: Profile, tmp_path: Path) -> None:
    planned = PlannedHost("n1", "r1", 1, "127.0.0.1", "xe9680")
    before, now = record_of(machine(tmp_path, number=2)), record_of(machine(tmp_path))
    found = bad(triage(planned, now, profile, previous=before))
    assert {f.symptom for f in found} == {"host.changed", "nic.changed_mac"}
    assert {f.status for f in found} == {"warn"}
    assert "service tag SIM0001; it was SIM0002" in found[0].evidence
    unchanged = triage(planned, now, profile, previous=record_of(machine(tmp_path)))
    assert bad(unchanged) == []
    assert "changes" in [f.check for f in unchanged]


def test_a_cable_in_the_wrong_port(profile: Profile, tmp_path: Path) -> None:
    cabled = Profile(**{**vars(profile), "ethernet": {**profile.ethernet, "cabled": [PXE]}})
    for power, status, action in (("On", "fail", "reseat"), ("Off", "warn", "none")):
        record = record_of(strike(machine(tmp_path, power=power), "cable_in_wrong_port"))
        (found,) = bad(triage(PLANNED, record, cabled))
        assert (found.status, found.symptom, found.locator, found.action) == (status, "nic.wrong_port", PXE, action)
        assert "NIC.Embedded.2-1-1 has link" in found.evidence


def test_power_redundancy_is_not_told_twice(profile: Profile, tmp_path: Path) -> None:
    record = record_of(strike(machine(tmp_path), "psu_failed"))
    assert record.hardware is not None
    assert [g.health for g in record.hardware.redundancy if g.kind == "psu"] == ["Critical"]
    assert [f.symptom for f in bad(triage(PLANNED, record, profile))] == ["psu.failed"]


def test_fans_at_full_speed_are_right_when_it_is_hot(profile: Profile, tmp_path: Path) -> None:
    made = strike(strike(machine(tmp_path), "fan_full_speed"), "too_hot", celsius=41)
    assert "fan.full_speed" not in [f.symptom for f in triage(PLANNED, record_of(made), profile)]


def test_an_inlet_that_is_too_warm_by_the_profile(profile: Profile, tmp_path: Path) -> None:
    cold = Profile(**{**vars(profile), "limits": {**profile.limits, "inlet_celsius": 20}})
    (found,) = bad(triage(PLANNED, record_of(machine(tmp_path)), cold))
    assert (found.status, found.symptom) == ("warn", "temperature.inlet")


def test_a_link_that_nobody_has_an_opinion_on_only_warns(profile: Profile, tmp_path: Path) -> None:
    """x16 cards sit in x8 slots on purpose, and GPUs slow their link down to save power."""
    silent = Profile(**{**vars(profile), "gpus": {"count": 8}})
    (found,) = bad(triage(PLANNED, record_of(strike(machine(tmp_path), "pcie_narrow")), silent))
    assert (found.status, found.symptom, found.action) == ("warn", "pcie.narrow", "none")


def test_two_hosts_with_one_tag_or_mac(tmp_path: Path) -> None:
    """The first board's copy, or the same BMC at two addresses of the plan."""
    records = {"n1": record_of(machine(tmp_path)), "n2": record_of(machine(tmp_path, number=2))}
    assert triage_fleet(records) == {}
    twins = triage_fleet(records | {"n3": record_of(machine(tmp_path))})
    assert {name: [f.symptom for f in found] for name, found in twins.items()} == {
        "n1": ["nic.duplicate_mac", "host.duplicate_service_tag"],
        "n3": ["nic.duplicate_mac", "host.duplicate_service_tag"],
    }
