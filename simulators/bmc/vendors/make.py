"""Bricks of which the shapes are built: resources, collections, and the parts that all vendors describe alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from simulators.bmc import lclog, parts
from simulators.bmc.hardware import DIMM_GIB, FANS, PSUS, Hardware, mac
from simulators.bmc.machine import Machine, utc

Resource = dict[str, Any]
V1 = "/redfish/v1"
NOTE = {"Simulator": {"Note": "Simulated BMC of the Firstlight lab: not hardware"}}
GPU_MODEL, HCA_MODEL = "NVIDIA H100 80GB HBM3", "NVIDIA ConnectX-7 HHHL Adapter Card"
GPU_MAKER, HCA_MAKER = "NVIDIA Corporation", "Mellanox Technologies"


def ref(path: str) -> dict[str, str]:
    """Return a link."""
    return {"@odata.id": path}


class Making(dict[str, Resource]):
    """A tree that is being made for one machine."""

    def __init__(self, machine: Machine, slash: bool = False) -> None:
        """Start empty; slash: links end in a slash, as iLO writes them."""
        super().__init__()
        self.machine = machine
        self.hardware: Hardware = machine.hardware
        self._end = "/" if slash else ""

    def link(self, path: str) -> dict[str, str]:
        """Return a link in this firmware's way."""
        return ref(path + self._end)

    def links(self, paths: Iterable[str]) -> list[dict[str, str]]:
        """Return several."""
        return [self.link(path) for path in paths]

    def put(self, path: str, kind: str, version: str, **body: Any) -> str:
        """Add one resource; its id and name are made from its path. Returns the path."""
        identity = path.rsplit("/", 1)[1]
        self[path] = {
            "@odata.id": path + self._end,
            "@odata.type": f"#{kind}.{version}.{kind}",
            "Id": identity,
            "Name": identity,
            **body,
        }
        return path

    def collect(self, path: str, kind: str, ids: Iterable[str]) -> str:
        """Add a collection of members that are added elsewhere. Returns the path."""
        members = self.links(f"{path}/{identity}" for identity in ids)
        self[path] = {
            "@odata.id": path + self._end,
            "@odata.type": f"#{kind}Collection.{kind}Collection",
            "Members": members,
            "Members@odata.count": len(members),
            "Name": f"{kind} Collection",
        }
        return path

    def group(self, path: str, kind: str, version: str, members: Mapping[str, Resource]) -> str:
        """Add a collection and its members. Returns the path."""
        for identity, body in members.items():
            self.put(f"{path}/{identity}", kind, version, **body)
        return self.collect(path, kind, members)

    def root(self, vendor: str, redfish: str, expand: Resource | None = None, **more: Any) -> None:
        """Add the service root and what every vendor has behind it."""
        features = {"ProtocolFeaturesSupported": {"ExpandQuery": expand}} if expand else {}
        self.put(
            V1, "ServiceRoot", "v1_15_0", RedfishVersion=redfish, Vendor=vendor, Oem=NOTE, UUID=self.hardware.uuid,
            **{name: self.link(f"{V1}/{name}") for name in ("Systems", "Chassis", "Managers", "SessionService",
                                                            "UpdateService")},
            Tasks=self.link(f"{V1}/TaskService"), Links={"Sessions": self.link(f"{V1}/SessionService/Sessions")},
            **features, **more,
        )  # fmt: skip
        self[V1]["Id"] = "RootService"
        self["/redfish"] = {"v1": f"{V1}/"}
        self.put(
            f"{V1}/SessionService", "SessionService", "v1_1_8", ServiceEnabled=True, SessionTimeout=1800,
            Sessions=self.link(f"{V1}/SessionService/Sessions"),
        )  # fmt: skip
        tasks = self._tasks()
        self.put(f"{V1}/TaskService", "TaskService", "v1_2_0", ServiceEnabled=True, Tasks=self.link(tasks))

    def _tasks(self) -> str:
        states = {"Downloading": "Running", "Running": "Running", "Scheduled": "Pending", "Failed": "Exception"}
        return self.group(
            f"{V1}/TaskService/Tasks", "Task", "v1_6_1",
            {
                job["id"]: {
                    "PercentComplete": job["percent"], "StartTime": job["created"], "EndTime": job["completed"],
                    "TaskState": states.get(job["state"], "Completed"),
                    "TaskStatus": parts.level(job["state"] == "Failed"), "Messages": [],
                }
                for job in self.machine.jobs
            },
        )  # fmt: skip

    def boot(self, system: str, targets: Iterable[str]) -> Resource:
        """Return the Boot object of a system, and add its options."""
        machine = self.machine
        names = {"Boot0000": "PXE IPv4 Embedded NIC Port 1", "Boot0001": "Linux"}
        self.group(
            f"{system}/BootOptions", "BootOption", "v1_0_4",
            {key: {"BootOptionReference": key, "DisplayName": name, "BootOptionEnabled": True}
             for key, name in names.items()},
        )  # fmt: skip
        return {
            "BootOptions": self.link(f"{system}/BootOptions"),
            "BootOrder": list(machine.boot["order"]),
            "BootSourceOverrideEnabled": machine.boot["enabled"],
            "BootSourceOverrideMode": machine.boot["mode"],
            "BootSourceOverrideTarget": machine.boot["target"],
            "BootSourceOverrideTarget@Redfish.AllowableValues": list(targets),
        }

    def reset(self, system: str, types: Iterable[str], inline: bool = True) -> Resource:
        """Return the reset action of a system, its types inline or in an ActionInfo of their own."""
        action: Resource = {"target": f"{system}/Actions/ComputerSystem.Reset"}
        if inline:
            action["ResetType@Redfish.AllowableValues"] = list(types)
        else:
            action["@Redfish.ActionInfo"] = f"{system}/ResetActionInfo"
            known = [{"Name": "ResetType", "Required": True, "AllowableValues": list(types)}]
            self.put(f"{system}/ResetActionInfo", "ActionInfo", "v1_2_0", Parameters=known)
        return {"#ComputerSystem.Reset": action}

    def manager(self, path: str, model: str, system: str, log: str | None = None, **more: Any) -> None:
        """Add a BMC with its own network port; its clock is put in when it is asked for."""
        self.group(
            f"{path}/EthernetInterfaces", "EthernetInterface", "v1_9_0",
            {"eth0": {"MACAddress": self.hardware.bmc_mac, "LinkStatus": "LinkUp", "SpeedMbps": 1000}},
        )  # fmt: skip
        body: Resource = {
            "Actions": {
                "#Manager.Reset": {
                    "target": f"{path}/Actions/Manager.Reset",
                    "ResetType@Redfish.AllowableValues": ["GracefulRestart", "ForceRestart"],
                }
            },
            "DateTime": "",
            "EthernetInterfaces": self.link(f"{path}/EthernetInterfaces"),
            "FirmwareVersion": parts.version(self.machine, "bmc"),
            "Links": {"ManagerForServers": [self.link(system)]},
            "ManagerType": "BMC",
            "Model": model,
            "PowerState": "On",
            "Status": parts.status(),
        } | more
        if log:
            body["LogServices"] = self.link(log)
        self.put(path, "Manager", "v1_17_0", **body)

    def logs(self, place: str, name: str) -> str:
        """Add an event log with what the machine remembers of its hardware. Returns the path of the collection."""
        machine = self.machine
        entries = [e for e in lclog.entries(machine.born, machine.log) if e["category"] in ("SystemHealth", "Storage")]
        self.put(f"{place}/{name}", "LogService", "v1_4_0", Entries=self.link(f"{place}/{name}/Entries"),
                 LogEntryType="Event", ServiceEnabled=True)  # fmt: skip
        self.group(
            f"{place}/{name}/Entries", "LogEntry", "v1_15_0",
            {
                str(entry["id"]): {
                    "Created": entry["created"], "EntryType": "Event", "Message": entry["message"],
                    "MessageArgs": entry["arguments"], "Severity": entry["severity"],
                }
                for entry in entries[:100]
            },
        )  # fmt: skip
        return self.collect(place, "LogService", [name])

    def memory(self, path: str) -> str:
        """Add the DIMMs."""
        members = {
            f"DIMM_{slot}": {
                "CapacityMiB": DIMM_GIB * 1024, "DeviceLocator": f"DIMM_{slot}", "MemoryDeviceType": "DDR5",
                "SerialNumber": self.hardware.serial(f"dimm{slot}", 8), "Manufacturer": "Hynix Semiconductor",
                "Status": parts.dimm_status(self.machine, slot), "OperatingSpeedMhz": 4800,
            }
            for slot in parts.dimms(self.machine)
        }  # fmt: skip
        return self.group(path, "Memory", "v1_17_0", members)

    def drive(self, disk: Any, **more: Any) -> Resource:
        """Return the body of a drive."""
        failed = parts.drive_failed(self.machine, disk)
        return {
            "CapacityBytes": disk.size, "FailurePredicted": failed, "Manufacturer": "KIOXIA", "MediaType": "SSD",
            "Model": disk.model.removeprefix("Dell "), "Protocol": "NVMe", "Revision": "1.2.3",
            "SerialNumber": disk.serial, "Status": parts.status(parts.level(failed)),
            "PredictedMediaLifeLeftPercent": parts.life_left(self.machine, disk),
            "PhysicalLocation": {"PartLocation": {"LocationOrdinalValue": disk.number, "LocationType": "Bay"}},
        } | more  # fmt: skip

    def interface(self, kind: str, number: int, widest: int = 16) -> Resource:
        """Return the PCIe link of a part."""
        most = parts.PCIE_GENERATION
        return {
            "LanesInUse": parts.width(self.machine, kind, number, widest), "MaxLanes": widest,
            "PCIeType": f"Gen{parts.generation(self.machine, kind, number)}", "MaxPCIeType": f"Gen{most}",
        }  # fmt: skip

    def legacy_power(self, chassis: str) -> None:
        """Add Power and Thermal, the older form."""
        machine = self.machine
        supplies = [
            {
                "@odata.id": f"{chassis}/Power#/PowerSupplies/{place}", "MemberId": str(place),
                "Name": f"PSU{number}", "Model": "PSU 3000W", "PowerCapacityWatts": 3000,
                "LineInputVoltage": 230 if parts.psu_works(machine, number) else 0,
                "SerialNumber": self.hardware.serial(f"psu{number}", 14), "Status": parts.psu_status(machine, number),
            }
            for place, number in enumerate(parts.psus(machine))
        ]  # fmt: skip
        redundancy = {"MemberId": "0", "Mode": "N+m", "MinNumNeeded": 3, "MaxNumSupported": PSUS,
                      "Name": "Power redundancy", "Status": parts.redundancy(machine)}  # fmt: skip
        self.put(f"{chassis}/Power", "Power", "v1_7_1", PowerSupplies=supplies, Redundancy=[redundancy])
        fans = [
            {"MemberId": str(n), "Name": f"Fan {n}", "Reading": parts.fan_percent(machine, n),
             "ReadingUnits": "Percent", "Status": parts.fan_status(machine, n)}
            for n in range(1, FANS + 1)
        ]  # fmt: skip
        heat = [
            {"MemberId": str(n), "Name": name, "ReadingCelsius": reading, "UpperThresholdCritical": threshold,
             "Status": parts.status(level)}
            for n, (name, reading, threshold, level) in enumerate(parts.temperatures(machine))
        ]  # fmt: skip
        self.put(f"{chassis}/Thermal", "Thermal", "v1_7_1", Fans=fans, Temperatures=heat)

    def modern_power(self, chassis: str, sensors: bool = False) -> None:
        """Add PowerSubsystem and ThermalSubsystem; sensors: temperatures are Sensors of the chassis too."""
        machine = self.machine
        subsystem, cooling = f"{chassis}/PowerSubsystem", f"{chassis}/ThermalSubsystem"
        supplies = {
            f"PSU{number}": {
                "Model": "PSU 3000W", "PowerCapacityWatts": 3000, "Status": parts.psu_status(machine, number),
                "SerialNumber": self.hardware.serial(f"psu{number}", 14),
            }
            for number in parts.psus(machine)
        }  # fmt: skip
        self.group(f"{subsystem}/PowerSupplies", "PowerSupply", "v1_5_0", supplies)
        group = {"RedundancyType": "NPlusM", "MinNeededInGroup": 3, "Status": parts.redundancy(machine),
                 "RedundancyGroup": self.links(f"{subsystem}/PowerSupplies/{name}" for name in supplies)}  # fmt: skip
        self.put(subsystem, "PowerSubsystem", "v1_1_0", PowerSupplyRedundancy=[group],
                 PowerSupplies=self.link(f"{subsystem}/PowerSupplies"))  # fmt: skip
        fans = {
            f"Fan{n}": {
                "SpeedPercent": {"Reading": parts.fan_percent(machine, n), "SpeedRPM": parts.fan_rpm(machine, n)},
                "Status": parts.fan_status(machine, n),
            }
            for n in range(1, FANS + 1)
        }  # fmt: skip
        self.group(f"{cooling}/Fans", "Fan", "v1_3_0", fans)
        readings = [{"DeviceName": name, "Reading": reading} for name, reading, _, _ in parts.temperatures(machine)]
        self.put(f"{cooling}/ThermalMetrics", "ThermalMetrics", "v1_0_1", TemperatureReadingsCelsius=readings)
        self.put(cooling, "ThermalSubsystem", "v1_2_0", Fans=self.link(f"{cooling}/Fans"),
                 ThermalMetrics=self.link(f"{cooling}/ThermalMetrics"))  # fmt: skip
        if sensors:
            self.group(
                f"{chassis}/Sensors", "Sensor", "v1_5_0",
                {
                    f"temperature_{name.replace(' ', '_')}": {
                        "Reading": reading, "ReadingType": "Temperature", "ReadingUnits": "Cel",
                        "Status": parts.status(level), "Thresholds": {"UpperCritical": {"Reading": threshold}},
                    }
                    for name, reading, threshold, level in parts.temperatures(machine)
                },
            )  # fmt: skip

    def updates(self, inventory: Mapping[str, str], names: Mapping[str, str] | None = None, **more: Any) -> None:
        """Add the UpdateService; inventory: versions by id; names: by id where the name is not the id."""
        place = f"{V1}/UpdateService/FirmwareInventory"
        self.group(
            place, "SoftwareInventory", "v1_10_0",
            {identity: {"Version": version, "Updateable": True, "Status": parts.status()}
             | ({"Name": names[identity]} if names and identity in names else {})
             for identity, version in inventory.items()},
        )  # fmt: skip
        self.put(
            f"{V1}/UpdateService", "UpdateService", "v1_11_3", ServiceEnabled=True, FirmwareInventory=self.link(place),
            MultipartHttpPushUri=f"{V1}/UpdateService/MultipartUpload", **more,
        )  # fmt: skip

    def bios(self, system: str, attributes: Mapping[str, Any], settings: str) -> None:
        """Add the BIOS's attributes and where they are changed."""
        now = dict(attributes) | self.machine.bios_now()
        self.put(f"{system}/Bios", "Bios", "v1_2_1", Attributes=now,
                 **{"@Redfish.Settings": {"@odata.type": "#Settings.v1_3_5.Settings",
                                          "SettingsObject": ref(settings)}})  # fmt: skip
        pending = now | self.machine.bios_pending
        self.put(settings, "Bios", "v1_2_1", Attributes=pending)

    def inventory_time(self) -> str:
        """When the BMC last took stock."""
        return utc(self.machine.inventory_at)


def summary(machine: Machine) -> Resource:
    """Return the summaries of memory and processors that every system has."""
    return {
        "MemorySummary": {"TotalSystemMemoryGiB": DIMM_GIB * len(parts.dimms(machine)), "Status": parts.status()},
        "ProcessorSummary": {"Count": 2, "Model": "Intel(R) Xeon(R) Platinum 8480+", "Status": parts.status()},
    }


def cpus() -> dict[str, Resource]:
    """Return the two CPUs, by number."""
    body = {"ProcessorType": "CPU", "Model": "Intel(R) Xeon(R) Platinum 8480+", "TotalCores": 56,
            "Status": {"Health": "OK", "State": "Enabled"}}  # fmt: skip
    return {"CPU1": dict(body), "CPU2": dict(body)}


def guid(address: str) -> str:
    """Return the port GUID that goes with a MAC address, as InfiniBand adapters make it."""
    digits = address.replace(":", "").lower()
    return f"{digits[:6]}0300{digits[6:]}"


def usb_mac(machine: Machine) -> str:
    """The MAC of a USB NIC between BMC and host: the same on every machine."""
    return mac("7E31A0", 1).lower()
