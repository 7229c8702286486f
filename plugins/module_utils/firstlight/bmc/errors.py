"""What can be wrong with a BMC: one exception per condition, each with one line of evidence."""

from __future__ import annotations

import re
from typing import Any

from ..errors import FirstlightError
from ..findings import shorten

# What asking a BMC can come to. Everything but ok and not_asked is also the condition of one exception below.
CONDITIONS = (
    "ok",
    "unreachable",
    "tls_failed",
    "auth_failed",
    "blocked",
    "busy",
    "not_ready",
    "half_answering",
    "timed_out",
    "not_asked",
)

EVIDENCE_MAX = 240


class BmcError(FirstlightError):
    """A BMC did not do what it was asked.

    condition: one of CONDITIONS. evidence: one line, no secrets. status: the HTTP status, where there was one.
    codes: the last parts of the MessageIds in the answer, e.g. ``SYS518``.
    """

    condition = "half_answering"

    def __init__(self, evidence: str, status: int | None = None, codes: tuple[str, ...] = ()) -> None:
        self.evidence = shorten(evidence, EVIDENCE_MAX)
        self.status = status
        self.codes = codes
        super().__init__(self.evidence)


class Unreachable(BmcError):
    """Nothing accepts connections at its address."""

    condition = "unreachable"


class TlsFailed(BmcError):
    """Its certificate is not one that the site's CA signed for this address, or it does not speak TLS."""

    condition = "tls_failed"


class AuthFailed(BmcError):
    """It refuses the user name and password, or the account may not do this."""

    condition = "auth_failed"


class Blocked(BmcError):
    """It refuses to talk to our address at all for now."""

    condition = "blocked"


class Busy(BmcError):
    """All its sessions are taken."""

    condition = "busy"


class NotReady(BmcError):
    """It is still starting, or wedged: it answers, and says that it cannot tell."""

    condition = "not_ready"


class SessionLost(NotReady):
    """It no longer knows the session that it gave us: it restarted, or somebody closed it. Not a wrong password."""


class HalfAnswering(BmcError):
    """Some of what it advertises cannot be read."""

    condition = "half_answering"


class Refused(HalfAnswering):
    """It understood the request and said no (a 4xx or 5xx that means nothing more special)."""


class TimedOut(BmcError):
    """It accepts connections and does not answer in time."""

    condition = "timed_out"


# The last part of a MessageId says what happened; the HTTP status and the English text differ between versions.
_NOT_READY = {"SYS518", "SWC0700", "SYS446", "ServiceTemporarilyUnavailable"}
_BUSY = {"RAC0218", "SessionLimitExceeded"}
# As vendors name it: AccountLocked, LoginAttemptDelayed, IPBlocked, RequestLimitExceeded, TooManyRequests.
_BLOCKED = re.compile(r"locked(out)?$|lockout|blocked|attemptdelayed|requestlimit|toomany", re.IGNORECASE)


def message_codes(body: Any) -> tuple[str, ...]:
    """The last parts of all MessageIds in an error body, e.g. ("SYS518", "ServiceTemporarilyUnavailable")."""
    codes = []
    for entry in _entries(body):
        identity = entry.get("MessageId")
        if isinstance(identity, str) and identity:
            codes.append(shorten(identity.rsplit(".", 1)[-1], 60))
    return tuple(codes)


def error_for(method: str, path: str, status: int, body: Any, retry_after: bool = False) -> BmcError:
    """The exception for an answer with an error status; body is the decoded JSON, or anything else.

    retry_after: the answer names a time to come again, which no wrong password has.
    """
    codes = message_codes(body)
    words = " ".join(codes[:2])
    text = next((e["Message"] for e in _entries(body) if isinstance(e.get("Message"), str)), "")
    evidence = f"{method} {path}: {status} {words} {text}"
    if status == 429 or (status in (401, 403) and (retry_after or any(map(_BLOCKED.search, codes)))):
        return Blocked(evidence, status, codes)
    if status == 401:
        return AuthFailed(evidence, status, codes)
    if 300 <= status < 400:
        return Refused(f"{method} {path}: {status}, a redirect, which is not followed", status, codes)
    if _BUSY.intersection(codes):
        return Busy(evidence, status, codes)
    if _NOT_READY.intersection(codes) or (status == 503 and not codes):
        return NotReady(evidence, status, codes)
    if status == 403:
        return AuthFailed(evidence, status, codes)
    return Refused(evidence, status, codes)


def _entries(body: Any) -> list[dict[str, Any]]:
    error = body.get("error") if isinstance(body, dict) else None
    entries = error.get("@Message.ExtendedInfo") if isinstance(error, dict) else None
    if isinstance(entries, dict):  # some firmware sends the one message without a list around it
        entries = [entries]
    return [e for e in entries[:20] if isinstance(e, dict)] if isinstance(entries, list) else []
