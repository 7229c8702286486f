"""Which disk gets the operating system: never a data drive, whatever BMC and MAAS say."""

from __future__ import annotations

import copy
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight.findings import Finding
from firstlight.maas.disks import OsDisk, bus_of, choose_os_disk, os_disk_of, wrong_layout

TB = 10**12


def disk(name, serial, model="KIOXIA CM7", size=3_840_000_000_000, **more):
    return {"id": sum(map(ord, name)), "name": name, "serial": serial, "model": model, "size": size, **more}


def drive(serial, model="KIOXIA CM7", size=3_840_000_000_000, controller="CPU.1", protocol="NVMe"):
    return {"serial": serial, "model": model, "size_bytes": size, "controller": controller, "protocol": protocol}


DATA = [disk(f"nvme{n}n1", f"DATA{n}") for n in range(8)]
BOSS = disk("sda", "239", "DELLBOSS VD", 480_000_000_000, id_path="/dev/disk/by-id/ata-DELLBOSS_VD_239", tags=["ssd"])
DRIVES = [drive(f"DATA{n}") for n in range(8)]
CARD = [drive(s, "Micron 5300", 480_000_000_000, "BOSS.SL.14-1", "SATA") for s in ("SSD-A", "SSD-B")]
NVME = {"count": 8, "min_bytes": 3 * TB}


def test_the_disk_with_the_serial():
    assert choose_os_disk([*DATA, BOSS], OsDisk(serials=("239",)), "n") is BOSS


@pytest.mark.parametrize("spelled", [" data6 ", "DATA-6", "\tData6   "])
def test_the_serial_decides_over_the_order_and_spelling(spelled):
    disks = [*DATA[4:], BOSS, *DATA[:4]]
    assert choose_os_disk(disks, OsDisk(serials=(spelled,)), "n") is DATA[6]


def test_a_raid_card_hides_the_serials_of_its_drives():
    wanted = OsDisk(serials=("SSD-A", "SSD-B"), controller="BOSS", not_serials=tuple(d["serial"] for d in DATA))
    assert choose_os_disk([*DATA, BOSS], wanted, "n") is BOSS


SPECS = [
    {"controller": "BOSS"},
    {"model": "DELLBOSS"},
    {"controller": "boss", "model": "VD", "min_bytes": 2 * 10**11, "max_bytes": 6 * 10**11, "bus": "sata"},
    {"serial": "2?9"},
    {"bus": "sata"},
    {"max_bytes": TB},
    {"exclude_data_drives": True},
    {"exclude_data_drives": True, "bus": "sata", "serial": "[0-9]*"},
]


@pytest.mark.parametrize("spec", SPECS)
def test_each_condition_finds_the_os_disk(spec):
    wanted = os_disk_of({"os_disk": spec, "nvme": NVME}, {"drives": [*DRIVES, *CARD]})
    found = choose_os_disk([*DATA, BOSS], wanted, "n")
    assert found is BOSS, found


@pytest.mark.parametrize(
    ("more", "symptom"),
    [
        ({"model": "INTEL"}, "os_disk.contradictory"),
        ({"min_bytes": TB}, "os_disk.contradictory"),
        ({"max_bytes": 10**11}, "os_disk.contradictory"),
        ({"bus": "nvme"}, "os_disk.contradictory"),
        ({"serial": "24*"}, "os_disk.contradictory"),
    ],
)
def test_every_condition_that_is_given_must_hold(more, symptom):
    wanted = os_disk_of({"os_disk": {"controller": "BOSS", **more}, "nvme": NVME}, {"drives": [*DRIVES, *CARD]})
    finding = choose_os_disk([*DATA, BOSS], wanted, "n")
    assert finding.symptom == symptom
    assert "sda DELLBOSS VD serial 239 480 GB" in finding.evidence


