"""The BMC simulator as a process, against the real `redfish` client and plain HTTP."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
from redfish import redfish_client
from redfish.rest.v1 import AuthMethod, HttpClient, InvalidCredentialsError, RetriesExhaustedError, SessionCreationError

from simulators import lab_files

PROJECT = Path(__file__).resolve().parents[2]
ROOT = "/redfish/v1"
SYSTEM = f"{ROOT}/Systems/System.Embedded.1"
CHASSIS = f"{ROOT}/Chassis/System.Embedded.1"
MANAGER = f"{ROOT}/Managers/iDRAC.Embedded.1"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"
USER, PASSWORD = "root", "a-lab-password"
HOST = "127.31.9.1"
HOOK = """
import json, os, pathlib, sys, time
folder = pathlib.Path(os.environ["FIRSTLIGHT_LAB_DIR"])
with (folder / "hooks.txt").open("a") as log:
    print("begin", *sys.argv[1:], file=log, flush=True)
    time.sleep(0.2)
    print("end", *sys.argv[1:], file=log, flush=True)
"""


def free_port(address: str) -> int:
    """Return a port that nothing uses now."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def until(condition: Callable[[], Any], seconds: float = 10) -> Any:
    """Wait for a condition and return its value; fail after some seconds."""
    limit = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < limit, f"not within {seconds} s: last {value!r}"
        time.sleep(0.03)


