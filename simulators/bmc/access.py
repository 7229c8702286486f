"""Who may talk to a BMC: sessions, basic authentication, and the blocking of addresses that guess."""

from __future__ import annotations

import base64
import binascii
import collections
import hmac
import secrets
import time
from dataclasses import dataclass

from simulators.bmc import errors
from simulators.bmc.machine import Machine

SESSIONS = 8
FAILURES = 3  # wrong passwords within WINDOW seconds that block an address
WINDOW = 60


@dataclass
class Session:
    """One session: number, user, where it came from, when it was last used (monotonic seconds)."""

    number: int
    user: str
    client: str
    used: float


class Access:
    """The sessions of one BMC, and its memory of wrong passwords. Both are gone when the BMC restarts."""

    def __init__(self, machine: Machine) -> None:
        """Start with no session."""
        self._machine = machine
        self._sessions: dict[str, Session] = {}
        self._number = 100
        self._failures: dict[str, collections.deque[float]] = {}
        self._blocked: dict[str, float] = {}

    def sessions(self) -> list[Session]:
        """Return the sessions that have not expired."""
        limit = time.monotonic() - float(self._machine.settings.get("session_seconds", 1800))
        self._sessions = {token: session for token, session in self._sessions.items() if session.used > limit}
        return list(self._sessions.values())

    def forget(self) -> None:
        """Forget everything, as a restarted BMC does."""
        self._sessions.clear()
        self._failures.clear()
        self._blocked.clear()

    def login(self, user: object, password: object, client: str) -> tuple[str, Session]:
        """Open a session and return its token. RedfishError when it may not be."""
        self._verify(user, password, client)
        if len(self.sessions()) >= SESSIONS or self._machine.has("busy"):
            raise errors.too_many_sessions()
        self._number += 1
        token = secrets.token_hex(16)
        session = Session(self._number, str(user), client, time.monotonic())
        self._sessions[token] = session
        self._machine.record(
            "USR0030",
            f"Successfully logged in using {user}, from {client} and REDFISH.",
            (str(user), client, "REDFISH"),
        )
        return token, session

    def logout(self, number: str) -> bool:
        """Close a session; False when there is none with this number."""
        for token, session in self._sessions.items():
            if str(session.number) == number:
                del self._sessions[token]
                self._machine.record(
                    "USR0032",
                    f"The session for {session.user} from {session.client} using REDFISH is logged off.",
                    (session.user, session.client, "REDFISH"),
                )
                return True
        return False

    def check(self, token: str | None, authorization: str | None, client: str) -> None:
        """Let a request pass by its session token or basic credentials; RedfishError (401) when neither is good."""
        if token:
            self.sessions()
            session = self._sessions.get(token)
            if session is None:
                raise errors.access_denied()
            session.used = time.monotonic()
            return
        if not authorization:
            raise errors.access_denied()
        scheme, _, encoded = authorization.partition(" ")
        try:
            user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            user = password = ""
        if scheme.lower() != "basic":
            raise errors.access_denied()
        self._verify(user, password, client)

    def _verify(self, user: object, password: object, client: str) -> None:
        now = time.monotonic()
        if self._blocked.get(client, 0) > now:
            raise errors.access_denied()
        settings = self._machine.settings
        name, secret = self._machine.login
        right = (
            isinstance(user, str)
            and isinstance(password, str)
            and hmac.compare_digest(user.encode(), name.encode())
            and hmac.compare_digest(password.encode(), secret.encode())
        )
        if right and not self._machine.has("wrong_password"):
            self._failures.pop(client, None)
            return
        self._machine.counters["failed_logins"] += 1
        self._machine.record(
            "USR0031",
            f"Unable to log in for {str(user)[:32]} from {client} using REDFISH.",
            (str(user)[:32], client, "REDFISH"),
            "Warning",
        )
        failures = self._failures.setdefault(client, collections.deque(maxlen=FAILURES))
        failures.append(now)
        if len(failures) == FAILURES and failures[0] > now - WINDOW:
            self._blocked[client] = now + float(settings.get("block_seconds", 60))
            failures.clear()
        raise errors.access_denied()
