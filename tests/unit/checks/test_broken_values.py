"""Nothing that is not told is good: from each check's good case one source, and one value, is broken at a time.

What a check does not judge stands below, with the reason; all else that is broken must leave a finding that is not ok.
And no text, however long, keeps a judge busy.
"""

from __future__ import annotations

import fnmatch
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pcie_cases
import pytest
from broken_values import broken, name_of
from check_cases import CASES, Case

from firstlight.checks import ALL_CHECKS
from firstlight.checks.capture import Output

BY_NAME = {check.name: check for check in ALL_CHECKS}
PROBLEMS = ("timed_out", "no_tool", "not_permitted", "refused", "failed", "too_much_output")
TEXTS = ("", "garbage\n")

ELSEWHERE = "it is another check's to say that this tells nothing"
NAMES = "only says where, in a finding of something else"
COMPARED = "only a value by which hosts are compared"
MACHINE = "only asked when something is missing, or told by no one"
HINT = "only says why, where something is wrong"
FALLBACK = "only read where the other source tells nothing"
# (check, source): what a check is content without
SOURCES: dict[tuple[str, str], str] = {
    ("gpu_topology", "nvidia_smi"): NAMES,
    ("nvlink", "nvidia_smi"): NAMES,
    ("dcgm_diag", "nvidia_smi"): NAMES,
    ("zfs_pool", "drives"): NAMES,
    ("gpu_fabric", "log"): HINT,
    ("gpu_fabric", "container"): "what is not known to be one is judged as bare metal",
    ("gpu_fabric", "virtual"): MACHINE,
    ("gpu_driver", "module"): "only with Secure Boot: see its cases",
    ("gpu_driver", "key"): HINT,
    ("gpu_driver", "container"): "what is not known to be one is judged as bare metal",
    ("gpu_driver", "nvidia_smi"): ELSEWHERE,
    ("gpu_rdma", "symbol"): FALLBACK,
    ("gpu_rdma", "log"): HINT,
    ("gpu_rdma", "container"): "what is not known to be one is judged as bare metal",
    ("hca_state", "ibstat"): FALLBACK,
    ("hca_firmware", "ibstat"): FALLBACK,
    ("hca_module", "load"): COMPARED,
    ("disk_read", "load"): COMPARED,
    ("disk_read", "virtualization"): MACHINE,
    ("drive_read", "virtualization"): MACHINE,
    ("failed_units", "units"): "empty is the answer of a host without failed units",
    ("clock", "tracking"): "without chronyc systemd's own clients are asked",
    ("clock", "sources"): "only where the site names its servers",
    ("clock", "now"): "without it, as in older captures, how old the last answer is cannot be told; see its cases",
    ("clock", "names"): "only where the site names its servers",
    ("clock", "timedatectl"): FALLBACK,
    ("clock", "timesync"): FALLBACK,
    ("clock", "status"): "only where the clock is wrong",
    ("kernel_xid", "journal"): FALLBACK,
    ("kernel_log", "journal"): FALLBACK,
    ("kernel_log", "warnings"): FALLBACK,
    ("memory_errors", "virtualization"): "what is not known to be virtual is judged as bare metal",
    ("pcie_link", "virtualization"): "what is not known to be bare metal is not excused, but for what is missing",
    ("pcie_link", "nvidia_smi"): "only where a GPU's link is slow",
    ("pcie_link", "load"): COMPARED,
    ("cpu_frequency", "virtualization"): MACHINE,
    ("cpu_idle", "virtualization"): MACHINE,
    ("host_tuning", "virtualization"): MACHINE,
    ("system", "virtualization"): MACHINE,
}

# of nvidia-smi -q a check judges only this (fnmatch, of the first GPU and above all)
LOG: dict[str, tuple[str, ...]] = {
    "gpu_count": ("driver_version", "gpu/product_name", "gpu/uuid"),
    "gpu_firmware": ("gpu/vbios_version",),
    "gpu_memory": (
        "gpu/ecc_mode/*", "gpu/ecc_errors/*", "gpu/volatile/*_uncorrectable*", "gpu/aggregate/*_uncorrectable*",
        "gpu/aggregate/sram_threshold_exceeded", "gpu/remapped_rows/*", "gpu/gpu_recovery_action",
        "gpu/row_remapper_histogram/row_remapper_histogram_none",
    ),
    "gpu_running": (
        "gpu/clocks_event_reasons/*_slowdown", "gpu/fb_memory_usage/used", "gpu/temperature/gpu_temp",
        "gpu/temperature/gpu_temp_tlimit", "gpu/gpu_power_readings/current_power_limit",
        "gpu/gpu_power_readings/default_power_limit", "gpu/applications_clocks/graphics_clock",
        "gpu/default_applications_clocks/graphics_clock",
    ),
    "gpu_fabric": ("driver_version", "gpu/fabric/state", "gpu/fabric/status"),
    "gpu_topology": (), "nvlink": (), "dcgm_diag": (), "pcie_link": (),
}  # fmt: skip

