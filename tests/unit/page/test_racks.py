"""Where hosts are drawn in their racks."""

from __future__ import annotations

import pytest

from firstlight.page.racks import racks
from firstlight.sitefiles import RACK_UNITS


def host(name, unit, rack="r1"):
    return {"name": name, "rack": rack, "unit": unit}


@pytest.mark.parametrize("odd", [2 * 10**9, RACK_UNITS + 1, -5, None])
def test_a_unit_that_no_rack_has_is_drawn_below_all_and_stretches_nothing(odd):
    well = [host("n1", 1), host("n2", RACK_UNITS), host("n3", 5, "r2")]
    (first, second), span = racks([*well, host("odd", odd)])
    (plain, _), plain_span = racks(well)
    assert span <= plain_span
    assert [one["name"] for one in first.hosts] == ["n2", "n1", "odd"]
    assert max(row + rows for rack in (first, second) for row, rows in rack.rows.values()) <= 2 * RACK_UNITS
    assert min(row for rack in (first, second) for row, _ in rack.rows.values()) == 1
    assert plain.rows["n2"][0] == first.rows["n2"][0]
