"""The MAAS simulator moves machines as a region does, BMCs and power included, and over its own restarts.

Small fake BMCs (real Redfish, over TLS); once, simulators/bmc.
"""

from __future__ import annotations

import base64
import json
import re
import signal
import time
from typing import Any

import pytest
from maas_lab import Lab, lab_fixture, running_fixture  # noqa: F401
from waiting import until

# -- operations in the wrong state --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "status"),
    [
        ("deploy", 409),
        ("release", 409),
        ("abort", 409),
        ("power_on", 409),
        ("unlock", 409),
        ("lock", 409),
        ("mark_fixed", 409),
        ("set_storage_layout", 409),
    ],
)
def test_operations_that_a_new_machine_refuses(lab: Lab, op: str, status: int) -> None:
    answer = lab.op(lab.create("n1").json()["system_id"], op, storage_layout="flat")
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"].startswith("text/plain")


def test_commission_in_the_wrong_state(lab: Lab) -> None:
    system_id = lab.ready("n1")["system_id"]
    lab.post("machines/", "allocate", system_id=system_id)
    answer = lab.op(system_id, "commission")
    wanted = {"__all__": ["Commission is not available because of the current state of the node."]}
    assert (answer.status_code, answer.json()) == (400, wanted)
    answer = lab.post("machines/", "allocate", system_id=system_id)
    assert (answer.status_code, answer.text.startswith("No machine with system ID")) == (409, True)


def test_failed_deployment_must_be_released_first(lab: Lab) -> None:
    system_id = lab.ready("n1")["system_id"]
    lab.bmcs.no_network.add("n1")
    assert lab.op(system_id, "deploy").status_code == 200
    lab.wait(system_id, "Failed deployment")
    assert any("timed out after" in event for event in lab.events(system_id, "ERROR"))
    assert lab.op(system_id, "deploy").status_code == 409
    assert lab.op(system_id, "commission").status_code == 400
    assert lab.op(system_id, "release", comment="again").json()["status_name"] == "Releasing"
    assert lab.wait(system_id, "Ready")["owner"] is None
    assert lab.bmcs.machines["n1"]["power"] == "Off"


def test_what_deploy_checks(lab: Lab) -> None:
    machine = lab.ready("n1")
    system_id, nic = machine["system_id"], machine["interface_set"][0]["id"]
    answer = lab.op(system_id, "deploy", distro_series="plan9")
    assert (answer.status_code, list(answer.json())) == (400, ["distro_series"])
    assert "'plan9' is not a valid distro_series." in answer.text
    answer = lab.op(system_id, "deploy", distro_series="bookworm", hwe_kernel="magic")
    assert (answer.status_code, list(answer.json())) == (400, ["hwe_kernel"])
    answer = lab.op(system_id, "deploy", distro_series="jammy", hwe_kernel="ga-24.04")
    assert (answer.status_code, list(answer.json())) == (400, ["hwe_kernel"])
    lab.post(f"nodes/{system_id}/interfaces/{nic}/", "disconnect")
    answer = lab.op(system_id, "deploy")
    assert (answer.status_code, answer.json()) == (400, {"network": ["Node must be configured to use a network"]})
    lab.post(f"nodes/{system_id}/interfaces/{nic}/", "link_subnet", mode="AUTO")
    lab.op(system_id, "set_storage_layout", storage_layout="blank")
    answer = lab.op(system_id, "deploy")
    assert (answer.status_code, list(answer.json())) == (400, ["storage"])
    lab.admin("PUT", "/faults/no_rack")
    lab.op(system_id, "set_storage_layout", storage_layout="flat")
    assert lab.op(system_id, "deploy").status_code == 500
    assert lab.raw("GET", f"machines/{system_id}/", params={"op": "query_power_state"}).status_code == 503
    lab.admin("PUT", "/faults/unreachable_rack")
    assert lab.op(system_id, "commission").status_code == 504
    lab.admin("DELETE", "/faults/unreachable_rack")
    assert lab.machine(system_id)["status_name"] == "Ready"


# -- disks --------------------------------------------------------------------------------------------------------


