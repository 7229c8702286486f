"""One QEMU machine with its BMC, a MAAS region, a rack controller and an operator, in a network of their own."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from simulators import lab_files
from simulators.vm import image, qemu
from simulators.vm import machine as vm

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
NAME, TAG = "r1-n01", "FLVM001"
BMC, BMC_USER, BMC_PASSWORD = "127.20.1.11", "root", "bmc-password-of-the-vm"
MAAS_KEY = "vmconsumer11:vmtoken222:vmsecret3333"
ADDRESS = "10.77.0.11"
STOP_SECONDS = 10


class VmLab:
    """Everything for one machine. firmware: uefi or bios. stop() ends what it started and keeps the logs."""

    def __init__(self, firmware: str, made: image.Image, accelerator: str) -> None:
        self.firmware, self.image = firmware, made
        self.logs = image.CACHE / "logs" / firmware
        shutil.rmtree(self.logs, ignore_errors=True)
        self.logs.mkdir(parents=True)
        self.folder = Path(tempfile.mkdtemp(prefix=f"run-{firmware}-", dir=image.CACHE))
        self.namespace = f"fl-vm-{os.getpid()}-{firmware}"
        self.inventory = self.folder / "inventory"
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self.started = time.monotonic()
        self.lab = {
            "bmc": {
                "port": 8443,
                "admin": "127.20.0.1:8450",
                "username": BMC_USER,
                "password": BMC_PASSWORD,
                "boot_seconds": 0.5,
                "real": True,
                "hook": [sys.executable, "-m", "simulators.vm"],
            },
            "maas": {
                "listen": "127.20.0.2:5443",
                "admin": "127.20.0.2:5450",
                "api_key": MAAS_KEY,
                "real_machines": True,
                "node_timeout_seconds": 3600,
                "distro_series": [made.suite],
                "subnet": "10.77.0.0/24",
                "first_address": ADDRESS,
            },
            "vm": {
                "bridge": "br0",
                "tap": "tap0",
                "address": "10.77.0.1",
                "range": "10.77.0.100,10.77.0.200",
                "image": str(made.folder),
                "accelerator": accelerator,
                "seed": 1,
            },
            "machines": [
                {
                    "name": NAME,
                    "rack": "r1",
                    "unit": 4,
                    "index": 1,
                    "service_tag": TAG,
                    "bmc_address": BMC,
                    "drives": vm.DATA_DRIVES,
                    "os_disks": 1,
                    "bios": {} if firmware == "uefi" else {"BootMode": "Bios"},
                }
            ],
        }
        lab_files.write_json(self.folder / "lab.json", self.lab, 0o600)
        self.server = vm.Server.of(self.folder, self.lab, NAME)
        self.os_disk, *self.data_drives = self.server.drives()

    # -- up and down ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Network, drives with something on them, simulators, and the operator's site."""
        run("ip", "netns", "add", self.namespace)
        for line in (
            "ip link set lo up",
            "ip link add br0 type bridge",
            "ip address add 10.77.0.1/24 dev br0",
            "ip link set br0 up",
            "ip tuntap add tap0 mode tap",
            "ip link set tap0 master br0 up",
        ):
            run(*self.inside(*line.split()))
        self.server.make_drives()
        for number, drive in enumerate(self.data_drives):
            with drive.path.open("r+b") as stream:
                # half of them are blank, half hold a file system of somebody's
                if number % 2:
                    stream.write(hashlib.shake_256(drive.serial.encode()).digest(1024 * 1024))
        lab_files.make_certificates(self.folder, self.lab)
        for what, words in (
            ("bmc", ["simulators.bmc"]),
            ("maas", ["simulators.maas"]),
            ("rack", ["simulators.vm.rack"]),
        ):
            self._start(what, [sys.executable, "-m", *words, "--lab-dir", str(self.folder)])
        self._site()

    def _start(self, what: str, command: list[str]) -> None:
        log = self.folder / "log" / f"{what}.log"
        log.parent.mkdir(exist_ok=True)
        with log.open("a") as stream:
            process = subprocess.Popen(
                self.inside(*command),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stream,
                text=True,
            )
        self.processes[what] = process
        assert process.stdout is not None
        assert "ready" in process.stdout.readline(), log.read_text()

    def stop(self) -> None:
        """The machine first, then the simulators, the network, the disks; the logs stay."""
        with contextlib.suppress(lab_files.LabError):
            qemu.switch_off(self.folder, self.lab, NAME)
        end(reversed(self.processes.values()))
        # a boot that was under way may have started the machine once more
        with contextlib.suppress(lab_files.LabError):
            qemu.switch_off(self.folder, self.lab, NAME)
        subprocess.run(["ip", "netns", "delete", self.namespace], check=False, stderr=subprocess.DEVNULL)
        for path in [
            *self.folder.glob("log/*"),
            *self.server.folder.glob("serial-*.log"),
            *self.folder.glob("run-*.txt"),
        ]:
            shutil.copy(path, self.logs)
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- the operator ---------------------------------------------------------------------------------------------

    def _site(self) -> None:
        """An inventory as of any site: a rack plan of one server, and its settings."""
        profile = yaml.safe_load((ROOT / "inventory" / "profiles" / "xe9680.yml").read_text())
        profile["nvme"]["count"] = vm.DATA_DRIVES
        profile["bios"]["BootMode"] = "Uefi" if self.firmware == "uefi" else "Bios"
        key = self.folder / "ssh" / "id_ed25519"
        key.parent.mkdir(mode=0o700)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "operator", "-f", str(key))
        host = {"name": NAME, "rack": "r1", "unit": 4, "bmc_address": BMC, "bmc_port": 8443, "profile": "xe9680"}
        ca = str(self.folder / "ca.pem")
        files: dict[str, Any] = {
            "profiles/xe9680.yml": profile,
            "inventory/fleet.yml": {"site": "vm", "hosts": [host]},
            "inventory/vm.redfish_bmc.yml": {
                "plugin": "redfish_bmc",
                "fleet": "fleet.yml",
                "profiles": "../profiles",
                "ca_file": ca,
                "ledger": "../ledger.sqlite",
            },
            "inventory/vm.maas.yml": {
                "plugin": "maas",
                "url": "https://127.20.0.2:5443/MAAS",
                "ca_file": ca,
                "subnets": ["10.77.0.0/24"],
            },
            "inventory/policy.yml": {"fleet_min_ready": "0%"},
            "inventory/group_vars/all/site.yml": {
                "install_distro_series": self.image.suite,
                "install_commission_minutes": 60,
                "install_deploy_minutes": 60,
                "install_poll_seconds": 2,
                "install_ssh_minutes": 30,
                "install_ssh_public_key_file": f"{key}.pub",
                "ansible_user": "firstlight",
                "ansible_ssh_private_key_file": str(key),
                "known_hosts_file": str(self.folder / "known_hosts"),
                "ansible_ssh_common_args": f"-o UserKnownHostsFile={self.folder}/known_hosts -o HostKeyAlias={NAME}",
                "time_sync_servers": [],
                "versions_file": str(ROOT / "inventory" / "versions.yml"),
                "reports_folder": str(self.folder / "reports"),
            },
        }
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(yaml.safe_dump(content))

    def play(self, number: int, *playbooks: str, minutes: float = 120) -> tuple[int, str]:
        """Run playbooks as the operator does; exit status and screen. number: of the screen's copy among the logs."""
        environment = os.environ | {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_INVENTORY": str(self.inventory),
            "ANSIBLE_INVENTORY_CACHE_CONNECTION": str(self.folder / "cache"),
            "ANSIBLE_FORCE_COLOR": "false",
            "FIRSTLIGHT_BMC_USERNAME": BMC_USER,
            "FIRSTLIGHT_BMC_PASSWORD": BMC_PASSWORD,
            "FIRSTLIGHT_MAAS_API_KEY": MAAS_KEY,
        }
        screen = self.folder / f"run-{number}.txt"
        command = self.inside("ansible-playbook", *(str(ROOT / "playbooks" / f"{name}.yml") for name in playbooks))
        with screen.open("w") as stream:
            process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT
            )
            try:
                status = process.wait(minutes * 60)
            except BaseException:
                process.send_signal(signal.SIGINT)
                process.wait()
                raise
        return status, screen.read_text()

    def ssh(self, *words: str, seconds: float = 60) -> str:
        """A command on the installed host, whose key must be the known one; raises when it fails."""
        options = {
            "UserKnownHostsFile": self.folder / "known_hosts",
            "HostKeyAlias": NAME,
            "StrictHostKeyChecking": "yes",
            "BatchMode": "yes",
            "ConnectTimeout": 10,
        }
        flags = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        key = str(self.folder / "ssh" / "id_ed25519")
        command = self.inside("ssh", "-i", key, *flags, f"firstlight@{ADDRESS}", *words)
        return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=True).stdout

    def wait_for_ssh(self, seconds: float) -> None:
        """Until the host answers; the last error when it does not."""
        until = time.monotonic() + seconds
        while True:
            try:
                self.ssh("true", seconds=30)
                return
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
                if time.monotonic() > until:
                    raise
                time.sleep(2)

    # -- looking --------------------------------------------------------------------------------------------------

    def curl(self, *words: str) -> Any:
        """A question to one of the lab's own ports, which only answer inside its network."""
        answer = run(*self.inside("curl", "-sS", "--fail", "--noproxy", "*", "--max-time", "20", *words))
        return json.loads(answer) if answer.strip() else None

    def redfish(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """What a person at the BMC does."""
        words = ["-X", method, "--cacert", str(self.folder / "ca.pem"), "-u", f"{BMC_USER}:{BMC_PASSWORD}"]
        if body is not None:
            words += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
        return self.curl(*words, f"https://{BMC}:8443/redfish/v1/Systems/System.Embedded.1{path}")

    def maas(self) -> dict[str, Any]:
        """The region's record of the machine."""
        machines = json.loads((self.folder / "maas" / "state.json").read_text())["machines"]
        assert len(machines) == 1, [machine["hostname"] for machine in machines.values()]
        return dict(next(iter(machines.values())))

    def writes(self) -> int:
        """How many changes the region was asked for, ever."""
        return int(self.curl("http://127.20.0.2:5450/stats")["writes"])

    def log(self, name: str) -> str:
        """A log of the lab."""
        return (self.folder / "log" / f"{name}.log").read_text(errors="replace")

    def inside(self, *words: str) -> list[str]:
        """The command in the lab's network."""
        return ["ip", "netns", "exec", self.namespace, *words]


def content(path: Path) -> tuple[list[tuple[int, int]], str]:
    """What is on a drive: where it holds data (a drive that was written or trimmed holds it elsewhere), and its sum."""
    places = vm.allocated(path)
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for start, end in places:
            stream.seek(start)
            while start < end:
                piece = stream.read(min(1024 * 1024, end - start))
                digest.update(piece)
                start += len(piece)
    return places, digest.hexdigest()


def end(processes: Iterable[subprocess.Popen[str]]) -> None:
    """End them, one after the other."""
    for process in processes:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}"
    return done.stdout
