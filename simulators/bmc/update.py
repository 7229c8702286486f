"""Firmware updates: packages that are sent, jobs that install them, and the versions that they leave.

A package of the simulation is a file whose first line is `Firstlight simulated firmware: COMPONENT VERSION`, with one
of faults.FIRMWARE_COMPONENTS. Every other file is refused as one with a wrong signature is: the job fails.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from typing import TYPE_CHECKING, Any

from aiohttp import BodyPartReader, web

from simulators.bmc import errors, parts
from simulators.bmc.faults import FIRMWARE_COMPONENTS
from simulators.bmc.tree import ROOT

if TYPE_CHECKING:
    from simulators.bmc.listener import Bmc
    from simulators.bmc.machine import Machine

FIRMWARE = f"{ROOT}/UpdateService/FirmwareInventory"
MULTIPART = f"{ROOT}/UpdateService/MultipartUpload"
SIMPLE = f"{ROOT}/UpdateService/Actions/UpdateService.SimpleUpdate"
TASKS = f"{ROOT}/TaskService/Tasks"
MAX_BYTES = 512 * 1024**2
STEPS = 5
_HEAD = re.compile(rb"Firstlight simulated firmware: ([a-z]{2,8}) ([0-9A-Za-z._-]{1,40})[\r\n]")
APPLY_TIMES = ("Immediate", "OnReset")


async def multipart(bmc: Bmc, request: web.BaseRequest) -> str:
    """Take a multipart push: UpdateParameters (JSON), then UpdateFile. Returns the job's id; RedfishError."""
    if not request.content_type.startswith("multipart/"):
        raise errors.missing("UpdateFile")
    settings: Any = None
    package: tuple[str, str] | None = None
    seen = False
    async for part in await request.multipart():
        if not isinstance(part, BodyPartReader):
            continue
        if part.name == "UpdateParameters":
            try:
                settings = json.loads(await part.read())
            except ValueError:
                raise errors.malformed() from None
        elif part.name == "UpdateFile":
            seen, package = True, await _package(part)
    if not isinstance(settings, dict):
        raise errors.missing("UpdateParameters")
    if not seen:
        raise errors.missing("UpdateFile")
    return _start(bmc, package, settings)


async def push(bmc: Bmc, request: web.BaseRequest) -> str:
    """Take a file sent to the HttpPushUri, whole or as the one part of a form. Returns its id in the inventory."""
    machine = bmc.machine
    wanted = request.headers.get("If-Match", "").removeprefix("W/").strip('"')
    if wanted not in ("*", f"gen-{machine.version}"):
        raise errors.stale()
    package: tuple[str, str] | None = None
    if request.content_type.startswith("multipart/"):
        async for part in await request.multipart():
            if isinstance(part, BodyPartReader):
                package = await _package(part)
    else:
        package = await _package(request.content)
    if package is None:
        raise errors.bad_package()
    identity = f"Available-0-{package[1]}__{package[0]}"
    machine.uploads[identity] = {"component": package[0], "version": package[1]}
    machine.changed()
    return identity


def simple(bmc: Bmc, body: dict[str, Any]) -> str:
    """Do a SimpleUpdate from a package that was pushed before. Returns the job's id; RedfishError."""
    uri = body.get("ImageURI")
    if uri is None:
        raise errors.missing("ImageURI")
    identity = str(uri).rsplit("/", 1)[-1]
    found = bmc.machine.uploads.pop(identity, None)
    if found is None:  # the simulation fetches nothing from elsewhere
        raise errors.value_not_in_list(uri, "ImageURI")
    return _start(bmc, (found["component"], found["version"]), body)


async def _package(stream: Any) -> tuple[str, str] | None:
    """Read a package to its end; what it says it is, or None when it is no package of the simulation."""
    head, size = b"", 0
    while True:
        chunk = await (stream.read_chunk() if isinstance(stream, BodyPartReader) else stream.read(65536))
        if not chunk:
            break
        size += len(chunk)
        head = (head + chunk)[:200]
        if size > MAX_BYTES:
            raise errors.bad_package()
    match = _HEAD.match(head + b"\n")
    if match is None or match[1].decode() not in FIRMWARE_COMPONENTS:
        return None
    return match[1].decode(), match[2].decode()


def _start(bmc: Bmc, package: tuple[str, str] | None, settings: dict[str, Any]) -> str:
    when = settings.get("@Redfish.OperationApplyTime", "Immediate")
    if when not in APPLY_TIMES:
        raise errors.value_not_in_list(when, "@Redfish.OperationApplyTime")
    machine = bmc.machine
    component, version = package or ("", "")
    job: dict[str, Any] = {
        "id": f"JID_{random.randrange(10**11, 10**12)}",
        "kind": "firmware",
        "name": f"Firmware Update: {component or 'unknown package'}",
        "component": component,
        "version": version,
        "state": "Downloading",
        "created": machine.now().isoformat(),
        "completed": None,
        "percent": 0,
    }
    machine.jobs.append(job)
    machine.record("RED001", "Job successfully created.", (job["id"],), category="Updates")
    machine.changed()
    bmc.keep(_run(bmc, job))
    return str(job["id"])


async def _run(bmc: Bmc, job: dict[str, Any]) -> None:
    machine = bmc.machine
    seconds = float(machine.settings.get("update_seconds", 3))
    for step in range(1, STEPS + 1):
        await asyncio.sleep(seconds / STEPS)
        if job not in machine.jobs:
            return  # deleted
        if not job["component"] and step > 1:
            job.update(state="Failed", completed=machine.now().isoformat(), percent=100)
            machine.record("RED007", "Unable to verify Update Package signature.", (), "Critical", "Updates")
            machine.changed()
            return
        job.update(state="Running" if step > 1 else "Downloading", percent=min(95, 100 * step // STEPS))
        machine.changed()
    if job["component"] == "bmc":
        while machine.phase != "ready":  # somebody restarts it just now
            await asyncio.sleep(0.1)
        bmc.restart(lambda: _install(machine, job))
    else:  # everything else is installed by the BIOS, at the next boot
        job.update(state="Scheduled", percent=0)
        machine.changed()


def apply(machine: Machine) -> None:
    """Do what happens early in a boot: install what is scheduled."""
    for job in machine.jobs:
        if job.get("kind") == "firmware" and job["state"] == "Scheduled":
            _install(machine, job)


def _install(machine: Machine, job: dict[str, Any]) -> None:
    before = parts.version(machine, job["component"])
    machine.firmware[job["component"]] = job["version"]
    job.update(state="Completed", completed=machine.now().isoformat(), percent=100)
    if machine.has("old_firmware") and machine.faults["old_firmware"]["component"] == job["component"]:
        del machine.faults["old_firmware"]  # an update is what repairs that
    arguments = (job["component"].upper(), before, job["version"])
    text = f"Version change detected for {arguments[0]} firmware. Previous version:{before}, Current version:"
    machine.record("PR36", text + job["version"], arguments, category="Updates")
