"""Redfish tree of a simulated iDRAC9: Managers, logs, jobs, sessions' service and firmware."""

from __future__ import annotations

from typing import Any

from simulators.bmc import lclog
from simulators.bmc.hardware import BIOS_VERSION, BMC_VERSION, BOSS, PSUS
from simulators.bmc.machine import Machine, local
from simulators.bmc.tree import CHASSIS, MANAGER, OK, OK_ROLLUP, ROOT, SYSTEM, Resource, collection, head, ref, resource
from simulators.bmc.tree_system import gpus, nics

LOGS = f"{MANAGER}/LogServices"
JOBS = f"{MANAGER}/Oem/Dell/Jobs"
FIRMWARE = f"{ROOT}/UpdateService/FirmwareInventory"


@resource(f"{ROOT}/Managers")
def managers(machine: Machine) -> Resource:
    """The one BMC."""
    return collection(machine, f"{ROOT}/Managers", "Manager", "Manager", ["iDRAC.Embedded.1"])


@resource(MANAGER)
def manager(machine: Machine) -> Resource:
    """The BMC itself."""
    return head(MANAGER, "Manager", "v1_17_0", "Manager", "BMC") | {
        "Actions": {
            "#Manager.Reset": {
                "ResetType@Redfish.AllowableValues": ["GracefulRestart"],
                "target": f"{MANAGER}/Actions/Manager.Reset",
            }
        },
        "DateTime": machine.now().isoformat(),
        "DateTimeLocalOffset": machine.now().isoformat()[-6:],
        "EthernetInterfaces": ref(f"{MANAGER}/EthernetInterfaces"),
        "FirmwareVersion": BMC_VERSION,
        "LastResetTime": local(machine.born),
        "Links": {
            "ManagerForChassis": [ref(CHASSIS)],
            "ManagerForChassis@odata.count": 1,
            "ManagerForServers": [ref(SYSTEM)],
            "ManagerForServers@odata.count": 1,
            "Oem": {"Dell": {"Jobs": ref(JOBS)}},
        },
        "LogServices": ref(LOGS),
        "ManagerType": "BMC",
        "Model": "16G Monolithic",
        "PowerState": "On",
        "Status": dict(OK),
        "UUID": machine.hardware.uuid,
    }


@resource(f"{MANAGER}/EthernetInterfaces")
def manager_interfaces(machine: Machine) -> Resource:
    """The BMC's own port."""
    path = f"{MANAGER}/EthernetInterfaces"
    return collection(machine, path, "EthernetInterface", "Ethernet Network Interface Collection", ["NIC.1"])


@resource(f"{MANAGER}/EthernetInterfaces/NIC.1")
def manager_interface(machine: Machine) -> Resource:
    """The BMC's own port; its MAC is in lower case."""
    path = f"{MANAGER}/EthernetInterfaces/NIC.1"
    name, note = "Manager Ethernet Interface", "Management Network Interface"
    return head(path, "EthernetInterface", "v1_9_0", name, note) | {
        "HostName": f"idrac-{machine.hardware.service_tag}",
        "IPv4Addresses": [{"Address": machine.address[0], "AddressOrigin": "Static"}],
        "IPv4Addresses@odata.count": 1,
        "InterfaceEnabled": True,
        "LinkStatus": "LinkUp",
        "MACAddress": machine.hardware.bmc_mac,
        "PermanentMACAddress": machine.hardware.bmc_mac,
        "SpeedMbps": 1000,
        "Status": dict(OK),
    }


@resource(LOGS)
def log_services(machine: Machine) -> Resource:
    """The two logs."""
    return collection(machine, LOGS, "LogService", "Log Service Collection", ["Lclog", "Sel"])


@resource(f"{LOGS}/*")
def log_service(machine: Machine, name: str) -> Resource | None:
    """One log."""
    titles = {"Lclog": "LifeCycle Controller Log Service", "Sel": "SEL Log Service"}
    if name not in titles:
        return None
    return head(f"{LOGS}/{name}", "LogService", "v1_4_0", titles[name]) | {
        "DateTime": machine.now().isoformat(),
        "DateTimeLocalOffset": machine.now().isoformat()[-6:],
        "Entries": ref(f"{LOGS}/{name}/Entries"),
        "LogEntryType": "OEM" if name == "Lclog" else "SEL",
        "MaxNumberOfRecords": 500000 if name == "Lclog" else 1024,
        "OverWritePolicy": "WrapsWhenFull",
        "ServiceEnabled": True,
    }


def _entry(name: str, entry: dict[str, Any]) -> Resource:
    path = f"{LOGS}/{name}/Entries/{entry['id']}"
    return {
        "@odata.id": path,
        "@odata.type": "#LogEntry.v1_15_0.LogEntry",
        "Created": entry["created"],
        "Description": f"Log Entry {entry['id']}",
        "EntryType": "Oem" if name == "Lclog" else "SEL",
        "Id": str(entry["id"]),
        "Links": {},
        "Message": entry["message"],
        "MessageArgs": entry["arguments"],
        "MessageArgs@odata.count": len(entry["arguments"]),
        "MessageId": f"IDRAC.2.8.{entry['message_id']}",
        "Name": f"Log Entry {entry['id']}",
        "Oem": {"Dell": {"@odata.type": "#DellLCLogEntry.v1_1_0.DellLCLogEntry", "Category": entry["category"]}},
        "OemRecordFormat": "Dell",
        "Severity": entry["severity"],
    }


