"""The fleet's metrics: as Prometheus takes them, and as the report has them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from firstlight import report
from firstlight.errors import FirstlightError
from firstlight.findings import Finding
from firstlight.fleetmetrics import SYMPTOMS_MAX, text, write
from firstlight.ledger.store import STAGES, STATES
from firstlight.tickets.told import add_tickets

ROOT = Path(__file__).parents[2]
BAD = Finding("gpu_count", "fail", "gpu.missing", "Video.Slot.6-1", "7 of 8", "reseat")
WARN = Finding("nic", "warn", "nic.no_link", "NIC.1")
# a series of the text format: the name, labels with \\, \" and \n escaped, a number
SERIES = re.compile(r'[a-z_]+\{([a-z]+="([^"\\\n]|\\[\\"n])*",?)*\} [0-9.e+]+')


def story(name, findings=(), state="ready", **more):
    stages = {stage: {"result": "passed", "seconds": 1.0} for stage in STAGES}
    held = [{**finding.to_dict(), "stage": "smoke", "first_seen": "2026-01-01"} for finding in findings]
    place = {"rack": "r1", "unit": 4, "service_tag": "T1", "profile": "xe9680"}
    return {"name": name, "state": state, "findings": held, "stages": stages, **place, **more}


def metrics(*stories, site="lab"):
    return text(report.build(site, stories, "50%"))


def test_states_verdicts_and_findings():
    said = metrics(
        story("n1"),
        story("n2", [BAD, WARN, Finding("gpu_count", "fail", "gpu.missing", "Video.Slot.7-1")], "quarantined"),
        story("n3", [WARN]),
    ).splitlines()
    for line in (
        'firstlight_hosts{site="lab",state="ready"} 2',
        'firstlight_hosts{site="lab",state="quarantined"} 1',
        'firstlight_hosts{site="lab",state="in_repair"} 0',
        'firstlight_hosts_ready{site="lab"} 2',
        'firstlight_policy_met{site="lab"} 1',
        'firstlight_host_state{site="lab",host="n2",rack="r1",unit="4",profile="xe9680",state="quarantined"} 1',
        'firstlight_host_ready{site="lab",host="n1",rack="r1",unit="4",profile="xe9680"} 1',
        'firstlight_host_ready{site="lab",host="n2",rack="r1",unit="4",profile="xe9680"} 0',
        'firstlight_findings{site="lab",symptom="gpu.missing",status="fail"} 1',  # hosts, not parts
        'firstlight_findings{site="lab",symptom="nic.no_link",status="warn"} 2',
    ):
        assert line in said


@pytest.mark.parametrize(("outcome", "stopped"), [("done", 0), ("stopped", 1), ("broken", 1), (None, 0)])
def test_a_run_that_did_not_go_to_its_end(outcome, stopped):
    built = report.build("lab", [story("n1")], "50%")
    assert 'firstlight_run_stopped{site="lab"} 0' in text(built).splitlines()
    built["run"] = {"id": 1, "outcome": outcome}
    assert f'firstlight_run_stopped{{site="lab"}} {stopped}' in text(built).splitlines()


PART = [  # ready of all, the run was limited to one that is or is not, met
    (99, 100, False, 1),
    (1, 61, True, 0),
    (90, 100, True, 1),
    (89, 100, True, 0),
]


def of_part(ready, of, limited_to_ready):
    broken = [story(f"bad{n}", [BAD], "quarantined") for n in range(of - ready)]
    stories = [story(f"good{n}") for n in range(ready)] + broken
    return report.build("lab", stories, "90%", judged=["good0" if limited_to_ready else "bad0"])


@pytest.mark.parametrize(("ready", "of", "limited_to_ready", "met"), PART)
def test_the_policy_is_that_of_the_whole_fleet(ready, of, limited_to_ready, met):
    built = of_part(ready, of, limited_to_ready)
    assert f'firstlight_policy_met{{site="lab"}} {met}' in text(built).splitlines()
    assert built["policy"]["met"] == limited_to_ready  # the run's own verdict stays


def test_the_alert_is_of_the_whole_fleet(tmp_path):
    tests = []
    for ready, of, limited_to_ready, met in PART:
        said = text(of_part(ready, of, limited_to_ready)).splitlines()
        (line,) = [one for one in said if one.startswith("firstlight_policy_met")]
        series, value = line.rsplit(" ", 1)
        alert = {
            "exp_labels": {"site": "lab", "severity": "warning"},
            "exp_annotations": {"summary": "lab has fewer hosts ready than its policy asks for"},
        }
        expected = [{"eval_time": "20m", "alertname": "FleetBelowPolicy", "exp_alerts": [] if met else [alert]}]
        tests.append(
            {
                "interval": "1m",
                "input_series": [{"series": series, "values": f"{value}x30"}],
                "alert_rule_test": expected,
            }
        )
    rules = str(ROOT / "monitoring/prometheus/rules/fleet.yml")
    (tmp_path / "t.yml").write_text(
        yaml.safe_dump({"rule_files": [rules], "evaluation_interval": "1m", "tests": tests})
    )
    done = subprocess.run(
        [str(ROOT / "scripts/promtool"), "test", "rules", str(tmp_path / "t.yml")],
        env={**os.environ, "LC_ALL": "C.UTF-8"}, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_open_tickets_by_action():
    told = report.build("lab", [story("n1")], "50%")
    assert "firstlight_tickets_open" not in text(told)
    add_tickets(told, [])
    assert 'firstlight_tickets_open{site="lab",action="replace"} 0' in text(told).splitlines()
    told["tickets"]["by_action"] = {"replace": 2}
    assert 'firstlight_tickets_open{site="lab",action="replace"} 2' in text(told).splitlines()


def test_every_state_is_a_series_so_that_none_ends():
    assert metrics(story("n1")).count("firstlight_hosts{") == len(STATES)


def test_hosts_cannot_make_series_without_end():
    many = [Finding("x", "fail", f"x.{number}") for number in range(SYMPTOMS_MAX + 50)]
    assert metrics(story("n1", many)).count("firstlight_findings{") == SYMPTOMS_MAX


@given(st.text(max_size=80), st.text(max_size=80), st.text(max_size=20))
def test_no_text_of_a_host_breaks_out_of_its_label(symptom, rack, site):
    found = Finding("x", "fail", symptom)
    for line in metrics(story("n1", [found], rack=rack), site=site).split("\n")[:-1]:
        assert line.startswith("# ") or SERIES.fullmatch(line), line


def test_written_whole(tmp_path):
    built = report.build("lab", [story("n1")], 1)
    write(built, tmp_path, "latest")
    assert [path.name for path in tmp_path.iterdir()] == ["latest.prom"]
    assert (tmp_path / "latest.prom").read_text() == text(built)


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    with pytest.raises(FirstlightError, match=r"the metrics cannot be written to .*none.*name another reports_dir"):
        write(report.build("lab", [story("n1")], 1), tmp_path / "none", "latest")


def test_promtool_takes_them():
    hostile = Finding("x", "fail", 'a"b\\c{d}\ne', "part")
    done = subprocess.run(
        [str(ROOT / "scripts/promtool"), "check", "metrics"],
        input=metrics(story("n1", [hostile, BAD]), story("n2"), site='si"te'),
        env={**os.environ, "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
