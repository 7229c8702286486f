"""Repairs that seldom happen: installed once more, a new OS disk, another repair under way, a new BMC.

All tests have one site; each repairs hosts of its own.
"""

from __future__ import annotations

import signal
import sqlite3
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from maas_product_lab import ProductLab
from maas_site import SECRETS
from repair_site import RepairSite, built_in, end, replace, state_of

from firstlight.findings import Finding
from firstlight.ledger import repairs

NAMES = [f"r1-n0{number}" for number in range(1, 6)]


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RepairSite]:
    """Five hosts that were ready until somebody held them."""
    lab = ProductLab(tmp_path_factory.mktemp("lab"), machines=len(NAMES))
    try:
        site = RepairSite(lab, tmp_path_factory.mktemp("site"))
        site.good("discover")
        site.good("enlist")
        site.make_ready(NAMES)
        for name in NAMES:
            site.ledger().hold(name, "it is not well")
        yield site
    finally:
        lab.stop()


@pytest.fixture
def site(ready: RepairSite) -> RepairSite:
    ready.lab.reset_stats()
    return ready


def was_installed_in_this_repair(site: RepairSite, name: str) -> None:
    """As a run leaves it that installed it, and could not reach it then."""
    ledger = site.ledger()
    repairs.begin(ledger, name, "fan 3", f"{repairs.BEGUN}fan 3")
    ledger.begin_stage("install", [name])
    ledger.deed(name, f"deploy bookworm to {name}")
    ledger.end_stage("install", name, [Finding("install", "fail", "install.no_ssh", "", "no answer", "escalate")])


def test_reinstall_installs_it_once_more_and_going_on_does_not(site: RepairSite) -> None:
    was_installed_in_this_repair(site, "r1-n01")
    before = len(site.deeds_of("r1-n01"))
    status, screen = site.repair("-e", "confirm=FLB0001", "-e", "reinstall=true", "-e", "reason='odd files'")
    assert status == 2 and "r1-n01 did not pass install: install.no_ssh" in screen, screen
    assert site.asked() == {"release": 1, "deploy": 1}
    begun, released, deployed = site.deeds_of("r1-n01")[before:]
    assert begun.startswith("reprovision begun: odd files; it wipes its OS disk (serial ")
    assert released.startswith("release r1-n01 (") and deployed.startswith("deploy bookworm to r1-n01 (")
    status, screen = site.repair("-e", "confirm=FLB0001")
    assert status == 2 and "in this repair; it goes on from there" in screen, screen
    assert site.asked() == {"release": 1, "deploy": 1}
    assert site.states()["r1-n01"] == "in_repair"


def test_a_new_os_disk_is_installed_on_also_when_it_dies_again(site: RepairSite) -> None:
    """The second one is replaced after an installation that came to nothing: no host answers behind this BMC."""
    name, told = "r1-n02", []
    for times in (1, 2):
        old = built_in(site.lab, name)
        replace(site.lab, name, "osdisk")
        assert state_of(site.lab, name)["disk"] is None
        status, screen = site.repair("-e", "confirm=FLB0002", name=name)
        assert status == 2 and f"{name} did not pass install: install.no_ssh" in screen, screen
        new = built_in(site.lab, name)
        told += [("drive", a.serial, b.serial) for a, b in zip(old.os_disks, new.os_disks, strict=True)]
        assert site.parts(name) == told
        for _, removed, installed in told[-2:]:
            assert f"serial {removed} -> {installed}: replaced" in screen
        assert f"it wipes its OS disk (serial {new.os_disks[0].serial} or {new.os_disks[1].serial}" in screen
        # MAAS knew another disk: it has looked anew, or that would be the one that it installs on
        assert site.asked("release", "commission", "deploy") == {"release": times, "commission": times, "deploy": times}
        (volume,) = [d["serial"] for d in site.lab.by_name()[name]["blockdevice_set"] if "BOSS" in d["model"]]
        assert state_of(site.lab, name)["disk"]["root"]["serial"] == volume
        assert site.deeds_of(name)[-1].endswith(f"serial {volume} 480 GB")
    assert len({line for line in site.deeds_of(name) if line.startswith("deploy ")}) == 2
    again = f"reprovision begun: the OS disk was replaced (serial {new.os_disks[0].serial}) since it was installed"
    assert [line for line in site.deeds_of(name) if line.startswith(again)]


