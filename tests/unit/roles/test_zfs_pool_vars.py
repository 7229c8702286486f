"""What role zfs_pool works out by itself: which kernels need headers, and what it says where there can be no module."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from firstlight.plainvalue import plain
from firstlight.rolefindings import read

ROLE = Path(__file__).parents[3] / "roles/zfs_pool"
OLD, NEW = "6.1.0-40-amd64", "6.1.0-57-amd64"
HEADERLESS = "{{ __zfs_pool_headerless | map('regex_escape') | join('|') }}"
REFUSED = {"action": "refuse", "findings": []}


def told(name: str, kernels: dict[str, Any] | None = None, **variables: Any) -> Any:
    """A variable of the role's."""
    loader = DataLoader()
    known = {"inventory_hostname": "n1", "ansible_check_mode": False, "__zfs_pool_proof": {"findings": []}}
    for file in ("defaults/main.yml", "vars/main.yml"):
        known |= loader.load_from_file(str(ROLE / file), trusted_as_template=True)
    kernels = {"running": OLD, "installed": [OLD, NEW], "headers": []} | (kernels or {})
    host = {"virtualization": variables.pop("virtualization", "none"), "kernels": kernels}
    facts = {"distribution": variables.pop("distribution", "Debian"), "architecture": "x86_64", "firstlight_host": host}
    return plain(Templar(loader=loader, variables={**known, "ansible_facts": facts, **variables}).template(known[name]))


def finding(symptom: str, evidence: str = "so says zpool") -> dict[str, str]:
    return {"check": "zfs_pool", "status": "fail", "symptom": symptom, "locator": "zpool", "evidence": evidence,
            "action": "escalate"}  # fmt: skip


def search(*kernels: str) -> dict[str, Any]:
    """As apt-cache search answers."""
    lines = [f"linux-headers-{one} - Header files for Linux {one}" for one in kernels]
    return {"stdout": "\n".join(lines), "stdout_lines": lines}


@pytest.mark.parametrize(
    ("kernels", "virtualization", "wanted"),
    [
        ({}, "none", [OLD, NEW]),
        ({"headers": [NEW]}, "none", [OLD]),  # held back: linux-headers-amd64 has other ones
        ({"headers": [OLD, NEW]}, "kvm", []),
        ({"installed": [OLD]}, "none", [OLD]),
        ({"installed": None, "headers": None}, "none", [OLD]),
        ({"running": "6.8.0-host"}, "container", [NEW]),
        ({"installed": []}, "container", []),
    ],
)
def test_the_kernels_that_count_get_headers(kernels, virtualization, wanted):
    assert sorted(told("__zfs_pool_headerless", kernels, virtualization=virtualization)) == wanted


def test_headers_are_looked_for_by_the_whole_name():
    tasks = yaml.safe_load((ROLE / "tasks/install.yml").read_text())
    (options,) = (t["ansible.builtin.command"] for t in tasks if t.get("register") == "__zfs_pool_headers")
    kernel = "6.12.118+deb13-amd64"
    pattern = options["argv"][-1]  # as one word: it comes to apt-cache as it is here
    pattern = pattern.replace(HEADERLESS, "|".join(map(re.escape, [kernel, OLD])))
    assert "{" not in pattern
    assert [bool(re.search(pattern, f"linux-headers-{name}")) for name in (kernel, OLD, f"{OLD}-rt")] == [1, 1, 0]


def test_nothing_is_built_where_the_module_comes_from_elsewhere():
    assert told("__zfs_pool_packages")[:2] == ["zfs-dkms", "linux-headers-amd64"]
    for elsewhere in ({"distribution": "Ubuntu"}, {"zfs_pool_build_module": False}):
        assert told("__zfs_pool_packages", **elsewhere) == ["zfsutils-linux", "zfs-zed"]
        assert not told("__zfs_pool_builds", **elsewhere)


