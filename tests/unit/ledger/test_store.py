"""The ledger remembers, and keeps one transaction from harming another."""

from __future__ import annotations

import sqlite3
import subprocess
import sys

import pytest

from firstlight.errors import FirstlightError
from firstlight.findings import Finding
from firstlight.ledger.store import TEXT_MAX, Ledger, ledger_url
from firstlight.sitefiles import PlannedHost

OK = Finding("gpu_count", "ok", "gpu_count", evidence="8 of 8")
MISSING = Finding("gpu_count", "fail", "gpu.missing", "Video.Slot.6-1", "7 of 8", "reseat")


def host(number: int, tag: str | None = None) -> PlannedHost:
    return PlannedHost(f"n{number}", "r1", number, f"10.0.0.{number}", "xe9680", service_tag=tag)


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(ledger_url("ledger.sqlite", tmp_path))
    ledger.plan("test", [host(1, "AAA"), host(2)])
    return ledger


def story(ledger, name="n1"):
    return ledger.story([name])[0]


def test_planned_hosts_are_in_state_planned(ledger):
    assert ledger.states() == {"n1": "planned", "n2": "planned"}


def test_a_database_without_tables_is_new_until_a_run_makes_them(tmp_path):
    url = f"sqlite:///{tmp_path}/empty.sqlite"
    (tmp_path / "empty.sqlite").touch()
    assert Ledger(url, create=False).is_new()
    Ledger(url)
    assert not Ledger(url, create=False).is_new()


def test_planning_again_changes_nothing(ledger):
    before = ledger.story(["n1", "n2"])
    ledger.plan("test", [host(1, "AAA"), host(2)])
    assert ledger.story(["n1", "n2"]) == before


def test_a_host_moves_forward_through_its_stages(ledger):
    seen = []
    for stage in ("discover", "enlist", "install", "configure", "smoke"):
        ledger.begin_stage(stage, ["n1"])
        assert ledger.end_stage(stage, "n1", [OK])
        seen.append(ledger.states()["n1"])
    assert seen == ["discovered", "enlisted", "installed", "configured", "ready"]


def test_passing_an_early_stage_again_does_not_move_a_host_back(ledger):
    for stage in ("discover", "enlist", "install"):
        ledger.end_stage(stage, "n1", [OK])
    ledger.end_stage("discover", "n1", [OK])
    assert ledger.states()["n1"] == "installed"


def test_a_failed_stage_keeps_the_state_and_says_why(ledger):
    assert not ledger.end_stage("discover", "n1", [OK, MISSING])
    told = story(ledger)
    assert told["state"] == "planned"
    assert told["stages"]["discover"]["result"] == "failed"
    assert [f["symptom"] for f in told["findings"]] == ["gpu_count", "gpu.missing"]


def test_unknown_does_not_pass(ledger):
    assert not ledger.end_stage("discover", "n1", [Finding("gpu_count", "unknown", "gpu_count.timed_out")])


def test_a_ready_host_that_fails_keeps_its_state_and_a_quarantined_one_is_ready_again_after_smoke(ledger):
    for stage in ("discover", "enlist", "install", "configure", "smoke"):
        ledger.end_stage(stage, "n1", [OK])
    ledger.end_stage("discover", "n1", [MISSING])
    assert ledger.states()["n1"] == "ready"  # who is quarantined is decided for all hosts together
    ledger.set_state("n1", "quarantined", "discover: gpu.missing")
    for stage in ("discover", "enlist", "install", "configure"):
        ledger.end_stage(stage, "n1", [OK])
    assert ledger.states()["n1"] == "quarantined"
    ledger.end_stage("smoke", "n1", [OK])
    assert ledger.states()["n1"] == "ready"


def test_a_finding_that_is_gone_is_cleared_and_one_that_stays_keeps_its_first_date(ledger):
    ledger.end_stage("discover", "n1", [MISSING])
    first = story(ledger)["findings"][0]["first_seen"]
    ledger.end_stage("discover", "n1", [MISSING])
    assert story(ledger)["findings"][0]["first_seen"] == first
    ledger.end_stage("discover", "n1", [OK])
    assert [f["symptom"] for f in story(ledger)["findings"]] == ["gpu_count"]


def test_findings_of_another_stage_stay(ledger):
    ledger.end_stage("discover", "n1", [MISSING])
    ledger.end_stage("smoke", "n1", [OK])
    assert {f["symptom"] for f in story(ledger)["findings"]} == {"gpu.missing", "gpu_count"}