def test_no_more_hosts_at_once_than_the_policy_says(site: RepairSite) -> None:
    policy = site.inventory / "policy.yml"
    usual = policy.read_text()
    policy.write_text(yaml.safe_dump({"fleet_min_ready": "100%", "reinstall_max_parallel": 1}))
    running = site.start_repair("r1-n03", "FLB0003", lambda: bool(site.deeds_of("r1-n03")))
    end(running, signal.SIGSTOP)
    try:
        states, deeds = site.states(), site.deeds()
        assert states["r1-n03"] == "in_repair"
        site.lab.reset_stats()
        for ended in (False, True):
            if ended:  # a run that was killed counts as well
                end(running)
            status, screen = site.repair("-e", "confirm=FLB0004", name="r1-n04")
            assert status == 2, screen
            assert (
                "another host is being reprovisioned (r1-n03), and reinstall_max_parallel of the policy is 1; "
                "nothing was done"
            ) in screen
            assert site.states() == states and site.deeds() == deeds
            assert site.lab.stats()["writes"] == 0
    finally:
        end(running)
        policy.write_text(usual)
    ledger = site.ledger()
    assert repairs.under_way(ledger, "r1-n04") == ["r1-n03"] and repairs.under_way(ledger, "r1-n03") == []
    yesterday = (datetime.now(UTC) - repairs.A_RUN_AT_MOST - timedelta(seconds=1)).isoformat(timespec="milliseconds")
    with sqlite3.connect(site.folder / "ledger.sqlite") as opened:
        opened.execute(
            "update deed set at = ? where host_id = (select id from host where name = 'r1-n03')", [yesterday]
        )
    assert repairs.under_way(ledger, "r1-n04") == []


class Processes:
    """While it is open, the command lines of all processes that have one of these words in them."""

    def __init__(self, *words: str) -> None:
        self.words, self.seen, self.looks = words, set[str](), 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._over.wait(0.1):
            self.looks += 1
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    line = path.read_text(errors="replace").replace("\0", " ")
                except OSError:  # it has ended
                    continue
                self.seen |= {line for word in self.words if word in line}

    def __enter__(self) -> Processes:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def test_a_new_bmc_with_the_login_of_the_factory(site: RepairSite) -> None:
    lab, name = site.lab, "r1-n05"
    certificate = (lab.folder / "tls" / f"{name}.pem").read_bytes()
    replace(lab, name, "bmc")
    replace(lab, name, "nvme3")
    assert (lab.folder / "tls" / f"{name}.pem").read_bytes() != certificate
    user, password = built_in(lab, name).bmc_login("", "")
    states = site.states()
    status, screen = site.repair("-e", "confirm=FLB0005", name=name)
    assert status == 2
    assert f"{name} did not pass discover: bmc.auth_failed" in screen and "it stays in_repair" in screen, screen
    # MAAS is told its state by a tag, which it may have already, and nothing else
    written = {what for what in lab.stats()["requests"] if not what.startswith("GET")}
    assert written in ({"POST update_nodes"}, {"POST", "POST update_nodes"})
    assert state_of(lab, name)["disk"]["hostname"] == name
    assert [line[:20] for line in site.deeds_of(name)] == ["reprovision begun: r"]
    secrets = site.inventory / "group_vars" / "all" / "secrets.yml"
    secrets.write_text(yaml.safe_dump({"bmc_credentials": [{"host": name, "username": user, "password": password}]}))
    try:
        with Processes(password, *SECRETS) as processes:
            status, screen = site.repair("-e", "confirm=FLB0005", name=name)
    finally:
        secrets.unlink()
    assert status == 2 and f"{name} did not pass install: install.no_ssh" in screen, screen
    machine = lab.by_name()[name]
    assert machine["status_name"] == "Deployed"
    assert site.asked("release", "commission", "deploy") == {"release": 1, "commission": 1, "deploy": 1}
    power = lab.maas("GET", f"machines/{machine['system_id']}/?op=power_parameters").json()
    assert (power["power_user"], power["power_pass"]) == (user, password)
    assert site.states() == {**states, name: "in_repair"}
    assert processes.looks and not processes.seen
    assert password not in screen
    kept = [path for path in site.folder.rglob("*") if path.is_file()] + list(lab.folder.glob("*.log"))
    assert {"ledger.sqlite", "latest.json", "bmc.log", "maas.log"} <= {path.name for path in kept}
    assert not [path for path in kept if password.encode() in path.read_bytes()]
