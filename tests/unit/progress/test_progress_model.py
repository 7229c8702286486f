"""Counts, rates and estimates of a run, without a clock."""

from __future__ import annotations

import pytest

from firstlight.progress import past
from firstlight.progress.model import Run
from firstlight.progress.reasons import Closed

NAMES = [f"n{i:03}" for i in range(100)]


def begun(names: list[str] = NAMES) -> Run:
    run = Run("site.yml", 0.0)
    run.play("Configure", "configure", names, 0.0)
    run.begin_task("t", "Install Docker", 0.0)
    return run


def answer(run: Run, names: list[str], seconds: float, outcome: str = "ok") -> None:
    for name in names:
        run.started("t")
        run.ended("t", name, outcome, seconds)


def test_a_rate_and_what_is_to_go_come_of_enough_results() -> None:
    run = begun()
    answer(run, NAMES[:2], 10)
    assert run.task.rate(10) is None and run.task.eta(10) is None
    answer(run, NAMES[2:40], 20)
    assert run.task.rate(20) == pytest.approx(120)
    assert run.task.eta(20) == pytest.approx(30)


def test_too_short_a_time_gives_no_rate() -> None:
    run = begun()
    answer(run, NAMES[:40], 1)
    assert run.task.rate(1) is None


def test_a_task_that_stalls_has_no_estimate() -> None:
    run = begun()
    answer(run, NAMES[:40], 20)
    assert run.task.eta(49) is not None
    assert run.task.eta(51) is None


def test_a_task_that_runs_once_has_no_rate() -> None:
    run = begun()
    run.begin_task("once", "Install in waves", 0.0, once=True)
    run.ended("once", "n000", "changed", 600.0)
    assert run.task.total == 1 and run.task.rate(600) is None


def test_a_stage_is_estimated_by_the_last_run_alone() -> None:
    run = Run("site.yml", 0.0)
    run.play("Configure", "configure", NAMES, 10.0, expected=100.0)
    assert run.stage.eta(30.0) == pytest.approx(80.0)
    assert run.stage.eta(111.0) is None  # it takes longer than that time: nobody knows


def test_failures_are_grouped_by_symptom_and_task_and_the_hosts_are_gone() -> None:
    run = begun()
    for name in NAMES[:3]:
        run.left(name, "Install Docker", "docker.not_answering", f"of {name}")
    run.left(NAMES[3], "Install Docker", "configure.task_failed", "no room")
    first, second = run.failures()
    assert (first.symptom, first.count, first.hosts, first.said) == (
        "docker.not_answering", 3, NAMES[:3], "of n000",
    )  # fmt: skip
    assert second.count == 1
    assert run.stage.said_no == 4 and run.stage.passed == 96 and run.stage.left_out == 0
    run.play("Smoke", "smoke", NAMES, 50.0)
    assert run.stage.total == 96
    assert run.begin_task("u", "Check", 50.0).total == 96


def test_who_was_left_out_has_not_failed() -> None:
    run = begun()
    run.only(NAMES[:90])
    run.left(NAMES[0], "Install Docker", "x", "")
    run.end_play(60.0)
    stage = run.stages[0]
    assert (stage.passed, stage.said_no, stage.left_out) == (89, 1, 10)
    assert stage.rate(999.0) == pytest.approx(89)


def test_what_the_end_of_a_stage_judges_counts_and_judgements_add_up() -> None:
    run = begun()
    run.close(Closed(0, 2, {"maas.deploy_failed": 2}))
    run.close(Closed(97, 98, {"os_disk.wrong": 1}))
    assert (run.stage.passed, run.stage.said_no, run.stage.left_out) == (97, 3, 0)
    assert {g.symptom: g.count for g in run.failures()} == {"maas.deploy_failed": 2, "os_disk.wrong": 1}


def test_a_meta_task_that_is_told_once_a_host_is_one_task() -> None:
    run = begun()
    for _ in NAMES:
        run.begin_task("m", "meta", 1.0)
    assert run.stage.tasks == 2


def test_hosts_beyond_the_expected_ones_are_counted() -> None:
    run = begun(NAMES[:2])
    answer(run, NAMES[:5], 10)
    assert (run.task.done, run.task.total, run.task.running) == (5, 5, 0)


def test_the_last_run_is_remembered_where_it_was_like_this_one(tmp_path) -> None:
    file = tmp_path / "cache" / "progress.json"
    run = begun()
    run.end_play(90.0)
    run.play("Broken off", None, NAMES, 90.0)
    past.remember(file, run)
    assert past.expected(file, "site.yml", "Configure", 100) == 90.0
    assert past.expected(file, "site.yml", "Configure", 60) == 90.0
    assert past.expected(file, "site.yml", "Configure", 3) is None  # -l of a few hosts
    assert past.expected(file, "site.yml", "Broken off", 100) is None
    assert past.expected(file, "configure.yml", "Configure", 100) is None


@pytest.mark.parametrize("text", ["", "[1]", '{"site.yml: Configure": 7}', '{"site.yml: Configure": ["x", 1]}', "\x00"])
def test_a_spoilt_memory_is_none(tmp_path, text: str) -> None:
    file = tmp_path / "progress.json"
    file.write_text(text)
    assert past.expected(file, "site.yml", "Configure", 100) is None
    run = begun()
    run.end_play(5.0)
    past.remember(file, run)
    assert past.expected(file, "site.yml", "Configure", 100) == 5.0


def test_a_memory_that_cannot_be_written_disturbs_nothing(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    run = begun()
    run.end_play(5.0)
    past.remember(tmp_path / "file" / "progress.json", run)
