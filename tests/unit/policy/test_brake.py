"""A run stops when it is probably not the hosts, and never because of a few that are broken."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from firstlight.findings import Finding
from firstlight.policy.brake import brake
from firstlight.policy.settings import Policy


def bad(symptom):
    return [Finding("c", "fail", symptom, "x", "", "reseat")]


def hosts(count, first=0):
    return [f"n{n:03}" for n in range(first, first + count)]


def test_the_same_failure_on_many_hosts_stops_the_run_and_says_that_it_is_not_them():
    found = {name: bad("clock.skew") for name in hosts(6)}
    stop = brake(Policy(), hosts(50), found)
    assert stop is not None
    assert (stop.cause, len(stop.hosts)) == ("clock", 6)
    assert stop.why == (
        "6 of 50 hosts have clock.skew, and brake_max_same_cause allows 5; "
        "it is probably not the hosts but what they share"
    )


def test_a_tenth_that_is_broken_in_its_own_way_each_does_not_stop_it():
    found = {name: bad(f"kind{n}.x") for n, name in enumerate(hosts(50))}
    assert brake(Policy(), hosts(500), found) is None


def test_one_cause_told_as_several_symptoms_is_one():
    told = ["gpu.lost", "gpu.missing", "xid.79", "nvlink.down"]
    found = {name: bad(told[n % 4]) for n, name in enumerate(hosts(8))}
    stop = brake(Policy(), hosts(40), found)
    assert stop is not None and stop.cause == "gpu"
    assert stop.why.startswith(
        "8 of 40 hosts have a failure of gpu (gpu.lost, gpu.missing, nvlink.down, ...), and brake_max_same_cause allows"
    )
    # what cannot be looked at, too: it is about the same part
    unseen = [Finding("c", "unknown", "gpu.timed_out", "", "", "retry")]
    assert brake(Policy(), hosts(40), {**dict.fromkeys(hosts(3), unseen), "n005": bad("gpu.lost")}) is None
    assert brake(Policy(), hosts(40), {**dict.fromkeys(hosts(4), unseen), "n005": bad("gpu.lost")}) is not None


def test_a_failed_task_is_one_cause_only_where_it_is_the_same_task():
    def failed(task):
        return [Finding("configure", "fail", "configure.task_failed", "", f"{task}: it said: no", "retry")]

    other = {name: failed(f"role_{n} : Do it") for n, name in enumerate(hosts(5))}
    assert brake(Policy(), hosts(40), other) is None
    stop = brake(Policy(), hosts(40), {name: failed("apt_cache : Install") for name in hosts(5)})
    assert stop is not None
    assert stop.why.startswith("5 of 40 hosts have configure.task_failed in apt_cache : Install, and brake_max_same")


def test_more_than_a_quarter_stops_it_whatever_they_have():
    found = {name: bad(f"kind{n % 9}.x") for n, name in enumerate(hosts(27))}
    stop = brake(Policy(), hosts(100), found)
    assert stop is not None
    assert (stop.cause, len(stop.hosts)) == ("", 27)
    assert "brake_max_quarantined allows 25" in stop.why


def test_few_hosts_never_stop_a_run():
    found = {name: bad("gpu.missing") for name in hosts(4)}
    assert brake(Policy(), hosts(6), found) is None
    assert brake(Policy(brake_min_hosts=4), hosts(6), found) is not None


def test_what_does_not_quarantine_does_not_count_nor_does_a_host_of_another_run():
    found = {name: [Finding("c", "warn", "gpu.errors")] for name in hosts(40)}
    assert brake(Policy(), hosts(50), found) is None
    assert brake(Policy(quarantine_warnings=("gpu.*",)), hosts(50), found) is not None
    others = {name: bad("gpu.missing") for name in hosts(40, first=100)}
    assert brake(Policy(), hosts(50), others) is None


@given(st.integers(1, 60), st.integers(0, 60), st.integers(0, 100), st.integers(1, 8))
def test_it_stops_just_when_more_fail_than_is_allowed(total, ill, share, least):
    ill = min(ill, total)
    policy = Policy(brake_max_same_cause=f"{share}%", brake_max_quarantined="100%", brake_min_hosts=least)
    stop = brake(policy, hosts(total), {name: bad("a.b") for name in hosts(ill)})
    assert (stop is not None) == (ill >= least and ill * 100 > share * total)
