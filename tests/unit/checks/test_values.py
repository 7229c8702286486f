"""The values by which hosts alike are compared: what checks give of good hosts, and none of what cannot be read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import disk_cases
import gpu_health_cases
import hca_cases
import nvlink_cases
import pcie_cases
import pytest
import tuning_cases
from check_cases import CASES, Case
from value_cases import OFFERING, load, value_names, values_of

from firstlight.checks import ALL_CHECKS
from firstlight.checks.capture import Output
from firstlight.checks.compared import idle, joined, per_day, uptime
from firstlight.checks.engine import VALUE_TEXT_MAX, bounded_values
from firstlight.cohort import NUMBERS

ROOT = Path(__file__).parents[3]


def good(check: str, name: str = "") -> Case:
    return next(c for c in CASES if c.check == check and c.want[0][0] == "ok" and name in c.name)


WANTED: dict[str, dict[str, Any]] = {
    "gpu_firmware": {"gpu.vbios": "96.00.89.00.01", "gpu.inforom": "G520.0200.00.05"},
    "gpu_memory": {"gpu.corrected_errors_per_day": 0.0},
    "gpu_running": {
        "gpu.power_limit_watts": "700", "gpu.sm_mhz": "1980", "gpu.memory_mhz": "2619", "gpu.clocks_held": "none",
        "gpu.idle_celsius_max": 33.0, "gpu.idle_watts_max": 74.57,
    },
    "hca_state": {"hca.rate_gbps": "400"},
    "hca_firmware": {"hca.firmware": "MT_0000000838 28.43.2026"},
    "hca_module": {"hca.celsius_max": 61.0, "hca.module_celsius_max": 52.0},
    "nvme_count": {"drive.firmware": "Dell BOSS-N1 OPPA4B5Q, SAMSUNG MZWLO3T8HCLS-00A07 OPPA4B5Q"},
    "disk_read": {"drive.read_seconds_max": 0.00085},
    "docker": {"docker.version": "28.3.2"},
    "clock": {"clock.offset_seconds": 1.2345e-05},
    "memory_errors": {"memory.corrected_per_day": 0.0},
    "pcie_link": {
        "pcie.gpus": "8 x16 Gen5", "pcie.hcas": "8 x16 Gen5", "pcie.nvme": "8 x4 Gen4", "pcie.ethernet": "1 x4 Gen3",
    },
    "cpu_frequency": {"cpu.driver": "intel_pstate", "cpu.governor": "performance", "cpu.busy_mhz_min": 3500},
    "system": {
        "system.image": "Ubuntu 24.04.3 LTS", "system.kernel": "6.8.0-79-generic", "system.bios": "2.5.4",
        "cpu.microcode": "0x2b000639", "cpu.count": "128", "memory.total_bytes": 2113408352 * 1024,
    },
}  # fmt: skip


@pytest.mark.parametrize("check", sorted(WANTED))
def test_values_of_a_good_host(check: str) -> None:
    assert values_of(good(check)) == WANTED[check]


def test_values_of_the_driver_and_how_long_it_takes() -> None:
    log = Output(gpu_health_cases.fixture("smi-q.8x-h100.xml"), seconds=1.234)
    assert values_of(good("gpu_count"), nvidia_smi=log) == {
        "gpu.driver": "580.95.05", "gpu.model": "NVIDIA H100 80GB HBM3", "gpu.query_seconds": 1.23,
    }  # fmt: skip


@pytest.mark.parametrize("check", OFFERING, ids=lambda check: check.name)
def test_nothing_is_told_of_what_cannot_be_read(check: Any) -> None:
    case = good(check.name)
    for text in ("", "x", "{}", "[]", "null", '{"files": 3}', '{"drives": [{"name": "a"}]}', "<nvidia_smi_log>"):
        captured = {name: Output(text) for name in case.captured}
        assert check.values(captured, case.wanted_profile()) == {}, text
    broken = {name: Output("", "it is timed_out", 1, "timed_out") for name in case.captured}
    assert check.values(broken, case.wanted_profile()) == {}


@pytest.mark.parametrize("case", [c for c in CASES if c.check in {check.name for check in OFFERING}], ids=str)
def test_values_of_every_case_are_in_bounds(case: Case) -> None:
    told = values_of(case)
    assert bounded_values({case.check: told}).get(case.check, {}) == {
        name: value[:VALUE_TEXT_MAX] if isinstance(value, str) else value for name, value in told.items()
    }


def test_every_number_has_a_rule_and_every_rule_a_number() -> None:
    cases = [case for case in CASES if case.check in {check.name for check in OFFERING}]
    told = [item for case in cases for item in values_of(case).items()]
    numbers = {name for name, value in told if isinstance(value, (int, float))}
    in_tests_below = {"gpu.query_seconds", "gpu.pcie_replays_per_day", "drive.os_read_seconds_max"}
    assert numbers | in_tests_below == set(NUMBERS)


def test_two_versions_in_one_host_are_one_text() -> None:
    log = gpu_health_cases.smi({2: {"vbios_version": "96.00.61.00.01"}})
    assert values_of(good("gpu_firmware"), nvidia_smi=log)["gpu.vbios"] == "96.00.61.00.01, 96.00.89.00.01"
    assert joined(["b ", "", "a", "b"]) == "a, b"


def test_heat_and_power_only_of_gpus_that_rest() -> None:
    for values in (
        gpu_health_cases.process("/usr/bin/python3"),
        {"utilization/gpu_util": "97 %"},
        {"fb_memory_usage/used": "32362 MiB"},
    ):
        told = values_of(good("gpu_running"), nvidia_smi=gpu_health_cases.smi({3: values}))
        assert {"gpu.idle_celsius_max", "gpu.idle_watts_max"}.isdisjoint(told)
        assert told["gpu.sm_mhz"] == "1980"


def test_what_holds_clocks_down_is_named() -> None:
    name = "clocks_event_reasons/clocks_event_reason_"
    log = gpu_health_cases.smi({3: {f"{name}hw_slowdown": "Active", f"{name}sw_power_cap": "Active"}})
    assert values_of(good("gpu_running"), nvidia_smi=log)["gpu.clocks_held"] == "hw_slowdown, none"


def test_counters_are_rates_over_the_time_that_they_have_counted() -> None:
    errors = {"ecc_errors/volatile/sram_correctable": "30", "ecc_errors/volatile/dram_correctable": "10"}
    log, replays = gpu_health_cases.smi({1: errors}), gpu_health_cases.smi({1: {"pci/replay_counter": "12"}})
    per_days = {
        days: values_of(good("gpu_memory"), nvidia_smi=log, load=load(days))["gpu.corrected_errors_per_day"]
        for days in (0.01, 1, 4)
    }
    assert per_days == {0.01: 40.0, 1: 40.0, 4: 10.0}
    assert values_of(good("gpu_memory"), nvidia_smi=log, load=Output("x")) == {}
    told = values_of(good("pcie_link", "whole"), nvidia_smi=replays, load=load(3))
    assert told["gpu.pcie_replays_per_day"] == 4.0
    assert (per_day(None, 1.0), per_day(1.0, None)) == (None, None)


def test_uptime_and_load_from_the_files() -> None:
    assert uptime(load(days=1)) == 86400.0
    for output in (None, Output("x"), Output('{"files": {"/proc/uptime": "1e99 "}}'), Output('{"files": []}')):
        assert uptime(output) is None
        assert not idle(output)
    assert [idle(load(busy=busy)) for busy in (0.0, 3.0, 3.1, 97.0)] == [True, True, False, False]


@pytest.mark.parametrize(
    ("check", "names"),
    [
        ("cpu_frequency", {"cpu.busy_mhz_min"}),
        ("disk_read", {"drive.read_seconds_max"}),
        ("hca_module", {"hca.celsius_max", "hca.module_celsius_max"}),
    ],
)
def test_what_a_job_changes_is_told_only_of_an_idle_host(check: str, names: set[str]) -> None:
    at_rest, at_work = (set(values_of(good(check), load=load(busy=busy))) for busy in (1.0, 30.0))
    assert at_rest - at_work == names
    assert set(values_of(good(check), load=Output("x"))) == at_work


def test_cores_slowed_down_for_heat_are_a_rate() -> None:
    sysfs = Output(tuning_cases.hot(core=12, package=40))
    assert values_of(good("cpu_frequency"), sysfs=sysfs, load=load(4))["cpu.throttles_per_day"] == 10.0
    assert "cpu.throttles_per_day" not in values_of(good("cpu_frequency"), sysfs=sysfs, load=Output("x"))


def test_the_slowest_core_is_told() -> None:
    said = {"cpus": {"0": tuning_cases.HWP}, "driver": {}, "busy": {"0": "3512000", "64": "2100000", "65": ""}}
    assert values_of(good("cpu_frequency"), sysfs=Output(json.dumps(said)))["cpu.busy_mhz_min"] == 2100


def test_the_slowest_drive_by_its_usual_time_and_the_os_disk_apart() -> None:
    def timed(name: str, model: str, *seconds: float) -> dict[str, Any]:
        return disk_cases.drive(name, model=model, bytes=8388608, seconds=list(seconds))

    rows = [
        timed("nvme0n1", "A", 0.5, *[0.001] * 7),  # once slow is housekeeping
        timed("nvme1n1", "A", *[0.004] * 8),
        timed("sda", "DELLBOSS VD", *[0.02] * 8),
        disk_cases.drive("sdb", error="Input/output error", errno=5),
    ]
    drives = Output(json.dumps({"drives": rows}))
    assert values_of(good("disk_read"), drives=drives) == {
        "drive.read_seconds_max": 0.004, "drive.os_read_seconds_max": 0.02,
    }  # fmt: skip


def test_a_narrow_link_and_one_card_more_are_seen() -> None:
    told = values_of(good("pcie_link", "whole"), sysfs=Output(pcie_cases.narrow(pcie_cases.HCA, "8")))
    assert told["pcie.hcas"] == "7 x16 Gen5, 1 x8 Gen5"
    asleep = values_of(good("pcie_link", "whole"), sysfs=Output(pcie_cases.slow(pcie_cases.GPU)))
    assert asleep["pcie.gpus"] == "8 x16 Gen5"


def test_corrected_errors_of_memory_are_a_rate() -> None:
    told = [values_of(c) for c in CASES if c.check == "memory_errors" and c.want[0][1] == "memory.corrected"]
    assert max(values["memory.corrected_per_day"] for values in told) > 0


def test_errors_of_nvlinks_and_hcas_are_rates() -> None:
    links = nvlink_cases.counters({"3: CRC Errors": 30, "4: Replay Errors": 10})
    assert values_of(good("nvlink"), errors=links, load=load(4)) == {"nvlink.errors_per_day": 10.0}
    assert values_of(good("nvlink"), errors=links, load=Output("x")) == {}
    ports = {"mlx5_0/ports/1/counters/symbol_error": "6", "mlx5_1/ports/1/counters/link_downed": "2"}
    ports = {**hca_cases.LAYERS, **ports, "mlx5_1/ports/1/counters/symbol_error": "0", "/proc/uptime": "172800.5 1"}
    assert values_of(good("hca_errors"), counters=Output(hca_cases.files(ports))) == {"hca.errors_per_day": 4.0}


def test_modules_that_only_mlxlink_tells_count() -> None:
    case = good("hca_module", "warm enough")
    told = values_of(case, hwmon=Output(hca_cases.files({**hca_cases.LAYERS, "mlx5_0/fw_ver": "1"})))
    assert "hca.celsius_max" not in told
    assert told["hca.module_celsius_max"] > 30


def test_a_clock_that_follows_nothing_tells_no_offset() -> None:
    case = next(c for c in CASES if c.check == "clock" and c.want[0][1] == "clock.not_synchronised")
    assert values_of(case) == {}


def test_two_readers_of_the_same_pay_once() -> None:
    profile = good("system").wanted_profile()
    loads = {check.reads(profile, {}).get("load") for check in ALL_CHECKS} - {None}
    assert len(loads) == 1


def test_the_docs_name_every_value() -> None:
    text = (ROOT / "docs" / "health.md").read_text().partition("## Fleet view")[2].partition("\n## ")[0]
    told = set(re.findall(r"`([a-z]+\.[a-z_]+)`", text)) - {"cohort.differs", "cohort.outlier", "cohort.more"}
    assert told == value_names() | set(NUMBERS)
