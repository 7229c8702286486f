"""The commissioning script on trees of files, and what is read of its output."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from email.utils import formatdate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight.clocks import Reading
from firstlight.maas import commissioning as c
from firstlight.maas.commissioning import BLANK, SCRIPT, Results, judge_clock, latest_results, parse, script_text

SUM = "ab" * 32
LINE = f"disk\tnvme0n1\t1000\t{SUM}\tno\tS1\teui.1\tModel A"
GOOD = f"firstlight-disks\t1\n{LINE}\nclock\t1795994665\n"


@pytest.fixture(params=["sh", "busybox sh", "bash"])
def run(request, tmp_path: Path):
    """Runs the script on the tree in tmp_path, in several shells."""
    shell = request.param.split()
    if shutil.which(shell[0]) is None:
        pytest.skip(f"no {shell[0]} here")
    (tmp_path / "sys" / "block").mkdir(parents=True)
    (tmp_path / "dev").mkdir()

    def do() -> Results:
        environment = {**os.environ, "FIRSTLIGHT_SYS": f"{tmp_path}/sys", "FIRSTLIGHT_DEV": f"{tmp_path}/dev"}
        done = subprocess.run([*shell, "-c", script_text()], env=environment, capture_output=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, b"")
        results = parse(done.stdout.decode())
        assert results is not None, done.stdout
        return results

    return do


def put(folder: Path, name: str, content: bytes | None = b"", size: int = 2048, **files: bytes) -> None:
    block = folder / "sys" / "block" / name
    (block / "device").mkdir(parents=True)
    (block / "size").write_text(f"{size}\n")
    for path, text in files.items():
        (block / path.replace("__", "/")).write_bytes(text)
    if content is not None:
        (folder / "dev" / name).write_bytes(content)


def test_each_kind_of_disk_tells_its_serial(run, tmp_path):
    blank = bytes(3 * c.HEAD_BYTES)
    put(
        tmp_path,
        "nvme0n1",
        blank,
        7501476528,
        device__serial=b"S6CK  \n",
        device__model=b"KIOXIA CM7 \n",
        wwid=b"eui.1\n",
    )
    put(tmp_path, "vda", b"x" * 3 * c.HEAD_BYTES, serial=b"virtio-1\n")
    put(tmp_path, "sda", blank, device__vpd_pg80=b"\x00\x80\x00\x14   PHYS 1234 \x00", device__wwid=b"naa.5002538e\n")
    disks = {d.name: d for d in run().disks}
    assert [(d.serial, d.size, d.blank) for d in disks.values()] == [
        ("S6CK", 7501476528 * 512, True),
        ("PHYS 1234", 2048 * 512, True),
        ("virtio-1", 2048 * 512, False),
    ]
    assert disks["nvme0n1"].sha256 == BLANK
    assert (disks["nvme0n1"].model, disks["nvme0n1"].wwid, disks["sda"].wwid) == ("KIOXIA CM7", "eui.1", "naa.5002538e")


def test_what_is_no_disk_is_left_out(run, tmp_path):
    for name in ("loop0", "zram0", "ram1", "dm-0", "md127", "sr0", "fd0", "nbd3", "mmcblk0boot0", "zd16"):
        put(tmp_path, name, b"x")
    put(tmp_path, "nvme0c0n1", b"x", hidden=b"1\n")
    put(tmp_path, "sdb", b"x", size=0)
    put(tmp_path, "mmcblk0", b"x")
    assert [d.name for d in run().disks] == ["mmcblk0"]


def test_a_disk_that_cannot_be_read_is_neither_blank_nor_known(run, tmp_path):
    put(tmp_path, "sda", None)
    put(tmp_path, "sdb", b"")
    assert [(d.name, d.sha256, d.blank) for d in run().disks] == [("sda", "", False), ("sdb", "", False)]


def test_a_hostile_drive_says_nothing_but_its_name(run, tmp_path):
    evil = b"$(touch /tmp/x)`id` \\c\t\tA * ?\n; rm -rf /\ndisk\tx\x00\x1b[31m\xff"
    put(tmp_path, "sda", b"x", device__serial=evil, device__model=evil)
    (disk,) = run().disks
    assert disk.serial == disk.model
    assert disk.serial.startswith("$(touch /tmp/x)`id` \\c A * ? ; rm -rf / disk x [31m")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "firstlight-disks\t2\nclock\t1\n",
        f"firstlight-disks\t1\n{LINE}\n",  # cut off before its end
        f"firstlight-disks\t1\n{LINE}\textra\nclock\t1\n",
        "firstlight-disks\t1\nnonsense\nclock\t1\n",
        f"firstlight-disks\t1\n{LINE.replace('nvme0n1', '../etc')}\nclock\t1\n",
        f"firstlight-disks\t1\n{LINE.replace('1000', '-1')}\nclock\t1\n",
        "firstlight-disks\t1\nclock\tsoon\n",
    ],
)
def test_what_is_not_the_scripts_output_is_nothing(text):
    assert parse(GOOD) is not None
    assert parse(text) is None


@given(st.text() | st.text(alphabet="disk\tclockfirstlight-1\n0ab", max_size=200))
def test_any_text_is_results_or_nothing(text):
    for whole in (text, "firstlight-disks\t1\n" + text):
        results = parse(whole)
        assert results is None or results.clock is not None


def test_a_serial_that_several_disks_have_is_kept_for_each():
    results = parse(GOOD.replace(LINE, "\n".join([LINE, LINE, LINE.replace("S1", "")])))
    assert list(results.by_serial()) == ["S1", "S1#2", ""]


# -- MAAS's answers -----------------------------------------------------------------------------------------------


def result(text: str = GOOD, status: int = 2, name: str = SCRIPT, **more: object) -> dict[str, object]:
    return {"name": name, "status": status, "stdout": base64.b64encode(text.encode()).decode(), **more}


def run_of(number: int, kind: int = 0, *results: dict[str, object]) -> dict[str, object]:
    return {"id": number, "type": kind, "results": list(results)}


def test_the_newest_commissioning_counts_and_only_until_something_was_installed():
    old, new = run_of(1, 0, result(GOOD.replace("S1", "OLD"))), run_of(5, 0, result())
    assert latest_results([old, new]).disks[0].serial == "S1"
    assert latest_results([new, run_of(4, 1), old]).disks[0].serial == "S1"
    assert latest_results([new, run_of(6, 1)]) is None
    assert latest_results([new, run_of(6, 1)], installations=1).disks[0].serial == "S1"
    assert latest_results([new, run_of(6, 1), run_of(7, 1)], installations=1) is None
    # testing says nothing of what is on disks
    assert latest_results([new, run_of(8, 2)]) is not None


@pytest.mark.parametrize(
    "runs",
    [
        [],
        [run_of(1)],
        [run_of(1, 0, result(status=3))],
        [run_of(1, 0, result(name="other"))],
        [run_of(1, 0, result()), run_of(2, 0, result(status=0))],
        [{"id": "x"}, {"id": 3, "type": 0, "results": "none"}],
        [run_of(1, 0, {"name": SCRIPT, "status": 2, "stdout": "%%%"})],
        [run_of(1, 0, {"name": SCRIPT, "status": 2, "stdout": "A" * 10**6})],
    ],
)
def test_no_results_are_made_up(runs):
    assert latest_results(runs) is None


def test_the_clock_of_the_host_is_compared_with_maass():
    now = 1795994665.0
    times = {"started": formatdate(now - 3), "ended": formatdate(now + 3)}
    assert judge_clock(latest_results([run_of(1, 0, result(**times))]), None, 30.0) == []
    late = result(GOOD.replace("1795994665", "1795994000"), **times)
    (finding,) = judge_clock(latest_results([run_of(1, 0, late)]), Reading("MAAS's clock", 5.0, 1.0), 30.0)
    assert (finding.status, finding.symptom) == ("warn", "clock.skew")
    assert finding.evidence.startswith("665 s behind MAAS's clock at commissioning; 30 s are allowed")
    assert judge_clock(latest_results([run_of(1, 0, result(started="never", ended=None))]), None, 30.0) == []
