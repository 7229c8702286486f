"""Discovery, triage and boot control against the BMC simulator, fault by fault."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bmc_product_lab import PASSWORD, PROJECT, USER, BmcLab
from redfish import redfish_client

from firstlight.bmc.boot import ensure_pxe_first, set_one_time_pxe
from firstlight.bmc.client import BmcClient
from firstlight.bmc.control import Change, many
from firstlight.bmc.discover import discover
from firstlight.bmc.errors import AuthFailed, Refused, Unreachable
from firstlight.bmc.power import power
from firstlight.bmc.transport import tls_context
from firstlight.bmc.triage import peers_of, triage
from firstlight.findings import Finding
from firstlight.profile import Profile
from firstlight.sitefiles import load_profiles

PXE_NIC = "NIC.Embedded.1-1-1"
SYSTEM = "/redfish/v1/Systems/System.Embedded.1"
NO_OVERRIDE = {"BootSourceOverrideTarget": "None", "BootSourceOverrideEnabled": "Disabled"}
ONCE_PXE = {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BmcLab]:
    lab = BmcLab(tmp_path_factory.mktemp("lab"), count=12)
    yield lab
    lab.stop()


@pytest.fixture(scope="module")
def profile() -> Profile:
    return load_profiles(PROJECT / "inventory" / "profiles")["xe9680"]


def bad(findings: list[Finding]) -> list[Finding]:
    return [f for f in findings if f.status != "ok"]


def test_sound_machines(lab: BmcLab, profile: Profile) -> None:
    records = discover(lab.targets(1, 2, 3), ca_file=lab.ca_file)
    for number in (1, 2, 3):
        record = records[f"n{number}"]
        assert (record.condition, record.evidence, record.stale) == ("ok", "", False)
        assert record.hardware is not None
        assert record.hardware.service_tag == f"TST{number:04d}"
        assert bad(triage(lab.planned(number), record, profile)) == []
        counters = lab.counters(f"n{number}")
        assert counters["sessions_open"] == counters["failed_logins"] == counters["writes"] == 0
        assert counters["requests"] <= 33


FAULTS: list[tuple[str, dict[str, float], str, list[tuple[str, str, str]]]] = [
    # fault, its parameters, the condition, and status, symptom, locator of each finding that is not ok
    ("unreachable", {}, "unreachable", [("fail", "bmc.unreachable", "BMC")]),
    ("hangs", {}, "timed_out", [("fail", "bmc.timed_out", "BMC")]),
    ("slow", {"seconds": 0.8}, "timed_out", [("fail", "bmc.timed_out", "BMC")]),
    ("wrong_password", {}, "auth_failed", [("fail", "bmc.auth_failed", "BMC")]),
    ("not_ready", {}, "not_ready", [("fail", "bmc.not_ready", "BMC")]),
    ("empty_systems", {}, "not_ready", [("fail", "bmc.not_ready", "BMC")]),
    ("gpu_missing", {"gpu": 3}, "ok", [("fail", "gpu.missing", "Video.Slot.24-1")]),
    ("gpu_missing", {"gpu": 0}, "ok", [("fail", "gpu.missing", "Video.Slot.21-1")]),
    ("nic_missing", {}, "ok", [("fail", "nic.missing", PXE_NIC)]),
    ("no_link", {}, "ok", [("warn", "nic.no_link", PXE_NIC)]),
    ("psu_failed", {"psu": 2}, "ok", [("fail", "psu.failed", "PSU.Slot.2")]),
    ("nvme_failed", {"drive": 1}, "ok", [("fail", "nvme.failed", "Disk.Bay.1:Enclosure.Internal.0-1")]),
    ("clock_wrong", {}, "ok", [("fail", "clock.skew", "BMC")]),
]


@pytest.mark.parametrize(("fault", "parameters", "condition", "expected"), FAULTS)
def test_each_fault_is_named(
    lab: BmcLab, profile: Profile, fault: str, parameters: dict[str, float], condition: str, expected: list[Any]
) -> None:
    before = lab.counters("n4")["failed_logins"]
    lab.fault("n4", fault, **parameters)
    try:
        started = time.monotonic()
        records = discover(lab.targets(4, 5), ca_file=lab.ca_file, deadline=3.0)
        assert time.monotonic() - started < 3.0 + 3.5
    finally:
        lab.fault("n4", fault, on=False)
    assert records["n5"].condition == "ok"
    record = records["n4"]
    assert record.condition == condition, record.evidence
    assert (record.evidence == "") == (condition == "ok")
    peers = peers_of(records, profile, records)
    found = bad(triage(lab.planned(4), record, profile, peers))
    assert [(f.status, f.symptom, f.locator.split()[0]) for f in found] == expected
    assert lab.counters("n4")["failed_logins"] - before == (1 if fault == "wrong_password" else 0)
    assert [lab.counters(name)["sessions_open"] for name in ("n4", "n5")] == [0, 0]


BAD_BMCS: list[tuple[str, dict[str, float], str]] = [
    ("refused", {}, "unreachable"),
    ("black_hole", {}, "unreachable"),
    ("mute", {}, "timed_out"),
    ("late_answer", {}, "timed_out"),
    ("tls_wrong_name", {}, "tls_failed"),
    ("tls_other_ca", {}, "tls_failed"),
    ("tls_expired", {}, "tls_failed"),
    ("blocked", {}, "blocked"),
    ("blocked", {"status": 429}, "blocked"),
    ("busy", {}, "busy"),
    ("busy", {"basic": 1}, "ok"),
    *((fault, {"percent": 30}, "half_answering") for fault in ("truncated_json", "doubled_json", "wrong_types")),
    *((fault, {"percent": 30}, "half_answering") for fault in ("null_lists", "redirect", "cut_answer")),
    *((fault, {"percent": 100}, "half_answering") for fault in ("truncated_json", "wrong_types", "redirect")),
    ("dead_members", {}, "half_answering"),
    ("huge_answer", {"percent": 30, "megabytes": 16}, "half_answering"),
]


@pytest.mark.parametrize(("fault", "parameters", "condition"), BAD_BMCS)
def test_a_bad_bmc_is_a_finding_on_its_host_alone(
    lab: BmcLab, profile: Profile, fault: str, parameters: dict[str, float], condition: str
) -> None:
    before = lab.counters("n4")["failed_logins"]
    lab.fault("n4", fault, **parameters)
    deadline = 3.0 if condition in ("timed_out", "unreachable") else 30.0
    try:
        records = discover(lab.targets(4, 5), ca_file=lab.ca_file, deadline=deadline)
    finally:
        lab.fault("n4", fault, on=False)
    record = records["n4"]
    assert (record.condition, "\n" in record.evidence) == (condition, False), record.evidence
    assert "Error" not in record.evidence.replace("GeneralError", "")  # no name of a Python exception
    assert lab.counters("n4")["failed_logins"] == before
    (found,) = [f for f in triage(lab.planned(4), record, profile) if f.check == "bmc"]
    assert found.symptom == ("bmc" if condition == "ok" else f"bmc.{condition}")
    assert records["n5"].condition == "ok"


def test_only_the_macs(lab: BmcLab, profile: Profile) -> None:
    """Five requests; what was not asked is unknown, and nothing of it is called missing."""
    before = lab.counters("n1")["requests"]
    record = discover(lab.targets(1), ca_file=lab.ca_file, what="macs")["n1"]
    assert lab.counters("n1")["requests"] - before == 5
    assert record.condition == "ok"
    assert record.hardware is not None
    assert record.hardware.service_tag == "TST0001"
    whole = discover(lab.targets(1), ca_file=lab.ca_file)["n1"].hardware
    assert whole is not None
    ethernet = {nic.id: nic.mac for nic in whole.nics if nic.kind == "ethernet"}
    assert {nic.id: nic.mac for nic in record.hardware.nics} == ethernet
    assert PXE_NIC in ethernet
    assert "nics" not in record.hardware.unread
    found = triage(lab.planned(1), record, profile)
    assert not [f for f in found if f.status == "fail"]
    assert {f.status for f in found if f.check in ("gpu", "hca", "nvme", "psu")} == {"unknown"}
    assert lab.counters("n1")["sessions_open"] == 0


def test_half_answering(lab: BmcLab, profile: Profile) -> None:
    """What cannot be read is unknown; what can be is judged; nothing is called missing."""
    lab.fault("n4", "half_answering")
    try:
        record = discover(lab.targets(4), ca_file=lab.ca_file)["n4"]
    finally:
        lab.fault("n4", "half_answering", on=False)
    assert record.condition == "half_answering"
    assert record.hardware is not None
    assert set(record.hardware.unread) >= {"gpus", "drives", "psus", "bios", "nics"}
    assert len(record.hardware.gpus) == 7
    found = {f.check: (f.status, f.symptom) for f in bad(triage(lab.planned(4), record, profile))}
    assert found.pop("bmc") == ("fail", "bmc.half_answering")
    assert {status for status, _symptom in found.values()} == {"unknown"}
    assert lab.counters("n4")["sessions_open"] == 0


def test_no_link_counts_once_the_host_is_on(lab: BmcLab, profile: Profile) -> None:
    many(lab.targets(6), lambda bmc: power(bmc, "on"), ca_file=lab.ca_file)
    lab.fault("n6", "no_link")
    record = discover(lab.targets(6), ca_file=lab.ca_file)["n6"]
    (found,) = bad(triage(lab.planned(6), record, profile))
    assert (found.status, found.symptom, found.action) == ("fail", "nic.no_link", "reseat")


def test_the_broken_cost_only_their_own_time(lab: BmcLab) -> None:
    broken = {"n7": "unreachable", "n8": "hangs", "n9": "wrong_password", "n10": "not_ready"}
    for name, fault in broken.items():
        lab.fault(name, fault)
    came: dict[str, float] = {}
    started = time.monotonic()
    records = discover(
        lab.targets(),
        ca_file=lab.ca_file,
        deadline=6.0,
        workers=4,
        on_record=lambda record: came.update({record.name: time.monotonic() - started}),
    )
    took = time.monotonic() - started
    for name, fault in broken.items():
        lab.fault(name, fault, on=False)
    assert {n: r.condition for n, r in records.items() if r.condition != "ok"} == {
        "n7": "unreachable",
        "n8": "timed_out",
        "n9": "auth_failed",
        "n10": "not_ready",
    }
    assert max(at for name, at in came.items() if name not in broken) < 5.5
    assert took < 6.0 + 3.5
    assert all(lab.counters(f"n{n}")["sessions_open"] == 0 for n in range(1, 13) if n != 8)


def test_sessions_taken_by_others_are_left_alone(lab: BmcLab) -> None:
    """Eight sessions are open: basic authentication does, and nobody's session is closed."""
    others = []
    for _ in range(8):
        other = redfish_client(f"https://{lab.address(11)}:{lab.port}", USER, PASSWORD, cafile=lab.ca_file)
        other.login()
        others.append(other)
    record = discover(lab.targets(11), ca_file=lab.ca_file)["n11"]
    assert record.condition == "ok"
    assert lab.counters("n11")["sessions_open"] == 8
    for other in others:
        other.logout()


