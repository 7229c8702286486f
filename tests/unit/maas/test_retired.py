"""Which machines are retired, and which of them a person may name for deletion."""

import pytest

from firstlight.errors import InputError
from firstlight.maas.retired import Known, names_to_delete, retired, shown, to_delete

FLEET = Known(frozenset({"02:aa:00:00:01:01"}), frozenset({"FLB0001"}))
SITE = "site-s"


def machine(name="r9-n01", system_id="old111", tags=("firstlight", SITE), mac="02:aa:00:00:09:01", **more):
    description = "rack r9 unit 1, service tag FLB0901 [power 0123456789abcdef]"
    base = {"system_id": system_id, "hostname": name, "status": 4, "tag_names": list(tags), "description": description}
    return {**base, "interface_set": [{"mac_address": mac, "id": 1}], **more}


def found(*machines, site=SITE, names=("r1-n01",)):
    return [m["hostname"] for m in retired(machines, site, names, lambda: FLEET)]


def test_what_is_in_no_fleet_is_retired():
    assert found(machine(), machine("r1-n01", "a")) == ["r9-n01"]
    assert shown(machine()) == {
        "name": "r9-n01", "system_id": "old111", "status": "ready", "service_tag": "FLB0901",
    }  # fmt: skip


@pytest.mark.parametrize(
    "other",
    [
        machine(tags=("firstlight",)),  # of which site nobody can tell
        machine(tags=("firstlight", "site-other")),
        machine(tags=(SITE,)),
        machine(tags=()),
        machine(mac="02:AA:00:00:01:01"),  # a host of the fleet under another name
        machine(description="rack r1 unit 1, service tag FLB0001"),
    ],
)
def test_what_may_be_somebodys_is_not(other):
    assert found(other) == []


def test_without_a_site_nothing_is_retired_and_nobody_is_asked():
    assert found(machine(), site="") == []
    assert retired([machine("r1-n01")], SITE, ["r1-n01"], lambda: pytest.fail("asked")) == []


def delete(names, machines, gone):
    return [m["system_id"] for m in to_delete(names, machines, gone, lambda: FLEET.macs)]


def test_only_what_is_named_is_deleted():
    gone = [machine(), machine("r9-n02", "old222")]
    assert delete(["r9-n01"], gone, gone) == ["old111"]
    assert delete(["old222", "r9-n02"], gone, gone) == ["old222", "old222"][:1]
    assert delete(["r9-n77"], gone, gone) == []  # it was deleted before


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"status": 6}, "deployed"),
        ({"status": 9}, "deploying"),
        ({"status": 1}, "commissioning"),
        ({"locked": True}, "locked"),
        ({"owner": "somebody"}, "ready to somebody"),
    ],
)
def test_what_is_in_use_is_refused(changes, words):
    gone = [machine(**changes)]
    with pytest.raises(InputError, match=words) as caught:
        delete(["r9-n01"], gone, gone)
    assert "nothing was done" in str(caught.value) and "\n" not in str(caught.value)


def test_what_is_not_retired_is_refused():
    host = machine("r1-n01", "abc")
    with pytest.raises(InputError, match=r"r1-n01 \(abc\) is not retired; nothing was done. Retired are: r9-n01"):
        delete(["r9-n01", "r1-n01"], [host, machine()], [machine()])


def test_what_maas_made_of_a_nic_of_ours_may_be_named_too():
    stray = machine("wise-owl", "owl", tags=(), mac="02:aa:00:00:01:01", status=0, power_type="", description="")
    assert delete(["wise-owl"], [stray], []) == ["owl"]
    for change in ({"power_type": "ipmi"}, {"status": 4}, {"tag_names": ["db"]}, {"owner": "x"}, {"interface_set": []}):
        with pytest.raises(InputError, match="not retired"):
            delete(["wise-owl"], [{**stray, **change}], [])


@pytest.mark.parametrize(("given", "names"), [(None, []), ([], []), ("a, b", ["a", "b"]), (["a"], ["a"]), ("", [])])
def test_the_setting(given, names):
    assert names_to_delete(given) == names


@pytest.mark.parametrize("given", [True, 3, {"a": 1}, [1], "true", ["all"], "*"])
def test_nobody_deletes_all_at_once(given):
    with pytest.raises(InputError, match="enlist_delete_retired"):
        names_to_delete(given)
