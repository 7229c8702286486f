"""Where parts sit: what dmidecode and /sys say, good and bad, and what findings say of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstlight.checks import run_checks
from firstlight.checks.capture import Command, Output
from firstlight.checks.engine import Check, Result
from firstlight.checks.folder import capture, facts_here, from_files, replay, to_files
from firstlight.checks.gpu import QUERY
from firstlight.checks.places import SMBIOS, SYSFS, Places, Placing, parse_smbios, read_places
from firstlight.findings import EVIDENCE_MAX, Finding, verdict
from firstlight.profile import Profile
from firstlight.slots import address_of, serials, slot_of, with_slot

# as dmidecode 3.5 prints it: slot 33 has a card, slot 7 is empty, the firmware knows no address of slot 8
DMIDECODE = """\
# dmidecode 3.5
Getting SMBIOS data from sysfs.
SMBIOS 3.3.0 present.

Handle 0x0900, DMI type 9, 24 bytes
System Slot Information
\tDesignation: PCIe Slot 33
\tType: x16 PCI Express 5 x16
\tCurrent Usage: In Use
\tLength: Long
\tCharacteristics:
\t\t3.3 V is provided
\t\tPME signal is supported
\tBus Address: 0000:16:00.0
\tPeer Devices: 0
\tSlot Physical Width: x16

Handle 0x0901, DMI type 9, 17 bytes
System Slot Information
\tDesignation: PCIe Slot 7
\tType: x8 PCI Express 4 x16
\tCurrent Usage: Available
\tLength: Long
\tBus Address: 0000:2a:00.0

Handle 0x0902, DMI type 9, 17 bytes
System Slot Information
\tDesignation: PCIe Slot 8
\tCurrent Usage: In Use
\tBus Address: 0000:ff:1f.7

Handle 0x0903, DMI type 9, 17 bytes
System Slot Information
\tDesignation: 5
\tCurrent Usage: In Use
\tID: 5
\tBus Address: 0001:5E:00.0

