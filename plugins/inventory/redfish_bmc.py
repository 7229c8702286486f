"""Inventory plugin redfish_bmc: the planned fleet, and what its BMCs say."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

from ansible import context
from ansible.errors import AnsibleError, AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible.utils.vars import load_extra_vars

try:
    from firstlight.bmc.discover import Target, discover
    from firstlight.bmc.hardware import Record
    from firstlight.bmc.hostvars import host_groups, host_variables
    from firstlight.bmc.kept import Kept, Rules, must_ask
    from firstlight.bmc.known import group_name, limited_to, not_asked
    from firstlight.bmc.progress import Progress
    from firstlight.credentials import ENVIRONMENT, Credentials
    from firstlight.errors import FirstlightError, InputError
    from firstlight.inventory_error import Refusal
    from firstlight.secretsfile import read_secrets
    from firstlight.sitefiles import PlannedHost, load_fleet, load_profiles

    MISSING_LIBRARY = ""
except ImportError as error:
    MISSING_LIBRARY = str(error)
    FirstlightError = AnsibleError

DOCUMENTATION = r"""
name: redfish_bmc
author: Firstlight contributors
short_description: The planned fleet, with what each server's BMC says over Redfish
description:
  - Every host of the fleet file is in the inventory, whether its BMC answers or not.
  - All BMCs are asked at once. A BMC that fails costs its own O(host_deadline) and nobody else's time.
  - A refused password is not tried again, and a BMC that was asked less than O(fresh_seconds) ago is not asked again
    in any way, because three wrong passwords in a minute make an iDRAC block the address that they came from.
  - What the BMCs said is kept in the inventory cache. A BMC that fails later keeps its last good hardware, marked
    stale, with its new condition. Runs at the same time on one machine add to what the others keep; of two records of
    a host the later one counts.
  - "Groups: C(fleet), and below it C(rack_NAME); C(profile_NAME); C(bmc_ok), and C(bmc_failed) with
    C(bmc_CONDITION) below it; C(bmc_not_asked); C(state_NAME); C(golden) and C(lemon), always there, by the ledger's
    past and the policy."
  - "Variables of a host: C(planned) (its row of the fleet file), C(bmc_address), C(bmc_port), C(rack), C(unit),
    C(service_tag), C(profile) (the whole profile), C(pxe_mac), C(bmc_condition), C(bmc_record), C(bmc_previous)
    (the last good record before its parts changed, for 30 days), C(ledger_state).
    Variables of the group C(fleet): C(site), C(ledger_url), C(policy_file), C(bmc_ca_file)."
  - The name of the file must end in C(redfish_bmc.yml) or C(redfish_bmc.yaml).
extends_documentation_fragment:
  - constructed
  - inventory_cache
