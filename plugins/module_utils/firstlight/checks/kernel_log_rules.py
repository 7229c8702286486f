"""What is known of the kernel log's lines, other than Xids and SXids: the bad ones, what comes with them, the harmless.

Texts are those of Linux 5.15 to 6.14, of the drivers ice, megaraid_sas, mlx5, mpt3sas, nvidia and nvme, and of OpenZFS.
A rule's pattern is tried only on lines that have its word, which keeps 50,000 lines cheap. Patterns are bounded, lines
have 1000 characters.
"""

from __future__ import annotations

import re
from typing import FrozenSet, List, NamedTuple, Pattern, Tuple

_BDF = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]"
_LARGE = r"(?:size )?0x0{0,12}[1-9a-f][0-9a-f]{7,12}\b"  # 256 MiB and more, as GPUs have


class Rule(NamedTuple):
    """One kind of line. place: what its group ``place`` names, put before it. least: fewer such lines are nothing."""

    symptom: str
    status: str
    action: str
    meaning: str
    word: str
    pattern: Pattern[str]
    place: str = ""
    least: int = 1


_RULES: List[Rule] = []


def _rule(symptom: str, verdict: str, meaning: str, *lines: Tuple[str, str], place: str = "", least: int = 1) -> None:
    """verdict: status and action. lines: (word, pattern) of each form."""
    status, action = verdict.split()
    for word, pattern in lines:
        compiled = re.compile(pattern.replace("{bdf}", _BDF))
        _RULES.append(Rule(f"kernel.{symptom}", status, action, meaning, word, compiled, place, least))


# a machine check's status word without its bits 61 (UC) and 57 (PCC): it was corrected
_CORRECTED = r"\w{1,16} Bank \d{1,3}: [014589cd]{2}[0-9a-f]{14}\b"

