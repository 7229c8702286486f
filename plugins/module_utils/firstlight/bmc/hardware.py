"""What a BMC says about its server, the same for every vendor, and the record of asking it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar

from .errors import CONDITIONS

_Part = TypeVar("_Part", "Nic", "Gpu", "Drive", "Psu")


@dataclass(frozen=True)
class Nic:
    """One network port, or one partition of it.

    id: FQDD on Dell (``NIC.Embedded.1-1-1``), else the BMC's id. mac: lower case with colons. link: up | down.
    kind: ethernet | infiniband. None where the BMC does not tell.
    """

    id: str
    mac: str | None = None
    link: str | None = None
    speed_mbps: int | None = None
    kind: str = "ethernet"
    adapter: str = ""
    port: str = ""
    partition: int = 1


@dataclass(frozen=True)
class Gpu:
    """One GPU. health: OK | Warning | Critical; state: Enabled, Absent, ...; "" where the BMC does not tell."""

    id: str
    model: str = ""
    serial: str = ""
    health: str = ""
    state: str = ""


@dataclass(frozen=True)
class Drive:
    """One drive. protocol: NVMe, SATA, SAS; bay: as the BMC counts; wear: percent of its life that is used."""

    id: str
    name: str = ""
    model: str = ""
    serial: str = ""
    size_bytes: int = 0
    protocol: str = ""
    controller: str = ""
    bay: int | None = None
    wear: int | None = None
    health: str = ""
    state: str = ""
    failure_predicted: bool = False


@dataclass(frozen=True)
class Psu:
    """One power supply. watts: what it can give."""

    id: str
    health: str = ""
    state: str = ""
    watts: int | None = None


@dataclass(frozen=True)
class Hardware:
    """One server, as its BMC describes it.

    service_tag: what Dell prints on the machine (SKU), the serial number elsewhere. inventory_time: when the BMC last
    took stock (ISO), at the last boot on Dell. bmc_clock_skew_seconds: the BMC's clock minus ours.
    unread: parts of this that could not be (wholly) read: nics, hcas, gpus, drives, psus, firmware, bios, clock. What
    is missing from such a part is not known to be missing.
    """

    vendor: str = ""
    model: str = ""
    service_tag: str = ""
    board_serial: str = ""
    power_state: str = ""
    memory_gib: float | None = None
    cpus: int | None = None
    nics: list[Nic] = field(default_factory=list)
    gpus: list[Gpu] = field(default_factory=list)
    drives: list[Drive] = field(default_factory=list)
    psus: list[Psu] = field(default_factory=list)
    firmware: dict[str, str] = field(default_factory=dict)
    bios: dict[str, str] = field(default_factory=dict)
    inventory_time: str | None = None
    bmc_clock_skew_seconds: int | None = None
    unread: list[str] = field(default_factory=list)

    def nic(self, identity: str) -> Nic | None:
        """The NIC with this id."""
        return next((n for n in self.nics if n.id == identity), None)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Any) -> Hardware:
        """Read back what to_dict wrote; ValueError or TypeError when it is something else."""
        known = _known(cls, data)
        for name, part in (("nics", Nic), ("gpus", Gpu), ("drives", Drive), ("psus", Psu)):
            if name in known:
                known[name] = _parts(part, known[name])
        return cls(**known)


@dataclass(frozen=True)
class Record:
    """What came of asking one BMC.

    condition: one of errors.CONDITIONS. evidence: one line, "" when ok. asked_at: ISO time in UTC. seconds: how long
    it took. hardware: what it said; when it said nothing, what it said before, with stale true; or None.
    """

    name: str
    condition: str
    evidence: str
    asked_at: str
    seconds: float
    stale: bool = False
    hardware: Hardware | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Any) -> Record:
        """Read back what to_dict wrote; ValueError or TypeError when it is something else."""
        known = _known(cls, data)
        if known.get("condition") not in CONDITIONS:
            raise ValueError(f"condition {known.get('condition')!r} is none of {', '.join(CONDITIONS)}")
        if known.get("hardware") is not None:
            known["hardware"] = Hardware.from_dict(known["hardware"])
        return cls(**known)


def _known(cls: type, data: Any) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise TypeError(f"not a mapping but {type(data).__name__}")
    names = {f.name for f in fields(cls)}
    return {str(k): v for k, v in data.items() if k in names}


def _parts(cls: type[_Part], rows: Any) -> list[_Part]:
    if not isinstance(rows, list):
        raise TypeError(f"not a list but {type(rows).__name__}")
    return [cls(**_known(cls, row)) for row in rows]
