"""What a run does about tickets, on a real ledger: opened once, told once, closed when mended; nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest

from firstlight.bmc.control import Change
from firstlight.bmc.errors import Refused, Unreachable
from firstlight.errors import FirstlightError
from firstlight.findings import Finding
from firstlight.ledger.store import STAGES, Ledger, ledger_url
from firstlight.ledger.tickets import delivering, tickets
from firstlight.policy.settings import Policy
from firstlight.sitefiles import PlannedHost
from firstlight.tickets.locator import set_lights
from firstlight.tickets.now import hosts_now
from firstlight.tickets.run import tell, work

LOST = Finding("gpus", "fail", "gpu.missing", "Video.Slot.26-1", "7 of 8", "reseat")
FLAKY = Finding("link", "fail", "hca.no_link", "HCA mlx5_3 port 1", "Down", "reboot")
POLICY = Policy()


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(ledger_url("ledger.sqlite", tmp_path))
    hosts = [PlannedHost(f"n{i}", "r1", i, f"10.0.0.{i}", "p", service_tag=f"TAG{i}") for i in (1, 2, 3)]
    made.plan("lab", hosts)
    made.start_run("site.yml")
    return made


@pytest.fixture
def site(tmp_path):
    return {"policy_file": str(tmp_path / "policy.yml"), "reports_dir": str(tmp_path / "reports")}


def told(folder):
    return sorted(path.name for path in (folder / "reports" / "tickets").glob("*"))


def test_opened_once_told_once_and_closed_when_it_was_mended(ledger, site, tmp_path):
    ledger.end_stage("discover", "n1", [LOST])
    first = work(ledger, site, POLICY)
    assert first.problems == []
    assert first.line() == f"tickets: 1 opened; 1 open, in {tmp_path}/reports/tickets"
    (file,) = (tmp_path / "reports" / "tickets").iterdir()
    before = (file.name, file.stat().st_mtime_ns)
    again = work(ledger, site, POLICY)
    assert again.line() == f"tickets: 1 open, in {tmp_path}/reports/tickets"
    assert (file.name, file.stat().st_mtime_ns) == before == ("TAG1-gpu-1.md", before[1])
    ledger.end_stage("discover", "n1", [])
    assert work(ledger, site, POLICY).line() == f"tickets: 1 closed; 0 open, in {tmp_path}/reports/tickets"
    assert "state | closed" in file.read_text()
    assert work(ledger, site, POLICY).line() == ""


def test_in_check_mode_nothing_happens(ledger, site, tmp_path):
    ledger.end_stage("discover", "n1", [LOST])
    assert tell(ledger, site, POLICY, check=True) == []
    assert (tickets(ledger), (tmp_path / "reports").exists()) == ([], False)


def test_only_hosts_of_this_run_are_looked_at_and_none_that_the_brake_kept(ledger, site):
    for name in ("n1", "n2", "n3"):
        ledger.end_stage("discover", name, [LOST])
    assert tell(ledger, site, POLICY, check=False, names=["n1", "n2"], stopped={"n2"}) == []
    assert [t.host for t in tickets(ledger)] == ["n1"]


def test_what_came_again_within_days_is_a_ticket_with_the_next_action(ledger, site):
    for findings in ([FLAKY], [], [FLAKY]):
        ledger.end_stage("smoke", "n1", findings)
    made = work(ledger, site, POLICY).made
    assert made.opened == []  # power_cycle is done from afar
    for _ in range(2):
        ledger.end_stage("smoke", "n1", [])
        ledger.end_stage("smoke", "n1", [FLAKY])
    (opened,) = work(ledger, site, POLICY).made.opened
    assert (opened.action, opened.why) == ("replace", "reseat was tried within 14 days and did not last")
    (host,) = hosts_now(ledger, POLICY, datetime.now(UTC))
    assert (host.grade.grade, host.grade.kind) == ("lemon", "hca")


def test_tickets_of_a_machine_that_was_exchanged_are_closed(ledger, site):
    ledger.end_stage("discover", "n1", [LOST])
    work(ledger, site, POLICY)
    ledger.identify("n1", "NEW1")
    assert work(ledger, site, POLICY, names=["n2"]).made.all() == []
    (closed,) = work(ledger, site, POLICY, names=["n1"]).made.all()
    assert (closed.id, closed.state) == ("TAG1-gpu-1", "closed")
    assert closed.history[-1].what == "closed: its machine has this name no more"
    ledger.end_stage("discover", "n1", [LOST])
    assert [t.id for t in work(ledger, site, POLICY).made.opened] == ["NEW1-gpu-1"]


def test_a_ticket_from_before_the_tag_was_known_goes_over_to_its_machine(ledger, site):
    ledger.plan("lab", [PlannedHost("n4", "r1", 4, "10.0.0.4", "p")])
    ledger.end_stage("discover", "n4", [LOST])
    work(ledger, site, POLICY)
    ledger.identify("n4", "TAG3")  # the machine that was n3, which the ledger knows
    ledger.end_stage("discover", "n4", [LOST])
    made = work(ledger, site, POLICY).made
    assert [(t.id, t.service_tag, t.state) for t in made.all()] == [("n4-gpu-1", "TAG3", "open")]
    assert work(ledger, site, POLICY).made.all() == []


def test_the_past_is_read_as_far_back_as_the_policy_looks(ledger):
    for findings in ([FLAKY], [], [FLAKY]):
        ledger.end_stage("smoke", "n1", findings)
    now = datetime.now(UTC)
    (host,) = hosts_now(ledger, POLICY, now)
    assert [failure.action for failure in host.earlier] == ["reboot"]
    assert host.results == {"smoke": "failed"}
    (later,) = hosts_now(ledger, POLICY, now + timedelta(days=61))
    assert (later.earlier, len(later.held)) == ((), 1)


def test_a_host_that_nothing_is_held_against_is_not_read(ledger):
    for stage in STAGES:
        ledger.end_stage(stage, "n1", [Finding("x", "ok", "x")])
    assert hosts_now(ledger, POLICY, datetime.now(UTC)) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [("outputs: 7", "tickets.yml:1: outputs: 7 must be a list"),
     ("outputs:\n  - folder: file/x", "file/x: Not a directory"),
     ("outputs:\n  - webhook: {url: 'https://x', token_from: NOT_THERE}", "NOT_THERE is not set")],
)  # fmt: skip
def test_what_goes_wrong_with_telling_is_a_line_and_the_ticket_is_there(ledger, site, tmp_path, text, said):
    (tmp_path / "file").write_text("")
    (tmp_path / "tickets.yml").write_text(text)
    ledger.end_stage("discover", "n1", [LOST])
    (problem,) = tell(ledger, site, POLICY, check=False)
    assert problem.startswith("tickets: ")
    assert said in problem
    assert "\n" not in problem
    assert [t.id for t in tickets(ledger)] == ["TAG1-gpu-1"]
    (tmp_path / "tickets.yml").unlink()
    assert tell(ledger, site, POLICY, check=False) == []
    assert told(tmp_path) == ["TAG1-gpu-1.md"]


@pytest.mark.parametrize(
    ("output", "template", "said"),
    [
        ("mail: {host: x, sender: a@x, recipients: [b@x], ca_file: none.pem}", None, "none.pem: No such file"),
        ('mail: {host: x, sender: "a@x\\nb", recipients: [b@x]}', None, "sender: 'a@x b' is no address"),
        ("webhook: {url: 'https://[::1/x'}", None, "its host is none"),
        ("webhook: {url: 'https://x', template: self.j2}", '{% extends "self.j2" %}', "it extends itself"),
        ("webhook: {url: 'https://x', token_from: FIRSTLIGHT_TEST_TOKEN}", None, "is not one line of"),
    ],
)
def test_an_output_that_cannot_work_holds_up_no_other(ledger, site, tmp_path, monkeypatch, output, template, said):
    monkeypatch.setenv("FIRSTLIGHT_TEST_TOKEN", "S3CRET\nx")
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "self.j2").write_text(template or "")
    (tmp_path / "tickets.yml").write_text(f"templates: words\noutputs:\n  - {output}\n  - folder: reports/tickets\n")
    ledger.end_stage("discover", "n1", [LOST])
    (problem,) = tell(ledger, site, POLICY, check=False)
    assert said in problem
    assert "S3CRET" not in problem
    assert "\n" not in problem
    assert told(tmp_path) == ["TAG1-gpu-1.md"]


@pytest.mark.parametrize("broken", ["decide", "make_outputs", "settings_of"])
def test_whatever_is_raised_breaks_no_run(ledger, site, monkeypatch, broken):
    def raises(*_, **__):
        raise RecursionError("S3CRET")

    monkeypatch.setattr(f"firstlight.tickets.run.{broken}", raises)
    ledger.end_stage("discover", "n1", [LOST])
    (problem,) = tell(ledger, site, POLICY, check=False)
    assert problem.startswith("tickets: RecursionError at run.py:")
    assert "S3CRET" not in problem


def test_a_ledger_that_cannot_be_read_breaks_no_run(ledger, site):
    with ledger._engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE ticket RENAME TO other")
    (problem,) = tell(ledger, site, POLICY, check=False)
    assert "no such table: ticket" in problem


KILLED = """
import sys
from firstlight.ledger.store import Ledger
from firstlight.policy.settings import Policy
from firstlight.tickets import run, outputs

