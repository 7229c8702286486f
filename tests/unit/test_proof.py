"""The proof after an installation: pure judgements, and the texts of lsblk and findmnt as they are."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight.proof import (
    BLANK,
    HEAD_BYTES,
    Disk,
    Head,
    content_of,
    disks_under,
    judge_data,
    judge_root,
    read_findmnt,
    read_lsblk,
)

OS = Disk("sda", ("1234",), ("0x6001",), "DELLBOSS VD", 480_000_000_000)
DATA = [Disk(f"nvme{n}n1", (f"DATA{n}",), (f"eui.{n:016x}",), "KIOXIA CM7", 3_840_000_000_000) for n in range(3)]
WANTED = {"serial": "1234", "model": "DELLBOSS VD", "size": 480_000_000_000, "name": "sdz"}
SUM = "ab" * 32


def before(disk: Disk, sha256: str = BLANK, **more):
    return {"name": "other", "serial": disk.serial, "wwid": disk.wwids[0], "size": disk.size, "sha256": sha256, **more}


def symptoms(findings):
    return [(f.symptom, f.status) for f in findings]


# -- what the tools say -------------------------------------------------------------------------------------------


def lsblk(*devices):
    return json.dumps({"blockdevices": list(devices)})


def node(name, number, kind="part", size=100, children=(), **more):
    return {"name": name, "maj:min": number, "type": kind, "size": size, "children": list(children), **more}


def test_root_through_lvm_on_md_on_two_disks():
    root = node("vg-root", "253:0", "lvm")
    text = lsblk(
        node(
            "sda",
            "8:0",
            "disk",
            children=[node("sda1", "8:1", children=[node("md0", "9:0", "raid1", children=[root])])],
        ),
        node(
            "sdb",
            "8:16",
            "disk",
            children=[node("sdb1", "8:17", children=[node("md0", "9:0", "raid1", children=[root])])],
        ),
        node("sdc", "8:32", "disk", serial=" S3 ", wwn="0x5", size="3840755982336", model=None),
    )
    disks, lies_on = read_lsblk(text)
    assert lies_on["253:0"] == lies_on["vg-root"] == ["sda", "sdb"]
    assert disks_under(lies_on, "/dev/mapper/vg-root", "253:0") == ["sda", "sdb"]
    assert disks_under(lies_on, "/dev/sda1[/@]", "0:26") == ["sda"]  # btrfs
    assert disks_under(lies_on, "tank/root", "0:27") == []  # zfs: not known
    assert disks[2] == Disk("sdc", ("S3",), ("0x5",), "", 3840755982336)  # older versions write sizes as text


def test_what_is_no_disk_is_left_out():
    text = lsblk(
        node("loop0", "7:0", "loop"),
        node("zram0", "252:0", "disk"),
        node("sr0", "11:0", "rom"),
        node("sdd", "8:48", "disk", size=0),
        node("nvme0n1", "259:0", "disk"),
    )
    assert [d.name for d in read_lsblk(text)[0]] == ["nvme0n1"]


def test_what_findmnt_says():
    text = '{"filesystems": [{"source":"/dev/sda2[/@]", "maj:min":"0:26"}, {"source":"/dev/sdb1", "maj:min":"8:17"}]}'
    assert read_findmnt(text) == ("/dev/sdb1", "8:17")  # the one mounted over it


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda v: (
        st.lists(v, max_size=3)
        | st.dictionaries(
            st.sampled_from(["blockdevices", "filesystems", "name", "type", "size", "children", "maj:min"]), v
        )
    ),
    max_leaves=12,
)


@given(st.text(max_size=40) | JSON.map(json.dumps) | st.builds(lambda v: json.dumps({"blockdevices": v}), JSON))
def test_no_text_of_the_tools_is_a_crash(text):
    read_lsblk(text)
    read_findmnt(text)


def test_a_tree_without_end_is_refused():
    deep = node("x", "1:1")
    for _ in range(40):
        deep = node("x", "1:1", children=[deep])
    assert read_lsblk(lsblk(deep)) is None


# -- root ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spelled", ["1234", " 1234", "12-34"])
def test_root_on_the_chosen_disk(spelled):
    (finding,) = judge_root({**WANTED, "serial": spelled}, [OS, *DATA], ["sda"], "/dev/sda2")
    assert (finding.status, finding.evidence) == ("ok", "root is on sda DELLBOSS VD serial 1234 480 GB")


def test_root_on_a_data_drive_names_both():
    (finding,) = judge_root(WANTED, [OS, *DATA], ["nvme1n1"], "/dev/nvme1n1p2")
    assert (finding.symptom, finding.status, finding.action) == ("os_disk.wrong_disk", "fail", "escalate")
    assert "nvme1n1 KIOXIA CM7 serial DATA1 3.8 TB" in finding.evidence
    assert "chosen was DELLBOSS VD serial 1234 480 GB" in finding.evidence


@pytest.mark.parametrize(
    ("wanted", "on", "symptom"),
    [
        (WANTED, ["sda", "nvme0n1"], "os_disk.wrong_disk"),  # a mirror over both
        (WANTED, [], "os_disk.unproven"),
        ({}, ["sda"], "os_disk.unproven"),
        ({"serial": ""}, ["sda"], "os_disk.unproven"),
    ],
)
def test_what_is_not_proven_is_no_success(wanted, on, symptom):
    assert symptoms(judge_root(wanted, [OS, *DATA], on, "/dev/x")) in (
        [(symptom, "fail")],
        [(symptom, "unknown")],
    )


def test_a_serial_that_all_disks_have_proves_nothing_unless_the_size_does():
    twins = [Disk(f"sd{c}", ("SAME",), (), "X", size) for c, size in (("a", 480), ("b", 3840), ("c", 3840))]
    wanted = {"serial": "SAME", "size": 480}
    assert judge_root(wanted, twins, ["sda"], "")[0].status == "ok"
    assert judge_root(wanted, twins, ["sdb"], "")[0].status == "unknown"
    assert judge_root({"serial": "SAME", "size": 3840}, twins, ["sdb"], "")[0].status == "unknown"


# -- the data drives ----------------------------------------------------------------------------------------------


def heads(**sums):
    return {d.name: Head(sums.get(d.name, BLANK), "ext4") for d in DATA}


def test_blank_or_as_before():
    known = [before(OS, SUM), before(DATA[0], SUM), before(DATA[1]), before(DATA[2])]
    (finding,) = judge_data(known, [OS, *DATA], heads(nvme0n1=SUM), ["sda"])
    assert (finding.status, finding.evidence) == ("ok", "3 other disks: 3 as at commissioning, 0 blank")
    (finding,) = judge_data([], [OS, *DATA], heads(), ["sda"])
    assert (finding.status, finding.evidence) == ("ok", "3 other disks: 0 as at commissioning, 3 blank")


def test_a_data_drive_that_was_written():
    known = [before(d) for d in (OS, *DATA)]
    (finding,) = judge_data(known, [OS, *DATA], heads(nvme2n1=SUM), ["sda"])
    assert (finding.symptom, finding.status, finding.locator) == ("os_disk.data_drive_written", "fail", "nvme2n1")
    assert "holds ext4; at commissioning it was blank" in finding.evidence


def test_not_known_before_is_only_a_warning():
    assert symptoms(judge_data([], [OS, *DATA], heads(nvme2n1=SUM), ["sda"])) == [("os_disk.data_drive_in_use", "warn")]
    unread = [before(DATA[2], "")]
    assert ("os_disk.data_drive_in_use", "warn") in symptoms(judge_data(unread, DATA, heads(nvme2n1=SUM), []))


def test_wiped_unread_and_gone():
    known = [before(OS), before(DATA[0], SUM), before(DATA[1]), before(DATA[2])]
    state = {**heads(), "nvme1n1": Head(problem="cannot be read: Input/output error")}
    found = judge_data(known, [OS, *DATA[:2]], state, ["sda"])
    assert sorted(symptoms(found)) == [
        ("os_disk.data_drive_unread", "unknown"),
        ("os_disk.data_drive_wiped", "warn"),
        ("os_disk.drive_gone", "fail"),
    ]
    gone = next(f for f in found if f.symptom == "os_disk.drive_gone")
    assert (gone.locator, gone.action) == ("serial DATA2", "reseat")


def test_disks_that_share_a_serial_are_matched_by_what_they_held():
    twins = [Disk(f"sd{c}", ("SAME",)) for c in "abc"]
    known = [{"serial": "SAME", "sha256": s} for s in (SUM, "cd" * 32, BLANK)]
    state = {"sdb": Head("cd" * 32, "XFS"), "sdc": Head(BLANK)}
    assert judge_data(known, twins, state, ["sda"])[0].status == "ok"
    # one of them is not there any more
    assert ("os_disk.drive_gone", "fail") in symptoms(judge_data(known, twins[:2], state, ["sda"]))


def test_a_wwid_is_stronger_than_a_serial():
    disk = Disk("sda", ("SAME",), ("0x5002538e",))
    other = {"serial": "SAME", "wwid": "naa.50000000", "sha256": SUM}
    mine = {"serial": "", "wwid": "naa.5002538E", "sha256": BLANK}
    (gone, _) = sorted(judge_data([other, mine], [disk], {"sda": Head(SUM, "XFS")}, []), key=lambda f: f.locator)[::-1]
    assert "os_disk" in gone.symptom
    assert ("os_disk.data_drive_written", "fail") in symptoms(judge_data([mine], [disk], {"sda": Head(SUM, "x")}, []))


# -- signatures ---------------------------------------------------------------------------------------------------


def head(*pieces):
    data = bytearray(HEAD_BYTES)
    for offset, content in pieces:
        data[offset : offset + len(content)] = content
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (head((510, b"\x55\xaa"), (512, b"EFI PART")), "a GPT"),
        (head((510, b"\x55\xaa")), "an MBR"),
        (head((1080, b"\x53\xef")), "ext4"),
        (head((0, b"XFSB")), "XFS"),
        (head((512, b"LABELONE")), "LVM"),
        (head((4096, b"\xfc\x4e\x2b\xa9")), "md RAID"),
        (head((131072, b"\x0c\xb1\xba\x00\x00\x00\x00\x00")), "ZFS"),
        (head((510, b"\x55\xaa"), (1080, b"\x53\xef")), "an MBR and ext4"),
        (head((700000, b"x")), "data of no known kind (from byte 700000)"),
        (head(), "nothing"),
        (b"", "nothing"),
    ],
)
def test_what_a_disk_holds(data, says):
    assert content_of(data) == says


@given(st.binary(max_size=5000))
def test_any_bytes_have_a_name(data):
    assert content_of(data)


PLAIN = st.none() | st.integers() | st.text(max_size=5)
FOREIGN = st.dictionaries(st.sampled_from(["serial", "wwid", "sha256", "name", "size", "model"]), PLAIN)


@given(st.lists(FOREIGN | PLAIN, max_size=4), FOREIGN, st.lists(st.sampled_from(["sda", "nvme0n1"]), max_size=2))
def test_what_maas_told_is_never_a_crash(known, wanted, on):
    judge_root(wanted, [OS, *DATA], on, "x")
    found = judge_data(known, [OS, *DATA], heads(), on)
    assert found
    assert hashlib.sha256(bytes(HEAD_BYTES)).hexdigest() == BLANK
