"""Redfish over TLS: one listener a BMC, one handler for all of them."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import ssl
import time
import weakref
from pathlib import Path
from typing import Any

from aiohttp import web

from simulators import lab_files
from simulators.bmc import (
    actions,
    errors,
    faults,
    tree,
    tree_chassis,
    tree_compute,
    tree_manager,
    tree_storage,
    tree_system,
)
from simulators.bmc.access import Access
from simulators.bmc.machine import Machine
from simulators.bmc.power import Power, World

logger = logging.getLogger("simulators.bmc")
_TREES = (tree_system, tree_compute, tree_storage, tree_chassis, tree_manager)  # importing them fills the tree
SESSIONS = f"{tree.ROOT}/SessionService/Sessions"
OPEN_PATHS = ("/redfish", tree.ROOT)
SAVE_SECONDS = 5


class Bmc:
    """One BMC at work: its machine, its sessions, its power, and its listener, which can be shut and opened."""

    def __init__(self, machine: Machine, world: World) -> None:
        """Prepare; `open` starts to listen."""
        self.machine = machine
        self.access = Access(machine)
        self.power = Power(machine, world)
        self.woken = asyncio.Event()  # set, and replaced, when a fault is switched
        self._transports: weakref.WeakSet[asyncio.Transport] = weakref.WeakSet()
        self._certificate = world.lab_dir / "tls" / f"{machine.name}.pem"
        self._protocol: Any = None
        self._listener: asyncio.Server | None = None
        self._restart: asyncio.Task[None] | None = None

    @functools.cached_property
    def _tls(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._certificate)
        return context

    async def open(self, protocol: Any = None) -> None:
        """Listen, unless a fault or a restart of the BMC forbids it."""
        self._protocol = protocol or self._protocol
        if self._listener is None and not self.machine.has("unreachable") and self.machine.phase != "away":
            host, port = self.machine.address
            loop = asyncio.get_running_loop()
            self._listener = await loop.create_server(self._protocol, host, port, ssl=self._tls, backlog=128)

    def shut(self) -> None:
        """Stop listening and drop every connection."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        self.drop()

    def drop(self) -> None:
        """Drop every connection."""
        for transport in list(self._transports):
            transport.abort()

    def seen(self, transport: asyncio.Transport) -> None:
        """Remember a connection."""
        self._transports.add(transport)

    async def set_fault(self, name: str, values: dict[str, float] | None) -> None:
        """Switch a fault on (its parameters) or off (None), with what that means for connections and logs."""
        machine = self.machine
        known = name in machine.faults
        if values is None:
            machine.faults.pop(name, None)
        else:
            machine.faults[name] = values
            if not known and name == "psu_failed":
                psu = str(int(values["psu"]))
                machine.record("PSU0001", f"Power supply {psu} failed.", (psu,), "Critical", "SystemHealth")
            if not known and name == "nvme_failed":
                bay = str(int(values["drive"]))
                machine.record("PDR1001", f"Fault detected on drive {bay}.", (bay,), "Critical", "Storage")
        machine.changed()
        woken, self.woken = self.woken, asyncio.Event()
        woken.set()
        if machine.has("unreachable"):
            self.shut()
        else:
            await self.open()

    def restart(self) -> None:
        """Restart the BMC, not the server: away for a while, then not ready, then empty, then as before."""
        if self._restart is None or self._restart.done():
            self._restart = asyncio.create_task(self._restarting())

    async def _restarting(self) -> None:
        machine = self.machine
        seconds = float(machine.settings.get("restart_seconds", 6))
        machine.record("RAC0182", "The iDRAC firmware was rebooted with the following reason: user initiated.")
        await asyncio.sleep(0.1)  # let the answer to the request out
        machine.phase = "away"
        self.access.forget()
        self.shut()
        await asyncio.sleep(seconds / 2)
        machine.phase = "starting"
        await self.open()
        await asyncio.sleep(seconds / 4)
        machine.phase = "empty"
        await asyncio.sleep(seconds / 4)
        machine.phase = "ready"
        machine.changed()


