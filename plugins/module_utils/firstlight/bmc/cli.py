"""The command line scripts/bmc: thin over sources, triage, capture and tables."""

from __future__ import annotations

import argparse
import datetime
import io
import json
import os
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live

from ..commandline import Parser, complain, say
from ..errors import FirstlightError, InputError
from ..sitefiles import PlannedHost, load_profiles
from ..streams import plain_output
from . import tables
from .capture import CAPTURE_SECONDS, capture
from .client import DEADLINE
from .errors import BmcError
from .fetch import TreeReader, read_tree
from .hardware import Record
from .known import REFUSED
from .normalise import normalise
from .progress import Progress
from .sources import PROFILES, FleetSource, InventorySource, Source, ask_login, planned
from .treefiles import CapturedTree, load_tree
from .triage import triage

WELL, BROKE, ILL = 0, 1, 2
WATCH_SECONDS = 60.0
_WIDTH = 200  # of tables that go into a file or a pipe

EPILOG = """\
exit status:
  0  done, and every host shown is well: its BMC answered, and no finding says no
  1  not done: wrong input, a missing secret, a BMC that could not be captured, interrupted
  2  done, and at least one host shown is not well

The fleet is that of the site's inventory (--inventory, by default as ansible.cfg and $ANSIBLE_INVENTORY say), with its
options, secrets and cache; or, without Ansible, that of a --fleet file (YAML or CSV). list, show and watch tell what is
known; scan, watch, show --ask and capture ask the BMCs. Who refused the password less than a minute ago is not asked
again: three wrong ones in a minute make a BMC block our address.

User name and password come from FIRSTLIGHT_BMC_USERNAME and FIRSTLIGHT_BMC_PASSWORD, from the file of secrets (vaulted,
with --vault-password-file), or from the keyboard; never from the command line.
"""


class _Parser(Parser):
    wrong = BROKE


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    plain_output()
    options = _parser().parse_args(arguments)
    try:
        return int(options.command(options))
    except FirstlightError as error:
        complain("bmc", error)
    except KeyboardInterrupt:
        print("bmc: interrupted", file=sys.stderr)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that the last flush fails no more
    return BROKE


def list_hosts(options: argparse.Namespace) -> int:
    """Tell what is known of hosts, asking nobody."""
    source = _source(options)
    return _tell(options, source, source.known(), _names(source, options.hosts))


def scan(options: argparse.Namespace) -> int:
    """Ask hosts now."""
    source = _source(options)
    names = _names(source, options.hosts)
    return _tell(options, source, _ask(source, names), names)


def show(options: argparse.Namespace) -> int:
    """Tell all about one host."""
    source = _source(options)
    host = planned(source.fleet, options.host)
    records = _ask(source, [host.name]) if options.ask else source.known()
    (view,) = tables.host_views(source.fleet, records, source.profiles, [host.name], source.previous)
    _print(options, view, tables.host_page(view, records[host.name]))
    return WELL if tables.is_well(view) else ILL


def watch(options: argparse.Namespace) -> int:
    """Ask hosts again and again, and show the answers as they come, until interrupted."""
    source = _source(options)
    names = _names(source, options.hosts)
    records = source.known()
    refused: set[str] = set()  # a wrong password does not become right by itself: once is enough
    console = _console()
    every = max(options.every, 5.0)

    def table(title: str) -> Any:
        return tables.fleet_table(
            tables.host_views(source.fleet, records, source.profiles, names, source.previous), title
        )

    _prepare(source, names)
    rounds = 0
    with Live(table("asking"), console=console, auto_refresh=console.is_terminal, refresh_per_second=2) as live:
        not_before = 0.0

        def on_record(record: Record) -> None:
            nonlocal not_before
            records[record.name] = record
            if console.is_terminal and time.monotonic() > not_before:
                started = time.monotonic()
                live.update(table("asking"))
                # judging 500 hosts takes longer than a BMC's answer, and the BMCs wait meanwhile
                not_before = time.monotonic() + max(0.5, 10 * (time.monotonic() - started))

        try:
            while not options.rounds or rounds < options.rounds:
                if rounds:
                    time.sleep(every)
                rounds += 1
                records.update(source.scan([n for n in names if n not in refused], on_record))
                refused |= {n for n in names if records[n].condition in REFUSED}
                clock = datetime.datetime.now().strftime("%H:%M:%S")
                live.update(table(f"round {rounds} at {clock}, every {every:g} s, Ctrl-C ends"), refresh=True)
        except KeyboardInterrupt:
            pass  # how a watch ends
    views = tables.host_views(source.fleet, records, source.profiles, names, source.previous)
    return WELL if all(map(tables.is_well, views)) else ILL


