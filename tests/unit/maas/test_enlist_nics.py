"""A NIC that was swapped, and a server that was: what enlist does about them, and what it refuses."""

from dataclasses import replace

import pytest
from test_enlist_plan import HOST, KEY, in_maas, one, symptom

from firstlight.maas.enlist_plan import plan
from firstlight.maas.nics import NicChange

OLD, NEW, SECOND, IB = "02:aa:00:00:01:99", HOST.pxe_mac, "02:aa:00:00:01:02", "02:aa:00:00:01:0b"
SERVER = replace(
    HOST, service_tag="FLB0001", description="rack r1 unit 4, service tag FLB0001", hardware_macs=(NEW, SECOND, IB)
)
EDITABLE = [0, 4, 22, 10, 8]  # New, Ready, Failed testing, Allocated, Broken


def nic(number, mac, **more):
    return {"id": number, "name": f"eth{number}", "mac_address": mac, "type": "physical", **more}


def swapped(*nics, **changes):
    nics = nics or (nic(1, OLD), nic(2, SECOND))
    return in_maas(SERVER, interface_set=list(nics), boot_interface=nics[0], **changes)


@pytest.mark.parametrize("status", [*EDITABLE, 6])
def test_the_new_nic_takes_the_place_of_the_one_that_is_gone(status):
    step = one([swapped(status=status)], SERVER)
    assert (step.action, step.system_id, step.writes) == ("update", "abc123", {})
    assert step.nic == NicChange(NEW, 1, OLD, "eth1")
    assert step.diff == f"- nic: {OLD} (eth1)\n+ nic: {NEW} (eth1)"


@pytest.mark.parametrize(
    ("status", "action", "words"),
    [
        (1, "wait", "enlist again when it is done"),
        (9, "wait", "enlist again when it is done"),
        (12, "wait", "enlist again when it is done"),
        (2, "escalate", "mark it broken in MAAS, enlist, mark it fixed"),
        (11, "escalate", "playbooks/release.yml"),
    ],
)
def test_in_other_states_a_finding_says_what_to_do(status, action, words):
    step = one([swapped(status=status)], SERVER)
    code, evidence = symptom(step)
    assert code == "maas.nic_unknown"
    assert words in evidence and NEW in evidence
    assert step.findings[0].action == action


def test_it_is_found_by_name_and_service_tag_when_all_nics_are_new():
    step = one([swapped(nic(1, OLD))], SERVER)
    assert (step.action, step.nic) == ("update", NicChange(NEW, 1, OLD, "eth1"))
    serial = swapped(nic(1, OLD), description="", hardware_info={"system_serial": "FLB0001"})
    assert one([serial], SERVER).nic == step.nic


@pytest.mark.parametrize(
    "change",
    [
        {"description": "rack r1 unit 4, service tag FLB0777"},
        {"description": "rack r1 unit 4"},
        {"description": "rack r1 unit 4, service tag FLB0777", "hardware_info": {"system_serial": "FLB0001"}},
        {"tag_names": []},
    ],
)
def test_a_namesake_that_is_not_shown_to_be_this_server_is_refused(change):
    code, evidence = symptom(one([swapped(nic(1, OLD), **change)], SERVER))
    assert code == "maas.name_conflict"
    assert OLD in evidence and NEW in evidence
    assert symptom(one([swapped(nic(1, OLD))], replace(SERVER, service_tag="")))[0] == "maas.name_conflict"


def test_a_server_of_another_name_is_refused_though_one_nic_of_it_sits_here():
    other = swapped(hostname="r7-n01", description="rack r7 unit 1, service tag FLB0777")
    code, evidence = symptom(one([other], SERVER))
    assert code == "maas.mac_conflict"
    assert "FLB0777" in evidence and "FLB0001" in evidence


def test_a_service_tag_under_another_name_makes_no_second_machine():
    code, evidence = symptom(one([swapped(nic(1, OLD), hostname="old-name")], SERVER))
    assert code == "maas.name_conflict"
    assert "old-name (abc123)" in evidence and "FLB0001" in evidence


def test_another_server_in_this_place_is_no_installed_host():
    before = in_maas(SERVER, description="rack r1 unit 4, service tag FLB0777", status=6)
    code, evidence = symptom(one([before], SERVER))
    assert code == "maas.replaced" and "FLB0777" in evidence and "release" in evidence
    step = one([{**before, "status": 4}], SERVER)  # nothing is on it that could be taken for this one's
    assert step.action == "update" and "+ description: rack r1 unit 4, service tag FLB0001" in step.diff


def test_other_nics_are_left_to_commissioning():
    usb, stale = "02:00:00:00:00:77", "02:aa:00:00:01:98"
    machine = swapped(nic(1, NEW), nic(2, usb), nic(3, stale), nic(4, SECOND))
    assert one([machine], SERVER).action == "nothing"


def test_which_nic_was_replaced_is_never_guessed():
    two_gone = swapped(nic(1, SECOND), nic(2, OLD), nic(3, "02:aa:00:00:01:98"), status=4)
    assert symptom(one([two_gone], SERVER))[0] == "maas.nic_unknown"
    assert one([{**two_gone, "status": 0}], SERVER).nic == NicChange(NEW)  # commissioning will find what is there
    one_gone = swapped(nic(1, SECOND), nic(2, OLD), status=4)
    assert one([one_gone], SERVER).nic == NicChange(NEW, 2, OLD, "eth2")
    bond = swapped(nic(1, SECOND), nic(2, OLD, type="bond"), status=0)
    assert one([bond], SERVER).nic == NicChange(NEW)
    nothing_seen = replace(SERVER, hardware_macs=())
    assert symptom(one([swapped(status=4)], nothing_seen))[0] == "maas.nic_unknown"


def test_an_infiniband_port_is_no_nic_that_is_gone():
    assert one([swapped(nic(1, OLD), nic(2, IB), nic(3, SECOND))], SERVER).nic == NicChange(NEW, 1, OLD, "eth1")


def test_a_machine_that_booted_by_its_other_nic_first_gets_the_one_that_installs():
    found = swapped(nic(1, SECOND), hostname="wise-owl", description="", tag_names=[], power_type="", status=0)
    step = one([found], SERVER)
    assert step.action == "adopt" and step.nic == NicChange(NEW)
    assert f"+ nic: {NEW}" in step.diff


def test_a_locked_machine_keeps_its_nics():
    assert "nic" in symptom(one([swapped(locked=True)], SERVER))[1]


def test_a_nic_that_moved_to_another_host_is_not_followed():
    """The card of r1-n02 sits in r1-n01 now: r1-n02's machine is not taken."""
    theirs = swapped(nic(1, NEW), hostname="r1-n02", system_id="def456")
    (step,) = plan([SERVER], [swapped(nic(1, OLD), nic(2, SECOND)), theirs], KEY, fleet_names=["r1-n01", "r1-n02"])
    code, evidence = symptom(step)
    assert code == "maas.mac_conflict" and "def456" in evidence


@pytest.mark.parametrize("nics", [None, "x", [None, {"mac_address": 5}], [{"mac_address": OLD}], [nic("1", OLD)]])
def test_what_maas_says_of_nics_may_be_anything(nics):
    machine = in_maas(SERVER, interface_set=nics, boot_interface=nics, status=4)
    assert one([machine], SERVER).action in ("conflict", "nothing", "update")
