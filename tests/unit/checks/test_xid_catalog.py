"""The catalogues of Xids and SXids: whole, readable, and in the words that everything else uses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from check_cases import PROFILE
from test_host_check_module import host_check

from firstlight.checks.sxid_catalog import SXIDS
from firstlight.checks.xid import FAULTS, Entry, nvlink_rules, sxids, xids
from firstlight.checks.xid_catalog import NVLINK, XIDS
from firstlight.findings import ACTIONS

# how many numbers each block of SXids has in ctrl_dev_nvswitch.h, its own included
BLOCKS = {
    10: 11, 11: 48, 12: 52, 13: 9, 14: 19, 15: 21, 16: 4, 17: 9, 18: 21, 19: 85, 20: 39, 21: 11, 22: 14, 23: 18, 24: 11,
    25: 11, 26: 9, 27: 8, 28: 6, 29: 7, 30: 7,
}  # fmt: skip


def rows(text: str) -> list[str]:
    return text.strip().splitlines()


def test_every_number_is_there_once() -> None:
    assert [int(row.split()[0]) for row in rows(XIDS)] == list(range(1, 177))
    numbers = [block * 1000 + n for block, count in BLOCKS.items() for n in range(count)]
    assert [int(row.split()[0]) for row in rows(SXIDS)] == numbers


@pytest.mark.parametrize("catalogue", [xids, sxids, nvlink_rules])
def test_every_row_speaks_our_words(catalogue) -> None:
    for key, entry in catalogue().items():
        assert entry.fault in FAULTS, key
        assert entry.status in ("ok", "warn", "fail"), key
        assert entry.action in ACTIONS, key
        assert len(entry.meaning) > 3, key
        assert entry.meaning == entry.meaning.strip(), key
        assert (entry.status == "fail") <= (entry.action != "none"), f"{key}: what takes a host out needs an action"
        assert (entry.status == "ok") <= (entry.action == "none"), key
        if entry.fault == "application":
            assert entry.status != "fail" or key == 19052, f"{key}: a program's fault is no reason against the host"


def test_names_are_unique_and_as_nvidia_writes_them() -> None:
    for catalogue in (xids(), sxids()):
        names = [entry.name for entry in catalogue.values()]
        assert len(set(names)) == len(names)
        assert all(name == name.upper() and name.replace("_", "").isalnum() for name in names)


@pytest.mark.parametrize(
    ("number", "entry"),
    [
        (13, ("GR_EXCEPTION", "application", "warn", "none")),
        (31, ("FIFO_ERROR_MMU_ERR_FLT", "application", "warn", "none")),
        (45, ("PREEMPTIVE_REMOVAL", "application", "warn", "none")),
        (48, ("GPU_ECC_DBE", "hardware", "fail", "reboot")),
        (64, ("INFOROM_PAGE_RETIREMENT_FAILURE", "hardware", "fail", "replace")),
        (79, ("GPU_HAS_FALLEN_OFF_THE_BUS", "hardware", "fail", "power_cycle")),
        (106, ("SMBPBI_TEST_MESSAGE", "driver", "ok", "none")),
        (119, ("GSP_RPC_TIMEOUT", "driver", "fail", "reboot")),
        (176, ("PCIE_CORRECTABLE_ERROR_FAULT", "hardware", "fail", "escalate")),
    ],
)
def test_well_known_xids(number: int, entry: tuple[str, ...]) -> None:
    assert xids()[number][:4] == entry


@pytest.mark.parametrize(
    ("number", "entry"),
    [
        (12028, ("NPORT_EGRESS_PRIVRSPERR", "application", "warn", "none")),
        (20034, ("DLPL_LTSSM_FAULT_UP", "hardware", "fail", "reboot")),
        (22013, ("MINION_NONFATAL", "hardware", "ok", "none")),
        (10006, ("HOST_THERMAL_SHUTDOWN", "system", "fail", "escalate")),
    ],
)
def test_well_known_sxids(number: int, entry: tuple[str, ...]) -> None:
    assert sxids()[number][:4] == entry


def test_the_rules_of_nvlink_are_of_known_xids() -> None:
    rules = nvlink_rules()
    assert len(rules) == sum(
        len(units.split("/")) * len(codes.split(",")) * len(errors.split(","))
        for _, units, codes, errors, *_ in (row.split(None, 4) for row in rows(NVLINK))
    ), "two rows for the same case"
    assert {number for number, *_ in rules} == set(range(144, 151))
    assert all(0 <= code < 64 and 0 <= error < 2**32 for _, _, code, error in rules)
    assert rules[149, "NETIR_LINK_DOWN", 33, 0][1:4] == ("hardware", "fail", "reboot")


def test_the_examples_of_the_docs_are_as_the_catalogue_has_them() -> None:
    text = (Path(__file__).parents[3] / "docs" / "xid.md").read_text()
    table = text.split("| usual fault |")[1].split("\n\n")[0]
    said: dict[int, tuple[str, str, str]] = {}
    for words, examples, status, action in re.findall(
        r"^\| ([^|]+) \| ([0-9][^|]*) \| (\w+) \| ([^|]+) \|$", table, re.M
    ):
        fault = words.replace(",", " ").split()[0]
        for number in re.findall(r"[0-9]+", examples):
            said[int(number)] = (fault, status, re.split(r"\W", action)[0])
        rest = action.partition(";")[2]
        if rest:  # "none; 92, 123 want a person (escalate)": the others of the row
            said.update(
                {int(n): (fault, status, re.findall(r"\((\w+)\)", rest)[0]) for n in re.findall(r"[0-9]+", rest)}
            )

    assert len(said) > 25
    for number, (fault, status, action) in said.items():
        entry = xids()[number]
        assert (status, action) == (entry.status, entry.action), number
        assert fault in (entry.fault, "notices"), number


def test_what_is_in_no_row_is_in_no_catalogue() -> None:
    assert 0 not in xids()
    assert 177 not in xids()
    assert 20039 not in sxids()
    assert isinstance(xids()[1], Entry)


def test_the_catalogues_reach_a_host(tmp_path: Path) -> None:
    """Ansible sends only what a module imports; the meaning of a number comes from the catalogue that it sent."""
    log = tmp_path / "log"
    lines = ("NVRM: Xid (PCI:0000:9b:00): 46, x", "nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 26006, SOE HALTED")
    log.write_text("".join(f"[    1.0] {line}\n" for line in lines))
    tools = {"dmesg": f"cat {log}", "journalctl": "exit 1"}

    result = host_check(tmp_path, tools, profile=PROFILE, checks=["kernel_xid"])

    said = {f["symptom"]: f["evidence"] for f in result["findings"]}
    assert said["xid.46"].startswith("the GPU stopped processing (usually hardware): ")
    assert said["sxid.26006"].startswith("switch's own processor: it halted (usually hardware): ")
