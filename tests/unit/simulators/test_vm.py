"""The QEMU machine on paper: its slots and command line, what the rack says and hears, where packages come from."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from simulators.lab_files import LabError
from simulators.vm import image, rack, scripts, sources
from simulators.vm import machine as vm

LAB = {
    "vm": {"tap": "tap0", "seed": 7},
    "machines": [{"name": "n1", "index": 1, "service_tag": "TAG1", "bmc_address": "127.0.0.1"}],
}


@pytest.fixture
def server(tmp_path: Path) -> vm.Server:
    return vm.Server.of(tmp_path, LAB, "n1")


def test_the_os_disk_is_in_another_slot_at_every_boot(server: vm.Server) -> None:
    orders = [vm.order(server, boot) for boot in range(1, 21)]
    places = [next(n for n, drive in enumerate(drives) if drive.is_os) for drives in orders]
    assert all(here != there for here, there in itertools.pairwise(places))
    assert len(set(places)) > 3
    assert all({drive.serial for drive in drives} == {drive.serial for drive in orders[0]} for drives in orders)
    assert len(orders[0]) == 7
    assert orders == [vm.order(server, boot) for boot in range(1, 21)], "the same seed, the same orders"


@pytest.mark.parametrize(("firmware", "flash"), [("uefi", 2), ("bios", 0)])
def test_the_firmware_tries_what_the_bmc_wants(server: vm.Server, firmware: str, flash: int) -> None:
    words = vm.command(server, 1, firmware, ["disk", "pxe"], "tcg")
    text = " ".join(words)
    assert text.count("if=pflash") == flash
    indexed = [word for word in words if "bootindex" in word]
    assert len(indexed) == 2
    assert any(server.drives()[0].serial in word and word.endswith("bootindex=1") for word in indexed)
    assert any(f"mac={server.macs[0]}" in word and word.endswith("bootindex=2") for word in indexed)
    assert sum(word.startswith("nvme,") for word in words) == 7
    only_disk = " ".join(vm.command(server, 1, firmware, ["disk"], "tcg"))
    assert only_disk.count("bootindex") == 1


def test_the_power_button_has_a_monitor_of_its_own(server: vm.Server) -> None:
    words = vm.command(server, 1, "bios", ["disk"], "tcg")
    monitors = [words[at + 1] for at, word in enumerate(words) if word == "-qmp"]
    assert [Path(m.split(":")[1].split(",")[0]).name for m in monitors] == ["qmp.sock", "button.sock"]


def test_where_a_drive_holds_data(tmp_path: Path) -> None:
    path = tmp_path / "drive.raw"
    with path.open("wb") as stream:
        stream.truncate(1 << 40)
    assert vm.allocated(path) == []
    with path.open("r+b") as stream:
        stream.seek(1 << 30)
        stream.write(bytes(4096))
    assert vm.allocated(path) == [(1 << 30, (1 << 30) + 4096)], "zeros that were written count"


def test_scripts_of_the_network_boot() -> None:
    rack_url = "http://10.0.0.1:8080"
    assert "task=install disks=7 BOOTIF=01-" in scripts.answer("install", rack_url, "efi", 7)
    assert "task=commission" in scripts.answer("enlist", rack_url, "pcbios", 7)
    assert scripts.answer("local", rack_url, "efi", 7).splitlines()[1] == f"chain {rack_url}/local.efi"
    assert scripts.answer("local", rack_url, "pcbios", 7).splitlines()[1] == "exit 1"
    assert "kernel" not in scripts.answer("none", rack_url, "efi", 7)
    assert all(line.startswith("#!ipxe\n") for line in (scripts.first(rack_url), scripts.answer("x", rack_url, "", 1)))


def test_what_a_commissioned_machine_found() -> None:
    text = (
        "disk nvme0n1 ABC123 480103981056 QEMU NVMe Ctrl\ndisk sda XYZ notasize M\nnic eth0 70:B5:E8:00:00:04\n"
        "cpus 1\nmemory 963\n\nrm -rf /\ndisk\n"
    )
    assert rack.found_in(text) == {
        "cpu_count": 1,
        "memory": 963,
        "disks": [
            {"name": "nvme0n1", "serial": "ABC123", "size": 480103981056, "model": "QEMU NVMe Ctrl", "nvme": True}
        ],
        "nics": [{"id": "eth0", "mac": "70:b5:e8:00:00:04"}],
    }


def test_the_archive_is_that_of_this_machine() -> None:
    text = (
        "Debian|bookworm|main|http://deb.example.org/debian/\nDebian|bookworm|contrib|http://deb.example.org/debian/\n"
        "Debian|bookworm-updates|main|http://deb.example.org/debian/\nOther|bookworm|main|http://other.example.org/\n"
        "Debian|bookworm-security|main|http://sec.example.org/debian-security/\n"
    )
    assert sources.read(text) == (
        "bookworm",
        [
            "deb http://deb.example.org/debian/ bookworm main",
            "deb http://deb.example.org/debian/ bookworm-updates main",
            "deb http://sec.example.org/debian-security/ bookworm-security main",
        ],
    )
    with pytest.raises(LabError, match="no Debian archive"):
        sources.read("Ubuntu|noble|main|http://archive.example.org/ubuntu/\n")


def test_a_program_that_fails_is_told_in_one_line() -> None:
    with pytest.raises(LabError, match=r"^sh: it broke$"):
        image.run("sh", "-c", "echo it broke >&2; exit 3")
    with pytest.raises(LabError, match="no-such-program is not installed; scripts/system-packages --vm"):
        image.run("no-such-program")


def test_grub_finds_its_core(tmp_path: Path) -> None:
    disk = tmp_path / "disk.raw"
    disk.write_bytes(b"\xee" * 512 + bytes(2 * image.MIB))
    boot = bytes(range(256)) * 2
    image._embed(disk, boot, b"c" * 1000)
    content = disk.read_bytes()
    assert content[440:512] == b"\xee" * 72, "the partition table stays"
    assert int.from_bytes(content[0x5C:0x64], "little") == 2048
    assert content[0x66:0x68] == b"\x90\x90"
    core = content[image.CORE_START : image.CORE_START + 1024]
    assert int.from_bytes(core[500:508], "little") == 2049
    assert int.from_bytes(core[508:510], "little") == 1
    with pytest.raises(LabError, match="does not fit"):
        image._embed(disk, boot, bytes(2 * image.MIB))
