"""The BMC simulator as a process, against the real `redfish` client and plain HTTP: sessions, tree, first faults.

Power and boots are in test_bmc_simulator_boots.py, the other faults in test_bmc_simulator_faults.py.
"""

from __future__ import annotations

import json
import socket
import ssl
import time
from typing import Any

import pytest
import requests
from bmc_lab import (  # noqa: F401
    CHASSIS,
    MANAGER,
    PASSWORD,
    RESET,
    ROOT,
    SYSTEM,
    USER,
    Lab,
    lab_fixture,
    message_id,
    own_fixture,
    pxe_fixture,
    running_fixture,
)
from redfish.rest.v1 import AuthMethod, InvalidCredentialsError, RetriesExhaustedError, SessionCreationError
from waiting import until


def members(body: dict[str, Any]) -> set[str]:
    return {member["@odata.id"].rsplit("/", 1)[1] for member in body["Members"]}


# --- who may come in


def test_session_login_walk_and_logout_with_the_real_client(lab: Lab) -> None:
    client = lab.client()
    assert client.root["Product"] == "Integrated Dell Remote Access Controller"
    client.login(auth=AuthMethod.SESSION)
    assert client.get(SYSTEM).dict["SKU"] == "TST0001"
    assert lab.machine()["counters"]["sessions_open"] == 1
    location = client.get_session_location()
    assert client.get(location).dict["UserName"] == USER
    client.logout()
    assert lab.machine()["counters"]["sessions_open"] == 0
    assert lab.call("GET", location).status_code == 404


def test_basic_login_opens_no_session(lab: Lab) -> None:
    client = lab.client()
    client.login(auth=AuthMethod.BASIC)
    assert client.get(f"{ROOT}/Systems").dict["Members@odata.count"] == 1
    assert lab.machine()["counters"]["sessions_open"] == 0


def test_only_the_service_root_is_open(lab: Lab) -> None:
    for path in ("/redfish", ROOT, f"{ROOT}/"):
        assert lab.call("GET", path, auth=None).status_code == 200
    response = lab.call("GET", f"{ROOT}/Systems", auth=None)
    assert response.status_code == 401
    assert message_id(response) == "AccessDenied"
    assert lab.call("POST", RESET, {"ResetType": "On"}, auth=None).status_code == 401
    assert lab.machine()["power"] == "Off"


def test_a_ninth_session_is_refused_and_a_closed_one_makes_room(lab: Lab) -> None:
    clients = [lab.client() for _ in range(9)]
    for client in clients[:8]:
        client.login(auth=AuthMethod.SESSION)
    with pytest.raises(SessionCreationError, match="HTTP 503"):
        clients[8].login(auth=AuthMethod.SESSION)
    refused = lab.call("POST", f"{ROOT}/Sessions", {"UserName": USER, "Password": PASSWORD}, auth=None)
    assert (refused.status_code, message_id(refused)) == (503, "RAC0218")
    clients[0].logout()
    clients[8].login(auth=AuthMethod.SESSION)
    for client in clients[1:]:
        client.logout()
    assert lab.machine()["counters"]["sessions_open"] == 0


def test_three_wrong_passwords_block_the_address_for_a_while(own: Lab) -> None:
    for _ in range(2):
        with pytest.raises(InvalidCredentialsError):
            own.client().login(password="wrong", auth=AuthMethod.SESSION)
    assert own.call("GET", SYSTEM).status_code == 200  # two are forgiven, and forgotten
    for _ in range(3):
        assert own.call("GET", SYSTEM, auth=(USER, "wrong")).status_code == 401
    assert own.call("GET", SYSTEM).status_code == 401  # the right password does not help now
    assert own.machine()["counters"]["failed_logins"] == 5
    until(lambda: own.call("GET", SYSTEM).status_code == 200, 4)


def test_certificates_are_signed_by_the_labs_ca_only(lab: Lab) -> None:
    with pytest.raises(requests.exceptions.SSLError):
        requests.get(lab.url() + ROOT, timeout=5)


# --- the tree


def test_every_link_leads_somewhere(lab: Lab) -> None:
    client = lab.client()
    client.login(auth=AuthMethod.SESSION)
    todo, seen = [ROOT], set()
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        response = client.get(path)
        assert response.status == 200, f"{path}: {response.text}"
        assert response.dict["@odata.id"] == path
        values: list[Any] = [response.dict]
        while values:
            value = values.pop()
            if isinstance(value, dict):
                if set(value) == {"@odata.id"} and "#" not in value["@odata.id"]:
                    todo.append(value["@odata.id"])
                values.extend(value.values())
            elif isinstance(value, list):
                values.extend(value)
    client.logout()
    assert len(seen) > 150


