"""The shims as programs: what they answer, and that faults and wrong options show."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from firstlight.checks.places import parse_smbios
from simulators.bmc.hardware import Hardware
from simulators.host.containers import hardware_facts

SHIMS = Path(__file__).resolve().parents[3] / "simulators" / "host" / "shims"
HARDWARE = Hardware(7, "FLB0007")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a server finds in /run/simulator."""
    (tmp_path / "hardware.json").write_text(json.dumps(hardware_facts(7, "FLB0007")))
    give(tmp_path)
    return tmp_path


def give(folder: Path, **faults: dict[str, Any]) -> None:
    state = {"name": "r1-n07", "faults": sorted(faults), "fault_parameters": faults}
    (folder / "state.json").write_text(json.dumps(state))


def run(folder: Path, shim: str, *words: str, status: int = 0) -> str:
    result = subprocess.run(
        [sys.executable, SHIMS / shim, *words],
        capture_output=True,
        text=True,
        env=os.environ | {"FIRSTLIGHT_SIMULATOR": str(folder)},
        timeout=20,
    )
    assert result.returncode == status, result.stdout + result.stderr
    assert "Firstlight's shim" in result.stderr.splitlines()[0]
    return result.stdout


def query(folder: Path, fields: str, form: str = "csv,noheader,nounits") -> list[list[str]]:
    text = run(folder, "nvidia-smi", f"--query-gpu={fields}", f"--format={form}")
    return list(csv.reader(io.StringIO(text), skipinitialspace=True))


def test_query_answers_with_header_and_units_as_asked(folder: Path) -> None:
    fields = "index,name,memory.total,clocks.current.sm,ecc.errors.uncorrected.volatile.total,mig.mode.current"
    rows = query(folder, fields, "csv")
    header = (
        "index,name,memory.total [MiB],clocks.current.sm [MHz],ecc.errors.uncorrected.volatile.total,mig.mode.current"
    )
    assert rows[0] == header.split(",")
    assert rows[8] == ["7", "NVIDIA H100 80GB HBM3", "81559 MiB", "345 MHz", "0", "Disabled"]
    assert query(folder, fields)[7] == ["7", "NVIDIA H100 80GB HBM3", "81559", "345", "0", "Disabled"]


def test_the_gpus_are_those_of_the_bmc(folder: Path) -> None:
    assert query(folder, "uuid,serial") == [[gpu.uuid, gpu.serial] for gpu in HARDWARE.gpus]


def test_a_missing_gpu_is_missing_everywhere_and_the_others_keep_their_places(folder: Path) -> None:
    buses = {row[1]: row[0] for row in query(folder, "pci.bus_id,uuid")}
    give(folder, gpu_missing={"gpu": 3})
    gone, rest = HARDWARE.gpus[3], [gpu for gpu in HARDWARE.gpus if gpu.number != 3]
    assert query(folder, "index,uuid,pci.bus_id") == [
        [str(index), gpu.uuid, buses[gpu.uuid]] for index, gpu in enumerate(rest)
    ]
    for words in (["-L"], ["-q"], ["-q", "-x"], ["nvlink", "-s"]):
        text = run(folder, "nvidia-smi", *words)
        assert gone.uuid not in text, words
        assert text.count(rest[0].uuid) == 1, words
    assert "GPU7" not in run(folder, "nvidia-smi", "topo", "-m")


def test_xml_and_text_say_the_same(folder: Path) -> None:
    log = ElementTree.fromstring(run(folder, "nvidia-smi", "-q", "-x"))
    assert log.findtext("attached_gpus") == "8"
    assert [gpu.findtext("serial") for gpu in log.findall("gpu")] == [gpu.serial for gpu in HARDWARE.gpus]
    assert log.findtext("gpu/ecc_errors/volatile/dram_uncorrectable") == "0"
    assert log.findtext("gpu/pci/pci_gpu_link_info/pcie_gen/current_link_gen") == "5"
    text = run(folder, "nvidia-smi", "-q")
    assert f"    Serial Number                                      : {HARDWARE.gpus[2].serial}\n" in text
    assert f"GPU {log.findall('gpu')[2].get('id')}\n" in text


