"""The findings of a host's stages that hold now. Each function works within a transaction of ``Ledger``."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from ..findings import Finding
from .models import FindingRow, Host
from .standing import STAGES, latest

RUN = "run"  # in the place of a stage: of findings that only the end of a fleet run tells, see fleet/noting.py


def replace(
    session: Session,
    host: Host,
    stage: str,
    findings: list[Finding],
    at: str,
    run_id: int | None,
    keep: Collection[str] = (),
) -> list[Finding]:
    """Let exactly these hold of the stage, and those of the checks in ``keep``; returns the latter."""
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
        row.last_seen, row.run_id = at, run_id
    kept = []
    for row in held.values():
        if row.check in keep:
            kept.append(finding_of(row))
        else:
            row.cleared = at
    return kept


def add(session: Session, host: Host, stage: str, finding: Finding, at: str, run_id: int | None) -> None:
    """Let this one hold too, in the place of what the same check had found."""
    query = select(FindingRow.check).filter_by(host_id=host.id, stage=stage, cleared=None)
    replace(session, host, stage, [finding], at, run_id, keep=set(session.scalars(query)) - {finding.check})


def finding_of(row: FindingRow) -> Finding:
    return Finding(**{f: getattr(row, f) for f in Finding.__dataclass_fields__})


def story(session: Session, host: Host) -> dict[str, Any]:
    """What is known of a host now; see ``Ledger.story``."""
    rows = session.scalars(select(FindingRow).filter_by(host_id=host.id, cleared=None).order_by(FindingRow.id)).all()
    stages = {}
    for stage in STAGES:
        last = latest(session, host.id, stage)
        if last is not None:
            stages[stage] = {"result": last.result, "seconds": last.seconds, "run_id": last.run_id}
    fields = ("name", "rack", "unit", "service_tag", "profile", "state", "held")
    return {
        **{f: getattr(host, f) for f in fields},
        "findings": [
            {
                **{f: getattr(row, f) for f in Finding.__dataclass_fields__},
                "stage": row.stage,
                "first_seen": row.first_seen,
            }
            for row in rows
        ],
        "stages": stages,
    }
