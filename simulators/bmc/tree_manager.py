"""Redfish tree of a simulated iDRAC9: Managers, logs, and the service that hands out sessions."""

from __future__ import annotations

from typing import Any

from simulators.bmc import lclog, parts
from simulators.bmc.machine import Machine, local
from simulators.bmc.tree import CHASSIS, MANAGER, OK, ROOT, SYSTEM, Resource, collection, head, ref, resource

LOGS = f"{MANAGER}/LogServices"
JOBS = f"{MANAGER}/Oem/Dell/Jobs"


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
        "FirmwareVersion": parts.version(machine, "bmc"),
        "LastResetTime": local(machine.born),
        "Links": {
            "ManagerForChassis": [ref(CHASSIS)],
            "ManagerForChassis@odata.count": 1,
            "ManagerForServers": [ref(SYSTEM)],
            "ManagerForServers@odata.count": 1,
            "Oem": {"Dell": {"DellLCService": ref(f"{MANAGER}/Oem/Dell/DellLCService"), "Jobs": ref(JOBS)}},
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
        "Actions": {"#LogService.ClearLog": {"target": f"{LOGS}/{name}/Actions/LogService.ClearLog"}}
        if name == "Sel"
        else {},
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
    return [entry for entry in everything if entry["category"] == "SystemHealth" and entry["id"] > machine.sel_cleared]


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


@resource(f"{ROOT}/SessionService")
def session_service(machine: Machine) -> Resource:
    """What hands out sessions."""
    return head(f"{ROOT}/SessionService", "SessionService", "v1_1_8", "Session Service") | {
        "ServiceEnabled": True,
        "SessionTimeout": machine.settings.get("session_seconds", 1800),
        "Sessions": ref(f"{ROOT}/SessionService/Sessions"),
        "Status": dict(OK),
    }
