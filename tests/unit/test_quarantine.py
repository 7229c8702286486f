"""Who is quarantined at the end of a stage, and when nobody is because too many fail at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from firstlight.findings import Finding
from firstlight.ledger.store import STAGES, Ledger, ledger_url
from firstlight.ledger.tale import host_tale
from firstlight.policy.settings import Policy
from firstlight.quarantine import BRAKED, all_are_out, kept_by_brake, settle, settle_left
from firstlight.sitefiles import PlannedHost

OK = Finding("gpu_count", "ok", "gpu_count")
LOST = Finding("xid", "fail", "xid.79", "GPU 0000:1b:00.0", "fell off the bus", "power_cycle")
SLOW = Finding("drive_read", "fail", "drive.slow", "nvme3", "90 MB/s", "replace")
ROWS = Finding("gpu_memory", "warn", "gpu.rows_used_up", "GPU 3", "", "none")
UNIT = Finding("services", "fail", "unit.failed", "x.service", "", "retry")
POLICY = Policy()
NAMES = [f"n{number:02}" for number in range(1, 21)]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Twenty ready hosts."""
    made = Ledger(ledger_url("ledger.sqlite", tmp_path))
    made.plan("s", [PlannedHost(name, "r1", n, f"10.0.0.{n}", "xe9680") for n, name in enumerate(NAMES, 1)])
    made.start_run("site.yml")
    for name in NAMES:
        made.set_state(name, "configured", "test")
        for stage in STAGES:
            made.end_stage(stage, name, [OK])
    made.end_run(made.run_id or 0, "done")
    return made


def run(ledger: Ledger, found: dict[str, list[Finding]], stage: str = "smoke", policy: Policy = POLICY) -> None:
    """A run that lets all hosts into a stage and closes it for all."""
    ledger.start_run("smoke.yml")
    ledger.begin_stage(stage, NAMES)
    for name in NAMES:
        ledger.end_stage(stage, name, found.get(name, [OK]), quarantines=policy.quarantines)


def out(ledger: Ledger) -> list[str]:
    return [name for name, state in ledger.states().items() if state == "quarantined"]


def why(ledger: Ledger) -> list[str]:
    changes = [change for name in NAMES for change in host_tale(ledger, name)["changes"]]
    return [change["why"] for change in changes if change["after"] == "quarantined"]


def test_who_fails_is_quarantined_when_the_stage_is_settled_and_not_before(ledger):
    run(ledger, {"n01": [OK, SLOW, LOST], "n02": [SLOW]})
    assert out(ledger) == []
    settled = settle(ledger, POLICY, "smoke")
    assert settled.stop is None and out(ledger) == ["n01", "n02"]
    assert why(ledger) == ["smoke: drive.slow", "smoke: drive.slow"]  # the worst action first
    assert settle(ledger, POLICY, "smoke").quarantined == {} and len(why(ledger)) == 2


def test_too_many_of_one_cause_quarantine_nobody_and_stop_the_run(ledger):
    run(ledger, {key: [LOST] for key in NAMES[:5]} | {"n20": [SLOW]})
    settled = settle(ledger, POLICY, "smoke")
    assert settled.line().startswith(f"{BRAKED}5 of 20 hosts have xid.79, and brake_max_same_cause allows 4; ")
    assert out(ledger) == [] and settled.quarantined == {}


def test_four_are_within_the_brake(ledger):
    run(ledger, {key: [LOST] for key in NAMES[:4]})
    assert settle(ledger, POLICY, "smoke").stop is None
    assert out(ledger) == NAMES[:4]


def test_brake_false_lets_the_run_go_on_and_says_what_would_have_stopped_it(ledger):
    run(ledger, {key: [LOST] for key in NAMES[:5]})
    settled = settle(ledger, POLICY, "smoke", brake_is_on=False)
    assert settled.stop is None and settled.passed_over is not None and settled.passed_over.cause == "gpu"
    assert out(ledger) == NAMES[:5]


