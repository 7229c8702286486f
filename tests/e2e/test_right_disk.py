"""The right disk, proven on the hosts: one server is installed well over data that was there, one is not."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from .conftest import Lab

pytestmark = pytest.mark.timeout(1200)

KEPT, WRITTEN = "r1-n01", "r2-n01"  # a data drive in use that stays as it is; one that the installer writes to


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    folder = tmp_path_factory.mktemp("disks")
    lab = Lab(folder, block=38)
    try:
        lab.command("up", "--fleet", "2", "--sound", "--block", str(lab.block), "--inventory-dir", str(lab.inventory))
        lab.command("fault", KEPT, "data_drive_used", "on", "drive=3")
        lab.command("fault", WRITTEN, "data_drive_written", "on", "drive=5")
        yield lab
    finally:
        lab.end_runs()
        lab.command("down")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def installed(two):
    return two.play("site.yml", "--tags", "validate,discover,enlist,install,report")


def test_root_is_proven_on_the_chosen_disk_and_the_used_drive_unchanged(two, installed):
    host = two.host(KEPT)
    assert host["stage"] == "install", installed.screen
    assert [r["symptom"] for r in host["reasons"]] == ["verdict.unfinished"], installed.screen
    said = [f["evidence"] for f in host["findings"] if f["check"] == "os_disk"]
    assert any("root is on nvme" in line and "BOSS" in line for line in said), said
    assert "8 other disks: 1 as at commissioning, 7 blank" in " ".join(said) or "8 as at commissioning" in " ".join(
        said
    )


def test_a_data_drive_that_was_written_stops_the_host_there(two, installed):
    host = two.host(WRITTEN)
    assert host["stage"] == "install"
    reason = host["reasons"][0]
    assert (reason["symptom"], reason["locator"], host["action"]) == (
        "os_disk.data_drive_written",
        "nvme5n1",
        "escalate",
    )
    assert "holds ext4; at commissioning it was blank" in reason["evidence"]


def test_a_second_run_wipes_nothing_and_still_says_so(two, installed):
    again = two.play("playbooks/install.yml")
    assert two.maas_requests()["POST deploy"] == 2, again.screen
    assert two.host(WRITTEN)["reasons"][0]["symptom"] == "os_disk.data_drive_written"
    assert [r["symptom"] for r in two.host(KEPT)["reasons"]] == ["verdict.unfinished"]


def test_what_the_host_itself_says_is_what_maas_was_told(two, installed):
    words = ["ansible", KEPT, "-m", "install_proof", "-a", "fresh=false", "--become"]
    said = subprocess.run(words, cwd=two.inventory, env=two.environment, capture_output=True, text=True, timeout=120)
    assert '"serial": ' in said.stdout and "BOSS" in said.stdout, said.stdout + said.stderr
