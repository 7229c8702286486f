"""The GPU driver below ``nvidia-smi``: packages of one version, modules built for the kernels that count, loaded, and
the very one that was installed.

Runs where the profile names the kernel module (``gpus.kernel_module``), or when asked for by name. In a container the
kernel is not the host's own: what it has loaded is then not judged, and said so as ``warn``.
``expect.reboot_due``: a role has asked for a reboot; what only that will mend is ``warn`` until then.
"""

from __future__ import annotations

import errno
import json
import os
import re
from dataclasses import dataclass, field, replace
from typing import Dict, List, Optional, Tuple

from ..findings import Finding
from ..profile import Profile
from .capture import CONTAINER, NO_TOOL, Command, Output, Source, inside, read_files
from .engine import Captured, Check, Expect, asked, not_known, ok, unknown, unreadable
from .gpu import QUERY

NAME = "gpu_driver"
_VERSION = "/proc/driver/nvidia/version"
_LOADED = "/sys/module/nvidia/version"
_NOUVEAU = "/sys/module/nouveau/initstate"
_RUNNING = "/proc/sys/kernel/osrelease"
_SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_FILES = read_files(_VERSION, _LOADED, _NOUVEAU, _RUNNING, _SECURE_BOOT)
# what a kernel needs to be one that modules must be built for, and for that to be possible
_KERNELS = Command(("sh", "-c", "ls -d /boot/vmlinuz-* /lib/modules/*/build/Makefile 2>/dev/null; true"))
_DKMS = Command(("dkms", "status"), limit=20.0)
_MODULE = Command(("modinfo", "nvidia"))
# where DKMS keeps the key that it signs with: its own place, and Ubuntu's
_KEYS = "for key in /var/lib/shim-signed/mok/MOK.der /var/lib/dkms/mok.pub; do "
_KEY = Command(("sh", "-c", _KEYS + '[ ! -e "$key" ] || mokutil --test-key "$key"; done; true'))
_PATTERNS = ("nvidia-*", "libnvidia-*", "cuda-drivers*", "libcuda1", "linux-modules-nvidia-*")
_PACKAGES = Command(("dpkg-query", "-W", "-f=${db:Status-Status}|${Package}|${Version}\\n", *_PATTERNS))

# one each of these must be of the driver's version: the module's source, the library, and what talks to NVSwitch
_MODULE_SOURCE = re.compile(r"^(nvidia-(open-)?kernel-((open|[a-z]+)-)?dkms|nvidia-dkms(-.*)?|nvidia-current.*-dkms)$")
_LIBRARY = re.compile(r"^(libnvidia-ml1|libnvidia-compute(-\d+(-server)?)?)$")
_FABRIC = re.compile(r"^nvidia-fabricmanager(-\d+)?$")
_ALIKE = {
    "kernel module": _MODULE_SOURCE,
    "library": _LIBRARY,
    "fabric manager": _FABRIC,
    "nscq": re.compile(r"^libnvidia-nscq(-\d+)?$"),
    "imex": re.compile(r"^nvidia-imex(-\d+)?$"),
}
_HALF = ("half-installed", "unpacked", "half-configured")
_DKMS_NAME = re.compile(r"^nvidia(-(current|open|tesla|srv|server|legacy)([-\w]*))?$")
_DKMS_LINE = re.compile(
    r"^(?P<name>[\w.+-]{1,80})(/|, )(?P<version>[^,:\s]{1,60})"
    r"(, (?P<kernel>[^,\s]{1,100}), (?P<arch>[\w-]{1,20}))?: (?P<state>[a-z]+)(?P<note>.*)$"
)
_NVRM = re.compile(r"NVRM version: .{0,120}?\s(\d{3}\.\d+(?:\.\d+)*)\s")
_NVML = re.compile(r"NVML library version: (\d{3}[\d.]{0,12})")
_KERNEL = re.compile(r"^[0-9][\w.+~-]{2,80}$")
_NEEDS_REBOOT = ("reboot",)


def reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    named = (
        profile.count("gpus") > 0 and profile.gpus.get("kernel_module") and profile.gpus.get("driver_required", True)
    )
    if not named and not asked(expect, NAME):
        return {}
    return {
        "packages": _PACKAGES,
        "files": _FILES,
        "kernels": _KERNELS,
        "dkms": _DKMS,
        "module": _MODULE,
        "key": _KEY,
        "container": CONTAINER,
        "nvidia_smi": QUERY,
    }


@dataclass(frozen=True)
class Built:
    """One line of ``dkms status``. state: added, built, installed or broken; note: what it says behind that."""

    version: str
    kernel: str
    state: str
    note: str = ""


@dataclass
class Kernels:
    running: str = ""
    installed: List[str] = field(default_factory=list)  # the newest last
    headers: List[str] = field(default_factory=list)


def upstream(version: str) -> str:
    """``580.95.05`` of ``580.95.05-1``, ``580.95.05-0ubuntu1`` or ``1:580.95.05-1``."""
    return version.rpartition(":")[2].partition("-")[0]


def parse_packages(text: str) -> Tuple[Dict[str, str], Dict[str, str]]:
    """Version by name of what is installed, and the state of what dpkg left half done."""
    there: Dict[str, str] = {}
    half: Dict[str, str] = {}
    for line in text.splitlines():
        parts = line.split("|")
        if len(parts) != 3:
            continue
        if parts[0] in _HALF:
            half[parts[1]] = parts[0]
        elif parts[0].startswith(("installed", "triggers-")):
            there[parts[1]] = parts[2]
    return there, half


def parse_dkms(text: str) -> List[Built]:
    """The lines of ``dkms status`` (2.x and 3.x) that are about the driver's module."""
    found = []
    for line in text.splitlines():
        match = _DKMS_LINE.match(line.strip())
        if match and _DKMS_NAME.match(match["name"]):
            found.append(Built(match["version"], match["kernel"] or "", match["state"], match["note"].strip()))
    return found


def parse_kernels(listed: str, running: str) -> Kernels:
    """From paths such as /boot/vmlinuz-6.1.0-40-amd64 and /lib/modules/6.1.0-40-amd64/build/Makefile."""
    found = Kernels(running.strip())
    for line in listed.splitlines():
        image = re.match(r"^/boot/vmlinuz-(\d[\w.+~-]{2,80})$", line)
        build = re.match(r"^/lib/modules/(\d[\w.+~-]{2,80})/build/Makefile$", line)
        if image and not image.group(1).endswith((".old", ".bak")):
            found.installed.append(image.group(1))
        elif build:
            found.headers.append(build.group(1))
    found.installed.sort(
        key=lambda name: [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in re.split(r"(\d+)", name)]
    )
    return found


def parse_module(text: str) -> Dict[str, str]:
    """``modinfo``'s fields, the first of each name."""
    fields: Dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), value.strip())
    return fields