def test_the_server_is_as_large_as_an_xe9680(lab: Lab) -> None:
    system = lab.get(SYSTEM)
    assert (system["Model"], system["PowerState"], system["SKU"]) == ("PowerEdge XE9680", "Off", "TST0001")
    assert system["SerialNumber"] != system["SKU"]
    expand = "?$expand=*($levels=1)"
    processors = lab.get(f"{SYSTEM}/Processors{expand}")["Members"]
    assert sum(part["ProcessorType"] == "GPU" and part["Id"].startswith("Video.Slot.") for part in processors) == 8
    assert sum(part["ProcessorType"] == "CPU" for part in processors) == 2
    nics = lab.get(f"{SYSTEM}/EthernetInterfaces{expand}")["Members"]
    assert {nic["Id"] for nic in nics} == {"NIC.Embedded.1-1-1", "NIC.Embedded.2-1-1"}
    adapters = members(lab.get(f"{CHASSIS}/NetworkAdapters"))
    hcas = [name for name in adapters if name.startswith("InfiniBand.")]
    assert len(hcas) == 8
    function = lab.get(f"{CHASSIS}/NetworkAdapters/{hcas[0]}/NetworkDeviceFunctions/{hcas[0]}-1")
    port = lab.get(f"{CHASSIS}/NetworkAdapters/{hcas[0]}/NetworkPorts/{hcas[0]}-1")
    assert port["AssociatedNetworkAddresses"] == [function["Ethernet"]["MACAddress"]]
    stores = {store["Id"]: store for store in lab.get(f"{SYSTEM}/Storage{expand}")["Members"]}
    assert {name: len(store["Drives"]) for name, store in stores.items()} == {"CPU.1": 8, "BOSS.SL.12-1": 2}
    mirror = lab.get(f"{stores['BOSS.SL.12-1']['Volumes']['@odata.id']}{expand}")["Members"]
    assert [volume["RAIDType"] for volume in mirror] == ["RAID1"]
    power = lab.get(f"{CHASSIS}/Power")
    assert [supply["Status"]["Health"] for supply in power["PowerSupplies"]] == ["OK"] * 6
    firmware = members(lab.get(f"{ROOT}/UpdateService/FirmwareInventory"))
    assert any(name.startswith("Installed-") and "BIOS" in name for name in firmware)


def test_no_two_machines_are_alike(lab: Lab) -> None:
    first, second = (
        [
            lab.get(SYSTEM, number)["SerialNumber"],
            lab.get(SYSTEM, number)["UUID"],
            lab.get(f"{ROOT}", number)["Oem"]["Dell"]["ManagerMACAddress"],
            lab.get(f"{SYSTEM}/EthernetInterfaces/NIC.Embedded.1-1-1", number)["MACAddress"],
            lab.get(f"{SYSTEM}/Storage/CPU.1/Drives/Disk.Bay.0:Enclosure.Internal.0-1", number)["SerialNumber"],
        ]
        for number in (1, 2)
    )
    assert all(one != other for one, other in zip(first, second, strict=True))


def test_expand_goes_one_level_deep(lab: Lab) -> None:
    body = lab.get(f"{SYSTEM}/Processors?$expand=.($levels=1)")
    assert all("Model" in member for member in body["Members"])
    assert set(lab.get(f"{SYSTEM}/Processors")["Members"][0]) == {"@odata.id"}
    deep = lab.call("GET", f"{SYSTEM}/Processors?$expand=*($levels=2)")
    assert (deep.status_code, message_id(deep)) == (400, "QueryParameterOutOfRange")
    assert set(lab.get(f"{SYSTEM}?$select=SKU,Model")) >= {"SKU", "Model"}
    assert "Boot" not in lab.get(f"{SYSTEM}?$select=SKU,Model")


def test_the_lifecycle_log_comes_in_pages(lab: Lab) -> None:
    path, seen, pages = f"{MANAGER}/LogServices/Lclog/Entries", [], 0
    while path:
        body = lab.get(path)
        assert len(body["Members"]) <= 50
        seen += [int(entry["Id"]) for entry in body["Members"]]
        pages += 1
        path = body.get("Members@odata.nextLink", "")
    assert pages >= 3
    assert len(seen) == len(set(seen)) == body["Members@odata.count"]
    assert seen == sorted(seen, reverse=True)


