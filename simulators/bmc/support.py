"""Dell's support data of a simulated iDRAC9 or 10: the service that collects it, its licence, its job, the file."""

from __future__ import annotations

import asyncio
import io
import random
import zipfile
from typing import TYPE_CHECKING, Any

from simulators.bmc import errors
from simulators.bmc.actions import Done
from simulators.bmc.machine import Machine
from simulators.bmc.tree import MANAGER, ROOT, Resource, head, resource
from simulators.bmc.tree_manager import JOBS

if TYPE_CHECKING:
    from simulators.bmc.listener import Bmc

SERVICE = f"{MANAGER}/Oem/Dell/DellLCService"
ACTIONS = f"{SERVICE}/Actions/DellLCService."
FILE = f"{ROOT}/Dell/sacollect.zip"
DATA = ("DebugLogs", "GPULogs", "HWData", "OSAppData", "TTYLogs", "TelemetryReports")
STEPS = 4
KIND = "support"
_EULA = "SupportAssist End User License Agreement (EULA)"


@resource(SERVICE)
def service(machine: Machine) -> Resource:
    """The Lifecycle Controller's service: what it can do for support."""
    collection = {
        "DataSelectorArrayIn@Redfish.AllowableValues": list(DATA),
        "Filter@Redfish.AllowableValues": ["No", "Yes"],
        "ShareType@Redfish.AllowableValues": ["CIFS", "FTP", "HTTPS", "Local", "NFS", "TFTP"],
        "target": f"{ACTIONS}SupportAssistCollection",
    }
    return head(SERVICE, "DellLCService", "v1_5_0", "DellLCService") | {
        "Actions": {
            "#DellLCService.SupportAssistAcceptEULA": {"target": f"{ACTIONS}SupportAssistAcceptEULA"},
            "#DellLCService.SupportAssistCollection": collection,
            "#DellLCService.SupportAssistGetEULAStatus": {"target": f"{ACTIONS}SupportAssistGetEULAStatus"},
        },
    }


def act(bmc: Bmc, path: str, body: dict[str, Any]) -> Done:
    """Do one of the service's actions. RedfishError when it cannot be done."""
    machine, action = bmc.machine, path.removeprefix(f"{ACTIONS}SupportAssist")
    if machine.vendor == "dell-idrac8" or action not in ("AcceptEULA", "GetEULAStatus", "Collection"):
        raise errors.not_found(path)
    if action == "Collection":
        return _collect(bmc, body)
    if action == "AcceptEULA" and machine.has("eula_not_accepted"):
        del machine.faults["eula_not_accepted"]
        machine.changed()
    if machine.has("eula_not_accepted"):
        return Done(200, _said("SRV104", f"The {_EULA} is not accepted."))
    return Done(200, _said("SRV074", f"The {_EULA} is accepted by iDRAC user root via iDRAC interface REDFISH."))


def _collect(bmc: Bmc, body: dict[str, Any]) -> Done:
    machine = bmc.machine
    if body.get("ShareType") != "Local":  # the simulation sends nothing elsewhere
        raise (
            errors.missing("ShareType")
            if "ShareType" not in body
            else errors.value_not_in_list(body["ShareType"], "ShareType")
        )
    kinds = body.get("DataSelectorArrayIn", ["HWData"])
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if kind not in DATA:
            raise errors.value_not_in_list(kind, "DataSelectorArrayIn")
    if machine.has("eula_not_accepted"):
        text = (
            "Unable to start the operation because the SupportAssist End User License Agreement (EULA) is not accepted."
        )
        raise errors.RedfishError(400, errors.BMC + "SRV085", text)
    if any(job.get("kind") == KIND and job["state"] in ("New", "Running") for job in machine.jobs):
        text = "Unable to start the operation because a SupportAssist job is already running."
        raise errors.RedfishError(400, errors.BMC + "SRV095", text)
    job: dict[str, Any] = {
        "id": f"JID_{random.randrange(10**11, 10**12)}",
        "kind": KIND,
        "name": "SupportAssist Collection",
        "data": list(kinds),
        "state": "New",
        "created": machine.now().isoformat(),
        "completed": None,
        "percent": 0,
    }
    machine.jobs.append(job)
    machine.changed()
    bmc.keep(_run(bmc, job))
    return Done(202, errors.success(), {"Location": f"{JOBS}/{job['id']}"})


async def _run(bmc: Bmc, job: dict[str, Any]) -> None:
    machine = bmc.machine
    for step in range(1, STEPS + 1):
        await asyncio.sleep(float(machine.settings.get("support_seconds", 2)) / STEPS)
        if job not in machine.jobs:
            return  # deleted
        job.update(state="Running", percent=100 * step // STEPS)
        machine.changed()
    ended = "Failed" if machine.has("support_data_fails") else "Completed"
    if ended == "Failed":
        job["message"] = "Unable to complete the SupportAssist Collection because of an internal error."
    job.update(state=ended, completed=machine.now().isoformat(), percent=100)
    machine.changed()


def made_by(machine: Machine, path: str) -> str | None:
    """Where the answer to a finished job's GET points; None for all other paths."""
    if not path.startswith(f"{JOBS}/JID_"):
        return None
    ours = (job for job in machine.jobs if job.get("kind") == KIND and job["state"] == "Completed")
    return FILE if any(path == f"{JOBS}/{job['id']}" for job in ours) else None


def file(machine: Machine) -> bytes:
    """The newest collection. RedfishError where there is none."""
    done = [job for job in machine.jobs if job.get("kind") == KIND and job["state"] == "Completed"]
    if not done:
        raise errors.not_found(FILE)
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("metadata.json", f'{{"simulated": true, "ServiceTag": "{machine.hardware.service_tag}"}}\n')
        for kind in done[-1]["data"]:
            archive.writestr(f"tsr/{kind}.txt", f"simulated {kind} of {machine.hardware.service_tag}\n" * 200)
    return written.getvalue()


def _said(code: str, text: str) -> dict[str, Any]:
    body = errors.success()
    body["@Message.ExtendedInfo"].insert(0, {"Message": text, "MessageArgs": [], "MessageId": errors.BMC + code})
    return body
