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
from simulators.maas import status as st
from simulators.maas.power import Bmc, PowerAuthError, PowerError
from simulators.maas.settings import Settings
from simulators.maas.store import Machine, Store

log = logging.getLogger("simulators.maas")
TICK = 0.1  # seconds
# What a machine in this phase of its job is told when it boots from the network.
_PXE_ANSWERS = {"commission": "commission", "enlist": "commission", "erase": "commission", "deploy": "install"}


class Lifecycle:
    """Moves machines through their states."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self.settings = settings
        self.store = store
        self._tasks: dict[str, asyncio.Task[None]] = {}

    # -- small helpers --------------------------------------------------------------------------------------------

    @property
    def has_rack(self) -> bool:
        """False while a fault has taken the rack controller away."""
        return not {"no_rack", "unreachable_rack"} & set(self.store.data["faults"])

    def event(self, machine: Machine, kind: str, text: str = "", user: str = "") -> None:
        """Record an event in MAAS's words."""
        self.store.add_event(machine, kind, st.EVENT_LEVELS.get(kind, "INFO"), text, user)

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
        return Bmc(machine["power_parameters"], self.settings.tls, self.settings.power_timeout)

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
        elif phase in ("wait_pxe", "wait_local") and now >= job["deadline"]:
            self.mark_timed_out(machine)
            self.store.save()

    def start_job(self, machine: Machine, kind: str, phase: str, **more: Any) -> None:
        """Give the machine something to do, instead of what it did so far."""
        if kind in ("commission", "deploy", "erase") and phase == "power":
            self.event(machine, "Powering on")
        machine["job"] = {"kind": kind, "phase": phase, "deadline": time.time() + self.settings.node_timeout, **more}

    # -- power ----------------------------------------------------------------------------------------------------

    async def _power_on(self, machine: Machine, job: dict[str, Any]) -> None:
        if machine["power_type"] not in ("redfish",):
            # MAAS cannot switch this machine; somebody else may.
            job["phase"] = "wait_pxe"
            return
        error: PowerError | None = None
        for attempt in range(self.settings.power_attempts):
            if attempt:
                await asyncio.sleep(self.settings.power_retry)
            try:
                async with self.bmc(machine) as bmc:
                    await bmc.power_on_pxe(await bmc.system())
                machine["bmc_known"] = True
                machine["power_state"] = "on"
                self.event(machine, "Node powered on")
                if job["phase"] == "power":
                    job["phase"] = "wait_pxe"
                    job["deadline"] = time.time() + self.settings.node_timeout
                return
            except PowerAuthError as refused:
                error = refused
                break
            except PowerError as problem:
                error = problem
        if machine["job"] is not job or job["phase"] != "power":
            return  # aborted meanwhile, or somebody else powered the machine on and it is past this
        machine["power_state"] = "error"
        text = f"Power on for the node failed: {error}"
        self.event(machine, "Failed to power on node", text)
        self.mark_failed(machine, text)

    async def _power_off(self, machine: Machine, job: dict[str, Any]) -> None:
        failed = False
        if machine["power_type"] == "redfish":
            self.event(machine, "Powering off")
            try:
                async with self.bmc(machine) as bmc:
                    await bmc.power_off(await bmc.system())
                machine["bmc_known"] = True
                machine["power_state"] = "off"
                self.event(machine, "Node powered off")
            except PowerError as error:
                failed = True
                text = f"Power off for the node failed: {error}"
                machine["power_state"] = "error"
                self.event(machine, "Failed to power off node", text)
        if machine["job"] is not job:
            return
        if job["kind"] == "release" and failed:
            self.mark_failed(machine, text)
            return
        machine["job"] = None
        if job["kind"] == "release":
            self._released(machine)
        elif job["kind"] == "abort":
            self.set_status(machine, job["to"])
            if job["to"] in (st.NEW, st.READY):
                machine["owner"] = None

    def _released(self, machine: Machine) -> None:
        self.set_status(machine, st.READY)
        machine.update(
            owner=None, user_data=None, osystem="", distro_series="", hwe_kernel=None, netboot=True, owner_data={}
        )
        if machine["interfaces"] and machine["interfaces"][0]["link"]:
            machine["interfaces"][0]["link"].pop("ip_address", None)
        self.event(machine, "Released")

    async def switch(self, machine: Machine, on: bool) -> None:
        """power_on and power_off as operations by themselves."""
        word = "on" if on else "off"
        try:
            async with self.bmc(machine) as bmc:
                system = await bmc.system()
                if on and await bmc.state(system) == "off":
                    await bmc.power_on_pxe(system)
                elif not on:
                    await bmc.power_off(system)
            machine["power_state"] = word
            self.event(machine, f"Node powered {word}")
        except PowerError as error:
            machine["power_state"] = "error"
            self.event(machine, f"Failed to power {word} node", f"Power {word} for the node failed: {error}")

    async def query(self, machine: Machine) -> str:
        """Ask the BMC for the power state; raises PowerError."""
        try:
            async with self.bmc(machine) as bmc:
                state = await bmc.state(await bmc.system())
        except PowerError as error:
            machine["power_state"] = "error"
            self.event(machine, "Failed to query node's BMC", str(error))
            raise
        machine["bmc_known"] = True
        machine["power_state"] = state
        self.event(machine, "Queried node's BMC", f"Power state queried: {state}")
        return state

    # -- ends of phases -------------------------------------------------------------------------------------------

    async def _finish(self, machine: Machine, job: dict[str, Any]) -> None:
        if self.settings.real_machines:  # it should have reported (rack_api.py) before
            self.mark_timed_out(machine)
            return
        if job["kind"] == "deploy":
            await self._write_disk(machine, job)
        elif job["kind"] == "erase":
            await self._erase(machine, job)
        else:
            await self._commissioned(machine, job)

    async def _commissioned(self, machine: Machine, job: dict[str, Any]) -> None:
        if machine["power_type"] == "redfish":
            try:
                async with self.bmc(machine) as bmc:
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
            "address": link["ip_address"],
            "image": machine["distro_series"],
            "user_data": user_data or None,
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
        job["until"] = time.time() + self.settings.job_seconds(job["kind"])
        return answer

    def _enlist(self, mac: str, service_tag: str) -> str:
        machine = mm.new_machine(self.store, "", [mac], service_tag=service_tag, status=st.COMMISSIONING)
        self.event(machine, "PXE Request", "enlist")
        self.event(machine, "Performing PXE boot")
        self.event(machine, "Commissioning")
        self.start_job(machine, "enlist", "running", until=time.time() + self.settings.job_seconds("enlist"))
        self.store.save()
        log.info("%s: discovered, MAC %s", machine["hostname"], mac)
        return "enlist"
