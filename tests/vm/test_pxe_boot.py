"""One server installed by the whole pipeline through a real network boot, onto the right one of seven drives.

Real: firmware, DHCP, TFTP, HTTP, kernels, the drives and their order, cloud-init, SSH, and all of the product.
Simulated: the BMC (whose power is QEMU's process), the region's API, the rack controller (simulators/vm).
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator

import pytest
from vm_lab import ADDRESS, NAME, VmLab, content

from simulators.vm import image, qemu

STAGES = ("validate", "discover", "enlist", "install")
pytestmark = pytest.mark.timeout(7200)  # an emulated machine on a busy one

PATIENCE = 1800  # seconds; an emulated machine on a busy one takes its time
# what the host itself says of the drive that its root file system is on
WHERE = "set -e; part=$(findmnt -no SOURCE /); disk=/sys/class/block/$(basename $part)/..; echo $(basename $(realpath $disk)) $(cat $disk/device/serial)"  # noqa: E501


@pytest.fixture(scope="session")
def made() -> tuple[image.Image, str]:
    """The image, and whether KVM can be used."""
    if os.geteuid():
        pytest.fail("tests/vm needs root: network namespaces, and an image with files of several owners")
    built = image.build(print)
    return built, qemu.accelerator(built.kernel, built.initrd)


@pytest.fixture(params=["bios", "uefi"])
def lab(request: pytest.FixtureRequest, made: tuple[image.Image, str]) -> Iterator[VmLab]:
    lab = VmLab(request.param, *made)
    try:
        lab.start()
        yield lab
    finally:
        lab.stop()


class Watch:
    """How long each part took, shown at the end and kept with the logs."""

    def __init__(self, lab: VmLab) -> None:
        self.lab, self.since, self.lines = (
            lab,
            time.monotonic(),
            [f"image: {lab.image.seconds:.0f} s, when it was made"],
        )

    def lap(self, what: str) -> None:
        now = time.monotonic()
        self.lines.append(f"{self.lab.firmware} ({self.lab.lab['vm']['accelerator']}) {what}: {now - self.since:.0f} s")
        self.since = now
        (self.lab.logs / "times.txt").write_text("\n".join(self.lines) + "\n")


def root_of(lab: VmLab) -> tuple[str, str]:
    """Kernel name and serial number of the drive with the root file system."""
    name, serial = lab.ssh(WHERE).split()
    return name, serial


def test_the_pipeline_installs_the_right_disk(lab: VmLab) -> None:
    watch = Watch(lab)
    before = {drive.serial: content(drive.path) for drive in lab.data_drives}
    assert content(lab.os_disk.path)[0] == []

    status, screen = lab.play(1, *STAGES)
    watch.lap("enlisted, commissioned, installed")
    assert status == 0, screen
    assert "Traceback" not in screen

    machine = lab.maas()
    assert machine["status"] == 6, "Deployed"
    named = {disk["serial"]: disk["name"] for disk in machine["disks"]}
    assert set(named) == {drive.serial for drive in [lab.os_disk, *lab.data_drives]}
    boots = [line for line in lab.log("rack").splitlines() if "network boot:" in line]
    assert [line.rpartition(" ")[2] for line in boots] == ["commission", "install", "local"], boots
    platform = {"uefi": "(efi)", "bios": "(pcbios)"}[lab.firmware]
    assert all(platform in line for line in boots)
    tftp = lab.log("dnsmasq")
    assert f"sent {lab.folder}/rack/tftp/boot.ipxe to {ADDRESS}" in tftp
    assert (f"sent {lab.folder}/rack/tftp/ipxe.efi to {ADDRESS}" in tftp) is (lab.firmware == "uefi")

    # the drive with the root file system is the one that the BMC calls the OS disk, whatever its name
    first, serial = root_of(lab)
    assert serial == lab.os_disk.serial
    assert lab.ssh("hostname").strip() == NAME
    assert json.loads(lab.ssh("cloud-init", "status", "--format", "json"))["status"] == "done"
    assert (lab.ssh("test -d /sys/firmware/efi && echo uefi || echo bios").strip()) == lab.firmware

    # nothing was written to the others, not even zeros, nothing was trimmed
    for drive in lab.data_drives:
        assert content(drive.path) == before[drive.serial], drive.serial
    assert content(lab.os_disk.path)[0]

    # the second time, nothing is left to do
    boots_before, writes = lab.server.folder.joinpath("state.json").read_text(), lab.writes()
    status, screen = lab.play(2, *STAGES)
    watch.lap("a second time")
    assert status == 0, screen
    assert set(re.findall(r"changed=(\d+)", screen)) == {"0"}, screen
    assert lab.writes() == writes
    assert lab.server.folder.joinpath("state.json").read_text() == boots_before

    # off, on: the firmware asks the network first, and is told to boot its disk, which has another name now
    lab.redfish("POST", "/Actions/ComputerSystem.Reset", {"ResetType": "GracefulShutdown"})
    until = time.monotonic() + PATIENCE
    while lab.redfish("GET", "")["PowerState"] != "Off":
        assert time.monotonic() < until, "the host does not shut down"
        time.sleep(1)
    assert qemu.process_of(lab.server.folder) is None
    watch.lap("shut down")
    lab.redfish("POST", "/Actions/ComputerSystem.Reset", {"ResetType": "On"})
    lab.wait_for_ssh(PATIENCE)
    watch.lap("booted from its disk, until SSH")
    second, serial = root_of(lab)
    assert serial == lab.os_disk.serial
    names = [named[lab.os_disk.serial].removesuffix("n1"), first.removesuffix("n1"), second.removesuffix("n1")]
    assert len(set(names)) > 1, f"the OS disk had one name at all boots, {names}"
    for drive in lab.data_drives:
        assert content(drive.path) == before[drive.serial], drive.serial