def client(lab: BmcLab, number: int) -> BmcClient:
    context = tls_context(lab.ca_file)
    return BmcClient(lab.address(number), lab.port, USER, PASSWORD, context=context, ca_file=lab.ca_file)


def test_boot_order_is_written_once(lab: BmcLab) -> None:
    with client(lab, 12) as bmc:
        assert ensure_pxe_first(bmc, PXE_NIC) == Change(
            False,
            ["PXE Device 1: Embedded NIC 1 Port 1 Partition 1", "BOSS.SL.12-1: EFI Fixed Disk Boot Device 1"],
            ["PXE Device 1: Embedded NIC 1 Port 1 Partition 1", "BOSS.SL.12-1: EFI Fixed Disk Boot Device 1"],
        )
        bmc.patch(SYSTEM, {"Boot": {"BootOrder": ["Boot0001", "Boot0000"]}})  # as an installation leaves it
        writes = lab.counters("n12")["writes"]
        planned = ensure_pxe_first(bmc, PXE_NIC, check=True)
        assert planned.changed
        assert lab.counters("n12")["writes"] == writes
        done = ensure_pxe_first(bmc, PXE_NIC)
        assert done == planned
        assert (done.before[0], done.after[0]) == (done.after[1], done.before[1])
        assert lab.look("n12")["boot"]["order"] == ["Boot0000", "Boot0001"]
        assert not ensure_pxe_first(bmc, PXE_NIC).changed
        assert lab.counters("n12")["writes"] == writes + 1
        with pytest.raises(Refused, match=r"no PXE boot option for NIC\.Slot\.9-1-1; boot options are"):
            ensure_pxe_first(bmc, "NIC.Slot.9-1-1")


