"""scripts/tickets: list, show and deliver."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from test_text import REAL, ticket

from firstlight.ledger.store import Ledger, ledger_url
from firstlight.ledger.tickets import save
from firstlight.sitefiles import PlannedHost
from firstlight.tickets.cli import main
from firstlight.tickets.model import CLOSED, Ticket
from firstlight.tickets.plan import Plan

ROOT = Path(__file__).resolve().parents[3]
ONE = ticket(*REAL["gpu"])
TWO = ticket(*REAL["drive"]).changed("2026-12-01T08:00:00+00:00", "closed", state=CLOSED)


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "x.redfish_bmc.yml").write_text("ledger: ledger.sqlite\n")
    ledger = Ledger(ledger_url("ledger.sqlite", folder))
    ledger.plan("lab", [PlannedHost("r1-n03", "r1", 16, "10.0.0.3", "p", service_tag="FLB0003")])
    save(ledger, Plan(opened=[ONE, TWO]))
    monkeypatch.setenv("ANSIBLE_INVENTORY", str(folder))
    return folder


def told(capsys, *words):
    assert main(list(words)) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def refused(capsys, *words):
    try:
        status = main(list(words))
    except SystemExit as end:
        status = end.code
    out, err = capsys.readouterr()
    assert (status, out, err.count("\n")) == (1, "", 1)
    return err


def test_tickets_are_listed_one_a_line(site, capsys):
    assert [" ".join(line.split()) for line in told(capsys, "list").splitlines()] == [
        "FLB0003-gpu-1 open r1-n03 rack r1 unit 16 2026-11-30 08:00 reseat GPU Video.Slot.26-1",
        "FLB0003-drive-1 closed r1-n03 rack r1 unit 16 2026-11-30 08:00 replace drive nvme3n1, serial S4EVNX0",
    ]
    assert told(capsys, "list", "--open").count("\n") == 1
    assert told(capsys, "list", "--host", "r1-n04") == ""
    assert [Ticket.from_dict(one) for one in json.loads(told(capsys, "list", "--json"))] == [ONE, TWO]


def test_one_is_shown_by_the_site_s_templates(site, capsys):
    assert told(capsys, "show", ONE.id) == (ROOT / "tests/unit/tickets/golden/gpu.md").read_text().rstrip() + "\n"
    (site / "ticket_templates").mkdir()
    (site / "ticket_templates" / "ticket.md.j2").write_text("Go to {{ ticket.host }}")
    (site / "tickets.yml").write_text("templates: ticket_templates\n")
    assert told(capsys, "show", ONE.id) == "Go to r1-n03\n"
    assert json.loads(told(capsys, "show", ONE.id, "--json"))["id"] == ONE.id


def test_what_was_not_told_is_told_again(site, capsys, tmp_path):
    (tmp_path / "file").write_text("")
    (site / "tickets.yml").write_text("outputs:\n  - folder: ../file/out\n")
    assert "file/out: Not a directory; nothing is told there" in refused(capsys, "deliver")
    (site / "tickets.yml").unlink()
    assert told(capsys, "deliver") == ""
    assert sorted(path.stem for path in (tmp_path / "reports" / "tickets").iterdir()) == [TWO.id, ONE.id]
    assert json.loads(told(capsys, "deliver", "--json")) == {"problems": []}


@pytest.mark.parametrize("text", ['{% extends "ticket.md.j2" %}', "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}"])
def test_a_template_that_calls_itself_is_one_line(site, capsys, text):
    (site / "ticket_templates").mkdir()
    (site / "ticket_templates" / "ticket.md.j2").write_text(text)
    (site / "tickets.yml").write_text("templates: ticket_templates\n")
    assert "itself" in refused(capsys, "deliver")
    assert "itself" in refused(capsys, "show", ONE.id)


def test_one_is_closed_by_hand_with_who_and_why(site, capsys, monkeypatch):
    monkeypatch.setattr("firstlight.tickets.run.operator", lambda: "anna")
    assert "needs" not in told(capsys, "close", ONE.id, "--why", "scrapped\n\x1b[31m")
    assert "closed: by anna: scrapped ?" in told(capsys, "show", ONE.id)
    assert told(capsys, "list", "--open") == ""
    for name in (ONE.id, "NONE-gpu-1"):
        assert f"no open ticket {name}" in refused(capsys, "close", name, "--why", "x")
    assert "--why" in refused(capsys, "close", ONE.id)


def test_a_folder_that_was_emptied_or_is_another_one_gets_its_files(site, capsys, tmp_path):
    def deliver(folder):
        assert told(capsys, "deliver", "--reports", str(tmp_path / folder)) == ""
        return sorted(path.name for path in (tmp_path / folder / "tickets").iterdir())

    first = deliver("A")
    assert "FLB0003-gpu-1.md" in first
    shutil.rmtree(tmp_path / "A")
    assert deliver("A") == first
    assert deliver("B") == first
    file = tmp_path / "B/tickets/FLB0003-gpu-1.md"
    before = file.stat().st_mtime_ns
    assert deliver("B") == first
    assert file.stat().st_mtime_ns == before


@pytest.mark.parametrize("why", ["", " ", "\t\n"])
def test_a_ticket_is_not_closed_without_a_word(site, capsys, why):
    assert refused(capsys, "close", ONE.id, "--why", why).startswith("tickets: --why is empty; ")
    assert "open" in told(capsys, "list", "--open")


def test_an_id_that_is_no_text_is_one_line(site, capsys):
    assert "no ticket" in refused(capsys, "show", "\udcff")
    assert "no open ticket" in refused(capsys, "close", "\udcff", "--why", "x")
    assert refused(capsys, "show", ONE.id, "--ledger", "\udcff")


def test_what_is_wrong_is_one_line(site, capsys):
    assert "no ticket NONE-gpu-1" in refused(capsys, "show", "NONE-gpu-1")
    assert "--help says more" in refused(capsys, "open", ONE.id)
    assert "no ledger at" in refused(capsys, "list", "--ledger", str(site / "none.sqlite"))
    (site / "tickets.yml").write_text("outputs: 7\n")
    assert "tickets.yml:1: outputs: 7 must be a list" in refused(capsys, "deliver")


def test_the_script_runs():
    words = [ROOT / "scripts" / "tickets", "--help"]
    assert "deliver" in subprocess.run(words, capture_output=True, text=True, check=True).stdout
