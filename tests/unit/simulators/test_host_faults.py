"""Faults of the installed host: what the shims then say is what the checks call by its name, and nothing else is."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from firstlight.checks import clock, gpu, gpu_memory, kernel_log, nvlink, pcie
from firstlight.checks.capture import Command, Output, run_command
from firstlight.checks.engine import Result
from firstlight.checks.places import SYSFS, Placing
from firstlight.findings import Finding, verdict
from firstlight.health.bmcslots import gpu_slots, placed
from firstlight.policy.causes import group
from firstlight.profile import Profile
from firstlight.tickets.model import OPEN, Place, Ticket
from firstlight.tickets.words import part_named
from simulators.bmc.faults import FAULTS, parameters
from simulators.bmc.hardware import Hardware
from simulators.host.containers import hardware_facts

HOST = Path(__file__).resolve().parents[3] / "simulators" / "host"
SHIMS = HOST / "shims"
PROFILE = Profile.from_dict(yaml.safe_load((HOST.parent / "lab" / "profiles" / "xe9680.yml").read_text()))
SOUND = Output(text="none\n")


class Host:
    """A server's folder in /run/simulator, and its shims."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "hardware.json").write_text(json.dumps(hardware_facts(7, "FLB0007")))
        self.give()

    def give(self, fault: str = "", **given: Any) -> None:
        """It has this fault alone, as the admin interface writes it."""
        found = {fault: parameters(fault, given)} if fault else {}
        (self.folder / "state.json").write_text(json.dumps({"faults": sorted(found), "fault_parameters": found}))

    def run(self, shim: str, *words: str, limit: float = 20.0) -> Output:
        done = subprocess.run(
            [sys.executable, SHIMS / shim, *words], capture_output=True, text=True, timeout=limit,
            env=os.environ | {"FIRSTLIGHT_SIMULATOR": str(self.folder)},
        )  # fmt: skip
        return Output(done.stdout, done.stderr, done.returncode)

    def bus(self) -> Output:
        """What pcie's reader sees where the bus was mounted."""
        bus = self.folder / "bus"
        done = self.run("simulated-faults", "bus", str(bus))
        assert done.text.strip() == str(bus / "devices"), done
        return run_command(
            Command((*pcie.SYSFS.argv[:-1], pcie.SYSFS.argv[-1].replace(pcie._FOLDER, f"{bus}/devices")))
        )

    def judge(self, name: str) -> list[Finding]:
        smi = self.run("nvidia-smi", "-q", "-x")
        if name == "gpu_count":
            return gpu.judge({"nvidia_smi": smi}, PROFILE, {})
        if name == "gpu_memory":
            return gpu_memory.judge({"nvidia_smi": smi}, PROFILE, {})
        if name == "nvlink":
            told = {"status": self.run("nvidia-smi", "nvlink", "-s"), "errors": self.run("nvidia-smi", "nvlink", "-e")}
            return nvlink.judge({**told, "nvidia_smi": smi}, PROFILE, {})
        if name == "pcie_link":
            return pcie.judge({"sysfs": self.bus(), "virtualization": SOUND, "nvidia_smi": smi}, PROFILE, {})
        log = {"dmesg": self.run("dmesg", "-x", "--time-format", "iso"), "journal": Output(), "warnings": Output()}
        if name == "kernel_log":
            return kernel_log.judge_log(log, PROFILE, {})
        return kernel_log.judge_xids(log, PROFILE, {})


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


CHECKS = ("gpu_count", "gpu_memory", "nvlink", "pcie_link", "kernel_xid", "kernel_log")


@pytest.mark.parametrize("check", CHECKS)
def test_a_sound_host_has_nothing_against_it(host: Host, check: str) -> None:
    assert [finding.status for finding in host.judge(check)] == ["ok"]


