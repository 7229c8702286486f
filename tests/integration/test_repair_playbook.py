"""The repair of one host as an operator meets it, up to the host itself: there is none behind these simulators."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from maas_product_lab import ROOT, ProductLab
from maas_site import BIN
from repair_site import RepairSite, built_in, end, replace

from firstlight.findings import Finding
from firstlight.ledger.store import STAGES, Ledger

TAG = "FLB0001"


@pytest.fixture(scope="module")
def running_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProductLab]:
    lab = ProductLab(tmp_path_factory.mktemp("lab"), machines=3)
    yield lab
    lab.stop()


@pytest.fixture
def site(running_lab: ProductLab, tmp_path: Path) -> RepairSite:
    """Three hosts, enlisted; two of them ready, of which r1-n01 was quarantined since."""
    lab = running_lab.fresh()
    site = RepairSite(lab, tmp_path)
    site.good("discover")
    site.good("enlist")
    site.make_ready(["r1-n01", "r1-n02"])
    site.good("quarantine", "-e", "host=r1-n01", "-e", "reason='GPU 3 fell off the bus'")
    lab.reset_stats()
    return site


def test_what_is_not_meant_is_refused_in_a_line(site: RepairSite) -> None:
    states = site.states()
    assert states == {"r1-n01": "quarantined", "r1-n02": "ready", "r1-n03": "enlisted"}
    serials = [disk.serial for disk in site.lab.hardware("r1-n01").os_disks]
    for arguments, said in (
        ([], "no host was named; nothing was done"),
        (["-e", "host=r1-n77"], "r1-n77 is no host of the fleet; nothing was done"),
        (["-e", "host=rack_r1"], "rack_r1 is no host of the fleet"),
        (["-e", "host=r1-n01", "-l", "r1-n02"], "-l leaves r1-n01 out; nothing was done"),
        (["-e", "host=r1-n02", "-e", "confirm=FLB0002"], "r1-n02 is ready, and may be in use; nothing was done"),
        (["-e", "host=r1-n01"], f"its service tag was not typed; nothing was done. It wipes its OS disk (serial "
                                f"{serials[0]} or {serials[1]}"),
        (["-e", "host=r1-n01", "-e", "confirm=FLB0002"], f"If that is meant: -e confirm={TAG}"),
        (["-e", "host=r1-n01", "-e", "tier=short"], "value of tier must be one of: quick, long"),
    ):  # fmt: skip
        status, screen = site.play("reprovision", *arguments)
        assert status != 0 and said in screen, screen
        assert "its data pool is kept" in screen or "It wipes" not in screen
    drives = ", ".join(disk.serial for disk in site.lab.hardware("r1-n01").drives)
    assert f"and its data drives ({drives})" in site.repair("-e", "wipe_data=true")[1]
    assert site.lab.stats()["writes"] == 0
    assert site.states() == states and site.deeds() == []


def test_a_host_whose_gpu_and_nic_were_replaced(site: RepairSite) -> None:
    lab = site.lab
    old = lab.hardware("r1-n01")
    replace(lab, "r1-n01", "gpu3")
    replace(lab, "r1-n01", "nic1")
    screen = site.good("reprovision", "-e", "host=r1-n01", "--check", "--diff")
    assert "would release r1-n01 (" in screen and "r1-n01: would be installed anew; it wipes its OS disk" in screen
    assert lab.stats()["writes"] == 0 and site.deeds() == [] and site.states()["r1-n01"] == "quarantined"
    status, screen = site.repair("-e", f"confirm={TAG}", "-e", "reason='ticket 4711'")
    assert status == 2
    assert f"r1-n01: GPU in Video.Slot.24-1: serial {old.gpus[3].serial} -> " in screen
    assert "gpu, nic replaced; checks: long" in screen or "r1-n01: network port in NIC.Embedded.1-1-1: serial" in screen
    assert [(kind, removed) for kind, removed, _ in site.parts()] == [
        ("gpu", old.gpus[3].serial), ("nic", old.nics[0].mac.lower()),
    ]  # fmt: skip
    (new_mac,) = [installed for kind, _, installed in site.parts() if kind == "nic"]
    machine = lab.by_name()["r1-n01"]
    macs = [nic["mac_address"] for nic in machine["interface_set"]]
    assert new_mac in macs and old.nics[0].mac.lower() not in macs
    assert machine["status_name"] == "Deployed" and site.asked() == {"release": 1, "deploy": 1}
    # there is no host behind the BMC
    assert "r1-n01 did not pass install: install.no_ssh" in screen and "it stays in_repair" in screen
    assert site.states() == {"r1-n01": "in_repair", "r1-n02": "ready", "r1-n03": "enlisted"}
    lines = [what for name, what in site.deeds() if name == "r1-n01"]
    assert lines[0].startswith("reprovision begun: ticket 4711; it wipes its OS disk (serial ")
    assert lines[1].startswith("release r1-n01 (") and lines[2].startswith("deploy bookworm to r1-n01 (")
    # again: it was installed in this repair, and is not wiped once more
    status, screen = site.repair("-e", f"confirm={TAG}")
    assert status == 2 and "it goes on from there" in screen
    assert site.asked() == {"release": 1, "deploy": 1}
    status, screen = site.play("readmit", "-e", "host=r1-n01")
    assert status == 2 and "r1-n01 cannot be readmitted: its last install failed (install.no_ssh)" in screen
    ledger = site.ledger()
    for stage in STAGES:
        ledger.end_stage(stage, "r1-n01", [Finding(stage, "ok", stage)])
    assert site.states()["r1-n01"] == "in_repair"
    site.good("readmit", "-e", "host=r1-n01")
    assert site.states()["r1-n01"] == "ready" and site.query("select held from host where name = 'r1-n01'") == [(None,)]


@pytest.mark.parametrize("moment", ["release", "deploy"])
def test_killed_and_started_again_it_wipes_once(site: RepairSite, moment: str) -> None:
    end(site.start_repair("r1-n01", TAG, lambda: site.asked()[moment] > 0))
    status, screen = site.repair("-e", f"confirm={TAG}")
    assert status == 2 and "reprovision goes on: since" in screen and "install.no_ssh" in screen, screen
    assert site.asked() == {"release": 1, "deploy": 1}
    assert site.lab.by_name()["r1-n01"]["status_name"] == "Deployed"


def test_a_host_that_never_came_up_and_one_that_is_not_sound(site: RepairSite) -> None:
    status, screen = site.play("reprovision", "-e", "host=r1-n03", "-e", "confirm=FLB0003")
    assert status == 2 and "r1-n03 did not pass install: install.no_ssh" in screen, screen
    assert site.asked() == {"release": 0, "deploy": 1}
    site.lab.bmc_fault("r1-n01", "gpu_missing")
    status, screen = site.repair("-e", f"confirm={TAG}")
    assert status == 2 and "r1-n01 did not pass discover: gpu.missing Video.Slot.24-1; it stays in_repair" in screen
    assert site.asked() == {"release": 0, "deploy": 1}
    assert site.states()["r1-n01"] == "in_repair"
    assert state_tags(site, "r1-n01") == ("firstlight-state-in_repair",)  # though the run ended without its report


def test_a_board_with_another_service_tag_needs_that_one_typed(site: RepairSite) -> None:
    site.lab.bmc_fault("r1-n01", "wrong_tag")
    status, screen = site.repair("-e", f"confirm={TAG}")
    assert status == 2, screen
    assert (
        f"its BMC says service tag WR0NG01, not {TAG}; nothing was wiped. If that is meant: -e confirm=WR0NG01"
        in screen
    )
    assert site.asked() == {"release": 0, "deploy": 0}
    status, screen = site.repair("-e", "confirm=WR0NG01")
    assert status == 2 and "r1-n01 did not pass install: install.no_ssh" in screen, screen
    assert site.asked() == {"release": 1, "deploy": 1}
    assert "service tag WR0NG01" in site.lab.by_name()["r1-n01"]["description"]
    assert site.query("select service_tag, state from host where name = 'r1-n01'") == [("WR0NG01", "in_repair")]
    # what happened to the old one stays its own
    assert site.query(f"select name, held is not null from host where service_tag = '{TAG}'") == [(None, 1)]


def test_a_server_that_tells_no_service_tag_is_not_wiped(site: RepairSite) -> None:
    site.lab.bmc_fault("r1-n01", "no_tag")
    status, screen = site.repair("-e", f"confirm={TAG}")
    assert status == 2, screen
    assert "r1-n01: its BMC tells no service tag, so the one that was typed proves nothing; nothing was wiped" in screen
    assert site.asked() == {"release": 0, "deploy": 0} and site.states()["r1-n01"] == "in_repair"
    site.lab.bmc_fault("r1-n01", "no_tag", on=False)
    status, screen = site.repair("-e", f"confirm={TAG}")
    assert status == 2 and "r1-n01 did not pass install: install.no_ssh" in screen, screen


def test_no_data_drive_is_wiped_but_those_that_were_named(site: RepairSite) -> None:
    """One is exchanged, which the BMC tells only once the repair has begun."""
    old = [disk.serial for disk in site.lab.hardware("r1-n01").drives]
    replace(site.lab, "r1-n01", "nvme2")
    new = [disk.serial for disk in built_in(site.lab, "r1-n01").drives]
    (gone,), (come,) = set(old) - set(new), set(new) - set(old)
    status, screen = site.repair("-e", f"confirm={TAG}", "-e", "wipe_data=true")
    assert status == 2 and "r1-n01 did not pass install: install.no_ssh" in screen, screen
    assert f"r1-n01: not wiped, since they were not named when this began: {come}" in screen
    kept = ", ".join(serial for serial in old if serial != gone)
    assert "is installed anew; it wipes its OS disk" in screen and f"and its data drives ({kept})" in screen
    begun = site.deeds_of("r1-n01")[0]
    assert begun.startswith("reprovision begun") and begun.endswith(f"and its data drives ({', '.join(old)})")
    # again: now it is named, and the deed says so
    site.repair("-e", f"confirm={TAG}", "-e", "wipe_data=true")
    goes_on = site.deeds_of("r1-n01")[-1]
    assert goes_on.startswith("reprovision goes on") and f"it wipes its data drives ({', '.join(new)})" in goes_on


def test_data_drives_that_nobody_can_name_are_not_wiped(running_lab: ProductLab, tmp_path: Path) -> None:
    running_lab.fresh().bmc_fault("r1-n01", "unreachable")
    site = RepairSite(running_lab, tmp_path)  # never discovered
    status, screen = site.repair("-e", "confirm=FLB0001", "-e", "wipe_data=true")
    assert status != 0 and "no serial number of a data drive of r1-n01 is known, so none can be named" in screen, screen
    assert running_lab.stats()["writes"] == 0 and not (tmp_path / "ledger.sqlite").exists()


def state_tags(site: RepairSite, name: str) -> tuple[str, ...]:
    """Of its machine in MAAS."""
    return tuple(tag for tag in site.lab.by_name()[name]["tag_names"] if tag.startswith("firstlight-state-"))


def test_quarantine_needs_a_reason_and_names_several(site: RepairSite) -> None:
    for arguments, said in (
        (["-e", "reason=x"], "quarantine: no host was named"),
        (["-e", "host=r1-n09", "-e", "reason=x"], "r1-n09 is no host of the fleet"),
        (["-e", "host=r1-n02"], "quarantine: no reason was given"),
        (["-l", "rack_r1", "-e", "reason=x"], "that takes 3 hosts out of use: r1-n01, r1-n02, r1-n03; nothing"),
    ):
        status, screen = site.play("quarantine", *arguments)
        assert status != 0 and said in screen, screen
    assert site.states()["r1-n02"] == "ready"
    site.good("quarantine", "-l", "rack_r1", "-e", "reason='power work'", "-e", "confirm=true")
    assert set(site.states().values()) == {"quarantined"}
    assert {state_tags(site, name) for name in site.lab.names} == {("firstlight-state-quarantined",)}
    site.good("readmit", "-e", "host=r1-n02")
    assert state_tags(site, "r1-n02") == ("firstlight-state-ready",)
    status, screen = site.play("readmit", "-e", "host=r1-n02")
    assert status == 2 and "r1-n02 is ready: there is nothing to readmit" in screen


def test_a_host_can_be_held_before_anything_ran_and_check_mode_makes_nothing(tmp_path: Path) -> None:
    inventory = tmp_path / "inventory"
    inventory.mkdir()
    host = {"name": "n1", "rack": "r1", "unit": 1, "bmc_address": "10.0.0.1", "profile": "xe9680"}
    redfish = {"plugin": "redfish_bmc", "profiles": f"{ROOT}/inventory/profiles", "ca_file": "ca.pem",
               "ledger": "../ledger.sqlite", "refresh": "never"}  # fmt: skip
    (inventory / "test.redfish_bmc.yml").write_text(yaml.safe_dump(redfish))
    (inventory / "fleet.yml").write_text(yaml.safe_dump({"site": "test", "hosts": [host]}))
    known = {k: v for k, v in os.environ.items() if not k.startswith(("ANSIBLE_", "FIRSTLIGHT_"))}
    known |= {"ANSIBLE_CONFIG": f"{ROOT}/ansible.cfg", "ANSIBLE_INVENTORY": str(inventory), "ANSIBLE_NOCOLOR": "1",
              "ANSIBLE_INVENTORY_CACHE_CONNECTION": str(tmp_path / "cache")}  # fmt: skip
    command = [str(BIN / "ansible-playbook"), f"{ROOT}/playbooks/quarantine.yml", "-e", "host=n1",
               "-e", "reason='fan 3 is loud'", "-e", f"reports_dir={tmp_path / 'reports'}"]  # fmt: skip
    for more, said in ((["--check"], "n1: planned, would be quarantined: fan 3 is loud"), ([], "n1: planned, now")):
        done = subprocess.run([*command, *more], env=known, cwd=ROOT, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0 and said in done.stdout, done.stdout + done.stderr
        assert (tmp_path / "ledger.sqlite").exists() is not bool(more)
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    assert ledger.states() == {"n1": "quarantined"} and ledger.held(["n1"])["n1"].endswith(": fan 3 is loud")
