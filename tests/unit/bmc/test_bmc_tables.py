"""What scripts/bmc shows of records, also of hostile ones."""

from __future__ import annotations

import dataclasses
import datetime
import io
import json

import bmc_trees as trees
import pytest
from rich.console import Console, RenderableType

from firstlight.bmc import tables
from firstlight.bmc.fetch import TreeReader, read_tree
from firstlight.bmc.hardware import Hardware, Record
from firstlight.bmc.known import not_asked
from firstlight.bmc.normalise import normalise
from firstlight.profile import Profile
from firstlight.sitefiles import Fleet, PlannedHost

NOW = datetime.datetime.now(datetime.UTC).isoformat()
HOSTS = [PlannedHost(f"n{n}", "r1", n, f"10.0.0.{n}", "other") for n in (1, 2, 3)]
FLEET = Fleet("test", HOSTS)


@pytest.fixture(scope="module")
def hardware() -> Hardware:
    read = read_tree(TreeReader(trees.xe9680()))
    return normalise(read.resources, trees.NOW, read.failures)


def shown(what: RenderableType, width: int = 200) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(what)
    return out.getvalue()


def test_without_a_profile_nothing_is_judged_but_shown(hardware: Hardware) -> None:
    records = {
        "n1": Record("n1", "ok", "", NOW, 1.0, hardware=hardware),
        "n2": Record("n2", "unreachable", "no route", NOW, 5.0),
        "n3": not_asked("n3", "why not"),
    }
    views = tables.host_views(FLEET, records, {}, ["n1", "n2", "n3"])
    assert [view["well"] for view in views] == [True, False, False]
    text = shown(tables.fleet_table(views))
    assert "SYN0001" in text
    assert "profile not known" in text
    assert "    unreachable: no route" in text
    assert "3 hosts: 1 ok, 1 unreachable, 1 not_asked; 1 with nothing to do" in text
    page = shown(tables.host_page(views[0], records["n1"]))
    assert "profile other is not known: nothing was judged" in page
    json.dumps(tables.as_json(FLEET, views))


def test_twins_are_found_also_without_a_profile(hardware: Hardware) -> None:
    records = {name: Record(name, "ok", "", NOW, 1.0, hardware=hardware) for name in ("n1", "n2")}
    records["n3"] = not_asked("n3", "why not")
    views = tables.host_views(FLEET, records, {}, ["n1"])
    assert [view["name"] for view in views] == ["n1"]
    assert "host.duplicate_service_tag" in {f["symptom"] for f in views[0]["findings"]}
    assert not views[0]["well"]


def test_a_stale_record_is_not_well(hardware: Hardware) -> None:
    record = Record("n1", "ok", "", NOW, 1.0, stale=True, hardware=hardware)
    assert not tables.view_of(HOSTS[0], record, [], None)["well"]


def test_a_bmcs_words_are_not_markup(hardware: Hardware) -> None:
    """Neither rich's nor a terminal's."""
    odd = dataclasses.replace(hardware, model="[red]X[/] [bold", service_tag="[link=file:///x]T[/link]")
    record = Record("n1", "half_answering", "GET: \x1b[31m[blink]", NOW, 1.0, hardware=odd)
    view = tables.view_of(HOSTS[0], record, [], Profile("other", "x", "y"))
    text = shown(tables.fleet_table([view])) + shown(tables.host_page(view, record))
    assert "[red]X[/] [bold" in text
    assert "[link=file:///x]T[/link]" in text
    assert "\x1b" not in text


def test_narrow_screens_raise_nothing(hardware: Hardware) -> None:
    record = Record("n1", "ok", "", NOW, 1.0, hardware=hardware)
    view = tables.view_of(HOSTS[0], record, [], None)
    assert shown(tables.fleet_table([view]), width=20)
    assert shown(tables.host_page(view, record), width=20)
