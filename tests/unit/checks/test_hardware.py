"""The readers of the checks of PCIe, drives, HCAs, containers and C-states, on folders and tools of this test's own."""

from __future__ import annotations

import http.server
import json
import os
import socketserver
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import hca_cases
import pcie_cases
import pytest
from hanging import never_begins

from firstlight.checks import (
    cpu_idle,
    disk_health,
    disks,
    hca_errors,
    hca_module,
    infiniband,
    pcie,
    services,
)
from firstlight.checks.capture import Command, Output, run_command
from firstlight.profile import Profile

FIXTURES = Path(__file__).parents[2] / "fixtures" / "hardware"


def changed(command: Command, *pairs: tuple[str, str]) -> Command:
    """The command with words of its script replaced; each must be there."""
    words = list(command.argv)
    at = words.index("-c") + 1
    for old, new in pairs:
        assert old in words[at]
        words[at] = words[at].replace(old, new)
    return replace(command, argv=tuple(words))


def read(command: Command) -> Any:
    output = run_command(command)
    assert (output.problem, output.code, output.errors) == ("", 0, "")
    return json.loads(output.text)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put a shell script of this name before all others."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def add(name: str, script: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    return add


# ---------------------------------------------------------------- PCIe


def device(root: Path, path: str, **files: str) -> None:
    """A device below the root's tree of devices, and its link in the bus's folder."""
    folder = root / "devices" / path
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n")
    (root / "bus").mkdir(exist_ok=True)
    (root / "bus" / folder.name).symlink_to(folder)


def test_pcie_is_read_with_the_bridges_above(tmp_path: Path) -> None:
    link = {"current_link_speed": "16.0 GT/s PCIe", "current_link_width": "4", "max_link_speed": "16.0 GT/s PCIe"}
    link["max_link_width"] = "4"
    root, drive = "pci0000:15/0000:15:01.0", "pci0000:15/0000:15:01.0/0000:16:00.0"
    device(tmp_path, root, **{"class": "0x060400", "vendor": "0x8086"}, **link)
    device(tmp_path, drive, **{"class": "0x010802", "vendor": "0x144d"}, **link)
    device(tmp_path, "pci0000:15/0000:15:02.0", **{"class": "0x088000", "vendor": "0x8086"})
    (tmp_path / "devices" / drive / "nvme" / "nvme3").mkdir(parents=True)
    (tmp_path / "devices" / drive / "nvme" / "nvme3" / "model").write_text("Some drive  \n")

    said = read(changed(pcie.SYSFS, ("/sys/bus/pci/devices", str(tmp_path / "bus"))))

    assert set(said) == {"0000:15:01.0", "0000:16:00.0"}
    assert said["0000:16:00.0"]["above"] == "0000:15:01.0"
    assert said["0000:16:00.0"]["model"] == "Some drive"
    (bridge, end) = pcie.parse_devices(json.dumps(said)) or []
    assert (end.locator, end.width, end.generation, end.max_width) == ("NVMe nvme3 0000:16:00.0", 4, 4, 4)
    assert bridge.kind == "bridge"


def test_the_os_disk_is_no_data_drive() -> None:
    known = pcie.parse_devices(pcie_cases.pci(), "boss") or []

    assert [d.kind for d in known].count("nvme") == 8
    assert [d.kind for d in pcie.parse_devices(pcie_cases.pci()) or []].count("nvme") == 9


# ---------------------------------------------------------------- drives

LSBLK = """cat <<'END'
{{"blockdevices": [{rows}]}}
END"""


def row(name: str, size: int = 8 << 20, **more: Any) -> str:
    fields = {"name": name, "type": "disk", "size": size, "rm": False, "tran": "nvme", "serial": f"S-{name}"}
    return json.dumps({**fields, "model": "M", **more})


