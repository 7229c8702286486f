"""Each vendor's tree to the same Hardware: the simulator's, in the shape of each vendor, and quirks one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bmc_trees as trees
import pytest
from bmc_simulated import machine, record_of, strike

from firstlight.bmc.fetch import TreeReader, read_tree
from firstlight.bmc.hardware import Hardware
from firstlight.bmc.normalise import normalise
from firstlight.bmc.triage import triage
from firstlight.bmc.vendors import host_system, vendor_of
from firstlight.bmc.vendors.dell import generation
from firstlight.profile import Profile
from firstlight.sitefiles import PlannedHost

VENDORS = {
    # the simulator's name: maker, kind of BMC, model, the first GPU, the port that installs, a text in the OS disk's
    # controller, boot mode attribute
    "dell-idrac8": ("Dell Inc.", "iDRAC 8", "27-0", "NIC.Embedded.1-1-1", "BOSS", "BootMode"),
    "dell-idrac9": ("Dell Inc.", "iDRAC 9", "Video.Slot.21-1", "NIC.Embedded.1-1-1", "BOSS", "BootMode"),
    "dell-idrac10": ("Dell Inc.", "iDRAC 10", "Video.Slot.21-1", "NIC.Embedded.1-1-1", "BOSS", "BootMode"),
    "hpe-ilo5": ("HPE", "iLO 5", "GPU1", "1", "DA000001", "BootMode"),
    "hpe-ilo6": ("HPE", "iLO 6", "GPU1", "1", "DA000001", "BootMode"),
    "lenovo-xcc": ("Lenovo", "XCC", "GPU1", "ob-1/1", "M.2", "BootModes_SystemBootMode"),
    "supermicro": ("Supermicro", "Supermicro BMC", "GPU1", "1", "M2", "BootModeSelect_00DC"),
    "nvidia-dgx-h100": ("NVIDIA", "DGX BMC", "GPU_SXM_1", "EthernetInterface0", "M2", "BootModeSelect"),
    "nvidia-gb200": ("NVIDIA", "OpenBMC", "GPU_0", "EthernetInterface0", "M2", "BootModeSelect"),
}


def hardware_of(folder: Path, vendor: str, *faults: str) -> Hardware:
    made = machine(folder, vendor, number=3)
    for fault in faults:
        strike(made, fault)
    record = record_of(made)
    assert (record.condition, record.evidence) == ("ok", "")
    assert record.hardware is not None
    return record.hardware


def profile_for(vendor: str, hardware: Hardware) -> Profile:
    _maker, _bmc, _gpu, pxe, controller, _attribute = VENDORS[vendor]
    return Profile(
        name=vendor,
        vendor=hardware.vendor,
        model=hardware.model,
        gpus={"count": 4 if vendor == "nvidia-gb200" else 8, "pcie": {"lanes": 16, "generation": 5}},
        hcas={"count": 8},
        ethernet={"count": 2, "pxe": pxe},
        nvme={"count": 8, "min_bytes": 3_000_000_000_000},
        os_disk={"controller": controller, "min_bytes": 200_000_000_000},
        psus={"count": 6},
        fans={"count": 16},
        dimms={"count": 32},
    )


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_sound_machine_of_each_vendor(vendor: str, tmp_path: Path) -> None:
    maker, bmc, gpu, pxe, _controller, attribute = VENDORS[vendor]
    hardware = hardware_of(tmp_path, vendor)
    profile = profile_for(vendor, hardware)
    assert (hardware.vendor, hardware.bmc, hardware.service_tag) == (maker, bmc, "SIM0003")
    assert hardware.model
    assert hardware.gpus[0].id == gpu
    assert len(hardware.gpus) == profile.count("gpus")
    assert all("H100" in g.model or "GB200" in g.model for g in hardware.gpus), hardware.gpus
    infiniband = [n for n in hardware.nics if n.kind == "infiniband"]
    assert len({n.adapter for n in infiniband}) == len(infiniband) == 8
    ethernet = [n for n in hardware.nics if n.kind == "ethernet"]
    assert [n.mac for n in ethernet] == ["70:b5:e8:00:00:0c", "70:b5:e8:00:00:0d"]
    assert [n.link for n in ethernet] == ["up", "up"]
    assert pxe == ethernet[0].id
    assert sum(d.protocol == "NVMe" and d.size_bytes > 3e12 for d in hardware.drives) == 8
    assert all(d.serial for d in hardware.drives)
    assert len(hardware.psus) == 6
    assert len(hardware.fans) == 16
    assert len(hardware.dimms) == 32
    assert hardware.temperatures
    assert any(t.critical for t in hardware.temperatures)
    assert hardware.redundancy
    assert hardware.intrusion == "Normal"
    assert hardware.bmc_clock_skew_seconds in (-1, 0, 1)
    assert hardware.bios[attribute].lower().startswith("uefi")
    assert len(hardware.bios) >= 8
    assert {"bios", "bmc"} <= set(hardware.firmware)
    assert hardware.unread == []
    planned = PlannedHost("n3", "r1", 3, "127.0.0.3", vendor, service_tag="SIM0003")
    made = record_of(machine(tmp_path, vendor, number=3))
    assert [f for f in triage(planned, made, profile) if f.status not in ("ok", "warn")] == []


FAULTS = {
    "gpu_missing": "gpu.missing",
    "gpu_failed": "gpu.failed",
    "hca_missing": "hca.missing",
    "nvme_failed": "nvme.failed",
    "nvme_missing": "nvme.missing",
    "os_disk_missing": "os_disk.missing",
    "nic_missing": "nic.missing",
    "psu_failed": "psu.failed",
    "fan_failed": "fan.failed",
    "too_hot": "temperature.high",
    "dimm_failed": "dimm.failed",
    "dimm_missing": "dimm.missing",
    "wrong_model": "host.wrong_model",
    "clock_wrong": "clock.skew",
}


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("fault", FAULTS)
def test_the_same_fault_has_the_same_symptom_everywhere(vendor: str, fault: str, tmp_path: Path) -> None:
    profile = profile_for(vendor, hardware_of(tmp_path, vendor))
    made = strike(machine(tmp_path, vendor, number=3), fault)
    planned = PlannedHost("n3", "r1", 3, "127.0.0.3", vendor)
    failed = [f for f in triage(planned, record_of(made), profile) if f.status not in ("ok", "warn")]
    expected = FAULTS[fault]
    if fault == "psu_failed" and vendor in ("hpe-ilo5", "hpe-ilo6", "lenovo-xcc", "supermicro"):
        expected = "psu.no_input"  # Critical at 0 V is all that these tell: first look at the cord
    assert [f.symptom for f in failed] == [expected]
    assert failed[0].status == "fail"
    assert failed[0].locator
    assert failed[0].evidence
    assert failed[0].action != "none"


@pytest.mark.parametrize("vendor", ["nvidia-dgx-h100", "nvidia-gb200"])
def test_a_baseboard_that_is_down_is_one_finding(vendor: str, tmp_path: Path) -> None:
    """The Processors still say OK then; the baseboard's BMC and the firmware inventory do not."""
    profile = profile_for(vendor, hardware_of(tmp_path, vendor))
    made = strike(machine(tmp_path, vendor, number=3), "baseboard_starting")
    record = record_of(made)
    assert record.hardware is not None
    assert {gpu.state for gpu in record.hardware.gpus} == {"Absent"}
    planned = PlannedHost("n3", "r1", 3, "127.0.0.3", vendor)
    failed = [f for f in triage(planned, record, profile) if f.status == "fail"]
    assert [(f.symptom, f.locator, f.action) for f in failed] == [("gpu.baseboard_down", "HGX_BMC_0", "power_cycle")]
    assert "Starting" in failed[0].evidence
    assert "is absent" in failed[0].evidence


