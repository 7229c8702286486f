"""Smoke, health, captures and a host's own timer expect what the roles have set up (playbooks/vars/host_check.yml)."""

import re
from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from firstlight.health.settings import of_system, read_expect
from firstlight.plainvalue import plain
from firstlight.profile import Profile

ROOT = Path(__file__).parents[2]
FILE = ROOT / "playbooks/vars/host_check.yml"
NAMED = {"name": "x", "vendor": "v", "model": "m"}
SERVER = {"gpus": {"count": 8}, "hcas": {"count": 8}, "nvme": {"count": 6}}


def told(name, profile, settings):
    """A variable of the file; settings: of the site."""
    loader = DataLoader()
    variables = {**loader.load_from_file(str(FILE), trusted_as_template=True), "profile": profile, **settings}
    return plain(Templar(loader=loader, variables=variables).template(variables[name]))


def expected(profile=SERVER, **settings):
    return read_expect(told("host_check_of_roles", profile, settings))


def judged_by(profile=SERVER, **settings):
    return Profile.from_dict(told("host_check_profile", {**NAMED, **profile}, settings))


def test_a_server_as_the_roles_leave_it():
    assert expected(time_sync_servers=["ntp1"]) == {
        "ntp_servers": ["ntp1"],
        "exporters": {"node_exporter": 9100, "dcgm_exporter": 9400},
        "gpu_rdma": "dmabuf",
        "zfs_pool": {"name": "data", "drives": 6},
        "docker_gpu": "auto",
        "acs_in_virtual_machines": False,
        "versions": {},
    }
    profile = judged_by()
    assert profile.gpus == {"count": 8, "kernel_module": "open", "nvswitch": False}
    tuning = {name: value for name, value in profile.tuning.items() if value}
    assert tuning == {"pcie_acs": "disabled", "cpu_governor": "performance", "cpu_energy_preference": "performance"}


ALL = ["gpu_driver", "pcie_acs", "cpu_frequency", "host_tuning"]


@pytest.mark.parametrize("profile", [SERVER, {}, {"gpus": {"count": 8}, "tuning": {"swap": "disabled"}}])
def test_where_roles_are_left_out_the_profile_alone_counts(profile):
    assert judged_by(profile, configure_skip=ALL) == Profile.from_dict({**NAMED, **profile})


@pytest.mark.parametrize(
    ("tuning", "settings", "key", "value"),
    [
        ({"cpu_governor": "powersave"}, {}, "cpu_governor", "powersave"),
        ({"cpu_governor": "powersave"}, {"cpu_frequency_governor": "schedutil"}, "cpu_governor", "schedutil"),
        ({"cpu_energy_preference": "power"}, {}, "cpu_energy_preference", "power"),
        ({"sysctl": {"vm.a": 1}}, {"host_tuning_sysctl": {"vm.b": 2}}, "sysctl", {"vm.a": 1, "vm.b": 2}),
        ({"swap": "disabled"}, {}, "swap", "disabled"),
        ({}, {"host_tuning_swap": "disabled"}, "swap", "disabled"),
        ({"hugepages": {"2048": 8}}, {}, "hugepages", {"2048": 8}),
        ({}, {"host_tuning_transparent_hugepages": "never"}, "transparent_hugepages", "never"),
    ],
)
def test_what_the_profile_says_and_what_roles_were_told(tuning, settings, key, value):
    assert judged_by({**SERVER, "tuning": tuning}, **settings).tuning[key] == value


def test_the_driver_that_the_site_asks_for():
    gpus = judged_by(gpu_driver_kernel_module="proprietary", gpu_driver_nvswitch=True).gpus
    assert gpus == {"count": 8, "kernel_module": "proprietary", "nvswitch": True}


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
        ({"docker_engine_gpu": "none"}, "docker_gpu", ""),
        ({"profile": {"nvme": {"count": 6}}}, "docker_gpu", ""),
        ({"docker_engine_gpu": "cdi", "configure_skip": ["docker_engine"]}, "docker_gpu", ""),
    ],
)
def test_settings_of_a_site(settings, key, value):
    assert expected(**settings)[key] == value


