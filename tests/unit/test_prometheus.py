"""Prometheus' targets, and the alert rules as promtool judges them."""

import json
import os
import re
import runpy
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import yaml

from firstlight.checks.xid import xids
from firstlight.errors import InputError
from firstlight.fleetmetrics import text as fleet_text
from firstlight.health.metrics import text as health_text
from firstlight.prometheus import HeadNode, Scraped, file_text, targets

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "monitoring/prometheus"


def host(name, address="10.0.0.1", gpus=8):
    return Scraped(name, address, "s", "r1", "4", "xe9680", "ready", gpus)


def test_hosts_by_job():
    found = targets([host("b", "2001:db8::1"), host("a"), host("c", "", 8), host("d", "d.example.org", 0)], 9111)
    assert [group["targets"] for group in found["node"]] == [
        ["10.0.0.1:9111"],
        ["[2001:db8::1]:9111"],
        ["d.example.org:9111"],
    ]
    assert [group["targets"] for group in found["dcgm"]] == [["10.0.0.1:9400"], ["[2001:db8::1]:9400"]]
    assert found["node"][0]["labels"] == {
        "host": "a",
        "site": "s",
        "rack": "r1",
        "unit": "4",
        "profile": "xe9680",
        "ledger_state": "ready",
    }
    assert json.loads(file_text(found["node"])) == found["node"]


def test_the_order_of_hosts_does_not_matter():
    hosts = [host(name) for name in "badc"]
    assert targets(hosts) == targets(reversed(hosts))


@pytest.mark.parametrize("address", ["a b", "x/../y", '"', "a\nb"])
def test_an_address_that_is_none(address):
    with pytest.raises(InputError, match="ansible_host of a: "):
        targets([host("a", address)])


def test_a_port_that_is_none():
    with pytest.raises(InputError, match="port of job dcgm: 0 is none"):
        targets([], dcgm_port=0)


def test_a_head_node_is_in_a_job_of_its_own_and_no_host_of_the_fleet():
    found = targets(
        [host("a")], head_nodes=[HeadNode("head2", "fd00::2", 9111), HeadNode("head1", "head1.example.com")]
    )
    assert found["head_node"] == [
        {"targets": ["head1.example.com:9100"], "labels": {"host": "head1"}},
        {"targets": ["[fd00::2]:9111"], "labels": {"host": "head2"}},
    ]
    assert found["node"] == targets([host("a")])["node"]


def test_a_site_without_a_head_node_has_no_target_for_it():
    assert json.loads(file_text(targets([host("a")])["head_node"])) == []


def test_a_head_node_that_cannot_be_scraped():
    with pytest.raises(InputError, match="ansible_host of head1: "):
        targets([], head_nodes=[HeadNode("head1", "a b")])
    with pytest.raises(InputError, match="port of job head_node: 0 is none"):
        targets([], head_nodes=[HeadNode("head1", "10.0.0.1", 0)])