def test_passed_goes_by_the_latest_try(ledger):
    ledger.end_stage("discover", "n1", [OK])
    ledger.end_stage("discover", "n2", [OK])
    ledger.end_stage("discover", "n2", [MISSING])
    assert ledger.passed("discover", ["n1", "n2"]) == {"n1"}


def test_a_stage_that_was_begun_and_killed_has_not_passed(ledger):
    ledger.end_stage("discover", "n1", [OK])
    ledger.begin_stage("discover", ["n1"])
    assert ledger.passed("discover", ["n1"]) == set()
    ledger.begin_stage("discover", ["n1"])
    ledger.end_stage("discover", "n1", [OK])
    assert ledger.passed("discover", ["n1"]) == {"n1"}


def test_history_follows_the_service_tag_to_another_name(ledger):
    ledger.end_stage("discover", "n1", [MISSING])
    ledger.identify("n2", "AAA")  # the server of n1 now answers at the place of n2
    moved = story(ledger, "n2")
    assert moved["service_tag"] == "AAA"
    assert [f["symptom"] for f in moved["findings"]] == ["gpu.missing"]
    left = story(ledger, "n1")  # which machine is there now is not known yet
    assert (left["service_tag"], left["state"], left["findings"]) == (None, "planned", [])


def test_a_swapped_server_starts_its_own_history(ledger):
    ledger.end_stage("discover", "n1", [MISSING])
    ledger.identify("n1", "BBB")
    told = story(ledger)
    assert (told["service_tag"], told["state"], told["findings"]) == ("BBB", "planned", [])


def test_the_first_tag_that_a_bmc_tells_joins_the_history_so_far(ledger):
    ledger.end_stage("discover", "n2", [MISSING])
    ledger.identify("n2", "CCC")
    assert story(ledger, "n2")["service_tag"] == "CCC"
    assert story(ledger, "n2")["findings"]


def test_a_copy_leaves_the_original_alone(ledger, tmp_path):
    ledger.end_stage("discover", "n1", [OK])
    copy = Ledger(ledger_url("copy.sqlite", tmp_path))
    ledger.copy_to(copy)
    copy.end_stage("enlist", "n1", [OK])
    assert copy.states()["n1"] == "enlisted"
    assert ledger.states()["n1"] == "discovered"


def test_runs_are_remembered_open_until_they_end(ledger):
    run = ledger.start_run("site.yml")
    assert ledger.run(run)["ended"] is None
    ledger.end_run(run, "done")
    assert (ledger.run(run)["outcome"], ledger.run(run)["ended"] is not None) == ("done", True)


def test_a_released_host_has_not_passed_install_any_more(ledger):
    for stage in ("discover", "enlist", "install", "configure", "smoke"):
        ledger.end_stage(stage, "n1", [OK])
    ledger.undo("n1", "install", "release n1")
    assert ledger.states()["n1"] == "enlisted"
    results = {stage: told["result"] for stage, told in story(ledger)["stages"].items()}
    assert results == {
        "discover": "passed", "enlist": "passed", "install": "undone", "configure": "undone", "smoke": "undone",
    }  # fmt: skip
    assert {f["stage"] for f in story(ledger)["findings"]} == {"discover", "enlist"}
    assert ledger.passed("install", ["n1"]) == set()
    before = ledger.story(["n1"])
    ledger.undo("n1", "install", "again")
    assert ledger.story(["n1"]) == before
    ledger.end_stage("install", "n1", [OK])
    assert ledger.states()["n1"] == "installed"


def test_release_moves_no_host_forward_and_none_out_of_quarantine(ledger):
    ledger.end_stage("discover", "n1", [OK])
    ledger.undo("n1", "install", "release n1")
    assert ledger.states()["n1"] == "discovered" and list(story(ledger)["stages"]) == ["discover"]
    ledger.end_stage("install", "n2", [OK])
    ledger.set_state("n2", "quarantined", "smells of smoke")
    ledger.undo("n2", "install", "release n2")
    assert ledger.states()["n2"] == "quarantined"
    assert ledger.passed("install", ["n2"]) == set()
    ledger.undo("nobody", "install", "release")


def test_deeds_are_kept(ledger, tmp_path):
    ledger.deed("n1", "deployed bookworm on disk S123")
    with sqlite3.connect(tmp_path / "ledger.sqlite") as db:
        assert db.execute("select what from deed").fetchall() == [("deployed bookworm on disk S123",)]