OTHERS = "other capabilities than this one"
WORK = "what the drive has done says nothing of its health"
# where many are alike, only values of these are broken
PARTS = {("pcie_link", "sysfs"): (pcie_cases.GPU, pcie_cases.HCA, pcie_cases.DRIVE, pcie_cases.UPLINK)}

NOT_ITS_OWN = "not this host's, or of another kind: a virtual function, Ethernet"
TOLD_TWICE = "the same is told in another place"
# (check, source, value, or value=what it is then): what it is content without
VALUES: dict[tuple[str, str, str], str] = {
    ("*", "*", "errors"): "why files are not there; what is missing is seen by itself",
    ("gpu_driver", "packages", "*"): "rows of packages: those of one version with the driver are counted, not listed",
    ("gpu_driver", "files", "*/sys/module/nvidia/version"): TOLD_TWICE,
    ("gpu_driver", "dkms", "zfs/*"): "of another module",
    ("gpu_driver", "module", "*"): SOURCES["gpu_driver", "module"],
    ("gpu_driver", "nvidia_smi", "*"): ELSEWHERE,
    ("gpu_rdma", "files", "*/ib_core/initstate"): "that it is there is enough",
    ("gpu_rdma", "files", "*/node_type"): "that one is there is enough",
    ("gpu_rdma", "config", "CONFIG_DMABUF_MOVE_NOTIFY"): HINT,
    ("gpu_rdma", "log", "*"): HINT,
    ("gpu_fabric", "manager", "*State"): "that it is active is enough",
    ("gpu_fabric", "manager", "Result"): HINT,
    ("gpu_topology", "topology", "*"): "the legend below the matrix",
    ("dcgm_diag", "diag", "*/category"): "a test counts, whatever it is called",
    ("dcgm_diag", "diag", "*/name"): "a test counts, whatever it is called",
    ("dcgm_diag", "diag", "*Serials/*"): NAMES,
    ("dcgm_diag", "diag", "*Device IDs/*"): NAMES,
    ("dcgm_diag", "diag", "*ersion*"): COMPARED,
    ("dcgm_diag", "diag", "*/info*"): HINT,
    ("hca_*", "*", "*/mlx5_[23]/*"): NOT_ITS_OWN,
    ("hca_state", "sysfs", "*/mlx5_[89]/*"): NOT_ITS_OWN,
    ("hca_*", "*", "*/link_layer"): "what is not known to be Ethernet is judged as InfiniBand",
    ("hca_state", "sysfs", "*/phys_state"): "a port that is Active has its link",
    ("hca_firmware", "sysfs", "*/board_id"): "a board of another name is of another kind",
    ("hca_errors", "counters", "*/boot_id"): "without it the counters count since the boot",
    ("hca_module", "hwmon", "*/fw_ver"): "that it is there says that the HCA is",
    ("hca_module", "hwmon", "*_label"): NAMES,
    ("hca_module", "hwmon", "*_input=gone"): "mlxlink tells it too; see its cases for each alone",
    ("hca_module", "hwmon", "*_crit=gone"): "an adapter may have none",
    ("hca_module", "mlxlink", "devices/mlx5_2/*"): NOT_ITS_OWN,
    ("hca_module", "mlxlink", "devices/*/code"): "what it printed is judged",
    ("hca_module", "mlxlink", "devices/*/error"): HINT,
    ("hca_module", "mlxlink", "*/status/*"): "what it printed is judged",
    ("hca_module", "mlxlink", "*/Module Info/[!FTV]*"): HINT,
    ("hca_module", "mlxlink", "*/Module Info/T*"): "hwmon tells the heat too; see its cases for each alone",
    ("hca_module", "mlxlink", "*/Module Info/Vo*"): HINT,
    ("hca_module", "mlxlink", "*/Module Info/Vendor [SN]*"): NAMES,
    ("hca_module", "mlxlink", "*/Module Info/Vendor Part Number='garbage'"): "a module that the profile does not name",
    ("hca_module", "mlxlink", "problem"): "empty is the reader's word for none",
    ("nvme_count", "nvme_list", "Devices/0/[!P]*"): "a drive counts by its size",
    ("nvme_count", "nvme_list", "Devices/0/ProductName"): NAMES,
    ("nvme_count", "sysfs", "*/state=gone"): "a machine may show its drives under other controllers' numbers",
    ("disk_usage", "statvfs", "*/size"): "used and available are judged",
    ("disk_usage", "statvfs", "/var/[aius]*"): "the same file system as /",
    ("mounts_writable", "mounts", "*/fstab"): "without it what is mounted is judged",
    ("d*", "drives", "drives/0/[nt][ar][!x]*"): NAMES,
    ("d*", "drives", "drives/0/model"): NAMES,
    ("d*", "drives", "drives/0/s[ie][zr]*"): NAMES,
    ("disk_health", "drives", "drives/0/code"): "what it printed is judged",
    ("disk_health", "drives", "drives/0/error"): HINT,
    ("disk_health", "drives", "drives/0/problem"): "empty is the reader's word for none",
    ("disk_health", "drives", "*/text/*_units_*"): WORK,
    ("disk_health", "drives", "*/text/host_*"): WORK,
    ("disk_health", "drives", "*/text/*_time"): WORK,
    ("disk_health", "drives", "*/text/power_*"): WORK,
    ("disk_health", "drives", "*/text/unsafe_shutdowns"): WORK,
    ("disk_health", "drives", "*/text/num_err_log_entries"): WORK,
    ("disk_health", "drives", "*/text/temperature*"): "that it is too hot is a bit of critical_warning",
    ("docker", "info", "*"): COMPARED,
    ("exporters", "node_exporter", "*"): "that metrics come is enough",
    ("clock", "timedatectl", "*"): FALLBACK,
    ("clock", "timesync", "*"): FALLBACK,
    ("clock", "status", "*"): SOURCES["clock", "status"],
    ("kernel_*", "dmesg", "*"): "lines without fault",
    ("memory_errors", "edac", "*/meminfo"): "a kernel may be built without counting pages given up",
    ("memory_errors", "edac", "*/seconds_since_reset"): "without it the count is that of a day",
    ("memory_errors", "edac", "*/mc[01]/?e_count"): "the sum of its modules, which are counted each",
    ("memory_errors", "edac", "*/dimm_label"): NAMES,
    ("pcie_link", "sysfs", "*/names/*"): NAMES,
    ("pcie_link", "sysfs", "*/vendor"): "it only tells a GPU from a server's own graphics",
    ("pcie_link", "sysfs", "*/virtual*"): "what is not known to be a virtual function is judged",
    ("pcie_link", "sysfs", "*/max_link_*"): "the profile says what is wanted",
    ("pcie_link", "sysfs", "*/model"): "which drive is the OS disk's; another counts",
    ("pcie_acs", "lspci", "Control"): OTHERS,
    ("pcie_acs", "lspci", "Capabilities"): OTHERS,
    ("pcie_acs", "lspci", "DevCap"): OTHERS,
    ("pcie_acs", "lspci", "ACSCap"): OTHERS,
    ("pcie_acs", "lspci", "Kernel driver in use"): OTHERS,
    ("pcie_acs", "lspci", "0000"): "a bridge that is not listed is not seen",
    ("cpu_frequency", "sysfs", "*driver"): HINT,
    ("cpu_frequency", "sysfs", "*_available_*"): HINT,
    ("cpu_frequency", "sysfs", "driver/*=gone"): "there only with some drivers",
    ("cpu_idle", "sysfs", "driver"): NAMES,
    ("cpu_idle", "sysfs", "qos"): "without it nothing holds the CPUs back",
    ("cpu_idle", "sysfs", "states/0/0"): NAMES,
    ("host_tuning", "values", "*/swaps"): "without swap there is no such text",
    ("host_tuning", "files", "*.conf"): HINT,
    ("host_tuning", "timer", "LoadState"): "that it is active is enough",
    ("zfs_pool", "status", "scan"): "a pool that was never scrubbed has no such line",
    ("zfs_pool", "drives", "*"): NAMES,
    ("system", "files", "*/os-release"): COMPARED,
    ("system", "files", "*/osrelease"): COMPARED,
    ("system", "files", "*/dmi/*"): COMPARED,
    ("system", "files", "*/microcode/*"): COMPARED,
    ("system", "files", "*/meminfo"): COMPARED,
    ("system", "files", "*/smt/control"): "older kernels have no such file: what is off counts then",
}


