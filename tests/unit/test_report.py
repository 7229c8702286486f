"""The report: who is ready, why not, and whether the policy is met."""

from __future__ import annotations

import json

import pytest

from firstlight import report
from firstlight.errors import FirstlightError, InputError
from firstlight.findings import Finding
from firstlight.ledger.store import STAGES
from firstlight.policy import required_ready
from firstlight.policy.ready import spares_left, spares_line

GOOD = Finding("gpu_count", "ok", "gpu_count", evidence="8 of 8")
BAD = Finding("gpu_count", "fail", "gpu.missing", "Video.Slot.6-1", "7 of 8 GPUs", "reseat")


def story(name, *, stages=STAGES, findings=(GOOD,), failed=None, state="ready"):
    ran = {stage: {"result": "failed" if stage == failed else "passed", "seconds": 1.5} for stage in stages}
    held = [{**f.to_dict(), "stage": stages[-1], "first_seen": "2026-01-01"} for f in findings]
    return {
        "name": name, "rack": "r1", "unit": 4, "service_tag": "FLB0001", "profile": "xe9680", "state": state,
        "findings": held, "stages": ran,
    }  # fmt: skip


def test_a_host_that_passed_everything_is_ready():
    host = report.host_report(story("n1"))
    assert (host["verdict"], host["stage"], host["reasons"], host["action"]) == ("ready", "smoke", [], "none")


def test_a_failed_host_has_its_reason_and_one_action():
    host = report.host_report(story("n1", stages=("discover",), findings=[GOOD, BAD], failed="discover"))
    assert (host["verdict"], host["stage"], host["action"]) == ("not ready", "discover", "reseat")
    assert host["reasons"][0] == BAD.to_dict()


@pytest.mark.parametrize(
    ("stages", "evidence"),
    [((), "discover was not reached"), (("discover", "enlist"), "install was not reached")],
)
def test_a_host_that_did_not_come_to_the_end_is_not_ready_without_any_finding(stages, evidence):
    told = story("n1", stages=stages, findings=()) if stages else {**story("n1"), "stages": {}, "findings": []}
    host = report.host_report(told)
    assert host["verdict"] == "not ready"
    assert host["reasons"][0]["evidence"] == evidence


def test_a_stage_that_was_killed_is_not_ready():
    told = story("n1")
    told["stages"]["smoke"]["result"] = None
    host = report.host_report(told)
    assert host["reasons"][0]["evidence"] == "smoke was begun and not ended"


def test_a_stage_that_was_undone_is_not_ready_and_says_why():
    told = story("n1")
    told["stages"]["install"]["result"] = "undone"
    host = report.host_report(told)
    assert (host["verdict"], host["stage"]) == ("not ready", "install")
    assert host["reasons"][0]["evidence"] == "install was undone: the machine was released"


@pytest.mark.parametrize(
    ("state", "held", "said"),
    [
        ("quarantined", "anna: noisy fan", "held: anna: noisy fan; playbooks/readmit.yml -e host=n1 gives it back"),
        ("in_repair", None, "in repair; playbooks/reprovision.yml -e host=n1 brings it back"),
        ("quarantined", None, "quarantined until it passes smoke without what quarantined it"),
    ],
)
def test_a_host_that_is_out_of_use_is_never_ready_and_says_why(state, held, said):
    told = {**story("n1", state=state), "held": held}
    built = report.build("s", [told], "100%")
    assert (built["counts"]["ready"], built["policy"]["met"]) == (0, False)
    assert [(r["symptom"], r["evidence"]) for r in built["hosts"][0]["reasons"]] == [("verdict.out_of_use", said)]
    assert said in " ".join(report.text(built).split())


def test_who_holds_a_host_comes_before_what_was_found():
    host = report.host_report({**story("n1", findings=[BAD], state="quarantined"), "held": "anna: noisy fan"})
    assert [reason["symptom"] for reason in host["reasons"]] == ["verdict.out_of_use", "gpu.missing"]
    assert (host["held"], host["action"]) == ("anna: noisy fan", "reseat")
    quarantined = report.host_report(story("n1", findings=[BAD], state="quarantined"))
    assert [reason["symptom"] for reason in quarantined["reasons"]] == ["gpu.missing"]


def test_what_keeps_hosts_out_of_use_is_no_failure_that_they_have_in_common():
    built = report.build("s", [{**story(f"n{n}"), "held": "anna: moving"} for n in range(9)], "0%")
    assert built["common"] == []


