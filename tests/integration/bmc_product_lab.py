"""A lab of simulated BMCs with a site in front of it, for tests of the product's Redfish side."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from ansible.errors import AnsibleError
from ansible.inventory.data import InventoryData
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import inventory_loader

from firstlight.bmc.discover import Target
from firstlight.sitefiles import PlannedHost
from simulators import lab_files

PROJECT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
USER, PASSWORD = "root", "lab-pa55word"
ADMIN = "127.41.0.1"


def free_port(address: str) -> int:
    """A port that nothing uses now."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


class BmcLab:
    """The simulator's process on a lab folder; machines n1, n2, ... in racks of three; vendors: of each machine."""

    def __init__(self, folder: Path, count: int = 3, vendors: Sequence[str] = (), **settings: Any) -> None:
        self.folder = folder
        self.count = count
        self.port = free_port("127.41.1.1")
        self.admin = f"{ADMIN}:{free_port(ADMIN)}"
        self.ca_file = str(folder / "ca.pem")
        machines = [
            {
                "name": f"n{n}",
                "rack": self.rack(n),
                "unit": n,
                "index": n,
                "service_tag": f"TST{n:04d}",
                "bmc_address": self.address(n),
                "faults": [],
                **({"vendor": vendors[n - 1]} if vendors else {}),
            }
            for n in range(1, count + 1)
        ]
        bmc = {"port": self.port, "admin": self.admin, "username": USER, "password": PASSWORD}
        settings = {"latency": 0, "boot_seconds": 0.1, "hook": [sys.executable, "-c", ""], **settings}
        lab_files.write_json(folder / "lab.json", {"bmc": bmc | settings, "machines": machines})
        with (folder / "bmc.log").open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "simulators.bmc", "--lab-dir", str(folder)],
                cwd=PROJECT,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert "ready" in line, (folder / "bmc.log").read_text()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)

    @staticmethod
    def rack(number: int) -> str:
        return f"r-{1 + (number - 1) // 3}"

    @staticmethod
    def address(number: int) -> str:
        return f"127.41.{1 + number // 250}.{1 + number % 250}"

    def targets(self, *numbers: int, password: str = PASSWORD) -> list[Target]:
        """Targets for these machines, for all when none is named."""
        chosen = numbers or range(1, self.count + 1)
        return [Target(f"n{n}", self.address(n), self.port, USER, password) for n in chosen]

    def planned(self, number: int) -> PlannedHost:
        return PlannedHost(f"n{number}", self.rack(number), number, self.address(number), "xe9680", self.port)

    def look(self, name: str) -> dict[str, Any]:
        """What the admin API says about a machine."""
        return dict(requests.get(f"http://{self.admin}/machines/{name}", timeout=5).json())

    def counters(self, name: str) -> dict[str, int]:
        return dict(self.look(name)["counters"])

    def fault(self, name: str, fault: str, on: bool = True, **parameters: float) -> None:
        url = f"http://{self.admin}/machines/{name}/faults/{fault}"
        answer = requests.put(url, json=parameters, timeout=5) if on else requests.delete(url, timeout=5)
        answer.raise_for_status()


class Site:
    """An inventory folder for a lab, and Ansible run on it as an operator does, with a cache of its own."""

    def __init__(self, lab: BmcLab, folder: Path) -> None:
        self.lab = lab
        self.folder = folder
        self.config = folder / "test.redfish_bmc.yml"
        self.secrets = folder / "bmc-secrets.yml"  # not in group_vars, whose content ansible-inventory shows
        self.secrets.write_text(yaml.safe_dump({"bmc_username": USER, "bmc_password": PASSWORD}))
        self.options: dict[str, Any] = {
            "plugin": "redfish_bmc",
            "profiles": str(PROJECT / "inventory" / "profiles"),
            "ca_file": lab.ca_file,
            "ledger": "ledger.sqlite",
            "secrets": self.secrets.name,
            "host_deadline": 5,
        }
        self.hosts = [
            {
                "name": f"n{n}",
                "rack": lab.rack(n),
                "unit": n,
                "bmc_address": lab.address(n),
                "bmc_port": lab.port,
                "profile": "xe9680",
            }
            for n in range(1, lab.count + 1)
        ]
        self.write()
        (folder / "ansible.cfg").write_text(
            "[defaults]\n"
            f"inventory_plugins = {PROJECT}/plugins/inventory\n"
            "[inventory]\n"
            "enable_plugins = redfish_bmc\n"
            "any_unparsed_is_failed = true\n"
            "cache = true\n"
            "cache_plugin = ansible.builtin.jsonfile\n"
            f"cache_connection = {folder}/cache\n"
            "cache_timeout = 86400\n"
        )

    def write(self, **options: Any) -> None:
        """Write the site's files, with these options beside the usual ones."""
        self.options |= options
        self.config.write_text(yaml.safe_dump(self.options))
        (self.folder / "fleet.yml").write_text(yaml.safe_dump({"site": "test", "hosts": self.hosts}))

    def run(self, program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        known = {k: v for k, v in os.environ.items() if not k.startswith(("ANSIBLE_", "FIRSTLIGHT_"))}
        return subprocess.run(
            [str(BIN / program), "-i", str(self.config), *arguments],
            cwd=self.folder,
            env=known | {"ANSIBLE_CONFIG": str(self.folder / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1", **environment},
            capture_output=True,
            text=True,
            timeout=120,
        )

    def inventory(self, *arguments: str, **environment: str) -> dict[str, Any]:
        """ansible-inventory --list, decoded; it must succeed."""
        done = self.run("ansible-inventory", "--list", *arguments, **environment)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout, object_hook=_value))

    def refusal(self, *arguments: str) -> str:
        """What ansible-inventory says when it must fail."""
        done = self.run("ansible-inventory", "--list", *arguments)
        assert done.returncode != 0, done.stdout
        assert "Traceback" not in done.stderr
        return done.stderr

    def parse_error(self) -> str:
        """The one line with which the plugin refuses its input; in this process, to save time."""
        self.write(cache=False)
        inventory_loader.add_directory(str(PROJECT / "plugins" / "inventory"))
        plugin = inventory_loader.get("redfish_bmc")
        assert plugin.verify_file(str(self.config))
        with pytest.raises(AnsibleError) as caught:
            plugin.parse(InventoryData(), DataLoader(), str(self.config), cache=True)
        return str(caught.value)


def _value(found: dict[str, Any]) -> Any:
    """What plugins set is not trusted to be a template, and ansible-inventory --list says so of each text."""
    return found["__ansible_unsafe"] if set(found) == {"__ansible_unsafe"} else found