def test_every_drive_is_read_and_one_that_hangs_costs_its_limit_alone(tmp_path: Path, tools: Any) -> None:
    (tmp_path / "nvme0n1").write_bytes(os.urandom(8 << 20))
    os.mkfifo(tmp_path / "nvme1n1")
    (tmp_path / "nvme3n1").write_bytes(b"short")
    skipped = [row("loop0"), row("zd0"), row("sr0"), row("sdx", rm=True), row("sdy", 0), row("nvme0n1p1")]
    names = [row(f"nvme{n}n1") for n in range(4)]
    tools("lsblk", LSBLK.format(rows=", ".join(names + skipped)))
    started = time.monotonic()

    said = read(changed(disks.READER, ('"/dev/"', f'"{tmp_path}/"')))

    assert 1.9 < time.monotonic() - started < 5
    good, hanging, missing, short = said["drives"]
    assert (good["bytes"], len(good["seconds"]), good["serial"]) == (8 << 20, 8, "S-nvme0n1")
    assert hanging["timed_out"] == 2.0
    assert missing["errno"] == 2
    assert short["error"] == "5 bytes"
    captured = {"drives": Output(json.dumps(said)), "virtualization": Output("none\n", code=1)}
    findings = disks.judge_read(captured, Profile("x", "v", "m"), {})
    assert [(f.symptom, f.locator) for f in findings] == [
        ("disk_read.timed_out", "nvme1n1, serial S-nvme1n1"),
        ("disk_read.unreadable", "nvme2n1, serial S-nvme2n1"),
        ("disk_read.unreadable", "nvme3n1, serial S-nvme3n1"),
    ]


def test_the_page_cache_is_passed_by_on_a_block_device() -> None:
    script = disks.READER.argv[-1]

    assert "os.O_DIRECT if stat.S_ISBLK" in script


def test_without_lsblk_the_kernel_tells_the_drives(tmp_path: Path, tools: Any) -> None:
    for name, size, real in (
        ("nvme0n1", 16384, True),
        ("loop0", 16384, False),
        ("sda", 16384, True),
        ("zram0", 8, False),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "size").write_text(f"{size}\n")
        (tmp_path / name / "removable").write_text("1\n" if name == "sda" else "0\n")
        if real:
            (tmp_path / name / "device").mkdir()
            (tmp_path / name / "device" / "model").write_text("M\n")
    tools("lsblk", "exit 1")
    command = changed(disks.READER, ("/sys/block", str(tmp_path)), ('"/dev/"', '"/no/such/"'))

    assert [(d["name"], d["size"], d["model"]) for d in read(command)["drives"]] == [("nvme0n1", 8 << 20, "M")]


