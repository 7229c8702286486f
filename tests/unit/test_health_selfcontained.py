"""The self-contained file as a host runs it: one file, Python alone, tools of this test's own before the host's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from firstlight.checks import ALL_CHECKS
from firstlight.health.selfcontained import build

LOG = Path(__file__).parents[1] / "fixtures" / "gpu" / "smi-q.8x-h100.xml"
PROFILE = {"name": "x", "vendor": "v", "model": "m", "gpus": {"count": 8}, "limits": {"disk_used_percent": 100.1}}
NOTHING = {"expect": {"docker": False, "exporters": {}, "clock": False}}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("pyz") / "firstlight-checks.pyz")


class Host:
    def __init__(self, folder: Path, program: Path) -> None:
        self.folder, self.program = folder, program
        (folder / "bin").mkdir()
        self.tool("nvidia-smi", f"cat {LOG}")
        self.file("profile.json", PROFILE)
        self.file("site.json", NOTHING)

    def tool(self, name: str, script: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def file(self, name: str, data: Any) -> str:
        (self.folder / name).write_text(json.dumps(data))
        return str(self.folder / name)

    def run(self, *words: str, profile: str = "profile.json") -> subprocess.CompletedProcess[str]:
        """Isolated and without site-packages: nothing of this project but the file itself can be imported."""
        command = [sys.executable, "-I", "-S", str(self.program), *words]
        command += ["--profile", str(self.folder / profile), "--settings", str(self.folder / "site.json")]
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        return subprocess.run(
            command, cwd="/", env={"PATH": path}, capture_output=True, text=True, timeout=120, check=False
        )


@pytest.fixture
def host(tmp_path: Path, program: Path) -> Host:
    return Host(tmp_path, program)


GPUS = ("--check", "gpu_count", "--check", "disk_usage")


def test_a_sound_host_and_a_broken_one(host: Host) -> None:
    done = host.run(*GPUS)
    assert (done.returncode, done.stdout.split(": ")[1], done.stderr) == (0, "yes\n", "")

    host.file("nine.json", {**PROFILE, "gpus": {"count": 9}})
    done = host.run(*GPUS, profile="nine.json")
    first, reason = done.stdout.splitlines()
    assert (done.returncode, first.split(": ")[1]) == (1, "no")
    assert reason.startswith("    gpu.missing, 1 of 9 GPUs, ")

    done = host.run(*GPUS, "--json", profile="nine.json")
    row = json.loads(done.stdout)
    assert (done.returncode, row["fit"], row["action"]) == (1, False, "reseat")
    assert {f["check"]: f["status"] for f in row["findings"]} == {"gpu_count": "fail", "disk_usage": "ok"}
    assert set(row) == {"name", "fit", "action", "reasons", "findings", "tier", "time", "seconds"}


def test_a_capture_is_judged_as_the_live_host_was(host: Host, tmp_path: Path) -> None:
    host.tool("nvidia-smi", f"sed 's/<attached_gpus>8</<attached_gpus>7</; 0,/<gpu id/d' {LOG}; exit 0")
    # a reading that fails is kept as one that failed, so is a tool that is missing
    live = json.loads(host.run("--json", "--check", "gpu_count", "--check", "zfs_pool").stdout)
    words = ("capture", str(tmp_path / "c"), "--check", "gpu_count", "--check", "zfs_pool")
    done = host.run(*words)
    assert (done.returncode, done.stdout.count("\n")) == (0, 1), done.stderr
    host.tool("nvidia-smi", "exit 1")

    judged = host.run("judge", str(tmp_path / "c"), "--json")

    later = json.loads(judged.stdout)
    assert judged.returncode == 1
    assert {k: later[k] for k in ("fit", "action", "reasons", "findings")} == {
        k: live[k] for k in ("fit", "action", "reasons", "findings")
    }
    assert live["fit"] is False
    again = host.run(*words)
    assert (again.returncode, "is not empty" in again.stderr) == (2, True)


def test_metrics_are_written_also_when_the_host_is_not_fit(host: Host, tmp_path: Path) -> None:
    host.tool("nvidia-smi", "exit 9")

    done = host.run("metrics", str(tmp_path / "x.prom"), *GPUS)

    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    written = (tmp_path / "x.prom").read_text()
    assert "\nfirstlight_health_ready 0\n" in written
    assert 'firstlight_finding{check="gpu_count",symptom="' in written
    nowhere = host.run("metrics", "/nonexistent/x.prom", *GPUS)
    assert nowhere.returncode == 2
    assert nowhere.stderr.count("\n") == 1


LINKS = "\\n".join(f"GPU {n}: NVIDIA H100 (UUID: GPU-{n})\\n\\t Link 0: 26.562 GB/s" for n in range(8))


def with_nvlink(host: Host, recovered: int) -> None:
    """The host's GPUs have one NVLink each, and that of GPU 0 was recovered so often. Nothing else is looked at."""
    others = [check.name for check in ALL_CHECKS if check.name != "nvlink"]
    rows = [{"check": name, "reason": "not of this test", "until": "2999-01-01"} for name in others]
    host.file("site.json", {**NOTHING, "skip": rows})
    host.file("profile.json", {**PROFILE, "gpus": {"count": 8, "nvlink": {"links": 1}}})
    counts = "".join(
        f"GPU {n}: NVIDIA H100 (UUID: GPU-{n})\\n\\t Link 0: Recovery Errors: {recovered if n == 0 else 0}\\n"
        for n in range(8)
    )
    script = f"""case "$*" in
      *-s*) printf '{LINKS}\\n';;
      *-e*) printf '{counts}';;
      *) cat {LOG};;
    esac"""
    host.tool("nvidia-smi", script.replace("%", "%%"))


