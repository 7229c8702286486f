"""OAuth 1.0 PLAINTEXT as MAAS checks it, with the texts that it answers.

A wrong signature is answered with the expected one, secret included: MAAS really does that, so clients must redact.
"""

from __future__ import annotations

import re
import time
from urllib.parse import unquote

from simulators.maas.status import ApiError

TIMESTAMP_THRESHOLD = 300  # seconds that a request may be old
NONCE_LIFE = 900  # seconds that a nonce is remembered: longer than any accepted timestamp
_PART = re.compile(r'\s*([a-z_]+)="([^"]*)"\s*')


class Authenticator:
    """Checks the Authorization header of each request against one API key, ``consumer:token:secret``."""

    def __init__(self, api_key: str) -> None:
        parts = api_key.split(":")
        if len(parts) != 3 or not all(parts):
            raise ValueError("lab.json: maas.api_key: must be consumer:token:secret")
        self.consumer, self.token, self.secret = parts
        self._nonces: dict[str, float] = {}

    def check(self, header: str) -> None:
        """Raise ApiError 401 unless the header is a fresh, correctly signed OAuth header."""
        fields = parse_header(header)
        for name in ("consumer_key", "token", "signature_method", "signature", "timestamp", "nonce"):
            if f"oauth_{name}" not in fields:
                raise _refused("Missing OAuth parameters")
        if fields["oauth_consumer_key"] != self.consumer:
            raise _refused("Invalid consumer.")
        if fields["oauth_token"] != self.token:
            raise _refused(f"Invalid access token: {fields['oauth_token']}")
        if fields["oauth_signature_method"] != "PLAINTEXT":
            raise _refused("Signature method not supported")
        self._check_timestamp(fields["oauth_timestamp"])
        self._check_nonce(fields["oauth_nonce"])
        expected = f"&{self.secret}"
        if unquote(fields["oauth_signature"]) != expected:
            raise _refused(f"Invalid signature. Expected signature base string: {expected}")

    def _check_timestamp(self, text: str) -> None:
        now = int(time.time())
        try:
            lapsed = now - int(text)
        except ValueError:
            raise _refused("Invalid timestamp") from None
        if lapsed > TIMESTAMP_THRESHOLD:
            raise _refused(
                f"Expired timestamp: given {text} and now {now} has a greater difference than "
                f"threshold {TIMESTAMP_THRESHOLD}"
            )

    def _check_nonce(self, nonce: str) -> None:
        now = time.monotonic()
        if len(self._nonces) > 10000:
            self._nonces = {key: seen for key, seen in self._nonces.items() if now - seen < NONCE_LIFE}
        if nonce in self._nonces and now - self._nonces[nonce] < NONCE_LIFE:
            raise _refused(f"Nonce already used: {nonce}")
        self._nonces[nonce] = now


def parse_header(header: str) -> dict[str, str]:
    """The parameters of an ``OAuth a="b", c="d"`` header; empty when it is not one."""
    scheme, _, rest = header.partition(" ")
    if scheme.lower() != "oauth":
        return {}
    found = (_PART.fullmatch(part) for part in rest.split(","))
    return {match[1]: unquote(match[2]) for match in found if match}


def _refused(text: str) -> ApiError:
    return ApiError(401, f"Authorization Error: {text!r}", {"WWW-Authenticate": 'OAuth realm="OAuth"'})
