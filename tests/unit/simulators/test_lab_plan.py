"""The lab on paper: sizes, places, addresses, and the two broken servers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from firstlight.profile import Profile
from firstlight.sitefiles import load_fleet
from simulators import lab_files
from simulators.bmc import faults
from simulators.host import containers
from simulators.lab import plan
from simulators.lab_files import LabError

SECRET = plan.new_secrets()


def broken(lab: lab_files.Lab) -> dict[str, list]:
    return {machine["name"]: machine["faults"] for machine in lab["machines"] if machine["faults"]}


def test_the_default_fleet() -> None:
    lab = plan.plan(6, 31, SECRET)
    assert [machine["name"] for machine in lab["machines"]] == [
        "r1-n01", "r1-n02", "r1-n03", "r2-n01", "r2-n02", "r2-n03",
    ]  # fmt: skip
    assert broken(lab) == {"r1-n03": [{"name": "gpu_missing", "gpu": 5}], "r2-n03": ["wrong_password"]}
    assert lab["machines"][0]["bmc_address"] == "127.31.1.11"


@pytest.mark.parametrize("size", [1, 2, 3, 5, 6, 16, 17, 24, 100, plan.LARGEST_FLEET])
def test_every_size_is_a_lab_that_the_simulators_take(size: int, tmp_path) -> None:
    lab = plan.plan(size, 40, SECRET)
    (tmp_path / "lab.json").write_text(json.dumps(lab))
    assert len(lab_files.load(tmp_path)["machines"]) == size
    for key in ("name", "bmc_address", "index"):
        assert len({machine[key] for machine in lab["machines"]}) == size
    assert len({(machine["rack"], machine["unit"]) for machine in lab["machines"]}) == size
    assert max(machine["unit"] for machine in lab["machines"]) <= 46
    assert len(broken(lab)) == (2 if size >= 3 else 0)
    assert not broken(plan.plan(size, 40, SECRET, sound=True))
    for machine in lab["machines"]:
        faults.from_lab(machine["faults"])


@pytest.mark.parametrize(("fleet", "block"), [(0, 31), (201, 31), (6, 0), (6, 255)])
def test_what_is_out_of_range_is_refused(fleet: int, block: int) -> None:
    with pytest.raises(lab_files.LabError, match=r"--fleet|--block"):
        plan.plan(fleet, block, SECRET)


def test_labs_of_different_blocks_share_nothing() -> None:
    one, other = plan.plan(6, 31, SECRET), plan.plan(6, 32, SECRET)
    for part, key in (("bmc", "admin"), ("maas", "listen"), ("maas", "admin"), ("host", "network"), ("host", "subnet")):
        assert one[part][key] != other[part][key]
    assert not {machine["bmc_address"] for machine in one["machines"]} & {
        machine["bmc_address"] for machine in other["machines"]
    }


def test_the_product_reads_the_fleet_file(tmp_path) -> None:
    lab = plan.plan(24, 31, SECRET)
    path = tmp_path / "fleet.yml"
    path.write_text(plan.fleet_file(lab))
    assert yaml.safe_load(path.read_text())["site"] == "lab"
    profiles = {plan.PROFILE: Profile(plan.PROFILE, "Dell Inc.", "PowerEdge XE9680")}
    fleet = load_fleet(path, profiles)
    assert [host.name for host in fleet.hosts] == [machine["name"] for machine in lab["machines"]]
    assert fleet.hosts[0].service_tag == "FLB0001"


def test_secrets_differ_every_time_and_the_key_has_maas_own_form() -> None:
    assert plan.new_secrets() != SECRET
    assert len(SECRET["maas_api_key"].split(":")) == 3


def test_room_for_many_servers_is_made_only_when_needed(tmp_path):
    limit = tmp_path / "max_user_instances"
    limit.write_text("1000000\n")
    assert containers.make_room(24, limit) == ""
    limit.write_text("10\n")
    assert "raised from 10 to" in containers.make_room(24, limit)
    assert int(limit.read_text()) >= 24 * 10
    assert containers.make_room(1, limit) == ""


def test_room_that_cannot_be_made_is_one_line(tmp_path, monkeypatch):
    limit = tmp_path / "max_user_instances"
    limit.write_text("10\n")
    monkeypatch.setattr(Path, "write_text", lambda *_: (_ for _ in ()).throw(PermissionError()))
    with pytest.raises(LabError, match="max_user_instances is 10, 24 servers need"):
        containers.make_room(24, limit)