def test_warnings_do_not_keep_a_host_from_being_ready():
    warn = Finding("nic", "warn", "nic.no_link", "NIC.Embedded.1-1-1")
    assert report.host_report(story("n1", findings=[GOOD, warn]))["verdict"] == "ready"


@pytest.mark.parametrize(
    ("policy", "hosts", "required"),
    [("60%", 6, 4), ("100%", 6, 6), ("0%", 6, 0), (4, 6, 4), ("4", 6, 4), (9, 6, 6), ("90%", 500, 450), ("70%", 10, 7)],
)
def test_required_ready(policy, hosts, required):
    assert required_ready(policy, hosts) == required


@pytest.mark.parametrize("policy", ["most", "101%", "-1", "", 0.6, None])
def test_a_policy_that_cannot_be_read_is_one_line(policy):
    with pytest.raises(InputError, match="write a count like 450 or a share"):
        required_ready(policy, 6)


def test_the_policy_is_judged_on_the_hosts_of_the_run():
    stories = [story("n1"), story("n2", findings=[BAD])]
    whole = report.build("lab", stories, "100%")
    part = report.build("lab", stories, "100%", judged=["n1"])
    assert (whole["policy"]["met"], part["policy"]["met"]) == (False, True)
    assert part["counts"] == {
        "hosts": 2, "ready": 1, "not_ready": 1, "by_state": {"ready": 2}, "by_symptom": {"gpu.missing": 1},
    }  # fmt: skip
    assert "1 of the 1 in this run" in report.summary(part)


def test_the_table_and_the_details_name_host_place_part_evidence_and_action():
    shown = report.text(report.build("lab", [story("n1", findings=[BAD])], 1), width=150)
    line = next(line for line in shown.splitlines() if "FLB0001" in line)
    for said in ("n1", "r1/4", "FLB0001", "not ready", "gpu.missing Video.Slot.6-1", "reseat", "1.5"):
        assert said in line
    assert "n1: rack r1 unit 4, FLB0001: reseat\n    gpu.missing, Video.Slot.6-1, 7 of 8 GPUs (reseat)" in shown


@pytest.mark.parametrize("width", [120, 150, 200])
def test_no_width_hides_a_reason_or_cuts_a_name(width):
    name = "gpu-rack12-node034"
    lost = Finding("nvme", "fail", "nvme.failed", "Disk.Bay.3:Enclosure.Internal.0-1", "Critical " * 40, "replace")
    shown = report.text(report.build("lab", [story(name, findings=[lost], state="quarantined")], 1), width=width)
    line = next(line for line in shown.splitlines() if "FLB0001" in line)
    for said in (name, "r1/4", "not ready", "nvme.failed", "replace", "1.5"):
        assert said in line
    assert "…" not in shown
    assert all(len(line) <= width for line in shown.splitlines())
    details = shown[shown.index(f"{name}: rack") :].splitlines()[1:-2]
    assert all(line.startswith("    ") for line in details if line)


def test_hosts_that_are_ready_have_no_details():
    shown = report.text(report.build("lab", [story("n1")], 1), width=150)
    assert "rack r1 unit 4" not in shown


def test_evidence_cannot_style_the_table():
    evil = Finding("x", "fail", "x.y", evidence="[bold]not markup[/bold]")
    assert "[bold]not markup[/bold]" in report.text(report.build("lab", [story("n1", findings=[evil])], 1), width=250)


def test_written_whole_and_readable(tmp_path):
    built = report.build("lab", [story("n1")], 1)
    report.write(built, tmp_path / "reports")
    assert json.loads((tmp_path / "reports" / "latest.json").read_text()) == built
    assert "1 of 1 hosts ready" in (tmp_path / "reports" / "latest.txt").read_text()
    assert sorted(p.name for p in (tmp_path / "reports").iterdir()) == ["latest.json", "latest.txt"]


def test_a_service_tag_can_neither_style_nor_steer_the_screen():
    told = {**story("n1", findings=[BAD]), "service_tag": "[red]\x1b[2J{{ x }}\nFLB" + "9" * 300}
    shown = report.text(report.build("lab", [told], 1), width=250)
    assert "[red]?[2J{{ x }} FLB999" in shown
    assert "\x1b" not in shown
    assert "9" * 60 not in shown


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "reports").write_text("in the way")
    with pytest.raises(FirstlightError, match=r"the report cannot be written to .*reports.*name another reports_dir"):
        report.write(report.build("lab", [story("n1")], 1), tmp_path / "reports")


