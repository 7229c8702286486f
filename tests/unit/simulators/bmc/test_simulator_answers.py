"""Encoded answers are kept as long as they are true; faults of the answer itself; what event logs say of faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simulators.bmc import answers, errors, faults, parts, personality, wire
from simulators.bmc.machine import Machine
from simulators.bmc.tree import SYSTEM

PROCESSORS = f"{SYSTEM}/Processors"
EXPAND = "$expand=*($levels=1)"
MANAGER = "/redfish/v1/Managers/iDRAC.Embedded.1"


def machine(folder: Path, index: int = 1, **entry: Any) -> Machine:
    one = {"name": f"n{index}", "index": index, "service_tag": f"T{index:04d}", "bmc_address": "127.0.0.1"} | entry
    return Machine(folder, {"bmc": {}, "machines": [one]}, one)


@pytest.fixture
def one(tmp_path: Path) -> Machine:
    return machine(tmp_path)


def gpus(content: bytes) -> int:
    return sum(m.get("ProcessorType") == "GPU" for m in json.loads(content)["Members"])


def test_an_answer_is_built_once_and_again_after_a_change(one: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    kind = personality.of(one)

    def counted(*arguments: Any) -> dict[str, Any]:
        built.append(arguments)
        return kind.answer(*arguments)

    monkeypatch.setitem(personality.PERSONALITIES, one.vendor, personality.Personality(counted, kind.act))
    kept = answers.Answers()
    first = kept.get(one, PROCESSORS, EXPAND)
    assert kept.get(one, PROCESSORS, EXPAND) is not first
    assert kept.get(one, PROCESSORS, EXPAND) == first
    assert len(built) == 1
    assert gpus(first[0]) == 8
    one.faults["gpu_missing"] = {"gpu": 0}
    one.changed()
    assert gpus(kept.get(one, PROCESSORS, EXPAND)[0]) == 7
    assert len(built) == 2


def test_two_machines_never_share_an_answer(tmp_path: Path) -> None:
    kept = answers.Answers()
    found = [json.loads(kept.get(machine(tmp_path, n), SYSTEM, "")[0])["SKU"] for n in (1, 2, 3)]
    assert found == ["T0001", "T0002", "T0003"]


def test_clocks_and_logs_are_never_old(one: Machine) -> None:
    kept = answers.Answers()
    one.faults["clock_wrong"] = {"seconds": 0}
    before = json.loads(kept.get(one, MANAGER, "")[0])["DateTime"]
    one.faults["clock_wrong"] = {"seconds": 7200}  # time passes without a change of the machine
    assert json.loads(kept.get(one, MANAGER, "")[0])["DateTime"] != before
    listed = json.loads(kept.get(one, "/redfish/v1/Managers", EXPAND)[0])["Members"][0]["DateTime"]
    assert listed[:13] != before[:13]
    log = f"{MANAGER}/LogServices/Lclog/Entries"
    entries = json.loads(kept.get(one, log, "")[0])["Members@odata.count"]
    one.record("TST0001", "Something happened.")
    assert json.loads(kept.get(one, log, "")[0])["Members@odata.count"] == entries + 1


def test_the_oldest_answers_go_when_there_are_too_many(one: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MAX_BYTES", 30_000)
    kept = answers.Answers()
    for slot in range(1, 17):
        kept.get(one, f"{SYSTEM}/Memory/DIMM.Socket.A{slot}", "")
        kept.get(one, PROCESSORS, EXPAND)
    assert 0 < kept._bytes <= 30_000
    assert kept._bytes == sum(len(entry[1]) for entry in kept._known.values())


def test_what_is_not_there_is_not_kept_either(one: Machine) -> None:
    kept = answers.Answers()
    for _ in range(2):
        with pytest.raises(errors.RedfishError):
            kept.get(one, f"{SYSTEM}/Nothing", "")


@pytest.mark.parametrize("vendor", list(personality.PERSONALITIES))
def test_lists_of_parts_follow_the_faults_at_once(tmp_path: Path, vendor: str) -> None:
    first, second = machine(tmp_path, 1, vendor=vendor), machine(tmp_path, 2, vendor=vendor)
    assert (len(parts.gpus(first)), len(parts.gpus(second))) == (8, 8)
    first.faults = faults.from_lab(["gpu_missing", "hca_missing", "nvme_missing", "dimm_missing", "nic_missing"])
    first.changed()
    sizes = [len(make(first)) for make in (parts.gpus, parts.hcas, parts.drives, parts.dimms, parts.nics)]
    assert sizes == [7, 7, 7, 31, 1]
    assert len(parts.gpus(second)) == 8


def test_a_struck_answer_is_the_same_each_time_and_another_on_another_machine(tmp_path: Path) -> None:
    first, second = machine(tmp_path, 1), machine(tmp_path, 2)
    paths = [f"{SYSTEM}/Memory/DIMM.Socket.{bank}{n}" for bank in "AB" for n in range(1, 17)]
    struck = []
    for one in (first, second):
        one.faults = faults.from_lab([{"name": "truncated_json", "percent": 30}])
        struck.append([path for path in paths if wire.strikes(one, "truncated_json", path)])
        assert struck[-1] == [path for path in paths if wire.strikes(one, "truncated_json", path)]
        assert 2 <= len(struck[-1]) <= 20
    assert struck[0] != struck[1]


def test_events_name_the_part(one: Machine) -> None:
    one.begin("psu_unplugged", {"psu": 4})
    one.begin("gpu_failed", {"gpu": 2})
    one.begin("dimm_failed", {"dimm": 17})
    one.begin("gpu_missing", {"gpu": 2})  # a BMC has nothing to say of what it does not see
    assert [entry["message"] for entry in one.log] == [
        "The power input for power supply 4 is lost.",
        "A fatal error was detected on the GPU in slot 23.",
        "Multi-bit memory errors detected on a memory device at location DIMM_B1.",
    ]
    for name in faults.EVENTS:
        assert "{" not in faults.event_text(name, faults.parameters(name, None))[0]