@pytest.mark.parametrize(
    ("disks", "wanted", "symptom", "text"),
    [
        (DATA, OsDisk(serials=("239",)), "os_disk.missing", "MAAS sees: nvme0n1 KIOXIA CM7 serial DATA0 3.8 TB"),
        ([], OsDisk(serials=("239",)), "os_disk.missing", "no disk at all"),
        ([*DATA, BOSS], OsDisk(model="KIOXIA"), "os_disk.ambiguous", "8 disks fit"),
        ([BOSS, disk("sdb", "239")], OsDisk(serials=("239",)), "os_disk.ambiguous", "2 disks fit"),
        ([BOSS], OsDisk(serials=("239",), min_bytes=TB), "os_disk.contradictory", "at least 1.0 TB"),
        ([*DATA, BOSS], OsDisk(), "os_disk.missing", "nothing known about it"),
        (DATA, OsDisk(serials=("DATA1",), not_serials=("data1",)), "os_disk.missing", "no disk fits"),
    ],
)
def test_no_disk_is_better_than_a_wrong_one(disks, wanted, symptom, text):
    finding = choose_os_disk(disks, wanted, "r1-n01")
    assert (finding.symptom, finding.status, finding.action) == (symptom, "fail", "escalate")
    assert text in finding.evidence


def test_one_serial_on_all_disks_is_narrowed_by_the_model():
    disks = [disk("sda", "SAME"), disk("sdb", "SAME", "DELLBOSS VD")]
    assert choose_os_disk(disks, OsDisk(serials=("SAME",), model="BOSS"), "n") is disks[1]
    known = os_disk_of(
        {"os_disk": {"controller": "BOSS"}, "nvme": {"count": 1}},
        {"drives": [drive("SAME"), drive("SAME", "DELLBOSS VD", 480_000_000_000, "BOSS.1")]},
    )
    assert choose_os_disk(disks, known, "n") is disks[1]
    # two that cannot be told apart: none is taken
    twins = os_disk_of(
        {"os_disk": {"controller": "BOSS"}, "nvme": {"count": 1}},
        {"drives": [drive("SAME"), drive("SAME", controller="BOSS.1")]},
    )
    assert isinstance(choose_os_disk([disk("sda", "SAME"), disk("sdb", "SAME")], twins, "n"), Finding)


@pytest.mark.parametrize("spec", [{"exclude_data_drives": True}, {"min_bytes": 10**11}, {"bus": "nvme"}])
def test_what_is_no_data_drive_is_known_only_where_all_data_drives_are(spec):
    """The OS disk is not there, and of the last data drive the BMC tells nothing: it would be the only one left."""
    wanted = os_disk_of({"os_disk": spec, "nvme": NVME}, {"drives": DRIVES[:7]})
    finding = choose_os_disk(DATA, wanted, "n")
    assert isinstance(finding, Finding)
    nothing = os_disk_of({"os_disk": spec, "nvme": {"count": 1}}, None)
    assert choose_os_disk(DATA[:1], nothing, "n").symptom == "os_disk.data_drives_unknown"


def test_a_drive_without_a_serial_is_known_by_its_looks():
    unnamed = [*DRIVES[:7], drive("")]
    wanted = os_disk_of({"os_disk": {"controller": "BOSS"}, "nvme": NVME}, {"drives": [*unnamed, *CARD]})
    assert choose_os_disk([*DATA, BOSS], wanted, "n") is BOSS
    assert isinstance(choose_os_disk(DATA, wanted, "n"), Finding)


def test_what_discovery_says_about_the_os_disk():
    profile = {"os_disk": {"controller": "BOSS", "min_bytes": 200}}
    wanted = os_disk_of(profile, {"drives": [*CARD, DRIVES[1], drive("")]})
    assert (wanted.serials, wanted.controller, wanted.min_bytes) == (("SSD-A", "SSD-B"), "BOSS", 200)
    assert wanted.not_serials == ("DATA1",)
    assert os_disk_of(profile, None) == OsDisk((), "BOSS", 200, ())
    nothing = os_disk_of({}, {"drives": [*CARD, DRIVES[1]]})
    assert (nothing.serials, nothing.not_serials) == ((), ("SSD-A", "SSD-B", "DATA1"))


