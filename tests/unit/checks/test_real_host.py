"""What the checks say of a capture from a real machine: two H200 in a virtual machine, no systemd (docs/hardware.md).

Kept by `firstlight-checks.pyz capture`; serial numbers, UUIDs and the kernel's name replaced, the log shortened.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from firstlight.checks import ALL_CHECKS, Result, run_checks
from firstlight.checks.folder import read_folder, replay
from firstlight.findings import Finding
from firstlight.profile import Profile

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "gpu_host" / "h200x2"
GPUS = {"gpu_count", "gpu_firmware", "gpu_memory", "gpu_running", "gpu_topology", "nvlink"}


@pytest.fixture(scope="module")
def result() -> Result:
    kept = read_folder(str(FOLDER))
    return run_checks(ALL_CHECKS, Profile.from_dict(kept.facts["profile"]), run=replay(kept))


@pytest.fixture(scope="module")
def findings(result: Result) -> list[Finding]:
    return result.findings


def test_the_gpus_are_as_the_profile_says(findings: list[Finding]) -> None:
    evidence = {f.check: f.evidence for f in findings if f.check in GPUS}
    assert {f.check for f in findings if f.status == "ok"} >= GPUS
    assert evidence["gpu_count"] == "2 x NVIDIA H200, driver 580.159.04"
    assert evidence["nvlink"] == "2 GPUs, links each: 18, GB/s each: 26.562; no errors"
    assert evidence["gpu_topology"].startswith("2 GPUs, between them NV18")


def test_what_is_not_there_is_missing_or_unknown_and_never_ok(findings: list[Finding]) -> None:
    said = {(f.check, f.status, f.symptom) for f in findings}
    assert said >= {
        ("hca_state", "fail", "hca.missing"),
        ("gpu_rdma", "fail", "rdma.no_device"),
        ("nvme_count", "fail", "nvme.missing"),
        ("gpu_driver", "fail", "driver.not_installed"),  # it came without packages
        ("clock", "unknown", "clock.no_tool"),
        ("docker", "unknown", "docker.no_tool"),
        ("disk_read", "unknown", "disk_read.not_permitted"),
    }
    assert Counter(f.status for f in findings)["ok"] == 10


def test_its_kernel_log_says_nothing_new(findings: list[Finding]) -> None:
    assert [f.status for f in findings if f.check in ("kernel_xid", "kernel_log")] == ["ok", "ok"]


def test_what_other_hosts_like_it_are_compared_by(result: Result) -> None:
    told = {name: value for values in result.values.values() for name, value in values.items()}
    assert 0 < told.pop("gpu.query_seconds") < 5
    assert told == {
        "gpu.driver": "580.159.04", "gpu.model": "NVIDIA H200", "gpu.vbios": "96.00.A5.00.1A",
        "gpu.inforom": "G520.0282.02.02", "gpu.power_limit_watts": "700", "gpu.sm_mhz": "1980",
        "gpu.memory_mhz": "3201", "gpu.clocks_held": "none", "gpu.idle_celsius_max": 32.0, "gpu.idle_watts_max": 80.04,
        "pcie.gpus": "2 x16 Gen5",
    }  # fmt: skip
