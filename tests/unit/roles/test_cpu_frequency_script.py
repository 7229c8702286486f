"""The script that role cpu_frequency installs, on CPUs that are files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[3] / "roles/cpu_frequency/files/firstlight-cpu-frequency"
WANTED = ("--governor", "performance", "--energy-preference", "performance")


@pytest.fixture
def cpus(tmp_path: Path) -> Any:
    """A function that makes CPUs: by policy its CPUs and files; the others have no cpufreq."""

    def make(online: str, **policies: tuple[list[int], dict[str, str]]) -> Path:
        (tmp_path / "online").write_text(online + "\n")
        for name, (numbers, files) in policies.items():
            folder = tmp_path / "cpufreq" / name
            folder.mkdir(parents=True)
            for file, text in files.items():
                (folder / file).write_text(text + "\n")
            for number in numbers:
                (tmp_path / f"cpu{number}").mkdir()
                (tmp_path / f"cpu{number}/cpufreq").symlink_to(folder)
        return tmp_path

    return make


def run(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--cpu", str(folder), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def hwp(**more: str) -> dict[str, str]:
    return {
        "scaling_governor": "powersave", "scaling_available_governors": "performance powersave",
        "energy_performance_preference": "balance_power",
        "energy_performance_available_preferences": "default performance balance_power power", **more,
    }  # fmt: skip


def test_every_policy_is_set_once_and_a_second_run_changes_nothing(cpus) -> None:
    folder = cpus("0-3", policy0=([0, 1], hwp()), policy2=([2, 3], hwp(scaling_governor="performance")))

    assert run(folder, *WANTED) == (0, {"cpus": 4, "without": [], "wrong": {}, "changed": 3, "failed": {}})
    assert run(folder, *WANTED) == (0, {"cpus": 4, "without": [], "wrong": {}, "changed": 0, "failed": {}})
    assert (folder / "cpufreq/policy2/energy_performance_preference").read_text() == "performance\n"


def test_check_only_looks(cpus) -> None:
    folder = cpus("0", policy0=([0], hwp()))

    status, said = run(folder, *WANTED, "--check")

    assert (status, said["wrong"], said["changed"]) == (1, {"governor": [0], "energy_preference": [0]}, 0)
    assert (folder / "cpufreq/policy0/scaling_governor").read_text() == "powersave\n"


def test_a_driver_without_preferences_has_none_to_set(cpus) -> None:
    acpi = {"scaling_governor": "ondemand", "scaling_available_governors": "ondemand performance"}

    assert run(cpus("0", policy0=([0], acpi)), *WANTED)[1]["changed"] == 1


def test_what_the_driver_does_not_offer_is_told(cpus) -> None:
    status, said = run(cpus("0", policy0=([0], hwp())), "--governor", "schedutil")

    assert status == 1
    assert said["failed"] == {"governor": "schedutil is not offered by the driver, which has performance powersave"}


def test_cpus_that_are_off_are_left_alone_and_those_without_are_named(cpus) -> None:
    folder = cpus("0,2-3", policy0=([0], hwp()), policy1=([1], hwp()))

    status, said = run(folder, *WANTED)

    assert (status, said["cpus"], said["without"]) == (0, 3, [2, 3])
    assert (folder / "cpufreq/policy1/scaling_governor").read_text() == "powersave\n"


def test_what_is_not_asked_for_is_left_alone(cpus) -> None:
    folder = cpus("0", policy0=([0], hwp()))

    assert run(folder, "--governor", "performance")[1]["changed"] == 1
    assert (folder / "cpufreq/policy0/energy_performance_preference").read_text() == "balance_power\n"


def test_no_cpufreq_at_all_is_nothing_to_set(tmp_path: Path) -> None:
    assert run(tmp_path, *WANTED) == (0, {"cpus": 0, "without": [], "wrong": {}, "changed": 0, "failed": {}})
