"""Judging records: each symptom on a bad machine, none of them on a good one, nothing judged that was not read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import bmc_trees as trees
import pytest

from firstlight.bmc.errors import CONDITIONS
from firstlight.bmc.fetch import TreeReader, read_tree
from firstlight.bmc.hardware import Controller, Record
from firstlight.bmc.judge_rest import version_key
from firstlight.bmc.normalise import normalise
from firstlight.bmc.slots import missing_slots, usual_slots
from firstlight.bmc.triage import peers_of, triage, triage_fleet
from firstlight.findings import Finding, verdict
from firstlight.profile import Profile
from firstlight.sitefiles import PlannedHost, load_profiles

PROFILES = Path(__file__).resolve().parents[3] / "inventory" / "profiles"
PLANNED = PlannedHost("n1", "r1", 4, "192.0.2.1", "xe9680")
GPUS = f"{trees.SYSTEM}/Processors"
PSUS = f"{trees.CHASSIS}/PowerSubsystem/PowerSupplies"
DRIVE = f"{trees.SYSTEM}/Storage/CPU.1/Drives/Disk.Bay.3:Enclosure.Internal.0-1"
NIC = f"{trees.SYSTEM}/EthernetInterfaces/{trees.PXE_NIC}"
BAD = {"Status": {"Health": "Critical", "State": "Enabled"}}


@pytest.fixture(scope="module")
def profile() -> Profile:
    return load_profiles(PROFILES)["xe9680"]


def record_of(tree: trees.Tree, name: str = "n1") -> Record:
    read = read_tree(TreeReader(tree))
    hardware = normalise(read.resources, trees.NOW, read.failures)
    condition = "half_answering" if read.failures else "ok"
    return Record(name, condition, "", trees.NOW.isoformat(), 1.0, hardware=hardware)


def bad(findings: list[Finding]) -> list[Finding]:
    return [f for f in findings if f.status != "ok"]


def test_a_good_machine_is_ready_and_each_check_says_so(profile: Profile) -> None:
    findings = triage(PLANNED, record_of(trees.xe9680()), profile)
    assert bad(findings) == []
    assert verdict(findings).ready
    checks = (
        "bmc model service_tag nics pxe_mac link baseboard gpus hcas nvme os_disk psus fans temperatures dimms pcie "
        "intrusion clock bios_pxe bios firmware inventory_age redundancy log"
    )
    assert " ".join(f.check for f in findings) == checks


def without(collection: str, name: str) -> Callable[[], trees.Tree]:
    return lambda: trees.without(trees.xe9680(), collection, name)


def changed(path: str, **values: Any) -> Callable[[], trees.Tree]:
    return lambda: trees.changed(trees.xe9680(), path, **values)


def bios(**values: str) -> Callable[[], trees.Tree]:
    path = f"{trees.SYSTEM}/Bios"

    def tree() -> trees.Tree:
        good = trees.xe9680()
        return trees.changed(good, path, Attributes=good[path]["Attributes"] | values)

    return tree


CASES: dict[str, tuple[Callable[[], trees.Tree], str, str, str, str, str]] = {
    # what is wrong: tree, status, symptom, locator, part of the evidence, action
    "gpu in the middle": (
        without(GPUS, "Video.Slot.24-1"),
        "fail",
        "gpu.missing",
        "Video.Slot.24-1",
        "7 of 8 GPUs: present Video.Slot.21-1, Video.Slot.22-1, Video.Slot.23-1, Video.Slot.25-1",
        "reseat",
    ),
    "gpu at the end": (without(GPUS, "Video.Slot.28-1"), "fail", "gpu.missing", "1 GPU", "7 of 8 GPUs", "reseat"),
    "gpu critical": (
        changed(f"{GPUS}/Video.Slot.22-1", **BAD),
        "fail",
        "gpu.failed",
        "Video.Slot.22-1",
        "Health Critical",
        "replace",
    ),
    "gpu warning": (
        changed(f"{GPUS}/Video.Slot.22-1", Status={"Health": "Warning"}),
        "warn",
        "gpu.failed",
        "Video.Slot.22-1",
        "Health Warning",
        "none",
    ),
    "another gpu": (
        changed(f"{GPUS}/Video.Slot.22-1", Model="NVIDIA A100"),
        "fail",
        "gpu.wrong_model",
        "Video.Slot.22-1",
        "is a NVIDIA A100; the profile xe9680 says H100",
        "escalate",
    ),
    "hca": (
        without(trees.ADAPTERS, "InfiniBand.Slot.35"),
        "fail",
        "hca.missing",
        "InfiniBand.Slot.35",
        "7 of 8 HCAs",
        "reseat",
    ),
    "psu gone": (without(PSUS, "PSU.Slot.5"), "fail", "psu.missing", "PSU.Slot.5", "5 of 6 PSUs", "reseat"),
    "psu failed": (changed(f"{PSUS}/PSU.Slot.2", **BAD), "fail", "psu.failed", "PSU.Slot.2", "Critical", "replace"),
    "psu not plugged": (
        changed(f"{PSUS}/PSU.Slot.2", Status={"Health": "Critical", "State": "UnavailableOffline"}),
        "fail",
        "psu.no_input",
        "PSU.Slot.2",
        "UnavailableOffline",
        "reseat",
    ),
    "nvme failed": (changed(DRIVE, **BAD), "fail", "nvme.failed", DRIVE.rsplit("/", 1)[1], "Critical", "replace"),
    "nvme dying": (
        changed(DRIVE, FailurePredicted=True),
        "fail",
        "nvme.failed",
        DRIVE.rsplit("/", 1)[1],
        "predicts its own failure",
        "replace",
    ),
    "nvme small": (
        changed(DRIVE, CapacityBytes=1_000_000_000_000),
        "fail",
        "nvme.too_small",
        DRIVE.rsplit("/", 1)[1],
        "has 1000000000000 bytes",
        "replace",
    ),
    "nvme gone": (
        changed(DRIVE, Status={"State": "Absent"}),
        "fail",
        "nvme.missing",
        DRIVE.rsplit("/", 1)[1],
        "7 of 8 NVMe",
        "reseat",
    ),
    "no BOSS": (
        without(f"{trees.SYSTEM}/Storage", "BOSS.SL.12-1"),
        "fail",
        "os_disk.missing",
        "OS disk BOSS",
        "no drive of 200000000000 bytes",
        "reseat",
    ),
    "PXE NIC gone": (
        without(f"{trees.SYSTEM}/EthernetInterfaces", trees.PXE_NIC),
        "fail",
        "nic.missing",
        trees.PXE_NIC,
        "1 of 2 Ethernet ports: present NIC.Embedded.2-1-1",
        "reseat",
    ),
    "PXE NIC without link": (
        changed(NIC, LinkStatus="LinkDown"),
        "fail",
        "nic.no_link",
        trees.PXE_NIC,
        "link down, power On",
        "reseat",
    ),
    "PXE NIC without a MAC": (
        changed(NIC, MACAddress=None),
        "unknown",
        "nic.wrong_pxe_mac",
        trees.PXE_NIC,
        "no MAC",
        "reset_bmc",
    ),
    "another model": (
        changed(trees.SYSTEM, Model="PowerEdge R750"),
        "fail",
        "host.wrong_model",
        "system",
        "is a Dell Inc. PowerEdge R750; the profile xe9680 is for a Dell Inc. PowerEdge XE9680",
        "escalate",
    ),
    "clock a year behind": (
        changed(trees.MANAGER, DateTime="2025-11-01T12:00:00Z"),
        "fail",
        "clock.skew",
        "BMC",
        "31536000 s behind",
        "reset_bmc",
    ),
    "clock a minute ahead": (
        changed(trees.MANAGER, DateTime="2026-11-01T12:01:00Z"),
        "warn",
        "clock.skew",
        "BMC",
        "60 s ahead; 30 s are allowed",
        "none",
    ),
    "clock not told": (changed(trees.MANAGER, DateTime=None), "warn", "clock.skew", "BMC", "does not tell", "none"),
    "PXE off in the BIOS": (
        bios(PxeDev1EnDis="Disabled"),
        "fail",
        "bios.pxe_disabled",
        "BIOS",
        "no PXE device is enabled; PxeDev1EnDis must be Enabled and PxeDev1Interface NIC.Embedded.1-1-1",
        "escalate",
    ),
    "PXE on another NIC": (
        bios(PxeDev1Interface="NIC.Slot.3-1"),
        "fail",
        "bios.pxe_disabled",
        "BIOS",
        "PxeDev1 on NIC.Slot.3-1",
        "escalate",
    ),
    "old inventory": (
        changed(trees.SYSTEM, Oem={"Dell": {"DellSystem": {"LastSystemInventoryTime": "2026-06-01T00:00:00Z"}}}),
        "warn",
        "inventory.stale",
        "BMC",
        "is 154 days old",
        "none",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_fault_has_its_one_finding(case: str, profile: Profile) -> None:
    tree, status, symptom, locator, evidence, action = CASES[case]
    (found,) = bad(triage(PLANNED, record_of(tree()), profile))
    assert (found.status, found.symptom, found.locator, found.action) == (status, symptom, locator, action)
    assert evidence in found.evidence


def test_link_is_only_evidence_while_the_host_is_off(profile: Profile) -> None:
    tree = trees.changed(trees.xe9680(), NIC, LinkStatus="LinkDown")
    (found,) = bad(triage(PLANNED, record_of(trees.changed(tree, trees.SYSTEM, PowerState="Off")), profile))
    assert (found.status, found.symptom, found.action) == ("warn", "nic.no_link", "none")


def test_a_bmc_that_calls_every_port_down_is_no_witness(profile: Profile) -> None:
    tree = trees.xe9680()
    for path, resource in tree.items():
        if "LinkStatus" in resource:
            tree = trees.changed(tree, path, LinkStatus="LinkDown")
    (found,) = bad(triage(PLANNED, record_of(tree), profile))
    assert (found.status, found.symptom) == ("warn", "nic.no_link")


def test_infiniband_with_link_is_no_witness_for_ethernet(profile: Profile) -> None:
    """As seen: a running R750 whose InfiniBand ports were up and whose Ethernet ports, all of them, down."""
    tree = trees.xe9680()
    for path, resource in tree.items():
        if "/EthernetInterfaces/" in path:
            tree = trees.changed(tree, path, **(resource | {"LinkStatus": "LinkDown"}))
    (found,) = bad(triage(PLANNED, record_of(tree), profile))
    assert (found.status, found.symptom) == ("warn", "nic.no_link")


def test_an_adapter_that_nothing_uses_yet_is_not_broken(profile: Profile) -> None:
    path = f"{trees.ADAPTERS}/InfiniBand.Slot.33"
    tree = trees.changed(trees.xe9680(), path, Status={"Health": "OK", "State": "Disabled"})
    assert bad(triage(PLANNED, record_of(tree), profile)) == []
    tree = trees.changed(tree, path, Status={"Health": "Critical", "State": "Enabled"})
    (found,) = bad(triage(PLANNED, record_of(tree), profile))
    assert (found.status, found.symptom, found.locator) == ("fail", "hca.failed", "InfiniBand.Slot.33")


def test_the_plan_is_compared_where_it_says_something(profile: Profile) -> None:
    right = PlannedHost("n1", "r1", 4, "192.0.2.1", "xe9680", service_tag="SYN0001", mac="02:aa:00:00:01:01")
    assert bad(triage(right, record_of(trees.xe9680()), profile)) == []
    swapped = PlannedHost("n1", "r1", 4, "192.0.2.1", "xe9680", service_tag="SYN0002", mac="02:aa:00:00:02:01")
    tag, mac = bad(triage(swapped, record_of(trees.xe9680()), profile))
    assert (tag.symptom, tag.locator) == ("host.wrong_service_tag", "rack r1 unit 4")
    assert tag.evidence == "service tag SYN0001 answers at 192.0.2.1; planned is SYN0002"
    assert (mac.symptom, mac.evidence) == (
        "nic.wrong_pxe_mac",
        "has MAC 02:aa:00:00:01:01; planned is 02:aa:00:00:02:01",
    )


def test_firmware_floors(profile: Profile) -> None:
    floors = Profile(**{**vars(profile), "firmware": {"bmc": "7.20.0.0", "InfiniBand": "28.39.1", "cpld": "1.0"}})
    cpld, bmc = sorted(bad(triage(PLANNED, record_of(trees.xe9680()), floors)), key=lambda f: f.status, reverse=True)
    assert (cpld.status, cpld.locator) == ("unknown", "cpld")
    assert (bmc.status, bmc.symptom, bmc.locator, bmc.action) == (
        "fail",
        "firmware.below_floor",
        "bmc",
        "update_firmware",
    )
    assert bmc.evidence == "version 7.10.0.0; the profile xe9680 wants 7.20.0.0"


@pytest.mark.parametrize(
    ("firmware", "status", "evidence"),
    [
        ({"bmc": "7.10.0.0"}, "", ""),
        ({"bmc": "7.10"}, "", ""),  # the same
        ({"bmc": "7.00.00.00"}, "fail", "version 7.10.0.0; versions.yml has 7.00.00.00"),  # newer is another too
        ({"bmc": "7.20.0.0"}, "fail", "version 7.10.0.0; versions.yml has 7.20.0.0"),
        ({"gpu_baseboard": "1.2"}, "unknown", "no version is told; versions.yml has 1.2"),
    ],
)
def test_exact_firmware_goes_before_the_floor(
    firmware: dict[str, str], status: str, evidence: str, profile: Profile
) -> None:
    floors = Profile(**{**vars(profile), "firmware": {"bmc": "7.20.0.0"}})
    if "gpu_baseboard" in firmware:
        floors = profile
    found = bad(triage(PLANNED, record_of(trees.xe9680()), floors, firmware=firmware))
    assert [(f.status, f.symptom, f.evidence) for f in found] == (
        [(status, "firmware.version", evidence)] if status else []
    )


def test_firmware_of_the_gpus_baseboard(profile: Profile) -> None:
    record = record_of(trees.xe9680())
    assert record.hardware is not None
    boards = [Controller("HGX_BMC_0", "OK", "Enabled", "HGX-22.10-1-rc67"), Controller("HGX_FPGA_0", "OK", "Enabled")]
    record = replace(record, hardware=replace(record.hardware, controllers=boards))
    right, wrong = {"gpu_baseboard": "HGX-22.10-1-rc67"}, {"gpu_baseboard": "HGX-22.10-1-rc80"}
    assert bad(triage(PLANNED, record, profile, firmware=right)) == []
    (found,) = bad(triage(PLANNED, record, profile, firmware=wrong))
    assert (found.status, found.symptom, found.locator) == ("fail", "firmware.version", "HGX_BMC_0")
    floors = Profile(**{**vars(profile), "firmware": wrong})
    assert [f.symptom for f in bad(triage(PLANNED, record, floors))] == ["firmware.below_floor"]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("2.9", "2.10"),
        ("2.5.4", "2.5.4.1"),
        ("00.1A.53", "00.1B.01"),
        ("7.10.50.00", "7.10.50.10"),
        ("1.8.2", "2.0"),
        ("7.1", "7.\u00b2"),
    ],
)
def test_versions_compare_by_number(older: str, newer: str) -> None:
    assert version_key(older) < version_key(newer)
    assert not version_key(newer) < version_key(older)


def test_equal_versions() -> None:
    assert version_key("2.5") == version_key("2.5.0.0")


@pytest.mark.parametrize("condition", [c for c in CONDITIONS if c not in ("ok", "half_answering", "not_asked")])
def test_a_bmc_that_says_nothing_proves_nothing(condition: str, profile: Profile) -> None:
    """Also with yesterday's hardware at hand: that it was complete then does not make it ready now."""
    old = record_of(trees.xe9680()).hardware
    for record in (
        Record("n1", condition, "what it said", trees.NOW.isoformat(), 3.0),
        Record("n1", condition, "what it said", trees.NOW.isoformat(), 3.0, stale=True, hardware=old),
    ):
        (found,) = triage(PLANNED, record, profile)
        assert (found.status, found.symptom, found.locator) == ("fail", f"bmc.{condition}", "BMC 192.0.2.1")
        assert "what it said" in found.evidence
        assert found.action != "none"


