"""A made-up fleet with some weeks of history, for tests of the page and for its picture in the documentation.

    .venv/bin/python -m tests.made_fleet FOLDER [HOSTS]     # writes made.html, made.page.json and made.prom there

Names, tags and figures are invented; a seed makes them the same every time.
"""

from __future__ import annotations

import random
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy.orm import Session

from firstlight import report
from firstlight.ledger.history import history, weeks_before
from firstlight.ledger.models import Deed, FindingRow, Host, Run, StageRun, StateChange
from firstlight.ledger.store import STAGES, STATE_AFTER, Ledger, ledger_url
from firstlight.page import html
from firstlight.page.overview import WEEKS, overview

AT = datetime.fromisoformat("2026-03-05T14:20:00.000+00:00")  # a Thursday
PER_RACK, FIRST_UNIT, UNITS = 8, 4, 6
TROUBLES = (
    ("discover", "gpu_count", "gpu.missing", "Video.Slot.26-1", "7 of 8 GPUs: present Video.Slot.21-1 …", "reseat"),
    ("discover", "power_supply", "psu.failed", "PSU.Slot.2", "Health Critical, State Enabled", "reseat"),
    ("discover", "bmc", "bmc.auth_failed", "BMC 10.9.3.17", "POST …/Sessions: 401 AccessDenied", "escalate"),
    ("install", "install", "install.no_dhcp", "NIC.Embedded.1-1-1", "no DHCP request within 10 minutes", "reseat"),
    ("smoke", "nvlink", "nvlink.inactive", "GPU 3, link 11", "17 of 18 links active, 18 expected", "reboot"),
    ("smoke", "gpu_memory", "gpu.ecc_errors", "GPU 0000:9a:00.0", "2 uncorrected errors, 0 expected", "replace"),
    ("smoke", "hca_state", "hca.port_down", "mlx5_4 port 1", "state DOWN, expected ACTIVE", "reseat"),
    ("smoke", "kernel_xid", "xid.79", "GPU 0000:3b:00.0", "NVRM: Xid (PCI:0000:3b:00): 79, …", "power_cycle"),
)
SECONDS = {"discover": 2.4, "enlist": 1.1, "install": 1500.0, "configure": 420.0, "smoke": 9.0}


