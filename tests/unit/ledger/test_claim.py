"""Claims: one run at a time works on a host, and a killed run holds nothing."""

from __future__ import annotations

import os
import pwd
import re
import signal
import socket
import subprocess
import sys

import pytest

from firstlight.errors import FirstlightError
from firstlight.ledger.claim import Claims, ServerClaims, claims_of

ME = re.escape(f"{pwd.getpwuid(os.getuid()).pw_name} on {socket.gethostname()}")
HOLD = """
import os, sys, time
from pathlib import Path
from firstlight.ledger.claim import Claims, ServerClaims, claims_of
claims = Claims(Path(sys.argv[1]))
claims.take(sys.argv[2:])
if os.fork() == 0:  # a worker, as Ansible has them
    time.sleep(2)
    os._exit(0)
print("taken", flush=True)
time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    words = [sys.executable, "-c", HOLD, str(tmp_path / "ledger.sqlite"), "n1", "n2"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "taken\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_another_run_is_named_with_its_process_and_its_hosts(holder, tmp_path):
    with pytest.raises(FirstlightError, match=rf"another run \(process {holder.pid} of {ME}\) works on n1, n2; w"):
        Claims(tmp_path / "ledger.sqlite").take(["n1", "n2", "n3"])


def test_other_hosts_are_free_and_nothing_is_kept_of_a_refused_claim(holder, tmp_path):
    with pytest.raises(FirstlightError, match="works on n2;"):
        Claims(tmp_path / "ledger.sqlite").take(["n2", "n3"])
    took = subprocess.run(
        [sys.executable, "-c", HOLD.partition("if os.fork")[0], str(tmp_path / "ledger.sqlite"), "n3", "n4"],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert (took.returncode, took.stderr) == (0, "")


def test_a_killed_run_holds_nothing_though_its_workers_live_on(holder, tmp_path):
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    Claims(tmp_path / "ledger.sqlite").take(["n1", "n2"])


def test_a_folder_that_cannot_be_used_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FirstlightError, match="cannot be opened: "):
        Claims(tmp_path / "file" / "ledger.sqlite").take(["n1"])


def test_each_ledger_has_its_way_of_claiming(tmp_path):
    assert isinstance(claims_of(f"sqlite:///{tmp_path}/ledger.sqlite"), Claims)
    assert isinstance(claims_of("postgresql+psycopg://firstlight@db.example/ledger"), ServerClaims)


@pytest.mark.parametrize("url", ["sqlite://", "nonsense://x", "://"])
def test_what_can_hold_no_claims_is_left_to_whoever_opens_the_ledger(url):
    assert claims_of(url) is None


def test_a_driver_that_is_not_there_is_one_line():
    with pytest.raises(FirstlightError, match="hosts cannot be claimed: ") as caught:
        claims_of("postgresql+nodriver://user:hunter2@localhost/ledger").take(["n1"])
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)
