"""Redfish tree of a simulated iDRAC: power supplies, fans and temperatures, in the older and the newer form."""

from __future__ import annotations

from simulators.bmc import parts
from simulators.bmc.hardware import FANS, PSUS
from simulators.bmc.machine import Machine
from simulators.bmc.tree import CHASSIS, OK, ROOT, Resource, collection, head, ref, resource

SUBSYSTEM = f"{CHASSIS}/PowerSubsystem"
COOLING = f"{CHASSIS}/ThermalSubsystem"
SENSORS = f"{CHASSIS}/Sensors"
WATTS = 2800


def _input_volts(machine: Machine, number: int) -> int:
    return 240 if parts.psu_works(machine, number) else 0


def _detail(machine: Machine, number: int) -> str:
    if machine.fault_number("psu_unplugged", "psu") == number:
        return "Presence Detected, Input Lost or Out of Range"
    return "Presence Detected" if parts.psu_works(machine, number) else "Presence Detected, Failure Detected"


def _dell(machine: Machine, number: int) -> Resource:
    return {
        "@odata.type": "#DellOem.v1_3_0.DellOemResources",
        "DellPowerSupply": {
            "Id": f"PSU.Slot.{number}",
            "OperationalStatus": ["OK" if parts.psu_works(machine, number) else "Error"],
        },
        "DellPowerSupplyView": {
            "DetailedState": _detail(machine, number),
            "DeviceDescription": f"Power Supply {number}",
        },
    }


def _output(machine: Machine, number: int) -> float:
    return 410.0 if machine.power == "On" and parts.psu_works(machine, number) else 0.0


def _power_supply(machine: Machine, place: int, number: int) -> Resource:
    output = _output(machine, number)
    return {
        "@odata.context": f"{ROOT}/$metadata#Power.Power",
        "@odata.id": f"{CHASSIS}/Power#/PowerSupplies/{place}",
        "@odata.type": "#Power.v1_7_1.PowerSupply",
        "FirmwareVersion": parts.version(machine, "psu"),
        "HotPluggable": True,
        "LineInputVoltage": _input_volts(machine, number),
        "LineInputVoltageType": "AC240V",
        "Manufacturer": "DELL",
        "MemberId": str(place),
        "Model": "PWR SPLY,2800W,RDNT,LTON",
        "Name": f"PS{number} Status",
        "Oem": {"Dell": _dell(machine, number)},
        "PartNumber": "0D8PXKA01",
        "PowerCapacityWatts": WATTS,
        "PowerInputWatts": output and output + 40.0,
        "PowerOutputWatts": output,
        "PowerSupplyType": "AC",
        "Redundancy": [ref(f"{CHASSIS}/Power#/Redundancy/0")],
        "Redundancy@odata.count": 1,
        "SerialNumber": machine.hardware.serial(f"psu{number}", 14),
        "Status": parts.psu_status(machine, number),
    }


@resource(f"{CHASSIS}/Power")
def power(machine: Machine) -> Resource:
    """Power supplies and their redundancy."""
    supplies = [_power_supply(machine, place, number) for place, number in enumerate(parts.psus(machine))]
    return head(f"{CHASSIS}/Power", "Power", "v1_7_1", "Power") | {
        "PowerControl": [
            {
                "@odata.id": f"{CHASSIS}/Power#/PowerControl/0",
                "@odata.type": "#Power.v1_7_1.PowerControl",
                "MemberId": "0",
                "Name": "System Power Control",
                "PowerAllocatedWatts": 11200,
                "PowerCapacityWatts": WATTS * PSUS,
                "PowerConsumedWatts": sum(int(supply["PowerInputWatts"]) for supply in supplies) or 95,
            }
        ],
        "PowerControl@odata.count": 1,
        "PowerSupplies": supplies,
        "PowerSupplies@odata.count": len(supplies),
        "Redundancy": [
            {
                "@odata.id": f"{CHASSIS}/Power#/Redundancy/0",
                "@odata.type": "#Redundancy.v1_4_0.Redundancy",
                "MaxNumSupported": PSUS,
                "MemberId": "0",
                "MinNumNeeded": 3,
                "Mode": "N+m",
                "Name": "System Board PS Redundancy",
                "RedundancySet": [ref(supply["@odata.id"]) for supply in supplies],
                "RedundancySet@odata.count": len(supplies),
                "Status": parts.redundancy(machine),
            }
        ],
        "Redundancy@odata.count": 1,
    }


