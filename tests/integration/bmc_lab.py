"""A lab for tests of the BMC simulator: its process, stopped and started at will, and a stand-in for MAAS's PXE door.

bmc_product_lab.py has a simpler one: no PXE, started at once, with a site in front of it for the product.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import pytest
import requests
from bmc_product_lab import PROJECT, free_port
from redfish import redfish_client
from redfish.rest.v1 import HttpClient
from waiting import until

from simulators import lab_files

ROOT = "/redfish/v1"
SYSTEM = f"{ROOT}/Systems/System.Embedded.1"
CHASSIS = f"{ROOT}/Chassis/System.Embedded.1"
MANAGER = f"{ROOT}/Managers/iDRAC.Embedded.1"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"
USER, PASSWORD = "root", "a-lab-password"
# A test process runs one file at a time, so its number keeps files side by side apart; 500 BMCs fill three of the four.
NETWORK, BLOCK = "127.43", 4 * (os.getpid() % 60)
HOST = f"{NETWORK}.{BLOCK}.1"
HOOK = """
import json, os, pathlib, sys, time
folder = pathlib.Path(os.environ["FIRSTLIGHT_LAB_DIR"])
with (folder / "hooks.txt").open("a") as log:
    print("begin", *sys.argv[1:], file=log, flush=True)
    time.sleep(0.2)
    print("end", *sys.argv[1:], file=log, flush=True)
"""


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
        self.port = free_port(self.address(1))
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
                        "bmc_address": self.address(number),
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

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *failure: object) -> None:
        if self.process is not None and self.process.poll() is None:
            code = self.stop()
            assert code == 0 or failure[0]

    def stop(self, how: int = signal.SIGTERM) -> int:
        """End the simulator."""
        assert self.process is not None
        self.process.send_signal(how)
        code = self.process.wait(20)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    @staticmethod
    def address(number: int) -> str:
        """A BMC's address."""
        return f"{NETWORK}.{BLOCK + number // 200}.{10 + number % 200}"

    def url(self, number: int = 1) -> str:
        """Where a BMC is."""
        return f"https://{self.address(number)}:{self.port}"

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


@pytest.fixture(scope="module", name="pxe")
def pxe_fixture() -> Iterator[Pxe]:
    server = Pxe()
    yield server
    server.server.shutdown()


@pytest.fixture(scope="module", name="running")
def running_fixture(tmp_path_factory: pytest.TempPathFactory, pxe: Pxe) -> Iterator[Lab]:
    """A lab with two machines for all tests that leave it as it was."""
    with Lab(tmp_path_factory.mktemp("lab"), pxe, count=2) as lab:
        yield lab


@pytest.fixture(name="lab")
def lab_fixture(running: Lab) -> Iterator[Lab]:
    """The shared lab; faults are cleared afterwards."""
    yield running
    assert running.ask("POST", "/machines/n1/repair").status_code == 200


@pytest.fixture(name="own")
def own_fixture(tmp_path: Path, pxe: Pxe) -> Iterator[Lab]:
    """A lab of the test's own: the machine is new, off, its disk empty."""
    pxe.boot, pxe.asked = "none", []
    with Lab(tmp_path, pxe) as lab:
        yield lab


def message_id(response: Any) -> str:
    """Return the last part of an error's first MessageId."""
    body = response.dict if hasattr(response, "dict") else response.json()
    return str(body["error"]["@Message.ExtendedInfo"][0]["MessageId"].rsplit(".", 1)[1])
