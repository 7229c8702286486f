"""What role gpu_driver works out by itself: who signs the repository, and whether an installed driver may change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from firstlight.plainvalue import plain
from firstlight.versions import load_versions

ROOT = Path(__file__).parents[3]
ROLE = ROOT / "roles/gpu_driver"
DEBIAN = {"distribution": "Debian", "distribution_major_version": "13", "distribution_version": "13.2"}
UBUNTU = {"distribution": "Ubuntu", "distribution_major_version": "24", "distribution_version": "24.04"}
HOST = {"virtualization": "none", "kernels": {"running": "6.8.0-1"}}
OLD = {"nvidia-open": "580.82.07-1", "nvidia-kernel-open-dkms": "580.82.07-1", "libnvidia-ml1": "580.82.07-1"}


def told(name: str, **variables: Any) -> Any:
    """A variable of the role's."""
    loader = DataLoader()
    known = {"inventory_hostname": "n1", "profile": {}, "ansible_check_mode": False, "component_versions": {}}
    for file in ("defaults/main.yml", "vars/main.yml"):
        known |= loader.load_from_file(str(ROLE / file), trusted_as_template=True)
    facts = {**DEBIAN, "architecture": "x86_64", "firstlight_host": HOST, **variables.pop("facts", {})}
    return plain(Templar(loader=loader, variables={**known, "ansible_facts": facts, **variables}).template(known[name]))


@pytest.mark.parametrize(
    ("facts", "path", "key", "fingerprint"),
    [
        (DEBIAN, "debian13/x86_64", "debian13/x86_64/8793F200.pub", "02182E60104FCDC26EAE1B8597A5D4CB8793F200"),
        (
            {**DEBIAN, "architecture": "aarch64"},
            "debian13/sbsa",
            "debian13/x86_64/8793F200.pub",
            "02182E60104FCDC26EAE1B8597A5D4CB8793F200",
        ),
        (
            {**DEBIAN, "distribution_major_version": "12"},
            "debian12/x86_64",
            "debian12/x86_64/3bf863cc.pub",
            "EB693B3035CD5710E231E123A4B469963BF863CC",
        ),
        (UBUNTU, "ubuntu2404/x86_64", "debian12/x86_64/3bf863cc.pub", "EB693B3035CD5710E231E123A4B469963BF863CC"),
    ],
)
def test_the_key_is_that_of_the_distribution(facts, path, key, fingerprint):
    assert told("__gpu_driver_repository_path", facts=facts) == path
    assert told("__gpu_driver_signer", facts=facts)["url"].endswith(f"/compute/cuda/repos/{key}")
    assert told("__gpu_driver_fingerprint", facts=facts) == fingerprint
    # another key is another file: what was fetched before is not taken for it
    assert told("__gpu_driver_key_file", facts=facts) == f"/etc/apt/keyrings/nvidia-cuda-{fingerprint[-8:].lower()}.asc"


def test_a_site_names_its_own_key():
    assert told("__gpu_driver_fingerprint", gpu_driver_repository_key_fingerprint="A" * 40) == "A" * 40


@pytest.mark.parametrize(
    ("distribution", "architecture", "branch"),
    [
        ("debian-13", "x86_64", "595"),
        ("debian-13", "aarch64", "595"),
        ("debian-12", "x86_64", "580"),
        ("debian-12", "aarch64", "595"),
        ("ubuntu-24.04", "x86_64", "580"),
    ],
)
def test_the_branch_is_one_that_the_repository_has(distribution, architecture, branch):
    roles = [path.name for path in (ROOT / "roles").iterdir()]
    versions = load_versions(ROOT / "inventory/versions.yml", [], roles)
    assert versions.settings("gpu_driver", distribution, architecture) == {"version": branch}


def offer(*versions: str) -> dict[str, str]:
    return {"stdout": "".join(f"nvidia-driver-pinning-{version} - a pin\n" for version in versions)}


def test_what_the_repository_has_is_told_by_branch_and_the_branch_s_versions():
    has = offer("590", "595", "590.48.01", "595.71.05", "610", "610.43.02")
    assert told("__gpu_driver_not_offered", __gpu_driver_offer=has, gpu_driver_version="580") is True
    assert told("__gpu_driver_not_offered", __gpu_driver_offer=has, gpu_driver_version="595") is False
    assert told("__gpu_driver_not_offered", gpu_driver_version="580") is False  # nobody has looked: the distribution's
    words = told("__gpu_driver_offered_words", __gpu_driver_offer=has, gpu_driver_version="595.1")
    assert words == "590, 595, 595.71.05, 610"
    none = {"__gpu_driver_offer": has, "gpu_driver_version": "580"}
    assert told("__gpu_driver_has_package", **none) is False  # whose daemons there would be none of
    assert told("__gpu_driver_has_package", **none, __gpu_driver_pinned={"installed": OLD}) is True
    assert told("__gpu_driver_offered_words", gpu_driver_version="595") == "none at all"


