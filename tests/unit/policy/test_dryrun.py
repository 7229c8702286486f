"""A policy tried on a ledger's past, and scripts/policy."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from firstlight.findings import Finding
from firstlight.ledger import store
from firstlight.ledger.store import Ledger, ledger_url
from firstlight.policy.cli import main
from firstlight.policy.dryrun import dry_run
from firstlight.policy.past import read_past
from firstlight.policy.settings import Policy
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

    def run(self, day, found=None, stage="smoke"):
        """All hosts go through one stage; ``found``: findings by host, the others are well."""
        self.day = day
        run = self.ledger.start_run("health.yml")
        self.ledger.begin_stage(stage, self.names)
        for name in self.names:
            self.ledger.end_stage(stage, name, (found or {}).get(name, [WELL]))
        self.ledger.end_run(run, "done")

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
    story.run(0, {name: [AWAY] for name in story.names[:12]})
    (run,) = story.told()["runs"]
    assert run["stopped"]["stage"] == "smoke"
    assert run["stopped"]["symptom"] == "ssh.unreachable"
    assert run["stopped"]["hosts"] == story.names[:12]
    assert run["quarantined"] == []
    (run,) = story.told(Policy(brake_max_same_cause="60%", brake_max_quarantined="60%"))["runs"]
    assert run["stopped"] is None
    assert len(run["quarantined"]) == 12


def test_a_run_over_those_that_are_known_to_be_broken_is_not_stopped(story):
    for day in range(6):
        story.run(day, {name: [LOST] for name in story.names[: day + 1]})
    assert not any(run["stopped"] for run in story.told()["runs"])


def test_lemon_golden_and_the_next_action(story):
    for day in (5, 10, 15):
        story.run(day, {"n01": [LOST]})
        story.run(day + 1)
    story.run(17, {"n01": [LOST], "n02": [LOST]})
    told = story.told(day=24)
    lemon, other, golden = host(told, "n01"), host(told, "n02"), host(told, "n03")
    assert (lemon["grade"], lemon["why"]) == ("lemon", "4 failures of gpu in 30 days")
    assert [(step["cause"], step["asked"], step["action"]) for step in lemon["next"]] == [
        ("gpu 0000:1b:00", "power_cycle", "replace")
    ]
    assert [(step["action"], step["why"]) for step in other["next"]] == [("power_cycle", "")]
    assert (golden["grade"], golden["next"]) == ("golden", [])
    assert told["fleet"] == {"hosts": 20, "ready": 18, "required": 18, "met": True, "spares": 3, "for_jobs": 15}


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
    story.run(0, {"n01": [LOST]})
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
    assert told["runs"][0]["quarantined"] == []
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
