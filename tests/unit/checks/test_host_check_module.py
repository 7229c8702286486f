"""The module host_check as Ansible runs it, with tools of this test's own in front of the host's."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible import module_utils
from ansible.module_utils.testing import patch_module_args
from check_cases import FIXTURES, PROFILE

from firstlight.checks import ALL_CHECKS, TIERS
from firstlight.checks.folder import facts_here
from firstlight.health.settings import EXPECT

ROOT = Path(__file__).parents[3]
MODULE = ROOT / "plugins" / "modules" / "host_check.py"
# what this machine has or lacks must not decide the test
NO_SERVICES = {"docker": False, "exporters": {}, "clock": False}
EMPTY = {"name": "bare", "vendor": "v", "model": "m"}


def host_check(tmp_path: Path, tools: dict[str, str] | None = None, check: bool = False, **args: Any) -> dict[str, Any]:
    """Run the module through ansible on localhost; its result as a mapping, ``failed`` included."""
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    for name, script in (tools or {}).items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "ANSIBLE_LIBRARY": str(ROOT / "plugins" / "modules"),
        "ANSIBLE_MODULE_UTILS": str(ROOT / "plugins" / "module_utils"),
        "ANSIBLE_LOCAL_TEMP": str(tmp_path / "local"),
        "ANSIBLE_REMOTE_TEMP": str(tmp_path / "remote"),
        "ANSIBLE_HOME": str(tmp_path / "home"),
        "ANSIBLE_STDOUT_CALLBACK": "minimal",
        "ANSIBLE_NOCOLOR": "1",
    }
    environment.pop("ANSIBLE_CONFIG", None)
    command = [
        sys.executable, "-m", "ansible", "adhoc", "localhost", "-i", "localhost,", "-c", "local",
        "-e", f"ansible_python_interpreter={sys.executable}", "-m", "host_check", "-a", json.dumps(args),
    ]  # fmt: skip
    done = subprocess.run(
        command + ["--check"] * check,
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "{" in done.stdout, done.stdout + done.stderr
    result = json.JSONDecoder().raw_decode(done.stdout[done.stdout.index("{", done.stdout.index("localhost |")) :])[0]
    assert (done.returncode != 0) == ("FAILED" in done.stdout)
    return {"failed": done.returncode != 0, **result}


def cat(name: str) -> str:
    return f"cat {FIXTURES / name}"


LOG = FIXTURES.parent / "gpu" / "smi-q.8x-h100.xml"
GOOD_TOOLS = {
    "nvidia-smi": f"cat {LOG}",
    "ibstat": cat("ibstat.8-active.txt"),
    "nvme": cat("nvme-list.8-and-boss.json"),
    "dmesg": cat("dmesg.clean.txt"),
    "journalctl": "exit 1",
    "systemctl": "exit 0",
}
WHOLE = {**PROFILE, "limits": {"disk_used_percent": 100.1}}
# they read the hardware of the machine that runs this test, whatever tools are put before its own
OF_THIS_MACHINE = ("pcie_link", "disk_read", "disk_health", "hca_errors", "hca_module", "system")
ELSEWHERE = [{"check": name, "reason": "another machine", "until": "2999-12-31"} for name in OF_THIS_MACHINE]


def judged(result: dict[str, Any]) -> list[dict[str, Any]]:
    """The findings of the checks that were not switched off for this machine's sake."""
    return [finding for finding in result["findings"] if finding["check"] not in OF_THIS_MACHINE]


def test_a_sound_host_is_ready(tmp_path: Path) -> None:
    result = host_check(tmp_path, GOOD_TOOLS, profile=WHOLE, expect=NO_SERVICES, skip=ELSEWHERE)

    assert not result["failed"]
    assert result["changed"] is False
    assert {f["check"]: f["status"] for f in judged(result)} == {
        "gpu_count": "ok",
        "gpu_firmware": "ok",
        "gpu_memory": "ok",
        "gpu_running": "ok",
        "hca_state": "ok",
        "hca_firmware": "ok",
        "nvme_count": "ok",
        "disk_usage": "ok",
        "mounts_writable": "ok",
        "failed_units": "ok",
        "kernel_xid": "ok",
        "kernel_log": "ok",
    }
    assert result["verdict"] == {"ready": True, "action": "none", "reasons": []}
    assert set(result["seconds"]) == {f["check"] for f in judged(result)}


def test_the_host_picks_the_versions_of_its_own_system(tmp_path: Path) -> None:
    system = facts_here("test")["system"]
    mine, other = {"gpu_vbios": "96.00.01.00.01", "gpu_driver": "1.2.3"}, {"hca_firmware": "1.2.3"}
    versions = {"any": {"any": other}, f"{system['distribution']}-{system['version']}": {"any": mine}}
    expect = {**NO_SERVICES, "versions": versions, "gpu_driver": ""}
    result = host_check(tmp_path, GOOD_TOOLS, profile=WHOLE, expect=expect, skip=ELSEWHERE)
    found = {(finding["symptom"], finding["status"]) for finding in judged(result) if finding["status"] != "ok"}
    assert found == {("gpu.firmware_version", "fail")}


