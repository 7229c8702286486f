"""Remember a run: its start and end, what failed on hosts in between, its report and its exit status."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ansible import context
from ansible.errors import AnsibleError
from ansible.plugins.callback import CallbackBase
from ansible.template import Templar

from firstlight import report, rolefindings
from firstlight.errors import FirstlightError
from firstlight.findings import Finding
from firstlight.fleet.runs import FLEET_RUN
from firstlight.fleet_action import LEDGER, RUN_ID, brake_is_on, ledger_of, open_ledger, policy_of, write_report
from firstlight.health.answers import held_over
from firstlight.health.verdicts import STAGE as CHECKS_STAGE
from firstlight.ledger.claim import Claims, ServerClaims, claims_of
from firstlight.ledger.store import STAGES, Ledger, ledger_file, ledger_url
from firstlight.maas.client import MaasClient
from firstlight.maas.desired import site_tag
from firstlight.maas.statetags import keep
from firstlight.plainvalue import plain
from firstlight.policy.settings import Policy
from firstlight.progress.reasons import said_of
from firstlight.quarantine import kept_by_brake, settle, settle_left
from firstlight.signals import PutOff
from firstlight.sshreason import judge_unreachable
from firstlight.tickets.run import tell
from firstlight.workers import end_with_this_process

# plugins of ours whose failure comes with a finding
JUDGING = frozenset({"cloud_init_wait", "apt_plan", "role_findings"})

DOCUMENTATION = r"""
name: firstlight
type: notification
short_description: Notes runs, failed tasks and unreachable hosts in the ledger; gives the exit status
description:
  - Notes in the ledger when a run started, ended, broke or was stopped.
  - Turns a failed task or an unreachable host, in a play that has the variable C(stage), into a finding of that host.
  - Leaves C(reports/latest.*) however the run ends. What SIGKILL prevents was written at the last
    stage's end.
  - In a playbook with a C(report) play the exit status is 0 when C(fleet_min_ready) of the policy is met, 2 when not,
    1 when the run itself broke.
  - Quarantines who failed in a stage that no task closed, for all hosts together, or ends the run by the policy's brake
    (docs/policy.md); and makes good at its start what a run that was killed left undecided.
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
        self.maas: Callable[[], tuple[str, str, str | None] | None] = lambda: None
        self.before: dict[str, str] = {}  # states when the run began
        self.policy = Policy()
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
        end_with_this_process()  # claims end with it too, or with a worker that has some of its own
        self.playbook = Path(playbook._file_name).name
        stages = {play.vars.get("stage") for play in playbook.get_plays()}
        self.reports, self.works = "report" in stages, bool(stages & set(STAGES))

    def v2_playbook_on_play_start(self, play: Any) -> None:
        self.signals.check()
        before, self.stage = self.stage, play.vars.get("stage")
        if self._stops_after(before):
            return
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
        said = said_of(result._result)
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
            self._settle(self.stage)
            built = self._finish("broken" if self.broken else "done")
        if not self.reports or not (self.reported or self.broken or ran_out):
            return  # a playbook of one stage, or a run that --tags left without its report
        if self.unrecorded and not self.broken:
            return  # the ledger, and so the policy, does not know of that failure: Ansible's own status does
        if self.broken:
            self._show_broken(built)
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
        wanted = ("ledger_url", "reports_dir", "policy_file", "brake", "site")
        self.variables = {key: plain(templar.template(variables[key])) for key in wanted if key in variables}
        self.maas = partial(_maas_of, variables, templar)
        self.variables["groups"] = {"fleet": [h.name for h in fleet.get_hosts()]}
        known = set(self.variables["groups"]["fleet"])
        self.judged = [h.name for h in inventory.get_hosts(play.hosts) if h.name in known]  # within the limit
        self.policy = policy_of(self.variables)
        brake_is_on(self.variables)  # a wrong word is told before anything is done
        if context.CLIARGS.get("check"):
            self._use_a_copy()
        elif self.works and (claims := claims_of(ledger_of(self.variables))):
            self.claims = claims
            self.claims.take(self.judged)
        self.ledger = open_ledger(self.variables)
        if self.ledger.notice:
            self._display.display(self.ledger.notice)
        self.before = {name: state for name, state in self.ledger.states().items() if name in self.judged}
        os.environ[RUN_ID] = str(self.ledger.start_run(self.playbook, os.environ.get(FLEET_RUN, "")))
        Path(os.environ.get("FIRSTLIGHT_RUN_FILE", os.devnull)).write_text(os.environ[RUN_ID])  # scripts/fleet reads it
        if self.works and not self.scratch:
            for name, why in settle_left(self.ledger, self.policy, self.judged).items():
                self._display.display(f"{name}: quarantined for what a run that was stopped had found: {why}")
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

    def _settle(self, stage: str | None) -> bool:
        """Decide who is quarantined for this stage, where no task did; True when the brake stops the run."""
        if self.ledger is None or stage not in STAGES:
            return False
        try:
            settled = settle(self.ledger, self.policy, stage, brake_is_on=brake_is_on(self.variables))
        except FirstlightError as error:
            self._display.warning(str(error))
            return False
        if settled.stop:
            self._broke(f"{stage}: {settled.line()}")
        return settled.stop is not None

    def _stops_after(self, stage: str | None) -> bool:
        """End the run where the brake stops it; no later stage starts."""
        with self.signals:
            stops = self._settle(stage)
            built = self._finish("broken") if stops else None
        if stops:
            self._show_broken(built)
        return stops

    def _show_broken(self, built: dict[str, Any] | None) -> None:
        self._display.display(report.summary(built) if built else "", stderr=True)
        self._exit(1)

    def _broke(self, why: str) -> None:
        if not self.broken:
            self.broken = why
            self._display.error(f"the run broke: {why}")

    def _stopped(self) -> None:
        if self.ledger is not None and os.getpid() == self.pid:
            self._say_what_goes_on(self.ledger)
            self._settle(self.stage)
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
            built = write_report(ledger, self.variables, self.judged, check=self.scratch is not None)
            if self.works and self.scratch is None and not self.reported and outcome != "stopped":
                self._tickets(ledger)
                self._mirror_states(ledger)
            return built
        except FirstlightError as error:
            self._display.error(f"the report could not be written: {error}")
            return None
        finally:
            if self.scratch:
                shutil.rmtree(self.scratch, ignore_errors=True)

    def _tickets(self, ledger: Ledger) -> None:
        """Tell of tickets where no task did; not of hosts that the brake kept from quarantine."""
        try:
            stopped = kept_by_brake(ledger, self.judged)
            problems = tell(ledger, self.variables, self.policy, check=False, names=self.judged, stopped=stopped)
        except FirstlightError as error:
            problems = [f"tickets: {error}"]
        for problem in problems:
            self._display.warning(problem)

    def _mirror_states(self, ledger: Ledger) -> None:
        """As tags in MAAS, where no task did, and where this run has changed a state."""
        states = {name: state for name, state in ledger.states().items() if name in self.judged}
        if states == self.before or (maas := self.maas()) is None:
            return
        site = site_tag(str(self.variables.get("site") or ""))
        for line in keep(partial(MaasClient, *maas), states, self._display.display, site):
            self._display.display(line)

    def _exit(self, status: int) -> None:
        """Ansible offers no other way to set its exit status: at its last event, or at the first for a wrong start."""
        sys.exit(status)


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


def _maas_of(variables: Mapping[str, Any], templar: Templar) -> tuple[str, str, str | None] | None:
    """Address, key and CA file of the site's MAAS; None where it has none, or where its key cannot be read."""
    try:
        url, key, ca_file = (
            os.environ.get(f"FIRSTLIGHT_{name.upper()}") or plain(templar.template(variables.get(name)))
            for name in ("maas_url", "maas_api_key", "maas_ca_file")
        )
    except AnsibleError:
        return None
    return (str(url), str(key), str(ca_file) if ca_file else None) if url and key else None
