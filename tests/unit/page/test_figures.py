"""Geometry of the figures and of the racks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight.page import figures, racks


def stage(*seconds, name="install"):
    return {"stage": name, "hosts": len(seconds), "points": [[s, n] for n, s in enumerate(sorted(seconds), 1)]}


def coordinates(line):
    return [tuple(map(float, point.split(","))) for point in line["points"].split(" ")]


@given(st.lists(st.lists(st.floats(0, 1e9), min_size=1, max_size=40), min_size=1, max_size=5), st.integers(0, 60))
def test_lines_rise_to_the_right_and_stay_inside(stages, hosts):
    figure = figures.timeline([stage(*seconds) for seconds in stages], hosts)
    for line in figure["lines"]:
        points = coordinates(line)
        assert points == sorted(points, key=lambda point: (point[0], -point[1]))
        for x, y in points:
            assert figures.LEFT <= x <= figures.WIDTH - figures.RIGHT
            assert figures.TOP <= y <= figures.HEIGHT - figures.BOTTOM
    for mark in figure["times"]:
        assert figures.LEFT <= mark["x"] <= figures.WIDTH
    assert figure["times"] and figure["counts"][0]["label"] == "0"


def test_marks_of_an_installation():
    figure = figures.timeline([stage(2, 3, 5, name="discover"), stage(1400, 1500, 90000)], 4)
    assert [mark["label"] for mark in figure["times"]] == ["1 s", "10 s", "1 min", "10 min", "1 h", "6 h", "1 day"]
    assert [mark["label"] for mark in figure["counts"]] == ["0", "1", "2", "3", "4"]
    assert coordinates(figure["lines"][1])[-1][1] == figures.y(3, 4)


@pytest.mark.parametrize("most", [1, 2, 3, 7, 12, 60, 96, 99, 100, 500, 511, 1000, 4088])
def test_counts_are_few_round_and_end_with_the_most(most):
    marks = figures._counts(most)
    assert marks[0] == 0 and marks[-1] == most and marks == sorted(set(marks)) and 2 <= len(marks) <= 7


def test_no_stage_is_no_figure():
    assert figures.timeline([], 5) is None
    assert figures.weeks([{"week": "2026-W01", "share": None}]) is None


def test_bars_are_as_high_as_their_shares():
    rows = [{"week": f"2026-W{n:02d}", "share": share} for n, share in enumerate((None, 0.0, 0.1, 0.2))]
    figure = figures.weeks(rows)
    nothing, zero, half, whole = figure["bars"]
    assert (nothing["height"], nothing["label"], zero["height"], zero["label"]) == (0, "", 0, "0%")
    assert whole["height"] == pytest.approx(2 * half["height"])
    assert whole["y"] == figures.TOP
    assert [mark["label"] for mark in figure["shares"]] == ["0%", "10%", "20%"]
    assert [bar["week"] for bar in figure["bars"]] == ["W00", "W01", "W02", "W03"]


def test_one_host_of_many_does_not_fill_the_figure():
    (bar,) = figures.weeks([{"week": "2026-W01", "share": 0.002}])["bars"]
    assert bar["height"] < 20


@pytest.mark.parametrize(
    ("share", "said"), [(0, "0%"), (0.002, "0.2%"), (0.03, "3%"), (0.031, "3.1%"), (0.0999, "10%"), (1, "100%")]
)
def test_percent(share, said):
    assert figures.percent(share) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(2.4, "2.4 s"), (42.2, "42 s"), (720, "12 min"), (12600, "3.5 h"), (181440, "2.1 days")],
)
def test_duration(seconds, said):
    assert figures.duration(seconds) == said


def host(name, rack, unit):
    return {"name": name, "rack": rack, "unit": unit}


def test_racks_are_in_the_order_of_people_and_hosts_stand_from_the_top():
    found, span = racks.racks([host("a", "r10", 4), host("b", "r2", 4), host("c", "r2", 16), host("d", "r2", 10)])
    assert [rack.name for rack in found] == ["r2", "r10"]
    assert [one["name"] for one in found[0].hosts] == ["c", "d", "b"]
    assert span == 6
    assert found[0].rows == {"c": (1, 6), "d": (7, 6), "b": (13, 6)}
    assert found[1].rows == {"a": (13, 6)}  # at the height of its neighbour


def test_servers_of_one_unit_and_a_rack_of_one():
    found, span = racks.racks([host("a", "r1", 7), host("b", "r1", 8)])
    assert (span, found[0].rows) == (1, {"b": (1, 1), "a": (2, 1)})
    found, span = racks.racks([host("a", "r1", 7)])
    assert (span, found[0].rows["a"]) == (racks.SPAN_MAX, (1, racks.SPAN_MAX))


@given(st.lists(st.tuples(st.text(max_size=5), st.one_of(st.none(), st.integers(1, 60))), max_size=30))
def test_every_host_has_rows_from_the_first_on(places):
    found, _ = racks.racks([host(f"n{number}", rack, unit) for number, (rack, unit) in enumerate(places)])
    assert sum(len(rack.hosts) for rack in found) == len(places)
    assert all(row >= 1 and span >= 1 for row, span in racks.places(found))
    assert min((row for row, _ in racks.places(found)), default=1) == 1