@pytest.mark.parametrize("style", ["reject", "accept", "only"])
def test_one_time_pxe_where_each_generation_wants_it(tmp_path: Path, style: str) -> None:
    """iDRAC9 at the system, iDRAC10 at its settings object alone."""
    lab = BmcLab(tmp_path, count=1, boot_settings=style)
    try:
        with client(lab, 1) as bmc:
            assert set_one_time_pxe(bmc, check=True) == Change(True, NO_OVERRIDE, ONCE_PXE)
            assert lab.counters("n1")["writes"] == 0
            assert set_one_time_pxe(bmc) == Change(True, NO_OVERRIDE, ONCE_PXE)
            boot = lab.look("n1")["boot"]
            assert (boot["target"], boot["enabled"]) == ("Pxe", "Once")
            writes = lab.counters("n1")["writes"]
            assert set_one_time_pxe(bmc) == Change(False, ONCE_PXE, ONCE_PXE)
            assert lab.counters("n1")["writes"] == writes
    finally:
        lab.stop()


def test_power(lab: BmcLab) -> None:
    with client(lab, 1) as bmc:
        assert power(bmc, "on", check=True) == Change(True, "Off", "On")
        assert lab.look("n1")["power"] == "Off"
        assert power(bmc, "on") == Change(True, "Off", "On")
        assert power(bmc, "on") == Change(False, "On", "On")
        assert power(bmc, "restart") == Change(True, "On", "On")
        assert power(bmc, "off") == Change(True, "On", "Off")
        assert power(bmc, "off") == Change(False, "Off", "Off")
        assert power(bmc, "restart") == Change(True, "Off", "On")
        with pytest.raises(ValueError, match="action 'explode' is none of on, off, shutdown, restart"):
            power(bmc, "explode")
        power(bmc, "off")


def test_many_at_once_each_with_its_own_result(lab: BmcLab) -> None:
    lab.fault("n2", "wrong_password")
    lab.fault("n3", "unreachable")
    results = many(lab.targets(1, 2, 3), set_one_time_pxe, ca_file=lab.ca_file, deadline=4.0)
    lab.fault("n2", "wrong_password", on=False)
    lab.fault("n3", "unreachable", on=False)
    assert results["n1"] == Change(True, NO_OVERRIDE, ONCE_PXE)
    assert isinstance(results["n2"], AuthFailed)
    assert isinstance(results["n3"], Unreachable)
