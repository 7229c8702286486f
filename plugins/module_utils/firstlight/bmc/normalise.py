"""From a Redfish tree to one Hardware. Pure; what is missing, null or of the wrong type is left out, nothing raises."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping
from typing import Any

from .hardware import Controller, Hardware
from .normal_chassis import fans_of, log_of, psus_of, redundancy_of, temperatures_of
from .normal_nics import adapters_of, nics_of
from .normal_parts import dimms_of, drives_of, gpus_of, links_of, pcie_devices
from .values import dig, health, link, members, moment, number, real, resource, state, text
from .vendors import Vendor, host_system, nvidia, vendor_of
from .vendors.vendor import told

ROOT = "/redfish/v1"
LOG_DAYS = 14

Node = dict[str, Any]
Tree = Mapping[str, Any]


def normalise(
    tree: Tree,
    clock_read_at: datetime.datetime | None = None,
    unread: Collection[str] = (),
    log_since: datetime.datetime | None = None,
) -> Hardware:
    """Hardware from fetched resources (path -> JSON object).

    clock_read_at: our time when the manager's clock was read. unread: parts that could not be wholly read. log_since:
    from when on entries of the BMC's logs matter, by our clock; two weeks before clock_read_at by default.
    """
    root = resource(tree, ROOT)
    systems = members(tree, link(root, "Systems") or f"{ROOT}/Systems")
    system = host_system(systems)
    others = [other for other in systems if other is not system]
    managers = members(tree, link(root, "Managers") or f"{ROOT}/Managers")
    manager = next((m for m in managers if not nvidia.is_baseboard(m)), {})
    chassis = resource(tree, link(system, "Links", "Chassis", 0))
    bodies = [chassis, *(c for c in members(tree, link(root, "Chassis")) if c is not chassis)]
    shelf = nvidia.shelf(bodies)
    vendor = vendor_of(text(system, "Manufacturer"), text(root, "Vendor"), text(shelf, "Manufacturer"))
    processors = [p for s in (system, *others) for p in members(tree, link(s, "Processors"))]
    controllers = members(tree, link(system, "Storage"))
    updates = link(root, "UpdateService").rstrip("/")
    inventory = members(tree, f"{updates}/FirmwareInventory") if updates else []
    adapters = adapters_of(tree, system, bodies)
    devices = pcie_devices(tree, bodies, system)
    nics = nics_of(tree, system, adapters)
    gpus = gpus_of(tree, processors, devices, chassis, inventory)
    drives = drives_of(tree, controllers, bodies)
    skew = _skew(manager, clock_read_at)
    return Hardware(
        vendor=text(system, "Manufacturer") or text(shelf, "Manufacturer") or text(root, "Vendor"),
        model=told(system, "Model") or told(shelf, "Model") or text(root, "Product"),
        service_tag=vendor.tag(system, shelf or chassis),
        board_serial=text(system, "SerialNumber"),
        power_state=text(system, "PowerState"),
        memory_gib=_gib(system),
        cpus=number(system, "ProcessorSummary", "Count"),
        nics=nics,
        gpus=gpus,
        drives=drives,
        psus=psus_of(tree, chassis),
        redundancy=redundancy_of(tree, chassis),
        fans=fans_of(tree, chassis),
        temperatures=temperatures_of(tree, chassis),
        dimms=dimms_of(members(tree, link(system, "Memory"))),
        pcie=links_of(tree, processors, devices, adapters, controllers, gpus, nics, drives),
        controllers=_controllers(managers),
        log=log_of(tree, [manager, system, *others], _since(clock_read_at, skew, log_since)),
        intrusion=text(chassis, "PhysicalSecurity", "IntrusionSensor"),
        bmc=vendor.bmc(manager),
        firmware=_firmware(vendor, inventory, system, manager),
        bios=_bios(vendor, resource(tree, link(system, "Bios"))),
        inventory_time=vendor.inventory_time(system) or None,
        bmc_clock_skew_seconds=skew,
        unread=sorted(
            {
                *unread,
                *vendor.incomplete(system),
                *_doubtful(vendor, unread, processors),
                *_spoilt(tree, system, chassis, controllers),
            }
        ),
    )


def _doubtful(vendor: Vendor, unread: Collection[str], processors: list[Node]) -> list[str]:
    """Parts that may be in what could not be read, though it was read for others.

    GPUs can be mere PCIe devices (iDRAC 8, Supermicro), or in a second system (HGX). A network port that could not be
    read can be of either kind, unless it has a name as Dell's ports have.
    """
    elsewhere = not any(text(processor, "ProcessorType") == "GPU" for processor in processors)
    found = ["gpus"] if elsewhere and {"pcie", "system"}.intersection(unread) else []
    if vendor.name != "dell" and {"nics", "hcas"}.intersection(unread):
        found += ["nics", "hcas"]
    return found


def _spoilt(tree: Tree, system: Node, chassis: Node, controllers: list[Node]) -> list[str]:
    """Parts whose list or link is null, or something else: they were read, and say nothing all the same."""
    power, thermal = resource(tree, link(chassis, "Power")), resource(tree, link(chassis, "Thermal"))
    lists = [("psus", power, "PowerSupplies"), ("thermal", thermal, "Fans"), ("thermal", thermal, "Temperatures")]
    lists += [("drives", controller, "Drives") for controller in controllers]
    found = [part for part, node, key in lists if key in node and not _is_list(node[key])]
    found += [part for part, node, key in _links(system, chassis) if key in node and not link(node, key)]
    bios = resource(tree, link(system, "Bios"))
    return [*found, "bios"] if bios and not isinstance(bios.get("Attributes", {}), dict) else found


def _links(system: Node, chassis: Node) -> list[tuple[str, Node, str]]:
    keys = (("nics", "EthernetInterfaces"), ("gpus", "Processors"), ("drives", "Storage"), ("dimms", "Memory"))
    found = [(part, system, key) for part, key in (*keys, ("bios", "Bios"))]
    return [*found, ("hcas", chassis, "NetworkAdapters"), ("psus", chassis, "Power"), ("thermal", chassis, "Thermal")]


def _is_list(value: Any) -> bool:
    """A list of mappings, or the link of a collection."""
    return all(isinstance(entry, dict) for entry in value) if isinstance(value, list) else bool(link(value))


def _gib(system: Node) -> float | None:
    told_gib = real(system, "MemorySummary", "TotalSystemMemoryGiB")
    return told_gib if told_gib and told_gib > 0 else None


def _skew(manager: Node, read_at: datetime.datetime | None) -> int | None:
    theirs = moment(manager.get("DateTime"))
    return round((theirs - read_at).total_seconds()) if theirs and read_at else None


def _since(
    read_at: datetime.datetime | None, skew: int | None, since: datetime.datetime | None
) -> datetime.datetime | None:
    """The time from which log entries matter, by the BMC's clock; None for all of them."""
    if since is None and read_at is None:
        return None
    start = since or (read_at or datetime.datetime.now(datetime.UTC)) - datetime.timedelta(days=LOG_DAYS)
    try:
        return start + datetime.timedelta(seconds=skew or 0)
    except OverflowError:
        return None


