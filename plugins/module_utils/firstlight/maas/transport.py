"""How requests reach MAAS: deadlines, verified TLS, errors in one line without secrets, and only safe retries."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, Self
from urllib.parse import quote, urlsplit

import requests

from ..clocks import Reading
from ..errors import FirstlightError, InputError
from ..findings import shorten
from .api import Request, RequestMaker, api_root, split_key

MAX_BYTES = 256 * 1024 * 1024  # 511 machines are about 2 MB
CONNECT_SECONDS = 10.0
RETRY_AFTER_MAX = 10.0
# An answer that repeats what was sent repeats user data, which has a private key in it: as base64, or line by line.
_KEY_MATERIAL = re.compile(r"[A-Za-z0-9+/=]{40,}")
# After these the same request can be sent again: MAAS made nothing of it, or making it twice is the same as once.
_REPEATABLE = frozenset(
    {
        "Machine.update",
        "Machine.delete",  # the second time it is gone: see client.delete_machine
        "Machine.set_storage_layout",
        "BlockDevice.set_boot_disk",
        "Interface.update",
        "Tag.update_nodes",
    }
)


class MaasError(FirstlightError):
    """MAAS did not do what was asked; the text is one line without secrets.

    status: HTTP status, None when there was no answer. fields: MAAS's errors by field.
    kind: unreachable | tls_failed | timed_out | lost | auth_failed | clock | refused | failed.
    ``lost`` and ``timed_out``: the request may have been carried out. retry_after: seconds that MAAS asks us to wait.
    """

    retry_after = 0.0

    def __init__(
        self, message: str, kind: str, status: int | None = None, fields: dict[str, list[str]] | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.fields = fields or {}

    @property
    def no_use(self) -> bool:
        """True when every other call would fail in the same way."""
        return self.kind in ("unreachable", "tls_failed", "auth_failed", "clock")

    @property
    def outcome_unknown(self) -> bool:
        """True when the request may have been carried out all the same."""
        return self.kind in ("timed_out", "lost") or (self.status or 0) >= 500


class Transport:
    """One region, one key. May be used from several threads; each has its own connection.

    url: https://host:5443/MAAS. ca_file: CA of MAAS's certificate, None for the system's.
    timeout: seconds for one call, all of it; nginx in front of MAAS cuts at 60.
    attempts: how often a read is tried. reads, writes: how many requests were sent.
    """

    def __init__(
        self,
        url: str,
        api_key: str,
        ca_file: str | None = None,
        timeout: float = 65.0,
        attempts: int = 3,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.root = api_root(url)
        parts = split_key(api_key)
        self.mark_key = parts[2].encode()  # keys fingerprints of secrets; see enlist.py
        self._secrets = _spellings(parts)
        self._secrets += [api_key.strip()]
        self._maker = RequestMaker(self.root, api_key)
        self._ca_file = str(ca_file) if ca_file else None
        self._timeout = timeout
        self._attempts = attempts
        self._pause = pause
        self._local = threading.local()
        self._lock = threading.Lock()
        self._sessions: list[requests.Session] = []
        self.reads = 0
        self.writes = 0
        self.clock: Reading | None = None  # MAAS's, from the Date of its answers; the best reading so far

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            for session in self._sessions:
                session.close()
            self._sessions.clear()
        self._local = threading.local()

    def hide(self, *secrets: str) -> None:
        """Never show these texts in an error: BMC passwords, which MAAS may repeat when it refuses them."""
        known = set(self._secrets)
        self._secrets += [s for s in _spellings(secrets) if s not in known]

    def mapping(
        self,
        operation: str,
        path: dict[str, str | int] | None = None,
        data: dict[str, Any] | None = None,
        attempts: int | None = None,
    ) -> dict[str, Any]:
        answer = self.call(operation, path, data, attempts)
        if not isinstance(answer, dict):
            raise MaasError(self.redact(f"{operation}: MAAS at {self.root} answered no JSON object"), "failed")
        return answer

    def call(
        self,
        operation: str,
        path: dict[str, str | int] | None = None,
        data: dict[str, Any] | None = None,
        attempts: int | None = None,
    ) -> Any:
        """One operation, tried again where that is safe; MaasError otherwise."""
        attempt, attempts = 1, attempts or self._attempts
        while True:
            # Made anew for each try: a nonce counts once.
            request = self._maker.make(operation, path or {}, data or {})
            is_read = request.method == "GET"
            with self._lock:
                self.reads += is_read
                self.writes += not is_read
            retry_after = None
            try:
                response, body = self._send(request)
                if response.status_code // 100 == 2:
                    return _decode(response, body)
                error = self._error(operation, response, body)
                retry_after = response.headers.get("Retry-After")
            except MaasError as caught:
                error = caught
            if attempt >= attempts or not _may_repeat(operation, is_read, error, retry_after):
                error.retry_after = _seconds(retry_after, default=0.0)
                raise error
            self._pause(_seconds(retry_after, default=float(attempt)))
            attempt += 1

    def _send(self, request: Request) -> tuple[requests.Response, bytes]:
        where = urlsplit(self.root).netloc
        deadline = time.monotonic() + self._timeout
        asked_at = time.time()
        try:
            with self._session().request(
                request.method,
                request.url,
                data=request.body,
                headers=request.headers,
                timeout=(min(CONNECT_SECONDS, self._timeout), self._timeout),
                allow_redirects=False,  # a redirect would carry the key to somebody else
                stream=True,
            ) as response:
                self._note_clock(response, asked_at, time.time())
                parts, size = [], 0
                for part in response.iter_content(65536):
                    parts.append(part)
                    size += len(part)
                    if size > MAX_BYTES:
                        raise MaasError(f"MAAS at {where} sends more than {MAX_BYTES} bytes", "failed")
                    if time.monotonic() > deadline:
                        raise requests.ReadTimeout
                return response, b"".join(parts)
        except requests.exceptions.SSLError as error:
            ca = self._ca_file or "the system's CAs"
            raise MaasError(
                self.redact(f"the certificate of MAAS at {where} is not accepted by {ca}: {_innermost(error)}"),
                "tls_failed",
            ) from None
        except requests.ConnectTimeout:
            raise MaasError(f"MAAS at {where} is not reachable: no connection in time", "unreachable") from None
        except requests.Timeout:
            raise MaasError(f"MAAS at {where} did not answer within {self._timeout:g} s", "timed_out") from None
        except requests.RequestException as error:
            reason = _innermost(error)
            if "NewConnectionError" in repr(error) or "NameResolutionError" in repr(error):
                raise MaasError(self.redact(f"MAAS at {where} is not reachable: {reason}"), "unreachable") from None
            if "Read timed out" in repr(error):
                raise MaasError(f"MAAS at {where} did not answer within {self._timeout:g} s", "timed_out") from None
            raise MaasError(self.redact(f"MAAS at {where} broke the connection: {reason}"), "lost") from None
        except OSError as error:  # requests lets a missing CA file through as it is
            raise InputError(f"ca_file: {shorten(str(error))}") from None

    def _note_clock(self, response: requests.Response, asked_at: float, answered_at: float) -> None:
        try:
            theirs = parsedate_to_datetime(response.headers["Date"]).timestamp()
        except (KeyError, ValueError, TypeError, OverflowError):
            return
        # It wrote the date at some moment in between, and cut it to whole seconds.
        uncertainty = abs(answered_at - asked_at) / 2 + 0.5
        reading = Reading("MAAS's clock", theirs + 0.5 - (asked_at + answered_at) / 2, uncertainty)
        with self._lock:
            if self.clock is None or reading.uncertainty <= self.clock.uncertainty:
                self.clock = reading

    def _session(self) -> requests.Session:
        session: requests.Session | None = getattr(self._local, "session", None)
        if session is None:
            session = requests.Session()
            # The environment must not bring other CAs, proxies, or a .netrc that overwrites our signature.
            session.trust_env = False
            session.verify = self._ca_file or True
            self._local.session = session
            with self._lock:
                self._sessions.append(session)
        return session

    def _error(self, operation: str, response: requests.Response, body: bytes) -> MaasError:
        status = response.status_code
        text = body[:20000].decode("utf-8", "replace").strip()
        where = urlsplit(self.root).netloc
        if status == 401 or (status == 400 and "Unrecognised signature" in text):
            if "Expired timestamp" in text:
                skew = _skew(response)
                behind = f"{skew:.0f} s" if skew is not None else "more than 300 s"
                return MaasError(
                    f"MAAS at {where} takes our requests for old ones: this machine's clock is {behind} behind MAAS's; "
                    "set it right (NTP)",
                    "clock",
                    status,
                )
            return MaasError(
                f"MAAS at {where} refuses the API key (HTTP {status}); make a new one in MAAS (user, API keys)",
                "auth_failed",
                status,
            )
        if status // 100 == 3:
            return MaasError(
                self.redact(
                    f"MAAS at {where} sends us elsewhere ({response.headers.get('Location')}); is the url right?"
                ),
                "failed",
                status,
            )
        fields = _fields(text)
        said = "; ".join(f"{name}: {' '.join(texts)}" for name, texts in fields.items()) or text
        if "html" in response.headers.get("Content-Type", ""):
            said = re.sub(r"<[^<>]*>", " ", text)
        if status == 403 and not said:
            said = "forbidden (is the machine locked, is the key an administrator's?)"
        message = self.redact(shorten(f"{operation}: MAAS at {where} answered {status}: {said or response.reason}"))
        fields = {name: [self.redact(t) for t in texts] for name, texts in fields.items()}
        return MaasError(message, "refused" if status < 500 else "failed", status, fields)

    def redact(self, text: str) -> str:
        """The text without any secret, on one line."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            if len(secret) >= 8:
                text = text.replace(secret, "***")
            else:  # a short one is only hidden as a word of its own, or every "s" would go
                text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(secret)}(?![A-Za-z0-9])", "***", text)
        return shorten(_KEY_MATERIAL.sub("***", text))


