"""The run on one screen: what Rich draws, from the model, the clock and the room there is. Nothing here writes."""

from __future__ import annotations

from rich.console import Group as Rows
from rich.table import Table
from rich.text import Text

from ..findings import shorten
from . import lines
from .model import Group, Run, Stage

SPARE = 6  # lines of the terminal that are left to what scrolls by above
ROWS_MIN, ROWS_MAX = 6, 40


def rows_of(height: int) -> int:
    """How many lines of a terminal the screen may take."""
    return max(1, min(height - 1, max(ROWS_MIN, min(height - SPARE, ROWS_MAX))))


def draw(run: Run, now: float, width: int, height: int) -> Rows:
    """At most ``rows_of(height)`` lines, none wider than the terminal."""
    room = rows_of(height)
    rows: list[Table | Text] = [_header(run, now)]
    stages = _shown(run.stages, room)
    if room >= 3:
        table = _stages(stages, now, width)
        rows.append(table)
        room -= len(stages) + 2
    else:
        room -= 1
    if room > 0 and run.task is not None:
        rows.append(_task(run, now))
        room -= 1
    groups = run.failures()
    if groups and room > 0:
        rows += _failures(groups, room)
    return Rows(*(_narrow(row) for row in rows))


def _shown(stages: list[Stage], room: int) -> list[Stage]:
    """The last ones; failures get a third of the room at least."""
    return stages[-max(1, (room - 3) * 2 // 3) :]


def _header(run: Run, now: float) -> Text:
    failed = sum(stage.said_no for stage in run.stages)
    said = Text(f"{shorten(run.playbook, 60)}", style="bold")
    if run.check:
        said.append("  check mode, nothing is changed", style="cyan")
    said.append(f"  {lines.clock(now - run.begun)}", style="default")
    said.append(f"  {lines.hosts(failed)} failed" if failed else "", style="red")
    return said


def _stages(stages: list[Stage], now: float, width: int) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), expand=False, header_style="dim", show_edge=False)
    table.add_column("stage", no_wrap=True, max_width=max(8, width - 56))
    for name in ("hosts", "failed", "left out", "hosts/min", "time", "to go"):
        table.add_column(name, justify="right", no_wrap=True)
    for stage in stages:
        going = stage.ended is None
        failed = Text(str(stage.said_no or ""), style="red")
        table.add_row(
            Text(shorten(stage.name, 80), style="bold" if going else ""),
            _hosts(stage),
            failed,
            str(stage.left_out or ""),
            lines.number(stage.rate(now)),
            lines.clock(stage.seconds(now)),
            lines.clock(stage.eta(now)) if going else "",
        )
    return table


def _hosts(stage: Stage) -> str:
    """Of a stage that goes on: how many have done its task; of one that ended, or was judged: how many passed."""
    if stage.ended is not None or stage.judged:
        return f"{stage.passed}/{stage.total}"
    if stage.task is None or stage.task.once:
        return f"-/{stage.total}"
    return f"{stage.task.done}/{stage.task.total}"


def _task(run: Run, now: float) -> Text:
    task, stage = run.task, run.stage
    if task is None or stage is None:
        return Text("")
    parts = [f"task {stage.tasks}: {shorten(task.name, 120)}"]
    if not task.once:
        parts += [f"{task.done} of {lines.hosts(task.total)}"]
        parts += [f"{task.running} running"] if task.running else []
        parts += [f"{len(task.retrying)} retrying"] if task.retrying else []
        eta = task.eta(now)
        parts += [f"about {lines.clock(eta)} to go"] if eta is not None else []
    else:
        parts += [lines.clock(now - task.begun)]
    if not task.once and 0 < task.total - task.done <= lines.NAMED:
        parts += [f"{lines.clock(now - task.heard)} since the last"]
    return Text(", ".join(parts))


def _failures(groups: list[Group], room: int) -> list[Text]:
    fits = groups if len(groups) <= room else groups[: room - 1]
    rows = []
    for group in fits:
        row = Text(f"{group.count:>5} ", style="red")
        row.append(shorten(group.symptom, 64), style="bold default")
        told = ": ".join(part for part in (shorten(group.stage, 30), shorten(group.task, 60)) if part)
        for part in (lines.some(sorted(group.hosts), group.count), told):
            row.append(f"  {part}" if part else "", style="default")
        if group.said:
            row.append(f"  {shorten(group.said)}", style="dim")
        rows.append(row)
    if len(fits) < len(groups):
        more = len(groups) - len(fits)
        rows.append(Text(f"      and {more} other kinds of failure", style="red"))
    return rows


def _narrow(row: Table | Text) -> Table | Text:
    if isinstance(row, Text):
        row.no_wrap, row.overflow = True, "ellipsis"
    return row
