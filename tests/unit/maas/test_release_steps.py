"""Which machines release gives back, in which steps, and which it never touches."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from firstlight.errors import InputError
from firstlight.findings import Finding
from firstlight.maas.release import release_options
from firstlight.maas.release_steps import Releasing, find, judge, next_step

HOST = Releasing("r1-n01", ("02:aa:00:00:01:01", "02:aa:00:00:01:02"), "FLB0001")


def machine(status=6, **changes):
    return {
        "system_id": "abc123",
        "hostname": "r1-n01",
        "status": status,
        "owner": "us",
        "power_state": "off",
        "interface_set": [{"mac_address": "02:AA:00:00:01:02"}],
        "tag_names": ["firstlight"],
        "description": "rack r1 unit 4, service tag FLB0001 [power 0123456789abcdef]",
        "locked": False,
        **changes,
    }


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (0, "done"), (4, "done"), (2, "done"), (22, "done"),
        (6, "release"), (10, "release"), (5, "release"), (11, "release"), (13, "release"), (15, "release"),
        (1, "abort"), (9, "abort"), (21, "abort"),
        (12, "wait"), (14, "wait"),
        (3, "fail"), (7, "fail"), (8, "fail"), (16, "fail"), (99, "fail"),
    ],
)  # fmt: skip
def test_what_comes_next(status, kind):
    assert next_step(machine(status), "us").kind == kind


@pytest.mark.parametrize("status", range(23))
@pytest.mark.parametrize(
    ("change", "symptom"),
    [
        ({"locked": True}, "maas.locked"),
        ({"tag_names": []}, "maas.foreign"),
        ({"tag_names": ["db"], "locked": True}, "maas.foreign"),
        ({"owner": "them"}, "maas.foreign"),
    ],
)
def test_locked_and_foreign_machines_are_never_touched(status, change, symptom):
    step = next_step(machine(status, **change), "us")
    assert step.kind == "fail" and step.finding.symptom == symptom
    assert "r1-n01 (abc123)" in step.finding.evidence


def test_nobody_is_us_when_maas_did_not_say_who_we_are():
    assert next_step(machine(), "").finding.symptom == "maas.foreign"


def test_ready_with_its_power_on_is_not_done_yet_if_we_released_it():
    assert next_step(machine(4, owner=None, power_state="on"), "us", began=True).kind == "wait"
    assert next_step(machine(4, owner=None, power_state="on"), "us").kind == "done"
    assert next_step(machine(4, owner=None, power_state="unknown"), "us", began=True).kind == "done"


def symptom_of(host, *machines):
    found = find(host, machines)
    assert isinstance(found, Finding) and "nothing was done" in found.evidence
    return found.symptom


def test_a_machine_is_found_by_mac():
    other = machine(system_id="def456", hostname="r1-n02", interface_set=[{"mac_address": "02:bb:00:00:00:01"}])
    assert find(HOST, [other, machine()])["system_id"] == "abc123"
    assert find(HOST, [other]) is None
    assert symptom_of(HOST, machine(hostname="r1-n02")) == "maas.name_conflict"
    assert symptom_of(HOST, machine(), machine(system_id="def456", hostname="owl")) == "maas.duplicate"


def test_by_name_alone_it_is_found_where_nothing_speaks_against_it():
    no_nic = machine(interface_set=[])
    assert find(Releasing("r1-n01"), [no_nic])["system_id"] == "abc123"  # its BMC is dead: no MAC is known
    assert find(HOST, [no_nic])["system_id"] == "abc123"  # the service tag says it
    assert symptom_of(Releasing("r1-n01", (), "FLB0777"), no_nic) == "maas.name_conflict"
    assert symptom_of(Releasing("r1-n01", HOST.macs), machine(interface_set=[], description="")) == "maas.name_conflict"


def event(kind, text="", level="INFO"):
    return {"type": kind, "description": text, "level": level}


def test_why_it_did_not_become_ready():
    events = [
        event("Failed to power off node", "Power off for the node failed: no answer", "ERROR"),
        event("Releasing"),
        event("Marking node failed", "from an earlier time", "ERROR"),
    ]
    found = judge(machine(13), events, "it is failed_releasing again", "release.failed")
    assert (found.symptom, found.action) == ("release.power_failed", "reset_bmc")
    assert "no answer" in found.evidence
    found = judge(machine(12), events[1:], "still releasing after 15 minutes", "release.timed_out")
    assert (found.symptom, found.action) == ("release.timed_out", "retry")
    assert "earlier" not in found.evidence


@given(
    st.dictionaries(
        st.sampled_from(["status", "owner", "locked", "tag_names", "interface_set", "hostname", "description"]),
        st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.none() | st.text() | st.integers()),
    )
)
def test_whatever_maas_says_is_judged(changes):
    assume(changes.get("tag_names") != ["firstlight"])
    strange = machine(**changes)
    step = next_step(strange, "us")
    assert step.kind in ("wait", "abort", "release", "done", "fail")
    if "tag_names" in changes:
        assert step.kind == "fail"
    find(HOST, [strange])
    judge(strange, [changes], "said", "release.failed")


def options(**settings):
    return release_options(settings.get)


def test_options():
    assert options().limit() == 15 and options(release_erase="quick").limit() == 45
    assert options(release_minutes="3.5", release_erase="secure").limit() == 3.5
    assert release_options({}.get, erase="quick").erase == "quick"


@pytest.mark.parametrize(
    "settings",
    [
        {"release_erase": "all"},
        {"release_minutes": 0},
        {"release_minutes": True},
        {"release_max_parallel": 0},
        {"release_poll_seconds": "soon"},
        {"release_outage_minutes": -1},
    ],
)
def test_wrong_options_are_one_line(settings):
    with pytest.raises(InputError, match=next(iter(settings))) as caught:
        options(**settings)
    assert "\n" not in str(caught.value)
