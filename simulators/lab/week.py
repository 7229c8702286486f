"""A scripted week in the lab: an operator's commands, and after each what must be true.

Hosts fail as week_plan.py says, staff mend them, the product is asked every day. With kills, commands are ended with
SIGKILL at random moments and started again. Stops at the first thing that is not as it must be.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from simulators import disk_heads, lab_files
from simulators.bmc.hardware import Hardware
from simulators.lab import week_plan
from simulators.lab.week_plan import Failure
from simulators.lab_files import LabError
from simulators.maas import status

REPOSITORY = Path(__file__).resolve().parents[2]
COMMAND_SECONDS = 900
MET, NOT_MET, BROKEN = 0, 2, 1  # exit status of site.yml
MIRROR = "mirror_down"

Fault = Callable[[str, str, str, tuple[str, ...]], None]  # (host, fault, on or off, parameters)
Replace = Callable[[str, str], None]  # (host, part)


class Wrong(LabError):
    """Something is not as it must be."""


class Operator:
    """Starts commands as somebody at a terminal does, one after the other, and kills some of them on the way."""

    def __init__(self, lab_dir: Path, environment: dict[str, str], kills: list[int], seed: int) -> None:
        self.logs = lab_dir / "week"
        self.logs.mkdir(exist_ok=True)
        self.environment = environment
        self._kills, self._chosen = kills, random.Random(seed)
        self._number, self.killed = 0, 0
        self.owed = 0  # kills of commands that ended before their moment: the next ones have them
        self._took: dict[str, float] = {}
        self.check_after_kill: Callable[[], None] = lambda: None

    def run(self, *words: str, expect: Collection[int] = (0,), done: Callable[[], bool] = lambda: False) -> str:
        """Run to its end, killed before as often as is planned; returns what it printed. Wrong: another exit status.

        done: whether there is nothing left to do after a kill, for commands that refuse to do it again.
        """
        kills = self.owed + (self._kills[self._number] if self._number < len(self._kills) else 0)
        self.owed, self._number = kills, self._number + 1
        kind = next((Path(word).stem for word in words if word.endswith(".yml")), Path(words[0]).name)
        log = self.logs / f"{self._number:02d}-{kind}.log"
        for kill in range(kills + 1):
            began = time.monotonic()
            limit = None
            if kill < kills:
                limit = self._chosen.uniform(0.3, self._took.get(kind, 30.0))
            status = self._once(words, log, limit)
            seconds = time.monotonic() - began
            if status is None:
                self.killed, self.owed = self.killed + 1, self.owed - 1
                say(f"      {kind}: killed after {seconds:.1f} s")
                self.check_after_kill()
                if done():
                    return log.read_text(errors="replace")
            else:
                break
        self._took[kind] = seconds
        say(f"  {' '.join(words)}: exit status {status}, {seconds:.0f} s")
        printed = log.read_text(errors="replace")
        if status not in expect:
            last = "\n".join(printed.splitlines()[-40:])
            raise Wrong(f"{' '.join(words)}: exit status {status}, expected {sorted(expect)}; see {log}\n{last}")
        return printed

    def _once(self, words: tuple[str, ...], log: Path, limit: float | None) -> int | None:
        """The exit status; None where it was killed, with all that it had started, after ``limit`` seconds."""
        with log.open("w") as stream:
            process = subprocess.Popen(
                words, cwd=REPOSITORY, env=self.environment, stdout=stream, stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            try:
                return process.wait(timeout=limit or COMMAND_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                if limit is None:
                    raise Wrong(f"{' '.join(words)}: no end after {COMMAND_SECONDS} s; see {log}") from None
                return None
            except BaseException:
                os.killpg(process.pid, signal.SIGINT)
                process.wait(timeout=60)
                raise


class Site:
    """What the product says of the lab's fleet, by its own files and commands."""

    def __init__(self, operator: Operator, reports: Path, ledger: Path) -> None:
        self.operator, self.reports, self.ledger = operator, reports, ledger
        self._rows: dict[str, set[int]] = {}

    def hosts(self) -> dict[str, dict[str, Any]]:
        told = json.loads((self.reports / "latest.json").read_text())
        return {host["name"]: host for host in told["hosts"]}

    def ready(self) -> set[str]:
        """As the ledger has it, whether or not a report was written since."""
        if not self._rows.get("host"):
            return set()  # killed before there was a first host
        with sqlite3.connect(f"file:{self.ledger}?mode=ro", uri=True) as database:
            return {name for (name,) in database.execute("SELECT name FROM host WHERE state = 'ready'")}

    def tickets(self) -> list[dict[str, Any]]:
        """The open ones."""
        told: list[dict[str, Any]] = json.loads(self._ask("scripts/tickets", "list", "--open", "--json"))
        return told

    def group(self, name: str) -> list[str]:
        told = json.loads(self._ask("ansible-inventory", "--list"))
        return list(told.get(name, {}).get("hosts", []))

    def check_ledger(self) -> None:
        """The database is sound, and no row that was there is gone."""
        if not self.ledger.exists() and not self._rows:
            return  # killed before the first run made it
        with sqlite3.connect(f"file:{self.ledger}?mode=ro", uri=True) as database:
            if (said := database.execute("PRAGMA integrity_check").fetchone()[0]) != "ok":
                raise Wrong(f"{self.ledger}: {said}")
            tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            for table in tables:
                if table in ("alembic_version", "reading", "sqlite_sequence"):
                    continue
                rows = {row[0] for row in database.execute(f"SELECT id FROM {table}")}  # noqa: S608
                if lost := self._rows.get(table, set()) - rows:
                    raise Wrong(f"{self.ledger}: table {table} has lost rows {sorted(lost)[:5]}")
                self._rows[table] = rows

    def _ask(self, *words: str) -> str:
        done = subprocess.run(
            words, cwd=REPOSITORY, env=self.operator.environment, capture_output=True, text=True, timeout=120
        )
        if done.returncode:
            raise Wrong(f"{' '.join(words)}: exit status {done.returncode}: {done.stderr.strip()[-300:]}")
        return done.stdout