Handle 0x0904, DMI type 9, 17 bytes
System Slot Information
\tDesignation: PCIe SSD Slot 3 in Bay 1
\tCurrent Usage: In Use
\tBus Address: 0000:e6:00.0
"""


def record(name: str, address: str = "", usage: str = "In Use") -> str:
    row = f"\tBus Address: {address}\n" if address else ""
    return (
        "Handle 0x0001, DMI type 9, 17 bytes\nSystem Slot Information\n"
        f"\tDesignation: {name}\n\tCurrent Usage: {usage}\n{row}\n"
    )


def sysfs(**files: str) -> Output:
    return Output(json.dumps({"files": {name.replace("__", "/"): text for name, text in files.items()}, "errors": {}}))


FILES = {
    # a switch sits in slot 33: a GPU and an HCA behind it
    "/sys/bus/pci/devices/0000:16:00.0/secondary_bus_number": "23\n",
    "/sys/bus/pci/devices/0000:16:00.0/subordinate_bus_number": "27\n",
    "/sys/bus/pci/devices/0000:15:01.0/secondary_bus_number": "22\n",
    "/sys/bus/pci/devices/0000:15:01.0/subordinate_bus_number": "64\n",
    "/sys/class/infiniband/mlx5_3/device/uevent": "DRIVER=mlx5_core\nPCI_SLOT_NAME=0000:1a:00.0\nMODALIAS=x\n",
    "/sys/class/infiniband/mlx5_4/device/uevent": "PCI_SLOT_NAME=0001:5e:00.1\n",
    "/sys/class/nvme/nvme3/address": "0000:e6:00.0\n",
    "/sys/bus/pci/slots/12/address": "0000:e7:00\n",
    "/sys/bus/pci/slots/12-1/address": "0000:e8:00\n",
}


@pytest.fixture
def places() -> Places:
    return read_places(Output(DMIDECODE), sysfs(**FILES))


@pytest.mark.parametrize(
    ("locator", "slot"),
    [
        ("GPU 0000:1b:00.0", "PCIe Slot 33"),  # 0x1b is bus 27, the last behind the switch
        ("GPU 00000000:1B:00.0 link 4", "PCIe Slot 33"),
        ("HCA mlx5_3 port 1", "PCIe Slot 33"),
        ("HCA mlx5_3 0000:1a:00.0", "PCIe Slot 33"),
        ("HCA mlx5_4", "slot 5"),
        ("nvme3n1", "PCIe SSD Slot 3 in Bay 1"),
        ("NVMe nvme3 0000:e6:00.0", "PCIe SSD Slot 3 in Bay 1"),
        ("GPU 0000:1c:00.0", ""),  # the next bus, of another switch
        ("GPU 0001:1b:00.0", ""),  # another segment
        ("GPU 0000:1b:00.0 and GPU 0001:5e:00.0", ""),
        ("NVMe 0000:2a:00.0", ""),  # firmware says that the slot is empty
        ("HCA mlx5_9 port 1", ""),
        ("nvme0n1", ""),
        ("0000:e7:00.0", ""),  # /sys/bus/pci/slots, where SMBIOS has told
        ("7 of 8 GPUs", ""),
        ("", ""),
    ],
)
def test_a_part_is_in_the_slot_of_its_device_or_of_the_nearest_bridge_above(
    places: Places, locator: str, slot: str
) -> None:
    assert places.slot(locator) == slot


@pytest.mark.parametrize(
    "smbios",
    [
        Output(problem="no_tool", code=127),
        Output("/sys/firmware/dmi/tables/smbios_entry_point: Permission denied", code=1, problem="not_permitted"),
        Output("# dmidecode 3.5\n# No SMBIOS nor DMI entry point found, sorry.\n", code=1),
        Output(record("PCIe Slot 1") + record("PCIe Slot 2", usage="Available")),
        Output(""),
    ],
)
def test_without_word_from_smbios_the_kernel_s_slots_count(smbios: Output) -> None:
    read = read_places(smbios, sysfs(**FILES))
    assert (read.slot("NVMe 0000:e7:00.0"), read.slot("NVMe 0000:e8:00.0")) == ("slot 12", "")


@pytest.mark.parametrize(
    "text",
    [
        record("N/A", "0000:1b:00.0"),
        record("To Be Filled By O.E.M.", "0000:1b:00.0"),
        record("Slot 1; sits in hell", "0000:1b:00.0"),
        record("Slot \x1b[31m", "0000:1b:00.0"),
        record("**[Slot](http://example.com)**", "0000:1b:00.0"),
        record("S" * 200, "0000:1b:00.0"),
        record("Slot 1", "1b:00.0"),
        record("Slot 1", "0000:00:00.0"),
        record("Slot 1", "0000:1b:00.0") + record("Slot 2", "0000:1b:00.0"),
        record("Slot 1", "0000:1b:00.0").replace("System Slot", "Base Board"),
        "\tDesignation: Slot 1\n\tBus Address: 0000:1b:00.0\n",
    ],
)
def test_a_slot_that_is_none_or_of_two_parts_is_not_told(text: str) -> None:
    assert parse_smbios(text) == {}


@given(
    st.text(max_size=300), st.recursive(st.text() | st.none(), lambda v: st.dictionaries(st.text(), v), max_leaves=8)
)
@settings(max_examples=60)
def test_whatever_they_print_nothing_raises(text: str, told: Any) -> None:
    for files in (text, json.dumps(told), json.dumps({"files": told})):
        read_places(Output(DMIDECODE + text), Output(files)).slot("GPU 0000:1b:00.0")
    serials(told)


# -- in findings ------------------------------------------------------------------------------------------------------

SLOW = Finding("pcie_link", "fail", "pcie.slow", "GPU 0000:1b:00.0", "x8 Gen5", "reseat")


def test_evidence_ends_with_the_slots_and_is_read_back() -> None:
    once = with_slot(SLOW, "PCIe Slot 33")
    twice = with_slot(once, "Video.Slot.25-1")
    assert once.evidence == "x8 Gen5; sits in PCIe Slot 33"
    assert twice.evidence == "x8 Gen5; sits in PCIe Slot 33, Video.Slot.25-1"
    assert (slot_of(once.evidence), slot_of(twice.evidence)) == ("PCIe Slot 33", "PCIe Slot 33, Video.Slot.25-1")
    assert with_slot(twice, "Video.Slot.25-1") == with_slot(twice, "Third") == twice
    assert (once.locator, once.symptom) == (SLOW.locator, SLOW.symptom)


@pytest.mark.parametrize("before", ["", "e" * EVIDENCE_MAX, "e" * (EVIDENCE_MAX - 20), "ends; "])
def test_the_slot_is_kept_where_the_evidence_is_long(before: str) -> None:
    found = with_slot(Finding("c", "fail", "s", "GPU 0000:1b:00.0", before), "PCIe Slot 33")
    found = Finding.from_dict(with_slot(found, "Video.Slot.25-1").to_dict())
    assert slot_of(found.evidence) == "PCIe Slot 33, Video.Slot.25-1"
    assert len(found.evidence) <= EVIDENCE_MAX


@pytest.mark.parametrize("name", ["", "a;b", "a, b", "**x**", "x\n", "<b>", "…", " x"])
def test_what_is_no_name_of_a_slot_is_not_told(name: str) -> None:
    assert with_slot(SLOW, name) == SLOW


@pytest.mark.parametrize("text", ["x8 Gen5", "it sits in PCIe Slot 3", "; sits in a; b", "; sits in a, b, c", ""])
def test_other_evidence_names_no_slot(text: str) -> None:
    assert slot_of(text) == ""


def test_one_address_whatever_its_spelling() -> None:
    assert address_of("GPU 00000000:9A:00.0") == address_of("0000:9a:00") == "0000:9a:00"
    assert address_of("NVMe 10000:e1:00.0") == "10000:e1:00"
    assert address_of("b8:3f:d2:00:11:22") == address_of("12:00:00") == address_of("0000:1b:00 0000:1c:00") == ""


@pytest.mark.parametrize(
    ("told", "known"),
    [
        ({"0000:1b:00": " 1653922000123 "}, {"0000:1b:00": "1653922000123"}),
        ({"0000:1b:00": "N/A", "0000:1c:00": "0000000", "0000:1d:00": 7, "0000:1e:00": "a;b", "x": "12345"}, {}),
        ({"0000:1b:00": "12345", "0000:1c:00": "12345"}, {}),
        ({7: "12345", "0000:1B:00": "12345"}, {}),
        (None, {}),
        (["0000:1b:00"], {}),
    ],
)
def test_serial_numbers_are_a_stranger_s(told: Any, known: dict[str, str]) -> None:
    assert serials(told) == known


# -- in a run ---------------------------------------------------------------------------------------------------------

SMI = """<?xml version="1.0" ?><nvidia_smi_log><driver_version>580.1</driver_version><attached_gpus>1</attached_gpus>
<gpu id="00000000:1B:00.0"><product_name>H100</product_name><serial>1653922000123</serial>
<pci><pci_bus_id>00000000:1B:00.0</pci_bus_id></pci></gpu></nvidia_smi_log>"""
PROFILE = Profile(name="p", vendor="v", model="m")
ANSWERS = {SMBIOS: Output(DMIDECODE), SYSFS: sysfs(**FILES), QUERY: Output(SMI)}
FOUND = [
    SLOW,
    Finding("one", "ok", "one", "GPU 0000:1b:00.0", "fine"),
    Finding("one", "warn", "gpu.x", "GPU 0000:77:00.0", "here"),
]
CHECK = Check("one", "quick", lambda profile, expect: {"nvidia_smi": QUERY}, lambda *_: FOUND)


def judged(run: Any) -> tuple[Placing, Result]:
    placing = Placing(run)
    return placing, placing.told(run_checks([CHECK], PROFILE, run=placing))


def test_a_run_reads_it_in_the_same_round_trip_and_tells_it() -> None:
    calls: list[list[Any]] = []

    def run(sources: Any, limit: float) -> Any:
        calls.append(list(sources))
        return {source: ANSWERS[source] for source in calls[-1]}

    placing, result = judged(run)
    assert calls == [[QUERY, SMBIOS, SYSFS]]
    assert [slot_of(finding.evidence) for finding in result.findings] == ["PCIe Slot 33", "", ""]
    assert result.verdict == verdict(result.findings)
    assert slot_of(result.verdict.reasons[0].evidence) == "PCIe Slot 33"
    assert placing.serials == {"0000:1b:00": "1653922000123"}


def test_where_nothing_is_read_nothing_more_is() -> None:
    calls: list[Any] = []
    run_checks([], PROFILE, run=Placing(lambda sources, limit: calls.append(list(sources)) or {}))
    assert calls == [[]]


def test_a_capture_has_it_and_one_without_it_adds_nothing() -> None:
    kept = capture(
        [CHECK], PROFILE, {}, facts_here("1"), run=Placing(lambda s, limit: {source: ANSWERS[source] for source in s})
    )
    again = from_files(to_files(kept).get)
    assert slot_of(judged(replay(again))[1].findings[0].evidence) == "PCIe Slot 33"
    old = capture([CHECK], PROFILE, {}, facts_here("1"), run=lambda s, limit: {source: ANSWERS[source] for source in s})
    placing, result = judged(replay(from_files(to_files(old).get)))
    assert result.findings == FOUND
    assert placing.serials == {"0000:1b:00": "1653922000123"}


def test_a_hostile_capture_of_it_is_judged_all_the_same() -> None:
    for text in (
        "\x00" * 99,
        DMIDECODE[:-9],
        '{"files": 7}',
        '{"files": {"/sys/class/nvme/x/address": ""}}',
        "[" * 9999,
    ):
        outputs = {SMBIOS: Output(text), SYSFS: Output(text), QUERY: Output(text)}
        placing, result = judged(lambda s, limit, outputs=outputs: {source: outputs[source] for source in s})
        assert (result.findings[1:], placing.serials) == (FOUND[1:], {})


@pytest.mark.skipif(not shutil.which("python3"), reason="no python3")
def test_the_sysfs_reading_runs_here() -> None:
    placing = Placing()
    source = Command(("true",))
    outputs = placing([source], 5.0)
    assert not outputs[SYSFS].problem
    assert set(json.loads(outputs[SYSFS].text)) == {"files", "errors"}
    assert Path("/sys").exists()
