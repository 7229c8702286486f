"""Inventory plugin redfish_bmc: the planned fleet, and what its BMCs say."""

from __future__ import annotations

import dataclasses
import datetime
import os
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

from ansible import context
from ansible.errors import AnsibleError, AnsibleParserError
from ansible.parsing.vault import AnsibleVaultError
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable

try:
    from firstlight.bmc.discover import Target, discover
    from firstlight.bmc.hardware import Record
    from firstlight.bmc.judge_rest import pxe_nic
    from firstlight.errors import FirstlightError, InputError
    from firstlight.inventory_error import Refusal
    from firstlight.profile import Profile
    from firstlight.sitefiles import Fleet, PlannedHost, load_fleet, load_profiles

    MISSING_LIBRARY = ""
except ImportError as error:
    MISSING_LIBRARY = str(error)

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
    stale, with its new condition.
  - "Groups: C(fleet), and below it C(rack_NAME); C(profile_NAME); C(bmc_ok), and C(bmc_failed) with
    C(bmc_CONDITION) below it; C(state_NAME)."
  - "Variables of a host: C(planned) (its row of the fleet file), C(bmc_address), C(bmc_port), C(rack), C(unit),
    C(service_tag), C(profile) (the whole profile), C(pxe_mac), C(bmc_condition), C(bmc_record), C(ledger_state).
    Variables of the group C(fleet): C(site), C(ledger_url), C(bmc_ca_file)."
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
    description: The fleet file. Relative paths, here and below, start at the folder of this file.
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
    description: YAML file, usually vaulted, that holds C(bmc_username) and C(bmc_password).
    type: str
    default: group_vars/all/secrets.yml
  username:
    description: User name on the BMCs. Overrides the one in O(secrets).
    type: str
    env:
      - name: FIRSTLIGHT_BMC_USERNAME
  password:
    description: Password on the BMCs. Overrides the one in O(secrets). Do not write it here, unless vaulted.
    type: str
    env:
      - name: FIRSTLIGHT_BMC_PASSWORD
  ledger:
    description:
      - The ledger, an SQLite file or an SQLAlchemy URL; tells each host's state. Without it, or while the file does
        not exist, every host is C(planned).
    type: str
  refresh:
    description:
      - Whom to ask. V(never) asks nobody and tells what the cache holds. V(missing) asks the BMCs of which nothing
        good is known, and everyone after C(meta=refresh_inventory) and with C(--flush-cache). V(always) asks everyone
        each time that the inventory is read.
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

CACHE_VERSION = 1
SUFFIXES = ("redfish_bmc.yml", "redfish_bmc.yaml")

