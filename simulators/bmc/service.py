"""Redfish over TLS: one listener a BMC, one handler for all of them."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

from aiohttp import web

from simulators import lab_files
from simulators.bmc import captured, errors, faults, personality, support, tree, update, wire
from simulators.bmc.answers import Answers
from simulators.bmc.listener import Bmc
from simulators.bmc.machine import Machine
from simulators.bmc.power import World

__all__ = ["Bmc", "Service"]

SESSIONS = f"{tree.ROOT}/SessionService/Sessions"
OLD_SESSIONS = f"{tree.ROOT}/Sessions"
OPEN_PATHS = ("/redfish", tree.ROOT)
SAVE_SECONDS = 5
SAVE_AT_ONCE = 50  # machines whose counters and logs are written in one round
_HEADERS = {"Server": "Firstlight simulated BMC", "OData-Version": "4.0", "Cache-Control": "no-cache"}


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
                personality.check(machine)
            except faults.FaultError as error:
                raise lab_files.LabError(f"{lab_dir / 'lab.json'}: machine {entry['name']}: {error}") from None
            except lab_files.LabError as error:
                raise lab_files.LabError(f"{lab_dir / 'lab.json'}: {error}") from None
            self.add(Bmc(machine, self.world))
        self._answers = Answers()
        # A client that goes away ends its request: a hanging BMC must not collect them.
        self._server = web.Server(self.handle, handler_cancellation=True, keepalive_timeout=60, access_log=None)
        self._saver: asyncio.Task[None] | None = None

    def add(self, bmc: Bmc) -> None:
        """Take in one BMC. LabError when another one has its address."""
        machine = bmc.machine
        if machine.address in self._by_address:
            host, port = machine.address
            where = self.world.lab_dir / "lab.json"
            raise lab_files.LabError(f"{where}: machine {machine.name}: {host}:{port} is used twice")
        self.bmcs[machine.name] = bmc
        self._by_address[machine.address] = bmc

    async def start(self) -> None:
        """Listen on every BMC's address, and go on with boots that were interrupted."""
        await self.world.open()
        for bmc in self.bmcs.values():
            if bmc.machine.new:
                for name, values in bmc.machine.faults.items():
                    bmc.machine.begin(name, values)
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
            bmc.stop()
        await asyncio.gather(*(bmc.power.settle(20) for bmc in self.bmcs.values()))
        await self._server.shutdown(1)
        await self.world.close()
        for bmc in self.bmcs.values():
            if bmc.machine.unsaved:
                bmc.machine.save()

    async def _save_now_and_then(self) -> None:
        """Counters change with each request; they need not be on disk at once, nor all of them in one go."""
        while True:
            await asyncio.sleep(SAVE_SECONDS)
            waiting = [bmc.machine for bmc in self.bmcs.values() if bmc.machine.unsaved]
            for machine in waiting[:SAVE_AT_ONCE]:
                machine.save()
                await asyncio.sleep(0.01)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request to one BMC."""
        transport = request.transport
        if transport is None:
            return web.Response(status=503)
        bmc = self._by_address[transport.get_extra_info("sockname")[:2]]
        bmc.seen(transport)
        machine = bmc.machine
        bmc.power.observe()
        machine.counters["requests"] += 1
        machine.unsaved = True
        path = request.path.rstrip("/") or "/"
        client = str(transport.get_extra_info("peername")[0])
        if request.method not in ("GET", "HEAD") and not path.startswith((SESSIONS, OLD_SESSIONS)):
            machine.counters["writes"] += 1
        if machine.has("hangs"):
            self._note(machine, request, client, 0)
            await self._hang(bmc)
            transport.abort()
            return web.Response(status=503)
        delay = float(machine.settings.get("latency", 0))
        if machine.faults:
            delay += float(machine.faults.get("slow", {}).get("seconds", 0))
        await asyncio.sleep(delay)
        try:
            response = await self._respond(bmc, request, path, client)
        except errors.RedfishError as error:
            response = answer(error.status, error.body(dell=personality.of(machine).dell))
        except captured.AsItIs as found:
            response = web.Response(
                status=found.status, body=found.content, headers=_HEADERS, content_type="application/json"
            )
        except web.HTTPException as error:  # a body that is too large
            response = web.Response(status=error.status)
        self._note(machine, request, client, response.status)
        if response.status == 401 and machine.vendor == "dell-idrac8":
            return await wire.endless(request, response)
        if request.method == "GET" and response.status == 200 and machine.faults and wire.any_of(machine):
            return await wire.respond(machine, request, path, response)
        return response

    @staticmethod
    def _note(machine: Machine, request: web.BaseRequest, client: str, status: int) -> None:
        machine.requests.append((round(time.time(), 3), client, request.method, request.path_qs[:200], status))

    @staticmethod
    async def _hang(bmc: Bmc) -> None:
        while bmc.machine.has("hangs"):
            await bmc.woken.wait()

    async def _respond(self, bmc: Bmc, request: web.BaseRequest, path: str, client: str) -> web.Response:
        machine = bmc.machine
        method = request.method
        kind = personality.of(machine)
        if machine.has("blocked"):
            raise errors.blocked(int(machine.faults["blocked"]["status"]))
        if path == OLD_SESSIONS and kind.sessions == SESSIONS and kind.dell:
            path = SESSIONS  # iDRAC9 still knows where iDRAC8 had them
        if path == kind.sessions and method == "POST":
            return self._login(bmc, await read(request), client, kind.sessions)
        if not (path in OPEN_PATHS and method in ("GET", "HEAD")):
            authorization = request.headers.get("Authorization")
            token = request.headers.get("X-Auth-Token")
            bmc.access.check(token, authorization, client)
            if not token and machine.has("busy") and not machine.faults["busy"]["basic"]:
                raise errors.too_many_sessions()
        if path.startswith(kind.sessions):
            return self._sessions(bmc, method, path, kind.sessions)
        if path not in OPEN_PATHS and (machine.has("not_ready") or machine.phase == "starting"):
            fault = machine.faults.get("not_ready", {})
            raise errors.not_ready(int(fault.get("seconds", 30)), str(fault.get("code", "SYS518")))
        if method in ("GET", "HEAD"):
            if path == support.FILE and kind.dell:
                return web.Response(body=support.file(machine), headers=_HEADERS, content_type="application/zip")
            return self._get(machine, path, request.query_string)
        if method == "POST" and path in (update.MULTIPART, update.FIRMWARE, update.SIMPLE):
            return await self._update(bmc, request, path)
        done = kind.act(bmc, method, path, await read(request), request.headers)
        return answer(done.status, done.body, done.headers)

    def _get(self, machine: Machine, path: str, query: str) -> web.Response:
        if not machine.faults or not wire.any_of(machine):
            content, etag = self._answers.get(machine, path, query)
        else:
            body = wire.body(machine, path, personality.of(machine).answer(machine, path, query))
            etag = body.get("@odata.etag")
            content = wire.encoded(machine, path, wire.dumps(body))
        headers = _HEADERS | {"ETag": etag} if isinstance(etag, str) else _HEADERS
        made = support.made_by(machine, path)
        headers = headers | {"Location": made} if made else headers
        return web.Response(body=content, headers=headers, content_type="application/json", charset="utf-8")

    @staticmethod
    async def _update(bmc: Bmc, request: web.BaseRequest, path: str) -> web.Response:
        if path == update.FIRMWARE:
            identity = await update.push(bmc, request)
            return answer(201, errors.success(), {"Location": f"{update.FIRMWARE}/{identity}"})
        if path == update.MULTIPART:
            job = await update.multipart(bmc, request)
        else:
            job = update.simple(bmc, await read(request))
        return answer(202, errors.success(), {"Location": f"{update.TASKS}/{job}"})

    @staticmethod
    def _login(bmc: Bmc, body: dict[str, Any], client: str, sessions: str) -> web.Response:
        for name in ("UserName", "Password"):
            if name not in body:
                raise errors.missing(name)
        token, session = bmc.access.login(body["UserName"], body["Password"], client)
        path = f"{sessions}/{session.number}"
        return answer(201, session_body(path, session.user, client), {"X-Auth-Token": token, "Location": path})

    @staticmethod
    def _sessions(bmc: Bmc, method: str, path: str, place: str) -> web.Response:
        number = path[len(place) + 1 :]
        if method == "DELETE" and number:
            if not bmc.access.logout(number):
                raise errors.not_found(path)
            return answer(200, errors.success())
        if method not in ("GET", "HEAD"):
            raise errors.method_not_allowed()
        sessions = {str(session.number): session for session in bmc.access.sessions()}
        if not number:
            return answer(200, tree.collection(bmc.machine, place, "Session", "Session Collection", sessions))
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
    """Return a response; its Server header says that it is a simulation."""
    every = _HEADERS | (headers or {})
    if body is None:
        return web.Response(status=status, headers=every)
    return web.Response(
        status=status, body=wire.dumps(body), headers=every, content_type="application/json", charset="utf-8"
    )
