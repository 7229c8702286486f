"""Who uses the GPUs of a host: what nvidia-smi says, and who holds a device file open."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstlight.gpuusers import DAEMONS, holders, parse


def process(proc: Path, pid: int, name: str, *opened: str) -> None:
    folder = proc / str(pid)
    (folder / "fd").mkdir(parents=True)
    (folder / "comm").write_text(f"{name}\n")
    for number, target in enumerate(opened):
        (folder / "fd" / str(number)).symlink_to(target)


@pytest.mark.parametrize(
    ("text", "pids"),
    [("", []), ("4711\n812\n4711\n", [812, 4711]), (" 17 \n[N/A]\nNo running processes found\n", [17])],
)
def test_what_nvidia_smi_names(text: str, pids: list[int]) -> None:
    assert parse(text) == pids


def test_a_job_that_holds_a_gpu_open(tmp_path: Path) -> None:
    process(tmp_path, 4711, "python3", "/dev/null", "/dev/nvidiactl", "/dev/nvidia12")
    process(tmp_path, 812, "trainer", "/dev/nvidia0")
    assert holders(tmp_path) == [812, 4711]


def test_a_host_at_rest(tmp_path: Path) -> None:
    for pid, name in enumerate(DAEMONS, 100):
        process(tmp_path, pid, name, "/dev/nvidia0", "/dev/nvidiactl")
    process(tmp_path, 1, "systemd", "/dev/null")
    process(tmp_path, 2, "smi-reader", "/dev/nvidiactl", "/dev/nvidia-uvm", "/tmp/dev/nvidia0")
    (tmp_path / "3").mkdir()  # it has ended meanwhile
    (tmp_path / "self").mkdir()
    assert holders(tmp_path) == []
    assert holders(tmp_path / "none") == []
