"""The check gpu_running: what it must say about good and bad captured outputs."""

from __future__ import annotations

import gpu_health_cases as cases
import pytest
from gpu_health_cases import Row
from test_gpu import judged, rows

from firstlight.checks.gpu_running import wanted


@pytest.mark.parametrize("row", rows("gpu_running"))
def test_judge(row: Row) -> None:
    judged(row)


def test_evidence_says_who_and_why() -> None:
    by_name = {row[1]: judged(row)[0].evidence for row in cases.RUNNING}

    assert by_name["a process"] == "10309 ./gpu_burn 28234 MiB"
    assert by_name["memory in use, nobody seen"] == (
        "32362 MiB of its memory are in use, limit 1024, and no process is seen"
    )
    assert by_name["hot, clocks halved"] == "hw_thermal_slowdown: too hot, clocks halved or less"
    assert by_name["power limit not the profile's"] == "power limit 500 W, the profile wants 700 W"
    assert by_name["at its limit"] == "87 C: 0 C below its slowdown"


@pytest.mark.parametrize(
    ("name", "patterns", "is_wanted"),
    [
        ("/usr/bin/nv-hostengine -n", ["nv-hostengine"], True),
        ("/usr/bin/nv-hostengine", ["/usr/bin/*"], True),
        ("python3", ["python"], False),
        ("/opt/nv-hostengine/evil", ["nv-hostengine"], False),
        ("python3", [], False),
        ("python3", None, False),
        ("python3", "python3", False),
        ("python3", {"python3": 1}, False),
    ],
)
def test_which_processes_are_wanted(name: str, patterns: object, is_wanted: bool) -> None:
    assert wanted(name, patterns) is is_wanted


def test_many_processes_are_counted() -> None:
    info = "<process_info><pid>{0}</pid><process_name>p{0}</process_name></process_info>"
    many = "".join(info.format(n) for n in range(9))
    output = cases.Output(cases.fixture("smi-q.8x-h100.xml").replace("<processes>\n", f"<processes>{many}\n", 1))

    (finding,) = judged(
        cases._log("gpu_running", "nine", output, [("fail", "gpu.process", "0000:1b:00.0", "escalate")])
    )

    assert finding.evidence == "0 p0; 1 p1; 2 p2; 3 p3; 4 p4; and 4 more"
