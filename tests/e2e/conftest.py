"""A whole lab of its own beside any that runs: other addresses, other folders, taken down at the end."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
BLOCK = 37
RECAP = re.compile(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.MULTILINE)


@dataclass
class Run:
    """A playbook that ended: its exit status, its screen, and changed tasks by host."""

    status: int
    screen: str
    changed: dict[str, int] = field(default_factory=dict)


class Lab:
    def __init__(self, folder: Path, block: int = BLOCK, ledger: str = "") -> None:
        """ledger: its URL, else a file in the lab's folder."""
        self.folder, self.block = folder, block
        self.ledger = ledger or str(folder / "lab" / "ledger.sqlite")
        self.inventory = folder / "inventory"
        self.reports = folder / "reports"
        self.started: list[subprocess.Popen[str]] = []
        self._site()
        self.environment = {
            **os.environ,
            "PATH": f"{REPOSITORY / '.venv' / 'bin'}:{os.environ['PATH']}",
            "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
            "ANSIBLE_INVENTORY": str(self.inventory),
            "ANSIBLE_VAULT_PASSWORD_FILE": str(folder / "lab" / "vault_password"),
            "ANSIBLE_INVENTORY_CACHE_CONNECTION": str(folder / "cache"),
            "ANSIBLE_NOCOLOR": "1",
        }

    def _site(self) -> None:
        """The lab's own site files, at this lab's addresses and folders."""
        source = REPOSITORY / "inventory" / "lab"
        for path in source.rglob("*.yml"):
            if path.name in ("fleet.yml", "secrets.yml"):
                continue
            text = path.read_text()
            for old, new in (
                ("{{ inventory_dir }}/../../.lab", str(self.folder / "lab")),
                ("../../.lab/ledger.sqlite", self.ledger),
                ("../../.lab", str(self.folder / "lab")),
                ("../../simulators", str(REPOSITORY / "simulators")),
                ("127.31.", f"127.{self.block}."),
                ("10.31.", f"10.{self.block}."),
            ):
                text = text.replace(old, new)
            target = self.inventory / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        with (self.inventory / "group_vars" / "all" / "site.yml").open("a") as site:
            site.write(f"\nreports_dir: {self.reports}\nversions_file: {REPOSITORY}/inventory/versions.yml\n")

    def command(self, *words: str) -> str:
        lab = [str(REPOSITORY / "scripts" / "lab"), "--lab-dir", str(self.folder / "lab"), *words]
        done = subprocess.run(lab, capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 0, f"scripts/lab {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            ["ansible-playbook", *arguments],
            cwd=REPOSITORY,
            env={**self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def end_runs(self) -> None:
        """End what a test that failed left running."""
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate(timeout=30)

    def play(self, *arguments: str, **environment: str) -> Run:
        """Run a playbook to its end."""
        process = self.start(*arguments, **environment)
        screen, _ = process.communicate(timeout=900)
        changed = {name: int(count) for name, count, _, _ in RECAP.findall(screen)}
        return Run(process.returncode, screen, changed)

    def inventory_list(self) -> dict[str, Any]:
        done = subprocess.run(
            ["ansible-inventory", "--list"], cwd=REPOSITORY, env=self.environment, capture_output=True, text=True,
            timeout=120, check=True,
        )  # fmt: skip
        return json.loads(done.stdout)

    def report(self, name: str = "latest") -> dict[str, Any]:
        return json.loads((self.reports / f"{name}.json").read_text())

    def host(self, name: str) -> dict[str, Any]:
        return next(h for h in self.report()["hosts"] if h["name"] == name)

    def bmcs(self) -> dict[str, dict[str, Any]]:
        """What the simulator counted, by host."""
        return json.loads(self._get("0.1:8450", "/machines"))

    def bmc_writes(self) -> dict[str, int]:
        return {name: machine["counters"]["writes"] for name, machine in self.bmcs().items()}

    def maas_requests(self) -> Counter[str]:
        return Counter(json.loads(self._get("0.2:5450", "/stats"))["requests"])

    def maas_writes(self) -> int:
        return int(json.loads(self._get("0.2:5450", "/stats"))["writes"])

    def maas_machines(self) -> list[str]:
        state = json.loads((self.folder / "lab" / "maas" / "state.json").read_text())
        return list(state["machines"])

    def maas_failing(self, *, on: bool) -> None:
        """Let the MAAS simulator answer 503 to everything."""
        request = urllib.request.Request(
            f"http://127.{self.block}.0.2:5450/faults/failing",
            method="PUT" if on else "DELETE",
            data=b'{"status": 503, "count": 1000}' if on else None,
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=10):
            pass

    def _get(self, listener: str, path: str) -> str:
        with urllib.request.urlopen(f"http://127.{self.block}.{listener}{path}", timeout=10) as answer:
            return answer.read().decode()


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    folder = tmp_path_factory.mktemp("e2e")
    lab = Lab(folder)
    try:
        lab.command("up", "--block", str(lab.block), "--inventory-dir", str(lab.inventory))
        yield lab
    finally:
        lab.end_runs()
        lab.command("down")
        shutil.rmtree(folder, ignore_errors=True)


def wait_for(condition, seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.2)
