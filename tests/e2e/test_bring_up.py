"""From powered off to ready, on a lab: killed on the way, finished, run again, broken, repaired.

The tests tell one story and build on each other, in this order.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys

import pytest
import yaml

from .conftest import Run, wait_for

pytestmark = pytest.mark.timeout(1200)  # the first one builds the image and brings the lab up

GOOD = ["r1-n01", "r1-n02", "r2-n01", "r2-n02"]
NO_GPU, NO_LOGIN = "r1-n03", "r2-n03"
SCREENS: list[str] = []


def test_check_mode_on_a_fleet_that_never_ran_says_what_would_be_done_and_writes_nothing(lab):
    run = lab.play("site.yml", "--check", "--diff")
    SCREENS.append(run.screen)
    assert run.status == 0, run.screen  # enough hosts have nothing against them
    for name in GOOD:
        assert f"{name} in MAAS: + hostname: {name}" in run.screen
        assert f"would commission and deploy {name}, which is not in MAAS yet" in run.screen
    assert sum(lab.bmc_writes().values()) == lab.maas_writes() == 0
    assert not list((lab.folder / "lab").glob("ledger*"))
    left = [path.name for path in sorted(lab.reports.iterdir())]
    assert left == ["check.html", "check.json", "check.page.json", "check.txt"]


@pytest.fixture(scope="module")
def brought_up(lab) -> Run:
    """site.yml killed with SIGKILL while machines deploy, then started again."""
    first = lab.start("site.yml")
    wait_for(lambda: lab.maas_requests()["POST deploy"] >= 2, 240, "two machines to deploy")
    os.killpg(first.pid, signal.SIGKILL)
    SCREENS.append(first.communicate(timeout=30)[0])
    run = lab.play("site.yml")
    SCREENS.append(run.screen)
    return run


def test_a_killed_run_has_left_its_report_and_is_finished_by_the_next(lab, brought_up):
    assert brought_up.status == 0, brought_up.screen
    report = lab.report()
    assert report["counts"]["ready"] == 4
    assert report["policy"] == {"fleet_min_ready": "60%", "hosts": 6, "required": 4, "ready": 4, "met": True}
    assert [h["name"] for h in report["hosts"] if h["verdict"] == "ready"] == GOOD


def test_nothing_was_done_twice(lab, brought_up):
    did = lab.maas_requests()
    assert {op: did[op] for op in ("POST", "POST commission", "POST deploy")} == {
        "POST": did["POST"], "POST commission": 4, "POST deploy": 4,
    }  # fmt: skip
    assert did["POST release"] == 0
    assert len(lab.maas_machines()) == 4


def test_the_two_bad_hosts_are_named_with_symptom_part_place_evidence_and_action(lab, brought_up):
    gpu, login = lab.host(NO_GPU), lab.host(NO_LOGIN)
    assert gpu["verdict"] == login["verdict"] == "not ready"
    assert gpu["stage"] == login["stage"] == "discover"
    reason = gpu["reasons"][0]
    assert (reason["symptom"], reason["locator"], gpu["action"]) == ("gpu.missing", "Video.Slot.26-1", "reseat")
    assert "7 of 8" in reason["evidence"]
    assert (gpu["rack"], gpu["unit"], gpu["service_tag"]) == ("r1", 16, "FLB0003")
    reason = login["reasons"][0]
    assert reason["symptom"] == "bmc.auth_failed"
    assert "401" in reason["evidence"]
    assert (login["rack"], login["unit"]) == ("r2", 16)
    assert login["action"] == "escalate"


def test_every_good_host_has_its_seconds_by_stage_and_its_findings(lab, brought_up):
    for name in GOOD:
        host = lab.host(name)
        assert list(host["seconds"]) == ["discover", "enlist", "install", "configure", "smoke"]
        assert {"gpu_count", "docker", "exporters"} <= {f["check"] for f in host["findings"]}
        assert host["state"] == "ready"


def test_hosts_run_what_the_roles_promise(lab, brought_up):
    for name in GOOD:
        assert lab.command("ssh", name, "systemctl is-active docker prometheus-node-exporter chrony").split() == [
            "active", "active", "active",
        ]  # fmt: skip


def test_a_stage_alone_finds_the_hosts_that_were_just_installed(lab, brought_up):
    run = lab.play("playbooks/smoke.yml")
    SCREENS.append(run.screen)
    assert run.status == 0, run.screen
    assert set(run.changed) == set(GOOD)
    assert [lab.host(name)["verdict"] for name in GOOD] == ["ready"] * 4


def test_a_play_started_in_its_middle_passes_nobody(lab, brought_up):
    before = [lab.host(name)["seconds"].get("configure") for name in [*GOOD, NO_GPU, NO_LOGIN]]
    run = lab.play("playbooks/configure.yml", "--start-at-task", "Note the configured hosts")
    assert run.status == 0, run.screen
    lab.play("playbooks/report.yml")
    assert [lab.host(name)["seconds"].get("configure") for name in [*GOOD, NO_GPU, NO_LOGIN]] == before


HOLD = """
import sys
from pathlib import Path
from firstlight.ledger.claim import Claims
claims = Claims(Path(sys.argv[1]))
claims.take(["r1-n01", "r1-n02"])
print("taken", flush=True)
sys.stdin.read()
"""


def test_a_second_run_at_the_same_time_is_refused_by_name_and_others_go_on(lab, brought_up):
    words = [sys.executable, "-c", HOLD, str(lab.folder / "lab" / "ledger.sqlite")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout.readline() == "taken\n"
        same = lab.play("playbooks/discover.yml", "-l", f"r1-n02,{NO_GPU}")
        other = lab.play("playbooks/discover.yml", "-l", NO_GPU)
    assert same.status == 1, same.screen
    said = " ".join(same.screen.split())
    assert f"another run (process {first.pid} of " in said and ") works on r1-n02; wait for its end" in said
    assert "TASK [" not in same.screen
    assert other.status == 0, other.screen
    assert lab.play("playbooks/discover.yml", "-l", "r1-n02").status == 0


def test_the_second_run_is_silent(lab, brought_up):
    bmc, maas = lab.bmc_writes(), lab.maas_writes()
    failed_logins = lab.bmcs()[NO_LOGIN]["counters"]["failed_logins"]
    run = lab.play("site.yml")
    SCREENS.append(run.screen)
    assert run.status == 0, run.screen
    assert set(run.changed) == set(GOOD)
    assert sum(run.changed.values()) == 0, run.screen
    assert lab.bmc_writes() == bmc
    assert lab.maas_writes() == maas
    assert lab.bmcs()[NO_LOGIN]["counters"]["failed_logins"] <= failed_logins + 1
    assert all(machine["counters"]["sessions_open"] == 0 for machine in lab.bmcs().values())


def test_the_inventory_shows_the_fleet(lab, brought_up):
    listed = lab.inventory_list()
    assert sorted(listed["state_ready"]["hosts"]) == GOOD
    assert listed["bmc_auth_failed"]["hosts"] == [NO_LOGIN]
    assert sorted(listed["maas_deployed"]["hosts"]) == GOOD
    assert set(listed["rack_r1"]["hosts"]) == {"r1-n01", "r1-n02", "r1-n03"}
    for name in GOOD:
        # what a BMC or MAAS said is untrusted to Ansible, never a template
        assert listed["_meta"]["hostvars"][name]["ansible_host"]["__ansible_unsafe"].startswith("10.37.0.")


def test_check_mode_changes_nothing(lab, brought_up):
    bmc, maas, latest = lab.bmc_writes(), lab.maas_writes(), lab.report()
    lab.command("ssh", "r1-n01", "sudo rm /etc/docker/daemon.json")
    run = lab.play("site.yml", "--check", "--diff", "-l", "r1-n01")
    SCREENS.append(run.screen)
    assert run.status == 0, run.screen
    assert '+    "live-restore": true' in run.screen  # the diff shows what would be written
    assert run.changed["r1-n01"] > 0
    assert (lab.bmc_writes(), lab.maas_writes(), lab.report()) == (bmc, maas, latest)
    assert lab.command("ssh", "r1-n01", "test -e /etc/docker/daemon.json || echo gone").strip() == "gone"


def test_a_limit_works_on_one_host_and_judges_it_alone(lab, brought_up):
    run = lab.play("site.yml", "-l", "r1-n01")
    SCREENS.append(run.screen)
    assert run.status == 0, run.screen
    assert set(run.changed) == {"r1-n01"}
    assert run.changed["r1-n01"] > 0  # daemon.json is back
    report = lab.report()
    assert len(report["hosts"]) == 6
    assert report["policy"]["hosts"] == report["policy"]["required"] == 1
    run = lab.play("site.yml", "-l", NO_GPU)
    assert run.status == 2, run.screen


def test_tags_run_a_part_and_record_no_stage(lab, brought_up):
    before = lab.host("r1-n01")["seconds"]
    run = lab.play("site.yml", "--tags", "node_exporter", "-l", "r1-n01")
    assert run.status == 0, run.screen
    assert "TASK [node_exporter : Hand over what was found]" in run.screen
    assert "TASK [docker_engine : Write Docker's settings]" not in run.screen
    assert lab.host("r1-n01")["seconds"] == before


def test_a_fault_quarantines_exactly_that_host_and_its_repair_brings_it_back(lab, brought_up):
    lab.command("fault", "r2-n01", "gpu_missing", "on", "gpu=2")
    run = lab.play("site.yml", ANSIBLE_FLUSH_CACHE="1")
    assert run.status == 2, run.screen
    host = lab.host("r2-n01")
    assert (host["state"], host["reasons"][0]["symptom"]) == ("quarantined", "gpu.missing")
    assert lab.report()["counts"]["ready"] == 3
    lab.command("fault", "r2-n01", "gpu_missing", "off")
    lab.command("fault", NO_GPU, "gpu_missing", "off")
    run = lab.play("site.yml", "--flush-cache")
    assert run.status == 0, run.screen
    assert lab.host("r2-n01")["state"] == "ready"
    assert lab.host(NO_GPU)["state"] == "ready"
    assert lab.report()["counts"]["ready"] == 5


def test_an_interrupted_run_leaves_its_report(lab, brought_up):
    process = lab.start("site.yml")
    wait_for(lambda: lab.report()["run"].get("outcome") is None, 240, "the run to begin its report")
    os.kill(process.pid, signal.SIGINT)
    screen, _ = process.communicate(timeout=240)
    assert lab.report()["run"]["outcome"] == "stopped", screen
    assert "Traceback" not in screen


def test_maas_away_stops_the_run_with_one_line_and_nothing_is_half_done(lab, brought_up):
    state = lab.report()["hosts"]
    lab.maas_failing(on=True)
    try:
        run = lab.play("site.yml", "--flush-cache")
    finally:
        lab.maas_failing(on=False)
    assert run.status == 1, run.screen
    assert "the run broke: validate: " in run.screen
    assert "Traceback" not in run.screen
    assert lab.report()["run"]["outcome"] == "broken"
    assert [h["state"] for h in lab.report()["hosts"]] == [h["state"] for h in state]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("profile: xe9680", "profile: xe9860"), "unknown profile 'xe9860'; known are xe9680"),
        (("name: r1-n02", "name: r1-n01"), "name r1-n01 is already taken by r1-n01"),
        (("127.37.1.12", "127.37.1.11"), "BMC address 127.37.1.11:8443 is already taken by r1-n01"),
        (("unit: 10", "unit: 4"), "place rack r1 unit 4 is already taken by r1-n01"),
        (("unit: 10", "units: 10"), "units"),
    ],
)
def test_a_wrong_fleet_file_is_one_line_with_file_and_line(lab, change, said):
    path = lab.inventory / "fleet.yml"
    right = path.read_text()
    try:
        path.write_text(right.replace(*change, 1) if change[0] != "profile: xe9680" else right.replace(*change))
        run = lab.play("site.yml")
    finally:
        path.write_text(right)
    assert run.status == 1, run.screen
    lines = [line for line in run.screen.splitlines() if said in line]
    assert len(lines) == 1, run.screen
    assert "fleet.yml:" in lines[0]
    assert "PLAY [" not in run.screen


@pytest.mark.parametrize(
    ("added", "said"),
    [
        ("a: [1\n", "site.yml:"),
        ("install_max_parallel: 0\n", "install_max_parallel is 0; it must be a whole number of 1 or more"),
        ('install_distro_series: "{{ nosuch }}"\n', "install_distro_series of r1-n01: 'nosuch' is undefined"),
        ("reports_dir: /proc/none\n", "the report cannot be written to /proc/none: No such file or directory"),
    ],
)
def test_a_wrong_setting_is_one_line_and_starts_nothing(lab, brought_up, added, said):
    path = lab.inventory / "group_vars" / "all" / "site.yml"
    right, writes = path.read_text(), lab.maas_writes()
    try:
        path.write_text(f"{right}\n{added}")
        run = lab.play("site.yml")
    finally:
        path.write_text(right)
    assert run.status == 1, run.screen
    assert said in next(line for line in run.screen.splitlines() if "the run broke: " in line)
    assert "Traceback" not in run.screen
    assert "PLAY [Discover]" not in run.screen
    assert lab.maas_writes() == writes


def test_a_missing_secret_is_one_line(lab, brought_up):
    path = lab.inventory / "group_vars" / "all" / "secrets.yml"
    kept = path.read_bytes()
    try:
        path.unlink()
        run = lab.play("site.yml", "--flush-cache")
    finally:
        path.write_bytes(kept)
    assert run.status == 1, run.screen
    assert "maas_api_key is missing" in run.screen
    assert "ansible-vault create" in run.screen


def test_no_secret_is_anywhere_but_in_the_vault(lab, brought_up):
    config = yaml.safe_load((lab.folder / "lab" / "lab.json").read_text())
    secrets = [config["bmc"]["password"], *config["maas"]["api_key"].split(":")]
    assert len(secrets) == 4
    texts = {f"screen {i}": screen for i, screen in enumerate(SCREENS)}
    texts |= {str(p): p.read_text() for p in lab.reports.rglob("*") if p.is_file()}
    texts |= {str(p): p.read_text(errors="replace") for p in (lab.folder / "cache").rglob("*") if p.is_file()}
    with sqlite3.connect(lab.folder / "lab" / "ledger.sqlite") as db:
        texts["ledger"] = "\n".join(db.iterdump())
    assert len(texts) > 5
    for where, text in texts.items():
        for secret in secrets:
            assert secret not in text, where
