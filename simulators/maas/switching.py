"""Switching machines on and off through their BMCs, in the background, as MAAS's power driver does it."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from simulators.maas import status as st
from simulators.maas.power import Bmc, PowerAuthError, PowerError
from simulators.maas.settings import Settings
from simulators.maas.store import Machine


class Switching:
    """The part of Lifecycle that talks to BMCs."""

    settings: Settings

    def event(self, machine: Machine, kind: str, text: str = "", user: str = "") -> None:
        """See Lifecycle, as for the next three."""
        raise NotImplementedError

    def set_status(self, machine: Machine, new: int) -> None:
        raise NotImplementedError

    def mark_failed(self, machine: Machine, text: str) -> None:
        raise NotImplementedError

    def bmc(self, machine: Machine) -> Bmc:
        raise NotImplementedError

    async def _power_on(self, machine: Machine, job: dict[str, Any]) -> None:
        if machine["power_type"] not in ("redfish",):
            # MAAS cannot switch this machine; somebody else may, and may have been faster.
            if job["phase"] == "power":
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