@pytest.mark.parametrize(
    ("maker", "name"),
    [
        ("Dell Inc.", "dell"),
        ("HPE", "hpe"),
        ("Hewlett Packard Enterprise", "hpe"),
        ("Lenovo", "lenovo"),
        ("Super Micro Computer", "supermicro"),
        ("NVIDIA", "nvidia"),
        ("Gigabyte", "openbmc"),
        ("", "openbmc"),
    ],
)
def test_makers(maker: str, name: str) -> None:
    assert vendor_of(maker).name == name


def test_the_first_name_that_tells_decides() -> None:
    assert vendor_of("", "HPE").name == "hpe"
    assert vendor_of("Dell Inc.", "HPE").name == "dell"


@pytest.mark.parametrize(
    ("model", "kind"), [("13G DCS", "iDRAC 8"), ("16G Monolithic", "iDRAC 9"), ("17G", "iDRAC 10")]
)
def test_generations_of_idrac(model: str, kind: str) -> None:
    assert generation({"Model": model}) == kind


def test_the_baseboard_is_not_the_host() -> None:
    host, board = {"Id": "System_0", "SystemType": "Physical"}, {"Id": "HGX_Baseboard_0", "SystemType": "Physical"}
    assert host_system([board, host]) is host
    assert host_system([board]) is board
    assert host_system([]) == {}


