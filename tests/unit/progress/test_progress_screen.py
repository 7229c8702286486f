"""500 hosts on one screen of whatever size, whatever they say."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from firstlight.progress import lines
from firstlight.progress.model import Run
from firstlight.progress.reasons import Closed
from firstlight.progress.screen import draw, rows_of

NAMES = [f"r{i // 20 + 1:02}-n{i % 20 + 1:02}" for i in range(500)]
STAGES = ["Validate", "Ask the BMCs", "Discover", "Enlist", "Install", "Configure"]
HOSTILE = "\x1b[2J[bold]x[/bold]\n\r\u202eend [/] 日本 " * 9


def shown(run: Run, now: float, width: int, height: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    console.print(draw(run, now, width, height))
    return console.file.getvalue().splitlines()


@pytest.fixture
def fleet() -> Run:
    """In its sixth stage, at a task that 300 of 470 hosts have done, with 30 failures of 25 kinds."""
    run = Run("site.yml", 0.0)
    for number, name in enumerate(STAGES):
        run.play(name, name.lower(), NAMES, number * 600.0, expected=1200.0)
    run.begin_task("t", "docker_engine : Install Docker", 3000.0)
    for number, name in enumerate(NAMES[:30]):
        symptom = "docker.not_answering" if number < 6 else f"docker.kind_{number}"
        run.left(name, f"Install Docker {HOSTILE}", symptom, HOSTILE)
    run.begin_task("u", "docker_engine : Read it back", 3000.0)
    for name in NAMES[30:330]:
        run.started("u")
        run.ended("u", name, "ok", 3060.0)
    run.started("u")
    run.retried("u", NAMES[331])
    return run


@pytest.mark.parametrize(("width", "height"), [(80, 24), (150, 50), (40, 10), (20, 3), (300, 100)])
def test_it_fits(fleet: Run, width: int, height: int) -> None:
    rows = shown(fleet, 3060.0, width, height)
    assert len(rows) <= rows_of(height) <= height
    assert all(cell_len(row) <= width for row in rows)
    assert not any(c in "\x1b\r\u202e" for row in rows for c in row)


def test_it_says_what_goes_on(fleet: Run) -> None:
    rows = shown(fleet, 3060.0, 80, 24)
    text = "\n".join(rows)
    assert rows[0].startswith("site.yml  51:00  30 hosts failed")
    configure = next(row for row in rows if row.startswith("Configure"))
    assert configure.split() == ["Configure", "300/470", "30", "300", "1:00", "19:00"]
    assert "task 2: docker_engine : Read it back, 300 of 470 hosts, 1 running" in text
    wide = "\n".join(shown(fleet, 3060.0, 150, 50))
    assert "1 retrying, about 0:34 to go" in wide
    assert "    6 docker.not_answering  r01-n01, r01-n02, r01-n03 and 3 more  Configure: Install" in wide
    assert "    6 docker.not_answering" in text
    assert "other kinds of failure" in text


def test_what_a_stage_judges_is_counted_as_failed() -> None:
    run = Run("site.yml", 0.0)
    run.play("Discover", "discover", NAMES, 0.0)
    run.begin_task("t", "Judge", 0.0, once=True)
    row = next(row for row in shown(run, 5.0, 80, 24) if row.startswith("Discover"))
    assert row.split() == ["Discover", "-/500", "-", "0:05", "-"]
    run.close(Closed(488, 500, {"gpu.missing": 12}))
    rows = shown(run, 5.0, 80, 24)
    assert rows[0] == "site.yml  0:05  12 hosts failed"
    assert rows[2].split() == ["Discover", "488/500", "12", "-", "0:05", "-"]
    assert "   12 gpu.missing  Discover" in "\n".join(rows)


def test_markup_of_hosts_is_text() -> None:
    run = Run("site.yml", 0.0)
    run.play("Discover [red]", "discover", NAMES, 0.0)
    run.begin_task("t", "[bold]Ask[/bold]", 0.0)
    run.left(NAMES[0], "Ask [/]", "x.y", "[blink]no[/blink]")
    text = "\n".join(shown(run, 1.0, 150, 50))
    for said in ("Discover [red]", "[bold]Ask[/bold]", "Ask [/]", "[blink]no[/blink]"):
        assert said in text


def test_before_and_between_plays_there_is_a_screen_too() -> None:
    run = Run("site.yml", 0.0)
    assert shown(run, 61.0, 80, 24)[0] == "site.yml  1:01"
    run.play("Discover", "discover", [], 0.0)
    run.end_play(2.0)
    assert any(row.startswith("Discover") for row in shown(run, 61.0, 80, 24))


def test_the_end_is_a_line_a_stage_and_the_failures(fleet: Run) -> None:
    fleet.end_play(3100.0)
    said = lines.printable(lines.ending(fleet, 3100.0))
    assert "Configure    : 470 of 500 hosts, 30 failed, 282 hosts/min, 1:40" in said
    assert len(said) == len(STAGES) + lines.GROUPS + 1
    assert all(line.isprintable() for line in said)


def test_hosts_are_named_in_one_order_whichever_came_first() -> None:
    run = Run("site.yml", 0.0)
    run.play("Try", None, NAMES[:3], 0.0)
    run.begin_task("t", "Take long", 0.0)
    for name in (NAMES[2], NAMES[0], NAMES[1]):
        run.started("t")
        run.ended("t", name, "failed", 1.0)
        run.left(name, "Take long", "task_failed", "no")
    named = ", ".join(NAMES[:3])
    assert f"3 failed ({named})" in lines.outcomes(run.stages[0].task)
    assert f"({named})" in "".join(lines.ending(run, 2.0))
    assert named in "".join(shown(run, 2.0, 150, 24))


def test_the_end_lists_at_most_twenty_hosts(fleet: Run) -> None:
    counts = ("ok", "failures", "unreachable", "changed", "skipped", "rescued", "ignored")
    totals = {name: dict.fromkeys(counts, 0) | {"ok": 2, "failures": int(name in fleet.gone)} for name in NAMES}
    said = lines.summary(fleet, totals, "reports/latest.txt")
    assert said[0] == "500 hosts : 470 without a failed task, 0 changed, 30 failed"
    assert "ok=1000, failed=30, unreachable=0, changed=0" in said[1]
    assert said[2] == "  r01-n01: docker.not_answering"
    assert said[-1] == "  and 10 more (see reports/latest.txt)" and len(said) == 2 + 20 + 1


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "-"), (0, "0:00"), (59.9, "0:59"), (61, "1:01"), (3661, "1:01:01")]
)
def test_clocks(seconds: float | None, text: str) -> None:
    assert lines.clock(seconds) == text