@pytest.mark.parametrize("before", ["quarantined", "in_repair", "held"])
def test_who_was_out_of_use_before_the_run_does_not_count(ledger, before):
    for name in NAMES[:5]:
        if before == "held":
            ledger.hold(name, "a test")
            continue
        ledger.set_state(name, before, "earlier")
    run(ledger, {key: [LOST] for key in NAMES[:9]})
    assert settle(ledger, POLICY, "smoke").stop is None  # four more than these five
    assert set(out(ledger)) >= set(NAMES[5:9])


def test_who_this_run_quarantined_counts_until_its_end(ledger):
    run(ledger, {key: [LOST] for key in NAMES[:4]})
    settle(ledger, POLICY, "smoke")
    ledger.end_stage("smoke", "n05", [LOST])
    assert settle(ledger, POLICY, "smoke").stop is not None


def test_hosts_in_bring_up_stop_a_run_too_and_keep_their_state(ledger):
    for name in NAMES:
        ledger.undo(name, "configure", "test")
    run(
        ledger,
        {key: [Finding("configure", "fail", "configure.task_failed", "", "apt", "retry")] for key in NAMES},
        "configure",
    )
    assert settle(ledger, POLICY, "configure").line().startswith(f"{BRAKED}20 of 20 hosts have configure.task_failed")
    assert set(ledger.states().values()) == {"installed"}


def test_hosts_that_are_still_in_the_stage_count_as_judged_but_not_as_failing(ledger):
    ledger.start_run("smoke.yml")
    ledger.begin_stage("smoke", NAMES)
    assert not all_are_out(ledger, "smoke")
    for name in NAMES[:4]:
        ledger.end_stage("smoke", name, [LOST])
    assert settle(ledger, POLICY, "smoke").quarantined.keys() == set(NAMES[:4])
    for name in NAMES[4:]:
        ledger.end_stage("smoke", name, [OK])
    assert all_are_out(ledger, "smoke")


def test_what_a_check_found_before_and_still_holds_quarantines_by_its_name(ledger):
    ledger.end_stage("smoke", "n01", [SLOW])
    ledger.start_run("health.yml")
    ledger.begin_stage("smoke", NAMES)
    for name in NAMES:
        ledger.end_stage("smoke", name, [OK], keep=["drive_read"])
    settle(ledger, POLICY, "smoke")
    assert out(ledger) == ["n01"] and why(ledger) == ["smoke: drive.slow"]


def test_a_symptom_that_never_quarantines_fails_the_stage_and_leaves_a_ready_host_ready(ledger):
    policy = Policy(quarantine_never=("unit.failed",))
    ledger.set_state("n02", "configured", "test")
    run(ledger, {"n01": [UNIT], "n02": [UNIT], "n03": [UNIT, SLOW]}, policy=policy)
    settle(ledger, policy, "smoke")
    assert ledger.passed("smoke", NAMES[:3]) == set()
    assert [ledger.states()[name] for name in NAMES[:3]] == ["ready", "configured", "quarantined"]


def test_a_warning_that_quarantines_keeps_a_host_out_until_it_is_gone(ledger):
    policy = Policy(quarantine_warnings=("gpu.rows_used_up",))
    ledger.set_state("n02", "configured", "test")
    for _ in range(2):
        run(ledger, {"n01": [ROWS], "n02": [ROWS]}, policy=policy)
        settle(ledger, policy, "smoke")
        assert out(ledger) == ["n01", "n02"]
    assert why(ledger) == ["smoke: gpu.rows_used_up"] * 2
    run(ledger, {}, policy=policy)
    settle(ledger, policy, "smoke")
    assert out(ledger) == []


