"""Asking many BMCs at once what their servers are."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping

from .client import DEADLINE, BmcClient
from .fetch import Tree, read_macs, read_tree
from .hardware import Hardware, Record
from .normalise import normalise
from .pool import WORKERS, Outcome, Target, run

__all__ = ["WHAT", "Target", "discover"]

# What can be asked for -> how it is read, and the parts of Hardware that are then not known.
WHAT: Mapping[str, tuple[Callable[..., Tree], tuple[str, ...]]] = {
    "all": (read_tree, ()),
    "macs": (
        read_macs,
        ("bios", "clock", "dimms", "drives", "firmware", "gpus", "hcas", "logs", "pcie", "psus", "thermal"),
    ),
}


def discover(
    targets: Iterable[Target],
    *,
    ca_file: str,
    what: str = "all",
    workers: int = WORKERS,
    deadline: float = DEADLINE,
    on_record: Callable[[Record], None] | None = None,
) -> dict[str, Record]:
    """A record of every target, by name.

    ca_file: PEM file of the CA that signed the BMCs' certificates. what: "all" for triage, or "macs" for identity and
    Ethernet ports only, in a fifth of the time. workers: BMCs spoken with at a time. deadline: seconds each BMC has.
    on_record: called with each record as it comes, in this thread. Returns in bounded time, see pool.run. Raises
    InputError when the CA cannot be read; a BMC's failure is in its record.
    """
    read, left_out = WHAT[what]
    records: dict[str, Record] = {}

    def ask(client: BmcClient) -> tuple[Hardware, dict[str, list[str]]]:
        tree = read(client, client.root)
        return normalise(tree.resources, tree.clock_read_at, {*tree.failures, *left_out}), tree.failures

    def keep(name: str, outcome: Outcome) -> None:
        records[name] = _record(name, outcome)
        if on_record:
            on_record(records[name])

    run(targets, ask, ca_file=ca_file, workers=workers, deadline=deadline, on_outcome=keep)
    return records


def _record(name: str, outcome: Outcome) -> Record:
    asked_at = outcome.asked_at.astimezone(datetime.UTC).isoformat(timespec="seconds")
    if outcome.error:
        error = outcome.error
        return Record(name, error.condition, error.evidence, asked_at, outcome.seconds)
    hardware, failures = outcome.value
    notes = list(dict.fromkeys(note for part in failures.values() for note in part))
    if not notes:
        return Record(name, "ok", "", asked_at, outcome.seconds, hardware=hardware)
    more = f" (and {len(notes) - 1} more)" if len(notes) > 1 else ""
    evidence = f"cannot be read: {notes[0]}{more}"
    return Record(name, "half_answering", evidence, asked_at, outcome.seconds, hardware=hardware)
