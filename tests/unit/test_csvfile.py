"""The fleet as a table, as spreadsheets and people write it."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firstlight.errors import InputError
from firstlight.profile import Profile
from firstlight.sitefiles import Fleet, load_fleet

PROFILES = {"xe9680": Profile("xe9680", "Dell Inc.", "PowerEdge XE9680")}
HEAD = "site,name,rack,unit,bmc_address,profile,service_tag,mac\n"
ROW = "lab,a,r1,4,10.0.1.11,xe9680,ABC1234,B0-7B-25-00-01-0A\n"


def fleet(tmp_path: Path, text: str | bytes) -> Fleet:
    (tmp_path / "fleet.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_fleet(tmp_path / "fleet.csv", PROFILES)


def error(tmp_path: Path, text: str | bytes) -> str:
    with pytest.raises(InputError) as caught:
        fleet(tmp_path, text)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(f"{tmp_path}/", "")


def test_the_same_as_in_yaml(tmp_path: Path) -> None:
    (tmp_path / "fleet.yml").write_text(
        "site: lab\nhosts:\n"
        "  - {name: a, rack: r1, unit: 4, bmc_address: 10.0.1.11, profile: xe9680, service_tag: ABC1234,\n"
        '     mac: "B0-7B-25-00-01-0A"}\n'
        "  - {name: b, rack: '7', unit: 5, bmc_address: 10.0.1.12, bmc_port: 8443, profile: xe9680}\n"
        "ranges:\n"
        "  - {names: 'n[1:2]', rack: r2, first_unit: 1, unit_step: 6, bmc_addresses: 10.0.2.1-10.0.2.2,\n"
        "     profile: xe9680}\n"
    )
    wanted = load_fleet(tmp_path / "fleet.yml", PROFILES)
    table = """\
site,name,names,rack,unit,first_unit,unit_step,bmc_address,bmc_addresses,bmc_port,profile,service_tag,mac
# the first rack
lab,a,,r1,4,,,10.0.1.11,,,xe9680,ABC1234,B0-7B-25-00-01-0A

,b,,7,5,,,10.0.1.12,,8443,xe9680
,,n[1:2],r2,,1,6,,10.0.2.1-10.0.2.2,,xe9680,,
"""
    assert fleet(tmp_path, table) == wanted


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_as_spreadsheets_write_it(tmp_path: Path, separator: str, end: str) -> None:
    """With a byte-order mark, quotes, blanks, capitals in the first line, and rows of separators alone."""
    text = "\ufeff" + HEAD.replace("name", "Name") + ROW.replace("r1", '" r1 "') + ",,,,,,,\n"
    found = fleet(tmp_path, text.replace(",", separator).replace("\n", end))
    assert [(h.name, h.rack, h.unit, h.mac) for h in found.hosts] == [("a", "r1", 4, "b0:7b:25:00:01:0a")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "fleet.csv: is empty; the first line names the columns: site,name,rack,unit,bmc_address"),
        (HEAD, "fleet.csv:1: 'site' is a required property"),
        (HEAD.replace("unit", "units") + ROW, "fleet.csv:1: unknown column 'units'; known are site, name, rack, unit"),
        (HEAD.replace("mac", "name") + ROW, "fleet.csv:1: column 'name' is there twice"),
        (HEAD + ROW + "lab,b,r1\n", "fleet.csv:3: hosts[1]: 'unit' is a required property"),
        (HEAD + ROW.replace("\n", ",more\n"), "fleet.csv:2: has 9 cells, the first line names 8"),
        (HEAD + ROW + ROW.replace("lab,a", "two,b"), "fleet.csv:3: site 'two' differs from 'lab' above"),
        (HEAD + ROW.replace("lab", ""), "fleet.csv:1: 'site' is a required property"),
        (HEAD + ROW.replace(",4,", ",four,"), "fleet.csv:2: hosts[0].unit: 'four' is not right; a rack unit from 1"),
        (HEAD + ROW.replace(",4,", ",61,"), "fleet.csv:2: hosts[0].unit: 61 is not right; a rack unit from 1 to 60"),
        (HEAD + ROW.replace("10.0.1.11", "10.0.1"), "fleet.csv:2: host a: bmc_address '10.0.1' is not an IP address"),
        (HEAD + "\n# no\n" + ROW.replace("xe9680", "x"), "fleet.csv:4: host a: unknown profile 'x'; known are xe9680"),
        (HEAD + ROW + ROW, "fleet.csv:3: host a: name a is already taken by a (fleet.csv:2)"),
        (HEAD + ROW.replace("ABC1234", '"ABC1234\n\n"') + "lab,b\n", "fleet.csv:5: hosts[1]: 'rack' is a required"),
        (HEAD + 'lab,"a\n', "fleet.csv: not valid CSV: unexpected end of data"),
        (b"\xff\xfe", "fleet.csv: not a UTF-8 text file"),
    ],
)
def test_wrong_tables(tmp_path: Path, text: str | bytes, said: str) -> None:
    assert error(tmp_path, text).startswith(said)


def test_overlapping_ranges_are_named(tmp_path: Path) -> None:
    head = "site,names,rack,first_unit,unit_step,bmc_addresses,profile\n"
    rows = "lab,n[1:8],r1,1,6,10.0.1.11-10.0.1.18,xe9680\nlab,m[1:8],r2,1,6,10.0.1.18-10.0.1.25,xe9680\n"
    assert error(tmp_path, head + rows) == (
        "fleet.csv:3: range m[1:8] overlaps range n[1:8] (fleet.csv:2): both have 10.0.1.18"
    )


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=200) | st.text(',;"\n#abc1.', max_size=100).map(lambda text: HEAD + text))
def test_any_text_is_a_fleet_or_an_input_error(tmp_path: Path, text: str) -> None:
    with contextlib.suppress(InputError):
        assert fleet(tmp_path, text.encode("utf-8", "surrogatepass")).hosts
