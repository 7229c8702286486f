"""Whether the HCAs can read and write GPU memory, by nvidia-peermem, by DMA-BUF, or both (``gpus.rdma``).

What is loaded and what the kernel can do counts, not what a file says should be loaded at boot. Runs where the profile
names the way, or when asked for by name with ``expect.gpu_rdma``. In a container only what is the container's own is
judged, and said so as ``warn``.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Dict, List, Optional

from ..findings import Finding
from ..profile import Profile
from .capture import CONTAINER, Command, Output, Source, inside, read_files
from .engine import Captured, Check, Expect, asked, not_known, ok, unreadable

NAME = "gpu_rdma"
MODES = ("peermem", "dmabuf", "both")
_PEERMEM = "/sys/module/nvidia_peermem/initstate"
_NVRM = "/proc/driver/nvidia/version"
_FILES = read_files(_PEERMEM, _NVRM, "/sys/module/ib_core/initstate", "/sys/class/infiniband/*/node_type")
# what nvidia-peermem registers with; only OFED's ib_core and Ubuntu's kernels have it
_SYMBOL = Command(("grep", "-m1", "-w", "ib_register_peer_memory_client", "/proc/kallsyms"))
_OPTIONS = r"'^CONFIG_(PCI_P2PDMA|DMA_SHARED_BUFFER|DMABUF_MOVE_NOTIFY|INFINIBAND_USER_ACCESS)='"
_CONFIG = Command(
    ("sh", "-c", f'if [ -r "/boot/config-$(uname -r)" ]; then grep -E {_OPTIONS} "/boot/config-$(uname -r)"; '
     f"elif [ -r /proc/config.gz ]; then zcat /proc/config.gz | grep -E {_OPTIONS}; else exit 3; fi"),
)  # fmt: skip
_LOG = Command(("dmesg",), max_bytes=8 * 1024 * 1024, keep="tail")
_MEMLOCK = Command(("systemctl", "show", "--property=DefaultLimitMEMLOCK"))
_REFUSED = re.compile(r"nvidia_peermem: .*(unknown symbol|disagrees about version|invalid argument|failed|error)", re.I)


def reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    if mode(profile, expect) == "" and not asked(expect, NAME):
        return {}
    return {
        "files": _FILES,
        "symbol": _SYMBOL,
        "config": _CONFIG,
        "log": _LOG,
        "memlock": _MEMLOCK,
        "container": CONTAINER,
    }


def mode(profile: Profile, expect: Expect) -> str:
    """How it is wanted: what a role asks for, else what the profile says; empty for not at all."""
    wanted = str(expect.get("gpu_rdma") or profile.gpus.get("rdma") or "")
    return wanted if wanted in MODES else ""


def judge(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    output = captured["files"]
    if output.problem:
        return not_known(NAME, output, "/sys/module")
    files = _files(output)
    if files is None:
        return unreadable(NAME, output.text, "/sys/module")
    wanted = mode(profile, expect)
    if not wanted:
        return [
            Finding(NAME, "unknown", f"{NAME}.no_mode", "", "neither the profile nor the role says how", "escalate")
        ]
    if inside(captured["container"]):
        evidence = "a container: the modules and devices of its machine are not judged"
        return [Finding(NAME, "warn", "rdma.container", "", evidence), *_judge_memlock(captured["memlock"])]
    devices = sorted({path.split("/")[4] for path in files if path.startswith("/sys/class/infiniband/")})
    findings: List[Finding] = []
    if not devices:
        findings.append(
            _fail("rdma.no_device", "", "/sys/class/infiniband is empty: no RDMA driver has a card", "reboot")
        )
    if wanted in ("peermem", "both"):
        findings += _judge_peermem(files, captured)
    if wanted in ("dmabuf", "both"):
        findings += _judge_dmabuf(files, captured["config"])
    if expect.get("reboot_due") is True:
        findings = [_until_reboot(f) if f.status == "fail" else f for f in findings]
    findings += _judge_memlock(captured["memlock"])
    return findings or ok(NAME, f"{wanted}; {', '.join(devices)}")


def _files(output: Output) -> Optional[Dict[str, str]]:
    try:
        return {str(path): str(text) for path, text in json.loads(output.text)["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _fail(symptom: str, locator: str, evidence: str, action: str) -> Finding:
    return Finding(NAME, "fail", symptom, locator, evidence, action)


def _until_reboot(finding: Finding) -> Finding:
    return replace(finding, status="warn", evidence=f"a reboot is due: {finding.evidence}")


def _judge_peermem(files: Dict[str, str], captured: Captured) -> List[Finding]:
    if files.get(_PEERMEM, "").strip() == "live":
        return []
    symbol = captured["symbol"]
    if not symbol.problem and symbol.code == 1 and "/sys/module/ib_core/initstate" in files:
        evidence = (
            "this kernel's ib_core has no ib_register_peer_memory_client: nvidia-peermem needs OFED, or use dmabuf"
        )
        return [_fail("rdma.no_peer_memory", "nvidia_peermem", evidence, "escalate")]
    lines = [line for line in captured["log"].text.splitlines() if _REFUSED.search(line)]
    if lines:
        return [_fail("rdma.peermem_refused", "nvidia_peermem", lines[-1].strip(), "escalate")]
    return [_fail("rdma.peermem_not_loaded", "nvidia_peermem", "the kernel has not loaded nvidia_peermem", "reboot")]


def _judge_dmabuf(files: Dict[str, str], config: Output) -> List[Finding]:
    findings: List[Finding] = []
    text = files.get(_NVRM, "")
    if text and "Open Kernel Module" not in text:
        evidence = "DMA-BUF needs the open kernel module, the proprietary one is loaded"
        findings.append(_fail("rdma.no_dmabuf_driver", "nvidia", evidence, "escalate"))
    if not text:
        findings.append(_fail("rdma.no_driver", "nvidia", "the kernel has no nvidia module loaded", "reboot"))
    if config.problem or config.code not in (0, 1):
        return findings + not_known(NAME, config, "the kernel's configuration")
    on = set(re.findall(r"^CONFIG_(\w+)=[ym]$", config.text, re.MULTILINE))
    # DMABUF_MOVE_NOTIFY became part of DMA_SHARED_BUFFER; without it kernels pin, which is what GPUs' memory needs here
    for option in ("DMA_SHARED_BUFFER", "PCI_P2PDMA", "INFINIBAND_USER_ACCESS"):
        if option not in on:
            evidence = f"the kernel is built without CONFIG_{option}, which DMA-BUF needs"
            findings.append(_fail("rdma.no_dmabuf_kernel", f"CONFIG_{option}", evidence, "escalate"))
    return findings


def _judge_memlock(output: Output) -> List[Finding]:
    if output.problem or output.code:
        return not_known(NAME, output, "systemctl show")
    found = re.search(r"^DefaultLimitMEMLOCK=(\S{1,40})$", output.text, re.MULTILINE)
    if not found:
        return unreadable(NAME, output.text, "systemctl show")
    # systemd prints 2^64 - 1 for infinity in old versions
    if found.group(1) in ("infinity", "18446744073709551615"):
        return []
    evidence = f"services may lock {found.group(1)} bytes of memory, RDMA needs no limit (DefaultLimitMEMLOCK=infinity)"
    return [_fail("rdma.memlock", "systemd", evidence, "escalate")]


CHECKS = [Check(NAME, "quick", reads, judge, needs=("gpus.rdma", "expect.gpu_rdma", "expect.reboot_due"))]
