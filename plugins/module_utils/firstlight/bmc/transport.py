"""HTTPS to a BMC: always verified, bounded in size, and stoppable from another thread."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import requests
import urllib3
from redfish.rest.v1 import HttpClient
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPSConnection
from urllib3.connectionpool import HTTPSConnectionPool

from ..errors import InputError
from .errors import BmcError, HalfAnswering, TimedOut, TlsFailed, Unreachable

MAX_BYTES = 8 * 1024 * 1024  # an expanded collection of an XE9680 is below 1 MB


class TooLarge(Exception):
    """A body is larger than MAX_BYTES."""


def tls_context(ca_file: str | Path) -> ssl.SSLContext:
    """A context that trusts the site's CA and nothing else. Loading a CA costs ~65 ms of CPU: share it."""
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except OSError as error:  # ssl.SSLError is one too
        reason = "not a PEM file of certificates" if isinstance(error, ssl.SSLError) else error.strerror
        raise InputError(f"the CA of the BMCs cannot be read: {reason}", str(ca_file)) from None


class Adapter(HTTPAdapter):
    """One BMC's connections, with a shared TLS context. Verification cannot be switched off."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context
        self.connections: list[HTTPSConnection] = []
        super().__init__(pool_connections=1, pool_maxsize=1, max_retries=0)

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **kwargs: Any) -> None:
        super().init_poolmanager(connections, maxsize, block, ssl_context=self.context, **kwargs)
        known = self.connections

        class Connection(HTTPSConnection):
            def connect(self) -> None:
                known.append(self)
                super().connect()

        class Pool(HTTPSConnectionPool):
            ConnectionCls = Connection

        self.poolmanager.pool_classes_by_scheme = {"https": Pool}

    def build_connection_pool_key_attributes(self, request: Any, verify: Any, cert: Any = None) -> Any:
        host, pool = super().build_connection_pool_key_attributes(request, True, cert)
        # The context has the CA already; naming it again would read the file for each connection.
        kept = {k: v for k, v in pool.items() if k not in ("ca_certs", "ca_cert_dir")}
        return host, {**kept, "cert_reqs": "CERT_REQUIRED"}

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
        conn.cert_reqs = "CERT_REQUIRED"

    def send(self, request: Any, *args: Any, **kwargs: Any) -> requests.Response:
        """Send, and read the whole body here, so that its size is bounded."""
        kwargs["stream"] = True
        response = super().send(request, *args, **kwargs)
        body = bytearray()
        try:
            for chunk in response.iter_content(65536):
                body += chunk
                if len(body) > MAX_BYTES:
                    raise TooLarge
        except BaseException as error:
            response.close()
            # iDRAC8 never ends the body of some refusals; their status says enough.
            if response.status_code < 400 or not isinstance(error, requests.RequestException):
                raise
        response._content = bytes(body)
        return response

    def stop(self) -> None:
        """Wake whoever waits on one of these connections; may be called from any thread."""
        for connection in list(self.connections):
            with contextlib.suppress(OSError, AttributeError):
                connection.sock.shutdown(socket.SHUT_RDWR)


class Http(HttpClient):
    """The redfish package's client: no redirects (they would carry the token elsewhere), no environment, no retries."""

    def __init__(self, url: str, ca_file: str, adapter: Adapter) -> None:
        super().__init__(base_url=url, cafile=ca_file, max_retry=0, check_connectivity=False, https_adapter=adapter)
        self._session.trust_env = False
        self._session.headers["Accept-Encoding"] = "identity"

    def _rest_request(self, *args: Any, **kwargs: Any) -> Any:
        kwargs["allow_redirects"] = False
        return super()._rest_request(*args, **kwargs)


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and all that it was made of."""
    seen: list[BaseException] = []
    todo = [error]
    while todo and len(seen) < 30:
        one = todo.pop(0)
        if not isinstance(one, BaseException) or any(one is other for other in seen):
            continue
        seen.append(one)
        yield one
        todo += [getattr(one, "reason", None), one.__cause__, one.__context__, *one.args]


def was_dropped(error: BaseException) -> bool:
    """True when the connection was refused, reset or closed: the request was not answered, and may be sent again."""
    dropped = (ConnectionError, http.client.RemoteDisconnected, ssl.SSLEOFError, ssl.SSLZeroReturnError)
    parts = list(chain(error))
    if any(isinstance(e, (ssl.SSLCertVerificationError, TooLarge)) for e in parts):
        return False
    return any(isinstance(e, dropped) for e in parts)


def transport_error(error: BaseException, doing: str) -> BmcError:
    """The BmcError for an exception from below HTTP; doing: e.g. "GET /redfish/v1"."""
    parts = list(chain(error))

    def has(*kinds: type[BaseException]) -> BaseException | None:
        return next((e for e in parts if isinstance(e, kinds)), None)

    refused = has(ssl.SSLCertVerificationError)
    if refused:
        reason = getattr(refused, "verify_message", "") or str(refused)
        return TlsFailed(f"its certificate is not trusted: {reason}")
    if has(TooLarge):
        return HalfAnswering(f"{doing}: the answer is larger than {MAX_BYTES} bytes")
    if has(requests.ConnectTimeout):  # urllib3's own is also the base of "connection refused"
        return Unreachable("no answer to a TCP connection")
    if has(urllib3.exceptions.NewConnectionError):
        reasons = [e.strerror for e in parts if isinstance(e, OSError) and e.errno and e.strerror]
        return Unreachable(reasons[0].lower() if reasons else "no connection")
    if has(requests.ReadTimeout, urllib3.exceptions.ReadTimeoutError, TimeoutError):
        return TimedOut(f"{doing}: accepted the connection, no answer in time")
    if has(http.client.RemoteDisconnected):
        return HalfAnswering(f"{doing}: closed the connection instead of answering")
    if has(ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionResetError, BrokenPipeError):
        return Unreachable(f"{doing}: connection reset")
    tls = has(ssl.SSLError)
    if tls:
        return TlsFailed(f"TLS fails: {getattr(tls, 'reason', None) or tls}")
    if has(requests.exceptions.ChunkedEncodingError, http.client.HTTPException, urllib3.exceptions.HTTPError):
        return HalfAnswering(f"{doing}: the answer is not proper HTTP")
    return HalfAnswering(f"{doing}: {type(error).__name__}")
