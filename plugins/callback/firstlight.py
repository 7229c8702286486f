"""Remember a run: its start and end, what failed on hosts in between, its report and its exit status."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible import context
from ansible.errors import AnsibleError
from ansible.plugins.callback import CallbackBase
from ansible.template import Templar

from firstlight import report, rolefindings
from firstlight.errors import FirstlightError
from firstlight.findings import Finding
from firstlight.fleet_action import LEDGER, RUN_ID, ledger_of, open_ledger, write_report
from firstlight.health.answers import held_over
from firstlight.health.verdicts import STAGE as CHECKS_STAGE
from firstlight.ledger.claim import Claims, ServerClaims, claims_of
from firstlight.ledger.store import STAGES, Ledger, ledger_file, ledger_url
from firstlight.plainvalue import plain
from firstlight.signals import PutOff
from firstlight.sshreason import judge_unreachable

JUDGING = frozenset({"cloud_init_wait"})  # action plugins of ours whose failure comes with a finding

DOCUMENTATION = r"""
name: firstlight
type: notification
short_description: Notes runs, failed tasks and unreachable hosts in the ledger; gives the exit status
description:
  - Notes in the ledger when a run started, ended, broke or was stopped.
  - Turns a failed task or an unreachable host, in a play that has the variable C(stage), into a finding of that host.
  - Leaves C(reports/latest.*) however the run ends. What SIGKILL prevents was written at the last
    stage's end.
  - In a playbook with a C(report) play the exit status is 0 when C(fleet_min_ready) is met, 2 when not, 1 when
    the run itself broke.
  - One run at a time works on a host - a run that wants a host of another one ends before it begins.
  - In check mode everything is noted in a copy of the ledger that is thrown away, and the report is C(check.json).
    The exit status then is 0 when enough hosts are ready, or have nothing against them but stages that are to come.
