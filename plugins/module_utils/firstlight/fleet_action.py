"""What the fleet_* action plugins share: one call on the controller for all hosts of a play.

An action plugin instead of a task per host, because asking 500 BMCs or MAAS is one Python function, and because a
play that is limited with -l must still find its controller.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ansible import constants as C
from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

from . import fleetmetrics, report
from .bmc.pool import Target
from .credentials import DEFAULTS, ENVIRONMENT, KEY, Credential, Credentials
from .errors import FirstlightError, InputError
from .findings import Finding, blocking
from .ledger.history import history, weeks_before
from .ledger.store import Ledger
from .ledger.tickets import tickets
from .maas.client import MaasClient
from .maas.desired import site_tag
from .maas.hostkeys import KnownHosts
from .maas.statetags import keep
from .page import html
from .page.overview import WEEKS, overview
from .plainvalue import plain
from .policy.settings import Policy, load_policy
from .quarantine import Braked, all_are_out, settle
from .signals import PutOff
from .sitefiles import PlannedHost
from .stages import Admission, admit
from .tickets.now import hosts_now
from .tickets.plan import due
from .tickets.told import add_tickets

RUN_ID = "FIRSTLIGHT_RUN_ID"
LEDGER = "FIRSTLIGHT_LEDGER"  # set by the callback plugin; a throw-away copy in check mode
LATEST, CHECK_REPORT = "latest", "check"  # names of the report's files


def reports_folder(variables: Mapping[str, Any]) -> Path:
    """``reports_dir``, by default reports/ beside ansible.cfg."""
    base = Path(C.CONFIG_FILE).parent if C.CONFIG_FILE else Path.cwd()
    return base / str(variables.get("reports_dir") or "reports")


def ledger_of(variables: Mapping[str, Any]) -> str:
    """The URL of the site's ledger."""
    url = variables.get("ledger_url")
    if not url:
        raise InputError("ledger_url is not set; does the inventory have a *.redfish_bmc.yml with ledger: in it?")
    return str(plain(url))


def policy_of(variables: Mapping[str, Any]) -> Policy:
    """The site's policy; InputError, one line with file, line and key, where its file is wrong."""
    path = variables.get("policy_file")
    if not path or not Path(str(plain(path))).exists():
        return Policy()
    return load_policy(str(plain(path)))


def brake_is_on(variables: Mapping[str, Any]) -> bool:
    """Unless -e brake=false lets one run go on over it."""
    said = str(plain(variables.get("brake", True))).strip().lower()
    if said not in ("true", "false"):
        raise InputError(f"brake is {said!r}; true, or false to let this run go on over the brake")
    return said == "true"


def open_ledger(variables: Mapping[str, Any]) -> Ledger:
    """The site's ledger, as this run sees it."""
    run_id = os.environ.get(RUN_ID)
    return Ledger(os.environ.get(LEDGER) or ledger_of(variables), run_id=int(run_id) if run_id else None)


def write_report(ledger: Ledger, variables: Mapping[str, Any], judged: Iterable[str], *, check: bool) -> dict[str, Any]:
    """Build the report from the ledger and write it as text, JSON, page and metrics; returns it."""
    policy = policy_of(variables)
    fleet = plain(list(variables["groups"].get("fleet", [])))
    built = report.build(
        site=plain(variables.get("site", "")),
        stories=ledger.story(fleet),
        fleet_min_ready=policy.fleet_min_ready,
        spares=policy.spares,
        run=ledger.run(ledger.run_id) if ledger.run_id else None,
        judged=judged,
        fleet=fleet,
    )
    at = datetime.now(UTC)
    add_tickets(built, tickets(ledger, fleet, open_only=True), due(policy, hosts_now(ledger, policy, at, fleet), at))
    folder, name = reports_folder(variables), CHECK_REPORT if check else LATEST
    report.write(built, folder, name)
    machines = history(ledger, weeks_before(built["written"], WEEKS))
    html.write(overview(built, machines, ledger.values()), folder, name, check=check)
    if not check:  # what a dry run would come to is no state of the fleet
        fleetmetrics.write(built, folder, name)
    return built