# What this process learnt, by cache key: protects BMCs from being asked twice in one run also without a cache.
_learnt: dict[str, dict[str, Any]] = {}


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    """See DOCUMENTATION."""

    NAME = "redfish_bmc"

    def verify_file(self, path: str) -> bool:
        return bool(super().verify_file(path)) and str(path).endswith(SUFFIXES)

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
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
            raise Refusal(f"{self.path}: unknown option {unknown[0]!r}; known are {known}")
        try:
            profiles = load_profiles(self._path_option("profiles"))
            fleet = load_fleet(self._path_option("fleet"), profiles)
            key = self.get_cache_key(path)
            records = self._records(fleet, key, use_cache=cache)
            self._fill(fleet, profiles, records, self._states())
        except FirstlightError as error:
            raise Refusal(str(error)) from None

    # -- asking -------------------------------------------------------------------------------------------------------

    def _records(self, fleet: Fleet, key: str, use_cache: bool) -> dict[str, Record]:
        """A record of every host: what is known where that will do, else what its BMC says now."""
        known = self._known(fleet, key, use_cache)
        asked = [host for host in fleet.hosts if self._must_ask(known.get(host.name), use_cache)]
        if asked:
            started = time.monotonic()
            username, password = self._credential("username"), self._credential("password")
            answers = discover(
                [Target(h.name, h.bmc_address, h.bmc_port, username, password) for h in asked],
                ca_file=str(self._path_option("ca_file")),
                workers=max(1, self.get_option("workers")),
                deadline=max(1.0, self.get_option("host_deadline")),
            )
            for name, record in answers.items():
                known[name] = _merge(record, known.get(name))
            counts = ", ".join(f"{n} {c}" for c, n in Counter(r.condition for r in answers.values()).most_common())
            self.display.vv(f"redfish_bmc: asked {len(asked)} BMCs in {time.monotonic() - started:.1f} s: {counts}")
            self._keep(fleet, key, known)
        nobody = Record("", "unreachable", "not asked yet: refresh is never", "", 0.0)
        return {host.name: known.get(host.name) or nobody for host in fleet.hosts}

    def _known(self, fleet: Fleet, key: str, use_cache: bool) -> dict[str, Record]:
        """Records from the cache, and from earlier in this run; those of another BMC address are worth nothing."""
        stored: dict[str, Any] = {}
        flushed = bool(context.CLIARGS.get("flush_cache")) and key not in _learnt and not use_cache
        if self.get_option("cache") and not flushed:
            try:
                cached = self._cache.get(key)
            except (AnsibleError, KeyError, TypeError, ValueError):
                cached = None  # damaged; asking everyone makes it anew
            if isinstance(cached, dict) and cached.get("version") == CACHE_VERSION:
                hosts = cached.get("hosts")
                stored.update(hosts if isinstance(hosts, dict) else {})
        stored.update(_learnt.get(key, {}))
        known = {}
        for host in fleet.hosts:
            entry = stored.get(host.name)
            if not isinstance(entry, dict) or entry.get("bmc") != _bmc_of(host):
                continue
            try:
                known[host.name] = Record.from_dict(entry.get("record"))
            except (TypeError, ValueError):
                continue  # written by another version, or by hand
        return known

    def _keep(self, fleet: Fleet, key: str, known: dict[str, Record]) -> None:
        hosts = {
            host.name: {"bmc": _bmc_of(host), "record": known[host.name].to_dict()}
            for host in fleet.hosts
            if host.name in known
        }
        _learnt[key] = hosts
        if self.get_option("cache"):
            # Also after refresh_inventory, whose parse(cache=False) means: do not read it. A new object, because
            # only what differs from what was read is written.
            self._cache[key] = {"version": CACHE_VERSION, "hosts": hosts}

    def _must_ask(self, record: Record | None, use_cache: bool) -> bool:
        refresh = self.get_option("refresh")
        if refresh == "never":
            return False
        if record is None:
            return True
        if 0 <= _age(record) < self.get_option("fresh_seconds"):
            return False
        if not use_cache or refresh == "always":
            return True
        return record.condition != "ok" and bool(self.get_option("retry"))

    def _credential(self, name: str) -> str:
        """username or password: the option or its environment variable, else from the secrets file."""
        given = self.get_option(name)
        if given:
            return _plain(given)
        path = self._path_option("secrets")
        key, variable = f"bmc_{name}", f"FIRSTLIGHT_BMC_{name.upper()}"
        data: Any = None
        if path.exists():
            try:
                data = self.loader.load_from_file(str(path), cache="none")
            except AnsibleVaultError:
                raise InputError(
                    f"cannot be decrypted; give its password with --vault-password-file, or set {variable}", str(path)
                ) from None
            except AnsibleError as error:
                vaulted = "vault" in str(error).lower()
                raise InputError(
                    f"cannot be decrypted; give its password with --vault-password-file, or set {variable}"
                    if vaulted
                    else "cannot be read as YAML",
                    str(path),
                ) from None
        value = data.get(key) if isinstance(data, dict) else None
        if value in (None, ""):
            verb = "edit" if path.exists() else "create"
            raise InputError(f"{key} is missing; add it with ansible-vault {verb} {path}, or set {variable}", str(path))
        return _plain(value)

    # -- telling ------------------------------------------------------------------------------------------------------

    def _states(self) -> dict[str, str]:
        """Each host's state by name, as the ledger has it; {} without a ledger."""
        url = self._ledger_url()
        if not url:
            return {}
        from firstlight.ledger.store import Ledger  # half a second that a site without a ledger need not wait

        prefix = "sqlite:///"
        if url.startswith(prefix) and not Path(url.removeprefix(prefix)).exists():
            return {}  # the first run writes it; reading an inventory does not
        return dict(Ledger(url).states())

    def _ledger_url(self) -> str | None:
        option = self.get_option("ledger")
        if not option:
            return None
        from firstlight.ledger.store import ledger_url

        text = _plain(option)
        return str(ledger_url(text if "://" in text else str(Path(text).expanduser()), self.path.parent))

    def _fill(
        self, fleet: Fleet, profiles: dict[str, Profile], records: dict[str, Record], states: dict[str, str]
    ) -> None:
        add = self.inventory
        for group in ("fleet", "bmc_ok", "bmc_failed"):
            add.add_group(group)
        add.set_variable("fleet", "site", _plain(fleet.site))
        add.set_variable("fleet", "bmc_ca_file", str(self._path_option("ca_file")))
        add.set_variable("fleet", "profiles_folder", str(self._path_option("profiles")))
        url = self._ledger_url()
        if url:
            add.set_variable("fleet", "ledger_url", url)
        plain_profiles = {name: dataclasses.asdict(profile) for name, profile in profiles.items()}
        for host in fleet.hosts:
            record = records[host.name]
            state = states.get(host.name, "planned")
            add.add_host(host.name)
            self._group(f"rack_{host.rack}", host.name, parent="fleet")
            self._group(f"profile_{host.profile}", host.name)
            self._group(f"state_{state}", host.name)
            if record.condition == "ok":
                self._group("bmc_ok", host.name)
            else:
                self._group(f"bmc_{record.condition}", host.name, parent="bmc_failed")
            variables = _variables(host, record, profiles[host.profile])
            variables |= {"profile": plain_profiles[host.profile], "ledger_state": state}
            for name, value in variables.items():
                add.set_variable(host.name, name, value)
            self._construct(host.name, variables)

    def _group(self, name: str, host: str, parent: str = "") -> None:
        group = self.inventory.add_group(re.sub(r"[^A-Za-z0-9_]", "_", name))
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