requirements: [enabled in callbacks_enabled]
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "firstlight"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.ledger: Ledger | None = None
        self.variables: dict[str, Any] = {}
        self.stage: str | None = None
        self.playbook = ""
        self.reports = False  # has the playbook a report play
        self.reported = False
        self.broken = ""
        self.unrecorded = False  # a task failed on a host that was not in its stage
        self.judged: list[str] = []
        self.scratch: str | None = None
        self.claims: Claims | ServerClaims | None = None
        self.works = False  # on hosts: has the playbook a stage
        self.releases = False  # a release is going on
        self.pid = os.getpid()
        self.signals = PutOff()
        self.collects: Any = None  # the variables, in a play whose roles hand over their findings

    # -- what Ansible tells ---------------------------------------------------------------------------------------

    def v2_playbook_on_start(self, playbook: Any) -> None:
        self.playbook = Path(playbook._file_name).name
        stages = {play.vars.get("stage") for play in playbook.get_plays()}
        self.reports, self.works = "report" in stages, bool(stages & set(STAGES))

    def v2_playbook_on_play_start(self, play: Any) -> None:
        self.signals.check()
        self.stage = play.vars.get("stage")
        self.collects = play.get_variable_manager() if play.vars.get(rolefindings.COLLECTED) else None
        if self.stage and self.ledger is None and not self.broken:
            try:
                with self.signals:
                    self._start(play)
            except (FirstlightError, AnsibleError) as error:
                self._broke(_one_line(error))
                if self.scratch:
                    shutil.rmtree(self.scratch, ignore_errors=True)
                self._exit(1)  # before anything is done

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        self.signals.check()
        self.releases = task.action == "fleet_release" and not context.CLIARGS.get("check")
        if self.releases:
            atexit.register(self._say_what_is_released)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self.releases = False
        task = result._task
        if ignore_errors or self.ledger is None or _has_rescue(task):
            return
        said = _said(result._result)
        if task.action.startswith("fleet_"):
            self._broke(f"{self.stage}: {said}")
            return
        known = result._result.get("findings") if task.action in JUDGING else None
        if known:
            finding = Finding.from_dict(known[0])
            self._failed(result._host, finding.symptom, finding.evidence, finding.action, finding.locator)
            return
        evidence = f"{task.get_name().strip()}: {said}"
        self._failed(result._host, f"{self.stage}.task_failed", evidence, "retry")

    def v2_runner_on_unreachable(self, result: Any) -> None:
        if self.ledger is not None:
            reason = judge_unreachable(str(result._result.get("msg", "no message")))
            where = f"SSH at {plain(result._host.vars.get('ansible_host') or result._host.get_name())}"
            self._failed(result._host, reason.symptom, reason.evidence, reason.action, where)

    def v2_runner_on_ok(self, result: Any) -> None:
        self.releases = False
        if result._task.action == "fleet_report":
            self.reported = True

    def v2_playbook_on_stats(self, stats: Any) -> None:
        if self.ledger is None:
            if self.broken and self.reports:
                self._exit(1)
            return
        self.signals.check()
        ran_out = bool(stats.dark or stats.failures) and not self.reported and _report_is_asked_for()
        with self.signals:
            built = self._finish("broken" if self.broken else "done")
        if not self.reports or not (self.reported or self.broken or ran_out):
            return  # a playbook of one stage, or a run that --tags left without its report
        if self.unrecorded and not self.broken:
            return  # the ledger, and so the policy, does not know of that failure: Ansible's own status does
        if self.broken:
            self._display.display(report.summary(built) if built else "", stderr=True)
            self._exit(1)
        if built and not self.reported:
            self._display.display(report.text(built, width=max(120, shutil.get_terminal_size((150, 24)).columns)))
        met = built and (built["policy"]["met"] or (self.scratch and report.could_be_met(built, self.judged)))
        self._exit(0 if met else 2)

    # -- the run --------------------------------------------------------------------------------------------------

    def _start(self, play: Any) -> None:
        manager = play.get_variable_manager()
        inventory = manager._inventory
        fleet = inventory.groups.get("fleet")
        host = fleet.get_hosts()[0] if fleet and fleet.get_hosts() else None
        if host is None:
            return
        variables = manager.get_vars(play=play, host=host)
        templar = Templar(loader=play.get_loader(), variables=variables)
        wanted = ("ledger_url", "reports_dir", "fleet_min_ready", "site")
        self.variables = {key: plain(templar.template(variables[key])) for key in wanted if key in variables}
        self.variables["groups"] = {"fleet": [h.name for h in fleet.get_hosts()]}
        self.judged = [h.name for h in inventory.get_hosts("fleet")]  # within the limit
        if context.CLIARGS.get("check"):
            self._use_a_copy()
        elif self.works and (claims := claims_of(ledger_of(self.variables))):
            self.claims = claims
            self.claims.take(self.judged)
        self.ledger = open_ledger(self.variables)
        if self.ledger.notice:
            self._display.display(self.ledger.notice)
        os.environ[RUN_ID] = str(self.ledger.start_run(self.playbook))
        atexit.register(self._stopped)
        before = signal.getsignal(signal.SIGTERM)

        def terminated(number: int, frame: Any) -> None:
            self._stopped()
            if callable(before):
                before(number, frame)

        signal.signal(signal.SIGTERM, terminated)
        self.signals.install()
        self.signals.keep_what_is_lost()

    def _use_a_copy(self) -> None:
        self.scratch = tempfile.mkdtemp(prefix="firstlight-check-")
        url = ledger_url(str(Path(self.scratch) / "ledger.sqlite"))
        real = ledger_of(self.variables)
        file = ledger_file(real)
        if file is None or file.exists():  # else nothing has run yet, and nothing is written here
            Ledger(real, create=False).copy_to(Ledger(url))
        os.environ[LEDGER] = url

    def _failed(self, of: Any, symptom: str, evidence: str, action: str, locator: str = "") -> None:
        host = of.get_name()
        if self.ledger is not None and self.stage and host in self.variables["groups"]["fleet"]:
            finding = Finding(self.stage, "fail", symptom, locator, evidence, action)
            try:
                with self.signals:
                    # Only of hosts in the stage: with --tags or --start-at-task tasks meet others too.
                    if self.stage in STAGES and self.ledger.begun(self.stage, [host], ended=True):
                        # what only the long checks look at holds on, though this time nothing was looked at
                        keep = held_over() if self.stage == CHECKS_STAGE else ()
                        self.ledger.end_stage(self.stage, host, [finding, *self._found(of)], keep=keep)
                    else:
                        self.unrecorded = True
            except FirstlightError as error:
                self._display.warning(str(error))

    def _found(self, host: Any) -> list[Finding]:
        """What roles had found of the host before a task failed: it leaves with all of it."""
        if self.collects is None:
            return []
        facts = plain(self.collects.get_vars(host=host).get("ansible_facts") or {})
        return rolefindings.readable(facts.get(rolefindings.FACT))

    def _broke(self, why: str) -> None:
        if not self.broken:
            self.broken = why
            self._display.error(f"the run broke: {why}")

    def _stopped(self) -> None:
        if self.ledger is not None and os.getpid() == self.pid:
            self._say_what_goes_on(self.ledger)
            self._finish("stopped")

    def _say_what_goes_on(self, ledger: Ledger) -> None:
        """MAAS goes on with what it was asked for; the action that asked was ended before it could say so."""
        if self.stage != "install" or self.scratch:
            return
        try:
            begun = ledger.begun("install", self.judged)
        except FirstlightError:
            return
        if begun:
            self._display.display(
                f"interrupted: {len(begun)} hosts were in the install stage; machines that MAAS has begun with go on "
                "installing; run install again to follow them",
                stderr=True,
            )

    def _say_what_is_released(self) -> None:
        if self.releases and os.getpid() == self.pid:
            self._display.display(
                "interrupted: machines that MAAS has begun with go on being released; run release again to follow them",
                stderr=True,
            )

    def _finish(self, outcome: str) -> dict[str, Any] | None:
        """Close the run and write the report a last time; once."""
        ledger, self.ledger = self.ledger, None
        if ledger is None or ledger.run_id is None:
            return None
        try:
            ledger.end_run(ledger.run_id, outcome, self.broken)
            return write_report(ledger, self.variables, self.judged, check=self.scratch is not None)
        except FirstlightError as error:
            self._display.error(f"the report could not be written: {error}")
            return None
        finally:
            if self.scratch:
                shutil.rmtree(self.scratch, ignore_errors=True)

    def _exit(self, status: int) -> None:
        """Ansible offers no other way to set its exit status: at its last event, or at the first for a wrong start."""
        sys.exit(status)