def normalise_tree(options: argparse.Namespace) -> int:
    """Tell what Firstlight makes of a captured tree."""
    folder = Path(options.folder)
    captured = load_tree(folder)
    for name in captured.skipped[:20]:
        complain("bmc", f"{folder / name} is no Redfish resource and was left out")
    record = _record_of(folder.resolve().name, captured)
    view = _tree_view(record, options)
    _print(options, view, tables.host_page(view, record))
    return WELL if tables.is_well(view) else ILL


def capture_host(options: argparse.Namespace) -> int:
    """Capture a host's tree for a bug report."""
    source = _source(options)
    target = source.target(planned(source.fleet, options.host).name)
    ca_file = source.ca_file
    print(f"bmc: reading all of {target.name}, for {options.seconds:g} s at most", file=sys.stderr)
    try:
        raw, written = capture(target, options.folder, ca_file=ca_file, seconds=options.seconds)
    except BmcError as error:
        raise FirstlightError(f"{target.name}, BMC {target.address}: {error.condition}: {error.evidence}") from None
    rest = "" if raw.complete else "; that is not all of it"
    failed = f"; {len(raw.failures)} could not be read" if raw.failures else ""
    print(f"{options.folder}: {written} resources{failed}{rest}. Look through it before you give it away.")
    return WELL


def _ask(source: Source, names: list[str]) -> dict[str, Record]:
    chosen = source.to_ask(names)
    if len(chosen) < len(names):
        left = ", ".join(sorted(set(names) - chosen)[:5])
        complain("bmc", f"refused the password less than a minute ago, not asked again: {left}")
    _prepare(source, chosen)
    with Progress(len(chosen), lambda line: complain("bmc", line)) as progress:
        return source.scan(names, progress.add)


def _prepare(source: Source, names: Collection[str]) -> None:
    """Whatever asking needs that may be missing, or come from the keyboard, before the screen is used otherwise."""
    for name in sorted(names)[:1]:
        source.target(name)
        _ = source.ca_file


def _source(options: argparse.Namespace) -> Source:
    if options.ask_login:
        if not sys.stdin.isatty():
            raise InputError("--ask-login needs a keyboard")
        ask_login()
    if not options.fleet:
        for name in ("ca_file", "profiles", "secrets"):
            if getattr(options, name):
                flag = f"--{name.replace('_', '-')}"
                raise InputError(f"{flag} belongs to --fleet; the inventory's *.redfish_bmc.yml names its own")
        return InventorySource(Path(options.inventory) if options.inventory else None, options.vault_password_file)
    return FleetSource(
        Path(options.fleet),
        ca_file=options.ca_file,
        profiles=Path(options.profiles) if options.profiles else None,
        secrets=Path(options.secrets) if options.secrets else None,
        vault_password_files=options.vault_password_file,
        deadline=options.host_deadline,
    )


def _names(source: Source, wanted: list[str]) -> list[str]:
    """These hosts, or all, in the plan's order."""
    chosen = {planned(source.fleet, name).name for name in wanted}
    return [h.name for h in source.fleet.hosts if h.name in chosen or not chosen]


def _tell(options: argparse.Namespace, source: Source, records: dict[str, Record], names: list[str]) -> int:
    views = tables.host_views(source.fleet, records, source.profiles, names, source.previous)
    _print(options, tables.as_json(source.fleet, views), tables.fleet_table(views))
    return WELL if all(map(tables.is_well, views)) else ILL


def _print(options: argparse.Namespace, document: Any, table: Any) -> None:
    if options.json:
        print(json.dumps(document, indent=2))
    elif sys.stdout.isatty():
        Console(highlight=False).print(table)
    else:
        out = io.StringIO()
        Console(file=out, highlight=False, width=_WIDTH).print(table)
        say("\n".join(line.rstrip() for line in out.getvalue().splitlines()))
    sys.stdout.flush()


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH)


