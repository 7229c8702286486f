"""The checks: is this host fit to train? They run on the host (standard library only, Python 3.9 or later)."""

from __future__ import annotations

from . import (
    clock,
    cpu_frequency,
    cpu_idle,
    disk_health,
    disks,
    gpu,
    gpu_driver,
    gpu_memory,
    gpu_metrics,
    gpu_rdma,
    gpu_running,
    gpu_topology,
    hca_errors,
    hca_module,
    host_tuning,
    infiniband,
    kernel_log,
    memory,
    nvlink,
    nvme,
    pcie,
    pcie_acs,
    services,
    zfs,
)
from .engine import TIERS, Check, Result, Skip, run_checks

ALL_CHECKS = [
    *gpu.CHECKS,
    *gpu_memory.CHECKS,
    *gpu_running.CHECKS,
    *gpu_topology.CHECKS,
    *nvlink.CHECKS,
    *gpu_driver.CHECKS,
    *gpu_rdma.CHECKS,
    *gpu_metrics.CHECKS,
    *infiniband.CHECKS,
    *hca_errors.CHECKS,
    *hca_module.CHECKS,
    *nvme.CHECKS,
    *disks.CHECKS,
    *disk_health.CHECKS,
    *services.CHECKS,
    *clock.CHECKS,
    *kernel_log.CHECKS,
    *memory.CHECKS,
    *pcie.CHECKS,
    *pcie_acs.CHECKS,
    *cpu_frequency.CHECKS,
    *cpu_idle.CHECKS,
    *host_tuning.CHECKS,
    *zfs.CHECKS,
]

__all__ = ["ALL_CHECKS", "TIERS", "Check", "Result", "Skip", "run_checks"]
