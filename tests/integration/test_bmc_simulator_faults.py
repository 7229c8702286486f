"""The faults of the BMC simulator, each switched at run time and seen with the real `redfish` client or plain TLS."""

from __future__ import annotations

import contextlib
import datetime
import json
import socket
import ssl
import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from bmc_lab import CHASSIS, MANAGER, RESET, ROOT, SYSTEM
from bmc_product_lab import PASSWORD, USER, BmcLab
from redfish import redfish_client
from redfish.rest.v1 import AuthMethod, HttpClient, SessionCreationError

from simulators.bmc.faults import FAULTS

EXPAND = "?$expand=*($levels=1)"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BmcLab]:
    lab = BmcLab(tmp_path_factory.mktemp("lab"), count=2)
    yield lab
    lab.stop()


@pytest.fixture
def lab(shared: BmcLab) -> Iterator[BmcLab]:
    """The lab, with no fault before and after."""
    yield shared
    requests.post(f"http://{shared.admin}/machines/n1/repair", timeout=5).raise_for_status()
    if shared.look("n1")["power"] == "On":
        call(shared, "POST", RESET, {"ResetType": "ForceOff"})


def call(lab: BmcLab, method: str, path: str, body: Any = None, **options: Any) -> requests.Response:
    """One plain request with basic authentication."""
    url = f"https://{lab.address(1)}:{lab.port}{path}"
    options = {"timeout": 10, "allow_redirects": False, **options}
    return requests.request(method, url, json=body, auth=(USER, PASSWORD), verify=lab.ca_file, **options)


def get(lab: BmcLab, path: str) -> dict[str, Any]:
    """A resource, over the real client with a session."""
    with client(lab) as redfish:
        response = redfish.get(path)
        assert response.status == 200, (path, response.status)
        return dict(response.dict)


@contextlib.contextmanager
def client(lab: BmcLab) -> Iterator[HttpClient]:
    redfish = redfish_client(
        f"https://{lab.address(1)}:{lab.port}", USER, PASSWORD, cafile=lab.ca_file, max_retry=0, timeout=5
    )
    redfish.login(auth=AuthMethod.SESSION)
    try:
        yield redfish
    finally:
        redfish.logout()


def connect(lab: BmcLab, seconds: float = 1.0) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=lab.ca_file)
    plain = socket.create_connection((lab.address(1), lab.port), seconds)
    try:
        return context.wrap_socket(plain, server_hostname=lab.address(1))
    except BaseException:
        plain.close()
        raise


def by(rows: list[dict[str, Any]], key: str) -> dict[str, dict[str, Any]]:
    return {row[key]: row for row in rows}


def bad(rows: list[dict[str, Any]], key: str = "Id") -> list[str]:
    return sorted(row[key] for row in rows if row["Status"]["Health"] != "OK")


# --- the connection


def test_refused_and_back(lab: BmcLab) -> None:
    lab.fault("n1", "refused")
    with pytest.raises(ConnectionRefusedError):
        connect(lab)
    lab.fault("n1", "refused", on=False)
    connect(lab).close()


def test_a_black_hole_answers_no_syn(lab: BmcLab) -> None:
    lab.fault("n1", "black_hole")
    for _ in range(3):
        with pytest.raises(TimeoutError):
            connect(lab, 0.3)
    lab.fault("n1", "black_hole", on=False)
    connect(lab).close()


def test_mute_accepts_and_never_speaks_tls(lab: BmcLab) -> None:
    lab.fault("n1", "mute")
    with socket.create_connection((lab.address(1), lab.port), 1):
        pass
    with pytest.raises(TimeoutError):
        connect(lab, 0.4)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("tls_wrong_name", "IP address mismatch"),
        ("tls_other_ca", "unable to get local issuer certificate"),
        ("tls_expired", "certificate has expired"),
    ],
)
def test_certificates_that_do_not_fit(lab: BmcLab, fault: str, reason: str) -> None:
    lab.fault("n1", fault)
    with pytest.raises(ssl.SSLCertVerificationError, match=reason):
        connect(lab)
    lab.fault("n1", fault, on=False)
    connect(lab).close()


