"""The check gpu_memory: what it must say about good and bad captured outputs."""

from __future__ import annotations

import gpu_health_cases as cases
import pytest
from gpu_health_cases import Row
from test_gpu import judged, rows


@pytest.mark.parametrize("row", rows("gpu_memory"))
def test_judge(row: Row) -> None:
    judged(row)


def test_evidence_says_what_and_how_many() -> None:
    by_name = {row[1]: judged(row) for row in cases.MEMORY}

    assert by_name["DRAM, since boot"][0].evidence == "1 uncorrected errors since the last reset"
    assert by_name["in its life"][0].evidence == "4 uncorrected errors in its life (sram_l2 4)"
    assert by_name["60 pages"][0].evidence == "60 pages are retired, 60 are the limit"
    assert by_name["ECC off until a reset"][0].evidence == "ECC is off; it is on after a reset"
    assert "remapped_row_pending Perhaps" in by_name["a flag that is none"][0].evidence


def test_what_is_not_told_is_said_once_for_a_gpu() -> None:
    values: dict[str, str | None] = {"ecc_mode/current_ecc": "ERR!", "ecc_errors": None, "remapped_rows": None}
    row = cases._memory("all at once", values, cases.lost("gpu_memory", "unreadable", place="0000:1b:00.0"))

    (finding,) = judged(row)

    assert finding.evidence.startswith("not told: ECC mode ERR!, uncorrected DRAM errors since the last reset, ")


def test_every_bad_gpu_is_named() -> None:
    bad: dict[str, str | None] = {"remapped_rows/remapped_row_failure": "Yes"}
    want = [("fail", "gpu.rows_failed", "GPU 0000:", "replace")] * 8
    findings = judged(cases._log("gpu_memory", "all eight", cases.smi(cases.every(bad)), want))

    assert len({finding.locator for finding in findings}) == 8