def test_boot_disk_and_layout(lab: Lab) -> None:
    machine = lab.ready("n1")
    system_id, disks = machine["system_id"], machine["blockdevice_set"]
    assert sorted(disk["serial"] for disk in disks) == ["n1-N0", "n1-N1", "n1-OS1"]
    assert [disk["id"] for disk in disks] == sorted(disk["id"] for disk in disks)
    assert [disk["name"] for disk in disks] == ["nvme0n1", "nvme1n1", "sda"]
    assert machine["boot_disk"]["id"] == disks[0]["id"]
    assert (machine["cpu_count"], machine["memory"]) == (192, 2048 * 1024)
    os_disk = next(disk for disk in disks if disk["serial"] == "n1-OS1")

    def root() -> list[str]:
        found = lab.get(f"nodes/{system_id}/blockdevices/")
        return [d["serial"] for d in found for p in d["partitions"] if p["filesystem"]["mount_point"] == "/"]

    before = root()
    assert before == [disks[0]["serial"]]
    answer = lab.post(f"nodes/{system_id}/blockdevices/{os_disk['id']}/", "set_boot_disk")
    assert (answer.status_code, answer.text) == (200, "OK")
    assert lab.machine(system_id)["boot_disk"]["serial"] == "n1-OS1"
    assert root() == before, "set_boot_disk must not move the root file system"
    answer = lab.op(system_id, "set_storage_layout", storage_layout="flat", root_size="100G")
    assert (answer.status_code, root()) == (200, ["n1-OS1"])
    lab.op(system_id, "set_storage_layout", storage_layout="lvm", root_device=str(disks[1]["id"]))
    assert root() == [disks[1]["serial"]]
    for bad in ({"storage_layout": "round"}, {"storage_layout": "flat", "root_device": "/dev/sdz"}, {}):
        assert lab.op(system_id, "set_storage_layout", **bad).status_code == 400
    lab.post("machines/", "allocate", system_id=system_id)
    assert lab.post(f"nodes/{system_id}/blockdevices/{os_disk['id']}/", "set_boot_disk").status_code == 409
    assert lab.op(system_id, "set_storage_layout", storage_layout="flat").status_code == 409


# -- the way of a machine -----------------------------------------------------------------------------------------


def test_from_an_unknown_mac_to_deployed_and_back(lab: Lab) -> None:
    lab.bmcs.press_power("n1")
    found = until(lambda: lab.get("machines/", mac_address=lab.bmcs.mac("n1")))[0]
    system_id = found["system_id"]
    assert (found["status_name"], found["power_type"]) == ("Commissioning", "")
    assert lab.create("n1").status_code == 400, "a discovered MAC cannot be created"
    assert lab.raw("PUT", f"machines/{system_id}/", data={"hostname": "n1", **lab.power("n1")}).status_code == 200
    lab.wait(system_id, "New")
    assert lab.bmcs.machines["n1"]["pxe"] == ["enlist"]

    assert lab.op(system_id, "commission", testing_scripts="none").json()["status_name"] == "Commissioning"
    lab.wait(system_id, "Ready")
    assert lab.bmcs.machines["n1"]["power"] == "Off"

    user_data = base64.b64encode(b"#cloud-config\nusers: []\n").decode()
    answer = lab.op(system_id, "deploy", distro_series="bookworm", user_data=user_data, comment="first")
    assert (answer.status_code, answer.json()["status_name"], answer.json()["owner"]) == (200, "Deploying", "admin")
    machine = lab.wait(system_id, "Deployed")
    assert machine["ip_addresses"] == ["127.253.0.11"]
    assert (machine["osystem"], machine["distro_series"]) == ("custom", "bookworm")
    disk = {"hostname": "n1", "address": "127.253.0.11", "image": "bookworm", "user_data": "#cloud-config\nusers: []\n"}
    root = lab.bmcs.machines["n1"]["disk"].pop("root")
    assert root["serial"] == machine["boot_disk"]["serial"]
    assert lab.bmcs.machines["n1"]["disk"] == disk
    assert lab.bmcs.machines["n1"]["pxe"] == ["enlist", "commission", "install"]
    assert lab.get(f"machines/{system_id}/", op="query_power_state") == {"state": "on"}
    events = lab.events(system_id)
    steps = ["Powering on", "Performing PXE boot", "Loading ephemeral", "Installing OS", "Rebooting", "Deployed"]
    assert [event for event in events[events.index("Deploying - first") :] if event in steps] == steps

    # What is deployed boots from its disk whoever asks; locked it is left alone.
    lab.bmcs.press_power("n1")
    until(lambda: lab.bmcs.machines["n1"]["pxe"][-1] == "local")
    assert lab.op(system_id, "lock", comment="in use").json()["locked"] is True
    for answer in (lab.op(system_id, "release", comment="x"), lab.raw("DELETE", f"machines/{system_id}/")):
        assert (answer.status_code, answer.text) == (403, "")
    assert lab.op(system_id, "unlock").status_code == 200

    answer = lab.op(system_id, "release", comment="done", erase="true", quick_erase="true")
    assert answer.json()["status_name"] == "Disk erasing"
    machine = lab.wait(system_id, "Ready")
    assert (machine["ip_addresses"], machine["osystem"]) == ([], "")
    assert lab.bmcs.machines["n1"]["disk"] is None
    assert lab.op(system_id, "release", comment="again").status_code == 200, "releasing twice is no error"

    lab.op(system_id, "deploy")
    assert lab.wait(system_id, "Deployed")["ip_addresses"] == ["127.253.0.11"], "addresses stay with their machine"


