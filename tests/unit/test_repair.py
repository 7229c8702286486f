"""Which parts were replaced, what that asks for, and what a ticket was not given."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from firstlight.findings import Finding
from firstlight.policy.causes import Cause
from firstlight.repair import Change, burn_in_level, compare, merged, not_replaced, ordered, parts_of
from firstlight.tickets.model import CLOSED, Place, Ticket

OPENED = "2026-03-02T10:00:00+00:00"
GPUS = {"Video.Slot.21-1": "A1", "Video.Slot.22-1": "A2", "Video.Slot.23-1": "A3"}


def hardware(**more: Any) -> dict[str, Any]:
    told: dict[str, Any] = {
        "board_serial": "B0",
        "gpus": [{"id": place, "serial": serial} for place, serial in GPUS.items()],
        "drives": [{"id": "Disk.Bay.0", "serial": "D0"}],
        "psus": [{"id": "PSU.Slot.1", "serial": "P1"}],
        "dimms": [{"id": "DIMM.Socket.A1", "serial": "M1"}],
        "nics": [
            {"id": "NIC.Embedded.1-1-1", "mac": "02:00:00:00:00:01", "kind": "ethernet"},
            {"id": "InfiniBand.Slot.31-1", "mac": "02:00:00:00:01:01", "kind": "infiniband"},
        ],
    }
    return {**told, **more}


def with_gpus(**serials: str) -> dict[str, Any]:
    """Slots by number; an empty serial: that GPU is not there."""
    places = {**GPUS, **{f"Video.Slot.{slot[1:]}-1": serial for slot, serial in serials.items()}}
    return hardware(gpus=[{"id": p, "serial": s} for p, s in places.items() if s])


def test_parts_by_kind_and_place():
    assert parts_of(hardware()) == {
        "gpu": GPUS,
        "drive": {"Disk.Bay.0": "D0"},
        "psu": {"PSU.Slot.1": "P1"},
        "memory": {"DIMM.Socket.A1": "M1"},
        "nic": {"NIC.Embedded.1-1-1": "02:00:00:00:00:01"},
        "hca": {"InfiniBand.Slot.31-1": "02:00:00:00:01:01"},
        "board": {"system board": "B0"},
    }


def test_what_was_not_read_is_not_known():
    told = parts_of(hardware(unread=["gpus", "hcas"], drives=[{"id": "Disk.Bay.0", "serial": None}]))
    assert set(told) == {"psu", "memory", "nic", "board"}
    assert parts_of(None) == {}


def test_a_board_that_is_another_one():
    (change,) = compare(parts_of(hardware()), parts_of(hardware(board_serial="B9")))
    assert change == Change("board", "system board", "B0", "B9")
    assert change.line() == "board in system board: serial B0 -> B9: replaced"


@pytest.mark.parametrize(
    ("now", "found"),
    [
        ({}, []),
        ({"_22": "N1"}, [Change("gpu", "Video.Slot.22-1", "A2", "N1")]),
        ({"_22": ""}, []),  # missing: discover says so
        ({"_21": "A2", "_22": "A1"}, []),  # they changed places
        # one moved and a new one is in its place: which one left is known by its serial alone
        ({"_21": "A2", "_22": "N1"}, [Change("gpu", "Video.Slot.22-1", "", "N1")]),
        ({"_24": "N1"}, [Change("gpu", "Video.Slot.24-1", "", "N1")]),
    ],
)
def test_what_was_put_in(now, found):
    assert compare(parts_of(hardware()), parts_of(with_gpus(**now))) == found


def test_a_part_that_was_missing_for_a_while_is_still_known():
    remembered = merged(parts_of(hardware()), parts_of(with_gpus(_22="")))
    assert remembered["gpu"] == GPUS
    assert compare(remembered, parts_of(hardware())) == []
    assert compare(remembered, parts_of(with_gpus(_22="N1"))) == [Change("gpu", "Video.Slot.22-1", "A2", "N1")]


def test_what_moved_is_remembered_once():
    now = parts_of(with_gpus(_21="", _22="A1"))
    assert merged(parts_of(hardware()), now)["gpu"] == {"Video.Slot.22-1": "A1", "Video.Slot.23-1": "A3"}


@pytest.mark.parametrize("remembered", [None, [], "gpu", {"gpu": ["A1"]}, {}])
def test_nothing_is_replaced_at_the_first_look_or_where_the_memory_is_damaged(remembered):
    assert compare(remembered, parts_of(hardware())) == []
    assert merged(remembered, parts_of(hardware())) == parts_of(hardware())


def test_a_bmc_with_thousands_of_parts_fills_no_ledger():
    many = hardware(drives=[{"id": f"Disk.{n}", "serial": f"S{n}" * 200} for n in range(5000)])
    told = parts_of(many)["drive"]
    assert len(told) == 256
    assert max(map(len, told.values())) <= 120


@pytest.mark.parametrize(
    ("kinds", "level"),
    [([], "quick"), (["psu", "nic"], "quick"), (["psu", "gpu"], "long"), (["memory"], "long"), (["board"], "long"),
     (["hca"], "long"), (["drive"], "long"), (["cpu"], "long")],
)  # fmt: skip
def test_how_long_it_is_looked_at(kinds, level):
    assert burn_in_level(kinds) == level


def ticket(kind: str, part: str, action: str = "replace", symptom: str = "") -> Ticket:
    finding = Finding("any", "fail", symptom or f"{kind}.missing", part, action=action)
    return Ticket(
        "FLB0001-x-1", "r1-n01", "FLB0001", Place(), Cause(kind, part), "open", action, (finding,), ("discover",),
        OPENED, OPENED,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["gpu", "memory", "hca", "board", "drive", "cpu"])
def test_what_was_only_reseated_is_looked_at_for_long_too(kind):
    begun = "2026-03-05T08:00:00.000+00:00"
    known = ticket(kind, "", "reseat")
    assert ordered([known]) == ordered([known], begun) == [kind]
    mended = known.changed("2026-03-05T09:00:00+00:00", "closed", state=CLOSED)
    assert ordered([mended], begun) == [kind]  # it was open when the repair began
    assert burn_in_level(ordered([mended], begun)) == "long"
    assert ordered([mended]) == ordered([mended], "2026-03-06T08:00:00.000+00:00") == []


def test_a_fan_or_a_supply_that_was_reseated_is_looked_at_quickly():
    assert burn_in_level(ordered([ticket("fan", "fan 3", "reseat"), ticket("psu", "psu 1", "reseat")])) == "quick"


def row(kind: str, locator: str, at: str = "2026-03-03T10:00:00.000+00:00") -> dict[str, str]:
    return {"kind": kind, "locator": locator, "at": at, "removed": "A2", "installed": "N1"}


@pytest.mark.parametrize(
    ("asked", "rows", "said"),
    [
        (ticket("gpu", "video.slot.22"), [], "its serial is the same, A2"),
        (ticket("gpu", "video.slot.22"), [row("gpu", "Video.Slot.22-1")], ""),
        (ticket("gpu", "video.slot.22"), [row("gpu", "Video.Slot.21-1")], "its serial is the same, A2"),
        (ticket("gpu", "video.slot.22"), [row("gpu", "Video.Slot.22-1", "2026-03-01T10:00:00.000+00:00")], "same, A2"),
        (ticket("gpu", "0000:9a:00"), [], "no GPU has another serial"),
        (ticket("gpu", "0000:9a:00"), [row("gpu", "Video.Slot.21-1")], ""),
        (ticket("drive", "serial D0"), [], "its serial is still D0"),
        (ticket("drive", "serial D7"), [], ""),
        (ticket("gpu", "video.slot.22", "reseat"), [], ""),  # it stays the same one
        (ticket("nic", "nic.embedded.1-1-1", symptom="nic.no_link"), [], ""),  # a cable
        (ticket("fan", "fan 3"), [], ""),  # no serial is known of it
        (dataclasses.replace(ticket("gpu", "video.slot.22"), state=CLOSED), [], ""),
    ],
)
def test_a_ticket_that_asked_for_a_part_that_is_still_the_old_one(asked, rows, said):
    found = not_replaced([asked], parts_of(hardware()), rows)
    if not said:
        assert found == []
        return
    (finding,) = found
    assert (finding.status, finding.symptom) == ("warn", "repair.part_not_replaced")
    assert "ticket FLB0001-x-1 asked to replace" in finding.evidence and said in finding.evidence
