"""Profiles as values; their files are in test_sitefiles."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight.checks import ALL_CHECKS
from firstlight.profile import TUNING_KEYS, Profile

BARE: dict[str, Any] = {"name": "x", "vendor": "v", "model": "m"}


def test_counts_and_limits() -> None:
    profile = Profile.from_dict({**BARE, "gpus": {"count": 8}, "limits": {"disk_used_percent": 90}})

    assert profile.count("gpus") == 8
    assert profile.count("nvme") == 0
    assert profile.limit("disk_used_percent", 95) == 90.0
    assert profile.limit("clock_skew_seconds", 30) == 30.0


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, "a profile is a mapping, not NoneType"),
        (["x"], "a profile is a mapping, not list"),
        ({**BARE, "tuning": {"governor": "x"}}, "unknown key 'governor' of tuning; known are pcie_acs, cpu_governor"),
        ({**BARE, "gpu": {}}, "unknown key 'gpu'; known are name, vendor, model, gpus"),
        ({"name": "x", "vendor": "v"}, "key 'model' is missing"),
        ({**BARE, "model": 9680}, "model must be text, not 9680"),
        ({**BARE, "gpus": 8}, "gpus must be a mapping, not 8"),
        ({**BARE, "gpus": {"count": "8"}}, "gpus.count must be a whole number, 0 or more, not '8'"),
        ({**BARE, "gpus": {"count": -1}}, "gpus.count must be a whole number, 0 or more, not -1"),
        ({**BARE, "gpus": {"count": True}}, "gpus.count must be a whole number, 0 or more, not True"),
        (
            {**BARE, "hcas": {"firmware": 28.43}},
            r'hcas.firmware must be a version in quotes such as "28.43.2026", not 28.43',
        ),
        ({**BARE, "hcas": {"module_firmware": "47.171.3"}}, "hcas.module_firmware must be a mapping, not '47.171.3'"),
        ({**BARE, "hcas": {"module_firmware": {"MMA4Z00": "new"}}}, "hcas.module_firmware.MMA4Z00 must be a version"),
        ({**BARE, "hcas": {"count": 8, "rate_gbps": "400G"}}, "hcas.rate_gbps must be a number, not '400G'"),
        ({**BARE, "nvme": {"count": 8, "min_bytes": None}}, "nvme.min_bytes must be a number, not None"),
        ({**BARE, "limits": {"disk_used_percent": float("nan")}}, "limits.disk_used_percent must be a number, not nan"),
        ({**BARE, "limits": []}, r"limits must be a mapping, not \[\]"),
        ({**BARE, "gpus": {"ecc": "no"}}, "gpus.ecc must be true or false, not 'no'"),
        (
            {**BARE, "gpus": {"vbios": 96.0}},
            'gpus.vbios must be a version in quotes such as "96.00.A5.00.1A", not 96.0',
        ),
        ({**BARE, "gpus": {"vbios": "new"}}, "gpus.vbios must be a version in quotes"),
        ({**BARE, "gpus": {"power_watts": "700 W"}}, "gpus.power_watts must be a number, not '700 W'"),
        ({**BARE, "gpus": {"sm_mhz": None}}, "gpus.sm_mhz must be a number, not None"),
        ({**BARE, "gpus": {"nvlink": 18}}, "gpus.nvlink must be a mapping, not 18"),
        ({**BARE, "gpus": {"nvlink": {"gbps": 1}}}, "'gbps' of gpus.nvlink; known are links, gbytes_per_second"),
        ({**BARE, "gpus": {"nvlink": {"links": 0}}}, "gpus.nvlink.links must be a whole number from 1 to 256, not 0"),
        ({**BARE, "gpus": {"nvlink": {"gbytes_per_second": "26 GB/s"}}}, "gbytes_per_second must be a number, not '26"),
        ({**BARE, "gpus": {"topology": {"gpus": 18}}}, "gpus.topology.gpus must be as nvidia-smi topo -m has it"),
        ({**BARE, "gpus": {"topology": {"nics": "near"}}}, "gpus.topology.nics must be PIX, PXB, PHB, NODE or SYS"),
        ({**BARE, "gpus": {"topology": {"numa": [0, "1"]}}}, r"gpus.topology.numa must be a list of NUMA nodes"),
        ({**BARE, 1: 2, "other": 3}, "unknown key 'other'; known are name"),
        ({**BARE, 1: 2}, "unknown key 1; known are name"),
        ({**BARE, "tuning": {1: 2, "swap": "disabled"}}, "unknown key 1 of tuning; known are"),
        ({**BARE, "tuning": {"sysctl": [1]}}, r"tuning.sysctl must be a mapping of a key such as vm.max.* not \[1\]"),
        ({**BARE, "tuning": {"sysctl": {"vm.swappiness": None}}}, "to text or a whole number, not {'vm.swappiness'"),
        ({**BARE, "tuning": {"hugepages": 1}}, "tuning.hugepages must be a mapping of a size in kB, .* not 1"),
        ({**BARE, "tuning": {"hugepages": {"2M": 8}}}, "tuning.hugepages must be .* not {'2M': 8}"),
        ({**BARE, "tuning": {"limits": "x"}}, "tuning.limits must be a mapping of nofile or memlock to .* not 'x'"),
        ({**BARE, "tuning": {"limits": {1: 2}}}, "tuning.limits must be a mapping of .* not {1: 2}"),
        ({**BARE, "tuning": {"transparent_hugepages": 1}}, "must be always, madvise or never, not 1"),
        ({**BARE, "tuning": {"cpu_governor": ["x"]}}, "tuning.cpu_governor must be a word as the kernel spells it"),
        ({**BARE, "tuning": {"swap": False}}, "tuning.swap must be enabled or disabled, not False"),
        ({**BARE, "limits": {"hca_errors_per_hour": -1}}, "limits.hca_errors_per_hour must be 0 or more, not -1"),
        ({**BARE, "nvme": {"min_bytes": -1}}, "nvme.min_bytes must be 0 or more, not -1"),
        ({**BARE, "gpus": {"model": 100}}, "gpus.model must be text, not 100"),
        ({**BARE, "gpus": {"nvswitch": "yes"}}, "gpus.nvswitch must be true or false, not 'yes'"),
        ({**BARE, "gpus": {"rdma": 1}}, "gpus.rdma must be peermem, dmabuf or both, not 1"),
        ({**BARE, "gpus": {"pcie": 16}}, "gpus.pcie must be a mapping of lanes and generation, not 16"),
        ({**BARE, "hcas": {"pcie": {"lanes": "x16"}}}, "hcas.pcie.lanes must be a whole number from 1 to 32, not 'x16"),
        ({**BARE, "hcas": {"cabled": "mlx5_0"}}, "hcas.cabled must be a list of names such as mlx5_0"),
        ({**BARE, "ethernet": {"cabled": "eth0"}}, "ethernet.cabled must be a list of ids, not 'eth0'"),
        ({**BARE, "psus": {"slots": [1]}}, r"psus.slots must be a list of ids, not \[1\]"),
        ({**BARE, "os_disk": {"model": 1}}, "os_disk.model must be text, not 1"),
        ({**BARE, "os_disk": {"bus": "scsi"}}, "os_disk.bus must be nvme, sata, sas, virtio or usb, not 'scsi'"),
        ({**BARE, "firmware": {"bios": 2.0}}, 'firmware.bios must be a version in quotes such as "2.5.4", not 2.0'),
        ({**BARE, "bios": {"BootMode": True}}, "bios.BootMode must be text or a whole number, not True"),
        ({**BARE, "reboot": {"services": "x.service"}}, "reboot.services must be a list of units, not 'x.service'"),
    ],
)
def test_what_is_wrong_is_named(data: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Profile.from_dict(data)


@pytest.mark.parametrize(
    "data", [{"limits": {"a\x1b[31m\nb": "x"}}, {"hcas": {"module_firmware": {"a\x1b[31m\nb": 1}}}]
)
def test_a_key_of_a_strangers_profile_cannot_forge_a_line(data: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"a\?\[31m b must be") as refused:
        Profile.from_dict({**BARE, **data})
    assert str(refused.value).isprintable()


def test_tuning_is_taken_as_profiles_and_roles_give_it() -> None:
    tuning = {
        "pcie_acs": "disabled", "cpu_governor": "performance", "cpu_energy_preference": "", "swap": "",
        "hugepages": {"2048": 64, 1048576: 0}, "transparent_hugepages": "madvise", "numa_balancing": "disabled",
        "sysctl": {"vm.max_map_count": 1048576, "net.ipv4.tcp_rmem": "4096 87380 16777216"},
        "limits": {"nofile": 1048576, "memlock": "unlimited"},
    }  # fmt: skip

    assert Profile.from_dict({**BARE, "tuning": tuning}).tuning == tuning
    assert Profile.from_dict({**BARE, "gpus": {"count": 8, "rdma": ""}}).gpus["rdma"] == ""


def test_what_gpu_checks_expect_is_taken() -> None:
    gpus = {
        "count": 8,
        "ecc": True,
        "vbios": "96.00.A5.00.1A",
        "power_watts": 700,
        "sm_mhz": 1980,
        "nvlink": {"links": 18, "gbytes_per_second": 26.562},
        "topology": {"gpus": "NV18", "nics": "PXB", "numa": [0, 0, 0, 0, 1, 1, 1, 1]},
    }

    assert Profile.from_dict({**BARE, "gpus": gpus}).gpus == gpus


def test_lowest_firmware_of_hcas_is_taken() -> None:
    hcas = {"count": 8, "firmware": "28.43.2026", "module_firmware": {"MMA4Z00-NS400": "47.171.3"}}

    assert Profile.from_dict({**BARE, "hcas": hcas}).hcas == hcas


VALUES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.integers(), max_size=2)
)


def _every_source_can_be_told(profile: Profile) -> bool:
    reads = [check.reads(profile, {"asked": [c.name for c in ALL_CHECKS]}) for check in ALL_CHECKS]
    return all(isinstance(row, dict) for row in reads)


@given(st.sampled_from(TUNING_KEYS), st.recursive(VALUES, lambda inner: st.dictionaries(st.text(max_size=3), inner)))
def test_no_tuning_that_is_taken_breaks_a_check(key: str, value: Any) -> None:
    try:
        profile = Profile.from_dict({**BARE, "tuning": {key: value}})
    except ValueError:
        return
    assert _every_source_can_be_told(profile)


@given(
    st.dictionaries(
        st.sampled_from([*Profile.__dataclass_fields__, "other"]),
        VALUES
        | st.dictionaries(
            st.sampled_from(["count", "min_bytes", "rate_gbps", "x", "nvlink", "topology", "vbios", "ecc"]),
            VALUES,
            max_size=3,
        ),
    )
)
def test_any_mapping_is_a_profile_or_a_value_error(data: dict[str, Any]) -> None:
    try:
        profile = Profile.from_dict({**BARE, **data})
    except ValueError:
        return
    assert all(profile.count(part) >= 0 for part in ("gpus", "hcas", "ethernet", "nvme", "psus"))
    assert all(profile.limit(name, 0) is not None for name in profile.limits)