def pending(there: dict[str, str], wanted: str = "580.95.05", **variables: Any) -> bool:
    return told(
        "__gpu_driver_pending", __gpu_driver_pinned={"installed": there}, gpu_driver_version=wanted, **variables
    )


BUSY = {"__gpu_driver_processes": {"processes": [4711]}}


@pytest.mark.parametrize(
    ("use", "kept"),
    [
        ({"reboot_host_state": "ready"}, True),
        ({"ledger_state": "ready"}, True),
        ({"ledger_state": "configured", **BUSY}, True),
        ({"ledger_state": "configured", "__gpu_driver_processes_now": {"processes": [4711]}}, True),
        ({"ledger_state": "configured"}, False),
        ({"ledger_state": "configured", "__gpu_driver_processes": {"processes": []}}, False),
        ({"ledger_state": "configured", "__gpu_driver_processes": {"skipped": True}}, False),
        ({"ledger_state": "ready", "reboot_confirm": True}, False),
        ({"ledger_state": "ready", "reboot_confirm": "true", **BUSY}, False),
        ({}, False),
    ],
)
def test_an_installed_driver_stays_as_it_is_where_the_host_is_in_use(use, kept):
    assert pending(OLD, **use) is kept


@pytest.mark.parametrize(
    ("there", "wanted", "kept"),
    [
        ({}, "580", False),  # none there: nothing runs with it
        ({"libnvidia-container1": "1.17"}, "580", False),
        (OLD, "580", False),
        (OLD, "580.82.07", False),
        (OLD, "580.82.0", True),
        (OLD, "595", True),
        (OLD, "570", True),  # downwards too
        ({**OLD, "libnvidia-ml1": "580.95.05-1"}, "580.95.05", True),  # half of it
        ({"nvidia-headless-580-server-open": "580.82.07-0ubuntu1"}, "580", False),
        ({"libnvidia-compute-570-server": "570.86.15-0ubuntu1"}, "580", True),
        ({"libnvidia-compute-580-server": "580.82.07-0ubuntu1"}, "580", False),
    ],
)
def test_which_versions_are_others(there, wanted, kept):
    assert pending(there, wanted, ledger_state="ready") is kept


def test_debian_s_own_packages_have_one_version_and_are_not_compared():
    there = {"nvidia-kernel-dkms": "535.261.03-1"}
    assert pending(there, "580", ledger_state="ready", gpu_driver_package_source="distribution") is False


def plan(changes: dict[str, str], removals: dict[str, str] | None = None) -> dict[str, Any]:
    return {"__gpu_driver_plan": {"changes": changes, "removals": removals or {}, "installed": OLD, "specs": ["x"]}}


@pytest.mark.parametrize(
    ("planned", "kept"),
    [
        (plan({"nvidia-fabricmanager": "580.82.07-1"}), False),  # added, nothing that is there changes
        (plan({"libnvidia-ml1": "580.82.07-1 -> 580.95.05-1"}), True),
        (plan({"libc6": "2.41-1 -> 2.41-2"}), False),  # not the driver's
        (plan({"cuda-drivers": "580.82.07-1"}, {"nvidia-open": "580.82.07-1"}), True),  # the other kernel module
    ],
)
def test_what_apt_would_do_to_a_driver_of_the_wanted_version_counts_too(planned, kept):
    assert pending(OLD, "580", ledger_state="ready", **planned) is kept
    assert pending(OLD, "580", ledger_state="configured", **planned) is False


def test_the_finding_says_what_waits_and_how_to_go_on():
    found = told(
        "__gpu_driver_pending_finding",
        __gpu_driver_pinned={"installed": OLD},
        gpu_driver_version="580.95.05",
        ledger_state="ready",
        **BUSY,
    )
    assert (found["status"], found["symptom"], found["action"]) == ("warn", "driver.upgrade_pending", "reboot")
    assert found["evidence"] == (
        "installed is 580.82.07-1, wanted 580.95.05; left alone: its state is ready, a process runs on its GPUs; "
        "when it is free: ansible-playbook playbooks/configure.yml -l n1 -e reboot_confirm=true"
    )
