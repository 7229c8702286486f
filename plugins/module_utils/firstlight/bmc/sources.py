"""Where scripts/bmc takes the fleet from: a fleet file alone, or the site's inventory with its cache."""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import json
import os
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Protocol

from ..credentials import DEFAULTS, ENVIRONMENT, Credentials
from ..errors import InputError
from ..profile import Profile
from ..sitefiles import Fleet, PlannedHost, load_fleet, load_profiles
from ..wholefile import write_whole
from .discover import discover
from .hardware import Record
from .kept import Kept
from .known import REFUSED, is_fresh, not_asked
from .pool import Target

OnRecord = Callable[[Record], None]
PROJECT = Path(__file__).resolve().parents[4]
PROFILES = PROJECT / "inventory" / "profiles"
NEVER = "scripts/bmc scan asks"


class Source(Protocol):
    """A fleet, what is known of its BMCs, and how to ask them."""

    fleet: Fleet
    profiles: dict[str, Profile]

    @property
    def previous(self) -> dict[str, Record | None]:
        """See known.before_it_changed; there after known() or scan()."""
        ...

    @property
    def ca_file(self) -> str: ...

    def known(self) -> dict[str, Record]:
        """A record of every host, asking nobody."""
        ...

    def to_ask(self, names: Collection[str]) -> set[str]:
        """Those of these hosts that ``scan`` would ask: not whoever refused the password a moment ago."""
        ...

    def scan(self, names: Collection[str], on_record: OnRecord) -> dict[str, Record]:
        """Ask these hosts now; a record of every host. on_record gets each answer as it comes."""
        ...

    def target(self, name: str) -> Target: ...


class FleetSource:
    """A fleet file, without Ansible; the last records are kept in the user's cache folder."""

    def __init__(
        self,
        path: Path,
        *,
        ca_file: str | None,
        profiles: Path | None,
        secrets: Path | None,
        vault_password_files: list[str],
        deadline: float,
    ) -> None:
        self._path = path
        self._ca_file = ca_file
        self._secrets = secrets
        self._vault_password_files = vault_password_files
        self._deadline = deadline
        self._credentials: Credentials | None = None
        folder = profiles or PROFILES
        self.profiles = load_profiles(folder) if profiles or folder.is_dir() else {}
        self.fleet = load_fleet(path, None)  # a host of an unknown profile is shown without findings
        self._kept = Kept(self.fleet, path, self._load, self._save, learnt={}, warn=_warn)

    @property
    def ca_file(self) -> str:
        if not self._ca_file:
            raise InputError("--ca-file is missing: the PEM file of the CA that signed the BMCs' certificates")
        return self._ca_file

    @property
    def previous(self) -> dict[str, Record | None]:
        return self._kept.previous

    def known(self) -> dict[str, Record]:
        return self._of_all(self._kept.read())

    def to_ask(self, names: Collection[str]) -> set[str]:
        known = self.known()
        return {n for n in names if not (known[n].condition in REFUSED and is_fresh(known[n]))}

    def scan(self, names: Collection[str], on_record: OnRecord) -> dict[str, Record]:
        known, chosen = self.known(), self.to_ask(names)
        targets = [self.target(h.name) for h in self.fleet.hosts if h.name in chosen]
        if not targets:
            return known
        answers = discover(targets, ca_file=self.ca_file, deadline=self._deadline, on_record=on_record)
        return self._of_all(self._kept.add(answers))

    def _of_all(self, known: dict[str, Record]) -> dict[str, Record]:
        return {h.name: known.get(h.name) or not_asked(h.name, NEVER) for h in self.fleet.hosts}

    def target(self, name: str) -> Target:
        host = planned(self.fleet, name)
        _ = self.ca_file  # before anybody types a password
        if self._credentials is None:
            self._credentials = self._read_credentials()
        login = self._credentials.of(name, host.bmc_address)
        return Target(name, host.bmc_address, host.bmc_port, login.username, login.password)

    def _read_credentials(self) -> Credentials:
        """From the file of secrets and the environment; without either, from the keyboard."""
        if self._secrets:
            from ..secretsfile import read_secrets, vault_loader  # ansible-core is slow to load

            if not self._secrets.exists():
                raise InputError("no such file of secrets", str(self._secrets))
            loader = vault_loader(self._vault_password_files)
            secrets = read_secrets(self._secrets, loader, " and ".join(ENVIRONMENT.values()))
            credentials = Credentials(secrets, str(self._secrets))
            credentials.refuse_unknown_hosts(h.name for h in self.fleet.hosts)
            return credentials
        ask_login()
        return Credentials({}, "environment")

    def _cache(self) -> Path:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        name = hashlib.sha256(str(self._path.resolve()).encode()).hexdigest()[:16]
        return Path(base) / "firstlight" / f"bmc-{name}.json"

    def _load(self) -> Any:
        with contextlib.suppress(OSError, ValueError, RecursionError):  # nothing is known, then
            return json.loads(self._cache().read_text(encoding="utf-8"))
        return None

    def _save(self, records: dict[str, Any]) -> None:
        """Whole or not at all; that it cannot be kept takes nothing from the answer."""
        path = self._cache()
        content = json.dumps(records)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, content, 0o600)
        except OSError as error:
            _warn(f"{path} cannot be written: {error.strerror}")


