"""A scripted week: hosts fail, are quarantined and ticketed, are mended and come back; see docs/lab.md."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from .conftest import REPOSITORY, Lab

pytestmark = pytest.mark.timeout(2400)


@pytest.fixture
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("week")
    lab = Lab(folder, block=53)
    try:
        lab.command("up", "--fleet", "4", "--sound", "--block", str(lab.block), "--inventory-dir", str(lab.inventory))
        yield lab
    finally:
        lab.command("down")
        shutil.rmtree(folder, ignore_errors=True)


def test_a_week_goes_as_it_must_though_commands_are_killed(sound):
    """Every condition is in simulators/lab/week.py; the first that does not hold ends it."""
    words = [REPOSITORY / "scripts" / "lab", "--lab-dir", sound.folder / "lab", "week", "--reports", sound.reports]
    done = subprocess.run(
        [*words, "--seed", "31", "--days", "5", "--kills", "3"], capture_output=True, text=True, timeout=2300
    )
    assert done.returncode == 0, f"{done.stdout[-6000:]}{done.stderr[-6000:]}"
    assert "3 commands were killed" in done.stdout