def test_errors_have_dells_shape(lab: Lab) -> None:
    for method, path, body, status, name in (
        ("GET", f"{ROOT}/Nothing", None, 404, "ResourceMissingAtURI"),
        ("POST", RESET, {"ResetType": "Explode"}, 400, "PropertyValueNotInList"),
        ("POST", RESET, {}, 400, "PropertyMissing"),
        ("POST", RESET, [], 400, "MalformedJSON"),
        ("PATCH", SYSTEM, {"SKU": "X"}, 400, "PropertyNotWritable"),
        ("PATCH", SYSTEM, {"Nonsense": "X"}, 400, "PropertyUnknown"),
        ("DELETE", SYSTEM, None, 405, "SYS402"),
        ("POST", RESET, {"ResetType": "ForceOff"}, 409, "PSU502"),
    ):
        response = lab.call(method, path, body)
        assert (response.status_code, message_id(response)) == (status, name), path


# --- faults


def test_unreachable(lab: Lab) -> None:
    client = lab.client()
    client.login(auth=AuthMethod.BASIC)
    lab.fault("unreachable")
    with pytest.raises(requests.exceptions.ConnectionError):
        lab.call("GET", ROOT)
    with pytest.raises(RetriesExhaustedError):  # a connection from before is gone too
        client.get(SYSTEM)
    assert lab.get(SYSTEM, number=2)["SKU"] == "TST0002"
    lab.ask("DELETE", "/machines/n1/faults/unreachable")
    assert lab.get(SYSTEM)["SKU"] == "TST0001"


def test_hangs(lab: Lab) -> None:
    lab.fault("hangs")
    context = ssl.create_default_context(cafile=str(lab.folder / "ca.pem"))
    with socket.create_connection((lab.address(1), lab.port), 2) as plain:
        assert context.wrap_socket(plain, server_hostname=lab.address(1)).version()
    with pytest.raises(requests.exceptions.ReadTimeout):
        lab.call("GET", ROOT, timeout=0.5)
    lab.ask("DELETE", "/machines/n1/faults/hangs")
    assert lab.call("GET", ROOT).status_code == 200


def test_wrong_password(own: Lab) -> None:
    own.fault("wrong_password")
    with pytest.raises(InvalidCredentialsError):
        own.client().login(auth=AuthMethod.SESSION)
    assert own.call("GET", SYSTEM).status_code == 401


def test_slow(lab: Lab) -> None:
    lab.fault("slow", seconds=0.6)
    begin = time.monotonic()
    lab.get(SYSTEM)
    assert 0.6 <= time.monotonic() - begin < 3


def test_half_answering(lab: Lab) -> None:
    lab.fault("half_answering")
    assert lab.get(SYSTEM)["SKU"] == "TST0001"
    wedged = lab.call("GET", f"{CHASSIS}/Thermal")
    assert (wedged.status_code, message_id(wedged)) == (500, "SYS446")
    assert lab.call("GET", f"{SYSTEM}/Bios").status_code == 404
    assert lab.call("GET", f"{SYSTEM}/Processors?$expand=*($levels=1)").status_code == 500
    states = [
        lab.call("GET", member["@odata.id"]).status_code
        for member in lab.get(f"{SYSTEM}/EthernetInterfaces")["Members"]
    ]
    assert sorted(states) == [200, 200, 404]


def test_not_ready(lab: Lab) -> None:
    lab.fault("not_ready", seconds=7)
    assert lab.call("GET", ROOT).status_code == 200
    response = lab.call("GET", SYSTEM)
    assert (response.status_code, message_id(response)) == (503, "SYS518")
    assert response.json()["error"]["@Message.ExtendedInfo"][1]["MessageArgs"] == ["7"]


def test_empty_systems(lab: Lab) -> None:
    lab.fault("empty_systems")
    assert lab.get(f"{ROOT}/Systems")["Members"] == []
    assert lab.call("GET", SYSTEM).status_code == 404


