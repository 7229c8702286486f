"""Redfish tree of a simulated iDRAC: jobs, seen in three ways, and firmware with its updates."""

from __future__ import annotations

from typing import Any

from simulators.bmc import parts
from simulators.bmc.hardware import BOSS
from simulators.bmc.machine import Machine
from simulators.bmc.tree import OK, OK_ROLLUP, ROOT, Resource, collection, head, ref, resource
from simulators.bmc.tree_manager import JOBS
from simulators.bmc.update import FIRMWARE, MULTIPART, SIMPLE

_STATES = {  # Dell's JobState -> what JobService and TaskService say
    "New": ("New", "New"),
    "Downloading": ("Running", "Running"),
    "Running": ("Running", "Running"),
    "Scheduled": ("Pending", "Starting"),
    "Completed": ("Completed", "Completed"),
    "Failed": ("Exception", "Exception"),
}
_TITLES = {"bios": "Configure: BIOS.Setup.1-1"}
_TYPES = {"bios": "BIOSConfiguration", "firmware": "FirmwareUpdate", "support": "SACollectExportHealthData"}


def _job(machine: Machine, job_id: str) -> dict[str, Any] | None:
    return next((job for job in machine.jobs if job["id"] == job_id), None)


def _text(job: dict[str, Any]) -> tuple[str, str]:
    if job["state"] == "Failed":
        return "RED007", str(job.get("message", "Unable to verify Update Package signature."))
    if job["state"] == "Downloading":
        return "RED002", "Package successfully downloaded."
    if job["state"] == "Running":
        return "RED035", "Job in progress."
    done = job["state"] == "Completed"
    return ("PR19", "Job completed successfully.") if done else ("JCP001", "Task successfully scheduled.")


def _title(job: dict[str, Any]) -> str:
    return str(job.get("name") or _TITLES["bios"])


@resource(JOBS)
def dell_jobs(machine: Machine) -> Resource:
    """The job queue."""
    return collection(machine, JOBS, "DellJob", "JobQueue", [job["id"] for job in machine.jobs])


@resource(f"{JOBS}/*")
def dell_job(machine: Machine, job_id: str) -> Resource | None:
    """One job, in Dell's own words."""
    job = _job(machine, job_id)
    if job is None:
        return None
    message_id, message = _text(job)
    return head(f"{JOBS}/{job_id}", "DellJob", "v1_4_0", _title(job), "Job Instance") | {
        "ActualRunningStartTime": job["completed"],
        "ActualRunningStopTime": job["completed"],
        "CompletionTime": job["completed"],
        "EndTime": "TIME_NA",
        "JobState": job["state"],
        "JobType": _TYPES[job.get("kind", "bios")],
        "Message": message,
        "MessageArgs": [],
        "MessageArgs@odata.count": 0,
        "MessageId": message_id,
        "PercentComplete": job["percent"],
        "StartTime": job["created"],
        "TargetSettingsURI": None,
    }


@resource(f"{ROOT}/JobService")
def job_service(machine: Machine) -> Resource:
    """The standard way to the job queue."""
    return head(f"{ROOT}/JobService", "JobService", "v1_0_4", "Job Service") | {
        "DateTime": machine.now().isoformat(),
        "Jobs": ref(f"{ROOT}/JobService/Jobs"),
        "ServiceEnabled": True,
        "Status": dict(OK),
    }


@resource(f"{ROOT}/JobService/Jobs")
def standard_jobs(machine: Machine) -> Resource:
    """The job queue."""
    return collection(machine, f"{ROOT}/JobService/Jobs", "Job", "Job Collection", [job["id"] for job in machine.jobs])


@resource(f"{ROOT}/JobService/Jobs/*")
def standard_job(machine: Machine, job_id: str) -> Resource | None:
    """One job, in the standard's words."""
    job = _job(machine, job_id)
    if job is None:
        return None
    message_id, message = _text(job)
    return head(f"{ROOT}/JobService/Jobs/{job_id}", "Job", "v1_0_7", _title(job)) | {
        "EndTime": job["completed"],
        "JobState": _STATES[job["state"]][0],
        "JobStatus": parts.level(job["state"] == "Failed"),
        "Messages": [{"Message": message, "MessageArgs": [], "MessageId": f"IDRAC.2.8.{message_id}"}],
        "Messages@odata.count": 1,
        "PercentComplete": job["percent"],
        "StartTime": job["created"],
    }


@resource(f"{ROOT}/TaskService")
def task_service(machine: Machine) -> Resource:
    """Jobs, seen as tasks."""
    return head(f"{ROOT}/TaskService", "TaskService", "v1_2_0", "Task Service") | {
        "DateTime": machine.now().isoformat(),
        "ServiceEnabled": True,
        "Status": dict(OK),
        "Tasks": ref(f"{ROOT}/TaskService/Tasks"),
    }


