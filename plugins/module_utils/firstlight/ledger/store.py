"""The ledger: the history of every host. A file of SQLite by default, PostgreSQL by URL."""

from __future__ import annotations

import getpass
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy import event, select
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from ..errors import FirstlightError, InputError
from ..findings import Finding, blocking
from ..sitefiles import PlannedHost
from . import readings
from .database import (
    DATABASES,
    begin_snapshot,
    connect_args,
    count_on,
    lock_for_writing,
    reason,
    shown,
    sqlite_settings,
)
from .models import Base, Deed, FindingRow, Host, Run, StageRun, StateChange
from .schema import bring_up, too_old

STATES = (
    "planned",
    "discovered",
    "enlisted",
    "installing",
    "installed",
    "configured",
    "ready",
    "quarantined",
    "in_repair",
)
# each stage, and the state of a host that passed it
STATE_AFTER = {
    "discover": "discovered",
    "enlist": "enlisted",
    "install": "installed",
    "configure": "configured",
    "smoke": "ready",
}
STAGES = tuple(STATE_AFTER)
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def operator() -> str:
    """Who runs this: the login name, or "unknown" in a container without one."""
    try:
        return getpass.getuser()
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
        self._name = shown(url)
        try:
            # no pool: plugins fork, and a connection must not be shared across a fork
            self._engine = sqlalchemy.create_engine(url, poolclass=NullPool, connect_args=connect_args(url))
        except ArgumentError as error:
            raise InputError(f"ledger {self._name}: {error}; write a file name or an SQLAlchemy URL") from None
        except ImportError as error:
            raise InputError(f"ledger {self._name}: {error}; see docs/ledger.md for the driver to install") from None
        if self._engine.dialect.name not in DATABASES:
            raise InputError(f"ledger {self._name}: only SQLite and PostgreSQL hold a ledger")
        self._sqlite = self._engine.dialect.name == "sqlite"
        try:
            if create:
                if self._sqlite and self._engine.url.database:
                    Path(self._engine.url.database).parent.mkdir(parents=True, exist_ok=True)
                if self._sqlite:
                    event.listen(self._engine, "connect", sqlite_settings)
                self.notice = bring_up(self._engine, self._name)
            else:
                self._too_old = too_old(self._engine, self._name)
        except (DBAPIError, OSError) as error:
            raise FirstlightError(f"ledger {self._name} cannot be opened: {reason(error)}") from None

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
            raise FirstlightError(f"ledger {self._name} cannot be used: {reason(error)}") from None

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
            raise FirstlightError(f"ledger {self._name} cannot be used: {reason(error)}") from None

    # -- the fleet ------------------------------------------------------------------------------------------------

    def plan(self, site: str, hosts: Iterable[PlannedHost]) -> None:
        """Make the ledger hold these hosts with their places. History of others is kept."""
        with self._transaction() as session:
            for planned in hosts:
                host = self._find(session, planned.name, planned.service_tag) or Host(state="planned")
                self._take_name(session, host, planned.name)
                host.site, host.rack, host.unit, host.profile = site, planned.rack, planned.unit, planned.profile
                if planned.service_tag and host.service_tag is None:
                    host.service_tag = planned.service_tag
                session.add(host)
                session.flush()

    def identify(self, name: str, service_tag: str) -> None:
        """The BMC of ``name`` said this service tag: the history of that tag is this host's from now on.

        A text that can be no service tag is not taken; the history then stays with the name.
        """
        if not _TAG.fullmatch(service_tag):
            return
        with self._transaction() as session:
            host, named = self._find(session, None, service_tag), self._find(session, name, None)
            if named is None or host is named:
                return
            if host is None and named.service_tag is None:
                named.service_tag = service_tag
                return
            host = host or Host(service_tag=service_tag, state="planned")
            host.site, host.rack, host.unit, host.profile = named.site, named.rack, named.unit, named.profile
            self._take_name(session, host, name)
            session.add(host)

    def states(self) -> dict[str, str]:
        """State of every host by name. Of a ledger of any release: a run's inventory is read before it is upgraded."""
        with self._reading(old_too=True) as session:
            rows = session.execute(select(Host.name, Host.state).where(Host.name.is_not(None)))
            return {name: state for name, state in rows if name is not None}

    # -- runs and stages ------------------------------------------------------------------------------------------

    def start_run(self, playbook: str) -> int:
        with self._transaction() as session:
            run = Run(playbook=playbook, operator=operator(), started=now())
            session.add(run)
            session.flush()
            self.run_id = run.id
            return run.id

    def end_run(self, run_id: int, outcome: str, message: str = "") -> None:
        with self._transaction() as session:
            run = session.get(Run, run_id)
            if run is not None:
                run.ended, run.outcome, run.message = now(), outcome, message

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
    ) -> bool:
        """Close a host's stage with its findings; True when it passed (no finding that holds says no).

        The host's findings of this stage are exactly these from now on: others are cleared, but for those of the checks
        in ``keep``, which did not run this time.
        """
        known = list(findings)
        at = now()
        with self._transaction() as session:
            host = self._find(session, name, None)
            if host is None:
                raise FirstlightError(f"the ledger does not know host {name}; run playbooks/validate.yml first")
            kept = self._replace_findings(session, host, stage, known, at, keep)
            said_no = blocking([*known, *kept])
            row = session.scalars(
                select(StageRun).filter_by(host_id=host.id, stage=stage, result=None).order_by(StageRun.id.desc())
            ).first()
            if row is None:
                row = StageRun(host_id=host.id, run_id=self.run_id, stage=stage, started=at)
                session.add(row)
            row.ended, row.result = at, "failed" if said_no else "passed"
            row.seconds = seconds if seconds is not None else _seconds_between(row.started, at)
            if not said_no and _is_progress(host.state, STATE_AFTER[stage]):
                self._move(session, host, STATE_AFTER[stage], f"passed {stage}", at)
            elif said_no and host.state == "ready":
                self._move(session, host, "quarantined", f"{stage}: {said_no[0].symptom}", at)
            return not said_no

    def passed(self, stage: str, names: Iterable[str]) -> set[str]:
        """Those of ``names`` whose latest ended way through ``stage`` was passed."""
        with self._reading() as session:
            return {
                host.name
                for host in self._hosts(session, names)
                if host.name and (last := _latest(session, host.id, stage)) is not None and last.result == "passed"
            }

    def begun(self, stage: str, names: Iterable[str], *, ended: bool = False) -> list[str]:
        """Those of ``names`` that this run let into ``stage`` and that are still in it (``ended``: or came out)."""
        with self._reading() as session:
            return [
                host.name
                for host in self._hosts(session, names)
                if host.name
                and (last := _latest(session, host.id, stage)) is not None
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
                last = _latest(session, host.id, stage)
                if last is not None and last.result != "undone":
                    row = StageRun(host_id=host.id, run_id=self.run_id, stage=stage, started=at, ended=at)
                    row.result = "undone"
                    session.add(row)
                self._replace_findings(session, host, stage, [], at)
            if number <= STAGES.index("install"):
                readings.forget(session, host)
            before = STATE_AFTER[STAGES[number - 1]]
            if host.state not in ("quarantined", "in_repair") and _is_progress(before, host.state):
                self._move(session, host, before, why, at)

    def deed(self, name: str, what: str) -> None:
        """Write down a destructive step, before or when it is taken."""
        with self._transaction() as session:
            host = self._find(session, name, None)
            if host is not None:
                session.add(Deed(host_id=host.id, run_id=self.run_id, at=now(), what=what))

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

        Each: name, rack, unit, service_tag, profile, state, findings (held now), stages {stage: {result, seconds}}.
        """
        with self._reading() as session:
            return [self._one_story(session, host) for host in self._hosts(session, names)]

    def _one_story(self, session: Session, host: Host) -> dict[str, Any]:
        held = session.scalars(
            select(FindingRow).filter_by(host_id=host.id, cleared=None).order_by(FindingRow.id)
        ).all()
        stages = {}
        for stage in STAGES:
            last = _latest(session, host.id, stage)
            if last is not None:
                stages[stage] = {"result": last.result, "seconds": last.seconds, "run_id": last.run_id}
        fields = ("name", "rack", "unit", "service_tag", "profile", "state")
        return {
            **{f: getattr(host, f) for f in fields},
            "findings": [
                {
                    **{f: getattr(row, f) for f in Finding.__dataclass_fields__},
                    "stage": row.stage,
                    "first_seen": row.first_seen,
                }
                for row in held
            ],
            "stages": stages,
        }

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

    def _take_name(self, session: Session, host: Host, name: str) -> None:
        """A name belongs to one host: whoever had it before keeps the history, not the name."""
        holder = session.scalars(select(Host).filter_by(name=name)).first()
        if holder is not None and holder is not host:
            holder.name = None
            session.flush()
        host.name = name

    def _move(self, session: Session, host: Host, state: str, why: str, at: str) -> None:
        if state not in STATES:
            raise ValueError(f"{state!r} is no state")
        if host.state != state:
            session.add(
                StateChange(
                    host_id=host.id, run_id=self.run_id, at=at, before=host.state, after=state, who=operator(), why=why
                )
            )
            host.state = state

    def _replace_findings(
        self,
        session: Session,
        host: Host,
        stage: str,
        findings: list[Finding],
        at: str,
        keep: Collection[str] = (),
    ) -> list[Finding]:
        """Returns those that are held still, though they are none of ``findings``."""
        held = {
            (row.check, row.symptom, row.locator): row
            for row in session.scalars(select(FindingRow).filter_by(host_id=host.id, stage=stage, cleared=None))
        }
        for finding in findings:
            row = held.pop((finding.check, finding.symptom, finding.locator), None)
            if row is None:
                row = FindingRow(host_id=host.id, stage=stage, first_seen=at, **finding.to_dict())
                session.add(row)
            row.status, row.evidence, row.action = finding.status, finding.evidence, finding.action
            row.last_seen, row.run_id = at, self.run_id
        kept = []
        for row in held.values():
            if row.check in keep:
                kept.append(_finding(row))
            else:
                row.cleared = at
        return kept


def _finding(row: FindingRow) -> Finding:
    return Finding(**{f: getattr(row, f) for f in Finding.__dataclass_fields__})


def _is_progress(before: str, after: str) -> bool:
    """Stages move a host forward only; out of quarantine or repair leads nothing but the last one."""
    if before in ("quarantined", "in_repair"):
        return after == "ready"
    return STATES.index(after) > STATES.index(before)


def _latest(session: Session, host_id: int, stage: str) -> StageRun | None:
    query = select(StageRun).filter_by(host_id=host_id, stage=stage).order_by(StageRun.id.desc())
    return session.scalars(query).first()


def _seconds_between(start: str, end: str) -> float:
    return round((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds(), 3)
