"""playbooks/prometheus.yml writes targets that Prometheus understands, and only when they changed."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from firstlight.ledger.store import Ledger
from firstlight.sitefiles import PlannedHost

ROOT = Path(__file__).parents[2]


def planned(name: str, number: int) -> PlannedHost:
    return PlannedHost(
        name=name, rack="r1", unit=number, bmc_address=f"127.0.0.{number}", bmc_port=443, profile="xe9680"
    )


def write_inventory(folder: Path, groups: dict[str, dict[str, Any]]) -> None:
    (folder / "site.yaml").write_text(yaml.safe_dump(groups))


@pytest.fixture
def site(tmp_path):
    url = f"sqlite:///{tmp_path}/ledger.sqlite"
    ledger = Ledger(url)
    ledger.plan("lab", [planned("a", 1), planned("b", 2), planned("c", 3)])
    ledger.set_state("a", "quarantined", "test")
    hosts = {
        name: {"rack": "r1", "unit": 4, "profile": {"name": "xe9680", "gpus": {"count": gpus}}, **address}
        for name, gpus, address in (
            ("a", 8, {"ansible_host": "10.9.0.1"}),
            ("b", 0, {"ansible_host": "10.9.0.2"}),
            ("c", 8, {}),  # not installed yet
        )
    }
    variables = {"site": "lab", "ledger_url": url, "prometheus_targets_folder": str(tmp_path / "targets")}
    write_inventory(tmp_path, {"fleet": {"hosts": hosts, "vars": variables}})
    return tmp_path


def play(site: Path, *arguments: str) -> str:
    environment = {
        **os.environ,
        "ANSIBLE_INVENTORY": str(site / "site.yaml"),
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
    }
    command = [str(ROOT / ".venv/bin/ansible-playbook"), "playbooks/prometheus.yml", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300)
    return done.stdout + done.stderr


def test_targets_are_written_once(site):
    targets = site / "targets"
    assert "changed=1" in play(site, "--check", "--diff")
    assert not targets.exists()

    assert "changed=1" in play(site)
    node = json.loads((targets / "node.json").read_text())
    assert [group["targets"] for group in node] == [["10.9.0.1:9100"], ["10.9.0.2:9100"]]
    assert [group["labels"]["ledger_state"] for group in node] == ["quarantined", "planned"]
    assert [group["labels"]["host"] for group in json.loads((targets / "dcgm.json").read_text())] == ["a"]
    assert sorted(path.name for path in targets.iterdir()) == ["dcgm.json", "head_node.json", "node.json"]
    assert json.loads((targets / "head_node.json").read_text()) == []  # this site has none

    assert "changed=0" in play(site)


def test_the_head_node_is_in_a_file_of_its_own_whatever_the_limit(site):
    groups = yaml.safe_load((site / "site.yaml").read_text())
    heads = {"head1": {"node_exporter_port": 9111}, "head2": {"ansible_host": "10.9.1.2"}}
    write_inventory(site, {**groups, "head_node": {"hosts": heads}})

    assert "changed=1" in play(site, "-l", "a")
    assert json.loads((site / "targets/head_node.json").read_text()) == [
        {"labels": {"host": "head1"}, "targets": ["head1:9111"]},
        {"labels": {"host": "head2"}, "targets": ["10.9.1.2:9100"]},
    ]
    assert [group["labels"]["host"] for group in json.loads((site / "targets/node.json").read_text())] == ["a"]

    write_inventory(site, groups)
    assert "changed=1" in play(site, "-l", "a")
    assert json.loads((site / "targets/head_node.json").read_text()) == []


def test_a_folder_that_cannot_be_written_is_told_in_one_line(site):
    (site / "targets").write_text("a file")
    screen = play(site)
    assert "cannot be read" in screen or "cannot be written" in screen
    assert "Traceback" not in screen
