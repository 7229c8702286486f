"""What enlist would do, from a fleet and MAAS's list of machines alone."""

from dataclasses import replace

import pytest

from firstlight.maas.desired import Desired, description_with_mark, site_tag
from firstlight.maas.enlist_plan import Taking, plan

KEY = b"secret-of-the-key"
HOST = Desired(
    name="r1-n01",
    macs=("02:aa:00:00:01:01", "02:AA:00:00:01:02"),
    pxe_mac="02:aa:00:00:01:01",
    bmc_address="10.0.1.11",
    bmc_port=8443,
    bmc_username="root",
    bmc_password="calvin-of-the-lab",
    description="rack r1 unit 4 FLB0001",
)


def in_maas(desired=HOST, **changes):
    machine = {
        "system_id": "abc123",
        "hostname": desired.name,
        "status": 4,
        "interface_set": [{"mac_address": desired.pxe_mac, "id": 7, "name": "eth0"}],
        "power_type": "redfish",
        "description": description_with_mark(desired, KEY),
        "tag_names": ["firstlight"],
        "pool": {"name": "default"},
        "zone": {"name": "default"},
        "locked": False,
    }
    machine.update(changes)
    return machine


def one(machines, desired=HOST):
    (step,) = plan([desired], machines, KEY)
    return step


def test_create_names_everything_but_the_password():
    step = one([])
    assert step.action == "create"
    assert step.diff == (
        "+ hostname: r1-n01\n"
        "+ macs: 02:aa:00:00:01:01, 02:aa:00:00:01:02\n"
        "+ architecture: amd64/generic\n"
        "+ power: redfish root@10.0.1.11:8443\n"
        "+ description: rack r1 unit 4 FLB0001\n"
        "+ tags: firstlight"
    )


def test_nothing_to_do():
    step = one([in_maas()])
    assert (step.action, step.writes, step.tags, step.diff) == ("nothing", {}, [], "")


def test_the_second_nic_finds_the_machine_too_and_the_first_is_added():
    step = one([in_maas(interface_set=[{"mac_address": "02:AA:00:00:01:02"}], status=0)])
    assert (step.action, step.system_id, step.diff) == ("update", "abc123", "+ nic: 02:aa:00:00:01:01")


def test_adopt_what_came_by_pxe():
    found = in_maas(hostname="wise-owl", power_type="", description="", tag_names=[], status=1)
    step = one([found])
    assert step.action == "adopt"
    assert step.system_id == "abc123"
    assert step.writes["hostname"] == "r1-n01"
    assert step.writes["power_parameters_power_address"] == "10.0.1.11:8443"
    assert step.tags == ["firstlight"]
    assert step.diff == (
        "- hostname: wise-owl\n"
        "+ hostname: r1-n01\n"
        "- power: none\n"
        "+ power: redfish root@10.0.1.11:8443\n"
        "- description: \n"
        "+ description: rack r1 unit 4 FLB0001\n"
        "+ tags: firstlight"
    )


@pytest.mark.parametrize("change", [{"bmc_password": "new"}, {"bmc_address": "10.0.1.99"}, {"bmc_username": "ops"}])
def test_other_power_settings_are_seen_without_reading_them(change):
    step = one([in_maas()], replace(HOST, **change))
    assert step.action == "update"
    assert step.diff.startswith("- power: redfish, other address, user or password\n+ power: redfish ")
    assert set(step.writes) == {
        "power_type",
        "power_parameters_power_address",
        "power_parameters_power_user",
        "power_parameters_power_pass",
        "description",
    }
    assert HOST.bmc_password not in step.diff


def test_moved_to_another_rack_changes_the_description_alone():
    step = one([in_maas()], replace(HOST, description="rack r2 unit 9 FLB0001"))
    assert set(step.writes) == {"description"}
    assert step.diff == "- description: rack r1 unit 4 FLB0001\n+ description: rack r2 unit 9 FLB0001"


def test_pool_zone_and_tags():
    step = one([in_maas()], replace(HOST, pool="gpu", zone="hall-1", tags=("rack-r1",)))
    assert step.writes == {"pool": "gpu", "zone": "hall-1"}
    assert step.tags == ["rack-r1"]
    assert step.diff == "- pool: default\n+ pool: gpu\n- zone: default\n+ zone: hall-1\n+ tags: rack-r1"


