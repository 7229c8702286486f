"""A tree that scripts/bmc captured, served again by the simulator: the same hardware as from the folder."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bmc_product_lab import PASSWORD, PROJECT, USER, BmcLab, free_port

from firstlight.bmc.capture import capture
from firstlight.bmc.discover import Target, discover
from firstlight.bmc.fetch import TreeReader, read_tree
from firstlight.bmc.normalise import normalise
from firstlight.bmc.treefiles import load_tree


def test_captured_served_and_read_again(tmp_path: Path) -> None:
    lab = BmcLab(tmp_path, count=1)
    try:
        lab.fault("n1", "half_answering")
        (target,) = lab.targets(1)
        raw, written = capture(target, tmp_path / "tree", ca_file=lab.ca_file)
    finally:
        lab.stop()
    assert raw.failures, "a half-answering BMC's errors are part of the report"
    assert written > 100
    captured = load_tree(tmp_path / "tree")
    read = read_tree(TreeReader(copy.deepcopy(captured.resources)))
    from_folder = normalise(read.resources, captured.captured_at, read.failures)
    assert from_folder.unread

    port = free_port("127.0.0.1")
    served = subprocess.Popen(
        [
            *(sys.executable, "-m", "simulators.bmc", "--tree", str(tmp_path / "tree")),
            *("--port", str(port), "--username", USER, "--ca", str(tmp_path / "tree-ca.pem")),
        ],
        cwd=PROJECT,
        env=os.environ | {"FIRSTLIGHT_BMC_PASSWORD": PASSWORD},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert served.stdout is not None
        assert "ready" in served.stdout.readline()
        again = Target("n1", "127.0.0.1", port, USER, PASSWORD)
        record = discover([again], ca_file=str(tmp_path / "tree-ca.pem"))["n1"]
    finally:
        served.terminate()
        served.wait(20)
    if record.hardware is None:
        pytest.fail(f"{record.condition}: {record.evidence}")
    ours, theirs = from_folder.to_dict(), record.hardware.to_dict()
    for moving in ("bmc_clock_skew_seconds",):  # the clock in the folder stands still
        ours.pop(moving)
        theirs.pop(moving)
    assert theirs == ours
