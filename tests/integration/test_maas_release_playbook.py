"""Release as an operator meets it: playbooks/release.yml on a lab of simulated BMCs and a simulated region."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest
from maas_product_lab import ROOT, ProductLab
from maas_site import Site

from firstlight.findings import Finding
from firstlight.ledger.store import Ledger
from firstlight.maas.install import install


@pytest.fixture(scope="module")
def running_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProductLab]:
    lab = ProductLab(tmp_path_factory.mktemp("lab"), machines=3)
    yield lab
    lab.stop()


@pytest.fixture(scope="module")
def enlisted(running_lab: ProductLab, tmp_path_factory: pytest.TempPathFactory) -> Site:
    site = Site(running_lab, tmp_path_factory.mktemp("site"))
    site.good("discover")
    site.good("enlist")
    return site


@pytest.fixture
def site(enlisted: Site) -> Site:
    """Three hosts of the fleet, enlisted, two of them installed and ready."""
    lab = enlisted.lab
    machines = lab.by_name()
    for machine in machines.values():
        if machine["locked"]:
            assert lab.op(machine["system_id"], "unlock").ok
    ids = {name: machine["system_id"] for name, machine in machines.items() if name != "r1-n03"}
    with lab.client() as client:
        assert {r.status for r in install(client, lab.wanted(ids), lab.options()).values()} == {"deployed"}
    ledger = Ledger(f"sqlite:///{enlisted.folder / 'ledger.sqlite'}")
    for name in ids:
        for stage in ("install", "configure", "smoke"):
            ledger.end_stage(stage, name, [Finding(stage, "ok", stage)])
    lab.reset_stats()
    return enlisted


def test_one_host_then_a_rack_then_nothing(site: Site) -> None:
    lab = site.lab
    known_hosts = site.folder / "known_hosts"
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDqkAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    known_hosts.write_text(f"r1-n01 {key}\nr1-n02 {key}\n")
    lab.reset_stats()
    status, screen = site.play("release")
    assert status != 0 and "that is the whole fleet, 3 hosts, and no -l was given; nothing was done" in screen
    status, screen = site.play("release", "-l", "r1-n01,r1-n03")
    assert status != 0
    assert "release ends what runs on 1 hosts: r1-n01 (deployed); nothing was done. Say confirm: true" in screen
    screen = site.good("release", "-l", "r1-n01", "--check", "--diff")
    assert "--- before: r1-n01: release +++ after: r1-n01: release" in screen and "-deployed +ready" in screen
    assert "would release r1-n01 (" in screen
    assert lab.stats()["writes"] == 0 and site.deeds() == []
    screen = site.good("release", "-l", "r1-n01", "-e", "confirm=true")
    assert "release: 1 changed, 0 as wanted already" in screen
    assert {n: m["status_name"] for n, m in lab.by_name().items()} == {
        "r1-n01": "Ready", "r1-n02": "Deployed", "r1-n03": "New",
    }  # fmt: skip
    assert site.states() == {"r1-n01": "enlisted", "r1-n02": "ready", "r1-n03": "enlisted"}
    ((name, what),) = site.deeds()
    assert name == "r1-n01" and what.startswith("release r1-n01 (") and "which is deployed" in what
    assert known_hosts.read_text() == f"r1-n02 {key}\n"
    report = (site.folder / "reports" / "latest.txt").read_text()
    assert "install was undone: the machine was released" in report
    # it is no host to be configured any more
    assert "configure: 0 hosts go in; left out: 1 did not pass install" in site.play("configure", "-l", "r1-n01")[1]
    screen = site.good("release", "-l", "rack_r1", "-e", "confirm=true")
    assert "release: 1 changed, 2 as wanted already" in screen
    assert "changed=0" in site.good("release", "-e", "release_all=true", "-e", "confirm=true")
    assert set(site.states().values()) == {"enlisted"}


def test_a_host_that_is_refused_is_named_and_the_others_go_on(site: Site) -> None:
    lab = site.lab
    lab.op(lab.by_name()["r1-n01"]["system_id"], "lock")
    status, screen = site.play("release", "-l", "rack_r1", "-e", "confirm=true", "-e", "release_erase=quick")
    assert status == 2
    assert "release: 1 changed, 1 as wanted already; 1 not done: 1 maas.locked" in screen
    assert screen.count("FAILED!") == 1 and "is deployed and locked in MAAS; unlock it there" in screen
    assert lab.by_name()["r1-n02"]["status_name"] == "Ready"
    assert site.states()["r1-n01"] == "ready"
    status, screen = site.play("release", "-l", "r1-n02", "-e", "release_erase=wholly")
    assert status != 0 and "value of erase must be one of: none, quick, secure" in screen


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_stopped_it_can_be_run_again_at_once(site: Site, how: signal.Signals) -> None:
    """With Ctrl-C it says what goes on. Killed, no worker of it is left that has the hosts."""
    lab = site.lab
    site.write(release_poll_seconds=2)
    command = site.command("release", "-l", "rack_r1", "-e", "confirm=true", "-e", "release_max_parallel=1")
    with subprocess.Popen(
        command, cwd=ROOT, env=site.environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:  # fmt: skip
        end = time.monotonic() + 60
        while lab.stats()["requests"].get("POST release", 0) < 1:
            assert time.monotonic() < end and process.poll() is None
            time.sleep(0.05)
        os.killpg(process.pid, how)
        screen, _ = process.communicate(timeout=60)
    if how == signal.SIGINT:
        assert "go on being released; run release again to follow them" in screen, screen
    screen = site.good("release", "-l", "rack_r1", "-e", "confirm=true")
    assert {m["status_name"] for m in lab.by_name().values()} == {"Ready", "New"}
    assert set(site.states().values()) == {"enlisted"}
