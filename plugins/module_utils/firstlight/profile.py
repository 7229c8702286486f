"""Profiles: what a host of one hardware model must have.

Standard library only: the checks on the hosts read profiles too. Files are read and validated by ``sitefiles``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict


@dataclass(frozen=True)
class Profile:
    """Expectations for one hardware model; a count of 0 means that none is expected.

    gpus: {count, model (text within the GPU's name), driver_required}
    hcas: {count, rate_gbps}
    ethernet: {count, pxe (FQDD of the NIC that installs)}
    nvme: {count, min_bytes} of the data drives
    os_disk: {controller (text within the storage controller's id), min_bytes}
    psus: {count}
    firmware: {component: lowest accepted version}
    limits: thresholds, e.g. {clock_skew_seconds, disk_used_percent}
    """

    name: str
    vendor: str
    model: str
    gpus: Dict[str, Any] = field(default_factory=dict)
    hcas: Dict[str, Any] = field(default_factory=dict)
    ethernet: Dict[str, Any] = field(default_factory=dict)
    nvme: Dict[str, Any] = field(default_factory=dict)
    os_disk: Dict[str, Any] = field(default_factory=dict)
    psus: Dict[str, Any] = field(default_factory=dict)
    firmware: Dict[str, str] = field(default_factory=dict)
    limits: Dict[str, float] = field(default_factory=dict)

    def count(self, part: str) -> int:
        """How many of gpus, hcas, ethernet, nvme or psus a host must have."""
        return int(getattr(self, part).get("count", 0))

    def limit(self, name: str, default: float) -> float:
        return float(self.limits.get(name, default))

    @classmethod
    def from_dict(cls, data: Dict[str, Any]) -> "Profile":
        """From a mapping as in a profile file; unknown keys are a ValueError."""
        unknown = sorted(set(data) - set(cls.__dataclass_fields__))
        if unknown:
            raise ValueError(f"unknown key {unknown[0]!r}; known are {', '.join(cls.__dataclass_fields__)}")
        return cls(**data)
