"""Which files a run leaves as its report."""

from __future__ import annotations

import json

import pytest

from firstlight.findings import Finding
from firstlight.fleet_action import write_report
from firstlight.ledger.store import STAGES, Ledger, ledger_url
from firstlight.sitefiles import PlannedHost

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
    return {"groups": {"fleet": ["n1", "n2"]}, "site": "lab", "fleet_min_ready": "50%", "reports_dir": str(folder)}


def test_text_json_page_and_metrics_tell_the_same(ledger, tmp_path):
    folder = tmp_path / "reports"
    built = write_report(ledger, variables(folder), ["n1", "n2"], check=False)
    names = ["latest.html", "latest.json", "latest.page.json", "latest.prom", "latest.txt"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert json.loads((folder / "latest.json").read_text()) == built
    page = json.loads((folder / "latest.page.json").read_text())
    assert page["counts"] == built["counts"]
    assert page["causes"] == [{"symptom": "gpu.missing", "now": 1, "lately": 1}]
    assert [stage["hosts"] for stage in page["bring_up"]] == [1] * len(STAGES)
    assert "lab: 1 of 2 hosts ready" in (folder / "latest.html").read_text()
    assert 'firstlight_hosts_ready{site="lab"} 1' in (folder / "latest.prom").read_text()


def test_a_run_in_check_mode_leaves_no_metrics_and_says_what_it_is(ledger, tmp_path):
    folder = tmp_path / "reports"
    write_report(ledger, variables(folder), ["n1", "n2"], check=True)
    names = ["check.html", "check.json", "check.page.json", "check.txt"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert "check mode" in (folder / "check.html").read_text()