@pytest.mark.parametrize(
    ("fields", "bus"),
    [
        ({"name": "nvme0n1"}, "nvme"),
        ({"name": "vda", "id_path": "/dev/disk/by-id/virtio-abc"}, "virtio"),
        ({"name": "sda", "id_path": "/dev/disk/by-id/ata-DELLBOSS_VD_1", "tags": ["ssd"]}, "sata"),
        ({"name": "sda", "id_path": "/dev/disk/by-id/wwn-0x5000", "tags": ["ssd", "sata"]}, "sata"),
        ({"name": "sda", "id_path": "/dev/disk/by-id/scsi-3600", "tags": ["rotary"]}, "sas"),
        ({"name": "sdb", "id_path": "/dev/disk/by-id/usb-Stick"}, "usb"),
        ({"name": "sdb", "tags": 3}, "sas"),
        ({}, ""),
    ],
)
def test_the_bus_is_read_from_what_maas_has(fields, bus):
    assert bus_of(fields) == bus


def test_a_pattern_cannot_stop_the_run():
    serial = "a" * 60
    began = time.monotonic()
    choose_os_disk([disk("sda", serial)], OsDisk(serial="*a" * 30 + "b"), "n")
    assert time.monotonic() - began < 1


# -- properties ---------------------------------------------------------------------------------------------------

TEXT = st.sampled_from(["", "S1", "S2", " s1 ", "S-1", "SAME", "BOSS", "x" * 300]) | st.text(max_size=6)
MODELS = st.sampled_from(["", "DELLBOSS VD", "KIOXIA CM7", "BOSS"])
SIZES = st.sampled_from([0, 480_000_000_000, 3_840_000_000_000, 3_840_755_982_336])


@st.composite
def machines(draw):
    """A machine: its data drives and OS disks as they are, as the BMC tells of them, and as MAAS lists them."""
    one_serial = draw(st.booleans())
    count = draw(st.integers(0, 4))
    data = [(draw(TEXT) if one_serial else f"DATA{n}", draw(MODELS), draw(SIZES)) for n in range(count)]
    os_disks = [(draw(TEXT), draw(MODELS), draw(SIZES)) for _ in range(draw(st.integers(0, 2)))]
    tell = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    drives = [drive(s if told else "", m, z) for (s, m, z), told in zip(data, tell, strict=True)]
    drives += [drive(s, m, z, "BOSS.SL.12-1", "SATA") for s, m, z in os_disks]
    listed = [disk(f"nvme{n}n1", s, m, z, data=True) for n, (s, m, z) in enumerate(data)]
    seen = draw(st.booleans())  # else they are behind a volume with a serial of its own
    listed += [disk(f"sd{n}", s if seen else f"VOL{n}", m, z) for n, (s, m, z) in enumerate(os_disks)]
    return drives, draw(st.permutations(listed)), count


CONDITIONS = st.fixed_dictionaries(
    {"controller": st.sampled_from(["BOSS", "boss"])},
    optional={
        "model": st.sampled_from(["BOSS", "VD", "KIOXIA"]),
        "min_bytes": SIZES,
        "max_bytes": SIZES.filter(bool),
        "bus": st.sampled_from(["nvme", "sata", "sas"]),
        "serial": st.sampled_from(["*", "S?", "VOL*", "[S", "DATA*"]),
        "exclude_data_drives": st.booleans(),
    },
) | st.just({"exclude_data_drives": True})


def plain(serial: str) -> str:
    """As BMC and kernel may write one and the same: case, blanks and punctuation apart."""
    return "".join(c for c in serial.casefold() if c.isalnum())


@given(machines(), CONDITIONS)
def test_a_data_drive_that_the_bmc_knows_is_never_chosen(machine, spec):
    drives, listed, count = machine
    wanted = os_disk_of({"os_disk": spec, "nvme": {"count": count, "min_bytes": 3 * TB}}, {"drives": drives})
    chosen = choose_os_disk(listed, wanted, "n")
    if not isinstance(chosen, Finding) and chosen.get("data"):
        seen = (chosen["serial"], chosen["model"], chosen["size"])
        own = [d for d in drives if d["controller"] != "CPU.1"]
        twin = any((d["serial"], d["model"], d["size_bytes"]) == seen for d in own)
        data = [(d["serial"].strip(), d["model"], d["size_bytes"]) for d in drives if d["controller"] == "CPU.1"]
        known = [(serial, model, size) for serial, model, size in data if serial or model or size]
        as_told = (chosen["serial"].strip(), chosen["model"], chosen["size"])
        own_serial = plain(chosen["serial"]) and plain(chosen["serial"]) in map(plain, wanted.serials)
        # Only one that is in everything like the OS disk, or has its serial while the BMC tells none of the drive's.
        assert twin or own_serial or (as_told not in known and ("", *as_told[1:]) not in known)


