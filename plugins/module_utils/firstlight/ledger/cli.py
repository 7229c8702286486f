"""The command line scripts/ledger: a host's story, all hosts, and the whole ledger out and in."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from .. import commandline
from ..errors import InputError
from . import dump
from .store import STATES, Ledger, ledger_file, ledger_url
from .tale import all_hosts, host_lines, host_tale, tale_lines
from .where import find_ledger

EPILOG = """\
Only import changes anything. Times are UTC.

exit status:
  0  done
  1  not done: no such host, no ledger, a wrong file, wrong usage
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(arguments)

    def work() -> None:
        url = find_ledger(options.ledger, options.inventory, new=options.command == "import")
        if options.command == "import":
            _import(url, options.file)
        else:
            _show(Ledger(url, create=False), options)

    return commandline.run("ledger", work)


def _parser() -> argparse.ArgumentParser:
    where = commandline.ledger_options()
    parser = commandline.parser("ledger", "What the ledger remembers of hosts.", EPILOG)
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
        commandline.say(
            json.dumps(tale, indent=2) if options.json else "\n".join(tale_lines(tale, everything=options.all))
        )
    else:
        hosts = all_hosts(ledger, options.state)
        if options.json:
            print(json.dumps(hosts, indent=2))
        for line in () if options.json else host_lines(hosts):
            commandline.say(line)


def _import(url: str, file: str) -> None:
    if file == "-":
        print(f"{_load(url, io.TextIOWrapper(sys.stdin.buffer, 'utf-8'), 'standard input')} rows imported")
        return
    with Path(file).open(encoding="utf-8") as lines:
        print(f"{_load(url, lines, file)} rows imported")


def _load(url: str, lines: IO[str], name: str) -> int:
    file = ledger_file(url)
    try:
        if file is None or file.exists():
            return dump.load(Ledger(url), lines)
        return _into_a_new_file(file, lines)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def _into_a_new_file(file: Path, lines: IO[str]) -> int:
    """The ledger is there when all of it is in: a wrong file leaves nothing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{file.name}-", dir=file.parent) as folder:
        part = Path(folder) / file.name
        rows = dump.load(Ledger(ledger_url(str(part))), lines)
        try:
            os.link(part, file)
        except FileExistsError:
            raise InputError(f"a run has made {file} meanwhile; import into a new one") from None
        except OSError:  # a file system without links
            part.rename(file)
    return rows


if __name__ == "__main__":
    sys.exit(main())
