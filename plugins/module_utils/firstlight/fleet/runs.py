"""The folder of a run: what was started, and how each of its shards goes on.

RUN/run.json            what was asked for, and the hosts of each shard; no secrets, no environment
RUN/SHARD/runner.lock   held by the process that drives the shard
RUN/SHARD/playbook.lock held by its ansible-playbook
RUN/SHARD/state.json    how the shard goes on, or how it ended
RUN/SHARD/ledger_run    the number of its run in the ledger
RUN/SHARD/noted         the number of the try whose end the ledger has
RUN/SHARD/artifacts/N/  what ansible-runner keeps of the Nth try: stdout, failed tasks
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ..errors import FirstlightError, InputError
from ..wholefile import write_whole
from . import locks

RUN_FILE = "FIRSTLIGHT_RUN_FILE"  # in ansible-playbook's environment: where its callback leaves the run's number
FLEET_RUN = "FIRSTLIGHT_FLEET_RUN"  # there too: what the shards that are started together have in common
LIVE = ("running", "ending")
_ABOUT = {"playbook": str, "inventory": str, "check": bool, "shards": dict}
_FOR_A_FOLDER = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True)
class Shard:
    run: Run
    name: str

    @property
    def folder(self) -> Path:
        return self.run.folder / self.name

    @property
    def hosts(self) -> list[str]:
        return list(self.run.about["shards"][self.name])

    @property
    def runner_lock(self) -> Path:
        return self.folder / "runner.lock"

    @property
    def playbook_lock(self) -> Path:
        return self.folder / "playbook.lock"

    def ledger_run(self) -> int | None:
        """The number of its last try in the ledger; None where it has not come so far, and in check mode."""
        try:
            return None if self.run.about["check"] else int((self.folder / "ledger_run").read_text())
        except (OSError, ValueError):
            return None

    def is_noted(self) -> bool:
        """Whether the ledger has the end of its last try."""
        try:
            return (self.folder / "noted").read_text() == str(self.saved().get("tries", 0))
        except OSError:
            return False

    def note(self) -> None:
        write_whole(self.folder / "noted", str(self.saved().get("tries", 0)), 0o600)

    def saved(self) -> dict[str, Any]:
        try:
            return dict(read_json(self.folder / "state.json"))
        except InputError:
            return {}

    def save(self, **values: Any) -> None:
        write(self.folder / "state.json", values)

    def state(self) -> dict[str, Any]:
        """What it saved, and ``state``: running, ending (its runner is gone), done, stopped or died; and who works."""
        runner, playbook = locks.holder(self.runner_lock), locks.holder(self.playbook_lock)
        saved = self.saved()  # after the locks: who gave them back has saved
        ended = saved.get("outcome") or "died"
        state = "running" if runner else "ending" if playbook else ended
        return {**saved, "state": state, "pid": runner or playbook, "hosts": len(self.hosts)}


@dataclass(frozen=True)
class Run:
    folder: Path
    about: dict[str, Any]

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def shards(self) -> list[Shard]:
        return [Shard(self, name) for name in self.about["shards"]]


def new_run(runs: Path, about: Mapping[str, Any], shards: Mapping[str, list[str]]) -> Run:
    """Make the folder of a run; it is called after the time."""
    folders: dict[str, list[str]] = {}
    for name, hosts in shards.items():
        folders[_unlike(_FOR_A_FOLDER.sub("_", name).lstrip(".") or "_", folders)] = hosts
    taken = {path.name for path in runs.iterdir()}
    folder = runs / _unlike(datetime.now().strftime("%Y%m%d-%H%M%S"), taken)
    folder.mkdir(mode=0o700)
    for name in folders:
        (folder / name).mkdir(mode=0o700)
    run = Run(folder, {**about, "shards": folders})
    write(folder / "run.json", run.about)
    return run


def all_runs(runs: Path) -> list[Run]:
    """The runs, the oldest first. A folder that a kill left without its run.json is none."""
    if runs.exists() and not runs.is_dir():
        raise InputError(f"{runs} is no folder")
    return [read_run(path.parent) for path in sorted(runs.glob("*/run.json"))]


def read_run(folder: Path) -> Run:
    """InputError where its file is not as ``new_run`` writes it."""
    path = folder / "run.json"
    about = read_json(path)
    for key, kind in _ABOUT.items():
        if not isinstance(about.get(key), kind):
            raise InputError(f"{path}: {key} is not there, or wrong; remove its folder if the run is over")
    if not all(
        isinstance(hosts, list) and all(isinstance(h, str) for h in hosts) for hosts in about["shards"].values()
    ):
        raise InputError(f"{path}: shards is wrong; remove its folder if the run is over")
    return Run(folder, about)


def find_run(runs: Path, name: str | None) -> Run:
    """The run of that name, else the last one."""
    known = all_runs(runs)
    for run in known:
        if run.name == name:
            return run
    if name is not None or not known:
        what = f"no run {name} in {runs}" if name else f"no run in {runs}"
        raise InputError(f"{what}; scripts/fleet list names them")
    return known[-1]


def refuse_busy(runs: Path, hosts: set[str], inventory: str) -> None:
    """InputError when a run that goes on works on one of these hosts of this inventory."""
    for run in all_runs(runs):
        for shard in run.shards if run.about["inventory"] == inventory else ():
            both = [host for host in shard.hosts if host in hosts]
            if both and (now := shard.state())["state"] in LIVE:
                shown = ", ".join(both[:5]) + (f" and {len(both) - 5} more" if len(both) > 5 else "")
                raise InputError(
                    f"run {run.name}, shard {shard.name} (process {now['pid']}) works on {shown}; wait for its end, "
                    f"stop it with scripts/fleet stop {run.name}, or leave them out with -l"
                )


def make_folder(runs: Path) -> None:
    """Only its owner reads it: what ansible-playbook prints is there."""
    try:
        runs.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise FirstlightError(f"{runs} cannot be made: {error.strerror}") from None


def write(path: Path, values: Mapping[str, Any]) -> None:
    """As JSON."""
    write_whole(path, json.dumps(values, indent=1) + "\n", 0o600)


def read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        content = None
    if not isinstance(content, dict):
        raise InputError(f"{path} cannot be read; remove its folder if the run is over")
    return content


def _unlike(name: str, taken: Any) -> str:
    number, new = 1, name
    while new in taken:
        number += 1
        new = f"{name}-{number}"
    return new
