"""Captured trees: the same hardware under other names, and nothing left that identifies the machine."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
import time
from pathlib import Path
from typing import Any

import bmc_trees as trees
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from firstlight.bmc import pseudonyms
from firstlight.bmc.capture import RawTree, _join_pages, _links, crawl, write
from firstlight.bmc.errors import HalfAnswering, TimedOut
from firstlight.bmc.fetch import TreeReader, read_tree
from firstlight.bmc.hardware import Hardware
from firstlight.bmc.normalise import normalise
from firstlight.bmc.pool import Target
from firstlight.bmc.pseudonyms import Pseudonyms
from firstlight.bmc.treefiles import load_tree, write_tree
from firstlight.errors import InputError

TARGET = Target("n1", "10.20.30.40", 443, "fl-operator", 'pa$$"word-1')


def hardware_of(resources: dict[str, Any], at: Any) -> Hardware:
    read = read_tree(TreeReader(resources))
    return normalise(read.resources, at, read.failures)


def shape(value: Any) -> Any:
    """A value with every letter and digit made equal: what a replacement must keep."""
    if isinstance(value, dict):
        return {shape(k): shape(v) for k, v in value.items()}
    if isinstance(value, list):
        return [shape(v) for v in value]
    return re.sub(r"[0-9A-Za-z]", "x", value) if isinstance(value, str) else value


def without_names(told: Any, key: str = "") -> Any:
    """A hardware's dict with serial numbers and MACs reduced to their shape, everything else as it is."""
    if isinstance(told, dict):
        return {k: without_names(v, k) for k, v in told.items()}
    if isinstance(told, list):
        return [without_names(v, key) for v in told]
    return shape(told) if re.search("serial|mac|service_tag|guid", key) else told


def files(folder: Path) -> str:
    """Everything in a folder: names and contents."""
    return "\n".join(f"{p.relative_to(folder)}\n{p.read_text()}" for p in sorted(folder.rglob("*")) if p.is_file())


SERIAL = st.from_regex(r"[A-Z0-9]{2,6}[0-9][A-Z0-9]{4,12}", fullmatch=True)
MAC = st.integers(1, 2**40 - 1).map(lambda n: ":".join(re.findall("..", f"02{n:010x}")))
IP = st.tuples(*[st.integers(11, 250)] * 3).map(lambda n: "10.{}.{}.{}".format(*n))


# Without shrinking: each example writes a whole tree.
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(
    tag=st.from_regex(r"[B-DF-HJ-NP-TV-Z0-9]{5}[0-9][B-DF-HJ-NP-TV-Z0-9]", fullmatch=True),
    board=SERIAL,
    gpu=SERIAL,
    macs=st.lists(MAC, min_size=2, max_size=2, unique=True),
    address=IP,
    spelling=st.sampled_from([str.lower, str.upper]),
)
def test_nothing_of_the_original_is_left(
    tmp_path_factory: pytest.TempPathFactory,
    tag: str,
    board: str,
    gpu: str,
    macs: list[str],
    address: str,
    spelling: Any,
) -> None:
    assume(all(len(set(serial)) > 3 for serial in (tag, board, gpu)) and len({tag, board, gpu}) == 3)
    assume(len(set(macs[0][3:])) > 4 and len(set(macs[1][3:])) > 4)
    tree = copy.deepcopy(trees.xe9680())
    text = json.dumps(tree).replace("SYN0001", tag).replace("BOARD0001", board)
    text = re.sub("02:aa:00:00:01:01", spelling(macs[0]), text, flags=re.IGNORECASE)
    tree = json.loads(text)
    system = tree[trees.SYSTEM]
    system["UUID"] = f"4c4c4544-0031-{macs[1].replace(':', '')[:4]}-8034-{macs[0].replace(':', '')}"
    system["HostName"] = f"node-{tag}.site.example"
    system["Oem"]["Dell"]["Note"] = f"S/N: {board}, NIC {macs[0].replace(':', '')}, {macs[0].replace(':', '-').upper()}"
    card = system["Links"]["Chassis"][0]["@odata.id"]
    tree[card]["SerialNumber"] = gpu
    tree[card]["Password"] = "hunter2"
    tree[card]["Note"] = f"{TARGET.username} logged in from {address} with {TARGET.password}; BMC at {TARGET.address}"
    tree[card]["MACAddress"] = macs[1]
    raw = RawTree(resources=tree, failures={f"{card}/Dead{board}": f"GET: 500 on {tag}"}, clock_read_at=trees.NOW)
    folder = tmp_path_factory.mktemp("tree") / "new"
    write(raw, folder, TARGET)
    left = files(folder)
    for original in (tag, board, gpu, "hunter2", TARGET.username, address, TARGET.address, "pa$$", "site.example"):
        assert original.lower() not in left.lower(), original
    bare = re.sub("[:.-]", "", left).lower()
    for mac in macs:
        assert mac.replace(":", "") not in bare
    captured = load_tree(folder)
    assert captured.captured_at == trees.NOW
    before = hardware_of(tree, trees.NOW)
    after = hardware_of(captured.resources, captured.captured_at)
    assert without_names(before.to_dict()) == without_names(after.to_dict())
    assert before.service_tag == tag
    assert after.service_tag != tag
    assert len({nic.mac for nic in after.nics}) == len({nic.mac for nic in before.nics})


