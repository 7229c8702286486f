"""A small lab for tests of the MAAS simulator: the simulator as a process, in front of fake or simulated BMCs."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from fake_bmcs import PASSWORD, USER, FakeBmcs
from requests.adapters import HTTPAdapter

from simulators import lab_files

ROOT = Path(__file__).resolve().parents[2]
KEY = "consumer01:token01:secret01"
# A test process runs one file at a time, so this serves all files; the numbers below 200 are other labs'.
NETWORK = 200 + os.getpid() % 50
_nonces, _labs = itertools.count(), itertools.count()


def authorization(key: str = KEY, **changes: str) -> str:
    """An OAuth PLAINTEXT header."""
    consumer, token, secret = key.split(":")
    fields = {
        "version": "1.0",
        "signature_method": "PLAINTEXT",
        "consumer_key": consumer,
        "token": token,
        "signature": f"%26{secret}",
        "nonce": f"{os.getpid()}-{time.time_ns()}-{next(_nonces)}",
        "timestamp": str(int(time.time())),
        **changes,
    }
    return "OAuth " + ", ".join(f'oauth_{name}="{value}"' for name, value in fields.items())


class Lab:
    """One lab: BMCs, and a region that can be stopped and started again."""

    def __init__(
        self, lab_dir: Path, network: int = NETWORK, machines: int = 6, real_bmcs: bool = False, **maas: Any
    ) -> None:
        self.lab_dir = lab_dir
        # Networks repeat, so the third number too is the process's; each of its labs has twenty addresses (17 BMCs).
        net, first = f"127.{network}.{10 + os.getpid() // 50 % 240}", 20 * (next(_labs) % 12)
        bmc_admin, region = f"{net}.{first + 1}", f"{net}.{first + 2}"
        self.lab = {
            "bmc": {
                "port": 8443,
                "admin": f"{bmc_admin}:8450",
                "username": USER,
                "password": PASSWORD,
                "latency": 0,
                "boot_seconds": 0.1,
                "hook": ["true"],
            },
            "maas": {
                "listen": f"{region}:5443",
                "admin": f"{region}:5450",
                "api_key": KEY,
                "username": "admin",
                "password": "maas-password-01",
                "commission_seconds": 0.2,
                "deploy_seconds": 0.2,
                "erase_seconds": 0.1,
                "boot_seconds": 0.1,
                "node_timeout_seconds": 8,
                "power_timeout_seconds": 2,
                "power_retry_seconds": 0.05,
                "create_gap_seconds": 0.05,
                "distro_series": ["bookworm"],
                "zones": ["r1", "r2"],
                "resource_pools": ["gpu"],
                "subnet": "127.253.0.0/24",
                "first_address": "127.253.0.11",
                **maas,
            },
            "machines": [
                {
                    "name": f"n{i}",
                    "rack": "r1",
                    "unit": i,
                    "index": i,
                    "service_tag": f"TAG{i}",
                    "bmc_address": f"{net}.{first + 2 + i}",
                }
                for i in range(1, machines + 1)
            ],
        }
        lab_files.write_json(lab_dir / "lab.json", self.lab)
        self.ca = lab_files.make_certificates(lab_dir, self.lab)
        self.bmc_process = self._run("simulators.bmc", "simulated BMCs ready") if real_bmcs else None
        if not real_bmcs:
            self.bmcs = FakeBmcs(lab_dir, self.lab)
        self.url = f"https://{region}:5443/MAAS/"
        self.admin_url = f"http://{region}:5450"
        self.session = requests.Session()
        self.session.mount("https://", HTTPAdapter(pool_maxsize=16))
        self.session.verify = str(self.ca)
        self.session.trust_env = False  # else REQUESTS_CA_BUNDLE would win over the lab's CA
        self.process: subprocess.Popen[str] | None = None
        self.start()

    def _run(self, module: str, ready: str) -> subprocess.Popen[str]:
        path = self.lab_dir / f"{module}.log"
        with path.open("a") as log:
            command = [sys.executable, "-m", module, "--lab-dir", str(self.lab_dir)]
            process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True)
        assert process.stdout is not None
        assert process.stdout.readline().startswith(ready), path.read_text()
        return process

    def start(self) -> None:
        self.process = self._run("simulators.maas", "simulated MAAS region ready: https://")

    def redfish_power_on(self, name: str) -> None:
        """What a person at the BMC does."""
        address = self.power(name)["power_parameters_power_address"]
        url = f"https://{address}/redfish/v1/Systems/System.Embedded.1/Actions/ComputerSystem.Reset"
        answer = self.session.post(url, json={"ResetType": "On"}, auth=(USER, PASSWORD), timeout=10)
        assert answer.status_code == 204, answer.text

    def kill(self, number: int = signal.SIGKILL) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(10)
        if self.process.stdout:
            self.process.stdout.close()
        return code

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill(signal.SIGTERM)
        if self.bmc_process is None:
            self.bmcs.stop()
        else:
            self.bmc_process.terminate()
            self.bmc_process.wait(10)
            if self.bmc_process.stdout:
                self.bmc_process.stdout.close()

    def raw(self, method: str, path: str, header: str | None = None, **more: Any) -> requests.Response:
        """A request; header None means a good one, "" none at all."""
        headers = {"Authorization": authorization() if header is None else header} if header != "" else {}
        return self.session.request(method, f"{self.url}api/2.0/{path}", headers=headers, timeout=30, **more)

    def admin(self, method: str, path: str, body: Any = None) -> requests.Response:
        """A request to the admin port."""
        return self.session.request(method, self.admin_url + path, json=body, timeout=10)

    def get(self, path: str, **params: Any) -> Any:
        answer = self.raw("GET", path, params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, op: str | None = None, **data: Any) -> requests.Response:
        return self.raw("POST", path, params={"op": op} if op else None, data=data)

    def op(self, system_id: str, op: str, **data: Any) -> requests.Response:
        return self.post(f"machines/{system_id}/", op, **data)

    def machine(self, system_id: str) -> dict[str, Any]:
        return dict(self.get(f"machines/{system_id}/"))

    def power(self, name: str, **changes: str) -> dict[str, str]:
        """The power fields of a machine of the lab, as a form has them."""
        address = next(entry["bmc_address"] for entry in self.lab["machines"] if entry["name"] == name)
        fields = {"power_address": f"{address}:8443", "power_user": USER, "power_pass": PASSWORD, **changes}
        return {"power_type": "redfish", **{f"power_parameters_{key}": value for key, value in fields.items()}}

    def create(self, name: str, **more: Any) -> requests.Response:
        data = {"architecture": "amd64", "hostname": name, "mac_addresses": self.bmcs.mac(name), **self.power(name)}
        return self.post("machines/", **{"commission": "false", **data, **more})

    def wait(self, system_id: str, *statuses: str, seconds: float = 30) -> dict[str, Any]:
        """Wait until the machine is in one of these states."""
        end = time.monotonic() + seconds
        while True:
            machine = self.machine(system_id)
            if machine["status_name"] in statuses:
                return machine
            assert time.monotonic() < end, f"{machine['status_name']}: {json.dumps(self.events(system_id, 'DEBUG'))}"
            time.sleep(0.05)

    def ready(self, name: str) -> dict[str, Any]:
        """A commissioned machine."""
        system_id = self.create(name).json()["system_id"]
        assert self.op(system_id, "commission").status_code == 200
        return self.wait(system_id, "Ready")

    def events(self, system_id: str, level: str = "INFO") -> list[str]:
        found = self.get("events/", op="query", id=system_id, level=level, limit=1000)["events"]
        return [f"{event['type']} - {event['description']}".removesuffix(" - ") for event in reversed(found)]

    def forget_all(self) -> None:
        """Delete every machine and fault: the state between tests."""
        for fault in ("slow", "failing", "no_rack", "no_images", "unreachable_rack"):
            self.admin("DELETE", f"/faults/{fault}")
        for machine in self.get("machines/"):
            if machine["locked"]:
                self.op(machine["system_id"], "unlock")
            self.raw("DELETE", f"machines/{machine['system_id']}/")
        self.bmcs.broken.clear()
        self.bmcs.no_network.clear()
        self.bmcs.slow.clear()
        self.bmcs.off()


@pytest.fixture(scope="module", name="running")
def running_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One lab for all tests of a file."""
    lab = Lab(tmp_path_factory.mktemp("maas-lab"))
    yield lab
    lab.stop()


@pytest.fixture(name="lab")
def lab_fixture(running: Lab) -> Iterator[Lab]:
    """The file's lab, without machines; what the test leaves there is deleted."""
    yield running
    running.forget_all()
