"""What happens to machines over time: commissioning, deploying, releasing, and what a network boot is answered.

A machine that something happens to has a job: {"kind", "phase", "until", "deadline"}, times in seconds since the
epoch. Jobs are part of the stored state and one loop moves them on, so a region that was killed goes on after its
restart. Work that talks to a BMC runs as one task per machine and can be repeated.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import aiohttp

from simulators import lab_files
from simulators.maas import machines as mm
from simulators.maas import scripts
from simulators.maas import status as st
from simulators.maas.power import Bmc, PowerError
from simulators.maas.settings import Settings
from simulators.maas.store import Machine, Store
from simulators.maas.switching import Switching
from simulators.maas.troubles import Troubles

log = logging.getLogger("simulators.maas")
TICK = 0.1  # seconds
# What a machine in this phase of its job is told when it boots from the network.
_PXE_ANSWERS = {"commission": "commission", "enlist": "commission", "erase": "commission", "deploy": "install"}


class Lifecycle(Switching):
    """Moves machines through their states."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self.settings = settings
        self.store = store
        self.troubles = Troubles(settings, store)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    # -- small helpers --------------------------------------------------------------------------------------------

    @property
    def has_rack(self) -> bool:
        """False while a fault has taken the rack controller away."""
        return not {"no_rack", "unreachable_rack"} & set(self.store.data["faults"])

    def event(self, machine: Machine, kind: str, text: str = "", user: str = "") -> None:
        """Record an event in MAAS's words."""
        level = st.EVENT_LEVELS.get(kind, "INFO")
        self.store.add_event(machine, kind, level, text, user)
        if level == "INFO":  # the list's status message is the last event of this level
            machine["status_message"] = f"{kind} - {text}" if text else kind

    def set_status(self, machine: Machine, new: int) -> None:
        """Change the status; remembers the old one for mark_fixed and abort."""
        old = machine["status"]
        if old == new:
            return
        machine["previous_status"] = old
        machine["status"] = new
        self.event(machine, "Node changed status", f"From '{st.LABELS[old]}' to '{st.LABELS[new]}'")
        log.info("%s: from %s to %s", machine["hostname"], st.LABELS[old], st.LABELS[new])

    def mark_failed(self, machine: Machine, text: str) -> None:
        """The running operation failed."""
        machine["job"] = None
        machine["error_description"] = text
        machine["status_message"] = text
        self.event(machine, "Marking node failed", text)
        self.set_status(machine, st.FAILED.get(int(machine["status"]), int(machine["status"])))

    def mark_timed_out(self, machine: Machine) -> None:
        """The machine was not heard of in time."""
        minutes = self.settings.node_timeout / 60
        self.mark_failed(
            machine, f"Node operation '{st.LABELS[machine['status']]}' timed out after {minutes:g} minutes."
        )

    def bmc(self, machine: Machine) -> Bmc:
        """A conversation with the machine's BMC."""
        faults = self.troubles.of(machine)
        return Bmc(
            machine["power_parameters"],
            self.settings.tls,
            self.settings.power_timeout,
            fails="driver_fails" in faults,
            sets_pxe="disk_first" not in faults,
        )

    def inside(self, machine: Machine) -> Bmc:
        """The machine as the system that runs on it sees it, whoever switches its power."""
        return Bmc(self.settings.bmc_login(machine), self.settings.tls, self.settings.power_timeout)

    def is_busy(self, machine: Machine) -> bool:
        """True while a task talks to the machine's BMC."""
        return machine["system_id"] in self._tasks

    def spawn(self, machine: Machine, work: Coroutine[Any, Any, None]) -> None:
        """Run work as this machine's only task."""
        system_id = machine["system_id"]

        async def guarded() -> None:
            try:
                await work
            except Exception:
                log.exception("%s: internal error of the simulator", machine["hostname"])
                self.mark_failed(machine, "internal error of the simulator")
            finally:
                self._tasks.pop(system_id, None)
                self.store.save()

        self._tasks[system_id] = asyncio.get_running_loop().create_task(guarded())

    def forget(self, machine: Machine) -> None:
        """The machine is deleted: whatever went on with it ends now, so that its successor is not switched by it."""
        machine["job"] = None
        task = self._tasks.get(machine["system_id"])
        if task is not None:
            task.cancel()

    # -- the loop -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Move jobs on, for ever."""
        while True:
            for machine in list(self.store.machines.values()):
                if machine["job"] and not self.is_busy(machine):
                    self._advance(machine, machine["job"])
            await asyncio.sleep(TICK)

    async def stop(self) -> None:
        """Cancel what is running; it is done again after a restart."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.store.save()

    def _advance(self, machine: Machine, job: dict[str, Any]) -> None:
        now = time.time()
        phase = job["phase"]
        if phase == "power":
            self.spawn(machine, self._power_on(machine, job))
        elif phase == "off":
            self.spawn(machine, self._power_off(machine, job))
        elif phase == "reboot":
            self.spawn(machine, self._reboot(machine, job))
        elif phase == "running" and now >= job["until"]:
            self.spawn(machine, self._finish(machine, job))
        elif phase == "wait_local" and self._booted_from_disk(machine, job):
            self._booting(job)
            self.store.save()
        elif phase == "booting" and now >= job["until"]:
            machine["job"] = None
            self.set_status(machine, st.DEPLOYED)
            self.event(machine, "Deployed")
            self.store.save()
        elif phase in ("wait_pxe", "wait_local", "stuck") and now >= job["deadline"]:
            self.mark_timed_out(machine)
            self.store.save()

    def start_job(self, machine: Machine, kind: str, phase: str, **more: Any) -> None:
        """Give the machine something to do, instead of what it did so far."""
        if kind in ("commission", "deploy", "erase") and phase == "power":
            self.event(machine, "Powering on")
            scripts.begin(self.store, machine, kind)
        machine["job"] = {"kind": kind, "phase": phase, "deadline": time.time() + self.settings.node_timeout, **more}

    # -- ends of phases -------------------------------------------------------------------------------------------

    async def _finish(self, machine: Machine, job: dict[str, Any]) -> None:
        if self.settings.real_machines:  # it should have reported (rack_api.py) before
            self.mark_timed_out(machine)
            return
        trouble = self.troubles.at_the_end(machine, job["kind"])
        if trouble is not None:
            for kind, text in trouble.events:
                self.event(machine, kind, text)
            self.mark_failed(machine, trouble.marked)
        elif job["kind"] == "deploy":
            await self._write_disk(machine, job)
        elif job["kind"] == "erase":
            await self._erase(machine, job)
        else:
            await self._commissioned(machine, job)

    async def _commissioned(self, machine: Machine, job: dict[str, Any]) -> None:
        name = self.settings.machine_name(machine)
        if name and self._lab_state(name).get("last_boot") == "disk":
            # Somebody restarted it meanwhile: the commissioning system is gone, and reports nothing any more.
            job["phase"] = "wait_pxe"
            return
        if name:
            try:
                async with self.inside(machine) as bmc:
                    system = await bmc.system()
                    inventory = await bmc.inventory(system)
                    if machine["job"] is job:
                        mm.learn(self.store, machine, inventory)
                        # The commissioning system switches the machine off when it is done.
                        await bmc.power_off(system)
                        machine["power_state"] = "off"
            except PowerError as error:
                if machine["job"] is job:
                    self.mark_failed(machine, f"Commissioning failed: {error}")
                return
        if machine["job"] is not job:
            return
        machine["job"] = None
        scripts.finish(self.settings, self.store, machine)
        self.commissioning_ended(machine, job["kind"])

    def commissioning_ended(self, machine: Machine, kind: str) -> None:
        """All that commissioning finds is known."""
        mm.configure_network(self.store, machine)
        if kind == "enlist" and machine["owner"] is None:
            self.set_status(machine, st.NEW)
            self.event(machine, "New")
            return
        machine["owner"] = None
        self.set_status(machine, st.READY)
        self.event(machine, "Ready")

    async def _write_disk(self, machine: Machine, job: dict[str, Any]) -> None:
        name = self.settings.machine_name(machine)
        link = machine["interfaces"][0]["link"]
        user_data = base64.b64decode(machine["user_data"] or "").decode("utf-8", "replace")
        disk = {
            "hostname": machine["hostname"],
            "address": self.troubles.address(machine, link["ip_address"]),
            "image": machine["distro_series"],
            "user_data": user_data or None,
            "root": mm.root_disk(machine),
        }
        self.event(machine, "Configuring OS")
        try:
            if name is None:
                raise PowerError("no machine of lab.json has this service tag or BMC address")
            job["boots"] = self._lab_state(name).get("boots", 0)
            await self._lab("PUT", f"/machines/{name}/disk", disk)
            if machine["job"] is not job:
                return
            self.event(machine, "Installation complete")
            self.event(machine, "Rebooting")
            machine["netboot"] = False
            job["phase"] = "reboot"
            self.store.save()
        except PowerError as error:
            if machine["job"] is job:
                self.mark_failed(machine, f"Installation failed: {error}")

    async def _reboot(self, machine: Machine, job: dict[str, Any]) -> None:
        try:
            await self._lab("POST", f"/machines/{self.settings.machine_name(machine)}/reboot", None)
        except PowerError as error:
            if machine["job"] is job:
                self.mark_failed(machine, f"Installation failed: {error}")
            return
        # The machine may have been faster and asked the network already.
        if job["phase"] == "reboot":
            job["phase"] = "wait_local"
            job["deadline"] = time.time() + self.settings.node_timeout

    async def _erase(self, machine: Machine, job: dict[str, Any]) -> None:
        name = self.settings.machine_name(machine)
        try:
            if name is None:
                raise PowerError("no machine of lab.json has this service tag or BMC address")
            await self._lab("DELETE", f"/machines/{name}/disk", None)
        except PowerError as error:
            if machine["job"] is job:
                self.mark_failed(machine, f"Disk erasing failed: {error}")
            return
        if machine["job"] is job:
            self.event(machine, "Disks erased")
            self.release_now(machine)

    def release_now(self, machine: Machine) -> None:
        """Releasing: Ready once the power is seen off."""
        self.set_status(machine, st.RELEASING)
        self.event(machine, "Releasing")
        self.start_job(machine, "release", "off")

    async def _lab(self, method: str, path: str, body: Any) -> None:
        """What the installer does on the machine itself: the lab's hardware simulator does it for us."""
        url = f"http://{self.settings.bmc_admin}{path}"
        try:
            timeout = aiohttp.ClientTimeout(total=30)
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.request(method, url, json=body) as answer,
            ):
                if answer.status >= 400:
                    raise PowerError(f"the machine's simulator answered {answer.status} to {method} {path}")
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise PowerError(f"the machine's simulator does not answer: {type(error).__name__}") from None

    def _lab_state(self, name: str) -> dict[str, Any]:
        path = Path(self.settings.lab_dir) / "machines" / name / "state.json"
        try:
            state = lab_files.read_json(path, {})
        except (OSError, lab_files.LabError):
            return {}
        return state if isinstance(state, dict) else {}

    # -- network boot ---------------------------------------------------------------------------------------------

    def _booted_from_disk(self, machine: Machine, job: dict[str, Any]) -> bool:
        """The installed system started without asking the network (the boot order has the disk first)."""
        state = self._lab_state(self.settings.machine_name(machine) or "-")
        return bool(state.get("boots", 0) > job.get("boots", 0) and state.get("last_boot") == "disk")

    def _booting(self, job: dict[str, Any]) -> None:
        job["phase"] = "booting"
        job["until"] = time.time() + self.settings.boot_seconds

    def pxe(self, mac: str, service_tag: str) -> str:
        """A machine asks the network what to boot. Returns enlist, commission, install, local or none."""
        if not self.has_rack:
            return "none"
        machine = self.store.by_mac(mac)
        if machine is None:
            return self._enlist(mac, service_tag)
        machine["service_tag"] = service_tag or machine["service_tag"]
        mm.boots_by(machine, mac)
        stop = self.troubles.at_the_network(machine)
        if stop is not None:
            for kind, text in stop.events:
                self.event(machine, kind, text)
            self.store.save()
            return "none"
        answer = self._pxe_answer(machine)
        self.event(machine, "PXE Request", {"none": "power off"}.get(answer, answer))
        self.event(machine, "Performing PXE boot")
        if answer in ("commission", "install"):
            self.event(machine, "Loading ephemeral")
        if answer == "install":
            self.event(machine, "Configuring storage")
            self.event(machine, "Installing OS")
        elif machine["status"] == st.COMMISSIONING:
            self.event(machine, "Gathering information")
        self.store.save()
        log.info("%s: network boot: %s", machine["hostname"], answer)
        return answer

    def _pxe_answer(self, machine: Machine) -> str:
        job = machine["job"] or {}
        if machine["status"] == st.NEW:
            return "enlist"
        if machine["status"] in (st.DEPLOYED, st.BROKEN):
            return "local"
        if job.get("phase") in ("reboot", "wait_local", "booting"):
            if job["phase"] != "booting" and not self.settings.real_machines:
                self._booting(job)
            return "local"
        answer = _PXE_ANSWERS.get(job.get("kind", ""))
        if answer is None:
            return "none"
        machine["power_state"] = "on"
        job["phase"] = "running"
        job["until"] = time.time() + self.settings.job_seconds(job["kind"], machine["hostname"])
        if self.troubles.hangs(machine):
            job["phase"] = "stuck"
            job["deadline"] = time.time() + self.settings.node_timeout
        return answer

    def _enlist(self, mac: str, service_tag: str) -> str:
        machine = mm.new_machine(self.store, "", [mac], service_tag=service_tag, status=st.COMMISSIONING)
        self.event(machine, "PXE Request", "enlist")
        self.event(machine, "Performing PXE boot")
        self.event(machine, "Commissioning")
        seconds = self.settings.job_seconds("enlist", machine["hostname"])
        self.start_job(machine, "enlist", "running", until=time.time() + seconds)
        self.store.save()
        log.info("%s: discovered, MAC %s", machine["hostname"], mac)
        return "enlist"