options:
  plugin:
    description: Marks the file as one for this plugin.
    type: str
    required: true
    choices: [redfish_bmc]
  fleet:
    description:
      - The fleet file, YAML or, with a name that ends in C(.csv), a table.
      - Relative paths, here and below, start at the folder of this file.
    type: str
    default: fleet.yml
  profiles:
    description: The folder of profiles.
    type: str
    required: true
  ca_file:
    description: PEM file of the CA that signed the BMCs' certificates, which are always verified.
    type: str
    required: true
  secrets:
    description:
      - YAML file, usually vaulted, that holds C(bmc_username) and C(bmc_password).
      - "Where they differ, C(bmc_credentials) beside them: a list of C({addresses: 10.10.1.0/24, username: ...,
        password: ...}), where C(addresses) is a network, a first and last address (C(10.10.1.11-10.10.1.18)) or one
        address, or C({host: NAME, username: ..., password: ...}). The most exact entry wins."
    type: str
    default: group_vars/all/secrets.yml
  username:
    description: User name on the BMCs. Overrides C(bmc_username) in O(secrets).
    type: str
    env:
      - name: FIRSTLIGHT_BMC_USERNAME
  password:
    description: Password on the BMCs. Overrides C(bmc_password) in O(secrets). Do not write it here, unless vaulted.
    type: str
    env:
      - name: FIRSTLIGHT_BMC_PASSWORD
  ledger:
    description:
      - The ledger, an SQLite file or an SQLAlchemy URL; tells each host's state. Without it, or while the file does
        not exist, every host is C(planned).
    type: str
  policy:
    description:
      - The site's policy, see docs/policy.md. Where the file is not there, its defaults hold.
      - A wrong one ends a run at its start. Until then nobody is C(golden) or a C(lemon), which a warning says.
    type: str
    default: policy.yml
  refresh:
    description:
      - Whom to ask. V(never) asks nobody and tells what the cache holds. V(missing) asks the BMCs of which nothing
        good is known, or nothing since O(cache_timeout), and everyone after C(meta=refresh_inventory) and with
        C(--flush-cache). V(always) asks everyone each time that the inventory is read.
      - "Everyone is whom C(--limit) can mean, when it names hosts of the fleet, C(rack_NAME), C(profile_NAME) or
        C(state_NAME). The other BMCs are not asked then: hosts outside the limit have what is known of them, or the
        condition C(not_asked). Patterns and other groups may mean anyone, then everyone is asked."
    type: str
    choices: [never, missing, always]
    default: missing
  fresh_seconds:
    description: A BMC that was asked less than so many seconds ago is not asked again.
    type: int
    default: 60
  retry:
    description: Ask a BMC that failed again, with O(refresh=missing), when that is O(fresh_seconds) or more ago.
    type: bool
    default: true
  workers:
    description: How many BMCs to ask at a time. Above 100, healthy ones were seen to look unreachable.
    type: int
    default: 64
  host_deadline:
    description: How many seconds each BMC has for everything.
    type: float
    default: 30
  progress_seconds:
    description: When asking takes longer than this, say so often how far it is.
    type: float
    default: 5
"""

EXAMPLES = r"""
---
# mysite.redfish_bmc.yml, beside fleet.yml
plugin: redfish_bmc
fleet: fleet.yml
profiles: ../profiles
ca_file: bmc-ca.pem
ledger: /var/lib/firstlight/ledger.sqlite

---
# the same with groups of one's own, and a slower network
plugin: redfish_bmc
profiles: ../profiles
ca_file: bmc-ca.pem
host_deadline: 60
keyed_groups:
  - key: bmc_record.hardware.firmware.bmc
    prefix: idrac
groups:
  powered_off: (bmc_record.hardware.power_state | default('')) == 'Off'