# --- who may ask


def test_blocked_refuses_even_the_root(lab: BmcLab) -> None:
    lab.fault("n1", "blocked")
    response = call(lab, "GET", ROOT)
    assert (response.status_code, "AccessDenied" in response.text) == (401, True)
    lab.fault("n1", "blocked", status=429)
    assert call(lab, "GET", ROOT).status_code == 429


def test_busy_has_no_session_left(lab: BmcLab) -> None:
    lab.fault("n1", "busy")
    with pytest.raises(SessionCreationError), client(lab):
        pass
    response = call(lab, "GET", SYSTEM)
    assert (response.status_code, "RAC0218" in response.text) == (503, True)
    lab.fault("n1", "busy", basic=1)
    assert call(lab, "GET", SYSTEM).status_code == 200


@pytest.mark.parametrize(("code", "status"), [("SYS518", 503), ("SWC0700", 400), ("SYS446", 500)])
def test_three_ways_to_say_not_ready(lab: BmcLab, code: str, status: int) -> None:
    lab.fault("n1", "not_ready", code=code)
    response = call(lab, "GET", SYSTEM)
    assert (response.status_code, f".{code}" in response.text) == (status, True)


# --- how it answers


def test_truncated_doubled_cut_and_redirected(lab: BmcLab) -> None:
    whole = call(lab, "GET", SYSTEM).content
    lab.fault("n1", "truncated_json", percent=100)
    part = call(lab, "GET", SYSTEM).content
    assert part.startswith(whole[:200]), "what is there is as it was"
    assert len(part) < 0.7 * len(whole)
    with pytest.raises(json.JSONDecodeError):
        json.loads(part)
    lab.fault("n1", "truncated_json", on=False)
    lab.fault("n1", "doubled_json", percent=100)
    with pytest.raises(json.JSONDecodeError, match="Extra data"):
        call(lab, "GET", SYSTEM).json()
    lab.fault("n1", "doubled_json", on=False)
    lab.fault("n1", "redirect", percent=100)
    response = call(lab, "GET", SYSTEM)
    assert (response.status_code, response.headers["Location"]) == (307, f"https://192.0.2.1{SYSTEM}")
    lab.fault("n1", "redirect", on=False)
    lab.fault("n1", "cut_answer", percent=100)
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        call(lab, "GET", SYSTEM)


def test_wrong_types_and_null_lists_are_still_json(lab: BmcLab) -> None:
    right = call(lab, "GET", SYSTEM).json()
    lab.fault("n1", "null_lists", percent=100)
    found = call(lab, "GET", SYSTEM).json()
    assert (found["TrustedModules"], found["Links"]["Chassis"], found["SKU"]) == (None, None, right["SKU"])
    assert call(lab, "GET", f"{ROOT}/Systems").json()["Members"] is None
    lab.fault("n1", "null_lists", on=False)
    lab.fault("n1", "wrong_types", percent=100)
    wrong = call(lab, "GET", SYSTEM).json()
    others = [key for key in right if type(wrong[key]) is not type(right[key])]
    assert len(others) > 10
    assert wrong == call(lab, "GET", SYSTEM).json(), "the same each time"


def test_the_share_that_is_struck_spares_the_way_to_the_system(lab: BmcLab) -> None:
    lab.fault("n1", "truncated_json", percent=99)
    for path in (ROOT, f"{ROOT}/Systems", SYSTEM, f"{ROOT}/Managers"):
        assert call(lab, "GET", path).json()["@odata.id"] == path
    with pytest.raises(json.JSONDecodeError):
        call(lab, "GET", f"{SYSTEM}/Processors").json()