def test_every_local_file_system_that_can_be_written_is_asked_once(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    point = str(tmp_path / "a b").replace(" ", "\\040")
    lines = [
        "/dev/sda2 / ext4 rw 0 0", "proc /proc proc rw 0 0", f"/dev/sdb1 {point} xfs rw,relatime 0 0",
        f"/dev/sdb1 {tmp_path}/again xfs rw 0 0", f"/dev/loop0 {tmp_path}/snap squashfs ro 0 0",
        f"/dev/sdc1 {tmp_path}/ro ext4 ro,relatime 0 0", f"nas:/x {tmp_path}/nas nfs4 rw 0 0",
        f"/dev/sdd1 {tmp_path}/hidden ext4 rw 0 0", f"/dev/sde1 {tmp_path}/over ext4 rw 0 0",
        f"overlay {tmp_path}/over overlay rw 0 0",
    ]  # fmt: skip
    (tmp_path / "mounts").write_text("\n".join(lines) + "\n")
    words = [str(tmp_path / "mounts") if word == "/proc/self/mounts" else word for word in disks.LOCAL.argv]

    said = read(replace(disks.LOCAL, argv=tuple(words)))

    assert list(said) == [*disks.PATHS, f"{tmp_path}/a b"]
    assert (said["/"]["source"], said["/"]["device"]) == ("/dev/sda2", Path("/").stat().st_dev)
    assert said[f"{tmp_path}/a b"]["size"] > 0


def test_a_file_system_that_hangs_costs_its_limit_alone(tmp_path: Path) -> None:
    hangs = ("def look(path):", 'def look(path):\n    time.sleep(60 if path == "/var" else 0)')
    started = time.monotonic()

    said = read(changed(disks.LOCAL, hangs))

    assert said["/var"]["timed_out"] == 3.0
    assert said["/"]["size"] > 0
    assert time.monotonic() - started < 6


def test_an_lsblk_that_cannot_be_ended_takes_no_drive_with_it(tmp_path: Path, tools: Any) -> None:
    (tmp_path / "nvme0n1" / "device").mkdir(parents=True)
    (tmp_path / "nvme0n1" / "size").write_text("16384\n")
    tools("lsblk", LSBLK.format(rows=row("nvme9n1")))
    command = changed(disks.READER, ("/sys/block", str(tmp_path)), ('"/dev/"', '"/no/such/"'))
    started = time.monotonic()

    with never_begins(tmp_path / "bin" / "lsblk"):
        said = read(command)

    assert [d["name"] for d in said["drives"]] == ["nvme0n1"]
    assert time.monotonic() - started < 5


def test_each_drive_is_asked_for_its_health_by_its_own_tool(tools: Any) -> None:
    tools("lsblk", LSBLK.format(rows=", ".join([row("nvme0n1"), row("nvme1n1"), row("sda"), row("vda")])))
    smart, sata = FIXTURES / "nvme-smart-log.1.json", FIXTURES / "smartctl.sata-failing.json"
    tools("nvme", f'[ "$2" = /dev/nvme1n1 ] && exec sleep 60; echo note >&2; cat {smart}')
    tools("smartctl", f'[ "$*" = "-j -i -H -A -l error /dev/sda" ] && cat {sata}; exit 24')
    started = time.monotonic()

    said = read(disk_health.READER)

    assert 2.9 < time.monotonic() - started < 6
    good, hanging, old, virtual = said["drives"]
    assert (good["tool"], good["code"], good["error"]) == ("nvme", 0, "note\n")
    assert hanging["problem"] == "timed_out"
    assert (old["tool"], old["code"]) == ("smartctl", 24)
    assert "tool" not in virtual
    findings = disk_health.judge({"drives": Output(json.dumps(said))}, Profile("x", "v", "m"), {})
    assert [f.symptom for f in findings] == [
        "disk_health.timed_out",
        "disk.failed",
        "disk.failed",
        "disk.bad_sectors",
    ]


def test_smartctl_asks_where_nvme_cli_is_missing(tmp_path: Path, tools: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tools("lsblk", LSBLK.format(rows=row("nvme0n1")))
    command = changed(
        disk_health.READER, ("shutil.which(tool)", "which(tool)"), ("rows, running", "which = {!r}.get\nrows, running")
    )
    both = changed(command, ("{!r}", "{'smartctl': 1}"))
    none = changed(command, ("{!r}", "{}"))
    tools("smartctl", f"cat {FIXTURES / 'smartctl.nvme.json'}")

    assert read(both)["drives"][0]["tool"] == "smartctl"
    assert read(none)["drives"][0]["problem"] == "no_tool"


# ---------------------------------------------------------------- HCAs


def test_mlxlink_is_asked_for_each_hca(tmp_path: Path, tools: Any) -> None:
    top = tmp_path / "class"
    for name in ("mlx5_0", "mlx5_1", "mlx5_2"):
        (top / name / "device").mkdir(parents=True)
    (top / "mlx5_2" / "device" / "physfn").mkdir()
    tools("mlxlink", f'[ "$*" = "-d mlx5_0 -m --json" ] && exec cat {FIXTURES / "mlxlink.optical.json"}; exec sleep 60')

    said = read(changed(hca_module.MLXLINK, ("/sys/class/infiniband", str(top))))

    assert set(said["devices"]) == {"mlx5_0", "mlx5_1"}
    assert said["devices"]["mlx5_1"] == {"problem": "timed_out"}
    module = hca_module.parse_mlxlink(said["devices"]["mlx5_0"]["text"])
    assert module == hca_module.Module("MMA4Z00-NS400", "FLT0000001", "47.171.3", 52.0, 80.0)


def test_a_copper_cable_has_neither_firmware_nor_sensor() -> None:
    coloured = hca_cases.COPPER.replace("MCP4Y10-N00A", "\x1b[32mMCP4Y10-N00A\x1b[0m")

    assert hca_module.parse_mlxlink(coloured) == hca_module.Module("MCP4Y10-N00A", "FLT0000002", sensor=False)


@pytest.mark.parametrize("said", [Output("", "", 1), Output("no JSON"), Output(hca_cases.files({"/proc/uptime": "9"}))])
def test_nothing_is_kept_of_errors_where_no_port_was_told(said: Output) -> None:
    assert hca_errors.keep({"counters": said}) is None


def test_a_reading_is_what_the_next_one_is_compared_with() -> None:
    text = hca_cases.counters(symbol_error=5000)
    kept = json.loads(json.dumps(hca_errors.keep({"counters": Output(text)})))
    assert all(count for port in kept["ports"].values() for count in port.values())
    later = hca_cases.counters(11 * 3600, symbol_error=5010)

    assert kept["ports"]["mlx5_1/1"]["symbol_error"] == 5000
    assert set(kept["ports"]) == {"mlx5_0/1", "mlx5_1/1"}
    (finding,) = hca_errors.judge({"counters": Output(later)}, Profile("x", "v", "m"), {"hca_counters": kept})
    assert (finding.status, finding.evidence) == ("ok", "2 ports: errors within their limits, in the last 1.0 h")


@pytest.mark.parametrize(
    ("version", "floor", "lower"),
    [
        ("28.43.2026", "28.43.2026", False),
        ("28.9.1", "28.10", True),
        ("28.10.0", "28.10", False),
        ("47.171.3", "x", None),
        ("", "1.0", None),
    ],
)
def test_versions_are_numbers(version: str, floor: str, lower: bool | None) -> None:
    assert infiniband.is_below(version, floor) is lower


# ---------------------------------------------------------------- containers


class Daemon(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Answers as Docker's socket: a list of containers, and each of them by its id."""

    daemon_threads = True
    containers: dict[str, dict[str, Any]]


class Answers(http.server.BaseHTTPRequestHandler):
    server: Daemon

    def do_GET(self) -> None:
        known, status = self.server.containers, 200
        found: Any = {"message": "No such container"}
        if self.path == "/containers/json?all=1":
            found = [
                {"Id": name * 32, "Names": [f"/{name}"], "Image": "i:1", "State": "running", "Status": "Up"}
                for name in known
            ]
        else:
            one = known[self.path.split("/")[2][0]]
            status = one.get("status", 200)
            found = {"HostConfig": one} if status == 200 else found
        body = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: Any) -> None:
        pass

    def address_string(self) -> str:
        return "docker"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(str(tmp_path / "socket"), Answers) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.shutdown()


def asking(daemon: Daemon) -> Command:
    return replace(services.CONTAINERS, argv=(*services.CONTAINERS.argv[:-1], str(daemon.server_address)))


def test_containers_are_asked_over_the_socket(daemon: Daemon) -> None:
    daemon.containers = {
        "a": {"Privileged": True},
        "b": {"PidMode": "host", "CapAdd": ["SYS_ADMIN"]},
        "c": {"status": 500},
    }
    daemon.containers["d"] = {"status": 404}

    said = read(asking(daemon))

    a, b, c = said["containers"]
    assert (a["name"], a["id"], a["privileged"], a["caps"]) == ("a", "a" * 12, True, [])
    assert (b["pid"], b["caps"]) == ("host", ["SYS_ADMIN"])
    assert "HTTP 500" in c["error"]
    assert said["more"] == 0


def test_without_a_daemon_one_line_says_so(tmp_path: Path) -> None:
    command = replace(services.CONTAINERS, argv=(*services.CONTAINERS.argv[:-1], str(tmp_path / "none")))

    output = run_command(command)

    assert (output.code, output.errors) == (1, "FileNotFoundError [Errno 2] No such file or directory\n")


def test_of_very_many_containers_the_rest_is_counted(daemon: Daemon) -> None:
    daemon.containers = {"a": {}, "b": {}, "c": {}}

    said = read(changed(asking(daemon), ("rows[:256]", "rows[:1]"), ("len(rows) - 256", "len(rows) - 1")))

    assert ([one["name"] for one in said["containers"]], said["more"]) == (["a"], 2)


# ---------------------------------------------------------------- C-states


def test_c_states_are_counted_by_what_they_are(tmp_path: Path) -> None:
    for cpu in (0, 1, 2):
        for number, (name, latency) in enumerate((("POLL", 0), ("C6", 170))):
            folder = tmp_path / f"cpu{cpu}" / "cpuidle" / f"state{number}"
            folder.mkdir(parents=True)
            for file, value in (("name", name), ("latency", latency), ("disable", int(cpu == 2 and number == 1))):
                (folder / file).write_text(f"{value}\n")
    (tmp_path / "cpuidle").mkdir()
    (tmp_path / "cpuidle" / "current_driver").write_text("intel_idle\n")
    depth = len(str(tmp_path).strip("/").split("/")) + 1
    command = changed(
        cpu_idle._SYSFS, ("/sys/devices/system/cpu", str(tmp_path)), ('.split("/")[5]', f'.split("/")[{depth}]')
    )

    said = read(command)

    assert said["driver"] == "intel_idle"
    assert said["states"] == [["C6", "170", "0", 2, 0], ["C6", "170", "1", 1, 2], ["POLL", "0", "0", 3, 0]]