_rule(
    "machine_check",
    "fail escalate",
    "the processor reported an error that it could not correct",
    ("Machine Check", r"\bCPU (?P<place>\d{1,5}): Machine Check(?: Exception)?: (?!" + _CORRECTED + ")"),
    # AMD's; what is deferred is wrong too, only nobody has used it yet
    (
        "Hardware Error",
        r"\bCPU:(?P<place>\d{1,5})\s.{0,40}MC\d{1,3}_STATUS\[[^\]]{0,80}\b(?:UE|PCC|UECC|Deferred|Poison)\b",
    ),
    ("Hardware Error", r"(?P<place>)\[Hardware Error\]: (?:System )?(?:Fatal|Uncorrected|Deferred)\b.{0,40}\berror"),
    ("Hardware Error", r"(?P<place>)event severity: (?:fatal|recoverable)"),
    ("Machine check: ", r"(?P<place>)\[Hardware Error\]: Machine check: "),
    ("Uncorrected hardware", r"(?P<place>)Uncorrected hardware (?:memory )?error"),
    place="CPU",
)
_rule(
    "hardware_corrected",
    "warn none",
    "hardware errors that were corrected",
    ("Machine Check", r"\bCPU \d{1,5}: Machine Check(?: Exception)?: " + _CORRECTED),
    ("Hardware Error", r"\bMC\d{1,3}_STATUS\[[^\]]{0,80}\bCE\b"),
    ("Hardware Error", r"\[Hardware Error\]: Corrected error"),
    ("Hardware Error", r"event severity: corrected"),
    ("Machine check events logged", r"Machine check events logged"),
)
_rule(
    "memory_uncorrected",
    "fail replace",
    "memory error that could not be corrected",
    ("EDAC", r"EDAC (?P<place>(?:[\w: ]{0,20}MC|DEVICE)\d{1,3}): (?:\d{1,9} )?UE\b"),
    ("Memory failure", r"(?P<place>)Memory failure: 0x[0-9a-f]{1,16}: "),
)
_rule(
    "memory_corrected",
    "warn none",
    "memory errors that were corrected",
    ("EDAC", r"EDAC (?P<place>(?:[\w: ]{0,20}MC|DEVICE)\d{1,3}): (?:\d{1,9} )?CE\b"),
    ("oft-offlining pfn", r"(?P<place>)RAS: Soft-offlining pfn"),
)
_rule(
    "cpu_throttled",
    "warn escalate",
    "processors are too hot and were slowed down",
    ("temperature", r"CPU\d{1,5}: (?:Core|Package) temperature (?:is )?above threshold"),
    ("temperature", r"critical temperature reached"),
)
_rule(
    "pcie_uncorrected",
    "fail reseat",
    "PCIe error that was not corrected",
    ("PCIe Bus Error", r"(?P<place>{bdf}): (?:AER: )?PCIe Bus Error: severity=(?:Uncorrect\w{1,6}|Fatal)"),
    (
        "AER: ",
        r"AER: (?:Multiple )?Uncorrect\w{1,6} \([\w-]{1,12}\) error .{0,9}received(?:: | from )(?P<place>{bdf})?",
    ),
    ("DPC: ", r"(?P<place>{bdf}): DPC: (?:containment event|unmasked uncorrectable)"),
    place="PCI",
)
_rule(
    "pcie_corrected",
    "warn none",
    "PCIe errors that were corrected",
    ("PCIe Bus Error", r"(?P<place>{bdf}): (?:AER: )?PCIe Bus Error: severity=Correct"),
    ("AER: ", r"AER: (?:Multiple )?Correct\w{1,6} error (?:message )?received(?:: | from )(?P<place>{bdf})?"),
    place="PCI",
)
_rule(
    "pcie_lost",
    "fail reseat",
    "a PCIe slot lost its device",
    ("pciehp", r"pciehp: Slot\((?P<place>[\w-]{1,20})\): (?:Link Down|Card not present)"),
    place="slot",
)
_rule(
    "pcie_width",
    "warn none",
    "a device has less PCIe bandwidth than it is capable of",
    ("limited by", r"(?P<place>{bdf}): [\d.]{1,12} Gb/s available PCIe bandwidth, limited by"),
    (" < x", r"(?:(?P<place>{bdf}).{0,200})?\bx\d{1,2} < x\d{1,2}\b"),
    place="PCI",
)
_rule(
    "pcie_no_space",
    "warn escalate",
    "there was no room for a device's memory in the processor's addresses",
    ("BAR ", r"(?P<place>{bdf}): BAR [0-5]: (?:no space for|failed to assign) \[mem " + _LARGE),
    ("BAR ", r"(?P<place>{bdf}): BAR [0-5] \[mem " + _LARGE + r"[^\]]{0,60}\]: (?:can't|failed to) assign"),
    place="PCI",
)
_rule(
    "nvme_lost",
    "fail reseat",
    "an NVMe drive does not answer any more",
    ("nvme", r"nvme (?P<place>nvme\d{1,4}): (?:Removing after probe failure|Disabling device after reset failure)"),
    ("nvme", r"nvme (?P<place>nvme\d{1,4}): (?:Device not ready; aborting|controller is down; will reset)"),
    ("nvme", r"nvme (?P<place>nvme\d{1,4}): Identify Controller failed "),
)
_rule(
    "nvme_reset",
    "fail reseat",
    "an NVMe drive reported an error within it, and was reset",
    ("nvme", r"nvme (?P<place>nvme\d{1,4}): resetting controller due to "),
)
_rule(
    "nvme_polled",
    "warn none",
    "an NVMe drive had answered, and the interrupt that says so did not come",
    ("nvme", r"nvme (?P<place>nvme\d{1,4}): I/O .{1,120} timeout, completion polled"),
)
_rule(
    "nvme_timeout",
    "fail reseat",
    "an NVMe drive did not answer in time",
    ("nvme", r"nvme (?P<place>nvme\d{1,4}): I/O .{1,120} timeout, "),
)
_rule(
    "storage_controller",
    "fail reseat",
    "a storage controller's firmware stopped, or it does not answer",
    (
        "megaraid_sas",
        r"megaraid_sas:? ?(?P<place>{bdf})?.{0,120}(?:is OFFLINE|NOT accessible|FW in FAULT|Fatal firmware error)",
    ),
    (
        "megaraid_sas",
        r"megaraid_sas:? ?(?P<place>{bdf})?.{0,120}(?:Hardware critical error|Failed to transition controller)",
    ),
    ("sas_cm", r"(?P<place>mpt[23]sas_cm\d{1,4}): (?:SAS host is non-operational|fault_state\(0x)"),
    place="controller",
)
_rule(
    "disk_error",
    "fail replace",
    "reading or writing a drive failed",
    ("dev ", r"(?:critical (?:medium|target) error|I/O error), dev (?P<place>(?!sr|fd|loop|nbd)[\w-]{1,20})"),
    ("I/O Error", r"(?P<place>nvme\d{1,4}(?:c\d{1,4})?n\d{1,4}): .{1,80}I/O Error \(sct"),
    ("Buffer I/O error", r"Buffer I/O error on dev (?P<place>(?!sr|fd|loop|nbd)[\w-]{1,20}), "),
)
_rule(
    "file_system",
    "fail escalate",
    "a file system is damaged, or was stopped",
    ("EXT4-fs", r"EXT4-fs error \(device (?P<place>[\w.-]{1,40})\)"),
    ("EXT4-fs", r"EXT4-fs warning \(device (?P<place>[\w.-]{1,40})\): .{0,80}(?:I/O error|rror recorded|hecksum)"),
    ("EXT4-fs", r"EXT4-fs \((?P<place>[\w.-]{1,40})\): (?:previous )?I/O error"),
    ("EXT4-fs", r"EXT4-fs \((?P<place>[\w.-]{1,40})\): .{0,160}(?:data loss|will be lost|fs with errors)"),
    ("Remounting filesystem read-only", r"\((?P<place>[\w.-]{1,40})\): Remounting filesystem read-only"),
    ("Aborting journal", r"Aborting journal on device (?P<place>[\w.-]{1,40})"),
    ("JBD2: ", r"JBD2: (?:Detected IO errors|Error -\d|I/O error).{0,60}?(?:on|device|for) (?P<place>[\w.-]{1,40})"),
    ("XFS (", r"XFS \((?P<place>[\w.-]{1,40})\): .{0,80}(?:[Cc]orruption|log I/O error|shut ?down|metadata I/O error)"),
    ("XFS (", r"XFS \((?P<place>[\w.-]{1,40})\): .{0,80}(?:CRC error|log mount failed|run xfs_repair)"),
    ("BTRFS", r"BTRFS:? (?:error|critical) \(device (?P<place>[\w.-]{1,40})"),
    ("BTRFS warning", r"BTRFS warning \(device (?P<place>[\w.-]{1,40}).{0,40}: csum failed"),
    ("WARNING: Pool", r"WARNING: Pool '(?P<place>[\w.:-]{1,60})' has encountered an uncorrectable I/O failure"),
    ("VERIFY", r"(?P<place>)(?:VERIFY3?[A-Z]?\(.{1,200}|VERIFY.{1,200}) failed"),
)
_rule(
    "directory_full",
    "warn none",
    "a directory has as many files as its file system takes",
    ("ndex full", r"EXT4-fs warning \(device (?P<place>[\w.-]{1,40})\): .{0,80}[Ii]ndex full"),
)
_rule(
    "nic_firmware",
    "fail reboot",
    "the firmware of a network adapter stopped, or takes no commands",
    ("mlx5_core", r"mlx5_core (?P<place>{bdf}): .{0,120}firmware internal error"),
    ("mlx5_core", r"mlx5_core (?P<place>{bdf}): .{0,120}Health issue observed, "),
    ("mlx5_core", r"mlx5_core (?P<place>{bdf}): .{0,120}health compromised"),
    ("mlx5_core", r"mlx5_core (?P<place>{bdf}): .{0,160}timeout\. Will cause a leak of a command resource"),
    place="PCI",
)
_rule(
    "nic_hot",
    "warn escalate",
    "a network adapter or its cable is too hot",
    ("igh temperature", r"mlx5_core (?P<place>{bdf}): .{0,80}High temperature"),
    ("Temperature", r"mlx5_core (?P<place>{bdf}): .{0,80}Port module event\[error\]: .{0,40}High Temperature"),
    place="PCI",
)
_rule(
    "nic_cable",
    "fail reseat",
    "a network adapter does not accept its cable",
    ("Port module event", r"mlx5_core (?P<place>{bdf}): .{0,80}Port module event\[error\]"),
    place="PCI",
)
_rule(
    "nic_error",
    "warn none",
    "a network adapter refused a command, or lacks power",
    ("mlx5_core", r"mlx5_core (?P<place>{bdf}): .{0,80}(?:mlx5_cmd_out_err|cmd_status_err|mlx5_cmd_check)"),
    ("mlx5_core", r"mlx5_core (?P<place>{bdf}): .{0,80}insufficient power"),
    place="PCI",
)
_rule(
    "nic_timeout",
    "warn escalate",
    "a network adapter did not send what it was given",
    ("tx_timeout", r"(?P<place>{bdf}).{0,60}\btx_timeout: "),
    ("TX timeout", r"mlx5_core (?P<place>{bdf}).{0,60}: TX timeout "),
    ("NETDEV WATCHDOG", r"(?:(?P<place>{bdf}) [\w.-]{1,20}: )?NETDEV WATCHDOG: .{0,80}transmit queue"),
    place="PCI",
)
_rule(
    "network_full",
    "warn escalate",
    "the kernel's memory for connections is used up, and packets are dropped",
    ("table full", r"nf_conntrack: .{0,40}table full, dropping packet"),
    ("TCP: ", r"TCP: (?:out of memory|too many orphaned sockets)"),
)
_rule(
    "link_flap",
    "warn none",
    "a network link went down again and again",
    ("ink down", r"(?P<place>{bdf}) \w[\w.-]{0,20}: Link down"),
    ("ink is ", r"(?P<place>{bdf}) \w[\w.-]{0,20}: .{0,40}[Ll]ink is [Dd]own"),
    ("Link DOWN", r"(?P<place>{bdf}): .{0,40}Port: \d{1,3} Link DOWN"),
    place="PCI",
    least=3,
)
_rule(
    "hung_task",
    "fail reboot",
    "a program waited for the kernel for minutes",
    ("blocked for more than", r"task (?P<place>.{1,64}?):\d{1,10} blocked for more than \d{1,6} seconds"),
    place="process",
)
_rule(
    "lockup",
    "fail reboot",
    "a processor was stuck in the kernel",
    ("lockup", r"BUG: soft lockup - CPU#(?P<place>\d{1,5}) stuck"),
    ("LOCKUP", r"hard LOCKUP on cpu (?P<place>\d{1,5})"),
    place="CPU",
)
_rule(
    "rcu_stall",
    "fail reboot",
    "a processor did not go on in the kernel (RCU stall)",
    ("stall", r"rcu: INFO: \w{1,30} (?:detected (?:expedited )?stalls on CPUs|self-detected stall)"),
    ("kthread", r"rcu.{0,40} kthread (?:starved for|timer wakeup didn't happen)"),
)
_rule(
    "oops",
    "fail reboot",
    "the kernel made an error",
    ("BUG: ", r"BUG: (?:unable to handle|kernel NULL pointer|Bad page|Bad rss|scheduling while atomic|KFENCE|KASAN)"),
    ("kernel BUG at", r"kernel BUG at "),
    ("Oops: ", r"\bOops: "),
    ("Kernel panic", r"Kernel panic - not syncing"),
    ("general protection fault", r"^general protection fault"),
    ("list_", r"list_(?:add|del) corruption"),
)
_rule(
    "warning",
    "warn none",
    "the kernel warned of itself",
    ("WARNING: CPU: ", r"WARNING: CPU: \d{1,5} PID: \d{1,10} at (?P<place>[\w./-]{1,80}:\d{1,6})"),
    ("WARNING: ", r"WARNING: (?:(?P<place>[\w./-]{1,80}:\d{1,6}) )?at \w.{0,100}, CPU#\d"),
    place="at",
)
_rule(
    "clock",
    "warn reboot",
    "the processors' clock is unstable, and a slow one is used",
    ("Marking clocksource", r"Marking clocksource '(?P<place>\w{1,20})' as unstable"),
    ("Marking TSC unstable", r"Marking TSC unstable due to (?P<place>)"),
)
_rule(
    "gpu_init",
    "fail reboot",
    "the driver could not start a GPU",
    ("RmInitAdapter failed", r"NVRM: GPU (?P<place>[0-9a-f:]{5,16})(?:\.\d)?: RmInitAdapter failed"),
    ("probe routine failed", r"NVRM: The NVIDIA probe routine failed(?P<place>)"),
    ("This PCI I/O region", r"NVRM: This PCI I/O region assigned to your NVIDIA device is invalid(?P<place>)"),
    place="GPU",
)
_rule(
    "peer_memory",
    "warn none",
    "nvidia-peermem was to give back memory of a GPU that it did not know (any more)",
    ("nv_get_p2p_free_callback", r"nv_get_p2p_free_callback.{0,20} (?:ERROR |-- )"),
)
_rule(
    "driver_mismatch",
    "warn none",
    "a program's NVIDIA library is of another version than the driver",
    ("API mismatch", r"NVRM: API mismatch"),
)
_rule(
    "iommu_fault",
    "warn none",
    "the IOMMU refused a device's access to memory",
    ("DMAR", r"DMAR: \[DMA (?:Read|Write).{0,40}Request device \[(?P<place>[0-9a-f:.]{5,16})\]"),
    ("IO_PAGE_FAULT", r"(?:(?P<place>{bdf}): )?AMD-Vi: Event logged \[IO_PAGE_FAULT"),
    place="PCI",
)
_rule(
    "network_storage",
    "warn none",
    "a storage server did not answer",
    ("not responding", r"nfs: server (?P<place>[\w.:-]{1,80}) not responding"),
    ("LustreError", r"LustreError: (?P<place>)"),
)
_rule(
    "out_of_memory",
    "warn none",
    "the host ran out of memory, and a program was killed",
    ("Out of memory", r"^Out of memory: Kill(?:ed)? process \d{1,10},? (?:UID \d{1,10}, )?\((?P<place>[^()]{1,64})\)"),
    place="process",
)
_rule(
    "out_of_group_memory",
    "warn none",
    "a job or container used up the memory that it may have, and a program was killed",
    ("Memory cgroup out", r"Memory cgroup out of memory: Kill(?:ed)? process \d{1,10},? \((?P<place>[^()]{1,64})\)"),
    place="process",
)
_rule(
    "segfault",
    "warn none",
    "a program crashed",
    ("segfault", r"^(?P<place>.{1,64}?)\[\d{1,10}\]: segfault at "),
    ("traps: ", r"^traps: (?P<place>.{1,64}?)\[\d{1,10}\] (?:general protection|trap )"),
    place="process",
)