def test_dead_members_and_late_answers(lab: BmcLab) -> None:
    lab.fault("n1", "dead_members")
    members = call(lab, "GET", f"{SYSTEM}/Storage").json()["Members"]
    states = [call(lab, "GET", member["@odata.id"]).status_code for member in members]
    assert sorted(states) == [200, 200, 404]
    lab.fault("n1", "dead_members", on=False)
    lab.fault("n1", "late_answer", seconds=0.5)
    begin = time.monotonic()
    paths = [f"{SYSTEM}/Memory/DIMM.Socket.{bank}{n}" for bank in "AB" for n in range(1, 17)]
    with requests.Session() as session:
        session.auth = (USER, PASSWORD)
        for path in paths:
            assert (
                session.get(f"https://{lab.address(1)}:{lab.port}{path}", timeout=10, verify=lab.ca_file).status_code
                == 200
            )
    assert 0.5 <= time.monotonic() - begin < 0.5 * len(paths) / 2, "some are late, not all"


def test_a_huge_answer_is_as_large_as_it_says(lab: BmcLab) -> None:
    lab.fault("n1", "huge_answer", percent=100, megabytes=3)
    response = call(lab, "GET", SYSTEM, stream=True)
    assert int(response.headers["Content-Length"]) == 3 * 1024**2
    assert sum(len(chunk) for chunk in response.iter_content(65536)) == 3 * 1024**2


# --- which machine, and its parts


def test_identity(lab: BmcLab) -> None:
    lab.fault("n1", "wrong_model", model="PowerEdge R750")
    lab.fault("n1", "wrong_tag", tag="ABC1234")
    lab.fault("n1", "duplicate_mac", of=2)
    system = get(lab, SYSTEM)
    assert (system["Model"], system["SKU"]) == ("PowerEdge R750", "ABC1234")
    other = call_other(lab, f"{SYSTEM}/EthernetInterfaces/NIC.Embedded.1-1-1")["MACAddress"]
    assert get(lab, f"{SYSTEM}/EthernetInterfaces/NIC.Embedded.1-1-1")["MACAddress"] == other
    lab.fault("n1", "wrong_tag", on=False)
    lab.fault("n1", "duplicate_tag", of=2)
    assert get(lab, SYSTEM)["SKU"] == "TST0002"
    lab.fault("n1", "no_tag")
    assert get(lab, SYSTEM)["SKU"] == ""


def call_other(lab: BmcLab, path: str) -> dict[str, Any]:
    url = f"https://{lab.address(2)}:{lab.port}{path}"
    return dict(requests.get(url, auth=(USER, PASSWORD), verify=lab.ca_file, timeout=5).json())


def test_addresses_that_are_none(lab: BmcLab) -> None:
    lab.fault("n1", "odd_macs")
    macs = {port["Id"]: port["MACAddress"] for port in get(lab, f"{SYSTEM}/EthernetInterfaces{EXPAND}")["Members"]}
    assert macs["NIC.Embedded.1-1-1"] == "70-B5-E8-00-00-04"
    others = sorted(address for name, address in macs.items() if ".Embedded." not in name)
    assert others == ["", "00:00:00:00:00:00", "21:00:F4:E9:00:00:00:01"]
    function = f"{CHASSIS}/NetworkAdapters/NIC.Embedded.1/NetworkDeviceFunctions/NIC.Embedded.1-1-1"
    assert get(lab, function)["Ethernet"]["MACAddress"] is None


def test_cables_and_adapters(lab: BmcLab) -> None:
    lab.fault("n1", "cable_in_wrong_port")
    ports = by(get(lab, f"{SYSTEM}/EthernetInterfaces{EXPAND}")["Members"], "Id")
    assert {name: port["LinkStatus"] for name, port in ports.items()} == {
        "NIC.Embedded.1-1-1": "LinkDown",
        "NIC.Embedded.2-1-1": "LinkUp",
    }
    lab.fault("n1", "hca_missing", hca=0)
    lab.fault("n1", "hca_failed", hca=1)
    lab.fault("n1", "hca_no_link", hca=2)
    call(lab, "POST", RESET, {"ResetType": "On"})
    adapters = get(lab, f"{CHASSIS}/NetworkAdapters{EXPAND}")["Members"]
    assert "InfiniBand.Slot.31" not in by(adapters, "Id")
    assert bad(adapters) == ["InfiniBand.Slot.32"]
    links = [
        get(lab, f"{CHASSIS}/NetworkAdapters/InfiniBand.Slot.{slot}/NetworkPorts/InfiniBand.Slot.{slot}-1")
        for slot in (33, 34)
    ]
    assert [port["LinkStatus"] for port in links] == ["Down", "Up"]


