"""The ledger: the history of every host. A file of SQLite by default, PostgreSQL by URL."""

from __future__ import annotations

import getpass
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy import event, select
from sqlalchemy.exc import DBAPIError, ProgrammingError
from sqlalchemy.orm import Session

from ..errors import FirstlightError
from ..findings import Finding, blocking, shorten
from ..sitefiles import PlannedHost
from . import holding, identity, readings, standing
from .database import begin_snapshot, count_on, engine, engine_to_read, lock_for_writing, reason, shown, sqlite_settings
from .models import Base, Deed, Host, Run, StageRun
from .schema import bring_up, too_old
from .standing import IN_REPAIR, QUARANTINED, READY, STAGES, STATE_AFTER, latest
from .standing import STATES as STATES

TEXT_MAX = 4000  # characters of a text that was made here; a deed names many serial numbers
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def operator() -> str:
    """Who runs this: the login name, or "unknown" in a container without one."""
    try:
        return shorten(getpass.getuser(), 64) or "unknown"
    except (KeyError, OSError):
        return "unknown"


def ledger_file(url: str) -> Path | None:
    """The file of an SQLite ledger, None for another database."""
    prefix = "sqlite:///"
    return Path(url.removeprefix(prefix)) if url.startswith(prefix) else None


def ledger_url(text: str, base: Path | None = None) -> str:
    """A SQLAlchemy URL from a URL or the path of an SQLite file (relative to ``base``)."""
    if "://" in text:
        return text
    path = Path(text) if base is None else base / text
    return f"sqlite:///{path.resolve()}"


