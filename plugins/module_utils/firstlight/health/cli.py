"""The command line scripts/health: thin over playbooks/health.yml and capture.yml, and over captures."""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..checks import TIERS
from ..checks.folder import Capture, read_archive, read_folder, write_folder
from ..commandline import Parser, complain, in_words
from ..errors import FirstlightError, InputError
from ..profile import Profile
from ..sitefiles import load_profiles
from ..streams import plain_output
from ..versions import load_versions
from ..yamlfile import read_yaml
from .onhost import add_options, judge_capture, say, system_of, tell
from .selfcontained import NAME, build
from .settings import Settings, in_use, known_check, load_settings, of_system
from .verdicts import NOT_TOLD, lines, record_of_nothing, record_of_report, status

PROJECT = Path(__file__).resolve().parents[4]
COMMANDS = ("capture", "judge", "file")

EPILOG = f"""\
  health [HOST...]          run the checks on these hosts (names, groups, patterns), or on the whole fleet, through
                            playbooks/health.yml; what is found is in the ledger and the report, and a host that is not
                            fit is not ready any more
  health capture HOST DIR   keep everything that the checks read on a host, as a folder
  health judge DIR          judge such a folder, without the host
  health file [FILE]        write the self-contained file of the checks, {NAME}

Each has --help. exit status:
  0  all are fit (or it is done)
  1  all were told, and at least one is not fit
  2  of at least one it could not be told (it is not reached, or the run broke), or wrong usage

The fleet is that of the site's inventory, as ansible.cfg, $ANSIBLE_INVENTORY or --inventory say.
"""


class _Parser(Parser):
    wrong = NOT_TOLD


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    plain_output()
    words = list(sys.argv[1:] if arguments is None else arguments)
    command = words[0] if words and words[0] in COMMANDS else "hosts"
    options = _PARSERS[command]().parse_args(words if command == "hosts" else words[1:])
    try:
        return _RUN[command](options)
    except (FirstlightError, ValueError) as error:
        complain("health", error)
    except OSError as error:
        complain("health", in_words(error))
    except KeyboardInterrupt as interrupted:
        print(f"health: {interrupted or 'interrupted'}", file=sys.stderr)
    return NOT_TOLD


# -- the fleet ------------------------------------------------------------------------------------------------------


def judge_hosts(options: argparse.Namespace) -> int:
    """Run the checks on hosts, and say of each what the report has."""
    with tempfile.TemporaryDirectory(prefix="firstlight-health-") as folder:
        note = Path(folder) / "note.json"
        variables = {"health_note": str(note), "tier": options.tier, "health_in_use": options.in_use}
        ended = _play("health.yml", options, options.hosts, variables)
        if not note.exists():
            raise FirstlightError(_why_not(options, options.hosts) or f"the run did not begin: {ended.reason}")
        begun = json.loads(note.read_text())
    if strange := _strange(options.hosts, begun):
        raise InputError(_NO_SUCH.format(strange))
    document = _document(begun, options.tier)
    if document is None:
        raise FirstlightError(f"the run broke: {ended.reason}")
    if document.get("stopped"):
        complain("health", document["stopped"])
    say(json.dumps(document, indent=2) if options.json else "\n".join(lines(document["hosts"], document["common"])))
    return status(document["hosts"])


def _document(begun: Mapping[str, Any], tier: str) -> dict[str, Any] | None:
    """What the report has of the run's hosts; None where it is none of that run, or the run broke.

    A run that the brake has stopped has judged them all the same: ``stopped`` says why.
    """
    from ..quarantine import BRAKED  # half a second that judging a capture need not wait

    try:
        report = json.loads(Path(begun["report"]).read_text())
    except (OSError, ValueError):
        return None
    run = report.get("run") or {}
    stopped = str(run.get("message") or "")
    braked = run.get("outcome") == "broken" and BRAKED in stopped
    if run.get("id") != begun["run_id"] or not (run.get("outcome") == "done" or braked):
        return None
    told = {host["name"]: record_of_report(host) for host in report["hosts"]}
    hosts = [told.get(name) or record_of_nothing(name) for name in begun["hosts"]]
    document = {"site": report["site"], "time": run.get("ended"), "run": run["id"], "tier": tier}
    said = {"stopped": stopped} if braked else {}
    return {**document, **said, "common": report.get("common", []), "hosts": hosts}


