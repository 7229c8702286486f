"""What triage wants to read beyond identity, NICs, processors, drives, BIOS and firmware: a table, and who follows it.

``fetch`` does the reading (requests, pages, $expand, failures); this says which links are worth a request. A path that
a BMC does not link is not asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from .values import dig, link, rows, text


@dataclass(frozen=True)
class Want:
    """One link to follow.

    part: what is unread when it fails (Hardware.unread). at: where the link is: root, system, chassis, manager, others
    (systems beside the host's own, such as an HGX baseboard), or member (of the collection above). keys: the place of
    the link there; a list of links is followed one by one. collection: its members are wanted whole. pages: pages read
    of a collection, 0 for all. each: wanted from each member. otherwise: instead, where there is no such link. when: a
    condition by name, see _holds.
    """

    part: str
    at: str
    keys: tuple[str | int, ...]
    collection: bool = False
    pages: int = 0
    each: tuple[Want, ...] = ()
    otherwise: tuple[Want, ...] = ()
    when: str = ""


_ADAPTER = (
    Want(
        "hcas",
        "member",
        ("NetworkPorts",),
        collection=True,
        otherwise=(Want("hcas", "member", ("Ports",), collection=True),),
    ),
    Want("hcas", "member", ("NetworkDeviceFunctions",), collection=True),
)
_LOG = Want("logs", "member", ("Entries",), collection=True, pages=2, when="useful_log")

WANTED: tuple[Want, ...] = (
    Want(
        "thermal",
        "chassis",
        ("Thermal",),
        otherwise=(
            Want(
                "thermal",
                "chassis",
                ("ThermalSubsystem",),
                each=(Want("thermal", "member", ("Fans",), collection=True),),
            ),
            Want("thermal", "chassis", ("Sensors",), collection=True),
        ),
    ),
    # Legacy Power tells more than PowerSubsystem: input voltage and redundancy. Some have one of them without PSUs.
    Want("psus", "chassis", ("Power",)),
    Want(
        "psus",
        "chassis",
        ("PowerSubsystem",),
        each=(Want("psus", "member", ("PowerSupplies",), collection=True),),
        when="no_psus",
    ),
    Want("dimms", "system", ("Memory",), collection=True),
    # An HGX baseboard is a system of its own, and has the GPUs.
    Want("gpus", "others", ("Processors",), collection=True),
    Want(
        "pcie",
        "chassis",
        ("PCIeDevices",),
        collection=True,
        each=(Want("gpus", "member", ("PCIeFunctions",), collection=True, when="maybe_gpu"),),
        otherwise=(
            Want(
                "pcie",
                "system",
                ("PCIeDevices",),
                each=(Want("gpus", "member", ("Links", "PCIeFunctions"), when="maybe_gpu"),),
            ),
        ),
    ),
    # iLO 5 tells GPUs and the MACs of some cards in its own lists only.
    Want("gpus", "chassis", ("Oem", "Hpe", "Links", "Devices"), collection=True),
    Want("nics", "system", ("Oem", "Hpe", "Links", "NetworkAdapters"), collection=True),
    # Older Supermicro BMCs have their network adapters below the system only.
    Want(
        "nics",
        "system",
        ("NetworkInterfaces",),
        collection=True,
        each=(Want("nics", "member", ("Links", "NetworkAdapter"), each=_ADAPTER),),
        when="no_adapters",
    ),
    # NVIDIA's racks spread a host over dozens of chassis: adapters and drives hang from boards, risers and backplanes.
    Want(
        "hcas",
        "root",
        ("Chassis",),
        collection=True,
        each=(
            Want("hcas", "member", ("NetworkAdapters",), collection=True, each=_ADAPTER),
            Want("drives", "member", ("Drives",), collection=True),
        ),
        when="scattered",
    ),
    # Logs last: they are slow, and the rest is worth more.
    Want("logs", "manager", ("LogServices",), collection=True, each=(_LOG,)),
    Want("logs", "system", ("LogServices",), collection=True, each=(_LOG,)),
)

# Of up to eight logs of a BMC, those that tell what is wrong with the hardware. The others note who logged in, hold
# dumps, or are journals of the BMC itself with ten thousands of lines.
USEFUL_LOGS = ("Sel", "SEL", "Lclog", "FaultList", "IML", "PlatformLog", "ActiveLog", "EventLog", "Log1", "FaultLog")


class Walker(Protocol):
    """What fetch lends: reading one resource, or a collection with its members; failures are its own business."""

    def resource(self, part: str, path: str) -> dict[str, Any] | None: ...

    def members(self, part: str, path: str, pages: int = 0) -> list[dict[str, Any]]: ...


@dataclass(frozen=True)
class Found:
    """What fetch has read before: the bases of links."""

    root: dict[str, Any]
    system: dict[str, Any]
    others: list[dict[str, Any]]
    chassis: dict[str, Any]
    manager: dict[str, Any]
    has_gpus: bool = False

    def base(self, name: str) -> list[dict[str, Any]]:
        if name == "others":
            return self.others
        return [{"root": self.root, "system": self.system, "chassis": self.chassis, "manager": self.manager}[name]]


def read_wanted(walker: Walker, found: Found, wanted: Iterable[Want] = WANTED) -> None:
    """Read what the table says, through the walker; each path once."""
    seen: set[str] = set()
    state = {"psus": False}
    for want in wanted:
        for base in found.base(want.at):
            _follow(walker, found, want, base, seen, state)


def _follow(
    walker: Walker, found: Found, want: Want, base: dict[str, Any], seen: set[str], state: dict[str, bool]
) -> None:
    if not _holds(want.when, found, base, state):
        return
    paths = _paths(want, base)
    if not paths:
        for other in want.otherwise:
            for start in [base] if other.at == "member" else found.base(other.at):
                _follow(walker, found, other, start, seen, state)
        return
    for path in paths:
        if path in seen:
            continue
        seen.add(path)
        if want.collection:
            members = walker.members(want.part, path, want.pages)
        else:
            body = walker.resource(want.part, path)
            members = [body] if body else []
            if body and rows(body, "PowerSupplies"):
                state["psus"] = True
        for member in members:
            for each in want.each:
                _follow(walker, found, each, member, seen, state)


def _paths(want: Want, base: dict[str, Any]) -> list[str]:
    value = dig(base, *want.keys)
    links = [link(value)] if isinstance(value, dict) else [link(v) for v in value] if isinstance(value, list) else []
    return [path.rstrip("/") for path in dict.fromkeys(links) if path]


def _holds(when: str, found: Found, base: dict[str, Any], state: dict[str, bool]) -> bool:
    """Whether the named condition of a Want holds."""
    if when == "no_psus":
        return not state["psus"]
    if when == "maybe_gpu":  # iDRAC 8: GPUs are among the PCIe devices only, and told by their class
        words = f"{text(base, 'Manufacturer')} {text(base, 'Name')} {text(base, 'Id')}".lower()
        return not found.has_gpus and any(word in words for word in ("nvidia", "amd", "advanced micro"))
    if when == "no_adapters":
        return not link(found.chassis, "NetworkAdapters")
    if when == "scattered":
        return bool(found.others) and not link(found.chassis, "NetworkAdapters")
    if when == "useful_log":
        return text(base, "Id") in USEFUL_LOGS
    return True
