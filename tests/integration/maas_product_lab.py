"""A lab for tests of the product against MAAS: simulated BMCs and a simulated region, each a process; no hosts."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import requests
from requests_oauthlib import OAuth1

from firstlight.maas.client import MaasClient
from firstlight.maas.disks import OsDisk
from firstlight.maas.enlist import Desired
from firstlight.maas.install import InstallOptions, Wanted
from simulators import lab_files
from simulators.bmc.hardware import Hardware

ROOT = Path(__file__).resolve().parents[2]
KEY = "consumerpart1:tokenpart22:secretpart333"
USER, PASSWORD = "root", "bmc-password-of-the-lab"
_networks = itertools.count()


class ProductLab:
    """A running lab in ``folder``; stop() ends its processes."""

    def __init__(self, folder: Path, machines: int = 4, **maas: Any) -> None:
        # test processes at the same time must not take each other's addresses
        net = f"127.{100 + os.getpid() % 100}.{(os.getpid() // 100 + next(_networks)) % 250}"
        self.folder = folder
        self.lab: dict[str, Any] = {
            "bmc": {
                "port": 8443,
                "admin": f"{net}.1:8450",
                "username": USER,
                "password": PASSWORD,
                "latency": 0,
                "boot_seconds": 0.1,
                "hook": ["true"],
            },
            "maas": {
                "listen": f"{net}.2:5443",
                "admin": f"{net}.2:5450",
                "api_key": KEY,
                "commission_seconds": 0.2,
                "deploy_seconds": 0.3,
                "boot_seconds": 0.1,
                "node_timeout_seconds": 20,
                "power_timeout_seconds": 3,
                "power_retry_seconds": 0.1,
                "distro_series": ["bookworm"],
                "zones": ["r1"],
                "resource_pools": ["gpu"],
                # nobody answers there, whatever labs run beside
                "subnet": "127.253.0.0/24",
                "first_address": "127.253.0.11",
                **maas,
            },
            "machines": [
                {
                    "name": f"r1-n{i:02d}",
                    "rack": "r1",
                    "unit": i,
                    "index": i,
                    "service_tag": f"FLB{i:04d}",
                    "bmc_address": f"{net}.{10 + i}",
                }
                for i in range(1, machines + 1)
            ],
        }
        lab_files.write_json(folder / "lab.json", self.lab, 0o600)
        self.ca = str(lab_files.make_certificates(folder, self.lab))
        self.url = f"https://{net}.2:5443/MAAS"
        self.admin = f"http://{net}.2:5450"
        self.bmc_admin = f"http://{net}.1:8450"
        self.names = [m["name"] for m in self.lab["machines"]]
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self.start("bmc")
        self.start("maas")

    def start(self, what: str) -> None:
        with (self.folder / f"{what}.log").open("a") as log:
            command = [sys.executable, "-m", f"simulators.{what}", "--lab-dir", str(self.folder)]
            process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True)
        assert process.stdout is not None
        assert "ready" in process.stdout.readline(), (self.folder / f"{what}.log").read_text()
        self.processes[what] = process

    def kill(self, what: str, number: int = signal.SIGKILL) -> None:
        process = self.processes.pop(what)
        process.send_signal(number)
        process.wait(20)
        assert process.stdout is not None
        process.stdout.close()

    def stop(self) -> None:
        for what in list(self.processes):
            self.kill(what, signal.SIGTERM)

    def fresh(self) -> ProductLab:
        """The lab as it was at first, for the next test: no machine in MAAS, all powered off, no fault."""
        for what in ("bmc", "maas"):
            if what not in self.processes:
                self.start(what)
        for fault in requests.get(f"{self.admin}/faults", timeout=10).json():
            requests.delete(f"{self.admin}/faults/{fault}", timeout=10)
        self.forget_machines()  # first: a machine that MAAS still installs would be powered on again
        for name in self.names:
            for fault in requests.get(f"{self.bmc_admin}/machines/{name}", timeout=10).json()["faults"]:
                self.bmc_fault(name, fault, on=False)
            self.reset(name, "ForceOff")
            requests.delete(f"{self.bmc_admin}/machines/{name}/disk", timeout=10)
        self.forget_machines()  # one that was just booting from the network has enlisted itself
        self.reset_stats()
        return self

    def forget_machines(self) -> None:
        """No machine in MAAS."""
        for machine in self.maas("GET", "machines/").json():
            if machine["locked"]:
                self.op(machine["system_id"], "unlock")
            assert self.maas("DELETE", f"machines/{machine['system_id']}/").status_code == 204

    def maas(self, method: str, path: str, **more: Any) -> requests.Response:
        """A request past the product's client: for what the product never does."""
        consumer, token, secret = KEY.split(":")
        auth = OAuth1(consumer, "", token, secret, signature_method="PLAINTEXT")
        return requests.request(method, f"{self.url}/api/2.0/{path}", auth=auth, verify=self.ca, timeout=20, **more)

    def op(self, system_id: str, op: str, **data: Any) -> requests.Response:
        return self.maas("POST", f"machines/{system_id}/?op={op}", data=data)

    def client(self, **more: Any) -> MaasClient:
        return MaasClient(self.url, more.pop("api_key", KEY), self.ca, timeout=more.pop("timeout", 20), **more)

    def stats(self) -> dict[str, Any]:
        return dict(requests.get(f"{self.admin}/stats", timeout=10).json())

    def reset_stats(self) -> None:
        requests.post(f"{self.admin}/stats/reset", timeout=10)

    def fault(self, name: str, **body: Any) -> None:
        """A fault of MAAS."""
        assert requests.put(f"{self.admin}/faults/{name}", json=body, timeout=10).status_code == 200

    def bmc_fault(self, machine: str, name: str, on: bool = True, **parameters: Any) -> None:
        url = f"{self.bmc_admin}/machines/{machine}/faults/{name}"
        answer = requests.put(url, json=parameters, timeout=10) if on else requests.delete(url, timeout=10)
        assert answer.ok, answer.text

    def boot_from_network(self, name: str) -> None:
        """Somebody presses the power button of a machine that has nothing on its disk."""
        boot = {"Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}}
        assert self.redfish("PATCH", name, "", boot).ok
        assert self.reset(name, "On").ok

    def reset(self, name: str, kind: str) -> requests.Response:
        return self.redfish("POST", name, "/Actions/ComputerSystem.Reset", {"ResetType": kind})

    def redfish(self, method: str, name: str, path: str, body: dict[str, Any]) -> requests.Response:
        entry = next(m for m in self.lab["machines"] if m["name"] == name)
        url = f"https://{entry['bmc_address']}:8443/redfish/v1/Systems/System.Embedded.1{path}"
        return requests.request(method, url, json=body, auth=(USER, PASSWORD), verify=self.ca, timeout=20)

    def hardware(self, name: str) -> Hardware:
        entry = next(m for m in self.lab["machines"] if m["name"] == name)
        return Hardware(entry["index"], entry["service_tag"])

    def desired(self, **more: Any) -> list[Desired]:
        """The whole fleet, as discovery would give it."""
        found = []
        for entry in self.lab["machines"]:
            macs = tuple(nic.mac.lower() for nic in self.hardware(entry["name"]).nics)
            found.append(
                Desired(
                    name=entry["name"],
                    macs=macs,
                    pxe_mac=macs[0],
                    bmc_address=entry["bmc_address"],
                    bmc_port=8443,
                    bmc_username=USER,
                    bmc_password=PASSWORD,
                    description=f"rack r1 unit {entry['unit']} {entry['service_tag']}",
                    **more,
                )
            )
        return found

    def wanted(self, ids: dict[str, str], **more: Any) -> list[Wanted]:
        """Hosts to install. ids: system ids by name."""
        found = []
        for name, system_id in ids.items():
            hardware = self.hardware(name)
            disk = OsDisk(
                tuple(d.serial for d in hardware.os_disks), "BOSS", 2 * 10**11, tuple(d.serial for d in hardware.drives)
            )
            found.append(Wanted(name, system_id, disk, **more))
        return found

    def options(self, **more: Any) -> InstallOptions:
        minutes = {"commission_minutes": 0.5, "deploy_minutes": 0.5, "release_minutes": 0.3}
        return InstallOptions(**{"distro_series": "bookworm", "poll_seconds": 0.2, **minutes, **more})

    def by_name(self) -> dict[str, dict[str, Any]]:
        with self.client() as client:
            return {m["hostname"]: m for m in client.machines()}

    def wait_for(self, name: str, status: str, seconds: float = 20) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while True:
            machine = self.by_name().get(name)
            if machine and machine["status_name"] == status:
                return machine
            assert time.monotonic() < end, f"{name} is {machine and machine['status_name']}, not {status}"
            time.sleep(0.1)