def said(made: list[dict[str, str]], **variables: Any) -> list[tuple[str, str, str]]:
    found = told("__zfs_pool_findings", __zfs_pool_made={**REFUSED, "findings": made}, **variables)
    return [(f.symptom, f.locator, f.evidence) for f in read("zfs_pool", found)]


def test_a_source_that_cannot_be_had_is_said_with_the_component():
    none = {"rc": 100, "stdout": "", "stderr": "E: No packages found"}
    components = {"stdout_lines": ["non-free-firmware", "main", "main"]}
    assert told("__zfs_pool_has_package", __zfs_pool_source={"rc": 0, "stdout": "Package: zfs-dkms"})
    assert told("__zfs_pool_has_package", __zfs_pool_source={"skipped": True})
    assert not told("__zfs_pool_has_package", __zfs_pool_source=none)
    ((symptom, locator, evidence),) = said(
        [finding("zfs.not_installed")], __zfs_pool_source=none, __zfs_pool_components=components
    )
    assert (symptom, locator) == ("zfs.not_installed", "zfs-dkms")
    assert "in the component contrib, the sources of this host have main, non-free-firmware" in evidence
    # where the pool is there all the same, it is not spoken of
    assert said([finding("zfs.drive_missing")], __zfs_pool_source=none)[0][0] == "zfs.drive_missing"


FAILED = {"rc": 1, "stderr": f"modprobe: FATAL: Module zfs not found in directory /lib/modules/{OLD}\n"}


@pytest.mark.parametrize(
    ("kernels", "variables", "words"),
    [
        (
            {},
            {"__zfs_pool_headers": search(NEW)},
            f"no archive has linux-headers-{OLD}, so it was not built: boot {NEW}",
        ),
        ({"headers": [NEW]}, {"__zfs_pool_headers": search()}, f"so it was not built: boot {NEW}"),
        ({}, {"__zfs_pool_headers": search()}, "bring that package, or install and boot a newer kernel"),
        ({"installed": [OLD]}, {"__zfs_pool_headers": search()}, "bring that package"),
        ({}, {"__zfs_pool_headers": search(OLD, NEW)}, "dkms status and /var/lib/dkms/zfs say how it was built"),
        ({"headers": [OLD, NEW]}, {"__zfs_pool_headers": {"skipped": True}}, "dkms status"),
        ({}, {}, "dkms status"),  # only a part of the role ran: nobody looked
        ({}, {"zfs_pool_build_module": False}, "the module comes from elsewhere"),
    ],
)
def test_why_there_is_no_module_and_what_to_do(kernels, variables, words):
    found = said([finding("zfs.no_module")], kernels=kernels, __zfs_pool_modprobe=FAILED, **variables)
    ((symptom, locator, evidence),) = found
    assert (symptom, locator) == ("zfs.no_module", f"kernel {OLD}")
    assert evidence.startswith(f"modprobe: FATAL: Module zfs not found in directory /lib/modules/{OLD}; ")
    assert words in evidence


def test_without_a_failure_of_its_own_the_role_adds_nothing():
    rows = [finding("zfs.no_module")]
    for modprobe in ({"rc": 0}, {"skipped": True}):
        assert said(rows, __zfs_pool_modprobe=modprobe) == [("zfs.no_module", "zpool", "so says zpool")]
    no_program = {"rc": 2, "msg": "[Errno 2] No such file or directory: b'modprobe'"}
    assert "No such file or directory" in said(rows, __zfs_pool_modprobe=no_program)[0][2]


def test_findings_of_a_pool_that_was_made():
    warned, missing = finding("zfs.drive_unused"), finding("zfs.drive_missing")
    proof = {"findings": [missing]}
    made = {"action": "keep", "findings": [missing, warned, {**finding("zfs_pool"), "status": "ok"}]}
    assert told("__zfs_pool_findings", __zfs_pool_made=made, __zfs_pool_proof=proof) == [missing, warned]
    assert told("__zfs_pool_findings", __zfs_pool_proof=proof) == [missing]
