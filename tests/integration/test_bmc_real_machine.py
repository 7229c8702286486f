"""A simulated BMC in front of a machine that is a process: it switches it, and reads its power from it."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from bmc_product_lab import PASSWORD, USER, BmcLab

from simulators.bmc import parts
from simulators.bmc.machine import Machine

SYSTEM = "/redfish/v1/Systems/System.Embedded.1"
# the machine is a sleep; the words it was called with are kept
HOOK = """
import os, pathlib, signal, subprocess, sys
lab, verb, name = pathlib.Path(os.environ["FIRSTLIGHT_LAB_DIR"]), *sys.argv[1:3]
with (lab / "calls").open("a") as calls:
    print(*sys.argv[1:], file=calls)
pid = lab / "machines" / name / "qemu.pid"
if verb == "on":
    process = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    started = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19]
    pid.write_text(f"{process.pid} {started}")
elif pid.exists():
    os.kill(int(pid.read_text().split()[0]), signal.SIGKILL)
    pid.unlink()
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[BmcLab]:
    (tmp_path / "hook.py").write_text(HOOK)
    lab = BmcLab(tmp_path, count=1, real=True, hook=[sys.executable, str(tmp_path / "hook.py")])
    yield lab
    lab.stop()
    pid = tmp_path / "machines" / "n1" / "qemu.pid"
    if pid.exists():
        os.kill(int(pid.read_text().split()[0]), signal.SIGKILL)


def redfish(lab: BmcLab, method: str, path: str = "", body: Any = None) -> requests.Response:
    url = f"https://{lab.address(1)}:{lab.port}{SYSTEM}{path}"
    return requests.request(method, url, json=body, auth=(USER, PASSWORD), verify=lab.ca_file, timeout=10)


def reset(lab: BmcLab, kind: str) -> int:
    return redfish(lab, "POST", "/Actions/ComputerSystem.Reset", {"ResetType": kind}).status_code


def calls(lab: BmcLab, *wanted: str) -> None:
    """Wait until the hook was called with these words at last."""
    end = time.monotonic() + 15
    while True:
        said = (lab.folder / "calls").read_text().splitlines() if (lab.folder / "calls").exists() else []
        if said[-len(wanted) :] == list(wanted):
            return
        assert time.monotonic() < end, said
        time.sleep(0.05)


def power(lab: BmcLab, wanted: str) -> None:
    end = time.monotonic() + 15
    while redfish(lab, "GET").json()["PowerState"] != wanted:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_the_process_is_the_machine(lab: BmcLab) -> None:
    boot = {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Hdd"}
    assert redfish(lab, "PATCH", "", {"Boot": boot}).ok
    assert reset(lab, "On") == 204
    calls(lab, "off n1", "on n1 uefi disk pxe")
    power(lab, "On")
    # the machine resets itself: the override was for one boot, now the boot order counts
    requests.post(f"http://{lab.admin}/machines/n1/reboot", timeout=10).raise_for_status()
    calls(lab, "off n1", "on n1 uefi pxe disk")
    assert reset(lab, "GracefulShutdown") == 204
    calls(lab, "on n1 uefi pxe disk", "press n1")
    power(lab, "Off")
    lab.fault("n1", "bios_wrong", attribute="BootMode", value="Bios")
    lab.fault("n1", "no_link")
    assert reset(lab, "On") == 204
    calls(lab, "off n1", "on n1 bios disk")
    # whatever ends the process, its power is off then
    end = time.monotonic() + 15
    pid = lab.folder / "machines" / "n1" / "qemu.pid"
    while not pid.exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    power(lab, "On")
    os.kill(int(pid.read_text().split()[0]), signal.SIGKILL)
    power(lab, "Off")
    pid.unlink()


def test_a_machine_has_the_drives_that_the_lab_says(tmp_path: Path) -> None:
    entry = {"name": "n1", "index": 1, "service_tag": "T1", "bmc_address": "127.0.0.1", "drives": 6, "os_disks": 1}
    few = Machine(tmp_path, {"machines": [entry]}, entry)
    assert (len(parts.drives(few)), len(parts.os_disks(few))) == (6, 1)
    other = {"name": "n2", "index": 2, "service_tag": "T2", "bmc_address": "127.0.0.2"}
    usual = Machine(tmp_path, {"machines": [other]}, other)
    assert (len(parts.drives(usual)), len(parts.os_disks(usual))) == (8, 2)