RULES: Tuple[Rule, ...] = tuple(_RULES)

# Dumps: between these two, lines that are in no rule belong to the first one.
DUMPS: Tuple[Tuple[str, Pattern[str]], ...] = (
    ("[ cut here ]", re.compile(r"---\[ end trace")),
    ("invoked oom-killer", re.compile(r"Kill(?:ed)? process|oom_reaper: reaped")),
)
DUMP_LINES = 600

# Lines that come with others and say nothing alone: known beside a line of these rules (without "kernel."), or of the
# check kernel_xid, or of any where none is named; new elsewhere.
_MEMORY = "machine_check hardware_corrected memory_uncorrected memory_corrected oops"
_PCIE = "pcie_uncorrected pcie_corrected pcie_lost"
_NVME = "nvme_lost nvme_reset nvme_timeout nvme_polled disk_error " + _PCIE
_COMPANIONS: Tuple[Tuple[str, str], ...] = (
    ("", r"^\s*(?:Call Trace:|</?(?:TASK|IRQ|NMI|EOI)>|Modules linked in:|---\[ end|Code: )"),
    ("", r"^\s*(?:Sending NMI|NMI backtrace for)"),
    ("", r"^\s*\??\s*[\w.$]{1,120}\+0x[0-9a-f]{1,8}/0x[0-9a-f]{1,8}"),
    ("", r"^(?:CPU: \d{1,5} (?:UID: \d{1,10} )?PID: |Hardware name: |Workqueue: |Tainted: |PKRU: )"),
    ("", r"^(?:[ER][A-Z0-9]{2}: |RSP: |FS: |CS: |CR2: |DR[03]: )"),
    ("", r"^\s*(?:task:|Not tainted|Tainted:|\"echo 0 > /proc/sys/kernel/hung_task|rcu:|\(detected by|\(t=\d)"),
    ("", r"^(?:watchdog: |NMI watchdog: )"),
    ("", r"oom-kill:constraint|oom_reaper:|invoked oom-killer|^Mem-Info:|^Tasks state|^\[ *\d{1,10}\]"),
    (_MEMORY, r"\[Hardware Error\]|^EDAC \w{1,12} (?:MC|DEBUG)"),
    (_PCIE, r"AER: |device \[[0-9a-f]{4}:[0-9a-f]{4}\] error status|   TLP Header"),
    (_PCIE, r"\[ ?\d{1,2}\] \w{1,30}(?: +\(First\))?$"),
    (_NVME, r"^nvme nvme\d{1,4}: (?:Abort status|request 0x|resetting controller|Identify)"),
    ("file_system " + _NVME, r"^(?:JBD2|EXT4-fs|XFS|BTRFS)"),
    (
        "nic_firmware nic_error nic_hot nic_cable",
        r"mlx5_core .{0,40}(?:print_health_info|assert_|fw_ver|hw_id|irisc_index|synd |ext_synd|raw fw_ver|time \d)",
    ),
    ("segfault", r"likely on CPU \d|^in [\w.+-]{1,64}\["),
    (
        "kernel_xid gpu_init",
        r"^NVRM: (?:GPU at |GPU Board Serial|GPU\d{1,3} |\s|\(PCI ID|installed in this system|NVRM: |The NVIDIA GPU )",
    ),
    ("driver_mismatch gpu_init", r"^NVRM: (?:but this|versions? |the |Please|component)"),
    ("iommu_fault", r"^(?:AMD-Vi|DMAR): "),
)
BESIDE = 60  # lines

