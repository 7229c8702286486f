"""BIOS attributes, changes to them that wait for a boot, and the jobs that carry them out."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

from simulators.bmc import errors
from simulators.bmc.hardware import BIOS_VERSION, BOOT_NIC, MODEL, SECOND_NIC

if TYPE_CHECKING:
    from simulators.bmc.machine import Machine

SETTINGS = "/redfish/v1/Systems/System.Embedded.1/Bios/Settings"
_SWITCH = ("Enabled", "Disabled")

# attribute -> allowed values, the default first
CHOICES: dict[str, tuple[str, ...]] = {
    "AcPwrRcvry": ("Last", "On", "Off"),
    "AesNi": _SWITCH,
    "BootMode": ("Uefi", "Bios"),
    "BootSeqRetry": _SWITCH,
    "ControlledTurbo": ("Disabled", "ControlledTurboLimit"),
    "DcuIpPrefetcher": _SWITCH,
    "DcuStreamerPrefetcher": _SWITCH,
    "EmbSata": ("AhciMode", "Off"),
    "ErrPrompt": ("Disabled", "Enabled"),
    "ForceInt10": ("Disabled", "Enabled"),
    "GenericUsbBoot": ("Disabled", "Enabled"),
    "HttpDev1EnDis": ("Disabled", "Enabled"),
    "InternalUsb": ("On", "Off"),
    "KernelDmaProtection": ("Disabled", "Enabled"),
    "LogicalProc": _SWITCH,
    "MemOpMode": ("OptimizerMode", "SpareMode", "MirrorMode"),
    "MemTest": ("Disabled", "Enabled"),
    "MmioAbove4Gb": _SWITCH,
    "OneTimeBootMode": ("Disabled", "OneTimeUefiBootSeq", "OneTimeBootSeq"),
    "PcieEnhancedPreferredIo": ("Disabled", "Enabled"),
    "ProcC1E": ("Disabled", "Enabled"),
    "ProcCStates": ("Disabled", "Enabled", "Autonomous"),
    "ProcHwPrefetcher": _SWITCH,
    "ProcPwrPerf": ("MaxPerf", "SysDbpm", "OsDbpm"),
    "ProcTurboMode": _SWITCH,
    "ProcVirtualization": _SWITCH,
    "ProcX2Apic": _SWITCH,
    "PxeDev1EnDis": _SWITCH,
    "PxeDev1Interface": (BOOT_NIC, SECOND_NIC),
    "PxeDev1Protocol": ("IPv4", "IPv6"),
    "PxeDev1VlanEnDis": ("Disabled", "Enabled"),
    "PxeDev2EnDis": ("Disabled", "Enabled"),
    "PxeDev2Interface": (BOOT_NIC, SECOND_NIC),
    "PxeDev3EnDis": ("Disabled", "Enabled"),
    "PxeDev3Interface": (BOOT_NIC, SECOND_NIC),
    "PxeDev4EnDis": ("Disabled", "Enabled"),
    "PxeDev4Interface": (BOOT_NIC, SECOND_NIC),
    "SecureBoot": ("Disabled", "Enabled"),
    "SriovGlobalEnable": _SWITCH,
    "SubNumaCluster": ("Disabled", "2Way", "4Way"),
    "SysProfile": ("PerfOptimized", "PerfPerWattOptimizedDapc", "PerfPerWattOptimizedOs", "Custom"),
    "TpmSecurity": ("On", "Off"),
    "UefiVariableAccess": ("Standard", "Controlled"),
    "WorkloadProfile": ("NotConfigured", "HpcProfile", "LowLatencyOptimizedProfile"),
}
READ_ONLY: dict[str, Any] = {
    "Proc1NumCores": 56,
    "Proc2NumCores": 56,
    "SysMemSize": "2 TB",
    "SysMemSpeed": "4800 MT/s",
    "SysMemType": "ECC DDR5",
    "SystemBiosVersion": BIOS_VERSION,
    "SystemManufacturer": "Dell Inc.",
    "SystemModelName": MODEL,
}
DEFAULTS: dict[str, Any] = {name: values[0] for name, values in CHOICES.items()} | READ_ONLY


def is_setting(job: dict[str, Any]) -> bool:
    """Say whether a job sets BIOS attributes; the others are updates."""
    return bool(job.get("kind", "bios") == "bios")


def job_waits(machine: Machine) -> bool:
    """Say whether a job waits for the next boot: until then nothing more can be set."""
    return any(job["state"] in ("Scheduled", "Running") and is_setting(job) for job in machine.jobs)


def set_pending(machine: Machine, attributes: Any) -> None:
    """Keep values for the next boot. RedfishError when a job waits, or an attribute or value does not exist."""
    if job_waits(machine):
        raise errors.pending_job()
    if not isinstance(attributes, dict) or not attributes:
        raise errors.missing("Attributes")
    for name, value in attributes.items():
        if name in READ_ONLY:
            raise errors.not_writable(name)
        if name not in CHOICES:
            raise errors.unknown_property(name)
        if value not in CHOICES[name]:
            raise errors.value_not_in_list(value, name)
    machine.bios_pending |= attributes


def create_job(machine: Machine) -> str:
    """Commit the pending values: they are set at the next boot. Returns the job's id."""
    if job_waits(machine):
        raise errors.pending_job()
    if not machine.bios_pending:
        raise errors.RedfishError(
            400, errors.BMC + "SYS428", "Unable to create a configuration job because there are no pending values."
        )
    job_id = f"JID_{random.randrange(10**11, 10**12)}"
    machine.jobs.append(
        {"id": job_id, "state": "Scheduled", "created": machine.now().isoformat(), "completed": None, "percent": 0}
    )
    machine.record("SYS1043", "Configuration job created.", (job_id,), category="Configuration")
    return job_id


def commit(machine: Machine) -> None:
    """Let the next boot set what is pending, without a job of the client's making."""
    if not any(job["state"] == "Scheduled" and is_setting(job) for job in machine.jobs):
        create_job(machine)


def delete_job(machine: Machine, job_id: str) -> bool:
    """Delete a job, and with one that waits its pending values; False when there is no such job."""
    for job in machine.jobs:
        if job["id"] == job_id:
            if job["state"] == "Scheduled" and is_setting(job):
                machine.bios_pending = {}
            machine.jobs.remove(job)
            return True
    return False


def apply(machine: Machine) -> None:
    """Do what the BIOS does early in a boot: carry out the job that waits."""
    for job in machine.jobs:
        if job["state"] == "Scheduled" and is_setting(job):
            machine.bios |= machine.bios_pending
            machine.bios_pending = {}
            job.update(state="Completed", completed=machine.now().isoformat(), percent=100)
            machine.record("PR19", "Job completed successfully.", (job["id"],), category="Configuration")
    machine.inventory_at = time.time()
