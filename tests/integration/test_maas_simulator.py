"""The MAAS simulator answers as the API contract says, row by row, and moves machines as a region does.

Raw requests, python-libmaas unchanged, and real Redfish (over TLS) to small fake BMCs.
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests
from maas_lab import KEY, PASSWORD, Lab, authorization
from requests_oauthlib import OAuth1

# Labs of parallel test runs must not share addresses.
NETWORK = 60 + os.getpid() % 90


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    lab = Lab(tmp_path_factory.mktemp("maas-lab"), NETWORK)
    yield lab
    lab.stop()


@pytest.fixture
def lab(running: Lab) -> Iterator[Lab]:
    yield running
    running.forget_all()


# -- authentication and paths -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "status", "text"),
    [
        (lambda: "", 400, "Unrecognised signature"),
        (lambda: authorization(timestamp=str(int(time.time()) - 400)), 401, "Expired timestamp"),
        (lambda: authorization(timestamp=str(int(time.time()) + 4000)), 200, "[]"),
        (lambda: authorization(key="other:token01:secret01"), 401, "Invalid consumer"),
        (lambda: authorization(key="consumer01:other:secret01"), 401, "Invalid access token"),
        (lambda: authorization(key="consumer01:token01:wrong"), 401, "Invalid signature"),
        (lambda: authorization(signature_method="HMAC-SHA1"), 401, "Signature method"),
        (lambda: "Basic cm9vdDpyb290", 401, "Missing OAuth parameters"),
    ],
)
def test_the_authorization_header_is_checked(lab: Lab, header: Any, status: int, text: str) -> None:
    answer = lab.raw("GET", "machines/", header())
    assert answer.status_code == status
    assert text in answer.text
    assert answer.headers["X-Simulator"] == "firstlight MAAS simulator"


def test_a_nonce_works_once(lab: Lab) -> None:
    header = authorization()
    assert lab.raw("GET", "machines/", header).status_code == 200
    answer = lab.raw("GET", "machines/", header)
    assert (answer.status_code, "Nonce already used" in answer.text) == (401, True)


def test_a_401_body_holds_the_right_secret_as_maas_does(lab: Lab) -> None:
    answer = lab.raw("GET", "users/", authorization(key="consumer01:token01:wrong"), params={"op": "whoami"})
    assert answer.status_code == 401
    assert KEY.rpartition(":")[2] in answer.text


def test_the_header_of_requests_oauthlib_is_accepted(lab: Lab) -> None:
    consumer, token, secret = KEY.split(":")
    auth = OAuth1(consumer, "", token, secret, signature_method="PLAINTEXT")
    answer = lab.session.get(f"{lab.url}api/2.0/users/?op=whoami", auth=auth, timeout=10)
    assert answer.json()["username"] == "admin"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "machines", 404),
        ("GET", "machines/zzzzzz/", 404),
        ("GET", "nothing/", 404),
        ("POST", "machines/?op=nothing", 400),
        ("GET", "events/", 400),
    ],
)
def test_wrong_paths_and_operations(lab: Lab, method: str, path: str, status: int) -> None:
    assert lab.raw(method, path).status_code == status


def test_without_a_header_elsewhere_is_401(lab: Lab) -> None:
    assert lab.raw("GET", "users/?op=whoami", "").status_code == 401


def test_tls_is_verified(lab: Lab) -> None:
    with pytest.raises(requests.exceptions.SSLError):
        requests.get(f"{lab.url}api/2.0/version/", timeout=10)


# -- creating machines --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", ["form", "multipart", "json"])
def test_create_answers_200_and_the_whole_machine(lab: Lab, body: str) -> None:
    power = {"power_address": "127.0.0.9:8443", "power_user": "root", "power_pass": PASSWORD}
    fields = {"architecture": "amd64/generic", "hostname": "n1", "commission": "false", "power_type": "redfish"}
    fields |= {"pool": "gpu", "zone": "r1", "description": "rack 1", "is_dpu": "false"}
    macs = ["02:00:00:00:01:01", "02:00:00:00:02:01"]
    if body == "json":
        answer = lab.raw("POST", "machines/", json={**fields, "mac_addresses": macs, "power_parameters": power})
    else:
        pairs = [*fields.items(), *(("mac_addresses", mac) for mac in macs), ("power_parameters", json.dumps(power))]
        more: dict[str, Any] = {"data": pairs} if body == "form" else {"files": [(k, (None, v)) for k, v in pairs]}
        answer = lab.raw("POST", "machines/", **more)
    assert answer.status_code == 200, answer.text
    machine = answer.json()
    assert [nic["mac_address"] for nic in machine["interface_set"]] == macs
    assert (machine["status"], machine["status_name"], machine["power_type"]) == (0, "New", "redfish")
    assert (machine["pool"]["name"], machine["zone"]["name"], machine["fqdn"]) == ("gpu", "r1", "n1.maas")
    assert machine["is_dpu"] is False
    assert PASSWORD not in answer.text
    parameters = lab.get(f"machines/{machine['system_id']}/", op="power_parameters")
    assert parameters == power


FIELD_ERRORS = [
    ({"mac_addresses": "02:00:00:00:01:02"}, "hostname", "Node with this Hostname already exists."),
    ({"pool": "nowhere"}, "pool", "Select a valid choice. That choice is not one of the available choices."),
    ({"zone": "nowhere"}, "zone", "Select a valid choice. That choice is not one of the available choices."),
    ({"domain": "nowhere"}, "domain", "Unable to find domain nowhere."),
    ({"architecture": ""}, "architecture", "This field is required."),
    (
        {"architecture": "s390x"},
        "architecture",
        "'s390x/generic' is not a valid architecture.  It should be one of: 'amd64/generic'.",
    ),
    ({"mac_addresses": "zz"}, "mac_addresses", "One or more MAC addresses is invalid. ('zz')"),
    ({"mac_addresses": ""}, "mac_addresses", "This field is required."),
    ({"power_type": "magic"}, "power_type", "Select a valid choice. magic is not one of the available choices."),
    ({"power_parameters_power_user": ""}, "power_parameters", "Redfish user: This field is required."),
    ({"power_parameters_colour": "red"}, "power_parameters", "Unknown parameter(s): colour."),
]


@pytest.mark.parametrize(("change", "field", "text"), FIELD_ERRORS)
def test_field_errors_of_create(lab: Lab, change: dict[str, str], field: str, text: str) -> None:
    name = "n1"
    if field == "hostname":
        lab.create("n1")
    answer = lab.create(name, **change)
    assert answer.status_code == 400, answer.text
    assert answer.json()[field] == [text]


def test_a_taken_mac_names_its_owner(lab: Lab) -> None:
    lab.create("n1")
    answer = lab.create("n2", mac_addresses=lab.bmcs.mac("n1"))
    assert answer.status_code == 400
    assert answer.json() == {
        "mac_addresses": ["MAC address 02:00:00:00:01:01 already in use on n1."],
        "power_type": ["Can't set power type to redfish without network interfaces"],
    }


@pytest.mark.parametrize(
    "change",
    [{"mac_addresses": "02:00:00:00:01:01,02:00:00:00:01:02"}, {"power_parameters_power_address": "https://x"}],
)
def test_what_makes_maas_fail(lab: Lab, change: dict[str, str]) -> None:
    assert lab.create("n1", **change).status_code == 500
    assert lab.get("machines/") == []


def test_no_images_means_no_architecture(lab: Lab) -> None:
    lab.admin("PUT", "/faults/no_images")
    answer = lab.create("n1")
    wanted = "'amd64/generic' is not a valid architecture.  It should be one of: ''."
    assert (answer.status_code, answer.json()) == (400, {"architecture": [wanted]})
    assert lab.get("boot-resources/") == []


def test_ipmi_needs_no_mac_and_two_machines_may_share_a_bmc(lab: Lab) -> None:
    answer = lab.create("n1", mac_addresses="", power_type="ipmi")
    assert answer.status_code == 200, answer.text
    assert lab.create("n2").status_code == 200
    assert lab.create("n3", **lab.power("n2")).status_code == 200


def test_create_commissions_unless_told_not_to(lab: Lab) -> None:
    answer = lab.post("machines/", architecture="amd64", mac_addresses=lab.bmcs.mac("n1"), **lab.power("n1"))
    assert (answer.status_code, answer.json()["status_name"]) == (200, "Commissioning")
    assert re.fullmatch(r"[a-z]+-[a-z]+", answer.json()["hostname"])
    lab.wait(answer.json()["system_id"], "Ready")


def test_bmc_down_is_503_and_the_machine_is_stored(lab: Lab) -> None:
    lab.bmcs.broken["n1"] = 0
    answer = lab.create("n1", commission="true")
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "10"
    assert [machine["status_name"] for machine in lab.get("machines/")] == ["New"]


def test_concurrent_creates_make_duplicates(lab: Lab) -> None:
    """The trap that a client must avoid by itself: MAAS has no lock here."""
    fields = {"architecture": "amd64", "commission": "false"}
    for attempt in range(5):  # on a busy machine the requests may come one after the other
        mac = f"02:00:00:00:03:{attempt:02x}"
        with ThreadPoolExecutor(12) as pool:
            futures = [pool.submit(lab.post, "machines/", mac_addresses=mac, **fields) for _ in range(12)]
        answers = [future.result() for future in futures]
        assert {answer.status_code for answer in answers} <= {200, 400}
        if len(lab.get("machines/", mac_address=mac)) > 1:
            return
    raise AssertionError("no duplicates in five rounds")


# -- reading, changing, deleting ----------------------------------------------------------------------------------


def test_filters_of_the_list(lab: Lab) -> None:
    first = lab.create("n1", zone="r1").json()
    second = lab.create("n2", zone="r2", pool="gpu").json()
    lab.post("tags/", name="bad-gpu")
    lab.post("tags/bad-gpu/", "update_nodes", add=second["system_id"])

    def names(**params: Any) -> list[str]:
        return [machine["hostname"] for machine in lab.get("machines/", **params)]

    assert names() == ["n1", "n2"]
    assert names(hostname=["n1", "n2", "n9"]) == ["n1", "n2"]
    assert names(mac_address=[lab.bmcs.mac("n2")]) == ["n2"]
    assert names(mac_address=lab.bmcs.mac("n2").replace(":", "-")) == []
    assert names(mac_address="02:00:00:00:AB:02") == []
    assert names(id=first["system_id"]) == ["n1"]
    assert names(status="new") == ["n1", "n2"]
    assert names(status=["ready", "failed_commissioning"]) == []
    assert names(zone="r2") == names(pool="gpu") == names(tags="bad-gpu") == ["n2"]
    for params in ({"colour": "red"}, {"tags": "no-such"}, {"zone": "no"}, {"status": "New"}, {"mac_address": "zz"}):
        answer = lab.raw("GET", "machines/", params=params)
        assert (answer.status_code, list(answer.json())) == (400, list(params))
    assert lab.raw("GET", "machines/", params={"colour": "red"}).json() == {"colour": ["No such constraint."]}


def test_upper_case_macs_match_nothing(lab: Lab) -> None:
    lab.create("n1", mac_addresses="02:00:00:AB:01:01")
    assert lab.get("machines/", mac_address="02:00:00:AB:01:01") == []
    assert len(lab.get("machines/", mac_address="02:00:00:ab:01:01")) == 1


def test_update_merges_power_parameters(lab: Lab) -> None:
    system_id = lab.create("n1").json()["system_id"]
    path = f"machines/{system_id}/"
    answer = lab.raw("PUT", path, data={"hostname": "n9", "power_parameters_power_pass": "another", "zone": "r2"})
    assert (answer.status_code, answer.json()["hostname"], answer.json()["zone"]["name"]) == (200, "n9", "r2")
    assert lab.get(path, op="power_parameters")["power_user"] == "root"
    assert lab.get(path, op="power_parameters")["power_pass"] == "another"
    assert lab.raw("PUT", path, data={"pool": "nowhere"}).status_code == 400


def test_delete_is_204_then_404(lab: Lab) -> None:
    path = f"machines/{lab.create('n1').json()['system_id']}/"
    assert lab.raw("DELETE", path).status_code == 204
    assert lab.raw("DELETE", path).status_code == 404


def test_a_deleted_machine_is_switched_no_more(lab: Lab) -> None:
    system_id = lab.create("n1").json()["system_id"]
    lab.bmcs.requests.clear()
    lab.bmcs.slow["n1"] = 0.5
    assert lab.op(system_id, "commission").status_code == 200
    begun = len(lab.bmcs.requests)
    wait_for(lambda: len(lab.bmcs.requests) > begun)
    assert lab.raw("DELETE", f"machines/{system_id}/").status_code == 204
    time.sleep(2)
    assert not [method for name, method, path in lab.bmcs.requests if method != "GET"]
    assert lab.bmcs.machines["n1"]["power"] == "Off"


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
    found = wait_for(lambda: lab.get("machines/", mac_address=lab.bmcs.mac("n1")))[0]
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
    wait_for(lambda: lab.bmcs.machines["n1"]["pxe"][-1] == "local")
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
    wait_for(lambda: lab.bmcs.machines["n1"]["power"] == "Off")


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
    wait_for(lambda: lab.machine(system_id)["power_state"] == "off")
    assert lab.bmcs.machines["n1"]["power"] == "Off"
    assert lab.op(system_id, "power_on").status_code == 200
    wait_for(lambda: lab.machine(system_id)["power_state"] == "on")
    wait_for(lambda: lab.bmcs.machines["n1"]["pxe"][-1] == "local")


# -- tags, events and the rest ------------------------------------------------------------------------------------


def test_interfaces(lab: Lab) -> None:
    """As maasserver/api/interfaces.py of 3.4 to 3.7 has it; what was not seen on a region is marked in the README."""
    system_id = lab.create("n1").json()["system_id"]
    other = lab.create("n2").json()
    path, wrong = f"nodes/{system_id}/interfaces/", "because the machine is not New, Ready, Allocated, or Broken."
    (first,) = lab.get(path)
    answer = lab.post(path, "create_physical", mac_address="02-00-00-00-0A-01")
    assert (answer.status_code, answer.json()["mac_address"]) == (200, "02:00:00:00:0a:01")
    second = answer.json()
    assert second["links"] == [] and second["name"] != first["name"]
    for data, status, text in (
        ({}, 400, "This field is required."),
        ({"mac_address": "x"}, 400, "is not a valid MAC address"),
        ({"mac_address": "02:00:00:00:0a:01"}, 400, "This MAC address is already in use by eth1 (physical) on n1."),
        ({"mac_address": lab.bmcs.mac("n2")}, 400, "already in use by eth0 (physical) on n2."),
        ({"mac_address": "02:00:00:00:0a:02", "name": "eth0"}, 400, "already has an interface named"),
    ):
        answer = lab.post(path, "create_physical", **data)
        assert (answer.status_code, text in answer.text) == (status, True), answer.text
    answer = lab.raw("PUT", f"{path}{first['id']}/", data={"mac_address": "02:00:00:00:0a:03"})
    assert (answer.status_code, answer.json()["id"]) == (200, first["id"])
    assert lab.machine(system_id)["boot_interface"]["mac_address"] == "02:00:00:00:0a:03"
    assert lab.raw("PUT", f"{path}{first['id']}/", data={"mac_address": lab.bmcs.mac("n2")}).status_code == 400
    assert lab.raw("PUT", f"{path}{other['interface_set'][0]['id']}/", data={"name": "x"}).status_code == 404
    answer = lab.raw("DELETE", f"{path}{first['id']}/")
    assert (answer.status_code, answer.text) == (204, "")
    assert lab.raw("DELETE", f"{path}{first['id']}/").status_code == 404
    assert lab.machine(system_id)["boot_interface"]["id"] == second["id"]
    lab.bmcs.no_network.add("n1")
    lab.op(system_id, "commission")
    for method, where, op in (
        ("POST", path, "create_physical"),
        ("PUT", f"{path}{second['id']}/", ""),
        ("DELETE", f"{path}{second['id']}/", ""),
    ):
        answer = lab.raw(method, where, params={"op": op} if op else None, data={"mac_address": "02:00:00:00:0a:09"})
        assert (answer.status_code, wrong in answer.text) == (409, True), answer.text


def test_a_nic_of_a_deployed_machine_may_change_its_mac_alone(lab: Lab) -> None:
    machine = lab.ready("n1")
    lab.op(machine["system_id"], "deploy")
    lab.wait(machine["system_id"], "Deployed")
    path = f"nodes/{machine['system_id']}/interfaces/"
    nic = lab.get(path)[0]
    assert lab.raw("PUT", f"{path}{nic['id']}/", data={"mac_address": "02:00:00:00:0a:03"}).status_code == 200
    assert lab.get(path)[0]["links"] == nic["links"]
    assert lab.post(path, "create_physical", mac_address="02:00:00:00:0a:04").status_code == 409
    assert lab.raw("DELETE", f"{path}{nic['id']}/").status_code == 409
    lab.op(machine["system_id"], "lock")
    assert lab.raw("PUT", f"{path}{nic['id']}/", data={"mac_address": "02:00:00:00:0a:05"}).status_code == 403
    assert lab.raw("DELETE", f"machines/{machine['system_id']}/").status_code == 403


def test_the_nic_that_boots_is_the_boot_interface(lab: Lab) -> None:
    data = {"mac_addresses": ["02:00:00:00:0a:01", lab.bmcs.mac("n1")]}
    machine = lab.create("n1", **data).json()
    assert machine["boot_interface"]["mac_address"] == "02:00:00:00:0a:01"
    lab.op(machine["system_id"], "commission")
    machine = lab.wait(machine["system_id"], "Ready")
    assert machine["boot_interface"]["mac_address"] == lab.bmcs.mac("n1")
    assert machine["boot_interface"]["links"]


def test_tags(lab: Lab) -> None:
    system_id = lab.create("n1").json()["system_id"]
    assert lab.post("tags/", name="ready", comment="for jobs").status_code == 200
    assert lab.post("tags/", name="ready").status_code == 400
    answer = lab.post("tags/ready/", "update_nodes", add=[system_id, "zzzzzz"])
    assert (answer.status_code, answer.json()) == (200, {"added": 1, "removed": 0})
    assert lab.machine(system_id)["tag_names"] == ["ready"]
    assert "ready" in [tag["name"] for tag in lab.get("tags/")]
    assert lab.post("tags/ready/", "update_nodes", remove=system_id).json() == {"added": 0, "removed": 1}
    assert lab.post("tags/other/", "update_nodes", add=system_id).status_code == 404
    assert lab.raw("DELETE", "tags/ready/").status_code == 204


def test_events_are_paged_newest_first(lab: Lab) -> None:
    system_id = lab.ready("n1")["system_id"]
    page = lab.get("events/", op="query", id=system_id, level="DEBUG", limit=3)
    ids = [event["id"] for event in page["events"]]
    assert (page["count"], ids) == (3, sorted(ids, reverse=True))
    older = lab.raw("GET", page["prev_uri"].removeprefix("/MAAS/api/2.0/") + f"&id={system_id}").json()["events"]
    assert older
    assert older[0]["id"] < ids[-1]
    newer = lab.get("events/", op="query", hostname="n1", level="DEBUG", after=ids[-1])["events"]
    assert [event["id"] for event in newer] == ids[:-1]
    assert {event["level"] for event in lab.get("events/", op="query", level="WARNING", id=system_id)["events"]} <= {
        "WARNING",
        "ERROR",
    }
    assert lab.raw("GET", "events/", params={"op": "query", "limit": 5000}).status_code == 400


def test_the_small_resources(lab: Lab) -> None:
    assert lab.raw("GET", "version/", "").json()["version"] == "3.7.3"
    assert [zone["name"] for zone in lab.get("zones/")] == ["default", "r1", "r2"]
    assert [pool["name"] for pool in lab.get("resourcepools/")] == ["default", "gpu"]
    assert [domain["name"] for domain in lab.get("domains/")] == ["maas"]
    images = {(image["name"], image["architecture"]) for image in lab.get("boot-resources/")}
    ubuntu = {("ubuntu/jammy", "amd64/ga-22.04"), ("ubuntu/jammy", "amd64/hwe-22.04")}
    assert images == {*ubuntu, ("custom/bookworm", "amd64/generic")}
    assert lab.get("users/", op="whoami")["is_superuser"] is True
    assert lab.post("zones/", name="r1").status_code == 400
    description = lab.raw("GET", "describe/", "").json()
    assert all(resource["auth"]["uri"].startswith(lab.url) for resource in description["resources"])


def test_statistics_and_faults(lab: Lab) -> None:
    lab.admin("POST", "/stats/reset")
    system_id = lab.create("n1").json()["system_id"]
    fault = {"status": 502, "when": "after", "op": "mark_broken"}
    lab.admin("PUT", "/faults/failing", fault)
    assert lab.op(system_id, "mark_broken", comment="x").status_code == 502
    assert lab.machine(system_id)["status_name"] == "Broken", "the answer was lost, not the work"
    lab.admin("PUT", "/faults/failing", {"drop": True, "method": "GET"})
    with pytest.raises(requests.ConnectionError):
        lab.raw("GET", "zones/")
    lab.admin("PUT", "/faults/slow", {"seconds": 0.3})
    start = time.monotonic()
    lab.get("zones/")
    assert time.monotonic() - start > 0.3
    stats = lab.admin("GET", "/stats").json()
    assert (stats["writes"], stats["requests"]["POST mark_broken"]) == (2, 1)
    assert (
        stats["last"][1].items()
        >= {
            "method": "POST",
            "path": f"/MAAS/api/2.0/machines/{system_id}/",
            "op": "mark_broken",
            "status": 502,
        }.items()
    )
    assert PASSWORD not in json.dumps(stats)
    assert lab.admin("PUT", "/faults/magic").status_code == 404
    assert lab.admin("POST", "/pxe", {"mac": "zz"}).status_code == 400


# -- restarts, versions, python-libmaas ---------------------------------------------------------------------------


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

    wait_for(all_there, 30)
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
    lab = Lab(tmp_path, NETWORK + 91, machines=1, version="3.4.10")
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


LIBMAAS = """
import json, sys
import maas.client
from maas.client.bones import CallError
from maas.client.enum import NodeStatus
from maas.client.viscera.machines import MachineNotFound

