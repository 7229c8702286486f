"""What the machine that roles run on is told and given: time, packages, its own devices."""

from __future__ import annotations

import hashlib
import itertools
import struct
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest

from simulators.lab_files import LabError
from simulators.vm import machine as vm
from simulators.vm import ntp, roles_image, zfs_modules

EPOCH_1900 = 2208988800


def test_the_time_is_told_to_clients_only() -> None:
    sent = struct.pack("!II", 17, 18)
    question = bytes([0b00_100_011]) + bytes(39) + sent
    said = ntp.answer(question, 1000.25, 1000.5)
    assert said is not None and len(said) == 48
    assert said[0] == 0b00_100_100, "version 4, mode server"
    assert said[1] == 1
    assert said[24:32] == sent, "so that the client knows which question it answers"
    assert struct.unpack("!IIII", said[32:]) == (EPOCH_1900 + 1000, 1 << 30, EPOCH_1900 + 1000, 1 << 31)
    assert ntp.answer(question[:47], 0, 0) is None
    assert ntp.answer(said, 0, 0) is None, "two servers must not answer each other for ever"


def test_apt_refuses_the_index_with_a_wrong_clock() -> None:
    text = roles_image.release_file("Package: a\n", 1_700_000_000, days=2)
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    assert parsedate_to_datetime(fields["Date"]).timestamp() == 1_700_000_000
    assert parsedate_to_datetime(fields["Valid-Until"]).timestamp() == 1_700_000_000 + 2 * 86400
    assert text.endswith(f"SHA256:\n {hashlib.sha256(b'Package: a' + bytes([10])).hexdigest()} 11 Packages\n")


def test_the_machine_has_an_iommu_and_what_else_it_is_given(tmp_path: Path) -> None:
    lab = {
        "vm": {"tap": "tap0", "iommu": True, "cpu": "Nehalem", "qemu": {"rtc": "base=2020-01-01", "kernel": "k"}},
        "machines": [{"name": "n1", "index": 1, "service_tag": "TAG1"}],
    }
    words = vm.command(vm.Server.of(tmp_path, lab, "n1"), 1, "bios", [], "tcg")
    pairs = list(itertools.pairwise(words))
    assert ("-machine", "q35,kernel-irqchip=split") in pairs
    assert {("-cpu", "Nehalem"), ("-rtc", "base=2020-01-01"), ("-kernel", "k")} <= set(pairs)
    devices = [word for before, word in pairs if before == "-device"]
    assert devices[0].startswith("intel-iommu"), "before the ports"
    assert not any("intel-iommu" in word for word in vm.command(_plain(tmp_path), 1, "bios", [], "tcg"))


def _plain(folder: Path) -> vm.Server:
    lab = {"vm": {"tap": "tap0"}, "machines": [{"name": "n1", "index": 1, "service_tag": "TAG1"}]}
    return vm.Server.of(folder, lab, "n1")


def test_a_build_without_modules_is_none(tmp_path: Path) -> None:
    built = tmp_path / "usr" / "src" / "zfs-2.1" / "module" / "zfs"
    built.mkdir(parents=True)
    (built / "zfs.ko").touch()
    with pytest.raises(LabError, match=r"no zfs\.ko"):
        zfs_modules.keep(tmp_path, tmp_path / "one")
    (built / "spl.ko").touch()
    zfs_modules.keep(tmp_path, tmp_path / "two")
    assert {path.name for path in (tmp_path / "two").iterdir()} == {"zfs.ko", "spl.ko"}
    with pytest.raises(LabError, match="no package zfs-dkms"):
        zfs_modules.build(tmp_path / "zfs-zed_2_amd64.deb", "6.1", "bookworm", [])
