"""The command line scripts/ledger: a host's story, all hosts, and the whole ledger out and in."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NoReturn

from ..errors import FirstlightError, InputError
from . import dump
from .store import STATES, Ledger
from .tale import all_hosts, host_lines, host_tale, tale_lines
from .where import find_ledger

EPILOG = """\
Only import changes anything. Times are UTC.

exit status:
  0  done
  1  not done: no such host, no ledger, a wrong file, wrong usage
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(1, f"{self.prog}: {message}; {self.prog} --help says more\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        url = find_ledger(options.ledger, options.inventory, new=options.command == "import")
        if options.command == "import":
            _import(url, options.file)
        else:
            _show(Ledger(url, create=False), options)
        sys.stdout.flush()
    except FirstlightError as error:
        print(f"ledger: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # head has enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 - nothing more is written at exit
    except OSError as error:
        print(f"ledger: {error.filename or 'standard output'}: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("ledger: interrupted", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    where = _Parser(add_help=False)
    where.add_argument("--ledger", metavar="FILE|URL", help="by default the one that the inventory names")
    where.add_argument("--inventory", type=Path, metavar="DIR", help="the site's, else as $ANSIBLE_INVENTORY says")
    parser = _Parser(
        prog="ledger",
        description="What the ledger remembers of hosts.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    show = commands.add_parser("show", parents=[where], help="a host's story")
    show.add_argument("host", metavar="HOST", help="its name or service tag")
    show.add_argument("--all", action="store_true", help="not only the latest of each kind")
    show.add_argument("--json", action="store_true", help="everything, as JSON")
    listed = commands.add_parser("list", parents=[where], help="all hosts with their states")
    listed.add_argument("--state", action="append", default=[], choices=STATES, help="only those; may be repeated")
    listed.add_argument("--json", action="store_true", help="as JSON")
    commands.add_parser("export", parents=[where], help="write the whole ledger as JSON lines to standard output")
    load = commands.add_parser("import", parents=[where], help="fill an empty ledger from such lines")
    load.add_argument("file", metavar="FILE", help="- is standard input")
    return parser


def _show(ledger: Ledger, options: argparse.Namespace) -> None:
    if options.command == "export":
        for line in dump.export(ledger):
            print(line)
    elif options.command == "show":
        tale = host_tale(ledger, options.host)
        print(json.dumps(tale, indent=2) if options.json else "\n".join(tale_lines(tale, everything=options.all)))
    else:
        hosts = all_hosts(ledger, options.state)
        if options.json:
            print(json.dumps(hosts, indent=2))
        for line in () if options.json else host_lines(hosts):
            print(line)


def _import(url: str, file: str) -> None:
    if file == "-":
        print(f"{_load(url, io.TextIOWrapper(sys.stdin.buffer, 'utf-8'), 'standard input')} rows imported")
        return
    with Path(file).open(encoding="utf-8") as lines:
        print(f"{_load(url, lines, file)} rows imported")


def _load(url: str, lines: IO[str], name: str) -> int:
    try:
        return dump.load(Ledger(url), lines)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


if __name__ == "__main__":
    sys.exit(main())
