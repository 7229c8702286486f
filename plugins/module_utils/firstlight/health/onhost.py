"""The self-contained file's command line: the checks on a host that has neither Ansible nor PyYAML.

Standard library only, Python 3.8 or later.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, NoReturn, Optional, Sequence, Tuple

from ..checks import ALL_CHECKS, TIERS, run_checks
from ..checks.capture import Ended, end_on_signals
from ..checks.engine import Result, Run
from ..checks.folder import Capture, capture, facts_here, read_folder, replay, write_folder
from ..checks.places import Placing
from ..findings import Finding, printable, shorten
from ..profile import Profile
from ..streams import plain_output
from ..wholefile import write_whole
from . import VERSION, earlier, metrics, state
from .earlier import Memory
from .settings import Settings, in_use, known_check, load_profile, load_settings, of_system, read_expect
from .verdicts import NOT_TOLD, lines, record, status

USUAL = "quick"
FOLDER = "/etc/firstlight"  # where the role health_timer leaves profile.json and checks.json
STATE = "/var/lib/firstlight/health.json"  # its unit makes the folder
EPILOG = f"""\
commands:
  run             judge this host (what it does without a command)
  capture DIR     keep everything that the checks read, as a folder, and judge nothing
  judge DIR       judge such a folder, of this host or another
  metrics FILE    judge this host and write what is found as metrics, for a node exporter

exit status:
  0  fit to train; captured; metrics written
  1  not fit
  2  could not be told: wrong usage or settings, nothing could be read or written

--profile is the host's profile as JSON, by default {FOLDER}/profile.json. --settings is JSON too: a mapping of
expect, skip and require, as the module host_check has them; by default {FOLDER}/checks.json where that is.

--state is a file in which run and metrics remember error counters and the time of the last clean verdict for the next
run, so that growth is judged; capture reads it too. By default {STATE}, where its folder is there.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(NOT_TOLD, f"{self.prog}: {message}; {self.prog} --help says more\n")


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run one command; returns the exit status. A signal that ends it ends all that it runs."""
    plain_output()
    options = _parser().parse_args(arguments)
    try:
        end_on_signals()
        return _command(options)
    except ValueError as error:
        complain(str(error))
    except OSError as error:
        complain(f"{error.filename or 'standard output'}: {error.strerror or error}")
    except Ended as ended:
        complain(f"ended by {ended}, and with it all that it ran")
    except KeyboardInterrupt:
        complain("interrupted")
    except Exception as error:  # what no validation has foreseen: nobody is helped by a traceback on a host
        complain(f"a fault of the checks, please report it: {type(error).__name__}: {error}"[:300])
    return NOT_TOLD


def say(text: str) -> None:
    """Print lines; a reader that has enough of them changes no exit status. OSError where they cannot be written."""
    try:
        print(printable(text))
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nothing is left for the flush at exit to fail at


def complain(message: str) -> None:
    """One line to standard error, whatever is in it."""
    print(f"firstlight-checks: {shorten(message, 4000)}", file=sys.stderr)


def _command(options: argparse.Namespace) -> int:
    for name in options.check:
        known_check("--check", name)
    if options.command == "run" and options.where:
        raise ValueError(f"run takes no {options.where!r}")
    if options.command != "run" and not options.where:
        raise ValueError(f"{options.command}: name {'the file' if options.command == 'metrics' else 'the folder'}")
    if options.command == "judge":
        if options.state:
            raise ValueError("judge takes no --state: a capture has what was remembered")
        return _judge(options)
    profile = load_profile(_profile_path(options))
    settings = _settings(options)
    settings = dataclasses.replace(settings, expect=of_system(settings.expect, facts_here(VERSION)["system"]))
    path = _state_path(options)
    settings, memory, wrong = _remembered(path, settings)
    if options.command == "capture":
        kept = capture(
            ALL_CHECKS,
            profile,
            settings.expect,
            facts_here(VERSION),
            options.tier or USUAL,
            options.check,
            options.timeout,
            Placing(),
        )
        files = write_folder(kept, options.where)
        say(f"{options.where}: {len(kept.outputs)} sources of {len(kept.read_by)} checks in {files} files")
        return 0
    started = time.time()
    result = judged(profile, settings, options)
    if path and not options.check:
        wrong += state.save(path, earlier.after(memory, result, earlier.boot_here()))
    result = dataclasses.replace(result, findings=[*result.findings, *wrong])
    if options.command == "metrics":
        taken = time.time() - started
        write_whole(options.where, metrics.text(result.findings, result.verdict.ready, started, taken))
        return 0
    return tell(options.json, _record(platform.node(), result, options.tier or USUAL, started))


def judged(
    profile: Profile,
    settings: Settings,
    options: argparse.Namespace,
    run: Optional[Run] = None,
    today: Optional[datetime.date] = None,
) -> Result:
    """Judge this host, or what ``run`` gives of another; options has tier, timeout and check. today: for the skips."""
    placing = Placing() if run is None else Placing(run)
    result = run_checks(
        ALL_CHECKS,
        profile,
        settings.expect,
        options.tier or USUAL,
        settings.skips,
        settings.require,
        options.timeout,
        today,
        only=options.check,
        run=placing,
    )
    return placing.told(result)


def judge_capture(kept: Capture, profile: Profile, settings: Settings, options: argparse.Namespace) -> Dict[str, Any]:
    """The record of the host that a capture is of. Its expectations hold where ``settings`` have no own."""
    expect = of_system({**read_expect(kept.facts.get("expect") or {}), **settings.expect}, system_of(kept))
    tier = options.tier or str(kept.facts.get("tier"))
    if tier not in TIERS:
        raise ValueError(f"the capture's tier {tier[:20]!r} is none of {', '.join(TIERS)}")
    named = kept.facts.get("checks")
    only = options.check or (named if isinstance(named, list) else [])
    for name in only:
        known_check("the capture's checks", name)
    how = argparse.Namespace(tier=tier, timeout=None, check=only)
    when = shorten(kept.facts.get("time", ""), 40)
    try:
        result = judged(profile, Settings(expect, settings.skips, settings.require), how, replay(kept), _day(when))
    except Exception as error:  # its profile and expectations are a stranger's
        raise ValueError(f"it cannot be judged by this profile: {type(error).__name__}: {error}"[:300]) from None
    return _record(shorten(kept.facts.get("host", ""), 80) or "host", result, tier, when)


def _day(time_of_capture: str) -> Optional[datetime.date]:
    """The day of a capture, by which its skips hold; None where it does not tell."""
    try:
        return datetime.date.fromisoformat(time_of_capture[:10])
    except ValueError:
        return None


def system_of(kept: Capture) -> Dict[str, str]:
    """What the captured host runs, as ``of_system`` takes it."""
    told = kept.facts.get("system")
    known = told if isinstance(told, dict) else {}
    return {key: str(known.get(key)) for key in ("distribution", "version", "architecture")}


def _judge(options: argparse.Namespace) -> int:
    kept = read_folder(options.where)
    if options.profile:
        profile = load_profile(options.profile)
    else:
        complain("judged by the profile that the capture brings")
        profile = Profile.from_dict(kept.facts.get("profile") or {})
    return tell(options.json, judge_capture(kept, profile, _settings(options, default=False), options))


def _record(name: str, result: Result, tier: str, when: Any) -> Dict[str, Any]:
    at = when if isinstance(when, str) else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when))
    return record(name, result.findings, result.verdict, tier=tier, time=at, seconds=result.seconds)


def tell(as_json: bool, row: Dict[str, Any]) -> int:
    """Print a host's record; returns the exit status."""
    say(json.dumps(row, indent=2) if as_json else "\n".join(lines([row])))
    return status([row])


