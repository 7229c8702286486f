"""The checks: is this host fit to train? They run on the host (standard library only, Python 3.9 or later)."""

from __future__ import annotations

from . import (
    clock,
    cpu_frequency,
    disks,
    gpu,
    gpu_driver,
    gpu_metrics,
    gpu_rdma,
    host_tuning,
    infiniband,
    kernel_log,
    memory,
    nvme,
    pcie_acs,
    services,
    zfs,
)
from .engine import TIERS, Check, Result, Skip, run_checks

ALL_CHECKS = [
    *gpu.CHECKS,
    *gpu_driver.CHECKS,
    *gpu_rdma.CHECKS,
    *gpu_metrics.CHECKS,
    *infiniband.CHECKS,
    *nvme.CHECKS,
    *disks.CHECKS,
    *services.CHECKS,
    *clock.CHECKS,
    *kernel_log.CHECKS,
    *memory.CHECKS,
    *pcie_acs.CHECKS,
    *cpu_frequency.CHECKS,
    *host_tuning.CHECKS,
    *zfs.CHECKS,
]

__all__ = ["ALL_CHECKS", "TIERS", "Check", "Result", "Skip", "run_checks"]
