"""The command line scripts/fleet: playbooks in the background, the hosts divided among several runs side by side."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import commandline
from ..errors import FirstlightError, InputError
from ..ledger.store import now, operator
from . import locks, runs, shards, watch
from .noting import note_end
from .runs import LIVE, Run, Shard

ROOT = Path(__file__).resolve().parents[4]
EPILOG = """\
Runs are in reports/runs/ beside ansible.cfg. RUN is by default the last one. Secrets come from the inventory or the
environment, as for ansible-playbook; a resumed run takes the environment of whoever resumes it.

exit status:
  of start --wait, resume --wait and watch, the worst of the shards':
  0  all met the policy
  2  not all did
  1  one broke, was stopped or died; or the command was not done
  else 0 done, 1 not done
"""
_START_SECONDS = 30.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(arguments)
    interrupted = "interrupted; runs go on, scripts/fleet stop ends them"
    return commandline.run("fleet", lambda: _COMMANDS[options.command](options), interrupted)


def _parser() -> argparse.ArgumentParser:
    where = commandline.Parser(add_help=False)
    where.add_argument("--runs", type=Path, default=ROOT / "reports" / "runs", metavar="DIR", help="folder of the runs")
    of = commandline.Parser(add_help=False, parents=[where])
    of.add_argument("run", nargs="?", metavar="RUN", help="by default the last one")
    waits = commandline.Parser(add_help=False)
    waits.add_argument("--wait", action="store_true", help="then watch it to its end")
    about = "Runs of playbooks in the background, in shards of hosts side by side."
    parser = commandline.parser("fleet", about, EPILOG)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    start = commands.add_parser("start", parents=[where, waits], help="start a playbook")
    start.add_argument("playbook", nargs="?", default="site.yml", metavar="PLAYBOOK", help="by default site.yml")
    start.add_argument("-i", "--inventory", metavar="DIR", help="by default as $ANSIBLE_INVENTORY, ansible.cfg")
    start.add_argument("-l", "--limit", metavar="PATTERN", help="only these hosts")
    start.add_argument("--shards", default="rack", metavar="rack|N", help="one a rack (default), or N of whole racks")
    start.add_argument("-t", "--tags", default="", metavar="TAGS")
    start.add_argument("--skip-tags", default="", metavar="TAGS")
    start.add_argument("-e", "--extra-vars", action="append", default=[], metavar="NAME=VALUE|@FILE", dest="extra")
    start.add_argument("-f", "--forks", type=int, metavar="N", help="of each shard, by default as ansible.cfg says")
    start.add_argument("-C", "--check", action="store_true", help="change nothing")
    commands.add_parser("watch", parents=[of], help="follow a run to its end")
    stop = commands.add_parser("stop", parents=[of], help="as Ctrl-C, and wait until the shards have ended")
    stop.add_argument("--seconds", type=float, default=300, metavar="S", help="wait so long at most (default 300)")
    commands.add_parser("resume", parents=[of, waits], help="start the shards again that did not end well")
    commands.add_parser("list", parents=[where], help="all runs and how they stand")
    status = commands.add_parser("status", parents=[of], help="how the shards of a run stand")
    status.add_argument("--json", action="store_true", help="as JSON")
    return parser


# -- commands -----------------------------------------------------------------------------------------------------


def _start(options: argparse.Namespace) -> int:
    shards.refuse_secrets(options.extra)
    playbook, inventory = _playbook(options.playbook), _inventory(options.inventory)
    found = shards.divide(shards.racks_of(_read_inventory(inventory, options.limit)), options.shards)
    if not found:
        raise InputError(f"no host in a rack{f' within -l {options.limit}' if options.limit else ''}, in {inventory}")
    about = {
        "playbook": playbook,
        "inventory": inventory,
        "extra": shards.with_whole_paths(options.extra),
        **{key: getattr(options, key) for key in ("limit", "tags", "skip_tags", "forks", "check")},
        "operator": operator(),
        "started": now(),
    }
    runs.make_folder(options.runs)
    with _Alone(options.runs):
        runs.refuse_busy(options.runs, {host for hosts in found.values() for host in hosts}, inventory)
        run = runs.new_run(options.runs, about, found)
        _drive(run.shards)
    print(f"run {run.name}: {len(run.shards)} shards, {sum(len(s.hosts) for s in run.shards)} hosts; {run.folder}")
    return watch.follow(run, _tidy) if options.wait else 0


def _resume(options: argparse.Namespace) -> int:
    with _Alone(options.runs):
        run = runs.find_run(options.runs, options.run)
        _tidy(run)
        again = []
        for shard in run.shards:
            now_ = shard.state()
            if now_["state"] not in LIVE and (now_["state"], now_.get("rc")) != ("done", 0):
                again.append(shard)
        if not again:
            print(f"run {run.name}: every shard goes on or ended well; nothing to resume")
            return 0
        shards.with_whole_paths(run.about.get("extra", []))  # files may be gone since
        runs.refuse_busy(options.runs, {host for shard in again for host in shard.hosts}, run.about["inventory"])
        _drive(again)
    print(f"run {run.name}: {', '.join(shard.name for shard in again)} started again")
    return watch.follow(run, _tidy) if options.wait else 0


def _watch(options: argparse.Namespace) -> int:
    return watch.follow(runs.find_run(options.runs, options.run), _tidy)


def _stop(options: argparse.Namespace) -> int:
    run = runs.find_run(options.runs, options.run)
    live = [shard for shard in run.shards if shard.state()["state"] in LIVE]
    for shard in live:
        if pid := locks.holder(shard.runner_lock):
            os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + options.seconds
    while going := [shard for shard in live if shard.state()["state"] in LIVE]:
        if time.monotonic() > end:
            who = ", ".join(f"{shard.name} (process {shard.state()['pid']})" for shard in going)
            raise FirstlightError(f"run {run.name} still goes on after {options.seconds:.0f} s: {who}")
        time.sleep(0.2)
    _tidy(run)
    for shard in live:
        for line in watch.last_words(shard):
            commandline.say(f"{shard.name}: {line}")
    commandline.say("\n".join(watch.lines(run)))
    return 0


def _list(options: argparse.Namespace) -> int:
    for run in runs.all_runs(options.runs):
        _tidy(run)
        commandline.say(watch.run_line(run))
    return 0


def _status(options: argparse.Namespace) -> int:
    run = runs.find_run(options.runs, options.run)
    _tidy(run)
    if options.json:
        told = {shard.name: {**shard.state(), "ledger_run": shard.ledger_run()} for shard in run.shards}
        print(json.dumps({"run": run.name, **run.about, "folder": str(run.folder), "shards": told}, indent=2))
    else:
        commandline.say("\n".join([watch.run_line(run), *watch.lines(run)]))
    return 0


_COMMANDS = {"start": _start, "watch": _watch, "stop": _stop, "resume": _resume, "list": _list, "status": _status}


# -- what they share ----------------------------------------------------------------------------------------------


def _tidy(run: Run) -> None:
    """How a killed shard ended is noted in the ledger."""
    for shard in run.shards:
        if (state := shard.state()["state"]) in ("died", "stopped"):
            try:
                note_end(shard, "its process was killed", asked=state == "stopped")
            except FirstlightError as error:
                commandline.complain("fleet", f"shard {shard.name}: {error}")


def _drive(which: Sequence[Shard]) -> None:
    """Start the shards, each in a session of its own; returns when each has begun or failed to.

    For the ledger they are one run: resumed shards are another than those that were started first.
    """
    together = f"{which[0].run.name}-{secrets.token_hex(6)}"  # several control nodes have one ledger
    started: list[tuple[Shard, subprocess.Popen[bytes]]] = []
    for shard in which:
        shard.save(tries=shard.saved().get("tries", 0))
        about = [str(shard.run.folder), shard.name, str(ROOT), together]
        command = [sys.executable, "-m", "firstlight.fleet.drive", *about]
        with (shard.folder / "runner.log").open("ab") as log:
            process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        started.append((shard, process))
    end = time.monotonic() + _START_SECONDS + 2 * len(started)
    for shard, process in started:
        while not shard.saved().get("started") and process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        if not shard.saved().get("started"):
            raise FirstlightError(f"shard {shard.name} could not be started; see {shard.folder / 'runner.log'}")


class _Alone:
    """One start at a time in a folder of runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> None:
        end = time.monotonic() + _START_SECONDS
        while self.folder.is_dir():
            self._file = locks.hold(self.folder / ".lock")
            if self._file is not None:
                return
            if time.monotonic() > end:
                pid = locks.holder(self.folder / ".lock")
                raise FirstlightError(f"process {pid} has been starting a run in {self.folder} for too long")
            time.sleep(0.1)
        raise InputError(f"no run in {self.folder}; scripts/fleet start makes one")

    def __exit__(self, *_: Any) -> None:
        if self._file is not None:
            os.close(self._file)


