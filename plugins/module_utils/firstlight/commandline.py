"""What the command lines share: wrong usage in one line, and how a command ends."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar, NoReturn

from .errors import FirstlightError
from .findings import printable, shorten
from .streams import plain_output

ERROR_MAX = 4000  # characters of an error; some list all that would be right


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong with the usage. wrong: the exit status then."""

    wrong: ClassVar[int] = 1

    def error(self, message: str) -> NoReturn:
        self.exit(self.wrong, f"{self.prog}: {message}; {self.prog} --help says more\n")


def parser(name: str, description: str, epilog: str, parents: Sequence[Parser] = ()) -> Parser:
    return Parser(
        prog=name,
        description=description,
        epilog=epilog,
        parents=parents,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def ledger_options() -> Parser:
    """To be a parent: which site's ledger is meant."""
    where = Parser(add_help=False)
    where.add_argument("--ledger", metavar="FILE|URL", help="by default the one that the inventory names")
    where.add_argument("--inventory", type=Path, metavar="DIR", help="the site's, else as $ANSIBLE_INVENTORY says")
    return where


def say(text: str) -> None:
    """Print lines, some of whose text hosts, BMCs or files told."""
    print(printable(text))


def complain(name: str, message: object) -> None:
    """One line to standard error, whatever the message has in it."""
    print(f"{name}: {shorten(str(message), ERROR_MAX)}", file=sys.stderr)


def in_words(error: OSError) -> str:
    """A system's error in words."""
    return f"{error.filename or 'standard output'}: {error.strerror or error}"


def run(name: str, work: Callable[[], int | None], interrupted: str = "interrupted") -> int:
    """Do the work and return its exit status, 0 for None; 1 when it cannot be done, with one line that says why."""
    plain_output()
    try:
        status = work()
        sys.stdout.flush()
        return status or 0
    except FirstlightError as error:
        complain(name, error)
    except BrokenPipeError:  # head has enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 - nothing more is written at exit
        return 0
    except OSError as error:
        complain(name, in_words(error))
    except KeyboardInterrupt:
        print(f"{name}: {interrupted}", file=sys.stderr)
    return 1
