"""Wait until hosts answer on SSH: MAAS says Deployed before they do."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Mapping

from ..findings import Finding, shorten

TRY_SECONDS = 5.0
AT_ONCE = 128


def wait_for_ssh(
    targets: Mapping[str, tuple[str, int]], minutes: float, poll_seconds: float = 2.0
) -> dict[str, Finding | None]:
    """Wait for the SSH banner of many hosts at once. targets: name -> (address, port).

    Gives None for each host that answered, else the finding ``install.no_ssh``.
    """

    async def all_of_them() -> list[Finding | None]:
        at_once = asyncio.Semaphore(AT_ONCE)
        deadline = time.monotonic() + minutes * 60
        waits = (_one(a, p, deadline, minutes, poll_seconds, at_once) for a, p in targets.values())
        return await asyncio.gather(*waits)

    return dict(zip(targets, asyncio.run(all_of_them()), strict=True))


async def _one(
    address: str, port: int, deadline: float, minutes: float, poll_seconds: float, at_once: asyncio.Semaphore
) -> Finding | None:
    while True:
        async with at_once:
            problem = await _banner(address, port)
        if problem is None:
            return None
        if time.monotonic() + poll_seconds > deadline:
            evidence = f"no SSH at {address} port {port} within {minutes:g} minutes: {problem}"
            return Finding("ssh", "fail", "install.no_ssh", f"{address}:{port}", evidence, "reboot")
        await asyncio.sleep(poll_seconds)


async def _banner(address: str, port: int) -> str | None:
    """None when an SSH server greets, else what happened instead."""
    writer = None
    try:
        async with asyncio.timeout(TRY_SECONDS):
            reader, writer = await asyncio.open_connection(address, port)
            line = await reader.readuntil(b"\n")
        if line.startswith(b"SSH-"):
            return None
        return f"something else answers there: {shorten(line.decode('utf-8', 'replace'), 60)}"
    except TimeoutError:
        return "no answer" if writer is None else "connected, but no SSH greeting"
    except asyncio.IncompleteReadError:
        return "connected, but closed without an SSH greeting"
    except (asyncio.LimitOverrunError, ValueError):
        return "something that is not SSH answers there"
    except OSError as error:
        return os.strerror(error.errno) if error.errno else shorten(str(error), 100)
    finally:
        if writer is not None:
            writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                await asyncio.wait_for(writer.wait_closed(), 1)
