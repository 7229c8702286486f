"""Tickets in the ledger: a plan is written whole or not at all, and read back as it was."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy

from firstlight.errors import FirstlightError, InputError
from firstlight.findings import Finding
from firstlight.ledger.store import Ledger, ledger_url
from firstlight.ledger.tickets import VALUE_MAX, change, delivered, note_delivery, save, ticket, tickets
from firstlight.policy.causes import Cause
from firstlight.sitefiles import PlannedHost
from firstlight.tickets.model import CLOSED, OPEN, Place, Ticket, Update
from firstlight.tickets.plan import Plan

AT = "2026-11-30T08:00:00+00:00"
LOST = Finding("gpus", "fail", "gpu.missing", "Video.Slot.6-1", "7 of 8 „€", "reseat")


ONE = Ticket(
    id="AAA-gpu-1", host="n1", service_tag="AAA", place=Place("test", "r1", 1, "p"), cause=Cause("gpu", "video.slot.6"),
    state=OPEN, action="reseat", findings=(LOST,), stages=("discover",), opened=AT, updated=AT,
    history=(Update(AT, "opened: reseat"),),
)  # fmt: skip
TWO = replace(ONE, id="n2-bmc-1", host="n2", service_tag=None, cause=Cause("bmc"))


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(ledger_url("ledger.sqlite", tmp_path))
    made.plan("test", [PlannedHost(f"n{i}", "r1", i, f"10.0.0.{i}", "p") for i in (1, 2)])
    made.identify("n1", "AAA")
    return made


def test_a_plan_is_read_back_as_it_was(ledger):
    save(ledger, Plan(opened=[ONE, TWO]))
    assert tickets(ledger) == [ONE, TWO]
    assert tickets(ledger, ["n2", "n9"]) == [TWO]
    assert ticket(ledger, "AAA-gpu-1") == ONE


def test_a_closed_one_is_kept_and_is_not_among_the_open(ledger):
    save(ledger, Plan(opened=[ONE, TWO]))
    closed = ONE.changed("2026-12-01T08:00:00+00:00", "closed", state=CLOSED)
    save(ledger, Plan(closed=[closed]))
    assert tickets(ledger) == [closed, TWO]
    assert tickets(ledger, open_only=True) == [TWO]


def test_a_plan_with_a_host_that_is_not_known_leaves_nothing_behind(ledger):
    with pytest.raises(FirstlightError, match="ticket x-gpu-1 is of host n9, which the ledger does not know"):
        save(ledger, Plan(opened=[ONE, replace(ONE, id="x-gpu-1", host="n9", service_tag="X")]))
    assert tickets(ledger) == []


def test_a_ticket_stays_with_the_machine_when_its_name_goes_to_another(ledger):
    save(ledger, Plan(opened=[ONE]))
    ledger.identify("n2", "AAA")
    assert tickets(ledger, ["n1"]) == []
    assert tickets(ledger, ["n2"]) == [ONE]


def test_a_ticket_of_a_name_goes_over_to_the_machine_whose_tag_it_gets(ledger):
    save(ledger, Plan(opened=[TWO]))
    ledger.identify("n2", "AAA")  # the machine that was n1
    assert tickets(ledger, ["n2"]) == []
    save(ledger, Plan(updated=[TWO.changed(AT, "service tag AAA", service_tag="AAA")]))
    assert [t.id for t in tickets(ledger, ["n2"])] == ["n2-bmc-1"]


def test_a_ticket_that_grew_without_end_loses_its_oldest_updates(ledger):
    long = replace(ONE, history=tuple(Update(AT, f"{n} {'x' * 4000}") for n in range(200)))
    save(ledger, Plan(opened=[long]))
    (read,) = tickets(ledger)
    assert len(json.dumps(read.to_dict())) <= VALUE_MAX
    assert read.history == long.history[-len(read.history) :] != ()


def test_what_was_damaged_is_one_line(ledger):
    save(ledger, Plan(opened=[ONE]))
    for value in ("", "{}", "[]", json.dumps({**ONE.to_dict(), "state": "lost"}), json.dumps(TWO.to_dict())):
        with ledger._engine.begin() as connection:
            connection.execute(sqlalchemy.text("UPDATE ticket SET value = :value"), {"value": value})
        with pytest.raises(FirstlightError, match="ticket AAA-gpu-1 is damaged") as caught:
            tickets(ledger)
        assert "\n" not in str(caught.value)


def test_a_ticket_that_is_not_there_is_one_line(ledger):
    with pytest.raises(InputError, match="no ticket AAA-gpu-7"):
        ticket(ledger, "AAA-gpu-7")
    with pytest.raises(FirstlightError, match="no ticket AAA-gpu-1"):
        note_delivery(ledger, "folder", ONE, "")


def test_what_an_output_was_told_is_noted_for_it_alone(ledger):
    save(ledger, Plan(opened=[ONE, TWO]))
    note_delivery(ledger, "jira", ONE, "DC-7")
    note_delivery(ledger, "jira", replace(ONE, version=3), "DC-7")
    note_delivery(ledger, "folder", TWO, "")
    assert delivered(ledger, "jira") == {"AAA-gpu-1": (3, "DC-7")}
    assert delivered(ledger, "folder") == {"n2-bmc-1": (1, "")}
    assert delivered(ledger, "mail") == {}


COUNTS = """
import sys
from dataclasses import replace
from firstlight.ledger.store import Ledger
from firstlight.ledger.tickets import change
from firstlight.tickets.plan import Plan
sys.path.insert(0, sys.argv[2])
from test_ledger_tickets import ONE

ledger = Ledger(sys.argv[1])
for _ in range(10):
    change(ledger, lambda known: Plan(opened=[replace(ONE, id=f"AAA-gpu-{len(known) + 1}")]))
"""


def test_several_that_decide_at_once_decide_one_after_the_other(ledger, tmp_path):
    url = ledger._engine.url.render_as_string(hide_password=False)
    words = [sys.executable, "-c", COUNTS, url, str(Path(__file__).parent)]
    deciding = [subprocess.Popen(words) for _ in range(3)]
    assert [process.wait(timeout=120) for process in deciding] == [0, 0, 0]
    assert [t.id for t in tickets(ledger)] == [f"AAA-gpu-{n}" for n in range(1, 31)]


def test_nothing_is_saved_of_a_decision_that_failed(ledger):
    def decide(_known):
        raise InputError("no")

    with pytest.raises(InputError, match="no"):
        change(ledger, decide)
    assert tickets(ledger) == []
