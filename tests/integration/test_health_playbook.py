"""playbooks/health.yml, scripts/health and the role health_timer on a simulated server: yes, no, yes again.

The fault is a real one, an exporter that is stopped. All checks but a few are switched off, so that this is a test of
the entry points and not of the simulated hardware. The tests tell one story and build on each other, in this order.
"""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from typing import Any

import pytest

from firstlight.checks import ALL_CHECKS
from tests.e2e.conftest import REPOSITORY, Lab

pytestmark = pytest.mark.lab
NAME, OTHER = "r1-n01", "r2-n01"
CHECKED = ("exporters", "disk_usage", "mounts_writable")
ROLES = ("node_exporter", "health_timer")
EXPORTER = "prometheus-node-exporter.service"


def write_settings(lab: Lab) -> None:
    path = lab.inventory / "group_vars" / "all" / "site.yml"
    parts = re.search(r"__stage_parts:\n((?: +- \w+\n)+)", (REPOSITORY / "playbooks" / "configure.yml").read_text())
    assert parts is not None
    skipped = [role for role in re.findall(r"\w+", parts[1]) if role not in ROLES]
    off = [
        {"check": check.name, "reason": "not of this test", "until": "2999-12-31"}
        for check in ALL_CHECKS
        if check.name not in CHECKED
    ]
    text = re.sub(r"(?m)^configure_skip:.*$", f"configure_skip: {json.dumps(skipped)}", path.read_text())
    path.write_text(f"{text}\nhost_check_skip: {json.dumps(off)}\nhost_check_expect: {{exporters: {{one: 9100}}}}\n")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Any:
    lab = Lab(tmp_path_factory.mktemp("health"), block=71)
    write_settings(lab)
    lab.environment["ANSIBLE_SSH_CONTROL_PATH_DIR"] = str(lab.folder / "cp")
    try:
        lab.command("up", "--block", "71", "--inventory-dir", str(lab.inventory), "--fleet", "2", "--sound")
        run = lab.play("site.yml", "--tags", "validate,discover,enlist,install,configure", "-l", NAME)
        assert run.status == 0, run.screen
        yield lab
    finally:
        lab.end_runs()
        lab.command("down")


def health(lab: Lab, *words: str) -> tuple[int, str, str]:
    command = [str(REPOSITORY / "scripts" / "health"), *words]
    done = subprocess.run(command, cwd=REPOSITORY, env=lab.environment, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


def on_host(lab: Lab, command: str) -> str:
    return lab.command("ssh", NAME, f"sudo sh -c '{command}'").strip()


def test_a_configured_host_is_asked_and_becomes_ready(lab: Lab) -> None:
    assert lab.host(NAME)["state"] == "configured"

    code, said, errors = health(lab, NAME)

    assert (code, said.splitlines()[0]) == (0, f"{NAME}: yes"), said + errors
    assert "warning: clock.skipped, switched off until 2999-12-31: not of this test" in said
    assert lab.host(NAME)["state"] == "ready"
    assert lab.report()["run"]["playbook"] == "health.yml"


def test_the_timer_has_left_metrics_where_the_exporter_serves_them(lab: Lab) -> None:
    assert on_host(lab, "systemctl is-active firstlight-health.timer") == "active"
    on_host(lab, "systemctl start firstlight-health.service")
    with urllib.request.urlopen("http://10.71.0.11:9100/metrics", timeout=20) as answer:
        served = answer.read().decode()
    assert "\nfirstlight_health_ready 1\n" in served
    assert (
        'firstlight_finding{action="none",check="clock",locator="",status="warn",symptom="clock.skipped"} 1' in served
    )


def test_a_fault_makes_exactly_that_host_not_ready_and_a_capture_says_so_later(lab: Lab, tmp_path: Any) -> None:
    on_host(lab, f"systemctl stop {EXPORTER}")

    code, said, errors = health(lab, NAME, "--json")

    assert code == 1, said + errors
    document = json.loads(said)
    [host] = document["hosts"]
    assert (host["name"], host["fit"], host["action"], host["state"]) == (NAME, False, "escalate", "quarantined")
    assert [reason["symptom"] for reason in host["reasons"]] == ["exporter.not_answering"]
    assert lab.host(NAME)["verdict"] == "not ready"
    code, said, errors = health(lab, "capture", NAME, str(tmp_path / "c"))
    assert code == 0, said + errors
    assert on_host(lab, "ls -d /tmp/firstlight-* 2>/dev/null || true") == ""
    on_host(lab, f"systemctl start {EXPORTER}")

    settings = tmp_path / "settings.json"
    skip = re.search(r"(?m)^host_check_skip: (.*)$", (lab.inventory / "group_vars" / "all" / "site.yml").read_text())
    assert skip is not None
    settings.write_text(json.dumps({"skip": json.loads(skip[1])}))
    code, said, errors = health(lab, "judge", str(tmp_path / "c"), "--json", "--settings", str(settings))

    assert code == 1, said + errors
    assert json.loads(said)["reasons"] == host["reasons"]


def test_the_fleet_with_one_that_is_mended_and_one_that_was_never_installed(lab: Lab) -> None:
    code, said, errors = health(lab)

    assert code == 1, said + errors
    assert f"{NAME}: yes\n" in said
    assert re.search(rf"{OTHER}: no\n +verdict.unfinished, discover was not reached", said), said
    assert lab.host(NAME)["state"] == "ready"


def test_what_cannot_be_told(lab: Lab) -> None:
    code, said, errors = health(lab, "typo")
    assert (code, said) == (2, "")
    assert errors.startswith("health: ")
    refused = lab.play("playbooks/health.yml", "-l", NAME, "-e", "tier=slow")
    assert refused.status == 1
    assert "tier 'slow' is none of quick, long" in refused.screen
    assert lab.host(NAME)["state"] == "ready"
    on_host(lab, "systemctl stop ssh.socket ssh.service; true")
    for path in (lab.folder / "cp").iterdir():  # what is connected stays so for a minute
        subprocess.run(["ssh", "-O", "exit", "-S", path, "x"], capture_output=True, timeout=20)

    code, said, errors = health(lab, NAME)

    assert code == 2, said + errors
    assert said.startswith(f"{NAME}: not told\n    ssh."), said
    assert lab.host(NAME)["state"] == "quarantined"
