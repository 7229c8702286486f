"""scripts/ledger: a host's story on a screen, all hosts, and the ledger out and in."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from firstlight.findings import Finding
from firstlight.ledger import parts, store
from firstlight.ledger.cli import main
from firstlight.ledger.store import Ledger, ledger_url
from firstlight.ledger.tickets import change
from firstlight.policy.settings import Policy
from firstlight.sitefiles import PlannedHost
from firstlight.tickets.now import hosts_now
from firstlight.tickets.plan import plan

ROOT = Path(__file__).parents[3]
LOST = Finding("gpu_count", "fail", "gpu.lost", "GPU 0000:1b:00.0", "Xid 79", "power_cycle")
COLD = Finding("heat", "warn", "heat.high", "GPU 3", "81 C")
WELL = Finding("gpu_count", "ok", "gpu_count", "", "8 of 8")


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.delenv("ANSIBLE_INVENTORY", raising=False)
    monkeypatch.setattr(store, "operator", lambda: "anna")
    moment = iter(range(60, 3600))
    monkeypatch.setattr(store, "now", lambda: "2026-11-01T10:{:02}:{:02}.000+00:00".format(*divmod(next(moment), 60)))
    file = tmp_path / "ledger.sqlite"
    ledger = Ledger(ledger_url(str(file)))
    ledger.plan("s", [PlannedHost(f"n{i}", "r1", i, f"10.0.0.{i}", "p", service_tag=f"TAG{i}") for i in (1, 2)])
    ledger.start_run("site.yml")
    for stage in ("discover", "enlist", "install", "configure", "smoke"):
        ledger.end_stage(stage, "n1", [WELL], seconds=2)
    ledger.end_stage("smoke", "n1", [COLD], seconds=2)
    ledger.end_stage("smoke", "n1", [LOST], seconds=2)
    ledger.set_state("n1", "quarantined", "smoke: gpu.lost")
    ledger.deed("n1", "installed on nvme0")
    monkeypatch.setattr(parts, "now", lambda: "2026-11-01T10:01:10.000+00:00")
    parts.note_part(ledger, "n1", "gpu", "GPU 0000:1b:00.0", "132", "")
    policy, at = Policy(ticket_min_action="power_cycle"), datetime(2026, 11, 1, 10, 1, 10, tzinfo=UTC)
    change(ledger, lambda known: plan(policy, known, hosts_now(ledger, policy, at), at))
    return file


def told(capsys, *words):
    assert main([*map(str, words)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def refused(capsys, *words):
    try:
        status = main([*map(str, words)])
    except SystemExit as end:
        status = end.code
    out, err = capsys.readouterr()
    assert (status, out, err.count("\n")) == (1, "", 1)
    return err


STORY = """\
n1: TAG1, rack r1 unit 1, profile p: quarantined

states
    2026-11-01 10:01:01 planned -> discovered, by anna: passed discover
    2026-11-01 10:01:02 discovered -> enlisted, by anna: passed enlist
    2026-11-01 10:01:03 enlisted -> installed, by anna: passed install
    2026-11-01 10:01:04 installed -> configured, by anna: passed configure
    2026-11-01 10:01:05 configured -> ready, by anna: passed smoke
    2026-11-01 10:01:08 ready -> quarantined, by anna: smoke: gpu.lost

stages
    2026-11-01 10:01:01 discover passed in 2.0 s (run 1, site.yml, anna)
    2026-11-01 10:01:02 enlist passed in 2.0 s (run 1, site.yml, anna)
    2026-11-01 10:01:03 install passed in 2.0 s (run 1, site.yml, anna)
    2026-11-01 10:01:04 configure passed in 2.0 s (run 1, site.yml, anna)
    2026-11-01 10:01:05 smoke passed in 2.0 s (run 1, site.yml, anna)
    2026-11-01 10:01:06 smoke passed in 2.0 s (run 1, site.yml, anna)
    2026-11-01 10:01:07 smoke failed in 2.0 s (run 1, site.yml, anna)

findings that hold
    2026-11-01 10:01:07 fail smoke gpu.lost GPU 0000:1b:00.0: Xid 79 (power_cycle)

findings that went
    2026-11-01 10:01:06, cleared 2026-11-01 10:01:07 warn smoke heat.high GPU 3: 81 C (none)

tickets
    2026-11-01 10:01:10 TAG1-gpu-1 open: power_cycle gpu 0000:1b:00; 2026-11-01 10:01:10 opened: power_cycle

parts replaced
    2026-11-01 10:01:10 gpu GPU 0000:1b:00.0: 132 -> none (run 1, site.yml, anna)

deeds
    2026-11-01 10:01:09 installed on nvme0 (run 1, site.yml, anna)