@resource(f"{ROOT}/TaskService/Tasks")
def tasks(machine: Machine) -> Resource:
    """Jobs, seen as tasks."""
    ids = [job["id"] for job in machine.jobs]
    return collection(machine, f"{ROOT}/TaskService/Tasks", "Task", "Task Collection", ids)


@resource(f"{ROOT}/TaskService/Tasks/*")
def task(machine: Machine, job_id: str) -> Resource | None:
    """One job, seen as a task."""
    job = _job(machine, job_id)
    if job is None:
        return None
    message_id, message = _text(job)
    return head(f"{ROOT}/TaskService/Tasks/{job_id}", "Task", "v1_6_1", _title(job)) | {
        "EndTime": job["completed"],
        "Messages": [{"Message": message, "MessageArgs": [], "MessageId": f"IDRAC.2.8.{message_id}"}],
        "Messages@odata.count": 1,
        "PercentComplete": job["percent"],
        "StartTime": job["created"],
        "TaskState": _STATES[job["state"]][1],
        "TaskStatus": parts.level(job["state"] == "Failed"),
    }


@resource(f"{ROOT}/UpdateService")
def update_service(machine: Machine) -> Resource:
    """Where the firmware versions are, and how to bring others."""
    return head(f"{ROOT}/UpdateService", "UpdateService", "v1_11_3", "Update Service") | {
        "Actions": {
            "#UpdateService.SimpleUpdate": {
                "@Redfish.OperationApplyTimeSupport": {"SupportedValues": ["Immediate", "OnReset"]},
                "TransferProtocol@Redfish.AllowableValues": [],
                "target": SIMPLE,
            }
        },
        "FirmwareInventory": ref(FIRMWARE),
        "HttpPushUri": FIRMWARE,
        "MaxImageSizeBytes": None,
        "MultipartHttpPushUri": MULTIPART,
        "ServiceEnabled": True,
        "Status": dict(OK),
    }


@parts.once
def _firmware(machine: Machine) -> dict[str, tuple[str, str]]:
    """Firmware by id: (name, version)."""

    def now(component: str) -> str:
        return parts.version(machine, component)

    versions = {
        f"Installed-159-{now('bios')}__BIOS.Setup.1-1": ("BIOS", now("bios")),
        "Previous-159-2.4.4__BIOS.Setup.1-1": ("BIOS", "2.4.4"),
        f"Installed-25227-{now('bmc')}__iDRAC.Embedded.1-1": ("Integrated Dell Remote Access Controller", now("bmc")),
        "Installed-27763-1.3.0__CPLD.Embedded.1": ("System CPLD", "1.3.0"),
        f"Installed-114070-2.1.13.2025__{BOSS}": ("BOSS-N1", "2.1.13.2025"),
    }
    for nic in parts.nics(machine):
        name = f"Broadcom Adv. Dual 25Gb Ethernet - {nic.mac}"
        versions[f"Installed-108255-{now('nic')}__{nic.fqdd}"] = (name, now("nic"))
    for _, port in parts.hcas(machine):
        name = f"NVIDIA ConnectX-7 Single Port NDR OSFP PCIe Adapter - {port.mac}"
        versions[f"Installed-0-{now('hca')}__{port.fqdd}"] = (name, now("hca"))
    for gpu in parts.gpus(machine):
        versions[f"Installed-0-{now('gpu')}__{gpu.fqdd}"] = ("NVIDIA H100 80GB HBM3", now("gpu"))
    for disk in parts.drives(machine):
        versions[f"Installed-0-{now('nvme')}__{disk.fqdd}"] = (disk.model, now("nvme"))
    for number in parts.psus(machine):
        versions[f"Installed-112700-{now('psu')}__PSU.Slot.{number}"] = (f"Power Supply.Slot.{number}", now("psu"))
    for identity, package in machine.uploads.items():
        versions[identity] = (f"Package for {package['component']}", package["version"])
    return versions


@resource(FIRMWARE)
def firmware_inventory(machine: Machine) -> Resource:
    """Versions of all firmware, installed and previous."""
    body = collection(machine, FIRMWARE, "SoftwareInventory", "Software Inventory Collection", _firmware(machine))
    return body | {"@odata.etag": f'W/"gen-{machine.version}"'}


@resource(f"{FIRMWARE}/*")
def firmware(machine: Machine, name: str) -> Resource | None:
    """One version of one firmware."""
    found = _firmware(machine).get(name)
    if found is None:
        return None
    status, software, _ = name.split("-", 2)
    title, version = found
    return head(f"{FIRMWARE}/{name}", "SoftwareInventory", "v1_10_0", title, "Represents Firmware Inventory") | {
        "Oem": {"Dell": {"DellSoftwareInventory": {"ComponentID": software, "Status": status}}},
        "SoftwareId": software,
        "Status": dict(OK_ROLLUP),
        "Updateable": status == "Installed",
        "Version": version,
    }