def test_what_could_not_be_read_is_unknown_and_not_missing(profile: Profile) -> None:
    tree = trees.xe9680()
    del tree[f"{GPUS}/Video.Slot.27-1"]
    del tree[DRIVE]
    del tree[f"{trees.SYSTEM}/Bios"]
    findings = triage(PLANNED, record_of(tree), profile)
    by_check = {f.check: (f.status, f.symptom) for f in bad(findings)}
    assert by_check == {
        "bmc": ("fail", "bmc.half_answering"),
        "gpus": ("unknown", "gpu.missing"),
        "nvme": ("unknown", "nvme.missing"),
        "bios_pxe": ("unknown", "bios.pxe_disabled"),
    }
    assert not verdict(findings).ready


@pytest.mark.parametrize("instead", [None, {}, "none", 0, [None], [[]]])
@pytest.mark.parametrize(
    ("path", "key", "symptom"),
    [
        (f"{trees.SYSTEM}/Storage/CPU.1", "Drives", "nvme.missing"),
        (f"{trees.CHASSIS}/Thermal", "Fans", "fan.missing"),
        (trees.SYSTEM, "Processors", "gpu.missing"),
        (trees.SYSTEM, "Memory", "dimm.missing"),
        (trees.CHASSIS, "NetworkAdapters", "hca.missing"),
    ],
)
def test_what_stands_where_a_list_or_link_belongs_accuses_no_part(
    path: str, key: str, symptom: str, instead: Any, profile: Profile
) -> None:
    tree = trees.changed(trees.xe9680(), path, **{key: instead})
    found = bad(triage(PLANNED, record_of(tree), profile))
    assert [(f.status, f.symptom) for f in found] == [("unknown", symptom)]


