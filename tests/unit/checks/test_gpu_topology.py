"""The check gpu_topology: what it must say about good and bad captured outputs."""

from __future__ import annotations

import nvlink_cases as cases
import pytest
from gpu_health_cases import Row
from hypothesis import given, settings
from hypothesis import strategies as st
from test_gpu import judged, rows

from firstlight.checks.gpu_topology import parse_matrix


@pytest.mark.parametrize("row", rows("gpu_topology"))
def test_judge(row: Row) -> None:
    judged(row)


def test_the_matrix_of_eight() -> None:
    rows = parse_matrix(cases.fixture(cases.TOPOLOGY_8))

    assert rows is not None
    assert [row.name for row in rows] == [f"GPU{n}" for n in range(8)]
    assert rows[0].gpus == {f"GPU{n}": "NV18" for n in range(1, 8)}
    assert len(rows[0].nics) == 10
    assert [rows[0].nics[f"NIC{n}"] for n in (0, 2, 3, 4, 6)] == ["NODE", "PIX", "PXB", "NODE", "SYS"]
    assert [row.numa for row in rows] == ["0"] * 4 + ["1"] * 4


def test_the_matrix_of_an_older_driver() -> None:
    rows = parse_matrix(cases.fixture("topo-m.2x-pcie.txt"))

    assert rows is not None
    assert [(row.gpus, row.nics, row.numa) for row in rows] == [
        ({"GPU1": "SYS"}, {"mlx5_0": "NODE"}, "0"),
        ({"GPU0": "SYS"}, {"mlx5_0": "SYS"}, "1"),
    ]


def test_the_matrix_of_peers_is_none() -> None:
    assert parse_matrix(" \t\x1b[4mGPU0\tGPU1\t\x1b[0m\n GPU0\tX\tOK\t\n GPU1\tOK\tX\t\n") is None


@pytest.mark.parametrize(
    "text",
    [
        "\tGPU0" + "".join(f"\tGPU{n}" for n in range(1, 600)) + "\n",
        "\tGPU0\n" + "GPU0\t X \n" * 2,
    ],
    ids=["columns", "rows"],
)
def test_no_host_has_such_a_matrix(text: str) -> None:
    assert parse_matrix(text) is None


def test_evidence_says_what_is_where() -> None:
    by_name = {row[1]: judged(row)[0].evidence for row in cases.TOPOLOGY}

    assert by_name["as built"] == "8 GPUs, between them NV18; nearest NIC PIX; NUMA 0 0 0 0 1 1 1 1"
    assert by_name["fewer links"] == "NV18 expected; NV16 to GPU0"
    assert by_name["a NIC behind another switch"].startswith("no NIC at PIX or nearer: NIC0 NODE, ")
    assert by_name["another NUMA node"] == "NUMA node 1, 0 expected"


@settings(deadline=None)
@given(
    st.lists(
        st.lists(st.sampled_from(["", "GPU0", "GPU1", "NIC0", " X ", "NV1", "PIX", "NUMA Affinity", "0"])), max_size=5
    )
)
def test_any_table_is_a_matrix_or_none(lines: list[list[str]]) -> None:
    rows = parse_matrix("\n".join("\t".join(cells) for cells in [["", "GPU0", "GPU1", "NIC0"], *lines]))

    assert rows is None or [row.name for row in rows] == ["GPU0", "GPU1"]
