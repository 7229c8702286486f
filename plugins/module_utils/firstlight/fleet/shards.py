"""Shards: the hosts of a run, divided so that no two share a host; and what may not be in a command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from ..errors import InputError

_RACK = "rack_"
_SECRET = re.compile(r"passw|passphrase|passcode|secret|token|credential|api_?key|_pass$", re.IGNORECASE)
_A_PATH = re.compile(r"_(file|path|dir)$", re.IGNORECASE)


def racks_of(inventory: Mapping[str, Any]) -> dict[str, list[str]]:
    """Hosts by rack, as ``ansible-inventory --list`` names them. What stands in no rack is not of the fleet."""
    return {
        name.removeprefix(_RACK): [str(host) for host in group["hosts"]]
        for name, group in sorted(inventory.items())
        if name.startswith(_RACK) and isinstance(group, Mapping) and group.get("hosts")
    }


def divide(racks: Mapping[str, list[str]], how: str) -> dict[str, list[str]]:
    """Shards by name: "rack" is one for each rack; a number is so many, of whole racks and of like size."""
    if how == "rack":
        return {name: list(hosts) for name, hosts in racks.items()}
    if not re.fullmatch(r"[1-9][0-9]{0,2}", how):
        raise InputError(f"--shards is {how!r}; it must be rack, or a number from 1 to 999")
    shards: list[list[str]] = [[] for _ in range(min(int(how), len(racks)))]
    for _name, hosts in sorted(racks.items(), key=lambda item: -len(item[1])):
        min(shards, key=len).extend(hosts)
    return {str(number): hosts for number, hosts in enumerate(shards, 1)}


def refuse_secrets(extra: Iterable[str]) -> None:
    """InputError for an ``-e`` that gives what looks like a secret: anyone on the machine can read command lines."""
    for text in extra:
        for name in _names(text):
            if _SECRET.search(name) and not _A_PATH.search(name):
                raise InputError(
                    f"-e {name}=… looks like a secret, and others can read command lines; put it into the inventory "
                    f"with ansible-vault, into a file for -e @FILE, or into the environment"
                )


def with_whole_paths(extra: Iterable[str]) -> list[str]:
    """What ``-e`` gives, with whole paths of files; InputError where one is not there: a shard would end by it."""
    return [f"@{_there(text[1:])}" if text.startswith("@") else text for text in extra]


def _there(named: str) -> Path:
    try:
        path = Path(named).expanduser().resolve()
        with path.open("rb"):
            return path
    except OSError as error:
        raise InputError(f"-e @{named}: {error.strerror}; name a file that is there and can be read") from None
    except (RuntimeError, ValueError) as error:  # a home that is not known, a NUL
        raise InputError(f"-e @{named}: {error}") from None


def _names(text: str) -> list[str]:
    if text.startswith("@"):
        return []
    if text.lstrip()[:1] in ("{", "["):
        try:
            return _keys(yaml.safe_load(text))
        except yaml.YAMLError:
            raise InputError("an -e that begins with { is no mapping; write -e NAME=VALUE or -e @FILE") from None
    try:
        words = shlex.split(text)
    except ValueError:
        raise InputError("an -e has a quote without its other one; write -e NAME=VALUE or -e @FILE") from None
    if not words or any("=" not in word for word in words):
        raise InputError("an -e gives no value; write -e NAME=VALUE or -e @FILE")
    return [word.split("=", 1)[0] for word in words]


def _keys(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [str(key) for key in value] + [name for inner in value.values() for name in _keys(inner)]
    return [name for inner in value for name in _keys(inner)] if isinstance(value, list) else []
