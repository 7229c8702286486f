"""The checks nvlink and gpu_fabric: what they must say about good and bad captured outputs."""

from __future__ import annotations

import json

import nvlink_cases as cases
import pytest
from gpu_health_cases import Row
from hypothesis import given, settings
from hypothesis import strategies as st
from test_gpu import judged, rows

from firstlight.checks import ALL_CHECKS, run_checks
from firstlight.checks.capture import Output
from firstlight.checks.nvlink import keep, parse_status, reading
from firstlight.profile import Profile

MINE = cases.IDENTITY.format(6)


@pytest.mark.parametrize("row", rows("nvlink", "gpu_fabric"))
def test_judge(row: Row) -> None:
    judged(row)


def test_evidence_says_how_many_and_which() -> None:
    by_name = {row[1]: judged(row)[0] for row in cases.NVLINK}

    assert by_name["18 on each"].evidence == "8 GPUs, links each: 18, GB/s each: 26.562; no errors"
    assert by_name["two down"].evidence == "16 of 18 links are active"
    assert by_name["one gone"].evidence.startswith("17 links, 18 expected; told: 0, 1, 2, 3, 5, ")
    assert by_name["one slow"].evidence == "25 GB/s, 26.562 GB/s expected"
    assert by_name["recovered since"].evidence == "link 3: Recovery Errors 0 then, 1 now"
    assert by_name["errors of the past"].evidence == "link 3: CRC Errors 5"


def test_a_missing_gpu_is_reseated_whatever_could_not_be_told_without_it() -> None:
    seven = {
        ("nvidia-smi", "-q", "-x"): Output(cases.smi(gpus=7).text.replace("attached_gpus>8", "attached_gpus>7")),
        ("nvidia-smi", "nvlink", "-s"): Output(cases.fixture(cases.STATUS_8).split("GPU 7")[0]),
        ("nvidia-smi", "nvlink", "-e"): cases.counters(),
    }
    nothing = Output(errors="it is no_tool", code=1, problem="no_tool")

    result = run_checks(
        ALL_CHECKS,
        Profile("x", "v", "m", gpus=cases.GPUS),
        only=["gpu_count", "nvlink"],
        run=lambda sources, _: {source: seven.get(getattr(source, "argv", ()), nothing) for source in sources},
    )

    assert [(f.symptom, f.action) for f in result.findings] == [
        ("gpu.missing", "reseat"), ("nvlink.incomplete", "reseat"),
    ]  # fmt: skip
    assert result.verdict.action == "reseat"


def test_the_fabric_managers_log_says_why_it_does_not_run() -> None:
    by_name = {row[1]: judged(row)[0].evidence for row in cases.FABRIC}

    assert by_name["manager failed"] == "it is failed, failed (loaded); result exit-code"
    assert by_name["manager failed, and its log says why"].endswith(
        "; its log: number of NVSwitches does not match any topology, aborting"
    )


def test_errors_of_nvlink_5_are_those_that_are_zero_on_a_good_link() -> None:
    (links,) = reading(cases.fixture("nvlink-e.b200.txt")).values()

    assert len(links) == 18
    for counters in links.values():
        assert set(counters.values()) == {0}
        assert {"Link recovery failed events", "Symbol Errors"} <= set(counters)
        assert not [name for name in counters if "FEC" in name or "BER" in name or name.startswith("Total")]


def test_a_reading_can_be_kept_as_json_and_given_back() -> None:
    earlier = json.loads(json.dumps(keep({"errors": cases.counters({"3: CRC Errors": 5})})))
    assert earlier == {**{cases.IDENTITY.format(n): {} for n in range(8)}, MINE: {"3": {"CRC Errors": 5}}}

    up = keep({"errors": cases.counters(), "load": cases.UP})
    assert up is not None
    assert up["uptime"] == 180000.0
    for count, want in ((5, cases.good("nvlink")), (6, [("warn", "nvlink.errors", "0000:d1:00.0", "none")])):
        errors = cases.counters({"3: CRC Errors": count})
        judged(cases._link("later", cases.links(), want, errors, expect={"nvlink_counters": earlier}))


@pytest.mark.parametrize("said", [cases.broken("timed_out"), Output("", "", 1), Output("GPU 0: x (UUID: y)\n")])
def test_nothing_is_kept_where_no_counter_was_told(said: Output) -> None:
    assert keep({"errors": said}) is None


def test_the_status_of_links() -> None:
    text = cases.links({3: "<inactive>"}).text + "GPU 8: NVIDIA L4 (UUID: GPU-8)\n" + cases.INACTIVE
    gpus = parse_status(text)

    assert gpus is not None
    assert len(gpus) == 9
    assert gpus[6].uuid == cases.IDENTITY.format(6)
    assert gpus[6].speeds[3] is None
    assert gpus[6].speeds[4] == 26.562
    assert gpus[8].said == cases.INACTIVE.strip()


@settings(deadline=None)
@given(
    st.text(max_size=200)
    | st.lists(st.sampled_from(["GPU 0: x (UUID: y)", "\t Link 0: 1 GB/s", "", "x"])).map("\n".join)
)
def test_any_text_is_parsed(text: str) -> None:
    reading(text)
    gpus = parse_status(text)

    assert gpus is None or all(gpu.uuid for gpu in gpus)
