"""Groups and variables of a host, as Ansible's inventory has them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from firstlight.bmc.hardware import Hardware, Record
from firstlight.bmc.hostvars import host_groups, host_variables
from firstlight.profile import Profile
from firstlight.sitefiles import PlannedHost, load_profiles

HOST = PlannedHost("n1", "r-1", 7, "10.0.0.1", "xe9680", mac="b0:7b:25:00:01:0a", service_tag="PLAN001")
PROFILE: Profile = load_profiles(Path(__file__).resolve().parents[3] / "inventory" / "profiles")["xe9680"]
GOOD = Record("was-n1", "ok", "", "2026-01-01T00:00:00+00:00", 1.0, hardware=Hardware(service_tag="TOLD001"))


@pytest.mark.parametrize(
    ("condition", "group"),
    [("ok", ("bmc_ok", "")), ("not_asked", ("bmc_not_asked", "fleet")), ("blocked", ("bmc_blocked", "bmc_failed"))],
)
def test_groups(condition: str, group: tuple[str, str]) -> None:
    record = dataclasses.replace(GOOD, condition=condition)
    plan = [("rack_r-1", "fleet"), ("profile_xe9680", ""), ("state_ready", "")]
    assert host_groups(HOST, record, "ready") == [*plan, group]
    assert host_groups(HOST, record, "ready", "lemon") == [*plan, ("lemon", ""), group]


def test_what_the_bmc_says_now_goes_before_the_plan_and_that_before_what_it_said_once() -> None:
    said = host_variables(HOST, GOOD, PROFILE, None)
    assert (said["service_tag"], said["pxe_mac"], said["bmc_record"]["name"]) == ("TOLD001", HOST.mac, "n1")
    assert "bmc_previous" not in said
    stale = dataclasses.replace(GOOD, condition="unreachable", stale=True)
    assert host_variables(HOST, stale, PROFILE, GOOD)["service_tag"] == "PLAN001"
    assert host_variables(HOST, stale, PROFILE, GOOD)["bmc_previous"] == GOOD.to_dict()
    untold = dataclasses.replace(HOST, service_tag=None, mac=None)
    assert host_variables(untold, stale, PROFILE, None)["service_tag"] == "TOLD001"
    nothing = host_variables(untold, dataclasses.replace(GOOD, hardware=None), PROFILE, None)
    assert "service_tag" not in nothing and "pxe_mac" not in nothing