GOOD = {"clock": "good"}  # which good case, where the first is not the whole one


def good(check: str) -> Case:
    named = GOOD.get(check, "")
    return next(case for case in CASES if case.check == check and case.want[0][0] == "ok" and named in case.name)


def wholly_ok(case: Case, key: str, output: Output) -> bool:
    findings = BY_NAME[case.check].judge({**case.captured, key: output}, case.wanted_profile(), case.expect)
    assert findings
    return all(finding.status == "ok" for finding in findings)


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_one_source_that_is_broken_is_not_wholly_ok(name: str) -> None:
    case = good(name)
    for key, output in case.captured.items():
        if (name, key) in SOURCES:
            continue
        for problem in PROBLEMS:
            assert not wholly_ok(case, key, Output("", f"it is {problem}", 1, problem)), (key, problem)
        for text in TEXTS:
            assert not wholly_ok(case, key, replace(output, text=text)), (key, text)


def is_judged(check: str, key: str, where: str, value: Any) -> bool:
    if not where.startswith(PARTS.get((check, key), "")):
        return False
    if key == "nvidia_smi" and check in LOG:
        return any(fnmatch.fnmatchcase(where, pattern) for pattern in LOG[check])
    full = f"{where}={name_of(value)}"
    return not any(
        fnmatch.fnmatchcase(check, c)
        and fnmatch.fnmatchcase(key, k)
        and (fnmatch.fnmatchcase(where, w) or fnmatch.fnmatchcase(full, w))
        for c, k, w in VALUES
    )


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_one_value_that_is_broken_is_not_wholly_ok(name: str) -> None:
    case = good(name)
    content = [
        f"{key} {where}: {name_of(value)}"
        for key, output in case.captured.items()
        for where, value, text in broken(output.text)
        if is_judged(name, key, where, value) and wholly_ok(case, key, replace(output, text=text))
    ]

    assert content == []


