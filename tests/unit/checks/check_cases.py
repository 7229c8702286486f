"""Captured outputs and what each check must say about them: the table that the tests of the judges go through."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import disk_cases
import gpu_cases
import gpu_health_cases
import hca_cases
import host_cases
import long_cases
import nvlink_cases
import pcie_cases
import tuning_cases
import zfs_cases

from firstlight.checks.capture import Output
from firstlight.profile import Profile

FIXTURES = Path(__file__).parents[2] / "fixtures" / "checks"

PROFILE: dict[str, Any] = {
    "name": "example",
    "vendor": "Dell Inc.",
    "model": "PowerEdge XE9680",
    "gpus": {"count": 8, "model": "H100"},
    "hcas": {"count": 8, "rate_gbps": 400},
    "nvme": {"count": 8, "min_bytes": 3_000_000_000_000},
    "os_disk": {"controller": "BOSS"},
    "limits": {"disk_used_percent": 95, "memory_min_bytes": 2_100_000_000_000},
}


def text(name: str, code: int = 0, errors: str = "") -> Output:
    """The output of a command that printed this fixture."""
    return Output((FIXTURES / name).read_text(), errors, code)


def said(words: str, code: int = 0, errors: str = "") -> Output:
    return Output(words, errors, code)


def broken(problem: str) -> Output:
    return Output(errors=f"it is {problem}", code=1, problem=problem, seconds=5.0)


@dataclass(frozen=True)
class Case:
    """want: (status, symptom, text within the locator, action) of each finding, in the judge's order."""

    check: str
    name: str
    captured: dict[str, Output]
    want: list[tuple[str, str, str, str]]
    profile: dict[str, Any] = field(default_factory=dict)
    expect: dict[str, Any] = field(default_factory=dict)

    def wanted_profile(self) -> Profile:
        return Profile.from_dict({**PROFILE, **self.profile})


def good(check: str) -> list[tuple[str, str, str, str]]:
    return [("ok", check, "", "none")]


def lost(check: str, reason: str, action: str = "escalate") -> list[tuple[str, str, str, str]]:
    return [("unknown", f"{check}.{reason}", "", action)]


def _gpu(name: str, output: Output, want: list[tuple[str, str, str, str]], **more: Any) -> Case:
    return Case("gpu_count", name, {"nvidia_smi": output}, want, **more)


GPU = [
    _gpu("8 good", text("nvidia-smi.8x-h100.csv"), good("gpu_count")),
    _gpu("a note on stderr", text("nvidia-smi.8x-h100.csv", errors="a note"), good("gpu_count")),
    _gpu("7 of 8", text("nvidia-smi.7-of-8.csv"), [("fail", "gpu.missing", "1 of 8", "reseat")]),
    _gpu(
        "9",
        text("nvidia-smi.8x-h100.csv"),
        [("fail", "gpu.unexpected", "", "escalate")],
        profile={"gpus": {"count": 7}},
    ),
    _gpu("none", text("nvidia-smi.no-devices.txt", 6), [("fail", "gpu.missing", "8 of 8", "reseat")]),
    _gpu("wrong model", text("nvidia-smi.wrong-model.csv"), [("fail", "gpu.wrong_model", "0000:4c:00.0", "escalate")]),
    _gpu("two drivers", text("nvidia-smi.two-drivers.csv"), [("fail", "gpu.driver_mismatch", "", "reboot")]),
    _gpu("library", text("nvidia-smi.mismatch.txt", 18), [("fail", "gpu.driver_mismatch", "", "reboot")]),
    _gpu("no driver", text("nvidia-smi.no-driver.txt", 9), [("fail", "gpu.driver_not_loaded", "", "reboot")]),
    _gpu("a lost row", text("nvidia-smi.lost-row.csv", 15), [("fail", "gpu.lost", "0000:5d:00.0", "power_cycle")]),
    _gpu(
        "no handle",
        text("nvidia-smi.no-handle.txt", 15),
        [("fail", "gpu.lost", "0000:9b:00.0", "power_cycle")],
    ),
    _gpu(
        "another version",
        text("nvidia-smi.8x-h100.csv"),
        [("fail", "gpu.driver_version", "", "escalate")],
        expect={"gpu_driver": "580.159.04"},
    ),
    _gpu("that version", text("nvidia-smi.8x-h100.csv"), good("gpu_count"), expect={"gpu_driver": "580.95.05"}),
    _gpu("good rows, bad exit", text("nvidia-smi.8x-h100.csv", 255), lost("gpu_count", "failed")),
    _gpu("other columns", text("nvidia-smi.bad-field.txt", 2), lost("gpu_count", "failed")),
    _gpu("not CSV", said("hello\n"), lost("gpu_count", "unreadable")),
    _gpu("nothing", said(""), lost("gpu_count", "unreadable")),
    _gpu("hangs", broken("timed_out"), lost("gpu_count", "timed_out", "retry")),
    _gpu("no tool", broken("no_tool"), lost("gpu_count", "no_tool")),
    _gpu("not permitted", broken("not_permitted"), lost("gpu_count", "not_permitted")),
]


