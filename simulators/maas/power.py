"""The region's Redfish power driver: real requests to the (simulated) BMCs, with TLS verified.

Does what MAAS's driver does: the first System unless node_id names one; a machine that is on is forced off before it
is set to one-time PXE and switched on. It also reads what commissioning would see in the running machine.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import aiohttp

MAX_ANSWER = 2 * 1024 * 1024  # bytes of one Redfish answer
MAX_MEMBERS = 64  # members of one collection that are followed


class PowerError(Exception):
    """The BMC cannot be used; the message is what MAAS would put in its event."""


class PowerAuthError(PowerError):
    """The BMC refuses the user or the password: trying again would only get us blocked."""


@dataclass
class Bmc:
    """One conversation with one BMC; use as an async context manager."""

    parameters: dict[str, str]
    tls: ssl.SSLContext
    timeout: float
    fails: bool = False  # a fault of the driver: whatever it asks for
    sets_pxe: bool = True  # else its wish for a network boot comes to nothing, as with some firmware

    async def __aenter__(self) -> Bmc:
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=self.timeout),
            connector=aiohttp.TCPConnector(ssl=self.tls),
            headers={"Accept": "application/json", "OData-Version": "4.0", "Authorization": self._basic()},
        )
        self._base = f"https://{self.parameters.get('power_address', '')}"
        return self

    def _basic(self) -> str:
        pair = f"{self.parameters.get('power_user', '')}:{self.parameters.get('power_pass', '')}"
        return "Basic " + base64.b64encode(pair.encode()).decode()

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def call(self, method: str, path: str, body: Any = None, etag: str = "") -> tuple[int, Any, str]:
        """One request; returns status, decoded body (None when empty) and ETag. Raises PowerError."""
        if self.fails:
            raise PowerError("Failed talking to node's BMC: Redfish request failed: TimeoutError")
        headers = {"If-Match": etag} if etag else {}
        try:
            async with self._session.request(method, self._base + path, json=body, headers=headers) as answer:
                raw = b""
                async for chunk in answer.content.iter_chunked(65536):
                    raw += chunk
                    if len(raw) > MAX_ANSWER:
                        raise PowerError("Failed talking to node's BMC: Redfish answer is too long")
                if answer.status == 401:
                    raise PowerAuthError("Failed talking to node's BMC: Redfish request failed with response 401")
                if answer.status >= 400 and not (method == "POST" and answer.status == 409):
                    raise PowerError(
                        f"Failed talking to node's BMC: Redfish request failed with response status code: "
                        f"{answer.status}."
                    )
                decoded = _decode(raw)
                return answer.status, decoded, answer.headers.get("ETag", "")
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            reason = type(error).__name__ if isinstance(error, TimeoutError) else str(error) or type(error).__name__
            raise PowerError(f"Failed talking to node's BMC: Redfish request failed: {reason}") from None

    async def get(self, path: str) -> dict[str, Any]:
        """GET one resource that must be an object."""
        _, body, _ = await self.call("GET", path)
        if not isinstance(body, dict):
            raise PowerError("Failed talking to node's BMC: Redfish answer is not a JSON object")
        return body

    async def members(self, path: str) -> list[dict[str, Any]]:
        """The members of a collection, each read; what cannot be read is left out."""
        found = []
        for link in _links((await self.get(path)).get("Members")):
            try:
                found.append(await self.get(link))
            except PowerAuthError:
                raise
            except PowerError:
                continue
        return found

    async def system(self) -> str:
        """The path of the System that this machine is."""
        if self.parameters.get("node_id"):
            return f"/redfish/v1/Systems/{quote(self.parameters['node_id'])}"
        links = _links((await self.get("/redfish/v1/Systems")).get("Members"))
        if not links:
            raise PowerError("Failed talking to node's BMC: Redfish Systems has no members")
        return links[0]

    async def state(self, system: str) -> str:
        """ "on" or "off"."""
        return "on" if (await self.get(system)).get("PowerState") == "On" else "off"

    async def reset(self, system: str, kind: str) -> None:
        """ComputerSystem.Reset; "already so" (409) counts as done."""
        await self.call("POST", f"{system}/Actions/ComputerSystem.Reset", {"ResetType": kind})

    async def power_off(self, system: str) -> None:
        """Force the machine off and see it off."""
        if await self.state(system) == "off":
            return
        await self.reset(system, "ForceOff")
        for _ in range(int(self.timeout / 0.2) + 1):
            if await self.state(system) == "off":
                return
            await asyncio.sleep(0.2)
        raise PowerError("Failed talking to node's BMC: the machine does not go off")

    async def power_on_pxe(self, system: str) -> None:
        """Off, one-time PXE, on."""
        await self.power_off(system)
        _, _, etag = await self.call("GET", system)
        boot = {"Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}}
        if self.sets_pxe:
            await self.call("PATCH", system, boot, etag)
        await self.reset(system, "On")

    async def inventory(self, system: str) -> dict[str, Any]:
        """What a commissioned machine reports of itself.

        Returns {"cpu_count", "memory" (MiB), "disks": [{"model", "serial", "size" (bytes), "nvme"}],
        "nics": [{"id", "mac"}]}; parts whose resources do not answer are missing.
        """
        body = await self.get(system)
        found: dict[str, Any] = {
            "cpu_count": _number(body, "ProcessorSummary", "LogicalProcessorCount")
            or _number(body, "ProcessorSummary", "CoreCount"),
            "memory": int(_number(body, "MemorySummary", "TotalSystemMemoryGiB") * 1024),
            "disks": [],
            "nics": [],
        }
        for controller in await self.members(_link(body.get("Storage")) or f"{system}/Storage"):
            found["disks"] += await self._disks(controller, str(body.get("SKU") or body.get("SerialNumber")))
        for nic in await self.members(_link(body.get("EthernetInterfaces")) or f"{system}/EthernetInterfaces"):
            mac = str(nic.get("PermanentMACAddress") or nic.get("MACAddress") or "").lower()
            # InfiniBand ports are listed among the Ethernet ones by some BMCs; MAAS does not keep them.
            if len(mac) == 17 and not str(nic.get("Id", "")).startswith("InfiniBand."):
                found["nics"].append({"id": str(nic.get("Id", "")), "mac": mac})
        return found

    async def _disks(self, controller: dict[str, Any], machine: str) -> list[dict[str, Any]]:
        volumes: list[dict[str, Any]] = []
        if _link(controller.get("Volumes")):
            try:
                volumes = await self.members(_link(controller.get("Volumes")))
            except PowerAuthError:
                raise
            except PowerError:
                volumes = []
        # Drives behind a RAID volume are not seen by the operating system; the volume is.
        raid = [v for v in volumes if v.get("RAIDType") not in (None, "None") or v.get("VolumeType") == "Mirrored"]
        if raid:
            return [_volume(controller, volume, machine) for volume in raid]
        disks = []
        for link in _links(controller.get("Drives")):
            try:
                drive = await self.get(link)
            except PowerAuthError:
                raise
            except PowerError:
                continue
            # iDRAC calls the protocol of NVMe drives PCIe.
            is_nvme = drive.get("Protocol") in ("NVMe", "PCIe")
            model, serial = str(drive.get("Model") or "Disk"), str(drive.get("SerialNumber") or "")
            disks.append(_disk(drive, model, serial, is_nvme))
        return disks


def _volume(controller: dict[str, Any], volume: dict[str, Any], machine: str) -> dict[str, Any]:
    """A RAID volume as the operating system sees it: the card's model, and a serial of its own."""
    cards = controller.get("StorageControllers")
    card = cards[0] if isinstance(cards, list) and cards and isinstance(cards[0], dict) else {}
    model = f"{card.get('Manufacturer') or ''} {card.get('Model') or controller.get('Name') or 'Virtual disk'}"
    serial = hashlib.sha256(f"{machine}:{volume.get('Id')}".encode()).hexdigest()[:16]
    protocols = card.get("SupportedDeviceProtocols")
    return _disk(volume, model, serial, isinstance(protocols, list) and "NVMe" in protocols)


def _disk(body: dict[str, Any], model: str, serial: str, is_nvme: bool) -> dict[str, Any]:
    size = body.get("CapacityBytes")
    return {
        "model": model.strip()[:255],
        "serial": serial.strip()[:255],
        "size": size if isinstance(size, int) else 0,
        "nvme": is_nvme,
    }


def _decode(raw: bytes) -> Any:
    if not raw.strip():
        return None
    return json.loads(raw)


def _links(members: Any) -> list[str]:
    if not isinstance(members, list):
        return []
    return [link for link in map(_link, members[:MAX_MEMBERS]) if link]


def _link(value: Any) -> str:
    """The path of a link, never another host's."""
    path = value.get("@odata.id", "") if isinstance(value, dict) else ""
    return urlsplit(path).path if isinstance(path, str) and path.startswith("/") else ""


def _number(body: dict[str, Any], *keys: str) -> float:
    value: Any = body
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, (int, float)) else 0
