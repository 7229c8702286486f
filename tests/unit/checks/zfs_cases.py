"""What the check of the ZFS pool must say, in the forms of zpool-status(8) of OpenZFS 2.1 to 2.3."""

from __future__ import annotations

import re
from typing import Any

from firstlight.checks.capture import Output

POOL = {"name": "data", "drives": 3}
Want = list[tuple[str, str, str, str]]


def status(*leaves: str, state: str = "ONLINE", errors: str = "No known data errors", name: str = "data") -> str:
    rows = "".join(f"\t    {leaf}\n" for leaf in leaves)
    return (
        f"  pool: {name}\n state: {state}\n  scan: none requested\nconfig:\n\n"
        f"\tNAME  STATE  READ WRITE CKSUM\n\t{name}  {state}  0 0 0\n\t  raidz1-0  {state}  0 0 0\n"
        f"{rows}\nerrors: {errors}\n"
    )


def leaf(n: int, state: str = "ONLINE", errors: str = "0     0     0") -> str:
    return f"/dev/disk/by-id/nvme-eui.0{n}-part1  {state}  {errors}"


GONE = "882733  UNAVAIL  0  0  0  was /dev/disk/by-id/nvme-eui.02-part1"

REPLACING = (
    "replacing-2  DEGRADED  0  0  0",
    "  882734  UNAVAIL  0  0  0  was /dev/disk/by-id/nvme-eui.03-part1",
    "  /dev/disk/by-id/nvme-eui.04-part1  ONLINE  0  0  0",
)


def outputs(text: str, code: int = 0, used: str = "data\t12\n", problem: str = "") -> dict[str, Any]:
    return {
        "status": Output(text, "" if not code else text, code, problem=problem),
        "used": Output(used),
        "drives": Output("nvme-eui.01=S1 nvme-eui.02=S2 nvme-eui.03=S3\n"),
    }


WHOLE = status(leaf(1), leaf(2), leaf(3))
CASES: list[tuple[str, dict[str, Any], Want]] = [
    ("whole", outputs(WHOLE), [("ok", "zfs_pool", "data", "none")]),
    ("full", outputs(WHOLE, used="data\t93\n"), [("warn", "zfs.pool_full", "data", "none")]),
    (
        "a drive is gone",
        outputs(status(leaf(1), GONE, leaf(3), state="DEGRADED")),
        [("fail", "zfs.drive_missing", "serial S2, nvme-eui.02", "reseat")],
    ),
    (
        "a drive failed",
        outputs(status(leaf(1), leaf(2), leaf(3, "FAULTED", "12 4 0  too many errors"), state="DEGRADED")),
        [("fail", "zfs.drive_failed", "serial S3", "replace")],
    ),
    (
        "a drive was taken offline",
        outputs(status(leaf(1), leaf(2), leaf(3, "OFFLINE"), state="DEGRADED")),
        [("fail", "zfs.drive_offline", "serial S3", "escalate")],
    ),
    (
        "a drive is being replaced",
        outputs(status(leaf(1), leaf(2), *REPLACING, state="DEGRADED")),
        [("warn", "zfs.drive_replaced", "serial S3, nvme-eui.03", "wait")],
    ),
    (
        "a drive has errors",
        outputs(status(leaf(1), leaf(2, errors="0 0 7"), leaf(3))),
        [("warn", "zfs.drive_errors", "serial S2", "none")],
    ),
    (
        "a drive has very many errors",
        outputs(status(leaf(1), leaf(2, errors="60 20 21"), leaf(3))),
        [("fail", "zfs.drive_errors", "serial S2", "replace")],
    ),
    (
        "data is lost",
        outputs(status(leaf(1), leaf(2), leaf(3), errors="3 data errors, use '-v' for a list")),
        [("fail", "zfs.data_lost", "data", "escalate")],
    ),
    ("made over two", outputs(status(leaf(1), leaf(2))), [("warn", "zfs.fewer_drives", "data", "none")]),
    (
        "suspended",
        outputs(status(leaf(1), leaf(2), leaf(3), state="SUSPENDED")),
        [("fail", "zfs.pool_degraded", "data", "escalate")],
    ),
    ("another pool", outputs(WHOLE.replace("data", "tank")), [("fail", "zfs.no_pool", "data", "escalate")]),
    ("no pool", outputs("no pools available\n"), [("fail", "zfs.no_pool", "data", "escalate")]),
    ("no tool", outputs("", 127, problem="no_tool"), [("fail", "zfs.not_installed", "data", "escalate")]),
    ("no module", outputs("The ZFS modules are not loaded.\n", 1), [("unknown", "zfs_pool.failed", "", "escalate")]),
    *(
        (name, outputs(text), [("unknown", "zfs_pool.unreadable", "", "escalate")])
        for name, text in (
            ("errors not told", WHOLE.replace("errors:", "sorrow:")),
            ("errors empty", re.sub("errors:.*", "errors:", WHOLE)),
            ("errors of a drive that are none", status(leaf(1), leaf(2, errors="x y z"), leaf(3))),
            ("errors of a drive not told", status(leaf(1), leaf(2, errors="- - -"), leaf(3))),
        )
    ),
    (
        "no drive told",
        outputs(re.sub(r"\t    +/.*\n", "", WHOLE)),
        [("warn", "zfs.fewer_drives", "data", "none"), ("unknown", "zfs_pool.unreadable", "data", "escalate")],
    ),
    (
        "nonsense",
        outputs(WHOLE.replace("raidz1-0  ONLINE", "raidz1-0x  ?")),
        [("unknown", "zfs_pool.unreadable", "", "escalate")],
    ),
]
