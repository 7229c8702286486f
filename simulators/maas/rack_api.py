"""The region's door for a rack controller that boots real machines: what the machine's own systems report.

Only with "real_machines" in lab.json's "maas": commissioning then ends when the machine has reported, an installation
when the image is on its disk and the installed system has fetched its user data. Without, the region plays all that.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Awaitable, Callable

from aiohttp import web

from simulators.maas import machines as mm
from simulators.maas import scripts
from simulators.maas import status as st
from simulators.maas.region import Region
from simulators.maas.store import Machine

Handler = Callable[[web.Request], Awaitable[web.Response]]
MAX_DISKS = 64


def routes(region: Region) -> list[web.RouteDef]:
    """For the admin port; all paths are /rack/MAC/..."""
    door = _Door(region)
    return [
        web.get("/rack/{mac}/deployment", door.deployment),
        web.get("/rack/{mac}/scripts", door.script_names),
        web.get("/rack/{mac}/scripts/{name}", door.script),
        web.post("/rack/{mac}/scripts/{name}", door.output),
        web.post("/rack/{mac}/commissioned", door.commissioned),
        web.post("/rack/{mac}/installed", door.installed),
        web.post("/rack/{mac}/booted", door.booted),
        web.post("/rack/{mac}/failed", door.failed),
    ]


class _Door:
    def __init__(self, region: Region) -> None:
        self.region = region
        self.life = region.life

    def _machine(self, request: web.Request, kinds: tuple[str, ...]) -> Machine:
        """The machine with this MAC, while it has a job of one of these kinds; else 404 or 409."""
        machine = self.region.store.by_mac(request.match_info["mac"].lower())
        if machine is None:
            raise web.HTTPNotFound(text="no machine has this MAC")
        if (machine["job"] or {}).get("kind") not in kinds:
            raise web.HTTPConflict(text=f"nothing of this kind is under way: {st.LABELS[machine['status']]}")
        return machine

    async def deployment(self, request: web.Request) -> web.Response:
        """What is to be written where: hostname, address, serial of the root disk, user data as text."""
        machine = self._machine(request, ("deploy",))
        root = next((disk for disk in machine["disks"] if disk["id"] == (machine["layout"] or {}).get("root")), None)
        body = {
            "system_id": machine["system_id"],
            "hostname": machine["hostname"],
            "address": machine["interfaces"][0]["link"]["ip_address"],
            "distro_series": machine["distro_series"],
            "serial": root["serial"] if root else None,
            "user_data": base64.b64decode(machine["user_data"] or "").decode("utf-8", "replace"),
        }
        return web.json_response(body)

    def _texts(self, request: web.Request) -> dict[str, str]:
        kind = self._machine(request, ("commission", "enlist"))["job"]["kind"]
        return scripts.commissioning_scripts(self.region.store) if kind == "commission" else {}

    async def script_names(self, request: web.Request) -> web.Response:
        """The names of the scripts that a machine which is commissioned runs."""
        return web.json_response(sorted(self._texts(request)))

    async def script(self, request: web.Request) -> web.Response:
        """One of them."""
        text = self._texts(request).get(request.match_info["name"])
        if text is None:
            raise web.HTTPNotFound(text="no such commissioning script")
        return web.Response(text=text)

    async def output(self, request: web.Request) -> web.Response:
        """What came of one: {"status": its exit status, "stdout": text}."""
        machine = self._machine(request, ("commission",))
        body = await request.json()
        outputs = machine["job"].setdefault("outputs", {})
        outputs[request.match_info["name"]] = [int(body["status"]), str(body["stdout"])]
        return self._done(machine)

    async def commissioned(self, request: web.Request) -> web.Response:
        """What the machine found in itself: {"cpu_count", "memory", "disks", "nics"}, as power.Bmc.inventory gives it.

        Its disks have names beside: those that the kernel gave them this time.
        """
        machine = self._machine(request, ("commission", "enlist"))
        found = await request.json()
        mm.learn(self.region.store, machine, found | {"disks": found["disks"][:MAX_DISKS]})
        job, machine["job"] = machine["job"], None
        if job["kind"] == "commission":
            outputs = {name: (status, text) for name, (status, text) in job.get("outputs", {}).items()}
            scripts.finish(self.life.settings, self.region.store, machine, outputs)
        self.life.commissioning_ended(machine, job["kind"])
        return self._done(machine)

    async def installed(self, request: web.Request) -> web.Response:
        """The image is on the disk; the machine reboots by itself."""
        machine = self._machine(request, ("deploy",))
        for event in ("Configuring OS", "Installation complete", "Rebooting"):
            self.life.event(machine, event)
        machine["netboot"] = False
        machine["job"].update(phase="wait_local", deadline=time.time() + self.life.settings.node_timeout)
        return self._done(machine)

    async def booted(self, request: web.Request) -> web.Response:
        """The installed system asks for its user data: now the machine counts as deployed."""
        machine = self._machine(request, ("deploy",))
        machine["job"].update(phase="booting", until=time.time())
        return self._done(machine)

    async def failed(self, request: web.Request) -> web.Response:
        """The machine's own system could not do what it was told; the body says why, as text."""
        machine = self._machine(request, ("commission", "enlist", "deploy"))
        kind = "Installation" if machine["job"]["kind"] == "deploy" else "Commissioning"
        self.life.mark_failed(machine, f"{kind} failed: {(await request.text())[:500].strip()}")
        return self._done(machine)

    def _done(self, machine: Machine) -> web.Response:
        self.region.store.save()
        return web.json_response({"status": st.LABELS[machine["status"]]})
