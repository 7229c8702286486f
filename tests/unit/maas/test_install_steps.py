"""The next step for each of MAAS's statuses, and the reasons read from its events."""

import pytest

from firstlight.maas import machines as m
from firstlight.maas.disks import OsDisk, choose_os_disk, os_disk_of
from firstlight.maas.steps import judge, next_step


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


def disk(name, serial, model="KIOXIA CM7", size=3_840_000_000_000):
    return {"id": hash(name) % 1000, "name": name, "serial": serial, "model": model, "size": size}


DATA = [disk(f"nvme{n}n1", f"DATA{n}") for n in range(8)]
BOSS = disk("sda", "239", "DELLBOSS VD", 480_000_000_000)


def test_the_disk_with_the_serial():
    assert choose_os_disk([*DATA, BOSS], OsDisk(serials=("239",)), "n") is BOSS


def test_the_serial_decides_over_the_order_and_spelling():
    disks = [*DATA[4:], BOSS, *DATA[:4]]
    assert choose_os_disk(disks, OsDisk(serials=(" data6 ",)), "n") is DATA[6]


def test_a_raid_card_hides_the_serials_of_its_drives():
    wanted = OsDisk(serials=("SSD-A", "SSD-B"), model="BOSS", not_serials=tuple(d["serial"] for d in DATA))
    assert choose_os_disk([*DATA, BOSS], wanted, "n") is BOSS


@pytest.mark.parametrize(
    ("disks", "wanted", "symptom", "text"),
    [
        (DATA, OsDisk(serials=("239",)), "os_disk.missing", "MAAS sees: nvme0n1 KIOXIA CM7 serial DATA0 3.8 TB"),
        ([], OsDisk(serials=("239",)), "os_disk.missing", "no disk at all"),
        ([*DATA, BOSS], OsDisk(model="KIOXIA"), "os_disk.ambiguous", "8 disks fit"),
        ([BOSS, disk("sdb", "239")], OsDisk(serials=("239",)), "os_disk.ambiguous", "2 disks fit"),
        ([BOSS], OsDisk(serials=("239",), min_bytes=10**12), "os_disk.missing", "at least 1.0 TB"),
        ([*DATA, BOSS], OsDisk(), "os_disk.missing", "nothing known about it"),
        (DATA, OsDisk(serials=("DATA1",), not_serials=("data1",)), "os_disk.missing", "no disk fits"),
    ],
)
def test_no_disk_is_better_than_a_wrong_one(disks, wanted, symptom, text):
    finding = choose_os_disk(disks, wanted, "r1-n01")
    assert (finding.symptom, finding.status, finding.action) == (symptom, "fail", "escalate")
    assert text in finding.evidence


def test_one_serial_on_all_disks_is_narrowed_by_the_model():
    disks = [disk("sda", "SAME"), disk("sdb", "SAME", "DELLBOSS VD")]
    assert choose_os_disk(disks, OsDisk(serials=("SAME",), model="BOSS"), "n") is disks[1]


def test_what_discovery_says_about_the_os_disk():
    profile = {"os_disk": {"controller": "BOSS", "min_bytes": 200}}
    drives = [
        {"controller": "BOSS.SL.14-1", "serial": "A"},
        {"controller": "BOSS.SL.14-1", "serial": "B"},
        {"controller": "CPU.1", "serial": "N1"},
        {"controller": "CPU.1", "serial": ""},
    ]
    assert os_disk_of(profile, {"drives": drives}) == OsDisk(("A", "B"), "BOSS", 200, ("N1",))
    assert os_disk_of(profile, None) == OsDisk((), "BOSS", 200, ())
    assert os_disk_of({}, {"drives": drives}) == OsDisk((), "", 0, ("A", "B", "N1"))
