"""Ledgers of every release open with nothing lost; one process upgrades, and a kill leaves what was there."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys

import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from firstlight.errors import FirstlightError
from firstlight.ledger import schema
from firstlight.ledger.models import Base
from firstlight.ledger.store import Ledger, ledger_url

# as the first release made it, which noted no revision
OF_HOST = "id INTEGER NOT NULL PRIMARY KEY, host_id INTEGER NOT NULL REFERENCES host (id)"
OF_RUN = f"{OF_HOST}, run_id INTEGER REFERENCES run (id)"
FIRST = f"""
CREATE TABLE host (id INTEGER NOT NULL PRIMARY KEY, service_tag VARCHAR(64), name VARCHAR(64),
    site VARCHAR(64) NOT NULL, rack VARCHAR(64) NOT NULL, unit INTEGER, profile VARCHAR(64) NOT NULL,
    state VARCHAR(16) NOT NULL, UNIQUE (service_tag), UNIQUE (name));
CREATE TABLE run (id INTEGER NOT NULL PRIMARY KEY, playbook VARCHAR(200) NOT NULL, operator VARCHAR(64) NOT NULL,
    started VARCHAR(32) NOT NULL, ended VARCHAR(32), outcome VARCHAR(16), message TEXT NOT NULL);
CREATE TABLE deed ({OF_RUN}, at VARCHAR(32) NOT NULL, what TEXT NOT NULL);
CREATE TABLE finding ({OF_RUN}, stage VARCHAR(16) NOT NULL, "check" VARCHAR(64) NOT NULL, status VARCHAR(8) NOT NULL,
    symptom VARCHAR(64) NOT NULL, locator VARCHAR(120) NOT NULL, evidence TEXT NOT NULL, action VARCHAR(16) NOT NULL,
    first_seen VARCHAR(32) NOT NULL, last_seen VARCHAR(32) NOT NULL, cleared VARCHAR(32));
CREATE INDEX finding_host ON finding (host_id, stage);
CREATE TABLE stage_run ({OF_RUN}, stage VARCHAR(16) NOT NULL, started VARCHAR(32) NOT NULL, ended VARCHAR(32),
    seconds FLOAT, result VARCHAR(16));
CREATE INDEX stage_run_host ON stage_run (host_id, stage);
CREATE TABLE state_change ({OF_RUN}, at VARCHAR(32) NOT NULL, "before" VARCHAR(16) NOT NULL,
    "after" VARCHAR(16) NOT NULL, who VARCHAR(64) NOT NULL, why TEXT NOT NULL);
"""
READING = f"""
CREATE TABLE reading ({OF_HOST}, kind VARCHAR(32) NOT NULL, at VARCHAR(32) NOT NULL, value TEXT NOT NULL,
    UNIQUE (host_id, kind));
"""
AT = "2026-11-01T10:00:00.000+00:00"
ROWS = f"""
INSERT INTO host VALUES (1, 'AAA', 'n1', 'test', 'r1', 4, 'p', 'ready'),
    (2, NULL, 'n2', 'test', 'r1', 5, 'p', 'planned');
INSERT INTO run VALUES (1, 'site.yml', 'anna', '{AT}', '{AT}', 'done', '');
INSERT INTO deed VALUES (1, 1, 1, '{AT}', 'installed');
INSERT INTO finding VALUES (1, 1, 1, 'smoke', 'x', 'warn', 'x.y', 'GPU 0', 'said', 'none', '{AT}', '{AT}', NULL);
INSERT INTO stage_run VALUES (1, 1, 1, 'smoke', '{AT}', '{AT}', 2.5, 'passed');
INSERT INTO state_change VALUES (1, 1, 1, '{AT}', 'configured', 'ready', 'anna', 'passed smoke');
"""
READ = f"""INSERT INTO reading VALUES (1, 1, 'values', '{AT}', '{{"x": 1}}');"""
NOTED = """
CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY);
INSERT INTO alembic_version VALUES ('0002');
"""
THIRD = f"""
ALTER TABLE host ADD COLUMN held TEXT;
CREATE TABLE ticket ({OF_HOST}, name VARCHAR(128) NOT NULL UNIQUE, opened VARCHAR(32) NOT NULL,
    updated VARCHAR(32) NOT NULL, closed VARCHAR(32), value TEXT NOT NULL);
