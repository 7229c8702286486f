"""The checks of the tier long: their readers with tools and files of this test's own, and their judges."""

from __future__ import annotations

import copy
import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import long_cases as cases
import pytest
from check_cases import CASES, Case
from hypothesis import given, settings
from hypothesis import strategies as st
from test_hardware import changed, row
from test_hardware import tools as tools

from firstlight.checks import ALL_CHECKS, dcgm_diag, drive_read, run_checks
from firstlight.checks.capture import Command, Output, run_all, run_command
from firstlight.checks.engine import judge_check
from firstlight.findings import ACTIONS, STATUSES, Finding
from firstlight.health.settings import read_expect
from firstlight.profile import Profile
from simulators.host.containers import hardware_facts

SHIMS = Path(__file__).resolve().parents[3] / "simulators" / "host" / "shims"
BY_NAME = {check.name: check for check in ALL_CHECKS}
GPUS = Profile("x", "v", "m", gpus={"count": 8})
DRIVES = Profile("x", "v", "m", nvme={"count": 8})
LSBLK = """cat <<'END'
{{"blockdevices": [{rows}]}}
END"""


def case(check: str, name: str) -> Case:
    return next(case for case in CASES if (case.check, case.name) == (check, name))


def judged(check: str, name: str) -> list[Finding]:
    one = case(check, name)
    return judge_check(BY_NAME[check], one.captured, one.wanted_profile(), one.expect)


# ---------------------------------------------------------------- nothing beside what loads the host


def test_what_loads_the_host_is_read_after_all_others_and_one_by_one(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = f"echo begin $0 >>{log}; sleep 0.2; echo end $0 >>{log}"
    quick = [Command(("sh", "-c", script, f"quick{n}")) for n in range(2)]
    heavy = [Command(("sh", "-c", script, f"heavy{n}"), alone=True) for n in range(2)]

    outputs = run_all([heavy[0], quick[0], heavy[1], quick[1]], 5.0)

    assert {source: output.code for source, output in outputs.items()} == dict.fromkeys([*quick, *heavy], 0)
    lines = log.read_text().split("\n")[:-1]
    assert sorted(lines[:2]) == ["begin quick0", "begin quick1"]
    assert lines[4:] == ["begin heavy0", "end heavy0", "begin heavy1", "end heavy1"]


def test_the_checks_of_the_tier_long_have_the_host_for_themselves() -> None:
    for check in ALL_CHECKS:
        sources = check.reads(replace(GPUS, nvme={"count": 8}), {}).values()
        assert (check.tier == "long") == any(isinstance(s, Command) and s.alone for s in sources), check.name


def test_a_quick_run_has_none_of_them() -> None:
    seen: set[Any] = set()

    def run(sources: Any, limit: float) -> Any:
        return {source: seen.add(source) or Output() for source in sources}

    run_checks(ALL_CHECKS, replace(GPUS, nvme={"count": 8}), {}, run=run)

    assert seen
    assert not [source for source in seen if isinstance(source, Command) and source.alone]


@pytest.mark.parametrize("level", [0, 4, True, "2", 2.0])
def test_a_level_that_is_none(level: Any) -> None:
    with pytest.raises(ValueError, match=r"^expect\.dcgm_diag_level: must be 1, 2 or 3, not "):
        read_expect({"dcgm_diag_level": level})


# ---------------------------------------------------------------- dcgm_diag: the reader


def asked(expect: dict[str, Any] | None = None, *pairs: tuple[str, str]) -> Output:
    source = dcgm_diag.reads(GPUS, expect or {})["diag"]
    assert isinstance(source, Command)
    return run_command(changed(source, *pairs))


def conclude(output: Output, expect: dict[str, Any] | None = None) -> list[tuple[str, str, str]]:
    captured = {"nvidia_smi": cases.smi(), "diag": output}
    return [(f.status, f.symptom, f.action) for f in dcgm_diag.judge(captured, GPUS, expect or {})]


def test_the_diagnostic_is_run_at_the_level_that_is_asked_for(tmp_path: Path, tools: Any) -> None:
    tools("nvidia-smi", "echo '<nvidia_smi_log/>'")
    (tmp_path / "said").write_text(cases.diag4(cases.one("memory", cases.FAULTY)))
    tools("dcgmi", f'echo "$@" >{tmp_path}/words; cat {tmp_path}/said; exit 205')

    output = asked({"dcgm_diag_level": 3})

    assert (tmp_path / "words").read_text() == "diag -r 3 -j\n"
    assert (output.problem, output.code) == ("", 205)
    assert conclude(output) == [("fail", "gpu.diag_failed", "replace")]


def test_with_a_process_on_a_gpu_it_is_not_run(tmp_path: Path, tools: Any) -> None:
    process = "<process_info><pid>7</pid><process_name>/usr/bin/python3</process_name></process_info>"
    tools("nvidia-smi", f"echo '<processes>{process}</processes>'")
    tools("dcgmi", f"touch {tmp_path}/ran")

    output = asked()

    assert conclude(output) == [("unknown", "dcgm_diag.in_use", "retry")]
    assert conclude(output, {"gpu_processes": ["python3"]}) == [("warn", "dcgm_diag.not_run", "none")]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("used", "limits", "ran"), [(1025, {}, False), (1024, {}, True), (1025, {"gpu_memory_used_mib": 2000}, True)]
)
def test_with_memory_in_use_it_is_not_run(
    tmp_path: Path, tools: Any, used: int, limits: dict[str, float], ran: bool
) -> None:
    (tmp_path / "log").write_text(cases.smi({3: {"fb_memory_usage/used": f"{used} MiB"}}).text)
    tools("nvidia-smi", f"cat {tmp_path}/log")
    tools("dcgmi", f"touch {tmp_path}/ran")
    source = dcgm_diag.reads(replace(GPUS, limits=limits), {})["diag"]
    assert isinstance(source, Command)

    said = conclude(run_command(source))

    assert (tmp_path / "ran").exists() == ran
    assert ran or said == [("unknown", "dcgm_diag.in_use", "retry")]


