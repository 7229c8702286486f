"""Hosts that were installed past us: their SSH keys as they show them, and taking them on a person's word."""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import FirstlightError
from .hostkeys import KnownHosts, fingerprint, parse_public

SECONDS = 5  # for a host to show its key; ssh-keyscan asks many at once
_ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:-]*")
KNOWN, UNKNOWN, CHANGED, SILENT = "known", "unknown", "changed", "silent"


@dataclass(frozen=True)
class Shown:
    """What a host shows. state: known, unknown, changed, or silent (then key is "")."""

    name: str
    address: str
    state: str
    key: str = ""
    was: tuple[str, ...] = ()

    def line(self) -> str:
        said = {
            KNOWN: "is in known_hosts_file",
            UNKNOWN: "is not known",
            CHANGED: f"is NOT the one in known_hosts_file, {', '.join(map(fingerprint, self.was))}",
        }
        if self.state == SILENT:
            return f"{self.name} at {self.address}: shows no ed25519 key"
        return f"{self.name} at {self.address}: {fingerprint(self.key)} {said[self.state]}"


def scan(targets: Mapping[str, tuple[str, int]], seconds: int = SECONDS) -> dict[str, str]:
    """The ed25519 key that each host shows, by name; a host that shows none is left out. targets: (address, port).

    Nothing is verified by it: that is what the person is for.
    """
    found: dict[str, str] = {}
    usable = {name: target for name, target in targets.items() if _ADDRESS.fullmatch(target[0])}
    for port in sorted({port for _, port in usable.values()}):
        names = {address: name for name, (address, at) in usable.items() if at == port}
        command = ["ssh-keyscan", "-t", "ed25519", "-T", str(seconds), "-p", str(port), "-f", "-"]
        limit = 30 + seconds * (1 + len(names) // 50)
        try:
            done = subprocess.run(
                command, input="".join(f"{address}\n" for address in names), capture_output=True, text=True,
                errors="replace", timeout=limit, check=False,
            )  # fmt: skip
        except FileNotFoundError:
            raise FirstlightError("ssh-keyscan is not installed here (OpenSSH's client)") from None
        except subprocess.TimeoutExpired:
            raise FirstlightError(f"ssh-keyscan did not end within {limit} s") from None
        for line in done.stdout.splitlines():
            address, _, key = line.partition(" ")
            name = names.get(address) or names.get(address.removesuffix(f":{port}").strip("[]"))
            if name:
                try:
                    found[name] = parse_public(key)
                except ValueError:
                    continue
    return found


def compare(
    targets: Mapping[str, tuple[str, int]], keys: Mapping[str, str], files: Mapping[str, KnownHosts]
) -> list[Shown]:
    """What each host shows against what is known of it, in the order of targets."""
    shown = []
    for name, (address, _) in targets.items():
        was = tuple(files[name].keys(name))
        key = keys.get(name, "")
        state = SILENT if not key else KNOWN if key in was else CHANGED if was else UNKNOWN
        shown.append(Shown(name, address, state, key, was))
    return shown


def to_take(shown: list[Shown]) -> list[Shown]:
    return [host for host in shown if host.state in (UNKNOWN, CHANGED)]


def code_of(shown: list[Shown]) -> str:
    """What a person says to take exactly these keys of exactly these hosts."""
    text = "".join(f"{host.name} {host.key}\n" for host in sorted(to_take(shown), key=lambda host: host.name))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
