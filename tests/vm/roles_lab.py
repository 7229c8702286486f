"""One QEMU machine on which roles run: one OS disk, six NVMe drives, ACS, P-states, a clock that is a year wrong.

It boots its kernel directly, in a network of its own with an NTP server and a package archive.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import yaml
from vm_lab import BIN, NAME, ROOT, STOP_SECONDS, TAG, end, run

from simulators.vm import image, qemu, roles_image
from simulators.vm import machine as vm

MEMORY_MIB = 2048
PLAY_SECONDS = 3600
YEAR = datetime.timedelta(days=365)
# iommu=pt, as GPU servers have it: else Linux 6.1 stops when a virtual drive is pulled (its shadow doorbells, which no
# real drive has, are freed after the drive has left the IOMMU)
APPEND = "root=LABEL=root ro console=ttyS0,115200 mitigations=off quiet intel_iommu=on iommu=pt"
CONVERGE = ROOT / "tests" / "vm" / "roles_converge.yml"


class RolesLab:
    """The machine, its network and its operator. stop() ends what it started and keeps the logs."""

    def __init__(self, made: roles_image.RolesImage, accelerator: str) -> None:
        self.image = made
        self.logs = image.CACHE / "logs" / "roles"
        shutil.rmtree(self.logs, ignore_errors=True)
        self.logs.mkdir(parents=True)
        self.folder = Path(tempfile.mkdtemp(prefix="run-roles-", dir=image.CACHE))
        self.namespace = f"fl-vm-{os.getpid()}-roles"
        self.processes: list[subprocess.Popen[str]] = []
        self.settings: dict[str, Any] = {
            "tap": "tap0",
            "memory": MEMORY_MIB,
            "seed": 2,
            "iommu": True,
            "cpu": "Nehalem",  # the oldest whose P-states the kernel takes from an ACPI table
            "qemu": {
                "kernel": made.vmlinuz,
                "initrd": made.initrd,
                "append": APPEND,
                "acpitable": f"file={made.p_states}",
            },
        }
        self.accelerator = accelerator
        self.lab = {"vm": self.settings, "machines": [{"name": NAME, "index": 1, "service_tag": TAG}]}
        self.server = vm.Server.of(self.folder, self.lab, NAME)
        self.os_disk, *self.data_drives = self.server.drives()
        spare = self.server.hardware.drives[vm.DATA_DRIVES]
        self.spare = vm.Drive(spare.serial, spare.size, self.server.folder / f"disk-{spare.serial}.raw", is_os=False)
        self.boots: list[list[str]] = []  # the serials in the order of their slots, by boot
        self.reasons: list[str] = []  # why each boot ended
        self.plays = 0
        self._qemu: subprocess.Popen[bytes] | None = None
        self._power: threading.Thread | None = None
        self._stopping = False

    # -- up and down ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Network, servers, drives, inventory, and the power."""
        run("ip", "netns", "add", self.namespace)
        for line in (
            "ip link set lo up",
            "ip link add br0 type bridge",
            f"ip address add {roles_image.GATEWAY}/24 dev br0",
            "ip link set br0 up",
            "ip tuntap add tap0 mode tap",
            "ip link set tap0 master br0 up",
        ):
            run(*self.inside(*line.split()))
        archive = self.folder / "archive"
        shutil.copytree(self.image.archive, archive)
        release = roles_image.release_file((archive / "Packages").read_text(), time.time())
        (archive / "Release").write_text(release)
        port = str(roles_image.ARCHIVE_PORT)
        self._serve("archive", "http.server", "--bind", roles_image.GATEWAY, "--directory", str(archive), port)
        self._serve("ntp", "simulators.vm.ntp", roles_image.GATEWAY)
        self.server.folder.mkdir(parents=True)
        run("cp", "--sparse=always", str(self.image.disk), str(self.os_disk.path))
        with self.os_disk.path.open("r+b") as stream:
            stream.truncate(self.os_disk.size)
        self.server.make_drives()
        with self.spare.path.open("wb") as stream:
            stream.truncate(self.spare.size)
        self._site()
        self._power = threading.Thread(target=self._run_machine, daemon=True)
        self._power.start()

    def _serve(self, what: str, module: str, *words: str) -> None:
        command = self.inside(sys.executable, "-u", "-m", module, *words)
        with (self.logs / f"{what}.log").open("w") as log:
            process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self.processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline(), (self.logs / f"{what}.log").read_text()

    def _run_machine(self) -> None:
        """Start QEMU, and again after each reset that the machine asked for, with its drives in another order."""
        while not self._stopping:
            number = len(self.boots) + 1
            self.boots.append([drive.serial for drive in vm.order(self.server, number)])
            # the board's battery is empty: the clock is wrong at every boot
            wrong = datetime.datetime.now(datetime.UTC) + YEAR
            self.settings["qemu"]["rtc"] = f"base={wrong:%Y-%m-%dT%H:%M:%S}"
            for name in ("qmp.sock", "button.sock"):
                (self.server.folder / name).unlink(missing_ok=True)
            command = self.inside(*vm.command(self.server, number, "bios", [], self.accelerator))
            with (self.logs / "qemu.log").open("a") as log:
                print(
                    f"{time.strftime('%F %T')} boot {number}; slots: {' '.join(self.boots[-1])}", file=log, flush=True
                )
                self._qemu = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            reason = "lost"
            with contextlib.suppress(OSError):
                qmp = qemu.connect(self.server.folder / "qmp.sock", self._qemu)
                reason = str(qmp.event("SHUTDOWN").get("reason"))
                qmp.call("quit")
            self._qemu.wait()
            self.reasons.append(reason)
            if reason != "guest-reset":
                return

    def stop(self) -> None:
        """The machine first, then the servers, the network, the disks; the logs stay."""
        self._stopping = True
        for path in [self.folder / "ssh.sock", *self.folder.glob("cp/*")]:
            command = self.inside("ssh", "-o", f"ControlPath={path}", "-O", "exit", "host")
            subprocess.run(command, check=False, capture_output=True, timeout=STOP_SECONDS)
        while self._power and self._power.is_alive():
            if self._qemu:
                self._qemu.kill()
            self._power.join(0.2)
        end(reversed(self.processes))
        subprocess.run(["ip", "netns", "delete", self.namespace], check=False, stderr=subprocess.DEVNULL)
        for path in self.server.folder.glob("serial-*.log"):
            shutil.copy(path, self.logs)
        shutil.rmtree(self.folder, ignore_errors=True)

    def inside(self, *words: str) -> list[str]:
        """The command in the lab's network."""
        return ["ip", "netns", "exec", self.namespace, *words]

    # -- the operator ---------------------------------------------------------------------------------------------

    def _site(self) -> None:
        known = self.folder / "known_hosts"
        known.write_text(f"{NAME} {self.image.host_key}\n")
        options = {"UserKnownHostsFile": known, "HostKeyAlias": NAME, "ControlPersist": 600}
        host = {
            "ansible_host": roles_image.ADDRESS,
            "ansible_user": roles_image.USER,
            "ansible_ssh_private_key_file": str(self.image.key),
            "ansible_ssh_common_args": " ".join(f"-o {name}={value}" for name, value in options.items()),
        }
        (self.folder / "vm.yaml").write_text(yaml.safe_dump({"all": {"hosts": {NAME: host}}}))

    def _environment(self) -> dict[str, str]:
        return os.environ | {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_INVENTORY": str(self.folder / "vm.yaml"),
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.folder / "cp"),
            "ANSIBLE_TIMEOUT": "60",
            "ANSIBLE_FORCE_COLOR": "false",
        }

    def converge(self, **variables: Any) -> tuple[int, str, list[dict[str, Any]]]:
        """Run the roles (vm_roles: only those) as an operator; exit status, screen, and the findings of all roles."""
        self.plays += 1
        found = self.folder / f"findings-{self.plays}.json"
        site = {"vm_ntp_servers": [roles_image.GATEWAY], "vm_findings_file": str(found), **variables}
        command = self.inside("ansible-playbook", str(CONVERGE), "-e", json.dumps(site))
        screen = self.logs / f"run-{self.plays}.txt"
        with screen.open("w") as stream:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                timeout=PLAY_SECONDS,
                check=False,
            )
        text = screen.read_text()
        assert "Traceback" not in text, text
        return done.returncode, text, json.loads(found.read_text()) if found.exists() else []

    def check(self, name: str, expect: dict[str, Any]) -> list[dict[str, Any]]:
        """The findings of one check of health."""
        arguments = json.dumps({"checks": [name], "expect": expect})
        out = self.folder / "check"
        command = self.inside("ansible", "all", "--become", "-m", "host_check", "-a", arguments, "--tree", str(out))
        subprocess.run(command, cwd=ROOT, env=self._environment(), stdin=subprocess.DEVNULL, capture_output=True,
                       timeout=600, check=False)  # fmt: skip
        return list(json.loads((out / NAME).read_text())["findings"])

    # -- the host -------------------------------------------------------------------------------------------------

    def _ssh_words(self) -> list[str]:
        options = {
            "UserKnownHostsFile": self.folder / "known_hosts",
            "HostKeyAlias": NAME,
            "StrictHostKeyChecking": "yes",
            "BatchMode": "yes",
            "ConnectTimeout": 20,
            "ServerAliveInterval": 15,
            "ControlMaster": "auto",
            "ControlPath": self.folder / "ssh.sock",
            "ControlPersist": 600,
        }
        flags = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        return self.inside("ssh", "-i", str(self.image.key), *flags)

    def ssh(self, script: str, seconds: float = 300) -> str:
        """A shell script on the host, as root; its output. Fails with what it said when it fails."""
        command = [*self._ssh_words(), f"{roles_image.USER}@{roles_image.ADDRESS}", "sudo", "sh", "-e"]
        # a master that stays in the background would keep a pipe open
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
            done = subprocess.run(command, input=script, stdout=out, stderr=errors, text=True, timeout=seconds,
                                  check=False)  # fmt: skip
            out.seek(0)
            errors.seek(0)
            said, wrong = out.read(), errors.read()
        if done.returncode:
            raise ConnectionError(f"{script}: {wrong.strip() or said.strip() or done.returncode}")
        return said

    def wait(self, script: str, seconds: float, pause: float = 2) -> str:
        """Until the script succeeds; its output."""
        until = time.monotonic() + seconds
        while True:
            try:
                return self.ssh(script, 60)
            except (ConnectionError, subprocess.TimeoutExpired) as error:
                assert time.monotonic() < until, f"after {seconds} s: {error}"
                time.sleep(pause)

    def qmp(self, command: str, **arguments: Any) -> Any:
        """A command to QEMU."""
        monitor = qemu.Qmp(self.server.folder / "button.sock", patience=60)
        try:
            return monitor.call(command, **arguments)
        finally:
            monitor.close()
