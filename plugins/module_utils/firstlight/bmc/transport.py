"""HTTPS to a BMC: always verified, bounded in size, and stoppable from another thread.

The redfish package speaks through ``requests``, whose general machinery (cookies, pools, proxies, redirects, hooks)
takes more CPU than all else that discovery does. Http gives the package a session that does only what a BMC needs,
over one ``http.client`` connection that is kept alive.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from redfish.rest.v1 import HttpClient

from ..errors import InputError
from .errors import BmcError, HalfAnswering, TimedOut, TlsFailed, Unreachable

MAX_BYTES = 8 * 1024 * 1024  # an expanded collection of an XE9680 is below 1 MB
BLOCK_BYTES = 256 * 1024


class TooLarge(Exception):
    """A body is larger than MAX_BYTES, or than what a download may have."""


class NoConnection(Exception):
    """No TCP connection could be made; its cause says why."""


def tls_context(ca_file: str | Path) -> ssl.SSLContext:
    """A context that trusts the site's CA and nothing else. Loading a CA costs ~65 ms of CPU: share it."""
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except OSError as error:  # ssl.SSLError is one too
        reason = "not a PEM file of certificates" if isinstance(error, ssl.SSLError) else error.strerror
        raise InputError(f"the CA of the BMCs cannot be read: {reason}", str(ca_file)) from None


class Connection(http.client.HTTPSConnection):
    """The connection to one BMC, made when it is needed, and made again, with its TLS session, when it was lost.

    connect_seconds, read_seconds: for TCP, and for each read of what follows; set before each request.
    """

    def __init__(self, host: str, port: int, context: ssl.SSLContext) -> None:
        super().__init__(host, port, context=context)
        self.context = context
        self.connect_seconds = self.read_seconds = 5.0
        self._resume: ssl.SSLSession | None = None
        self._lock = threading.Lock()  # about self.sock: a socket closed here may be shut down by stop() there

    def connect(self) -> None:
        try:
            plain = socket.create_connection((self.host, self.port), self.connect_seconds)
        except (OSError, UnicodeError) as error:
            raise NoConnection from error
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.settimeout(self.read_seconds)
        # No handshake yet: stop() must find the socket while it goes on.
        tls = self.context.wrap_socket(
            plain, server_hostname=self.host, do_handshake_on_connect=False, session=self._resume
        )
        with self._lock:
            self.sock = tls
        tls.do_handshake()

    def close(self) -> None:
        with self._lock:
            sock, self.sock = self.sock, None
            if isinstance(sock, ssl.SSLSocket):
                with contextlib.suppress(OSError, ValueError):
                    self._resume = sock.session or self._resume
            self.sock = sock
            super().close()

    def ask(
        self, method: str, path: str, body: str | bytes | None, headers: dict[str, str], timeout: tuple[float, float]
    ) -> Answer:
        """One request and its whole answer. Raises what the layers below raise; the connection is closed then."""
        self.connect_seconds, self.read_seconds = timeout
        if self.sock is not None and self._was_closed():
            self.close()
        if self.sock is not None:
            self.sock.settimeout(timeout[1])
        try:
            self.request(method, path, body.encode() if isinstance(body, str) else body, headers)
            return self._answer()
        except BaseException:
            self.close()
            raise

    def upload(self, path: str, stream: Any, headers: dict[str, str], timeout: tuple[float, float]) -> Answer:
        """POST len(stream) bytes, read from it block by block. timeout: for each block, and for the answer."""
        self.connect_seconds, self.read_seconds = min(timeout), timeout[0]
        self.close()  # a kept connection that just died would take the upload with it
        try:
            self.request("POST", path, stream, {**headers, "Content-Length": str(len(stream))})
            self.sock.settimeout(timeout[1])
            return self._answer()
        except BaseException:
            self.close()
            raise

    def download(
        self,
        path: str,
        headers: dict[str, str],
        write: Callable[[bytes], None],
        most: int,
        timeout: tuple[float, float],
    ) -> Answer:
        """GET a file block by block. Answers a status of 200 with its size alone, any other one as ``ask`` does.

        timeout: for the connection, and for each block. TooLarge where it has more than ``most`` bytes.
        """
        self.connect_seconds, self.read_seconds = timeout
        self.close()  # what follows may take minutes: not on a connection that just died
        try:
            self.request("GET", path, None, headers)
            response = self.getresponse()
            if response.status != 200:
                return Answer(response.status, response.reason, response.headers, response.read(MAX_BYTES))
            size = 0
            while block := response.read(BLOCK_BYTES):
                size += len(block)
                if size > most:
                    raise TooLarge
                write(block)
            if response.length:
                raise http.client.IncompleteRead(b"", response.length)
            return Answer(200, response.reason, response.headers, str(size).encode())
        finally:
            self.close()

    def _was_closed(self) -> bool:
        """True when the BMC closed the kept connection meanwhile, or sent what nobody asked for."""
        try:
            self.sock.settimeout(0)
            self.sock.recv(1)
        except ssl.SSLWantReadError:
            return False
        except (OSError, ValueError):
            pass
        return True

    def _answer(self) -> Answer:
        response = self.getresponse()
        content = b""
        try:
            content = response.read(MAX_BYTES + 1)
            if len(content) > MAX_BYTES:
                raise TooLarge
            if response.length:  # http.client finds an early end only when it is not told how much to read
                raise http.client.IncompleteRead(content, response.length)
        except BaseException as error:
            self.close()
            # iDRAC8 never ends the body of some refusals; their status says enough.
            if response.status < 400 or not isinstance(error, OSError | http.client.HTTPException):
                raise
        if response.will_close:
            self.close()
        return Answer(response.status, response.reason, response.headers, content)

    def stop(self) -> None:
        """Wake whoever waits on this connection; may be called from any thread."""
        with self._lock, contextlib.suppress(OSError, AttributeError):
            self.sock.shutdown(socket.SHUT_RDWR)


