"""A fault on one host: one run of scripts/health says so of exactly that host, and no more once it is off again."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any

import pytest

from tests.integration.postgresql import running

from .conftest import REPOSITORY, Lab

pytestmark = pytest.mark.timeout(1800)  # the first one builds the image and brings the lab up

HOSTS = ("r1-n01", "r2-n01")


@dataclass(frozen=True)
class Case:
    """A fault with its parameters, and what health must say: symptom, text within the locator, action.

    alone: whether nothing else is held against the host; a GPU that answers no more hides what its neighbours say.
    """

    fault: str
    symptom: str
    locator: str
    action: str
    parameters: tuple[str, ...] = ()
    alone: bool = True


CASES = (
    Case("gpu_lost", "gpu.lost", "GPU 0000:4c:00.0", "power_cycle", ("gpu=2",), alone=False),
    Case("gpu_ecc", "gpu.ecc_errors", "GPU 0000:5d:00.0", "reboot"),
    Case("nvlink_down", "nvlink.inactive", "GPU 0000:9b:00.0 link 11", "reboot", ("gpu=4", "link=11")),
    Case("nvlink_errors", "nvlink.errors_growing", "GPU 0000:9b:00.0", "reboot", ("gpu=4", "link=11")),
    Case("gpu_xid", "xid.79", "GPU 0000:bb:00", "power_cycle", ("gpu=5", "xid=79")),
    Case("pcie_narrow", "pcie.narrow", "GPU 0000:cb:00.0", "reseat", ("gpu=6", "width=4")),
    Case("disk_full", "disk.full", "/var/tmp", "escalate"),
    Case("host_clock_off", "clock.skew", "", "escalate"),
    Case("exporter_dead", "exporter.not_answering", "node_exporter", "escalate"),
    Case("command_hangs", "nvme_count.timed_out", "", "retry", ("tool=nvme",)),
)


@pytest.fixture(scope="module")
def server():
    with running() as server:
        yield server


@pytest.fixture(scope="module")
def two(tmp_path_factory, server):
    """With the ledger on a PostgreSQL server: all of site.yml, and whatever asks for health."""
    folder = tmp_path_factory.mktemp("health")
    lab = Lab(folder, block=45, ledger=server.url("firstlight"))
    try:
        lab.command("up", "--fleet", "2", "--sound", "--block", str(lab.block), "--inventory-dir", str(lab.inventory))
        run = lab.play("site.yml")
        assert run.status == 0, run.screen
        yield lab
    finally:
        lab.end_runs()
        lab.command("down")
        shutil.rmtree(folder, ignore_errors=True)


def health(lab: Lab, *words: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit status of one run of scripts/health, and what it says of each host."""
    done = subprocess.run(
        [REPOSITORY / "scripts" / "health", "--json", *words],
        cwd=REPOSITORY, env=lab.environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return done.returncode, {host["name"]: host for host in json.loads(done.stdout)["hosts"]}


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.fault for case in CASES])
def test_a_fault_makes_exactly_that_host_not_ready_with_its_symptom(two, number):
    """The faults take turns on the two hosts, so that each run also sees the one before mended."""
    case, sick, well = CASES[number], HOSTS[number % 2], HOSTS[1 - number % 2]
    two.command("fault", sick, case.fault, "on", *case.parameters)
    try:
        status, said = health(two)
    finally:
        two.command("fault", sick, case.fault, "off")
    assert set(said) == set(HOSTS)
    assert said[well]["fit"] is True, said[well]["reasons"]
    assert (status, said[sick]["fit"]) == (1, False), said[sick]
    reasons = said[sick]["reasons"]
    found = [reason for reason in reasons if reason["symptom"] == case.symptom]
    assert len(found) == 1, reasons
    assert case.locator in found[0]["locator"]
    assert found[0]["action"] == case.action
    assert len(reasons) == 1 or not case.alone, reasons
    judged = {finding["check"] for finding in said[sick]["findings"] if finding["status"] == "ok"}
    assert {"docker", "hca_state", "disk_usage"} - judged <= {found[0]["check"]}, judged


def test_with_all_faults_off_all_are_ready(two):
    status, said = health(two)
    assert status == 0, said
    assert [two.host(name)["verdict"] for name in HOSTS] == ["ready", "ready"]