class Pxe:
    """A stand-in for MAAS's PXE door: answers what the test says, remembers who asked."""

    def __init__(self) -> None:
        self.boot = "none"
        self.asked: list[dict[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                body = json.dumps({"boot": outer.boot}).encode()
                self.send_response(200 if self.path == "/pxe" else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer((HOST, 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"{HOST}:{self.server.server_address[1]}"


class Lab:
    """A lab folder and the simulator's process on it."""

    def __init__(self, folder: Path, pxe: Pxe, count: int = 1, **settings: Any) -> None:
        self.folder = folder
        self.pxe = pxe
        self.port = free_port("127.31.9.11")
        self.admin = f"{HOST}:{free_port(HOST)}"
        hook = folder / "hook.py"
        hook.write_text(HOOK)
        lab_files.write_json(
            folder / "lab.json",
            {
                "bmc": {
                    "port": self.port,
                    "admin": self.admin,
                    "username": USER,
                    "password": PASSWORD,
                    "latency": 0,
                    "boot_seconds": 0.1,
                    "restart_seconds": 1.6,
                    "block_seconds": 1.5,
                    "hook": [sys.executable, str(hook)],
                    **settings,
                },
                "maas": {"listen": f"{HOST}:1", "admin": pxe.address},
                "machines": [
                    {
                        "name": f"n{number}",
                        "rack": "r1",
                        "unit": number,
                        "index": number,
                        "service_tag": f"TST{number:04d}",
                        "bmc_address": f"127.31.{9 + number // 200}.{10 + number % 200}",
                        "faults": [],
                    }
                    for number in range(1, count + 1)
                ],
            },
        )
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the simulator and wait until it listens."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "simulators.bmc", "--lab-dir", str(self.folder)],
            cwd=PROJECT,
            stdout=subprocess.PIPE,
            stderr=(self.folder / "bmc.log").open("a"),
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("simulated BMCs ready: "), (self.folder / "bmc.log").read_text()

    def stop(self, how: int = signal.SIGTERM) -> int:
        """End the simulator."""
        assert self.process is not None
        self.process.send_signal(how)
        code = self.process.wait(20)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def url(self, number: int = 1) -> str:
        """Where a BMC is."""
        return f"https://127.31.{9 + number // 200}.{10 + number % 200}:{self.port}"

    def call(self, method: str, path: str, body: Any = None, number: int = 1, **options: Any) -> requests.Response:
        """Send one request with basic credentials, on a connection of its own."""
        options.setdefault("auth", (USER, PASSWORD))
        options.setdefault("timeout", 5)
        return requests.request(
            method, self.url(number) + path, json=body, verify=str(self.folder / "ca.pem"), **options
        )

    def get(self, path: str, number: int = 1) -> dict[str, Any]:
        """GET one resource."""
        response = self.call("GET", path, number=number)
        assert response.status_code == 200, response.text
        return dict(response.json())

    def client(self, number: int = 1, **options: Any) -> HttpClient:
        """Return the real client, TLS verified."""
        options.setdefault("timeout", 5)
        options.setdefault("max_retry", 0)
        return redfish_client(
            self.url(number), username=USER, password=PASSWORD, cafile=str(self.folder / "ca.pem"), **options
        )

    def ask(self, method: str, path: str, body: Any = None) -> requests.Response:
        """Use the admin API."""
        return requests.request(method, f"http://{self.admin}{path}", json=body, timeout=5)

    def machine(self, number: int = 1) -> dict[str, Any]:
        """What the admin API says about a machine."""
        return dict(self.ask("GET", f"/machines/n{number}").json())

    def fault(self, name: str, **parameters: Any) -> None:
        """Switch a fault of machine 1 on."""
        response = self.ask("PUT", f"/machines/n1/faults/{name}", parameters or None)
        assert response.status_code == 200, response.text

    def settled(self, boots: int) -> dict[str, Any]:
        """Wait for the end of the boot with this number."""
        return dict(until(lambda: (state := self.machine())["boots"] == boots and not state["booting"] and state))

    def hooks(self) -> list[str]:
        """What the hook was called with."""
        path = self.folder / "hooks.txt"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture(scope="module")
def pxe() -> Iterator[Pxe]:
    server = Pxe()
    yield server
    server.server.shutdown()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, pxe: Pxe) -> Iterator[Lab]:
    """A lab with two machines for all tests that leave it as it was."""
    lab = Lab(tmp_path_factory.mktemp("lab"), pxe, count=2)
    lab.start()
    yield lab
    assert lab.stop() == 0


@pytest.fixture
def lab(running: Lab) -> Iterator[Lab]:
    """The shared lab; faults are cleared afterwards."""
    yield running
    assert running.ask("POST", "/machines/n1/repair").status_code == 200


@pytest.fixture
def own(tmp_path: Path, pxe: Pxe) -> Iterator[Lab]:
    """A lab of the test's own: the machine is new, off, its disk empty."""
    pxe.boot, pxe.asked = "none", []
    lab = Lab(tmp_path, pxe)
    lab.start()
    yield lab
    if lab.process is not None and lab.process.poll() is None:
        assert lab.stop() == 0


def message_id(response: Any) -> str:
    """Return the last part of an error's first MessageId."""
    body = response.dict if hasattr(response, "dict") else response.json()
    return str(body["error"]["@Message.ExtendedInfo"][0]["MessageId"].rsplit(".", 1)[1])


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
    with socket.create_connection(("127.31.9.11", lab.port), 2) as plain:
        assert context.wrap_socket(plain, server_hostname="127.31.9.11").version()
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


# --- power and boots


def test_an_installation_from_power_on_to_running_host(own: Lab, pxe: Pxe) -> None:
    pxe.boot = "install"
    client = own.client()
    client.login(auth=AuthMethod.SESSION)
    once = {"Boot": {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"}}
    assert client.patch(SYSTEM, body=once).status == 200
    assert client.get(SYSTEM).dict["Boot"]["BootSourceOverrideEnabled"] == "Once"
    assert client.post(RESET, body={"ResetType": "On"}).status == 204
    again = client.post(RESET, body={"ResetType": "On"})
    assert (again.status, message_id(again)) == (409, "PSU501")
    state = own.settled(boots=1)
    assert (state["power"], state["last_boot"], state["running"]) == ("On", "pxe", "network")
    mac = client.get(f"{SYSTEM}/EthernetInterfaces/NIC.Embedded.1-1-1").dict["MACAddress"]
    assert pxe.asked == [{"mac": mac.lower(), "service_tag": "TST0001"}]
    assert client.get(SYSTEM).dict["Boot"]["BootSourceOverrideEnabled"] == "Disabled"
    disk = {"hostname": "n1", "address": "127.253.0.11", "image": "bookworm", "user_data": ""}
    assert own.ask("PUT", "/machines/n1/disk", disk).status_code == 200
    pxe.boot = "local"
    assert own.ask("POST", "/machines/n1/reboot").status_code == 200
    assert own.settled(boots=2)["running"] == "disk"
    until(lambda: own.hooks()[-1:] == ["end on n1"])
    assert client.get(SYSTEM).dict["HostName"] == "n1"
    assert client.post(RESET, body={"ResetType": "ForceRestart"}).status == 204  # must stop the host first
    assert own.settled(boots=3)["running"] == "disk"
    until(lambda: len(own.hooks()) == 10)
    assert client.post(RESET, body={"ResetType": "ForceOff"}).status == 204
    until(lambda: len(own.hooks()) == 12)
    verbs = [line.split()[1] for line in own.hooks()[::2]]
    assert verbs == ["off", "off", "on", "off", "on", "off"]
    assert [line.split()[0] for line in own.hooks()] == ["begin", "end"] * 6  # never two at once
    assert "off n1" in (own.folder / "log/n1.hook.log").read_text()
    client.logout()


def test_one_time_pxe_is_for_one_boot_only(own: Lab, pxe: Pxe) -> None:
    pxe.boot = "local"
    assert own.call("PATCH", SYSTEM, {"Boot": {"BootOrder": ["Boot0001", "Boot0000"]}}).status_code == 200
    own.call("POST", RESET, {"ResetType": "On"})
    own.settled(boots=1)
    asked = len(pxe.asked)  # an empty disk: the NIC is next
    assert asked == 1
    own.ask("PUT", "/machines/n1/disk", {"hostname": "n1", "address": "a", "image": "i"})
    own.call("PATCH", SYSTEM, {"Boot": {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"}})
    own.call("POST", RESET, {"ResetType": "PowerCycle"})
    assert own.settled(boots=2)["last_boot"] == "pxe"
    own.call("POST", RESET, {"ResetType": "PowerCycle"})
    assert own.settled(boots=3)["last_boot"] == "disk"
    assert len(pxe.asked) == asked + 1


def test_a_host_is_started_again_with_the_lab(own: Lab, pxe: Pxe) -> None:
    pxe.boot = "local"
    own.call("POST", RESET, {"ResetType": "On"})
    own.settled(boots=1)
    own.ask("PUT", "/machines/n1/disk", {"hostname": "n1", "address": "a", "image": "i"})
    own.ask("POST", "/machines/n1/reboot")
    own.settled(boots=2)
    until(lambda: own.hooks()[-1:] == ["end on n1"])
    before = len(own.hooks())
    assert own.stop() == 0
    own.start()
    until(lambda: own.hooks()[before:] == ["begin on n1", "end on n1"])
    assert own.machine()["boots"] == 2


def test_a_bios_that_does_not_pxe(own: Lab, pxe: Pxe) -> None:
    pxe.boot = "enlist"
    assert own.get(f"{SYSTEM}/Bios")["Attributes"]["PxeDev1EnDis"] == "Enabled"
    settings = f"{SYSTEM}/Bios/Settings"
    assert own.call("PATCH", settings, {"Attributes": {"PxeDev1EnDis": "Maybe"}}).status_code == 400
    assert own.call("PATCH", settings, {"Attributes": {"NoSuch": "Enabled"}}).status_code == 400
    change = {
        "Attributes": {"PxeDev1EnDis": "Disabled"},
        "@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"},
    }
    made = own.call("PATCH", settings, change)
    assert made.status_code == 202
    task = made.headers["Location"]
    pending = own.call("PATCH", settings, {"Attributes": {"ProcCStates": "Enabled"}})
    assert (pending.status_code, message_id(pending)) == (400, "SYS011")
    jobs = f"{MANAGER}/Oem/Dell/Jobs"
    assert own.call("POST", jobs, {"TargetSettingsURI": settings}).status_code == 400
    assert own.get(f"{jobs}/{task.rsplit('/', 1)[1]}")["JobState"] == "Scheduled"
    assert own.get(f"{SYSTEM}/Bios")["Attributes"]["PxeDev1EnDis"] == "Enabled"
    own.call("PATCH", SYSTEM, {"Boot": {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"}})
    own.call("POST", RESET, {"ResetType": "On"})
    assert own.settled(boots=1)["last_boot"] is None
    assert pxe.asked == []
    assert own.get(task)["TaskState"] == "Completed"
    assert own.get(f"{SYSTEM}/Bios")["Attributes"]["PxeDev1EnDis"] == "Disabled"
    assert own.call("PATCH", settings, {"Attributes": {"PxeDev1EnDis": "Enabled"}}).status_code == 200
    job = own.call("POST", jobs, {"TargetSettingsURI": settings}).headers["Location"]
    assert own.call("DELETE", job).status_code == 200
    assert own.get(settings)["Attributes"] == {}


def test_no_link_and_a_missing_nic_keep_a_machine_from_pxe(own: Lab, pxe: Pxe) -> None:
    pxe.boot = "enlist"
    own.fault("no_link")
    own.call("POST", RESET, {"ResetType": "On"})
    own.settled(boots=1)
    own.ask("POST", "/machines/n1/repair")
    own.fault("nic_missing")
    own.call("POST", RESET, {"ResetType": "ForceRestart"})
    own.settled(boots=2)
    assert pxe.asked == []
    own.ask("POST", "/machines/n1/repair")
    own.call("POST", RESET, {"ResetType": "ForceRestart"})
    assert own.settled(boots=3)["last_boot"] == "pxe"


def test_boot_settings_of_idrac9_and_idrac10(own: Lab) -> None:
    once = {"Boot": {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"}}
    order = {"Boot": {"BootOrder": ["Boot0001", "Boot0000"]}}
    settings = own.get(SYSTEM)["@Redfish.Settings"]["SettingsObject"]["@odata.id"]
    refused = own.call("PATCH", settings, once)
    assert (refused.status_code, message_id(refused)) == (400, "PropertyNotWritable")
    assert own.call("PATCH", settings, order).status_code == 200
    assert own.get(SYSTEM)["Boot"]["BootOrder"] == ["Boot0001", "Boot0000"]
    etag = own.call("GET", SYSTEM).headers["ETag"]
    assert own.call("PATCH", SYSTEM, once, headers={"If-Match": etag}).status_code == 200
    assert own.call("PATCH", SYSTEM, once, headers={"If-Match": etag}).status_code == 412
    assert own.stop() == 0
    lab_json = lab_files.load(own.folder)
    lab_json["bmc"]["boot_settings"] = "only"
    lab_files.write_json(own.folder / "lab.json", lab_json)
    own.start()
    refused = own.call("PATCH", SYSTEM, once)
    assert (refused.status_code, message_id(refused)) == (400, "PropertyNotWritable")
    assert own.call("PATCH", settings, once).status_code == 200


def test_graceful_shutdown_needs_somebody_who_listens(own: Lab, pxe: Pxe) -> None:
    own.call("POST", RESET, {"ResetType": "On"})
    own.settled(boots=1)
    assert own.call("POST", RESET, {"ResetType": "GracefulShutdown"}).status_code == 204
    assert own.machine()["power"] == "On"
    pxe.boot = "commission"
    own.call("POST", RESET, {"ResetType": "GracefulRestart"})
    own.settled(boots=2)
    own.call("POST", RESET, {"ResetType": "PushPowerButton"})
    until(lambda: own.machine()["power"] == "Off")
    off = own.call("POST", RESET, {"ResetType": "GracefulShutdown"})
    assert (off.status_code, message_id(off)) == (409, "PSU502")


def test_a_restarted_bmc_is_away_then_not_ready_then_empty(own: Lab) -> None:
    client = own.client()
    client.login(auth=AuthMethod.SESSION)
    reset = {"ResetType": "GracefulRestart"}
    assert client.post(f"{MANAGER}/Actions/Manager.Reset", body=reset).status == 204
    seen: list[str] = []

    def back() -> bool:
        try:
            response = own.call("GET", f"{ROOT}/Systems")
            found = "SYS518" if response.status_code == 503 else f"{len(response.json()['Members'])} systems"
        except requests.exceptions.ConnectionError:
            found = "away"
        if seen[-1:] != [found]:
            seen.append(found)
        return seen[-3:] == ["SYS518", "0 systems", "1 systems"]

    until(back)
    assert "away" in seen
    assert client.get(SYSTEM).status == 401  # its sessions are gone


# --- restarts and the process


def test_a_restart_of_the_simulator_keeps_the_state(own: Lab, pxe: Pxe) -> None:
    pxe.boot = "enlist"
    own.call("PATCH", SYSTEM, {"Boot": {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Continuous"}})
    own.call("POST", RESET, {"ResetType": "On"})
    own.settled(boots=1)
    own.ask("PUT", "/machines/n1/disk", {"hostname": "n1", "address": "a", "image": "i"})
    own.fault("gpu_missing", gpu=5)
    before = own.machine()
    assert own.stop(signal.SIGKILL) == -signal.SIGKILL
    own.start()
    after = own.machine()
    for key in ("power", "boots", "last_boot", "disk", "faults", "fault_parameters", "boot", "running"):
        assert after[key] == before[key], key
    assert after["counters"]["writes"] == before["counters"]["writes"]
    assert (own.folder / "pid/bmc.pid").read_text().strip() == str(own.process and own.process.pid)
    assert own.stop() == 0
    assert not (own.folder / "pid/bmc.pid").exists()


def test_an_interrupted_boot_goes_on(tmp_path: Path, pxe: Pxe) -> None:
    pxe.boot, pxe.asked = "enlist", []
    lab = Lab(tmp_path, pxe, boot_seconds=1)
    lab.start()
    lab.call("POST", RESET, {"ResetType": "On"})
    lab.stop(signal.SIGKILL)
    lab.start()
    assert lab.settled(boots=1)["last_boot"] == "pxe"
    assert lab.stop() == 0


def test_five_hundred_bmcs_start_in_seconds(tmp_path: Path, pxe: Pxe) -> None:
    lab = Lab(tmp_path, pxe, count=500)
    lab_files.make_certificates(tmp_path, lab_files.load(tmp_path))
    before = time.monotonic()
    lab.start()
    assert time.monotonic() - before < 10
    assert lab.get(SYSTEM, number=500)["SKU"] == "TST0500"
    assert lab.process is not None
    status = Path(f"/proc/{lab.process.pid}/status").read_text()
    kilobytes = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))
    assert kilobytes < 250_000
    assert lab.stop() == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lab: lab["bmc"].pop("password"), "bmc: lacks password"),
        (lambda lab: lab["machines"][0].update(faults=["broken"]), "unknown fault 'broken'"),
        (lambda lab: lab["machines"].append(lab["machines"][0]), "is used twice"),
        (lambda lab: lab["machines"][0].pop("index"), "machines[0]: lacks index"),
    ],
)
def test_a_bad_lab_gets_one_clear_line(
    tmp_path: Path, pxe: Pxe, change: Callable[[dict[str, Any]], object], words: str
) -> None:
    lab = Lab(tmp_path, pxe)
    content = json.loads((tmp_path / "lab.json").read_text())
    change(content)
    lab_files.write_json(tmp_path / "lab.json", content)
    done = subprocess.run(
        [sys.executable, "-m", "simulators.bmc", "--lab-dir", str(lab.folder)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=20,
        env=os.environ,
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr
