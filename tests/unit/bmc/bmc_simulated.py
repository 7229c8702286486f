"""The BMC simulator's machines without its network: what they would answer, as a reader that fetch reads from."""

from __future__ import annotations

import datetime
import itertools
from pathlib import Path
from typing import Any

from firstlight.bmc.errors import BmcError, error_for
from firstlight.bmc.fetch import read_tree
from firstlight.bmc.hardware import Record
from firstlight.bmc.normalise import normalise
from simulators.bmc import faults, personality
from simulators.bmc.errors import RedfishError
from simulators.bmc.machine import Machine

_COUNT = itertools.count()


class SimulatedReader:
    """Answers of one simulated machine."""

    can_expand = True

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.asked: list[str] = []

    def get(self, path: str, expand: bool = False) -> dict[str, Any]:
        self.asked.append(path)
        path, _, query = path.partition("?")
        try:
            return personality.of(self._machine).answer(
                self._machine, path.rstrip("/"), "$expand=*($levels=1)" if expand else query
            )
        except RedfishError as error:
            raise error_for("GET", path, error.status, {}) from None


def machine(folder: Path, vendor: str = "dell-idrac9", number: int = 1, power: str = "On") -> Machine:
    """A sound one. The simulator keeps trees by name and version, so no two machines may share both."""
    entry = {
        "name": f"{vendor}-{number}-{next(_COUNT)}",
        "rack": "r1",
        "unit": number,
        "index": number,
        "service_tag": f"SIM{number:04d}",
        "bmc_address": f"127.0.0.{number}",
        "faults": [],
        "vendor": vendor,
    }
    made = Machine(folder, {"bmc": {}, "machines": [entry]}, entry)
    made.power = power
    return made


def strike(made: Machine, fault: str, **given: Any) -> Machine:
    values = faults.parameters(fault, given)
    made.faults[fault] = values
    made.begin(fault, values)
    made.version += 1
    return made


def record_of(made: Machine) -> Record:
    """What asking this machine gives."""
    asked_at = datetime.datetime.now(datetime.UTC)
    try:
        tree = read_tree(SimulatedReader(made))
    except BmcError as error:
        return Record(made.name, error.condition, error.evidence, asked_at.isoformat(), 1.0)
    hardware = normalise(tree.resources, tree.clock_read_at, tree.failures)
    notes = [note for part in tree.failures.values() for note in part]
    condition = "half_answering" if notes else "ok"
    return Record(made.name, condition, "; ".join(notes[:3]), asked_at.isoformat(), 1.0, hardware=hardware)