class FleetAction(ActionBase):
    """Base of the run-once actions. A subclass implements ``work`` and returns the task's result."""

    BYPASS_HOST_LOOP = True  # one call for all hosts
    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_diff = True
    REPORTS = True  # writes the report at its end
    _credentials: Credentials | None = None
    _policy: Policy | None = None
    _signals = PutOff()

    def work(self) -> dict[str, Any]:
        raise NotImplementedError

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        self._signals.install()
        self.variables = task_vars or {}
        self.check = bool(self._task.check_mode)
        self.hosts: list[str] = plain(list(self.variables.get("ansible_play_hosts", [])))
        self._host_variables: dict[str, Mapping[str, Any]] = {}
        try:
            self.ledger = self.open_ledger()
            self._plan()
            result.update(self.work())
            if self.REPORTS:
                write_report(self.ledger, self.variables, self.run_hosts(), check=self.check)
        except FirstlightError as error:
            result.update(failed=True, msg=str(error))
        return result

    def open_ledger(self) -> Ledger:
        return open_ledger(self.variables)

    # -- what subclasses use --------------------------------------------------------------------------------------

    def host_variables(self, name: str) -> Mapping[str, Any]:
        if name not in self._host_variables:  # Ansible gathers them anew at each look-up: some milliseconds a host
            self._host_variables[name] = self.variables["hostvars"][name]
        return self._host_variables[name]

    def host_value(self, name: str, key: str, default: Any = None) -> Any:
        try:
            return plain(self.host_variables(name).get(key, default))
        except AnsibleError as error:  # a template that cannot be resolved
            raise InputError(f"{key} of {name}: {' '.join(str(error).split())}") from None

    def policy(self) -> Policy:
        """The site's policy, read once a task."""
        if self._policy is None:
            self._policy = policy_of({"policy_file": self.host_value(self.hosts[0], "policy_file")})
        return self._policy

    def value(self, key: str, default: Any = None) -> Any:
        """A site variable, or the secret of that name from the environment; templates are resolved by Ansible."""
        secret = os.environ.get(f"FIRSTLIGHT_{key.upper()}")
        return secret if secret else self.host_value(self.hosts[0], key, default)

    def needed(self, key: str, hint: str) -> Any:
        value = self.value(key)
        if value in (None, ""):
            raise InputError(f"{key} is not set; {hint}")
        return value

    def host_secret(self, name: str, key: str) -> str:
        """A secret of one host; for its BMC's login the most exact entry of bmc_credentials, see credentials.py."""
        if key in DEFAULTS:
            login = self._bmc_login(name)
            return login.username if key == "bmc_username" else login.password
        secret = os.environ.get(f"FIRSTLIGHT_{key.upper()}") or self.host_value(name, key)
        if not secret:
            raise InputError(f"{key} of {name} is not set; put it into group_vars/all/secrets.yml with ansible-vault")
        return str(secret)

    def versions_file(self) -> Path:
        return Path(self.value("versions_file") or Path(self.value("inventory_dir")) / "../versions.yml")

    def known_hosts(self, name: str) -> KnownHosts:
        """The file that SSH verifies this host by."""
        path = self.host_value(name, "known_hosts_file")
        if not path:
            raise InputError(f"known_hosts_file of {name} is not set; see inventory/example/group_vars/all/site.yml")
        return KnownHosts(path)

    def maas_client(self) -> MaasClient:
        return MaasClient(
            self.needed("maas_url", "name it as url: in the inventory's *.maas.yml"),
            self.needed("maas_api_key", "put it into group_vars/all/secrets.yml with ansible-vault"),
            self.value("maas_ca_file"),
        )

    def mirror_states(self, names: Iterable[str]) -> None:
        """These hosts' states as tags of their machines in MAAS, for a site that has one."""
        if self.value("maas_url") and self.value("maas_api_key"):
            mine = set(names)
            known = {name: state for name, state in self.ledger.states().items() if name in mine}
            for line in keep(self.maas_client, known, self.tell, site_tag(str(self.value("site", "") or ""))):
                self.tell(line)

    def bmc_target(self, name: str) -> Target:
        planned, login = self.planned(name), self._bmc_login(name)
        return Target(name, planned.bmc_address, planned.bmc_port, login.username, login.password)

    def _bmc_login(self, name: str) -> Credential:
        """Of the host's variables, which Ansible decrypted; nothing is written back to them."""
        if self._credentials is None:
            self._credentials = Credentials({KEY: self.host_value(self.hosts[0], KEY)}, "group_vars/all/secrets.yml")
        mine = {key: os.environ.get(ENVIRONMENT[key]) or self.host_value(name, key) for key in DEFAULTS}
        return self._credentials.of(name, self.planned(name).bmc_address, mine)

    def tell(self, line: str) -> None:
        """One line of progress on the screen."""
        with self._signals:
            self._display.display(line)

    def planned(self, name: str) -> PlannedHost:
        """The host as the fleet file has it."""
        return PlannedHost(**self.host_value(name, "planned"))

    def open_stage(self, stage: str) -> Admission:
        """Admit the play's hosts to a stage, note that they entered it, and say who stays out."""
        admission = admit(self.ledger, stage, self.hosts)
        self.ledger.begin_stage(stage, admission.admitted)
        if admission.left_out:
            reasons = Counter(admission.left_out.values())
            said = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
            self.tell(f"{stage}: {len(admission.admitted)} hosts go in; left out: {said}")
        return admission

    def close_stage(
        self,
        stage: str,
        findings: Mapping[str, list[Finding]],
        seconds: Mapping[str, float],
        keep: Mapping[str, Collection[str]] | None = None,
    ) -> str:
        """End a stage for these hosts; returns one line for the screen.

        keep: by host the checks that did not run, whose findings still hold. When no host of this run is in the stage
        any more, who fails is quarantined. Braked: so many fail that it is probably not the hosts.
        """
        passed = 0
        quarantines = self.policy().quarantines
        symptoms: Counter[str] = Counter()
        held_back = []
        for name, known in findings.items():
            well = self.ledger.end_stage(
                stage, name, known, seconds=seconds.get(name), keep=(keep or {}).get(name, ()), quarantines=quarantines
            )
            said_no = {f.symptom for f in blocking(known)}
            passed += well
            symptoms.update(said_no)
            held_back += [] if well or said_no else [name]
        for story in self.ledger.story(held_back):
            held = [f for f in story["findings"] if f["stage"] == stage and f["status"] in ("fail", "unknown")]
            symptoms.update({f"{f['symptom']} (found before)" for f in held})
        line = f"{stage}: {passed} of {len(findings)} passed"
        if symptoms:
            line += "; " + ", ".join(f"{count} {symptom}" for symptom, count in symptoms.most_common())
        self.tell(line)
        if all_are_out(self.ledger, stage):
            self._settle(stage)
        return line

    def _settle(self, stage: str) -> None:
        settled = settle(self.ledger, self.policy(), stage, brake_is_on=brake_is_on(self.variables))
        if settled.stop:
            raise Braked(settled.line())
        if settled.passed_over:
            self.tell(f"{stage}: {settled.passed_over.why}; the run goes on: brake=false")
        if settled.quarantined:
            did = "would quarantine" if self.check else "quarantined"
            self.tell(f"{stage}: {did} {len(settled.quarantined)}: {_named(settled.quarantined)}")

    def run_hosts(self) -> list[str]:
        """The planned hosts that this run was limited to, whether or not they are still in the play."""
        return plain(list(self.variables.get("ansible_play_hosts_all", self.hosts)))

    def _plan(self) -> None:
        names = [n for n in self.run_hosts() if self.host_value(n, "planned")]
        self.ledger.plan(self.value("site", "") or "", [self.planned(n) for n in names])


def _named(hosts: Iterable[str], most: int = 8) -> str:
    names = sorted(hosts)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
