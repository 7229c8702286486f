"""A small lab for tests of the MAAS simulator: the simulator as a process, and the smallest BMCs that it can drive.

The fake BMCs know just what a power driver needs; simulators/bmc has the real simulation.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import aiohttp
import requests
from aiohttp import web
from requests.adapters import HTTPAdapter

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:  # the simulators are no installed package
    sys.path.insert(0, str(ROOT))

from simulators import lab_files  # noqa: E402

KEY = "consumer01:token01:secret01"
USER, PASSWORD = "root", "bmc-password-01"
BASIC = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
_nonces = itertools.count()


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


class FakeBmcs:
    """All machines of the lab: power, one-time boot, three disks, and what their admin port does to them."""

    def __init__(self, lab_dir: Path, lab: dict[str, Any]) -> None:
        self.lab_dir, self.lab = lab_dir, lab
        self.machines = {
            entry["name"]: {"power": "Off", "once": None, "disk": None, "boots": 0, "last_boot": None, "pxe": []}
            for entry in lab["machines"]
        }
        self.broken: dict[str, int] = {}  # machine -> status that every request gets; 0: nobody listens
        self.slow: dict[str, float] = {}  # machine -> seconds before every answer
        self.no_network: set[str] = set()
        self.requests: list[tuple[str, str, str]] = []
        self.loop = asyncio.new_event_loop()
        self._boots: dict[str, asyncio.Task[None]] = {}
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self._runners: list[web.AppRunner] = []
        self.call(self._start())

    def call(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(20)

    def mac(self, name: str) -> str:
        index = next(entry["index"] for entry in self.lab["machines"] if entry["name"] == name)
        return f"02:00:00:00:01:{index:02x}"

    async def _start(self) -> None:
        for entry in self.lab["machines"]:
            tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            tls.load_cert_chain(self.lab_dir / "tls" / f"{entry['name']}.pem")
            await self._listen(self._redfish(entry["name"]), entry["bmc_address"], self.lab["bmc"]["port"], tls)
        app = web.Application()
        app.router.add_put("/machines/{name}/disk", self._put_disk)
        app.router.add_delete("/machines/{name}/disk", self._delete_disk)
        app.router.add_post("/machines/{name}/reboot", self._reboot)
        await self._listen(app, *lab_files.split_address(self.lab["bmc"]["admin"]), None)

    async def _listen(self, app: web.Application, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, host, port, ssl_context=tls).start()
        self._runners.append(runner)

    def stop(self) -> None:
        async def cleanup() -> None:
            for name in self.machines:
                self._end_boot(name)
            for runner in self._runners:
                await runner.cleanup()

        self.call(cleanup())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)

    def _redfish(self, name: str) -> web.Application:
        system = "/redfish/v1/Systems/System.Embedded.1"
        disks = [("BOSS", 480, "OS1", "SATA"), ("Disk.0", 3840, "N0", "NVMe"), ("Disk.1", 3840, "N1", "NVMe")]
        drive = {
            f"{system}/Storage/1/Drives/{ident}": {
                "Id": ident,
                "Model": f"Model {ident}",
                "SerialNumber": f"{name}-{serial}",
                "CapacityBytes": size * 10**9,
                "Protocol": protocol,
            }
            for ident, size, serial, protocol in disks
        }
        tree: dict[str, Any] = {
            "/redfish/v1/Systems": {"Members": [{"@odata.id": system}]},
            f"{system}/Storage": {"Members": [{"@odata.id": f"{system}/Storage/1"}]},
            f"{system}/Storage/1": {"Id": "1", "Drives": [{"@odata.id": path} for path in drive]},
            f"{system}/EthernetInterfaces": {"Members": [{"@odata.id": f"{system}/EthernetInterfaces/NIC.1"}]},
            f"{system}/EthernetInterfaces/NIC.1": {"Id": "NIC.1", "MACAddress": self.mac(name).upper()},
            **drive,
        }

        async def handle(request: web.Request) -> web.StreamResponse:
            machine = self.machines[name]
            self.requests.append((name, request.method, request.path))
            await asyncio.sleep(self.slow.get(name, 0))
            if name in self.broken:
                if not self.broken[name] and request.transport:
                    request.transport.abort()
                return web.Response(status=self.broken[name] or 500)
            if request.headers.get("Authorization") != BASIC:
                return web.Response(status=401)
            if request.path == system and request.method == "GET":
                processors = {"LogicalProcessorCount": 192}
                memory = {"TotalSystemMemoryGiB": 2048}
                body = {"PowerState": machine["power"], "ProcessorSummary": processors, "MemorySummary": memory}
                return web.json_response(body, headers={"ETag": '"1"'})
            if request.path == system and request.method == "PATCH":
                machine["once"] = (await request.json())["Boot"]["BootSourceOverrideTarget"]
                return web.Response(status=204)
            if request.path.endswith("/Actions/ComputerSystem.Reset"):
                kind = (await request.json())["ResetType"]
                if kind == "On" and machine["power"] == "On":
                    return web.Response(status=409)
                machine["power"] = "Off" if kind == "ForceOff" else "On"
                if kind == "On":
                    self._boot(name)
                else:
                    self._end_boot(name)
                return web.Response(status=204)
            if request.path in tree and request.method == "GET":
                return web.json_response(tree[request.path])
            return web.Response(status=404)

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handle)
        return app

    def _boot(self, name: str) -> None:
        """A new boot ends the one before."""
        self._end_boot(name)
        self._boots[name] = self.loop.create_task(self._booted(name))

    def _end_boot(self, name: str) -> None:
        if name in self._boots:
            self._boots.pop(name).cancel()

    def off(self) -> None:
        """All machines as they were at first."""

        async def work() -> None:
            for name, machine in self.machines.items():
                self._end_boot(name)
                machine.update(power="Off", once=None, disk=None, pxe=[])

        self.call(work())

    async def _booted(self, name: str) -> None:
        """Network first when told so once; else the disk, when something is on it."""
        machine = self.machines[name]
        await asyncio.sleep(0.05)
        once, machine["once"] = machine["once"], None
        machine["boots"] += 1
        machine["last_boot"] = "pxe" if once == "Pxe" or machine["disk"] is None else "disk"
        self._write(name)
        if machine["last_boot"] == "pxe" and name not in self.no_network:
            machine["pxe"].append(await self._pxe(name))

    def _write(self, name: str) -> None:
        state = {key: self.machines[name][key] for key in ("power", "boots", "last_boot", "disk")}
        lab_files.write_json(self.lab_dir / "machines" / name / "state.json", state)

    async def _pxe(self, name: str) -> str:
        tag = next(entry["service_tag"] for entry in self.lab["machines"] if entry["name"] == name)
        url = f"http://{self.lab['maas']['admin']}/pxe"
        async with aiohttp.ClientSession() as session:
            try:
                async with session.post(url, json={"mac": self.mac(name), "service_tag": tag}) as answer:
                    return str((await answer.json())["boot"])
            except aiohttp.ClientError:
                return "unreachable"

    async def _put_disk(self, request: web.Request) -> web.Response:
        self.machines[request.match_info["name"]]["disk"] = await request.json()
        return web.Response(status=204)

    async def _delete_disk(self, request: web.Request) -> web.Response:
        self.machines[request.match_info["name"]]["disk"] = None
        return web.Response(status=204)

    async def _reboot(self, request: web.Request) -> web.Response:
        self._boot(request.match_info["name"])
        return web.Response(status=204)

    def press_power(self, name: str, pxe: bool = True) -> None:
        """What somebody else does to the machine, past MAAS."""

        async def work() -> None:
            self.machines[name].update(power="On", once="Pxe" if pxe else None)
            self._boot(name)

        self.call(work())


class Lab:
    """One lab: BMCs, and a region that can be stopped and started again."""

    def __init__(self, lab_dir: Path, network: int, machines: int = 6, real_bmcs: bool = False, **maas: Any) -> None:
        self.lab_dir = lab_dir
        net = f"127.{network}"
        self.lab = {
            "bmc": {
                "port": 8443,
                "admin": f"{net}.0.1:8450",
                "username": USER,
                "password": PASSWORD,
                "latency": 0,
                "boot_seconds": 0.1,
                "hook": ["true"],
            },
            "maas": {
                "listen": f"{net}.0.2:5443",
                "admin": f"{net}.0.2:5450",
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
                    "bmc_address": f"{net}.1.{i}",
                }
                for i in range(1, machines + 1)
            ],
        }
        lab_files.write_json(lab_dir / "lab.json", self.lab)
        self.ca = lab_files.make_certificates(lab_dir, self.lab)
        self.bmc_process = self._run("simulators.bmc", "simulated BMCs ready") if real_bmcs else None
        if not real_bmcs:
            self.bmcs = FakeBmcs(lab_dir, self.lab)
        self.url = f"https://{net}.0.2:5443/MAAS/"
        self.admin_url = f"http://{net}.0.2:5450"
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
