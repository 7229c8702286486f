"""Delivery: what each output has of each ticket is noted, and what it has not is tried again. No ticket is lost."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import FirstlightError
from ..yamlfile import read_text
from .model import Ticket
from .outputs import Output, write_whole


class Outbox:
    """Notes of what was delivered, in one file: {output: {ticket: {version, reference}}}.

    Tickets themselves are elsewhere, so that this file can only say too little: then something is told once more.
    FirstlightError where the file is there and cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._notes: dict[str, dict[str, dict[str, Any]]] = {}
        if path.exists():
            try:
                self._notes = _checked(json.loads(read_text(path)))
            except ValueError:
                said = "cannot be read as notes of what was delivered; move it away, and every ticket is told anew"
                raise FirstlightError(f"{path}: {said}") from None

    def waiting(self, output: Output, tickets: Iterable[Ticket]) -> list[Ticket]:
        """Those of which this output has not the last version, oldest change first."""
        notes = self._notes.get(output.name, {})
        late = [t for t in tickets if notes.get(t.id, {}).get("version", 0) < t.version]
        return sorted(late, key=lambda t: (t.updated, t.id))

    def deliver(self, tickets: Iterable[Ticket], outputs: Iterable[Output]) -> list[str]:
        """Tell every output what it has not; one line for each output that failed.

        Each delivery is noted before the next begins. An output that fails is not tried with further tickets in this
        call: it would cost its time limit for each.
        """
        known, problems = list(tickets), []
        for output in outputs:
            waiting = self.waiting(output, known)
            for number, ticket in enumerate(waiting):
                note = self._notes.get(output.name, {}).get(ticket.id, {})
                try:
                    reference = output.send(ticket, note.get("reference", ""))
                except FirstlightError as error:
                    left = len(waiting) - number
                    problems.append(f"{output.name}: {left} tickets wait, from {ticket.id} on: {error}")
                    break
                self._note(output.name, ticket, reference)
        return problems

    def _note(self, output: str, ticket: Ticket, reference: str) -> None:
        self._notes.setdefault(output, {})[ticket.id] = {"version": ticket.version, "reference": reference}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, json.dumps(self._notes, indent=1) + "\n")
        except OSError as error:
            raise FirstlightError(f"{self._path}: what was delivered cannot be noted: {error.strerror}") from None


def _checked(data: Any) -> dict[str, dict[str, dict[str, Any]]]:
    """ValueError where it is none."""
    if not isinstance(data, dict):
        raise ValueError
    for notes in data.values():
        if not isinstance(notes, dict):
            raise ValueError
        for note in notes.values():
            if not isinstance(note, dict) or not isinstance(note.get("version"), int):
                raise ValueError
            if not isinstance(note.get("reference"), str):
                raise ValueError
    return data
