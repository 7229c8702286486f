"""How the host is set: huge pages, NUMA balancing, swap, sysctl, limits; and whether tmp folders are cleaned."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..findings import Finding
from ..profile import Profile
from .capture import Command, Output, Source, read_files
from .engine import Captured, Check, Expect, asked, not_known, ok, unknown, unreadable
from .pcie_acs import VIRTUALIZATION

NAME = "host_tuning"
OURS = "/etc/sysctl.d/90-firstlight.conf"
# sysctl.d(5): a file in an earlier folder hides those of its name in later ones; then all go by name
FOLDERS = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d")
THP = "/sys/kernel/mm/transparent_hugepage/enabled"
SWAPS, NUMA = "/proc/swaps", "kernel.numa_balancing"
CLEANER = "systemd-tmpfiles-clean.timer"
_MANAGER = Command(("systemctl", "show", "--property=DefaultLimitNOFILE,DefaultLimitMEMLOCK"), limit=8.0)
_TIMER = Command(("systemctl", "show", "--property=ActiveState,LoadState", CLEANER), limit=8.0)
# what systemd-detect-virt calls them
CONTAINERS = frozenset(
    [
        "container-other",
        "docker",
        "lxc",
        "lxc-libvirt",
        "openvz",
        "podman",
        "pouch",
        "proot",
        "rkt",
        "systemd-nspawn",
        "wsl",
    ]
)
_KEY = re.compile(r"^[A-Za-z0-9_]+([./][A-Za-z0-9_*-]+)+$")


def sysctl_path(key: str) -> str:
    """``vm.max_map_count`` as a path; a key with a slash has its dots kept (sysctl.d(5))."""
    first = re.search(r"[./]", key)
    swapped = key if first and first.group() == "/" else key.translate(str.maketrans("./", "/."))
    return f"/proc/sys/{swapped}"


def wanted_sysctl(profile: Profile) -> Dict[str, str]:
    """Key by key what the profile wants, NUMA balancing among it."""
    wanted = {str(k): str(v) for k, v in (profile.tuning.get("sysctl") or {}).items() if _KEY.match(str(k))}
    if profile.tuning.get("numa_balancing"):
        wanted[NUMA] = "1" if profile.tuning["numa_balancing"] == "enabled" else "0"
    return wanted


def _pages_path(size: str) -> str:
    return f"/sys/kernel/mm/hugepages/hugepages-{size}kB/nr_hugepages"


def reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    keys = ("hugepages", "transparent_hugepages", "numa_balancing", "swap", "sysctl", "limits")
    if not any(profile.tuning.get(key) for key in keys) and not asked(expect, NAME):
        return {}
    pages = [_pages_path(size) for size in profile.tuning.get("hugepages") or {} if str(size).isdecimal()]
    values = [sysctl_path(key) for key in wanted_sysctl(profile)]
    return {
        "values": read_files(THP, SWAPS, *pages, *values),
        "files": read_files("/etc/sysctl.conf", *(f"{folder}/*.conf" for folder in FOLDERS)),
        "manager": _MANAGER,
        "timer": _TIMER,
        "virtualization": VIRTUALIZATION,
    }


def _files(output: Output) -> Optional[Dict[str, str]]:
    try:
        return {str(k): str(v) for k, v in json.loads(output.text)["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def judge(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    for name in ("values", "files", "virtualization"):
        if captured[name].problem:
            return not_known(NAME, captured[name], name)
    values, files = _files(captured["values"]), _files(captured["files"])
    if values is None or files is None:
        return unreadable(NAME, captured["values"].text, "/proc/sys")
    findings = _judge_limits(captured["manager"], profile) + _judge_cleaning(captured["timer"])
    kind = captured["virtualization"].text.strip()
    if kind in CONTAINERS:
        evidence = f"runs in {kind}: kernel settings are its machine's, not looked at"
        findings.append(Finding(NAME, "warn", f"{NAME}.container", "", evidence))
    else:
        findings += _judge_values(values, files, profile)
        if expect.get("reboot_due"):  # then it is not the host's fault yet
            findings = [replace(f, status="warn") if f.symptom == "hugepages.count" else f for f in findings]
    return findings or ok(NAME, "as the profile says: " + (", ".join(_told(profile)) or "it says nothing"))


def _told(profile: Profile) -> List[str]:
    return sorted(key for key, value in profile.tuning.items() if value and not key.startswith(("cpu_", "pcie_")))


def _judge_values(values: Mapping[str, str], files: Mapping[str, str], profile: Profile) -> List[Finding]:
    findings: List[Finding] = []
    for key, value in wanted_sysctl(profile).items():
        findings += _judge_value("sysctl.value", key, values.get(sysctl_path(key)), value, "retry")
        other = last_owner(files, key)
        if other and other != OURS:
            evidence = f"{other} is read after {OURS} and sets it too"
            findings.append(Finding(NAME, "fail", "sysctl.other_owner", key, evidence, "escalate"))
    for size, number in (profile.tuning.get("hugepages") or {}).items():
        seen = values.get(_pages_path(str(size)))
        # memory in one piece is there after a boot, hardly later
        findings += _judge_value("hugepages.count", f"pages of {size} kB", seen, str(number), "reboot")
    wanted = profile.tuning.get("transparent_hugepages")
    if wanted:
        chosen = re.search(r"\[(\w+)\]", values.get(THP, ""))
        findings += _judge_value("hugepages.transparent", THP, chosen.group(1) if chosen else None, wanted, "retry")
    if profile.tuning.get("swap") == "disabled":
        rows = [line.split()[0] for line in values.get(SWAPS, "").splitlines()[1:] if line.split()]
        if SWAPS not in values:
            findings.append(unknown(NAME, "unreadable", f"{SWAPS} cannot be read"))
        findings += [Finding(NAME, "fail", "swap.on", row, f"{SWAPS} names it, expected none", "retry") for row in rows]
    return findings


def _judge_value(symptom: str, locator: str, seen: Optional[str], wanted: str, action: str) -> List[Finding]:
    if seen is None:
        return [unknown(NAME, "unreadable", f"the kernel does not tell it; expected {wanted}", locator)]
    if seen.split() == wanted.split():
        return []
    return [Finding(NAME, "fail", symptom, locator, f"{' '.join(seen.split())}, expected {wanted}", action)]


def last_owner(files: Mapping[str, str], key: str) -> str:
    """The file of those for sysctl that sets this key last; empty when none does."""
    by_name: Dict[str, Tuple[str, str]] = {}
    for folder in reversed(FOLDERS):
        for path, text in files.items():
            if path.rpartition("/")[0] == folder:
                by_name[path.rpartition("/")[2]] = (path, text)
    ordered = [by_name[name] for name in sorted(by_name)]
    if "/etc/sysctl.conf" in files and "99-sysctl.conf" not in by_name:  # procps reads it last
        ordered.append(("/etc/sysctl.conf", files["/etc/sysctl.conf"]))
    owner, target = "", sysctl_path(key)
    for path, text in ordered:
        for line in text.splitlines():
            name = line.partition("=")[0].strip().lstrip("-").strip()
            if _KEY.match(name) and sysctl_path(name) == target:
                owner = path
    return owner


def _judge_limits(manager: Output, profile: Profile) -> List[Finding]:
    wanted: Dict[str, Any] = profile.tuning.get("limits") or {}
    if not wanted:
        return []
    if manager.problem or manager.code:
        return not_known(NAME, manager, "systemctl show")
    seen = dict(line.partition("=")[::2] for line in manager.text.splitlines())
    findings: List[Finding] = []
    for name, value in wanted.items():
        key = f"DefaultLimit{name.upper()}"
        expected = "infinity" if value == "unlimited" else str(value)
        findings += _judge_value("limits.value", key, seen.get(key), expected, "retry")
    return findings


def _judge_cleaning(timer: Output) -> List[Finding]:
    if timer.problem or timer.code:
        return not_known(NAME, timer, f"systemctl show {CLEANER}")
    seen = dict(line.partition("=")[::2] for line in timer.text.splitlines())
    if seen.get("ActiveState") == "active":
        return []
    evidence = f"{seen.get('LoadState', '?')}, {seen.get('ActiveState', '?')}; /tmp and /var/tmp are not cleaned"
    return [Finding(NAME, "fail", "tmp.not_cleaned", CLEANER, evidence, "retry")]


CHECKS = [
    Check(
        NAME,
        "quick",
        reads,
        judge,
        needs=tuple(f"tuning.{k}" for k in ("hugepages", "transparent_hugepages", "numa_balancing", "swap", "sysctl")),
    )
]