def _hca(
    name: str, sysfs: Output, want: list[tuple[str, str, str, str]], ibstat: Output | None = None, **more: Any
) -> Case:
    return Case("hca_state", name, {"sysfs": sysfs, "ibstat": ibstat or broken("no_tool")}, want, **more)


def _cabled(*names: str) -> dict[str, Any]:
    return {"hcas": {"count": 8, "rate_gbps": 400, "cabled": list(names)}}


NO_SYSFS = said('{"files": {}, "errors": {}}')
HCA = [
    _hca("8, Ethernet and a virtual function beside them", text("infiniband.8-active.json"), good("hca_state")),
    _hca("7 of 8", text("infiniband.7-of-8.json"), [("fail", "hca.missing", "1 of 8", "reseat")]),
    _hca("9", text("infiniband.9.json"), [("warn", "hca.unexpected", "", "none")]),
    _hca("no link", text("infiniband.no-link.json"), [("fail", "hca.no_link", "mlx5_3 port 1", "reseat")]),
    _hca(
        "no link where no cable is",
        text("infiniband.no-link.json"),
        good("hca_state"),
        profile=_cabled("mlx5_0", "mlx5_1/1", "mlx5_2"),
    ),
    _hca(
        "no link at one of two that have a cable",
        text("infiniband.no-link.json"),
        [("fail", "hca.no_link", "mlx5_3 port 1", "reseat")],
        profile=_cabled("mlx5_0", "mlx5_3/1"),
    ),
    _hca(
        "no such port",
        text("infiniband.8-active.json"),
        [("fail", "hca.no_port", "mlx5_0/2", "escalate")],
        profile=_cabled("mlx5_0/2", "mlx5_1"),
    ),
    _hca("no manager", text("infiniband.no-manager.json"), [("fail", "hca.not_active", "mlx5_3", "escalate")]),
    _hca("slow", text("infiniband.slow.json"), [("fail", "hca.slow", "mlx5_6", "reseat")]),
    _hca("no state", text("infiniband.no-state.json"), [("unknown", "hca_state.unreadable", "mlx5_2", "escalate")]),
    _hca("ibstat", NO_SYSFS, good("hca_state"), text("ibstat.8-active.txt")),
    _hca("ibstat, down", NO_SYSFS, [("fail", "hca.no_link", "mlx5_4", "reseat")], text("ibstat.one-down.txt")),
    _hca("nothing in either", NO_SYSFS, [("fail", "hca.missing", "8 of 8", "reseat")]),
    _hca("ibstat hangs", NO_SYSFS, lost("hca_state", "timed_out", "retry"), broken("timed_out")),
    _hca("ibstat says something else", NO_SYSFS, lost("hca_state", "unreadable"), said("usage: ibstat\n")),
    _hca("sysfs hangs", broken("timed_out"), lost("hca_state", "timed_out", "retry")),
    _hca("not JSON", said("x"), lost("hca_state", "unreadable")),
]


