"""Which user name and password each BMC gets: per host, per range of addresses, else the site's."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import netaddr

from .errors import InputError

KEY = "bmc_credentials"
DEFAULTS = ("bmc_username", "bmc_password")
ENVIRONMENT = {key: f"FIRSTLIGHT_{key.upper()}" for key in DEFAULTS}
_KNOWN = ("addresses", "host", "username", "password")


@dataclass(frozen=True)
class Credential:
    """How to log in to one BMC."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class _Entry:
    number: int
    host: str | None
    first: int
    last: int
    version: int
    username: str | None
    password: str = field(repr=False)

    def covers(self, address: netaddr.IPAddress) -> bool:
        return self.version == address.version and self.first <= int(address) <= self.last

    @property
    def size(self) -> int:
        return self.last - self.first


class Credentials:
    """``bmc_username``, ``bmc_password`` and ``bmc_credentials`` of a site's secrets.

    secrets: a mapping with these keys. Each entry of ``bmc_credentials`` has ``addresses`` (10.10.1.0/24, one address,
    or first-last) or ``host`` (a name of the fleet), and ``password`` and mostly ``username``. where: what errors call
    the secrets, e.g. their file. environ: FIRSTLIGHT_BMC_USERNAME and FIRSTLIGHT_BMC_PASSWORD in it override the
    site's plain ones, not the more exact entries.
    """

    def __init__(self, secrets: Any, where: str = "", environ: Mapping[str, str] | None = None) -> None:
        self._where = where
        self._environ = os.environ if environ is None else environ
        self._secrets: Mapping[str, Any] = secrets if isinstance(secrets, Mapping) else {}
        rows = self._secrets.get(KEY) or []
        if not isinstance(rows, (list, tuple)):
            raise InputError(f"{KEY} must be a list of entries with addresses: or host:", where)
        self._hosts: dict[str, _Entry] = {}
        self._ranges: list[_Entry] = []
        for number, row in enumerate(rows):
            entry = self._entry(number, row)
            if entry.host is None:
                self._ranges.append(entry)
            elif entry.host in self._hosts:
                other = self._hosts[entry.host].number
                raise InputError(f"{KEY}[{number}]: host {entry.host} is already in {KEY}[{other}]", where)
            else:
                self._hosts[entry.host] = entry

    def of(self, name: str, address: str, default: Mapping[str, Any] | None = None) -> Credential:
        """The login of one host: its own entry, else the smallest range that holds its address, else the site's.

        default: ``bmc_username`` and ``bmc_password`` to use instead of the site's (and of the environment).
        InputError when there is none, or two ranges are equally exact.
        """
        entry = self._hosts.get(name) or self._range_of(name, address)
        username = (entry.username if entry else None) or self._plain("bmc_username", name, default)
        password = entry.password if entry else self._plain("bmc_password", name, default)
        return Credential(username, password)

    def refuse_unknown_hosts(self, names: Iterable[str]) -> None:
        """InputError when an entry is for a host that is not planned: its password would silently not be used."""
        known = set(names)
        for host, entry in self._hosts.items():
            if host not in known:
                raise InputError(f"{KEY}[{entry.number}]: host {host} is not in the fleet", self._where)

    def _range_of(self, name: str, address: str) -> _Entry | None:
        ip = netaddr.IPAddress(address)
        found = sorted((e for e in self._ranges if e.covers(ip)), key=lambda e: e.size)
        if len(found) > 1 and found[0].size == found[1].size:
            both = f"{KEY}[{found[0].number}] and [{found[1].number}]"
            raise InputError(f"{both} are equally exact for {name} ({address}); make one of them smaller", self._where)
        return found[0] if found else None

    def _plain(self, key: str, name: str, default: Mapping[str, Any] | None) -> str:
        chosen = (default or {}).get(key)
        value = chosen or self._environ.get(ENVIRONMENT[key]) or self._secrets.get(key)
        if value in (None, ""):
            ways = f"add it, or an entry in {KEY}, with ansible-vault, or set {ENVIRONMENT[key]}"
            raise InputError(f"{key} of {name} is missing; {ways}", self._where)
        return _text(value, key, self._where)

    def _entry(self, number: int, row: Any) -> _Entry:
        what = f"{KEY}[{number}]"
        if not isinstance(row, Mapping):
            raise InputError(f"{what} must be a mapping with {', '.join(_KNOWN)}", self._where)
        unknown = sorted(str(k) for k in row if k not in _KNOWN)
        if unknown:  # its value is not shown: it may be a password under a misspelt key
            raise InputError(f"{what}: unknown key {unknown[0]!r}; known are {', '.join(_KNOWN)}", self._where)
        if (row.get("addresses") is None) == (row.get("host") is None):
            raise InputError(f"{what} needs either addresses: or host:", self._where)
        if row.get("password") in (None, ""):
            raise InputError(f"{what}: password is missing", self._where)
        password = _text(row["password"], f"{what}: password", self._where)
        username = row.get("username")
        username = _text(username, f"{what}: username", self._where) if username not in (None, "") else None
        if row.get("host") is not None:
            return _Entry(number, _text(row["host"], f"{what}: host", self._where), 0, 0, 0, username, password)
        first, last = _addresses(row["addresses"], what, self._where)
        return _Entry(number, None, int(first), int(last), first.version, username, password)


def _addresses(value: Any, what: str, where: str) -> tuple[netaddr.IPAddress, netaddr.IPAddress]:
    text = str(value).strip()
    try:
        if "-" in text:
            first, last = (netaddr.IPAddress(part.strip()) for part in text.split("-"))
            if first.version == last.version and first <= last:
                return first, last
        elif "/" in text:
            network = netaddr.IPNetwork(text)
            return netaddr.IPAddress(network.first, network.version), netaddr.IPAddress(network.last, network.version)
        else:
            return netaddr.IPAddress(text), netaddr.IPAddress(text)
    except (netaddr.AddrFormatError, ValueError):
        pass
    hint = "write 10.10.1.0/24, 10.10.1.11-10.10.1.18 or one address"
    raise InputError(f"{what}: addresses {text!r} is not right; {hint}", where)


def _text(value: Any, what: str, where: str) -> str:
    """Text; the value of what is not text is not shown."""
    if not isinstance(value, str):
        raise InputError(f"{what} must be text; put it in quotes", where)
    return str.__str__(value)
