"""The rack controller of real machines: dnsmasq for DHCP and TFTP, HTTP for the rest; the simulated region decides.

python -m simulators.vm.rack --lab-dir DIR, in the network namespace of the lab. Prints "simulated rack ready" when it
listens, ends on SIGTERM, and takes dnsmasq with it.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from simulators import lab_files
from simulators.lab_files import LabError
from simulators.vm import machine as vm
from simulators.vm import scripts

log = logging.getLogger("simulators.vm.rack")
IPXE = Path("/usr/lib/ipxe")
HTTP_PORT = 8080
MAX_BODY = 4 * 1024 * 1024  # bytes that a machine may send at once
FILES = ("vmlinuz", "initrd.zst", "disk.zst", "local.efi")


class Rack:
    """Answers machines; asks the region over its admin port."""

    def __init__(self, lab_dir: Path, lab: lab_files.Lab) -> None:
        self.lab_dir = lab_dir
        self.settings: dict[str, Any] = lab["vm"]
        self.region = f"http://{lab['maas']['admin']}"
        self.url = f"http://{self.settings['address']}:{HTTP_PORT}"
        self.client: aiohttp.ClientSession | None = None
        self.seeds: dict[str, dict[str, Any]] = {}  # what was installed, by MAC

    def application(self) -> web.Application:
        """The HTTP side."""
        app = web.Application(client_max_size=MAX_BODY)
        app.add_routes(
            [
                web.get("/ipxe/{mac}", self.ipxe),
                web.get("/scripts/{mac}", self.scripts),
                web.get("/script/{mac}", self.script),
                web.post("/output/{mac}", self.output),
                web.post("/commissioned/{mac}", self.commissioned),
                web.get("/deployment/{mac}", self.deployment),
                web.get("/meta-data/{mac}", self.meta_data),
                web.post("/installed/{mac}", self.installed),
                web.post("/failed/{mac}", self.failed),
                web.get("/seed/{mac}/{what}", self.seed),
                *(web.get(f"/{name}", self.file) for name in FILES),
            ]
        )
        return app

    async def ask(self, method: str, path: str, body: Any = None, text: str | None = None) -> Any:
        """One question to the region; its JSON, or None for an empty answer. HTTPBadGateway when it refuses."""
        if self.client is None:
            self.client = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20))
        async with self.client.request(method, self.region + path, json=body, data=text) as answer:
            if answer.status >= 400:
                raise web.HTTPBadGateway(text=f"the region answers {answer.status}: {await answer.text()}")
            return await answer.json() if answer.content_type == "application/json" else await answer.text()

    # -- booting --------------------------------------------------------------------------------------------------

    async def ipxe(self, request: web.Request) -> web.Response:
        """The script of one machine's boot."""
        mac, serial = _mac(request), request.query.get("serial", "")
        platform = request.query.get("platform", "")
        boot = (await self.ask("POST", "/pxe", {"mac": mac, "service_tag": serial}))["boot"]
        log.info("%s %s (%s): network boot: %s", mac, serial, platform, boot)
        return web.Response(text=scripts.answer(boot, self.url, platform, vm.DATA_DRIVES + 1))

    async def file(self, request: web.Request) -> web.StreamResponse:
        """Kernel, initrd, and the disk's image."""
        path = Path(self.settings["image"]) / request.path.strip("/")
        return web.FileResponse(path, headers={"Content-Type": "application/octet-stream"})

    # -- commissioning --------------------------------------------------------------------------------------------

    async def scripts(self, request: web.Request) -> web.Response:
        """The names of the commissioning scripts that the region holds, one a line."""
        names = await self.ask("GET", f"/rack/{_mac(request)}/scripts")
        return web.Response(text="".join(f"{name}\n" for name in names))

    async def script(self, request: web.Request) -> web.Response:
        """One of these scripts."""
        text = await self.ask("GET", f"/rack/{_mac(request)}/scripts/{_name(request)}")
        return web.Response(text=text)

    async def output(self, request: web.Request) -> web.Response:
        """What a script printed."""
        status = request.query.get("status", "")
        if not re.fullmatch(r"[0-9]{1,3}", status):
            raise web.HTTPBadRequest(text="the script's exit status is wanted")
        body = {"status": int(status), "stdout": (await request.read()).decode("utf-8", "replace")}
        await self.ask("POST", f"/rack/{_mac(request)}/scripts/{_name(request)}", body)
        return web.Response()

    async def commissioned(self, request: web.Request) -> web.Response:
        """What a machine found in itself."""
        text = await request.text()
        log.info("%s: commissioned: %s", _mac(request), text.strip().replace("\n", "; "))
        await self.ask("POST", f"/rack/{_mac(request)}/commissioned", found_in(text))
        return web.Response()

    async def failed(self, request: web.Request) -> web.Response:
        """Why a machine could not do what it should."""
        text = (await request.text())[:2000]
        log.warning("%s: %s", _mac(request), text.strip())
        await self.ask("POST", f"/rack/{_mac(request)}/failed", text=text)
        return web.Response()

    # -- installing -----------------------------------------------------------------------------------------------

    async def deployment(self, request: web.Request) -> web.Response:
        """What the installer must know: a word and its value a line."""
        mac = _mac(request)
        found = await self.ask("GET", f"/rack/{mac}/deployment")
        self.seeds[mac] = found
        return web.Response(text=f"serial {found['serial'] or ''}\nhostname {found['hostname']}\n")

    async def meta_data(self, request: web.Request) -> web.Response:
        """For the new disk: who the machine is, and where cloud-init fetches the rest."""
        mac = _mac(request)
        return web.Response(text=f"{self._identity(mac)}seedfrom: {self.url}/seed/{mac}/\n")

    async def installed(self, request: web.Request) -> web.Response:
        """The image is on the disk."""
        log.info("%s: installed", _mac(request))
        await self.ask("POST", f"/rack/{_mac(request)}/installed")
        return web.Response()

    async def seed(self, request: web.Request) -> web.Response:
        """What the installed system's cloud-init asks for. The first time, its installation is over with that."""
        mac, what = _mac(request), request.match_info["what"]
        found = self.seeds.get(mac)
        if found is None or what not in ("meta-data", "user-data", "vendor-data"):
            raise web.HTTPNotFound()
        if what == "meta-data":
            return web.Response(text=self._identity(mac))
        if what == "vendor-data":
            return web.Response(text="")
        if not found.get("fetched"):
            found["fetched"] = time.time()
            log.info("%s: cloud-init fetches its user data", mac)
            await self.ask("POST", f"/rack/{mac}/booted")
        return web.Response(text=found["user_data"])

    def _identity(self, mac: str) -> str:
        found = self.seeds.get(mac)
        if found is None:
            raise web.HTTPNotFound()
        return f"instance-id: {found['system_id']}\nlocal-hostname: {found['hostname']}\n"

    # -- running --------------------------------------------------------------------------------------------------

    def dnsmasq(self, hosts: dict[str, str]) -> list[str]:
        """Its command line. hosts: an address by MAC, one for all that asks with it (firmware, iPXE, the systems)."""
        folder = self.lab_dir / "rack"
        return [
            "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--user=root",
            f"--interface={self.settings['bridge']}", "--bind-interfaces", "--log-dhcp",
            f"--log-facility={self.lab_dir / 'log' / 'dnsmasq.log'}", f"--dhcp-leasefile={folder / 'leases'}",
            f"--pid-file={folder / 'dnsmasq.pid'}", f"--dhcp-range={self.settings['range']},1h", "--dhcp-ignore-clid",
            *(f"--dhcp-host={mac},{address}" for mac, address in hosts.items()),
            "--enable-tftp", f"--tftp-root={folder / 'tftp'}",
            # client architectures of RFC 4578 and its registry: 7 and 9 are UEFI on x86-64
            "--dhcp-match=set:efi,option:client-arch,7", "--dhcp-match=set:efi,option:client-arch,9",
            "--dhcp-userclass=set:ipxe,iPXE",
            "--dhcp-boot=tag:!ipxe,tag:efi,ipxe.efi", "--dhcp-boot=tag:!ipxe,tag:!efi,undionly.kpxe",
            "--dhcp-boot=tag:ipxe,boot.ipxe",
        ]  # fmt: skip

    async def serve(self, hosts: dict[str, str]) -> None:
        """Serve until SIGTERM or SIGINT. LabError when dnsmasq ends by itself."""
        tftp = self.lab_dir / "rack" / "tftp"
        tftp.mkdir(parents=True, exist_ok=True)
        for name in ("ipxe.efi", "undionly.kpxe"):
            (tftp / name).write_bytes((IPXE / name).read_bytes())
        (tftp / "boot.ipxe").write_text(scripts.first(self.url))
        stopped = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        runner = web.AppRunner(self.application(), access_log=log)
        dhcp = await asyncio.create_subprocess_exec(*self.dnsmasq(hosts), stdin=subprocess.DEVNULL)
        try:
            await runner.setup()
            await web.TCPSite(runner, self.settings["address"], HTTP_PORT).start()
            ended = asyncio.create_task(dhcp.wait())
            stop = asyncio.create_task(stopped.wait())
            print(f"simulated rack ready: {self.url}", flush=True)
            await asyncio.wait((ended, stop), return_when=asyncio.FIRST_COMPLETED)
            if not stop.done():
                raise LabError(f"dnsmasq ended with status {ended.result()}; see {self.lab_dir / 'log'}")
        finally:
            if dhcp.returncode is None:
                dhcp.terminate()
                await dhcp.wait()
            if self.client is not None:
                await self.client.close()
            await runner.cleanup()


