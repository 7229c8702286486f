"""What install is told and what it tells: hosts, options, progress, results."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..findings import Finding
from .disks import OsDisk


@dataclass(frozen=True)
class Wanted:
    """A host to install. os_disk: from discovery. bmc: where its BMC is, for the texts. rack: for max_per_rack."""

    name: str
    system_id: str
    os_disk: OsDisk
    bmc: str = ""
    rack: str = ""


@dataclass(frozen=True)
class InstallOptions:
    """max_parallel: machines installing at once, max_per_rack: of one rack (0: no limit). retries: per machine.

    user_data: text of a cloud-config. subnets: for the address. outage_minutes: how long MAAS may be away.
    """

    max_parallel: int = 32
    max_per_rack: int = 0
    distro_series: str = ""
    hwe_kernel: str | None = None
    user_data: str = ""
    testing_scripts: str | None = None
    commission_minutes: float = 30
    deploy_minutes: float = 45
    release_minutes: float = 15
    outage_minutes: float = 5
    poll_seconds: float = 10
    retries: int = 1
    subnets: tuple[str, ...] = ()
    check: bool = False

    def minutes(self, phase: str) -> float:
        return {"commission": self.commission_minutes, "deploy": self.deploy_minutes}.get(phase, self.release_minutes)


@dataclass
class InstallResult:
    """status: MAAS's, in lower case. address: where the installed host is. seconds: from its first step on.

    deeds: one line for each destructive step (done, or in check mode to be done), naming host, id and disk.
    """

    changed: bool = False
    status: str = "unknown"
    address: str | None = None
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0
    deeds: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Progress:
    """counts: hosts by what they do (waiting, commission, deploy, release, done, failed). news: since last time."""

    seconds: float
    counts: dict[str, int]
    news: list[str]