def _controllers(managers: list[Node]) -> list[Controller]:
    return [
        Controller(nvidia.name_of(m) or text(m, "Id"), health(m), state(m), text(m, "FirmwareVersion"))
        for m in managers
        if nvidia.is_baseboard(m) and text(m, "ManagerType") in ("BMC", "")
    ]


def _firmware(vendor: Vendor, inventory: list[Node], system: Node, manager: Node) -> dict[str, str]:
    """Versions by component: "bios", "bmc", and each entry of the inventory that runs (Dell: by its FQDD)."""
    found = {"bios": told(system, "BiosVersion"), "bmc": text(manager, "FirmwareVersion")}
    for entry in inventory:
        component = vendor.firmware(entry)
        if component:
            found[component] = text(entry, "Version")
    return {component: version for component, version in sorted(found.items()) if version}


def _bios(vendor: Vendor, bios: Node) -> dict[str, str]:
    attributes = dig(bios, "Attributes")
    if not isinstance(attributes, dict):
        return {}
    found = {}
    for name in sorted(n for n in attributes if isinstance(n, str) and len(n) <= 120 and vendor.meaning(n)):
        value = attributes[name]
        told_value = str(value) if isinstance(value, bool | int) else text(attributes, name)
        if told_value:
            found[name] = told_value
    return found
