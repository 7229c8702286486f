"""A fleet of simulated BMCs for a benchmark, and the processes that are measured against it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from firstlight.bmc.pool import Target

PROJECT = Path(__file__).resolve().parents[2]
sys.path.append(str(PROJECT))  # the simulators are no installed package

from simulators import lab_files  # noqa: E402

USER, PASSWORD = "root", "bench-pa55word"
ADMIN = "127.47.0.1"
# Of every ten machines the last is broken, in one of these ways. A black hole is no fault of the simulator: the kernel
# drops what is sent to it.
BROKEN: tuple[tuple[str, dict[str, float]], ...] = (
    ("black_hole", {}),
    ("unreachable", {}),
    ("wrong_password", {}),
    ("hangs", {}),
    ("slow", {"seconds": 30}),
)
EXPECTED = {
    "black_hole": "unreachable",
    "unreachable": "unreachable",
    "wrong_password": "auth_failed",
    "hangs": "timed_out",
    "slow": "timed_out",
}


def address(number: int) -> str:
    """The loopback address of BMC 1, 2, ..."""
    return f"127.47.{1 + number // 250}.{1 + number % 250}"


def fault_of(number: int) -> str:
    """How BMC 1, 2, ... is broken in a fleet with 10 % broken; "" when it is not."""
    return BROKEN[(number // 10) % len(BROKEN)][0] if number % 10 == 0 else ""


def start_simulator(name: str, folder: Path) -> subprocess.Popen[str]:
    """A simulator (bmc, maas) of the lab in this folder, once it says that it is ready; its log is NAME.log there."""
    log_file = folder / f"{name}.log"
    with log_file.open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", f"simulators.{name}", "--lab-dir", str(folder)],
            cwd=PROJECT,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdout is not None
    if "ready" not in process.stdout.readline():
        process.kill()
        raise SystemExit(f"the simulator does not start:\n{log_file.read_text()}")
    return process


class BlackHole:
    """An address that answers no TCP connection: its queue of connections is full, so the kernel drops the rest."""

    def __init__(self, host: str, port: int) -> None:
        self._sockets = [socket.socket()]
        self._sockets[0].bind((host, port))
        self._sockets[0].listen(0)
        for _ in range(3):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex((host, port))
            self._sockets.append(filler)

    def close(self) -> None:
        for one in self._sockets:
            one.close()


class Fleet:
    """The simulator's process, in a folder of its own."""

    def __init__(self, folder: Path, count: int, latency: float, maas: dict[str, Any] | None = None) -> None:
        """maas: the settings of a region that stands beside them, see bench_region.py."""
        self.folder, self.count, self.latency, self.maas = folder, count, latency, maas
        self.ca_file = str(folder / "ca.pem")
        with socket.socket() as probe:
            probe.bind((ADMIN, 0))
            self.admin = f"{ADMIN}:{probe.getsockname()[1]}"
        self.port = 8443
        self._holes: list[BlackHole] = []
        self._process: subprocess.Popen[str] | None = None

    def start(self, broken: Callable[[int], str] | None = None) -> None:
        """Serve count BMCs; broken: the fault of machine 1, 2, ..., "" for none (``fault_of``: one in ten)."""
        settings = dict(BROKEN)
        machines: list[dict[str, Any]] = []
        for n in range(1, self.count + 1):
            fault = broken(n) if broken else ""
            if fault == "black_hole":
                self._holes.append(BlackHole(address(n), self.port))
                continue
            machines.append(
                {
                    "name": f"n{n}",
                    "rack": f"r{1 + n // 8}",
                    "unit": 1 + n % 8,
                    "index": n,
                    "service_tag": f"BEN{n:04d}",
                    "bmc_address": address(n),
                    "faults": [{"name": fault, **settings.get(fault, {})}] if fault else [],
                }
            )
        bmc = {"port": self.port, "admin": self.admin, "username": USER, "password": PASSWORD}
        bmc |= {"latency": self.latency, "boot_seconds": 1, "hook": ["true"]}
        region = {"maas": self.maas} if self.maas else {}
        lab_files.write_json(self.folder / "lab.json", {"bmc": bmc, "machines": machines, **region})
        for state in self.folder.glob("machines/*/bmc.json"):
            state.unlink()  # what an earlier start of this fleet left: its faults
        self._process = start_simulator("bmc", self.folder)

    def stop(self) -> None:
        for hole in self._holes:
            hole.close()
        self._holes.clear()
        if self._process:
            self._process.terminate()
            self._process.wait(60)
            self._process = None

    @property
    def cpu_seconds(self) -> float:
        """CPU that the simulator has used."""
        assert self._process is not None
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def targets(self, numbers: Sequence[int] = ()) -> list[Target]:
        chosen = numbers or range(1, self.count + 1)
        return [Target(f"n{n}", address(n), self.port, USER, PASSWORD) for n in chosen]

    def counters(self) -> dict[str, dict[str, int]]:
        """The simulator's counters, by machine."""
        found = requests.get(f"http://{self.admin}/machines", timeout=60).json()
        return {name: machine["counters"] for name, machine in found.items()}

    def requests_of(self, name: str) -> list[dict[str, Any]]:
        """The requests that one machine has seen, oldest first."""
        return list(requests.get(f"http://{self.admin}/machines/{name}/requests", timeout=60).json())


@dataclass(frozen=True)
class Measured:
    """What one process took: seconds on the clock, CPU seconds, MB at its peak; and what it printed."""

    wall: float
    cpu: float
    memory: float
    result: dict[str, Any]


def measure(script: str, fleet: Fleet, **options: Any) -> Measured:
    """Run one script of this folder in a process of its own; it prints {"wall", "cpu", "memory", ...} as JSON.

    wall and cpu are those of the work, without the start of Python and the imports.
    """
    order = {
        "count": fleet.count,
        "port": fleet.port,
        "ca_file": fleet.ca_file,
        **options,
    }
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / script)],
        input=json.dumps(order),
        capture_output=True,
        text=True,
        cwd=PROJECT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), str(PROJECT)])},
    )
    if done.returncode != 0:
        raise SystemExit(f"{script} fails:\n{done.stderr[-3000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    return Measured(found.pop("wall"), found.pop("cpu"), found.pop("memory"), found)


class Stopwatch:
    """Wall clock and CPU of this process from now on."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.monotonic(), time.process_time()

    def read(self) -> dict[str, float]:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return {
            "wall": time.monotonic() - self._wall,
            "cpu": time.process_time() - self._cpu,
            "memory": peak,
        }
