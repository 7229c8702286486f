"""Only so many at once of one kind of work, counted over all runs on a ledger: shards, operators, control nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .claim import claims_of

ASKS_EVERY = 1.0  # s


@contextmanager
def turn(url: str, what: str, most: int, told: Callable[[], None]) -> Iterator[None]:
    """One of ``most`` (1 or more) turns at ``what`` on the ledger of this URL, waited for without end.

    It is given back at the end of the block or with this process, however that ends; so it is for a process of its own,
    which claims nothing else there. told: called once, where all turns are taken. FirstlightError when the ledger
    cannot be used.
    """
    claims = claims_of(url)
    names = [f"{what} {number}" for number in range(1, most + 1)]  # no host is called so
    waits = False
    while claims is not None and not claims.take_first(names):
        if not waits:
            told()
        waits = True
        time.sleep(ASKS_EVERY)
    try:
        yield
    finally:
        if claims is not None:
            claims.give_back()