def found_in(text: str) -> dict[str, Any]:
    """What init.sh's commissioning wrote, for the region. Lines that are none of its are left out."""
    found: dict[str, Any] = {"cpu_count": 0, "memory": 0, "disks": [], "nics": []}
    for line in text.splitlines():
        word, *rest = line.split()[:4] or [""]
        if word == "disk" and len(rest) == 3 and rest[2].isdigit():
            model = " ".join(line.split()[4:])
            disk = {"name": rest[0], "serial": rest[1], "size": int(rest[2]), "model": model}
            found["disks"].append(disk | {"nvme": rest[0].startswith("nvme")})
        elif word == "nic" and len(rest) == 2:
            found["nics"].append({"id": rest[0], "mac": rest[1].lower()})
        elif word in ("cpus", "memory") and rest and rest[0].isdigit():
            found[{"cpus": "cpu_count"}.get(word, word)] = int(rest[0])
    return found


def _mac(request: web.Request) -> str:
    mac = request.match_info["mac"].lower().replace("-", ":")
    if not re.fullmatch(r"([0-9a-f]{2}:){5}[0-9a-f]{2}", mac):
        raise web.HTTPNotFound()
    return mac


def _name(request: web.Request) -> str:
    name = request.query.get("name", "")
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,100}", name):
        raise web.HTTPBadRequest(text="the script's name is wanted")
    return name


def main() -> int:
    """Read the command line; 1 and one line on standard error when it cannot serve."""
    parser = argparse.ArgumentParser(prog="python -m simulators.vm.rack", description="A lab's rack controller.")
    parser.add_argument("--lab-dir", type=Path, required=True)
    lab_dir = parser.parse_args().lab_dir.resolve()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    try:
        lab = lab_files.load(lab_dir)
        servers = [vm.Server.of(lab_dir, lab, entry["name"]) for entry in lab["machines"]]
        first = lab["maas"]["first_address"].rpartition(".")
        hosts = {server.macs[0]: f"{first[0]}.{int(first[2]) + number}" for number, server in enumerate(servers)}
        asyncio.run(Rack(lab_dir, lab).serve(hosts))
    except (LabError, OSError) as error:
        print(f"simulators.vm.rack: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