def test_missing_and_failed_parts(lab: Lab) -> None:
    lab.fault("gpu_missing", gpu=3)
    lab.fault("psu_failed", psu=2)
    lab.fault("nvme_failed", drive=1)
    lab.fault("no_link")
    gpus = {name for name in members(lab.get(f"{SYSTEM}/Processors")) if name.startswith("Video.")}
    assert gpus == {f"Video.Slot.{slot}-1" for slot in range(21, 29)} - {"Video.Slot.24-1"}
    assert lab.call("GET", f"{SYSTEM}/Processors/Video.Slot.24-1").status_code == 404
    supplies = lab.get(f"{CHASSIS}/Power")["PowerSupplies"]
    assert {supply["Name"] for supply in supplies if supply["Status"]["Health"] == "Critical"} == {"PS2 Status"}
    drives = [lab.get(drive["@odata.id"]) for drive in lab.get(f"{SYSTEM}/Storage/CPU.1")["Drives"]]
    bad = [drive["Id"] for drive in drives if drive["Status"]["Health"] != "OK"]
    assert bad == ["Disk.Bay.1:Enclosure.Internal.0-1"]
    assert lab.get(f"{SYSTEM}/EthernetInterfaces/NIC.Embedded.1-1-1")["LinkStatus"] == "LinkDown"
    assert lab.get(f"{SYSTEM}/EthernetInterfaces/NIC.Embedded.2-1-1")["LinkStatus"] == "LinkUp"
    assert lab.get(SYSTEM)["Status"]["Health"] == "Critical"
    log = lab.get(f"{MANAGER}/LogServices/Lclog/Entries")["Members"]
    assert any(entry["Message"] == "Power supply 2 failed." for entry in log)
    state = json.loads((lab.folder / "machines/n1/state.json").read_text())
    assert state["faults"] == ["gpu_missing", "no_link", "nvme_failed", "psu_failed"]
    assert state["fault_parameters"]["gpu_missing"] == {"gpu": 3}


def test_nic_missing(lab: Lab) -> None:
    lab.fault("nic_missing")
    assert members(lab.get(f"{SYSTEM}/EthernetInterfaces")) == {"NIC.Embedded.2-1-1"}
    adapter = f"{CHASSIS}/NetworkAdapters/NIC.Embedded.1"
    assert members(lab.get(f"{adapter}/NetworkDeviceFunctions")) == {"NIC.Embedded.2-1-1"}


def test_clock_wrong(lab: Lab) -> None:
    right = lab.get(MANAGER)["DateTime"]
    lab.fault("clock_wrong", seconds=-31_536_000)
    wrong = lab.get(MANAGER)["DateTime"]
    assert right[-6:] == wrong[-6:] == lab.get(MANAGER)["DateTimeLocalOffset"]
    difference = time.mktime(time.strptime(right[:19], "%Y-%m-%dT%H:%M:%S"))
    difference -= time.mktime(time.strptime(wrong[:19], "%Y-%m-%dT%H:%M:%S"))
    assert abs(difference - 31_536_000) < 4000  # a change to summer time may lie between


def test_what_the_admin_api_refuses(lab: Lab) -> None:
    unknown = lab.ask("PUT", "/machines/n1/faults/gpu_gone")
    assert unknown.status_code == 404
    assert "gpu_missing" in unknown.json()["error"]
    nobody = lab.ask("GET", "/machines/n9")
    assert nobody.status_code == 404
    assert "n1, n2" in nobody.json()["error"]
    for parameters in ({"gpu": 8}, {"gpu": "x"}, {"psu": 1}):
        assert lab.ask("PUT", "/machines/n1/faults/gpu_missing", parameters).status_code == 400
    assert lab.machine()["faults"] == []
    assert lab.ask("POST", "/machines/n1/reboot").status_code == 409
    assert lab.ask("PUT", "/machines/n1/disk", {"hostname": "x", "address": "y", "image": "z"}).status_code == 409


def test_counters_tell_reads_from_writes_and_sessions(lab: Lab) -> None:
    before = lab.machine()["counters"]
    client = lab.client()
    client.login(auth=AuthMethod.SESSION)
    client.get(SYSTEM)
    client.logout()
    after = lab.machine()["counters"]
    assert after["writes"] == before["writes"]
    assert after["requests"] == before["requests"] + 4  # the root, the login, the system, the logout
    lab.call("PATCH", SYSTEM, {"AssetTag": "x"})
    assert lab.machine()["counters"]["writes"] == before["writes"] + 1
    requested = lab.ask("GET", "/machines/n1/requests")
    assert requested.json()[-1]["method"] == "PATCH"
    assert PASSWORD not in requested.text