def _record_of(name: str, captured: CapturedTree) -> Record:
    """What asking a BMC with this tree comes to."""
    asked_at = captured.captured_at.isoformat(timespec="seconds") if captured.captured_at else ""
    try:
        tree = read_tree(TreeReader(captured.resources))
    except BmcError as error:
        return Record(name, error.condition, error.evidence, asked_at, 0.0)
    hardware = normalise(tree.resources, captured.captured_at, tree.failures)
    notes = [note for part in tree.failures.values() for note in part]
    condition, evidence = ("half_answering", f"cannot be read: {notes[0]}") if notes else ("ok", "")
    return Record(name, condition, evidence, asked_at, 0.0, hardware=hardware)


def _tree_view(record: Record, options: argparse.Namespace) -> dict[str, Any]:
    profile = None
    if options.profile:
        known = load_profiles(options.profiles or PROFILES)
        if options.profile not in known:
            raise InputError(f"--profile {options.profile} is not known; known are {', '.join(sorted(known))}")
        profile = known[options.profile]
    host = PlannedHost(record.name, "", 0, "", options.profile or "")
    return tables.view_of(host, record, triage(host, record, profile) if profile else [], profile)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="bmc",
        description="What the fleet's BMCs say.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, function: Any, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        sub.set_defaults(command=function)
        return sub

    listing = command("list", list_hosts, "what is known of every host, asking nobody")
    showing = command("show", show, "all that is known of one host")
    watching = command("watch", watch, "ask again and again, and show the answers as they come")
    scanning = command("scan", scan, "ask every BMC, or those of some hosts, now")
    capturing = command(
        "capture", capture_host, "one BMC's whole tree into a new folder, with nothing that identifies it"
    )
    normalising = command("normalise", normalise_tree, "what Firstlight makes of a captured tree")
    for sub in (listing, watching, scanning):
        sub.add_argument("hosts", nargs="*", metavar="HOST", help="these hosts only")
    for sub in (showing, capturing):
        sub.add_argument("host", metavar="HOST")
    for sub in (capturing, normalising):
        sub.add_argument("folder", metavar="DIR")
    for sub in (listing, showing, scanning, normalising):
        sub.add_argument("--json", action="store_true", help="JSON instead of a table")
    showing.add_argument("--ask", action="store_true", help="ask its BMC first")
    watching.add_argument("--every", type=float, default=WATCH_SECONDS, metavar="SECONDS", help="default: %(default)g")
    watching.add_argument("--rounds", type=int, default=0, metavar="N", help="end after so many rounds")
    capturing.add_argument(
        "--seconds", type=float, default=CAPTURE_SECONDS, help="how long it may take; default: %(default)g"
    )
    normalising.add_argument("--profile", metavar="NAME", help="judge it by this profile")
    for sub in (listing, showing, watching, scanning, capturing):
        _fleet_options(sub)
    normalising.add_argument("--profiles", metavar="DIR", help="folder of profiles; default: the project's")
    return parser


def _fleet_options(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--inventory", "-i", metavar="PATH", help="the site: its folder, or its *.redfish_bmc.yml")
    where.add_argument("--fleet", metavar="FILE", help="a fleet file, YAML or CSV, without Ansible")
    parser.add_argument("--ca-file", metavar="FILE", help="with --fleet: PEM file of the CA of the BMCs")
    parser.add_argument("--profiles", metavar="DIR", help="with --fleet: folder of profiles; default: the project's")
    parser.add_argument("--secrets", metavar="FILE", help="with --fleet: file with bmc_username and bmc_password")
    parser.add_argument(
        "--vault-password-file", action="append", default=[], metavar="FILE", help="decrypts the file of secrets"
    )
    parser.add_argument("--ask-login", action="store_true", help="ask for user name and password")
    parser.add_argument(
        "--host-deadline", type=float, default=DEADLINE, metavar="SECONDS", help="with --fleet: for each BMC"
    )


if __name__ == "__main__":
    sys.exit(main())
