"""The ledger on a real PostgreSQL: the unit tests once more, upgrades, and claims of several control nodes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy.pool import NullPool

from firstlight.errors import FirstlightError
from firstlight.ledger import schema
from firstlight.ledger.claim import ServerClaims, claims_of
from firstlight.ledger.models import Base
from firstlight.ledger.store import Ledger
from firstlight.ledger.tickets import delivering
from firstlight.sitefiles import PlannedHost
from tests.integration.ledger_on_postgresql import SERVER
from tests.integration.postgresql import running

ROOT = Path(__file__).parents[2]
OF_THE_LEDGER = (
    "store", "readings", "history", "dump", "parts", "ledger_tickets", "repairs", "standing", "identity", "turns"
)  # fmt: skip
FILES = (  # of tests that make hundreds of transactions some
    *(f"ledger/test_{name}.py" for name in OF_THE_LEDGER),
    "test_quarantine.py::test_two_shards_that_settle_at_the_same_moment_see_one_another",
    "test_quarantine.py::test_what_a_killed_shard_left_is_not_made_good_where_the_brake_stopped_another",
    "fleet/test_noting.py",
    "policy/test_dryrun.py::test_lemon_golden_and_the_next_action",
    "tickets/test_run.py::test_what_came_again_within_days_is_a_ticket_with_the_next_action",
    "tickets/test_run.py::test_runs_that_end_at_once_open_none_twice",
)
SINCE = {"reading", "ticket", "delivery", "part"}  # tables that came after the first release
HOST = PlannedHost("n1", "r1", 1, "10.0.0.1", "p", service_tag="AAA")


@pytest.fixture(scope="module")
def server():
    with running() as server:
        yield server


@pytest.fixture
def url(server, request):
    return server.url("t_" + re.sub(r"\W", "_", request.node.name)[-50:].lower())


def begun(words, *arguments):
    process = subprocess.Popen([sys.executable, "-c", words, *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "taken\n"
    return process


def ended(process):
    process.kill()
    process.wait()
    process.stdout.close()


# ---------------------------------------------------------------- the unit tests once more


def test_the_unit_tests_of_the_ledger(server):
    files = [f"tests/unit/{name}" for name in FILES]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.integration.ledger_on_postgresql", *files],
        cwd=ROOT, env={**os.environ, SERVER: server.url("beside")}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr
    assert int(re.search(r"(\d+) passed", run.stdout)[1]) > 110


# ---------------------------------------------------------------- upgrades


def old(url, *, noted):
    """A ledger as the first release made it, with a host; its tables are those of today but for what came since."""
    engine = sqlalchemy.create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        Base.metadata.create_all(connection, [t for t in Base.metadata.sorted_tables if t.name not in SINCE])
        for column in ("host DROP COLUMN held", "host DROP COLUMN planned_tag", "run DROP COLUMN fleet_run"):
            connection.exec_driver_sql(f"ALTER TABLE {column}")
        connection.exec_driver_sql(
            "INSERT INTO host (service_tag, name, site, rack, unit, profile, state)"
            " VALUES ('AAA', 'n1', 's', 'r1', 1, 'p', 'ready')"
        )
        if noted:
            schema._note(connection, "0001")


def difference(url):
    engine = sqlalchemy.create_engine(url, poolclass=NullPool)
    with engine.connect() as connection:
        return compare_metadata(MigrationContext.configure(connection), Base.metadata)


@pytest.mark.parametrize("noted", [False, True])
def test_an_old_ledger_is_upgraded_by_one_of_several_runs(url, noted):
    old(url, noted=noted)
    words = "import sys; from firstlight.ledger.store import Ledger; print(Ledger(sys.argv[1]).notice)"
    opening = [
        subprocess.Popen([sys.executable, "-c", words, url], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    told = [process.communicate(timeout=120)[0] for process in opening]
    assert [process.returncode for process in opening] == [0, 0, 0]
    assert sorted(said.rpartition("was brought ")[2] for said in told) == ["\n", "\n", "from revision 0001 to 0004\n"]
    assert difference(url) == []
    assert Ledger(url, create=False).states() == {"n1": "ready"}


def test_the_revisions_come_to_what_the_models_say(url):
    from firstlight.ledger.migrations import upgrade

    with sqlalchemy.create_engine(url, poolclass=NullPool).begin() as connection:
        upgrade(connection)
    assert difference(url) == []


def test_a_new_ledger_is_what_the_models_say(url):
    Ledger(url)
    assert difference(url) == []


def test_an_upgrade_that_breaks_leaves_what_was_there(url, monkeypatch):
    old(url, noted=False)

    def broken(connection, name):
        connection.exec_driver_sql("CREATE TABLE half (id INTEGER)")
        raise FirstlightError("broken")

    monkeypatch.setattr(schema, "_upgrade", broken)
    with pytest.raises(FirstlightError, match="broken"):
        Ledger(url)
    monkeypatch.undo()
    tables = set(sqlalchemy.inspect(sqlalchemy.create_engine(url, poolclass=NullPool)).get_table_names())
    assert tables.isdisjoint({"half", "alembic_version", *SINCE})
    assert Ledger(url).states() == {"n1": "ready"}


# ---------------------------------------------------------------- claims

HOLD = """
import os, sys, time
from firstlight.ledger.claim import claims_of
claims = claims_of(sys.argv[1])
claims.take(sys.argv[2:])
worker = os.fork()  # as Ansible has them
if worker == 0:
    time.sleep(30)
    claims = None
    sys.exit()
