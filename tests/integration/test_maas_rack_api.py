"""The simulated region in front of real machines: nothing is played, the rack's reports move them on."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
from maas_lab import Lab

NETWORK = 60 + (os.getpid() + 45) % 90
DISKS = [
    {"name": "nvme0n1", "serial": "DATA0", "size": 3 * 10**12, "model": "QEMU NVMe Ctrl", "nvme": True},
    {"name": "nvme1n1", "serial": "OS1", "size": 10**11, "model": "QEMU NVMe Ctrl", "nvme": True},
]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("maas-rack")
    lab = Lab(folder, NETWORK, machines=3, real_machines=True, node_timeout_seconds=3)
    yield lab
    lab.stop()


@pytest.fixture
def lab(running: Lab) -> Iterator[Lab]:
    yield running
    running.forget_all()


def report(lab: Lab, name: str, what: str, body: Any = None) -> int:
    return lab.admin("POST", f"/rack/{lab.bmcs.mac(name)}/{what}", body).status_code


def booted(lab: Lab, name: str, answer: str) -> None:
    """Wait until the machine has been told this by its network boot."""
    end = time.monotonic() + 5
    while answer not in lab.bmcs.machines[name]["pxe"]:
        assert time.monotonic() < end, lab.bmcs.machines[name]["pxe"]
        time.sleep(0.05)


SCRIPT = "#!/bin/sh\necho hello\n"


def commissioned(lab: Lab, name: str) -> dict[str, Any]:
    system_id = lab.create(name).json()["system_id"]
    assert lab.op(system_id, "commission").status_code == 200
    booted(lab, name, "commission")
    found = {"cpu_count": 4, "memory": 1000, "disks": DISKS, "nics": [{"id": "eth1", "mac": "02:00:00:00:77:01"}]}
    assert report(lab, name, "commissioned", found) == 200
    return lab.wait(system_id, "Ready")


def test_a_machine_is_commissioned_when_it_has_reported(lab: Lab) -> None:
    machine = commissioned(lab, "n1")
    disks = {disk["name"]: disk["serial"] for disk in machine["blockdevice_set"]}
    assert disks == {"nvme0n1": "DATA0", "nvme1n1": "OS1"}, "the names are those that its kernel gave"
    assert machine["cpu_count"] == 4
    assert report(lab, "n1", "commissioned", {}) == 409, "nothing is under way any more"


def test_a_machine_runs_the_scripts_itself_and_maas_keeps_what_they_print(lab: Lab) -> None:
    mac = lab.bmcs.mac("n3")
    assert lab.post("scripts/", name="look", script=SCRIPT, type="commissioning").status_code == 200
    assert lab.post("scripts/", name="never-ran", script=SCRIPT, type="commissioning").status_code == 200
    system_id = lab.create("n3").json()["system_id"]
    assert lab.admin("GET", f"/rack/{mac}/scripts").status_code == 409
    assert lab.op(system_id, "commission").status_code == 200
    booted(lab, "n3", "commission")
    assert lab.admin("GET", f"/rack/{mac}/scripts").json() == ["look", "never-ran"]
    assert lab.admin("GET", f"/rack/{mac}/scripts/look").text == SCRIPT
    assert lab.admin("GET", f"/rack/{mac}/scripts/other").status_code == 404
    assert report(lab, "n3", "scripts/look", {"status": 0, "stdout": "hello\n"}) == 200
    assert report(lab, "n3", "commissioned", {"cpu_count": 4, "memory": 1000, "disks": DISKS, "nics": []}) == 200
    lab.wait(system_id, "Ready")
    sets = lab.get(f"nodes/{system_id}/results/", type="commissioning", include_output="true")
    results = {result["name"]: result for result in sets[0]["results"]}
    assert (results["look"]["status_name"], results["look"]["exit_status"]) == ("Passed", 0)
    assert base64.b64decode(results["look"]["output"]).decode() == "hello\n"
    assert results["never-ran"]["status_name"] == "Failed"


def test_a_machine_is_deployed_when_its_own_system_has_booted(lab: Lab) -> None:
    machine = commissioned(lab, "n1")
    system_id = machine["system_id"]
    assert lab.admin("GET", f"/rack/{lab.bmcs.mac('n1')}/deployment").status_code == 409
    root = next(disk["id"] for disk in machine["blockdevice_set"] if disk["serial"] == "OS1")
    assert lab.op(system_id, "set_storage_layout", storage_layout="flat", root_device=root).status_code == 200
    words = base64.b64encode(b"#cloud-config\n{}\n").decode()
    assert lab.op(system_id, "deploy", distro_series="bookworm", user_data=words).status_code == 200
    booted(lab, "n1", "install")
    found = lab.admin("GET", f"/rack/{lab.bmcs.mac('n1')}/deployment").json()
    assert (found["serial"], found["user_data"], found["hostname"]) == ("OS1", "#cloud-config\n{}\n", "n1")
    time.sleep(0.5)
    assert lab.machine(system_id)["status_name"] == "Deploying", "no time that passes deploys a real machine"
    assert report(lab, "n1", "installed") == 200
    assert lab.admin("POST", "/pxe", {"mac": lab.bmcs.mac("n1")}).json() == {"boot": "local"}
    time.sleep(0.5)
    assert lab.machine(system_id)["status_name"] == "Deploying"
    assert report(lab, "n1", "booted") == 200
    lab.wait(system_id, "Deployed")


def test_a_machine_that_fails_says_why_and_a_silent_one_times_out(lab: Lab) -> None:
    for name in ("n1", "n2"):
        assert lab.op(lab.create(name).json()["system_id"], "commission").status_code == 200
        booted(lab, name, "commission")
    url = f"{lab.admin_url}/rack/{lab.bmcs.mac('n1')}/failed"
    assert lab.session.post(url, data="no disk answers\n", timeout=5).status_code == 200
    by_name = {machine["hostname"]: machine for machine in lab.get("machines/")}
    assert by_name["n1"]["status_name"] == "Failed commissioning"
    assert by_name["n1"]["status_message"] == "Commissioning failed: no disk answers"
    silent = lab.wait(by_name["n2"]["system_id"], "Failed commissioning", seconds=8)
    assert "timed out after" in silent["status_message"]
    assert lab.admin("POST", "/rack/02:00:00:00:99:99/failed", None).status_code == 404