class Ledger:
    """Every method is one transaction, safe among several processes and against a kill.

    create: make what is not there, and bring a ledger of an older release up to this one; ``notice`` then is a line
    about it. Without it nothing is written by opening (for readers, and in check mode), and of a ledger of an older
    release nothing is read but the states. FirstlightError, in one line, when the database cannot be used.
    """

    def __init__(self, url: str, run_id: int | None = None, *, create: bool = True) -> None:
        self.run_id = run_id
        self.notice = ""
        self._too_old = ""
        self._url, self._name = url, shown(url)
        self._engine = engine(url)
        self._sqlite = self._engine.dialect.name == "sqlite"
        try:
            if create:
                if self._sqlite and self._engine.url.database:
                    Path(self._engine.url.database).parent.mkdir(parents=True, exist_ok=True)
                if self._sqlite:
                    event.listen(self._engine, "connect", sqlite_settings)
                self.notice = bring_up(self._engine, self._name)
            else:
                self._too_old = self._open_to_read()
        except (DBAPIError, OSError) as error:
            raise FirstlightError(f"ledger {self._name} cannot be opened: {reason(error, url)}") from None

    def _open_to_read(self) -> str:
        try:
            return too_old(self._engine, self._name)
        except DBAPIError as error:
            file = ledger_file(self._url)
            other = engine_to_read(file, error) if file else None
            if other is None:
                raise
            self._engine = other
            return too_old(self._engine, self._name)

    @contextmanager
    def _transaction(self) -> Iterator[Session]:
        with self._reading() as session:
            lock_for_writing(session.connection())
            yield session

    @contextmanager
    def _reading(self, *, old_too: bool = False) -> Iterator[Session]:
        if self._too_old and not old_too:
            raise FirstlightError(self._too_old)
        try:
            with Session(self._engine) as session, session.begin():
                yield session
        except DBAPIError as error:
            raise self.unusable(error) from None

    @contextmanager
    def snapshot(self) -> Iterator[sqlalchemy.Connection]:
        """A connection that reads all tables as of one moment, whatever others write meanwhile."""
        if self._too_old:
            raise FirstlightError(self._too_old)
        try:
            with self._engine.connect() as connection:
                begin_snapshot(connection)
                yield connection
        except DBAPIError as error:
            raise self.unusable(error) from None

    def is_new(self) -> bool:
        """Whether no run has made its tables yet: there is nothing to read."""
        try:
            with self._engine.connect() as connection:
                return not sqlalchemy.inspect(connection).has_table(Host.__tablename__)
        except DBAPIError as error:
            raise self.unusable(error) from None

    def unusable(self, error: DBAPIError) -> FirstlightError:
        """What to tell people of an error amid reading or writing."""
        if self._sqlite or isinstance(error, ProgrammingError):  # else a server that is away would be waited for again
            with suppress(DBAPIError), self._engine.connect() as connection:
                if not sqlalchemy.inspect(connection).has_table(Host.__tablename__):
                    return FirstlightError(f"ledger {self._name} is empty; the first run of a playbook makes it")
        return FirstlightError(f"ledger {self._name} cannot be used: {reason(error, self._url)}")

    # -- the fleet ------------------------------------------------------------------------------------------------

    def plan(self, site: str, hosts: Iterable[PlannedHost]) -> None:
        """Make the ledger hold these hosts with their places. History of others is kept.

        Where a BMC has contradicted the fleet file, see ``identify``, it stays so until that names another tag.
        """
        with self._transaction() as session:
            for planned in hosts:
                host = identity.planned(session, planned) or Host(state="planned")
                identity.take_name(session, host, planned.name, now, operator(), self.run_id)
                host.site, host.rack, host.unit, host.profile = site, planned.rack, planned.unit, planned.profile
                host.planned_tag = planned.service_tag or None
                session.add(host)
                session.flush()
                if planned.service_tag and host.service_tag is None:
                    identity.take_tag(session, host, planned.service_tag)

    def identify(self, name: str, service_tag: str) -> None:
        """The BMC of ``name`` said this service tag: the history of that tag is this host's from now on.

        So it is though the fleet file says another tag; that machine then has no name. A text that can be no service
        tag is not taken; the history then stays with the name.
        """
        if not _TAG.fullmatch(service_tag):
            return
        with self._transaction() as session:
            named = self._find(session, name, None)
            if named is not None and named.service_tag != service_tag:
                identity.exchange(session, named, service_tag, now, operator(), self.run_id)

    def states(self) -> dict[str, str]:
        """State of every host by name. Of a ledger of any release: a run's inventory is read before it is upgraded."""
        with self._reading(old_too=True) as session:
            rows = session.execute(select(Host.name, Host.state).where(Host.name.is_not(None)))
            return {name: state for name, state in rows if name is not None}

    # -- runs and stages ------------------------------------------------------------------------------------------

    def start_run(self, playbook: str, fleet_run: str = "") -> int:
        """fleet_run: the same of all runs that are the shards of one."""
        with self._transaction() as session:
            run = Run(playbook=shorten(playbook, 200), operator=operator(), started=now())
            run.fleet_run = shorten(fleet_run, 64) or None
            session.add(run)
            session.flush()
            self.run_id = run.id
            return run.id

    def end_run(self, run_id: int, outcome: str, message: str = "") -> None:
        with self._transaction() as session:
            run = session.get(Run, run_id)
            if run is not None:
                run.ended, run.outcome, run.message = now(), outcome, shorten(message, TEXT_MAX)

    def run(self, run_id: int) -> dict[str, Any]:
        with self._reading() as session:
            run = session.get(Run, run_id)
            return {} if run is None else {c.name: getattr(run, c.name) for c in Run.__table__.columns}

    def begin_stage(self, stage: str, names: Iterable[str]) -> None:
        """Note that these hosts enter a stage now. What an earlier, killed run left open is closed as failed."""
        at = now()
        with self._transaction() as session:
            for host in self._hosts(session, names):
                for left in session.scalars(select(StageRun).filter_by(host_id=host.id, stage=stage, result=None)):
                    left.result, left.ended = "failed", at
                session.add(StageRun(host_id=host.id, run_id=self.run_id, stage=stage, started=at))

    def end_stage(
        self,
        stage: str,
        name: str,
        findings: Iterable[Finding],
        *,
        seconds: float | None = None,
        keep: Collection[str] = (),
        quarantines: Callable[[Finding], bool] | None = None,
    ) -> bool:
        """Close a host's stage with its findings; True when it passed (no finding that holds says no).

        The host's findings of this stage are exactly these from now on: others are cleared, but for those of the checks
        in ``keep``, which did not run this time. quarantines: of a finding, whether it keeps a host out of use though
        it does not say no. Who is quarantined is decided for all hosts together, see firstlight/quarantine.py.
        """
        known = list(findings)
        at = now()
        with self._transaction() as session:
            host = self._known(session, name)
            kept = holding.replace(session, host, stage, known, at, self.run_id, keep)
            said_no = blocking([*known, *kept])
            out = bool(said_no) or (quarantines is not None and any(map(quarantines, [*known, *kept])))
            row = session.scalars(
                select(StageRun).filter_by(host_id=host.id, stage=stage, result=None).order_by(StageRun.id.desc())
            ).first()
            if row is None:
                row = StageRun(host_id=host.id, run_id=self.run_id, stage=stage, started=at)
                session.add(row)
            row.ended, row.result = at, "failed" if said_no else "passed"
            row.seconds = seconds if seconds is not None else _seconds_between(row.started, at)
            state = STATE_AFTER[stage]
            if not said_no:
                holding.replace(session, host, holding.RUN, [], at, self.run_id)  # it goes on
            if not said_no and not (out and state == READY) and standing.may_reach(host, state):
                self._move(session, host, state, f"passed {stage}", at)
            return not said_no

    def passed(self, stage: str, names: Iterable[str]) -> set[str]:
        """Those of ``names`` whose latest ended way through ``stage`` was passed."""
        with self._reading() as session:
            return {
                host.name
                for host in self._hosts(session, names)
                if host.name and (last := latest(session, host.id, stage)) is not None and last.result == "passed"
            }

    def begun(self, stage: str, names: Iterable[str], *, ended: bool = False) -> list[str]:
        """Those of ``names`` that this run let into ``stage`` and that are still in it (``ended``: or came out)."""
        with self._reading() as session:
            return [
                host.name
                for host in self._hosts(session, names)
                if host.name
                and (last := latest(session, host.id, stage)) is not None
                and (ended or last.result is None)
                and last.run_id == self.run_id
            ]

    def withdraw(self, stage: str, names: Iterable[str]) -> None:
        """These hosts did not enter the stage after all."""
        with self._transaction() as session:
            for host in self._hosts(session, names):
                for row in session.scalars(select(StageRun).filter_by(host_id=host.id, stage=stage, result=None)):
                    session.delete(row)

    def set_state(self, name: str, state: str, why: str) -> None:
        with self._transaction() as session:
            host = self._find(session, name, None)
            if host is not None:
                self._move(session, host, state, why, now())

    def begin_install(self, name: str, why: str) -> None:
        """A host is being installed from now on; one that is held or in repair keeps its state."""
        with self._transaction() as session:
            host = self._find(session, name, None)
            if host is not None and not host.held and host.state != IN_REPAIR:
                self._move(session, host, "installing", why, now())

    def installing(self, names: Iterable[str]) -> set[str]:
        """Those of ``names`` that were being installed when the run that did it ended."""
        with self._reading() as session:
            return standing.installing(session, self._hosts(session, names))

    def undo(self, name: str, first: str, why: str) -> None:
        """A host has not passed ``first`` and the stages after it any more: it was released.

        Their findings are cleared, and if install is among them, what its checks read is forgotten. Its state goes back
        to that of the stage before, but for a quarantined host or one in repair.
        """
        at, number = now(), STAGES.index(first)
        with self._transaction() as session:
            host = self._find(session, name, None)
            if host is None:
                return
            for stage in STAGES[number:]:
                last = latest(session, host.id, stage)
                if last is not None and last.result != "undone":
                    row = StageRun(host_id=host.id, run_id=self.run_id, stage=stage, started=at, ended=at)
                    row.result = "undone"
                    session.add(row)
                holding.replace(session, host, stage, [], at, self.run_id)
            if number <= STAGES.index("install"):
                readings.forget(session, host)
            before = STATE_AFTER[STAGES[number - 1]]
            if standing.is_back(host, before):
                self._move(session, host, before, why, at)

    def deed(self, name: str, what: str) -> None:
        """Write down a destructive step, before or when it is taken."""
        with self._transaction() as session:
            host = self._find(session, name, None)
            if host is not None:
                session.add(Deed(host_id=host.id, run_id=self.run_id, at=now(), what=shorten(what, TEXT_MAX)))

    # -- out of use, by a person ----------------------------------------------------------------------------------

    def hold(self, name: str, why: str) -> None:
        """Keep a host out of use: it is quarantined until ``readmit``, or ``unhold`` and a passed smoke."""
        with self._transaction() as session:
            host = self._known(session, name)
            host.held = f"{operator()}: {shorten(why)}"
            self._move(session, host, QUARANTINED, f"held: {shorten(why)}", now())

    def unhold(self, name: str) -> None:
        """Nobody holds the host any more; its state stays, and the next smoke that it passes makes it ready."""
        with self._transaction() as session:
            self._known(session, name).held = None

    def held(self, names: Iterable[str]) -> dict[str, str]:
        """Those of ``names`` that are held: by whom, and why."""
        with self._reading() as session:
            return {str(host.name): host.held for host in self._hosts(session, names) if host.held}

    def readmit(self, name: str, why: str) -> None:
        """Make a host ready that is held, quarantined or in repair.

        FirstlightError, one line, when it is none of these, or has not passed every stage at its last try.
        """
        with self._transaction() as session:
            host = self._known(session, name)
            standing.refuse_readmission(session, host)
            host.held = None
            self._move(session, host, READY, shorten(why), now())

    # -- what checks read -----------------------------------------------------------------------------------------

    def remember(self, hosts: Mapping[str, Mapping[str, Any]]) -> None:
        """By host and kind what its checks read, ready for JSON; kinds that are not named stay as they are."""
        at = now()
        with self._transaction() as session:
            readings.write(session, {host.id: hosts[str(host.name)] for host in self._hosts(session, hosts)}, at)

    def remembered(self, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        """By name and kind what was remembered of these hosts."""
        with self._reading() as session:
            return readings.of_hosts(session, self._hosts(session, names))

    def values(self) -> dict[str, dict[str, Any]]:
        """What hosts are compared by: ``{name: {"profile": name, "values": {name: text or number}}}``."""
        with self._reading() as session:
            return readings.values(session)

    # -- copying --------------------------------------------------------------------------------------------------

    def copy_to(self, other: Ledger) -> None:
        """Copy everything into an empty ledger: a check run works on such a copy and throws it away."""
        with self.snapshot() as here, other._engine.begin() as there:
            exist = set(sqlalchemy.inspect(self._engine).get_table_names())
            for table in Base.metadata.sorted_tables:
                if table.name not in exist:
                    continue
                rows = [dict(row) for row in here.execute(select(table)).mappings()]
                if rows:
                    there.execute(table.insert(), rows)
            count_on(there, Base.metadata.sorted_tables)

    # -- reading --------------------------------------------------------------------------------------------------

    def story(self, names: Iterable[str]) -> list[dict[str, Any]]:
        """What is known of these hosts, in the order of ``names``: plain values, ready for a report.

        Each: name, rack, unit, service_tag, profile, state, held (by whom, and why), findings (held now),
        stages {stage: {result, seconds, run_id}}.
        """
        with self._reading() as session:
            return [holding.story(session, host) for host in self._hosts(session, names)]

    # -- inside a transaction -------------------------------------------------------------------------------------

    def _find(self, session: Session, name: str | None, service_tag: str | None) -> Host | None:
        if service_tag:
            host = session.scalars(select(Host).filter_by(service_tag=service_tag)).first()
            if host is not None:
                return host
        return session.scalars(select(Host).filter_by(name=name)).first() if name else None

    def _hosts(self, session: Session, names: Iterable[str]) -> list[Host]:
        by_name = {h.name: h for h in session.scalars(select(Host).where(Host.name.is_not(None)))}
        return [by_name[n] for n in names if n in by_name]

    def _known(self, session: Session, name: str) -> Host:
        host = self._find(session, name, None)
        if host is None:
            raise FirstlightError(f"the ledger does not know host {name}; run playbooks/validate.yml first")
        return host

    def _move(self, session: Session, host: Host, state: str, why: str, at: str) -> None:
        standing.move(session, host, state, shorten(why, TEXT_MAX), at, operator(), self.run_id)


def _seconds_between(start: str, end: str) -> float:
    return round((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds(), 3)