@resource(f"{CHASSIS}/Thermal")
def thermal(machine: Machine) -> Resource:
    """Fans and temperatures; with the power off, fans stand still and the CPUs say nothing."""
    fans = [
        {
            "@odata.id": f"{CHASSIS}/Thermal#/Fans/{number}",
            "@odata.type": "#Thermal.v1_7_1.Fan",
            "FanName": f"System Board Fan{number + 1}",
            "HotPluggable": True,
            "LowerThresholdCritical": 480,
            "MaxReadingRange": parts.FAN_FULL_RPM,
            "MemberId": str(number),
            "Name": f"System Board Fan{number + 1}",
            "Oem": {"Dell": {"FanPWM": parts.fan_percent(machine, number + 1)}},
            "PhysicalContext": "SystemBoard",
            "Reading": parts.fan_rpm(machine, number + 1),
            "ReadingUnits": "RPM",
            "Status": parts.fan_status(machine, number + 1),
        }
        for number in range(FANS)
    ]
    temperatures = [
        {
            "@odata.id": f"{CHASSIS}/Thermal#/Temperatures/{number}",
            "@odata.type": "#Thermal.v1_7_1.Temperature",
            "MemberId": str(number),
            "Name": name,
            "PhysicalContext": _context(name),
            "ReadingCelsius": reading,
            "Status": parts.status(level),
            "UpperThresholdCritical": threshold,
            "UpperThresholdNonCritical": threshold - 5,
        }
        for number, (name, reading, threshold, level) in enumerate(parts.temperatures(machine))
    ]
    return head(f"{CHASSIS}/Thermal", "Thermal", "v1_7_1", "Thermal") | {
        "Fans": fans,
        "Fans@odata.count": len(fans),
        "Temperatures": temperatures,
        "Temperatures@odata.count": len(temperatures),
    }


def _context(name: str) -> str:
    words = {"Inlet": "Intake", "Exhaust": "Exhaust", "CPU": "CPU", "GPU": "GPU"}
    return next((context for word, context in words.items() if word in name), "SystemBoard")


@resource(SUBSYSTEM)
def power_subsystem(machine: Machine) -> Resource:
    """Power supplies, in the newer form."""
    supplies = [ref(f"{SUBSYSTEM}/PowerSupplies/PSU.Slot.{number}") for number in parts.psus(machine)]
    return head(SUBSYSTEM, "PowerSubsystem", "v1_1_0", "Power Subsystem for Chassis") | {
        "CapacityWatts": float(WATTS * PSUS),
        "PowerSupplies": ref(f"{SUBSYSTEM}/PowerSupplies"),
        "PowerSupplyRedundancy": [
            {
                "GroupName": "System Board PS Redundancy",
                "MaxSupportedInGroup": PSUS,
                "MinNeededInGroup": 3,
                "RedundancyGroup": supplies,
                "RedundancyType": "NPlusM",
                "Status": parts.redundancy(machine),
            }
        ],
        "Status": dict(OK),
    }


@resource(f"{SUBSYSTEM}/PowerSupplies")
def power_supplies(machine: Machine) -> Resource:
    """The power supplies."""
    ids = [f"PSU.Slot.{number}" for number in parts.psus(machine)]
    return collection(machine, f"{SUBSYSTEM}/PowerSupplies", "PowerSupply", "PowerSupply Collection", ids)


def _psu_number(machine: Machine, identity: str) -> int | None:
    return next((number for number in parts.psus(machine) if identity == f"PSU.Slot.{number}"), None)


@resource(f"{SUBSYSTEM}/PowerSupplies/*")
def power_supply(machine: Machine, identity: str) -> Resource | None:
    """One power supply."""
    number = _psu_number(machine, identity)
    if number is None:
        return None
    path = f"{SUBSYSTEM}/PowerSupplies/{identity}"
    return head(path, "PowerSupply", "v1_5_0", f"PS{number} Status") | {
        "FirmwareVersion": parts.version(machine, "psu"),
        "HotPluggable": True,
        "InputNominalVoltageType": "AC240V",
        "Manufacturer": "DELL",
        "Metrics": ref(f"{path}/Metrics"),
        "Model": "PWR SPLY,2800W,RDNT,LTON",
        "Oem": {"Dell": _dell(machine, number)},
        "PowerCapacityWatts": WATTS,
        "PowerSupplyType": "AC",
        "SerialNumber": machine.hardware.serial(f"psu{number}", 14),
        "Status": parts.psu_status(machine, number),
    }


