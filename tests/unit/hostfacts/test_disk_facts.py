"""Which drives a host has, by which name each stays the same, and which of them the system lives on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight.hostfacts import disks

GIB = 1024**3


def block(name: str, kind: str, number: str, children: list[dict[str, Any]] | None = None, **more: Any) -> dict:
    node: dict[str, Any] = {
        "name": name, "kname": name, "type": kind, "size": 100 * GIB, "rota": False, "log-sec": 512, "phy-sec": 4096,
        "model": None, "serial": None, "wwn": None, "tran": None, "fstype": None, "label": None, "uuid": None,
        "pttype": None, "mountpoints": [None], "maj:min": number,
    }  # fmt: skip
    return {**node, **more, **({"children": children} if children else {})}


def tree(*top: dict[str, Any]) -> disks.Blocks:
    return disks.read_lsblk(json.dumps({"blockdevices": list(top)}))


def mount(number: str, point: str, kind: str, source: str) -> str:
    return f"22 1 {number} / {point} rw,relatime shared:1 - {kind} {source} rw\n"


def found(blocks: disks.Blocks, mounts: str, swaps: str = "", real: dict[str, str] | None = None) -> tuple:
    return disks.os_drives(blocks, disks.read_mounts(mounts), disks.read_swaps(swaps), real or {})


# two mirrored drives that hold the system through md and LVM, an ESP on the first, and a data drive
ROOT = block("dm-0", "lvm", "253:0", mountpoints=["/"])
MIRROR = block("md0", "raid1", "9:0", [ROOT])
MIRRORED = [
    block(
        "sda", "disk", "8:0",
        [block("sda1", "part", "8:1", mountpoints=["/boot/efi"]), block("sda2", "part", "8:2", [MIRROR])],
    ),
    block("sdb", "disk", "8:16", [block("sdb1", "part", "8:17"), block("sdb2", "part", "8:18", [MIRROR])]),
    block("nvme0n1", "disk", "259:0", serial="S1", model="Disk  Of\tData", tran="nvme"),
]  # fmt: skip


def test_the_system_is_followed_through_volumes_and_mirrors_to_all_its_drives():
    mounts = mount("253:0", "/", "ext4", "/dev/mapper/vg-root") + mount("8:1", "/boot/efi", "vfat", "/dev/sda1")

    assert found(tree(*MIRRORED), mounts) == (["sda", "sdb"], [])


def test_a_drive_that_only_has_the_swap_is_the_system_s():
    blocks = tree(
        block("sda", "disk", "8:0", mountpoints=["/"]),
        block("sdb", "disk", "8:16", [block("dm-3", "crypt", "253:3", mountpoints=["[SWAP]"])]),
    )
    swaps = "Filename Type Size Used Priority\n/dev/mapper/swap partition 100 0 -2\n/swap.img file 1 0 -3\n"

    assert found(blocks, mount("8:0", "/", "ext4", "/dev/root"), swaps, {"/dev/mapper/swap": "dm-3"}) == (
        ["sda", "sdb"],
        [],
    )


def test_swap_in_memory_is_on_no_drive():
    blocks = tree(block("sda", "disk", "8:0", mountpoints=["/"]), block("zram0", "disk", "252:0"))
    swaps = "Filename Type\n/dev/zram0 partition 1 1 100\n"

    assert found(blocks, mount("8:0", "/", "ext4", "/dev/sda"), swaps) == (["sda"], [])


def test_of_btrfs_all_devices_are_the_system_s():
    blocks = tree(
        block("sda", "disk", "8:0", uuid="u-1", fstype="btrfs"), block("sdb", "disk", "8:16", uuid="u-1"),
        block("sdc", "disk", "8:32", uuid="u-2"),
    )  # fmt: skip

    assert found(blocks, mount("0:27", "/", "btrfs", "/dev/sda")) == (["sda", "sdb"], [])


def test_of_zfs_all_members_of_the_pool_are_the_system_s():
    member = {"fstype": "zfs_member", "label": "rpool"}
    blocks = tree(
        block("sda", "disk", "8:0", [block("sda3", "part", "8:3", **member)]),
        block("sdb", "disk", "8:16", [block("sdb3", "part", "8:19", **member)]),
        block("sdc", "disk", "8:32", fstype="zfs_member", label="tank"),
    )

    assert found(blocks, mount("0:27", "/", "zfs", "rpool/ROOT/debian")) == (["sda", "sdb"], [])


@pytest.mark.parametrize(
    ("mounts", "lost"),
    [
        (mount("0:30", "/", "overlay", "overlay"), ["/"]),
        (mount("8:0", "/", "ext4", "/dev/sda") + mount("0:31", "/boot", "nfs4", "10.0.0.1:/boot"), ["/boot"]),
        (mount("0:27", "/", "zfs", "rpool/ROOT"), ["/"]),
        ("", ["/"]),
    ],
)
def test_what_cannot_be_followed_to_a_drive_is_said(mounts, lost):
    assert found(tree(block("sda", "disk", "8:0")), mounts)[1] == lost


def test_the_last_of_several_mounts_on_one_point_counts():
    blocks = tree(block("sda", "disk", "8:0"), block("sdb", "disk", "8:16"))

    assert found(blocks, mount("8:0", "/", "ext4", "/dev/sda") + mount("8:16", "/", "ext4", "/dev/sdb"))[0] == ["sdb"]


def test_what_is_no_drive_is_left_out():
    blocks = tree(
        block("sda", "disk", "8:0"), block("sr0", "rom", "11:0"), block("zram0", "disk", "252:0"),
        block("loop0", "loop", "7:0"), block("sdb", "disk", "8:16", size=0), block("nbd0", "disk", "43:0"),
    )  # fmt: skip

    assert blocks.drives() == ["sda"]


def test_sizes_of_older_versions_are_texts():
    blocks = tree(block("sda", "disk", "8:0", size="1000", rota="1", **{"log-sec": "512", "phy-sec": "512"}))

    row = disks.describe(blocks, {}, {"sda": []}, [])[0]
    assert (row["size"], row["rotational"], row["logical_sector"]) == (1000, True, 512)


@pytest.mark.parametrize(
    ("links", "name"),
    [
        (
            ["nvme-Dell_P5600_S1_1", "nvme-Dell_P5600_S1", "nvme-eui.01000000000000005cd2e4", "wwn-0x5cd2"],
            "nvme-eui.01000000000000005cd2e4",
        ),
        (["nvme-Dell_P5600_S1_1", "nvme-Dell_P5600_S1", "nvme-nvme.8086-53-4d-00000001"], "nvme-Dell_P5600_S1"),
        (["nvme-nvme.1b36-64-51-00000001"], "nvme-nvme.1b36-64-51-00000001"),
        (["ata-ST_1", "wwn-0x5000"], "wwn-0x5000"),
        (["scsi-SATA_X_1", "ata-X_1"], "ata-X_1"),
        (["scsi-0QEMU_DISK_1"], "scsi-0QEMU_DISK_1"),
        (["virtio-S1"], "virtio-S1"),
        (["lvm-pv-uuid-abc", "dm-name-x"], None),
        ([], None),
    ],
)
def test_the_name_that_stays_with_the_drive(links, name):
    assert disks.stable_name(links) == name


def test_an_id_that_two_drives_share_names_neither():
    same = {"wwn": "eui.0000000000000001"}
    blocks = tree(block("nvme0n1", "disk", "259:0", **same), block("nvme1n1", "disk", "259:1", **same))
    links = {"nvme1n1": ["nvme-eui.0000000000000001", "nvme-M_S2"], "nvme0n1": ["nvme-M_S1"]}

    assert [row["by_id"] for row in disks.describe(blocks, links, {}, [])] == ["nvme-M_S1", "nvme-M_S2"]


def test_a_drive_is_described_with_all_that_is_on_it():
    rows = {row["name"]: row for row in disks.describe(tree(*MIRRORED), {}, {"nvme0n1": [], "sda": None}, ["sda"])}

    assert rows["sda"]["is_os"] and not rows["nvme0n1"]["is_os"]
    assert rows["sda"]["mounted"] == ["/", "/boot/efi"]
    assert rows["sda"]["holders"] == ["dm-0", "md0"]
    assert rows["sda"]["partitions"] == ["sda1", "sda2"]
    assert rows["sda"]["signatures"] is None and rows["sdb"]["signatures"] is None  # not read is not clean
    assert rows["nvme0n1"] == {
        "name": "nvme0n1", "by_id": None, "serial": "S1", "wwn": "", "model": "Disk Of Data", "size": 100 * GIB,
        "transport": "nvme", "rotational": False, "logical_sector": 512, "physical_sector": 4096, "is_os": False,
        "mounted": [], "holders": [], "partitions": [], "signatures": [],
    }  # fmt: skip


def test_signatures_are_read():
    row = {"device": "sda1", "type": "ext4", "label": None, "uuid": "u", "usage": "filesystem"}

    assert disks.read_wipefs(json.dumps({"signatures": [row]})) == [{**row, "label": ""}]
    assert disks.read_wipefs('{\n   "signatures": [\n\n   ]\n}') == []
    assert disks.read_wipefs("") == []


@given(
    st.text(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["blockdevices", "signatures", "children", "kname", "type", "size"]), inner, max_size=4
            )
        ),
        max_leaves=20,
    ).map(json.dumps)
)
def test_a_strange_answer_is_refused_or_read_but_breaks_nothing(text):
    for read in (disks.read_lsblk, disks.read_wipefs):
        try:
            read(text)
        except ValueError as error:
            assert "\n" not in str(error)


def test_a_name_that_leads_elsewhere_is_refused():
    with pytest.raises(ValueError, match="is no name of a block device"):
        tree(block("../../etc/passwd", "disk", "8:0"))