class Service:
    """All BMCs of a lab."""

    def __init__(self, lab_dir: Path, lab: lab_files.Lab) -> None:
        """Load every machine's state. LabError when lab.json holds what cannot be."""
        self.world = World(lab_dir, lab)
        self.bmcs: dict[str, Bmc] = {}
        self._by_address: dict[tuple[str, int], Bmc] = {}
        for entry in lab["machines"]:
            try:
                machine = Machine(lab_dir, lab, entry)
            except faults.FaultError as error:
                raise lab_files.LabError(f"{lab_dir / 'lab.json'}: machine {entry['name']}: {error}") from None
            bmc = Bmc(machine, self.world)
            if machine.address in self._by_address:
                host, port = machine.address
                raise lab_files.LabError(f"{lab_dir / 'lab.json'}: machine {machine.name}: {host}:{port} is used twice")
            self.bmcs[machine.name] = bmc
            self._by_address[machine.address] = bmc
        # A client that goes away ends its request: a hanging BMC must not collect them.
        self._server = web.Server(self.handle, handler_cancellation=True, keepalive_timeout=60, access_log=None)
        self._saver: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen on every BMC's address, and go on with boots that were interrupted."""
        await self.world.open()
        for bmc in self.bmcs.values():
            if bmc.machine.unsaved:
                bmc.machine.save()
            await bmc.open(self._server)
            bmc.power.resume()
        self._saver = asyncio.create_task(self._save_now_and_then())

    async def stop(self) -> None:
        """Close every listener, let hooks finish, and save."""
        if self._saver is not None:
            self._saver.cancel()
        for bmc in self.bmcs.values():
            bmc.shut()
        await asyncio.gather(*(bmc.power.settle(20) for bmc in self.bmcs.values()))
        await self._server.shutdown(1)
        await self.world.close()
        self._save()

    def _save(self) -> None:
        for bmc in self.bmcs.values():
            if bmc.machine.unsaved:
                bmc.machine.save()

    async def _save_now_and_then(self) -> None:
        """Counters change with each request; they need not be on disk at once."""
        while True:
            await asyncio.sleep(SAVE_SECONDS)
            self._save()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request to one BMC."""
        transport = request.transport
        if transport is None:
            return web.Response(status=503)
        bmc = self._by_address[transport.get_extra_info("sockname")[:2]]
        bmc.seen(transport)
        machine = bmc.machine
        machine.counters["requests"] += 1
        machine.unsaved = True
        path = request.path.rstrip("/") or "/"
        client = str(transport.get_extra_info("peername")[0])
        session_path = path == SESSIONS or path.startswith(f"{SESSIONS}/") or path == f"{tree.ROOT}/Sessions"
        if request.method not in ("GET", "HEAD") and not session_path:
            machine.counters["writes"] += 1
        if machine.has("hangs"):
            self._note(machine, request, client, 0)
            await self._hang(bmc)
            transport.abort()
            return web.Response(status=503)
        await asyncio.sleep(
            float(machine.settings.get("latency", 0)) + float(machine.faults.get("slow", {}).get("seconds", 0))
        )
        try:
            response = await self._respond(bmc, request, path, client)
        except errors.RedfishError as error:
            response = answer(error.status, error.body())
        except web.HTTPException as error:  # a body that is too large
            response = web.Response(status=error.status)
        self._note(machine, request, client, response.status)
        return response

    @staticmethod
    def _note(machine: Machine, request: web.BaseRequest, client: str, status: int) -> None:
        machine.requests.append(
            {
                "time": round(time.time(), 3),
                "client": client,
                "method": request.method,
                "path": request.path_qs[:200],
                "status": status,
            }
        )

    @staticmethod
    async def _hang(bmc: Bmc) -> None:
        while bmc.machine.has("hangs"):
            await bmc.woken.wait()

    async def _respond(self, bmc: Bmc, request: web.BaseRequest, path: str, client: str) -> web.Response:
        machine = bmc.machine
        method = request.method
        if path == f"{tree.ROOT}/Sessions":
            path = SESSIONS  # where iDRAC8 has them
        if path == SESSIONS and method == "POST":
            return self._login(bmc, await read(request), client)
        if not (path in OPEN_PATHS and method in ("GET", "HEAD")):
            bmc.access.check(request.headers.get("X-Auth-Token"), request.headers.get("Authorization"), client)
        if path.startswith(SESSIONS):
            return self._sessions(bmc, method, path)
        if path not in OPEN_PATHS and (machine.has("not_ready") or machine.phase == "starting"):
            raise errors.not_ready(int(machine.faults.get("not_ready", {}).get("seconds", 30)))
        if method in ("GET", "HEAD"):
            body = tree.answer(machine, path, request.query_string)
            return answer(200, body, {"ETag": body["@odata.etag"]} if "@odata.etag" in body else None)
        done = actions.act(bmc.machine, bmc.power, bmc.restart, method, path, await read(request), request.headers)
        return answer(done.status, done.body, done.headers)

    @staticmethod
    def _login(bmc: Bmc, body: dict[str, Any], client: str) -> web.Response:
        for name in ("UserName", "Password"):
            if name not in body:
                raise errors.missing(name)
        token, session = bmc.access.login(body["UserName"], body["Password"], client)
        path = f"{SESSIONS}/{session.number}"
        return answer(201, session_body(path, session.user, client), {"X-Auth-Token": token, "Location": path})

    @staticmethod
    def _sessions(bmc: Bmc, method: str, path: str) -> web.Response:
        number = path[len(SESSIONS) + 1 :]
        if method == "DELETE" and number:
            if not bmc.access.logout(number):
                raise errors.not_found(path)
            return answer(200, errors.success())
        if method not in ("GET", "HEAD"):
            raise errors.method_not_allowed()
        sessions = {str(session.number): session for session in bmc.access.sessions()}
        if not number:
            return answer(200, tree.collection(bmc.machine, SESSIONS, "Session", "Session Collection", sessions))
        if number not in sessions:
            raise errors.not_found(path)
        return answer(200, session_body(path, sessions[number].user, sessions[number].client))


def session_body(path: str, user: str, client: str) -> dict[str, Any]:
    """Return the resource of one session."""
    return tree.head(path, "Session", "v1_6_0", "User Session") | {
        "ClientOriginIPAddress": client,
        "Password": None,
        "SessionType": "Redfish",
        "UserName": user,
    }


async def read(request: web.BaseRequest) -> dict[str, Any]:
    """Return a request's body; RedfishError when it is not a JSON object, {} when there is none."""
    text = await request.read()
    if not text:
        return {}
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        raise errors.malformed() from None
    if not isinstance(body, dict):
        raise errors.malformed()
    return body


def answer(status: int, body: dict[str, Any] | None, headers: dict[str, str] | None = None) -> web.Response:
    """Return a response in iDRAC's dress; its Server header says that it is a simulation."""
    every = {
        "Server": "Firstlight simulated BMC",
        "OData-Version": "4.0",
        "Cache-Control": "no-cache",
        **(headers or {}),
    }
    if body is None:
        return web.Response(status=status, headers=every)
    return web.json_response(body, status=status, headers=every)
