"""Console logs: the end of what came since a mark, from files only."""

import os

from firstlight.maas.consoles import TAIL_BYTES, Consoles
from firstlight.maas.reasons import clean


def test_what_came_since(tmp_path):
    log = tmp_path / "n1.log"
    consoles = Consoles(str(tmp_path / "{name}.log"))
    assert consoles.mark("n1") == 0
    log.write_text("old boot\n")
    mark = consoles.mark("n1")
    with log.open("ab") as stream:
        stream.write(b"new \xff boot\n")
    assert consoles.read("n1", mark) == ("new � boot\n", "")
    log.write_text("fresh")  # rotated: shorter than the mark
    assert consoles.read("n1", mark + 100) == ("fresh", "")


def test_only_the_end_is_read(tmp_path):
    (tmp_path / "n1.log").write_bytes(b"x" * (5 * TAIL_BYTES) + b"the end")
    text, problem = Consoles(str(tmp_path / "{name}.log")).read("n1", 0)
    assert len(text) == TAIL_BYTES and text.endswith("the end") and not problem


def test_what_is_no_file_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.log")
    (tmp_path / "folder.log").mkdir()
    consoles = Consoles(str(tmp_path / "{name}.log"))
    for name, why in (("pipe", "not a file"), ("folder", "not a file"), ("gone", "No such file or directory")):
        assert consoles.read(name, 0) == ("", f"console log {tmp_path}/{name}.log: {why}")
    assert Consoles("").read("n1", 0) == ("", "") and Consoles("").mark("n1") == 0


def test_terminal_control_is_taken_out():
    assert clean("\x1b[2J\x1b[1;1HPXE-E51\x1b[0m: No\x1b]0;title\x07 offers\r\n") == "PXE-E51: No offers\n\n"