def _nvme(
    name: str, listed: Output, want: list[tuple[str, str, str, str]], sysfs: Output | None = None, **more: Any
) -> Case:
    captured = {"nvme_list": listed, "sysfs": sysfs or text("nvme-sysfs.live.json")}
    return Case("nvme_count", name, captured, want, **more)


NVME = [
    _nvme("8 and the OS disk", text("nvme-list.8-and-boss.json"), good("nvme_count")),
    _nvme("nested form", text("nvme-list.nested.json"), good("nvme_count")),
    _nvme("7 of 8", text("nvme-list.7-of-8.json"), [("fail", "nvme.missing", "1 of 8", "reseat")]),
    _nvme("one small", text("nvme-list.one-small.json"), [("fail", "nvme.too_small", "nvme6n1", "replace")]),
    _nvme("9", text("nvme-list.9.json"), [("warn", "nvme.unexpected", "", "none")]),
    _nvme(
        "one dead",
        text("nvme-list.7-of-8.json"),
        [("fail", "nvme.not_live", "nvme5", "replace"), ("fail", "nvme.missing", "1 of 8", "reseat")],
        text("nvme-sysfs.one-dead.json"),
    ),
    _nvme(
        "dead, still listed",
        text("nvme-list.8-and-boss.json"),
        [("fail", "nvme.not_live", "nvme5", "replace")],
        text("nvme-sysfs.one-dead.json"),
    ),
    _nvme(
        "one is told of twice, another is lost",
        said((FIXTURES / "nvme-list.8-and-boss.json").read_text().replace("nvme3n1", "nvme4n1")),
        [("fail", "nvme.missing", "1 of 8", "reseat")],
    ),
    _nvme(
        "two of one serial number",
        said((FIXTURES / "nvme-list.8-and-boss.json").read_text().replace("S7EXAMPLE000003", "S7EXAMPLE000004")),
        [("fail", "nvme.missing", "1 of 8", "reseat")],
    ),
    _nvme("no nvme-cli", broken("no_tool"), good("nvme_count"), text("nvme-sysfs.blocks.json")),
    _nvme("no nvme-cli, no drive", broken("no_tool"), [("fail", "nvme.missing", "8 of 8", "reseat")], NO_SYSFS),
    _nvme("none", said("No NVMe devices detected.\n"), [("fail", "nvme.missing", "8 of 8", "reseat")]),
    _nvme("hangs", broken("timed_out"), lost("nvme_count", "timed_out", "retry")),
    _nvme("not permitted", broken("not_permitted"), lost("nvme_count", "not_permitted")),
    _nvme("fails", said("", 1, "Failed to scan topology"), lost("nvme_count", "failed")),
    _nvme("not JSON", said("{"), lost("nvme_count", "unreadable")),
    _nvme(
        "sysfs hangs", text("nvme-list.8-and-boss.json"), lost("nvme_count", "timed_out", "retry"), broken("timed_out")
    ),
    _nvme("sysfs not JSON", text("nvme-list.8-and-boss.json"), lost("nvme_count", "unreadable"), said("[]")),
]