class InventorySource:
    """The site's ``*.redfish_bmc.yml``, through the inventory plugin: its options, its secrets, its cache."""

    def __init__(self, path: Path | None, vault_password_files: list[str]) -> None:
        from ansible import constants
        from ansible.errors import AnsibleError
        from ansible.inventory.data import InventoryData
        from ansible.plugins.loader import init_plugin_loader, inventory_loader
        from ansible.utils.path import unfrackpath

        from ..secretsfile import vault_loader

        default = constants.config.get_config_value("DEFAULT_VAULT_PASSWORD_FILE")
        files = vault_password_files or ([default] if default else [])
        sources = [path] if path else [Path(str(place)) for place in constants.DEFAULT_HOST_LIST]
        config = _config_of([Path(unfrackpath(str(source), follow=False)) for source in sources])
        try:
            init_plugin_loader()
            inventory_loader.add_directory(str(PROJECT / "plugins" / "inventory"))
            self._plugin = inventory_loader.get("redfish_bmc")
            self._plugin.read_site(InventoryData(), vault_loader(files), str(config))
        except AnsibleError as error:
            raise InputError(str(error).partition("\n")[0]) from None
        self.fleet: Fleet = self._plugin.fleet
        self.profiles: dict[str, Profile] = self._plugin.profiles

    @property
    def ca_file(self) -> str:
        return str(self._plugin.ca_file())

    @property
    def previous(self) -> dict[str, Record | None]:
        return dict(self._plugin.kept.previous)

    def known(self) -> dict[str, Record]:
        return dict(self._plugin.records(refresh="never"))

    def to_ask(self, names: Collection[str]) -> set[str]:
        known = self.known()
        return {n for n in names if self._plugin.would_ask(known[n])}

    def scan(self, names: Collection[str], on_record: OnRecord) -> dict[str, Record]:
        records = dict(self._plugin.records(limit=set(names), refresh="now", on_record=on_record))
        self._plugin.update_cache_if_changed()
        return records

    def target(self, name: str) -> Target:
        target: Target = self._plugin.targets([planned(self.fleet, name)])[0]
        return target


def planned(fleet: Fleet, name: str) -> PlannedHost:
    """The host of this name; InputError when the fleet has none."""
    host = next((h for h in fleet.hosts if h.name == name), None)
    if host is None:
        raise InputError(f"{name} is not in the fleet of site {fleet.site}; scripts/bmc list shows who is")
    return host


def ask_login() -> None:
    """User name and password of the BMCs from the keyboard, where the environment has none and there is a keyboard."""
    if all(os.environ.get(name) for name in ENVIRONMENT.values()) or not sys.stdin.isatty():
        return
    for key, read in zip(DEFAULTS, (_read_line, getpass.getpass), strict=True):
        if not os.environ.get(ENVIRONMENT[key]):
            os.environ[ENVIRONMENT[key]] = read(f"{key.replace('bmc_', 'BMC ')}: ")


def _warn(line: str) -> None:
    print(f"bmc: {line}", file=sys.stderr)


def _read_line(prompt: str) -> str:
    print(prompt, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip()


def _config_of(sources: list[Path]) -> Path:
    """The one *.redfish_bmc.yml among files and folders."""
    found: list[Path] = []
    for source in sources:
        if source.is_dir():
            found += sorted(p for p in source.iterdir() if p.name.endswith(("redfish_bmc.yml", "redfish_bmc.yaml")))
        elif source.name.endswith(("redfish_bmc.yml", "redfish_bmc.yaml")) and source.exists():
            found.append(source)
    where = ", ".join(map(str, sources))
    if not found:
        raise InputError("holds no *.redfish_bmc.yml; name your site with --inventory, or a --fleet file", where)
    if len(found) > 1:
        raise InputError(f"{len(found)} files *.redfish_bmc.yml; name one of them with --inventory", where)
    return found[0]