# At warning or worse on healthy hosts.
_HARMLESS = (
    r"\[Firmware (?:Bug|Warn|Info)\]",
    r"^(?:ACPI|acpi|pnp|PM|SPI|DMI|e820|ENERGY_PERF_BIAS)\b",
    r"^(?:No (?:Arguments|Local Variables) are initialized|Initialized (?:Arguments|Local Variables))",
    r"^GHES: (?:HEST is not enabled|Failed to enable APEI firmware first mode)|^ERST: Failed to get Error Log Address",
    r"^BERT: Can't request iomem region|^APEI: Can ?not request",
    r"CPU bug present|hw-vuln|^(?:Spec|RETBleed|VMSCAPE|MDS|TAA|MMIO Stale|L1TF|GDS|ITS|TSA|SRBDS|Transient)",
    r"^(?:Register File Data|kvm|KVM|SVM|SGX|sgx|amd_pstate|intel_pstate|cpufreq|core: CPUID|software IO TLB)",
    r"^(?:secureboot|Lockdown|audit|kauditd|printk:|net_ratelimit)",
    r"callbacks suppressed|taints? kernel|tainting kernel|inheriting taint|Disabling lock debugging",
    r"^NVRM: (?:loading NVIDIA|objClInitPcie|Persistence mode is deprecated|PAT configuration|gpuClearFbhubPoison)",
    r"^nvidia(?:-nvlink|-modeset|-uvm|-drm|-caps)?(?: {bdf})?: (?:Nvlink|Loading|Loaded|Unloaded|vgaarb|enabling)",
    r"^nvidia-nvswitch\d{0,4}: (?:using|open|release|Probing|DEVICE|Nvswitch)",
    # windows of bridges, ports (io), ROMs and what virtual functions would need
    r"bridge window \[|\[io .{0,60}(?:failed to assign|can't assign)|(?:no space for|failed to assign) \[io ",
    r": (?:BAR (?:[6-9]|1\d)|VF BAR \d|ROM)\b.{0,60}(?:no space|failed to assign|can't assign)",
    r"can't claim|bogus alignment|broken device, retraining",
    r"^(?:platform eisa|EISA|i8042|i2c|ipmi|IPMI|mei_|power_meter|tpm|TPM|ima|integrity|lpc_ich|spi-nor)",
    r"^(?:usb|usbhid|hid|hub|input|xhci_hcd|ast|mgag200|vga16fb|simple-framebuffer|fbcon)\b|^\[drm\]",
    r"^(?:device-mapper: core: CONFIG_IMA|cgroup|bridge|docker|veth|br-)",
    r"^TCP: .{0,60}Possible SYN flooding|^idxd .{0,40}Unable to turn on (?:user )?SVA",
    r"^(?:GPT:|Alternate GPT|Primary header|Key type|random:|systemd)",
    r"missing or invalid SUBNQN|unchecked data buffer|No UUID available|bogus Namespace Id|Shutdown timeout set",
    r"^nvme nvme\d{1,4}: queue_size ",
    r"^(?:EXT4-fs|XFS|BTRFS)\b.{0,80}(?:[Dd]eprecated|warning: (?:maximal mount count|checktime) reached)",
    r"^sd .*(?:Caching mode page|Assuming drive cache|Asking for cache data|Media removed|Power-on or device reset)",
    r"^FAT-fs .*not properly unmounted|error.*, dev (?:sr|fd|loop|nbd)\d|^Buffer I/O error on dev (?:sr|fd|loop|nbd)\d",
    r"^(?:hrtimer|perf): interrupt took|hogged CPU for|NMI handler .* took too long|Long readout interval",
    r"^NMI watchdog: (?:Enabled|Perf)|watchdog did not stop|^AMD-Vi: Unable to (?:read/)?write to IOMMU perf counter",
    r"executable stack|deprecated sysctl|SHM_HUGETLB is obsolete|MFD_(?:EXEC|NOEXEC)|ptrace attach",
    r"core_pipe_limit|Skipping core dump",
    r"resource sanity check|^caller .* mapping multiple BARs",
    r"^(?:crash|kexec|Kernel command line|Command line|Unknown kernel command line|Booting|Linux version)",
)
# These talk much at warning, and say in words of trouble when it is more than talk.
_TALK = (
    r"^(?:PCI|EFI|efi|ERST|GHES|BERT|HEST|APEI|x86/|smpboot)\b",
    r"^(?:idxd|iaa_|isst_|intel_|overlayfs|squashfs|loop\d|RAS|EDAC|mpt[23]sas|megaraid)",
    r"^(?:ice |TCP: |UDP|IPv6|nf_conntrack)",
    r"^mlx5_core .*(?:Port module event: |Rate limit|E-Switch|firmware version|slot advertised sufficient|mlx5e_)",
    r"^(?:spl|zfs|ZFS|znvpair|zcommon|icp|zzstd|zlua|zavl|zunicode)\b",
)
_TROUBLE = (
    r"(?<![a-z])(?:errors?|fail(?:s|ed|ing|ures?)?|fault(?:s|y)?|fatal|corrupt\w*|lost|loss|offline|dead|hung|halted|panic"
    r"|time(?:d |-)?outs?|(?:un|not )recover\w*|uncorrect\w*|critical|degraded|non-operational|(?:in|not )accessible"
    r"|not (?:responding|operational|ready)|unreachable|drop(?:s|ped|ping)?|out of memory|too many|starved|stuck"
    r"|unable|can ?not|can't|could ?n[o']t|abort\w*|invalid|[uc]e|no space)(?![a-z])|!!"
)

COMPANIONS = re.compile("|".join(f"(?P<c{n}>{pattern})" for n, (_, pattern) in enumerate(_COMPANIONS)))
HARMLESS = re.compile("|".join(f"(?:{pattern.replace('{bdf}', _BDF)})" for pattern in _HARMLESS))
TALK = re.compile("|".join(f"(?:{pattern})" for pattern in _TALK))
TROUBLE = re.compile(_TROUBLE, re.IGNORECASE)
_OWNERS = {
    f"c{n}": frozenset(word if word.startswith("kernel_") else f"kernel.{word}" for word in words.split())
    for n, (words, _) in enumerate(_COMPANIONS)
}


def is_harmless(text: str) -> bool:
    """Whether healthy hosts say it at warning or worse."""
    return bool(HARMLESS.search(text)) or bool(TALK.search(text) and not TROUBLE.search(text))


def companion(text: str) -> Tuple[str, FrozenSet[str]]:
    """Which kind of companion it is, empty for none; and the symptoms that it comes with, empty for any."""
    found = COMPANIONS.search(text)
    kind = found.lastgroup if found and found.lastgroup else ""
    return kind, _OWNERS.get(kind, frozenset())