DISKS = [
    Case("disk_usage", "good", {"statvfs": text("statvfs.good.json")}, good("disk_usage")),
    Case(
        "disk_usage",
        "full",
        {"statvfs": text("statvfs.var-tmp-full.json")},
        [("fail", "disk.full", "/var/tmp", "escalate")],
    ),
    Case(
        "disk_usage",
        "inodes",
        {"statvfs": text("statvfs.no-inodes.json")},
        [("fail", "disk.no_inodes", "/", "escalate")],
    ),
    Case("disk_usage", "btrfs", {"statvfs": text("statvfs.no-fixed-inodes.json")}, good("disk_usage")),
    Case(
        "disk_usage",
        "error",
        {"statvfs": text("statvfs.error.json")},
        [("unknown", "disk_usage.unreadable", "/var", "escalate")],
    ),
    Case(
        "disk_usage",
        "lower limit",
        {"statvfs": text("statvfs.good.json")},
        [("fail", "disk.full", "/var/tmp", "escalate")],
        profile={"limits": {"disk_used_percent": 35}},
    ),
    Case("disk_usage", "hangs", {"statvfs": broken("timed_out")}, lost("disk_usage", "timed_out", "retry")),
    Case("disk_usage", "no numbers", {"statvfs": said('{"/": {"device": 1}}')}, lost("disk_usage", "unreadable")),
    *(
        Case(
            "disk_usage",
            f"{name} {value}",
            {"statvfs": said(json.dumps({"/": {**json.loads(text("statvfs.good.json").text)["/"], name: value}}))},
            lost("disk_usage", "unreadable"),
        )
        for name in ("used", "available", "inodes", "inodes_free", "device")
        for value in (float("nan"), None, "N/A")
    ),
    Case("disk_usage", "not JSON", {"statvfs": said("df: no")}, lost("disk_usage", "unreadable")),
    Case("disk_usage", "empty", {"statvfs": said("{}")}, lost("disk_usage", "unreadable")),
    *(
        Case("disk_usage", name, {"local": said(json.dumps(local)), "statvfs": broken("timed_out")}, want, {}, expect)
        for name, local, want, expect in disk_cases.LOCAL_CASES
    ),
    Case(
        "disk_usage",
        "a capture of before",
        {"local": broken("not_captured"), "statvfs": text("statvfs.var-tmp-full.json")},
        [("fail", "disk.full", "/var/tmp", "escalate")],
    ),
    *(
        Case("mounts_writable", name, {"mounts": said(json.dumps({"files": files, "errors": {}}))}, want)
        for name, files, want in disk_cases.MOUNT_CASES
    ),
    Case("mounts_writable", "good", {"mounts": text("mounts.good.json")}, good("mounts_writable")),
    Case(
        "mounts_writable",
        "root",
        {"mounts": text("mounts.root-read-only.json")},
        [("fail", "mount.read_only", "/", "reboot")],
    ),
    Case(
        "mounts_writable",
        "of fstab",
        {"mounts": text("mounts.data-read-only.json")},
        [("fail", "mount.read_only", "/data sets", "reboot")],
    ),
    Case("mounts_writable", "empty", {"mounts": said("{}")}, lost("mounts_writable", "unreadable")),
    Case("mounts_writable", "hangs", {"mounts": broken("timed_out")}, lost("mounts_writable", "timed_out", "retry")),
]

ACTIVE, INFO = said("active\n"), text("docker-info.json", 200)


def _docker(name: str, unit: Output, info: Output, want: list[tuple[str, str, str, str]]) -> Case:
    return Case("docker", name, {"unit": unit, "info": info}, want)


def _exporter(name: str, output: Output, want: list[tuple[str, str, str, str]]) -> Case:
    return Case("exporters", name, {"node_exporter": output}, want)


DEAD = [("fail", "exporter.not_answering", "node_exporter 127.0.0.1:9100", "escalate")]
SERVICES = [
    _docker("good", ACTIVE, INFO, good("docker")),
    _docker(
        "inactive",
        said("inactive\n", 3),
        broken("refused"),
        [("fail", "docker.not_running", "docker.service", "escalate")],
    ),
    _docker(
        "starting", said("activating\n", 3), broken("refused"), [("fail", "docker.starting", "docker.service", "wait")]
    ),
    _docker("socket dead", ACTIVE, broken("refused"), [("fail", "docker.not_answering", "docker.service", "escalate")]),
    _docker("error 500", ACTIVE, said("{}", 500), [("fail", "docker.not_answering", "docker.service", "escalate")]),
    _docker("hangs", ACTIVE, broken("timed_out"), lost("docker", "timed_out", "retry")),
    _docker("not permitted", ACTIVE, broken("not_permitted"), lost("docker", "not_permitted")),
    _docker("no systemd", said("", 1, "System has not been booted with systemd"), INFO, lost("docker", "failed")),
    _docker("no systemctl", broken("no_tool"), INFO, lost("docker", "no_tool")),
    _docker("not Docker", ACTIVE, said("[]", 200), lost("docker", "unreadable")),
    _exporter("good", text("node-exporter.metrics.txt", 200), good("exporters")),
    _exporter("refused", broken("refused"), DEAD),
    _exporter("error 503", said("x 1", 503), DEAD),
    _exporter("no metric", said("<html>hello</html>", 200), DEAD),
    _exporter("hangs", broken("timed_out"), lost("exporters", "timed_out", "retry")),
    Case("failed_units", "none", {"units": said("")}, good("failed_units")),
    Case(
        "failed_units",
        "two",
        {"units": text("systemctl-failed.txt")},
        [
            ("warn", "unit.failed", "docker-prune.service", "none"),
            ("warn", "unit.failed", "zfs-import.service", "none"),
        ],
    ),
    Case("failed_units", "no systemd", {"units": said("", 1, "Host is down")}, lost("failed_units", "failed")),
    Case("failed_units", "odd", {"units": said("what is this\n")}, lost("failed_units", "unreadable")),
]