class Machines:
    """The servers and what MAAS did to them, as the simulators' own files tell it: what no product can talk away."""

    def __init__(self, lab_dir: Path) -> None:
        self.lab_dir = lab_dir
        self.planned = {machine["name"]: machine for machine in lab_files.load(lab_dir)["machines"]}
        self.tags = {name: machine["service_tag"] for name, machine in self.planned.items()}
        self._seen: Counter[str] = Counter()

    def installed(self) -> Counter[str]:
        """How often each machine was installed since this was asked last."""
        events = self._region().get("events", [])
        told = Counter(event["hostname"] for event in events if event["type"] == "Installation complete")
        since, self._seen = told - self._seen, told
        return since

    def without_system(self) -> set[str]:
        """Machines whose disk holds no installed system."""
        folder = self.lab_dir / "machines"
        return {name for name in self.tags if not lab_files.read_json(folder / name / "state.json", {}).get("disk")}

    def written_data_drives(self) -> list[str]:
        """Data drives that are not blank any more: their machine, and their serial number."""
        found = []
        for name, machine in self.planned.items():
            state = lab_files.read_json(self.lab_dir / "machines" / name / "state.json", {})
            hardware = Hardware(machine["index"], machine["service_tag"], state.get("replaced") or {})
            drives = [{"number": drive.number, "serial": drive.serial} for drive in hardware.drives]
            heads = disk_heads.heads(state, drives)
            found += [f"{name} {drive['serial']}" for drive in drives if drive["serial"] in heads]
        return found

    def on_their_way(self) -> list[str]:
        """Machines that MAAS does not have as deployed."""
        machines = self._region().get("machines", {}).values()
        deployed = {m["hostname"] for m in machines if m["status"] == status.DEPLOYED and not m["job"]}
        return sorted(set(self.tags) - deployed)

    def _region(self) -> dict[str, Any]:
        told: dict[str, Any] = lab_files.read_json(self.lab_dir / "maas" / "state.json", {})
        return told


def say(line: str) -> None:
    print(line, flush=True)


def must(true: bool, what: str) -> None:
    if not true:
        raise Wrong(what)