@pytest.mark.parametrize("heard", [signal.SIG_DFL, signal.SIG_IGN])  # the latter is what a shell's & leaves
def test_one_that_does_not_end_is_told_to_stop(tmp_path: Path, tools: Any, heard: Any) -> None:
    tools("nvidia-smi", "true")
    tools("dcgmi", f"trap 'touch {tmp_path}/told; exit 1' INT; sleep 30 & wait")
    started = time.monotonic()

    before = signal.signal(signal.SIGINT, heard)
    try:
        output = asked(None, ("float(sys.argv[2])", "0.5"))
    finally:
        signal.signal(signal.SIGINT, before)

    assert (output.problem, output.code) == ("", 124)
    assert (tmp_path / "told").exists()
    assert time.monotonic() - started < 20
    assert conclude(output) == [("unknown", "dcgm_diag.timed_out", "retry")]


@pytest.mark.parametrize(
    ("smi", "dcgmi", "want"),
    [
        ("true", None, "no_tool"),
        ("echo 'Unable to determine the device handle'; exit 15", "true", "failed"),
        ("true", "echo Error: unable to establish a connection; exit 235", "failed"),
        ("true", "kill -9 $$", "failed"),
        ("true", "true", "unreadable"),
    ],
)
def test_where_it_cannot_be_run(tools: Any, smi: str, dcgmi: str | None, want: str) -> None:
    tools("nvidia-smi", smi)
    if dcgmi is not None:
        tools("dcgmi", dcgmi)

    assert conclude(asked(None, *([] if dcgmi else [('"dcgmi", "diag"', '"dcgmi-is-not-there"')]))) == [
        ("unknown", f"dcgm_diag.{want}", "escalate")
    ]


