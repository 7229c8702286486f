"""The smallest BMCs that the MAAS simulator can drive: they know just what a power driver needs.

simulators/bmc has the real simulation.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import threading
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from simulators import lab_files

USER, PASSWORD = "root", "bmc-password-01"
BASIC = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


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