def _files(output: Output) -> Optional[Dict[str, str]]:
    try:
        files = json.loads(output.text)["files"]
        return {str(path): str(text) for path, text in files.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def judge(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    packages = captured["packages"]
    if packages.problem:
        return not_known(NAME, packages, "dpkg-query")
    if captured["files"].problem:
        return not_known(NAME, captured["files"], "/proc, /sys")
    files = _files(captured["files"])
    if files is None:
        return unreadable(NAME, captured["files"].text, "/proc, /sys")
    there, half = parse_packages(packages.text)
    version = _driver_version(there)
    if not version and not half:
        return [_fail("driver.not_installed", "", "no package of the GPU driver is installed", "escalate")]
    container = inside(captured["container"])
    kernels = parse_kernels(captured["kernels"].text, files.get(_RUNNING, ""))
    findings = _judge_packages(there, half, profile) + _judge_read(captured, kernels, container)
    findings += _judge_built(captured["dkms"], there, version, kernels, container)
    if container:
        evidence = "a container: which module its machine's kernel has loaded is not judged"
        findings.append(Finding(NAME, "warn", "driver.container", "", evidence))
    else:
        findings += _judge_loaded(captured, files, version, profile)
    if expect.get("reboot_due") is True:
        findings = [_until_reboot(f) if f.action in _NEEDS_REBOOT and f.status == "fail" else f for f in findings]
    if findings:
        return findings
    return ok(NAME, f"{version} loaded; built for {', '.join(_wanted(kernels, container))}")


def _fail(symptom: str, locator: str, evidence: str, action: str) -> Finding:
    return Finding(NAME, "fail", symptom, locator, evidence, action)


def _until_reboot(finding: Finding) -> Finding:
    return replace(finding, status="warn", evidence=f"a reboot is due: {finding.evidence}")


def _driver_version(there: Dict[str, str]) -> str:
    """The driver's version as its packages say it: that of the module's source, else of the library."""
    for pattern in (_MODULE_SOURCE, _LIBRARY):
        found = sorted(upstream(version) for name, version in there.items() if pattern.match(name))
        if found:
            return found[-1]
    return ""


def _judge_packages(there: Dict[str, str], half: Dict[str, str], profile: Profile) -> List[Finding]:
    findings = [
        _fail("driver.half_installed", name, f"dpkg left it {state}; dpkg --configure -a tells why", "escalate")
        for name, state in sorted(half.items())
    ]
    versions: Dict[str, List[str]] = {}
    for name, version in sorted(there.items()):
        if any(pattern.match(name) for pattern in _ALIKE.values()):
            versions.setdefault(upstream(version), []).append(name)
    if len(versions) > 1:
        evidence = "; ".join(f"{version}: {', '.join(names)}" for version, names in sorted(versions.items()))
        findings.append(_fail("driver.split_versions", "", f"packages of several versions: {evidence}", "escalate"))
    if profile.gpus.get("nvswitch") is True and not any(_FABRIC.match(name) for name in there):
        evidence = "the profile has NVSwitch, and no nvidia-fabricmanager is installed"
        findings.append(_fail("driver.no_fabric_manager", "", evidence, "escalate"))
    return findings


def _judge_read(captured: Captured, kernels: Kernels, container: bool) -> List[Finding]:
    """Whether it is known which kernels count, and which files are there. In a container there may be no kernel."""
    listed = captured["kernels"]
    if listed.problem or listed.code:
        return not_known(NAME, listed, "the kernels in /boot")
    if (listed.text.strip() and not (kernels.installed or kernels.headers)) or not (kernels.installed or container):
        return unreadable(NAME, listed.text, "the kernels in /boot")
    if not container and not _KERNEL.match(kernels.running):
        return unreadable(NAME, kernels.running, _RUNNING)
    closed = _closed(captured["files"])
    return [] if container or not closed else [unknown(NAME, "unreadable", f"not read: {', '.join(closed)}")]


def _closed(output: Output) -> List[str]:
    """Files that are there, and cannot be read."""
    try:
        errors = json.loads(output.text)["errors"]
        return [f"{path}: {why}" for path, why in errors.items() if why != os.strerror(errno.ENOENT)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ["why files cannot be read is not told"]


def _wanted(kernels: Kernels, container: bool) -> List[str]:
    """The kernels that must have the module: the running one and the newest that is installed."""
    running = [] if container else [kernels.running]
    return list(dict.fromkeys(kernel for kernel in running + kernels.installed[-1:] if kernel))


def _judge_built(dkms: Output, there: Dict[str, str], version: str, kernels: Kernels, container: bool) -> List[Finding]:
    if any(name.startswith("linux-modules-nvidia-") for name in there):
        return []  # built by the distribution, kernel by kernel, and of one version with it by their dependencies
    wanted = _wanted(kernels, container)
    if not wanted or not any(_MODULE_SOURCE.match(name) for name in there):
        return []
    if dkms.problem == NO_TOOL:
        return [_fail("driver.not_built", "", "dkms is not installed, so no kernel has the module", "escalate")]
    if dkms.problem or dkms.code:
        return not_known(NAME, dkms, "dkms status")
    built = parse_dkms(dkms.text)
    findings: List[Finding] = []
    for kernel in wanted:
        findings += _judge_kernel(kernel, [b for b in built if b.kernel == kernel], version, kernels)
    return findings


def _judge_kernel(kernel: str, built: List[Built], version: str, kernels: Kernels) -> List[Finding]:
    locator = f"kernel {kernel}"
    installed = [b for b in built if b.state == "installed"]
    if any(b.version == version and "WARNING" not in b.note for b in installed):
        return []
    if installed:
        evidence = (
            f"DKMS has {', '.join(f'{b.version} {b.note}'.strip() for b in installed)}, the packages are {version}"
        )
        return [_fail("driver.other_build", locator, evidence, "escalate")]
    if kernel not in kernels.headers:
        evidence = f"no headers of this kernel are installed, so {version} cannot be built for it"
        return [_fail("driver.no_headers", locator, evidence, "escalate")]
    state = ", ".join(f"{b.version} {b.state}" for b in built) or "nothing"
    evidence = f"DKMS has {state} for it; see make.log in /var/lib/dkms/*/{version}"
    return [_fail("driver.not_built", locator, evidence, "escalate")]


def _judge_loaded(captured: Captured, files: Dict[str, str], version: str, profile: Profile) -> List[Finding]:
    if _NOUVEAU in files:
        evidence = "nouveau is loaded, which keeps the driver off the GPUs"
        return [_fail("driver.nouveau", "", evidence, "reboot")]
    modinfo = captured["module"]
    module = parse_module(modinfo.text) if not modinfo.problem else {}
    secure_boot = files.get(_SECURE_BOOT, "")
    enforced = secure_boot[4:5] == "\x01"
    if enforced and module and not module.get("signer"):
        evidence = f"Secure Boot is on, and {module.get('filename', 'the module')} has no signature"
        return [_fail("driver.unsigned", "", evidence, "escalate")]
    loaded = files.get(_LOADED, "").strip() or _nvrm(files.get(_VERSION, ""))
    if not loaded:
        return _judge_absent(captured, enforced)
    findings: List[Finding] = []
    if secure_boot and secure_boot[4:] not in ("\x00", "\x01"):
        findings += unreadable(NAME, repr(secure_boot[:20]), _SECURE_BOOT)
    if enforced and (modinfo.problem or modinfo.code):
        findings += not_known(NAME, modinfo, "modinfo nvidia")
    elif enforced and "filename" not in module:
        findings += unreadable(NAME, modinfo.text, "modinfo nvidia")
    said = captured["nvidia_smi"].text + captured["nvidia_smi"].errors
    library = _NVML.search(said)
    if version and loaded != version:
        evidence = f"the kernel has {loaded} loaded, installed is {version}"
        findings.append(_fail("driver.mismatch", "", evidence, "reboot"))
    elif "Driver/library version mismatch" in said:
        have = library.group(1) if library else "another version"
        evidence = f"the kernel has {loaded} loaded, the library is {have}"
        findings.append(_fail("driver.mismatch", "", evidence, "reboot"))
    return findings + _judge_flavour(files.get(_VERSION, ""), profile)


def _nvrm(text: str) -> str:
    found = _NVRM.search(text[:2000])
    return found.group(1) if found else ""


def _judge_absent(captured: Captured, enforced: bool) -> List[Finding]:
    key = captured["key"].text + captured["key"].errors
    if enforced and "is not enrolled" in key:
        evidence = (
            "Secure Boot is on, and the key that signed the module is not enrolled: mokutil --import, then reboot"
        )
        return [_fail("driver.key_not_enrolled", "", evidence, "escalate")]
    return [_fail("driver.not_loaded", "", "the kernel has no nvidia module loaded", "reboot")]


def _judge_flavour(text: str, profile: Profile) -> List[Finding]:
    wanted = str(profile.gpus.get("kernel_module", ""))
    has = "open" if "Open Kernel Module" in text else "proprietary"
    if wanted and not _nvrm(text):
        return unreadable(NAME, text, _VERSION)
    if not wanted or has == wanted:
        return []
    evidence = f"the {has} kernel module is loaded, the profile wants the {wanted} one"
    return [_fail("driver.wrong_flavour", "", evidence, "escalate")]


CHECKS = [
    Check(
        NAME,
        "quick",
        reads,
        judge,
        needs=("gpus.count", "gpus.kernel_module", "gpus.nvswitch", "expect.reboot_due"),
    )
]
