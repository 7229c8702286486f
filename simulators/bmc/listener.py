"""One simulated BMC at work: its listener, and what faults of the connection make of it."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import socket
import ssl
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

import trustme

from simulators import lab_files
from simulators.bmc.access import Access
from simulators.bmc.faults import Value
from simulators.bmc.machine import Machine
from simulators.bmc.power import Power, World

BACKLOG = 128
_CLOSED = ("unreachable", "refused")
_TLS = ("tls_wrong_name", "tls_other_ca", "tls_expired")
ELSEWHERE = "192.0.2.1"  # the address that a certificate for another BMC names


class _Mute(asyncio.Protocol):
    """Takes a connection and never says a word, not even TLS's."""

    def __init__(self, bmc: Bmc) -> None:
        self._bmc = bmc

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection, so that it can be dropped."""
        self._bmc.seen(transport)


class BlackHole:
    """An address that answers no connection attempt at all, as one without a host does.

    On loopback nothing can drop packets but a listener whose queue is full: it leaves each further SYN unanswered.
    """

    def __init__(self, host: str, port: int) -> None:
        """Listen, accept nothing, and fill the queue. OSError when the address is taken."""
        self._sockets = [socket.socket()]
        self._sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._sockets[0].bind((host, port))
        self._sockets[0].listen(0)
        for _ in range(2):
            filler = socket.socket()
            filler.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                filler.connect((host, port))
            self._sockets.append(filler)

    def close(self) -> None:
        """Give the address free."""
        for one in self._sockets:
            one.close()


class Bmc:
    """One BMC at work: its machine, its sessions, its power, and its listener, which can be shut and opened."""

    def __init__(self, machine: Machine, world: World, certificate: ssl.SSLContext | None = None) -> None:
        """Prepare; `open` starts to listen. certificate: a TLS context, if not that of the lab's machine."""
        self.machine = machine
        self.access = Access(machine)
        self.power = Power(machine, world)
        self.woken = asyncio.Event()  # set, and replaced, when a fault is switched
        self._world = world
        self._transports: weakref.WeakSet[asyncio.BaseTransport] = weakref.WeakSet()
        self._certificate = certificate
        self._protocol: Any = None
        self._listener: asyncio.Server | None = None
        self._hole: BlackHole | None = None
        self._mode = "closed"
        self._restart: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    def _wanted(self) -> str:
        """How it should listen now: closed, black_hole, mute, plain, or with one of the faulty certificates."""
        if self.machine.phase == "away" or any(self.machine.has(name) for name in _CLOSED):
            return "closed"
        for name in ("black_hole", "mute", *_TLS):
            if self.machine.has(name):
                return name
        return "plain"

    def _context(self, mode: str) -> ssl.SSLContext:
        if mode == "plain" and self._certificate is not None:
            return self._certificate
        context = server_context()
        if mode == "plain":
            context.load_cert_chain(self._world.lab_dir / "tls" / f"{self.machine.name}.pem")
            self._certificate = context
            return context
        host = self.machine.address[0]
        now = datetime.datetime.now(datetime.UTC)
        authority = lab_files.authority(self._world.lab_dir)
        if mode == "tls_other_ca":
            trustme.CA(organization_name="Somebody else (simulated)").issue_cert(host).configure_cert(context)
        elif mode == "tls_wrong_name":
            authority.issue_cert(ELSEWHERE, "another-bmc.example").configure_cert(context)
        else:
            begin, end = now - datetime.timedelta(days=400), now - datetime.timedelta(days=35)
            authority.issue_cert(host, not_before=begin, not_after=end).configure_cert(context)
        return context

    async def open(self, protocol: Any = None) -> None:
        """Listen as the faults, or a restart of the BMC, want it; nothing happens where that is so already."""
        self._protocol = protocol or self._protocol
        wanted = self._wanted()
        if wanted == self._mode:
            return
        self.shut()
        host, port = self.machine.address
        loop = asyncio.get_running_loop()
        if wanted == "black_hole":
            self._hole = BlackHole(host, port)
        elif wanted == "mute":
            self._listener = await loop.create_server(lambda: _Mute(self), host, port, backlog=BACKLOG)
        elif wanted != "closed":
            self._listener = await loop.create_server(
                self._protocol, host, port, ssl=self._context(wanted), backlog=BACKLOG
            )
        self._mode = wanted

    def shut(self) -> None:
        """Stop listening and drop every connection."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        if self._hole is not None:
            self._hole.close()
            self._hole = None
        self._mode = "closed"
        self.drop()

    def drop(self) -> None:
        """Drop every connection."""
        for transport in list(self._transports):
            if isinstance(transport, asyncio.Transport):
                transport.abort()

    def seen(self, transport: asyncio.BaseTransport) -> None:
        """Remember a connection."""
        self._transports.add(transport)

    async def set_fault(self, name: str, values: dict[str, Value] | None) -> None:
        """Switch a fault on (its parameters) or off (None), with what that means for connections and logs."""
        machine = self.machine
        known = name in machine.faults
        if values is None:
            machine.faults.pop(name, None)
            if known and name == "sel_critical":  # the one fault that is nothing but its entries
                machine.log = [entry for entry in machine.log if entry["message_id"] != "CPU0000"]
        else:
            machine.faults[name] = values
            if not known:
                machine.begin(name, values)
        machine.changed()
        woken, self.woken = self.woken, asyncio.Event()
        woken.set()
        await self.open()

    async def replace(self, part: str) -> None:
        """Put another part in. A new BMC knows no session, and has a certificate of its own, of the lab's CA."""
        self.machine.replace(part)
        if part != "bmc":
            return
        self.access.forget()
        self._certificate = None
        lab_files.issue(self._world.lab_dir, self.machine.name, self.machine.address[0])
        self.shut()
        await self.open()

    def restart(self, meanwhile: Callable[[], None] | None = None) -> None:
        """Restart the BMC, not the server: away for a while, then not ready, then empty, then as before.

        meanwhile: done while it is away, such as installing its new firmware.
        """
        if self._restart is None or self._restart.done():
            self._restart = asyncio.create_task(self._restarting(meanwhile))

    async def _restarting(self, meanwhile: Callable[[], None] | None) -> None:
        machine = self.machine
        seconds = float(machine.settings.get("restart_seconds", 6))
        machine.record("RAC0182", "The iDRAC firmware was rebooted with the following reason: user initiated.")
        await asyncio.sleep(0.1)  # let the answer to the request out
        machine.phase = "away"
        self.access.forget()
        self.shut()
        await asyncio.sleep(seconds / 2)
        if meanwhile is not None:
            meanwhile()
        machine.phase = "starting"
        await self.open()
        await asyncio.sleep(seconds / 4)
        machine.phase = "empty"
        await asyncio.sleep(seconds / 4)
        machine.phase = "ready"
        machine.changed()

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something in the background, until it ends or the simulator does."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        """At the end of the simulator: nothing more listens or runs."""
        self.shut()
        for task in (*self._tasks, *((self._restart,) if self._restart else ())):
            task.cancel()


def server_context() -> ssl.SSLContext:
    """Return a TLS context for a server, without session tickets: each client comes with a new one anyway."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.num_tickets = 0
    return context