def read(tree: trees.Tree) -> Hardware:
    found = read_tree(TreeReader(tree))
    return normalise(found.resources, trees.NOW, found.failures)


def small(maker: str, **system: Any) -> trees.Tree:
    """A tree of one system and its chassis, to hang one quirk from."""
    tree: trees.Tree = {trees.V1: {"@odata.id": trees.V1, "Systems": trees.ref(f"{trees.V1}/Systems")}}
    chassis = f"{trees.V1}/Chassis/1"
    body = {"Manufacturer": maker, "Model": "M", "SerialNumber": "S1", "Links": {"Chassis": [trees.ref(chassis)]}}
    trees.collect(tree, f"{trees.V1}/Systems", {"1": body | system})
    trees.put(tree, chassis)
    return tree


def test_an_ilo_that_has_not_seen_a_boot_knows_little() -> None:
    discovery = {"DeviceDiscoveryComplete": {"DeviceDiscovery": "vAuxDeviceDiscoveryComplete"}}
    assert read(small("HPE", Oem={"Hpe": discovery})).unread == ["drives", "gpus", "hcas", "nics"]
    discovery = {"DeviceDiscoveryComplete": {"DeviceDiscovery": "vMainDeviceDiscoveryComplete"}}
    assert read(small("HPE", Oem={"Hpe": discovery})).unread == []


def test_gpus_that_are_pcie_functions_only() -> None:
    """iDRAC 8: class 0302 is a GPU, 0300 the BMC's own Matrox."""
    tree = small("Dell Inc.")
    chassis, devices = f"{trees.V1}/Chassis/1", f"{trees.V1}/Chassis/1/PCIeDevices"
    tree[chassis]["PCIeDevices"] = trees.ref(devices)
    makers = {"1-0": ("NVIDIA Corporation", "0x030200"), "3-0": ("Matrox", "0x030000"), "5-0": ("NVIDIA", "0x068000")}
    members = {}
    for name, (maker, code) in makers.items():
        functions = f"{devices}/{name}/PCIeFunctions"
        trees.collect(tree, functions, {f"{name}-0": {"ClassCode": code}})
        members[name] = {"Manufacturer": maker, "Name": "A card", "PCIeFunctions": trees.ref(functions)}
    trees.collect(tree, devices, members)
    assert [(gpu.id, gpu.model) for gpu in read(tree).gpus] == [("1-0", "A card")]