def _said(result: Mapping[str, Any]) -> str:
    """Why a task failed: of a loop what its first failed item says, of a command what it printed last."""
    items = result.get("results")
    for item in items if isinstance(items, list) else ():
        if isinstance(item, Mapping) and item.get("failed"):
            named = item.get("item")
            return f"{named}: {_why(item)}" if isinstance(named, str) else _why(item)
    return _why(result)


def _why(result: Mapping[str, Any]) -> str:
    message = str(result.get("msg") or "")
    if message in ("", "non-zero return code"):
        printed = (str(result.get(name) or "").strip() for name in ("stderr", "stdout"))
        last = next((text.splitlines()[-1] for text in printed if text), "")
        code = f"exit status {result['rc']}" if message and "rc" in result else message
        message = ": ".join(part for part in (code, last) if part)
    return message or "no message"


def _one_line(error: BaseException) -> str:
    """The error's text, and for one of Ansible's own the file and line, which it shows apart."""
    said = " ".join(str(error).split())
    cause: BaseException | None = error
    while cause is not None:  # a vars plugin raises anew what it met
        if origin := re.match(r"Origin: (.+)", getattr(cause, "_formatted_source_context", None) or ""):
            return f"{origin[1]}: {said}"
        cause = cause.__cause__ or cause.__context__
    return said


def _report_is_asked_for() -> bool:
    """Whether --tags and --skip-tags leave the report in the run."""
    wanted, skipped = set(context.CLIARGS.get("tags") or ["all"]), set(context.CLIARGS.get("skip_tags") or [])
    return not wanted.isdisjoint({"all", "tagged", "report"}) and "report" not in skipped


def _has_rescue(task: Any) -> bool:
    parent = getattr(task, "_parent", None)
    while parent is not None:
        if getattr(parent, "rescue", None):
            return True
        parent = getattr(parent, "_parent", None)
    return False