def test_tags_from_before_a_move_are_taken_off_and_no_others():
    moved = replace(HOST, tags=("site-s", "profile-b", "rack-r2"))
    tags = ["firstlight", "site-s", "profile-a", "rack-r1", "rack-r2", "racks-of-theirs", "db"]
    step = one([in_maas(tag_names=tags)], moved)
    assert (step.action, step.untags, step.tags) == ("update", ["profile-a", "rack-r1"], ["profile-b"])
    assert step.diff == "- tags: profile-a, rack-r1\n+ tags: profile-b"
    # what is not ours yet has no tags of ours
    assert one([in_maas(tag_names=["rack-r1"])], moved).untags == []


@pytest.mark.parametrize(
    ("site", "tag"), [("lab", "site-lab"), ("Hall 7, Ghent", "site-Hall-7-Ghent"), ("é", ""), ("", "")]
)
def test_a_sites_tag(site, tag):
    assert site_tag(site) == tag


def symptom(step, status="fail"):
    assert step.action == "conflict"
    assert not step.writes and not step.tags
    (finding,) = step.findings
    assert finding.status == status
    return finding.symptom, finding.evidence


def test_name_of_another_machine():
    other = in_maas(interface_set=[{"mac_address": "02:ff:00:00:00:01"}])
    code, evidence = symptom(one([other]))
    assert code == "maas.name_conflict"
    assert "r1-n01 (abc123)" in evidence and "02:ff:00:00:00:01" in evidence and "02:aa:00:00:01:01" in evidence


def test_mac_here_and_name_there():
    owl = in_maas(hostname="wise-owl", system_id="owl111")
    other = in_maas(interface_set=[{"mac_address": "02:ff:00:00:00:01"}])
    code, evidence = symptom(one([owl, other]))
    assert code == "maas.name_conflict"
    assert "wise-owl (owl111)" in evidence and "r1-n01 (abc123)" in evidence


def test_one_mac_on_two_machines_names_both():
    second = in_maas(system_id="def456", hostname="wise-owl")
    code, evidence = symptom(one([in_maas(), second]))
    assert code == "maas.duplicate"
    assert "r1-n01 (abc123)" in evidence and "wise-owl (def456)" in evidence and HOST.pxe_mac in evidence


def test_what_maas_made_of_the_new_nic_by_itself_is_named_with_the_way_out():
    ours = in_maas(interface_set=[{"mac_address": "02:aa:00:00:01:02"}])
    stray = {"system_id": "owl111", "hostname": "wise-owl", "status": 0, "power_type": "", "tag_names": []}
    stray["interface_set"] = [{"mac_address": HOST.pxe_mac}]
    code, evidence = symptom(one([ours, stray]))
    assert code == "maas.mac_conflict"
    assert "enlist_delete_retired=wise-owl" in evidence
    assert "enlist_delete_retired" not in symptom(one([ours, {**stray, "tag_names": ["db"]}]))[1]


def test_macs_on_two_machines():
    second = in_maas(system_id="def456", hostname="b", interface_set=[{"mac_address": "02:aa:00:00:01:02"}])
    code, evidence = symptom(one([in_maas(), second]))
    assert code == "maas.mac_conflict"
    assert "abc123" in evidence and "def456" in evidence


def test_two_hosts_of_the_plan_want_one_machine():
    other = replace(HOST, name="r1-n02", pxe_mac="02:aa:00:00:01:02", macs=())
    machine = in_maas(interface_set=[{"mac_address": "02:aa:00:00:01:01"}, {"mac_address": "02:aa:00:00:01:02"}])
    steps = plan([HOST, other], [machine], KEY)
    assert [symptom(s)[0] for s in steps] == ["maas.mac_conflict"] * 2


def test_a_deployed_machine_is_not_renamed():
    code, evidence = symptom(one([in_maas(hostname="db7", status=6)]))
    assert code == "maas.mac_conflict"
    assert "deployed" in evidence


DEPLOYED = {"status": 6, "tag_names": [], "description": "", "power_type": "ipmi", "owner": "us"}


@pytest.mark.parametrize("name", ["r1-n01", "db7"])
def test_what_is_deployed_already_is_taken_in_where_the_site_says_so(name):
    taking = Taking(deployed=True, us="us")
    (step,) = plan([HOST], [in_maas(**DEPLOYED, hostname=name)], KEY, taking=taking)
    assert step.action == "adopt"
    assert "- power: ipmi" in step.diff
    assert set(step.writes) <= {"hostname", "description", *HOST.power()}  # nothing that touches the system on it


def test_what_is_deployed_already_is_refused_otherwise_and_the_finding_says_how():
    code, evidence = symptom(one([in_maas(**DEPLOYED)]))
    assert code == "maas.foreign"
    assert "enlist_adopt_deployed: true" in evidence and "to us" in evidence


