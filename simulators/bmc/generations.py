"""iDRAC8 and iDRAC10: what they say differently from the iDRAC9 that the tree describes."""

from __future__ import annotations

import re

from simulators.bmc import parts, tree
from simulators.bmc.machine import Machine
from simulators.bmc.tree import CHASSIS, MANAGER, ROOT, SYSTEM, Resource, ref

OLD_SESSIONS = f"{ROOT}/Sessions"
_GONE_8 = re.compile(
    rf"{ROOT}/(SessionService/Sessions|JobService.*|UpdateService/MultipartUpload)|{CHASSIS}/((Power|Thermal)Subsystem|Sensors).*"
    rf"|{MANAGER}/Oem/Dell/DellLCService|{SYSTEM}/(Settings|Processors/Video\..*|Oem/Dell/DellSystem/.*)"
)


def _idrac8(machine: Machine, path: str, body: Resource) -> Resource | None:
    """A 13th-generation server: no expansion, no GPUs among the processors, sessions elsewhere, no inventory time."""
    if _GONE_8.fullmatch(path):
        return None
    if path == ROOT:
        gone = ("ProtocolFeaturesSupported", "JobService", "Vendor")
        body = {key: value for key, value in body.items() if key not in gone}
        return body | {"Links": {"Sessions": ref(OLD_SESSIONS)}, "RedfishVersion": "1.4.0"}
    if path == SYSTEM:
        body = {key: value for key, value in body.items() if key != "@Redfish.Settings"}
        return body | {"Oem": {}}
    if path == CHASSIS:
        links = {key: value for key, value in body["Links"].items() if not key.startswith("Processors")}
        return body | {"Links": links}
    if path == MANAGER:
        links = body["Links"] | {"Oem": {"Dell": {"Jobs": body["Links"]["Oem"]["Dell"]["Jobs"]}}}
        return body | {"Links": links, "Model": "13G Monolithic"}
    if "/PCIeFunctions/" in path:
        return body | {"Links": {key: value for key, value in body["Links"].items() if key != "Processors"}}
    if path == f"{SYSTEM}/Processors":
        members = [member for member in body["Members"] if "/CPU." in member["@odata.id"]]
        return body | {"Members": members, "Members@odata.count": len(members)}
    if path == f"{ROOT}/UpdateService":
        return {key: value for key, value in body.items() if key != "MultipartHttpPushUri"}
    if path == f"{ROOT}/SessionService":
        return body | {"Sessions": ref(OLD_SESSIONS)}
    return body


def _idrac10(machine: Machine, path: str, body: Resource) -> Resource | None:
    """A 17th-generation server: power and cooling in the newer form, no MACs at the EthernetInterfaces."""
    if path in (f"{CHASSIS}/Power", f"{CHASSIS}/Thermal"):
        return None
    if path == ROOT:
        return body | {"RedfishVersion": "1.20.1"}
    if path == SYSTEM:
        links = body["Links"] | {
            "CooledBy": [ref(f"{CHASSIS}/ThermalSubsystem/Fans/Fan.Embedded.{n}") for n in range(1, 17)],
            "PoweredBy": [ref(f"{CHASSIS}/PowerSubsystem/PowerSupplies/PSU.Slot.{n}") for n in parts.psus(machine)],
        }
        return body | {"Links": links}
    if path == CHASSIS:
        body = {key: value for key, value in body.items() if key not in ("Power", "Thermal")}
        return body | {
            "PowerSubsystem": ref(f"{CHASSIS}/PowerSubsystem"),
            "Sensors": ref(f"{CHASSIS}/Sensors"),
            "ThermalSubsystem": ref(f"{CHASSIS}/ThermalSubsystem"),
        }
    if path == MANAGER:
        return body | {"Model": "17G Monolithic"}
    if path.startswith(f"{SYSTEM}/EthernetInterfaces/"):
        return body | {"MACAddress": "", "PermanentMACAddress": ""}
    return body


tree.ADJUST["dell-idrac8"] = _idrac8
tree.NO_EXPANSION.add("dell-idrac8")
tree.ADJUST["dell-idrac10"] = _idrac10