@resource(f"{SUBSYSTEM}/PowerSupplies/*/Metrics")
def power_supply_metrics(machine: Machine, identity: str) -> Resource | None:
    """What one power supply takes and gives."""
    number = _psu_number(machine, identity)
    if number is None:
        return None
    path = f"{SUBSYSTEM}/PowerSupplies/{identity}/Metrics"
    output = _output(machine, number)
    return head(path, "PowerSupplyMetrics", "v1_0_1", f"Metrics for {identity}") | {
        "InputVoltage": {"Reading": _input_volts(machine, number)},
        "InputPowerWatts": {"Reading": output and output + 40.0},
        "OutputPowerWatts": {"Reading": output},
        "Status": dict(OK),
    }


def _sensors(machine: Machine) -> dict[str, tuple[str, float, float, str]]:
    return {name.replace(" ", ""): (name, *rest) for name, *rest in parts.temperatures(machine)}  # type: ignore[misc]


@resource(SENSORS)
def sensors(machine: Machine) -> Resource:
    """The temperatures, as sensors."""
    return collection(machine, SENSORS, "Sensor", "Sensor Collection", _sensors(machine))


@resource(f"{SENSORS}/*")
def sensor(machine: Machine, identity: str) -> Resource | None:
    """One temperature."""
    found = _sensors(machine).get(identity)
    if found is None:
        return None
    name, reading, threshold, level = found
    return head(f"{SENSORS}/{identity}", "Sensor", "v1_9_0", name) | {
        "PhysicalContext": _context(name),
        "Reading": reading,
        "ReadingType": "Temperature",
        "ReadingUnits": "Cel",
        "Status": parts.status(level),
        "Thresholds": {"UpperCaution": {"Reading": threshold - 5}, "UpperCritical": {"Reading": threshold}},
    }


@resource(COOLING)
def thermal_subsystem(machine: Machine) -> Resource:
    """Fans and temperatures, in the newer form."""
    return head(COOLING, "ThermalSubsystem", "v1_2_0", "Thermal Subsystem for Chassis") | {
        "Fans": ref(f"{COOLING}/Fans"),
        "Status": dict(OK),
        "ThermalMetrics": ref(f"{COOLING}/ThermalMetrics"),
    }


@resource(f"{COOLING}/Fans")
def fans(machine: Machine) -> Resource:
    """The fans."""
    ids = [f"Fan.Embedded.{number}" for number in range(1, FANS + 1)]
    return collection(machine, f"{COOLING}/Fans", "Fan", "Fan Collection", ids)


@resource(f"{COOLING}/Fans/*")
def fan(machine: Machine, identity: str) -> Resource | None:
    """One fan."""
    number = next((n for n in range(1, FANS + 1) if identity == f"Fan.Embedded.{n}"), None)
    if number is None:
        return None
    return head(f"{COOLING}/Fans/{identity}", "Fan", "v1_3_0", f"System Board Fan{number}") | {
        "HotPluggable": True,
        "PhysicalContext": "SystemBoard",
        "SpeedPercent": {
            "Reading": parts.fan_percent(machine, number),
            "SpeedRPM": parts.fan_rpm(machine, number),
        },
        "Status": parts.fan_status(machine, number),
    }


@resource(f"{COOLING}/ThermalMetrics")
def thermal_metrics(machine: Machine) -> Resource:
    """The temperatures."""
    readings = [
        {"DeviceName": name, "PhysicalContext": _context(name), "Reading": reading}
        for name, reading, _, _ in parts.temperatures(machine)
    ]
    return head(f"{COOLING}/ThermalMetrics", "ThermalMetrics", "v1_0_1", "Thermal Metrics for Chassis") | {
        "TemperatureReadingsCelsius": readings,
        "TemperatureReadingsCelsius@odata.count": len(readings),
    }
