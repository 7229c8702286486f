"""The next step for each of MAAS's statuses, and the reasons read from its events."""

import pytest

from firstlight.maas import machines as m
from firstlight.maas.reasons import Look
from firstlight.maas.reasons import judge as judge_look
from firstlight.maas.steps import next_step


def judge(phase, machine, events, minutes=None):
    return judge_look(phase, machine, Look(events), minutes)


def machine(status, **more):
    return {
        "system_id": "abc123",
        "hostname": "r1-n01",
        "status": status,
        "tag_names": ["firstlight"],
        "status_message": "said so",
        **more,
    }


@pytest.mark.parametrize(
    ("status", "retries", "kind", "symptom"),
    [
        (m.NEW, 1, "commission", None),
        (m.COMMISSIONING, 1, "wait", None),
        (m.FAILED_COMMISSIONING, 1, "commission", None),
        (m.FAILED_COMMISSIONING, 0, "fail", None),
        (m.MISSING, 1, "fail", "maas.not_installable"),
        (m.READY, 0, "deploy", None),
        (m.RESERVED, 1, "fail", "maas.foreign"),
        (m.DEPLOYED, 0, "done", None),
        (m.RETIRED, 1, "fail", "maas.not_installable"),
        (m.BROKEN, 1, "fail", "maas.broken"),
        (m.DEPLOYING, 0, "wait", None),
        (m.ALLOCATED, 1, "fail", "maas.foreign"),
        (m.FAILED_DEPLOYMENT, 1, "release", None),
        (m.FAILED_DEPLOYMENT, 0, "fail", None),
        (m.RELEASING, 0, "wait", None),
        (m.FAILED_RELEASING, 1, "release", None),
        (m.FAILED_RELEASING, 0, "fail", None),
        (m.ERASING, 0, "wait", None),
        (m.FAILED_ERASING, 1, "fail", None),
        (m.RESCUE, 1, "fail", "maas.not_installable"),
        (m.ENTERING_RESCUE, 1, "fail", "maas.not_installable"),
        (m.FAILED_ENTERING_RESCUE, 1, "fail", "maas.not_installable"),
        (m.EXITING_RESCUE, 1, "fail", "maas.not_installable"),
        (m.FAILED_EXITING_RESCUE, 1, "fail", "maas.not_installable"),
        (m.TESTING, 0, "wait", None),
        (m.FAILED_TESTING, 1, "fail", None),
        (99, 1, "fail", "maas.not_installable"),
    ],
)
def test_every_status_has_a_next_step(status, retries, kind, symptom):
    step = next_step(machine(status, owner="somebody"), retries, us="us")
    assert step.kind == kind
    assert (step.finding.symptom if step.finding else None) == symptom
    # A failure without a finding is judged by its events, for which the phase is needed.
    assert bool(step.phase) == (kind == "wait" or (kind == "fail" and symptom is None))


def test_every_known_status_was_tried():
    assert sorted(m.STATUS_NAMES) == list(range(23))


def test_a_half_deployed_machine_of_ours_is_released_first():
    assert next_step(machine(m.ALLOCATED, owner="us"), 0, us="us").kind == "release"
    assert next_step(machine(m.ALLOCATED, owner=""), 0, us="").kind == "fail"


def test_without_the_fleets_tag_nothing_is_touched():
    for status in m.STATUS_NAMES:
        step = next_step(machine(status, tag_names=["db"]), 1, us="us")
        assert (step.kind, step.finding.symptom) == ("fail", "maas.foreign")


def test_a_locked_machine_is_left_alone_but_may_be_deployed():
    assert next_step(machine(m.READY, locked=True), 1).finding.symptom == "maas.locked"
    assert next_step(machine(m.DEPLOYED, locked=True), 1).kind == "done"


def test_a_ready_machine_with_other_drives_is_commissioned_first():
    assert next_step(machine(m.READY), 0).kind == "deploy"
    assert next_step(machine(m.READY), 0, commission_first=True).kind == "commission"
    assert next_step(machine(m.DEPLOYED), 0, commission_first=True).kind == "done"


def events(*newest_first):
    return [{"type": t, "description": d, "level": lv} for t, d, lv in newest_first]


BEGAN = ("Deploying", "", "INFO")
POWERED = ("Node powered on", "", "DEBUG")


def test_power_that_failed():
    log = events(
        ("Marking node failed", "Power on for the node failed: refused", "ERROR"),
        ("Failed to power on node", "Power on for the node failed: refused", "ERROR"),
        BEGAN,
    )
    finding = judge("deploy", machine(m.FAILED_DEPLOYMENT), log)
    assert (finding.symptom, finding.action) == ("install.power_failed", "reset_bmc")
    assert "refused" in finding.evidence and "r1-n01 (abc123)" in finding.locator


def test_no_network_boot():
    finding = judge("deploy", machine(m.DEPLOYING), events(POWERED, BEGAN), 45)
    assert finding.symptom == "install.no_pxe"
    assert finding.evidence.startswith("still deploying after 45 minutes; no network boot")


def test_boots_of_an_earlier_phase_do_not_count():
    log = events(POWERED, BEGAN, ("Ready", "", "INFO"), ("Performing PXE boot", "", "INFO"))
    assert judge("deploy", machine(m.DEPLOYING), log, 45).symptom == "install.no_pxe"


def test_a_power_failure_that_was_overcome_does_not_count():
    log = events(("Loading ephemeral", "", "INFO"), POWERED, ("Failed to power on node", "x", "ERROR"), BEGAN)
    finding = judge("deploy", machine(m.DEPLOYING), log, 45)
    assert finding.symptom == "install.timed_out"
    assert finding.evidence.endswith("the last that was seen of it: Loading ephemeral")


def test_an_installer_that_failed():
    log = events(("Marking node failed", "curtin: no space", "ERROR"), ("Installing OS", "", "INFO"), POWERED, BEGAN)
    finding = judge("deploy", machine(m.FAILED_DEPLOYMENT), log)
    assert finding.symptom == "install.failed"
    assert "curtin: no space" in finding.evidence and "Installing OS" in finding.evidence


def test_without_events_nothing_is_made_up():
    finding = judge("commission", machine(m.FAILED_COMMISSIONING), [])
    assert (finding.symptom, finding.evidence) == ("install.failed", "commission: said so")