def test_replaced_consistently(tmp_path: Path) -> None:
    tree = trees.xe9680()
    tree[trees.SYSTEM]["Oem"]["Dell"]["Twice"] = "SYN0001 and syn0001"
    write(RawTree(resources=tree), tmp_path / "t", TARGET)
    system = load_tree(tmp_path / "t").resources[trees.SYSTEM]
    assert system["Oem"]["Dell"]["Twice"] == f"{system['SKU']} and {system['SKU'].lower()}"
    assert re.fullmatch(r"[A-Z]{3}\d{4}", system["SKU"])


def test_two_captures_have_nothing_in_common(tmp_path: Path) -> None:
    tags = set()
    for name in ("a", "b"):
        write(RawTree(resources=trees.xe9680()), tmp_path / name, TARGET)
        tags.add(load_tree(tmp_path / name).resources[trees.SYSTEM]["SKU"])
    assert len(tags) == 2


def test_what_a_bug_report_is_about_stays(tmp_path: Path) -> None:
    """Versions that look like addresses, slots, the vendor's half of MACs, odd MACs, what is null or no text."""
    tree = trees.xe9680()
    odd = {
        "FirmwareVersion": "7.10.50.10",
        "Description": "runs 7.10.50.10",
        "SubnetMask": "255.255.255.0",
        "Address": "0.0.0.0",
        "Addresses": ["00:00:00:00:00:00", None, "FF:FF:FF:FF:FF:FF"],
        "SerialNumber": None,
        "PartNumber": "0ABC12X04",
        "Slot": "Disk.Bay.0:Enclosure.Internal.0-1",
        "MemberId": 3,
        "PermanentMACAddress": "B8-3F-D2-00-10-20",
    }
    tree[trees.SYSTEM]["Odd"] = odd
    write(RawTree(resources=tree), tmp_path / "t", TARGET)
    found = load_tree(tmp_path / "t").resources[trees.SYSTEM]["Odd"]
    assert {k: v for k, v in found.items() if k != "PermanentMACAddress"} == {
        k: v for k, v in odd.items() if k != "PermanentMACAddress"
    }
    assert re.fullmatch(r"B8-3F-D2(-[0-9A-F]{2}){3}", found["PermanentMACAddress"])
    assert found["PermanentMACAddress"] != odd["PermanentMACAddress"]


def test_serials_in_paths_still_link(tmp_path: Path) -> None:
    """Some firmware names resources by their serial number."""
    path = "/redfish/v1/Chassis/PHX12345678"
    tree = {
        "/redfish/v1": {"Chassis": {"@odata.id": "/redfish/v1/Chassis"}},
        "/redfish/v1/Chassis": {"Members": [{"@odata.id": path}]},
        path: {"@odata.id": path, "SerialNumber": "PHX12345678"},
    }
    write(RawTree(resources=tree), tmp_path / "t", TARGET)
    found = load_tree(tmp_path / "t").resources
    (member,) = found["/redfish/v1/Chassis"]["Members"]
    assert found[member["@odata.id"]]["SerialNumber"] == member["@odata.id"].rsplit("/", 1)[1] != "PHX12345678"


class FakeClient:
    """Answers from a tree as a BmcClient does; some paths fail."""

    def __init__(self, tree: dict[str, Any], failing: dict[str, Exception]) -> None:
        self.tree, self.failing, self.asked = tree, failing, []
        self.root = tree["/redfish/v1"]

    def get(self, path: str) -> Any:
        self.asked.append(path)
        if path in self.failing:
            raise self.failing[path]
        return TreeReader(self.tree).get(path)


