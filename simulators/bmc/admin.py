"""The lab's own door to the simulated BMCs, on loopback, without TLS: faults, disks, counters."""

from __future__ import annotations

import datetime
import json
from typing import Any

from aiohttp import web

from simulators.bmc import errors, faults
from simulators.bmc.hardware import REPLACEABLE
from simulators.bmc.service import Bmc, Service

DISK_KEYS = ("hostname", "address", "image", "user_data", "root")
_SERVICE = web.AppKey("service", Service)


def application(service: Service) -> web.Application:
    """Return the admin API; simulators/README.md describes it."""
    app = web.Application(client_max_size=4 * 1024**2)
    app[_SERVICE] = service
    app.add_routes(
        [
            web.get("/machines", machines),
            web.get("/machines/{name}", machine),
            web.get("/machines/{name}/requests", requests),
            web.put("/machines/{name}/faults/{fault}", fault_on),
            web.delete("/machines/{name}/faults/{fault}", fault_off),
            web.post("/machines/{name}/repair", repair),
            web.post("/machines/{name}/parts/{part}/replace", replace_part),
            web.put("/machines/{name}/disk", disk_write),
            web.delete("/machines/{name}/disk", disk_erase),
            web.post("/machines/{name}/reboot", reboot),
        ]
    )
    return app


def _refuse(status: int, message: str) -> web.HTTPException:
    kinds = {400: web.HTTPBadRequest, 404: web.HTTPNotFound, 409: web.HTTPConflict}
    return kinds[status](text=json.dumps({"error": message}), content_type="application/json")


def _bmc(request: web.Request) -> Bmc:
    bmcs = request.app[_SERVICE].bmcs
    name = request.match_info["name"]
    if name not in bmcs:
        raise _refuse(404, f"no machine {name!r}; there are {', '.join(sorted(bmcs))}")
    return bmcs[name]


def _fault(request: web.Request) -> str:
    name = request.match_info["fault"]
    if name not in faults.FAULTS:
        raise _refuse(404, f"no fault {name!r}; there are {', '.join(faults.FAULTS)}")
    return name


async def _body(request: web.Request) -> dict[str, Any]:
    if not request.can_read_body:
        return {}
    try:
        body = await request.json()
    except ValueError:
        raise _refuse(400, "the body must be a JSON object") from None
    if not isinstance(body, dict):
        raise _refuse(400, "the body must be a JSON object")
    return body


def describe(bmc: Bmc) -> dict[str, Any]:
    """Return what the admin API says about a machine: its public state, boot settings, counters."""
    machine = bmc.machine
    return machine.public() | {
        "booting": machine.booting,
        "running": machine.running,
        "bmc": machine.phase,
        "boot": machine.boot,
        "counters": machine.counters | {"sessions_open": len(bmc.access.sessions())},
    }


async def machines(request: web.Request) -> web.Response:
    """GET /machines: all of them, by name."""
    return web.json_response({name: describe(bmc) for name, bmc in request.app[_SERVICE].bmcs.items()})


async def machine(request: web.Request) -> web.Response:
    """GET /machines/NAME."""
    return web.json_response(describe(_bmc(request)))


async def requests(request: web.Request) -> web.Response:
    """GET /machines/NAME/requests: the last requests to this BMC, without anything secret."""
    return web.json_response(_bmc(request).machine.recent())


async def fault_on(request: web.Request) -> web.Response:
    """PUT /machines/NAME/faults/FAULT, parameters in an optional JSON body."""
    bmc, name = _bmc(request), _fault(request)
    try:
        values = faults.parameters(name, await _body(request))
    except faults.FaultError as error:
        raise _refuse(400, str(error)) from None
    await bmc.set_fault(name, values)
    return web.json_response(describe(bmc))


async def fault_off(request: web.Request) -> web.Response:
    """DELETE /machines/NAME/faults/FAULT: fine too when it was off."""
    bmc, name = _bmc(request), _fault(request)
    await bmc.set_fault(name, None)
    return web.json_response(describe(bmc))


async def repair(request: web.Request) -> web.Response:
    """POST /machines/NAME/repair: all faults off."""
    bmc = _bmc(request)
    for name in list(bmc.machine.faults):
        await bmc.set_fault(name, None)
    return web.json_response(describe(bmc))


async def replace_part(request: web.Request) -> web.Response:
    """POST /machines/NAME/parts/PART/replace: a new part, without the faults of the old one."""
    bmc, part = _bmc(request), request.match_info["part"]
    if part not in REPLACEABLE:
        raise _refuse(404, f"no part {part!r}; there are {', '.join(REPLACEABLE)}")
    for fault, (parameter, number) in REPLACEABLE[part].items():
        if bmc.machine.fault_number(fault, parameter) == number:
            await bmc.set_fault(fault, None)
    await bmc.replace(part)
    return web.json_response(describe(bmc))


async def disk_write(request: web.Request) -> web.Response:
    """PUT /machines/NAME/disk: what an installer wrote; it starts at the next boot from disk."""
    bmc, body = _bmc(request), await _body(request)
    for key in body:
        if key not in (*DISK_KEYS, "installed_at"):
            raise _refuse(400, f"a disk has no {key!r}; it has {', '.join(DISK_KEYS)}")
    for key in ("hostname", "address", "image"):
        if not isinstance(body.get(key), str) or not body[key]:
            raise _refuse(400, f"a disk needs {key} (text)")
    if bmc.machine.power != "On":
        raise _refuse(409, f"{bmc.machine.name} is off: no installer can run on it")
    when = body.get("installed_at") or datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    bmc.machine.disk = {key: body.get(key) for key in DISK_KEYS} | {"installed_at": when}
    bmc.machine.changed()
    return web.json_response(describe(bmc))


async def disk_erase(request: web.Request) -> web.Response:
    """DELETE /machines/NAME/disk: nothing to boot any more; what runs, runs on."""
    bmc = _bmc(request)
    bmc.machine.disk = None
    bmc.machine.changed()
    return web.json_response(describe(bmc))


async def reboot(request: web.Request) -> web.Response:
    """POST /machines/NAME/reboot: the host reboots by itself, as an installer does at its end."""
    bmc = _bmc(request)
    try:
        bmc.power.reboot()
    except errors.RedfishError:
        raise _refuse(409, f"{bmc.machine.name} is off: it cannot reboot") from None
    return web.json_response(describe(bmc))
