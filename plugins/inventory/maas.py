"""Inventory plugin maas: what MAAS says about the fleet's machines, and where the installed ones are reached."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

from ansible import context
from ansible.errors import AnsibleError, AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable

try:
    from firstlight.errors import FirstlightError, InputError
    from firstlight.inventory_error import Refusal
    from firstlight.maas.api import api_root
    from firstlight.maas.client import MaasClient, MaasError
    from firstlight.maas.machines import address_of, name_in, parse_subnets, status_name, tags_of, text_of

    MISSING_LIBRARY = ""
except ImportError as error:
    MISSING_LIBRARY = str(error)

DOCUMENTATION = r"""
name: maas
author: Firstlight contributors
short_description: The fleet's machines in MAAS, with their addresses
description:
  - Hosts are the machines in MAAS that have the tag O(tag), under their MAAS host names. Nothing is ever written.
  - MAAS is asked with one request for all machines, each time that the inventory is read, since an address from before
    the last installation would send Ansible to the wrong place. Its answer is kept in the inventory cache.
  - When MAAS does not answer or refuses the key, there is a warning, and what the cache holds is used; the variable
    C(maas_stale) of the group C(all) then says why. Without a usable cache there are no hosts from here, and
    C(maas_error) of the group C(all) says why, so that a play can refuse to start.
  - "Groups: C(maas_STATUS), e.g. C(maas_deployed) and C(maas_failed_deployment)."
  - "Variables of a host: C(maas_system_id), C(maas_status), C(maas_pool), C(maas_zone), C(maas_tags), C(maas_rack)
    (what follows C(rack-) in the tag that enlist gives it, else empty), and C(ansible_host) when it is deployed and has
    an address. Variables of the group C(all): C(maas_url), C(maas_ca_file), C(maas_subnets), and where MAAS was asked
    C(maas_clock), how many seconds its clock is ahead of this machine's, with C(skew) and C(uncertainty)."
  - The name of the file must end in C(maas.yml) or C(maas.yaml).
extends_documentation_fragment:
  - constructed
  - inventory_cache
