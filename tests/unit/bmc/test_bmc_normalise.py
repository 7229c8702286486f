"""From trees to Hardware: what is where on which vendor, and that nothing a BMC sends raises."""

from __future__ import annotations

import copy
import json
from typing import Any

import bmc_trees as trees
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firstlight.bmc.errors import BmcError, HalfAnswering, NotReady
from firstlight.bmc.fetch import TreeReader, read_tree
from firstlight.bmc.hardware import Hardware, Record
from firstlight.bmc.normalise import normalise


def hardware_of(tree: trees.Tree) -> Hardware:
    read = read_tree(TreeReader(tree))
    return normalise(read.resources, trees.NOW, read.failures)


def test_dell() -> None:
    hardware = hardware_of(trees.xe9680())
    assert (hardware.vendor, hardware.model) == ("Dell Inc.", "PowerEdge XE9680")
    assert (hardware.service_tag, hardware.board_serial) == ("SYN0001", "BOARD0001")
    assert (hardware.power_state, hardware.memory_gib, hardware.cpus) == ("On", 2048.0, 2)
    assert [gpu.id for gpu in hardware.gpus] == [f"Video.Slot.{n}-1" for n in range(21, 29)]
    nic = hardware.nic(trees.PXE_NIC)
    assert nic is not None
    assert (nic.mac, nic.link, nic.speed_mbps, nic.kind) == ("02:aa:00:00:01:01", "up", 25000, "ethernet")
    assert (nic.adapter, nic.port, nic.partition) == ("NIC.Embedded.1", "1", 1)
    infiniband = [n for n in hardware.nics if n.kind == "infiniband"]
    assert [n.adapter for n in infiniband] == [f"InfiniBand.Slot.{n}" for n in range(31, 39)]
    assert all(n.mac and n.link == "up" for n in infiniband)
    assert len(hardware.drives) == 10
    drive = hardware.drives[0]
    assert (drive.protocol, drive.bay, drive.controller, drive.wear) == ("NVMe", 0, "CPU.1", 3)
    assert [psu.id for psu in hardware.psus] == [f"PSU.Slot.{n}" for n in range(1, 7)]
    assert hardware.firmware == {
        "BIOS.Setup.1-1": "2.1.0",
        "InfiniBand.Slot.31-1": "28.39.1",
        "bios": "2.1.0",
        "bmc": "7.10.0.0",
        "iDRAC.Embedded.1-1": "7.10.0.0",
    }
    assert hardware.bios == {
        "BootMode": "Uefi",
        "PxeDev1EnDis": "Enabled",
        "PxeDev1Interface": trees.PXE_NIC,
        "PxeDev2EnDis": "Disabled",
        "SriovGlobalEnable": "Enabled",
        "SysProfile": "PerfOptimized",
    }
    assert hardware.inventory_time == "2026-10-30T00:00:00+00:00"
    assert hardware.bmc_clock_skew_seconds == 2
    assert hardware.unread == []


def test_lenovo_tells_macs_at_the_ports_only() -> None:
    hardware = hardware_of(trees.lenovo())
    assert [(n.id, n.mac, n.speed_mbps) for n in hardware.nics] == [
        ("slot-1/1", "02:cc:00:00:00:01", 25000),
        ("slot-2/1", "02:cc:00:00:00:02", 25000),
    ]
    assert hardware.service_tag == "SYNLENOVO1"
    assert [(g.id, g.model, g.health) for g in hardware.gpus] == [("GPU1", "", "")]
    assert [p.id for p in hardware.psus] == ["PSU 0", "PSU 1"]
    assert hardware.inventory_time is None


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ("02:AA:00:00:01:01", "02:aa:00:00:01:01"),
        ("02-AA-00-00-01-01", "02:aa:00:00:01:01"),
        ("02AA00000101", "02:aa:00:00:01:01"),
        ("", None),
        (None, None),
        (7, None),
        ("00:00:00:00:00:00", None),
        ("FF:FF:FF:FF:FF:FF", None),
        ("21:00:F4:E9:00:00:00:01", None),  # a WWN
        ("0x02aa00000101", None),
    ],
)
def test_spellings_of_a_mac(told: Any, kept: str | None) -> None:
    path = f"{trees.SYSTEM}/EthernetInterfaces/{trees.PXE_NIC}"
    nic = hardware_of(trees.changed(trees.xe9680(), path, MACAddress=told)).nic(trees.PXE_NIC)
    assert nic is not None
    assert nic.mac == kept