def _strange(names: Sequence[str], begun: Mapping[str, Any]) -> str:
    """The first of these names that is neither a pattern nor known; Ansible only warns of it."""
    known = {*begun["hosts"], *begun["groups"]}
    return next((name for name in names if name not in known and not set(name) & set("*?[]:!&,~@")), "")


def _why_not(options: argparse.Namespace, names: Sequence[str]) -> str:
    """Which mistake of people's kept a run from beginning; empty where it is none that the inventory tells."""
    command = [sys.executable, "-m", "ansible", "inventory", "--list"]
    command += [f"--inventory={options.inventory}"] if options.inventory else []
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    try:
        told = json.loads(done.stdout) if done.returncode == 0 else None
    except ValueError:
        told = None
    return _mistake(told, names) if isinstance(told, dict) else ""


def _mistake(inventory: Mapping[str, Any], names: Sequence[str]) -> str:
    """The same of an inventory as ansible-inventory --list has it."""
    groups = {name: group for name, group in inventory.items() if name != "_meta"}
    fleet: set[str] = set()
    left = ["fleet"]
    while left:
        group = groups.get(left.pop(), {})
        fleet |= set(group.get("hosts", []))
        left += group.get("children", [])
    hosts = {host for group in groups.values() for host in group.get("hosts", [])}
    children = {child for group in groups.values() for child in group.get("children", [])}
    if strange := _strange(names, {"hosts": hosts, "groups": {*groups, *children}}):
        return _NO_SUCH.format(strange)
    return "" if fleet else "the inventory has no host in its group fleet"


_NO_SUCH = "{}: no such host or group in the inventory"
# how Ansible, and the project's own callback, begin the line that says what went wrong
_WRONG = re.compile(r"(?:\[ERROR\]: |ERROR! |fatal: \[[^\]]*\]: \w+! => )(.+)")


class _Ended:
    """A playbook that ended. reason: in one line the last thing that went wrong."""

    def __init__(self, code: int, said: Iterable[str] = (), shown: bool = False) -> None:
        self.code = code
        wrong = [found[1] for found in map(_WRONG.match, said) if found]
        silent = "what Ansible says stands above" if shown else "--verbose shows what Ansible says"
        self.reason = wrong[-1] if wrong else silent


def _play(name: str, options: argparse.Namespace, hosts: Sequence[str], variables: Mapping[str, Any]) -> _Ended:
    command = [sys.executable, "-m", "ansible", "playbook", str(PROJECT / "playbooks" / name)]
    command += ["-e", json.dumps(variables)]
    command += [f"--limit={','.join(hosts)}"] if hosts else []  # with =, else one that begins with - is an option
    command += [f"--inventory={options.inventory}"] if options.inventory else []
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        shown = sys.stderr if options.verbose else said
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=shown, stderr=shown)
        try:
            with _passed_on(process):
                code = process.wait()
        except KeyboardInterrupt:
            process.wait()  # the signal was for both, and Ansible writes its report before it ends
            raise
        said.seek(0)
        return _Ended(code, (line.strip() for line in said), options.verbose)


@contextmanager
def _passed_on(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """SIGTERM and SIGHUP are for this process too, and then end the work here: KeyboardInterrupt that says so."""
    came: list[str] = []

    def handle(number: int, _frame: Any) -> None:
        came.append(signal.Signals(number).name)
        process.send_signal(number)

    before = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGHUP)}
    before = {n: handler for n, handler in before.items() if handler is not signal.SIG_IGN}  # nohup
    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        raise KeyboardInterrupt(f"ended by {came[0]}")


# -- captures -------------------------------------------------------------------------------------------------------


def capture_host(options: argparse.Namespace) -> int:
    """Bring a capture of a host here."""
    target = Path(options.folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{target} is there and not an empty folder; name a new one")
    with tempfile.TemporaryDirectory(prefix="firstlight-health-") as folder:
        ended = _play("capture.yml", options, [options.host], {"capture_to": folder, "tier": options.tier})
        brought = list(Path(folder).glob("*.tar.gz"))
        if len(brought) > 1:
            raise InputError(f"{options.host} is {len(brought)} hosts; a capture is of one")
        if ended.code or not brought:
            raise FirstlightError(
                _why_not(options, [options.host]) or f"{options.host} was not captured: {ended.reason}"
            )
        with brought[0].open("rb") as file:
            kept = read_archive(file)
    files = write_folder(kept, str(target))
    say(f"{target}: {len(kept.outputs)} sources of {len(kept.read_by)} checks in {files} files")
    say("It has serial numbers, names and log lines. Look through it before you give it away.")
    return 0


def judge_folder(options: argparse.Namespace) -> int:
    """Judge a capture, from this host or another."""
    for name in options.check:
        known_check("--check", name)
    kept = read_folder(options.folder)
    profile = _profile(options.profile, kept)
    settings = load_settings(options.settings)
    expect = {**_wanted_versions(options.versions, kept, profile), **settings.expect}
    expect = in_use(expect) if options.in_use else expect
    return tell(options.json, judge_capture(kept, profile, Settings(expect, settings.skips, settings.require), options))


def _profile(wanted: str | None, kept: Capture) -> Profile:
    if wanted is None:
        complain("health", "judged by the profile that the capture brings; --profile names another")
        return Profile.from_dict(kept.facts.get("profile") or {})
    if not Path(wanted).exists():
        known = load_profiles(PROJECT / "inventory" / "profiles")
        if wanted not in known:
            raise InputError(f"no file and no profile {wanted!r}; there are {', '.join(known)}")
        return known[wanted]
    try:
        return Profile.from_dict(read_yaml(wanted).data)  # JSON is YAML too
    except ValueError as error:
        raise InputError(str(error), wanted) from None


def _wanted_versions(path: str | None, kept: Capture, profile: Profile) -> dict[str, Any]:
    """What versions.yml wants of a host with the capture's system."""
    if path is None:
        return {}
    return of_system({"versions": load_versions(path).expected(profile.name)}, system_of(kept))


def write_file(options: argparse.Namespace) -> int:
    """Write the self-contained file."""
    say(str(build(Path(options.file))))
    return 0


# -- the command line -----------------------------------------------------------------------------------------------


def _parser_of(name: str, description: str, epilog: str = "") -> _Parser:
    how = argparse.RawDescriptionHelpFormatter
    return _Parser(prog=name, description=description, epilog=epilog, formatter_class=how)


def _through_ansible(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--inventory", metavar="PATH", help="the site's inventory")
    parser.add_argument("--tier", choices=list(TIERS), default="quick")
    parser.add_argument("--verbose", action="store_true", help="show what Ansible says")


def _hosts_parser() -> argparse.ArgumentParser:
    parser = _parser_of("health", "Are hosts fit to train? Yes or no, with reasons.", EPILOG)
    parser.add_argument("hosts", nargs="*", metavar="HOST")
    parser.add_argument("--in-use", action="store_true", help="jobs may run: their processes on GPUs are allowed")
    parser.add_argument("--json", action="store_true", help="everything, as JSON")
    _through_ansible(parser)
    return parser


def _capture_parser() -> argparse.ArgumentParser:
    parser = _parser_of("health capture", "Keep everything that the checks read on a host.")
    parser.add_argument("host", metavar="HOST")
    parser.add_argument("folder", metavar="DIR", help="a new folder")
    _through_ansible(parser)
    return parser


def _judge_parser() -> argparse.ArgumentParser:
    parser = _parser_of("health judge", "Judge a capture.")
    parser.add_argument("folder", metavar="DIR")
    parser.add_argument("--profile", metavar="P", help="a file, or the name of one in inventory/profiles")
    parser.add_argument("--versions", metavar="FILE", help="a versions.yml, whose driver and firmware are expected")
    add_options(parser)
    return parser


def _file_parser() -> argparse.ArgumentParser:
    parser = _parser_of("health file", "Write the self-contained file of the checks.")
    parser.add_argument("file", nargs="?", default=NAME, metavar="FILE")
    return parser


_PARSERS = {"hosts": _hosts_parser, "capture": _capture_parser, "judge": _judge_parser, "file": _file_parser}
_RUN = {"hosts": judge_hosts, "capture": capture_host, "judge": judge_folder, "file": write_file}

if __name__ == "__main__":
    sys.exit(main())
