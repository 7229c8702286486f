"""Export and import: what goes out comes in again, and a wrong file is one line with its number."""

from __future__ import annotations

import io
import json
import sqlite3

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firstlight.errors import FirstlightError, InputError
from firstlight.findings import Finding
from firstlight.ledger import dump
from firstlight.ledger.parts import note_part
from firstlight.ledger.store import Ledger, ledger_url
from firstlight.ledger.tickets import note_delivery, save, tickets
from firstlight.policy.causes import Cause
from firstlight.sitefiles import PlannedHost
from firstlight.tickets.model import CLOSED, OPEN, Place, Ticket, Update
from firstlight.tickets.plan import Plan

MISSING = Finding("gpu_count", "fail", "gpu.missing", "Video.Slot.6-1", "7 of 8 „€\n", "reseat")
AT = "2026-11-30T08:00:00+00:00"


def ticket(name, host="n1", tag="AAA", state=OPEN):
    return Ticket(
        id=name, host=host, service_tag=tag, place=Place("test", "r1", 1, "p"), cause=Cause("gpu", "video.slot.6"),
        state=state, action="reseat", findings=(MISSING,), stages=("discover",), opened=AT, updated=AT,
        history=(Update(AT, "opened: reseat"),),
    )  # fmt: skip


def filled(url: str) -> Ledger:
    """A ledger with rows in every table."""
    ledger = Ledger(url)
    hosts = [
        PlannedHost(f"n{i}", "r1", i, f"10.0.0.{i}", "p", service_tag="AAA" if i == 1 else None) for i in (1, 2, 3)
    ]
    ledger.plan("test", hosts)
    run = ledger.start_run("site.yml")
    ledger.begin_stage("discover", ["n1", "n2"])
    ledger.end_stage("discover", "n1", [MISSING], seconds=1.25)
    ledger.end_stage("discover", "n1", [])
    ledger.deed("n1", "disk erased")
    ledger.remember({"n1": {"values": {"x": 1}}, "n2": {"counters": [1, 2]}})
    note_part(ledger, "n1", "gpu", "Video.Slot.6-1", "132", "133")
    save(ledger, Plan(opened=[ticket("AAA-gpu-1", state=CLOSED), ticket("AAA-gpu-2"), ticket("n2-bmc-1", "n2", None)]))
    note_delivery(ledger, "folder", ticket("AAA-gpu-1"), "")
    note_delivery(ledger, "jira", ticket("AAA-gpu-1"), "DC-7")
    ledger.end_run(run, "done", "all\nwell")
    return ledger


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    return list(dump.export(filled(ledger_url("ledger.sqlite", tmp_path_factory.mktemp("full")))))


@pytest.fixture
def empty(tmp_path):
    return Ledger(ledger_url("new.sqlite", tmp_path))


def load(ledger, lines):
    return dump.load(ledger, io.StringIO("".join(line + "\n" for line in lines)))


def index(lines, table, nth=0):
    return [i for i, line in enumerate(lines) if line.startswith(f'{{"{table}":')][nth]


def changed(lines, table, nth=0, **columns):
    at = index(lines, table, nth)
    row = {**json.loads(lines[at])[table], **columns}
    return [*lines[:at], json.dumps({table: row}), *lines[at + 1 :]], at + 1


def test_every_table_is_in_the_example(lines):
    assert {next(iter(json.loads(line))) for line in lines[1:-1]} == set(dump._TABLES)


def test_what_goes_out_comes_in_again(lines, empty):
    assert load(empty, lines) == len(lines) - 2
    assert list(dump.export(empty)) == lines
    assert empty.story(["n1"])[0]["service_tag"] == "AAA"
    assert [t.id for t in tickets(empty, open_only=True)] == ["AAA-gpu-2", "n2-bmc-1"]


def test_an_imported_ledger_goes_on(lines, empty):
    load(empty, lines)
    empty.plan("test", [PlannedHost("n9", "r1", 9, "10.0.0.9", "p")])
    run = empty.start_run("site.yml")
    empty.end_stage("discover", "n9", [MISSING])
    assert (run, empty.states()["n9"]) == (2, "planned")


def test_an_export_is_of_one_moment(tmp_path):
    ledger = filled(ledger_url("ledger.sqlite", tmp_path))
    before = list(dump.export(ledger))
    going = dump.export(ledger)
    told = [next(going), next(going)]  # it has begun to read
    ledger.plan("test", [PlannedHost("late", "r1", 9, "10.0.0.9", "p")])
    ledger.end_stage("discover", "late", [MISSING])
    assert [*told, *going] == before


def test_a_ledger_that_holds_something_takes_nothing(lines, tmp_path):
    ledger = filled(ledger_url("ledger.sqlite", tmp_path))
    before = list(dump.export(ledger))
    with pytest.raises(InputError, match="the ledger is not empty"):
        load(ledger, lines)
    assert list(dump.export(ledger)) == before