def test_a_broken_host_is_judged_not_failed_also_in_check_mode(tmp_path: Path) -> None:
    log = LOG.read_text().replace("<attached_gpus>8<", "<attached_gpus>7<")
    (tmp_path / "log").write_text(re.sub(r'<gpu id="[^"]*">(?:(?!<gpu ).)*</gpu>', "", log, count=1, flags=re.DOTALL))
    tools = {
        **GOOD_TOOLS,
        "nvidia-smi": f"cat {tmp_path}/log",
        "nvme": "sleep 60",
        "dmesg": "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1",
        "systemd-detect-virt": "echo docker",
    }

    result = host_check(tmp_path, tools, check=True, profile=WHOLE, expect=NO_SERVICES, skip=ELSEWHERE, timeout=2.0)

    assert not result["failed"]
    assert result["verdict"]["ready"] is False
    assert result["verdict"]["action"] == "reseat"
    assert [r["symptom"] for r in result["verdict"]["reasons"]] == ["gpu.missing", "nvme_count.timed_out"]
    assert [f["symptom"] for f in judged(result) if f["status"] == "warn"] == [
        "kernel_xid.not_permitted",
        "kernel_log.not_permitted",
    ]
    assert 1.9 < result["seconds"]["nvme_count"] < 10


def test_wrong_parameters_fail_through_ansible(tmp_path: Path) -> None:
    result = host_check(tmp_path, profile={"name": "x"})

    assert result["failed"]
    assert result["msg"] == "profile: key 'vendor' is missing"


def test_a_skip_is_reported(tmp_path: Path) -> None:
    gpus = ("gpu_count", "gpu_firmware", "gpu_memory", "gpu_running")
    skip = [*ELSEWHERE, *({"check": name, "reason": "on order", "until": "2999-12-31"} for name in gpus)]

    result = host_check(tmp_path, {**GOOD_TOOLS, "nvidia-smi": "exit 9"}, profile=WHOLE, expect=NO_SERVICES, skip=skip)

    assert result["verdict"]["ready"] is True
    assert [f["symptom"] for f in result["findings"] if f["check"] == "gpu_count"] == ["gpu_count.skipped"]


def test_what_runs_by_default_is_docker_the_exporter_and_the_clock(tmp_path: Path) -> None:
    tools = {"systemctl": "echo inactive; exit 3", "chronyc": cat("chronyc-tracking.skew.csv")}

    result = host_check(tmp_path, tools, profile=EMPTY, expect={"exporters": {"one": "1"}})

    symptoms = {f["symptom"] for f in result["findings"]}
    assert {"docker.not_running", "exporter.not_answering", "clock.skew"} <= symptoms


def test_only_the_checks_that_are_named_run(tmp_path: Path) -> None:
    tools = {**GOOD_TOOLS, "nvme": "sleep 60", "nvidia-smi": cat("nvidia-smi.7-of-8.csv")}

    result = host_check(tmp_path, tools, profile=WHOLE, checks=["gpu_count", "failed_units"])

    assert {f["check"]: f["status"] for f in result["findings"]} == {"gpu_count": "fail", "failed_units": "ok"}


def test_a_check_that_is_named_says_so_when_it_has_nothing_to_judge(tmp_path: Path) -> None:
    result = host_check(tmp_path, GOOD_TOOLS, checks=["gpu_count"])

    assert [f["symptom"] for f in result["findings"]] == ["gpu_count.not_expected"]
    assert result["verdict"]["ready"] is False