def test_a_stage_of_an_unknown_host_is_a_clear_error(ledger):
    with pytest.raises(FirstlightError, match="does not know host n9"):
        ledger.end_stage("discover", "n9", [OK])


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FirstlightError, match="cannot be opened"):
        Ledger(ledger_url("file/ledger.sqlite", tmp_path))


WRITER = """
import sys
from firstlight.ledger.store import Ledger
from firstlight.findings import Finding
ledger = Ledger(sys.argv[1])
for _ in range(20):
    ledger.end_stage("discover", sys.argv[2], [Finding("x", "ok", "x")])
"""


def test_two_processes_write_side_by_side(ledger, tmp_path):
    url = ledger_url("ledger.sqlite", tmp_path)
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, url, name], stderr=subprocess.PIPE) for name in ("n1", "n2")
    ]
    for writer in writers:
        _, stderr = writer.communicate(timeout=60)
        assert writer.returncode == 0, stderr.decode()
    with sqlite3.connect(tmp_path / "ledger.sqlite") as db:
        assert db.execute("select count(*) from stage_run").fetchone() == (40,)


def test_a_database_that_fails_later_is_one_line(ledger, tmp_path):
    with sqlite3.connect(tmp_path / "ledger.sqlite") as db:
        db.execute("DROP TABLE stage_run")
    with pytest.raises(FirstlightError, match="cannot be used: no such table: stage_run") as caught:
        ledger.begin_stage("discover", ["n1"])
    assert "\n" not in str(caught.value)


def test_a_reader_makes_nothing(tmp_path):
    Ledger(ledger_url("other.sqlite", tmp_path), create=False)
    with pytest.raises(FirstlightError, match="is empty; the first run of a playbook makes it"):
        Ledger(ledger_url("other.sqlite", tmp_path), create=False).states()
    with sqlite3.connect(tmp_path / "other.sqlite") as db:
        assert db.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)


def test_only_who_entered_in_this_run_is_begun(ledger):
    ledger.start_run("one.yml")
    ledger.begin_stage("configure", ["n1"])
    ledger.start_run("two.yml")
    ledger.begin_stage("configure", ["n2"])
    assert ledger.begun("configure", ["n1", "n2"]) == ["n2"]
    ledger.end_stage("configure", "n2", [OK])
    assert ledger.begun("configure", ["n1", "n2"]) == []
    assert ledger.begun("configure", ["n1", "n2"], ended=True) == ["n2"]


def test_a_stage_that_was_not_entered_after_all_is_forgotten(ledger):
    ledger.begin_stage("install", ["n1"])
    ledger.withdraw("install", ["n1"])
    assert story(ledger)["stages"] == {}


PLAN = """
import sys
from firstlight.ledger.store import Ledger
from firstlight.sitefiles import PlannedHost
ledger = Ledger(sys.argv[1])
sys.stdin.read()
ledger.plan("s", [PlannedHost(f"p{i}", "r1", i, f"10.0.1.{i}", "xe9680") for i in range(1, 60)])
"""


def test_processes_that_plan_the_same_new_hosts_at_once_agree(ledger, tmp_path):
    url = ledger_url("ledger.sqlite", tmp_path)
    words = [sys.executable, "-c", PLAN, url]
    planners = [subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    for planner in planners:
        planner.stdin.flush()
    ends = []
    for planner in planners:
        planner.stdin.close()
    for planner in planners:
        ends.append((planner.wait(60), planner.stderr.read()))
    assert ends == [(0, "")] * 4
    assert len([name for name in ledger.states() if name.startswith("p")]) == 59


@pytest.mark.parametrize("told", ["", "x" * 200, "[red]FLB1", "FLB1 {{ x }}", "FLB\n1", "Not Specified"])
def test_a_text_that_is_no_service_tag_takes_no_history(ledger, told):
    ledger.end_stage("discover", "n2", [OK])
    ledger.identify("n2", told)
    assert story(ledger, "n2")["service_tag"] is None
    assert story(ledger, "n2")["state"] == "discovered"


def test_texts_that_no_database_holds_are_made_such_and_long_names_are_cut(ledger, monkeypatch):
    monkeypatch.setenv("LOGNAME", "x" * 100)
    hostile = "a\udcff\x00b " + "c" * 9000
    run = ledger.start_run("site.yml")
    ledger.deed("n1", hostile)
    ledger.set_state("n1", "configured", hostile)
    ledger.end_run(run, "broken", hostile)
    told = ledger.run(run)
    assert told["message"].startswith("a??b ccc") and len(told["message"]) == TEXT_MAX
    assert len(told["operator"]) == 64
    assert ledger.states()["n1"] == "configured"