def _clock(
    name: str,
    tracking: Output,
    want: list[tuple[str, str, str, str]],
    servers: tuple[str, ...] = (),
    **captured: Output,
) -> Case:
    everything = {
        "tracking": tracking,
        "sources": text("chronyc-sources.csv"),
        "names": text("chronyc-sources.names.csv"),
        "timedatectl": text("timedatectl.good.txt"),
        "timesync": text("timesync.txt"),
        "status": text("proc-status.root.json"),
        "now": said("1764400200\n"),
    }
    return Case("clock", name, {**everything, **captured}, want, expect={"ntp_servers": list(servers)})


SYNCED, UNSYNCED = text("chronyc-tracking.good.csv"), text("chronyc-tracking.unsynchronised.csv")
NO_CHRONY, NO_DAEMON = broken("no_tool"), said("506 Cannot talk to daemon\n", 1)
IN_CONTAINER = text("proc-status.container.json")
WRONG = [("fail", "clock.wrong_source", "", "escalate")]
FIELDS = text("chronyc-tracking.good.csv").text.split(",")


def _tracking(**fields: str) -> Output:
    """What chronyc tracking says of a good clock, with other fields, by number: _3 the reference time."""
    return said(",".join(fields.get(f"_{n}", value) for n, value in enumerate(FIELDS)))


