"""The ledger's tables; a change of one needs a revision in migrations/.

Times are UTC and ISO 8601 text, so that SQLite and people read them alike.
"""

from __future__ import annotations

from sqlalchemy import Float, ForeignKey, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    pass


class Host(Base):
    """A server, known by its service tag; the name is only a label. Before its BMC first answers it has no tag."""

    __tablename__ = "host"
    id: Mapped[int] = mapped_column(primary_key=True)
    service_tag: Mapped[str | None] = mapped_column(String(64), unique=True)
    name: Mapped[str | None] = mapped_column(String(64), unique=True)
    site: Mapped[str] = mapped_column(String(64), default="")
    rack: Mapped[str] = mapped_column(String(64), default="")
    unit: Mapped[int | None]
    profile: Mapped[str] = mapped_column(String(64), default="")
    state: Mapped[str] = mapped_column(String(16), default="planned")
    held: Mapped[str | None] = mapped_column(Text)  # who keeps it out of use, and why: stages alone do not readmit it
    planned_tag: Mapped[str | None] = mapped_column(String(64))  # what the fleet file says in the place of service_tag


class Run(Base):
    """One start of a playbook. ended is null while it runs, and stays so when it was killed."""

    __tablename__ = "run"
    id: Mapped[int] = mapped_column(primary_key=True)
    playbook: Mapped[str] = mapped_column(String(200), default="")
    operator: Mapped[str] = mapped_column(String(64), default="")
    started: Mapped[str] = mapped_column(String(32))
    ended: Mapped[str | None] = mapped_column(String(32))
    outcome: Mapped[str | None] = mapped_column(String(16))  # met | not_met | broken | stopped | done
    message: Mapped[str] = mapped_column(Text, default="")
    fleet_run: Mapped[str | None] = mapped_column(String(64))  # the same for shards that scripts/fleet started together
    __table_args__ = (Index("run_fleet_run", "fleet_run"),)


class StageRun(Base):
    """One host's way through one stage. result: null while it goes on, then passed | failed; undone: released since."""

    __tablename__ = "stage_run"
    id: Mapped[int] = mapped_column(primary_key=True)
    host_id: Mapped[int] = mapped_column(ForeignKey("host.id"))
    run_id: Mapped[int | None] = mapped_column(ForeignKey("run.id"))
    stage: Mapped[str] = mapped_column(String(16))
    started: Mapped[str] = mapped_column(String(32))
    ended: Mapped[str | None] = mapped_column(String(32))
    seconds: Mapped[float | None] = mapped_column(Float)
    result: Mapped[str | None] = mapped_column(String(16))
    __table_args__ = (Index("stage_run_host", "host_id", "stage"),)


class FindingRow(Base):
    """A finding while it holds: first and last seen; cleared when its stage was passed through without it."""

    __tablename__ = "finding"
    id: Mapped[int] = mapped_column(primary_key=True)
    host_id: Mapped[int] = mapped_column(ForeignKey("host.id"))
    run_id: Mapped[int | None] = mapped_column(ForeignKey("run.id"))
    stage: Mapped[str] = mapped_column(String(16))
    check: Mapped[str] = mapped_column(String(64))
    status: Mapped[str] = mapped_column(String(8))
    symptom: Mapped[str] = mapped_column(String(64))
    locator: Mapped[str] = mapped_column(String(120), default="")
    evidence: Mapped[str] = mapped_column(Text, default="")
    action: Mapped[str] = mapped_column(String(16), default="none")
    first_seen: Mapped[str] = mapped_column(String(32))
    last_seen: Mapped[str] = mapped_column(String(32))
    cleared: Mapped[str | None] = mapped_column(String(32))
    __table_args__ = (Index("finding_host", "host_id", "stage"),)


class StateChange(Base):
    """Who moved a host from one state to another, and why."""

    __tablename__ = "state_change"
    id: Mapped[int] = mapped_column(primary_key=True)
    host_id: Mapped[int] = mapped_column(ForeignKey("host.id"))
    run_id: Mapped[int | None] = mapped_column(ForeignKey("run.id"))
    at: Mapped[str] = mapped_column(String(32))
    before: Mapped[str] = mapped_column(String(16))
    after: Mapped[str] = mapped_column(String(16))
    who: Mapped[str] = mapped_column(String(64), default="")
    why: Mapped[str] = mapped_column(Text, default="")


class Deed(Base):
    """A destructive or outward step that was taken on a host: installed, released, wiped, powered off."""

    __tablename__ = "deed"
    id: Mapped[int] = mapped_column(primary_key=True)
    host_id: Mapped[int] = mapped_column(ForeignKey("host.id"))
    run_id: Mapped[int | None] = mapped_column(ForeignKey("run.id"))
    at: Mapped[str] = mapped_column(String(32))
    what: Mapped[str] = mapped_column(Text)


class Reading(Base):
    """What the checks of a host read last, of one kind, for its next run and to compare hosts by. value: JSON."""

    __tablename__ = "reading"
    id: Mapped[int] = mapped_column(primary_key=True)
    host_id: Mapped[int] = mapped_column(ForeignKey("host.id"))
    kind: Mapped[str] = mapped_column(String(32))
    at: Mapped[str] = mapped_column(String(32))
    value: Mapped[str] = mapped_column(Text)
    __table_args__ = (UniqueConstraint("host_id", "kind"),)


class TicketRow(Base):
    """A repair order. name: the ticket's id for people. closed: null while it is open. value: all of it, as JSON."""

    __tablename__ = "ticket"
    id: Mapped[int] = mapped_column(primary_key=True)
    host_id: Mapped[int] = mapped_column(ForeignKey("host.id"))
    name: Mapped[str] = mapped_column(String(128), unique=True)
    opened: Mapped[str] = mapped_column(String(32))
    updated: Mapped[str] = mapped_column(String(32))
    closed: Mapped[str | None] = mapped_column(String(32))
    value: Mapped[str] = mapped_column(Text)


class Delivery(Base):
    """Which version of a ticket an output was told, and by which reference the receiver knows it."""

    __tablename__ = "delivery"
    id: Mapped[int] = mapped_column(primary_key=True)
    ticket_id: Mapped[int] = mapped_column(ForeignKey("ticket.id"))
    output: Mapped[str] = mapped_column(String(64))
    version: Mapped[int]
    at: Mapped[str] = mapped_column(String(32))
    reference: Mapped[str] = mapped_column(String(200), default="")
    __table_args__ = (UniqueConstraint("ticket_id", "output"),)


class PartRow(Base):
    """A part that is another one than before: replaced. removed, installed: serial numbers, "" where there was none."""

    __tablename__ = "part"
    id: Mapped[int] = mapped_column(primary_key=True)
    host_id: Mapped[int] = mapped_column(ForeignKey("host.id"))
    run_id: Mapped[int | None] = mapped_column(ForeignKey("run.id"))
    at: Mapped[str] = mapped_column(String(32))
    kind: Mapped[str] = mapped_column(String(32))
    locator: Mapped[str] = mapped_column(String(120), default="")
    removed: Mapped[str] = mapped_column(String(120), default="")
    installed: Mapped[str] = mapped_column(String(120), default="")
