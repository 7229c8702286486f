"""The run in plain lines, for logs and for people whose terminal is none. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .model import OUTCOMES, Group, Run, Stage, Task
from .reasons import clean

NAMED = 3  # hosts that a line names
LISTED = 20  # hosts that the end lists
GROUPS = 10  # groups of failures that the end lists


def clock(seconds: float | None) -> str:
    """``1:02:03`` or ``2:03``; ``-`` for what is not known."""
    if seconds is None:
        return "-"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def number(rate: float | None) -> str:
    """Hosts a minute, with one decimal while they are few."""
    return "-" if rate is None else f"{rate:.1f}" if rate < 10 else f"{rate:.0f}"


def hosts(count: int) -> str:
    return f"{count} host" if count == 1 else f"{count} hosts"


def some(names: Sequence[str], count: int | None = None, named: int = NAMED) -> str:
    """The first names, and how many more there are."""
    count = len(names) if count is None else count
    shown = ", ".join(names[:named])
    more = count - min(named, len(names))
    return f"{shown} and {more} more" if more and shown else shown


def outcomes(task: Task) -> str:
    """``480 ok, 12 changed, 1 failed (r1-n03)``: names where there are few."""
    parts = []
    for name in OUTCOMES:
        who = task.outcome[name]
        if who:
            parts.append(f"{len(who)} {name}" + (f" ({', '.join(sorted(who))})" if len(who) <= NAMED else ""))
    return ", ".join(parts) or "no host"


def going_on(task: Task, now: float) -> str:
    """How far a task is that takes its time."""
    said = f"{task.done} of {hosts(task.total)} after {clock(now - task.begun)}"
    wrong = ", ".join(f"{task.count(name)} {name}" for name in ("failed", "unreachable") if task.count(name))
    rate, eta = task.rate(now), task.eta(now)
    parts = [
        said,
        wrong,
        f"{len(task.retrying)} retrying" if task.retrying else "",
        f"{number(rate)} hosts/min" if rate is not None else "",
        f"about {clock(eta)} to go" if eta is not None else "",
    ]
    return "; ".join(part for part in parts if part)


def group(of: Group, named: int = NAMED) -> str:
    """``3 hosts: docker.not_answering: Install Docker (r1-n03, r1-n04, r2-n01)``."""
    told = ": ".join(part for part in (of.symptom, of.task) if part)
    return f"{hosts(of.count)}: {told}" + (f" ({some(sorted(of.hosts), of.count, named)})" if of.hosts else "")


def stage(of: Stage, now: float) -> str:
    """One line that says how a stage went, or how far it is."""
    parts = [f"{of.passed} of {hosts(of.total)}"]
    parts += [f"{of.said_no} failed"] if of.said_no else []
    parts += [f"{of.left_out} left out"] if of.left_out else []
    rate = of.rate(now) if of.ended is not None else None
    parts += [f"{number(rate)} hosts/min"] if rate is not None else []
    return f"{', '.join(parts)}, {clock(of.seconds(now))}" + ("" if of.ended is not None else ", not ended")


def ending(run: Run, now: float, *, several: bool = True) -> list[str]:
    """A line a stage, then failures by symptom."""
    width = max((len(each.name) for each in run.stages), default=0)
    said = [f"{each.name:{width}} : {stage(each, now)}" for each in run.stages] if several else []
    groups = run.failures()
    said += [f"  {each.stage}: {group(each)}" for each in groups[:GROUPS]]
    if len(groups) > GROUPS:
        said.append(f"  and {len(groups) - GROUPS} other kinds of failure")
    return said


def summary(run: Run, totals: dict[str, dict[str, int]], report: str) -> list[str]:
    """In place of a line a host. totals: by host what Ansible counted; report: where the rest stands."""
    added = {key: sum(one[key] for one in totals.values()) for key in next(iter(totals.values()), {})}
    changed = sum(1 for one in totals.values() if one["changed"])
    bad = sorted(name for name, one in totals.items() if one["failures"] or one["unreachable"])
    said = [
        f"{hosts(len(totals))} : {len(totals) - len(bad)} without a failed task, {changed} changed, {len(bad)} failed"
    ]
    if added:
        said.append("tasks : " + ", ".join(f"{key.replace('failures', 'failed')}={added[key]}" for key in added))
    said += [f"  {name}: {run.gone.get(name, 'failed')}" for name in bad[:LISTED]]
    if len(bad) > LISTED:
        said.append(f"  and {len(bad) - LISTED} more (see {report})")
    return said


def printable(lines: Iterable[str], limit: int = 400) -> list[str]:
    """Each on one line, without characters that a terminal obeys; blanks stay."""
    said = (clean(line).replace("\n", " ").replace("\t", " ") for line in lines)
    return [line if len(line) <= limit else f"{line[: limit - 1]}…" for line in said]