def test_what_checks_are_content_without_is_there() -> None:
    """A source or check of another name excuses nothing."""
    sources = {(case.check, key) for case in CASES for key in case.captured}
    assert set(SOURCES) <= sources
    for check, key, where in VALUES:
        assert any(fnmatch.fnmatchcase(c, check) and fnmatch.fnmatchcase(k, key) for c, k in sources), (
            check,
            key,
            where,
        )


# ---------------------------------------------------------------- time

LONG = 200_000
BLANKS = ("\n", " ", "\t", " \n", "\t\n", "\r\n", "x\n", ":", "=", "0", ",", ".", '"', "<", "{", "- ")
SECONDS = 2.0  # a hundred times of what any of them needs; what is quadratic needs minutes


def long_texts(text: str) -> Iterator[str]:
    for blank in BLANKS:
        many = blank * (LONG // len(blank))
        yield many
        yield text[:100_000] + many
    for value in ("\n" * LONG, " \n" * (LONG // 2), "\t" * LONG):
        yield from long_values(text, value)


def long_values(text: str, value: str) -> Iterator[str]:
    """A long text in the place of all values of JSON at once, alone and behind what is there."""
    try:
        said = json.loads(text)
    except ValueError:
        return
    for behind in (False, True):
        yield json.dumps(filled(said, value, behind, [20]))


def filled(value: Any, new: str, behind: bool, left: list[int]) -> Any:
    if isinstance(value, dict):
        return {key: filled(inner, new, behind, left) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, new, behind, left) for inner in value]
    if isinstance(value, str) and left[0]:
        left[0] -= 1
        return (value if behind else "") + new
    return value


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_no_text_keeps_a_judge_busy(name: str) -> None:
    case, check = good(name), BY_NAME[name]
    profile = case.wanted_profile()
    for key, output in case.captured.items():
        for text in long_texts(output.text):
            captured = {**case.captured, key: replace(output, text=text)}
            started = time.process_time()
            check.judge(captured, profile, case.expect)
            for keep in check.keeps.values():
                keep(captured)
            if check.values:
                check.values(captured, profile)
            assert time.process_time() - started < SECONDS, (key, text[:20], text[-20:])