def test_the_policy_could_be_met_by_hosts_that_only_have_stages_before_them():
    waiting = {**story("n1", stages=("discover",)), "name": "n1"}
    built = report.build("lab", [waiting, {**story("n2", findings=[BAD]), "name": "n2"}], 1)
    assert not built["policy"]["met"]
    assert report.could_be_met(built, ["n1", "n2"])
    assert not report.could_be_met(built, ["n2"])


# ---------------------------------------------------------------- the same failure on many hosts


def fleet(*racks, stages=STAGES):
    """A sound host for each letter of ``racks``, which is its rack: n00, n01, ..."""
    return [{**story(f"n{n:02}", stages=stages), "rack": rack} for n, rack in enumerate(racks)]


def held(told, *found):
    return {**told, "findings": [{**f.to_dict(), "stage": "smoke", "first_seen": "2026-01-01"} for f in found]}


def skewed(n):
    return Finding("clock", "fail", "clock.not_synchronised", evidence=f"Not synchronised, host {n}", action="wait")


def with_clock(stories, numbers):
    return [held(told, skewed(n)) if n in numbers else told for n, told in enumerate(stories)]


def common(stories, judged=None):
    return report.build("lab", stories, "0%", judged=judged)["common"]


@pytest.mark.parametrize(
    ("hosts", "failed", "is_common"),
    [
        ("abcdef", 2, False),  # two can be chance, whatever share they are
        ("abcdef", 3, True),
        ("a" * 3, 3, True),
        ("abcdefghij" * 50, 99, False),
        ("abcdefghij" * 50, 100, True),
        ("abcdefghijklmnop", 3, False),
    ],
)
def test_a_failure_is_common_where_enough_hosts_and_a_share_of_them_have_it(hosts, failed, is_common):
    entries = common(with_clock(fleet(*hosts), range(failed)))
    assert [(e["symptom"], e["count"], e["of"]) for e in entries] == (
        [("clock.not_synchronised", failed, len(hosts))] if is_common else []
    )


def test_two_faults_of_a_lab_of_six_are_two_faults():
    other = Finding("bmc", "fail", "bmc.auth_failed", "BMC 10.0.0.1")
    stories = fleet(*"aaabbb")
    assert common([held(stories[0], BAD), held(stories[1], other), *stories[2:]]) == []
    assert common([held(told, BAD if n % 2 else other) for n, told in enumerate(stories[:4])]) == []


def test_what_a_common_failure_says():
    stories = [held(told, skewed(n), BAD) if n < 4 else told for n, told in enumerate(fleet(*"aabbcc"))]
    clock, gpu = common(stories)
    assert clock == {
        "check": "clock", "symptom": "clock.not_synchronised", "task": "", "action": "wait",
        "hosts": ["n00", "n01", "n02", "n03"], "racks": ["a", "b"], "count": 4, "of": 6,
        "evidence": "Not synchronised, host 0",
        "says": "probably not the hosts, but what they share: network, mirror, image, time server, a setting of the "
        "site",
    }  # fmt: skip
    assert (gpu["symptom"], gpu["action"], gpu["evidence"]) == ("gpu.missing", "reseat", "Video.Slot.6-1, 7 of 8 GPUs")


def test_all_in_one_rack_names_the_rack():
    [entry] = common(with_clock(fleet(*"aaaabbbb"), {4, 5, 7}))
    assert (entry["racks"], entry["says"].split(";")[0]) == (["b"], "all of them in rack b")


def test_the_only_rack_is_not_the_cause():
    [entry] = common(with_clock(fleet(*"bbbb"), {0, 1, 3}))
    assert entry["says"].startswith("probably not the hosts, but what they share: network")


def test_a_rack_is_common_though_it_is_a_small_part_of_the_fleet():
    stories = fleet(*"a" * 100, *"bbbb", *"cccccc", *"dddd")
    [entry] = common(with_clock(stories, {0, 1, 2, 3, 100, 101, 103, 104, 105, 106, 110, 111}))
    assert (entry["racks"], entry["count"], entry["of"]) == (["b", "c"], 6, 10)
    assert entry["says"].startswith("most hosts of racks b, c have it; ")
    assert common(with_clock(stories, {0, 1, 2, 3, 100, 101, 104, 105})) == []


def test_the_share_is_of_the_hosts_that_came_as_far():
    behind = fleet(*"x" * 50, stages=("discover",))
    early = [{**told, "name": f"early-{told['name']}"} for told in behind]
    assert common(early + with_clock(fleet(*"abcde"), {0, 1, 2}))[0]["of"] == 5
    assert common([*with_clock(early, {0}), *with_clock(fleet(*"abcde"), {0, 1})]) == []


