"""What kind of BMC a machine has: a Dell of one generation, another vendor's, or a captured tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simulators import lab_files
from simulators.bmc import (
    actions,
    generations,
    support,
    tree,
    tree_chassis,
    tree_compute,
    tree_manager,
    tree_pcie,
    tree_power,
    tree_storage,
    tree_system,
    tree_update,
    vendor_actions,
    vendors,
)
from simulators.bmc.actions import Done

if TYPE_CHECKING:
    from simulators.bmc.listener import Bmc
    from simulators.bmc.machine import Machine

# Importing them fills the Dell tree.
_TREES = (
    tree_system, tree_compute, tree_storage, tree_chassis, tree_manager, tree_pcie, tree_power, tree_update,
)  # fmt: skip

Act = Callable[["Bmc", str, str, dict[str, Any], Mapping[str, str]], Done]


@dataclass(frozen=True)
class Personality:
    """How one kind of BMC answers: GET requests, changes, where its sessions are; dell: whether it speaks Dell."""

    answer: Callable[[Machine, str, str], dict[str, Any]]
    act: Act
    sessions: str = f"{tree.ROOT}/SessionService/Sessions"
    dell: bool = True


def _dell(bmc: Bmc, method: str, path: str, body: dict[str, Any], headers: Mapping[str, str]) -> Done:
    if method == "POST" and path.startswith(support.ACTIONS):
        return support.act(bmc, path, body)
    return actions.act(bmc.machine, bmc.power, bmc.restart, method, path, body, headers)


PERSONALITIES: dict[str, Personality] = {
    "dell-idrac9": Personality(tree.answer, _dell),
    "dell-idrac10": Personality(tree.answer, _dell),
    "dell-idrac8": Personality(tree.answer, _dell, sessions=generations.OLD_SESSIONS),
} | {name: Personality(vendors.answer, vendor_actions.act, dell=False) for name in vendors.SHAPES}


def of(machine: Machine) -> Personality:
    """Return the machine's personality."""
    return PERSONALITIES[machine.vendor]


def check(machine: Machine) -> None:
    """LabError when lab.json names a vendor that does not exist."""
    if machine.vendor not in PERSONALITIES:
        known = ", ".join(PERSONALITIES)
        raise lab_files.LabError(f"machine {machine.name}: vendor {machine.vendor!r} is none of {known}")
