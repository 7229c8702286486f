"""Install as an operator meets it: playbooks/install.yml on a lab of simulated BMCs and a simulated region."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from maas_product_lab import ROOT, ProductLab
from maas_site import Site


@pytest.fixture(scope="module")
def running_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProductLab]:
    lab = ProductLab(tmp_path_factory.mktemp("lab"), machines=3, node_timeout_seconds=10, commission_seconds=2)
    yield lab
    lab.stop()


@pytest.fixture
def site(running_lab: ProductLab, tmp_path: Path) -> Site:
    lab = running_lab.fresh()
    console = str(lab.folder / "console" / "{name}.log")
    site = Site(lab, tmp_path, install_retries=0, install_console_log=console)
    site.good("discover")
    site.good("enlist")
    return site


def test_each_host_that_does_not_come_is_named_with_its_cause(site: Site) -> None:
    lab = site.lab
    lab.fault("driver_fails", machines=["r1-n01"])
    lab.fault("no_dhcp", machines=["r1-n02"])
    lab.fault("curtin", machines=["r1-n03"])
    screen = site.play("install")[1]
    assert "r1-n01: MAAS cannot switch its power, Redfish does" in screen
    one, two, three = (site.findings(name) for name in lab.names)
    assert list(one) == ["install.power_by_redfish", "install.no_ssh"]  # there is no host behind these BMCs
    assert "PXE-E51: No DHCP or proxyDHCP offers" in two["install.no_dhcp"]
    assert "Unexpected error while running command" in three["install.curtin_failed"]
    assert lab.by_name()["r1-n01"]["power_type"] == "redfish"
    assert site.states()["r1-n03"] == "installing"
    assert "install: 0 of 3 passed" in screen


def until_all_commission(site: Site) -> tuple[subprocess.Popen[str], str]:
    """A run of install in a process group of its own, and what it printed until now."""
    process = subprocess.Popen(
        site.command("install"),
        cwd=ROOT,
        env=site.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    screen = ""
    for line in process.stdout:
        screen += line
        if screen.count(": commissioning\n") == 3:
            return process, screen
    raise AssertionError(screen)


def test_no_worker_goes_on_when_the_run_is_killed(site: Site) -> None:
    """It would install beside the next run: the hosts are free as soon as the run is gone."""
    process, _ = until_all_commission(site)
    workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.kill()
    process.wait(20)
    assert workers
    time.sleep(0.2)  # by itself one ends seconds later, when it has something to print
    left = [pid for pid in workers if is_running(pid)]
    for pid in left:
        os.kill(int(pid), signal.SIGKILL)
    assert not left


def is_running(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


def test_ctrl_c_leaves_machines_that_go_on(site: Site) -> None:
    process, screen = until_all_commission(site)
    assert process.stdout is not None
    os.killpg(process.pid, signal.SIGINT)
    screen += process.stdout.read()
    assert process.wait(60) != 0
    assert "interrupted: 3 hosts were in the install stage; machines that MAAS has begun with go on" in screen, screen
    for name in site.lab.names:
        site.lab.wait_for(name, "Ready", 60)


def test_wrong_settings_are_one_line(site: Site) -> None:
    for setting, value, said in (
        ("install_power", "ipmi", "install_power is 'ipmi'; it must be one of auto, maas, redfish"),
        ("install_console_log", "console.log", "install_console_log is 'console.log'; write a whole path with {name}"),
        ("install_pxe_minutes", 0, "install_pxe_minutes is 0; it must be a number of 0.01 or more"),
    ):
        before = site.settings.get(setting)
        site.write(**{setting: value})
        status, screen = site.play("install")
        assert status != 0 and said in screen, screen
        site.write(**{setting: before})


FAKE = """#!/bin/sh
case "$*" in
*--wait*) exit 1 ;;
*json*) echo '{"status": "error", "errors": ["modules-final: (\\"scripts-user\\", ProcessExecutionError)"]}' ;;
esac
"""
PLAY = """
- name: Cloud-init
  hosts: fleet
  gather_facts: false
  vars:
    stage: install
    ansible_host: 127.0.0.1
    ansible_connection: local
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
  tasks:
    - name: Open
      fleet_stage:
        stage: install
        event: open
      run_once: true
    - name: Wait until cloud-init is done
      cloud_init_wait:
        minutes: 1
"""


def test_a_failed_cloud_init_is_a_finding_with_its_errors(site: Site, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "cloud-init"
    fake.write_text(FAKE)
    fake.chmod(0o755)
    (tmp_path / "play.yml").write_text(PLAY)
    name = os.path.relpath(tmp_path / "play", f"{ROOT}/playbooks")
    status, screen = site.play(name, PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert status != 0
    found = site.findings("r1-n01")
    assert (
        'cloud-init failed: modules-final: ("scripts-user", ProcessExecutionError)'
        in found["install.cloud_init_failed"]
    ), (found, screen)
    assert list(found) == ["install.cloud_init_failed"]