def test_peers_tell_which_slot_is_missing(profile: Profile) -> None:
    records = {
        "n1": record_of(trees.without(trees.xe9680(1), GPUS, "Video.Slot.21-1")),
        "n2": record_of(trees.xe9680(2)),
    }
    peers = peers_of(records, profile, records)
    (found,) = bad(triage(PLANNED, records["n1"], profile, peers))
    assert found.locator == "Video.Slot.21-1"


def test_twins() -> None:
    records = {f"n{n}": record_of(trees.xe9680(n)) for n in (1, 2)}
    assert triage_fleet(records) == {}
    records |= {"n3": record_of(trees.xe9680(1)), "n4": Record("n4", "timed_out", "", "", 1.0)}
    twins = triage_fleet(records)
    assert sorted(twins) == ["n1", "n3"]
    assert [f.symptom for f in twins["n1"]] == ["nic.duplicate_mac", "host.duplicate_service_tag"]
    assert twins["n1"][1].evidence == "service tag SYN0001 is also that of n3"


def test_stale_hardware_makes_no_twins() -> None:
    old = record_of(trees.xe9680(1)).hardware
    records = {"n1": record_of(trees.xe9680(1)), "n2": Record("n2", "timed_out", "", "", 1.0, stale=True, hardware=old)}
    assert triage_fleet(records) == {}


@pytest.mark.parametrize(
    ("present", "expected", "known", "missing"),
    [
        (["a1", "a2", "a4"], 4, [], ["a3"]),
        (["a1", "a2", "a3"], 4, [], []),  # a0 or a4: cannot be told
        (["a21", "a22"], 3, ["a21", "a22", "a23"], ["a23"]),
        (["a21", "a22"], 3, ["b1", "b2", "b3"], []),  # what others have does not fit
        (["a21", "a24"], 4, [], ["a22", "a23"]),
        (["a1", "b2"], 3, [], []),
        ([], 2, [], []),
        (["a1", "a2"], 2, [], []),
        (["a1", "a1"], 2, [], []),
    ],
)
def test_missing_slots(present: list[str], expected: int, known: list[str], missing: list[str]) -> None:
    assert missing_slots(present, expected, known) == missing


def test_usual_slots() -> None:
    assert usual_slots([["a1", "a2"], ["a1", "a2"], ["a1", "a3"], ["a1"]], 2) == ["a1", "a2"]
    assert usual_slots([["a1"]], 2) == []
    assert usual_slots([[]], 0) == []
