"""Parts that were replaced: noted once, of the machine and not of its name."""

from __future__ import annotations

import time

import pytest

from firstlight.errors import FirstlightError
from firstlight.findings import Finding
from firstlight.ledger.parts import note_part, parts_of, replaced_since_installed
from firstlight.ledger.store import Ledger, ledger_url
from firstlight.sitefiles import PlannedHost


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(ledger_url("ledger.sqlite", tmp_path))
    made.plan("test", [PlannedHost(f"n{i}", "r1", i, f"10.0.0.{i}", "p") for i in (1, 2)])
    made.identify("n1", "AAA")
    made.start_run("reprovision.yml")
    return made


def noted(ledger, name="n1"):
    return [(p["kind"], p["locator"], p["removed"], p["installed"]) for p in parts_of(ledger, name)]


def test_a_part_is_noted_once_however_often_it_is_told(ledger):
    assert note_part(ledger, "n1", "gpu", "Video.Slot.7-1", "132", "133")
    assert not note_part(ledger, "n1", "gpu", "Video.Slot.7-1", "132", "133")
    assert noted(ledger) == [("gpu", "Video.Slot.7-1", "132", "133")]
    assert parts_of(ledger, "n1")[0]["at"].endswith("+00:00")


def test_the_old_part_put_back_and_taken_out_again_are_two_more(ledger):
    for removed, installed in (("132", "133"), ("133", "132"), ("132", "133")):
        assert note_part(ledger, "n1", "gpu", "Video.Slot.7-1", removed, installed)
    assert note_part(ledger, "n1", "gpu", "Video.Slot.8-1", "132", "133")
    assert len(noted(ledger)) == 4


def test_parts_stay_with_the_machine_when_its_name_goes_to_another(ledger):
    note_part(ledger, "n1", "psu", "PSU.Slot.2", "", "P9")
    ledger.identify("n2", "AAA")
    assert (noted(ledger, "n1"), noted(ledger, "n2")) == ([], [("psu", "PSU.Slot.2", "", "P9")])


def test_what_a_bmc_says_is_cut_to_what_the_table_holds(ledger):
    note_part(ledger, "n1", "gpu", "x" * 500, "a\n\x1b[31mb", "y" * 500)
    ((_, locator, removed, installed),) = noted(ledger)
    assert (len(locator), removed, len(installed)) == (120, "a ?[31mb", 120)


def test_a_host_that_the_ledger_does_not_know_is_one_line(ledger):
    with pytest.raises(FirstlightError, match="does not know host n9"):
        note_part(ledger, "n9", "gpu", "", "1", "2")
    assert parts_of(ledger, "n9") == []


def test_what_was_replaced_counts_until_the_host_is_installed(ledger):
    def other_drives():
        return replaced_since_installed(ledger, ["n1", "n2", "n9"], "drive")

    def install(finding):
        ledger.begin_stage("install", ["n1"])
        ledger.end_stage("install", "n1", [finding])

    assert other_drives() == set()
    note_part(ledger, "n1", "gpu", "Video.Slot.7-1", "132", "133")
    assert other_drives() == set()
    note_part(ledger, "n1", "drive", "Disk.Bay.0", "D0", "D1")
    assert other_drives() == {"n1"} and replaced_since_installed(ledger, ["n2"], "drive") == set()
    install(Finding("install", "fail", "install.no_ssh"))
    assert other_drives() == {"n1"}
    install(Finding("install", "ok", "install"))
    assert other_drives() == set()
    ledger.undo("n1", "install", "released")
    assert other_drives() == set()
    time.sleep(0.002)  # the ledger's times are of whole milliseconds
    note_part(ledger, "n1", "drive", "Disk.Bay.0", "D1", "D2")
    assert other_drives() == {"n1"}