def nvlink_of(host: Host, *words: str) -> list[tuple[str, str]]:
    """What a run says of NVLink and of what it remembers."""
    rows = json.loads(host.run("--json", *words).stdout)["findings"]
    return [(row["status"], row["symptom"]) for row in rows if row["check"] in ("nvlink", "earlier")]


def test_growth_since_the_run_before_is_judged_with_a_state_and_stays_judged(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    words = ("--state", str(path))
    grown = [("fail", "nvlink.errors_growing")]
    with_nvlink(host, 1)
    assert nvlink_of(host, *words) == [("warn", "nvlink.errors")]
    assert nvlink_of(host, *words) == [("ok", "nvlink")]
    before = path.read_text()
    with_nvlink(host, 2)
    assert nvlink_of(host, *words, "--check", "nvlink") == grown
    assert path.read_text() == before
    assert nvlink_of(host, *words) == grown
    assert nvlink_of(host, *words) == grown
    assert nvlink_of(host) == [("warn", "nvlink.errors")]

    done = host.run("capture", str(tmp_path / "c"), *words)
    assert done.returncode == 0, done.stderr
    assert path.read_text() == before
    rows = json.loads(host.run("judge", str(tmp_path / "c"), "--json").stdout)["findings"]
    assert [row["symptom"] for row in rows if row["check"] == "nvlink"] == ["nvlink.errors_growing"]


def test_a_damaged_state_is_a_warning_in_the_metrics_and_is_written_anew(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text("{")
    with_nvlink(host, 0)
    words = ("metrics", str(tmp_path / "x.prom"), "--state", str(path))

    assert host.run(*words).returncode == 0

    label = f'symptom="earlier.unreadable",locator="{path}",status="warn"'
    assert label in (tmp_path / "x.prom").read_text()
    assert set(json.loads(path.read_text())) == {"format", "earlier"}
    assert host.run(*words).returncode == 0
    assert label not in (tmp_path / "x.prom").read_text()


def test_a_check_is_switched_off_with_a_reason_until_a_day(host: Host) -> None:
    host.tool("nvidia-smi", "exit 9")
    row = {"check": "gpu_count", "reason": "being replaced", "until": "2999-01-01"}
    host.file("site.json", {**NOTHING, "skip": [row]})
    done = host.run(*GPUS)
    assert (done.returncode, "gpu_count.skipped" in done.stdout) == (0, True)
    host.file("site.json", {**NOTHING, "skip": [{**row, "until": "2020-01-01"}]})
    assert host.run(*GPUS).returncode == 1


@pytest.mark.parametrize(
    ("words", "profile", "said"),
    [
        ((), "gone.json", "gone.json: No such file or directory"),
        ((), "site.json", "site.json: unknown key 'expect'"),
        (("--check", "gpus"), "profile.json", "--check: 'gpus' is no check"),
        (("capture",), "profile.json", "capture: name the folder"),
        (("metrics",), "profile.json", "metrics: name the file"),
        (("run", "x"), "profile.json", "run takes no 'x'"),
        (("judge", "/nonexistent"), "profile.json", "/nonexistent: No such file or directory"),
        (("--timeout", "0"), "profile.json", "argument --timeout: '0' is no number of seconds from above 0 to 86400;"),
        (("--timeout", "x"), "profile.json", "argument --timeout: 'x' is no number of seconds"),
        (("metrics", "/nonexistent/x.prom", "--check", "disk_usage"), "profile.json", ": /nonexistent/x.prom: No such"),
        (("nonsense",), "profile.json", "invalid choice: 'nonsense'"),
        (("--state", "/nonexistent/x.json"), "profile.json", "--state: /nonexistent is no folder"),
        (("judge", "/tmp", "--state", "/tmp/x"), "profile.json", "judge takes no --state"),
    ],
)
def test_what_people_do_wrong_is_one_line_and_status_2(
    host: Host, words: tuple[str, ...], profile: str, said: str
) -> None:
    done = host.run(*words, profile=profile)

    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_equal_sources_give_equal_bytes_whatever_the_time_zone(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import sys; from pathlib import Path; from firstlight.health.selfcontained import build"
    code += "; build(Path(sys.argv[1]))"
    for number, zone in enumerate(("Asia/Tokyo", "America/Lima")):
        target = tmp_path / str(number)
        environment = {**os.environ, "TZ": zone}
        subprocess.run(
            [sys.executable, "-c", code, str(target)], env=environment, check=True, timeout=60, umask=number * 7
        )
        assert target.read_bytes() == program.read_bytes()
    assert program.stat().st_mode & 0o111 == 0o111


def test_it_has_what_hosts_need_and_nothing_of_the_controller(program: Path) -> None:
    names = set(zipfile.ZipFile(program).namelist())

    assert {"__main__.py", "firstlight/checks/engine.py", "firstlight/zfs/health.py"} <= names
    assert {name.split("/")[1] for name in names if "/" in name} <= {
        "", "__init__.py", "findings.py", "profile.py", "profile_kinds.py", "slots.py", "checks", "health",
        "zfs", "streams.py", "wholefile.py",
    }  # fmt: skip
    assert not {"firstlight/health/cli.py", "firstlight/health/selfcontained.py"} & names
    assert program.read_bytes().startswith(b"#!/usr/bin/env python3\n")
    assert program.stat().st_size < 1_000_000