def _variables(host: PlannedHost, record: Record, profile: Profile) -> dict[str, Any]:
    hardware = record.hardware
    told = hardware.service_tag if hardware and not record.stale else ""
    tag = told or host.service_tag or (hardware.service_tag if hardware else "")
    nic = pxe_nic(hardware, profile) if hardware else None
    mac = (nic.mac if nic else None) or host.mac
    variables: dict[str, Any] = {
        "planned": host.to_dict(),
        "bmc_address": host.bmc_address,
        "bmc_port": host.bmc_port,
        "rack": host.rack,
        "unit": host.unit,
        "bmc_condition": record.condition,
        "bmc_record": {**record.to_dict(), "name": host.name},
    }
    if tag:
        variables["service_tag"] = tag
    if mac:
        variables["pxe_mac"] = mac
    return variables


def _merge(new: Record, old: Record | None) -> Record:
    """The new record; when it tells nothing about the hardware, with what was known before, marked stale."""
    if new.hardware is None and old is not None and old.hardware is not None:
        return dataclasses.replace(new, hardware=old.hardware, stale=True)
    return new


def _bmc_of(host: PlannedHost) -> str:
    return f"{host.bmc_address} port {host.bmc_port}"


def _age(record: Record) -> float:
    """Seconds since the BMC was asked; negative when the record is from the future, or says nothing."""
    try:
        asked = datetime.datetime.fromisoformat(record.asked_at)
        return (datetime.datetime.now(datetime.UTC) - asked).total_seconds()
    except (TypeError, ValueError):
        return -1.0


def _plain(value: Any) -> str:
    """Text without Ansible's wrappers: libraries get what they expect, and nothing is a template."""
    return str.__str__(value) if isinstance(value, str) else str(value)
