"""The plan of a pool: never over the system's drive or one with data, whatever order the drives come in."""

import dataclasses
import itertools

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from firstlight.zfs.plan import BY_ID, LEAST, Wanted, ashift_of, blank, is_system, make_plan, members_of, shape
from firstlight.zfs.properties import (
    check_datasets,
    read_serials,
    same,
    set_commands,
    text_of,
    write_serials,
)
from firstlight.zfs.status import Leaf, Pool

TIB = 1024**4


def disk(n, **changes):
    row = {
        "name": f"nvme{n}n1",
        "by_id": f"nvme-eui.{n:04x}",
        "serial": f"S{n:03d}",
        "wwn": f"eui.{n:04x}",
        "model": "M",
        "size": 4 * TIB,
        "transport": "nvme",
        "rotational": False,
        "logical_sector": 512,
        "physical_sector": 4096,
        "is_os": False,
        "mounted": [],
        "holders": [],
        "partitions": [],
        "signatures": [],
    }
    return {**row, **changes}


def signature(kind, device="nvme3n1", label=""):
    return {"device": device, "type": kind, "label": label, "uuid": "", "usage": "filesystem"}


SYSTEM = disk(99, is_os=True, mounted=["/", "/boot/efi"], partitions=["nvme99n1p1"], signatures=[signature("gpt")])


def plan(disks, wanted=None, os_disks=(SYSTEM,), lost=(), pools=(), importable=(), **changes):
    return make_plan(wanted or Wanted("data", **changes), disks, os_disks, lost, pools, importable)


def words(made):
    return [word for command in made.commands for word in command]


def only(made):
    (finding,) = made.findings
    return finding


contents = st.sampled_from(
    ["blank", "ext4", "gpt", "partitions", "unreadable", "zfs_member", "zfs_member_data", "mounted", "held"]
)


def dressed(n, kind, serial=True):
    extra = {
        "blank": {},
        "ext4": {"signatures": [signature("ext4")]},
        "gpt": {"signatures": [signature("gpt")], "partitions": [f"nvme{n}n1p1"]},
        "partitions": {"partitions": [f"nvme{n}n1p1"]},
        "unreadable": {"signatures": None},
        "zfs_member": {"signatures": [signature("zfs_member", label="old")], "partitions": [f"nvme{n}n1p1"]},
        "zfs_member_data": {"signatures": [signature("gpt"), signature("zfs_member", label="data")]},
        "mounted": {"mounted": ["/srv"], "signatures": [signature("xfs")]},
        "held": {"holders": ["md0"], "signatures": [signature("linux_raid_member")]},
    }[kind]
    return disk(n, **extra, **({} if serial else {"serial": ""}))