"""


@pytest.mark.parametrize("key", ["n1", "TAG1"])
def test_a_host_s_story(file, capsys, key):
    assert told(capsys, "show", key, "--ledger", file) == STORY


def test_a_story_as_json_has_everything(file, capsys):
    story = json.loads(told(capsys, "show", "n1", "--ledger", file, "--json"))
    assert (story["name"], story["service_tag"], story["state"]) == ("n1", "TAG1", "quarantined")
    counts = [len(story[key]) for key in ("changes", "stages", "findings", "tickets", "parts", "deeds")]
    assert counts == [6, 7, 7, 1, 1, 1]
    assert (story["tickets"][0]["id"], story["parts"][0]["removed"], story["held"]) == ("TAG1-gpu-1", "132", None)
    lost = next(f for f in story["findings"] if f["symptom"] == "gpu.lost")
    assert lost["run"] == {"id": 1, "playbook": "site.yml", "operator": "anna"}
    assert lost["cleared"] is None
    assert story["changes"][-1]["who"] == "anna"


def test_a_host_that_is_held_says_so(file, capsys):
    Ledger(ledger_url(str(file))).hold("n1", "waits for its board")
    assert told(capsys, "show", "n1", "--ledger", file).splitlines()[1] == (
        "    held out of use by anna: waits for its board"
    )


def test_a_long_story_fits_on_a_screen_unless_all_is_asked_for(file, capsys):
    ledger = Ledger(ledger_url(str(file)))
    for number in range(30):
        ledger.end_stage("smoke", "n1", [Finding("x", "warn", f"x.{number}")])
        ledger.deed("n1", f"deed {number}")
    short = told(capsys, "show", "n1", "--ledger", file).splitlines()
    assert len(short) < 50
    assert "deeds: 23 earlier ones: --all" in short
    assert short[-1].startswith("    ")
    assert "deed 29" in short[-1]
    everything = told(capsys, "show", "n1", "--ledger", file, "--all")
    assert all(f"deed {number}\n" in everything for number in range(30))


def test_a_hostile_text_stays_on_its_line(file, capsys):
    ledger = Ledger(ledger_url(str(file)))
    ledger.deed("n2", "\x1b[2J\nroot: ready " + "x" * 5000)
    last = told(capsys, "show", "n2", "--ledger", file).splitlines()[-1]
    assert "\x1b" not in last
    assert len(last) <= 404


def test_the_machine_that_lost_its_name_is_found_by_its_tag(file, capsys):
    Ledger(ledger_url(str(file))).identify("n1", "TAG9")
    assert told(capsys, "show", "TAG1", "--ledger", file).startswith("(its name went to another machine): TAG1, ")
    assert told(capsys, "show", "n1", "--ledger", file).startswith("n1: TAG9, ")


def test_all_hosts(file, capsys):
    lines = told(capsys, "list", "--ledger", file).splitlines()
    assert [" ".join(line.split()) for line in lines] == [
        "n1 TAG1 rack r1 unit 1 quarantined since 2026-11-01 10:01:08 against it: 1",
        "n2 TAG2 rack r1 unit 2 planned",
    ]
    assert told(capsys, "list", "--ledger", file, "--state", "planned").split()[0] == "n2"
    assert told(capsys, "list", "--ledger", file, "--state", "ready") == ""
    hosts = json.loads(told(capsys, "list", "--ledger", file, "--json", "--state", "planned", "--state", "quarantined"))
    assert [(host["name"], host["held"]) for host in hosts] == [("n1", 1), ("n2", 0)]


def test_out_and_in(file, capsys, tmp_path):
    lines = told(capsys, "export", "--ledger", file)
    (tmp_path / "lines").write_text(lines)
    new = tmp_path / "new" / "ledger.sqlite"
    assert told(capsys, "import", tmp_path / "lines", "--ledger", new) == f"{lines.count(chr(10)) - 2} rows imported\n"
    assert told(capsys, "export", "--ledger", new) == lines
    assert "the ledger is not empty" in refused(capsys, "import", tmp_path / "lines", "--ledger", new)


def test_the_ledger_of_the_site_is_found(file, capsys, tmp_path, monkeypatch):
    site = tmp_path / "site"
    site.mkdir()
    (site / "s.redfish_bmc.yml").write_text("plugin: redfish_bmc\nledger: ../ledger.sqlite\n")
    assert told(capsys, "show", "n1", "--inventory", site) == STORY
    monkeypatch.setenv("ANSIBLE_INVENTORY", str(site / "s.redfish_bmc.yml"))
    assert told(capsys, "show", "n1") == STORY


def test_what_is_wrong_is_one_line(file, capsys, tmp_path):
    (tmp_path / "no").mkdir()
    bad = tmp_path / "bad"
    bad.write_bytes(b"\xff\xfe\n")
    for words, said in (
        (["show", "n7", "--ledger", file], "knows no host with the name or service tag n7"),
        (["show", "\udcff", "--ledger", file], "knows no host with the name or service tag ?"),
        (["show", "n\0", "--ledger", file], "knows no host with the name or service tag n?"),
        (["show", "n1"], "name the site's --inventory, or a --ledger"),
        (["show", "n1", "--inventory", tmp_path / "gone"], "no such inventory"),
        (["show", "n1", "--inventory", tmp_path / "no"], "has no *.redfish_bmc.yml with ledger: in it"),
        (["show", "n1", "--ledger", tmp_path / "gone"], "no ledger at"),
        (["show", "n1", "--ledger", bad], "cannot be opened: file is not a database"),
        (["show"], "the following arguments are required: HOST"),
        (["list", "--state", "fine", "--ledger", file], "invalid choice"),
        (["import", tmp_path / "gone", "--ledger", tmp_path / "new"], "No such file or directory"),
        (["import", bad, "--ledger", tmp_path / "new"], "not UTF-8"),
        ([], "the following arguments are required: COMMAND"),
    ):
        assert said in refused(capsys, *words)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad", "ledger.sqlite", "no"]  # no half ledger


def test_the_script_reads_and_writes_pipes(file, tmp_path):
    words = [ROOT / "scripts" / "ledger"]
    out = subprocess.run([*words, "export", "--ledger", file], capture_output=True, check=True, timeout=60).stdout
    new = tmp_path / "new.sqlite"
    told = subprocess.run(
        [*words, "import", "-", "--ledger", new], input=out, capture_output=True, check=True, timeout=60,
        env={**os.environ, "LC_ALL": "C"},
    )  # fmt: skip
    assert told.stdout.endswith(b" rows imported\n")