LOST_SOURCES = said(text("chronyc-sources.csv").text.replace("^,*", "^,?").replace("^,-", "^,?"))
CLOCK = [
    _clock("a reference of 1970", _tracking(_3="0.0"), [("fail", "clock.stale", "", "escalate")]),
    _clock("a reference of tomorrow", _tracking(_3="1764490000.0"), [("fail", "clock.stale", "", "escalate")]),
    _clock("an old reference, in an old capture", _tracking(_3="0.0"), good("clock"), now=broken("not_captured")),
    _clock("a day of dispersion", _tracking(_11="86400.0"), [("fail", "clock.uncertain", "", "wait")]),
    _clock("half of a long delay", _tracking(_10="2.1"), [("fail", "clock.uncertain", "", "wait")]),
    _clock("no number", _tracking(_11="nan"), lost("clock", "unreadable")),
    _clock("no source that it follows", SYNCED, [("fail", "clock.not_synchronised", "", "wait")], sources=LOST_SOURCES),
    _clock("no source at all", SYNCED, [("fail", "clock.not_synchronised", "", "wait")], sources=said("")),
    _clock("sources not told", SYNCED, lost("clock", "timed_out", "retry"), sources=broken("timed_out")),
    _clock("good", SYNCED, good("clock")),
    _clock("the site's, by address", SYNCED, good("clock"), ("10.0.0.1",)),
    _clock("the site's, by name", SYNCED, good("clock"), ("NTP1.example.org",)),
    _clock("another's", SYNCED, WRONG, ("ntp2.example.org", "10.0.0.2")),
    _clock("off", text("chronyc-tracking.skew.csv"), [("fail", "clock.skew", "", "escalate")]),
    _clock(
        "off, in a container",
        text("chronyc-tracking.skew.csv"),
        [("fail", "clock.skew", "", "escalate")],
        status=IN_CONTAINER,
    ),
    _clock("not synchronised", UNSYNCED, [("fail", "clock.not_synchronised", "", "wait")]),
    _clock("not synchronised, not ours", UNSYNCED, [("warn", "clock.not_settable", "", "none")], status=IN_CONTAINER),
    _clock(
        "not synchronised, rights not known",
        UNSYNCED,
        [("fail", "clock.not_synchronised", "", "wait")],
        status=broken("failed"),
    ),
    _clock("local", text("chronyc-tracking.local.csv"), [("fail", "clock.local_only", "", "escalate")]),
    _clock("chronyc hangs", broken("timed_out"), lost("clock", "timed_out", "retry")),
    _clock("chronyc not permitted", said("501 Not authorised\n", 1), lost("clock", "failed")),
    _clock("not CSV", said("Reference ID : 0A000001\n"), lost("clock", "unreadable")),
    _clock("not a number", said(SYNCED.text.replace("-0.000012345", "nan")), lost("clock", "unreadable")),
    _clock("timesyncd", NO_CHRONY, good("clock")),
    _clock("timesyncd, the site's", NO_CHRONY, good("clock"), ("ntp1.example.org",)),
    _clock("timesyncd, another's", NO_CHRONY, WRONG, ("10.9.9.9",)),
    _clock(
        "timesyncd, server not known", NO_CHRONY, lost("clock", "unreadable"), ("10.0.0.1",), timesync=broken("failed")
    ),
    _clock(
        "timesyncd not synchronised",
        NO_CHRONY,
        [("fail", "clock.not_synchronised", "", "wait")],
        timedatectl=text("timedatectl.unsynchronised.txt"),
    ),
    _clock(
        "no service",
        NO_DAEMON,
        [("fail", "clock.no_service", "", "escalate")],
        timedatectl=text("timedatectl.no-service.txt"),
    ),
    _clock("no tool at all", NO_CHRONY, lost("clock", "no_tool"), timedatectl=broken("no_tool")),
    _clock("timedatectl odd", NO_DAEMON, lost("clock", "unreadable"), timedatectl=said("NTP=perhaps\n")),
]


def _log(name: str, dmesg: Output, want: list[tuple[str, str, str, str]], journal: Output | None = None) -> Case:
    return Case("kernel_xid", name, {"dmesg": dmesg, "journal": journal or said("")}, want)


KERNEL = [
    _log("clean", text("dmesg.clean.txt"), good("kernel_xid")),
    _log("79", text("dmesg.xid-79.txt"), [("fail", "xid.79", "GPU 0000:9b:00", "power_cycle")]),
    _log(
        "application",
        text("dmesg.xid-application.txt"),
        [("warn", "xid.31", "GPU 0000:19:00", "none"), ("warn", "xid.13", "GPU 0000:3b:00 gpu-i:05", "none")],
    ),
    _log("context switch", text("dmesg.xid-unlisted.txt"), [("fail", "xid.109", "GPU 0000:4c:00", "reboot")]),
    _log(
        "switch",
        text("dmesg.sxid.txt"),
        [
            ("warn", "sxid.12028", "NVSwitch 3 0000:05:00", "none"),
            ("fail", "sxid.20034", "NVSwitch 0 0000:00:00", "reboot"),
        ],
    ),
    _log(
        "only in the journal",
        text("dmesg.clean.txt"),
        [("fail", "xid.48", "GPU 0000:5d:00", "reboot")],
        text("journalctl.xid-48.txt"),
    ),
    _log("dmesg not permitted, journal clean", broken("not_permitted"), good("kernel_xid"), text("dmesg.clean.txt")),
    _log("neither", broken("not_permitted"), lost("kernel_xid", "not_permitted")),
    _log("empty is not clean", said(""), lost("kernel_xid", "unreadable")),
    _log("no dmesg", broken("no_tool"), lost("kernel_xid", "no_tool"), broken("no_tool")),
    _log("no kernel log", said("Usage: dmesg [-c]\n"), lost("kernel_xid", "unreadable")),
    _log(
        "in no form that is known",
        said("[    0.0] Linux version 6.8.0\n[   55.1] NVRM: Xid 79 on GPU PCI:0000:3b:00\n"),
        lost("kernel_xid", "unreadable"),
    ),
    _log(
        "the ring buffer has lost its beginning",
        said("kern  :info  : 2027-03-01T06:30:00,000000+00:00 perf: a line\n"),
        [("warn", "kernel_xid.incomplete", "", "none")],
    ),
    Case(
        "kernel_xid",
        "a wrong setting",
        {"dmesg": text("dmesg.clean.txt"), "journal": said("")},
        [("unknown", "kernel_xid.wrong_setting", "expect.kernel_log.since", "escalate")],
        expect={"kernel_log": {"since": "yesterday"}},
    ),
]


