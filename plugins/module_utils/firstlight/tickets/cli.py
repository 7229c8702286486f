"""The command line scripts/tickets: which tickets there are, one of them as text, and telling outputs again."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from .. import commandline
from ..findings import shorten
from ..ledger import tickets as kept
from ..ledger.store import Ledger
from ..ledger.where import find_ledger, site_folder
from . import run
from .model import Ticket
from .settings import NAME, TicketSettings, load_tickets
from .text import Texts
from .words import part_named

EPILOG = """\
Runs open, update and close tickets. Times are UTC.

exit status:
  0  done
  1  not done: no such ticket, no ledger, a wrong file, wrong usage, an output that failed
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(arguments)

    def work() -> int:
        return _COMMANDS[options.command](find_ledger(options.ledger, options.inventory), options)

    return commandline.run("tickets", work)


def _parser() -> argparse.ArgumentParser:
    where = commandline.ledger_options()
    parser = commandline.parser("tickets", "Repair orders.", EPILOG)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    listed = commands.add_parser("list", parents=[where], help="one a line")
    listed.add_argument("--open", action="store_true", help="not those that are closed")
    listed.add_argument("--host", action="append", metavar="NAME", help="only of this host; may be repeated")
    listed.add_argument("--json", action="store_true", help="everything, as JSON")
    show = commands.add_parser("show", parents=[where], help="the text of one, by the site's templates")
    show.add_argument("id", metavar="ID")
    show.add_argument("--json", action="store_true", help="everything, as JSON")
    close = commands.add_parser("close", parents=[where], help="close one of a host that no run will look at any more")
    close.add_argument("id", metavar="ID")
    close.add_argument("--why", required=True, metavar="TEXT", help="kept in its history")
    again = commands.add_parser("deliver", parents=[where], help="tell the outputs what they do not know yet")
    again.add_argument("--reports", type=Path, default=Path("reports"), metavar="DIR",
                       help="the folder of reports, for a site that names no outputs; by default reports")  # fmt: skip
    again.add_argument("--json", action="store_true", help="what went wrong, as JSON")
    return parser


def _list(url: str, options: argparse.Namespace) -> int:
    found = kept.tickets(Ledger(url, create=False), options.host, open_only=options.open)
    if options.json:
        print(json.dumps([ticket.to_dict() for ticket in found], indent=2))
    for line in () if options.json else lines(found):
        commandline.say(line)
    return 0


def _show(url: str, options: argparse.Namespace) -> int:
    ticket = kept.ticket(Ledger(url, create=False), options.id)
    if options.json:
        print(json.dumps(ticket.to_dict(), indent=2))
    else:
        commandline.say(Texts(_settings(options).templates).markdown(ticket).rstrip())
    return 0


def _close(url: str, options: argparse.Namespace) -> int:
    run.close(Ledger(url), options.id, options.why)
    print(f"{options.id} is closed; the next run, or tickets deliver, tells the outputs")
    return 0


def _deliver(url: str, options: argparse.Namespace) -> int:
    problems = run.deliver(Ledger(url), _settings(options), options.reports / "tickets")
    if options.json:
        print(json.dumps({"problems": problems}, indent=2))
    for problem in () if options.json else problems:
        commandline.complain("tickets", problem)
    return 1 if problems else 0


_COMMANDS = {"list": _list, "show": _show, "close": _close, "deliver": _deliver}


def _settings(options: argparse.Namespace) -> TicketSettings:
    site = site_folder(options.inventory)
    file = site / NAME if site else None
    return load_tickets(file, strict=False) if file and file.exists() else TicketSettings()


def lines(found: Sequence[Ticket]) -> Iterator[str]:
    """For people, one a line."""
    for ticket in found:
        place = f"rack {ticket.place.rack or '-'} unit {'-' if ticket.place.unit is None else ticket.place.unit}"
        what = shorten(f"{ticket.action} {part_named(ticket)}", 60)
        host, since = shorten(ticket.host, 64), ticket.opened[:16].replace("T", " ")
        yield f"{shorten(ticket.id, 128):24} {ticket.state:6} {host:16} {place:18} {since}  {what}"


if __name__ == "__main__":
    sys.exit(main())
