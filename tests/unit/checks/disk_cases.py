"""What the readers of disk_read and disk_health print of drives, and ``zpool status -j``; what the checks must say.

The answers of nvme-cli 1.16 and 2.x, smartctl 7.2 to 7.4 and OpenZFS 2.3 are fixtures; faults are values in them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import zfs_cases

Want = list[tuple[str, str, str, str]]
Row = tuple[str, str, dict[str, Any], Want, dict[str, Any], dict[str, Any]]
FIXTURES = Path(__file__).parents[2] / "fixtures" / "hardware"
PROFILE: dict[str, Any] = {"os_disk": {"controller": "BOSS"}}


def fixture(name: str, **changes: Any) -> str:
    """A fixture in JSON with some values at its top changed; None takes one away."""
    said = {**json.loads((FIXTURES / name).read_text()), **changes}
    return json.dumps({key: value for key, value in said.items() if value is not None})


def drive(name: str = "nvme0n1", serial: str = "S0", **more: Any) -> dict[str, Any]:
    row = {"name": name, "size": 3840755982336, "model": "Dell Ent NVMe", "serial": serial, "transport": "nvme"}
    return {**row, **more}


def drives(*rows: dict[str, Any]) -> dict[str, str]:
    return {"drives": json.dumps({"drives": rows})}


# ---------------------------------------------------------------- disk_usage, mounts_writable


def _system(device: int, share: int, inodes: int = 10, kind: str = "ext4", source: str = "/dev/x") -> dict[str, Any]:
    """share, inodes: percent that is used."""
    sizes = {"size": 10**12, "used": share * 10**10, "available": (100 - share) * 10**10}
    return {
        "device": device,
        **sizes,
        "inodes": 1000,
        "inodes_free": 1000 - 10 * inodes,
        "type": kind,
        "source": source,
    }


def _local(name: str, want: Want, expect: dict[str, Any] | None = None, **more: Any) -> tuple[Any, ...]:
    known = {"/": _system(1, 30), "/var": _system(1, 30), "/var/tmp": _system(1, 30), "/boot/efi": _system(2, 2)}
    return name, {**known, **{path.replace("_", "/"): row for path, row in more.items()}}, want, expect or {}


FULL, POOL = [("fail", "disk.full", "/data", "escalate")], {"zfs_pool": {"name": "tank"}}
LOCAL_CASES = [
    _local("all, each on its own", [("ok", "disk_usage", "", "none")], _data=_system(3, 80)),
    _local("data full", FULL, _data=_system(3, 97)),
    _local("docker's inodes", [("fail", "disk.no_inodes", "/docker", "escalate")], _docker=_system(3, 9, 99)),
    _local("one hangs", [("unknown", "disk_usage.timed_out", "/data", "retry")], _data={"timed_out": 3.0}),
    _local("one tells nothing", [("unknown", "disk_usage.unreadable", "/data", "escalate")], _data={"error": "I/O"}),
    _local("a dataset", FULL, _data=_system(3, 97, kind="zfs", source="tank/x")),
    _local("of our pool", [("ok", "disk_usage", "", "none")], POOL, _data=_system(3, 97, kind="zfs", source="tank/x")),
]

MOUNTED = "/dev/sda2 / ext4 rw,relatime,errors=remount-ro 0 0\n/dev/sda3 /home ext4 rw{more} 0 0\n"
FSTAB = "/dev/sda2 / ext4 defaults 0 1\n/dev/sda3 /home/ ext4 defaults 0 2\n/swap.img none swap sw 0 0\n"


def _mounts(name: str, want: Want, more: str = "", fstab: str = "") -> tuple[Any, ...]:
    return name, {"/proc/self/mounts": MOUNTED.format(more=more), "/etc/fstab": FSTAB + fstab}, want


HOME: Want = [("fail", "mount.read_only", "/home", "reboot")]
MOUNT_CASES = [
    _mounts("all that fstab wants", [("ok", "mounts_writable", "", "none")]),
    _mounts("newer ext4 after an error", HOME, ",relatime,emergency_ro"),
    _mounts("newer ext4 shut down", HOME, ",shutdown"),
    _mounts("one away", [("fail", "mount.missing", "/data", "escalate")], fstab="LABEL=d /data xfs defaults 0 2\n"),
    _mounts("one not needed", [("ok", "mounts_writable", "", "none")], fstab="LABEL=d /data xfs rw,nofail 0 2\n"),
    _mounts("one by hand", [("ok", "mounts_writable", "", "none")], fstab="/dev/sr0 /media/cd iso9660 noauto 0 0\n"),
]

# ---------------------------------------------------------------- disk_read

QUICK = [0.0031, 0.0009, 0.0008, 0.0008, 0.0009, 0.0008, 0.0009, 0.0008]
READ = {"bytes": 8388608, "seconds": QUICK}
GOOD = drive("nvme1n1", "S1", **READ)


NO_NODE, NOT_OURS = ({"error": "it is not there", "errno": n} for n in (2, 1))


def reading(*rows: dict[str, Any], machine: Any = ("none\n", 1)) -> dict[str, Any]:
    return {**drives(*rows), "virtualization": machine}


def _read(name: str, row: dict[str, Any], want: Want, machine: Any = ("none\n", 1), **limits: float) -> Row:
    profile = {**PROFILE, "limits": limits} if limits else PROFILE
    return ("disk_read", name, reading(GOOD, drive(**row), machine=machine), want, profile, {})


READ_CASES: list[Row] = [
    _read("all read", READ, [("ok", "disk_read", "", "none")]),
    _read(
        "one hangs",
        {"timed_out": 2.0},
        [("unknown", "disk_read.timed_out", "nvme0n1, serial S0", "retry")],
    ),
    _read(
        "an error",
        {"error": "Input/output error", "errno": 5, "seconds": QUICK[:2]},
        [("fail", "disk.read_error", "nvme0n1, serial S0", "replace")],
    ),
    _read(
        "a dead controller",
        {"error": "No such device or address", "errno": 6},
        [("fail", "disk.read_error", "nvme0n1", "replace")],
    ),
    _read(
        "not permitted",
        {"error": "Permission denied", "errno": 13},
        [("unknown", "disk_read.not_permitted", "nvme0n1", "escalate")],
    ),
    _read(
        "no device node",
        {"error": "No such file or directory", "errno": 2},
        [("unknown", "disk_read.unreadable", "nvme0n1", "escalate")],
    ),
    _read(
        "its reader died",
        {"error": "its reader died", "errno": 0},
        [("unknown", "disk_read.unreadable", "nvme0n1", "escalate")],
    ),
    _read(
        "fewer bytes than asked for",
        {"bytes": 4096, "seconds": QUICK},
        [("unknown", "disk_read.unreadable", "nvme0n1", "escalate")],
    ),
    _read("no times", {"bytes": 0, "seconds": []}, [("unknown", "disk_read.unreadable", "nvme0n1", "escalate")]),
    *(
        _read(name, {**READ, "seconds": seconds}, [("unknown", "disk_read.unreadable", "nvme0n1", "escalate")])
        for name, seconds in (
            ("one time in place of eight", QUICK[:1]),
            ("a time that is no number", [*QUICK[:7], float("nan")]),
            ("a truth value for a time", [*QUICK[:7], True]),
            ("a time below zero", [*QUICK[:7], -1]),
            ("a time without end", [*QUICK[:7], float("inf")]),
        )
    ),
    _read(
        "slow all over",
        {"bytes": 8388608, "seconds": [1.21, 1.4, 1.8, 1.1, 1.0, 1.3, 1.2, 0.4]},
        [("fail", "disk.slow", "nvme0n1", "replace")],
    ),
    _read("slow once", {"bytes": 8388608, "seconds": [1.21, *QUICK[1:]]}, [("warn", "disk.slow", "nvme0n1", "none")]),
    _read(
        "a lower limit",
        {"bytes": 8388608, "seconds": [0.2] * 8},
        [("fail", "disk.slow", "nvme0n1", "replace")],
        disk_read_seconds=0.1,
    ),
    _read(
        "in a container, one",
        NO_NODE,
        [("unknown", "disk_read.unreadable", "nvme0n1", "escalate")],
        "podman\n",
    ),
    *(
        ("disk_read", name, reading(drive(**NO_NODE), drive("vda", **NOT_OURS), machine=machine), want, PROFILE, {})
        for name, machine, want in (
            ("in a container, all", "docker\n", [("warn", "disk_read.virtual", "", "none")]),
            (
                "on bare metal, all",
                ("none\n", 1),
                [
                    ("unknown", "disk_read.unreadable", "nvme0n1", "escalate"),
                    ("unknown", "disk_read.not_permitted", "vda", "escalate"),
                ],
            ),
            (
                "on what is not known, all",
                "no_tool",
                [
                    ("unknown", "disk_read.unreadable", "nvme0n1", "escalate"),
                    ("unknown", "disk_read.not_permitted", "vda", "escalate"),
                ],
            ),
        )
    ),
    ("disk_read", "no drive", reading(), [("unknown", "disk_read.no_drive", "", "escalate")], PROFILE, {}),
    (
        "disk_read",
        "the reader hangs",
        {"drives": "timed_out", "virtualization": "none\n"},
        [("unknown", "disk_read.timed_out", "", "retry")],
        PROFILE,
        {},
    ),
    (
        "disk_read",
        "not JSON",
        {"drives": "Traceback", "virtualization": "none\n"},
        [("unknown", "disk_read.unreadable", "", "escalate")],
        PROFILE,
        {},
    ),
]

# ---------------------------------------------------------------- disk_health

OLD, NEW = "nvme-smart-log.1.json", "nvme-smart-log.2-verbose.json"


def nvme(text: str, code: int = 0, error: str = "") -> dict[str, Any]:
    return drive(tool="nvme", problem="", text=text, code=code, error=error)


def sata(name: str, code: int = 0, model: str = "ST4000", **changes: Any) -> dict[str, Any]:
    return drive("sda", tool="smartctl", problem="", text=fixture(name, **changes), code=code, error="", model=model)


def _health(name: str, row: dict[str, Any], want: Want, **more: Any) -> Row:
    healthy = drive("nvme1n1", "S1", tool="nvme", problem="", text=fixture(OLD), code=0, error="")
    return ("disk_health", name, drives(healthy, row), want, {**PROFILE, **more}, {})


def attribute(number: int, raw: int, name: str = "x", value: int = 100) -> dict[str, Any]:
    return {"id": number, "name": name, "value": value, "raw": {"value": raw, "string": str(raw)}}


FINE: Want = [("ok", "disk_health", "", "none")]
ODD = {**attribute(197, 0), "raw": {"value": "abc"}}
FAILED: Want = [("fail", "nvme.failed", "nvme0n1, serial S0", "replace")]
NOT_TOLD: Want = [("warn", "disk_health.not_told", "", "none")]
LOG = json.loads(fixture("smartctl.nvme.json"))["nvme_smart_health_information_log"]
HEALTH_CASES: list[Row] = [
    _health("nvme-cli 1.x", nvme(fixture(OLD)), FINE),
    _health("nvme-cli 2.x, verbose", nvme(fixture(NEW)), FINE),
    _health("nvme by smartctl", {**sata("smartctl.nvme.json"), "name": "nvme0n1"}, FINE),
    _health("SATA SSD", sata("smartctl.sata-ssd.json"), FINE),
    _health("SAS SSD", sata("smartctl.sas.json"), FINE),
    *(
        _health(f"critical warning {bit}", nvme(fixture(OLD, critical_warning=bit)), FAILED)
        for bit in (1, 4, 8, 16, 32)
    ),
    _health(
        "two warnings, verbose",
        nvme(fixture(NEW, critical_warning={"value": 12})),
        [*FAILED, *FAILED],
    ),
    _health("too hot", nvme(fixture(OLD, critical_warning=2)), [("warn", "nvme.hot", "nvme0n1", "escalate")]),
    _health("spare below", nvme(fixture(OLD, avail_spare=9)), FAILED),
    _health("worn", nvme(fixture(OLD, percent_used=101)), [("fail", "nvme.worn", "nvme0n1", "replace")]),
    _health(
        "worn by the profile",
        nvme(fixture(OLD, percent_used=60)),
        [("fail", "nvme.worn", "nvme0n1", "replace")],
        limits={"nvme_wear_percent": 50},
    ),
    _health("media errors", nvme(fixture(OLD, media_errors=7)), [("warn", "nvme.media_errors", "nvme0n1", "none")]),
    _health(
        "many media errors",
        nvme(fixture(OLD, media_errors="100,000,000")),
        [("fail", "nvme.media_errors", "nvme0n1", "replace")],
    ),
    _health(
        "media errors that the profile accepts",
        nvme(fixture(OLD, media_errors="1,024")),
        [("warn", "nvme.media_errors", "nvme0n1", "none")],
        limits={"nvme_media_errors": 2000},
    ),
    _health(
        "nvme by smartctl, read-only",
        {
            **sata("smartctl.nvme.json", nvme_smart_health_information_log={**LOG, "critical_warning": 8}),
            "name": "nvme0n1",
        },
        FAILED,
    ),
    _health(
        "SATA failing",
        sata("smartctl.sata-failing.json", 24),
        [
            ("fail", "disk.failed", "sda, serial S0", "replace"),
            ("fail", "disk.failed", "sda", "replace"),
            ("warn", "disk.bad_sectors", "sda", "none"),
        ],
    ),
    _health(
        "SATA, sectors replaced",
        sata("smartctl.sata-ssd.json", ata_smart_attributes={"table": [attribute(5, 12)]}),
        [("warn", "disk.bad_sectors", "sda", "none")],
    ),
    _health(
        "SATA SSD worn",
        sata("smartctl.sata-ssd.json", ata_smart_attributes={"table": [attribute(231, 7, "SSD_Life_Left", value=5)]}),
        [("fail", "disk.worn", "sda", "replace")],
    ),
    _health(
        "SATA SSD worn, smartctl 7.4",
        sata("smartctl.sata-ssd.json", endurance_used={"current_percent": 97}),
        [("fail", "disk.worn", "sda", "replace")],
    ),
    _health(
        "SAS, uncorrected errors",
        sata("smartctl.sas.json", scsi_error_counter_log={"read": {"total_uncorrected_errors": 3}}),
        [("fail", "disk.failed", "sda", "replace")],
    ),
    _health("a volume of a RAID card", sata("smartctl.volume.json", 4), NOT_TOLD),
    _health(
        "BOSS that nvme-cli cannot ask",
        {**nvme("", 1, "Inappropriate ioctl for device"), "model": "Dell BOSS-N1"},
        NOT_TOLD,
    ),
    _health(
        "not permitted",
        sata("smartctl.denied.json", 2),
        [("unknown", "disk_health.not_permitted", "sda", "escalate")],
    ),
    _health(
        "one hangs",
        drive(tool="nvme", problem="timed_out"),
        [("unknown", "disk_health.timed_out", "nvme0n1, serial S0", "retry")],
    ),
    _health(
        "no tool", drive(tool="nvme", problem="no_tool"), [("unknown", "disk_health.no_tool", "nvme0n1", "escalate")]
    ),
    _health(
        "other words",
        nvme("usage: nvme", 1),
        [("unknown", "disk_health.unreadable", "nvme0n1", "escalate")],
    ),
    _health(
        "half a log",
        nvme(fixture(OLD, percent_used=None)),
        [("unknown", "disk_health.unreadable", "nvme0n1", "escalate")],
    ),
    _health(
        "smartctl without a verdict",
        sata("smartctl.sas.json", smart_status=None, scsi_error_counter_log=None),
        [("unknown", "disk_health.unreadable", "sda", "escalate")],
    ),
    *(
        _health(name, row, [("unknown", "disk_health.unreadable", row["name"], "escalate")])
        for name, row in (
            ("SATA without a verdict", sata("smartctl.sata-ssd.json", smart_status=None)),
            ("SATA, a verdict that is none", sata("smartctl.sata-ssd.json", smart_status={"passed": "N/A"})),
            ("SATA, no attribute", sata("smartctl.sata-ssd.json", ata_smart_attributes={"table": []})),
            (
                "SATA, neither verdict nor attribute",
                sata("smartctl.sata-ssd.json", ata_smart_attributes={"table": []}, smart_status=None),
            ),
            ("SATA, a count that is none", sata("smartctl.sata-ssd.json", ata_smart_attributes={"table": [ODD]})),
            ("SATA, wear that is none", sata("smartctl.sata-ssd.json", endurance_used={"current_percent": "N/A"})),
            ("SAS, no counter, no verdict", sata("smartctl.sas.json", scsi_error_counter_log={}, smart_status=None)),
            ("SAS, an empty log of errors", sata("smartctl.sas.json", scsi_error_counter_log={})),
            ("SAS, a count that is none", sata("smartctl.sas.json", scsi_error_counter_log={"read": {}})),
            ("SAS, without a verdict", sata("smartctl.sas.json", smart_status=None)),
            ("SAS, defects that are no number", sata("smartctl.sas.json", scsi_grown_defect_list="N/A")),
            ("NVMe, spare space not told", nvme(fixture(OLD, avail_spare=None))),
            (
                "NVMe by smartctl, media errors not told",
                {
                    **sata("smartctl.nvme.json", nvme_smart_health_information_log={**LOG, "media_errors": "N/A"}),
                    "name": "nvme0n1",
                },
            ),
        )
    ),
    ("disk_health", "virtual drives", drives(drive("vda", "")), NOT_TOLD, PROFILE, {}),
    ("disk_health", "no drive", drives(), [("unknown", "disk_health.no_drive", "", "escalate")], PROFILE, {}),
    (
        "disk_health",
        "not JSON",
        {"drives": "[]"},
        [("unknown", "disk_health.unreadable", "", "escalate")],
        PROFILE,
        {},
    ),
]

# ---------------------------------------------------------------- zfs_pool, in JSON

PATH = "/dev/disk/by-id/nvme-eui.0{}-part1"


def zpool(number: int = 2, **changes: Any) -> str:
    """The pool with values of its drive of this number changed; with 0 those of the pool."""
    said = json.loads(fixture("zpool-status.json"))
    pool = said["pools"]["data"]
    members = pool["vdevs"]["data"]["vdevs"]["raidz1-0"]["vdevs"]
    (members[PATH.format(number)] if number else pool).update(changes)
    return json.dumps(said)


def _zfs(name: str, text: Any, want: Want, used: str = "data\t12\n", **more: Any) -> Row:
    plain = {"status": ("invalid option 'x'", 2), "used": used, "drives": "nvme-eui.02=S2\n"}
    return ("zfs_pool", name, {"status_json": text, **plain, **more}, want, PROFILE, {"zfs_pool": zfs_cases.POOL})


POOL_FINE: Want = [("ok", "zfs_pool", "data", "none")]
LOST: Want = [("fail", "zfs.drive_missing", "serial S2, nvme-eui.02", "reseat")]
ZFS_CASES: list[Row] = [
    _zfs("JSON, whole", zpool(), POOL_FINE),
    _zfs("JSON, a drive is gone", zpool(state="CANT_OPEN", was=PATH.format(2), not_present="1", name="1527"), LOST),
    _zfs("JSON, removed", zpool(state="REMOVED"), LOST),
    _zfs(
        "JSON, a drive failed",
        zpool(state="FAULTED", aux="ERR_EXCEEDED", read_errors="12"),
        [("fail", "zfs.drive_failed", "serial S2", "replace")],
    ),
    _zfs("JSON, errors", zpool(checksum_errors="7"), [("warn", "zfs.drive_errors", "serial S2", "none")]),
    _zfs("JSON, data is lost", zpool(0, error_count="3"), [("fail", "zfs.data_lost", "data", "escalate")]),
    _zfs(
        "JSON, resilvering",
        zpool(0, scan_stats={"function": "RESILVER", "state": "SCANNING"}),
        [("warn", "zfs.resilvering", "data", "wait")],
    ),
    _zfs("JSON, suspended", zpool(0, state="SUSPENDED"), [("fail", "zfs.pool_degraded", "data", "escalate")]),
    _zfs("JSON, errors not told", zpool(0, error_count=None), [("unknown", "zfs_pool.unreadable", "data", "escalate")]),
    _zfs(
        "JSON, no drive told",
        zpool(0, vdevs={}),
        [("warn", "zfs.fewer_drives", "data", "none"), ("unknown", "zfs_pool.unreadable", "data", "escalate")],
    ),
    *(
        _zfs(
            f"JSON, errors of a drive {value!r}",
            zpool(read_errors=value),
            [("unknown", "zfs_pool.failed", "", "escalate")],
        )
        for value in ("N/A", "", None)
    ),
    _zfs(
        "JSON, no pool",
        '{"output_version": {"command": "zpool status"}, "pools": {}}',
        [("fail", "zfs.no_pool", "data", "escalate")],
    ),
    _zfs("JSON of another form, text", '{"pools": []}', POOL_FINE, status=zfs_cases.WHOLE),
    _zfs("no JSON, text", ("", 2), POOL_FINE, status=zfs_cases.WHOLE),
    _zfs("neither", '{"pools": []}', [("unknown", "zfs_pool.failed", "", "escalate")]),
    _zfs("almost full", zpool(), [("warn", "zfs.pool_full", "data", "none")], "data\t90\n"),
    _zfs("full", zpool(), [("fail", "zfs.pool_full", "data", "escalate")], "data\t95\n"),
    _zfs("how full is not told", zpool(), [("unknown", "zfs_pool.unreadable", "data", "escalate")], "data\t-\n"),
]
READ_CASES = [(check, name, {**said, "load": "{}"}, *rest) for check, name, said, *rest in READ_CASES]
CASES = [*READ_CASES, *HEALTH_CASES, *ZFS_CASES]