@given(st.permutations([*DATA, BOSS]), CONDITIONS, st.sets(st.integers(0, 7)), st.booleans())
def test_a_data_drive_with_a_serial_of_its_own_is_never_chosen(listed, spec, gone, has_card):
    """Drives may be missing in MAAS, and the card, and the profile may ask for anything."""
    present = [d for d in listed if d is BOSS or DATA.index(d) not in gone]
    wanted = os_disk_of({"os_disk": spec, "nvme": NVME}, {"drives": [*DRIVES, *(CARD if has_card else [])]})
    chosen = choose_os_disk(present, wanted, "n")
    assert isinstance(chosen, Finding) or chosen is BOSS


@given(st.permutations([*DATA, BOSS]), st.sampled_from(SPECS))
def test_the_order_of_disks_and_drives_does_not_matter(listed, spec):
    shuffled = [*DRIVES, *CARD]
    random.Random(len(listed[0]["serial"])).shuffle(shuffled)
    wanted = os_disk_of({"os_disk": spec, "nvme": NVME}, {"drives": shuffled})
    assert choose_os_disk(listed, wanted, "n") is BOSS


JUNK = st.none() | st.integers() | st.text(max_size=8) | st.lists(st.none(), max_size=2)
ANY_DISK = st.dictionaries(st.sampled_from(["id", "name", "serial", "model", "size", "id_path", "tags"]), JUNK)


@given(st.lists(ANY_DISK, max_size=5), st.lists(st.dictionaries(st.text(max_size=4), JUNK), max_size=3), CONDITIONS)
def test_nothing_that_maas_says_is_a_crash(disks, drives, spec):
    chosen = choose_os_disk(disks, os_disk_of({"os_disk": spec}, {"drives": drives}), "n")
    assert isinstance(chosen, Finding) or chosen in disks


# -- the layout ---------------------------------------------------------------------------------------------------


def laid_out(root=BOSS, boot=BOSS, **more):
    devices = [copy.deepcopy(d) for d in (*DATA[:2], BOSS)]
    for device in devices:
        device.update(type="physical", partitions=[], filesystem=None)
        for wanted, point in ((boot, "/boot/efi"), (root, "/")):
            if wanted and device["id"] == wanted["id"]:
                device["partitions"].append({"filesystem": {"fstype": "ext4", "mount_point": point}})
    return {"boot_disk": {"id": boot["id"]} if boot else None, "blockdevice_set": devices, **more}


def test_a_layout_on_the_disk_alone_is_right():
    assert wrong_layout(laid_out(), BOSS, "n") is None


@pytest.mark.parametrize(
    ("machine", "text"),
    [
        (laid_out(boot=DATA[0]), "it boots from ? unknown model serial unknown"),
        (laid_out(root=DATA[0]), "its root file system is not there"),
        (laid_out(root=DATA[0]), "nvme0n1 KIOXIA CM7 serial DATA0 3.8 TB would be written too (/)"),
        (laid_out(root=None), "its root file system is not there"),
        (laid_out(boot=None), "it boots from no disk"),
        ({}, "MAAS does not list it any more"),
        ({"boot_disk": 3, "blockdevice_set": [None, 4, {"id": []}]}, "MAAS does not list it"),
    ],
)
def test_any_other_layout_is_a_finding(machine, text):
    finding = wrong_layout(machine, BOSS, "r1-n01")
    assert (finding.symptom, finding.status) == ("install.wrong_layout", "fail")
    assert text in finding.evidence


def test_raid_over_the_data_drives_is_a_finding():
    machine = laid_out()
    machine["blockdevice_set"].append({"id": 99, "name": "md0", "type": "virtual", "partitions": []})
    assert "there is a virtual device md0" in wrong_layout(machine, BOSS, "n").evidence