def test_gpus_drives_and_their_links(lab: BmcLab) -> None:
    for fault, parameters in (
        ("gpu_failed", {"gpu": 5}),
        ("nvme_missing", {"drive": 0}),
        ("nvme_worn", {"drive": 2, "percent_left": 3}),
        ("os_disk_missing", {}),
        ("pcie_narrow", {"gpu": 1, "width": 8}),
        ("pcie_slow", {"gpu": -1, "hca": 6, "generation": 4}),
    ):
        lab.fault("n1", fault, **parameters)
    assert bad(get(lab, f"{SYSTEM}/Processors{EXPAND}")["Members"]) == ["Video.Slot.26-1"]
    drives = [get(lab, link["@odata.id"]) for link in get(lab, f"{SYSTEM}/Storage/CPU.1")["Drives"]]
    left = {drive["Id"].split(":")[0]: drive["PredictedMediaLifeLeftPercent"] for drive in drives}
    assert sorted(left) == [f"Disk.Bay.{bay}" for bay in range(1, 8)]
    assert left["Disk.Bay.2"] == 3
    assert get(lab, f"{SYSTEM}/Storage/BOSS.SL.12-1")["Drives"] == []
    devices = get(lab, f"{CHASSIS}/PCIeDevices{EXPAND}")["Members"]
    links = {d["Slot"]["Location"]["PartLocation"]["LocationOrdinalValue"]: d["PCIeInterface"]
             for d in devices if d.get("Slot")}  # fmt: skip
    assert (links[22]["LanesInUse"], links[22]["MaxLanes"], links[21]["LanesInUse"]) == (8, 16, 16)
    assert (links[37]["PCIeType"], links[37]["MaxPCIeType"], links[36]["PCIeType"]) == ("Gen4", "Gen5", "Gen5")
    gpu = get(lab, f"{SYSTEM}/Processors/Video.Slot.22-1")
    assert get(lab, gpu["Links"]["PCIeDevice"]["@odata.id"])["PCIeInterface"]["LanesInUse"] == 8
    classes = [get(lab, f"{CHASSIS}/PCIeDevices/{d}/PCIeFunctions/{d}-0")["ClassCode"] for d in ("27-0", "3-0")]
    assert classes == ["0x030200", "0x030000"]


def test_power_cooling_memory_and_the_chassis(lab: BmcLab) -> None:
    call(lab, "POST", RESET, {"ResetType": "On"})
    lab.fault("n1", "redundancy_lost")
    power = get(lab, f"{CHASSIS}/Power")
    assert (bad(power["PowerSupplies"], "Name"), bad(power["Redundancy"], "Name")) == ([], [
        "System Board PS Redundancy"])  # fmt: skip
    for fault, parameters in (
        ("psu_unplugged", {"psu": 3}),
        ("psu_missing", {"psu": 6}),
        ("fan_full_speed", {}),
        ("fan_failed", {"fan": 16}),
        ("too_hot", {"celsius": 60}),
        ("dimm_failed", {"dimm": 2}),
        ("dimm_missing", {"dimm": 32}),
        ("intrusion", {}),
    ):
        lab.fault("n1", fault, **parameters)
    supplies = by(get(lab, f"{CHASSIS}/Power")["PowerSupplies"], "Name")
    assert "PS6 Status" not in supplies
    assert supplies["PS3 Status"]["Status"] == {"Health": "Critical", "State": "UnavailableOffline"}
    assert [supplies[name]["LineInputVoltage"] for name in ("PS3 Status", "PS4 Status")] == [0, 240]
    newer = get(lab, f"{CHASSIS}/PowerSubsystem/PowerSupplies{EXPAND}")["Members"]
    assert bad(newer) == ["PSU.Slot.3"]
    thermal = get(lab, f"{CHASSIS}/Thermal")
    assert {fan["Oem"]["Dell"]["FanPWM"] for fan in thermal["Fans"]} == {0, 100}
    assert bad(thermal["Fans"], "Name") == ["System Board Fan16"]
    inlet = by(thermal["Temperatures"], "Name")["System Board Inlet Temp"]
    assert (inlet["ReadingCelsius"], inlet["Status"]["Health"]) == (60, "Critical")
    memory = get(lab, f"{SYSTEM}/Memory{EXPAND}")["Members"]
    assert (len(memory), bad(memory)) == (31, ["DIMM.Socket.A2"])
    assert get(lab, CHASSIS)["PhysicalSecurity"]["IntrusionSensor"] == "HardwareIntrusion"
    assert get(lab, SYSTEM)["Status"]["HealthRollup"] == "Critical"


