"""What a run of the checks remembers for the next. Pure, but for ``boot_here``.

A memory is a mapping, ready for JSON: by key of expect what was kept, as
``{"hca_counters": {"time": 1772352000.5, "boot": "9f0c...", "value": {...}}}``. time: when that run began, in seconds
since 1970 by the host's clock; boot: which boot of the host it was in. Of ``kernel_log`` the time alone matters: that
of a run whose verdict was clean. It is of one host, and nothing but its checks writes it.

What is remembered is moved on slowly. A reading is replaced only when its check found nothing to fail for: else a
failing link would be forgotten at the next run. And not within the hour: else what grows slowly would never be seen.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, Mapping, Optional

from ..checks import ALL_CHECKS, Result
from ..checks.kernel_log import CHECKS as KERNEL_CHECKS
from ..checks.kernel_log_site import KEY as KERNEL_LOG
from ..findings import shorten

BYTES_MAX = 64 * 1024  # of a memory, as JSON
AT_LEAST = 3600.0  # seconds that a reading is old before it is replaced
# the kernel counts its log's times by a clock that nothing corrects, off by minutes after weeks; what is looked at
# twice is not judged otherwise the second time
MARGIN = 600.0
_BOOT_MAX = 64
# by key: the checks whose fail keeps the earlier reading
_KEEPERS = {key: check.name for check in ALL_CHECKS for key in check.keeps}
_OF_KERNEL = frozenset(check.name for check in KERNEL_CHECKS)

Memory = Dict[str, Dict[str, Any]]


def boot_here() -> str:
    """Which boot of this host it is; empty where that is not told."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii", "replace").strip()[:_BOOT_MAX]
    except OSError:
        return ""


def read(data: Any) -> Memory:
    """A memory from what came from elsewhere; ValueError says in one line why it is none.

    What is remembered under a key that no check of this version reads is left out.
    """
    if not isinstance(data, dict):
        raise ValueError(f"must be a mapping, not {type(data).__name__}")
    try:
        text = json.dumps(data, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise ValueError("is not of what JSON has, or nested too deep") from None
    if len(text) > BYTES_MAX:
        raise ValueError(f"has more than {BYTES_MAX} characters")
    memory: Memory = json.loads(text)
    for key, entry in memory.items():
        where = shorten(key, 40)
        if not isinstance(entry, dict) or set(entry) != {"time", "boot", "value"}:
            raise ValueError(f"{where}: must have time, boot and value")
        if not _is_time(entry["time"]):
            raise ValueError(f"{where}.time: must be seconds since 1970")
        if not isinstance(entry["boot"], str) or len(entry["boot"]) > _BOOT_MAX:
            raise ValueError(f"{where}.boot: must be a text of at most {_BOOT_MAX} characters")
        if not isinstance(entry["value"], dict):
            raise ValueError(f"{where}.value: must be a mapping, not {type(entry['value']).__name__}")
    return {key: entry for key, entry in memory.items() if key in _KEEPERS or key == KERNEL_LOG}


def _is_time(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e11


def known(expect: Mapping[str, Any], memory: Memory, now: float, boot: str) -> Dict[str, Any]:
    """expect with what is remembered; what the site says itself goes before it.

    now: the host's clock. Nothing counts that is of later, since the clock was wrong then or is now; and no counter of
    another boot.
    """
    together = dict(expect)
    for key, entry in memory.items():
        if entry["time"] > now:
            continue
        if key == KERNEL_LOG:
            site = expect.get(KERNEL_LOG) or {}
            if site.get("since") in (None, ""):
                together[KERNEL_LOG] = {**site, "since": max(0.0, entry["time"] - MARGIN)}
        elif expect.get(key) is None and boot and entry["boot"] == boot:
            together[key] = entry["value"]
    return together


def after(memory: Memory, result: Result, boot: str, whole: bool = True) -> Memory:
    """What to remember after this run. whole: all checks of a tier ran; a run of some leaves it as it is."""
    if not whole:
        return memory
    fresh = {key: {"time": result.time, "boot": boot, "value": value} for key, value in result.kept.items()}
    failed = {finding.check for finding in result.findings if finding.status == "fail"}
    wanted = {key for key in fresh if _KEEPERS.get(key) not in failed}
    if result.verdict.ready and _kernel_log_was_read(result):
        fresh[KERNEL_LOG] = {"time": result.time, "boot": boot, "value": {}}
        wanted.add(KERNEL_LOG)
    return {**memory, **{key: fresh[key] for key in wanted if _is_due(memory.get(key), result.time, boot)}}


def _is_due(entry: Optional[Dict[str, Any]], now: float, boot: str) -> bool:
    return entry is None or entry["boot"] != boot or not 0 <= now - entry["time"] < AT_LEAST


def _kernel_log_was_read(result: Result) -> bool:
    """Whether its checks saw it: one that was switched off or could not read has left out what is in there."""
    mine = [finding for finding in result.findings if finding.check in _OF_KERNEL]
    blind = [f for f in mine if f.symptom == f"{f.check}.skipped" or f.evidence.startswith("unknown: ")]
    return bool(mine) and not blind