def test_deployed_is_noticed_when_the_new_system_boots_from_its_disk(lab: Lab) -> None:
    """No network boot after the installation, because the UEFI boot order has the disk first."""
    system_id = lab.ready("n2")["system_id"]
    lab.op(system_id, "deploy")
    lab.wait(system_id, "Deployed")
    assert lab.bmcs.machines["n2"]["last_boot"] == "disk"
    assert lab.bmcs.machines["n2"]["pxe"] == ["commission", "install"]


def test_a_power_on_by_somebody_else_counts(lab: Lab) -> None:
    """MAAS cannot power the machine (manual): what matters is that it boots from the network."""
    lab.bmcs.requests.clear()
    system_id = lab.create("n3", power_type="manual", power_parameters_skip_check="true").json()["system_id"]
    assert lab.op(system_id, "commission").status_code == 200
    lab.bmcs.press_power("n3")
    lab.wait(system_id, "Ready")
    assert not [path for name, method, path in lab.bmcs.requests if (name, method) == ("n3", "PATCH")]


def test_a_known_bmc_that_fails_fails_the_operation(lab: Lab) -> None:
    system_id = lab.ready("n1")["system_id"]
    lab.bmcs.broken["n1"] = 503
    answer = lab.op(system_id, "deploy")
    assert (answer.status_code, answer.json()["status_name"]) == (200, "Deploying")
    lab.wait(system_id, "Failed deployment")
    errors = lab.events(system_id, "ERROR")
    assert errors[0].startswith("Failed to power on node - Power on for the node failed: ")
    assert errors[1].startswith("Marking node failed - ")
    answer = lab.raw("GET", f"machines/{system_id}/", params={"op": "query_power_state"})
    assert answer.status_code == 500
    assert lab.op(system_id, "release", comment="x").status_code == 200
    lab.wait(system_id, "Failed releasing")
    lab.bmcs.broken.clear()
    lab.op(system_id, "release", comment="x")
    lab.wait(system_id, "Ready")


def test_a_refused_password_is_tried_once(lab: Lab) -> None:
    system_id = lab.ready("n4")["system_id"]
    lab.raw("PUT", f"machines/{system_id}/", data={"power_parameters_power_pass": "wrong"})
    before = len([name for name, _, _ in lab.bmcs.requests if name == "n4"])
    assert lab.op(system_id, "commission").status_code == 200
    lab.wait(system_id, "Failed commissioning")
    assert len([name for name, _, _ in lab.bmcs.requests if name == "n4"]) == before + 1


def test_no_network_boot_fails_commissioning(lab: Lab) -> None:
    lab.bmcs.no_network.add("n1")
    system_id = lab.create("n1").json()["system_id"]
    lab.op(system_id, "commission")
    lab.wait(system_id, "Failed commissioning")
    wanted = r"Marking node failed - Node operation 'Commissioning' timed out after [\d.]+ minutes\."
    assert re.fullmatch(wanted, lab.events(system_id, "ERROR")[0])
    lab.bmcs.no_network.clear()
    assert lab.op(system_id, "commission").status_code == 200, "and it can be tried again"
    lab.wait(system_id, "Ready")


def test_abort_goes_back(lab: Lab) -> None:
    lab.bmcs.no_network.add("n1")
    system_id = lab.create("n1").json()["system_id"]
    lab.op(system_id, "commission")
    assert lab.op(system_id, "abort", comment="stop").status_code == 200
    lab.wait(system_id, "New")
    until(lambda: lab.bmcs.machines["n1"]["power"] == "Off")


def test_broken_and_fixed(lab: Lab) -> None:
    system_id = lab.ready("n1")["system_id"]
    lab.op(system_id, "deploy")
    lab.wait(system_id, "Deployed")
    broken = lab.op(system_id, "mark_broken", comment="GPU 3 fell off the bus").json()
    assert (broken["status_name"], broken["owner"]) == ("Broken", "admin")
    assert broken["error_description"] == "GPU 3 fell off the bus"
    assert lab.op(system_id, "mark_fixed").json()["status_name"] == "Deployed"
    assert lab.op(system_id, "mark_fixed").status_code == 409


def test_power_operations(lab: Lab) -> None:
    system_id = lab.ready("n1")["system_id"]
    lab.op(system_id, "deploy")
    lab.wait(system_id, "Deployed")
    assert lab.op(system_id, "power_off", stop_mode="hard").status_code == 200
    until(lambda: lab.machine(system_id)["power_state"] == "off")
    assert lab.bmcs.machines["n1"]["power"] == "Off"
    assert lab.op(system_id, "power_on").status_code == 200
    until(lambda: lab.machine(system_id)["power_state"] == "on")
    until(lambda: lab.bmcs.machines["n1"]["pxe"][-1] == "local")