class Answer:
    """What the redfish package needs of a requests.Response."""

    def __init__(self, status: int, reason: str, headers: Any, content: bytes) -> None:
        self.status_code = status
        self.reason = reason
        self.headers = headers  # an email.message.Message: names in any case
        self.content = content


class _Session:
    """What the redfish package needs of a requests.Session. No environment, no redirects, no retries, no cookies."""

    def __init__(self, base: str, connection: Connection) -> None:
        self._base = base
        self._connection = connection

    def request(
        self,
        method: str,
        url: str,
        *,
        data: str | bytes | None = None,
        headers: dict[str, str],
        timeout: tuple[float, float],
        params: str | None = None,
        **_unused: Any,
    ) -> Answer:
        path = url[len(self._base) :]
        if params:
            path = f"{path}{'&' if '?' in path else '?'}{params}"
        headers["Accept-Encoding"] = "identity"
        return self._connection.ask(method, path, data, headers, timeout)

    def close(self) -> None:
        self._connection.close()


class Http(HttpClient):
    """The redfish package's client, over one Connection. Redirects would carry the token elsewhere: none is followed.

    A client is for one thread at a time.
    """

    _session: Any

    def __init__(self, url: str, ca_file: str, context: ssl.SSLContext) -> None:
        super().__init__(base_url=url, cafile=ca_file, max_retry=0, check_connectivity=False)
        self._session.close()
        parts = urlsplit(url)
        self.connection = Connection(parts.hostname or "", parts.port or 443, context)
        self._session = _Session(url, self.connection)

    def send_stream(
        self, path: str, stream: Any, content_type: str, timeout: tuple[float, float], if_match: str = ""
    ) -> Answer:
        """POST a stream of known length without reading it into memory, which the package cannot."""
        headers = self._get_req_headers({"Content-Type": content_type, "Accept-Encoding": "identity"})
        if if_match:
            headers["If-Match"] = if_match
        return self.connection.upload(path, stream, headers, timeout)

    def receive(self, path: str, write: Callable[[bytes], None], most: int, timeout: tuple[float, float]) -> Answer:
        """GET a file without reading it into memory, which the package cannot."""
        headers = self._get_req_headers({"Accept": "*/*", "Accept-Encoding": "identity"})
        return self.connection.download(path, headers, write, most, timeout)


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


def never_connected(error: BaseException) -> bool:
    """True when not even a TCP connection was made."""
    return any(isinstance(e, NoConnection) for e in chain(error))


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
    if has(NoConnection):
        if has(TimeoutError):
            return Unreachable("no answer to a TCP connection")
        reasons = [e.strerror for e in parts if isinstance(e, OSError) and e.errno and e.strerror]
        return Unreachable(reasons[0].lower() if reasons else "no connection")
    if has(TimeoutError):
        return TimedOut(f"{doing}: accepted the connection, no answer in time")
    if has(http.client.RemoteDisconnected):
        return HalfAnswering(f"{doing}: closed the connection instead of answering")
    if has(ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionResetError, BrokenPipeError):
        return Unreachable(f"{doing}: connection reset")
    tls = has(ssl.SSLError)
    if tls:
        return TlsFailed(f"TLS fails: {getattr(tls, 'reason', None) or tls}")
    if has(http.client.HTTPException):
        return HalfAnswering(f"{doing}: the answer is not proper HTTP")
    return HalfAnswering(f"{doing}: {type(error).__name__}")
