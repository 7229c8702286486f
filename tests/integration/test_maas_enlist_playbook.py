"""Enlist as an operator meets it: playbooks/enlist.yml on a lab of simulated BMCs and a simulated region."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from maas_product_lab import ProductLab
from maas_site import Site


@pytest.fixture(scope="module")
def running_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProductLab]:
    lab = ProductLab(tmp_path_factory.mktemp("lab"), machines=3)
    yield lab
    lab.stop()


@pytest.fixture(scope="module")
def discovered(running_lab: ProductLab, tmp_path_factory: pytest.TempPathFactory) -> Site:
    site = Site(running_lab.fresh(), tmp_path_factory.mktemp("site"))
    site.good("discover")
    return site


@pytest.fixture
def site(discovered: Site) -> Iterator[Site]:
    """Three hosts that discover has passed, none of them in MAAS."""
    discovered.lab.fresh()
    hosts = [dict(host) for host in discovered.hosts]
    yield discovered
    discovered.hosts = hosts
    discovered.write()


def test_a_fleet_from_nothing_to_nothing_to_do(site: Site) -> None:
    lab = site.lab
    lab.reset_stats()
    screen = site.good("enlist", "--check", "--diff")
    assert "r1-n01 in MAAS: + hostname: r1-n01" in screen and "site-test" in screen
    assert lab.stats()["writes"] == 0
    lab.reset_stats()
    screen = site.good("enlist", "-l", "r1-n02")
    assert list(lab.by_name()) == ["r1-n02"]
    assert site.states() == {"r1-n01": "discovered", "r1-n02": "enlisted", "r1-n03": "discovered"}
    site.good("enlist", "-l", "rack_r1")
    machines = lab.by_name()
    assert sorted(machines) == lab.names
    tags = ["firstlight", "firstlight-state-enlisted", "profile-xe9680", "rack-r1", "site-test"]
    assert {name: sorted(m["tag_names"]) for name, m in machines.items()} == dict.fromkeys(lab.names, tags)
    assert machines["r1-n01"]["description"].startswith("rack r1 unit 1, service tag FLB0001 [power ")
    lab.reset_stats()
    assert "changed=0" in site.good("enlist")
    assert lab.stats()["writes"] == 0
    # one for the inventory, one for enlist
    assert lab.stats()["reads"] == 2


def test_a_host_that_moved_and_a_nic_that_was_swapped(site: Site) -> None:
    lab = site.lab
    site.good("enlist")
    one = lab.by_name()["r1-n01"]
    new = one["boot_interface"]["mac_address"]
    path = f"nodes/{one['system_id']}/interfaces/{one['boot_interface']['id']}/"
    old = "02:0d:0d:0d:0d:01"  # MAAS still has the NIC that was there before
    assert lab.maas("PUT", path, data={"mac_address": old}).status_code == 200
    site.hosts[0] |= {"rack": "r9", "unit": 7}
    site.write()
    site.good("discover")
    lab.reset_stats()
    for check in (True, False):
        screen = site.good("enlist", "-l", "r1-n01", "--diff", *(["--check"] if check else []))
        for line in (
            f"- nic: {old} (eth0) + nic: {new} (eth0)",
            "- description: rack r1 unit 1, service tag FLB0001 + description: rack r9 unit 7, service tag FLB0001",
            "- tags: rack-r1 + tags: rack-r9",
        ):
            assert line in screen
        assert bool(lab.stats()["writes"]) is not check
    machine = lab.by_name()["r1-n01"]
    assert (machine["system_id"], machine["boot_interface"]["mac_address"]) == (one["system_id"], new)
    assert "rack-r9" in machine["tag_names"] and "rack-r1" not in machine["tag_names"]
    lab.reset_stats()
    assert "changed=0" in site.good("enlist")
    assert lab.stats()["writes"] == 0


def test_retired_hosts_are_listed_and_deleted_by_name_alone(site: Site) -> None:
    lab = site.lab
    site.good("enlist")
    with lab.client() as client:
        theirs = client.create("r1-n09", ["02:0e:00:00:00:09"], "amd64/generic")
        client.ensure_tag("site-other")
        for tag in ("firstlight", "site-other"):
            client.tag_machines(tag, [theirs["system_id"]])
    gone = site.hosts.pop(2)
    site.write()
    # a part of the fleet is not the whole: r1-n02 is not retired
    result = site.result("enlist", "Make MAAS hold", "-l", "r1-n01")
    assert [r["name"] for r in result["retired"]] == ["r1-n03"]
    assert result["retired"][0]["service_tag"] == "FLB0003"
    assert sorted(lab.by_name()) == ["r1-n01", "r1-n02", "r1-n03", "r1-n09"]
    for name in ("r1-n02", "r1-n09"):
        status, screen = site.play("enlist", "-e", f"enlist_delete_retired={name}")
        assert status != 0
        assert "is not retired; nothing was done. Retired are: r1-n03" in screen
    status, screen = site.play("enlist", "-e", "enlist_delete_retired=true")
    assert status != 0 and "'true' names no machine" in screen
    screen = site.good("enlist", "--check", "--diff", "-e", "enlist_delete_retired=r1-n03")
    assert "would delete r1-n03" in screen and "in MAAS, deleted" in screen
    assert "r1-n03" in lab.by_name()
    screen = site.good("enlist", "-e", "enlist_delete_retired=r1-n03")
    assert "deleted r1-n03" in screen
    assert sorted(lab.by_name()) == ["r1-n01", "r1-n02", "r1-n09"]
    assert any(name == gone["name"] and what.startswith("delete r1-n03 (") for name, what in site.deeds())
    assert "changed=0" in site.good("enlist", "-e", "enlist_delete_retired=r1-n03")


def test_a_wrong_setting_is_one_line(site: Site) -> None:
    status, screen = site.play("enlist", "-l", "r1-n01", "-e", "enlist_adopt_deployed=maybe")
    assert status != 0
    assert "enlist_adopt_deployed is 'maybe'; it must be true or false" in screen


def test_maas_gone_in_the_middle(site: Site) -> None:
    lab = site.lab
    lab.fault("failing", method="POST", op="", count=3, status=503, when="after")
    status, _screen = site.play("enlist")
    assert status == 0 or site.findings("r1-n01") or site.findings("r1-n02")
    site.good("enlist")
    assert sorted(lab.by_name()) == lab.names
    assert "changed=0" in site.good("enlist")