def test_crawl_reads_all_but_accounts_and_keeps_failures() -> None:
    tree = copy.deepcopy(trees.xe9680())
    accounts, extra = "/redfish/v1/AccountService", "/redfish/v1/Fabrics"
    tree["/redfish/v1"]["AccountService"] = {"@odata.id": accounts}
    tree["/redfish/v1"]["Fabrics"] = {"@odata.id": extra}
    tree[accounts], tree[extra] = {"Id": "a"}, {"Id": "f"}
    bios = f"{trees.SYSTEM}/Bios"
    client = FakeClient(tree, {bios: HalfAnswering(f"GET {bios}: 500", 500)})
    raw = crawl(client)  # type: ignore[arg-type]
    assert raw.complete
    assert extra in raw.resources
    assert accounts not in client.asked
    assert raw.failures[bios] == f"GET {bios}: 500"
    assert len(client.asked) == len(set(client.asked)), "nothing is asked twice"
    assert hardware_of(raw.resources, None).unread == ["bios"]


def test_crawl_keeps_what_came_before_the_time_was_up() -> None:
    tree = trees.xe9680()
    bios = f"{trees.SYSTEM}/Bios"
    raw = crawl(FakeClient(tree, {bios: TimedOut("GET: late")}))  # type: ignore[arg-type]
    assert not raw.complete
    assert trees.SYSTEM in raw.resources
    client = FakeClient(tree, {"/redfish/v1/Systems": TimedOut("GET: late")})
    with pytest.raises(TimedOut):
        crawl(client)  # type: ignore[arg-type]


def test_pages_become_one_collection() -> None:
    entries = "/redfish/v1/Log/Entries"
    pages = {
        entries: {"Members": [{"Id": "1"}], "Members@odata.nextLink": f"{entries}?$skip=1"},
        f"{entries}?$skip=1": {"Members": [{"Id": "2"}], "Members@odata.nextLink": f"{entries}?$skip=2"},
        f"{entries}?$skip=2": {"Members": [{"Id": "3"}]},
    }
    _join_pages(pages)
    assert pages == {entries: {"Members": [{"Id": "1"}, {"Id": "2"}, {"Id": "3"}]}}


def test_links_lead_nowhere_else() -> None:
    found = _links(
        {
            "a": {"@odata.id": "/redfish/v1/A#/x"},
            "b": [{"@odata.id": "/redfish/v1/../../etc"}, {"@odata.id": "http://x/redfish/v1"}, {"@odata.id": 3}],
        }
    )
    assert found == ["/redfish/v1/A"]


def test_hostile_paths_are_not_written(tmp_path: Path) -> None:
    paths = [
        "/redfish/v1/A/../../../../x",
        "/redfish/v1/" + "a" * 300,
        "/redfish/v1//B",
        "/etc/x",
        "/redfish/v1/index.json",
        "/redfish/v1/a\\b",
    ]
    write(RawTree(resources={"/redfish/v1": {"Id": "r"}} | {p: {"Id": p} for p in paths}), tmp_path / "t", TARGET)
    assert {p.name for p in tmp_path.iterdir()} == {"t"}
    assert list((tmp_path / "t").rglob("index.json")) == [tmp_path / "t/redfish/v1/index.json"]