@pytest.mark.parametrize("again", [0, 1])
def test_a_ticket_says_in_which_slot_the_gpu_is(host: Host, again: int) -> None:
    """Also after it was replaced: host and BMC then tell another serial number, the same as each other."""
    hardware = Hardware(7, "FLB0007", {"gpu3": again})
    (host.folder / "hardware.json").write_text(json.dumps(hardware_facts(7, "FLB0007", {"gpu3": again})))
    host.give("gpu_ecc", gpu=3, errors=4)
    placing = Placing(
        lambda sources, limit: {
            source: host.run(*source.argv) if isinstance(source, Command) and source != SYSFS else Output("{}")
            for source in sources
        }
    )
    placing([gpu.QUERY], 20.0)
    findings = host.judge("gpu_memory")
    found = placing.told(Result(findings, verdict(findings))).findings
    record = {"hardware": {"gpus": [{"id": part.fqdd, "serial": part.serial} for part in hardware.gpus]}}
    found = placed(found, gpu_slots(placing.serials, record, None))
    ((cause, of_cause),) = group(found).items()
    made = Ticket("t-gpu-1", "h", "FLB0007", Place(), cause, OPEN, "replace", tuple(of_cause), ("smoke",), "", "")
    assert part_named(made) == "GPU 0000:5d:00.0 in PCIe Slot 24, Video.Slot.24-1"


@pytest.mark.parametrize(
    ("fault", "given", "check", "symptom", "locator"),
    [
        ("gpu_lost", {"gpu": 2}, "gpu_count", "gpu.lost", "GPU 0000:4c:00.0"),
        ("gpu_missing", {"gpu": 2}, "gpu_count", "gpu.missing", "1 of 8 GPUs"),
        ("gpu_missing", {"gpu": 2}, "pcie_link", "pcie.missing", "1 of 8 GPUs"),
        ("gpu_ecc", {"gpu": 3, "errors": 4}, "gpu_memory", "gpu.ecc_errors", "GPU 0000:5d:00.0"),
        ("nvlink_down", {"gpu": 4, "link": 11}, "nvlink", "nvlink.inactive", "GPU 0000:9b:00.0 link 11"),
        ("gpu_xid", {"gpu": 5, "xid": 79}, "kernel_xid", "xid.79", "GPU 0000:bb:00"),
        ("gpu_xid", {"gpu": 5, "xid": 48}, "kernel_xid", "xid.48", "GPU 0000:bb:00"),
        ("pcie_narrow", {"gpu": 6, "width": 4}, "pcie_link", "pcie.narrow", "GPU 0000:cb:00.0"),
        ("pcie_narrow", {"gpu": -1, "hca": 1, "width": 4}, "pcie_link", "pcie.narrow", "HCA mlx5_1 0000:3a:00.0"),
        ("pcie_narrow", {"gpu": -1, "drive": 7, "width": 2}, "pcie_link", "pcie.narrow", "NVMe nvme7 0000:dc:00.0"),
        ("pcie_slow", {"gpu": 0, "generation": 3}, "pcie_link", "pcie.slow", "GPU 0000:19:00.0"),
    ],
)
def test_a_fault_has_its_symptom_and_place_and_is_gone_when_it_is_off(
    host: Host, fault: str, given: dict[str, Any], check: str, symptom: str, locator: str
) -> None:
    host.give(fault, **given)
    found = host.judge(check)
    assert [(f.status, f.symptom, f.locator) for f in found] == [("fail", symptom, locator)]
    host.give()
    assert [f.status for f in host.judge(check)] == ["ok"]


def test_the_counters_of_a_gpu_with_ecc_errors_agree_in_every_form(host: Host) -> None:
    host.give("gpu_ecc", gpu=3, errors=4)
    names = ("uncorrected.volatile.total", "uncorrected.aggregate.dram", "corrected.volatile.total")
    fields = ",".join(f"ecc.errors.{name}" for name in names)
    rows = host.run("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader").text.splitlines()
    assert rows == ["0, 0, 0"] * 3 + ["4, 4, 0"] + ["0, 0, 0"] * 4
    lines = [line for line in host.run("nvidia-smi", "-q").text.splitlines() if "DRAM Uncorrectable" in line]
    assert [line.split()[-1] for line in lines] == ["0"] * 6 + ["4"] * 2 + ["0"] * 8


