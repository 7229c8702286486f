"""What roles take by the distribution: packages, repositories and files, for each that docs/roles.md names.

Ubuntu runs nowhere in the tests: a name that is wrong there is seen here, or by nobody.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from firstlight.plainvalue import plain

ROOT = Path(__file__).parents[3]
BOOKWORM, TRIXIE, JAMMY, NOBLE = "debian-12", "debian-13", "ubuntu-22.04", "ubuntu-24.04"
# as the module setup tells them: distribution, its version's first part, its version, its name
FACTS = {
    BOOKWORM: ("Debian", "12", "12.9", "bookworm"),
    TRIXIE: ("Debian", "13", "13.1", "trixie"),
    JAMMY: ("Ubuntu", "22", "22.04", "jammy"),
    NOBLE: ("Ubuntu", "24", "24.04", "noble"),
}
PROFILE = {"name": "x", "vendor": "v", "model": "m", "gpus": {"count": 8, "nvswitch": True}, "hcas": {"count": 8}}
UPSTREAM = ["containerd.io", "docker-buildx-plugin", "docker-compose-plugin", "apparmor"]
DEBIAN_ZFS = ["zfs-dkms", "linux-headers-amd64", "zfsutils-linux", "zfs-zed"]
UBUNTU_ZFS = ["zfsutils-linux", "zfs-zed"]  # the kernel's packages have the module
DEBIAN_LABELS = ["Debian", "Debian-Security", "Debian Backports"]
# role: expression over its variables: what it is, in the order of FACTS
WANTED: dict[str, dict[str, list[Any]]] = {
    "apt_cache": {
        "__apt_cache_distribution_sources": [
            ["sources.list", "debian.sources"], ["sources.list", "debian.sources"],
            ["sources.list", "ubuntu.sources"], ["sources.list", "ubuntu.sources"],
        ],
    },
    "docker_engine": {
        "__docker_engine_packages.distribution.versioned": [
            ["docker.io"], ["docker.io", "docker-cli"], ["docker.io"], ["docker.io"],
        ],
        "__docker_engine_packages.distribution.others": [["apparmor"]] * 4,
        "__docker_engine_packages.docker.versioned": [["docker-ce", "docker-ce-cli"]] * 4,
        "__docker_engine_packages.docker.others": [UPSTREAM] * 4,
    },
    "gpu_driver": {
        "__gpu_driver_repository_path": [
            "debian12/x86_64", "debian13/x86_64", "ubuntu2204/x86_64", "ubuntu2404/x86_64",
        ],
        "__gpu_driver_distribution_labels": [DEBIAN_LABELS, DEBIAN_LABELS, ["Ubuntu"], ["Ubuntu"]],
    },
    "gpu_rdma": {
        "__gpu_rdma_path": [
            "debian12.9/x86_64", "debian13.1/x86_64", "ubuntu22.04/x86_64", "ubuntu24.04/x86_64",
        ],
    },
    "time_sync": {
        "__time_sync_pools[ansible_facts['distribution']]": [
            "2.debian.pool.ntp.org", "2.debian.pool.ntp.org", "ntp.ubuntu.com", "ntp.ubuntu.com",
        ],
    },
    "zfs_pool": {"__zfs_pool_packages": [DEBIAN_ZFS, DEBIAN_ZFS, UBUNTU_ZFS, UBUNTU_ZFS]},
}  # fmt: skip
SOURCES = {
    "docker.sources.j2": [
        f"https://download.docker.com/linux/{name} stable"
        for name in ("debian bookworm", "debian trixie", "ubuntu jammy", "ubuntu noble")
    ],
    "nvidia-container-toolkit.sources.j2": ["https://nvidia.github.io/libnvidia-container/stable/deb/amd64/ / "] * 4,
}  # fmt: skip


def rendered(role: str, distribution: str, text: str) -> Any:
    """What the text is on a host of that distribution, with the role's defaults."""
    loader = DataLoader()
    known: dict[str, Any] = {"inventory_hostname": "n1", "ansible_check_mode": False, "ansible_managed": "x"}
    for file in ("defaults/main.yml", "vars/main.yml"):
        known |= loader.load_from_file(str(ROOT / "roles" / role / file), trusted_as_template=True) or {}
    name, major, version, release = FACTS[distribution]
    known["profile"] = PROFILE
    known["ansible_facts"] = {
        "distribution": name,
        "distribution_major_version": major,
        "distribution_version": version,
        "distribution_release": release,
        "architecture": "x86_64",
        "apparmor": {"status": "enabled"},
        "firstlight_host": {
            "virtualization": "none",
            "kernels": {"running": "6.1.0-1", "installed": ["6.1.0-1"], "headers": ["6.1.0-1"]},
        },
    }
    return plain(Templar(loader=loader, variables=known).template(trust_as_template(text)))


CASES = [
    (role, expression, distribution, wanted[number])
    for role, expressions in WANTED.items()
    for expression, wanted in expressions.items()
    for number, distribution in enumerate(FACTS)
]


@pytest.mark.parametrize(("role", "expression", "distribution", "wanted"), CASES)
def test_packages_repositories_and_files(role: str, expression: str, distribution: str, wanted: Any) -> None:
    assert rendered(role, distribution, f"{{{{ {expression} }}}}") == wanted


@pytest.mark.parametrize("distribution", FACTS)
@pytest.mark.parametrize("template", SOURCES)
def test_sources_of_docker(template: str, distribution: str) -> None:
    text = rendered("docker_engine", distribution, (ROOT / "roles/docker_engine/templates" / template).read_text())
    fields = dict(line.partition(": ")[::2] for line in text.splitlines() if ": " in line)
    said = f"{fields['URIs']} {fields['Suites']} {fields.get('Components', '')}"
    assert said == SOURCES[template][list(FACTS).index(distribution)]


def test_no_role_takes_something_by_the_distribution_that_is_not_looked_at_here() -> None:
    by_distribution = {
        path.relative_to(ROOT / "roles").parts[0]
        for path in (ROOT / "roles").rglob("*")
        if path.is_file() and re.search(r"ansible_facts\W+distribution", path.read_text(errors="replace"))
    }
    assert by_distribution == set(WANTED)
