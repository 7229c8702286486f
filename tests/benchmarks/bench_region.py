"""A simulated MAAS region beside the simulated BMCs of bench_fleet.py, for benchmarks."""

from __future__ import annotations

import subprocess
from typing import Any

import requests
from bench_fleet import Fleet, start_simulator

KEY = "bench-consumer:bench-token:bench-secret"
API, ADMIN = "127.47.0.2:5443", "127.47.0.2:5450"


def settings(commission_seconds: float, deploy_seconds: float) -> dict[str, Any]:
    """The "maas" part of lab.json. Times as short as the bench can stand; real ones are minutes."""
    return {
        "listen": API,
        "admin": ADMIN,
        "api_key": KEY,
        "commission_seconds": commission_seconds,
        "deploy_seconds": deploy_seconds,
        "boot_seconds": 1,
        "spread": 0.5,  # else all of a wave would end together, and the last wave's size would be what is measured
        "node_timeout_seconds": 3600,  # so that the controller has to find out by itself who does not come
        "durable": False,
        "distro_series": ["bookworm"],
        "subnet": "10.31.0.0/21",
        "first_address": "10.31.0.11",
    }


class Region:
    """The process of the region of a running fleet, which was started with ``settings`` in its lab.json."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.url = f"https://{API}/MAAS"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self._process = start_simulator("maas", self.fleet.folder)

    def stop(self) -> None:
        if self._process:
            self._process.terminate()
            self._process.wait(60)
            self._process = None

    def counted(self) -> tuple[int, int]:
        """Reads and writes since this was last asked."""
        found = requests.get(f"http://{ADMIN}/stats", timeout=60).json()
        requests.post(f"http://{ADMIN}/stats/reset", timeout=60)
        return int(found["reads"]), int(found["writes"])
