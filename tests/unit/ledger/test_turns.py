"""Turns: only so many at once, of whatever process of whatever run; a killed one has none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from firstlight.errors import FirstlightError
from firstlight.ledger.claim import claims_of
from firstlight.ledger.store import ledger_url
from firstlight.ledger.turns import turn

TURN = """
import sys
from firstlight.ledger.turns import turn
with turn(sys.argv[1], "reboot", int(sys.argv[2]), lambda: print("waits", flush=True)):
    print("has it", flush=True)
    sys.stdin.readline()
print("done", flush=True)
sys.stdin.read()
"""


class Process:
    """One that wants a turn; it ends its turn at ``end``, and lives on."""

    def __init__(self, url: str, most: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", TURN, url, str(most)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.says()


@pytest.fixture
def wants(tmp_path: Path) -> Iterator[Any]:
    url = ledger_url("ledger.sqlite", tmp_path)
    with ExitStack() as stack:

        def start(most: int) -> Process:
            one = Process(url, most)
            stack.enter_context(one.process)
            stack.callback(one.process.kill)
            return one

        yield start


def test_no_more_than_so_many_have_a_turn_and_the_next_one_has_it_when_one_is_done_or_killed(wants: Any) -> None:
    first, second = wants(2), wants(2)
    assert first.says() == second.says() == "has it"
    third = wants(2)
    assert third.says() == "waits"
    assert first.end() == "done"  # its process lives on
    assert third.says() == "has it"
    fourth = wants(2)
    assert fourth.says() == "waits"
    second.process.kill()
    assert fourth.says() == "has it"


def test_runs_that_allow_less_count_with_the_others(wants: Any) -> None:
    assert wants(1).says() == "has it"
    assert wants(1).says() == "waits"
    assert wants(2).says() == "has it"


def test_a_turn_is_no_claim_on_a_host_and_is_given_back_after_an_error(tmp_path: Path) -> None:
    url = ledger_url("ledger.sqlite", tmp_path)
    with pytest.raises(ZeroDivisionError), turn(url, "reboot", 1, lambda: None):
        raise ZeroDivisionError
    hosts, claims = ("reboot", "reboot1", "1"), claims_of(url)
    assert claims is not None
    with turn(url, "reboot", 1, lambda: None):
        command = f"from firstlight.ledger.claim import claims_of; claims_of({url!r}).take({hosts!r})"
        subprocess.run([sys.executable, "-c", command], check=True)


def test_a_ledger_in_memory_has_no_turns_and_one_that_cannot_be_used_is_one_line(tmp_path: Path) -> None:
    with turn("sqlite://", "reboot", 1, lambda: None):
        pass
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(FirstlightError, match="cannot be opened: "),
        turn(f"sqlite:///{tmp_path}/file/ledger.sqlite", "reboot", 1, lambda: None),
    ):
        raise AssertionError
