"""Which files a run leaves as its report."""

from __future__ import annotations

import json

import pytest

from firstlight.errors import InputError
from firstlight.findings import Finding
from firstlight.fleet_action import write_report
from firstlight.ledger.store import STAGES, Ledger, ledger_url
from firstlight.policy.settings import Policy
from firstlight.sitefiles import PlannedHost
from firstlight.tickets.run import decide

BAD = Finding("gpu_count", "fail", "gpu.missing", "Video.Slot.6-1", "7 of 8", "reseat")


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(ledger_url("ledger.sqlite", tmp_path))
    ledger.plan("lab", [PlannedHost(f"n{n}", "r1", n, f"10.0.0.{n}", "xe9680", service_tag=f"T{n}") for n in (1, 2)])
    ledger.start_run("site.yml")
    for stage in STAGES:
        ledger.end_stage(stage, "n1", [])
    ledger.end_stage("discover", "n2", [BAD])
    return ledger


def variables(folder):
    policy = folder.parent / "policy.yml"
    policy.write_text("fleet_min_ready: 50%\nspares: 25%\n")
    return {
        "groups": {"fleet": ["n1", "n2"]}, "site": "lab", "policy_file": str(policy), "reports_dir": str(folder),
    }  # fmt: skip


def test_text_json_page_and_metrics_tell_the_same(ledger, tmp_path):
    folder = tmp_path / "reports"
    built = write_report(ledger, variables(folder), ["n1", "n2"], check=False)
    assert (built["policy"]["fleet_min_ready"], built["policy"]["met"]) == ("50%", True)
    names = ["latest.html", "latest.json", "latest.page.json", "latest.prom", "latest.txt"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert json.loads((folder / "latest.json").read_text()) == built
    page = json.loads((folder / "latest.page.json").read_text())
    assert page["counts"] == built["counts"]
    assert page["causes"] == [{"symptom": "gpu.missing", "now": 1, "lately": 1}]
    assert [stage["hosts"] for stage in page["bring_up"]] == [1] * len(STAGES)
    assert "lab: 1 of 2 hosts ready" in (folder / "latest.html").read_text()
    assert 'firstlight_hosts_ready{site="lab"} 1' in (folder / "latest.prom").read_text()
    spares = "ready 1 of 2; 1 required (50%), 1 spare wanted (25%): 1 spare missing"
    assert page["spares"] == {**built["spares"], "says": spares}
    for name in ("latest.txt", "latest.html"):
        assert spares in (folder / name).read_text()
    for line in ('firstlight_spares_wanted{site="lab"} 1', 'firstlight_spares_missing{site="lab"} 1'):
        assert line in (folder / "latest.prom").read_text().splitlines()


def test_report_page_and_ticket_tell_one_action(ledger, tmp_path):
    lost = Finding("gpu_count", "fail", "gpu.lost", "GPU 0000:1b:00.0", "GPU is lost", "power_cycle")
    site = variables(tmp_path / "reports")
    ledger.end_stage("discover", "n2", [])
    for found in ([lost], [], [lost], [], [lost]):
        ledger.end_stage("smoke", "n2", found)
    for before_its_ticket in (True, False):
        built = write_report(ledger, site, ["n1", "n2"], check=False)
        page = json.loads((tmp_path / "reports/latest.page.json").read_text())
        assert [host["action"] for host in built["hosts"]] == ["none", "replace"]
        assert [host["action"] for host in page["hosts"]] == ["none", "replace"]
        assert "Do: <b>replace</b>" in (tmp_path / "reports/latest.html").read_text()
        assert "n2: rack r1 unit 2, T2: replace\n" in (tmp_path / "reports/latest.txt").read_text()
        if before_its_ticket:
            assert [one.action for one in decide(ledger, Policy()).opened] == ["replace"]


def test_a_run_in_check_mode_leaves_no_metrics_and_says_what_it_is(ledger, tmp_path):
    folder = tmp_path / "reports"
    write_report(ledger, variables(folder), ["n1", "n2"], check=True)
    names = ["check.html", "check.json", "check.page.json", "check.txt"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert "check mode" in (folder / "check.html").read_text()


def test_without_a_policy_file_its_defaults_hold_and_a_wrong_one_is_one_line(ledger, tmp_path):
    site = variables(tmp_path / "reports")
    missing = {**site, "policy_file": str(tmp_path / "none.yml")}
    assert write_report(ledger, missing, ["n1", "n2"], check=False)["policy"]["fleet_min_ready"] == "90%"
    (tmp_path / "policy.yml").write_text("fleet_min_ready: 90%\nlemon_failures: 1\n")
    with pytest.raises(InputError, match=r"policy\.yml:2: lemon_failures: 1 is not right") as caught:
        write_report(ledger, site, ["n1", "n2"], check=False)
    assert "\n" not in str(caught.value)