@pytest.mark.parametrize(
    ("faults", "want"),
    [
        ({}, [("ok", "dcgm_diag", "")]),
        ({"gpu_ecc": {"gpu": 5, "errors": 2}}, [("fail", "gpu.diag_failed", "GPU 0000:bb:00.0")]),
        ({"gpu_missing": {"gpu": 5}}, [("unknown", "dcgm_diag.not_tested", "1 of 8 GPUs")]),
        ({"gpu_lost": {"gpu": 5}}, [("unknown", "dcgm_diag.failed", "")]),
    ],
)
def test_the_shims_of_the_lab_are_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faults: dict[str, Any], want: list[tuple[str, str, str]]
) -> None:
    (tmp_path / "hardware.json").write_text(json.dumps(hardware_facts(7, "FLB0007")))
    state = {"name": "r1-n07", "faults": sorted(faults), "fault_parameters": faults}
    (tmp_path / "state.json").write_text(json.dumps(state))
    monkeypatch.setenv("FIRSTLIGHT_SIMULATOR", str(tmp_path))
    monkeypatch.setenv("PATH", f"{SHIMS}:{os.environ['PATH']}")

    result = run_checks(ALL_CHECKS, GPUS, {"dcgm_diag_level": 3}, only=["dcgm_diag"], timeout=60.0)

    assert [(f.status, f.symptom, f.locator) for f in result.findings] == want


# ---------------------------------------------------------------- dcgm_diag: the judge


def test_evidence_says_test_words_and_error() -> None:
    def said(name: str) -> str:
        return judged("dcgm_diag", name)[0].evidence

    assert said("3: faulty memory") == "GPU Memory: Found 3 faulty memory elements on GPU 6 (error 52)"
    assert said("4: slow PCIe").startswith("pcie: Bandwidth of GPU 6 in direction Host to GPU of 9.1 did not")
    assert said("DCGM 4") == "level 2: 8 GPUs passed memory, pcie, software"
    assert said("seven tested").startswith("7 of 8 GPUs were tested: GPU 0, GPU 1, ")
    assert said("one GPU's test skipped").endswith("(error 55); other GPUs were tested")
    assert said("runs already").startswith("dcgmi diag: Error: Unable to complete diagnostic. Return: (-39)")
    assert said("does not end") == "dcgmi diag -r 2 did not end within 900 s, and was stopped"


def test_both_generations_say_the_same_of_a_gpu() -> None:
    three, four = (judged("dcgm_diag", f"{generation}: faulty memory")[0] for generation in (3, 4))
    assert (three.locator, three.action) == (four.locator, four.action) == (cases.D1, "replace")


def test_the_slowest_copies_are_values() -> None:
    want = {"gpu.to_host_gbytes_min": 54.0, "gpu.from_host_gbytes_min": 54.3}
    for name in ("DCGM 3", "DCGM 4"):
        assert dcgm_diag.values(case("dcgm_diag", name).captured, GPUS) == want
    for name in ("not JSON", "its reader hangs", "jobs may run"):
        assert dcgm_diag.values(case("dcgm_diag", name).captured, GPUS) == {}


KEYS = [
    "DCGM Diagnostic", "DCGM GPU Diagnostic", "test_categories", "tests", "results", "category", "name", "status",
    "warnings", "warning", "error_id", "entity_group", "entity_id", "gpu_id", "gpu_ids", "cpu_id", "test_summary",
    "info", "entity_groups", "entities", "serial_num", "GPU Device Serials", "runtime_error", "processes", "problem",
]  # fmt: skip
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-2, 1 << 70)
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["Pass", "FAIL", "skip", "Warn", "Not Run", "GPU", "0,1,2", "software", "Deployment"])
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=30,
)
WHOLE = [json.loads(cases.diag3(gpus=3)), json.loads(cases.diag4(cases.one("memory", cases.FAULTY, 1), gpus=3))]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, inner in below for place in places(inner, (*path, key)))]


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_whatever_dcgmi_says_is_judged(data: Any) -> None:
    if data.draw(st.booleans()):
        said = copy.deepcopy(data.draw(st.sampled_from(WHOLE)))
        *above, last = data.draw(st.sampled_from(places(said)[1:]))
        inner = said
        for key in above:
            inner = inner[key]
        inner[last] = data.draw(JSON)
        text = json.dumps(said)
    else:
        text = data.draw(JSON.map(json.dumps) | st.text(max_size=60) | st.sampled_from(["[" * 9999, '{"a":' * 9999]))
    captured = {"nvidia_smi": cases.smi(), "diag": Output(text, code=data.draw(st.sampled_from([0, 226])))}

    findings = dcgm_diag.judge(captured, GPUS, {})

    assert findings
    assert all(f.status in STATUSES and f.action in ACTIONS and len(f.locator) <= 120 for f in findings)
    assert isinstance(dcgm_diag.values(captured, GPUS), dict)