options:
  plugin:
    description: Marks the file as one for this plugin.
    type: str
    required: true
    choices: [maas]
  url:
    description: MAAS, over TLS, e.g. C(https://maas.example.org:5443/MAAS).
    type: str
    required: true
  ca_file:
    description:
      - PEM file of the CA that signed MAAS's certificate, which is always verified. Without it the system's CAs count.
      - Relative paths, here and below, start at the folder of this file.
    type: str
  secrets:
    description: YAML file, usually vaulted, that holds C(maas_api_key).
    type: str
    default: group_vars/all/secrets.yml
  api_key:
    description:
      - The API key, C(consumer:token:secret). Overrides the one in O(secrets). Do not write it here, unless vaulted.
    type: str
    env:
      - name: FIRSTLIGHT_MAAS_API_KEY
  tag:
    description: Only machines with this tag are hosts.
    type: str
    default: firstlight
  subnets:
    description:
      - Subnets to reach hosts in, the best one first. A host gets its first address in the first of them that it has
        one in, and no C(ansible_host) when it has none in any. Without this, its first IPv4 address.
    type: list
    elements: str
    default: []
  fresh_seconds:
    description: An answer in the cache that is younger than so many seconds is used, and MAAS is not asked.
    type: int
    default: 0
  timeout:
    description: How many seconds MAAS has for its answer.
    type: float
    default: 60
"""

EXAMPLES = r"""
---
# mysite.maas.yml
plugin: maas
url: https://maas.example.org:5443/MAAS
ca_file: maas-ca.pem
subnets: [10.20.0.0/16]

---
# with groups by zone and pool
plugin: maas
url: https://maas.example.org:5443/MAAS
keyed_groups:
  - key: maas_zone
    prefix: zone
  - key: maas_pool
    prefix: pool
  - key: maas_rack
    prefix: rack
groups:
  installed: maas_status == 'deployed'
"""

CACHE_VERSION = 2
RACK_TAG = "rack-"
SUFFIXES = ("maas.yml", "maas.yaml")
_HOSTNAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    """See DOCUMENTATION."""

    NAME = "maas"

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
            self.inventory.set_variable("all", "maas_url", _plain(self.get_option("url")))
            if self.get_option("ca_file"):
                self.inventory.set_variable("all", "maas_ca_file", str(self._path_option("ca_file")))
            try:
                networks = parse_subnets(_plain(s) for s in self.get_option("subnets"))
            except ValueError as error:
                raise InputError(f"subnets: {error}", str(self.path)) from None
            self.inventory.set_variable("all", "maas_subnets", [str(network) for network in networks])
            for machine in self._machines(self.get_cache_key(path), use_cache=cache):
                self._add(machine, address_of(machine, networks))
        except FirstlightError as error:
            raise Refusal(str(error)) from None

    # -- asking -------------------------------------------------------------------------------------------------------

    def _machines(self, key: str, use_cache: bool) -> list[dict[str, Any]]:
        """All machines, as far as they matter here: from the cache where that will do, else from MAAS."""
        cached, age = self._cached(key)
        if cached is not None and use_cache and 0 <= age < self.get_option("fresh_seconds"):
            return cached
        try:
            machines = [_reduced(m) for m in self._ask()]
        except MaasError as error:
            if cached is not None:
                self.display.warning(f"{error}; using what the inventory cache holds")
                self.inventory.set_variable("all", "maas_stale", str(error))
                return cached
            self.display.warning(str(error))
            self.inventory.set_variable("all", "maas_error", str(error))
            return []
        if self.get_option("cache"):
            url = _plain(self.get_option("url"))
            self._cache[key] = {"version": CACHE_VERSION, "url": url, "asked_at": time.time(), "machines": machines}
        return machines

    def _cached(self, key: str) -> tuple[list[dict[str, Any]] | None, float]:
        """Machines from the cache and their age in seconds; None where it holds nothing of use."""
        if not self.get_option("cache") or context.CLIARGS.get("flush_cache"):
            return None, 0.0
        try:
            cached = self._cache.get(key)
        except (AnsibleError, KeyError, TypeError, ValueError):
            return None, 0.0  # damaged; the next answer makes it anew
        if not isinstance(cached, dict) or cached.get("version") != CACHE_VERSION:
            return None, 0.0
        machines, asked_at = cached.get("machines"), cached.get("asked_at")
        if cached.get("url") != _plain(self.get_option("url")) or not isinstance(asked_at, (int, float)):
            return None, 0.0
        if not isinstance(machines, list) or not all(isinstance(m, dict) for m in machines):
            return None, 0.0
        return machines, time.time() - asked_at

    def _ask(self) -> list[dict[str, Any]]:
        ca_file = str(self._path_option("ca_file")) if self.get_option("ca_file") else None
        if ca_file and not Path(ca_file).is_file():
            raise InputError("ca_file: no such file; it is the CA that signed MAAS's certificate", ca_file)
        url, timeout = _plain(self.get_option("url")), max(1.0, self.get_option("timeout"))
        try:
            api_root(url)
        except InputError as error:
            raise InputError(f"url: {error}", str(self.path)) from None
        with MaasClient(url, self._api_key(), ca_file, timeout=timeout, attempts=2) as client:
            machines = client.machines()
            if client.clock is not None:
                clock = {"skew": client.clock.skew, "uncertainty": client.clock.uncertainty}
                self.inventory.set_variable("all", "maas_clock", clock)
            return machines

    def _api_key(self) -> str:
        """The option or its environment variable, else from the secrets file."""
        given = self.get_option("api_key")
        if given:
            return _plain(given)
        path = self._path_option("secrets")
        data: Any = None
        if path.exists():
            try:
                data = self.loader.load_from_file(str(path), cache="none")
            except AnsibleError as error:
                # also "Attempting to decrypt but no vault secrets found", which is no AnsibleVaultError
                said = (
                    "cannot be decrypted; give its password with --vault-password-file, or set FIRSTLIGHT_MAAS_API_KEY"
                    if "vault" in f"{type(error).__name__} {error}".lower()
                    else "cannot be read as YAML"
                )
                raise InputError(said, str(path)) from None
        value = data.get("maas_api_key") if isinstance(data, dict) else None
        if value in (None, ""):
            verb = "edit" if path.exists() else "create"
            raise InputError(
                f"maas_api_key is missing; add it with ansible-vault {verb} {path}, or set FIRSTLIGHT_MAAS_API_KEY",
                str(path),
            )
        return _plain(value)

    # -- telling ------------------------------------------------------------------------------------------------------

    def _add(self, machine: dict[str, Any], address: str | None) -> None:
        name, tags = text_of(machine, "hostname"), tags_of(machine)
        # Chosen here: MAAS answers 400 when it is asked for a tag that it does not have yet.
        if _plain(self.get_option("tag")) not in tags or not _HOSTNAME.fullmatch(name):
            return
        status = status_name(machine)
        variables: dict[str, Any] = {
            "maas_system_id": text_of(machine, "system_id"),
            "maas_status": status,
            "maas_pool": name_in(machine, "pool"),
            "maas_zone": name_in(machine, "zone"),
            "maas_tags": tags,
            "maas_rack": next((t.removeprefix(RACK_TAG) for t in tags if t.startswith(RACK_TAG)), ""),
        }
        if status == "deployed" and address:
            variables["ansible_host"] = address
        self.inventory.add_host(name)
        group = self.inventory.add_group(f"maas_{status}")
        self.inventory.add_child(group, name)
        for key, value in variables.items():
            self.inventory.set_variable(name, key, value)
        strict = self.get_option("strict")
        self._set_composite_vars(self.get_option("compose"), variables, name, strict=strict)
        self._add_host_to_composed_groups(self.get_option("groups"), variables, name, strict=strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), variables, name, strict=strict)

    def _path_option(self, name: str) -> Path:
        joined = self.path.parent / Path(_plain(self.get_option(name))).expanduser()
        return Path(os.path.normpath(joined))


def _reduced(machine: dict[str, Any]) -> dict[str, Any]:
    """What of a machine is kept: 2 kB a machine in the cache would be mostly of no use."""
    addresses = machine.get("ip_addresses")
    return {
        "system_id": text_of(machine, "system_id"),
        "hostname": text_of(machine, "hostname"),
        "status": machine.get("status"),
        "ip_addresses": [a for a in addresses if isinstance(a, str)] if isinstance(addresses, list) else [],
        "pool": name_in(machine, "pool"),
        "zone": name_in(machine, "zone"),
        "tag_names": tags_of(machine),
    }


def _plain(value: Any) -> str:
    """Text without Ansible's wrappers: libraries get what they expect, and nothing is a template."""
    return str.__str__(value) if isinstance(value, str) else str(value)
