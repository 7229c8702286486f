"""A policy tried on a ledger's past, and scripts/policy."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime, timedelta

import pytest

from firstlight.errors import FirstlightError
from firstlight.findings import Finding
from firstlight.ledger import store
from firstlight.ledger.store import Ledger, ledger_url
from firstlight.policy.cli import lines, main
from firstlight.policy.dryrun import dry_run
from firstlight.policy.grades import grades
from firstlight.policy.past import read_past
from firstlight.policy.settings import Policy
from firstlight.quarantine import settle
from firstlight.sitefiles import PlannedHost

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
LOST = Finding("gpu_count", "fail", "gpu.lost", "GPU 0000:1b:00.0", "Xid 79", "power_cycle")
AWAY = Finding("ssh", "fail", "ssh.unreachable", "", "no route", "power_cycle")
WELL = Finding("gpu_count", "ok", "gpu_count", "", "8 of 8")


class Story:
    """A ledger that is filled day by day."""

    def __init__(self, folder, monkeypatch, hosts):
        self.file = folder / "ledger.sqlite"
        self.day = 0.0
        self._moment = 0
        monkeypatch.setattr(store, "now", self.now)
        self.ledger = Ledger(ledger_url(str(self.file)))
        self.names = [f"n{n:02}" for n in range(hosts)]
        planned = [PlannedHost(n, "r1", i + 1, f"10.0.0.{i + 1}", "p") for i, n in enumerate(self.names)]
        self.ledger.plan("s", planned)

    def now(self):
        self._moment += 1  # no two of one day at the same time
        return (BEGIN + timedelta(days=self.day, seconds=self._moment)).isoformat(timespec="milliseconds")

    def run(self, day, found=None, stage="smoke", brake_is_on=False):
        """All hosts go through one stage; ``found``: findings by host, the others are well."""
        self.day = day
        run = self.ledger.start_run("health.yml")
        self.ledger.begin_stage(stage, self.names)
        for name in self.names:
            self.ledger.end_stage(stage, name, (found or {}).get(name, [WELL]))
        settled = settle(self.ledger, Policy(), stage, brake_is_on=brake_is_on)
        self.ledger.end_run(run, "done")
        return settled

    def same(self, settled):
        """Whether the dry run with the policy that was in force tells what came of each run."""
        told = self.told()["runs"]
        real = [(sorted(one.quarantined), one.stop and one.stop.why) for one in settled]
        stops = [run["stopped"] and run["stopped"]["why"] for run in told]
        dry = [(sorted(q["name"] for q in run["quarantined"]), stop) for run, stop in zip(told, stops, strict=True)]
        return real == dry

    def told(self, policy=None, day=29, **options):
        past = read_past(Ledger(ledger_url(str(self.file)), create=False))
        return dry_run(policy or Policy(), past, BEGIN + timedelta(days=day), **options)


@pytest.fixture
def story(tmp_path, monkeypatch):
    return Story(tmp_path, monkeypatch, 20)


def host(told, name):
    return next(h for h in told["hosts"] if h["name"] == name)


def test_who_would_have_been_quarantined_when_and_again_only_after_it_was_well(story):
    story.run(0)
    story.run(1, {"n01": [LOST]})
    story.run(2, {"n01": [LOST]})
    story.run(3)
    story.run(4, {"n01": [LOST]})
    told = story.told()
    assert [[q["name"] for q in run["quarantined"]] for run in told["runs"]] == [[], ["n01"], [], [], ["n01"]]
    one = told["runs"][1]["quarantined"][0]
    assert (one["stage"], one["symptoms"], one["locator"]) == ("smoke", ["gpu.lost"], "GPU 0000:1b:00.0")
    assert one["at"].startswith("2026-11-02")
    never = story.told(Policy(quarantine_never=("gpu.*",)))
    assert not any(run["quarantined"] for run in never["runs"])


def test_which_run_would_have_been_stopped_and_then_nobody_of_it_is_quarantined(story):
    story.run(0)
    story.run(1, {name: [AWAY] for name in story.names[:12]})
    _, run = story.told()["runs"]
    assert run["stopped"]["stage"] == "smoke"
    assert run["stopped"]["cause"] == "host"
    assert run["stopped"]["hosts"] == story.names[:12]
    assert run["quarantined"] == []
    _, run = story.told(Policy(brake_max_same_cause="60%", brake_max_quarantined="60%"))["runs"]
    assert run["stopped"] is None
    assert len(run["quarantined"]) == 12


def test_a_run_over_those_that_are_known_to_be_broken_is_not_stopped(story):
    for day in range(6):
        story.run(day, {name: [LOST] for name in story.names[: day + 1]})
    assert not any(run["stopped"] for run in story.told()["runs"])


def test_hosts_in_bring_up_fail_again_and_are_counted_again_as_the_run_did(tmp_path, monkeypatch):
    story = Story(tmp_path, monkeypatch, 40)
    first = story.run(0, {name: [LOST] for name in story.names[:4]}, "discover", brake_is_on=True)
    second = story.run(1, {name: [LOST] for name in story.names[:5]}, "discover", brake_is_on=True)
    assert (first.stop, first.quarantined) == (None, {}) and second.stop is not None
    assert story.same([first, second])


def test_who_was_out_before_does_not_count_and_stages_add_up_as_in_runs(story):
    real = [story.run(0, brake_is_on=True)]
    story.day = 1
    for name in story.names[:3]:
        story.ledger.set_state(name, "in_repair", "reprovision")
    real.append(story.run(2, {name: [LOST] for name in story.names[:7]}, brake_is_on=True))
    real.append(story.run(4, {name: [AWAY] for name in story.names[7:12]}, brake_is_on=True))
    assert [len(one.quarantined) for one in real] == [0, 4, 0] and real[2].stop is not None
    assert story.same(real)


def test_lemon_golden_and_the_next_action(story):
    for day in (5, 10, 15):
        story.run(day, {"n01": [LOST]})
        story.run(day + 1)
    story.run(17, {"n01": [LOST], "n02": [LOST]})
    told = story.told(day=24)
    graded = {one["name"]: one["grade"] for one in told["hosts"] if one["grade"]}
    assert grades(story.ledger, Policy(), BEGIN + timedelta(days=24)) == graded
    lemon, other, golden = host(told, "n01"), host(told, "n02"), host(told, "n03")
    assert (lemon["grade"], lemon["why"]) == ("lemon", "4 failures of gpu in 30 days")
    assert [(step["cause"], step["asked"], step["action"]) for step in lemon["next"]] == [
        ("gpu 0000:1b:00", "power_cycle", "replace")
    ]
    assert [(step["action"], step["why"]) for step in other["next"]] == [("power_cycle", "")]
    assert (golden["grade"], golden["next"]) == ("golden", [])
    assert told["fleet"] == {
        "hosts": 20, "ready": 18, "required": 18, "met": True, "spares": 2, "missing": 2, "for_jobs": 16,
    }  # fmt: skip
    assert list(lines({"file": "", **told}))[-1] == (
        "spares: keep 2, which leaves 16 ready hosts for jobs; 2 more must be ready to keep them beside fleet_min_ready"
    )


def test_a_host_that_was_not_reached_meanwhile_was_not_mended(story):
    for day in range(0, 12, 2):  # what was found is cleared each time that the host is not reached
        story.run(day, {"n01": [LOST]})
        story.run(day + 1, {"n01": [AWAY]})
    told = host(story.told(), "n01")
    assert told["grade"] == ""
    assert told["failures"] == 2  # one GPU, one host that is away


def test_days_leaves_out_earlier_runs(story):
    story.run(0)
    story.run(20)
    assert len(story.told(days=10)["runs"]) == 1


def test_the_command_line_reads_the_site_and_tells_people_and_programs(story, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("ANSIBLE_INVENTORY", raising=False)
    story.run(0)
    story.run(1, {"n01": [LOST]})
    site = tmp_path / "site"
    site.mkdir()
    (site / "s.redfish_bmc.yml").write_text("plugin: redfish_bmc\nledger: ../ledger.sqlite\n")
    before = story.file.read_bytes()
    assert main(["--inventory", str(site)]) == 0
    out = capsys.readouterr().out
    assert "quarantined after smoke: n01: gpu.lost GPU 0000:1b:00.0" in out
    assert "next: n01, gpu 0000:1b:00: power_cycle" in out
    assert "policy: the defaults, there is no" in out
    (site / "policy.yml").write_text("quarantine_never: [gpu.lost]\n")
    assert main(["--inventory", str(site), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["file"] == str(site / "policy.yml")
    assert not any(run["quarantined"] for run in told["runs"])
    assert story.file.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name the site's --inventory, or a --ledger"),
        (["--ledger", "/nowhere/ledger.sqlite"], "no ledger at /nowhere/ledger.sqlite"),
        (["--inventory", "/nowhere"], "no such inventory: /nowhere"),
        (["/nowhere/p.yml", "--ledger", "x"], "/nowhere/p.yml: cannot be read"),
        (["--ledger", __file__], "cannot be"),
    ],
)
def test_what_is_wrong_is_one_line_and_status_1(words, said, capsys, monkeypatch):
    monkeypatch.delenv("ANSIBLE_INVENTORY", raising=False)
    assert main(words) == 1
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (
            "UPDATE finding SET action = 'foo' WHERE id = 2",
            "row 2 of the ledger's table finding is damaged: action 'foo'",
        ),
        (
            "UPDATE finding SET last_seen = 'noon' WHERE id = 2",
            "row 2 of the ledger's table finding is damaged: Invalid",
        ),
        ("UPDATE run SET started = '2026-11-01' WHERE id = 1", "table run is damaged: '2026-11-01' has no time zone"),
        (
            "UPDATE state_change SET at = '' WHERE id = 1",
            "row 1 of the ledger's table state_change is damaged: Invalid",
        ),
        (
            "UPDATE stage_run SET started = 'x' WHERE id = 1",
            "row 1 of the ledger's table stage_run is damaged: Invalid",
        ),
        ("DELETE FROM host WHERE name = 'n01'", "is damaged: there is no host 2"),
    ],
)
def test_a_damaged_row_is_one_line(tmp_path, monkeypatch, capsys, damage, said):
    story = Story(tmp_path, monkeypatch, 3)
    story.run(0, {"n01": [LOST]})
    with sqlite3.connect(story.file) as db:
        db.execute(damage)
    db.close()
    assert main(["--ledger", str(story.file)]) == 1
    told = capsys.readouterr().err
    assert said in told and told.count("\n") == 1


def test_a_damaged_row_is_one_line_for_the_inventory_too(tmp_path, monkeypatch):
    story = Story(tmp_path, monkeypatch, 3)
    story.run(0, {"n01": [LOST]})
    with sqlite3.connect(story.file) as db:
        db.execute("UPDATE finding SET action = 'foo' WHERE symptom = 'gpu.lost'")
    db.close()
    with pytest.raises(FirstlightError, match="of the ledger's table finding is damaged: action 'foo'"):
        grades(story.ledger, Policy(), BEGIN + timedelta(days=2))