def test_very_many_results_are_refused() -> None:
    said = json.loads(cases.diag4())
    said["DCGM Diagnostic"]["test_categories"] *= 900

    assert dcgm_diag.parse_diag(json.dumps(said)) is None


# ---------------------------------------------------------------- drive_read: the reader

SMALL = ("BLOCK, AMOUNT, AT_ONCE, SPAN, LIMIT = 4194304, 1073741824, 4, 10.0, 45.0",
         "BLOCK, AMOUNT, AT_ONCE, SPAN, LIMIT = 4096, 1048576, {at_once}, {span}, {limit}")  # fmt: skip


def read(folder: Path, *more: tuple[str, str], at_once: int = 4, span: float = 5.0, limit: float = 1.0) -> list[Any]:
    small = (SMALL[0], SMALL[1].format(at_once=at_once, span=span, limit=limit))
    output = run_command(changed(drive_read.READER, ('"/dev/"', f'"{folder}/"'), small, *more))
    assert (output.problem, output.code, output.errors) == ("", 0, "")
    rows: list[Any] = json.loads(output.text)["drives"]
    return rows


def symptoms(rows: list[Any]) -> list[tuple[str, str]]:
    captured = {"drives": Output(json.dumps({"drives": rows})), "virtualization": Output("none\n", code=1)}
    return [(f.symptom, f.locator) for f in drive_read.judge(captured, DRIVES, {})]


def test_drives_are_read_at_three_places_and_one_that_hangs_costs_its_limit_alone(tmp_path: Path, tools: Any) -> None:
    (tmp_path / "nvme0n1").write_bytes(os.urandom(8 << 20))
    os.mkfifo(tmp_path / "nvme1n1")
    (tmp_path / "nvme3n1").write_bytes(b"short")
    (tmp_path / "nvme4n1").write_bytes(os.urandom(300_001))
    skipped = [row("loop0"), row("zd0"), row("sr0"), row("zram0"), row("sdx", rm=True)]
    tools("lsblk", LSBLK.format(rows=", ".join([*(row(f"nvme{n}n1") for n in range(5)), *skipped])))
    started = time.monotonic()

    rows = read(tmp_path, at_once=2)

    assert 0.9 < time.monotonic() - started < 15
    good, hanging, missing, short, small = rows
    assert [count for count, _ in good["places"]] == [1 << 20] * 3
    assert all(seconds > 0 for _, seconds in good["places"])
    assert hanging["timed_out"] == 1.0
    assert (missing["errno"], missing["offset"]) == (2, None)
    assert short["error"] == "5 bytes"
    assert [count for count, _ in small["places"]] == [98304] * 3
    assert symptoms(rows) == [
        ("drive_read.timed_out", "nvme1n1, serial S-nvme1n1"),
        ("drive_read.unreadable", "nvme2n1, serial S-nvme2n1"),
        ("drive_read.unreadable", "nvme3n1, serial S-nvme3n1"),
    ]