def _kernel(name: str, dmesg: Output, want: list[tuple[str, str, str, str]], journal: Output | None = None) -> Case:
    """The bad lines themselves are in test_kernel_log.py."""
    return Case("kernel_log", name, {"dmesg": dmesg, "journal": journal or said(""), "warnings": said("")}, want)


KERNEL += [
    _kernel("clean", text("dmesg.clean.txt"), good("kernel_log")),
    _kernel(
        "a drive hangs",
        said(
            "kern  :notice: 2027-03-01T06:00:00,000000+00:00 Linux version 6.8.0-60-generic\n"
            "kern  :warn  : 2027-03-01T06:30:00,000000+00:00 nvme nvme3: I/O 320 QID 4 timeout, aborting\n"
        ),
        [("fail", "kernel.nvme_timeout", "nvme3", "reseat")],
    ),
    _kernel("neither", broken("not_permitted"), lost("kernel_log", "not_permitted"), broken("not_permitted")),
    _kernel("no kernel log", said("garbage\n"), lost("kernel_log", "unreadable")),
    _kernel(
        "the ring buffer has lost its beginning",
        said("kern  :info  : 2027-03-01T06:30:00,000000+00:00 perf: a line\n"),
        [("warn", "kernel_log.incomplete", "", "none")],
    ),
    Case(
        "kernel_log",
        "it reaches back to the last clean verdict",
        {
            "dmesg": said("kern  :info  : 2027-03-01T06:30:00,000000+00:00 perf: a line\n"),
            "journal": said(""),
            "warnings": said(""),
        },
        good("kernel_log"),
        expect={"kernel_log": {"since": "2027-03-01T06:40:00Z"}},
    ),
    Case(
        "kernel_log",
        "a wrong setting",
        {"dmesg": text("dmesg.clean.txt"), "journal": said(""), "warnings": said("")},
        [("unknown", "kernel_log.wrong_setting", "expect.kernel_log.harmless[0]", "escalate")],
        expect={"kernel_log": {"harmless": ["("]}},
    ),
]


def _by_modules() -> list[Case]:
    """32 modules of 64 GiB; the fixtures are of such a host, whole and with one lost."""
    profile: dict[str, Any] = {"limits": {}, "dimms": {"count": 32, "total_gib": 2048}}
    bare, lost_one = said("none\n", 1), text("meminfo.dimm-lost.json")
    missing = [("fail", "memory.missing", "", "reseat")]
    virtual = [("warn", "memory_size.virtual", "", "none")]

    def case(name: str, meminfo: Output, machine: Output, want: list[tuple[str, str, str, str]], **more: Any) -> Case:
        return Case("memory_size", name, {"meminfo": meminfo, "virtualization": machine}, want, {**profile, **more})

    return [
        case("2 TB of modules", text("meminfo.2t.json"), bare, good("memory_size")),
        case("a module lost of 32", lost_one, bare, missing),
        case(
            "a module lost, a limit that allows it", lost_one, bare, good("memory_size"), limits={"memory_min_bytes": 1}
        ),
        case("virtual, and smaller", lost_one, said("kvm\n"), virtual),
        case("in a container that sees all", text("meminfo.2t.json"), said("docker\n"), good("memory_size")),
        case("smaller, machine not known", lost_one, broken("no_tool"), lost("memory_size", "no_tool")),
    ]