def test_what_a_run_gives_back_makes_the_next_one_judge_growth(tmp_path: Path) -> None:
    lines = "".join(f"GPU {n}: NVIDIA H100 (UUID: GPU-{n})\\n\\t Link 0: {{}}\\n" for n in range(8))
    profile = {**WHOLE, "gpus": {**WHOLE["gpus"], "nvlink": {"links": 1}}}
    others = [check.name for check in ALL_CHECKS if check.name not in ("nvlink", "kernel_log", "kernel_xid")]
    skip = [{"check": name, "reason": "not of this test", "until": "2999-12-31"} for name in others]

    def run(recovered: int, **more: Any) -> dict[str, Any]:
        status, errors = lines.replace("{}", "26.562 GB/s"), lines.replace("{}", f"Recovery Errors: {recovered}")
        smi = f"case \"$*\" in *-s*) printf '{status}';; *-e*) printf '{errors}';; *) cat {LOG};; esac"
        result = host_check(tmp_path, {**GOOD_TOOLS, "nvidia-smi": smi}, profile=profile, expect=NO_SERVICES, **more)
        assert not result["failed"], result
        return result

    def said(result: dict[str, Any]) -> set[str]:
        return {f["symptom"] for f in result["findings"] if f["check"] == "nvlink"}

    first = run(1, skip=skip)
    assert said(first) == {"nvlink.errors"}
    assert set(first["remember"]) == {"nvlink_counters", "kernel_log"}
    assert first["remember"]["kernel_log"]["time"] == first["time"]
    assert set(first["ran"]) == {check.name for check in ALL_CHECKS if check.tier == "quick"}

    second = run(2, skip=skip, earlier=first["remember"])
    assert said(second) == {"nvlink.errors_growing"}
    assert second["remember"] == first["remember"]

    only = run(1, checks=["nvlink"], earlier=first["remember"])
    assert (said(only), only["ran"], only["remember"]) == ({"nvlink"}, ["nvlink"], first["remember"])


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"profile": {**EMPTY, "gpu": {}}}, "profile: unknown key 'gpu'; known are"),
        ({"profile": {"name": "x", "vendor": "v"}}, "profile: key 'model' is missing"),
        (
            {"profile": {**EMPTY, "gpus": {"count": "eight"}}},
            "gpus.count must be a whole number, 0 or more, not 'eight'",
        ),
        ({"profile": {**EMPTY, "limits": {"disk_used_percent": "95 %"}}}, "limits.disk_used_percent must be a number"),
        ({}, "profile: is missing; only where checks"),
        ({"checks": ["gpus"]}, "checks: 'gpus' is no check; there are gpu_count, "),
        ({"profile": EMPTY, "tier": "slow"}, "value of tier must be one of: quick"),
        ({"profile": EMPTY, "timeout": 0}, "timeout: 0.0 is not more than 0"),
        ({"profile": EMPTY, "require": ["gpus"]}, "require: 'gpus' is no check; there are gpu_count, "),
        ({"profile": EMPTY, "expect": {"ntp": []}}, "Unsupported parameters"),
        ({"profile": EMPTY, "expect": {"exporters": {"x": 99999}}}, "expect.exporters.x: 99999 is no port"),
        (
            {"profile": EMPTY, "earlier": {"kernel_log": {"time": 1}}},
            "earlier: kernel_log: must have time, boot and value",
        ),
        (
            {"profile": EMPTY, "skip": [{"check": "gpu", "reason": "r", "until": "2027-01-01"}]},
            "skip[0].check: 'gpu' is no",
        ),
        (
            {"profile": EMPTY, "skip": [{"check": "clock", "reason": " ", "until": "2027-01-01"}]},
            "skip[0].reason: say why",
        ),
        (
            {"profile": EMPTY, "expect": {"kernel_log": {"harmless": ["fine", "("]}}},
            "expect.kernel_log.harmless[1]: '(' is no regular expression",
        ),
        (
            {"profile": EMPTY, "skip": [{"check": "clock", "reason": "r", "until": "soon"}]},
            "skip[0].until: 'soon' is no date",
        ),
        (
            {"profile": EMPTY, "skip": [{"check": "clock", "reason": "r", "until": "2027-02-30"}]},
            "'2027-02-30' is no date",
        ),
        (
            {"profile": EMPTY, "skip": [{"check": "clock", "reason": "r"}]},
            "missing required arguments: until found in skip",
        ),
    ],
)
def test_wrong_parameters_fail_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], args: dict[str, Any], words: str
) -> None:
    monkeypatch.setattr(module_utils, "__path__", [*module_utils.__path__, str(ROOT / "plugins" / "module_utils")])
    module = runpy.run_path(str(MODULE))

    with patch_module_args(args), pytest.raises(SystemExit) as end:
        module["main"]()

    result = json.loads(capsys.readouterr().out)
    assert end.value.code == 1
    assert result["failed"]
    assert words in result["msg"]
    assert "\n" not in result["msg"]
    assert "Traceback" not in json.dumps(result)


def test_the_documentation_names_every_parameter_and_result() -> None:
    namespace: dict[str, Any] = {}
    source = MODULE.read_text()
    exec(compile(source.split("\nimport math")[0], str(MODULE), "exec"), namespace)
    documented = yaml.safe_load(namespace["DOCUMENTATION"])["options"]

    options = {"profile", "tier", "checks", "skip", "require", "timeout", "expect", "capture", "earlier"}
    assert set(documented) == options
    assert set(documented["expect"]["suboptions"]) == set(EXPECT)
    assert documented["tier"]["choices"] == list(TIERS)
    assert set(EXPECT) >= {need[7:] for check in ALL_CHECKS for need in check.needs if "expect." in need}
    results = {"findings", "verdict", "seconds", "remember", "values", "time", "ran", "serials"}
    assert set(yaml.safe_load(namespace["RETURN"])) == results
    assert all(
        "host_check" in task or "ansible.builtin.assert" in task for task in yaml.safe_load(namespace["EXAMPLES"])
    )