@pytest.mark.parametrize("change", [{"owner": "them"}, {"status": 10}, {"status": 9}, {"status": 5}])
def test_what_somebody_else_has_is_never_taken_in(change):
    (step,) = plan([HOST], [in_maas(**DEPLOYED | change)], KEY, taking=Taking(deployed=True, us="us"))
    assert symptom(step)[0] == "maas.foreign"


def test_a_machine_of_another_site_is_not_taken():
    here = replace(HOST, tags=("site-here",))
    code, evidence = symptom(one([in_maas(here, tag_names=["firstlight", "site-there"])], here))
    assert code == "maas.foreign" and "site-there" in evidence
    assert one([in_maas(here, tag_names=["firstlight", "site-here"])], here).action == "nothing"


def test_a_locked_machine_is_left_alone():
    step = one([in_maas(locked=True, description="old", zone={"name": "x"})])
    assert step.system_id == "abc123"
    code, evidence = symptom(step, "warn")
    assert code == "maas.locked"
    assert "description" in evidence and "pass" not in evidence


def test_a_locked_machine_is_not_renamed():
    assert symptom(one([in_maas(locked=True, hostname="db7")]))[0] == "maas.locked"


def test_a_machine_of_another_host_is_not_taken_over():
    other = replace(HOST, name="r1-n02", pxe_mac="02:bb:00:00:00:01", macs=())
    swapped = in_maas(hostname="r1-n02")
    for fleet in ([HOST, other], [HOST]):
        step = plan(fleet, [swapped], KEY, fleet_names=["r1-n01", "r1-n02"])[0]
        code, evidence = symptom(step)
        assert code == "maas.mac_conflict"
        assert "r1-n02 (abc123)" in evidence


def test_a_mac_that_every_host_has_identifies_nobody():
    usb = "0a:00:00:00:00:01"
    fleet = [replace(HOST, macs=(usb,)), replace(HOST, name="r1-n02", pxe_mac="02:bb:00:00:00:01", macs=(usb,))]
    assert [s.action for s in plan(fleet, [], KEY)] == ["create", "create"]
    assert not any(usb in s.diff for s in plan(fleet, [], KEY))
    machine = in_maas(interface_set=[{"mac_address": HOST.pxe_mac}, {"mac_address": usb}])
    assert [s.action for s in plan(fleet, [machine], KEY)] == ["nothing", "create"]


def test_two_hosts_that_would_install_by_the_same_mac():
    fleet = [HOST, replace(HOST, name="r1-n02")]
    codes = [symptom(s) for s in plan(fleet, [], KEY)]
    assert [c for c, _ in codes] == ["maas.mac_conflict"] * 2
    assert "r1-n01 and r1-n02" in codes[0][1]


def test_a_locked_machine_that_is_right_is_no_problem():
    assert one([in_maas(locked=True)]).action == "nothing"


def test_no_mac_no_machine():
    assert symptom(one([], replace(HOST, pxe_mac="")))[0] == "maas.no_mac"


@pytest.mark.parametrize(
    ("address", "port", "wanted"),
    [("10.0.1.11", 443, "10.0.1.11"), ("10.0.1.11", 8443, "10.0.1.11:8443"), ("fd00::7", 443, "[fd00::7]")],
)
def test_power_address(address, port, wanted):
    assert replace(HOST, bmc_address=address, bmc_port=port).power_address() == wanted


def test_the_mark_does_not_show_the_password():
    assert HOST.bmc_password not in description_with_mark(HOST, KEY)
    assert HOST.bmc_password not in repr(HOST)
    # Without the key nobody can try passwords against it.
    assert description_with_mark(HOST, KEY) != description_with_mark(HOST, b"other")


@pytest.mark.parametrize("changes", [{}, {"hostname": "fast-cat"}])
def test_a_machine_that_people_marked_broken_is_a_finding_and_is_brought_up_to_date_all_the_same(changes):
    well = one([in_maas(HOST, **changes)], HOST)
    step = one([in_maas(HOST, status=8, error_description="GPU 3 fell\noff the bus", **changes)], HOST)
    assert (step.action, step.writes, step.tags) == (well.action, well.writes, well.tags)
    assert well.findings == []
    (finding,) = step.findings
    code, evidence = finding.symptom, finding.evidence
    assert (code, finding.status) == ("maas.broken", "fail")
    assert "GPU 3 fell off the bus" in evidence and "mark it fixed" in evidence


def test_the_tag_of_a_state_is_not_enlist_s_to_touch():
    """It changes with every stage, and a second enlist is to write nothing."""
    step = one([in_maas(HOST, tag_names=["firstlight", *HOST.tags, "firstlight-state-enlisted"])], HOST)
    assert (step.action, step.tags, step.untags) == ("nothing", [], [])