def embedded_functions(tree: trees.Tree) -> trees.Tree:
    """The same machine with functions and ports of its Ethernet adapter, as an iDRAC has them."""
    path = f"{trees.ADAPTERS}/NIC.Embedded.1"
    links = {
        "NetworkDeviceFunctions": trees.ref(f"{path}/NetworkDeviceFunctions"),
        "NetworkPorts": trees.ref(f"{path}/NetworkPorts"),
    }
    tree = trees.changed(tree, path, **links)
    function = {"Ethernet": {"MACAddress": "02:AA:00:00:01:01"}, "NetDevFuncType": "Ethernet"}
    trees.collect(tree, f"{path}/NetworkDeviceFunctions", {trees.PXE_NIC: function})
    trees.collect(tree, f"{path}/NetworkPorts", {"NIC.Embedded.1-1": {"AssociatedNetworkAddresses": [None]}})
    return tree


def test_a_mac_that_is_only_at_the_function() -> None:
    path = f"{trees.SYSTEM}/EthernetInterfaces/{trees.PXE_NIC}"
    tree = embedded_functions(trees.changed(trees.xe9680(), path, MACAddress=""))
    nic = hardware_of(tree).nic(trees.PXE_NIC)
    assert nic is not None
    assert (nic.mac, nic.link) == ("02:aa:00:00:01:01", "up")


def test_a_mac_that_is_only_at_the_port() -> None:
    tree = embedded_functions(trees.xe9680())
    tree[f"{trees.SYSTEM}/EthernetInterfaces"]["Members"] = []
    adapter = f"{trees.ADAPTERS}/NIC.Embedded.1"
    tree[f"{adapter}/NetworkDeviceFunctions/{trees.PXE_NIC}"]["Ethernet"] = {"MACAddress": None}
    tree[f"{adapter}/NetworkPorts/NIC.Embedded.1-1"]["AssociatedNetworkAddresses"] = ["02:AA:00:00:01:01"]
    nic = hardware_of(tree).nic(trees.PXE_NIC)
    assert nic is not None
    assert nic.mac == "02:aa:00:00:01:01"


def test_partitions_keep_their_own_macs() -> None:
    interfaces = f"{trees.SYSTEM}/EthernetInterfaces"
    tree = embedded_functions(trees.xe9680())
    trees.collect(
        tree,
        interfaces,
        {
            "NIC.Embedded.1-1-1": {"MACAddress": "02:AA:00:00:01:01"},
            "NIC.Embedded.1-1-2": {"MACAddress": ""},
        },
    )
    port = tree[f"{trees.ADAPTERS}/NIC.Embedded.1/NetworkPorts/NIC.Embedded.1-1"]
    port["AssociatedNetworkAddresses"] = ["02:AA:00:00:01:01"]
    hardware = hardware_of(tree)
    first, second = hardware.nic("NIC.Embedded.1-1-1"), hardware.nic("NIC.Embedded.1-1-2")
    assert first is not None
    assert second is not None
    assert (first.mac, first.partition) == ("02:aa:00:00:01:01", 1)
    assert (second.mac, second.partition) == (None, 2)


@pytest.mark.parametrize("name", ["ToManager", "ToHost", "usb0", "iDRAC.Embedded.1"])
def test_the_bmcs_own_nics_are_not_the_hosts(name: str) -> None:
    tree = trees.xe9680()
    path = f"{trees.SYSTEM}/EthernetInterfaces"
    trees.put(tree, f"{path}/{name}", MACAddress="02:DD:00:00:00:01")
    tree[path]["Members"].append(trees.ref(f"{path}/{name}"))
    assert all(nic.mac != "02:dd:00:00:00:01" for nic in hardware_of(tree).nics)


def test_an_adapter_that_lists_fewer_ports_than_functions() -> None:
    tree = trees.xe9680()
    name = "InfiniBand.Slot.31"
    path = f"{trees.ADAPTERS}/{name}"
    tree[path]["Controllers"] = [{"ControllerCapabilities": {"NetworkDeviceFunctionCount": 2}}]
    trees.put(tree, f"{path}/NetworkDeviceFunctions/{name}-2", Ethernet={"MACAddress": "02:BB:00:00:01:99"})
    tree[f"{path}/NetworkDeviceFunctions"]["Members"].append(trees.ref(f"{path}/NetworkDeviceFunctions/{name}-2"))
    second = hardware_of(tree).nic(f"{name}-2")
    assert second is not None
    assert (second.mac, second.kind, second.adapter) == ("02:bb:00:00:01:99", "infiniband", name)