CREATE TABLE delivery (id INTEGER NOT NULL PRIMARY KEY, ticket_id INTEGER NOT NULL REFERENCES ticket (id),
    output VARCHAR(64) NOT NULL, version INTEGER NOT NULL, at VARCHAR(32) NOT NULL, reference VARCHAR(200) NOT NULL,
    UNIQUE (ticket_id, output));
CREATE TABLE part ({OF_RUN}, at VARCHAR(32) NOT NULL, kind VARCHAR(32) NOT NULL, locator VARCHAR(120) NOT NULL,
    removed VARCHAR(120) NOT NULL, installed VARCHAR(120) NOT NULL);
UPDATE alembic_version SET version_num = '0003';
"""
OLD = {
    "0001": FIRST + ROWS,
    "0002, not noted": FIRST + READING + ROWS + READ,
    "0002": FIRST + READING + ROWS + READ + NOTED,
    "0003": FIRST + READING + ROWS + READ + NOTED + THIRD,
}
NEW = {"reading": [], "ticket": [], "delivery": [], "part": []}


def made(file, statements):
    with sqlite3.connect(file) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.executescript(statements)
    db.close()


def rows(file):
    with sqlite3.connect(file) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        told = {name: db.execute(f'SELECT * FROM "{name}" ORDER BY 1').fetchall() for name in tables}
    db.close()
    return told


def upgraded(before):
    """The rows that a ledger has once it was brought up to this release."""
    hosts = [(*row, *[None] * (10 - len(row))) for row in before["host"]]
    runs = [(*row, None) for row in before["run"]]
    return {**NEW, **before, "host": hosts, "run": runs, "alembic_version": [(schema.HEAD,)]}


def copies(folder):
    return sorted(p for p in folder.iterdir() if ".before-" in p.name)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def url(file):
    return ledger_url(str(file))


# ---------------------------------------------------------------- upgrading


@pytest.mark.parametrize("old", OLD)
def test_a_ledger_of_each_release_opens_with_nothing_lost(file, url, old):
    made(file, OLD[old])
    before = rows(file)
    ledger = Ledger(url)
    assert rows(file) == upgraded(before)
    assert ledger.states() == {"n1": "ready", "n2": "planned"}
    assert Ledger(url).notice == ""


def test_a_copy_of_the_file_as_it_was_is_kept_and_named(file, url, tmp_path):
    made(file, OLD["0001"])
    file.chmod(0o640)
    before = rows(file)
    notice = Ledger(url).notice
    (copy,) = copies(tmp_path)
    assert notice == f"ledger {url} was brought from revision 0001 to 0004; as it was it is kept in {copy}"
    assert rows(copy) == before
    assert copy.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    "there", [FIRST.split(";")[0], FIRST.rpartition("CREATE INDEX")[0], FIRST.split("CREATE TABLE deed")[0] + READING]
)
def test_a_ledger_whose_maker_was_killed_is_finished(file, url, there):
    made(file, there)
    Ledger(url).start_run("site.yml")
    assert difference(url) == []


def test_a_ledger_that_says_nothing_of_its_revision_is_recognised(file, url):
    made(file, OLD["0001"] + "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY);")
    Ledger(url)
    assert rows(file)["alembic_version"] == [("0004",)]


def test_no_copy_no_upgrade(file, url, tmp_path, monkeypatch):
    made(file, OLD["0001"])
    before = rows(file)
    monkeypatch.setattr(
        schema.shutil, "copymode", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    )
    with pytest.raises(FirstlightError, match="was not upgraded, no copy of it can be kept: No space left on device"):
        Ledger(url)
    assert rows(file) == before
    assert [p for p in tmp_path.iterdir() if "before" in p.name] == []


# ---------------------------------------------------------------- refusing


@pytest.mark.parametrize("create", [True, False])
def test_a_ledger_of_a_newer_release_is_refused(file, url, create):
    Ledger(url)
    with sqlite3.connect(file) as db:
        db.execute("UPDATE alembic_version SET version_num = '0999'")
    db.close()
    before = rows(file)
    with pytest.raises(FirstlightError, match="made by a newer release of Firstlight \\(revision '0999'") as caught:
        Ledger(url, create=create)
    assert "\n" not in str(caught.value)
    assert rows(file) == before


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize("old", [OLD["0001"], OLD["0002, not noted"]], ids=["0001", "0002, not noted"])
def test_tables_of_no_release_are_refused_and_nothing_is_done(file, url, tmp_path, old, create):
    made(file, old + "ALTER TABLE run DROP COLUMN message;")
    before = rows(file)
    with pytest.raises(FirstlightError, match=r"run has no column message|next run that is not a check upgrades it"):
        Ledger(url, create=create).story(["n1"])
    assert rows(file) == before
    assert copies(tmp_path) == []


def test_a_reader_upgrades_nothing_and_reads_nothing_but_the_states(file, url, tmp_path):
    made(file, OLD["0001"])
    before = rows(file)
    ledger = Ledger(url, create=False)
    assert ledger.states() == {"n1": "ready", "n2": "planned"}  # the inventory of the run that upgrades it
    with pytest.raises(FirstlightError, match="older release of Firstlight; the next run that is not a check upgrades"):
        ledger.story(["n1"])
    copy = Ledger(ledger_url("copy.sqlite", tmp_path))
    with pytest.raises(FirstlightError, match="older release"):
        ledger.copy_to(copy)
    assert rows(file) == before


@pytest.mark.parametrize("old", ["0002, not noted", "0002", "0003"])
def test_a_ledger_of_the_last_release_is_upgraded_by_runs_alone(file, url, old):
    made(file, OLD[old])
    with pytest.raises(FirstlightError, match="older release of Firstlight"):
        Ledger(url, create=False).story(["n1"])
    assert f"from revision {old[:4]} to 0004" in Ledger(url).notice
    (story,) = Ledger(url, create=False).story(["n1"])
    assert (story["state"], story["findings"][0]["symptom"]) == ("ready", "x.y")


# ---------------------------------------------------------------- several at once, and a kill

OPEN = "import sys; from firstlight.ledger.store import Ledger; sys.stdin.read(); print(Ledger(sys.argv[1]).notice)"


@pytest.mark.parametrize("old", [*OLD.values(), ""], ids=[*OLD, "none"])
def test_processes_that_open_it_at_once_upgrade_it_once(file, url, tmp_path, old):
    if old:
        made(file, old)
    words = [sys.executable, "-c", OPEN, url]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    opening = [subprocess.Popen(words, **pipes) for _ in range(4)]
    for process in opening:
        process.stdin.close()
        process.stdin = None
    told = [process.communicate(timeout=300) for process in opening]
    assert [error for _, error in told] == [""] * 4
    assert sum("was brought from revision" in said for said, _ in told) == len(copies(tmp_path)) == bool(old)
    assert rows(file)["alembic_version"] == [("0004",)]
    assert len(rows(file)["host"]) == (2 if old else 0)


KILLED = """
import sys, time
from sqlalchemy import Engine, event

