"""Tags in MAAS that mirror the ledger's states: exactly one a machine, only ours, one read where nothing changed."""

import pytest

from firstlight.errors import FirstlightError
from firstlight.maas.client import MaasError
from firstlight.maas.statetags import changes, keep, mirror


def machine(name, *tags, **more):
    return {"system_id": f"id-{name}", "hostname": name, "tag_names": ["firstlight", *tags], **more}


class Maas:
    """A MAAS that keeps tags as the real one does, and counts what it is asked."""

    def __init__(self, *machines):
        self.list, self.asked = list(machines), []

    def machines(self):
        self.asked.append("machines")
        return [{**one, "tag_names": list(one["tag_names"])} for one in self.list]

    def ensure_tag(self, tag, comment):
        self.asked.append(f"make {tag}")

    def tag_machines(self, tag, add, remove):
        self.asked.append(f"tag {tag}")
        for one in self.list:
            if one["system_id"] in add:
                one["tag_names"].append(tag)
            if one["system_id"] in remove:
                one["tag_names"].remove(tag)


def test_each_machine_has_the_tag_of_its_state_alone_and_a_second_time_nothing_is_written():
    maas = Maas(machine("a"), machine("b", "firstlight-state-ready", "rack-r1"), machine("c", "firstlight-state-ready"))
    states = {"a": "ready", "b": "in_repair", "c": "ready", "gone": "ready"}
    assert mirror(maas, states) == [
        "MAAS tag firstlight-state-in_repair: 1 added, 0 taken off",
        "MAAS tag firstlight-state-ready: 1 added, 1 taken off",
    ]
    assert [one["tag_names"] for one in maas.list] == [
        ["firstlight", "firstlight-state-ready"],
        ["firstlight", "rack-r1", "firstlight-state-in_repair"],
        ["firstlight", "firstlight-state-ready"],
    ]
    # what machines have is known to be there; the other is made
    assert maas.asked == [
        "machines",
        "make firstlight-state-in_repair",
        "tag firstlight-state-in_repair",
        "tag firstlight-state-ready",
    ]
    maas.asked.clear()
    assert (mirror(maas, states), maas.asked) == ([], ["machines"])


def test_check_mode_only_reads():
    maas = Maas(machine("a"))
    assert len(mirror(maas, {"a": "ready"}, check=True)) == 1
    assert maas.asked == ["machines"]


@pytest.mark.parametrize(
    "other",
    [
        machine("b"),
        machine("a", locked=True),
        machine("a", "site-two"),
        {**machine("a"), "tag_names": ["firstlight-state-ready"]},
    ],
)
def test_machines_that_are_not_ours_to_tag_are_left(other):
    assert changes([other], {"a": "quarantined"}, "site-one") == {}
    assert changes([machine("a", "site-one")], {"a": "quarantined"}, "site-one") != {}


def test_without_maas_it_is_a_warning():
    def away():
        raise MaasError("MAAS at https://m does not answer", "unreachable")

    told = []
    assert keep(away, {"a": "ready"}, told.append) == []
    assert len(told) == 1 and told[0].startswith("warning: ") and "does not answer" in told[0]
    assert issubclass(MaasError, FirstlightError)
