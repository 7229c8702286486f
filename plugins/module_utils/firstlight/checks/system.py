"""What a host runs on, by which hosts alike are compared: image, kernel, BIOS, processors, memory; and that all CPUs
are in use.

A CPU that is there and off makes a host slower than its like. Siblings that SMT's own switch has off are meant so. In a
virtual machine or container the CPUs are given by the machine below, and not judged.
"""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Mapping, Optional

from ..findings import Finding
from ..profile import Profile
from .capture import Source, read_files
from .compared import parse_cpus, told
from .engine import Captured, Check, Expect, not_known, ok, unknown, unreadable
from .pcie_acs import VIRTUALIZATION

NAME = "system"
_CPU = "/sys/devices/system/cpu"
_RELEASE, _KERNEL, _BIOS = "/etc/os-release", "/proc/sys/kernel/osrelease", "/sys/class/dmi/id/bios_version"
_ONLINE, _PRESENT, _SMT = f"{_CPU}/online", f"{_CPU}/present", f"{_CPU}/smt/control"
_MICROCODE, _MEMORY = f"{_CPU}/cpu0/microcode/version", "/proc/meminfo"
FILES = read_files(_RELEASE, _KERNEL, _BIOS, _ONLINE, _PRESENT, _SMT, _MICROCODE, _MEMORY)
_NAMED = 16  # CPUs that the evidence names


def reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    return {"files": FILES, "virtualization": VIRTUALIZATION}


def _files(text: str) -> Optional[Dict[str, str]]:
    try:
        return {str(path): str(value).strip() for path, value in json.loads(text)["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def judge(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    output, machine = captured["files"], captured["virtualization"]
    if output.problem or output.code:
        return not_known(NAME, output, f"{_CPU} and others")
    files = _files(output.text)
    if files is None:
        return unreadable(NAME, output.text, f"{_CPU} and others")
    online, present = parse_cpus(files.get(_ONLINE, "")), parse_cpus(files.get(_PRESENT, ""))
    if not online or not present:
        return [unknown(NAME, "unreadable", f"{_ONLINE} or {_PRESENT} is no list of CPUs")]
    if machine.problem or not machine.text.strip():
        return not_known(NAME, machine, "systemd-detect-virt")
    off = sorted(present - online)
    smt_off = files.get(_SMT) in ("off", "forceoff")
    least = len(present) // 2 if smt_off else len(present)  # of two siblings SMT's switch leaves one
    if len(online) < least and machine.text.strip() == "none":
        more = f" and {len(off) - _NAMED} more" if len(off) > _NAMED else ""
        evidence = f"off: {', '.join(map(str, off[:_NAMED]))}{more}; SMT {files.get(_SMT) or 'not told'}"
        locator = f"{least - len(online)} of {least} CPUs"
        return [Finding(NAME, "fail", "cpu.offline", locator, evidence, "reboot")]
    named = _named(files)
    return ok(NAME, ", ".join([*(str(named[key]) for key in _TOLD if key in named), f"{len(online)} CPUs"]))


_TOLD = ("system.image", "system.kernel", "system.bios")


def _named(files: Mapping[str, str]) -> Dict[str, Any]:
    image = re.search(r"^PRETTY_NAME=[\"']?([^\"'\n]{1,100})", files.get(_RELEASE, ""), re.MULTILINE)
    memory = re.search(r"^MemTotal:\s*([0-9]{1,15}) kB", files.get(_MEMORY, ""), re.MULTILINE)
    online = parse_cpus(files.get(_ONLINE, ""))
    return told(
        {
            "system.image": image.group(1) if image else None,
            "system.kernel": files.get(_KERNEL),
            "system.bios": files.get(_BIOS),
            "cpu.microcode": files.get(_MICROCODE),
            "cpu.count": str(len(online)) if online else None,  # a text: it must be equal
            "memory.total_bytes": int(memory.group(1)) * 1024 if memory else None,
        }
    )


def values(captured: Captured, profile: Profile) -> Dict[str, Any]:
    return _named(_files(captured["files"].text) or {})


CHECKS = [Check(NAME, "quick", reads, judge, values=values)]
