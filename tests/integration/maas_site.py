"""A site in front of a lab of simulated BMCs and a simulated region, and playbooks run on it as an operator does."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from maas_product_lab import KEY, PASSWORD, ROOT, USER, ProductLab

BIN = Path(sys.executable).parent
SECRETS = (PASSWORD, *KEY.split(":"))


class Site:
    """An inventory of its own over a lab; its hosts are the lab's machines."""

    def __init__(self, lab: ProductLab, folder: Path, **settings: Any) -> None:
        self.lab, self.folder, self.inventory = lab, folder, folder / "inventory"
        self.hosts = [
            {**{k: m[k] for k in ("name", "rack", "unit", "bmc_address")}, "bmc_port": 8443, "profile": "xe9680"}
            for m in lab.lab["machines"]
        ]
        key = folder / "id.pub"
        key.write_text("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDqk0000000000000000000000000000000000000000 test\n")
        self.settings = {
            "install_distro_series": "bookworm",
            "install_ssh_public_key_file": str(key),
            "install_poll_seconds": 0.3,
            "install_ssh_minutes": 0.02,
            "release_poll_seconds": 0.3,
            "known_hosts_file": str(folder / "known_hosts"),
            "versions_file": f"{ROOT}/inventory/versions.yml",
            "reports_dir": str(folder / "reports"),
            **settings,
        }
        self.write()

    def write(self, **settings: Any) -> None:
        """Write the site's files, with these settings beside the usual ones."""
        self.settings |= settings
        redfish = {
            "plugin": "redfish_bmc",
            "profiles": f"{ROOT}/inventory/profiles",
            "ca_file": self.lab.ca,
            "ledger": "../ledger.sqlite",
            "host_deadline": 60,
        }
        maas = {"plugin": "maas", "url": self.lab.url, "ca_file": self.lab.ca}
        (self.inventory / "group_vars" / "all").mkdir(parents=True, exist_ok=True)
        for name, content in {
            "test.redfish_bmc.yml": redfish,
            "test.maas.yml": maas,
            "fleet.yml": {"site": "test", "hosts": self.hosts},
            "policy.yml": {"fleet_min_ready": "100%"},
            "group_vars/all/site.yml": self.settings,
        }.items():
            (self.inventory / name).write_text(yaml.safe_dump(content))

    def command(self, name: str, *arguments: str) -> list[str]:
        return [str(BIN / "ansible-playbook"), f"{ROOT}/playbooks/{name}.yml", *arguments]

    def environment(self) -> dict[str, str]:
        known = {k: v for k, v in os.environ.items() if not k.startswith(("ANSIBLE_", "FIRSTLIGHT_"))}
        return known | {
            "ANSIBLE_CONFIG": f"{ROOT}/ansible.cfg",
            "ANSIBLE_INVENTORY": str(self.inventory),
            "ANSIBLE_INVENTORY_CACHE_CONNECTION": str(self.folder / "cache"),
            "ANSIBLE_NOCOLOR": "1",
            "FIRSTLIGHT_BMC_USERNAME": USER,
            "FIRSTLIGHT_BMC_PASSWORD": PASSWORD,
            "FIRSTLIGHT_MAAS_API_KEY": KEY,
        }

    def play(self, name: str, *arguments: str, **environment: str) -> tuple[int, str]:
        """Exit status and screen, with every run of white space as one space."""
        done = subprocess.run(
            self.command(name, *arguments),
            cwd=ROOT,
            env=self.environment() | environment,
            capture_output=True,
            text=True,
            timeout=240,
        )
        screen = done.stdout + done.stderr
        assert not [secret for secret in SECRETS if secret in screen]
        assert "Traceback" not in screen, screen
        return done.returncode, " ".join(screen.split())

    def good(self, name: str, *arguments: str) -> str:
        """The screen of a playbook that must succeed."""
        status, screen = self.play(name, *arguments)
        assert status == 0, screen
        return screen

    def result(self, name: str, action: str, *arguments: str) -> dict[str, Any]:
        """The result of a task of this action, from Ansible's own JSON callback."""
        done = subprocess.run(
            self.command(name, *arguments),
            cwd=ROOT,
            env=self.environment() | {"ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default", "ANSIBLE_VERBOSITY": "1"},
            capture_output=True,
            text=True,
            timeout=240,
        )
        start = done.stdout.index("=> {", done.stdout.index(action)) + 3
        return dict(json.JSONDecoder().raw_decode(done.stdout[start:])[0])

    def query(self, sql: str) -> list[Any]:
        with sqlite3.connect(self.folder / "ledger.sqlite") as ledger:
            return list(ledger.execute(sql))

    def states(self) -> dict[str, str]:
        return dict(self.query("select name, state from host"))

    def deeds(self) -> list[tuple[str, str]]:
        return self.query("select host.name, deed.what from deed join host on host.id = deed.host_id order by deed.id")

    def findings(self, name: str) -> dict[str, str]:
        """Symptoms that a host has now, with their evidence."""
        return dict(
            self.query(
                "select symptom, evidence from finding join host on host.id = finding.host_id "
                f"where host.name = '{name}' and cleared is null and status in ('fail', 'unknown', 'warn')"
            )
        )
