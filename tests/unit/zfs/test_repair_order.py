"""A drive that is gone becomes one repair order that says which, where and what to do; as the machine's test has it."""

from dataclasses import replace

import pytest

from firstlight.slots import with_slot
from firstlight.tickets.text import Texts
from firstlight.zfs.health import judge_pool
from firstlight.zfs.status import read_pools
from tests.vm.repair_order import repair_order, tickets_of

SERIAL = "FLVM0005"
SERIALS = {f"nvme-QEMU_NVMe_Ctrl_FLVM000{n}": f"FLVM000{n}" for n in range(1, 7)}
# zpool status -p -P, OpenZFS 2.1, with a drive pulled while something is written
STATUS = """\
  pool: data
 state: DEGRADED
status: One or more devices has been removed by the administrator.
\tSufficient replicas exist for the pool to continue functioning in a
\tdegraded state.
action: Online the device using zpool online' or replace the device with
\t'zpool replace'.
config:

\tNAME                                                      STATE     READ WRITE CKSUM
\tdata                                                      DEGRADED     0     0     0
\t  raidz2-0                                                DEGRADED     0     0     0
\t    /dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_FLVM0001-part1  ONLINE       0     0     0
\t    /dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_FLVM0002-part1  ONLINE       0     0     0
\t    /dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_FLVM0003-part1  ONLINE       0     4     0
\t    /dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_FLVM0004-part1  ONLINE       0     0     0
\t    /dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_FLVM0005-part1  REMOVED      0     0     0
\t    /dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_FLVM0006-part1  ONLINE       0     0     0

errors: No known data errors
"""


def found(text=STATUS):
    return judge_pool(read_pools(text)[0], SERIALS, 6)


def rows(findings, **more):
    return [{**finding.to_dict(), **more} for finding in findings]


def test_one_order_whoever_found_it():
    by_check, by_role = rows(found()), rows(found(), role="zfs_pool")
    assert {row["symptom"] for row in by_check} == {"zfs.drive_missing", "zfs.drive_errors"}
    for told in (by_check, by_role, by_check + by_role):
        ticket = repair_order(told, SERIAL)
        assert ticket.id == "VMTAG01-drive-1"
        text = Texts().markdown(ticket)
        assert "# VMTAG01-drive-1: reseat drive serial FLVM0005" in text
        assert "1. Pull drive serial FLVM0005" in text


def test_the_slot_is_told_where_it_is_known():
    placed = [with_slot(f, "PCIe Slot 21") if SERIAL in f.locator else f for f in found()]
    assert "in PCIe Slot 21" in Texts().markdown(repair_order(rows(placed), SERIAL))


def test_what_is_no_such_order_is_told():
    two = found(STATUS.replace("FLVM0006-part1  ONLINE ", "FLVM0006-part1  FAULTED"))
    assert len(tickets_of(rows(two))) == 2
    named_none = [replace(f, locator="data") for f in found()]
    left = [replace(f, action="escalate") for f in found()]
    for findings, serial, words in (
        (two, SERIAL, "2 tickets"),
        ([], SERIAL, "0 tickets"),
        ([f for f in found() if f.status != "fail"], SERIAL, "0 tickets"),
        (found(), "FLVM0006", "drive serial FLVM0005"),
        (named_none, SERIAL, "drive"),
        (left, SERIAL, "nobody goes there"),
    ):
        with pytest.raises(AssertionError, match=words):
            repair_order(rows(findings), serial)