@event.listens_for(Engine, "after_cursor_execute")
def reached(connection, cursor, statement, *_):
    if sys.argv[2] in statement:
        print("reached", flush=True)
        time.sleep(60)

from firstlight.ledger.store import Ledger
Ledger(sys.argv[1])
"""


@pytest.mark.parametrize(
    "at",
    [
        "INSERT INTO alembic_version",
        "CREATE TABLE IF NOT EXISTS reading",
        "CREATE TABLE ticket",
        "UPDATE alembic_version",
    ],
)
def test_a_kill_amid_the_upgrade_leaves_the_ledger_as_it_was(file, url, at):
    made(file, OLD["0001"])
    before = rows(file)
    process = subprocess.Popen([sys.executable, "-c", KILLED, url, at], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "reached\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert rows(file) == before
    assert "brought from revision 0001" in Ledger(url).notice
    assert rows(file) == upgraded(before)


# ---------------------------------------------------------------- models and revisions


def difference(url):
    engine = sqlalchemy.create_engine(url)
    with engine.connect() as connection:
        told = compare_metadata(MigrationContext.configure(connection), Base.metadata)
    engine.dispose()
    return told


def test_the_revisions_come_to_what_the_models_say(url):
    from firstlight.ledger.migrations import scripts, upgrade

    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        upgrade(connection)
    engine.dispose()
    assert difference(url) == []
    assert tuple(s.revision for s in reversed(list(scripts().walk_revisions()))) == schema.REVISIONS


OPEN_TWICE = """
import sys
from firstlight.ledger.store import Ledger
Ledger(sys.argv[1])
Ledger(sys.argv[1])
assert "alembic" not in sys.modules
"""


def test_a_new_ledger_is_what_the_models_say_and_loads_no_alembic(url):
    subprocess.run([sys.executable, "-c", OPEN_TWICE, url], check=True, timeout=60)
    assert difference(url) == []
