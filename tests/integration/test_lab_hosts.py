"""A lab of two servers as scripts/lab starts it: containers that are installed, rebooted, broken and removed."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from ansible.parsing.vault import VaultLib, VaultSecret

from simulators import lab_files
from simulators.bmc.hardware import Hardware

pytestmark = pytest.mark.lab

PROJECT = Path(__file__).resolve().parents[2]
BLOCK = 93
NAME, ADDRESS = "r1-n01", f"10.{BLOCK}.0.11"
SYSTEM = "/redfish/v1/Systems/System.Embedded.1"
BOOT_SECONDS = 240  # of patience; it takes five


class Lab:
    """One lab in a folder of its own, and what a test does to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.inventory = folder / "site"

    def run(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run scripts/lab."""
        environment = os.environ | {"FIRSTLIGHT_LAB_DIR": str(self.folder)}
        result = subprocess.run(
            [PROJECT / "scripts" / "lab", *words], capture_output=True, text=True, timeout=900, env=environment
        )
        assert not check or result.returncode == 0, result.stdout + result.stderr
        return result

    def up(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.run("up", "--block", str(BLOCK), "--inventory-dir", str(self.inventory), *words, check=check)

    @property
    def data(self) -> dict[str, Any]:
        return lab_files.load(self.folder)

    def state(self, name: str = NAME) -> dict[str, Any]:
        return json.loads((self.folder / "machines" / name / "state.json").read_text())

    def admin(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        answer = requests.request(method, f"http://{self.data['bmc']['admin']}/machines/{path}", json=body, timeout=10)
        assert answer.ok, answer.text
        return answer.json()

    def redfish(self, method: str, path: str, body: Any) -> None:
        entry, bmc = lab_files.machine(self.data, NAME), self.data["bmc"]
        answer = requests.request(
            method, f"https://{entry['bmc_address']}:{bmc['port']}{SYSTEM}{path}", json=body, timeout=10,
            auth=(bmc["username"], bmc["password"]), verify=str(self.folder / "ca.pem"),
        )  # fmt: skip
        assert answer.ok, answer.text

    def power(self, kind: str) -> None:
        self.redfish("POST", "/Actions/ComputerSystem.Reset", {"ResetType": kind})

    def install(self, user_data: dict[str, Any]) -> None:
        """Do what MAAS's installer does: write the disk and reboot from it."""
        boots = self.state()["boots"]
        disk = {"hostname": "first", "address": ADDRESS, "image": "bookworm"}
        disk["user_data"] = "#cloud-config\n" + yaml.safe_dump(user_data)
        self.admin("PUT", f"{NAME}/disk", disk)
        self.boot_from_disk(boots)

    def boot_from_disk(self, boots: int) -> None:
        self.redfish("PATCH", "", {"Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Hdd"}})
        self.admin("POST", f"{NAME}/reboot")
        until(lambda: self.state()["boots"] > boots and self.state()["last_boot"] == "disk")
        self.wait_up()

    def ssh(self, command: str, check: bool = True) -> str:
        result = subprocess.run(
            ["ssh", "-i", self.folder / "ssh" / "id_ed25519", "-o", "UserKnownHostsFile=/dev/null",
             "-o", "StrictHostKeyChecking=no", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "-o", "ConnectTimeout=2",
             f"ops@{ADDRESS}", command], capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert not check or result.returncode == 0, f"{command}: {result.returncode} {result.stdout} {result.stderr}"
        return result.stdout.strip()

    def wait_up(self) -> None:
        until(lambda: self.ssh("cloud-init status --wait 2>/dev/null", check=False) == "status: done")

    def containers(self) -> list[str]:
        label = f"label=firstlight.lab=firstlight-lab-{BLOCK}"
        return podman("ps", "-a", "--filter", label, "--format", "{{.Names}}").stdout.split()


def podman(*words: str) -> subprocess.CompletedProcess[str]:
    command = [PROJECT / "scripts" / "container-engine", "run", "podman", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def until(condition: Callable[[], Any], seconds: float = BOOT_SECONDS) -> Any:
    limit = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < limit, f"not within {seconds} s"
        time.sleep(0.2)
    return value


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    lab = Lab(tmp_path_factory.mktemp("lab") / "lab")
    try:
        lab.up("--fleet", "2", "--sound")
        yield lab
    finally:
        lab.run("down", check=False)


@pytest.fixture(scope="module")
def installed(lab: Lab) -> Lab:
    """The lab with its first server installed."""
    lab.power("On")
    until(lambda: lab.state()["boots"] == 1)
    key = (lab.folder / "ssh" / "id_ed25519.pub").read_text().strip()
    lab.user_data = {  # type: ignore[attr-defined]
        "ssh_pwauth": False,
        "users": [{"name": "ops", "sudo": "ALL=(ALL) NOPASSWD:ALL", "groups": "adm", "ssh_authorized_keys": [key]}],
        "write_files": [{"path": "/etc/made-by-user-data", "content": "yes\n", "permissions": "0600"}],
        "runcmd": ["echo run >> /root/runs"],
    }
    lab.install(lab.user_data)  # type: ignore[attr-defined]
    return lab


def test_the_site_files_are_what_an_operator_needs(lab: Lab) -> None:
    fleet = yaml.safe_load((lab.inventory / "fleet.yml").read_text())
    assert [host["name"] for host in fleet["hosts"]] == ["r1-n01", "r2-n01"]
    assert fleet["hosts"][0]["bmc_address"] == f"127.{BLOCK}.1.11"
    text = (lab.inventory / "group_vars" / "all" / "secrets.yml").read_bytes()
    assert text.startswith(b"$ANSIBLE_VAULT;")
    password = (lab.folder / "vault_password").read_text().strip().encode()
    opened = yaml.safe_load(VaultLib([("default", VaultSecret(password))]).decrypt(text))
    assert opened["bmc_password"] == lab.data["bmc"]["password"]
    assert len(opened["maas_api_key"].split(":")) == 3
    for secret in ("lab.json", "vault_password", "ca.key", "ssh/id_ed25519"):
        assert (lab.folder / secret).stat().st_mode & 0o077 == 0, secret
    assert lab.folder.stat().st_mode & 0o077 == 0


def test_an_installed_server_runs_its_user_data(installed: Lab) -> None:
    assert installed.ssh("hostname") == "first"
    assert installed.ssh("systemctl is-system-running") == "running"
    assert installed.ssh("sudo cat /etc/made-by-user-data; sudo stat -c %a /etc/made-by-user-data") == "yes\n600"
    assert installed.ssh("sudo cat /root/runs") == "run"
    assert "adm" in installed.ssh("id -nG").split()
    assert installed.ssh("sudo sshd -T | grep -i ^passwordauth") == "passwordauthentication no"


def test_shims_say_what_the_bmc_says_and_that_they_are_shims(installed: Lab) -> None:
    hardware = Hardware(1, "FLB0001")
    assert installed.ssh("nvidia-smi --query-gpu=serial --format=csv,noheader 2>/dev/null").splitlines() == [
        gpu.serial for gpu in hardware.gpus
    ]
    drives = json.loads(installed.ssh("nvme list -o json 2>/dev/null"))["Devices"]
    assert [drive["SerialNumber"] for drive in drives] == [drive.serial for drive in hardware.drives]
    for command in ("nvidia-smi -L", "ibstat", "nvme list", "cloud-init status"):
        assert "Firstlight's shim" in installed.ssh(f"{command} 2>&1 >/dev/null"), command


def test_a_fault_shows_in_the_running_server(installed: Lab) -> None:
    gone = Hardware(1, "FLB0001").gpus[5].uuid
    assert gone in installed.ssh("nvidia-smi -L")
    installed.run("fault", NAME, "gpu_missing", "on", "gpu=5")
    listed = installed.ssh("nvidia-smi -L").splitlines()
    assert len(listed) == 7
    assert not [line for line in listed if gone in line]
    assert NAME in installed.run("faults").stdout
    installed.run("fault", NAME, "gpu_missing", "off")
    assert len(installed.ssh("nvidia-smi -L").splitlines()) == 8
    refused = installed.run("fault", NAME, "gpu_missing", "on", "gpu=12", check=False)
    assert refused.returncode == 1
    assert "gpu must be a number from 0 to 7" in refused.stderr


def test_a_fault_of_the_host_alone_comes_and_goes(installed: Lab) -> None:
    width = "cat /sys/bus/pci/devices/0000:cb:00.0/current_link_width"
    assert installed.ssh(f"{width}; ls /sys/bus/pci/devices | wc -l") == "16\n67"
    installed.run("fault", NAME, "pcie_narrow", "on", "gpu=6", "width=4")
    installed.run("fault", NAME, "disk_full", "on")
    until(lambda: installed.ssh(width) == "4")
    until(lambda: installed.ssh("df --output=avail /var/tmp | tail -1") == "0")
    installed.run("fault", NAME, "pcie_narrow", "off")
    installed.run("fault", NAME, "disk_full", "off")
    until(lambda: installed.ssh(width) == "16")
    until(lambda: installed.ssh("df --output=avail /var/tmp | tail -1") != "0")
    assert installed.ssh("systemctl is-system-running") == "running"


def test_a_reboot_keeps_the_disk_and_runs_nothing_twice(installed: Lab) -> None:
    before = installed.ssh("sudo touch /root/kept; cat /etc/ssh/ssh_host_ed25519_key.pub /etc/machine-id")
    started = installed.ssh("systemctl show -P UserspaceTimestampMonotonic")
    installed.boot_from_disk(installed.state()["boots"])
    assert installed.ssh("sudo ls /root/kept; sudo cat /root/runs") == "/root/kept\nrun"
    assert installed.ssh("cat /etc/ssh/ssh_host_ed25519_key.pub /etc/machine-id") == before
    assert installed.ssh("systemctl show -P UserspaceTimestampMonotonic") != started


def test_power_off_stops_the_server(installed: Lab) -> None:
    installed.power("ForceOff")
    until(
        lambda: (
            podman("inspect", "-f", "{{.State.Running}}", f"firstlight-lab-{BLOCK}-{NAME}").stdout.strip() == "false"
        )
    )
    assert installed.ssh("true", check=False) == ""
    boots = installed.state()["boots"]
    installed.redfish("PATCH", "", {"Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Hdd"}})
    installed.power("On")
    until(lambda: installed.state()["boots"] > boots)
    installed.wait_up()
    assert installed.ssh("sudo ls /root/kept") == "/root/kept"


def test_up_again_leaves_a_running_lab_alone(installed: Lab) -> None:
    pids = json.loads(installed.run("status", "--json").stdout)["simulators"]
    started = installed.ssh("systemctl show -P UserspaceTimestampMonotonic")
    secrets = (installed.inventory / "group_vars" / "all" / "secrets.yml").read_bytes()
    installed.up()
    assert json.loads(installed.run("status", "--json").stdout)["simulators"] == pids
    assert installed.ssh("systemctl show -P UserspaceTimestampMonotonic") == started
    assert (installed.inventory / "group_vars" / "all" / "secrets.yml").read_bytes() == secrets
    other = installed.up("--fleet", "5", check=False)
    assert other.returncode == 1
    assert "already runs, with 2 servers" in other.stderr


def test_a_second_lab_on_the_same_addresses_is_refused(installed: Lab, tmp_path: Path) -> None:
    second = Lab(tmp_path / "lab")
    refused = second.up(check=False)
    assert refused.returncode == 1
    assert "--block" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    assert "there is none" in second.run("down").stdout
    assert installed.ssh("hostname") == "first"


def test_a_reinstall_is_a_fresh_server(installed: Lab) -> None:
    before = installed.ssh("cat /etc/ssh/ssh_host_ed25519_key.pub; cat /etc/machine-id").splitlines()
    installed.install(installed.user_data)  # type: ignore[attr-defined]
    after = installed.ssh("cat /etc/ssh/ssh_host_ed25519_key.pub; cat /etc/machine-id").splitlines()
    assert before[0] != after[0]
    assert before[1] != after[1]
    assert installed.ssh("sudo ls /root/kept", check=False) == ""
    assert installed.ssh("sudo cat /root/runs") == "run"
    assert installed.containers() == [f"firstlight-lab-{BLOCK}-{NAME}"]


def test_a_simulator_that_dies_is_named_with_the_end_of_its_log(lab: Lab) -> None:
    lab.run("down")
    path = lab.folder / "lab.json"
    good = path.read_text()
    (lab.folder / "machines" / NAME).mkdir(parents=True, exist_ok=True)
    taken = lab.folder / "tls" / f"{NAME}.pem"
    kept = taken.read_bytes()
    taken.write_text("no certificate\n")
    try:
        broken = lab.up("--fleet", "2", "--sound", check=False)
        assert broken.returncode == 1
        assert "the bmc simulator ended with status" in broken.stderr
        assert "Traceback" not in broken.stdout
    finally:
        taken.write_bytes(kept)
        path.write_text(good)


def test_down_leaves_nothing_behind(lab: Lab) -> None:
    lab.up("--fleet", "2", "--sound")
    pids = json.loads(lab.run("status", "--json").stdout)["simulators"].values()
    lab.run("down")
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert lab.containers() == []
    assert podman("network", "exists", f"firstlight-lab-{BLOCK}").returncode == 1
    assert "there is none" in Lab(lab.folder.parent / "nowhere").run("down").stdout


def test_the_engine_is_not_ended_while_another_lab_waits_for_its_servers() -> None:
    """A lab between its start and its first installation has no container yet, only its network."""
    network = f"firstlight-lab-{BLOCK}"
    podman("network", "create", "--disable-dns", "--subnet", f"10.{BLOCK}.0.0/24", network)
    try:
        subprocess.run(
            [PROJECT / "scripts" / "container-engine", "down", "--if-unused"],
            check=True,
            capture_output=True,
            timeout=120,
        )
        assert podman("network", "exists", network).returncode == 0
    finally:
        podman("network", "rm", "-f", network)


def test_one_that_waited_to_end_an_engine_does_not_forget_the_next(tmp_path: Path) -> None:
    """Else its holder goes on without anyone who knows of it, and whoever enters waits for ever."""
    folder, script = tmp_path / "engine", str(PROJECT / "scripts" / "container-engine")
    environment = {**os.environ, "FIRSTLIGHT_CACHE": str(tmp_path), "FIRSTLIGHT_ENGINE_MODE": "private"}

    def engine(*words: str) -> str:
        done = subprocess.run(
            [script, *words], env=environment, capture_output=True, text=True, timeout=120, check=True
        )
        return done.stdout.strip()

    def holder() -> int:
        return int((folder / "holder.pid").read_text())

    holders = []
    try:
        engine("up")
        holders.append(holder())
        with (folder / "use.lock").open("w") as inside:
            fcntl.flock(inside, fcntl.LOCK_SH)
            ending = subprocess.Popen([script, "down", "--if-unused"], env=environment)
            time.sleep(1)  # it waits for the lock, two seconds at most
            os.kill(holders[0], signal.SIGKILL)
            engine("up")
            holders.append(holder())
        assert ending.wait(60) == 0
        known = (folder / "holder.pid").exists()
        assert known == Path(f"/proc/{holders[1]}").exists()
        assert engine("run", "echo", "inside") == "inside"
    finally:
        if (folder / "holder.pid").exists():
            holders.append(holder())
        engine("down")
        for pid in holders:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