def _entries(machine: Machine, name: str) -> list[dict[str, Any]]:
    """All entries of a log, the newest first. The event log holds what is wrong with the hardware, and power."""
    everything = lclog.entries(machine.born, machine.log)
    if name == "Lclog":
        return everything
    return [entry for entry in everything if entry["category"] == "SystemHealth"]


@resource(f"{LOGS}/*/Entries")
def log_entries(machine: Machine, name: str) -> Resource | None:
    """The entries of a log, whole, as iDRAC lists them; the caller cuts them into pages."""
    if name not in ("Lclog", "Sel"):
        return None
    members = [_entry(name, entry) for entry in _entries(machine, name)]
    body = collection(machine, f"{LOGS}/{name}/Entries", "LogEntry", "Log Entry Collection", [])
    return body | {"Members": members, "Members@odata.count": len(members)}


@resource(f"{LOGS}/*/Entries/*")
def log_entry(machine: Machine, name: str, number: str) -> Resource | None:
    """One entry of a log."""
    found = [entry for entry in _entries(machine, name) if str(entry["id"]) == number]
    return _entry(name, found[0]) if found and name in ("Lclog", "Sel") else None


def _job(machine: Machine, job_id: str) -> dict[str, Any] | None:
    return next((job for job in machine.jobs if job["id"] == job_id), None)


def _text(job: dict[str, Any]) -> tuple[str, str]:
    done = job["state"] == "Completed"
    return ("PR19", "Job completed successfully.") if done else ("JCP001", "Task successfully scheduled.")


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
    return head(f"{JOBS}/{job_id}", "DellJob", "v1_4_0", "Configure: BIOS.Setup.1-1", "Job Instance") | {
        "ActualRunningStartTime": job["completed"],
        "ActualRunningStopTime": job["completed"],
        "CompletionTime": job["completed"],
        "EndTime": "TIME_NA",
        "JobState": job["state"],
        "JobType": "BIOSConfiguration",
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
    return head(f"{ROOT}/JobService/Jobs/{job_id}", "Job", "v1_0_7", "ConfigBIOS:BIOS.Setup.1-1") | {
        "EndTime": job["completed"],
        "JobState": "Pending" if job["state"] == "Scheduled" else job["state"],
        "JobStatus": "OK",
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
    return head(f"{ROOT}/TaskService/Tasks/{job_id}", "Task", "v1_6_1", "Configure: BIOS.Setup.1-1") | {
        "EndTime": job["completed"],
        "Messages": [{"Message": message, "MessageArgs": [], "MessageId": f"IDRAC.2.8.{message_id}"}],
        "Messages@odata.count": 1,
        "PercentComplete": job["percent"],
        "StartTime": job["created"],
        "TaskState": "Completed" if job["state"] == "Completed" else "Starting",
        "TaskStatus": "OK",
    }


@resource(f"{ROOT}/SessionService")
def session_service(machine: Machine) -> Resource:
    """What hands out sessions."""
    return head(f"{ROOT}/SessionService", "SessionService", "v1_1_8", "Session Service") | {
        "ServiceEnabled": True,
        "SessionTimeout": machine.settings.get("session_seconds", 1800),
        "Sessions": ref(f"{ROOT}/SessionService/Sessions"),
        "Status": dict(OK),
    }


@resource(f"{ROOT}/UpdateService")
def update_service(machine: Machine) -> Resource:
    """Where the firmware versions are; updates are not simulated."""
    return head(f"{ROOT}/UpdateService", "UpdateService", "v1_11_3", "Update Service") | {
        "FirmwareInventory": ref(FIRMWARE),
        "ServiceEnabled": True,
        "Status": dict(OK),
    }


def _firmware(machine: Machine) -> dict[str, tuple[str, str]]:
    """Firmware by id: (name, version)."""
    versions = {
        f"Installed-159-{BIOS_VERSION}__BIOS.Setup.1-1": ("BIOS", BIOS_VERSION),
        "Previous-159-2.4.4__BIOS.Setup.1-1": ("BIOS", "2.4.4"),
        f"Installed-25227-{BMC_VERSION}__iDRAC.Embedded.1-1": ("Integrated Dell Remote Access Controller", BMC_VERSION),
        "Installed-27763-1.3.0__CPLD.Embedded.1": ("System CPLD", "1.3.0"),
        f"Installed-114070-2.1.13.2025__{BOSS}": ("BOSS-N1", "2.1.13.2025"),
    }
    for nic in nics(machine):
        name = f"Broadcom Adv. Dual 25Gb Ethernet - {nic.mac}"
        versions[f"Installed-108255-22.92.06.10__{nic.fqdd}"] = (name, "22.92.06.10")
    for port in machine.hardware.hcas:
        name = f"NVIDIA ConnectX-7 Single Port NDR OSFP PCIe Adapter - {port.mac}"
        versions[f"Installed-0-28.39.35.60__{port.fqdd}"] = (name, "28.39.35.60")
    for gpu in gpus(machine):
        versions[f"Installed-0-96.00.A5.00.01__{gpu.fqdd}"] = ("NVIDIA H100 80GB HBM3", "96.00.A5.00.01")
    for disk in machine.hardware.drives:
        versions[f"Installed-0-1.2.3__{disk.fqdd}"] = (disk.model, "1.2.3")
    for number in range(1, PSUS + 1):
        versions[f"Installed-112700-00.1B.53__PSU.Slot.{number}"] = (f"Power Supply.Slot.{number}", "00.1B.53")
    return versions


@resource(FIRMWARE)
def firmware_inventory(machine: Machine) -> Resource:
    """Versions of all firmware, installed and previous."""
    return collection(machine, FIRMWARE, "SoftwareInventory", "Software Inventory Collection", _firmware(machine))


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
