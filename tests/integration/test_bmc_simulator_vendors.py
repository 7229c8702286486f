"""Simulated BMCs of every vendor and generation, with the real `redfish` client and the product's discovery."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from bmc_product_lab import PASSWORD, USER, BmcLab
from redfish import redfish_client
from redfish.rest.v1 import AuthMethod, HttpClient
from waiting import until

from firstlight.bmc.discover import discover
from simulators.bmc import parts
from simulators.bmc.personality import PERSONALITIES
from simulators.bmc.vendors import SHAPES

ROOT = "/redfish/v1"
VENDORS = {name: number for number, name in enumerate(PERSONALITIES, 1)}
DELLS = {"dell-idrac8", "dell-idrac9", "dell-idrac10"}
GPUS = {name: 4 if name == "nvidia-gb200" else 8 for name in VENDORS}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BmcLab]:
    lab = BmcLab(
        tmp_path_factory.mktemp("lab"), len(VENDORS), vendors=list(VENDORS), update_seconds=0.4, restart_seconds=0.8
    )
    yield lab
    lab.stop()


def connect(lab: BmcLab, vendor: str) -> HttpClient:
    address = f"https://{lab.address(VENDORS[vendor])}:{lab.port}"
    client = redfish_client(address, USER, PASSWORD, cafile=lab.ca_file, max_retry=0, timeout=10)
    client.login(auth=AuthMethod.SESSION)
    return client


@pytest.fixture(params=VENDORS)
def vendor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def bmc(lab: BmcLab, vendor: str) -> Iterator[HttpClient]:
    client = connect(lab, vendor)
    yield client
    client.logout()
    requests.post(f"http://{lab.admin}/machines/n{VENDORS[vendor]}/repair", timeout=5).raise_for_status()


def system_of(bmc: HttpClient) -> str:
    """The host's system: the one that can be reset."""
    for member in bmc.get(f"{ROOT}/Systems").dict["Members"]:
        path = str(member["@odata.id"]).rstrip("/")
        if "Actions" in bmc.get(path).dict:
            return path
    raise AssertionError("no system can be reset")


