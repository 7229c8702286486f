"""A running QEMU: started and watched by a process of its own, spoken to through QMP."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from simulators import lab_files
from simulators.bmc.power import process_of
from simulators.lab_files import Lab, LabError
from simulators.vm import machine as vm

REPOSITORY = Path(__file__).resolve().parents[2]
START_SECONDS = 20
STOP_SECONDS = 10


class Qmp:
    """QEMU's monitor. The answers to commands, and the events between them."""

    def __init__(self, path: Path, patience: float | None = None) -> None:
        """Connect; OSError when nobody listens, or nothing is said for so many seconds."""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(patience)
        try:
            self._socket.connect(os.path.relpath(path))  # the name of a socket has a short limit
            self._stream = self._socket.makefile("rw")
            self._read()
            self.call("qmp_capabilities")
        except BaseException:
            self._socket.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def call(self, command: str, **arguments: Any) -> Any:
        """Do one command; returns its answer. LabError when QEMU refuses it, OSError when QEMU is gone."""
        self._stream.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self._stream.flush()
        while True:
            answer = self._read()
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise LabError(f"QEMU: {command}: {answer['error'].get('desc')}")

    def event(self, name: str) -> dict[str, Any]:
        """Wait for an event of this name; returns its data. OSError when QEMU is gone."""
        while True:
            message = self._read()
            if message.get("event") == name:
                return dict(message.get("data", {}))

    def _read(self) -> dict[str, Any]:
        line = self._stream.readline()
        if not line:
            raise ConnectionResetError("QEMU is gone")
        return dict(json.loads(line))


def started_at(pid: int) -> str:
    """When a process started, in the kernel's own count; empty when there is none, or it is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def switch_on(lab_dir: Path, lab: Lab, name: str, firmware: str, sources: list[str]) -> str:
    """Start the machine; returns what was done. LabError when QEMU does not start."""
    server = vm.Server.of(lab_dir, lab, name)
    if process_of(server.folder):
        return "already running"
    server.make_drives()
    if firmware == "uefi" and not (server.folder / "vars.fd").exists():
        shutil.copyfile(vm.OVMF / "OVMF_VARS_4M.fd", server.folder / "vars.fd")
    words = [sys.executable, "-m", "simulators.vm", "--lab-dir", str(lab_dir), "watch", name, firmware, *sources]
    log = lab_dir / "log" / f"{name}.qemu.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    for name_of_socket in ("qmp.sock", "button.sock"):
        (server.folder / name_of_socket).unlink(missing_ok=True)
    with log.open("ab") as stream:
        watcher = subprocess.Popen(words, cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
                                   start_new_session=True)  # fmt: skip
    until = time.monotonic() + START_SECONDS
    while not (process_of(server.folder) and (server.folder / "qmp.sock").exists()):
        if watcher.poll() is not None or time.monotonic() > until:
            raise LabError(f"{name}: QEMU did not start: {' | '.join(log.read_text().splitlines()[-2:])}")
        time.sleep(0.05)
    return f"started, firmware {firmware}, boots {', '.join(sources)}"


def switch_off(lab_dir: Path, lab: Lab, name: str) -> str:
    """Take the power away; returns what was done."""
    folder = vm.Server.of(lab_dir, lab, name).folder
    pid = process_of(folder)
    if pid is None:
        return "not running"
    os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + STOP_SECONDS
    while process_of(folder) == pid:
        if time.monotonic() > until:
            raise LabError(f"{name}: QEMU, process {pid}, does not end")
        time.sleep(0.02)
    return "switched off"


def press(lab_dir: Path, lab: Lab, name: str) -> str:
    """Press the power button for a moment: the system on the machine shuts down when it wants to."""
    qmp = Qmp(vm.Server.of(lab_dir, lab, name).folder / "button.sock", patience=START_SECONDS)
    try:
        qmp.call("system_powerdown")
    finally:
        qmp.close()
    return "power button pressed"


def watch(lab_dir: Path, lab: Lab, name: str, firmware: str, sources: list[str]) -> None:
    """Be QEMU's parent until it ends. A reset that comes from the machine itself is told to its BMC, which boots it."""
    server = vm.Server.of(lab_dir, lab, name)
    boot = int(lab_files.read_json(server.folder / "state.json", {}).get("boots", 1))
    slots = [drive.serial for drive in vm.order(server, boot)]
    print(
        f"{time.strftime('%F %T')} boot {boot}, {firmware}, {', '.join(sources)}; slots: {' '.join(slots)}", flush=True
    )
    command = vm.command(server, boot, firmware, sources, server.settings.get("accelerator", "tcg"))
    qemu = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    lab_files.write_atomic(server.folder / "qemu.pid", f"{qemu.pid} {started_at(qemu.pid)}\n")
    reason = "lost"
    with contextlib.suppress(OSError):
        qmp = connect(server.folder / "qmp.sock", qemu)
        reason = str(qmp.event("SHUTDOWN").get("reason"))
        print(f"{time.strftime('%F %T')} boot {boot}: {reason}", flush=True)
        if reason == "guest-reset":
            _tell_reboot(lab, name)
        else:
            qmp.call("quit")
    qemu.wait()


def connect(path: Path, qemu: subprocess.Popen[bytes]) -> Qmp:
    """The monitor of a QEMU that has just been started; OSError when it ends, or does not listen in time."""
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            return Qmp(path)
        except OSError:
            if qemu.poll() is not None or time.monotonic() > until:
                raise
            time.sleep(0.05)


def _tell_reboot(lab: Lab, name: str) -> None:
    url = f"http://{lab['bmc']['admin']}/machines/{name}/reboot"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    opener.open(urllib.request.Request(url, method="POST"), timeout=10).close()


def accelerator(kernel: Path, initrd: Path, word: bytes = b"ephemeral system: probe", seconds: float = 15) -> str:
    """ "kvm" where a stock kernel really boots with it, else "tcg". Some machines have a /dev/kvm that cannot.

    kernel, initrd: of a system that says the word on the serial port; without another one, the ephemeral system.
    """
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    command = [
        "qemu-system-x86_64", "-nodefaults", "-display", "none", "-machine", "q35", "-accel", "kvm", "-cpu", "host",
        "-m", "512", "-no-reboot", "-kernel", str(kernel), "-initrd", str(initrd),
        "-append", "console=ttyS0,115200 task=probe", "-serial", "stdio",
    ]  # fmt: skip
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as qemu:
        out = qemu.stdout
        if out is None:
            return "tcg"
        os.set_blocking(out.fileno(), False)
        said, until = b"", time.monotonic() + seconds
        try:
            while word not in said and qemu.poll() is None and time.monotonic() < until:
                said += out.read() or b""
                time.sleep(0.1)
        finally:
            qemu.kill()
    return "kvm" if word in said else "tcg"