def test_an_error_is_told_with_its_place(tmp_path: Path, tools: Any) -> None:
    (tmp_path / "sda").write_bytes(bytes(9 << 20))
    tools("lsblk", LSBLK.format(rows=row("sda", 9 << 20)))
    failing = """def preadv(fd, buffers, at):
    if at >= 4251648:
        raise OSError(61, "No data available")
    return os.preadv(fd, buffers, at)
def measure(name):"""

    (told,) = read(tmp_path, ("os.preadv(fd, [", "preadv(fd, ["), ("def measure(name):", failing))

    assert (told["errno"], told["offset"], len(told["places"])) == (61, 4251648, 1)
    (finding,) = drive_read.judge(
        {"drives": Output(json.dumps({"drives": [told]})), "virtualization": Output("none\n", code=1)}, DRIVES, {}
    )
    assert (finding.symptom, finding.action) == ("drive.read_error", "replace")
    assert finding.evidence == "reading /dev/sda at byte 4251648, sector 8304: No data available"


def test_of_a_slow_drive_less_is_read(tmp_path: Path, tools: Any) -> None:
    (tmp_path / "sda").write_bytes(bytes(6 << 20))
    tools("lsblk", LSBLK.format(rows=row("sda", 6 << 20)))
    pause = ("at += count", "at += count; time.sleep(0.01)")

    (told,) = read(tmp_path, pause, span=0.1)

    for count, seconds in told["places"]:
        assert 4096 <= count < 1 << 20
        assert 0.1 <= seconds < 1


def test_whole_drives_are_read_past_the_page_cache_and_never_opened_for_writing() -> None:
    script = drive_read.READER.argv[-1]

    assert "os.O_RDONLY | (os.O_DIRECT if stat.S_ISBLK" in script
    assert "AMOUNT, AT_ONCE, SPAN, LIMIT = 4194304, 1073741824, 4, 10.0, 45.0" in script
    opened = script.replace("os.open(os.devnull, os.O_RDWR)", "")  # for its children's output
    for word in ("O_RDWR", "O_WRONLY", "pwrite"):
        assert word not in opened


# ---------------------------------------------------------------- drive_read: the judge


def test_evidence_says_place_speed_and_what_was_expected() -> None:
    def said(name: str) -> str:
        return judged("drive_read", name)[0].evidence

    assert said("all alike") == "6 drives read at start, middle and end; slowest sda, 470 MB/s"
    assert said("below the limit") == "middle: 1990 MB/s, at least 2000 expected"
    assert said("below the limit, and jobs may run").endswith("expected; a job may have read too")
    assert said("slow at one place") == "middle: 2900 MB/s, the median of 5 drives of its model is 6302"
    assert "at byte 1920383410176, sector 3750748848: No data available" in said("an error")


def test_the_slowest_data_drive_is_a_value() -> None:
    assert drive_read.values(case("drive_read", "all alike").captured, DRIVES) == {"drive.read_mbytes_min": 6300.0}
    for name in ("not JSON", "the reader hangs", "no drive", "in a container"):
        assert drive_read.values(case("drive_read", name).captured, DRIVES) == {}


@settings(max_examples=300, deadline=None)
@given(rows=st.lists(st.dictionaries(st.sampled_from([*cases.OTHERS[0], "error", "errno", "offset", "timed_out"]),
                                     JSON | st.lists(st.lists(SCALARS, min_size=2, max_size=2), min_size=3, max_size=3),
                                     max_size=6), max_size=5))  # fmt: skip
def test_whatever_the_reader_says_is_judged(rows: list[Any]) -> None:
    said = [{**drive, **row} for drive, row in zip(cases.OTHERS, rows, strict=False)]
    captured = {"drives": Output(json.dumps({"drives": said})), "virtualization": Output("none\n", code=1)}
    profile = replace(DRIVES, limits={"drive_read_mbytes_per_second": 2000})

    findings = drive_read.judge(captured, profile, {})

    assert findings
    assert all(f.status in STATUSES and f.action in ACTIONS for f in findings)
    assert isinstance(drive_read.values(captured, profile), dict)