def _profile_path(options: argparse.Namespace) -> str:
    path = options.profile or f"{FOLDER}/profile.json"
    if not options.profile and not Path(path).exists():
        raise ValueError(f"--profile is missing, and there is no {path}")
    return str(path)


def _settings(options: argparse.Namespace, default: bool = True) -> Settings:
    usual = f"{FOLDER}/checks.json"
    paths: List[str] = options.settings or ([usual] if default and Path(usual).exists() else [])
    settings = load_settings(paths)
    return Settings(in_use(settings.expect), settings.skips, settings.require) if options.in_use else settings


def _state_path(options: argparse.Namespace) -> str:
    """Where this host remembers; empty where it does not."""
    path = str(options.state or STATE)
    there = Path(path).parent.is_dir()
    if options.state and not there:
        raise ValueError(f"--state: {Path(path).parent} is no folder")
    return path if there else ""


def _remembered(path: str, settings: Settings) -> Tuple[Settings, Memory, List[Finding]]:
    """The settings with what is remembered, that memory, and what is wrong with it."""
    memory, wrong = state.load(path) if path else ({}, [])
    expect = earlier.known(settings.expect, memory, time.time(), earlier.boot_here())
    return dataclasses.replace(settings, expect=expect), memory, wrong


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="firstlight-checks",
        description="Is this host fit to train? Yes or no, with reasons.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", nargs="?", default="run", choices=["run", "capture", "judge", "metrics"])
    parser.add_argument("where", nargs="?", help="the folder of a capture, or the file of metrics")
    add_options(parser)
    parser.add_argument("--profile", metavar="FILE", help="the host's profile, as JSON")
    parser.add_argument("--state", metavar="FILE", help="what is remembered from run to run")
    parser.add_argument("--version", action="version", version=f"firstlight-checks {VERSION}")
    return parser


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that scripts/health judge has too."""
    parser.add_argument("--settings", metavar="FILE", action="append", default=[], help="expect, skip, require; JSON")
    parser.add_argument("--tier", choices=list(TIERS), default=None, help="quick if not given; for judge the capture's")
    parser.add_argument("--check", metavar="NAME", action="append", default=[], help="only this one; may be repeated")
    parser.add_argument("--in-use", action="store_true", help="a job may run: its processes on GPUs are allowed")
    parser.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="that one command may take at most")
    parser.add_argument("--json", action="store_true", help="everything, as JSON")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value <= 86400:
        raise argparse.ArgumentTypeError(f"{shorten(text, 40)!r} is no number of seconds from above 0 to 86400")
    return value


if __name__ == "__main__":
    sys.exit(main())
