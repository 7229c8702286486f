"""The site's policy in real runs: its file is read, the brake stops a run, grades are groups."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from maas_product_lab import ProductLab
from maas_site import Site

from firstlight.findings import Finding
from firstlight.ledger.store import Ledger
from firstlight.sitefiles import PlannedHost

ILL = ["r1-n01", "r1-n02", "r1-n03", "r1-n04", "r1-n05"]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProductLab]:
    running = ProductLab(tmp_path_factory.mktemp("lab"), machines=6)
    yield running
    running.stop()


@pytest.fixture
def site(lab: ProductLab, tmp_path: Any) -> Site:
    return Site(lab.fresh(), tmp_path)


def policy(site: Site, text: str) -> None:
    (site.inventory / "policy.yml").write_text(text)


def test_wrong_settings_of_the_policy_end_a_run_at_its_start_in_one_line(site: Site) -> None:
    policy(site, "fleet_min_ready: 90%\nlemon_failures: 1\n")
    status, screen = site.play("../site")
    assert status == 1
    assert f"the run broke: {site.inventory}/policy.yml:2: lemon_failures: 1 is not right" in screen
    assert "the groups golden and lemon are empty" not in screen  # there is no ledger yet
    assert not (site.folder / "ledger.sqlite").exists()

    policy(site, "fleet_min_ready: 90%\n")
    site.write(fleet_min_ready="90%")
    status, screen = site.play("validate")
    assert status == 2
    assert f"validate: fleet_min_ready of r1-n01 belongs into {site.inventory}/policy.yml now" in screen

    del site.settings["fleet_min_ready"]
    site.write()
    status, screen = site.play("discover", "-e", "brake=perhaps")
    assert status == 1 and "brake is 'perhaps'; true, or false" in screen


def test_the_brake_stops_a_run_and_nobody_is_quarantined_until_it_is_let_go(site: Site) -> None:
    for name in ILL:
        site.lab.bmc_fault(name, "psu_failed")
    site.good("validate")
    ledger = Ledger(f"sqlite:///{site.folder}/ledger.sqlite")
    for name in site.lab.names:
        ledger.set_state(name, "ready", "test")
    site.lab.reset_stats()

    stopped = "discover: the brake stops the run: 5 of 6 hosts have psu.failed, and brake_max_same_cause allows 4; "
    status, screen = site.play("../site", "-e", "brake=true")
    assert (status, stopped in screen) == (1, True), screen
    assert set(site.states().values()) == {"ready"}
    assert site.lab.stats()["writes"] == 0  # enlist did not start
    report = json.loads((site.folder / "reports" / "latest.json").read_text())
    assert report["run"]["outcome"] == "broken" and report["run"]["message"].startswith(stopped)
    assert report["counts"]["not_ready"] == 6
    assert stopped in " ".join((site.folder / "reports" / "latest.txt").read_text().split())

    status, screen = site.play("discover", "-e", "brake=false")
    assert "the run goes on: brake=false" in screen and "discover: quarantined 5: r1-n01, r1-n02" in screen
    assert {name for name, state in site.states().items() if state == "quarantined"} == set(ILL)
    # those that are known to be broken stop no further run
    status, screen = site.play("discover")
    assert "the brake" not in screen, screen


def test_host_takes_one_host_alone_and_makes_good_what_a_killed_run_left_of_it(site: Site) -> None:
    ledger = Ledger(f"sqlite:///{site.folder}/ledger.sqlite")
    places = [{**host, "bmc_address": "192.0.2.1"} for host in site.hosts[1:3]]
    ledger.plan("test", [PlannedHost(**place) for place in places])
    ledger.start_run("health.yml")  # and never ended
    for name in ("r1-n02", "r1-n03"):
        ledger.set_state(name, "ready", "test")
        ledger.end_stage("smoke", name, [Finding("xid", "fail", "xid.79", "GPU 0000:1b:00.0", "", "power_cycle")])
    screen = site.good("discover", "-e", "host=r1-n02")
    assert "r1-n02: quarantined for what a run that was stopped had found: smoke: xid.79" in screen
    assert "discover: 1 of 1 passed" in screen
    assert site.states() == {"r1-n02": "quarantined", "r1-n03": "ready"}
    assert site.query("select count(*) from stage_run where stage = 'discover'")[0] == (1,)
    assert json.loads((site.folder / "reports" / "latest.json").read_text())["policy"]["hosts"] == 1