def test_a_run_that_was_killed_before_it_settled_is_made_good_by_the_next(ledger):
    run(ledger, {"n01": [LOST], "n02": [LOST]})
    ledger.start_run("site.yml")
    assert settle_left(ledger, POLICY, ["n02", "n03"]) == {"n02": "smoke: xid.79"}  # n01 is not of this run
    assert out(ledger) == ["n02"]
    assert settle_left(ledger, POLICY, NAMES) == {"n01": "smoke: xid.79"}


@pytest.mark.parametrize("ended", [None, "stopped"])
def test_a_killed_run_that_the_brake_would_have_stopped_quarantines_nobody_however_often_one_starts(ledger, ended):
    run(ledger, {key: [LOST] for key in NAMES[:5]})
    killed: Any = ledger.run_id
    if ended:
        ledger.end_run(killed, ended, "")
    for _ in range(2):
        ledger.start_run("site.yml")
        assert settle_left(ledger, POLICY, NAMES) == {}
        assert ledger.run(killed)["outcome"] == (ended or "broken")
        assert ledger.run(killed)["message"].startswith(f"smoke: {BRAKED}5 of 20")
        for name in NAMES[:2]:  # mended since: the others must not fall under the brake by that
            ledger.end_stage("smoke", name, [OK])


def test_a_run_that_ended_left_nothing_to_be_made_good(ledger):
    run(ledger, {"n01": [LOST]})
    ledger.end_run(ledger.run_id or 0, "done")
    ledger.start_run("site.yml")
    assert settle_left(ledger, POLICY, NAMES) == {}


def test_hosts_that_the_brake_kept_are_known_until_they_are_judged_again(ledger):
    run(ledger, {key: [LOST] for key in NAMES[:5]})
    settled = settle(ledger, POLICY, "smoke")
    ledger.end_run(ledger.run_id or 0, "broken", f"smoke: {settled.line()}")
    assert kept_by_brake(ledger, NAMES) == set(NAMES[:5])
    ledger.start_run("smoke.yml")
    ledger.begin_stage("smoke", ["n01"])
    ledger.end_stage("smoke", "n01", [LOST])
    assert kept_by_brake(ledger, NAMES) == set(NAMES[1:5])


# ---------------------------------------------------------------- over the stages of a run, and over its shards


def many(tmp_path: Path, hosts: int, state: str = "ready") -> tuple[Ledger, list[str]]:
    made = Ledger(ledger_url("many.sqlite", tmp_path))
    names = [f"m{number:03}" for number in range(hosts)]
    made.plan("s", [PlannedHost(name, "r1", n, f"10.0.1.{n}", "xe9680") for n, name in enumerate(names, 1)])
    for name in names:
        made.set_state(name, state, "test")
    return made, names


def broken(number: int) -> list[Finding]:
    """Each in its own way, so that only their number counts."""
    return [Finding("c", "fail", f"kind{number}.x", "", "", "reseat")]


