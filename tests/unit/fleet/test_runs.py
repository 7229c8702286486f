"""The folder of a run, and who works on its shards."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firstlight.errors import InputError
from firstlight.fleet import cli, locks
from firstlight.fleet.cli import main
from firstlight.fleet.drive import Driver
from firstlight.fleet.runs import FLEET_RUN, Run, all_runs, find_run, new_run, refuse_busy
from firstlight.fleet.watch import exit_status, follow, line, run_line, worst

HOLD = "import sys; from pathlib import Path; from firstlight.fleet.locks import hold; hold(Path(sys.argv[1])); "


@pytest.fixture
def run(tmp_path: Path) -> Run:
    site = tmp_path / "site"
    site.mkdir()
    (site / "x.redfish_bmc.yml").write_text("plugin: redfish_bmc\nledger: ../ledger.sqlite\n")
    (tmp_path / "runs").mkdir()
    about = {"playbook": "/p/site.yml", "inventory": str(site), "check": False}
    return new_run(tmp_path / "runs", about, {"r1": ["a1", "a2"], "r2": ["b1"]})


@pytest.fixture
def works(run: Run) -> Iterator[subprocess.Popen[str]]:
    """A process that drives shard r1."""
    command = [sys.executable, "-c", f"{HOLD}print('held', flush=True); sys.stdin.read()"]
    with subprocess.Popen(
        [*command, str(run.shards[0].runner_lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_how_a_shard_stands(run: Run, works: subprocess.Popen[str]) -> None:
    one, two = run.shards
    assert one.state() == {"state": "running", "pid": works.pid, "hosts": 2}
    two.save(outcome="done", rc=2)
    assert two.state() == {"state": "done", "pid": 0, "hosts": 1, "outcome": "done", "rc": 2}
    works.kill()
    works.wait()
    one.save(play="Install")
    assert one.state()["state"] == "died"


def test_a_lock_outlasts_exec_and_not_its_process(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    become = f"{HOLD.replace('argv[1])', 'argv[1]), through_exec=True')}import os; os.execvp('cat', ['cat'])"
    with subprocess.Popen([sys.executable, "-c", become, str(lock)], stdin=subprocess.PIPE) as process:
        while Path(f"/proc/{process.pid}/comm").read_text() != "cat\n":
            pass
        assert locks.holder(lock) == process.pid
        assert locks.hold(lock) is None
        process.kill()
    assert locks.holder(lock) == 0


def test_the_same_hosts_are_refused_while_a_run_goes_on(run: Run, works: subprocess.Popen[str]) -> None:
    inventory = run.about["inventory"]
    with pytest.raises(InputError, match=rf"run {run.name}, shard r1 \(process {works.pid}\) works on a2; wait"):
        refuse_busy(run.folder.parent, {"a2", "b1"}, inventory)
    refuse_busy(run.folder.parent, {"b1", "c1"}, inventory)
    refuse_busy(run.folder.parent, {"a2"}, "/another/site")
    works.kill()
    works.wait()
    refuse_busy(run.folder.parent, {"a2"}, inventory)


def test_runs_are_found_by_name_and_the_last_by_default(run: Run) -> None:
    runs = run.folder.parent
    second = new_run(runs, run.about, {"../r1 x": ["a1"], "__": [], "..r1 x": ["a2"]})
    assert second.name not in (run.name, "") and list(second.about["shards"]) == ["_r1_x", "__", "r1_x"]
    (runs / "half-made").mkdir()
    assert [r.name for r in all_runs(runs)] == sorted([run.name, second.name])
    assert find_run(runs, run.name).about == run.about
    assert find_run(runs, None).name == max(run.name, second.name)
    for name, folder in (("none", runs), (None, runs / "half-made")):
        with pytest.raises(InputError, match="no run"):
            find_run(folder, name)
    (run.folder / "run.json").write_text("{")
    with pytest.raises(InputError, match=r"run\.json cannot be read"):
        all_runs(runs)


def test_a_run_of_check_mode_has_no_number_in_the_ledger(run: Run) -> None:
    shard = run.shards[0]
    (shard.folder / "ledger_run").write_text("1")
    assert shard.ledger_run() == 1
    run.about["check"] = True
    assert shard.ledger_run() is None


@pytest.mark.parametrize(
    ("state", "rc", "status"),
    [
        ("done", 0, 0),
        ("done", 2, 2),
        ("done", 4, 2),
        ("done", 1, 1),
        ("done", 250, 1),
        ("stopped", 99, 1),
        ("died", 0, 1),
    ],
)
def test_exit_status_of_a_shard(state: str, rc: int, status: int) -> None:
    assert exit_status({"state": state, "rc": rc}) == status


def test_the_worst_of_several() -> None:
    met: dict[str, Any] = {"state": "done", "rc": 0}
    assert [worst([met, {**met, "rc": rc}]) for rc in (0, 2, 1)] == [0, 2, 1]
    assert worst([met, {**met, "rc": 2}, {"state": "died"}]) == 1


def test_a_run_is_followed_to_its_end(
    run: Run, works: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = run.shards
    two.save(outcome="done", rc=0)
    one.save(play="Enlist", task="Make MAAS hold them")
    steps = iter([lambda: None, lambda: one.save(play="Install", task="a"), lambda: one.save(play="Install", task="b")])
    tidied = []

    def sleep(seconds: float) -> None:
        step = next(steps, None)
        if step is None:
            works.kill()
            works.wait()
        else:
            step()

    monkeypatch.setattr("firstlight.fleet.watch.time.sleep", sleep)
    assert follow(run, tidied.append) == 1
    assert tidied == [run]
    # a line where something is new; the task alone is not
    assert capsys.readouterr().out.splitlines() == [
        "r1: running; 2 planned; Enlist: Make MAAS hold them",
        "r2: done, met (exit status 0); 1 planned",
        "r1: running; 2 planned; Install: a",
        "r1: died; 2 planned; last in Install: b",
        "r2: done, met (exit status 0); 1 planned",
    ]


def test_lines_for_people(run: Run) -> None:
    state = {
        "state": "running",
        "started": "2026-01-08T10:00:00+00:00",
        "ended": "2026-01-08T11:02:03+00:00",
        "play": "Install",
        "task": "Install them",
        "failed": {"a1": {"task": "Install them"}},
    }
    states = {"a1": "installing", "a2": "installed", "b1": "ready"}
    assert line("r1", state, ["a1", "a2", "a3"], states) == (
        "r1: running, 1:02:03; 1 planned, 1 installing, 1 installed; 1 of 3 hosts failed a task; Install: Install them"
    )
    ended = {**state, "state": "done", "rc": 2, "failed": {}}
    assert line("r1", ended, ["b1"], states) == "r1: done, not met (exit status 2), 1:02:03; 1 ready"
    run.shards[0].save(outcome="done", rc=0)
    assert run_line(run) == f"{run.name}  site.yml, 3 hosts, 2 shards: 1 done, 1 died; exit status 1"


@pytest.mark.parametrize(
    "text", ["{}", "[]", '{"playbook": "p", "inventory": "i", "check": false, "shards": {"r1": "a1"}}', "{"]
)
def test_a_damaged_run_is_one_line(run: Run, text: str, capsys: Any) -> None:
    (run.folder / "run.json").write_text(text)
    for command in ("list", "status", "watch"):
        assert main([command, "--runs", str(run.folder.parent)]) == 1
        told = capsys.readouterr().err
        assert f"{run.folder / 'run.json'}" in told and told.count("\n") == 1


def test_a_file_is_no_folder_of_runs(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "file").write_text("")
    assert main(["list", "--runs", str(tmp_path / "file")]) == 1
    assert capsys.readouterr().err == f"fleet: {tmp_path / 'file'} is no folder\n"


def test_shards_that_are_started_together_have_a_name_in_common_for_the_ledger(run: Run, monkeypatch: Any) -> None:
    began: list[list[str]] = []

    class Process:
        def __init__(self, command: list[str], **_: Any) -> None:
            began.append(command)
            for shard in run.shards:
                shard.save(started="now")

        def poll(self) -> None:
            return None

    monkeypatch.setattr(cli.subprocess, "Popen", Process)
    for which in (run.shards, run.shards[:1]):  # started, and one of them resumed
        cli._drive(which)
    one, two, again = (command[-1] for command in began)
    assert one == two != again and one.startswith(f"{run.name}-") and len(one) <= 64


def test_the_last_event_before_a_long_task_is_saved(run: Run, tmp_path: Path, monkeypatch: Any) -> None:
    driver, clock = Driver(run.shards[0], tmp_path, ""), [100.0]
    monkeypatch.setattr("firstlight.fleet.drive.time.monotonic", lambda: clock[0])
    for task in ("Look", "Install"):  # one right after the other
        driver._event({"event": "playbook_on_task_start", "event_data": {"task": task}})
    assert run.shards[0].saved()["task"] == "Look"
    clock[0] += 1.5
    assert driver._goes_on() is False
    assert run.shards[0].saved()["task"] == "Install"
    (run.shards[0].folder / "state.json").unlink()
    clock[0] += 1.5
    driver._goes_on()
    assert run.shards[0].saved() == {}  # nothing is new


def test_the_playbook_learns_that_name(run: Run, tmp_path: Path, monkeypatch: Any) -> None:
    more = {"extra": [], "tags": "", "skip_tags": "", "forks": None, "limit": None}
    shard = Run(run.folder, {**run.about, **more, "playbook": str(tmp_path / "p.yml")}).shards[0]
    (tmp_path / "p.yml").write_text("")
    monkeypatch.setattr(os, "environ", dict(os.environ))
    assert Driver(shard, tmp_path, "20261201-000000-ab")._config().env[FLEET_RUN] == "20261201-000000-ab"