def promtool(*arguments, folder=MONITORING):
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    command = [str(ROOT / "scripts/promtool"), *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    if done.returncode == 127 and not os.environ.get("CI"):
        pytest.skip(done.stderr.strip())
    return done


def names(kind):
    return sorted(f"{kind}/{path.name}" for path in (MONITORING / kind).glob("*.yml"))


def test_promtool_takes_the_settings_and_the_rules():
    for arguments in (("check", "config", "--syntax-only", "prometheus.yml"), ("check", "rules", *names("rules"))):
        done = promtool(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_xids_that_wake_nobody_are_those_of_programs_and_notices():
    rules = [
        rule
        for group in yaml.safe_load((MONITORING / "rules/gpu.yml").read_text())["groups"]
        for rule in group["rules"]
    ]
    (expression,) = [rule["expr"] for rule in rules if rule["alert"] == "GpuXid"]
    left_out = {int(number) for number in re.findall(r"DCGM_FI_DEV_XID_ERRORS == ([0-9]+)", expression)}
    assert left_out == {n for n, entry in xids().items() if entry.fault == "application" or entry.status == "ok"}


def test_old_checks_are_those_of_three_intervals():
    defaults = yaml.safe_load((ROOT / "roles/health_timer/defaults/main.yml").read_text())
    minutes = int(re.fullmatch(r"([0-9]+)min", defaults["health_timer_interval"])[1])
    rules = (MONITORING / "rules/host.yml").read_text()
    old = re.search(r'firstlight_health_timestamp_seconds\{ledger_state="ready"\} > ([0-9]+)\n', rules)

    assert int(old[1]) == 3 * minutes * 60


def test_alerts_as_the_unit_tests_of_the_rules_say():
    done = promtool("test", "rules", *names("tests"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_unit_tests_of_the_rules_can_fail(tmp_path):
    for kind in ("rules", "tests"):
        (tmp_path / kind).mkdir()
    rules = (MONITORING / "rules/host.yml").read_text()
    (tmp_path / "tests/host.yml").write_text((MONITORING / "tests/host.yml").read_text())
    for right, wrong in (
        ("> 2\n", "> 200\n"),
        ('state!="online"', 'state="online"'),
        (">= 3", ">= 4"),
        ("> 0.8", "> 0"),
        ("> 1800", "> 2000"),
        ('firstlight_health_ready{ledger_state="ready"} == 0', "firstlight_health_ready == 0"),
    ):
        assert right in rules
        (tmp_path / "rules/host.yml").write_text(rules.replace(right, wrong, 1))
        assert promtool("test", "rules", "tests/host.yml", folder=tmp_path).returncode != 0, wrong


def test_every_alert_is_tried():
    for name in names("rules"):
        rules = yaml.safe_load((MONITORING / name).read_text())
        alerts = {rule["alert"] for group in rules["groups"] for rule in group["rules"]}
        tests = yaml.safe_load((MONITORING / name.replace("rules", "tests")).read_text())["tests"]
        tried = {case["alertname"] for test in tests for case in test["alert_rule_test"] if case["exp_alerts"]}
        assert tried == alerts


def rules():
    for name in names("rules"):
        for group in yaml.safe_load((MONITORING / name).read_text())["groups"]:
            yield from group["rules"]


def named_metrics(expression):
    """The metrics that an expression names: what is left of it without texts, labels, times, functions and words."""
    left = re.sub(r'"[^"]*"', "", expression)
    left = re.sub(r"\{[^}]*\}|\[[^]]*\]|\b(?:by|on|without|ignoring|group_left|group_right) *\([^)]*\)", " ", left)
    left = re.sub(r"\boffset +[0-9]+[smhdw]", " ", left)
    words = {"and", "or", "unless", "bool"}
    return {name for name in re.findall(r"(?<![\w.])[A-Za-z_]\w*\b(?! *\()", left) if name not in words}


def names_in(text):
    return set(re.findall(r"(?m)^# TYPE (\w+) ", text))


def who_serves():
    """By job the metrics of this project's own; exporters bring theirs, by their first letters."""
    report = {
        "site": "s",
        "written": "2026-01-01T00:00:00+00:00",
        "hosts": [],
        "counts": {"ready": 0},
        "spares": {"ready": 0, "required": 0, "wanted": 0, "missing": 0},
        "run": None,
        "tickets": {"by_action": {}},
    }
    cache = runpy.run_path(str(ROOT / "roles/apt_cache/files/apt_cache_metrics.py"))["metrics"]
    return {
        "firstlight_node": names_in(health_text([], ready=True, at=0, seconds=0)),
        "firstlight_dcgm": set(),
        "firstlight_head_node": names_in(fleet_text(report)) | names_in(cache(Counter())),
    }


EXPORTERS = {
    "firstlight_node": ("node_",),
    "firstlight_dcgm": ("DCGM_FI_",),
    "firstlight_head_node": ("node_",),
}


def test_each_metric_of_a_rule_is_one_that_a_job_scrapes():
    settings = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    jobs = {job["job_name"] for job in settings["scrape_configs"]}
    serves = who_serves()
    assert jobs == set(serves) == set(EXPORTERS)
    for rule in rules():
        named = named_metrics(rule["expr"])
        assert named, rule["alert"]
        assert set(re.findall(r'job="([^"]*)"', rule["expr"])) <= jobs, rule["alert"]
        for metric in named - {"up"}:
            scraped_by = [job for job in jobs if metric in serves[job] or metric.startswith(EXPORTERS[job])]
            assert scraped_by, f"{rule['alert']}: no job scrapes {metric}"


def test_the_metrics_that_an_expression_names():
    assert named_metrics('sum by (host) (rate(a_total{b="c d"}[5m])) / on (e) group_left (f) g offset 1h > 0.66') == {
        "a_total",
        "g",
    }
    assert named_metrics('time() - x{y=~"1|2"} > 1e9 unless (z == 2)') == {"x", "z"}


def test_the_head_node_s_exporter_serves_the_folder_that_its_metrics_are_written_into():
    play = yaml.safe_load((ROOT / "playbooks/head_node.yml").read_text())[0]
    included = [
        task["ansible.builtin.include_role"]["name"] for task in play["tasks"] if "ansible.builtin.include_role" in task
    ]
    assert included == ["apt_cache", "node_exporter"]
    folders = [
        yaml.safe_load((ROOT / f"roles/{role}/defaults/main.yml").read_text())[f"{role}_textfile_directory"]
        for role in ("apt_cache", "node_exporter")
    ]
    assert folders[0] == folders[1]
    # the report's are linked into it, as its documentation says
    assert f"{folders[0]}/firstlight.prom" in (ROOT / "docs/report.md").read_text()


def test_what_the_head_node_says_of_hosts_keeps_their_names():
    settings = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    assert [job["job_name"] for job in settings["scrape_configs"] if job.get("honor_labels")] == [
        "firstlight_head_node"
    ]


def test_no_alert_on_the_fleet_s_hosts_takes_a_head_node_for_one():
    """Those that look at targets, or at what the ledger says, ask for the fleet's job or a label that it alone has."""
    head = targets([], head_nodes=[HeadNode("h", "h")])["head_node"][0]["labels"]
    assert not set(head) & {"rack", "unit", "site", "profile", "ledger_state"}
    for rule in rules():
        for selector in re.findall(r"\b(?:up\b|firstlight_health_\w+)(\{[^}]*\})?", rule["expr"]):
            assert 'job="firstlight_head_node"' in selector or "ledger_state=" in selector, rule["alert"]


def test_rules_use_labels_that_targets_have():
    """``state`` is the exporters' own label: of a target it would hide that."""
    labels = targets([host("a")])["node"][0]["labels"]
    assert "state" not in labels
    settings = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    for job in settings["scrape_configs"]:
        assert job["relabel_configs"][0]["source_labels"] == ["host"]
        assert Path(job["file_sd_configs"][0]["files"][0]).stem in targets([])
