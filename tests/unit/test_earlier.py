"""What a run of the checks remembers for the next, and the file in which a host by itself does."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight.checks import ALL_CHECKS, Result
from firstlight.findings import Finding, verdict
from firstlight.health import earlier, state
from firstlight.health.earlier import AT_LEAST, MARGIN, after, known, read

BOOT, OTHER = "9f0c", "77aa"
LOG_READ = (Finding("kernel_log", "ok", "kernel_log"), Finding("kernel_xid", "ok", "kernel_xid"))
FAILED = Finding("nvlink", "fail", "nvlink.errors_growing", action="reboot")


def entry(time: float, boot: str = BOOT, **value: Any) -> dict[str, Any]:
    return {"time": time, "boot": boot, "value": value}


def result(time: float, *findings: Finding, **kept: dict[str, Any]) -> Result:
    told = [*(findings or LOG_READ)]
    return Result(told, verdict(told), kept=kept, time=time)


# ---------------------------------------------------------------- what is remembered


def test_the_first_reading_is_remembered_and_the_next_one_only_after_an_hour() -> None:
    first = after({}, result(1000.0, nvlink_counters={"a": 1}), BOOT)
    soon = after(first, result(1000.0 + AT_LEAST - 1, nvlink_counters={"a": 2}), BOOT)
    later = after(soon, result(1000.0 + AT_LEAST, nvlink_counters={"a": 3}), BOOT)

    assert first == {"nvlink_counters": entry(1000.0, a=1), "kernel_log": entry(1000.0)}
    assert soon == first
    assert later == {"nvlink_counters": entry(1000.0 + AT_LEAST, a=3), "kernel_log": entry(1000.0 + AT_LEAST)}


@pytest.mark.parametrize("before", [{}, {"nvlink_counters": entry(1000.0, a=1)}])
def test_a_reading_is_not_replaced_while_its_check_fails(before: dict[str, Any]) -> None:
    bad = result(1000.0 + 9 * AT_LEAST, *LOG_READ, FAILED, nvlink_counters={"a": 9}, hca_counters={"b": 1})

    now = after(before, bad, BOOT)

    assert now.get("nvlink_counters") == before.get("nvlink_counters")
    assert now["hca_counters"]["value"] == {"b": 1}
    assert "kernel_log" not in now


def test_a_reading_of_another_boot_or_of_the_future_is_replaced_at_once() -> None:
    for was in (entry(1000.0, OTHER, a=1), entry(5000.0, a=1)):
        now = after({"nvlink_counters": was}, result(1001.0, nvlink_counters={"a": 2}), BOOT)
        assert now["nvlink_counters"] == entry(1001.0, a=2)


def test_what_this_run_could_not_read_stays() -> None:
    before = {"nvlink_counters": entry(1000.0, a=1)}

    assert after(before, result(1e6), BOOT)["nvlink_counters"] == before["nvlink_counters"]


def test_a_run_of_some_checks_changes_nothing() -> None:
    before = {"nvlink_counters": entry(1000.0, a=1)}

    assert after(before, result(1e6, nvlink_counters={"a": 2}), BOOT, whole=False) == before


@pytest.mark.parametrize(
    "findings",
    [
        (*LOG_READ, Finding("zfs_pool", "fail", "zfs.degraded")),
        (*LOG_READ, Finding("zfs_pool", "unknown", "zfs_pool.no_tool")),
        (LOG_READ[0], Finding("kernel_xid", "warn", "kernel_xid.skipped", evidence="switched off until then")),
        (LOG_READ[0], Finding("kernel_xid", "warn", "kernel_xid.not_permitted", evidence="unknown: dmesg")),
        (Finding("disk_usage", "ok", "disk_usage"),),
    ],
)
def test_the_kernel_log_counts_from_a_clean_verdict_that_has_seen_it(findings: tuple[Finding, ...]) -> None:
    assert "kernel_log" not in after({}, result(1000.0, *findings), BOOT)


# ---------------------------------------------------------------- what the next run is told


def test_the_next_run_is_told_counters_and_since_when_the_kernel_log_counts() -> None:
    memory = {"nvlink_counters": entry(1000.0, a=1), "kernel_log": entry(1000.0)}

    assert known({"docker": False}, memory, 2000.0, BOOT) == {
        "docker": False,
        "nvlink_counters": {"a": 1},
        "kernel_log": {"since": 1000.0 - MARGIN},
    }


def test_what_the_site_says_goes_before_what_is_remembered() -> None:
    memory = {"hca_counters": entry(1000.0, a=1), "kernel_log": entry(1000.0)}
    site = {"hca_counters": {}, "kernel_log": {"since": "2027-03-01T08:00:00Z", "harmless": ["^x"]}}

    assert known(site, memory, 2000.0, BOOT) == site
    site["kernel_log"] = {"harmless": ["^x"]}
    assert known(site, memory, 2000.0, BOOT)["kernel_log"] == {"harmless": ["^x"], "since": 1000.0 - MARGIN}


@pytest.mark.parametrize(("now", "boot"), [(999.0, BOOT), (2000.0, OTHER), (2000.0, "")])
def test_counters_of_the_future_or_of_another_boot_are_not_told(now: float, boot: str) -> None:
    assert known({}, {"nvlink_counters": entry(1000.0, boot and BOOT, a=1)}, now, boot) == {}


def test_a_reboot_does_not_make_the_kernel_log_count_anew_and_a_wrong_clock_does() -> None:
    memory = {"kernel_log": entry(1000.0)}

    assert known({}, memory, 1000.0, OTHER) == {"kernel_log": {"since": 1000.0 - MARGIN}}
    assert known({}, memory, 999.0, BOOT) == {}


TIMES = st.floats(0, 1e6)
ENTRIES = st.builds(lambda time, boot, n: entry(time, boot, n=n), TIMES, st.sampled_from([BOOT, OTHER]), st.integers())
KEYS = st.sampled_from(["hca_counters", "nvlink_counters", "kernel_log"])
FINDINGS = st.lists(
    st.builds(
        lambda check, status: Finding(check, status, check),
        st.sampled_from(["hca_errors", "nvlink", "kernel_log", "disk_usage"]),
        st.sampled_from(["ok", "warn", "fail", "unknown"]),
    ),
    min_size=1,
)


@given(
    memory=st.dictionaries(KEYS, ENTRIES),
    time=TIMES,
    findings=FINDINGS,
    kept=st.dictionaries(st.sampled_from(["hca_counters", "nvlink_counters"]), st.just({"n": -1})),
)
def test_the_rules_hold_whatever_was_remembered_and_found(memory, time, findings, kept) -> None:
    now = after(memory, result(time, *findings, **kept), BOOT)

    assert read(now) == now
    failed = {finding.check for finding in findings if finding.status == "fail"}
    for key, check in (("hca_counters", "hca_errors"), ("nvlink_counters", "nvlink")):
        was, changed = memory.get(key), now.get(key) != memory.get(key)
        if changed:
            assert key in kept
            assert check not in failed
            assert now[key] == entry(time, n=-1)
            assert was is None or was["boot"] != BOOT or not 0 <= time - was["time"] < AT_LEAST
        elif key in kept and check not in failed:
            assert was is not None
            assert 0 <= time - was["time"] < AT_LEAST
    if now.get("kernel_log") != memory.get("kernel_log"):
        assert verdict(findings).ready
    told = known({}, now, time, BOOT)
    assert told.get("kernel_log", {}).get("since", 0.0) <= time


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12) | KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(JSON | st.dictionaries(KEYS, st.fixed_dictionaries({"time": JSON, "boot": JSON, "value": JSON})))
def test_whatever_comes_back_is_a_memory_or_one_line(data: Any) -> None:
    try:
        memory = read(data)
    except ValueError as error:
        assert "\n" not in str(error)
        return
    assert read(memory) == memory
    known({}, memory, 1e6, BOOT)
    after(memory, result(1e6, nvlink_counters={}), BOOT)


def test_what_is_too_much_or_too_deep_is_no_memory() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"x": deep}
    for value in (deep, {"x": "y" * earlier.BYTES_MAX}, {"x": 10**5000}):
        with pytest.raises(ValueError, match=r"nested too deep|has more than 65536|not of what JSON has"):
            read({"hca_counters": {**entry(1.0), "value": value}})


def test_what_a_check_of_another_version_kept_is_left_out() -> None:
    assert read({"of_a_later_check": entry(1.0), "kernel_log": entry(2.0)}) == {"kernel_log": entry(2.0)}


def test_every_key_is_one_of_expect_that_the_check_reads() -> None:
    for check in ALL_CHECKS:
        assert {f"expect.{key}" for key in check.keeps} <= set(check.needs)
    assert {key for check in ALL_CHECKS for key in check.keeps} == {"hca_counters", "nvlink_counters"}


# ---------------------------------------------------------------- the file


def test_a_file_gives_back_what_was_written(tmp_path: Path) -> None:
    path = str(tmp_path / "health.json")
    memory = after({}, result(1000.0, nvlink_counters={"a": 1}), earlier.boot_here())

    assert state.load(path) == ({}, [])
    assert state.save(path, memory) == []
    assert state.load(path) == (memory, [])
    assert [file.name for file in tmp_path.iterdir()] == ["health.json"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is no JSON"),
        (b"\xff{}", "is no JSON"),
        (b"[" * 60_000, "is no JSON"),
        (b"[]", "is not of format 1"),
        (b'{"format": 2, "earlier": {}}', "is not of format 1"),
        (b'{"format": 1}', "must be a mapping"),
        (b'{"format": 1, "earlier": {"kernel_log": {"time": 1e999}}}', "not of what JSON has"),
        (b'{"format": 1, "earlier": {"kernel_log": {"time": 1}}}', "must have time, boot and value"),
        (b" " * 80_000, "has more than"),
    ],
)
def test_a_damaged_file_is_a_warning_and_begins_anew(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "health.json"
    path.write_bytes(content)

    memory, [found] = state.load(str(path))

    assert memory == {}
    assert (found.status, found.symptom, found.locator) == ("warn", "earlier.unreadable", str(path))
    assert says in found.evidence
    assert state.save(str(path), memory) == []
    assert state.load(str(path)) == ({}, [])


def test_what_is_no_file_is_a_warning_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()

    for name in ("pipe", "folder"):
        memory, [found] = state.load(str(tmp_path / name))
        assert (memory, found.symptom) == ({}, "earlier.unreadable")
    [found] = state.save(str(tmp_path / "folder"), {})
    assert (found.status, found.symptom) == ("warn", "earlier.not_written")
    assert list((tmp_path / "folder").iterdir()) == []


def test_a_result_of_a_whole_run_can_be_remembered_as_json() -> None:
    memory = after({}, replace(result(1000.5), kept={"hca_counters": {"ports": {"mlx5_0/1": {}}}}), BOOT)

    assert json.loads(json.dumps(memory)) == memory
