"""The script that role pcie_acs installs, with stand-ins for /sys and setpci."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "roles/pcie_acs/files/firstlight-pcie-acs"
SETPCI = (ROOT / "molecule/pcie_acs/setpci").read_text()


@pytest.fixture
def host(tmp_path: Path) -> Any:
    """A function that runs the script on bridges {address: register or None}; returns status, answer, registers."""
    tool = tmp_path / "setpci"
    tool.write_text(SETPCI.replace("/srv/acs", str(tmp_path / "acs")))
    tool.chmod(0o755)
    (tmp_path / "acs").mkdir()

    def run(
        bridges: dict[str, str | None], *more: str, others: tuple[str, ...] = (), setpci: str = "", error: str = ""
    ) -> tuple:
        devices = tmp_path / "sys/bus/pci/devices"
        for address in (*bridges, *others):
            (devices / address).mkdir(parents=True, exist_ok=True)
            (devices / address / "class").write_text("0x060400\n" if address in bridges else "0x030200\n")
        for address, register in bridges.items():
            if register is not None:
                (tmp_path / "acs" / address).write_text(register + "\n")
        if setpci:
            tool.write_text(setpci)
        done = subprocess.run(
            [sys.executable, str(SCRIPT), "--sys", str(tmp_path / "sys"), "--setpci", str(tool), "--record",
             str(tmp_path / "lib/record.json"), *more],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.stderr == (f"{tmp_path}/lib/{error}" if error else "")
        registers = {path.name: path.read_text().strip() for path in (tmp_path / "acs").iterdir()}
        return done.returncode, json.loads(done.stdout), registers

    return run


def recorded(tmp_path: Path) -> dict[str, dict[str, str]]:
    return json.loads((tmp_path / "lib/record.json").read_text())


def test_every_bridge_that_has_the_capability_is_cleared_and_read_back(host, tmp_path: Path) -> None:
    bridges = {"0000:15:01.0": "001d", "0000:16:00.0": "0000", "0000:00:1c.0": None}

    status, said, registers = host(bridges, others=("0000:19:00.0",))

    assert status == 0
    assert said == {"bridges": 2, "enabled": {}, "changed": {"0000:15:01.0": "001d"}, "failed": {}}
    assert registers == {"0000:15:01.0": "0000", "0000:16:00.0": "0000"}
    assert recorded(tmp_path)["0000:15:01.0"]["first"] == "001d"


def test_a_second_run_changes_nothing_and_keeps_the_record(host, tmp_path: Path) -> None:
    host({"0000:15:01.0": "001d"})
    before = (tmp_path / "lib/record.json").read_bytes()

    status, said, _ = host({})

    assert (status, said["changed"], said["bridges"]) == (0, {}, 1)
    assert (tmp_path / "lib/record.json").read_bytes() == before


def test_the_record_keeps_the_first_value_of_all(host, tmp_path: Path) -> None:
    host({"0000:15:01.0": "001d"})
    host({"0000:15:01.0": "0001", "0000:16:00.0": "001f"})

    assert {a: (row["first"], row["before"]) for a, row in recorded(tmp_path).items()} == {
        "0000:15:01.0": ("001d", "0001"),
        "0000:16:00.0": ("001f", "001f"),
    }


@pytest.mark.parametrize("text", ["[1,", "[1]", "7", '{"0000:15:01.0": "001d"}', "[" * 100_000])
def test_a_damaged_record_does_not_stop_the_work(host, tmp_path: Path, text: str) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/record.json").write_text(text)

    assert host({"0000:15:01.0": "001d"})[0] == 0
    assert list(recorded(tmp_path)) == ["0000:15:01.0"]


def test_a_record_that_cannot_be_written_is_told_in_one_line(host, tmp_path: Path) -> None:
    (tmp_path / "lib").write_text("no folder")
    status, said, registers = host({"0000:15:01.0": "001d"}, error="record.json: not recorded: File exists\n")

    assert (status, said["changed"]) == (0, {"0000:15:01.0": "001d"})
    assert registers == {"0000:15:01.0": "0000"}


def test_check_only_looks(host, tmp_path: Path) -> None:
    status, said, registers = host({"0000:15:01.0": "001d"}, "--check")

    assert (status, said["enabled"], said["changed"]) == (1, {"0000:15:01.0": "001d"}, {})
    assert registers == {"0000:15:01.0": "001d"}
    assert not (tmp_path / "lib").exists()


def test_a_register_that_keeps_its_value_is_told(host, tmp_path: Path) -> None:
    (tmp_path / "acs/0000:15:01.0.stuck").touch()

    status, said, _ = host({"0000:15:01.0": "001d"})

    assert (status, said["enabled"], said["changed"]) == (1, {"0000:15:01.0": "001d"}, {})


@pytest.mark.parametrize(
    ("setpci", "reason"),
    [
        ("#!/bin/sh\necho 'setpci: Cannot open /sys: Permission denied' >&2; exit 1\n", "Permission denied"),
        ("#!/bin/sh\necho ffff\n", "setpci printed 'ffff'"),
        ("#!/bin/sh\nexit 3\n", "setpci ended with 3"),
    ],
)  # fmt: skip
def test_a_bridge_that_cannot_be_read_is_told(host, setpci: str, reason: str) -> None:
    status, said, _ = host({"0000:15:01.0": "001d"}, setpci=setpci)

    assert status == 1
    assert reason in said["failed"]["0000:15:01.0"]


def test_no_setpci_and_no_sys_are_told_without_a_traceback(tmp_path: Path) -> None:
    for arguments in (["--sys", str(tmp_path)], ["--setpci", str(tmp_path / "none")]):
        done = subprocess.run(
            [sys.executable, str(SCRIPT), "--check", *arguments],
            capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "PATH": "/nonexistent"},
        )  # fmt: skip
        assert "Traceback" not in done.stderr
        assert json.loads(done.stdout)
