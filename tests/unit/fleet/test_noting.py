"""What is noted of a shard's end in the ledger: what the run itself could not, once, and of its own hosts alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from firstlight.errors import FirstlightError
from firstlight.findings import Finding
from firstlight.fleet.events import Failure, Progress
from firstlight.fleet.noting import Way, note_end, untold
from firstlight.fleet.runs import Run, Shard, new_run
from firstlight.ledger.holding import RUN
from firstlight.ledger.store import Ledger, ledger_url
from firstlight.sitefiles import PlannedHost

HOSTS = ("a1", "a2", "a3")
CLAIM = "import sys; from firstlight.ledger.claim import claims_of; claims_of(sys.argv[1]).take(['a1']); "
NO_ROUTE = "ssh: connect to host 192.0.2.1 port 22: No route to host"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger(ledger_url("ledger.sqlite", tmp_path))
    ledger.plan("test", [PlannedHost(name, "r1", n, f"10.0.0.{n}", "xe9680") for n, name in enumerate(HOSTS, 1)])
    return ledger


@pytest.fixture
def shard(ledger: Ledger, tmp_path: Path) -> Shard:
    site = tmp_path / "site"
    site.mkdir()
    (site / "x.redfish_bmc.yml").write_text(f"plugin: redfish_bmc\nledger: {ledger._url}\n")
    (tmp_path / "runs").mkdir()
    about = {"playbook": "/p/site.yml", "inventory": str(site), "check": False}
    return new_run(tmp_path / "runs", about, {"r1": list(HOSTS)}).shards[0]


def begins(ledger: Ledger, shard: Shard, stage: str = "configure", hosts: tuple[str, ...] = HOSTS) -> int:
    """A try of the shard that lets these hosts into a stage."""
    number = ledger.start_run("site.yml")
    (shard.folder / "ledger_run").write_text(str(number))
    ledger.begin_stage(stage, hosts)
    return number


def saved(shard: Shard, progress: Progress, tries: int = 1) -> None:
    shard.save(tries=tries, started="2026-01-08T10:00:00.000+00:00", **progress.as_dict())


def held(ledger: Ledger) -> dict[str, list[tuple[str, str, str]]]:
    return {
        story["name"]: [(f["stage"], f["symptom"], f["status"]) for f in story["findings"]]
        for story in ledger.story(HOSTS)
        if story["findings"]
    }


def stands(ledger: Ledger, stage: str = "configure") -> dict[str, Any]:
    return {story["name"]: story["stages"].get(stage, {}).get("result") for story in ledger.story(HOSTS)}


# -- pure ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("way", "early", "noted"),
    [
        (Way(), "", (RUN, "run.task_failed")),
        (Way("configure"), "", ("configure", "run.task_failed")),
        (Way("configure"), "killed", ("configure", "run.task_failed")),
        (Way(failed=True), "killed", None),  # the callback has noted it
    ],
)
def test_whom_a_task_took_out_of_the_run(way: Way, early: str, noted: tuple[str, str] | None) -> None:
    progress = Progress(failed={"a1": Failure("Look", "it is not there")})
    found = untold(progress, {"a1": way, "a2": Way()}, early)
    assert {name: (stage, finding.symptom) for name, (stage, finding) in found.items()} == (
        {"a1": noted} if noted else {}
    )
    if noted:
        assert found["a1"][1] == Finding("fleet_run", "warn", "run.task_failed", "", "Look: it is not there", "retry")


def test_who_was_not_reached_has_the_symptom_that_stages_give_it() -> None:
    progress = Progress(failed={"a1": Failure("Look", NO_ROUTE, unreachable=True)})
    assert untold(progress, {"a1": Way()}, "") == {
        "a1": (RUN, Finding("fleet_run", "warn", "ssh.unreachable", "", f"Look: {NO_ROUTE}", "power_cycle"))
    }


@pytest.mark.parametrize(("way", "early"), [(Way("install"), ""), (Way(), "killed"), (Way(failed=True), "killed")])
def test_of_whom_there_is_nothing_to_tell(way: Way, early: str) -> None:
    assert untold(Progress(), {"a1": way}, early) == {}


# -- the ledger ---------------------------------------------------------------------------------------------------


def test_a_killed_run_is_closed_with_its_last_task_and_whom_it_left_in_a_stage(ledger: Ledger, shard: Shard) -> None:
    number = begins(ledger, shard)
    ledger.end_stage("configure", "a1", [Finding("configure", "ok", "configure")])
    ledger.end_stage("configure", "a2", [Finding("configure", "fail", "configure.task_failed")])
    saved(shard, Progress("Configure", "Install Docker", {"a2": Failure("Install Docker", "no")}))
    assert note_end(shard, "ansible-playbook was killed")
    said = f"fleet run {shard.run.name}, shard r1: ansible-playbook was killed; last task: Configure: Install Docker"
    row = ledger.run(number)
    assert (row["outcome"], row["message"]) == ("stopped", f"{said}; 1 hosts were in a stage") and row["ended"]
    # what the plugins wrote stands as it was, and the stage of who was in it stays open: nothing has judged it
    assert stands(ledger) == {"a1": "passed", "a2": "failed", "a3": None}
    found = held(ledger)
    assert found["a2"] == [("configure", "configure.task_failed", "fail")]
    assert found["a3"] == [("configure", "run.ended_early", "warn")] and "run.ended_early" not in str(found["a1"])
    assert said in str(ledger.story(["a3"])[0]["findings"])


def test_it_is_noted_once_and_the_next_way_through_the_stage_clears_it(ledger: Ledger, shard: Shard) -> None:
    number = begins(ledger, shard)
    saved(shard, Progress("Configure", "Install Docker"))
    assert note_end(shard, "killed")
    begins(ledger, shard)  # another run
    for name in HOSTS:
        ledger.end_stage("configure", name, [])
    assert held(ledger) == {}
    (shard.folder / "ledger_run").write_text(str(number))
    assert not note_end(shard, "killed") and held(ledger) == {}
    # the next try is noted again
    number = begins(ledger, shard)
    saved(shard, Progress(), tries=2)
    assert note_end(shard, "killed") and ledger.run(number)["message"].endswith("killed; 3 hosts were in a stage")
    assert set(held(ledger)) == set(HOSTS)


def test_what_held_of_the_stage_before_holds_on(ledger: Ledger, shard: Shard) -> None:
    begins(ledger, shard, "smoke")
    ledger.end_stage("smoke", "a1", [Finding("gpu_count", "fail", "gpu.missing")])
    begins(ledger, shard, "smoke", ("a1",))
    saved(shard, Progress("Smoke", "Run the checks", {"a1": Failure("Run the checks", "no")}))
    note_end(shard, "killed")
    assert sorted(held(ledger)["a1"]) == [("smoke", "gpu.missing", "fail"), ("smoke", "run.task_failed", "warn")]


@pytest.mark.parametrize(
    ("asked", "outcome", "message", "noted"),
    [
        (False, "stopped", "", True),  # Ctrl-C by the kernel, whose driver was killed; a crash
        (True, "stopped", "", False),  # scripts/fleet stop
        (False, "stopped", "configure: the brake stops the run: all", False),
        (False, "broken", "", False),
        (False, "done", "", False),
    ],
)
def test_a_run_that_the_callback_closed(
    ledger: Ledger, shard: Shard, asked: bool, outcome: str, message: str, noted: bool
) -> None:
    number = begins(ledger, shard)
    ledger.end_run(number, outcome, message)
    saved(shard, Progress("Configure", "Install Docker"))
    assert note_end(shard, "killed", asked=asked) is noted
    row = ledger.run(number)
    assert row["outcome"] == outcome and (": killed; last task" in row["message"]) is noted
    assert bool(held(ledger)) is noted
    if not noted:
        assert row["message"] == message


def test_one_that_was_stopped_and_could_not_close_its_run_is_closed(ledger: Ledger, shard: Shard) -> None:
    number = begins(ledger, shard)
    saved(shard, Progress())
    assert note_end(shard, "it was stopped", asked=True)
    assert ledger.run(number)["outcome"] == "stopped" and held(ledger) == {}


def test_who_failed_outside_of_stages_is_told_until_it_goes_on(ledger: Ledger, shard: Shard) -> None:
    """Without a run in the ledger: of a playbook that has no stage."""
    failed = {"a1": Failure("Look", NO_ROUTE, unreachable=True), "a2": Failure("Look", "no")}
    saved(shard, Progress("Own", "Look", failed, finished=True))
    assert not note_end(shard, "")
    wanted = {"a1": [(RUN, "ssh.unreachable", "warn")], "a2": [(RUN, "run.task_failed", "warn")]}
    assert held(ledger) == wanted
    # the same once more, then one of them does well
    for tries, left in ((2, failed), (3, {"a1": failed["a1"]})):
        saved(shard, Progress("Own", "Look", left, finished=True), tries)
        note_end(shard, "")
        assert held(ledger) == {name: wanted[name] for name in left}
    # a run that does not come to its end tells nothing of the others; a stage that is passed does
    saved(shard, Progress("Own", "Look"), 4)
    note_end(shard, "killed")
    assert held(ledger) == {"a1": wanted["a1"]}
    ledger.begin_stage("configure", ["a1"])
    ledger.end_stage("configure", "a1", [Finding("configure", "fail", "configure.task_failed")])
    assert wanted["a1"][0] in held(ledger)["a1"]
    ledger.begin_stage("configure", ["a1"])
    ledger.end_stage("configure", "a1", [])
    assert held(ledger) == {}


def test_hosts_of_another_run_are_left_alone(ledger: Ledger, shard: Shard) -> None:
    failed = {name: Failure("Look", "no") for name in HOSTS}
    number = begins(ledger, shard)
    saved(shard, Progress("Configure", "Look", failed))
    ledger.start_run("site.yml")
    ledger.begin_stage("smoke", ["a2"])  # one has gone on meanwhile
    command = [sys.executable, "-c", f"{CLAIM}print(flush=True); sys.stdin.read()", ledger._url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:  # and one has been claimed
        assert other.stdout is not None and other.stdout.readline()
        assert note_end(shard, "killed")
        other.kill()
    assert set(held(ledger)) == {"a3"}
    assert ledger.run(number)["message"].endswith("; 1 hosts were in a stage")


def test_nothing_is_noted_in_check_mode_while_it_works_or_without_a_ledger(
    ledger: Ledger, shard: Shard, monkeypatch: Any
) -> None:
    number = begins(ledger, shard)
    saved(shard, Progress("Configure", "Look", {"a1": Failure("Look", "no")}))
    assert not note_end(Run(shard.run.folder, {**shard.run.about, "check": True}).shards[0], "killed")
    with monkeypatch.context() as patch:
        patch.setattr("firstlight.fleet.noting.locks.holder", lambda path: 4711)
        assert not note_end(shard, "killed")
    assert ledger.run(number)["ended"] is None and held(ledger) == {}
    config = next(Path(shard.run.about["inventory"]).iterdir())
    config.write_text("plugin: redfish_bmc\nledger: ../none.sqlite\n")
    with pytest.raises(FirstlightError, match="no ledger at"):
        note_end(shard, "killed")
    (shard.folder / "ledger_run").unlink()
    assert not note_end(shard, "killed") and not shard.is_noted()
    config.write_text(f"plugin: redfish_bmc\nledger: {ledger._url}\n")  # it can be used again
    (shard.folder / "ledger_run").write_text(str(number))
    assert note_end(shard, "killed") and ledger.run(number)["ended"]
