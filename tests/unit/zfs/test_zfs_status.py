"""What zpool prints, understood: whole pools, broken ones, ones that are being mended, and nonsense."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight.zfs.health import judge_pool
from firstlight.zfs.status import Leaf, drive_of, progress, read_pools

# in the form of zpool-status(8), OpenZFS 2.1 and 2.3
HEALTHY = """\
  pool: data
 state: ONLINE
  scan: scrub repaired 0B in 00:12:31 with 0 errors on Sun Nov  8 00:36:32 2026
config:

\tNAME                                               STATE     READ WRITE CKSUM
\tdata                                               ONLINE       0     0     0
\t  raidz1-0                                         ONLINE       0     0     0
\t    /dev/disk/by-id/nvme-eui.0025388a010001-part1  ONLINE       0     0     0
\t    /dev/disk/by-id/nvme-eui.0025388a010002-part1  ONLINE       0     0     0
\t    /dev/disk/by-id/nvme-eui.0025388a010003-part1  ONLINE       0     0     3
\tspares
\t  /dev/disk/by-id/nvme-eui.0025388a010004-part1    AVAIL

errors: No known data errors
"""
DEGRADED = """\
  pool: data
 state: DEGRADED
status: One or more devices could not be used because the label is missing or
\tinvalid.  Sufficient replicas exist for the pool to continue
\tfunctioning in a degraded state.
action: Replace the device using 'zpool replace'.
   see: https://openzfs.github.io/openzfs-docs/msg/ZFS-8000-4J
  scan: resilver in progress since Sun Nov 29 20:00:00 2026
\t1.21T scanned at 3.00G/s, 600G issued at 1.50G/s, 2.00T total
\t120G resilvered, 29.30% done, 00:16:04 to go
config:

\tNAME                                                 STATE     READ WRITE CKSUM
\tdata                                                 DEGRADED     0     0     0
\t  raidz2-0                                           DEGRADED     0     0     0
\t    /dev/disk/by-id/nvme-eui.01-part1                ONLINE       0     0     0
\t    replacing-1                                      DEGRADED     0     0     0
\t      8724583478343243                               UNAVAIL      0     0     0  was /dev/disk/by-id/nvme-eui.02-part1
\t      /dev/disk/by-id/nvme-eui.09-part1              ONLINE       0     0     0  (resilvering)
\t    /dev/disk/by-id/nvme-eui.03-part1                FAULTED     12    40     0  too many errors
\t    /dev/disk/by-id/nvme-eui.04-part1                REMOVED      0     0     0
\tlogs
\t  /dev/disk/by-id/nvme-eui.05-part1                  ONLINE       0     0     0

errors: 2 data errors, use '-v' for a list
"""
IMPORTABLE = """\
   pool: data
     id: 8724583478343243
  state: DEGRADED
status: The pool was last accessed by another system.
 action: The pool can be imported despite missing or damaged devices.  The
\tfault tolerance of the pool may be compromised if imported.
   see: https://openzfs.github.io/openzfs-docs/msg/ZFS-8000-EY
 config:

\tdata                          DEGRADED
\t  mirror-0                    DEGRADED
\t    nvme-eui.0025388a010001   ONLINE
\t    nvme-eui.0025388a010002   UNAVAIL

   pool: other
     id: 1
  state: UNAVAIL
status: One or more devices are missing from the system.
 action: The pool cannot be imported. Attach the missing
\tdevices and try again.
   see: https://openzfs.github.io/openzfs-docs/msg/ZFS-8000-3C
 config:

\tother                     UNAVAIL  insufficient replicas
\t  nvme-eui.0025388a0100ff UNAVAIL
"""


def by_symptom(findings):
    return {finding.symptom: finding for finding in findings}


def test_a_healthy_pool():
    (pool,) = read_pools(HEALTHY)
    assert (pool.name, pool.state, pool.message, len(pool.leaves)) == ("data", "ONLINE", "", 4)
    assert pool.leaves[3].section == "spares"
    assert pool.leaves[2] == Leaf(
        "/dev/disk/by-id/nvme-eui.0025388a010003-part1",
        "ONLINE",
        "/dev/disk/by-id/nvme-eui.0025388a010003-part1",
        checksum=3,
        groups=("raidz1-0",),
    )
    (finding,) = judge_pool(pool, {"nvme-eui.0025388a010003": "S9"}, 4)
    assert (finding.status, finding.symptom) == ("warn", "zfs.drive_errors")
    assert finding.locator == "serial S9, nvme-eui.0025388a010003"
    (pool,) = read_pools(HEALTHY.replace("     3\n", "     0\n"))
    (finding,) = judge_pool(pool, {}, 4)
    assert (finding.status, finding.evidence) == (
        "ok",
        "ONLINE over 4 drives; scrub repaired 0B in 00:12:31 with 0 errors on Sun Nov 8 00:36:32 2026",
    )
    assert [f.symptom for f in judge_pool(pool, {}, 5)] == ["zfs.fewer_drives"]


def test_a_broken_pool_that_is_being_mended():
    (pool,) = read_pools(DEGRADED)
    assert (pool.state, pool.message, progress(pool)) == ("DEGRADED", "ZFS-8000-4J", "resilver")
    lost = pool.leaves[1]
    assert (lost.name, lost.path, lost.groups) == (
        "8724583478343243",
        "/dev/disk/by-id/nvme-eui.02-part1",
        ("raidz2-0", "replacing-1"),
    )
    assert pool.leaves[3].write == 40
    assert pool.leaves[5].section == "logs"
    found = by_symptom(judge_pool(pool, {"nvme-eui.02": "S2", "nvme-eui.04": "S4"}))
    assert found["zfs.drive_replaced"].locator == "serial S2, nvme-eui.02"
    assert (found["zfs.drive_failed"].action, found["zfs.drive_failed"].locator) == ("replace", "nvme-eui.03")
    assert (found["zfs.drive_missing"].action, found["zfs.drive_missing"].locator) == (
        "reseat",
        "serial S4, nvme-eui.04",
    )
    assert (found["zfs.data_lost"].status, found["zfs.resilvering"].status) == ("fail", "warn")


def test_pools_that_could_be_imported():
    one, other = read_pools(IMPORTABLE)
    assert (one.number, one.state, one.message) == ("8724583478343243", "DEGRADED", "ZFS-8000-EY")
    assert [(leaf.name, leaf.state) for leaf in one.leaves] == [
        ("nvme-eui.0025388a010001", "ONLINE"),
        ("nvme-eui.0025388a010002", "UNAVAIL"),
    ]
    assert (other.state, [leaf.groups for leaf in other.leaves]) == ("UNAVAIL", [()])


@pytest.mark.parametrize("text", ["", "no pools available\n", "no pools available to import\n"])
def test_no_pool(text):
    assert read_pools(text) == []


@pytest.mark.parametrize(
    "text",
    [
        HEALTHY.replace(" state: ONLINE", " state: SPLENDID"),
        HEALTHY.replace("part1  ONLINE       0     0     3", "part1  BROKEN       0     0     3"),
        HEALTHY.replace(" state: ONLINE\n", ""),
        HEALTHY.replace("\t  raidz1-0 ", "\t  raidz9-0x "),
    ],
)
def test_nonsense_is_refused(text):
    if "raidz9" in text:  # a kind of group that is not known is taken for a drive, in a place where it is none
        assert read_pools(text)[0].leaves[0].name == "raidz9-0x"
        return
    with pytest.raises(ValueError, match="not understood"):
        read_pools(text)


@given(st.text(alphabet="\t\n: abcpoolstateONLINEconfigraidz-01/", max_size=400))
def test_foreign_text_is_understood_or_refused(text):
    try:
        for pool in read_pools("  pool: data\n state: ONLINE\nconfig:\n" + text):
            judge_pool(pool, {})
    except ValueError as error:
        assert "not understood" in str(error)


@pytest.mark.parametrize(
    ("path", "drive"),
    [
        ("/dev/disk/by-id/nvme-X_1-part1/old", "nvme-X_1"),
        ("/dev/disk/by-id/nvme-eui.01-part1", "nvme-eui.01"),
        ("/dev/disk/by-id/nvme-Samsung_MZ-part-9", "nvme-Samsung_MZ-part-9"),
        ("/dev/nvme0n1p1", "nvme0n1"),
        ("/dev/nvme10n1", "nvme10n1"),
        ("/dev/sdaa1", "sdaa"),
        ("/dev/sdb", "sdb"),
        ("", ""),
    ],
)
def test_the_drive_of_a_path(path, drive):
    assert drive_of(path) == drive


# zpool status -p -g, OpenZFS 2.1.11: a pool of one RAIDZ2 group, and a drive being exchanged
NUMBERS = """\
  pool: data
 state: ONLINE
config:

\tNAME                        STATE     READ WRITE CKSUM
\tdata                        ONLINE       0     0     0
\t  8032440141604235365       ONLINE       0     0     0
\t    1458921161514040050     ONLINE       0     0     0
\t    16220368195098304855    ONLINE       0     0     0
\t    9297131466453380691     ONLINE       0     0     0
\t      13252940393106683136  REMOVED      0     0     0
\t      948714934352954609    ONLINE       0     0     0

errors: No known data errors
"""


def test_numbers_of_groups_are_no_drives():
    (pool,) = read_pools(NUMBERS)
    assert [leaf.name for leaf in pool.leaves] == [
        "1458921161514040050", "16220368195098304855", "13252940393106683136", "948714934352954609",
    ]  # fmt: skip
    assert pool.leaves[-1].groups == ("8032440141604235365", "9297131466453380691")
