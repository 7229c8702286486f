"""How long plays took the last time: what an estimate of a whole stage is worth."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from .model import Run

LIKE = 2.0  # a run with more or fewer hosts than this times says nothing
PLAYS_MAX = 200


def expected(file: Path, playbook: str, play: str, hosts: int) -> float | None:
    """Seconds of the last whole run of this play on about as many hosts; None when there is none."""
    known = _read(file).get(f"{playbook}: {play}")
    if not known or not hosts:
        return None
    seconds, before = known
    return seconds if before / LIKE <= hosts <= before * LIKE else None


def remember(file: Path, run: Run) -> None:
    """The plays that came to their end. Not being able to write is no reason to disturb a run."""
    known = _read(file)
    for stage in run.stages:
        if stage.ended is not None and stage.tasks and stage.alive:
            name = f"{run.playbook}: {stage.name}"
            known.pop(name, None)
            known[name] = (round(stage.ended - stage.begun, 1), stage.total)
    rows = dict(list(known.items())[-PLAYS_MAX:])
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_name(f"{file.name}.{os.getpid()}")
        fresh.write_text(json.dumps(rows))
        fresh.replace(file)


def _read(file: Path) -> dict[str, tuple[float, int]]:
    try:
        rows = json.loads(file.read_text())
        return {str(name): (float(seconds), int(hosts)) for name, (seconds, hosts) in rows.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