def test_what_it_remembers(lab: BmcLab) -> None:
    lab.fault("n1", "old_inventory", days=100)
    lab.fault("n1", "old_firmware", component="hca", version="28.33.1000")
    lab.fault("n1", "bios_wrong", attribute="SriovGlobalEnable", value="Disabled")
    dell = get(lab, SYSTEM)["Oem"]["Dell"]["DellSystem"]
    age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(dell["LastSystemInventoryTime"])
    assert 99 < age.days < 104
    versions = get(lab, f"{ROOT}/UpdateService/FirmwareInventory{EXPAND}")["Members"]
    assert {v["Version"] for v in versions if "InfiniBand" in v["Id"]} == {"28.33.1000"}
    assert get(lab, f"{SYSTEM}/Bios")["Attributes"]["SriovGlobalEnable"] == "Disabled"
    lab.fault("n1", "bios_wrong", on=False)
    assert get(lab, f"{SYSTEM}/Bios")["Attributes"]["SriovGlobalEnable"] == "Enabled"


def test_critical_events_with_their_date(lab: BmcLab) -> None:
    def critical() -> list[dict[str, Any]]:
        entries = get(lab, f"{MANAGER}/LogServices/Sel/Entries")["Members"]
        return [entry for entry in entries if entry["MessageId"].endswith("CPU0000")]

    lab.fault("n1", "sel_critical", count=3, hours=30)
    found = critical()
    assert [entry["Severity"] for entry in found] == ["Critical"] * 3
    age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(found[0]["Created"])
    assert 29.9 < age.total_seconds() / 3600 < 30.1
    clear = f"{MANAGER}/LogServices/Sel/Actions/LogService.ClearLog"
    assert call(lab, "POST", clear, {}).status_code == 204
    assert critical() == []
    lab.fault("n1", "sel_critical", on=False)
    log = get(lab, f"{MANAGER}/LogServices/Lclog/Entries")["Members"]
    assert not [entry for entry in log if entry["MessageId"].endswith("CPU0000")]


def test_every_fault_can_be_switched_and_leaves_a_bmc_that_works(lab: BmcLab) -> None:
    right = get(lab, f"{SYSTEM}/Processors{EXPAND}")
    for fault in FAULTS:
        lab.fault("n1", fault)
        assert fault in lab.look("n1")["faults"]
        lab.fault("n1", fault, on=False)
    assert get(lab, f"{SYSTEM}/Processors{EXPAND}") == right


@pytest.mark.parametrize(
    ("fault", "parameters", "message"),
    [
        ("wrong_model", {"model": ""}, "text of 1 to 100"),
        ("old_firmware", {"component": "toaster"}, "bios, bmc"),
        ("truncated_json", {"percent": 101}, "1 to 100"),
        ("bios_wrong", {"value": 3}, "text"),
    ],
)
def test_parameters_that_do_not_fit(lab: BmcLab, fault: str, parameters: dict[str, Any], message: str) -> None:
    url = f"http://{lab.admin}/machines/n1/faults/{fault}"
    refused = requests.put(url, json=parameters, timeout=5)
    assert refused.status_code == 400
    assert message in refused.json()["error"]