# -- restarts, another version, simulated iDRACs -----------------------------------------------------------------


def test_killed_in_the_middle_it_goes_on(lab: Lab) -> None:
    """One machine in each stage of an installation, and one commissioning, when the region is killed."""
    ids = {name: lab.ready(name)["system_id"] for name in ("n1", "n2", "n3")}
    ids["n4"] = lab.create("n4").json()["system_id"]
    lab.op(ids["n4"], "commission")
    for name in ("n1", "n2", "n3"):
        lab.op(ids[name], "deploy", distro_series="bookworm")
        time.sleep(0.15)
    lab.kill(signal.SIGKILL)
    lab.start()
    wanted = {"n1": "Deployed", "n2": "Deployed", "n3": "Deployed", "n4": "Ready"}
    pressed: set[str] = set()

    def all_there() -> bool:
        for name, status in wanted.items():
            # Nobody answered its network boot while the region was down: somebody resets it, once.
            if lab.bmcs.machines[name]["pxe"][-1:] == ["unreachable"] and name not in pressed:
                pressed.add(name)
                lab.bmcs.press_power(name)
            if lab.machine(ids[name])["status_name"] != status:
                return False
        return True

    until(all_there, 30)
    addresses = {lab.machine(ids[name])["ip_addresses"][0] for name in ("n1", "n2", "n3")}
    assert addresses == {lab.bmcs.machines[name]["disk"]["address"] for name in ("n1", "n2", "n3")}
    assert len(addresses) == 3
    assert (lab.lab_dir / "maas" / "state.json").stat().st_mode & 0o777 == 0o600


def test_sigterm_is_a_clean_end(lab: Lab) -> None:
    pid = lab.lab_dir / "pid" / "maas.pid"
    assert lab.process is not None
    assert int(pid.read_text()) == lab.process.pid
    assert lab.kill(signal.SIGTERM) == 0
    assert not pid.exists()
    lab.start()


def test_where_3_4_differs(tmp_path: Any) -> None:
    lab = Lab(tmp_path, machines=1, version="3.4.10")
    try:
        assert lab.raw("GET", "version/", "").json()["version"] == "3.4.10"
        lab.admin("PUT", "/faults/no_rack")
        answer = lab.create("n1", commission="true")
        wanted = "Ephemeral operating system ubuntu jammy is unavailable."
        assert (answer.status_code, answer.text) == (400, wanted)
        assert lab.get("machines/") == []
        lab.admin("DELETE", "/faults/no_rack")
        machine = lab.ready("n1")
        assert "is_dpu" not in machine
        lab.admin("PUT", "/faults/no_rack")
        assert lab.op(machine["system_id"], "deploy").status_code == 400
        lab.admin("DELETE", "/faults/no_rack")
        lab.op(machine["system_id"], "deploy")
        lab.wait(machine["system_id"], "Deployed")
        assert lab.op(machine["system_id"], "mark_broken").json()["owner"] is None
    finally:
        lab.stop()


def test_with_the_simulated_idracs(tmp_path: Any) -> None:
    """The same way with simulators/bmc instead of the fakes: discovered, commissioned, deployed, released."""
    lab = Lab(tmp_path, machines=1, real_bmcs=True)
    try:
        lab.redfish_power_on("n1")
        found = until(lambda: lab.get("machines/"))[0]
        system_id = found["system_id"]
        assert (found["status_name"], found["hardware_info"]["system_serial"]) == ("Commissioning", "TAG1")
        answer = lab.raw("PUT", f"machines/{system_id}/", data={"hostname": "n1", **lab.power("n1")})
        assert answer.status_code == 200, answer.text
        lab.wait(system_id, "New")
        assert lab.op(system_id, "commission").status_code == 200
        machine = lab.wait(system_id, "Ready", seconds=20)
        models = [disk["model"] for disk in machine["blockdevice_set"]]
        assert len(models) == 9, models
        assert [model for model in models if "BOSS" in model] == ["DELL BOSS-N1"]
        assert not [nic for nic in machine["interface_set"] if nic["name"].startswith("ib")]
        assert lab.op(system_id, "deploy", distro_series="bookworm").status_code == 200
        machine = lab.wait(system_id, "Deployed", seconds=20)
        state = json.loads((tmp_path / "machines" / "n1" / "state.json").read_text())
        assert state["power"] == "On"
        assert (state["disk"]["hostname"], state["disk"]["address"]) == ("n1", machine["ip_addresses"][0])
        lab.op(system_id, "release", comment="done", erase="true")
        lab.wait(system_id, "Ready", seconds=20)
        state = json.loads((tmp_path / "machines" / "n1" / "state.json").read_text())
        assert (state["power"], state["disk"]) == ("Off", None)
    finally:
        lab.stop()
