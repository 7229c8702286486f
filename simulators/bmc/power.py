"""The electrical life of a simulated server: power, resets, boots, and what runs on it afterwards."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp

from simulators.bmc import bios, errors, parts, update
from simulators.bmc.machine import Machine

logger = logging.getLogger("simulators.bmc")
PROJECT = Path(__file__).resolve().parents[2]  # where "python -m simulators.host" finds its module
PXE_TRIES = 3
PXE_ANSWERS = ("enlist", "commission", "install", "local", "none")
HOOK_SECONDS = 300


def process_of(folder: Path) -> int | None:
    """The process whose id, and start in the kernel's count, are in qemu.pid; None when it does not run."""
    try:
        pid, started = (folder / "qemu.pid").read_text().split()
        fields = Path(f"/proc/{int(pid)}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    return int(pid) if fields[0] != "Z" and fields[19] == started else None


class World:
    """What all machines of a lab share: MAAS's PXE door, and the command that runs a server's host."""

    def __init__(self, lab_dir: Path, lab: dict[str, Any]) -> None:
        """Read the addresses and the hook from lab.json."""
        self.lab_dir = lab_dir
        admin = lab.get("maas", {}).get("admin")
        self.pxe_url = f"http://{admin}/pxe" if admin else None
        self.hook: list[str] = list(lab.get("bmc", {}).get("hook", [sys.executable, "-m", "simulators.host"]))
        self.real: bool = bool(
            lab.get("bmc", {}).get("real")
        )  # the hook is a machine: nothing of its boots is simulated
        self.hook_slots = asyncio.Semaphore(int(lab.get("bmc", {}).get("hook_limit", 4)))
        self.client: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Make the HTTP client."""
        self.client = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10))

    async def close(self) -> None:
        """Close the HTTP client."""
        if self.client is not None:
            await self.client.close()


class Power:
    """Power and boots of one machine. Only one boot is under way at a time; a reset ends the one before."""

    def __init__(self, machine: Machine, world: World) -> None:
        """Nothing happens until a reset, or `resume`."""
        self._machine = machine
        self._world = world
        self._boot_task: asyncio.Task[None] | None = None
        self._hook_task: asyncio.Task[None] | None = None
        self._generation = 0  # counts power changes: an older boot must not start a host
        self._tasks: set[asyncio.Task[Any]] = set()

    def resume(self) -> None:
        """After a restart of the simulator: go on with a boot that it interrupted, see that the host still runs."""
        if self._machine.power != "On":
            return
        if self._machine.booting:
            self._start_boot()
        elif self._machine.running == "disk":
            self._run_hook("on")  # does nothing to a host that runs; one that the lab's end stopped is back

    def reset(self, kind: str) -> None:
        """Do a ComputerSystem.Reset. RedfishError when the power state does not allow it."""
        machine = self._machine
        on = machine.power == "On"
        if kind == "PushPowerButton":
            kind = "GracefulShutdown" if on else "On"
        if kind == "On":
            if on:
                raise errors.already_on()
            self._power_on()
        elif not on:
            raise errors.already_off()
        elif kind == "ForceOff":
            self._power_off()
        elif kind == "GracefulShutdown":
            machine.record("SYS1002", "System is performing a graceful shutdown.", category="SystemHealth")
            if machine.running:  # with nothing running, nobody hears the power button
                self._keep(self._shut_down())
        elif kind in ("ForceRestart", "GracefulRestart", "PowerCycle"):
            self.reboot()
        elif kind == "Nmi":
            machine.record("NMI0001", "A non-maskable interrupt was sent to the host.", category="SystemHealth")
        machine.changed()

    def reboot(self) -> None:
        """Start a boot on a server that is on; RedfishError when it is off."""
        if self._machine.power != "On":
            raise errors.already_off()
        self._machine.record("SYS1003", "System CPU Resetting.", category="SystemHealth")
        self._start_boot()

    async def settle(self, seconds: float) -> None:
        """At the end of the simulator: drop the boot, let a hook that runs come to its end."""
        if self._boot_task is not None:
            self._boot_task.cancel()
        if self._hook_task is not None and not self._hook_task.done():
            await asyncio.wait([self._hook_task], timeout=seconds)

    def _power_on(self) -> None:
        self._machine.power = "On"
        self._machine.record("SYS1000", "System is turning on.", category="SystemHealth")
        self._start_boot()

    def _power_off(self, hook: bool = True) -> None:
        self._generation += 1
        if self._boot_task is not None:
            self._boot_task.cancel()
        machine = self._machine
        machine.power, machine.booting, machine.running = "Off", False, None
        machine.record("SYS1001", "System is turning off.", category="SystemHealth")
        if hook:
            self._run_hook("off")

    async def _shut_down(self) -> None:
        if self._world.real:
            await asyncio.shield(self._run_hook("press"))
            return
        generation = self._generation
        await asyncio.shield(self._run_hook("off"))
        if generation == self._generation and self._machine.power == "On":
            self._power_off(hook=False)
            self._machine.changed()

    def _start_boot(self) -> None:
        self._generation += 1
        if self._boot_task is not None:
            self._boot_task.cancel()
        machine = self._machine
        machine.booting, machine.running, machine.reset_at = True, None, time.time()
        machine.changed()
        self._boot_task = self._keep(self._boot())

    async def _boot(self) -> None:
        machine = self._machine
        await asyncio.shield(self._run_hook("off"))
        await asyncio.sleep(float(machine.settings.get("boot_seconds", 2)))
        bios.apply(machine)
        update.apply(machine)
        machine.boots += 1
        sources = self._sources()
        if machine.boot["enabled"] == "Once":
            machine.boot.update(enabled="Disabled", target="None")
        machine.changed()
        machine.last_boot = None
        if self._world.real:
            await self._boot_real(sources)
            return
        for source in sources:
            answer = await self._pxe() if source == "pxe" else "local"
            if answer in ("enlist", "commission", "install"):
                machine.running = "network"
            elif answer == "local" and machine.disk is not None:
                machine.running = "disk"
            elif source == "disk" or answer == "none":
                continue  # nothing there: the next one
            machine.last_boot = source
            break
        machine.booting = False
        machine.changed()
        logger.info("%s: boot %d: %s, runs %s", machine.name, machine.boots, machine.last_boot, machine.running)
        if machine.running == "disk":
            await asyncio.shield(self._run_hook("on"))

    async def _boot_real(self, sources: list[str]) -> None:
        """Start a machine whose own firmware boots, from these sources in this order."""
        machine = self._machine
        firmware = "bios" if machine.bios_value("BootMode") == "Bios" else "uefi"
        usable = [source for source in sources if source != "pxe" or parts.can_pxe(machine)]
        machine.running = "machine"
        await asyncio.shield(self._run_hook("on", firmware, *usable))
        machine.booting = False
        machine.changed()
        logger.info("%s: boot %d: %s, %s", machine.name, machine.boots, firmware, ", ".join(usable))

    def observe(self) -> None:
        """Where a process is the machine: see whether it still runs. A system that shut itself down has ended it."""
        machine = self._machine
        if self._world.real and machine.power == "On" and not machine.booting and not process_of(machine.folder):
            self._power_off(hook=False)
            machine.changed()

    def _sources(self) -> list[str]:
        """What this boot tries, in order: the override first, if there is one, then the boot order."""
        boot = self._machine.boot
        order = ["pxe" if option == "Boot0000" else "disk" for option in boot["order"]]
        override = {"Pxe": "pxe", "Hdd": "disk"}.get(boot["target"]) if boot["enabled"] != "Disabled" else None
        return [override, *(source for source in order if source != override)] if override else order

    async def _pxe(self) -> str:
        """Ask the network what to boot; "none" too when the BIOS does not PXE, or the boot NIC has no network."""
        machine = self._machine
        if not parts.can_pxe(machine):
            return "none"
        if self._world.pxe_url is None or self._world.client is None:
            return "none"
        body = {"mac": parts.nics(machine)[0].mac.lower(), "service_tag": machine.hardware.service_tag}
        for attempt in range(PXE_TRIES):
            try:
                async with self._world.client.post(self._world.pxe_url, json=body) as response:
                    answer = (await response.json()).get("boot")
                    if response.status == 200 and answer in PXE_ANSWERS:
                        return str(answer)
                    logger.warning("%s: PXE answer %s %r is none", machine.name, response.status, answer)
            except (aiohttp.ClientError, TimeoutError, ValueError, AttributeError) as error:
                logger.warning("%s: PXE try %d: %s", machine.name, attempt + 1, error or "no answer in time")
            await asyncio.sleep(1)
        return "none"

    def _keep(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("%s: failed", self._machine.name, exc_info=task.exception())

    def _run_hook(self, verb: str, *words: str) -> asyncio.Task[None]:
        """Run the hook after the one before it has finished; "on" only if the power has not changed until then."""
        before, generation = self._hook_task, self._generation

        async def run() -> None:
            if before is not None and not before.done():
                await asyncio.wait([before])
            if verb == "on" and (generation != self._generation or self._machine.power != "On"):
                return
            async with self._world.hook_slots:
                await self._execute(verb, *words)

        self._hook_task = self._keep(run())
        return self._hook_task

    async def _execute(self, verb: str, *words: str) -> None:
        name = self._machine.name
        path = self._world.lab_dir / "log" / f"{name}.hook.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as log:
            log.write(f"{time.strftime('%F %T')} {verb} {name}\n".encode())
            log.flush()
            try:
                process = await asyncio.create_subprocess_exec(
                    *self._world.hook,
                    verb,
                    name,
                    *words,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=PROJECT,
                    env=os.environ | {"FIRSTLIGHT_LAB_DIR": str(self._world.lab_dir)},
                    start_new_session=True,
                )
            except OSError as error:
                logger.error("%s: hook %s: %s", name, self._world.hook[0], error.strerror)
                return
            try:
                code = await asyncio.wait_for(process.wait(), HOOK_SECONDS)
            except TimeoutError:
                process.kill()
                code = await process.wait()
        if code:
            logger.warning("%s: hook %s ended with %d, see %s", name, verb, code, path)
