"""Faults of the answer itself: cut, doubled, of the wrong types, elsewhere, late, or without end.

They strike a share of the resources, always the same ones of a machine, and spare the service root, the sessions and
the way to the system unless the share is 100 %.
"""

from __future__ import annotations

import asyncio
import json
import random
import zlib
from typing import Any

from aiohttp import web

from simulators.bmc.machine import Machine
from simulators.bmc.tree import ROOT

Resource = dict[str, Any]

BODIES = ("wrong_types", "null_lists", "dead_members")  # what is done to the resource
BYTES = ("truncated_json", "doubled_json")  # what is done to the encoded answer
STREAMS = ("redirect", "cut_answer", "huge_answer", "late_answer")
ALL = (*BODIES, *BYTES, *STREAMS)
LATE_PERCENT = 10
ELSEWHERE = "https://192.0.2.1"
_LICENCE = (
    b'{"error":{"code":"Base.1.0.GeneralError","@Message.ExtendedInfo":[{"MessageId":"Base.1.0.InternalError",'
    b'"Message":"failed, No sufficient LICENSE for user to perform requested  operation."}]}}\n'
)


def any_of(machine: Machine) -> bool:
    """Say whether the machine has one of these faults."""
    return any(name in machine.faults for name in ALL)


def strikes(machine: Machine, fault: str, path: str) -> bool:
    """Say whether a fault strikes this resource."""
    if fault not in machine.faults:
        return False
    percent = float(machine.faults[fault].get("percent", LATE_PERCENT))
    if percent >= 100:
        return True
    if path in ("/redfish", ROOT) or (
        path.count("/") <= 4 and path.startswith((f"{ROOT}/Systems", f"{ROOT}/Managers"))
    ):
        return False
    return zlib.crc32(f"{machine.name} {fault} {path}".encode()) % 100 < percent


def body(machine: Machine, path: str, resource: Resource) -> Resource:
    """Return a resource as the faults leave it."""
    if strikes(machine, "dead_members", path) and isinstance(resource.get("Members"), list):
        dead = {"@odata.id": f"{path}/not-there"}
        resource = resource | {"Members": [*resource["Members"], dead]}
    if strikes(machine, "null_lists", path):
        resource = _without_lists(resource)
    if strikes(machine, "wrong_types", path):
        chance = random.Random(f"{machine.name}{path}")
        resource = {key: _other_type(value, chance, key) for key, value in resource.items()}
    return resource


def encoded(machine: Machine, path: str, content: bytes) -> bytes:
    """Return an encoded answer as the faults leave it."""
    if strikes(machine, "truncated_json", path):
        return content[: max(1, len(content) * 2 // 3)]
    if strikes(machine, "doubled_json", path):
        return _LICENCE + content
    return content


async def respond(machine: Machine, request: web.BaseRequest, path: str, response: web.Response) -> web.StreamResponse:
    """Return what is sent in place of a response; it may have been sent already."""
    if strikes(machine, "late_answer", path):
        await asyncio.sleep(float(machine.faults["late_answer"]["seconds"]))
    if strikes(machine, "redirect", path):
        return web.Response(
            status=307, headers={"Location": f"{ELSEWHERE}{path}", "Server": response.headers["Server"]}
        )
    if strikes(machine, "cut_answer", path):
        content = response.body if isinstance(response.body, bytes) else b""
        return await _send(request, [content[: len(content) // 2]], len(content))
    if strikes(machine, "huge_answer", path):
        size = int(machine.faults["huge_answer"]["megabytes"]) * 1024**2
        return await _send(request, _endless(size), size)
    return response


async def endless(request: web.BaseRequest, response: web.Response) -> web.StreamResponse:
    """Send a refusal as iDRAC8 does: its body never comes to an end."""
    stream = web.StreamResponse(status=response.status, headers={"Content-Type": "text/html"})
    stream.enable_chunked_encoding()
    await stream.prepare(request)
    if request.transport is not None:
        request.transport.close()
    return stream


def _endless(size: int) -> Any:
    head, block = b'{"Members": [], "Padding": "', b"A" * 262_144
    yield head
    for sent in range(len(head), size, len(block)):
        yield block[: size - sent]


async def _send(request: web.BaseRequest, chunks: Any, size: int) -> web.StreamResponse:
    """Send less than was promised, or very much, and drop the connection."""
    stream = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": str(size)})
    await stream.prepare(request)
    for chunk in chunks:
        await stream.write(chunk)
    if request.transport is not None:
        await asyncio.sleep(0.05)
        request.transport.close()
    return stream


def _without_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: None if isinstance(item, list) else _without_lists(item) for key, item in value.items()}
    return value


def _other_type(value: Any, chance: random.Random, key: str) -> Any:
    """Put a value of another type in place of about half of them."""
    if key == "@odata.id" or chance.random() < 0.4:
        return value
    if isinstance(value, dict):
        return [value] if chance.random() < 0.3 else {k: _other_type(v, chance, k) for k, v in value.items()}
    if isinstance(value, list):
        return {str(number): item for number, item in enumerate(value)} if chance.random() < 0.5 else "None"
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int | float):
        return chance.choice(["N/A", str(value), [value], -1e308, 1e308])
    if isinstance(value, str):
        return chance.choice([len(value), None, [value], {"value": value}, value * 50])
    return 0


def dumps(resource: Resource) -> bytes:
    """Encode a resource."""
    return json.dumps(resource, separators=(",", ":")).encode()
