"""The disks of a simulated host: what its shims say is what the product reads."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from firstlight.proof import BLANK, judge_root, read_findmnt, read_lsblk
from simulators.host import disks
from simulators.host.containers import hardware_facts

SHIMS = Path(__file__).resolve().parents[3] / "simulators" / "host" / "shims"
DRIVES = hardware_facts(7, "FLB0007")["drives"]
ROOT = {"model": "DELL BOSS-N1", "serial": "b6a39313d5f28d70", "size": 480_103_981_056}
STATE = {"faults": [], "disk": {"hostname": "n", "installed_at": "2026-11-29T23:00:00", "root": ROOT}}


@pytest.fixture
def shim(tmp_path):
    """Runs a shim in a machine's folder of this state."""

    def run(state: dict, name: str, *words: str) -> str:
        disks.write(tmp_path, state, DRIVES)
        (tmp_path / "dev").mkdir(exist_ok=True)
        environment = {**os.environ, "FIRSTLIGHT_SIMULATOR": str(tmp_path), "FIRSTLIGHT_DEV": str(tmp_path / "dev")}
        done = subprocess.run(
            [sys.executable, SHIMS / name, *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        return done.stdout

    return run


def look(shim, state=STATE):
    found, lies_on = read_lsblk(
        shim(state, "lsblk", "--json", "--bytes", "--output", "NAME,MAJ:MIN,TYPE,SIZE,SERIAL,MODEL")
    )
    source, number = read_findmnt(shim(state, "findmnt", "--json", "--output", "SOURCE,MAJ:MIN,FSTYPE,TARGET", "/"))
    return found, lies_on[number], source


def test_root_is_where_the_installer_put_it(shim):
    found, on, source = look(shim)
    assert len(found) == 9
    assert source.startswith(f"/dev/{on[0]}p")
    assert judge_root(ROOT, found, on, source)[0].status == "ok"
    elsewhere = {**STATE, "disk": {**STATE["disk"], "root": {**DRIVES[2], "model": "x"}}}
    found, on, source = look(shim, elsewhere)
    assert on == ["nvme2n1"]
    assert judge_root(ROOT, found, on, source)[0].symptom == "os_disk.wrong_disk"


def test_columns_are_those_asked_for(shim):
    rows = json.loads(shim(STATE, "lsblk", "-J", "-o", "NAME,FSTYPE"))["blockdevices"]
    assert set(rows[0]) == {"name", "fstype"}


def test_the_first_sectors_are_there_to_be_read(shim, tmp_path):
    state = {**STATE, "faults": ["data_drive_written"], "fault_parameters": {"data_drive_written": {"drive": 5}}}
    shim(state, "simulated-disks")
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (tmp_path / "dev").iterdir()}
    assert len(sums) == 9
    assert sorted(name for name, s in sums.items() if s != BLANK) == sorted({"nvme5n1", *look(shim, state)[1]})
    shim(STATE, "simulated-disks")
    assert hashlib.sha256((tmp_path / "dev" / "nvme5n1").read_bytes()).hexdigest() == BLANK
    gone = {**STATE, "faults": ["nvme_missing"], "fault_parameters": {"nvme_missing": {"drive": 3}}}
    assert "nvme3n1" not in [d.name for d in look(shim, gone)[0]]
