"""Power, cooling, intrusion and what the BMC noted, out of a tree. Pure; what does not fit is left out."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import Any

from .hardware import Fan, LogEntry, Psu, Redundancy, Temperature
from .values import HEALTHS, health, link, members, moment, natural, number, real, resource, rows, state, text
from .wanted import USEFUL_LOGS

MAX_SENSORS = 96
MAX_LOG = 20
_RANK = {"Critical": 0, "Warning": 1, "OK": 2}

Node = dict[str, Any]
Tree = Mapping[str, Any]


def psus_of(tree: Tree, chassis: Node) -> list[Psu]:
    """Power supplies that are there, from the older Power or the newer PowerSubsystem, whichever names more."""
    newer = members(tree, link(resource(tree, link(chassis, "PowerSubsystem")), "PowerSupplies"))
    older = rows(resource(tree, link(chassis, "Power")), "PowerSupplies")
    listed = older if len(older) >= len(newer) else newer
    names = [text(supply, "Name") for supply in listed]
    psus = []
    for place, supply in enumerate(listed, 1):
        if state(supply) == "Absent":
            continue
        psus.append(
            Psu(
                id=_psu_id(supply, place, names),
                health=health(supply),
                state=state(supply),
                watts=number(supply, "PowerCapacityWatts"),
                input_volts=number(supply, "LineInputVoltage"),
                model=text(supply, "Model"),
                serial=text(supply, "SerialNumber"),
                detail=text(supply, "Oem", "Dell", "DellPowerSupplyView", "DetailedState")
                or text(supply, "Oem", "Hpe", "PowerSupplyStatus", "State"),
            )
        )
    return sorted(psus, key=lambda psu: natural(psu.id))


def _psu_id(supply: Node, place: int, names: list[str]) -> str:
    """As printed at the slot where the BMC tells; HPE names all alike and numbers the bays."""
    dell = text(supply, "Oem", "Dell", "DellPowerSupply", "Id")
    bay = number(supply, "Oem", "Hpe", "BayNumber")
    name = text(supply, "Name")
    if dell or text(supply, "Id"):
        return dell or text(supply, "Id")
    if bay:
        return f"PSU {bay}"
    if name and names.count(name) == 1:
        return name
    return f"PSU {text(supply, 'MemberId') or place}"


def redundancy_of(tree: Tree, chassis: Node) -> list[Redundancy]:
    """Redundancy groups of power supplies and fans."""
    power, thermal = resource(tree, link(chassis, "Power")), resource(tree, link(chassis, "Thermal"))
    newer_power = resource(tree, link(chassis, "PowerSubsystem"))
    newer_thermal = resource(tree, link(chassis, "ThermalSubsystem"))
    groups = [("psu", group) for group in rows(power, "Redundancy") or rows(newer_power, "PowerSupplyRedundancy")]
    groups += [("fan", group) for group in rows(thermal, "Redundancy") or rows(newer_thermal, "FanRedundancy")]
    return [
        Redundancy(text(group, "Name") or f"{kind.upper()} redundancy", kind, health(group), state(group))
        for kind, group in groups
    ]


def fans_of(tree: Tree, chassis: Node) -> list[Fan]:
    """Fans that are there, from the older Thermal or the newer ThermalSubsystem."""
    listed = rows(resource(tree, link(chassis, "Thermal")), "Fans")
    listed = listed or members(tree, link(resource(tree, link(chassis, "ThermalSubsystem")), "Fans"))
    fans: dict[str, Fan] = {}
    for place, fan in enumerate(listed[:MAX_SENSORS], 1):
        if state(fan) == "Absent":
            continue
        name = text(fan, "Name") or text(fan, "FanName") or text(fan, "Id") or f"Fan {place}"
        rpm, percent = _fan_speed(fan)
        fans.setdefault(name, Fan(name, rpm, percent, health(fan), state(fan)))
    return sorted(fans.values(), key=lambda fan: natural(fan.id))


def _fan_speed(fan: Node) -> tuple[int | None, int | None]:
    """(rpm, percent). Lenovo writes the rpm where the percentage belongs."""
    reading, units = number(fan, "Reading"), text(fan, "ReadingUnits")
    rpm = number(fan, "SpeedPercent", "SpeedRPM")
    percent = number(fan, "Oem", "Dell", "FanPWM")
    told = number(fan, "SpeedPercent", "Reading")
    if percent is None and told is not None and told <= 100 and told != rpm:
        percent = told
    if units == "Percent":
        percent = reading if percent is None else percent
    elif units in ("RPM", ""):
        rpm = reading if rpm is None else rpm
    most = number(fan, "MaxReadingRange")
    if percent is None and rpm and most and units == "RPM" and rpm <= most:
        percent = round(100 * rpm / most)
    return rpm, percent


def temperatures_of(tree: Tree, chassis: Node) -> list[Temperature]:
    """Sensors that have a reading; of hundreds, those with a threshold first."""
    found: dict[str, Temperature] = {}
    for sensor in rows(resource(tree, link(chassis, "Thermal")), "Temperatures"):
        _add_temperature(
            found, sensor, real(sensor, "ReadingCelsius"), "UpperThresholdNonCritical", "UpperThresholdCritical"
        )
    if not found:
        for sensor in members(tree, link(chassis, "Sensors")):
            if text(sensor, "ReadingType") == "Temperature":
                caution, critical = (
                    ("Thresholds", "UpperCaution", "Reading"),
                    ("Thresholds", "UpperCritical", "Reading"),
                )
                _add_temperature(found, sensor, real(sensor, "Reading"), caution, critical)
    kept = sorted(found.values(), key=lambda one: one.critical is None and one.health == "OK")[:MAX_SENSORS]
    return sorted(kept, key=lambda one: natural(one.id))


def _add_temperature(
    found: dict[str, Temperature], sensor: Node, celsius: float | None, warning: Any, critical: Any
) -> None:
    name = text(sensor, "Name") or text(sensor, "Id")
    if celsius is None or not name or state(sensor) in ("Absent", "Disabled", "UnavailableOffline"):
        return
    high = real(sensor, *(critical if isinstance(critical, tuple) else (critical,)))
    warm = real(sensor, *(warning if isinstance(warning, tuple) else (warning,)))
    found.setdefault(
        name,
        Temperature(
            id=name,
            celsius=celsius,
            warning=warm if warm and warm > 0 else None,
            critical=high if high and high > 0 else None,  # 0 stands for none on some
            context=text(sensor, "PhysicalContext"),
            health=health(sensor),
        ),
    )


def log_of(tree: Tree, owners: Iterable[Node], since: datetime.datetime | None) -> list[LogEntry]:
    """What the logs of these managers and systems noted since a time of the BMC's clock; the worst first."""
    found: dict[tuple[str, str], LogEntry] = {}
    for owner in owners:
        for service in members(tree, link(owner, "LogServices")):
            if text(service, "Id") not in USEFUL_LOGS:
                continue
            for entry in members(tree, link(service, "Entries")):
                if text(entry, "Oem", "Dell", "Category") in ("Audit", "Configuration"):
                    continue  # who logged in, and which setting could not be changed
                made = _log_entry(entry, text(service, "Id"))
                when = moment(made.time)
                if (since and when and when < since) or not made.message:
                    continue
                found.setdefault((made.time, made.message), made)
    newest = sorted(found.values(), key=_when, reverse=True)
    return sorted(newest, key=lambda entry: _RANK.get(entry.severity, 2))[:MAX_LOG]


def _when(entry: LogEntry) -> float:
    when = moment(entry.time)
    return when.timestamp() if when else 0.0


def _log_entry(entry: Node, log: str) -> LogEntry:
    severity = HEALTHS.get((text(entry, "Severity") or text(entry, "MessageSeverity")).lower(), "OK")
    if entry.get("Resolved") is True or text(entry, "Oem", "Hpe", "Severity") == "Repaired":
        severity = "OK"
    return LogEntry(
        time=text(entry, "Created") or text(entry, "EventTimestamp"),
        severity=severity,
        message=text(entry, "Message"),
        code=text(entry, "MessageId").rsplit(".", 1)[-1],
        log=log,
    )