@given(
    st.lists(st.tuples(contents, st.booleans()), max_size=14),
    st.sampled_from(["flag", "mount", "serial", "by_id", "wwn"]),
    st.sets(st.integers(0, 14)),
    st.booleans(),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_neither_the_system_nor_data_is_ever_in_the_plan(kinds, known_by, listed, system_listed, anew, order):
    data = [dressed(n, kind, serial) for n, (kind, serial) in enumerate(kinds)]
    # the system's drive, known by one thing alone, and looking blank
    system = disk(99, is_os=known_by == "flag", mounted=["/"] if known_by == "mount" else [])
    os_disks = [{known_by: system[known_by]}] if known_by in system else []
    wipe = tuple([f"S{n:03d}" for n in listed] + (["S099"] if system_listed else []))
    disks = [*data, system]
    order.shuffle(disks)
    made = plan(disks, os_disks=os_disks, wipe=wipe, anew=anew)
    used = {word for word in words(made) if word.startswith("/dev/")}
    assert not any(system["by_id"] in word for word in used)
    for one in data:
        harmed = any(one["by_id"] in word for word in used)
        may = one["signatures"] is not None and (blank(one) or (one["serial"] in wipe))
        if harmed:
            assert may
            assert anew or "data" not in members_of(one)
            assert not one["mounted"]
            assert not one["holders"]
    assert "-f" not in words(made)
    assert (made.action == "create") == (bool(made.commands))
    if made.action == "refuse":
        assert made.findings


@given(st.lists(contents, max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_drives_never_matters(kinds, order):
    disks = [*(dressed(n, kind) for n, kind in enumerate(kinds)), SYSTEM]
    mixed = list(disks)
    order.shuffle(mixed)
    one, two = plan(disks, wipe=("S001", "S002")), plan(mixed, wipe=("S001", "S002"))
    assert (one.action, one.commands, one.groups, one.spares) == (two.action, two.commands, two.groups, two.spares)
    assert one.findings == two.findings


@example(11, "raidz2", 4)
@given(st.integers(1, 120), st.sampled_from(["auto", *LEAST]), st.integers(2, 16))
def test_shapes_use_every_drive(count, level, width):
    try:
        level, groups, each, spares = shape(count, level, width)
    except ValueError:
        assume(False)
    assert groups * each + spares == count
    assert each >= LEAST[level]
    assert spares < (each if level == "mirror" else groups)
    # wider than wished for only where one more group would leave groups that are none
    assert level in ("stripe", "mirror") or each <= max(width, LEAST[level]) or count // (groups + 1) < LEAST[level]


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (2, ("mirror", 1, 2, 0)),
        (3, ("raidz1", 1, 3, 0)),
        (5, ("raidz1", 1, 5, 0)),
        (6, ("raidz2", 1, 6, 0)),
        (8, ("raidz2", 1, 8, 0)),
        (12, ("raidz2", 2, 6, 0)),
        (13, ("raidz2", 2, 6, 1)),
        (24, ("raidz2", 3, 8, 0)),
    ],
)
def test_level_and_width_by_the_number_of_drives(count, expected):
    assert shape(count) == expected


def test_one_drive_is_no_pool_unless_asked_for():
    assert only(plan([disk(0), SYSTEM])).symptom == "zfs.too_few_drives"
    made = plan([disk(0), SYSTEM], level="stripe")
    assert made.commands == [["zpool", "create", "-o", "ashift=12", "data", BY_ID + "nvme-eui.0000"]]


def test_the_command_names_drives_by_id_and_settings_in_order():
    wanted = Wanted("data", pool_properties={"autotrim": "on"}, properties={"compression": "zstd", "atime": "off"})
    made = plan([disk(n) for n in (2, 0, 1)] + [SYSTEM], wanted)
    assert made.commands == [
        [
            "zpool",
            "create",
            "-o",
            "ashift=12",
            "-o",
            "autotrim=on",
            "-O",
            "atime=off",
            "-O",
            "compression=zstd",
            "data",
            "raidz1",
        ]
        + [BY_ID + f"nvme-eui.{n:04x}" for n in range(3)]
    ]


def test_more_drives_are_groups_of_equal_width_and_spares():
    made = plan([disk(n) for n in range(13)])
    command = made.commands[0]
    assert [command.count("raidz2"), command[-2]] == [2, "spare"]
    assert ([len(group) for group in made.groups], made.spares) == ([6, 6], ["nvme-eui.000c"])


@pytest.mark.parametrize(
    ("sector", "shift"), [(512, 12), (4096, 12), (8192, 13), (16384, 14), (1 << 20, 16), (None, 12)]
)
def test_sector_size(sector, shift):
    assert ashift_of([disk(0), disk(1, physical_sector=sector)]) == shift


def test_what_is_on_a_drive_is_named():
    rows = [
        (dressed(3, "ext4"), "zfs.drive_not_empty", "holds ext4 on nvme3n1"),
        (dressed(3, "partitions"), "zfs.drive_not_empty", "holds partitions nvme3n1p1"),
        (dressed(3, "unreadable"), "zfs.drive_unreadable", "cannot be read"),
        (dressed(3, "zfs_member"), "zfs.drive_not_empty", "zfs_member 'old'"),
        (dressed(3, "mounted"), "zfs.drive_in_use", "mounted at /srv: xfs on nvme3n1"),
        (dressed(3, "held"), "zfs.drive_in_use", "in use by md0: linux_raid_member"),
        (disk(3, by_id=None), "zfs.no_stable_name", "no name of its own"),
        (disk(3, by_id="nvme-eui.0000"), "zfs.no_stable_name", "another drive"),
        (disk(3, by_id="x; rm -rf /"), "zfs.no_stable_name", "no name of its own"),
    ]
    for row, symptom, evidence in rows:
        made = plan([disk(0), disk(1), disk(2), row, SYSTEM])
        finding = made.findings[-1]
        assert (made.action, made.commands, finding.symptom) == ("refuse", [], symptom)
        assert evidence in finding.evidence
        assert finding.locator == "serial S003, M, nvme3n1"


def test_wiping_takes_the_partitions_first():
    made = plan([disk(0), disk(1), dressed(2, "zfs_member"), SYSTEM], wipe=("S002",))
    path = BY_ID + "nvme-eui.0002"
    assert made.commands[:3] == [
        ["wipefs", "--all", "--quiet", f"{path}-part1"],
        ["wipefs", "--all", "--quiet", path],
        ["udevadm", "settle"],
    ]
    assert made.wiped == ["nvme-eui.0002"]


def test_a_serial_that_two_drives_have_wipes_neither():
    made = plan([disk(0), dressed(1, "ext4"), disk(2), disk(3, serial="S001"), SYSTEM], wipe=("S001",))
    assert (made.action, only(made).symptom) == ("refuse", "zfs.drive_not_empty")


@pytest.mark.parametrize("wipe", [(), ("S000",), ("S000", "S001", "S002")])
def test_drives_of_a_lost_pool_of_this_name_are_not_made_anew(wipe):
    rows = [disk(n, signatures=[signature("zfs_member", label="data")]) for n in range(3)]
    made = plan([*rows, SYSTEM], wipe=wipe)
    assert (made.action, made.commands) == ("refuse", [])
    assert [finding.symptom for finding in made.findings] == ["zfs.pool_unavailable"] * 3
    assert "only zfs_pool_anew gives it up" in made.findings[0].evidence
    # nor one of them among others
    made = plan([rows[0], disk(1), disk(2), SYSTEM], wipe=wipe)
    assert (made.commands, only(made).symptom) == ([], "zfs.pool_unavailable")
    # given up, its drives are as any other's
    made = plan([*rows, SYSTEM], wipe=wipe, anew=True)
    assert (made.action == "create") == (len(wipe) == 3)
    assert {finding.symptom for finding in made.findings} <= {"zfs.drive_not_empty"}


def test_drives_of_another_pool_are_wiped_where_they_are_listed():
    for label in ("old", "data2", ""):  # a spare's label has no name
        rows = [disk(n, signatures=[signature("zfs_member", label=label)]) for n in range(3)]
        made = plan([*rows, SYSTEM], wipe=("S000", "S001", "S002"))
        assert (made.action, len(made.wiped)) == ("create", 3)


def test_a_missing_drive_makes_no_smaller_pool():
    made = plan([disk(n) for n in range(5)] + [SYSTEM], drives=6)
    assert (made.action, only(made).symptom, only(made).action) == ("refuse", "zfs.drive_missing", "reseat")
    assert plan([disk(n) for n in range(6)] + [SYSTEM], drives=6).action == "create"
    assert only(plan([SYSTEM], drives=6)).symptom == "zfs.no_drive"


def test_a_system_that_cannot_be_followed_to_a_drive_stops_everything():
    made = plan([disk(0), disk(1)], os_disks=(), lost=("/",))
    assert (made.action, only(made).symptom) == ("refuse", "zfs.os_disk_unknown")
    made = make_plan(Wanted("data"), None, None, ["/"], [], [])
    assert (made.action, only(made).symptom) == ("refuse", "zfs.disks_unknown")


def test_sizes():
    rows = [disk(0), disk(1), disk(2, size=2 * TIB), SYSTEM]
    made = plan(rows)
    assert only(made).symptom == "zfs.mixed_sizes"
    assert "serial S002" in only(made).evidence
    assert "-f" in words(plan(rows, mixed_sizes=True))
    assert "-f" not in words(plan(rows[:2] + rows[3:], mixed_sizes=True))
    # mixed sizes never excuse data
    assert plan([*rows, dressed(3, "ext4")], mixed_sizes=True).action == "refuse"


def test_usb_drives_and_those_the_site_leaves_out_are_none():
    made = plan([disk(0), disk(1), disk(2, transport="usb"), dressed(3, "ext4"), SYSTEM], ignore=("S003",))
    assert made.groups == [["nvme-eui.0000", "nvme-eui.0001"]]


def test_a_drive_of_another_imported_pool_is_in_use_whatever_is_listed():
    other = Pool("tank", "ONLINE", leaves=(Leaf("/dev/nvme2n1p1", "ONLINE", "/dev/nvme2n1p1"),))
    made = plan([disk(0), disk(1), dressed(2, "zfs_member"), SYSTEM], pools=[other], wipe=("S002",))
    assert only(made).symptom == "zfs.drive_in_use"
    assert "tank" in only(made).evidence


def member(n, state="ONLINE"):
    path = f"{BY_ID}nvme-eui.{n:04x}-part1"
    return Leaf(path, state, path, groups=("raidz1-0",))


def test_replacing_harms_nothing_but_what_is_named():
    pool = Pool("data", "DEGRADED", leaves=(member(0), member(1), member(2, "UNAVAIL")))
    disks = [disk(0), disk(1), dressed(7, "gpt"), SYSTEM]
    for replace, symptom in (
        ({"nvme-eui.0002": "S007"}, "zfs.drive_not_empty"),
        ({"nvme-eui.0002": "S099"}, "zfs.drive_in_use"),
        ({"nvme-eui.0002": "S555"}, "zfs.replace_unknown"),
        ({"S777": "S007"}, "zfs.replace_unknown"),
    ):
        made = plan(disks, Wanted("data", replace=replace, wipe=("S099",)), pools=[pool])
        assert (made.commands, made.findings[0].symptom) == ([], symptom)
    made = plan(disks, Wanted("data", replace={"nvme-eui.0002": "S007"}, wipe=("S007",)), pools=[pool])
    assert made.commands[-1] == ["zpool", "replace", "data", f"{BY_ID}nvme-eui.0002-part1", BY_ID + "nvme-eui.0007"]
    numbered = Pool("data", "DEGRADED", leaves=(member(0), dataclasses.replace(member(2, "UNAVAIL"), number="77")))
    made = plan(disks, Wanted("data", replace={"77": "S007"}, wipe=("S007",)), pools=[numbered])
    assert made.commands[-1] == ["zpool", "replace", "data", "77", BY_ID + "nvme-eui.0007"]
    # a drive of the pool itself is no new one
    made = plan(disks, Wanted("data", replace={"nvme-eui.0002": "S001"}), pools=[pool])
    assert made.commands == []


def test_a_member_that_is_gone_is_not_the_drive_that_has_its_kernel_name_now():
    pool = Pool("data", "DEGRADED", leaves=(Leaf("123", "UNAVAIL", "/dev/nvme5n1p1"), member(0)))
    made = plan([disk(0), disk(5), SYSTEM], Wanted("data", replace={"123": "S005"}), pools=[pool])
    assert made.commands == [["zpool", "replace", "data", "123", BY_ID + "nvme-eui.0005"]]


def test_a_drive_that_no_pool_has_is_said():
    pool = Pool("data", "ONLINE", leaves=(member(0), member(1)))
    made = plan([disk(0), disk(1), dressed(5, "ext4"), SYSTEM], pools=[pool])
    assert (only(made).status, only(made).symptom) == ("warn", "zfs.drive_unused")
    assert "ext4" in only(made).evidence


def test_a_drive_that_was_taken_out_of_the_pool_and_is_there_again():
    pool = Pool("data", "DEGRADED", leaves=(member(0), member(1), member(2, "UNAVAIL")))
    stale = disk(7, signatures=[signature("zfs_member", "nvme7n1p1", "data")], partitions=["nvme7n1p1"])
    disks = [disk(0), disk(1), stale, SYSTEM]
    made = plan(disks, Wanted("data", wipe=("S007",)), pools=[pool])
    assert (made.commands, only(made).status, only(made).symptom) == ([], "warn", "zfs.drive_unused")
    assert "zfs_pool_replace takes it again, with its serial in zfs_pool_wipe_serials" in only(made).evidence
    exchange = {"nvme-eui.0002": "S007"}
    made = plan(disks, Wanted("data", replace=exchange), pools=[pool])
    assert (made.commands, made.findings[0].symptom) == ([], "zfs.drive_not_empty")
    made = plan(disks, Wanted("data", replace=exchange, wipe=("S007",)), pools=[pool])
    assert (made.wiped, made.commands[-1][:3]) == (["nvme-eui.0007"], ["zpool", "replace", "data"])


def test_importing():
    one = Pool("data", "ONLINE", number="11", leaves=(member(0),))
    assert plan([], importable=[one]).commands == [["zpool", "import", "-d", BY_ID, "11"]]
    two = Pool("data", "ONLINE", number="12")
    assert only(plan([], importable=[one, two])).symptom == "zfs.two_pools"
    assert only(plan([], importable=[Pool("data", "UNAVAIL", number="11")])).symptom == "zfs.pool_unavailable"
    foreign = Pool("data", "ONLINE", number="11", message="ZFS-8000-EY")
    assert only(plan([], importable=[foreign])).symptom == "zfs.pool_of_other_host"
    assert plan([], importable=[foreign], force_import=True).commands == [["zpool", "import", "-f", "-d", BY_ID, "11"]]
    # another pool that could be imported is not ours to import, and its drives are not empty
    assert plan([disk(0), disk(1), SYSTEM], importable=[Pool("tank", "ONLINE", number="1")]).action == "create"


def test_a_pool_is_given_up_only_where_every_drive_may_be_wiped():
    used = [disk(n, signatures=[signature("zfs_member", label="data")]) for n in range(2)]
    pool = Pool("data", "ONLINE", number="11", leaves=(member(0), member(1)))
    serials = tuple(one["serial"] for one in used)
    assert plan(used, importable=[pool], wipe=serials).action == "import"  # as a site may have it in its settings
    made = plan(used, importable=[pool], wipe=serials, anew=True)
    assert (made.action, len(made.wiped)) == ("create", 2)
    refused = plan(used, importable=[pool], wipe=serials[:1], anew=True)
    assert (refused.action, refused.commands) == ("refuse", [])
    assert "list its serial in zfs_pool_wipe_serials" in refused.findings[0].evidence
    assert plan(used, pools=[pool], wipe=serials, anew=True).action == "keep"  # it is in use: made a moment ago


def test_is_system_by_any_identity():
    for key in ("serial", "wwn", "by_id", "name"):
        assert is_system(disk(1), [{key: disk(1)[key]}])
    assert not is_system(disk(1), [{"serial": "", "wwn": "", "name": "nvme2n1"}])
    assert not is_system(disk(1, serial=""), [{"serial": ""}])


@pytest.mark.parametrize(
    ("key", "wanted", "current", "equal"),
    [
        ("recordsize", "1M", "1048576", True),
        ("recordsize", "128K", "131072", True),
        ("quota", "none", "0", True),
        ("quota", "1.5T", "1649267441664", True),
        ("atime", "off", "on", False),
        ("mountpoint", "none", "0", False),
        ("compression", "zstd-3", "zstd", False),
    ],
)
def test_spellings_of_settings(key, wanted, current, equal):
    assert same(key, wanted, current) is equal


def test_settings_as_yaml_has_them():
    assert [text_of(v) for v in (True, False, "True", 5, "1M")] == ["on", "off", "on", "5", "1M"]


def test_only_what_differs_is_set():
    now = {"data": {"atime": "on", "compression": "lz4"}}
    commands = set_commands(
        "data", {"autotrim": "on"}, {"atime": "off", "compression": "lz4"}, [("a/b", {"quota": "1T"})], {}, now
    )
    assert commands == [
        ["zpool", "set", "autotrim=on", "data"],
        ["zfs", "set", "atime=off", "data"],
        ["zfs", "create", "-p", "-o", "quota=1T", "data/a/b"],
    ]


@pytest.mark.parametrize("name", ["", "/a", "a/", "a b", "a@b", "-o", "a//b", "../x"])
def test_names_of_datasets(name):
    with pytest.raises(ValueError, match="no name of a dataset"):
        check_datasets([{"name": name}])


def test_datasets_twice():
    with pytest.raises(ValueError, match="'a' is there twice"):
        check_datasets([{"name": "a"}, {"name": "a"}])
    assert [n for n, _ in check_datasets([{"name": "b/c"}, {"name": "b", "properties": {"atime": True}}])] == [
        "b",
        "b/c",
    ]


@given(st.dictionaries(st.from_regex(r"\A[A-Za-z0-9._-]{1,20}\Z"), st.text(min_size=1, max_size=20)))
def test_serials_survive_the_pool(serials):
    written = write_serials(serials)
    assert set(read_serials(written)) == set(serials)
    assert write_serials(read_serials(written)) == written


def test_every_permutation_of_a_small_host():
    expected = plan([disk(0), disk(1), disk(2), SYSTEM]).commands
    for row in itertools.permutations([disk(0), disk(1), disk(2), SYSTEM]):
        assert plan(list(row)).commands == expected


def removed(n, state="REMOVED"):
    leaf = Leaf(f"/dev/disk/by-id/nvme-eui.{n:04x}-part1", state, number="77", groups=("raidz2-0",))
    return Pool("data", "DEGRADED", leaves=(dataclasses.replace(leaf, path=leaf.name),))


def test_a_drive_that_is_there_again_is_taken_back():
    disks = [disk(1), SYSTEM]
    assert plan(disks, pools=[removed(1)]).commands == [["zpool", "online", "data", "77"]]
    assert plan([SYSTEM], pools=[removed(1)]).commands == [], "it is not there"
    assert plan(disks, pools=[removed(1, "FAULTED")]).commands == [], "ZFS gave it up"
    assert plan(disks, pools=[removed(1)], replace={"S001": "S002"}).commands == [], "it is to go"