def killed(*_):
    print("saved", flush=True)
    sys.stdin.read()

run.deliver = killed
run.tell(Ledger(sys.argv[1]), {"policy_file": sys.argv[2], "reports_dir": sys.argv[3]}, Policy(), check=False)
"""


def test_a_kill_between_saving_and_telling_loses_nothing(ledger, site, tmp_path):
    ledger.end_stage("discover", "n1", [LOST])
    url = ledger._engine.url.render_as_string()
    words = [sys.executable, "-c", KILLED, url, site["policy_file"], site["reports_dir"]]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "saved\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdin.close()
    process.stdout.close()
    assert not (tmp_path / "reports").exists()
    assert work(ledger, site, POLICY).made.all() == []
    assert told(tmp_path) == ["TAG1-gpu-1.md"]


AT_ONCE = """
import sys
from firstlight.ledger.store import Ledger
from firstlight.policy.settings import Policy
from firstlight.tickets.run import tell
site = {"policy_file": sys.argv[2], "reports_dir": sys.argv[3]}
for problem in tell(Ledger(sys.argv[1]), site, Policy(), check=False):
    print(problem)
"""


def test_runs_that_end_at_once_open_none_twice(ledger, site, tmp_path):
    for name in ("n1", "n2", "n3"):
        ledger.end_stage("discover", name, [LOST])
    words = [sys.executable, "-c", AT_ONCE, ledger._engine.url.render_as_string(), *site.values()]
    running = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate(timeout=300)[0] for process in running] == ["", "", ""]
    assert sorted(t.id for t in tickets(ledger)) == ["TAG1-gpu-1", "TAG2-gpu-1", "TAG3-gpu-1"]
    assert [t.version for t in tickets(ledger)] == [1, 1, 1]
    assert len(told(tmp_path)) == 3


def test_one_process_tells_at_a_time_and_a_kill_gives_the_lock_back(ledger):
    url = ledger._engine.url.render_as_string()
    hold = (
        "import sys; from firstlight.ledger.store import Ledger; from firstlight.ledger.tickets import delivering\n"
        "with delivering(Ledger(sys.argv[1])):\n    print('held', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", hold, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    begun = time.monotonic()
    with pytest.raises(FirstlightError, match="another process is telling"), delivering(ledger, seconds=0.3):
        pass
    assert time.monotonic() - begun < 20
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdin.close()
    process.stdout.close()
    with delivering(ledger, seconds=20):
        pass


# ---------------------------------------------------------------- the locator light


class Lights:
    """BMCs: by host whether it is lit; away: those that do not answer."""

    def __init__(self):
        self.lit, self.away, self.asked = {}, {}, []

    def __call__(self, wanted):
        self.asked.append(dict(wanted))
        told = {}
        for name, lit in wanted.items():
            told[name] = self.away.get(name) or Change(True, "", "")
            if name not in self.away:
                self.lit[name] = lit
        return told


def test_a_light_is_on_while_somebody_has_to_go_there(ledger, site):
    lights = Lights()
    fan = Finding("fans", "fail", "fan.failed", "Fan 3", "0 rpm", "replace")
    driver = Finding("driver", "fail", "gpu.driver_missing", "", "none", "escalate")
    ledger.end_stage("discover", "n1", [LOST, fan])
    ledger.end_stage("smoke", "n2", [driver])
    tell(ledger, site, POLICY, check=False)
    assert set_lights(ledger, ["n1", "n2"], lights) == []
    assert lights.lit == {"n1": True}  # a driver is no matter of hands
    assert set_lights(ledger, ["n1", "n2"], lights) == []
    assert len(lights.asked) == 1  # whoever put it out meanwhile is left alone
    ledger.end_stage("discover", "n1", [fan])
    tell(ledger, site, POLICY, check=False)
    set_lights(ledger, ["n1"], lights)
    assert lights.lit == {"n1": True}  # one is left
    ledger.end_stage("discover", "n1", [])
    tell(ledger, site, POLICY, check=False)
    set_lights(ledger, ["n1"], lights)
    assert lights.lit == {"n1": False}


def test_a_bmc_that_is_away_is_asked_again_and_one_without_a_light_is_not(ledger, site):
    lights = Lights()
    lights.away = {"n1": Unreachable("connect: timed out"), "n2": Refused("GET /x: tells of no locator light")}
    for name in ("n1", "n2", "n3"):
        ledger.end_stage("discover", name, [LOST])
    tell(ledger, site, POLICY, check=False)
    (line,) = set_lights(ledger, ["n1", "n2"], lights)
    assert line == "the locator light of n1, n2 was not switched: connect: timed out"
    lights.away = {}
    assert set_lights(ledger, ["n1", "n2"], lights) == []
    assert lights.asked == [{"n1": True, "n2": True}, {"n1": True}]  # n3 is of another run
