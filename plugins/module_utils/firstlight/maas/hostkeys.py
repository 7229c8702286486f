"""SSH host keys: made before a host is installed, and the file of known hosts.

The file is OpenSSH's own (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT). A host is in it under its inventory name, which SSH
asks for with HostKeyAlias. The comment of a line says what is still to be done about a key (BOOTSTRAP).
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import hashlib
import hmac
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ..errors import InputError
from ..wholefile import write_whole

ED25519 = "ssh-ed25519"
# Came with the user data, which MAAS keeps: good for the first connection, then replaced by a key of the host's own.
BOOTSTRAP = "firstlight-bootstrap"
_BLOB = re.compile(r"[A-Za-z0-9+/]{68}")  # of an ed25519 key: 51 bytes
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


@dataclass(frozen=True)
class KeyPair:
    """private: an OpenSSH private key (PEM text, no passphrase). public: "ssh-ed25519 AAAA..."."""

    private: str = field(repr=False)
    public: str


def new_key_pair() -> KeyPair:
    """A new ed25519 host key. It is in memory only."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return KeyPair(private.decode(), public.decode())


def parse_public(text: str) -> str:
    """ "ssh-ed25519 AAAA..." of a public key's line, without its comment; ValueError when it is none."""
    words = text.split()
    if len(words) < 2 or words[0] != ED25519 or not _BLOB.fullmatch(words[1]):
        raise ValueError(f"{text[:40]!r} is not a public ed25519 key")
    blob = base64.b64decode(words[1])
    if blob[:19] != b"\0\0\0\x0bssh-ed25519\0\0\0\x20":
        raise ValueError(f"{text[:40]!r} is not a public ed25519 key")
    return f"{words[0]} {words[1]}"


def fingerprint(public: str) -> str:
    """SHA256:..., as ssh and ssh-keygen show it."""
    try:
        digest = hashlib.sha256(base64.b64decode(public.split()[1], validate=True)).digest()
    except (IndexError, binascii.Error):
        return "not readable"
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


class KnownHosts:
    """The file of known hosts. Every change is made under a lock and as a whole, whoever else does the same.

    Keys are given and returned as "ssh-ed25519 AAAA...". Lines of other hosts are left as they are, whatever they say.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path).expanduser()

    def keys(self, name: str, comment: str | None = None) -> list[str]:
        """The keys that SSH would accept for this host; only those with this comment, if one is given."""
        found = []
        for line in self._lines():
            words = line.split(None, 3)
            if len(words) >= 3 and _names(words[0], name):
                said = words[3].strip() if len(words) > 3 else ""
                if comment is None or said == comment:
                    found.append(f"{words[1]} {words[2]}")
        return found

    def has(self, name: str) -> bool:
        return bool(self.keys(name))

    def add(self, name: str, key: str, comment: str = "") -> bool:
        """Accept this key too. Returns whether it was new."""
        line = _line(name, key, comment)

        def change(lines: list[str]) -> list[str]:
            known = any(_names(w[0], name) and " ".join(w[1:3]) == key for w in map(str.split, lines) if len(w) >= 3)
            return lines if known else [*lines, line]

        return self._change(change)

    def replace(self, name: str, key: str, comment: str = "") -> bool:
        """Accept this key and no other. Returns whether that is a change."""
        line = _line(name, key, comment)
        return self._change(lambda lines: [*_without(lines, name), line] if self._says(lines, name, line) else lines)

    def forget(self, name: str) -> bool:
        """Accept none. Returns whether there was one."""
        return self._change(lambda lines: _without(lines, name))

    @staticmethod
    def _says(lines: list[str], name: str, wanted: str) -> bool:
        """Whether anything but the wanted line is there for this name."""
        mine = [line for line in lines if line not in _without([line], name)]
        return mine != [wanted]

    def _lines(self) -> list[str]:
        try:
            return self.path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise InputError(f"known_hosts_file: {self.path} cannot be read: {error.strerror}") from None

    def _change(self, change: Callable[[list[str]], list[str]]) -> bool:
        try:
            with self._locked():
                before = self._lines()
                after = change(list(before))
                if after == before:
                    return False
                self._write("".join(f"{line}\n" for line in after))
                return True
        except OSError as error:
            raise InputError(f"known_hosts_file: {self.path} cannot be written: {error.strerror}") from None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_name(f".{self.path.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _write(self, text: str) -> None:
        target = self.path.resolve()  # a link stays one
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
        write_whole(target, text.encode("utf-8", "surrogateescape"), mode)


def rotate(
    known: KnownHosts, name: str, on_host: Callable[[str, dict[str, Any]], Any], reconnect: Callable[[], None]
) -> bool:
    """Replace the key that came with the user data by one that the host makes and keeps. Returns whether there was one.

    on_host(step, arguments): what the module host_key answers to a step, over the verified connection. reconnect:
    connects anew and raises when the host is not accepted. ValueError: the host gave no key.
    It may be stopped anywhere and begun again: from before the host changes its key until a connection was verified by
    the new one, both are accepted.
    """
    old = known.keys(name, BOOTSTRAP)
    if not old:
        return False
    new = parse_public(str(on_host("prepare", {"bootstrap": old})))
    if new in old:
        raise ValueError("the host gives the key that it shall replace")
    known.add(name, new)
    on_host("switch", {"key": new})
    known.replace(name, new)
    try:
        reconnect()
    except BaseException:
        known.add(name, old[0], BOOTSTRAP)
        raise
    return True


def _line(name: str, key: str, comment: str) -> str:
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r} cannot be the name of a host in the file of known hosts")
    return f"{name} {parse_public(key)} {comment}".rstrip()


def _without(lines: list[str], name: str) -> list[str]:
    return [line for line in lines if not (line.strip() and _names(line.split(None, 1)[0], name))]


def _names(patterns: str, name: str) -> bool:
    """Whether the first field of a line names this host. Lines with a marker (@revoked) or a comment (#) never do."""
    if patterns.startswith("|1|"):  # HashKnownHosts, which some distributions switch on
        try:
            salt, digest = (base64.b64decode(part, validate=True) for part in patterns[3:].split("|"))
        except (ValueError, binascii.Error):
            return False
        return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), digest)
    return name in patterns.split(",")