class Week:
    """The days, one after the other. fault, replace: what befalls a server, and what staff do to it."""

    def __init__(
        self, lab_dir: Path, operator: Operator, site: Site, planned: week_plan.Week, fault: Fault, replace: Replace
    ):
        self.operator, self.site, self.planned = operator, site, planned
        self.fault, self.replace = fault, replace
        self.machines = Machines(lab_dir)
        self.tags = self.machines.tags
        self.times = 0  # that the lemon has failed
        self.repeated = False  # whether a second run on the same day was looked at
        operator.check_after_kill = self._check_after_kill

    def run(self) -> None:
        say("day 1: bring-up")
        self.operator.run("ansible-playbook", "site.yml")
        self._all_ready(installed=self.tags)
        for number, failures in enumerate(self.planned.days, 2):
            told = ", ".join(f"{failure.host} {failure.fault}" for failure in failures)
            say(f"day {number}: {told or 'nothing fails'}")
            self._day(failures)
        say(f"day {len(self.planned.days) + 2}: no mirror, for all")
        self._no_mirror()
        while self.operator.owed:
            say(f"{self.operator.owed} kills are left")
            self.operator.run("ansible-playbook", "site.yml", "--flush-cache")
            self._all_ready(installed=())

    def _day(self, failures: tuple[Failure, ...]) -> None:
        for failure in failures:
            self.fault(failure.host, failure.fault, "on", failure.parameters)
        ill = {failure.host for failure in failures}
        expect = (MET, NOT_MET)
        self.operator.run("ansible-playbook", "site.yml", "--flush-cache", expect=expect)
        self._judge(failures)
        if (before := self.site.tickets()) and not self.repeated:
            self.operator.run("ansible-playbook", "site.yml", "--flush-cache", expect=expect)
            must(self.site.tickets() == before, "a second run has changed tickets though nothing has changed")
            self.repeated = True
        for failure in failures:
            if failure.part:
                self.replace(failure.host, failure.part)
                say(f"  {failure.host}: {failure.part} is replaced")
            self.fault(failure.host, failure.fault, "off", ())
            confirm = f"confirm={self.tags[failure.host]}"
            self.operator.run(
                "ansible-playbook", "playbooks/reprovision.yml", "-e", f"host={failure.host}", "-e", confirm,
                expect=(MET, NOT_MET), done=lambda name=failure.host: name in self.site.ready(),  # type: ignore[misc]
            )  # fmt: skip
        self._all_ready(installed=ill)
        left = [ticket["id"] for ticket in self.site.tickets() if ticket["host"] in ill]
        must(not left, f"open though their hosts are ready again: {left}")

    def _judge(self, failures: tuple[Failure, ...]) -> None:
        hosts, tickets = self.site.hosts(), self.site.tickets()
        for failure in failures:
            host = hosts[failure.host]
            must(host["state"] == "quarantined", f"{failure.host} has {failure.fault}, and is {host['state']}")
            symptoms = {finding["symptom"] for finding in host["reasons"]}
            must(failure.symptom in symptoms, f"{failure.host} has {failure.fault}; found is {sorted(symptoms)}")
            mine = [ticket for ticket in tickets if ticket["host"] == failure.host]
            if failure.fault != "gpu_lost":
                must(len(mine) == 1, f"{failure.host} has {len(mine)} open tickets")
                continue
            self.times += 1
            # power_cycle at first, which is no ticket; it did not last: reseat; the third time it is a lemon: replace
            actions = [ticket["action"] for ticket in mine]
            must(actions == [[], ["reseat"], ["replace"]][self.times - 1], f"failure {self.times}: tickets {actions}")
            is_lemon = self.planned.lemon in self.site.group("lemon")
            must(is_lemon == (self.times >= 3), f"failure {self.times}: in group lemon: {is_lemon}")
        ill = {failure.host for failure in failures}
        wrong = {name: host["state"] for name, host in hosts.items() if name not in ill and host["state"] != "ready"}
        must(not wrong, f"nothing was wrong with {wrong}")

    def _no_mirror(self) -> None:
        for name in self.tags:
            self.fault(name, MIRROR, "on", ())
        # hosts that have all packages do without it, until their lists are an hour old
        self.operator.run("ansible-playbook", "site.yml", expect=(MET, BROKEN))
        self._nobody_is_out()
        must(self.site.ready() == set(self.tags), f"ready are only {sorted(self.site.ready())}, for want of a mirror")
        self.operator.run("ansible-playbook", "playbooks/release.yml", "-e", "confirm=true", "-e", "release_all=true")
        printed = self.operator.run("ansible-playbook", "site.yml", expect=(BROKEN,))
        must("it is probably not the hosts" in printed, "the run broke, and the brake has not said so")
        self._nobody_is_out()
        for name in self.tags:
            self.fault(name, MIRROR, "off", ())
        self.operator.run("ansible-playbook", "site.yml")
        self._all_ready(installed=self.tags)

    def _nobody_is_out(self) -> None:
        states = {name: host["state"] for name, host in self.site.hosts().items()}
        must("quarantined" not in states.values(), f"the brake kept nobody from quarantine: {states}")
        must(not self.site.tickets(), f"tickets for what is not the hosts: {self.site.tickets()}")

    def _check_after_kill(self) -> None:
        self.site.check_ledger()
        ready = self.site.ready()
        must(not (lost := ready & self.machines.without_system()), f"ready, and without a system: {sorted(lost)}")
        must(not (hit := self.machines.written_data_drives()), f"written to, though its pool is to be kept: {hit}")

    def _all_ready(self, installed: Collection[str]) -> None:
        """installed: those hosts, and no others, once each since this was asked last."""
        self.site.check_ledger()
        must(not (hit := self.machines.written_data_drives()), f"written to, though its pool is to be kept: {hit}")
        times = self.machines.installed()
        must(
            times == Counter(list(installed)),
            f"installed {dict(times)} times; expected are {sorted(installed)} once each",
        )
        must(not (left := self.machines.on_their_way()), f"not deployed in MAAS: {left}")
        wrong = {name: host["state"] for name, host in self.site.hosts().items() if host["state"] != "ready"}
        must(not wrong, f"not ready: {wrong}")
