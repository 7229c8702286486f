"""The judges: what each must say about good and bad captured outputs, and that there is a bad one for every failure."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from check_cases import CASES, FIXTURES, Case
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_triage_docs import reasons
from value_cases import value_names

from firstlight import checks
from firstlight.checks import ALL_CHECKS, xid
from firstlight.checks.capture import Output
from firstlight.checks.gpu import parse_query
from firstlight.checks.kernel_log_rules import RULES
from firstlight.cohort import NUMBERS
from firstlight.findings import ACTIONS, STATUSES
from firstlight.profile import Profile

BY_NAME = {check.name: check for check in ALL_CHECKS}
FOLDER = Path(checks.__file__).parent
JUDGES = [*FOLDER.glob("*.py"), FOLDER.parent / "zfs" / "health.py"]
# texts of a symptom's form in the code that are none: add to them only what no finding can say
NO_SYMPTOMS = {"docker.service", "index.json", "kernel.numa_balancing", "pci.bus_id"}
# those of findings that are tried elsewhere: test_image.py, test_kernel_log.py
OTHER_TESTS = {"install.wrong_", "install.wrong_image", "kernel.new"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.check}: {case.name}")
def test_judge(case: Case) -> None:
    findings = BY_NAME[case.check].judge(case.captured, case.wanted_profile(), case.expect)

    assert [(f.status, f.symptom, f.action) for f in findings] == [(s, y, a) for s, y, _, a in case.want]
    for finding, (_, _, place, _) in zip(findings, case.want, strict=True):
        assert place in finding.locator
        assert finding.check == case.check
        assert finding.evidence


def test_every_check_has_a_good_a_bad_and_an_unreadable_sample() -> None:
    for check in ALL_CHECKS:
        of_check = [case for case in CASES if case.check == check.name]
        statuses = {status for case in of_check for status, *_ in case.want}
        # a failed unit is only a warning, by design
        assert "fail" in statuses or (check.name == "failed_units" and "warn" in statuses), (
            f"{check.name}: no bad sample"
        )
        assert "ok" in statuses, f"{check.name}: no good sample"
        assert "unknown" in statuses, f"{check.name}: no unreadable sample"


def dotted(source: str) -> set[str]:
    """All texts in a Python source that have the form of a symptom."""
    texts = {node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)}
    return {text for text in texts if isinstance(text, str) and re.fullmatch(r"[a-z0-9_]+\.[a-z0-9_]+", text)}


def symptoms_in_code() -> set[str]:
    """Whatever has the form of a symptom is one, of any part, unless it is known to be something else."""
    found = set().union(*(dotted(path.read_text()) for path in JUDGES))
    needs = {need for check in ALL_CHECKS for need in check.needs}
    return found - needs - value_names() - set(NUMBERS) - NO_SYMPTOMS - OTHER_TESTS


def in_samples(cases: Iterable[Case]) -> set[str]:
    return {symptom for case in cases for _, symptom, *_ in case.want}


# Symptoms that are no text with a dot in the code: those of rules, of numbers, and of a check's name with a reason.
LOGS = FIXTURES.parent / "kernel_log"
# the engine's own reasons and one that takes time, and the file that tries them
TRIED_ELSEWHERE = {
    **dict.fromkeys(("judge_failed", "more", "no_result", "skipped", "too_much_output"), "test_check_engine.py"),
    "not_captured": "test_folder.py",
    "patterns_too_slow": "test_kernel_log_site.py",
}


def test_every_rule_of_the_kernel_log_has_a_sample() -> None:
    samples = {f"kernel.{line.split(' | ')[0]}" for line in (LOGS / "bad.txt").read_text().splitlines()}

    assert {rule.symptom for rule in RULES} == samples


def test_every_xid_that_is_judged_by_its_words_has_a_failing_sample() -> None:
    events, _ = xid.parse((LOGS / "xid.nvlink.txt").read_text().splitlines())
    failing = {finding.symptom for finding in xid.judge("kernel_xid", [events]) if finding.status == "fail"}

    assert failing == {f"xid.{number}" for number in range(144, 151)}


@pytest.mark.parametrize("key", xid.nvlink_rules(), ids=lambda key: "-".join(map(str, key)))
def test_every_rule_of_nvlink_judges_a_line(key: tuple[int, str, int, int]) -> None:
    number, unit, code, error = key
    entry = xid.nvlink_rules()[key]
    words = f"{unit} Nonfatal XC0 i0 Link 03 (0x{code << 20:08x} 0x{error:08x} 0x0)"

    (event,), broken = xid.parse([f"NVRM: Xid (PCI:0000:3b:00): {number}, {words}"])

    assert (event.number, event.entry, event.link, broken) == (number, entry, 3, [])
    found = [(f.symptom, f.status, f.action) for f in xid.judge("kernel_xid", [[event]])]
    assert found == ([] if entry.status == "ok" else [(f"xid.{number}", entry.status, entry.action)])


def test_every_reason_that_a_check_could_not_look_has_a_sample() -> None:
    samples = in_samples(CASES)
    words = {symptom.partition(".")[2] for symptom in samples}
    missing = {
        reason.partition(".")[2]
        for reason in reasons()
        if reason not in samples and not (reason.startswith("CHECK.") and reason[6:] in words)
    }

    assert len(reasons()) > 30
    assert missing == set(TRIED_ELSEWHERE)
    for reason, name in TRIED_ELSEWHERE.items():
        assert reason in (Path(__file__).parent / name).read_text(), reason


def test_every_symptom_in_the_code_has_a_sample() -> None:
    in_code = symptoms_in_code()

    assert len(in_code) > 150
    assert in_code - in_samples(CASES) == set()


def test_no_part_is_left_out_of_the_guard() -> None:
    """Without the samples of any one part it says so; and what a finding says is seen, of whatever part."""
    in_code = symptoms_in_code()
    parts = {symptom.partition(".")[0] for symptom in in_code}
    assert {"pcie", "zfs", "container", "firmware", "drive", "gpu", "clock"} <= parts
    for part in parts:
        others = [case for case in CASES if not any(symptom.startswith(f"{part}.") for _, symptom, *_ in case.want)]
        assert any(symptom.startswith(f"{part}.") for symptom in in_code - in_samples(others)), part
    assert dotted('Finding(CHECK, "fail", "widget.loose", f"widget {n}", "x.y z", action="reseat")') == {"widget.loose"}


def test_what_the_guard_leaves_out_is_in_the_code() -> None:
    assert set().union(*(dotted(path.read_text()) for path in JUDGES)) >= NO_SYMPTOMS | OTHER_TESTS


def test_every_fixture_is_used() -> None:
    used = {
        path.name for path in FIXTURES.iterdir() if path.name in (Path(__file__).parent / "check_cases.py").read_text()
    }

    assert used == {path.name for path in FIXTURES.iterdir()} - {"README.md"}


def test_checks_declare_what_they_look_at() -> None:
    fields = Profile.__dataclass_fields__
    assert len(BY_NAME) == len(ALL_CHECKS)
    for check in ALL_CHECKS:
        assert re.fullmatch(r"[a-z_]+", check.name)
        for need in check.needs:
            assert need.split(".")[0] in fields or need.startswith("expect."), need


@pytest.mark.parametrize(
    "path",
    [
        *FOLDER.glob("*.py"),
        *(FOLDER.parent / "zfs").glob("*.py"),
        FOLDER.parent / "findings.py",
        FOLDER.parent / "profile.py",
    ],
)
def test_files_for_hosts_are_python_3_9_and_import_only_the_standard_library(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(), feature_version=(3, 9))):
        if isinstance(node, ast.Import):
            assert all(alias.name.split(".")[0] in sys.stdlib_module_names for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            assert (node.module or "").split(".")[0] in sys.stdlib_module_names
        if isinstance(node, ast.ImportFrom) and node.level == 2:
            assert (node.module or "").split(".")[0] in ("findings", "profile", "slots", "zfs")


def test_nothing_is_read_that_the_profile_does_not_ask_for() -> None:
    bare = Profile("bare", "v", "m")

    asked = {
        check.name for check in ALL_CHECKS if check.reads(bare, {"docker": False, "exporters": {}, "clock": False})
    }

    assert asked == {"disk_usage", "mounts_writable", "failed_units", "kernel_log", "system"}


def test_a_gpu_whose_driver_is_not_required_is_not_asked_for() -> None:
    profile = Profile("x", "v", "m", gpus={"count": 8, "driver_required": False})

    assert BY_NAME["gpu_count"].reads(profile, {}) == {}


def test_columns_are_found_by_their_names() -> None:
    rows = parse_query(
        "a warning\nindex, driver_version, name, pci.bus_id, uuid\n0, 580.1, NVIDIA H200, 00000000:19:00.0, GPU-1\n"
    )

    assert rows == [
        {
            "index": "0",
            "driver_version": "580.1",
            "name": "NVIDIA H200",
            "pci.bus_id": "00000000:19:00.0",
            "uuid": "GPU-1",
        }
    ]


def _words_of_samples() -> list[str]:
    words = set()
    for case in CASES:
        for output in case.captured.values():
            words |= set(re.split(r"[\n,]", output.text)[:40])
    return sorted(words)


# arbitrary text alone hardly ever gets past a parser's first line: pieces of real outputs and JSON are mixed in
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "files",
                    "errors",
                    "Devices",
                    "DevicePath",
                    "PhysicalSize",
                    "Subsystems",
                    "Controllers",
                    "Namespaces",
                    "NameSpace",
                    "ModelNumber",
                    "ServerVersion",
                    "/",
                    "/var",
                    "device",
                    "used",
                    "available",
                    "inodes",
                    "inodes_free",
                    "error",
                    "/proc/meminfo",
                    "/proc/self/mounts",
                    "/proc/self/status",
                    "/sys/class/infiniband/mlx5_0/ports/1/state",
                    "/sys/block/nvme0n1/size",
                    "/sys/class/nvme/nvme0/state",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
TEXT = (
    st.text(max_size=200)
    | st.lists(st.sampled_from(_words_of_samples()), max_size=12).map("\n".join)
    | st.lists(st.sampled_from(_words_of_samples()), max_size=20).map(",".join)
    | JSON.map(lambda value: json.dumps(value))
)
PROBLEM = st.sampled_from(["", "", "", "timed_out", "no_tool", "not_permitted", "refused", "failed", "too_much_output"])
OUTPUT = st.builds(Output, TEXT, TEXT, st.sampled_from([0, 0, 0, 1, 3, 200, 500, -9]), PROBLEM)


@pytest.mark.parametrize("name", sorted(BY_NAME))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_judges_never_raise(name: str, data: Any) -> None:
    case = next(case for case in CASES if case.check == name)
    expect = data.draw(st.sampled_from([{}, {"ntp_servers": ["10.0.0.1"]}, {"gpu_driver": "580.95.05"}]))
    captured = {key: data.draw(OUTPUT | st.just(output)) for key, output in case.captured.items()}

    findings = BY_NAME[name].judge(captured, case.wanted_profile(), expect)

    assert findings
    for finding in findings:
        assert finding.status in STATUSES
        assert finding.action in ACTIONS
        assert len(finding.evidence) <= 500


@pytest.mark.parametrize("name", sorted(BY_NAME))
@pytest.mark.parametrize("problem", ["timed_out", "no_tool", "not_permitted", "failed", "too_much_output"])
def test_what_cannot_be_read_is_never_ok(name: str, problem: str) -> None:
    case = next(case for case in CASES if case.check == name and case.want[0][0] == "ok")
    captured = {key: Output("", f"it is {problem}", 1, problem) for key in case.captured}

    findings = BY_NAME[name].judge(captured, case.wanted_profile(), case.expect)

    assert {f.status for f in findings} <= {"unknown", "fail"}
    if problem != "no_tool":
        assert {f.status for f in findings} == {"unknown"}