"""

SUFFIXES = ("redfish_bmc.yml", "redfish_bmc.yaml")

# What this process learnt, by cache key: protects BMCs from being asked twice in one run also without a cache.
_learnt: dict[str, dict[str, Any]] = {}


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    """See DOCUMENTATION."""

    NAME = "redfish_bmc"

    def verify_file(self, path: str) -> bool:
        return bool(super().verify_file(path)) and str(path).endswith(SUFFIXES)

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        try:
            self.read_site(inventory, loader, path, cache)
            states, grades = self._past()
            # playbooks/reprovision.yml and others take the one host that they are for as a variable
            named = str(load_extra_vars(loader).get("host") or "")
            limit = limited_to(context.CLIARGS.get("subset") or named, self.fleet, states)
            records = self.records(use_cache=cache, limit=limit)
            self._fill(records, states, grades)
        except FirstlightError as error:
            raise Refusal(str(error)) from None

    def read_site(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        """Read the options, the fleet and the profiles; asks nobody. FirstlightError when they are wrong."""
        super().parse(inventory, loader, path, cache)
        if MISSING_LIBRARY:
            raise AnsibleParserError(
                f"{MISSING_LIBRARY}: the library is not installed for this Python; run pip install -r requirements.txt"
            )
        config = self._read_config_data(path)
        self.path = Path(_plain(path)).resolve()
        unknown = sorted(set(map(_plain, config)) - set(self._options))
        if unknown:
            known = ", ".join(sorted(self._options))
            raise InputError(f"unknown option {unknown[0]!r}; known are {known}", str(self.path))
        self.profiles = load_profiles(self._path_option("profiles"))
        self.fleet = load_fleet(self._path_option("fleet"), self.profiles)
        self.key = self.get_cache_key(path)
        cached = bool(self.get_option("cache"))
        expire = self.get_option("cache_timeout") if cached else 0
        self.rules = Rules(self.get_option("fresh_seconds"), bool(self.get_option("retry")), expire)
        self.kept = Kept(
            self.fleet,
            self.path,
            self._load if cached else None,
            self._save,
            learnt=_learnt.setdefault(self.key, {}),
            warn=lambda line: self.display.warning(f"redfish_bmc: {line}"),
        )

    # -- asking -------------------------------------------------------------------------------------------------------

    def records(
        self,
        use_cache: bool = True,
        limit: set[str] | None = None,
        refresh: str | None = None,
        on_record: Any = None,
    ) -> dict[str, Record]:
        """A record of every host: what is known where that will do, else what its BMC says now.

        limit: ask at most these. refresh: instead of the option of that name; "now" asks also those that were asked a
        moment ago, but for those that refused the password then.
        """
        flushed = bool(context.CLIARGS.get("flush_cache")) and not use_cache and not self.kept.learnt
        refresh = refresh or ("flush" if flushed else self.get_option("refresh"))
        # Also when the cache is flushed: whoever does not answer then keeps its last good hardware.
        known = self.kept.read()
        asked = [
            host
            for host in self.fleet.hosts
            if (limit is None or host.name in limit) and must_ask(known.get(host.name), self.rules, refresh, use_cache)
        ]
        if asked:
            known = self.kept.add(self._ask(asked, on_record))
        why = "refresh is never" if refresh == "never" else "it is outside the limit"
        return {host.name: known.get(host.name) or not_asked(host.name, why) for host in self.fleet.hosts}

    def _ask(self, hosts: list[PlannedHost], on_record: Any) -> dict[str, Record]:
        targets = self.targets(hosts)
        tell = self._tell if on_record is None else lambda line: None
        with Progress(len(targets), tell, self.get_option("progress_seconds")) as progress:

            def keep(record: Record) -> None:
                progress.add(record)
                if on_record:
                    on_record(record)

            answers = discover(
                targets,
                ca_file=self.ca_file(),
                workers=max(1, self.get_option("workers")),
                deadline=max(1.0, self.get_option("host_deadline")),
                on_record=keep,
            )
        self.display.vv(f"redfish_bmc: {progress.line()}")
        return answers

    def would_ask(self, record: Record) -> bool:
        """Whether refresh "now" asks this host."""
        return must_ask(record, self.rules, "now")

    def ca_file(self) -> str:
        return str(self._path_option("ca_file"))

    def _tell(self, line: str) -> None:
        """On the error stream: what ansible-inventory prints on the other one is read by programs."""
        self.display.display(f"redfish_bmc: {line}", stderr=True)

    def targets(self, hosts: list[PlannedHost]) -> list[Target]:
        """Where and how to log in. The passwords stay here: no host variable ever holds one."""
        given = {f"bmc_{name}": _plain(self.get_option(name) or "") for name in ("username", "password")}
        path = self._path_option("secrets")
        secrets: dict[str, Any] = {}
        if not all(given.values()) or path.exists():
            secrets = read_secrets(path, self.loader, " and ".join(ENVIRONMENT.values()))
        credentials = Credentials(secrets, str(path))
        credentials.refuse_unknown_hosts(host.name for host in self.fleet.hosts)
        targets = []
        for host in hosts:
            login = credentials.of(host.name, host.bmc_address, given)
            targets.append(Target(host.name, host.bmc_address, host.bmc_port, login.username, login.password))
        return targets

    def _load(self) -> Any:
        """What the cache holds now, also after refresh_inventory, whose parse(cache=False) means: do not go by it."""
        self.load_cache_plugin()  # what an open one has read it does not read again
        try:
            return self._cache.get(self.key)
        except (AnsibleError, KeyError, TypeError, ValueError):
            return None  # damaged; asking everyone makes it anew

    def _save(self, content: dict[str, Any]) -> None:
        self._cache[self.key] = content
        self.update_cache_if_changed()  # now, under the lock of kept, not when Ansible does

    # -- telling ------------------------------------------------------------------------------------------------------

    def _past(self) -> tuple[dict[str, str], dict[str, str]]:
        """Each host's state by name, and golden or lemon of those that are; as the ledger has it, {} without one."""
        url = self._ledger_url()
        if not url:
            return {}, {}
        from firstlight.ledger.store import Ledger  # half a second that a site without a ledger need not wait

        prefix = "sqlite:///"
        if url.startswith(prefix) and not Path(url.removeprefix(prefix)).exists():
            return {}, {}  # the first run writes it; reading an inventory does not
        ledger = Ledger(url, create=False)
        if ledger.is_new():
            return {}, {}  # a database that was made for it, before the first run
        states = dict(ledger.states())
        try:
            return states, self._grades(ledger)
        except InputError as error:
            self.display.warning(f"redfish_bmc: {error}; the groups golden and lemon are empty")
            return states, {}

    def _grades(self, ledger: Any) -> dict[str, str]:
        from firstlight.policy.grades import grades
        from firstlight.policy.settings import Policy, load_policy

        path = self._path_option("policy")
        return grades(ledger, load_policy(path) if path.exists() else Policy())

    def _ledger_url(self) -> str | None:
        option = self.get_option("ledger")
        if not option:
            return None
        from firstlight.ledger.store import ledger_url

        text = _plain(option)
        return str(ledger_url(text if "://" in text else str(Path(text).expanduser()), self.path.parent))

    def _fill(self, records: dict[str, Record], states: dict[str, str], grades: dict[str, str]) -> None:
        add, fleet, profiles = self.inventory, self.fleet, self.profiles
        for group in ("fleet", "bmc_ok", "bmc_failed", "golden", "lemon"):
            add.add_group(group)
        add.set_variable("fleet", "site", _plain(fleet.site))
        add.set_variable("fleet", "bmc_ca_file", self.ca_file())
        add.set_variable("fleet", "profiles_folder", str(self._path_option("profiles")))
        add.set_variable("fleet", "policy_file", str(self._path_option("policy")))
        url = self._ledger_url()
        if url:
            add.set_variable("fleet", "ledger_url", url)
        plain_profiles = {name: dataclasses.asdict(profile) for name, profile in profiles.items()}
        for host in fleet.hosts:
            record = records[host.name]
            state = states.get(host.name, "planned")
            add.add_host(host.name)
            for group, parent in host_groups(host, record, state, grades.get(host.name, "")):
                self._group(group, host.name, parent)
            previous = self.kept.previous.get(host.name)
            variables = host_variables(host, record, profiles[host.profile], previous)
            variables |= {"profile": plain_profiles[host.profile], "ledger_state": state}
            for name, value in variables.items():
                add.set_variable(host.name, name, value)
            self._construct(host.name, variables)

    def _group(self, name: str, host: str, parent: str) -> None:
        group = self.inventory.add_group(group_name(name))
        self.inventory.add_child(group, host)
        if parent:
            self.inventory.add_child(parent, group)

    def _construct(self, host: str, variables: dict[str, Any]) -> None:
        strict = self.get_option("strict")
        if self.get_option("compose"):
            self._set_composite_vars(self.get_option("compose"), variables, host, strict=strict)
        if self.get_option("groups"):
            self._add_host_to_composed_groups(self.get_option("groups"), variables, host, strict=strict)
        if self.get_option("keyed_groups"):
            self._add_host_to_keyed_groups(self.get_option("keyed_groups"), variables, host, strict=strict)

    def _path_option(self, name: str) -> Path:
        joined = self.path.parent / Path(_plain(self.get_option(name))).expanduser()
        return Path(os.path.normpath(joined))


def _plain(value: Any) -> str:
    """Text without Ansible's wrappers: libraries get what they expect, and nothing is a template."""
    return str.__str__(value) if isinstance(value, str) else str(value)
