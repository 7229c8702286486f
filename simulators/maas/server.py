"""The two listeners: the region's API over TLS, and the lab's admin port (network boot, statistics, faults)."""

from __future__ import annotations

import asyncio
import email
import json
import logging
import os
import signal
import ssl
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web

from simulators import lab_files
from simulators.maas import forms, rack_api, routes, troubles
from simulators.maas.auth import Authenticator
from simulators.maas.region import Call, Region, Text
from simulators.maas.settings import Settings
from simulators.maas.status import ApiError

log = logging.getLogger("simulators.maas")
MARK = {"X-Simulator": "firstlight MAAS simulator"}
MAX_BODY = 8 * 1024 * 1024  # bytes of one request
FAULTS = ("slow", "failing", "no_rack", "no_images", "unreachable_rack", *troubles.FAULTS)


class Server:
    """Serves one region until it is told to stop."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.region = Region(settings)
        self.auth = Authenticator(settings.api_key)
        self.counts: Counter[str] = Counter()
        self.last: deque[dict[str, Any]] = deque(maxlen=500)

    # -- the region's API -----------------------------------------------------------------------------------------

    def api(self) -> web.Application:
        """The application behind https://.../MAAS/."""
        app = web.Application(middlewares=[self._around], client_max_size=MAX_BODY)
        for resource in routes.RESOURCES:
            app.router.add_route("*", f"/MAAS/api/2.0/{resource.path}", self._handler(resource))
        app.router.add_get("/MAAS/api/2.0/describe/", self._describe)
        app.router.add_post("/MAAS/accounts/authenticate/", self._authenticate)
        return app

    @web.middleware
    async def _around(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Faults, errors as MAAS answers them, and the record of what was asked."""
        faults = self.region.store.data["faults"]
        await asyncio.sleep(float(faults.get("slow", {}).get("seconds", 0)))
        answer: web.StreamResponse | None = self._failing(request, "before")
        if answer is None:
            try:
                answer = await handler(request)
            except ApiError as error:
                answer = _error_response(error)
            except web.HTTPException as error:
                answer = web.Response(status=error.status, text="Not Found" if error.status == 404 else error.reason)
            except Exception:
                log.exception("internal error of the simulator: %s %s", request.method, request.path)
                answer = web.Response(status=500, text="internal error of the simulator")
            answer = self._failing(request, "after") or answer
        answer.headers.update(MARK)
        op = request.query.get("op", "")
        self.counts["reads" if request.method == "GET" else "writes"] += 1
        self.counts[f"{request.method} {op}".strip()] += 1
        seen = {"method": request.method, "path": request.path, "op": op, "status": answer.status}
        # names alone: values are passwords too
        self.last.append({**seen, "fields": request.get("fields", []), "type": request.content_type})
        return answer

    def _failing(self, request: web.Request, when: str) -> web.Response | None:
        """The fault "failing": answer a status, or cut the connection, before or after the work was done.

        {"status": 503, "count": 1, "when": "after", "method": "POST", "op": "commission", "drop": true,
        "headers": {"Retry-After": "10"}}; all optional.
        """
        fault = self.region.store.data["faults"].get("failing")
        if fault is None or fault.get("when", "before") != when or fault.get("count", 1) < 1:
            return None
        if fault.get("method", request.method) != request.method:
            return None
        if fault.get("op", request.query.get("op", "")) != request.query.get("op", ""):
            return None
        fault["count"] = fault.get("count", 1) - 1
        if fault.get("drop") and request.transport is not None:
            request.transport.abort()
        headers = fault.get("headers")
        return web.Response(status=int(fault.get("status", 503)), text="fault: failing", headers=headers)

    def _handler(self, resource: routes.Resource) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            op = request.query.get("op")
            action = routes.find(resource, request.method, op)
            unrecognised = ApiError(400, f"Unrecognised signature: method={request.method} op={op}")
            header = request.headers.get("Authorization", "")
            user = ""
            if header:
                self.auth.check(header)
                user = self.settings.username
            elif not (action and action.anonymous):
                # Where MAAS has an anonymous handler, that one is asked, and it does not know this action.
                if resource.has_anonymous:
                    raise unrecognised
                raise ApiError(
                    401, "Authorization Error: 'No OAuth header'", {"WWW-Authenticate": 'OAuth realm="OAuth"'}
                )
            if action is None:
                raise unrecognised
            values: dict[str, list[str]] = {}
            if request.method in ("POST", "PUT"):
                values = await read_body(request)
            else:
                for name, value in request.query.items():
                    values.setdefault(name, []).append(value)
            request["fields"] = [name for name, texts in values.items() if name != "op" for _ in texts]
            call = Call(request.method, forms.Form(values), dict(request.match_info), user)
            return _response(await action.handler(self.region, call))

        return handle

    async def _describe(self, request: web.Request) -> web.Response:
        return _response(routes.describe(f"https://{request.host}/MAAS/api/2.0/"))

    async def _authenticate(self, request: web.Request) -> web.Response:
        form = forms.Form(await read_body(request))
        wanted = self.settings.username, self.settings.password
        if not self.settings.password or (form.get("username"), form.get("password")) != wanted:
            text = "Please enter a correct username and password. Note that both fields may be case-sensitive."
            raise ApiError(400, {"__all__": [text]})
        token = {"consumer_key": self.auth.consumer, "token_key": self.auth.token, "token_secret": self.auth.secret}
        return _response({"name": form.get("consumer"), **token})

    # -- the admin port -------------------------------------------------------------------------------------------

    def admin(self) -> web.Application:
        """The application of the lab's admin port; plain HTTP, loopback only."""
        app = web.Application(client_max_size=1024 * 1024)
        app.router.add_post("/pxe", self._pxe)
        app.router.add_get("/stats", self._stats)
        app.router.add_post("/stats/reset", self._stats_reset)
        app.router.add_get("/faults", self._faults)
        app.router.add_put("/faults/{name}", self._fault_on)
        app.router.add_delete("/faults/{name}", self._fault_off)
        app.router.add_put("/machines/{machine}/faults/{name}", self._machine_fault)
        app.router.add_delete("/machines/{machine}/faults/{name}", self._machine_fault)
        if self.settings.real_machines:
            app.router.add_routes(rack_api.routes(self.region))
        return app

    async def _pxe(self, request: web.Request) -> web.Response:
        try:
            body = await request.json()
            mac = str(body["mac"]).lower().replace("-", ":")
            service_tag = str(body.get("service_tag") or "")
        except (ValueError, KeyError, TypeError, AttributeError):
            mac = service_tag = ""
        if not forms.MAC.fullmatch(mac):
            return web.json_response({"error": 'wanted: {"mac": "aa:bb:...", "service_tag": "..."}'}, status=400)
        return web.json_response({"boot": self.region.life.pxe(mac, service_tag)}, headers=MARK)

    async def _stats(self, request: web.Request) -> web.Response:
        requests = {key: value for key, value in self.counts.items() if key not in ("reads", "writes")}
        body = {"reads": self.counts["reads"], "writes": self.counts["writes"], "requests": requests}
        return web.json_response({**body, "last": list(self.last)}, headers=MARK)

    async def _stats_reset(self, request: web.Request) -> web.Response:
        self.counts.clear()
        self.last.clear()
        return web.Response(status=204, headers=MARK)

    async def _faults(self, request: web.Request) -> web.Response:
        return web.json_response(self.region.store.data["faults"], headers=MARK)

    async def _fault_on(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in FAULTS:
            return web.json_response({"error": f"no fault {name!r}; there are {', '.join(FAULTS)}"}, status=404)
        try:
            body = json.loads(await request.text() or "{}")
        except ValueError:
            body = None
        if not isinstance(body, dict):
            return web.json_response({"error": "the body must be a JSON object"}, status=400)
        self.region.store.data["faults"][name] = body
        self.region.store.save()
        return web.json_response({name: body}, headers=MARK)

    async def _fault_off(self, request: web.Request) -> web.Response:
        self.region.store.data["faults"].pop(request.match_info["name"], None)
        self.region.store.save()
        return web.Response(status=204, headers=MARK)

    async def _machine_fault(self, request: web.Request) -> web.Response:
        """A fault of one machine, beside those that have it already."""
        name, machine = request.match_info["name"], request.match_info["machine"]
        if name not in troubles.FAULTS:
            known = ", ".join(troubles.FAULTS)
            return web.json_response({"error": f"no fault {name!r}; there are {known}"}, status=404, headers=MARK)
        faults = self.region.store.data["faults"]
        machines = set(faults.pop(name, {}).get("machines", [])) - {machine}
        if request.method == "PUT":
            machines.add(machine)
        if machines:
            faults[name] = {"machines": sorted(machines)}
        self.region.store.save()
        return web.Response(status=204, headers=MARK)

    # -- running --------------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Listen until SIGTERM or SIGINT; prints one line when ready."""
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopped.set)
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(self.settings.lab_dir / "tls" / "maas.pem")
        runners = []
        pid = self.settings.lab_dir / "pid" / "maas.pid"
        try:
            for app, (host, port), context in (
                (self.api(), self.settings.listen, tls),
                (self.admin(), self.settings.admin, None),
            ):
                runner = web.AppRunner(app, access_log=None, shutdown_timeout=2)
                runners.append(runner)
                await runner.setup()
                await web.TCPSite(runner, host, port, ssl_context=context).start()
            lab_files.write_atomic(pid, f"{os.getpid()}\n")
            work = loop.create_task(self.region.life.run())
            host, port = self.settings.listen
            print(f"simulated MAAS region ready: https://{host}:{port}/MAAS/", flush=True)
            await stopped.wait()
            work.cancel()
            await self.region.life.stop()
        finally:
            for runner in runners:
                await runner.cleanup()
            pid.unlink(missing_ok=True)


async def read_body(request: web.Request) -> dict[str, list[str]]:
    """The fields of a form, multipart or JSON body: every value as text, lists as several values."""
    values: dict[str, list[str]] = {}
    kind = request.content_type
    if kind == "application/json":
        try:
            body = json.loads(await request.text() or "{}")
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise ApiError(400, "Invalid JSON body")
        for name, value in body.items():
            items = value if isinstance(value, list) else [value]
            values[name] = [_text(item) for item in items if item is not None]
    elif kind.startswith("multipart/"):
        head = f"Content-Type: {request.headers['Content-Type']}\r\n\r\n".encode()
        message = email.message_from_bytes(head + await request.read())
        for part in message.walk():
            name = part.get_param("name", header="content-disposition")
            content = part.get_payload(decode=True)
            if isinstance(name, str) and isinstance(content, bytes):
                values.setdefault(name, []).append(content.decode("utf-8", "replace"))
    else:
        for name, value in parse_qsl((await request.read()).decode("utf-8", "replace"), keep_blank_values=True):
            values.setdefault(name, []).append(value)
    return values


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value) if isinstance(value, (dict, list)) else str(value)


def _response(value: Any) -> web.Response:
    if isinstance(value, Text):
        return web.Response(status=value.status, text=value.text if value.status != 204 else None)
    return web.json_response(value)


def _error_response(error: ApiError) -> web.Response:
    if isinstance(error.body, dict):
        return web.json_response(error.body, status=error.status, headers=error.headers)
    return web.Response(status=error.status, text=error.body, headers=error.headers)