def test_the_brake_counts_over_all_stages_of_a_run(tmp_path):
    ledger, names = many(tmp_path, 100)
    ledger.start_run("site.yml")
    left, out, stops = list(names), 0, []
    for stage in STAGES:
        ledger.begin_stage(stage, left)
        ill = left[: len(left) // 4]
        for name in left:
            ledger.end_stage(stage, name, broken(names.index(name)) if name in ill else [OK])
        settled = settle(ledger, POLICY, stage)
        stops.append(settled.line())
        out += len(settled.quarantined)
        left = left[len(ill) :]
        if settled.stop:
            break
    assert out == 25  # as many as the policy allows for all of the run
    assert stops[0] == ""
    assert stops[1].startswith(f"{BRAKED}43 of 100 hosts fail, and brake_max_quarantined allows 25; ")
    # who went out in the first stage does not count in the next run
    ledger.start_run("site.yml")
    ledger.begin_stage("discover", names)
    for name in names:
        ledger.end_stage("discover", name, broken(1) if name in names[:25] else [OK])
    assert settle(ledger, POLICY, "discover").stop is None


def test_one_cause_counts_over_the_stages_too(tmp_path):
    ledger, names = many(tmp_path, 40)
    ledger.start_run("site.yml")
    for stage, ill in (("discover", names[:4]), ("smoke", names[4:5])):
        ledger.begin_stage(stage, names)
        for name in names:
            ledger.end_stage(stage, name, [LOST] if name in ill else [OK])
        settled = settle(ledger, POLICY, stage)
    assert settled.line().startswith(f"{BRAKED}5 of 40 hosts have xid.79")


def test_a_tenth_that_fails_at_first_in_bring_up_stops_no_run(tmp_path):
    ledger, names = many(tmp_path, 200, "planned")
    ledger.start_run("site.yml")
    left = list(names)
    for stage in STAGES:
        ledger.begin_stage(stage, left)
        ill = left[:4]
        for name in left:
            ledger.end_stage(stage, name, broken(names.index(name)) if name in ill else [OK])
        settled = settle(ledger, POLICY, stage)
        assert (settled.stop, settled.quarantined) == (None, {})
        left = left[4:]


def shard(tmp_path: Path, names: list[str], fleet_run: str = "20261201-x") -> Ledger:
    made = Ledger(ledger_url("many.sqlite", tmp_path))
    made.start_run("site.yml", fleet_run)
    made.begin_stage("configure", names)
    return made


MIRROR = Finding("apt", "fail", "apt.no_mirror", "", "no route", "retry")


def test_the_shards_of_a_fleet_run_are_one_run_for_the_brake(tmp_path):
    _, names = many(tmp_path, 40)
    racks = [names[n : n + 4] for n in range(0, 40, 4)]
    settled = []
    for rack in racks:
        ledger = shard(tmp_path, rack)
        for name in rack:
            ledger.end_stage("configure", name, [MIRROR])
        settled.append(settle(ledger, POLICY, "configure"))
    assert [len(one.quarantined) for one in settled] == [4] + [0] * 9
    assert all(one.stop for one in settled[1:])
    assert settled[1].line().startswith(f"{BRAKED}8 of 8 hosts have apt.no_mirror, and brake_max_same_cause allows 4;")
    # another fleet run, and one that is none, count for themselves
    for again in ("20261201-y", ""):
        ledger = shard(tmp_path, racks[5], again)
        for name in racks[5]:
            ledger.end_stage("configure", name, [MIRROR])
        assert settle(ledger, POLICY, "configure").stop is None


def test_two_shards_that_settle_at_the_same_moment_see_one_another(tmp_path):
    _, names = many(tmp_path, 40)
    racks = [names[n : n + 4] for n in range(0, 40, 4)]
    shards = [shard(tmp_path, rack) for rack in racks]
    at_once = threading.Barrier(10)

    def one(both: tuple[Ledger, list[str]]) -> int:
        ledger, rack = both
        at_once.wait()
        for name in rack:
            ledger.end_stage("configure", name, [MIRROR])
        return len(settle(ledger, POLICY, "configure").quarantined)

    with ThreadPoolExecutor(10) as pool:
        assert sum(pool.map(one, zip(shards, racks, strict=True))) <= 4


def test_what_a_killed_shard_left_is_not_made_good_where_the_brake_stopped_another(tmp_path):
    _, names = many(tmp_path, 12)
    killed, stopped = shard(tmp_path, names[:4]), shard(tmp_path, names[4:])
    for ledger, some in ((killed, names[:4]), (stopped, names[4:])):
        for name in some:
            ledger.end_stage("configure", name, [MIRROR])
    said = settle(stopped, POLICY, "configure").line()
    stopped.end_run(stopped.run_id or 0, "broken", f"configure: {said}")
    for name in names[4:]:
        stopped.end_stage("configure", name, [OK])  # mended
    later = Ledger(ledger_url("many.sqlite", tmp_path))
    later.start_run("site.yml")
    assert settle_left(later, POLICY, names) == {}
    assert later.run(killed.run_id or 0)["message"] == f"configure: {said}"