def _playbook(named: str) -> str:
    for path in (Path(named), ROOT / named):
        if path.is_file():
            return str(path.resolve())
    raise InputError(f"no such playbook: {named}; write site.yml or playbooks/NAME.yml")


def _inventory(named: str | None) -> str:
    """The whole path of the site's folder."""
    if not named:
        os.environ.setdefault("ANSIBLE_CONFIG", str(ROOT / "ansible.cfg"))
        from ansible import constants

        places = [str(place) for place in constants.DEFAULT_HOST_LIST]
        if len(places) != 1:
            raise InputError(f"{len(places)} inventories are set; name one with --inventory")
        named = places[0]
    path = Path(named).expanduser().resolve()
    if not path.exists():
        raise InputError(f"no such inventory: {path}")
    return str(path)


def _read_inventory(inventory: str, limit: str | None) -> dict[str, Any]:
    """As ansible-inventory reads it, once for all shards: they find in its cache what the BMCs said."""
    command = [str(Path(sys.executable).with_name("ansible-inventory")), "-i", inventory, "--list", "--export"]
    known = {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), **os.environ}
    done = subprocess.run(
        [*command, *(["-l", limit] if limit else [])], cwd=ROOT, env=known, stdout=subprocess.PIPE, check=False
    )
    try:
        found = json.loads(done.stdout) if done.returncode == 0 else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InputError(f"inventory {inventory} cannot be read; what ansible-inventory says stands above")
    return found


if __name__ == "__main__":
    sys.exit(main())
