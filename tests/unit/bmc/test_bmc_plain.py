"""What scripts/bmc prints of a BMC that sends escapes and line ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bmc_trees import xe9680

from firstlight.bmc import cli as bmc
from firstlight.bmc.treefiles import write_tree

FORGED = "x\x1b[31m\nr1-n01: yes\n"


def test_a_bmcs_texts_are_printed_plain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every text of a BMC has an escape and a line of its own in it, also where it is a name or an id."""

    def spoilt(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: spoilt(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [spoilt(inner) for inner in value]
        return f"{value}{FORGED}" if isinstance(value, str) and not value.startswith("/redfish") else value

    write_tree(tmp_path / "tree", {path: spoilt(body) for path, body in xe9680().items()}, {})
    assert bmc.main(["normalise", str(tmp_path / "tree"), "--profile", "xe9680"]) == bmc.ILL
    said = capsys.readouterr()
    assert "x?[31m r1-n01: yes" in said.out
    assert "\x1b" not in said.out + said.err
    assert not any(line.startswith("r1-n01") for line in (said.out + said.err).splitlines())