def test_one_gpu_is_chosen_by_index_or_uuid(folder: Path) -> None:
    for word in ("6", HARDWARE.gpus[6].uuid):
        assert run(folder, "nvidia-smi", "-L", "-i", word) == (
            f"GPU 6: NVIDIA H100 80GB HBM3 (UUID: {HARDWARE.gpus[6].uuid})\n"
        )
    assert run(folder, "nvidia-smi", "-L", "-i", "11", status=6) == "No devices were found\n"


def test_the_summary_is_a_straight_table(folder: Path) -> None:
    lines = run(folder, "nvidia-smi").splitlines()
    assert {len(line) for line in lines[1:] if line} == {91}
    assert sum("H100" in line for line in lines) == 8


def test_topology_has_nvlink_between_gpus_and_each_hca_near_its_gpu(folder: Path) -> None:
    lines = [line.split("\t") for line in run(folder, "nvidia-smi", "topo", "-m").splitlines()]
    table = {row[0]: row[1:] for row in lines if row[0].startswith(("GPU", "NIC")) and len(row) > 2}
    assert table["GPU1"][:8] == ["NV18", " X ", *["NV18"] * 6]
    assert [table[f"GPU{number}"][8 + number] for number in range(8)] == ["PXB"] * 8
    assert table["GPU0"][15] == "SYS"


@pytest.mark.parametrize(
    "words",
    [
        ["--reset-gpu"],
        ["-mig", "1"],
        ["--query-gpu=colour", "--format=csv"],
        ["--query-gpu=index", "--format=xml"],
        ["mig"],
    ],
)
def test_what_the_shim_does_not_know_is_refused(folder: Path, words: list[str]) -> None:
    run(folder, "nvidia-smi", *words, status=2)


def test_without_gpus_it_says_so(tmp_path: Path) -> None:
    assert run(tmp_path, "nvidia-smi", status=6) == "No devices were found\n"


def test_dmidecode_has_each_gpu_that_is_built_in_in_the_bmc_s_slot(folder: Path) -> None:
    def slots() -> dict[str, str]:
        return parse_smbios(run(folder, "dmidecode", "-t", "slot"))

    buses = {row[0].lower()[4:-2]: row[1] for row in query(folder, "pci.bus_id,serial")}
    by_serial = {gpu.serial: int(gpu.fqdd.split(".")[2].partition("-")[0]) for gpu in HARDWARE.gpus}
    assert slots() == {bus: f"PCIe Slot {by_serial[serial]}" for bus, serial in buses.items()}
    give(folder, gpu_missing={"gpu": 3})
    assert len(slots()) == 7
    run(folder, "dmidecode", status=2)


def test_ibstat_has_eight_active_ports_with_distinct_guids(folder: Path) -> None:
    text = run(folder, "ibstat")
    assert text.count("Rate: 400\n") == text.count("State: Active\n") == text.count("Physical state: LinkUp\n") == 8
    guids = {line.split()[-1] for line in text.splitlines() if "Port GUID" in line}
    assert len(guids) == 8
    assert run(folder, "ibstat", "-l").split() == [f"mlx5_{number}" for number in range(8)]
    assert run(folder, "ibstat", "mlx5_4").startswith("CA 'mlx5_4'\n")
    run(folder, "ibstat", "mlx5_9", status=255)


def test_nvme_lists_the_drives_and_the_failed_one_warns(folder: Path) -> None:
    devices = json.loads(run(folder, "nvme", "list", "-o", "json"))["Devices"]
    assert [(drive["SerialNumber"], drive["PhysicalSize"]) for drive in devices] == [
        (drive.serial, drive.size) for drive in HARDWARE.drives
    ]
    assert run(folder, "nvme", "list").count("/dev/nvme") == 8
    give(folder, nvme_failed={"drive": 2})
    warnings = [
        json.loads(run(folder, "nvme", "smart-log", f"/dev/nvme{number}", "-o", "json"))["critical_warning"]
        for number in range(8)
    ]
    assert [bool(warning) for warning in warnings] == [number == 2 for number in range(8)]
    run(folder, "nvme", "format", "/dev/nvme0", status=1)