def _spellings(secrets: Sequence[str]) -> list[str]:
    return [spelling for s in secrets if s for spelling in dict.fromkeys((s, quote(s, safe="")))]


def _may_repeat(operation: str, is_read: bool, error: MaasError, retry_after: str | None) -> bool:
    if is_read:
        return error.kind in ("unreachable", "timed_out", "lost") or error.status in (502, 503, 504)
    if error.kind == "unreachable":
        return True  # it was not even sent
    if error.status == 409 and retry_after:
        return True  # MAAS gave up serialising it and rolled it back
    return operation in _REPEATABLE and (error.outcome_unknown and error.status in (None, 502, 503, 504))


def _seconds(retry_after: str | None, default: float) -> float:
    try:
        return min(max(float(retry_after or ""), 0.0), RETRY_AFTER_MAX)
    except ValueError:
        return default


def _decode(response: requests.Response, body: bytes) -> Any:
    if "json" in response.headers.get("Content-Type", ""):
        try:
            return json.loads(body)
        except ValueError:
            raise MaasError("MAAS answered something that is not JSON", "failed", response.status_code) from None
    return body.decode("utf-8", "replace")


def _fields(text: str) -> dict[str, list[str]]:
    """MAAS's field errors, empty when the text is none."""
    try:
        data = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(data, dict):
        return {}
    return {str(k): [shorten(t) for t in (v if isinstance(v, list) else [v])] for k, v in data.items()}


def _skew(response: requests.Response) -> float | None:
    """Seconds that our clock is behind MAAS's."""
    try:
        return parsedate_to_datetime(response.headers["Date"]).timestamp() - time.time()
    except (KeyError, ValueError, TypeError):
        return None


def _innermost(error: BaseException) -> str:
    """The reason at the bottom of a chain of exceptions, in words."""
    seen: BaseException = error
    for _ in range(10):
        inner = getattr(seen, "reason", None) or seen.__cause__ or seen.__context__
        inner = (
            inner
            if isinstance(inner, BaseException)
            else next((a for a in seen.args if isinstance(a, BaseException)), None)
        )
        if inner is None:
            break
        seen = inner
    text = getattr(seen, "strerror", None) or str(seen) or type(seen).__name__
    return re.sub(r"^<.*?>: ", "", shorten(text, 200))
