"""The checks: is this host fit to train? They run on the host (standard library only, Python 3.9 or later)."""

from __future__ import annotations

from . import clock, disks, gpu, infiniband, kernel_log, memory, nvme, services
from .engine import TIERS, Check, Result, Skip, run_checks

ALL_CHECKS = [
    *gpu.CHECKS,
    *infiniband.CHECKS,
    *nvme.CHECKS,
    *disks.CHECKS,
    *services.CHECKS,
    *clock.CHECKS,
    *kernel_log.CHECKS,
    *memory.CHECKS,
]

__all__ = ["ALL_CHECKS", "TIERS", "Check", "Result", "Skip", "run_checks"]
