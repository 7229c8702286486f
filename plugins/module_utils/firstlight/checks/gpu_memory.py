"""GPU memory: ECC on, errors since boot and ever, remapped rows, retired pages, and what the GPU itself asks for.

Reads ``nvidia-smi -q -x``. What a reset mends is ``reboot``: rows and pages are exchanged, memory repaired, when the
GPU starts anew. Errors of the past that rows were remapped for (``aggregate``) are ``warn``.
``gpus.ecc: false`` in the profile: the model has no ECC. With MIG on a GPU may not tell its rows: ``warn``.

What must be told, so that its absence is ``unknown``: what the other GPUs of the host tell; of the rows, or of the
pages, all or nothing; and by driver and generation what is known to be there (``_TOLD_SINCE``).
"""

from __future__ import annotations

import re
from typing import Any, Dict, FrozenSet, List, Optional, Tuple

from ..findings import Finding
from ..profile import Profile
from .capture import Source
from .compared import LOAD, per_day, told, uptime
from .engine import Captured, Check, Expect, unknown
from .gpu import QUERY, conclude, expected, read_log
from .gpu_log import Gpu

NAME = "gpu_memory"

# any one of these groups tells all. By generation: v12/v13 (parity and SEC-DED apart since 535), v10 and before
# (double_bit, both in one)
_UNCORRECTED = {
    "DRAM": (("dram_uncorrectable",), ("double_bit/total",)),
    "SRAM": (
        ("sram_uncorrectable",),
        ("sram_uncorrectable_parity", "sram_uncorrectable_secded"),
        ("double_bit/total",),
    ),
}
_COUNTED = tuple(dict.fromkeys(name for groups in _UNCORRECTED.values() for names in groups for name in names))
_PERIODS = {"volatile": "since the last reset", "aggregate": "in its life"}
_CORRECTED = ("sram_correctable", "dram_correctable", "single_bit/total")
_SOURCES = "ecc_errors/aggregate_uncorrectable_sram_sources/"
PAGES_REPLACE = 60  # NVIDIA exchanges a GPU with so many retired pages; at 64 it can retire no more

# tag: what Yes means
_FLAGS: Tuple[Tuple[Tuple[str, ...], str, str, str], ...] = (
    (
        ("ecc_errors/aggregate/sram_threshold_exceeded",),
        "gpu.sram_errors",
        "SRAM errors exceed the threshold for a replacement",
        "replace",
    ),
    (("ecc_errors/unrepairable_memory",), "gpu.memory_unrepairable", "memory that cannot be repaired", "replace"),
    (("ecc_errors/channel_repair_pending",), "gpu.repair_pending", "a memory channel is repaired at a reset", "reboot"),
    (("ecc_errors/tpc_repair_pending",), "gpu.repair_pending", "a TPC is repaired at a reset", "reboot"),
    (("remapped_rows/remapped_row_failure",), "gpu.rows_failed", "a row could not be remapped", "replace"),
    (("remapped_rows/remapped_row_pending",), "gpu.rows_pending", "rows are remapped at a reset", "reboot"),
    (
        ("retired_pages/pending_retirement", "retired_pages/pending_blacklist"),
        "gpu.pages_pending",
        "pages are retired at a reset",
        "reboot",
    ),
    (("gpu_reset_status/reset_required",), "gpu.recovery", "the GPU asks for a reset", "reboot"),
    (("gpu_reset_status/drain_and_reset_recommended",), "gpu.recovery", "the GPU asks for a reset", "reboot"),
)
_SPENT = "remapped_rows/row_remapper_histogram/row_remapper_histogram_none"
_ALL_OR_NOTHING = {
    "remapped rows": tuple((f"remapped_rows/remapped_row_{name}",) for name in ("corr", "unc", "pending", "failure")),
    "retired pages": (
        ("retired_pages/multiple_single_bit_retirement/retired_count",),
        ("retired_pages/double_bit_retirement/retired_count",),
        ("retired_pages/pending_retirement", "retired_pages/pending_blacklist"),
    ),
}
_TOLD_ALIKE = (*(paths for paths, *_ in _FLAGS), ("gpu_recovery_action", _SPENT))
# what gpu_recovery_action asks for; no reset of one GPU is safe for its neighbours, so all are a reboot
_RECOVERY = {"reset": "reboot", "reboot": "reboot", "drain p2p": "reboot", "drain and reset": "reboot"}
# the driver from which on a GPU of Hopper or later tells of it
_TOLD_SINCE = {
    "ecc_errors/aggregate/sram_threshold_exceeded": 580,
    "ecc_errors/unrepairable_memory": 580,
    "ecc_errors/channel_repair_pending": 580,
    "ecc_errors/tpc_repair_pending": 580,
}
_RECOVERY_SINCE = 575  # from then on every GPU tells gpu_recovery_action, as captures from Turing to Hopper have it
_RESET_SINCE = 535  # from then on one of Ampere or later tells at least gpu_reset_status


def reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    return {"nvidia_smi": QUERY, "load": LOAD} if expected(profile) else {}


def judge(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    output = captured["nvidia_smi"]
    log, findings = read_log(NAME, output)
    if log is None:
        return findings
    told = frozenset(path for paths in _TOLD_ALIKE for path in paths if any(gpu.get(path) for gpu in log.gpus))
    for gpu in log.gpus:
        findings += _Judged(gpu, profile, told).findings
    return conclude(NAME, output, findings, f"{len(log.gpus)} GPUs: ECC on, no uncorrected error, nothing pending")


class _Judged:
    """The findings about one GPU; what it says in no known form is gathered into one ``unknown``.

    told: what any GPU of this host tells.
    """

    def __init__(self, gpu: Gpu, profile: Profile, told: FrozenSet[str]) -> None:
        self.gpu, self.profile, self.told = gpu, profile, told
        self.findings: List[Finding] = []
        self.odd: List[str] = []
        self.counts = profile.gpus.get("ecc") is not False and self._mode()
        if self.counts:
            self._errors()
            self._exchanged()
        for paths, symptom, meaning, action in _FLAGS:
            if self._flag(*paths):
                self._add("fail", symptom, f"{meaning} ({paths[0].rpartition('/')[2]}: Yes)", action)
        self._recovery()
        if self.odd:
            self.findings.append(unknown(NAME, "unreadable", "not told: " + ", ".join(self.odd), gpu.locator))

    def _add(self, status: str, symptom: str, evidence: str, action: str = "none") -> None:
        self.findings.append(Finding(NAME, status, symptom, self.gpu.locator, evidence, action))

    def _mode(self) -> bool:
        """False when ECC is off: then there are no counters either."""
        now, next_boot = self.gpu.get("ecc_mode/current_ecc"), self.gpu.get("ecc_mode/pending_ecc")
        if now == "Disabled":
            later = next_boot == "Enabled"
            todo = "it is on after a reset" if later else "nvidia-smi -e 1, then reboot"
            self._add("fail", "gpu.ecc_off", f"ECC is off; {todo}", "reboot" if later else "escalate")
        elif now != "Enabled":
            self.odd.append(f"ECC mode {now or 'N/A'}")
        elif next_boot == "Disabled":
            self._add("warn", "gpu.ecc_pending", "ECC is on, and will be off after the next reset", "escalate")
        elif next_boot != "Enabled":
            self.odd.append(f"ECC mode after the next reset {next_boot or 'N/A'}")
        return now != "Disabled"

    def _errors(self) -> None:
        for period, since in _PERIODS.items():
            for place, groups in _UNCORRECTED.items():
                if not any(all(self.gpu.get(f"ecc_errors/{period}/{name}") for name in names) for names in groups):
                    self.odd.append(f"uncorrected {place} errors {since}")
        now, ever = (self._sum(period, _COUNTED) for period in ("volatile", "aggregate"))
        if now:
            self._add("fail", "gpu.ecc_errors", f"{now} uncorrected errors since the last reset", "reboot")
        if ever > now:
            places = [
                f"{name} {value}"
                for name in ("sram_l2", "sram_sm", "sram_microcontroller", "sram_pcie", "sram_other")
                for value in [self.gpu.get(_SOURCES + name)]
                if value not in ("", "0")
            ]
            where = f" ({', '.join(places)})" if places else ""
            self._add("warn", "gpu.ecc_history", f"{ever} uncorrected errors in its life{where}")
        corrected = self._sum("volatile", _CORRECTED)
        most = self.profile.limits.get("gpu_corrected_errors")
        if most is not None and not any(self.gpu.get(f"ecc_errors/volatile/{name}") for name in _CORRECTED):
            self.odd.append("corrected errors since the last reset")
        if most is not None and corrected > most:
            evidence = f"{corrected} corrected errors since the last reset, limit {most:g}"
            self._add("warn", "gpu.ecc_corrected", evidence)

    def _sum(self, period: str, names: Tuple[str, ...]) -> int:
        """The sum of these counters, as far as they are told."""
        return sum(self._count(f"ecc_errors/{period}/{name}") or 0 for name in names)

    def _count(self, path: str) -> Optional[int]:
        value = self.gpu.get(path)
        if value and not re.match(r"^[0-9]{1,19}$", value):
            self.odd.append(f"{path} {value[:40]}")
            return None
        return int(value) if value else None

    def _exchanged(self) -> None:
        """Rows that were remapped (Ampere and later), or pages that were retired (before)."""
        rows = [self._count(f"remapped_rows/remapped_row_{kind}") for kind in ("corr", "unc")]
        pages = [
            self._count(f"retired_pages/{kind}/retired_count")
            for kind in ("multiple_single_bit_retirement", "double_bit_retirement")
        ]
        if all(count is None for count in rows + pages):
            if self.gpu.get("mig_mode/current_mig") == "Enabled":
                self._add("warn", "gpu.rows_not_told", "MIG is on, and the GPU tells of no remapped row")
            else:
                self.odd.append("remapped rows, retired pages")
        for kind, paths in _ALL_OR_NOTHING.items():
            silent = [" or ".join(path.rpartition("/")[2] for path in one) for one in paths if not self.gpu.get(*one)]
            if silent and len(silent) < len(paths):
                self.odd.append(f"{kind}: {', '.join(silent)}")
        if rows[1]:
            self._add("warn", "gpu.rows_remapped", f"{rows[1]} rows were remapped after uncorrected errors")
        spent = self.gpu.number(_SPENT)
        if spent is None and (self.gpu.get(_SPENT) or (_SPENT in self.told and not self._hides(_SPENT))):
            self.odd.append(f"banks without spare rows {self.gpu.get(_SPENT)[:40] or 'N/A'}")
        if spent:
            self._add("warn", "gpu.rows_used_up", f"{spent:g} banks have no spare row left")
        retired = sum(count or 0 for count in pages)
        if retired >= PAGES_REPLACE:
            self._add(
                "fail", "gpu.pages_retired", f"{retired} pages are retired, {PAGES_REPLACE} are the limit", "replace"
            )
        elif retired:
            self._add("warn", "gpu.pages_retired", f"{retired} pages are retired")

    def _hides(self, path: str) -> bool:
        """Whether the GPU cannot tell this: anything of its memory without ECC, its remapped rows with MIG."""
        if path.startswith(("ecc_errors/", "remapped_rows/", "retired_pages/")) and not self.counts:
            return True
        if self.gpu.get("mig_mode/current_mig") != "Enabled" or not path.startswith("remapped_rows/"):
            return False
        return not any(self.gpu.get(*paths) for paths in _ALL_OR_NOTHING["remapped rows"])

    def _flag(self, *paths: str) -> bool:
        value = self.gpu.get(*paths)
        since = _TOLD_SINCE.get(paths[0]) if self.gpu.from_hopper else None
        must = self.told.intersection(paths) or (since is not None and (self.gpu.driver or since) >= since)
        if value not in ("Yes", "No") and (value or (must and not self._hides(paths[0]))):
            self.odd.append(f"{paths[0]} {value[:40] or 'N/A'}")
        return value == "Yes"

    def _recovery(self) -> None:
        asked, driver = self.gpu.get("gpu_recovery_action"), self.gpu.driver or _RECOVERY_SINCE
        must = "gpu_recovery_action" in self.told or driver >= _RECOVERY_SINCE
        if driver >= _RESET_SINCE and (self.gpu.from_hopper or self.gpu.get("product_architecture") == "Ampere"):
            must = must or not self.gpu.get("gpu_reset_status/reset_required")
        if must and not asked:
            self.odd.append("what it asks for (gpu_recovery_action)")
        if asked and asked != "None":
            action = _RECOVERY.get(asked.lower(), "escalate")
            self._add("fail", "gpu.recovery", f"GPU recovery action: {asked}", action)


def values(captured: Captured, profile: Profile) -> Dict[str, Any]:
    """Corrected errors of all GPUs since the driver was loaded, which is since boot at most."""
    log, _ = read_log(NAME, captured["nvidia_smi"])
    counts = [gpu.number(f"ecc_errors/volatile/{name}") for gpu in (log.gpus if log else ()) for name in _CORRECTED]
    known = [count for count in counts if count is not None]
    rate = per_day(sum(known), uptime(captured.get("load"))) if known else None
    return told({"gpu.corrected_errors_per_day": rate})


CHECKS = [
    Check(
        NAME,
        "quick",
        reads,
        judge,
        needs=("gpus.count", "gpus.ecc", "limits.gpu_corrected_errors"),
        values=values,
    )
]