url, key, power = sys.argv[1], sys.stdin.readline().strip(), json.loads(sys.stdin.readline())
login = json.loads(sys.stdin.readline())
client = maas.client.login(url, **login)
assert client.users.whoami().username == "admin"
client = maas.client.connect(url, apikey=key)
assert client.users.whoami().is_admin
assert client.version.get().version == "3.7.3"
machine = client.machines.create("amd64", [power.pop("mac")], "redfish", power, hostname="lib1")
assert machine.status == NodeStatus.COMMISSIONING
while machine.status == NodeStatus.COMMISSIONING:
    machine = client.machines.get(machine.system_id)
assert machine.status == NodeStatus.READY, machine.status
machine.commission(testing_scripts=[], wait=True, wait_interval=0.1)
assert [m.hostname for m in client.machines.list()] == ["lib1"]
assert [m.hostname for m in client.machines.list(hostnames=["nobody"])] == []
assert client._origin.Machines._handler.read(mac_address=["02:00:00:00:01:05"])[0]["hostname"] == "lib1"
disk = machine.block_devices.get_by_name("sda")
disk.set_as_boot_disk()
tag = client.tags.create("rack-r1")
machine.tags.add(tag)
machine.zone = client.zones.get("r2")
machine.save()
assert client.machines.get(machine.system_id).zone.name == "r2"
assert client.machines.allocate(hostname="lib1").system_id == machine.system_id
try:
    client.machines.allocate(hostname="lib1")
