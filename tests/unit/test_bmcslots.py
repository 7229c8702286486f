"""The BMC's slot of a GPU by its serial number: what a host and a BMC tell, good and bad."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight.bmc.hardware import Gpu, Hardware, Record
from firstlight.findings import Finding
from firstlight.health.bmcslots import gpu_slots, placed

LOST = Finding("gpu_count", "fail", "gpu.lost", "GPU 0000:1b:00.0", "GPU is lost", "power_cycle")
ONE = {"0000:1b:00": {"serial": "1653922000123", "slot": "Video.Slot.25-1"}}


def record(*gpus: tuple[str, Any]) -> dict[str, Any]:
    hardware = Hardware(gpus=[Gpu(slot, serial=serial) for slot, serial in gpus])
    return Record("n1", "ok", "", "2026-11-30T08:00:00+00:00", 1.0, hardware=hardware).to_dict()


BMC = record(("Video.Slot.25-1", "1653922000123"), ("Video.Slot.26-1", "1653922000124"))


@pytest.mark.parametrize(
    ("told", "bmc", "before", "known"),
    [
        ({"0000:1b:00": "1653922000123"}, BMC, None, ONE),
        ({"0000:1b:00": "1653922000999"}, BMC, ONE, {}),  # another GPU is there now
        ({"0000:1c:00": "1653922000123"}, BMC, ONE, {"0000:1c:00": ONE["0000:1b:00"]}),  # it is elsewhere now
        ({}, BMC, ONE, ONE),
        ({}, record(("Video.Slot.26-1", "1653922000123")), ONE, {}),
        ({"0000:1b:00": "1653922000123"}, record(("a", "1653922000123"), ("b", "1653922000123")), None, {}),
        ({"0000:1b:00": "1653922000123"}, record(("Slot 1; rm", "1653922000123")), None, {}),
        ({"0000:1b:00": "00000000"}, record(("Video.Slot.25-1", "00000000")), None, {}),
        ({"0000:1b:00": ""}, record(("Video.Slot.25-1", "")), None, {}),
        ({"0000:1b:00": "1653922000123"}, None, ONE, {}),
        (["x"], BMC, ["y"], {}),
        ({}, BMC, {"0000:1b:00": "x", "y": {"serial": 7}}, {}),
    ],
)
def test_what_is_known(told: Any, bmc: Any, before: Any, known: Any) -> None:
    assert gpu_slots(told, bmc, before) == known


ANY = st.recursive(
    st.none() | st.text(max_size=9) | st.integers() | st.sampled_from(["0000:1b:00", "serial", "slot", "165392"]),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.sampled_from(["0000:1b:00", "serial", "gpus", "id"]), v),
    max_leaves=9,
)


@given(ANY, ANY, ANY)
def test_whatever_is_told_nothing_raises(told: Any, hardware: Any, before: Any) -> None:
    for gpus in (hardware, {"gpus": hardware}, {"gpus": [hardware]}):
        for slot in gpu_slots(told, {"hardware": gpus}, before).values():
            assert set(slot) == {"serial", "slot"}


def test_only_what_is_wrong_with_that_gpu_is_told_where_it_sits() -> None:
    others = [
        Finding("gpu_count", "ok", "gpu_count", "GPU 0000:1b:00.0", "well"),
        Finding("gpu_count", "fail", "gpu.lost", "GPU 0000:43:00.0", "GPU is lost"),
        Finding("gpu_count", "fail", "gpu.missing", "1 of 8 GPUs", "7"),
    ]
    first, *rest = placed([LOST, *others], ONE)
    assert (first.evidence, first.locator) == ("GPU is lost; sits in Video.Slot.25-1", LOST.locator)
    assert rest == others