def test_a_link_that_was_recovered_is_a_warning_and_fails_where_it_was_not_before(host: Host) -> None:
    def told() -> dict[str, Output]:
        status, errors = host.run("nvidia-smi", "nvlink", "-s"), host.run("nvidia-smi", "nvlink", "-e")
        return {"status": status, "errors": errors, "nvidia_smi": Output()}

    before = {"nvlink_counters": nvlink.keep(told())}
    host.give("nvlink_errors", gpu=4, link=11, recovered=2)
    for expect, status, symptom in (({}, "warn", "nvlink.errors"), (before, "fail", "nvlink.errors_growing")):
        (found,) = nvlink.judge(told(), PROFILE, expect)
        assert (found.status, found.symptom) == (status, symptom)
        assert "link 11: Recovery Errors" in found.evidence
    host.give()
    assert [f.status for f in nvlink.judge(told(), PROFILE, before)] == ["ok"]


def test_a_lost_gpu_fails_every_use_of_nvidia_smi(host: Host) -> None:
    host.give("gpu_lost", gpu=2)
    for words in (["-L"], ["nvlink", "-s"], ["--query-gpu=name", "--format=csv"], []):
        assert host.run("nvidia-smi", *words).code == 15


@pytest.mark.parametrize(("seconds", "symptom"), [(12, "clock.skew"), (-3, "clock.skew"), (0, "clock")])
def test_the_clock_is_as_far_off_as_the_fault_says(host: Host, seconds: int, symptom: str) -> None:
    host.give("host_clock_off", seconds=seconds)
    told = host.run("chronyc", "-c", "-n", "tracking")
    followed = Output("^,*,10.0.0.1,3,6,377,22,0.0,0.0,0.0\n")
    captured = {"tracking": told, "sources": followed, "names": Output(), "status": Output()}
    assert [f.symptom for f in clock.judge(captured, PROFILE, {})] == [symptom]


@pytest.mark.parametrize("tool", ["nvidia-smi", "nvme", "ibstat", "dmesg"])
def test_a_tool_that_hangs_gives_no_answer_and_the_others_do(host: Host, tool: str) -> None:
    host.give("command_hangs", tool=tool)
    with pytest.raises(subprocess.TimeoutExpired) as ended:
        host.run(tool, "list", limit=1.5)
    assert not ended.value.stdout
    other = "ibstat" if tool != "ibstat" else "dmesg"
    assert host.run(other).text


def test_without_its_mirror_apt_fetches_nothing_until_the_fault_is_off(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(str(SHIMS))
    shim = runpy.run_path(str(SHIMS / "simulated-faults"))
    lose_mirror, conf = shim["lose_mirror"], tmp_path / "zz-mirror"
    monkeypatch.setitem(lose_mirror.__globals__, "APT", str(conf))
    monkeypatch.setitem(lose_mirror.__globals__, "ARCHIVES", str(tmp_path / "archives"))
    lose_mirror(True)
    told = subprocess.run(
        ["apt-config", "-c", str(conf), "dump", "Acquire::http::Proxy"], capture_output=True, text=True, check=True
    )
    assert told.stdout == 'Acquire::http::Proxy "http://127.0.0.1:9";\n'
    assert (tmp_path / "archives" / "partial").is_dir()
    lose_mirror(False)
    assert not conf.exists()


def test_every_fault_that_a_shim_asks_for_exists() -> None:
    asked = {word for path in SHIMS.iterdir() if path.is_file() for word in _names(path.read_text())}
    assert {"gpu_lost", "disk_full", "exporter_dead", "pcie_slow"} <= asked
    assert asked <= set(FAULTS)


def _names(text: str) -> list[str]:
    parts = text.replace('fault_of("', 'fault("').split('fault("')[1:]
    return [part.partition('"')[0] for part in parts]
