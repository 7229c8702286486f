"""The roles that containers cannot show, on one QEMU machine through SSH: what they did is read from its system.

The tests are one story in this order, on one machine; each says what it needs of those before it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from repair_order import repair_order
from roles_lab import RolesLab

from simulators.vm import image, qemu, roles_image

pytestmark = pytest.mark.timeout(7200)  # an emulated machine on a busy one

PATIENCE = 1800  # seconds
UNITS = ("firstlight-pcie-acs.service", "firstlight-cpu-frequency.service", "chrony.service", "zfs.target")
POOL = ["zfs_pool"]
LABEL = "somebodys-data"
# the control register of every port with ACS (extended capability 000d), read from the configuration space itself
ACS = """python3 - <<'X'
import glob, struct
for path in sorted(glob.glob("/sys/bus/pci/devices/*/config")):
    config, at = open(path, "rb").read(), 0x100
    while at and len(config) == 4096:
        head, = struct.unpack_from("<I", config, at)
        if head & 0xffff == 0xd:
            print(path.split("/")[5], struct.unpack_from("<H", config, at + 6)[0])
        at = head >> 20
X"""
CPUFREQ = "cd /sys/devices/system/cpu/cpu0/cpufreq; cat scaling_driver scaling_governor scaling_cur_freq"
# what the kernel holds: map count, NUMA balancing, huge pages, the choice of transparent ones, and what is swapped to
KERNEL = """cat /proc/sys/vm/max_map_count /proc/sys/kernel/numa_balancing
cat /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages
grep -o '\\[.*\\]' /sys/kernel/mm/transparent_hugepage/enabled; tail -n +2 /proc/swaps | cut -d ' ' -f 1"""
TUNED = ["1048576", "1", "4", "[madvise]"]
# a file that is swapped to by a unit, not by fstab
SWAP = """dd if=/dev/zero of=/var/swap bs=1M count=32 status=none; chmod 600 /var/swap; mkswap -q /var/swap
printf '[Swap]\\nWhat=/var/swap\\n[Install]\\nWantedBy=swap.target\\n' > /usr/lib/systemd/system/var-swap.swap
systemctl daemon-reload; systemctl --quiet enable --now var-swap.swap"""
# the drive that the system lives on: its serial number, its partitions, and all signatures on it
OS_DISK = """disk=/dev/$(lsblk -no pkname $(findmnt -no SOURCE /)); cat /sys/class/block/${disk#/dev/}/device/serial
sfdisk --dump $disk | sed "s,$disk,/dev/disk,"; wipefs --output TYPE --noheadings $disk $disk?* | sort | xargs"""
# the pool, and of each member by its name in by-id the serial number that sysfs has for it
MEMBERS = """zpool status -P data
for path in $(zpool status -P data | grep -o '/dev/disk/by-id/[^ ]*'); do
  disk=$(basename $(readlink -f ${path%-part1})); echo "is" $(cat /sys/class/block/$disk/device/serial) $path
done"""
Findings = list[dict[str, Any]]


@pytest.fixture(scope="session")
def lab() -> Iterator[RolesLab]:
    if os.geteuid():
        pytest.fail("tests/vm needs root: network namespaces, and an image with files of several owners")
    made = roles_image.build(print)
    lab = RolesLab(made, qemu.accelerator(made.vmlinuz, made.initrd, b"as init process"))
    try:
        lab.start()
        # a drive with somebody's file system on it, and a governor that somebody chose
        image.run("mkfs.ext4", "-q", "-F", "-L", LABEL, foreign(lab).path, "1G")
        lab.wait("true", PATIENCE)
        lab.ssh("echo powersave > /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
        lab.ssh(SWAP)
        yield lab
    finally:
        lab.stop()


@pytest.fixture(scope="session")
def before(lab: RolesLab) -> dict[str, str]:
    """What the host said before any role ran."""
    return {
        "acs": lab.ssh(ACS),
        "cpu": lab.ssh(CPUFREQ),
        "kernel": lab.ssh(KERNEL),
        "clock": lab.ssh("date +%s"),
        "now": str(time.time()),
        "os": lab.ssh(OS_DISK),
    }


@pytest.fixture(scope="session")
def refused(lab: RolesLab, before: dict[str, str]) -> tuple[int, str, Findings]:
    """The first run: one drive is not blank."""
    kept = content_of(foreign(lab).path)
    status, screen, findings = lab.converge()
    assert content_of(foreign(lab).path) == kept
    return status, screen, findings


@pytest.fixture(scope="session")
def made(lab: RolesLab, refused: tuple[int, str, Findings]) -> Findings:
    """That drive is listed for wiping."""
    status, screen, findings = lab.converge(vm_roles=POOL, zfs_pool_wipe_serials=[foreign(lab).serial])
    assert status == 0, screen
    return findings


def foreign(lab: RolesLab) -> Any:
    return lab.data_drives[2]


def content_of(path: Path) -> bytes:
    """The first MiB, which holds a file system's superblock and a pool's first two labels."""
    with path.open("rb") as stream:
        return stream.read(1024 * 1024)


def of(findings: Findings, check: str) -> Findings:
    return [finding for finding in findings if finding["check"] == check]


def members(lab: RolesLab) -> tuple[str, dict[str, str]]:
    """The pool's state, and the states of its drives by serial number, as zpool and sysfs say it."""
    text = lab.ssh(MEMBERS)
    state = re.search(r"^ *state: (\w+)", text, re.M)
    assert state, text
    states = dict(re.findall(r"^\t +(/dev/\S+) +(\w+)", text, re.M))
    serials = dict(re.findall(r"^is (\S+) (\S+)", text, re.M))
    assert set(serials.values()) == set(states) and len(serials) == len(states), text
    return state.group(1), {serial: states[path] for serial, path in serials.items()}


def acs(text: str) -> dict[str, int]:
    return {port: int(word) for port, word in (line.split() for line in text.splitlines())}


def test_a_foreign_file_system_is_refused_and_named(lab: RolesLab, refused: tuple[int, str, Findings]) -> None:
    status, _, findings = refused
    assert status != 0, "the run has to fail"
    against = [finding for finding in of(findings, "zfs_pool") if finding["status"] == "fail"]
    assert len(against) == 1, against
    said = " ".join((against[0]["locator"], against[0]["evidence"]))
    for word in (foreign(lab).serial, "ext4", LABEL):
        assert word in said, said
    assert lab.ssh("zpool list -H").strip() == "", "no pool may have been made"
    for drive in lab.data_drives:
        if drive != foreign(lab):
            assert content_of(drive.path) == bytes(1024 * 1024), drive.serial


def test_the_clock_is_set_before_apt_needs_it(
    lab: RolesLab, before: dict[str, str], refused: tuple[int, str, Findings]
) -> None:
    ahead = float(before["clock"]) - float(before["now"])
    assert abs(ahead - 365 * 86400) < 3600, "the machine was to start a year ahead"
    assert abs(float(lab.ssh("date +%s.%N")) - time.time()) < 2
    assert [finding["symptom"] for finding in of(refused[2], "clock") if finding["status"] == "warn"] == [
        "clock.was_off"
    ]
    tracking = lab.ssh("chronyc -c tracking").split(",")
    assert tracking[1] == roles_image.GATEWAY, tracking
    # its archive's index holds for a day: with the wrong clock apt would refuse it, and nothing could be installed
    for package in roles_image.INSTALLED_BY_ROLES:
        assert lab.ssh(f"dpkg-query -W -f '${{db:Status-Status}}' {package}") == "installed"
    assert re.search(r'"GET /\./chrony_\S+\.deb ', (lab.logs / "archive.log").read_text())


def test_the_kernel_has_taken_its_settings(
    lab: RolesLab, before: dict[str, str], refused: tuple[int, str, Findings]
) -> None:
    *was, swap = before["kernel"].split()
    assert swap == "/var/swap"
    assert [one for one, wanted in zip(was, TUNED, strict=True) if one == wanted] == []
    assert lab.ssh(KERNEL).split() == TUNED
    assert [finding["status"] for finding in of(refused[2], "host_tuning")] == ["ok"]


def test_nothing_swaps_any_more(lab: RolesLab, refused: tuple[int, str, Findings]) -> None:
    assert lab.ssh("tail -n +2 /proc/swaps").strip() == ""
    assert lab.ssh("awk '/^SwapTotal/ {print $2}' /proc/meminfo").strip() == "0"
    states = lab.ssh("systemctl show --property UnitFileState --value swap.target var-swap.swap").split()
    assert states == ["masked", "masked"]


def test_access_control_is_off(lab: RolesLab, before: dict[str, str], refused: tuple[int, str, Findings]) -> None:
    was, now = acs(before["acs"]), acs(lab.ssh(ACS))
    ports = 2 + 1 + len(lab.data_drives)
    assert len(was) == ports and all(was.values()), f"the kernel was to switch it on at {ports} ports: {was}"
    assert now == dict.fromkeys(was, 0)
    assert [finding["status"] for finding in of(refused[2], "pcie_acs")] == ["ok"]


def test_governor_and_frequency_are_others(
    lab: RolesLab, before: dict[str, str], refused: tuple[int, str, Findings]
) -> None:
    lowest, highest = (f"{edge(roles_image.P_STATES_MHZ)}000" for edge in (min, max))
    assert before["cpu"].split() == ["acpi-cpufreq", "powersave", lowest]
    assert lab.ssh(CPUFREQ).split() == ["acpi-cpufreq", "performance", highest]
    assert [finding["status"] for finding in of(refused[2], "cpu_frequency")] == ["ok"]


def test_the_pool_is_over_exactly_the_six_drives(lab: RolesLab, made: Findings, before: dict[str, str]) -> None:
    assert members(lab) == ("ONLINE", {drive.serial: "ONLINE" for drive in lab.data_drives})
    assert [finding["status"] for finding in of(made, "zfs_pool")] == ["ok"]
    assert lab.ssh("zpool status data | grep -o raidz2-0").strip() == "raidz2-0"
    assert lab.ssh(OS_DISK) == before["os"]
    assert before["os"].split()[0] == lab.os_disk.serial
    assert len(re.findall(r"^/dev/diskp\d", before["os"], re.M)) == 3 and "zfs" not in before["os"]


def test_text_is_compressed(lab: RolesLab, made: Findings) -> None:
    lab.ssh(
        "for n in 1 2 3 4 5 6 7 8; do cat /usr/share/common-licenses/*; done > /data/scratch/text; "
        "head -c 2M /dev/urandom > /data/noise; zpool sync data"
    )
    ratio, algorithm, size = lab.ssh("zfs get -H -p -o value compressratio,compression,recordsize data/scratch").split()
    assert (algorithm, size) == ("zstd", str(1024 * 1024))
    assert float(ratio) > 2, ratio
    length, blocks = map(int, lab.ssh("stat -c '%s %b' /data/scratch/text").split())
    assert length > 1_000_000 and blocks * 512 * 2 < length


def test_all_of_it_outlasts_a_reboot(lab: RolesLab, made: Findings, before: dict[str, str]) -> None:
    lab.ssh("cd /data/scratch; head -c 4M /dev/urandom > kept; sha256sum kept > kept.sum")
    boot, boots = lab.ssh("cat /proc/sys/kernel/random/boot_id"), len(lab.boots)
    status, screen, findings = lab.converge(vm_roles=["reboot"], reboot_reason="a new kernel", reboot_services=UNITS)
    assert status == 0, screen
    assert [(finding["symptom"], finding["status"]) for finding in of(findings, "reboot")] == [("reboot", "ok")]
    assert lab.ssh("cat /proc/sys/kernel/random/boot_id") != boot
    assert len(lab.boots) == boots + 1 and lab.reasons[-1] == "guest-reset"

    one, two = lab.boots[-2:]
    assert one != two and one.index(lab.os_disk.serial) != two.index(lab.os_disk.serial)
    assert members(lab) == ("ONLINE", {drive.serial: "ONLINE" for drive in lab.data_drives})
    assert lab.ssh(OS_DISK) == before["os"]
    assert lab.ssh("cd /data/scratch; sha256sum --check --quiet kept.sum && echo right").strip() == "right"

    # the kernel switched it on again; the unit switched it off, for the role did not run
    assert acs(lab.ssh(ACS)) == dict.fromkeys(acs(before["acs"]), 0)
    said = lab.ssh("journalctl --boot --output cat --unit firstlight-pcie-acs.service")
    assert re.search(r'"changed": \{"0000:', said), said
    assert lab.ssh(CPUFREQ).split()[1:] == ["performance", f"{max(roles_image.P_STATES_MHZ)}000"]
    assert lab.ssh(KERNEL).split() == TUNED  # and no swap
    # the clock was a year ahead again
    assert abs(float(lab.ssh("date +%s.%N")) - time.time()) < 2


def test_a_second_run_changes_nothing(lab: RolesLab, made: Findings) -> None:
    status, screen, _ = lab.converge(zfs_pool_wipe_serials=[foreign(lab).serial])
    assert status == 0, screen
    assert re.findall(r"changed=(\d+)", screen) == ["0"], screen


WRITER = """cat > /root/write.sh <<'X'
n=0
while [ ! -e /run/write-no-more ]; do
  n=$((n + 1))
  head -c 1M /dev/urandom > /run/piece
  sha256sum /run/piece | sed "s,/run/piece,/data/scratch/piece-$n," > /run/sum
  dd if=/run/piece of=/data/scratch/piece-$n bs=256k conv=fsync status=none
  cat /run/sum >> /root/written
done
X
rm -f /root/written; systemd-run --quiet --unit write sh -e /root/write.sh"""
WRITTEN = "wc -l < /root/written"


def test_a_drive_that_is_pulled_is_named_and_replaced(lab: RolesLab, made: Findings) -> None:
    pulled, spare = lab.data_drives[4], lab.spare
    slot = lab.boots[-1].index(pulled.serial)
    lab.ssh(WRITER)
    lab.wait(f"[ $({WRITTEN}) -ge 3 ]", 300)
    lab.qmp("device_del", id=f"nvme{slot}")
    lab.wait("zpool status data | grep -q 'state: DEGRADED'", 300)
    written = int(lab.ssh(WRITTEN))
    lab.wait(f"[ $({WRITTEN}) -ge {written + 3} ]", 300)
    assert lab.ssh("systemctl is-active write").strip() == "active"
    lab.ssh("touch /run/write-no-more")
    lab.wait("! systemctl is-active --quiet write", 300)
    assert lab.ssh("systemctl show --value --property Result write").strip() == "success"
    lab.ssh("sha256sum --check --quiet /root/written")

    # the check of health and the role give one and the same drive, by serial, with what to do
    expect = {"zfs_pool": {"name": "data", "drives": len(lab.data_drives)}}
    status, screen, findings = lab.converge(vm_roles=POOL)
    assert status != 0, screen
    by_check, by_role = lab.check("zfs_pool", expect), of(findings, "zfs_pool")
    for found in (by_check, by_role):
        against = [finding for finding in found if finding["status"] == "fail"]
        assert [finding["symptom"] for finding in against] == ["zfs.drive_missing"], found
        assert pulled.serial in against[0]["locator"]
        assert against[0]["action"] == "reseat"
    # and whoever has to go there gets one ticket, whether one of them is held against the host or both
    for found in (by_check, by_role, by_check + by_role):
        assert repair_order(found, pulled.serial).action == "reseat"

    # a new drive in its slot; the role is told
    lab.qmp("blockdev-del", **{"node-name": f"disk{slot}"})
    lab.qmp("blockdev-add", driver="raw", discard="unmap",
            file={"driver": "file", "filename": str(spare.path), "cache": {"no-flush": True}, "discard": "unmap"},
            **{"node-name": "spare"})  # fmt: skip
    lab.qmp("device_add", driver="nvme", id="spare", drive="spare", serial=spare.serial, bus=f"slot{slot}")
    lab.wait(f"grep -qs {spare.serial} /sys/class/nvme/*/serial", 300)
    exchange = {pulled.serial: spare.serial}
    status, screen, findings = lab.converge(vm_roles=POOL, zfs_pool_replace=exchange)
    assert status == 0, screen
    now = {drive.serial: "ONLINE" for drive in [*lab.data_drives, spare] if drive != pulled}
    # the next run forgets the old drive's serial number, and takes the new one back where ZED has taken it for removed
    for _ in range(3):
        lab.ssh("zpool wait -t resilver data", 900)
        status, screen, _ = lab.converge(vm_roles=POOL, zfs_pool_replace=exchange)
        assert status == 0, screen
        if members(lab) == ("ONLINE", now):
            break
    assert members(lab) == ("ONLINE", now)
    assert [finding["status"] for finding in lab.check("zfs_pool", expect)] == ["ok"]

    # every block of every drive, and every file, is right
    lab.ssh("zpool scrub -w data; zpool export data; zpool import -d /dev/disk/by-id data", 900)
    scan = lab.ssh("zpool status data")
    assert re.search(r"scrub repaired 0B in \S+ with 0 errors", scan), scan
    lab.ssh("sha256sum --check --quiet /root/written; cd /data/scratch; sha256sum --check --quiet kept.sum")

    # it may stay in the settings
    status, screen, _ = lab.converge(vm_roles=POOL, zfs_pool_replace=exchange)
    assert status == 0, screen
    assert re.findall(r"changed=(\d+)", screen) == ["0"], screen