def test_absent_parts_are_not_there() -> None:
    absent = {"Status": {"State": "Absent", "Health": None}}
    tree = trees.changed(trees.xe9680(), f"{trees.SYSTEM}/Processors/Video.Slot.24-1", **absent)
    tree = trees.changed(tree, f"{trees.CHASSIS}/PowerSubsystem/PowerSupplies/PSU.Slot.2", **absent)
    hardware = hardware_of(tree)
    assert len(hardware.gpus) == 7
    assert [p.id for p in hardware.psus] == [f"PSU.Slot.{n}" for n in (1, 3, 4, 5, 6)]


def test_dead_members_are_noted_and_the_rest_is_read() -> None:
    tree = trees.xe9680()
    del tree[f"{trees.SYSTEM}/Processors/Video.Slot.22-1"]
    del tree[f"{trees.SYSTEM}/Bios"]
    read = read_tree(TreeReader(tree))
    hardware = normalise(read.resources, trees.NOW, read.failures)
    assert len(hardware.gpus) == 7
    assert hardware.unread == ["bios", "gpus"]
    assert read.failures["gpus"] == [f"GET {trees.SYSTEM}/Processors/Video.Slot.22-1: 404"]


def test_a_dead_chassis_is_noted_for_all_that_hangs_below_it() -> None:
    tree = trees.xe9680()
    del tree[trees.CHASSIS]
    assert hardware_of(tree).unread == ["hcas", "nics", "pcie", "psus", "thermal"]


def test_empty_systems_is_not_ready() -> None:
    tree = trees.xe9680()
    tree[f"{trees.V1}/Systems"]["Members"] = []
    with pytest.raises(NotReady, match="without any system"):
        read_tree(TreeReader(tree))


def test_links_that_lead_elsewhere_are_not_followed() -> None:
    """A TreeReader follows anything; that the client does not is shown with the client."""
    tree = trees.changed(trees.xe9680(), trees.CHASSIS, NetworkAdapters=trees.ref("https://elsewhere/redfish"))
    assert "hcas" in hardware_of(tree).unread


def test_endless_pages_end() -> None:
    tree = trees.xe9680()
    path = f"{trees.SYSTEM}/Processors"
    tree[path]["Members@odata.nextLink"] = path
    assert len(hardware_of(tree).gpus) == 8


def test_a_bmc_that_fails_everywhere_is_given_up() -> None:
    tree = trees.xe9680()
    path = f"{trees.SYSTEM}/Processors"
    tree[path]["Members"] = [trees.ref(f"{path}/gone{n}") for n in range(100)]
    with pytest.raises(HalfAnswering, match="more than 40"):
        read_tree(TreeReader(tree))


def test_records_survive_the_cache() -> None:
    record = Record("n1", "ok", "", "2026-11-01T12:00:00+00:00", 1.5, hardware=hardware_of(trees.xe9680()))
    assert Record.from_dict(json.loads(json.dumps(record.to_dict()))) == record


@pytest.mark.parametrize(
    "broken", [None, [], {"condition": "fine"}, {"condition": "ok", "hardware": []}, {"condition": "ok"}]
)
def test_what_is_no_record_is_refused(broken: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        Record.from_dict(broken)


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(
        ["LinkUp", "GPU", "NIC.Slot.1-1-1", "InfiniBand.Slot.1", "9999-12-31T23:59:59+14:00", "\x00\u202e"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a tree where something stands."""
    found = [path] if path else []
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in children:
        found += places(value, (*path, key))
    return found


TREES = [trees.xe9680(), trees.lenovo()]
PLACES = [places(tree) for tree in TREES]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_nothing_that_a_bmc_sends_raises(data: st.DataObject) -> None:
    which = data.draw(st.integers(0, len(TREES) - 1))
    tree = copy.deepcopy(TREES[which])
    for _ in range(data.draw(st.integers(1, 6))):
        *above, last = data.draw(st.sampled_from(PLACES[which]))
        node: Any = tree
        for key in above:
            try:
                node = node[key]
            except (KeyError, IndexError, TypeError):
                break
        else:
            junk = data.draw(JUNK)
            if isinstance(node, dict) or (isinstance(node, list) and isinstance(last, int) and last < len(node)):
                node[last] = junk
    try:
        read = read_tree(TreeReader(tree))
    except BmcError as error:
        assert error.evidence
        assert "\n" not in error.evidence
        return
    hardware = normalise(read.resources, trees.NOW, read.failures)
    assert Hardware.from_dict(json.loads(json.dumps(hardware.to_dict()))) == hardware
    # The normaliser by itself must bear what no walk filtered, too.
    assert isinstance(normalise(tree, trees.NOW), Hardware)
