"""Memory size, where the profile states one (``limits.memory_min_bytes``)."""

from __future__ import annotations

import json
import re
from typing import Dict, List

from ..findings import Finding
from ..profile import Profile
from .capture import Source, read_files
from .engine import Captured, Check, Expect, not_known, ok, unreadable

NAME = "memory_size"


def reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    return {"meminfo": read_files("/proc/meminfo")} if profile.limit("memory_min_bytes", 0) > 0 else {}


def judge(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    output = captured["meminfo"]
    if output.problem or output.code:
        return not_known(NAME, output, "/proc/meminfo")
    try:
        text = str(json.loads(output.text)["files"]["/proc/meminfo"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return unreadable(NAME, output.text, "/proc/meminfo")
    found = re.search(r"^MemTotal:\s*([0-9]{1,15}) kB", text, re.MULTILINE)
    if not found:
        return unreadable(NAME, text, "/proc/meminfo")
    total, least = int(found.group(1)) * 1024, profile.limit("memory_min_bytes", 0)
    if total < least:
        evidence = f"{total} bytes, expected {least:.0f} or more"
        return [Finding(NAME, "fail", "memory.missing", "", evidence, "reseat")]
    return ok(NAME, f"{total} bytes")


CHECKS = [Check(NAME, "quick", reads, judge, needs=("limits.memory_min_bytes",))]
