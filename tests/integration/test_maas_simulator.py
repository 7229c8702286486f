"""The MAAS simulator answers as the API contract says, row by row: who may ask; create, list, change, delete.

Raw requests, to a region in front of small fake BMCs (real Redfish, over TLS).
"""

from __future__ import annotations

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests
from maas_lab import KEY, PASSWORD, Lab, authorization, lab_fixture, running_fixture  # noqa: F401
from requests_oauthlib import OAuth1
from waiting import until

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
    until(lambda: len(lab.bmcs.requests) > begun)
    assert lab.raw("DELETE", f"machines/{system_id}/").status_code == 204
    time.sleep(2)
    assert not [method for name, method, path in lab.bmcs.requests if method != "GET"]
    assert lab.bmcs.machines["n1"]["power"] == "Off"