def stamp(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds")


class Maker:
    def __init__(self, session: Session, seed: int) -> None:
        self.session, self.dice = session, random.Random(seed)

    def host(self, number: int) -> None:
        rack, place = divmod(number, PER_RACK)
        host = Host(
            name=f"r{rack + 1}-n{place + 1:02d}",
            service_tag=f"MADE{number + 1:04d}",
            site="made-up",
            rack=f"r{rack + 1}",
            unit=FIRST_UNIT + UNITS * place,
            profile="xe9680",
        )
        self.session.add(host)
        self.session.flush()
        if number % 45 == 44:
            host.state = "planned"
            return
        broken = self.dice.choice(TROUBLES) if self.dice.random() < 0.14 else None
        at, host.state = self.bring_up(host, broken)
        if host.state == "ready":
            self.weeks(host, at, weak=number % 24 == 5)
        elif number % 2:
            self.move(host, AT - timedelta(hours=20), host.state, "in_repair", "with the supplier")
            host.state = "in_repair"

    def bring_up(self, host: Host, broken: tuple[str, ...] | None) -> tuple[datetime, str]:
        at, state = AT - timedelta(weeks=8, hours=5), "planned"
        self.session.add(Deed(host_id=host.id, run_id=1, at=stamp(at), what="disk of the system was erased"))
        for stage in STAGES:
            taken = SECONDS[stage] * self.dice.lognormvariate(0, 0.25)
            failed = broken is not None and broken[0] == stage
            if failed and self.dice.random() < 0.5:  # repaired a day or some later, and tried again
                self.trouble(host, broken, at, cleared=at + timedelta(hours=30))
                at, failed = at + timedelta(hours=30 * self.dice.lognormvariate(0, 0.5)), False
            ended = at + timedelta(seconds=taken)
            self.stage(host, stage, at, ended, "failed" if failed else "passed", taken)
            if failed:
                self.trouble(host, broken, ended, cleared=None)
                return ended, state
            self.move(host, ended, state, STATE_AFTER[stage], f"passed {stage}")
            at, state = ended, STATE_AFTER[stage]
        return at, state

    def weeks(self, host: Host, at: datetime, weak: bool) -> None:
        """About 3 % of hosts break in a week, and a few do it again and again."""
        kind = self.dice.choice(TROUBLES[4:])
        while (at := at + timedelta(days=7)) < AT:
            if self.dice.random() >= (0.45 if weak else 0.02):
                continue
            fell = at + timedelta(hours=self.dice.uniform(1, 90))
            back = fell + timedelta(hours=self.dice.uniform(4, 60))
            if fell >= AT:
                break
            self.stage(host, "smoke", fell, fell + timedelta(seconds=9), "failed", 9.0)
            self.trouble(host, kind, fell, cleared=back if back < AT else None)
            self.move(host, fell, "ready", "quarantined", f"smoke: {kind[2]}")
            host.state = "quarantined"
            if back >= AT:
                return
            self.stage(host, "smoke", back, back + timedelta(seconds=9), "passed", 9.0)
            self.move(host, back, "quarantined", "ready", "passed smoke")
            host.state = "ready"

    def trouble(self, host: Host, kind: tuple[str, ...], at: datetime, cleared: datetime | None) -> None:
        stage, check, symptom, locator, evidence, action = kind
        row = FindingRow(host_id=host.id, run_id=1, stage=stage, check=check, status="fail", symptom=symptom)
        row.locator, row.evidence, row.action = locator, evidence, action
        row.first_seen, row.last_seen = stamp(at), stamp(cleared or AT)
        row.cleared = stamp(cleared) if cleared else None
        self.session.add(row)

    def stage(self, host: Host, stage: str, start: datetime, end: datetime, result: str, seconds: float) -> None:
        row = StageRun(host_id=host.id, run_id=1, stage=stage, started=stamp(start), ended=stamp(end), result=result)
        row.seconds = round(seconds, 1)
        self.session.add(row)

    def move(self, host: Host, at: datetime, before: str, after: str, why: str) -> None:
        row = StateChange(host_id=host.id, run_id=1, at=stamp(at), before=before, after=after, who="made-up", why=why)
        self.session.add(row)


def made_ledger(folder: Path, hosts: int = 96, seed: int = 7) -> Ledger:
    """A ledger in this folder, of this many hosts, eight in a rack."""
    url = ledger_url("made.sqlite", folder)
    Ledger(url)  # makes the tables
    engine = sqlalchemy.create_engine(url)
    with Session(engine) as session, session.begin():
        started = stamp(AT - timedelta(minutes=12))
        session.add(Run(playbook="site.yml", operator="made-up", started=started, ended=stamp(AT), outcome="done"))
        session.flush()
        maker = Maker(session, seed)
        for number in range(hosts):
            maker.host(number)
    engine.dispose()
    return Ledger(url, run_id=1)


def made_values(names: list[str]) -> dict[str, dict[str, Any]]:
    """Versions of the hosts: nearly all have the same."""
    told = {}
    for number, name in enumerate(names):
        values: dict[str, Any] = {"gpu.driver": "580.95.05", "gpu.vbios": "96.00.89.00.01", "host.kernel": "6.8.0-51"}
        values["bios.version"] = "2.7.4" if number % 9 else "2.6.3"
        if number % 40 == 11:
            values["gpu.driver"] = "580.82.07"
        told[name] = {"profile": "xe9680", "values": {**values, "gpu.idle_celsius_max": 34.0}}
    return told


def made_report(ledger: Ledger) -> dict[str, Any]:
    """The report of all hosts, as of AT."""
    stories = ledger.story(ledger.states())
    return {**report.build("made-up", stories, "85%", run=ledger.run(1)), "written": stamp(AT)}


def made_data(folder: Path, hosts: int = 96, seed: int = 7) -> dict[str, Any]:
    """What the page shows of such a fleet."""
    ledger = made_ledger(folder, hosts, seed)
    built = made_report(ledger)
    machines = history(ledger, weeks_before(built["written"], WEEKS))
    return overview(built, machines, made_values([host["name"] for host in built["hosts"]]))


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    (target / "made.sqlite").unlink(missing_ok=True)
    html.write(made_data(target, int(sys.argv[2]) if sys.argv[2:] else 96), target, "made")
    print(target / "made.html")