@pytest.mark.parametrize(
    ("table", "columns", "said"),
    [
        ("host", {"id": 0}, "host.id: 0 is no whole number from 1"),
        ("host", {"id": True}, "host.id: True is no whole number"),
        ("host", {"id": 10**400}, "host.id: 1000"),
        ("host", {"unit": "4"}, "host.unit: '4' is no whole number"),
        ("host", {"state": "fine"}, "host.state: 'fine' is none of planned, "),
        ("host", {"rack": None}, "host.rack may not be null"),
        ("host", {"name": "x" * 65}, "host.name: longer than 64 characters"),
        ("host", {"name": "n2"}, "name 'n2' is there twice"),
        ("host", {"name": "a\0b"}, "host.name: has characters that no database keeps"),
        ("host", {"name": "\ud800"}, "host.name: has characters that no database keeps"),
        ("host", {"other": 1}, "host: unknown column 'other'"),
        ("run", {"started": "yesterday"}, "run.started: 'yesterday' is no time"),
        ("run", {"started": "2026-11-01T10:00:00"}, "is no time in ISO 8601 with its zone"),
        ("stage_run", {"host_id": 77}, "stage_run.host_id 77 is no host of a line before"),
        ("stage_run", {"run_id": 77}, "stage_run.run_id 77 is no run of a line before"),
        ("stage_run", {"seconds": "1"}, "stage_run.seconds: '1' is no number"),
        ("stage_run", {"seconds": float("nan")}, "stage_run.seconds: nan is no number"),
        ("stage_run", {"seconds": 10**400}, "stage_run.seconds: 1000"),
        ("stage_run", {"stage": "sleep"}, "stage_run.stage: 'sleep' is none of discover"),
        ("finding", {"evidence": 7}, "finding.evidence: 7 is no text"),
        ("reading", {"id": 2}, "reading.id 2 does not follow 2"),
        ("ticket", {"value": "{}"}, "KeyError 'place'"),
        ("ticket", {"value": "[" * 99999}, "RecursionError"),
        ("ticket", {"name": "AAA-gpu-9"}, "it says that it is 'AAA-gpu-1'"),
        ("ticket", {"closed": None}, "ticket AAA-gpu-1 is closed, and closed is None"),
        ("part", {"installed": None}, "part.installed may not be null"),
        ("delivery", {"ticket_id": 77}, "delivery.ticket_id 77 is no ticket of a line before"),
        ("delivery", {"output": "jira"}, "delivery (1, 'jira') is there twice"),
    ],
)
def test_a_wrong_row_is_named_with_its_line_and_nothing_is_kept(lines, empty, table, columns, said):
    wrong, number = changed(lines, table, **columns)
    expected = number + 1 if said.endswith(("twice", "follow 2")) else number  # the second of the two is told
    with pytest.raises(InputError) as caught:
        load(empty, wrong)
    assert str(caught.value).startswith(f"line {expected}: {said}") or said in str(caught.value)
    assert f"line {expected}: " in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    assert len(list(dump.export(empty))) == 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[]", "not an object with one key"),
        ("{}", "not an object with one key"),
        ('{"host": {}, "run": {}}', "not an object with one key"),
        ('{"host": []}', "host: not an object"),
        ('{"host": {}}', "host: no column 'held'"),
        ('{"host": {"id": 1, "id": 2}}', "a key is there twice"),
        ('{"alembic_version": {"version_num": "0001"}}', "there is no table 'alembic_version'"),
        ("[" * 100_000, "recursion"),
        ('{"host": ' + "9" * 5000 + "}", "integer string conversion"),
        ('{"host": "' + "x" * dump.LINE_MAX + '"}', f"longer than {dump.LINE_MAX} characters"),
    ],
)
def test_a_line_that_is_none_of_ours_is_named(lines, empty, line, said):
    with pytest.raises(InputError, match=r"^line 3: ") as caught:
        load(empty, [*lines[:2], line, *lines[3:]])
    assert said in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_file_that_was_cut_off_or_joined_is_refused(lines, empty):
    for wrong, said in (
        ([], "not whole"),
        (lines[:-1], "not whole"),
        (lines[:5] + lines[-1:], "line 6: .* rows are announced, 4 are there"),
        (lines + lines, f"line {len(lines) + 1}: nothing may follow"),
        (lines[1:], "line 1: the first line is not"),
        (
            ['{"firstlight_ledger": "0999"}', *lines[1:]],
            "line 1: an export of revision '0999', this release reads 0004",
        ),
    ):
        with pytest.raises(InputError, match=said):
            load(empty, wrong)
        assert len(list(dump.export(empty))) == 2


@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_stands_in_a_row_is_taken_or_named(lines, empty, data):
    anything = (
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=70) | st.just([]) | st.just({})
    )
    at = data.draw(st.integers(1, len(lines) - 2))
    ((table, row),) = json.loads(lines[at]).items()
    row[data.draw(st.sampled_from(sorted(row)))] = data.draw(anything)
    wrong = [*lines[:at], json.dumps({table: row}), *lines[at + 1 :]]
    try:
        load(empty, wrong)
    except InputError as error:
        assert "\n" not in str(error)
        return
    told = list(dump.export(empty))
    assert [json.loads(line) for line in told] == [json.loads(line) for line in wrong]
    with empty._engine.begin() as connection:
        for name in reversed(dump._TABLES):
            connection.execute(dump._TABLES[name].delete())


def test_a_database_that_fails_is_one_line(lines, empty, tmp_path):
    with sqlite3.connect(tmp_path / "new.sqlite") as db:
        db.execute("DROP TABLE deed")
    db.close()
    with pytest.raises(FirstlightError, match="no such table: deed"):
        load(empty, lines)
    with pytest.raises(FirstlightError, match="no such table: deed"):
        list(dump.export(empty))
