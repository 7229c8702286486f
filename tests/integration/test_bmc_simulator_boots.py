"""The BMC simulator's machines are switched, boot and are installed, and all goes on when its process is restarted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
from bmc_lab import MANAGER, PROJECT, RESET, ROOT, SYSTEM, Lab, Pxe, message_id, own_fixture, pxe_fixture  # noqa: F401
from redfish.rest.v1 import AuthMethod
from waiting import until

from simulators import lab_files

# --- power and boots


def test_an_installation_from_power_on_to_running_host(own: Lab, pxe: Pxe) -> None:
    pxe.boot = "install"
    client = own.client()
    client.login(auth=AuthMethod.SESSION)
    once = {"Boot": {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"}}
    assert client.patch(SYSTEM, body=once).status == 200
    assert client.get(SYSTEM).dict["Boot"]["BootSourceOverrideEnabled"] == "Once"
    assert client.post(RESET, body={"ResetType": "On"}).status == 204
    again = client.post(RESET, body={"ResetType": "On"})
    assert (again.status, message_id(again)) == (409, "PSU501")
    state = own.settled(boots=1)
    assert (state["power"], state["last_boot"], state["running"]) == ("On", "pxe", "network")
    mac = client.get(f"{SYSTEM}/EthernetInterfaces/NIC.Embedded.1-1-1").dict["MACAddress"]
    assert pxe.asked == [{"mac": mac.lower(), "service_tag": "TST0001"}]
    assert client.get(SYSTEM).dict["Boot"]["BootSourceOverrideEnabled"] == "Disabled"
    disk = {"hostname": "n1", "address": "127.253.0.11", "image": "bookworm", "user_data": ""}
    assert own.ask("PUT", "/machines/n1/disk", disk).status_code == 200
    pxe.boot = "local"
    assert own.ask("POST", "/machines/n1/reboot").status_code == 200
    assert own.settled(boots=2)["running"] == "disk"
    until(lambda: own.hooks()[-1:] == ["end on n1"])
    assert client.get(SYSTEM).dict["HostName"] == "n1"
    assert client.post(RESET, body={"ResetType": "ForceRestart"}).status == 204  # must stop the host first
    assert own.settled(boots=3)["running"] == "disk"
    until(lambda: len(own.hooks()) == 10)
    assert client.post(RESET, body={"ResetType": "ForceOff"}).status == 204
    until(lambda: len(own.hooks()) == 12)
    verbs = [line.split()[1] for line in own.hooks()[::2]]
    assert verbs == ["off", "off", "on", "off", "on", "off"]
    assert [line.split()[0] for line in own.hooks()] == ["begin", "end"] * 6  # never two at once
    assert "off n1" in (own.folder / "log/n1.hook.log").read_text()
    client.logout()


def test_one_time_pxe_is_for_one_boot_only(own: Lab, pxe: Pxe) -> None:
    pxe.boot = "local"
    assert own.call("PATCH", SYSTEM, {"Boot": {"BootOrder": ["Boot0001", "Boot0000"]}}).status_code == 200
    own.call("POST", RESET, {"ResetType": "On"})
    own.settled(boots=1)
    asked = len(pxe.asked)  # an empty disk: the NIC is next
    assert asked == 1
    own.ask("PUT", "/machines/n1/disk", {"hostname": "n1", "address": "a", "image": "i"})
    own.call("PATCH", SYSTEM, {"Boot": {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"}})
    own.call("POST", RESET, {"ResetType": "PowerCycle"})
    assert own.settled(boots=2)["last_boot"] == "pxe"
    own.call("POST", RESET, {"ResetType": "PowerCycle"})
    assert own.settled(boots=3)["last_boot"] == "disk"
    assert len(pxe.asked) == asked + 1


def test_a_host_is_started_again_with_the_lab(own: Lab, pxe: Pxe) -> None:
    pxe.boot = "local"
    own.call("POST", RESET, {"ResetType": "On"})
    own.settled(boots=1)
    own.ask("PUT", "/machines/n1/disk", {"hostname": "n1", "address": "a", "image": "i"})
    own.ask("POST", "/machines/n1/reboot")
    own.settled(boots=2)
    until(lambda: own.hooks()[-1:] == ["end on n1"])
    before = len(own.hooks())
    assert own.stop() == 0
    own.start()
    until(lambda: own.hooks()[before:] == ["begin on n1", "end on n1"])
    assert own.machine()["boots"] == 2


def test_a_bios_that_does_not_pxe(own: Lab, pxe: Pxe) -> None:
    pxe.boot = "enlist"
    assert own.get(f"{SYSTEM}/Bios")["Attributes"]["PxeDev1EnDis"] == "Enabled"
    settings = f"{SYSTEM}/Bios/Settings"
    assert own.call("PATCH", settings, {"Attributes": {"PxeDev1EnDis": "Maybe"}}).status_code == 400
    assert own.call("PATCH", settings, {"Attributes": {"NoSuch": "Enabled"}}).status_code == 400
    change = {
        "Attributes": {"PxeDev1EnDis": "Disabled"},
        "@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"},
    }
    made = own.call("PATCH", settings, change)
    assert made.status_code == 202
    task = made.headers["Location"]
    pending = own.call("PATCH", settings, {"Attributes": {"ProcCStates": "Enabled"}})
    assert (pending.status_code, message_id(pending)) == (400, "SYS011")
    jobs = f"{MANAGER}/Oem/Dell/Jobs"
    assert own.call("POST", jobs, {"TargetSettingsURI": settings}).status_code == 400
    assert own.get(f"{jobs}/{task.rsplit('/', 1)[1]}")["JobState"] == "Scheduled"
    assert own.get(f"{SYSTEM}/Bios")["Attributes"]["PxeDev1EnDis"] == "Enabled"
    own.call("PATCH", SYSTEM, {"Boot": {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"}})
    own.call("POST", RESET, {"ResetType": "On"})
    assert own.settled(boots=1)["last_boot"] is None
    assert pxe.asked == []
    assert own.get(task)["TaskState"] == "Completed"
    assert own.get(f"{SYSTEM}/Bios")["Attributes"]["PxeDev1EnDis"] == "Disabled"
    assert own.call("PATCH", settings, {"Attributes": {"PxeDev1EnDis": "Enabled"}}).status_code == 200
    job = own.call("POST", jobs, {"TargetSettingsURI": settings}).headers["Location"]
    assert own.call("DELETE", job).status_code == 200
    assert own.get(settings)["Attributes"] == {}


def test_no_link_and_a_missing_nic_keep_a_machine_from_pxe(own: Lab, pxe: Pxe) -> None:
    pxe.boot = "enlist"
    own.fault("no_link")
    own.call("POST", RESET, {"ResetType": "On"})
    own.settled(boots=1)
    own.ask("POST", "/machines/n1/repair")
    own.fault("nic_missing")
    own.call("POST", RESET, {"ResetType": "ForceRestart"})
    own.settled(boots=2)
    assert pxe.asked == []
    own.ask("POST", "/machines/n1/repair")
    own.call("POST", RESET, {"ResetType": "ForceRestart"})
    assert own.settled(boots=3)["last_boot"] == "pxe"


def test_boot_settings_of_idrac9_and_idrac10(own: Lab) -> None:
    once = {"Boot": {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"}}
    order = {"Boot": {"BootOrder": ["Boot0001", "Boot0000"]}}
    settings = own.get(SYSTEM)["@Redfish.Settings"]["SettingsObject"]["@odata.id"]
    refused = own.call("PATCH", settings, once)
    assert (refused.status_code, message_id(refused)) == (400, "PropertyNotWritable")
    assert own.call("PATCH", settings, order).status_code == 200
    assert own.get(SYSTEM)["Boot"]["BootOrder"] == ["Boot0001", "Boot0000"]
    etag = own.call("GET", SYSTEM).headers["ETag"]
    assert own.call("PATCH", SYSTEM, once, headers={"If-Match": etag}).status_code == 200
    assert own.call("PATCH", SYSTEM, once, headers={"If-Match": etag}).status_code == 412
    assert own.stop() == 0
    lab_json = lab_files.load(own.folder)
    lab_json["bmc"]["boot_settings"] = "only"
    lab_files.write_json(own.folder / "lab.json", lab_json)
    own.start()
    refused = own.call("PATCH", SYSTEM, once)
    assert (refused.status_code, message_id(refused)) == (400, "PropertyNotWritable")
    assert own.call("PATCH", settings, once).status_code == 200


def test_graceful_shutdown_needs_somebody_who_listens(own: Lab, pxe: Pxe) -> None:
    own.call("POST", RESET, {"ResetType": "On"})
    own.settled(boots=1)
    assert own.call("POST", RESET, {"ResetType": "GracefulShutdown"}).status_code == 204
    assert own.machine()["power"] == "On"
    pxe.boot = "commission"
    own.call("POST", RESET, {"ResetType": "GracefulRestart"})
    own.settled(boots=2)
    own.call("POST", RESET, {"ResetType": "PushPowerButton"})
    until(lambda: own.machine()["power"] == "Off")
    off = own.call("POST", RESET, {"ResetType": "GracefulShutdown"})
    assert (off.status_code, message_id(off)) == (409, "PSU502")


def test_a_restarted_bmc_is_away_then_not_ready_then_empty(own: Lab) -> None:
    client = own.client()
    client.login(auth=AuthMethod.SESSION)
    reset = {"ResetType": "GracefulRestart"}
    assert client.post(f"{MANAGER}/Actions/Manager.Reset", body=reset).status == 204
    seen: list[str] = []

    def back() -> bool:
        try:
            response = own.call("GET", f"{ROOT}/Systems")
            found = "SYS518" if response.status_code == 503 else f"{len(response.json()['Members'])} systems"
        except requests.exceptions.ConnectionError:
            found = "away"
        if seen[-1:] != [found]:
            seen.append(found)
        return seen[-3:] == ["SYS518", "0 systems", "1 systems"]

    until(back)
    assert "away" in seen
    assert client.get(SYSTEM).status == 401  # its sessions are gone


# --- restarts and the process


def test_a_restart_of_the_simulator_keeps_the_state(own: Lab, pxe: Pxe) -> None:
    pxe.boot = "enlist"
    own.call("PATCH", SYSTEM, {"Boot": {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Continuous"}})
    own.call("POST", RESET, {"ResetType": "On"})
    own.settled(boots=1)
    own.ask("PUT", "/machines/n1/disk", {"hostname": "n1", "address": "a", "image": "i"})
    own.fault("gpu_missing", gpu=5)
    before = own.machine()
    assert own.stop(signal.SIGKILL) == -signal.SIGKILL
    own.start()
    after = own.machine()
    for key in ("power", "boots", "last_boot", "disk", "faults", "fault_parameters", "boot", "running"):
        assert after[key] == before[key], key
    assert after["counters"]["writes"] == before["counters"]["writes"]
    assert (own.folder / "pid/bmc.pid").read_text().strip() == str(own.process and own.process.pid)
    assert own.stop() == 0
    assert not (own.folder / "pid/bmc.pid").exists()


def test_an_interrupted_boot_goes_on(tmp_path: Path, pxe: Pxe) -> None:
    pxe.boot, pxe.asked = "enlist", []
    with Lab(tmp_path, pxe, boot_seconds=1) as lab:
        lab.call("POST", RESET, {"ResetType": "On"})
        lab.stop(signal.SIGKILL)
        lab.start()
        assert lab.settled(boots=1)["last_boot"] == "pxe"


def test_five_hundred_bmcs_start_in_seconds(tmp_path: Path, pxe: Pxe) -> None:
    lab = Lab(tmp_path, pxe, count=500)
    lab_files.make_certificates(tmp_path, lab_files.load(tmp_path))
    before = time.monotonic()
    with lab:
        assert time.monotonic() - before < 10
        assert lab.get(SYSTEM, number=500)["SKU"] == "TST0500"
        assert lab.process is not None
        status = Path(f"/proc/{lab.process.pid}/status").read_text()
        kilobytes = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))
        assert kilobytes < 250_000


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lab: lab["bmc"].pop("password"), "bmc: lacks password"),
        (lambda lab: lab["machines"][0].update(faults=["broken"]), "unknown fault 'broken'"),
        (lambda lab: lab["machines"].append(lab["machines"][0]), "is used twice"),
        (lambda lab: lab["machines"][0].pop("index"), "machines[0]: lacks index"),
    ],
)
def test_a_bad_lab_gets_one_clear_line(
    tmp_path: Path, pxe: Pxe, change: Callable[[dict[str, Any]], object], words: str
) -> None:
    lab = Lab(tmp_path, pxe)
    content = json.loads((tmp_path / "lab.json").read_text())
    change(content)
    lab_files.write_json(tmp_path / "lab.json", content)
    done = subprocess.run(
        [sys.executable, "-m", "simulators.bmc", "--lab-dir", str(lab.folder)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=20,
        env=os.environ,
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr
