"""The command line scripts/health: thin over playbooks/health.yml and capture.yml, and over captures."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from ..checks import TIERS
from ..checks.folder import Capture, read_archive, read_folder, write_folder
from ..errors import FirstlightError, InputError
from ..profile import Profile
from ..sitefiles import load_profiles
from ..versions import load_versions
from ..yamlfile import read_yaml
from .onhost import add_options, judge_capture, tell
from .selfcontained import NAME, build
from .settings import Settings, in_use, known_check, load_settings
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


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(NOT_TOLD, f"{self.prog}: {message}; {self.prog} --help says more\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    command = words[0] if words and words[0] in COMMANDS else "hosts"
    options = _PARSERS[command]().parse_args(words if command == "hosts" else words[1:])
    try:
        return _RUN[command](options)
    except (FirstlightError, ValueError) as error:
        print(f"health: {error}", file=sys.stderr)
    except OSError as error:
        print(f"health: {error.filename or ''}: {error.strerror}", file=sys.stderr)
    except KeyboardInterrupt:
        print("health: interrupted", file=sys.stderr)
    return NOT_TOLD


# -- the fleet ------------------------------------------------------------------------------------------------------


def judge_hosts(options: argparse.Namespace) -> int:
    """Run the checks on hosts, and say of each what the report has."""
    with tempfile.TemporaryDirectory(prefix="firstlight-health-") as folder:
        note = Path(folder) / "note.json"
        variables = {"health_note": str(note), "tier": options.tier, "health_in_use": options.in_use}
        ended = _play("health.yml", options, options.hosts, variables)
        if not note.exists():
            raise FirstlightError(f"the run did not begin:\n{ended.tail}")
        begun = json.loads(note.read_text())
    if strange := _strange(options.hosts, begun):
        raise InputError(f"{strange}: no such host or group in the inventory")
    document = _document(begun, options.tier)
    if document is None:
        raise FirstlightError(f"the run broke:\n{ended.tail}")
    print(json.dumps(document, indent=2) if options.json else "\n".join(lines(document["hosts"], document["common"])))
    return status(document["hosts"])


def _document(begun: Mapping[str, Any], tier: str) -> dict[str, Any] | None:
    """What the report has of the run's hosts; None where it is none of that run, or the run broke."""
    try:
        report = json.loads(Path(begun["report"]).read_text())
    except (OSError, ValueError):
        return None
    run = report.get("run") or {}
    if run.get("id") != begun["run_id"] or run.get("outcome") != "done":
        return None
    told = {host["name"]: record_of_report(host) for host in report["hosts"]}
    hosts = [told.get(name) or record_of_nothing(name) for name in begun["hosts"]]
    document = {"site": report["site"], "time": run.get("ended"), "run": run["id"], "tier": tier}
    return {**document, "common": report.get("common", []), "hosts": hosts}


def _strange(names: Sequence[str], begun: Mapping[str, Any]) -> str:
    """The first of these names that is neither a pattern nor known; Ansible only warns of it."""
    known = {*begun["hosts"], *begun["groups"]}
    return next((name for name in names if name not in known and not set(name) & set("*?[]:!&,~@")), "")


class _Ended:
    """A playbook that ended. tail: the last of what it said."""

    def __init__(self, code: int, tail: str) -> None:
        self.code, self.tail = code, tail


def _play(name: str, options: argparse.Namespace, hosts: Sequence[str], variables: Mapping[str, Any]) -> _Ended:
    command = [sys.executable, "-m", "ansible", "playbook", str(PROJECT / "playbooks" / name)]
    command += ["-e", json.dumps(variables)]
    command += ["-l", ",".join(hosts)] if hosts else []
    command += ["-i", options.inventory] if options.inventory else []
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        shown = sys.stderr if options.verbose else said
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=shown, stderr=shown)
        try:
            code = process.wait()
        except KeyboardInterrupt:
            process.wait()  # the signal was for both, and Ansible writes its report before it ends
            raise
        said.seek(0)
        kept = [line.rstrip() for line in said if line.strip()]
    return _Ended(code, "\n".join(kept[-12:]))


# -- captures -------------------------------------------------------------------------------------------------------


def capture_host(options: argparse.Namespace) -> int:
    """Bring a capture of a host here."""
    target = Path(options.folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{target} is there and not an empty folder; name a new one")
    with tempfile.TemporaryDirectory(prefix="firstlight-health-") as folder:
        ended = _play("capture.yml", options, [options.host], {"capture_to": folder, "tier": options.tier})
        brought = list(Path(folder).glob("*.tar.gz"))
        if ended.code or len(brought) != 1:
            raise FirstlightError(f"{options.host} was not captured:\n{ended.tail}")
        with brought[0].open("rb") as file:
            kept = read_archive(file)
    files = write_folder(kept, str(target))
    print(f"{target}: {len(kept.outputs)} sources of {len(kept.read_by)} checks in {files} files")
    print("It has serial numbers, names and log lines. Look through it before you give it away.")
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
        print("health: judged by the profile that the capture brings; --profile names another", file=sys.stderr)
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
    """What versions.yml wants of a host with the capture's system. Of a mere branch, "580", nothing can be said."""
    if path is None:
        return {}
    system = kept.facts.get("system") or {}
    where = f"{system.get('distribution')}-{system.get('version')}", str(system.get("architecture"))
    driver = str(load_versions(path).settings("gpu_driver", *where, profile.name).get("version") or "")
    return {"gpu_driver": driver} if "." in driver else {}


def write_file(options: argparse.Namespace) -> int:
    """Write the self-contained file."""
    print(build(Path(options.file)))
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
    parser.add_argument("--versions", metavar="FILE", help="a versions.yml, whose GPU driver is expected")
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
