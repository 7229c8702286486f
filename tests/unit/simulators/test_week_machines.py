"""What the scripted week reads of the simulated machines: which disks were written, and who is without a system."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simulators import lab_files
from simulators.bmc.hardware import Hardware
from simulators.lab import week

NAMES = ("r1-n01", "r1-n02")


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> week.Machines:
    entries = [{"name": name, "index": i, "service_tag": f"FLB000{i}"} for i, name in enumerate(NAMES, 1)]
    monkeypatch.setattr(lab_files, "load", lambda folder: {"machines": entries})
    return week.Machines(tmp_path)


def put(machines: week.Machines, name: str, **state: Any) -> None:
    folder = machines.lab_dir / "machines" / name
    folder.mkdir(parents=True, exist_ok=True)
    lab_files.write_json(folder / "state.json", state)


def installed_on(serial: str) -> dict[str, Any]:
    return {"installed_at": "2026-01-01T00:00:00Z", "root": {"serial": serial, "model": "BOSS", "size": 1}}


def test_an_installation_on_its_own_disk_leaves_the_data_drives_blank(machines: week.Machines) -> None:
    put(machines, "r1-n01", disk=installed_on("VOLUME1"))
    assert machines.written_data_drives() == [] and machines.without_system() == {"r1-n02"}


def test_an_installation_on_a_data_drive_is_seen_also_on_one_that_was_replaced(machines: week.Machines) -> None:
    first = Hardware(1, "FLB0001", {}).drives[2].serial
    put(machines, "r1-n01", disk=installed_on(first))
    assert machines.written_data_drives() == [f"r1-n01 {first}"]
    replaced = {"nvme2": 1}
    second = Hardware(1, "FLB0001", replaced).drives[2].serial
    put(machines, "r1-n01", disk=installed_on(second), replaced=replaced)
    assert first != second and machines.written_data_drives() == [f"r1-n01 {second}"]


def test_an_installer_that_writes_to_a_data_drive_too_is_seen(machines: week.Machines) -> None:
    drive = next(d for d in Hardware(2, "FLB0002", {}).drives if d.number == 1)
    put(machines, "r1-n02", disk=installed_on("VOLUME2"), faults=["data_drive_written"])
    assert machines.written_data_drives() == [f"r1-n02 {drive.serial}"]
