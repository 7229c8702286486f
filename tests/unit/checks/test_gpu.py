"""gpu_count and gpu_firmware; and what holds for every check of GPUs."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import gpu_health_cases as cases
import nvlink_cases
import pytest
from gpu_health_cases import Row, fixture, smi
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from value_cases import value_names

from firstlight.checks import gpu, gpu_memory, gpu_running, gpu_topology, nvlink
from firstlight.checks.capture import Command, Output
from firstlight.checks.engine import ASKED, Check, judge_check
from firstlight.checks.gpu_log import parse_log
from firstlight.cohort import NUMBERS
from firstlight.findings import ACTIONS, STATUSES, Finding
from firstlight.profile import Profile
from simulators.host.containers import hardware_facts

MODULES = (gpu, gpu_memory, gpu_running, nvlink, gpu_topology)
CHECKS: dict[str, Check] = {check.name: check for module in MODULES for check in module.CHECKS}
SHIM = Path(__file__).resolve().parents[3] / "simulators" / "host" / "shims" / "nvidia-smi"
CASES = [*cases.CASES, *nvlink_cases.CASES]
BARE = {"name": "example", "vendor": "Dell Inc.", "model": "PowerEdge XE9680"}


def profile(parts: dict[str, Any]) -> Profile:
    return Profile.from_dict({**BARE, **parts})


def judged(row: Row) -> list[Finding]:
    check, _, captured, want, parts, expect = row
    findings = CHECKS[check].judge(captured, profile(parts), expect)
    assert [(f.status, f.symptom, f.action) for f in findings] == [(s, y, a) for s, y, _, a in want]
    for finding, (_, _, place, _) in zip(findings, want, strict=True):
        assert place in finding.locator
        assert finding.check == check
        assert finding.evidence
    return findings


def rows(*checks: str) -> list[Any]:
    """The cases of these checks, as parameters."""
    return [pytest.param(row, id=f"{row[0]}: {row[1]}") for row in CASES if row[0] in checks]


@pytest.mark.parametrize("row", rows("gpu_count", "gpu_firmware"))
def test_judge(row: Row) -> None:
    judged(row)


def test_evidence_names_what_was_seen_and_expected() -> None:
    by_name = {row[1]: judged(row)[0].evidence for row in cases.COUNT + cases.FIRMWARE}

    assert by_name["8 of 8"] == "8 x NVIDIA H100 80GB HBM3, driver 580.95.05"
    assert by_name["alike"] == "VBIOS 96.00.89.00.01"
    assert by_name["7 of 8"].startswith("7 GPUs, 8 expected; seen: 0000:1b:00.0, 0000:43:00.0, ")
    assert by_name["told of 7, 8 attached"] == "nvidia-smi counts 8 GPUs and tells of 7"
    assert by_name["lost"] == "temperature/gpu_temp: GPU is lost"
    assert by_name["one below"] == "VBIOS 96.00.89.00.00, the profile accepts 96.00.89.00.01 or later"
    assert "96.00.9F.00.01: 0000:c3:00.0" in by_name["mixed"]


def test_columns_of_a_query_are_found_by_their_names() -> None:
    text = "a note\nindex, driver_version, name, pci.bus_id, uuid\n0, 580.1, NVIDIA H200, 00000000:19:00.0, GPU-1\n"

    findings = CHECKS["gpu_count"].judge({"nvidia_smi": Output(text)}, profile({"gpus": {"count": 1}}), {})

    assert findings == [Finding("gpu_count", "ok", "gpu_count", "", "1 x NVIDIA H200, driver 580.1")]


@pytest.mark.parametrize(
    ("version", "numbers"),
    [("96.00.A5.00.1A", (0x96, 0, 0xA5, 0, 0x1A)), ("N/A", None), ("96", None), ("96.00.0x1", None), ("", None)],
)
def test_vbios_versions_are_hexadecimal(version: str, numbers: tuple[int, ...] | None) -> None:
    assert gpu.vbios(version) == numbers


# -- what holds for every one of these checks ------------------------------------------------------------------------


@pytest.mark.parametrize("name", CHECKS)
def test_there_is_a_good_a_bad_and_an_unreadable_sample(name: str) -> None:
    statuses = {status for check, _, _, want, _, _ in CASES if check == name for status, *_ in want}

    assert statuses >= {"ok", "fail", "unknown"}


@pytest.mark.parametrize("module", MODULES)
def test_every_symptom_in_the_code_has_a_sample(module: Any) -> None:
    pattern = re.compile(r"(gpu|nvlink|fabric_manager)\.[a-z_]+")
    constants = {
        str(node.value)
        for node in ast.walk(ast.parse(Path(module.__file__).read_text()))
        if isinstance(node, ast.Constant) and pattern.fullmatch(str(node.value))
    }
    constants -= {need for check in module.CHECKS for need in check.needs} | value_names() | set(NUMBERS)
    sampled = {symptom for _, _, _, want, _, _ in CASES for _, symptom, *_ in want}

    # two that only a failed or a two-driver nvidia-smi shows: in the table of check_cases
    assert constants - {"gpu.driver_mismatch", "gpu.driver_not_loaded"} <= sampled


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("problem", ["timed_out", "no_tool", "not_permitted", "failed", "too_much_output"])
def test_what_cannot_be_read_is_unknown(name: str, problem: str) -> None:
    row = next(row for row in CASES if row[0] == name and row[3][0][0] == "ok")
    captured = {key: Output("", f"it is {problem}", 1, problem) for key in row[2]}

    findings = CHECKS[name].judge(captured, profile(row[4]), row[5])

    assert {(f.status, f.symptom) for f in findings} == {("unknown", f"{name}.{problem}")}


def _words() -> list[str]:
    text = "".join(output.text[:6000] for row in CASES for output in row[2].values())
    return sorted(set(re.split(r"\n|\t", text)))


TEXT = st.text(max_size=100) | st.lists(st.sampled_from(_words()), max_size=20).map("\n\t".join)
OUTPUT = st.builds(Output, TEXT, TEXT, st.sampled_from([0, 0, 1, 15, -9]), st.sampled_from(["", "", "timed_out"]))
EARLIER: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.dictionaries(st.sampled_from([nvlink_cases.IDENTITY.format(0), "0", "CRC Errors"]), inner),
    max_leaves=6,
)


@pytest.mark.parametrize("name", CHECKS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_judges_never_raise(name: str, data: Any) -> None:
    row = data.draw(st.sampled_from([row for row in CASES if row[0] == name]))
    captured = {key: data.draw(OUTPUT | st.just(output)) for key, output in row[2].items()}
    expect = {"nvlink_counters": data.draw(EARLIER), "gpu_processes": data.draw(EARLIER)}

    findings = CHECKS[name].judge(captured, profile(row[4]), expect)

    assert findings
    assert all(f.status in STATUSES and f.action in ACTIONS and len(f.evidence) <= 500 for f in findings)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_any_value_in_a_log_is_judged(data: Any) -> None:
    paths = sorted(parse_log(fixture("smi-q.8x-h100.xml")).gpus[0].values)  # type: ignore[union-attr]
    words = st.sampled_from(
        ["", "N/A", "Yes", "Active", "Unknown Error", "[GPU is lost]", "-1", "9" * 30, "1e9 C", "nan"]
    )
    output = smi({0: {path: data.draw(words) for path in data.draw(st.lists(st.sampled_from(paths), max_size=4))}})

    for name in ("gpu_count", "gpu_firmware", "gpu_memory", "gpu_running"):
        assert CHECKS[name].judge({"nvidia_smi": output}, profile({"gpus": cases.GPUS}), {})


def test_nothing_is_read_of_gpus_that_the_host_need_not_have() -> None:
    for parts in ({}, {"gpus": {"count": 8, "driver_required": False, "nvswitch": True, "nvlink": {"links": 18}}}):
        assert [name for name, check in CHECKS.items() if check.reads(profile(parts), {})] == []


def test_without_nvswitch_and_nvlink_nothing_is_asked_of_them() -> None:
    reads = {name for name, check in CHECKS.items() if check.reads(profile({"gpus": {"count": 8}}), {})}

    assert reads == {"gpu_count", "gpu_firmware", "gpu_memory", "gpu_running"}


def test_asked_by_name_they_read_all_the_same() -> None:
    for name in ("nvlink", "gpu_fabric", "gpu_topology"):
        assert CHECKS[name].reads(profile({}), {ASKED: {name}})


def test_one_nvidia_smi_serves_all_that_read_the_log() -> None:
    parts = profile({"gpus": cases.GPUS})
    sources = {source for check in CHECKS.values() for source in check.reads(parts, {}).values()}
    asked = [source.argv for source in sources if isinstance(source, Command) and source.argv[0] == "nvidia-smi"]

    assert sorted(asked) == [
        ("nvidia-smi", "-q", "-x"),
        ("nvidia-smi", "nvlink", "-e"),
        ("nvidia-smi", "nvlink", "-s"),
        ("nvidia-smi", "topo", "-m"),
    ]


# -- the lab's hosts ---------------------------------------------------------------------------------------------------


def _shim(folder: Path, *words: str) -> Output:
    environment = os.environ | {"FIRSTLIGHT_SIMULATOR": str(folder)}
    done = subprocess.run([sys.executable, SHIM, *words], capture_output=True, text=True, env=environment, timeout=20)
    return Output(done.stdout, done.stderr, done.returncode)


@pytest.mark.parametrize("gone", [None, 3])
def test_the_labs_hosts_come_out_as_they_are(tmp_path: Path, gone: int | None) -> None:
    (tmp_path / "hardware.json").write_text(json.dumps(hardware_facts(7, "FLB0007")))
    faults = {} if gone is None else {"gpu_missing": {"gpu": gone}}
    (tmp_path / "state.json").write_text(json.dumps({"faults": list(faults), "fault_parameters": faults}))
    parts = profile(
        {
            "gpus": {
                **cases.GPUS,
                "nvlink": nvlink_cases.PROFILE_18,
                "topology": {**nvlink_cases.AS_BUILT, "nics": "PXB"},
            }
        }
    )
    captured = {
        "nvidia_smi": _shim(tmp_path, "-q", "-x"),
        "status": _shim(tmp_path, "nvlink", "-s"),
        "errors": _shim(tmp_path, "nvlink", "-e"),
        "topology": _shim(tmp_path, "topo", "-m"),
    }

    found = {
        name: [f.symptom for f in judge_check(CHECKS[name], captured, parts, {})]
        for name in CHECKS
        if name != "gpu_fabric"  # of which a container sees nothing
    }

    want = {name: [name] for name in found}
    if gone is not None:
        want |= {"gpu_count": ["gpu.missing"], "gpu_topology": ["gpu_topology.incomplete"]}
        want |= {"nvlink": ["nvlink.incomplete"]}
    assert found == want