except MachineNotFound:
    pass
else:
    raise AssertionError("allocated twice")
machine.deploy(distro_series="bookworm", user_data=b"#cloud-config", wait=True, wait_interval=0.1)
assert machine.status == NodeStatus.DEPLOYED
assert machine.query_power_state().value == "on"
machine.lock(comment="mine")
try:
    machine.release(comment="no")
except CallError as error:
    assert error.status == 403
machine.unlock(comment="free")
machine.mark_broken(comment="broken")
machine.mark_fixed(comment="fixed")
assert machine.status == NodeStatus.DEPLOYED
machine.release(comment="done", wait=True, wait_interval=0.1)
assert machine.status == NodeStatus.READY
events = client.events.query(system_ids=[machine.system_id], limit=200)
assert "Deployed" in {event.event_type for event in events}
assert [pool.name for pool in client.resource_pools.list()] == ["default", "gpu"]
assert {image.name for image in client.boot_resources.list()} == {"ubuntu/jammy", "custom/bookworm"}
handler = client._origin.Machines._handler
more = handler.create(commission="false", architecture="amd64", mac_addresses=["02:00:00:00:09:09"], pool="gpu")
assert more["status"] == 0
machine.delete()
print("all of it")
"""


def test_python_libmaas_unchanged(lab: Lab) -> None:
    fields = lab.power("n5")
    power = {key.removeprefix("power_parameters_"): value for key, value in fields.items() if key != "power_type"}
    power["mac"] = lab.bmcs.mac("n5")
    login = {"username": "admin", "password": "maas-password-01"}
    done = subprocess.run(
        [sys.executable, "-c", LIBMAAS, lab.url],
        input="\n".join((KEY, json.dumps(power), json.dumps(login))),
        env={**os.environ, "SSL_CERT_FILE": str(lab.ca), "USER": "tester"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "all of it\n"), done.stderr[-3000:]


def test_with_the_simulated_idracs(tmp_path: Any) -> None:
    """The same way with simulators/bmc instead of the fakes: discovered, commissioned, deployed, released."""
    lab = Lab(tmp_path, NETWORK + 92, machines=1, real_bmcs=True)
    try:
        lab.redfish_power_on("n1")
        found = wait_for(lambda: lab.get("machines/"))[0]
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


def wait_for(condition: Any, seconds: float = 10) -> Any:
    """The first true value of condition()."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "did not happen"
        time.sleep(0.05)
    return value