def test_supermicro_adapters_below_the_system_only_and_two_ports_called_1() -> None:
    tree = small("Supermicro")
    system = f"{trees.V1}/Systems/1"
    interfaces, adapters = f"{system}/EthernetInterfaces", f"{system}/NetworkInterfaces"
    tree[system] |= {"EthernetInterfaces": trees.ref(interfaces), "NetworkInterfaces": trees.ref(adapters)}
    macs = {str(n): {"Name": "AOC_NIC1", "MACAddress": f"02:ee:00:00:00:0{n}"} for n in (1, 2)}
    manager = {"Name": "Manager Ethernet Interface", "MACAddress": "02:EE:00:00:00:09"}
    trees.collect(tree, interfaces, macs | {"ToManager": manager})
    members = {}
    for number, name in ((1, "NIC.Integrated.1"), (2, "NIC.Slot.1")):
        adapter = f"{adapters}/{name}/NetworkAdapter"
        tree[adapter] = {"@odata.id": adapter, "Id": name, "NetworkPorts": trees.ref(f"{adapter}/NetworkPorts")}
        port = {"AssociatedNetworkAddresses": [f"02:EE:00:00:00:0{number}"], "LinkStatus": "Up"}
        trees.collect(tree, f"{adapter}/NetworkPorts", {"1": port})
        members[name] = {"Links": {"NetworkAdapter": trees.ref(adapter)}}
    trees.collect(tree, adapters, members)
    assert [(n.id, n.mac, n.adapter, n.link) for n in read(tree).nics] == [
        ("1", "02:ee:00:00:00:01", "NIC.Integrated.1", "up"),
        ("2", "02:ee:00:00:00:02", "NIC.Slot.1", "up"),
    ]


def test_lenovo_fans_tell_rpm_where_the_percentage_belongs() -> None:
    tree = small("Lenovo")
    chassis = f"{trees.V1}/Chassis/1"
    tree[chassis]["ThermalSubsystem"] = trees.ref(f"{chassis}/ThermalSubsystem")
    trees.put(tree, f"{chassis}/ThermalSubsystem", Fans=trees.ref(f"{chassis}/ThermalSubsystem/Fans"))
    fans = {"Fan_1": {"Name": "Fan 1", "SpeedPercent": {"Reading": 90, "SpeedRPM": 90}}}
    fans |= {"Fan_2": {"Name": "Fan 2", "SpeedPercent": {"Reading": 42, "SpeedRPM": 6431}}}
    trees.collect(tree, f"{chassis}/ThermalSubsystem/Fans", fans)
    assert [(fan.id, fan.rpm, fan.percent) for fan in read(tree).fans] == [("Fan 1", 90, None), ("Fan 2", 6431, 42)]


def test_hpe_power_supplies_are_told_apart_by_their_bays() -> None:
    tree = small("HPE")
    chassis = f"{trees.V1}/Chassis/1"
    tree[chassis]["Power"] = trees.ref(f"{chassis}/Power")
    supplies = [
        {"Name": "HpeServerPowerSupply", "LineInputVoltage": volts, "Oem": {"Hpe": {"BayNumber": bay}}}
        for bay, volts in ((1, 239), (2, 0))
    ]
    trees.put(tree, f"{chassis}/Power", PowerSupplies=supplies)
    assert [(psu.id, psu.input_volts) for psu in read(tree).psus] == [("PSU 1", 239), ("PSU 2", 0)]


@pytest.mark.parametrize("filler", ["To be filled by O.E.M.", "N/A", "0000000", "Default string", " "])
def test_fillers_identify_nobody(filler: str) -> None:
    assert read(small("Supermicro", SerialNumber=filler)).service_tag == ""


def test_log_entries_since_a_date_the_critical_ones_first() -> None:
    tree = trees.xe9680()
    entries = f"{trees.MANAGER}/LogServices/Sel/Entries"
    rows = {
        "1": {"Message": "old", "Severity": "Critical", "Created": "2026-09-01T00:00:00Z"},
        "2": {"Message": "first", "Severity": "OK", "Created": "2026-10-30T00:00:00Z"},
        "3": {"Message": "second", "Severity": "Critical", "Created": "2026-10-29T00:00:00Z"},
        "4": {"Message": "third", "Severity": "Warning", "Created": "2026-10-31T00:00:00Z"},
        "5": {"Message": "solved", "Severity": "Critical", "Created": "2026-10-31T00:00:00Z", "Resolved": True},
        "6": {"Message": "login", "Severity": "OK", "Oem": {"Dell": {"Category": "Audit"}}},
    }
    trees.collect(tree, entries, rows)
    log = read(tree).log
    assert [(e.message, e.severity) for e in log if e.log == "Sel"] == [
        ("second", "Critical"),
        ("third", "Warning"),
        ("solved", "OK"),
        ("first", "OK"),
    ]
    assert all(e.message != "The chassis was opened long ago." for e in log)