def test_a_folder_that_is_not_new(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(InputError, match="is not empty"):
        write_tree(tmp_path, {}, {})


# ---------------------------------------------------------------- reading


def test_every_form_reads_the_same(tmp_path: Path) -> None:
    tree = trees.xe9680()
    write_tree(tmp_path / "mockup", tree, {})
    (tmp_path / "flat").mkdir()
    (tmp_path / "named").mkdir()
    for number, (path, resource) in enumerate(tree.items()):
        (tmp_path / "flat" / (path.replace("/", "_") + ".json")).write_text(json.dumps({"@odata.id": path} | resource))
        (tmp_path / "named" / f"{number}.json").write_text(json.dumps({"@odata.id": f"{path}/"} | resource))
    wanted = hardware_of(tree, None)
    for folder in ("mockup", "mockup/redfish", "mockup/redfish/v1", "flat", "named"):
        if folder == "mockup/redfish":
            continue  # v1 below it is found by what the files say, or not at all
        assert hardware_of(load_tree(tmp_path / folder).resources, None) == wanted, folder


def test_what_is_no_tree(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        load_tree(tmp_path / "none")
    (tmp_path / "a.json").write_text("[1]")
    (tmp_path / "b.json").write_text("{")
    (tmp_path / "c.json").write_text('{"Id": "x"}')
    with pytest.raises(InputError, match="holds no Redfish tree"):
        load_tree(tmp_path)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    write_tree(tmp_path / "t", trees.xe9680(), {})
    bad = tmp_path / "t" / trees.SYSTEM.lstrip("/") / "Bios" / "index.json"
    bad.write_text("{")
    deep = tmp_path / "t" / "redfish" / "v1" / "deep.json"
    deep.write_text("[" * 100_000)
    tree = load_tree(tmp_path / "t")
    assert tree.skipped == [str(deep.relative_to(tmp_path / "t")), str(bad.relative_to(tmp_path / "t"))]
    assert hardware_of(tree.resources, None).unread == ["bios"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | SERIAL | MAC | IP,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["SerialNumber", "UUID", "MACAddress", "Address", "HostName", "UserName", "Password", "Id"])
            | st.text(max_size=8),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


def outline(value: Any) -> Any:
    """A value's structure, without its texts and numbers."""
    if isinstance(value, dict):
        return [outline(v) for v in value.values()]
    return [outline(v) for v in value] if isinstance(value, list) else type(value)


@pytest.mark.parametrize("serial", [123456789, -570540085163290118294863872])
def test_a_serial_number_that_is_a_number(serial: int) -> None:
    tree = {"/redfish/v1": {"SerialNumber": serial}}
    found, _ = Pseudonyms([], [], []).replace_tree(tree, {})
    made = found["/redfish/v1"]["SerialNumber"]
    assert made != serial and (made < 0, len(str(made))) == (serial < 0, len(str(serial)))


@settings(max_examples=60, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(JSON, st.from_regex(r"[!-~]{8,12}", fullmatch=True))
def test_replacing_takes_anything_and_keeps_its_structure(value: Any, password: str) -> None:
    tree = {"/redfish/v1": value, "/redfish/v1/A": {"SerialNumber": "stra\u00dfe 99x", "Note": "STRASSE 99X \ud800"}}
    found, told = Pseudonyms([password], ["10.1.2.3"], ["root"]).replace_tree(tree, {"/redfish/v1/B": "GET: 10.1.2.3"})
    assert list(found) == list(tree)
    assert "10.1.2.3" not in str(told)
    if not has_keys_that_are_replaced(value):
        assert outline(found["/redfish/v1"]) == outline(value)


def has_keys_that_are_replaced(value: Any) -> bool:
    """Two names in one object can become the same one when they are replaced; then one of them is lost."""
    if isinstance(value, dict):
        return any(len(k) > 3 and not k.isascii() for k in value) or any(
            map(has_keys_that_are_replaced, value.values())
        )
    return isinstance(value, list) and any(map(has_keys_that_are_replaced, value))


def test_replacing_survives_anything(tmp_path: Path) -> None:
    odd = {"SerialNumber": [None, 1, {"x": "ABC1234567"}], "UUID": 5, "": "", "MACAddress": {"a": 1.5}, "SKU": None}
    tree = {"/redfish/v1": odd, "/redfish/v1/x": {"@odata.type": 3, "SerialNumber": 123456789}}
    write(RawTree(resources=copy.deepcopy(tree)), tmp_path / "t", dataclasses.replace(TARGET, password=""))
    found = load_tree(tmp_path / "t").resources["/redfish/v1/x"]["SerialNumber"]
    assert isinstance(found, int)
    assert found != 123456789


@pytest.mark.parametrize("text", [":" * 50_000 + "g", "a." * 50_000, "_" * 100_000, "0" * 100_000 + "@"])
def test_no_long_text_keeps_the_search_for_addresses_busy(text: str) -> None:
    started = time.process_time()

    for pattern in (pseudonyms._IPV4, pseudonyms._IPV6, pseudonyms._EMAIL):
        assert list(pattern.finditer(text)) == []

    assert time.process_time() - started < 2  # what is quadratic needs a minute
    assert [found[0] for found in pseudonyms._IPV6.finditer("at fe80::1ff:fe23:4567:890a, or ::1")] == [
        "fe80::1ff:fe23:4567:890a",
        "::1",
    ]
    assert [found[0] for found in pseudonyms._EMAIL.finditer("to x.y+z@example.org")] == ["x.y+z@example.org"]
