"""Measured by bmc_discovery.py: a bare aiohttp loop that makes the requests that it is told, and keeps no answer."""

from __future__ import annotations

import asyncio
import json
import ssl
import sys

import aiohttp
from bench_fleet import PASSWORD, USER, Stopwatch, address
from yarl import URL


async def ask(session: aiohttp.ClientSession, gate: asyncio.Semaphore, base: str, plan: list[tuple[str, str]]) -> int:
    """All requests of one BMC, one after the other; the bytes that came."""
    headers: dict[str, str] = {}
    location, size = "", 0
    async with gate:
        for method, path in plan:
            url = URL(base + (location if method == "DELETE" else path), encoded=True)
            body = {"UserName": USER, "Password": PASSWORD} if method == "POST" else None
            async with session.request(method, url, json=body, headers=headers) as response:
                content = await response.read()
                assert response.status < 300, (method, path, response.status)
                json.loads(content or b"{}")
                size += len(content)
                if method == "POST":
                    headers = {"X-Auth-Token": response.headers["X-Auth-Token"]}
                    location = response.headers["Location"]
    return size


async def main() -> None:
    order = json.load(sys.stdin)
    plan = [(str(method), str(path)) for method, path in order["plan"]]
    watch = Stopwatch()
    context = ssl.create_default_context(cafile=order["ca_file"])
    gate = asyncio.Semaphore(order["in_flight"])
    connector = aiohttp.TCPConnector(ssl=context, limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        bases = [f"https://{address(n)}:{order['port']}" for n in range(1, order["count"] + 1)]
        sizes = await asyncio.gather(*(ask(session, gate, base, plan) for base in bases))
    print(json.dumps({**watch.read(), "bytes": sum(sizes)}))


asyncio.run(main())