def test_only_hosts_of_the_run_count_and_stages_to_come_are_no_failure():
    stories = with_clock(fleet(*"abcdef"), {0, 1, 2})
    assert common(stories, judged=["n02", "n03", "n04"]) == []
    assert common(fleet(*"abcdef", stages=("discover",))) == []


def test_tasks_that_failed_are_the_same_failure_only_where_it_is_the_same_task():
    def failed(task):
        return Finding("configure", "fail", "configure.task_failed", evidence=f"{task}: no message", action="retry")

    several = [held(told, failed(f"task {n}")) for n, told in enumerate(fleet(*"abcdef"))]
    one = [held(told, failed("Install chrony")) for told in fleet(*"abcdef")]
    assert common(several) == []
    assert [(e["task"], e["count"]) for e in common(one)] == [("Install chrony", 6)]


def test_a_common_failure_is_shown_once_and_its_hosts_are_named():
    stories = [held(told, skewed(n), BAD) if n == 0 else told for n, told in enumerate(fleet(*"aabbcc"))]
    shown = report.text(report.build("lab", with_clock(stories[1:], range(4)) + stories[:1], "0%"), width=150)
    lines = shown.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("clock.not_synchronised on 5 of 6 hosts: probably"))
    assert lines[at + 1 : at + 3] == [
        "    n01 says: Not synchronised, host 0",
        "    n01, n02, n03, n04, n00",
    ]
    assert shown.count("Not synchronised, host") == 1
    details = lines[lines.index("n00: rack a unit 4, FLB0001: reseat") :]
    assert details[1:3] == [
        "    gpu.missing, Video.Slot.6-1, 7 of 8 GPUs (reseat)",
        "    clock.not_synchronised, as on 5 hosts (wait)",
    ]


def test_a_common_failure_of_hundreds_names_some_and_fits_the_screen():
    built = report.build("lab", with_clock(fleet(*"ab" * 250), range(400)), "0%")
    shown = report.text(built, width=120)
    assert " and 360 more" in shown
    assert len(built["common"][0]["hosts"]) == 400
    assert all(len(line) <= 120 for line in shown.splitlines())


def test_hosts_that_were_in_no_run_are_told():
    built = report.build("lab", [story("n1")], 1, fleet=["n3", "n1", "n2"])
    assert built["not_seen"] == ["n2", "n3"]
    assert "1 of 1 hosts ready; policy fleet_min_ready=1 (1 of 1) met; 2 more of the fleet were in no run yet" in (
        report.summary(built)
    )


@pytest.mark.parametrize(
    ("fleet_min_ready", "spares", "ready", "line"),
    [
        ("85%", "10%", 430, "ready 430 of 500; 425 required (85%), 50 spares wanted (10%): 45 spares missing"),
        (425, 50, 474, "ready 474 of 500; 425 required, 50 spares wanted: 1 spare missing"),
        ("85%", "10%", 475, ""),
        ("85%", "10%", 300, "ready 300 of 500; 425 required (85%), 50 spares wanted (10%): 50 spares missing"),
        ("90%", "15%", 500, ""),  # 525 hosts there are not
        ("90%", "15%", 499, "ready 499 of 500; 450 required (90%), 50 spares wanted (15%): 1 spare missing"),
        ("100%", "0%", 0, ""),
    ],
)
def test_spares_are_ready_hosts_beyond_those_that_are_required(fleet_min_ready, spares, ready, line):
    assert spares_line(spares_left(fleet_min_ready, spares, 500, ready)) == line


def test_missing_spares_are_told_of_the_whole_fleet_and_do_not_fail_the_policy():
    stories = [story(f"n{n}") for n in range(9)] + [story("n9", findings=[BAD])]
    built = report.build("lab", stories, "80%", judged=["n1"], spares="20%")
    assert built["policy"]["met"]
    assert built["spares"] == {
        "spares": "20%", "wanted": 2, "missing": 1, "fleet_min_ready": "80%", "required": 8, "hosts": 10, "ready": 9,
    }  # fmt: skip
    *_, spares, last = report.text(built, width=150).splitlines()
    assert spares == "ready 9 of 10; 8 required (80%), 2 spares wanted (20%): 1 spare missing"
    assert "policy fleet_min_ready=80% (1 of 1) met" in last
    assert "spare" not in report.text(report.build("lab", stories, "80%", spares="10%"), width=150)