VERSIONS = """
versions:
  gpu_driver:
    any: {any: {version: "580"}}
    ubuntu-24.04: {x86_64: {version: 580.126.20}}
  firmware: {}
overrides:
  x: {firmware: {any: {any: {gpu_vbios: 96.00.74.00.01, hca: 28.43.2026}}}}
"""
FIRMWARE = {"gpu_vbios": "96.00.74.00.01", "hca_firmware": "28.43.2026"}
UBUNTU = {"distribution": "ubuntu", "version": "24.04", "architecture": "x86_64"}


@pytest.mark.parametrize(
    ("settings", "system", "want"),
    [
        ({}, {}, {"gpu_driver": "580.126.20", **FIRMWARE}),
        ({}, {"architecture": "aarch64"}, FIRMWARE),
        ({}, {"distribution": "debian", "version": "12"}, FIRMWARE),
        ({"configure_skip": ["gpu_driver"]}, {}, FIRMWARE),
        ({"gpu_driver_version": "570.1.2"}, {}, {"gpu_driver": "570.1.2", **FIRMWARE}),
        ({"gpu_driver_version": "570"}, {}, FIRMWARE),
        ({"gpu_driver_version": "570.1.2", "configure_skip": ["gpu_driver"]}, {}, FIRMWARE),
        ({"profile": {**SERVER, "name": "y"}}, {}, {"gpu_driver": "580.126.20"}),
    ],
)
def test_exact_versions_are_those_of_versions_yml_for_what_the_host_runs(tmp_path, settings, system, want):
    (tmp_path / "versions.yml").write_text(VERSIONS)
    (tmp_path / "site").mkdir()
    for where in ({"versions_file": str(tmp_path / "versions.yml")}, {"inventory_dir": str(tmp_path / "site")}):
        told_to_host = expected(**{"profile": {**SERVER, "name": "x"}, **settings, **where})
        picked = of_system(told_to_host, {**UBUNTU, **system})
        assert {name: picked[name] for name in ("gpu_driver", *FIRMWARE) if name in picked} == want
        assert "versions" not in picked
        assert of_system({**told_to_host, "gpu_driver": ""}, UBUNTU)["gpu_driver"] == ""  # the site says: any


def given_defaults():
    """By each name that has a default in the file the default, as it is written there."""
    text = " ".join(FILE.read_text().split())
    for found in re.finditer(r"\b([a-z_]+) \| default\(", text):
        end = depth = 0
        while depth >= 0:
            depth += {"(": 1, ")": -1}.get(text[found.end() + end], 0)
            end += 1
        yield found[1], text[found.end() : found.end() + end - 1]


def test_defaults_are_those_of_the_roles():
    roles = {path.name: path for path in (ROOT / "roles").iterdir()}
    seen = set()
    for name, default in given_defaults():
        role = next((role for role in roles if name.startswith(f"{role}_")), None)
        if role:
            of_role = yaml.safe_load((roles[role] / "defaults/main.yml").read_text())[name]
            expression = re.fullmatch(r"{{ (.*) }}", str(of_role))
            assert (expression[1] if expression else of_role) == (default if expression else yaml.safe_load(default)), (
                name
            )
            seen.add(role)
    assert seen >= {"zfs_pool", "dcgm_exporter", "gpu_driver", "gpu_rdma", "cpu_frequency", "host_tuning", "pcie_acs"}


@pytest.mark.parametrize("name", ["smoke", "health", "capture", "configure"])
def test_playbooks_read_it(name):
    play = yaml.safe_load((ROOT / f"playbooks/{name}.yml").read_text())[0]
    read = [task for task in play["tasks"] if task.get("ansible.builtin.include_vars") == "vars/host_check.yml"]
    assert [task["run_once"] for task in read] == [True]
    calls = [
        task["host_check"] for one in play["tasks"] for task in [one, *one.get("block", [])] if "host_check" in task
    ]
    assert len(calls) == (0 if name == "configure" else 1)
    assert all("host_check_of_roles | combine(host_check_expect" in call["expect"] for call in calls)
    assert [call["profile"] for call in calls] == ["{{ host_check_profile }}"] * len(calls)


def test_the_timer_of_a_host_reads_it():
    variables = yaml.safe_load((ROOT / "roles/health_timer/vars/main.yml").read_text())
    assert (
        "combine(host_check_of_roles | default({}), host_check_expect" in variables["__health_timer_settings"]["expect"]
    )
    assert "else host_check_profile | default(profile | default({}))" in variables["__health_timer_used_profile"]
