"""How a run goes on, for people: a line a shard."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from ..commandline import say
from ..errors import FirstlightError
from ..findings import shorten
from ..ledger.store import STATES, Ledger, now
from ..ledger.where import find_ledger
from .runs import LIVE, Run, Shard

_EVERY = 1.0  # s, on a terminal
_LINES_EVERY = 10.0  # s, elsewhere; at once where a shard's play or state changed
_ORDER = (1, 2, 0)  # the worst first


def follow(run: Run, tidy: Callable[[Run], None]) -> int:
    """Show the run until no shard goes on; returns the worst exit status of its shards."""
    if sys.stdout.isatty():
        with Live(console=Console(), auto_refresh=False, transient=True) as live:
            while going(run):
                live.update(
                    Text("\n".join(lines(run, live_first=True)), no_wrap=True, overflow="ellipsis"), refresh=True
                )
                time.sleep(_EVERY)
    else:
        shown: dict[str, tuple[float, Any]] = {}
        while going(run):
            _print_news(run, shown)
            time.sleep(_EVERY / 2)
    tidy(run)
    say("\n".join(lines(run)))
    return worst(shard.state() for shard in run.shards)


def _print_news(run: Run, shown: dict[str, tuple[float, Any]]) -> None:
    states, at = ledger_states(run), time.monotonic()
    for shard in run.shards:
        state = shard.state()
        key = (state["state"], state.get("play"), len(state.get("failed") or {}))
        last, before = shown.get(shard.name, (0.0, None))
        if key != before or (state["state"] in LIVE and at - last > _LINES_EVERY):
            shown[shard.name] = (at, key)
            say(line(shard.name, state, shard.hosts, states))
            sys.stdout.flush()


def going(run: Run) -> bool:
    return any(shard.state()["state"] in LIVE for shard in run.shards)


def lines(run: Run, *, live_first: bool = False) -> list[str]:
    """A line a shard; a screen that is too low for all shows its first."""
    told = [(shard, shard.state()) for shard in run.shards]
    if live_first:
        told.sort(key=lambda one: one[1]["state"] not in LIVE)
    known = ledger_states(run)
    return [line(shard.name, state, shard.hosts, known) for shard, state in told]


def ledger_states(run: Run) -> dict[str, str]:
    """State of every host by name; empty where there is no ledger yet, or none that can be read."""
    try:
        return Ledger(find_ledger(None, Path(run.about["inventory"])), create=False).states()
    except FirstlightError:
        return {}


def line(name: str, state: Mapping[str, Any], hosts: list[str], states: Mapping[str, str]) -> str:
    """Of one shard: how it stands, where it is, what has become of its hosts."""
    words = [f"{name}: {state['state']}"]
    if state["state"] == "done":
        words[0] += f", {_MEANS.get(exit_status(state), '')} (exit status {state['rc']})"
    goes_on = state["state"] in LIVE
    if state.get("started") and (goes_on or state.get("ended")):
        words[0] += f", {_duration(state['started'], state.get('ended') or now())}"
    counted = Counter(states.get(host, "planned") for host in hosts)
    words.append(", ".join(f"{counted[key]} {key}" for key in STATES if counted[key]))
    if failed := state.get("failed"):
        words.append(f"{len(failed)} of {len(hosts)} hosts failed a task")
    if state["state"] != "done" and state.get("play"):
        where = f"{state['play']}: {state['task']}" if state.get("task") else str(state["play"])
        words.append(where if goes_on else f"last in {where}")
    if state.get("why"):
        words.append(str(state["why"]))
    return "; ".join(words)


def run_line(run: Run) -> str:
    """Of a whole run."""
    counted = Counter(shard.state()["state"] for shard in run.shards)
    told = ", ".join(f"{count} {state}" for state, count in counted.items())
    count = sum(len(shard.hosts) for shard in run.shards)
    what = Path(run.about["playbook"]).name + (", check" if run.about["check"] else "")
    end = "" if going(run) else f"; exit status {worst(shard.state() for shard in run.shards)}"
    return f"{run.name}  {what}, {count} hosts, {len(run.shards)} shards: {told}{end}"


def last_words(shard: Shard, count: int = 40) -> list[str]:
    """What a shard printed last that says what goes on in MAAS without it."""
    path = shard.folder / "artifacts" / str(shard.saved().get("tries", 0)) / "stdout"
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [said for said in map(shorten, text.splitlines()[-count:]) if said.startswith("interrupted: ")]


def exit_status(state: Mapping[str, Any]) -> int:
    """0 met, 2 not met, 1 broken; of a playbook without a report Ansible's own: failed and unreachable hosts are 2."""
    if state["state"] != "done":
        return 1
    return {0: 0, 2: 2, 4: 2, 6: 2}.get(state.get("rc"), 1)  # type: ignore[arg-type]


def worst(states: Any) -> int:
    found = {exit_status(state) for state in states}
    return next(status for status in _ORDER if status in found)


_MEANS = {0: "met", 2: "not met", 1: "broken"}


def _duration(start: str, end: str) -> str:
    seconds = max(0, int((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()))
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}" if minutes >= 60 else f"{minutes}:{seconds:02d}"
