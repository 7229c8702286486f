"""The bytes that the apt cache fetched and served, counted from apt-cacher-ng's log."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

PROGRAM = Path(__file__).parents[2] / "roles/apt_cache/files/apt_cache_metrics.py"
specification = importlib.util.spec_from_file_location("apt_cache_metrics", PROGRAM)
program = importlib.util.module_from_spec(specification)
specification.loader.exec_module(program)

# as apt-cacher-ng 3.7.4 writes it with VerboseLog: 1
LOG = """\
1795994706|I|151287|127.0.0.1|debrep/dists/bookworm/InRelease
1795994706|O|151293|127.0.0.1|debrep/dists/bookworm/InRelease
1795994708|I|53344|10.0.0.2|debrep/pool/main/h/hello/hello_2.10-3_amd64.deb
1795994708|O|53313|10.0.0.2|debrep/pool/main/h/hello/hello_2.10-3_amd64.deb
1795994709|O|53313|10.0.0.3|debrep/pool/main/h/hello/hello_2.10-3_amd64.deb
1795994710|E|512|10.0.0.3|debrep/pool/main/x/gone.deb
"""
COUNTS = {"fetched": 204631, "served": 257919, "failed": 1}
ZERO = {"fetched": 0, "served": 0, "failed": 0}


def test_a_log_is_counted():
    assert program.count(LOG.splitlines()) == COUNTS


@pytest.mark.parametrize(
    "line",
    [
        "",
        "I|5",
        "1795994706|X|5|a|b",
        "1795994706|I|-5|a|b",
        "1795994706|I|5x|a|b",
        "x|I|5|a|b",
        "1|I|" + "9" * 20 + "|",
    ],
)
def test_other_lines_count_for_nothing(line):
    assert program.count([line]) == ZERO


@given(st.lists(st.text(max_size=60), max_size=20))
def test_any_text_is_counted(lines):
    assert all(value >= 0 for value in program.count(lines).values())


def test_metrics():
    text = program.metrics(COUNTS)
    assert "\nfirstlight_apt_cache_fetched_bytes_total 204631\n" in text
    assert text.count("# TYPE") == 3


def step(state, log):
    return program.update(state, log)


def test_nothing_is_counted_twice_or_lost(tmp_path):
    log = tmp_path / "log"
    state = program.read_state("")
    log.write_text(LOG[:100])
    state = step(state, log)
    assert state["fetched"] == 151287
    assert step(state, log) == state
    with log.open("a") as file:
        file.write(LOG[100:])
    state = step(state, log)
    assert {key: state[key] for key in COUNTS} == COUNTS
    # rotated, with lines that were written just before, and a new one
    with log.open("a") as file:
        file.write("1795994711|I|1000|a|b\n")
    log.rename(tmp_path / "log.1")
    log.write_text("1795994712|I|20|a|b\n")
    state = step(state, log)
    assert state["fetched"] == COUNTS["fetched"] + 1020
    assert step(state, log) == state
    # emptied in place
    log.write_text("1|I|3|a|b\n")
    assert step(state, log)["fetched"] == COUNTS["fetched"] + 1023


def test_a_line_that_is_being_written_waits(tmp_path):
    log = tmp_path / "log"
    log.write_text("1|I|3|a|b\n1|I|44")
    state = step(program.read_state(""), log)
    assert (state["fetched"], state["offset"]) == (3, 10)
    with log.open("a") as file:
        file.write("4|a|b\n")
    assert step(state, log)["fetched"] == 447


def test_no_log_yet(tmp_path):
    assert step(program.read_state(""), tmp_path / "log") == program.read_state("")


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"inode": 1}', '{"inode": -1, "offset": 0, "fetched": 0, "served": 0, "failed": 0}'],
)
def test_a_broken_state_begins_anew(text):
    assert program.read_state(text) == {"inode": 0, "offset": 0, **ZERO}


def test_the_program(tmp_path):
    (tmp_path / "log").write_text(LOG)
    command = [sys.executable, str(PROGRAM), "--log", str(tmp_path / "log"), "--state", str(tmp_path / "state")]
    done = subprocess.run(
        [*command, "--metrics", str(tmp_path / "a.prom")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "a.prom").read_text() == program.metrics(COUNTS)
    done = subprocess.run(
        [*command, "--metrics", str(tmp_path / "x/a.prom")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("apt_cache_metrics: [Errno 2] No such file")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.prom", "log", "state"]