print("taken", flush=True)
sys.stdin.read()
time.sleep(60)
"""


@pytest.fixture
def holder(url):
    process = begun(HOLD, url, "n1", "n2")
    yield process
    ended(process)


def test_another_run_is_named_with_its_process_and_its_hosts(holder, url):
    with pytest.raises(
        FirstlightError, match=rf"another run \(process {holder.pid} of \S+ on \S+\) works on n1, n2; w"
    ):
        claims_of(url).take(["n1", "n2", "n3"])


def test_other_hosts_are_free_and_nothing_is_kept_of_a_refused_claim(holder, url):
    with pytest.raises(FirstlightError, match="works on n2;"):
        claims_of(url).take(["n2", "n3"])
    ended(begun(HOLD, url, "n3", "n4"))


def test_claims_of_another_ledger_are_others(holder, server):
    ended(begun(HOLD, server.url("another"), "n1", "n2"))


def test_a_killed_run_holds_nothing_though_its_workers_live_on(holder, url, server):
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    took = _in_time(url)
    assert took._connection is not None


def _in_time(url):
    """Claim as soon as the server has taken note of an end, within some seconds."""
    for attempt in range(100):
        claims = claims_of(url)
        try:
            claims.take(["n1", "n2"])
            return claims
        except FirstlightError:
            if attempt == 99:
                raise
            signal.sigtimedwait([], 0.1)
    raise AssertionError


WORKERS = """
import gc, os, sys
from firstlight.ledger.claim import claims_of
claims = claims_of(sys.argv[1])
claims.take(sys.argv[2:])
for _ in range(3):
    worker = os.fork()
    if worker == 0:
        claims = None
        gc.collect()
        sys.exit()  # with all that Python does at its end
    os.waitpid(worker, 0)
print("taken", flush=True)
sys.stdin.read()
"""


def test_workers_that_end_leave_the_claims_alone(url):
    process = begun(WORKERS, url, "n1")
    try:
        with pytest.raises(FirstlightError, match=f"process {process.pid} "):
            claims_of(url).take(["n1"])
    finally:
        ended(process)


def test_five_hundred_hosts_are_claimed(url):
    ServerClaims(url).take([f"n{number}" for number in range(500)])


# ---------------------------------------------------------------- telling of tickets

TELLS = """
import sys
from firstlight.ledger.store import Ledger
from firstlight.ledger.tickets import delivering
with delivering(Ledger(sys.argv[1])):
    print("taken", flush=True)
    sys.stdin.read()
"""


def test_one_process_of_all_control_nodes_tells_of_tickets_at_a_time(url):
    ledger = Ledger(url)
    process = subprocess.Popen(
        [sys.executable, "-c", TELLS, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "taken\n"
    with pytest.raises(FirstlightError, match="another process is telling of tickets"), delivering(ledger, 0.5):
        pass
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()
    with delivering(ledger, 20):
        pass
    with delivering(ledger, 0.5):  # it was given back
        pass


# ---------------------------------------------------------------- errors


def test_a_server_that_is_not_there_is_one_line(tmp_path):
    url = f"postgresql+psycopg://anna:hunter2@/ledger?host={tmp_path}"
    for use in (lambda: Ledger(url), lambda: Ledger(url, create=False), lambda: claims_of(url).take(["n1"])):
        with pytest.raises(FirstlightError, match="cannot be") as caught:
            use()
        assert "\n" not in str(caught.value)
        assert "hunter2" not in str(caught.value)


def test_a_server_that_ends_is_one_line(url, server):
    ledger = Ledger(url)
    ledger.plan("s", [HOST])
    with ledger.snapshot() as connection:
        pid = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar()
        server.execute(f"SELECT pg_terminate_backend({pid})")
        with pytest.raises(sqlalchemy.exc.DBAPIError):
            connection.exec_driver_sql("SELECT 1")
    assert ledger.states() == {"n1": "planned"}  # the next transaction has a connection of its own
