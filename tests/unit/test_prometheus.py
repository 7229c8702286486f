"""Prometheus' targets, and the alert rules as promtool judges them."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from firstlight.checks.xid import xids
from firstlight.errors import InputError
from firstlight.prometheus import Scraped, file_text, targets

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


def test_rules_use_labels_that_targets_have():
    """``state`` is the exporters' own label: of a target it would hide that."""
    labels = targets([host("a")])["node"][0]["labels"]
    assert "state" not in labels
    settings = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    for job in settings["scrape_configs"]:
        assert job["relabel_configs"][0]["source_labels"] == ["host"]
        assert Path(job["file_sd_configs"][0]["files"][0]).stem in targets([])
