"""Control of BMCs against the simulated iDRAC9 and iDRAC10: done once, shown before, bounded in time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bmc_product_lab import PASSWORD, USER, BmcLab

from firstlight.bmc.bios import read_bios, set_bios
from firstlight.bmc.client import BmcClient
from firstlight.bmc.control import Change, many
from firstlight.bmc.errors import AuthFailed, BmcError, TimedOut, Unreachable
from firstlight.bmc.image import read_image
from firstlight.bmc.jobs import unfinished_jobs
from firstlight.bmc.power import power, reset_bmc
from firstlight.bmc.transport import tls_context
from firstlight.bmc.update import update_firmware

GENERATIONS = {"dell-idrac9": 1, "dell-idrac10": 2}
PAUSE = 0.1


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BmcLab]:
    lab = BmcLab(tmp_path_factory.mktemp("lab"), count=6, restart_seconds=1.2, update_seconds=0.5)
    yield lab
    lab.stop()


def connect(lab: BmcLab, number: int, deadline: float = 30.0) -> BmcClient:
    context = tls_context(lab.ca_file)
    options: dict[str, Any] = {"context": context, "ca_file": lab.ca_file, "deadline": deadline}
    return BmcClient(lab.address(number), lab.port, USER, PASSWORD, **options)


def writes(lab: BmcLab, number: int) -> int:
    return int(lab.counters(f"n{number}")["writes"])


def symptoms(change: Change) -> list[str]:
    return [f"{finding.status} {finding.symptom}" for finding in change.findings]


def soon(lab: BmcLab, number: int, true: Callable[[dict[str, Any]], bool]) -> None:
    until = time.monotonic() + 10
    while not true(lab.look(f"n{number}")):
        assert time.monotonic() < until
        time.sleep(0.05)


# -- power and the BMC itself ------------------------------------------------------------------------------------


def test_power_reads_back_and_notes_what_it_does(lab: BmcLab) -> None:
    notes: list[str] = []
    with connect(lab, 1) as bmc:
        assert power(bmc, "on", wait=5, note=notes.append) == Change(True, "Off", "On")
        assert power(bmc, "on", wait=5, note=notes.append) == Change(False, "On", "On")
        assert power(bmc, "cycle", check=True, note=notes.append) == Change(True, "On", "On")
        assert power(bmc, "cycle", note=notes.append) == Change(True, "On", "On")
        assert power(bmc, "off", wait=5, note=notes.append) == Change(True, "On", "Off")
        assert power(bmc, "shutdown", wait=5, note=notes.append) == Change(False, "Off", "Off")
    assert notes == ["power on: Off -> On", "power cycle: On -> On", "power off: On -> Off"]


def test_a_shutdown_that_nobody_hears_is_bounded(lab: BmcLab) -> None:
    """With nothing booted there is no operating system that listens to the button."""
    with connect(lab, 1) as bmc:
        power(bmc, "on", wait=5)
        soon(lab, 1, lambda machine: not machine["running"] and machine["boots"] > 0)
        change = power(bmc, "shutdown", wait=0.5)
        assert change.changed
        assert symptoms(change) == ["fail power.not_reached"]
        power(bmc, "off", wait=5)


def test_a_restarted_bmc_is_waited_for(lab: BmcLab) -> None:
    with connect(lab, 3) as bmc:
        before = writes(lab, 3)
        assert reset_bmc(bmc, 20, check=True).changed
        assert writes(lab, 3) == before
        change = reset_bmc(bmc, 20, pause=PAUSE)
        assert symptoms(change) == ["ok bmc_reset"]
        assert bmc.get("/redfish/v1/Systems/System.Embedded.1")["PowerState"] == "Off"
    assert writes(lab, 3) == before + 1
    assert lab.counters("n3")["failed_logins"] == 0


def test_a_bmc_that_does_not_come_back(lab: BmcLab) -> None:
    threading.Timer(0.3, lab.fault, ["n3", "unreachable"]).start()
    begun = time.monotonic()
    with connect(lab, 3) as bmc, pytest.raises(TimedOut, match=r"does not answer as it should after .* refused"):
        reset_bmc(bmc, 2.5, pause=PAUSE)
    assert time.monotonic() - begun < 8
    lab.fault("n3", "unreachable", on=False)


def test_a_restart_is_not_sent_again_when_the_bmc_goes(lab: BmcLab) -> None:
    """Work that sent a change is not begun anew, as that of an unreachable BMC otherwise is."""

    def restart(bmc: BmcClient) -> None:
        bmc.patch("/redfish/v1/Systems/System.Embedded.1", {"AssetTag": "x"})
        lab.fault("n3", "unreachable")
        power(bmc, "restart")

    before = writes(lab, 3)
    result = many(lab.targets(3), restart, ca_file=lab.ca_file, deadline=5)["n3"]
    lab.fault("n3", "unreachable", on=False)
    assert isinstance(result, BmcError)
    assert "what was sent before may have been done" in result.evidence
    assert writes(lab, 3) == before + 1


# -- BIOS ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vendor", GENERATIONS)
def test_bios_from_plan_to_second_run(tmp_path: Path, vendor: str) -> None:
    lab = BmcLab(tmp_path, count=1, vendor=vendor)
    wanted = {"ProcCStates": "Enabled", "SriovGlobalEnable": "Enabled", "Proc1NumCores": "56"}
    try:
        with connect(lab, 1) as bmc:
            planned = set_bios(bmc, wanted, check=True)
            assert planned == Change(True, {"ProcCStates": "Disabled"}, {"ProcCStates": "Enabled"})
            assert writes(lab, 1) == 0
            notes: list[str] = []
            change = set_bios(bmc, wanted, note=notes.append)
            assert (change.before, change.after) == (planned.before, planned.after)
            assert symptoms(change) == ["warn bios.waits_for_boot"]
            assert notes == ["BIOS: ProcCStates Disabled -> Enabled"]
            sent = writes(lab, 1)
            again = set_bios(bmc, wanted)
            assert not again.changed
            assert symptoms(again) == ["warn bios.waits_for_boot"]
            assert writes(lab, 1) == sent
            done = set_bios(bmc, wanted, when="now", wait=10, pause=PAUSE)  # takes up the job that waits
            assert symptoms(done) == ["ok bios"]
            assert writes(lab, 1) == sent + 1
            assert read_bios(bmc).now["ProcCStates"] == "Enabled"
            last = set_bios(bmc, wanted, when="now")
            assert not last.changed
            assert writes(lab, 1) == sent + 1
    finally:
        lab.stop()


def test_a_job_of_somebody_else_is_reported_or_waited_for(lab: BmcLab) -> None:
    with connect(lab, 4) as bmc:
        set_bios(bmc, {"ProcTurboMode": "Disabled"})
        job = unfinished_jobs(bmc)[0]
        sent = writes(lab, 4)
        change = set_bios(bmc, {"SubNumaCluster": "2Way"})
        assert not change.changed
        assert symptoms(change) == ["fail bios.job_pending"]
        assert job.id in change.findings[0].evidence
        waited = set_bios(bmc, {"SubNumaCluster": "2Way"}, pending="wait", wait=0.5, pause=PAUSE)
        assert symptoms(waited) == ["fail bios.job_pending"]
        assert "after 0.5 s; nothing was sent" in waited.findings[0].evidence
        assert writes(lab, 4) == sent
        assert [j.id for j in unfinished_jobs(bmc)] == [job.id]  # nobody deleted it
        threading.Timer(0.3, _start, [lab, 4]).start()
        done = set_bios(bmc, {"SubNumaCluster": "2Way"}, pending="wait", wait=10, pause=PAUSE)
        assert done.changed
        assert symptoms(done) == ["warn bios.waits_for_boot"]


def _start(lab: BmcLab, number: int) -> None:
    with connect(lab, number) as bmc:
        power(bmc, "on")


def test_values_that_wait_without_a_job_are_not_committed_with_ours(lab: BmcLab) -> None:
    with connect(lab, 5) as bmc:
        settings = read_bios(bmc).settings
        bmc.patch(settings, {"Attributes": {"SecureBoot": "Enabled"}})
        change = set_bios(bmc, {"SubNumaCluster": "2Way"})
        assert symptoms(change) == ["fail bios.others_pending"]
        assert "SecureBoot=Enabled" in change.findings[0].evidence
        assert not set_bios(bmc, {"SecureBoot": "Disabled"}).changed  # as wanted now
        assert symptoms(set_bios(bmc, {"SecureBoot": "Disabled"})) == ["warn bios.others_pending"]
        assert set_bios(bmc, {"SecureBoot": "Enabled"}).changed  # ours: only its job is missing
        assert len(unfinished_jobs(bmc)) == 1


def test_an_attribute_that_does_not_exist_stops_all_of_them(lab: BmcLab) -> None:
    with connect(lab, 6) as bmc:
        before = writes(lab, 6)
        change = set_bios(bmc, {"ProcCStates": "Enabled", "NoSuchThing": "1", "AcPwrRcvry": False})
        assert not change.changed
        assert [(f.symptom, f.locator) for f in change.findings] == [
            ("bios.wrong_attribute", "NoSuchThing"),
            ("bios.wrong_attribute", "AcPwrRcvry"),
        ]
        assert writes(lab, 6) == before


# -- firmware ------------------------------------------------------------------------------------------------------


def package(folder: Path, component: str, version: str, size: int = 300_000) -> Path:
    path = folder / f"{component}_{version}.bin"
    path.write_bytes(f"Firstlight simulated firmware: {component} {version}\n".encode() + b"x" * size)
    return path


@pytest.mark.parametrize("vendor", GENERATIONS)
def test_firmware_at_the_next_boot_and_now(tmp_path: Path, vendor: str) -> None:
    lab = BmcLab(tmp_path, count=1, vendor=vendor, update_seconds=0.5)
    image = read_image(package(tmp_path, "bios", "9.9.1"), "9.9.1", "BIOS")
    try:
        with connect(lab, 1) as bmc:
            planned = update_firmware(bmc, image, component="BIOS", check=True)
            assert planned.changed
            assert planned.after == {"BIOS.Setup.1-1": "9.9.1"}
            assert writes(lab, 1) == 0
            said: list[str] = []
            notes: list[str] = []
            options: dict[str, Any] = {"component": "BIOS", "wait": 20, "pause": PAUSE, "say": said.append}
            change = update_firmware(bmc, image, note=notes.append, **options)
            assert symptoms(change) == ["warn firmware.waits_for_boot"]
            assert any(line.startswith("sent 100 % of 0.3 MB") for line in said)
            assert any("running" in line for line in said), said
            assert "9.9.1 from bios_9.9.1.bin (SHA-256" in notes[0]
            sent = writes(lab, 1)
            assert symptoms(update_firmware(bmc, image, **options)) == ["warn firmware.waits_for_boot"]
            assert writes(lab, 1) == sent
            done = update_firmware(bmc, image, when="now", grace=0.3, **options)
            assert symptoms(done) == ["ok firmware"]
            assert symptoms(update_firmware(bmc, image, **options)) == ["ok firmware"]
            assert not update_firmware(bmc, image, **options).changed
            newer = read_image(package(tmp_path, "bios", "9.9.2"), "9.9.2", "BIOS")
            assert symptoms(update_firmware(bmc, newer, when="now", grace=0.3, **options)) == ["ok firmware"]
            older = update_firmware(bmc, image, **options)
            assert symptoms(older) == ["fail firmware.downgrade"]
    finally:
        lab.stop()


def test_a_bmc_that_updates_itself_is_away_meanwhile(lab: BmcLab, tmp_path: Path) -> None:
    image = read_image(package(tmp_path, "bmc", "9.10.20.00"), "9.10.20.00", "iDRAC")
    with connect(lab, 2) as bmc:
        change = update_firmware(bmc, image, component="iDRAC", wait=20, pause=PAUSE)
        assert symptoms(change) == ["ok firmware"]
    assert lab.counters("n2")["failed_logins"] == 0


def test_a_file_that_the_bmc_refuses(lab: BmcLab, tmp_path: Path) -> None:
    path = tmp_path / "bad.bin"
    path.write_bytes(b"not a package" * 100)
    with connect(lab, 2) as bmc:
        change = update_firmware(bmc, read_image(path, "9.9.9", "PSU"), component="PSU", wait=20, pause=PAUSE)
        assert change.changed
        assert symptoms(change) == ["fail firmware.job_failed"]
        assert "signature" in change.findings[0].evidence


def test_a_part_that_the_server_does_not_have(lab: BmcLab, tmp_path: Path) -> None:
    image = read_image(package(tmp_path, "nic", "9.9.9"), "9.9.9", "FC.Slot.1")
    before = writes(lab, 2)
    with connect(lab, 2) as bmc:
        change = update_firmware(bmc, image, component="FC.Slot.1")
    assert symptoms(change) == ["fail firmware.wrong_component"]
    assert writes(lab, 2) == before


def test_an_update_that_never_ends(tmp_path: Path) -> None:
    lab = BmcLab(tmp_path, count=1, update_seconds=600)
    image = read_image(package(tmp_path, "bios", "9.9.1"), "9.9.1", "BIOS")
    try:
        with connect(lab, 1) as bmc:
            options: dict[str, Any] = {"component": "BIOS", "wait": 1.0, "pause": PAUSE}
            begun = time.monotonic()
            change = update_firmware(bmc, image, **options)
            assert symptoms(change) == ["fail firmware.job_unfinished"]
            assert time.monotonic() - begun < 6
            sent = writes(lab, 1)
            assert symptoms(update_firmware(bmc, image, **options)) == ["fail firmware.job_pending"]
            assert writes(lab, 1) == sent
    finally:
        lab.stop()


# -- several at once -----------------------------------------------------------------------------------------------


def test_a_bad_bmc_does_not_stop_the_others(lab: BmcLab) -> None:
    lab.fault("n1", "unreachable")
    lab.fault("n3", "wrong_password")
    failed = lab.counters("n3")["failed_logins"]
    targets = lab.targets(1, 3, 6)
    results = many(targets, lambda bmc: power(bmc, "on", wait=5), ca_file=lab.ca_file, deadline=8)
    assert isinstance(results["n1"], Unreachable)
    assert isinstance(results["n3"], AuthFailed)
    assert results["n6"] == Change(True, "Off", "On")
    assert lab.counters("n3")["failed_logins"] == failed + 1
    lab.fault("n1", "unreachable", on=False)
    lab.fault("n3", "wrong_password", on=False)