def links(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "@odata.id" and isinstance(item, str):
                yield item
            else:
                yield from links(item)
    elif isinstance(value, list):
        for item in value:
            yield from links(item)


def test_every_link_leads_somewhere(bmc: HttpClient, vendor: str) -> None:
    todo, seen = [ROOT], {ROOT}
    while todo:
        path = todo.pop()
        response = bmc.get(path)
        assert response.status == 200, (vendor, path)
        for link in links(response.dict):
            link = link.partition("#")[0].rstrip("/")
            known = link in seen or (link.count("/DIMM") and len(seen) > 100) or "/LogServices/" in link
            if not known:
                seen.add(link)
                todo.append(link)
    assert len(seen) > 60


def test_it_says_that_it_is_a_simulation(bmc: HttpClient) -> None:
    root = bmc.get(ROOT)
    assert "simulated" in root.getheader("Server")
    assert "not hardware" in root.dict["Oem"]["Simulator"]["Note"]


def test_the_product_finds_the_same_server_behind_each(lab: BmcLab) -> None:
    records = discover(lab.targets(), ca_file=lab.ca_file)
    for name, number in VENDORS.items():
        record = records[f"n{number}"]
        assert (record.condition, record.evidence) == ("ok", ""), name
        hardware = record.hardware
        assert hardware is not None
        assert hardware.model == parts.MODELS.get(name, "PowerEdge XE9680")
        assert hardware.service_tag == f"TST{number:04d}", name
        macs = {nic.mac for nic in hardware.nics}
        assert {f"70:b5:e8:00:00:{4 * number + n:02x}" for n in (0, 1)} <= macs, name
        assert "7e:31:a0:00:00:01" not in macs, "the USB NIC is not the host's"
        assert len(hardware.gpus) == GPUS[name], name
        assert sum(nic.kind == "infiniband" for nic in hardware.nics) == 8, name
        assert len(hardware.drives) == 10, name
        assert len(hardware.psus) == 6, name


def test_faults_strike_every_vendor(lab: BmcLab) -> None:
    for number in VENDORS.values():
        for fault in ("gpu_missing", "nvme_missing", "psu_failed", "nic_missing", "dimm_missing", "intrusion"):
            lab.fault(f"n{number}", fault)
    try:
        records = discover(lab.targets(), ca_file=lab.ca_file)
    finally:
        for number in VENDORS.values():
            requests.post(f"http://{lab.admin}/machines/n{number}/repair", timeout=5).raise_for_status()
    for name, number in VENDORS.items():
        hardware = records[f"n{number}"].hardware
        assert hardware is not None, name
        assert len(hardware.gpus) == GPUS[name] - 1, name
        assert len(hardware.drives) == 9, name
        assert [psu.health for psu in hardware.psus].count("Critical") == 1, name
        assert f"70:b5:e8:00:00:{4 * number:02x}" not in {nic.mac for nic in hardware.nics}, name


@pytest.mark.parametrize("name", VENDORS)
def test_an_expansion_goes_as_deep_as_the_firmware_says(lab: BmcLab, name: str) -> None:
    bmc = connect(lab, name)
    features = bmc.get(ROOT).dict.get("ProtocolFeaturesSupported", {}).get("ExpandQuery", {})
    response = bmc.get(f"{ROOT}/Managers?$expand=*($levels=1)")
    if name in ("supermicro", "hpe-ilo5", "dell-idrac8"):
        assert not features.get("ExpandAll")
        assert response.status == 501
    else:
        assert features["ExpandAll"] is True
        assert "FirmwareVersion" in response.dict["Members"][0]
    deeper = bmc.get(f"{ROOT}/Managers?$expand=*($levels={features.get('MaxLevels', 0) + 1})").status
    assert deeper in (400, 501)
    bmc.logout()


def test_boot_override_is_kept_and_read_back(bmc: HttpClient, vendor: str) -> None:
    system = system_of(bmc)
    body = {"Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}}
    where = system
    if vendor in ("dell-idrac10", "lenovo-xcc"):
        assert bmc.patch(system, body=body, headers={"If-Match": "*"}).status == 400
        where = bmc.get(system).dict["@Redfish.Settings"]["SettingsObject"]["@odata.id"]
    first = bmc.patch(where, body=body)
    if vendor in ("lenovo-xcc", "nvidia-dgx-h100"):
        assert first.status == 428
        assert bmc.patch(where, body=body, headers={"If-Match": '"0"'}).status == 412
        first = bmc.patch(where, body=body, headers={"If-Match": bmc.get(system).getheader("ETag")})
    assert first.status in (200, 204), first.text
    told = bmc.get(system).dict["Boot"]
    assert (told["BootSourceOverrideEnabled"], told["BootSourceOverrideTarget"]) == ("Once", "Pxe")
    assert (
        bmc.patch(where, body={"Boot": {"BootSourceOverrideTarget": "Toaster"}}, headers={"If-Match": "*"}).status
        == 400
    )


def test_power_in_the_vendors_own_way(lab: BmcLab, bmc: HttpClient, vendor: str) -> None:
    system = system_of(bmc)
    action = bmc.get(system).dict["Actions"]["#ComputerSystem.Reset"]
    types = action.get("ResetType@Redfish.AllowableValues")
    if types is None:
        parameters = bmc.get(action["@Redfish.ActionInfo"]).dict["Parameters"]
        types = next(p["AllowableValues"] for p in parameters if p["Name"] == "ResetType")
    assert ("PowerCycle" in types) == (vendor not in ("hpe-ilo5", "hpe-ilo6", "supermicro"))
    assert bmc.post(action["target"], body={"ResetType": "Explode"}).status == 400
    assert bmc.post(action["target"], body={"ResetType": "On"}).status in (200, 204)
    assert bmc.get(system).dict["PowerState"] == "On"
    again = bmc.post(action["target"], body={"ResetType": "On"})
    if vendor in DELLS:
        assert (again.status, "PSU501" in again.text) == (409, True)
    elif vendor.startswith("hpe"):
        assert (again.status, "InvalidOperationForSystemState" in again.text) == (400, True)
    else:
        assert again.status == 204
    assert bmc.post(action["target"], body={"ResetType": "ForceOff"}).status in (200, 204)
    assert bmc.get(system).dict["PowerState"] == "Off"


@pytest.mark.parametrize("name", [name for name, shape in SHAPES.items() if shape.bios_settings])
def test_bios_attributes_wait_for_a_boot(lab: BmcLab, name: str) -> None:
    bmc = connect(lab, name)
    system = system_of(bmc)
    settings = bmc.get(f"{system}/Bios").dict["@Redfish.Settings"]["SettingsObject"]["@odata.id"]
    attribute = next(key for key, value in SHAPES[name].bios.items() if isinstance(value, str))
    before = bmc.get(f"{system}/Bios").dict["Attributes"][attribute]
    patch = {"Attributes": {attribute: "SomethingElse"}}
    assert bmc.patch(settings, body=patch, headers={"If-Match": "*"}).status == 200
    assert bmc.get(settings).dict["Attributes"][attribute] == "SomethingElse"
    assert bmc.get(f"{system}/Bios").dict["Attributes"][attribute] == before
    assert bmc.patch(settings, body={"Attributes": {"Nope": 1}}, headers={"If-Match": "*"}).status == 400
    bmc.post(f"{system}/Actions/ComputerSystem.Reset", body={"ResetType": "On"})
    until(lambda: bmc.get(f"{system}/Bios").dict["Attributes"][attribute] == "SomethingElse")
    bmc.post(f"{system}/Actions/ComputerSystem.Reset", body={"ResetType": "ForceOff"})
    bmc.logout()


# --- what only some do


def test_idrac8_has_its_sessions_elsewhere_and_no_gpus_among_the_processors(lab: BmcLab) -> None:
    bmc = connect(lab, "dell-idrac8")
    assert bmc.get(ROOT).dict["Links"]["Sessions"]["@odata.id"] == f"{ROOT}/Sessions"
    assert bmc.get(f"{ROOT}/SessionService/Sessions").status == 404
    assert len(bmc.get(f"{ROOT}/Sessions").dict["Members"]) == 1
    system = system_of(bmc)
    assert len(bmc.get(f"{system}/Processors").dict["Members"]) == 2
    assert bmc.get(f"{system}/Processors/Video.Slot.21-1").status == 404
    bmc.logout()


def test_the_body_of_an_idrac8s_refusal_never_ends(lab: BmcLab) -> None:
    url = f"https://{lab.address(VENDORS['dell-idrac8'])}:{lab.port}{ROOT}/Systems"
    response = requests.get(url, verify=lab.ca_file, timeout=5, stream=True)
    assert response.status_code == 401
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        assert response.content is None


def test_idrac10_has_power_and_cooling_in_the_newer_form_only(lab: BmcLab) -> None:
    bmc = connect(lab, "dell-idrac10")
    chassis = bmc.get(f"{ROOT}/Chassis/System.Embedded.1").dict
    assert "Power" not in chassis
    assert bmc.get(f"{ROOT}/Chassis/System.Embedded.1/Thermal").status == 404
    nic = bmc.get(f"{ROOT}/Systems/System.Embedded.1/EthernetInterfaces/NIC.Embedded.1-1-1").dict
    assert nic["MACAddress"] == ""
    bmc.logout()


def test_a_gb200_whose_baseboard_still_starts(lab: BmcLab) -> None:
    number = VENDORS["nvidia-gb200"]
    lab.fault(f"n{number}", "baseboard_starting")
    bmc = connect(lab, "nvidia-gb200")
    assert bmc.get(f"{ROOT}/Managers/HGX_BMC_0").dict["Status"]["State"] == "Starting"
    firmware = bmc.get(f"{ROOT}/UpdateService/FirmwareInventory/HGX_FW_GPU_2").dict
    assert firmware["Status"] == {"Health": "Critical", "State": "Absent"}
    processor = bmc.get(f"{ROOT}/Systems/HGX_Baseboard_0/Processors/GPU_2").dict
    assert processor["Status"]["Health"] == "OK", "which is why that is not to be believed"
    bmc.logout()
    lab.fault(f"n{number}", "baseboard_starting", on=False)


# --- firmware


def package(component: str, version: str) -> bytes:
    return f"Firstlight simulated firmware: {component} {version}\n".encode() + b"\0" * 200_000


def send(lab: BmcLab, name: str, content: bytes, parameters: str = '{"Targets": []}') -> requests.Response:
    bmc = connect(lab, name)
    uri = bmc.get(f"{ROOT}/UpdateService").dict["MultipartHttpPushUri"]
    bmc.logout()
    files = {
        "UpdateParameters": (None, parameters, "application/json"),
        "UpdateFile": ("image.bin", content, "application/octet-stream"),
    }
    address = f"https://{lab.address(VENDORS[name])}:{lab.port}{uri}"
    return requests.post(address, files=files, auth=(USER, PASSWORD), verify=lab.ca_file, timeout=20)


@pytest.mark.parametrize("name", ["dell-idrac9", "dell-idrac10", "openbmc"])
def test_a_bios_is_pushed_and_runs_after_the_next_boot(lab: BmcLab, name: str) -> None:
    response = send(lab, name, package("bios", "9.9.1"), '{"@Redfish.OperationApplyTime": "OnReset"}')
    assert response.status_code == 202, response.text
    bmc = connect(lab, name)
    task = response.headers["Location"]
    system = system_of(bmc)
    seen: list[int] = []

    def scheduled() -> bool:
        body = bmc.get(task).dict
        seen.append(body["PercentComplete"])
        return body["TaskState"] in ("Starting", "Pending")

    until(scheduled)
    assert max(seen) > 0, "progress is told"
    assert bmc.get(system).dict["BiosVersion"] != "9.9.1"
    bmc.post(f"{system}/Actions/ComputerSystem.Reset", body={"ResetType": "On"})
    until(lambda: bmc.get(system).dict["BiosVersion"] == "9.9.1")
    assert bmc.get(task).dict["TaskState"] == "Completed"
    inventory = bmc.get(f"{ROOT}/UpdateService/FirmwareInventory").dict["Members"]
    assert "9.9.1" in {bmc.get(member["@odata.id"]).dict["Version"] for member in inventory}
    bmc.post(f"{system}/Actions/ComputerSystem.Reset", body={"ResetType": "ForceOff"})
    bmc.logout()


def test_the_older_way_in_two_steps(lab: BmcLab) -> None:
    bmc = connect(lab, "dell-idrac8")
    service = bmc.get(f"{ROOT}/UpdateService").dict
    assert "MultipartHttpPushUri" not in service
    url = f"https://{lab.address(VENDORS['dell-idrac8'])}:{lab.port}{service['HttpPushUri']}"
    options: dict[str, Any] = {"auth": (USER, PASSWORD), "verify": lab.ca_file, "timeout": 20}
    assert requests.post(url, data=package("psu", "1.2"), **options).status_code == 412
    etag = {"If-Match": bmc.get(service["HttpPushUri"]).getheader("ETag")}
    pushed = requests.post(url, data=package("psu", "1.2"), headers=etag, **options)
    assert pushed.status_code == 201, pushed.text
    where = pushed.headers["Location"]
    assert bmc.get(where).dict["Version"] == "1.2"
    simple = service["Actions"]["#UpdateService.SimpleUpdate"]["target"]
    assert bmc.post(simple, body={"ImageURI": "http://192.0.2.1/x"}).status == 400
    started = bmc.post(simple, body={"ImageURI": where})
    assert started.status == 202
    until(lambda: bmc.get(started.getheader("Location")).dict["TaskState"] == "Starting")
    bmc.logout()


def test_what_is_no_package_fails_as_a_job(lab: BmcLab) -> None:
    response = send(lab, "dell-idrac9", b"MZ this is something else" * 1000)
    assert response.status_code == 202
    bmc = connect(lab, "dell-idrac9")
    until(lambda: bmc.get(response.headers["Location"]).dict["TaskState"] == "Exception")
    assert bmc.get(response.headers["Location"]).dict["Messages"][0]["MessageId"].endswith("RED007")
    bmc.logout()
    assert send(lab, "dell-idrac9", package("bios", "1"), "[]").status_code == 400


def test_a_vendor_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="vendor 'toaster' is none of dell-idrac9, dell-idrac10"):
        BmcLab(tmp_path, count=1, vendor="toaster")
