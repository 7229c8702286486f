"""Smoke, health, captures and a host's own timer expect what the roles have set up (playbooks/vars/host_check.yml)."""

import re
from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from firstlight.health.settings import read_expect
from firstlight.plainvalue import plain

ROOT = Path(__file__).parents[2]
FILE = ROOT / "playbooks/vars/host_check.yml"
SERVER = {"gpus": {"count": 8}, "hcas": {"count": 8}, "nvme": {"count": 6}}


def expected(profile=SERVER, **settings):
    """What is expected of such a host; settings: of the site."""
    loader = DataLoader()
    variables = {**loader.load_from_file(str(FILE), trusted_as_template=True), "profile": profile, **settings}
    told = plain(Templar(loader=loader, variables=variables).template(variables["host_check_of_roles"]))
    return read_expect(told)


def test_a_server_as_the_roles_leave_it():
    assert expected(time_sync_servers=["ntp1"]) == {
        "ntp_servers": ["ntp1"],
        "exporters": {"node_exporter": 9100, "dcgm_exporter": 9400},
        "gpu_rdma": "dmabuf",
        "zfs_pool": {"name": "data", "drives": 6},
        "docker_gpu": "",
    }


@pytest.mark.parametrize(
    ("settings", "key", "value"),
    [
        ({"zfs_pool_name": "tank", "zfs_pool_drives": 5}, "zfs_pool", {"name": "tank", "drives": 5}),
        ({"configure_skip": ["zfs_pool"]}, "zfs_pool", {}),
        ({"profile": {}}, "zfs_pool", {}),
        ({"configure_skip": ["dcgm_exporter"]}, "exporters", {"node_exporter": 9100}),
        ({"profile": {}}, "exporters", {"node_exporter": 9100}),
        ({"dcgm_exporter_port": 1, "node_exporter_port": 2}, "exporters", {"node_exporter": 2, "dcgm_exporter": 1}),
        ({"node_exporter_listen_address": "10.0.0.7"}, "exporters", {"dcgm_exporter": 9400}),
        ({"dcgm_exporter_listen_address": "10.0.0.7"}, "exporters", {"node_exporter": 9100}),
        ({"gpu_rdma_mode": "both"}, "gpu_rdma", "both"),
        ({"profile": {**SERVER, "gpus": {"count": 8, "rdma": "peermem"}}}, "gpu_rdma", "peermem"),
        ({"configure_skip": ["gpu_rdma"]}, "gpu_rdma", ""),
        ({"profile": {"gpus": {"count": 8}}}, "gpu_rdma", ""),
        ({"docker_engine_gpu": "cdi"}, "docker_gpu", "cdi"),
        ({"docker_engine_gpu": "cdi", "configure_skip": ["docker_engine"]}, "docker_gpu", ""),
    ],
)
def test_settings_of_a_site(settings, key, value):
    assert expected(**settings)[key] == value


def test_defaults_are_those_of_the_roles():
    given = re.findall(r"\b([a-z_]+) \| default\('?([a-z0-9.]+)'?\)", FILE.read_text())
    roles = {path.name: path for path in (ROOT / "roles").iterdir()}
    seen = set()
    for name, default in given:
        role = next((role for role in roles if name.startswith(f"{role}_")), None)
        if role:
            defaults = yaml.safe_load((roles[role] / "defaults/main.yml").read_text())
            assert str(defaults[name]) == default, name
            seen.add(name)
    assert {"zfs_pool_name", "zfs_pool_drives", "dcgm_exporter_port", "node_exporter_port"} <= seen
    assert yaml.safe_load((ROOT / "roles/gpu_rdma/defaults/main.yml").read_text())["gpu_rdma_mode"] == (
        "{{ profile.gpus.rdma | default('dmabuf') }}"
    )


@pytest.mark.parametrize("name", ["smoke", "health", "capture", "configure"])
def test_playbooks_read_it(name):
    play = yaml.safe_load((ROOT / f"playbooks/{name}.yml").read_text())[0]
    assert play["vars_files"] == ["vars/host_check.yml"]
    calls = [
        task["host_check"] for one in play["tasks"] for task in [one, *one.get("block", [])] if "host_check" in task
    ]
    assert len(calls) == (0 if name == "configure" else 1)
    assert all("host_check_of_roles | combine(host_check_expect" in call["expect"] for call in calls)


def test_the_timer_of_a_host_reads_it():
    told = yaml.safe_load((ROOT / "roles/health_timer/vars/main.yml").read_text())["__health_timer_settings"]
    assert "combine(host_check_of_roles | default({}), host_check_expect" in told["expect"]
