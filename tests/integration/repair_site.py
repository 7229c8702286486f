"""A site whose hosts are repaired: playbooks/reprovision.yml as an operator runs it, and what it did to MAAS."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import requests
import yaml
from maas_product_lab import ROOT, ProductLab
from maas_site import Site

from firstlight.findings import Finding
from firstlight.ledger.store import Ledger
from firstlight.maas.install import install
from simulators import lab_files
from simulators.bmc.hardware import Hardware


class RepairSite(Site):
    """Every run asks the BMCs again."""

    def write(self, **settings: Any) -> None:
        super().write(**settings)
        config = self.inventory / "test.redfish_bmc.yml"
        config.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | {"fresh_seconds": 0}))

    def ledger(self) -> Ledger:
        return Ledger(f"sqlite:///{self.folder / 'ledger.sqlite'}")

    def parts(self, name: str = "r1-n01") -> list[tuple[str, str, str]]:
        """Kind, serial before and after of what was replaced."""
        sql = "select kind, removed, installed from part join host on host.id = part.host_id"
        return self.query(f"{sql} where host.name = '{name}' order by kind, part.id")

    def repair(self, *arguments: str, name: str = "r1-n01") -> tuple[int, str]:
        return self.play("reprovision", "-e", f"host={name}", *arguments)

    def asked(self, *what: str) -> dict[str, int]:
        """How often MAAS was asked for something, by default for what destroys."""
        asked = self.lab.stats()["requests"]
        return {one: asked.get(f"POST {one}", 0) for one in what or ("release", "deploy")}

    def deeds_of(self, name: str) -> list[str]:
        return [what for host, what in self.deeds() if host == name]

    def make_ready(self, names: Iterable[str]) -> None:
        """Installed by the region; what the other stages would find is written into the ledger."""
        ids = {name: machine["system_id"] for name, machine in self.lab.by_name().items() if name in names}
        with self.lab.client() as client:
            done = install(client, self.lab.wanted(ids), self.lab.options())
        assert {result.status for result in done.values()} == {"deployed"}
        for name in ids:
            for stage in ("install", "configure", "smoke"):
                self.ledger().end_stage(stage, name, [Finding(stage, "ok", stage)])

    def start_repair(self, name: str, tag: str, until: Callable[[], bool]) -> subprocess.Popen[bytes]:
        """A repair that goes on, in a process group of its own, and has come so far."""
        command = self.command("reprovision", "-e", f"host={name}", "-e", f"confirm={tag}")
        process = subprocess.Popen(
            command, cwd=ROOT, env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        end = time.monotonic() + 240
        while not until():
            assert time.monotonic() < end and process.poll() is None
            time.sleep(0.05)
        return process


def end(process: subprocess.Popen[bytes], number: int = signal.SIGKILL) -> None:
    """A signal to a started repair and everything that it started, unless it has ended."""
    if process.poll() is not None:
        return
    os.killpg(process.pid, number)
    if number == signal.SIGKILL:
        process.wait(20)


def replace(lab: ProductLab, name: str, part: str) -> None:
    answer = requests.post(f"{lab.bmc_admin}/machines/{name}/parts/{part}/replace", timeout=10)
    assert answer.ok, answer.text


def state_of(lab: ProductLab, name: str) -> dict[str, Any]:
    return dict(lab_files.read_json(Path(lab.folder) / "machines" / name / "state.json"))


def built_in(lab: ProductLab, name: str) -> Hardware:
    """What is in a machine now, with the parts that were replaced."""
    first = lab.hardware(name)
    return Hardware(first.index, first.service_tag, state_of(lab, name)["replaced"])