MEMORY = [
    Case("memory_size", "2 TB", {"meminfo": text("meminfo.2t.json")}, good("memory_size")),
    Case(
        "memory_size",
        "a module lost",
        {"meminfo": text("meminfo.dimm-lost.json")},
        [("fail", "memory.missing", "", "reseat")],
    ),
    Case(
        "memory_size",
        "odd",
        {"meminfo": said('{"files": {"/proc/meminfo": "MemTotal: much"}}')},
        lost("memory_size", "unreadable"),
    ),
    *_by_modules(),
    Case("memory_size", "not JSON", {"meminfo": said("x")}, lost("memory_size", "unreadable")),
    Case("memory_size", "hangs", {"meminfo": broken("timed_out")}, lost("memory_size", "timed_out", "retry")),
]


def _outputs(values: dict[str, Any]) -> dict[str, Output]:
    """Outputs by name from text, from text and exit status, or from a problem's name."""
    return {
        key: said(*value) if isinstance(value, tuple) else broken(value) if value in PROBLEMS else said(value)
        for key, value in values.items()
    }


PROBLEMS = ("timed_out", "no_tool", "not_permitted", "refused", "failed", "too_much_output")
GPU_SOFTWARE = [
    *(
        Case("gpu_driver", name, _outputs({**gpu_cases.DRIVER, **other}), want, {"gpus": gpus}, expect)
        for name, other, want, gpus, expect in gpu_cases.DRIVER_CASES
    ),
    *(
        Case("gpu_rdma", name, _outputs({**gpu_cases.RDMA, **other}), want, {"gpus": {"count": 8, "rdma": mode}})
        for name, other, want, mode in gpu_cases.RDMA_CASES
    ),
    Case(
        "gpu_rdma",
        "no card, a reboot is due",
        _outputs({**gpu_cases.RDMA, "files": gpu_cases.rdma_files(devices=0), "memlock": "DefaultLimitMEMLOCK=8\n"}),
        [("warn", "rdma.no_device", "", "reboot"), ("fail", "rdma.memlock", "systemd", "escalate")],
        {"gpus": {"count": 8, "rdma": "peermem"}},
        {"reboot_due": True},
    ),
    *(
        Case(
            "gpu_metrics",
            name,
            _outputs({"metrics": answer}),
            want,
            {"gpus": {**PROFILE["gpus"], **({"nvlink": {"links": 18}} if links else {})}},
            {"exporters": {"dcgm_exporter": 9400}},
        )
        for name, answer, want, links in [
            *((*case, True) for case in gpu_cases.METRICS_CASES),
            ("no NVLink to tell of", (gpu_cases.metrics(8, gpu_cases.NVLINK), 200), good("gpu_metrics"), False),
        ]
    ),
]

TUNING = [
    *(Case("zfs_pool", name, o, want, {}, {"zfs_pool": zfs_cases.POOL}) for name, o, want in zfs_cases.CASES),
    *(Case("pcie_acs", name, _outputs(o), want, {}, expect) for name, o, want, expect in tuning_cases.ACS_CASES),
    *(
        Case("cpu_frequency", name, _outputs(o), want, {"tuning": tuning_cases.CPU, **more})
        for name, o, want, more in tuning_cases.CPU_CASES
    ),
    *(
        Case(
            "host_tuning",
            name,
            _outputs(o),
            want,
            {"tuning": more.get("tuning", tuning_cases.TUNING)},
            more.get("expect", {}),
        )
        for name, o, want, more in tuning_cases.TUNING_CASES
    ),
]

HARDWARE = [
    Case(check, name, _outputs(captured), want, profile, expect)
    for check, name, captured, want, profile, expect in (
        *pcie_cases.CASES,
        *disk_cases.CASES,
        *hca_cases.CASES,
        *host_cases.CASES,
        *long_cases.DRIVES,
    )
]

GPU_HEALTH = [Case(*row) for row in (*gpu_health_cases.CASES, *nvlink_cases.CASES, *long_cases.DIAG)]

CASES = [*GPU_HEALTH, *TUNING, *GPU, *GPU_SOFTWARE, *HCA, *NVME, *DISKS, *SERVICES, *CLOCK, *KERNEL, *MEMORY, *HARDWARE]
