"""What a BMC says about its server, the same for every vendor, and the record of asking it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar

from .errors import CONDITIONS

_Part = TypeVar("_Part")


@dataclass(frozen=True)
class Nic:
    """One network port, or one partition of it.

    id: FQDD on Dell (``NIC.Embedded.1-1-1``), else the BMC's id. mac: lower case with colons. link: up | down.
    kind: ethernet | infiniband. model, health, state: its adapter's. None where the BMC does not tell.
    """

    id: str
    mac: str | None = None
    link: str | None = None
    speed_mbps: int | None = None
    kind: str = "ethernet"
    adapter: str = ""
    port: str = ""
    partition: int = 1
    model: str = ""
    health: str = ""
    state: str = ""


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
    """One drive.

    protocol: NVMe, SATA, SAS. bus: its PCI bus and device where the BMC tells (``e6:00``). bay: as the BMC counts;
    slot: what is printed there. wear: percent of its life that is used.
    """

    id: str
    name: str = ""
    model: str = ""
    serial: str = ""
    size_bytes: int = 0
    protocol: str = ""
    controller: str = ""
    bus: str = ""
    bay: int | None = None
    slot: str = ""
    firmware: str = ""
    wear: int | None = None
    health: str = ""
    state: str = ""
    failure_predicted: bool = False


@dataclass(frozen=True)
class Psu:
    """One power supply. watts: what it can give. input_volts: 0 without its cord. detail: the BMC's own words."""

    id: str
    health: str = ""
    state: str = ""
    watts: int | None = None
    input_volts: int | None = None
    model: str = ""
    serial: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Redundancy:
    """One redundancy group. kind: psu | fan."""

    id: str
    kind: str
    health: str = ""
    state: str = ""


@dataclass(frozen=True)
class Fan:
    """One fan. percent: of its highest speed, where the BMC tells."""

    id: str
    rpm: int | None = None
    percent: int | None = None
    health: str = ""
    state: str = ""


@dataclass(frozen=True)
class Temperature:
    """One sensor, in degrees Celsius. warning, critical: from where on the BMC calls it too hot."""

    id: str
    celsius: float
    warning: float | None = None
    critical: float | None = None
    context: str = ""
    health: str = ""


@dataclass(frozen=True)
class Dimm:
    """One memory module. id: where it sits, as printed on the board."""

    id: str
    size_mib: int = 0
    speed_mhz: int | None = None
    part: str = ""
    serial: str = ""
    health: str = ""
    state: str = ""


@dataclass(frozen=True)
class PcieLink:
    """How one part is attached. id: the part's; kind: gpu, hca, nic, nvme. max_: what it is capable of."""

    id: str
    kind: str
    lanes: int | None = None
    max_lanes: int | None = None
    generation: int | None = None
    max_generation: int | None = None


@dataclass(frozen=True)
class Controller:
    """A BMC beside the one that was asked, such as that of an HGX baseboard."""

    id: str
    health: str = ""
    state: str = ""
    firmware: str = ""


@dataclass(frozen=True)
class LogEntry:
    """One entry of a log of the BMC. time: ISO, as the BMC's clock went. severity: OK | Warning | Critical."""

    time: str
    severity: str
    message: str
    code: str = ""
    log: str = ""


@dataclass(frozen=True)
class Hardware:
    """One server, as its BMC describes it.

    service_tag: what Dell prints on the machine (SKU), the serial number elsewhere. inventory_time: when the BMC last
    took stock (ISO), at the last boot on Dell. bmc_clock_skew_seconds: the BMC's clock minus ours. bmc: its kind, e.g.
    ``iDRAC 9``. intrusion: Normal, HardwareIntrusion, ..., "" where the BMC does not tell. bios: of its attributes,
    those that decide about booting and training, by the vendor's names. log: what the BMC noted lately, the most
    severe first, then the newest.
    unread: parts of this that could not be (wholly) read: nics, hcas, gpus, drives, psus, firmware, bios, clock,
    thermal, dimms, pcie, logs. What is missing from such a part is not known to be missing.
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
    redundancy: list[Redundancy] = field(default_factory=list)
    fans: list[Fan] = field(default_factory=list)
    temperatures: list[Temperature] = field(default_factory=list)
    dimms: list[Dimm] = field(default_factory=list)
    pcie: list[PcieLink] = field(default_factory=list)
    controllers: list[Controller] = field(default_factory=list)
    log: list[LogEntry] = field(default_factory=list)
    intrusion: str = ""
    bmc: str = ""
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
        for name, part in _PARTS.items():
            if name in known:
                known[name] = _parts(part, known[name])
        return cls(**known)


_PARTS: dict[str, type] = {
    "nics": Nic,
    "gpus": Gpu,
    "drives": Drive,
    "psus": Psu,
    "redundancy": Redundancy,
    "fans": Fan,
    "temperatures": Temperature,
    "dimms": Dimm,
    "pcie": PcieLink,
    "controllers": Controller,
    "log": LogEntry,
}


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
