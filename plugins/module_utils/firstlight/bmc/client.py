"""A Redfish client for one BMC: sessions always closed, deadlines kept, and only what is safe is sent twice."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import ssl
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from redfish.rest.v1 import RetriesExhaustedError

from .errors import AuthFailed, Blocked, BmcError, Busy, HalfAnswering, Refused, SessionLost, TimedOut, error_for
from .transport import Http, NoConnection, TooLarge, never_connected, transport_error, was_dropped

ROOT = "/redfish/v1"
EXPAND = {"$expand": "*($levels=1)"}
CONNECT_SECONDS = 5.0
REQUEST_SECONDS = 20.0  # iDRACs were seen to take 18 s
LOGOUT_SECONDS = 2.0
UPLOAD_PAUSE = 30.0  # that a BMC may take no byte of an upload
DEADLINE = 30.0

Resource = dict[str, Any]


class BmcClient:
    """A client for one BMC and one thread; use it in a ``with`` statement, or call open() and close().

    context: from transport.tls_context. deadline: seconds from now for everything but the logout.
    All methods raise a BmcError.
    """

    def __init__(
        self,
        address: str,
        port: int,
        username: str,
        password: str,
        *,
        context: ssl.SSLContext,
        ca_file: str,
        deadline: float = DEADLINE,
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        host = f"[{address}]" if ":" in address else address
        self._username, self._password = username, password
        self._until = time.monotonic() + deadline
        self._deadline = deadline
        self._request_seconds = request_seconds
        self._http = Http(f"https://{host}:{port}", ca_file, context)
        self._session_path: str | None = None
        self._stopped = False
        self._closing = False
        self.requests = 0
        self.heard = time.monotonic()  # when it last answered
        self.answers, self.spent = 0, 0.0  # how often it has, and the seconds that took
        self.logging_in = False  # also after a login that was not answered: our password may have been refused
        self.wrote = False  # something was sent that may have changed the server: not to be done again unasked
        self.location = ""  # where the last change is carried out: the path of a task, a job or an image
        self.name = ""  # of the host, where its user has many
        self.root: Resource = {}

    def __enter__(self) -> BmcClient:
        try:
            self.open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    @property
    def can_expand(self) -> bool:
        """True when the BMC offers $expand."""
        node: Any = self.root
        for key in ("ProtocolFeaturesSupported", "ExpandQuery", "ExpandAll"):
            node = node.get(key) if isinstance(node, dict) else None
        return node is True

    @property
    def stopped(self) -> bool:
        """True when its time is up, or somebody stopped it: nothing more will be answered."""
        return self._stopped or time.monotonic() >= self._until

    def open(self) -> None:
        """Read the service root and log in."""
        self.contact()
        self.login()

    def contact(self) -> None:
        """Read the service root, which needs no login; Blocked when it is refused all the same."""
        self._closing = False  # also to log in again, after the BMC was away
        try:
            self.root = self.get(ROOT)
        except AuthFailed as error:
            # The root needs no login: whoever refuses it refuses us.
            raise Blocked(f"refuses our address: {error.evidence}", error.status, error.codes) from None

    def login(self) -> None:
        """A session where there is room, basic authentication where there is none.

        The password is tried once: three refused ones within a minute make an iDRAC block our address.
        """
        self.logging_in = True
        try:
            self._start_session()
        except (Busy, Refused) as error:
            if isinstance(error, Refused) and error.status not in (404, 405, 501):
                raise
            self._use_basic()
            try:
                self._answer("GET", f"{ROOT}/Systems", once=True)  # shows now whether the password is right
            except Busy:
                raise error from None
        self.logging_in = False

    def allow(self, seconds: float) -> None:
        """Seconds from now for everything but the logout, instead of those that were left."""
        self._until = time.monotonic() + seconds

    def close(self) -> None:
        """Log out, also after an error, and drop the connection. Never raises."""
        self._closing = True
        if self._session_path:
            self._stopped = False
            self._until = max(self._until, time.monotonic() + LOGOUT_SECONDS)
            with contextlib.suppress(BmcError):
                self._send("DELETE", self._session_path, seconds=LOGOUT_SECONDS)
            self._session_path = None
        self._http.set_session_key(None)
        with contextlib.suppress(Exception):
            self._http.logout()  # without a key this only closes the connection

    def stop(self, force: bool = False) -> None:
        """Make the running request fail at once; called by another thread when the time is up.

        A logout is let be, unless force is true: it has its own short time.
        """
        if self._closing and not force:
            return
        self._stopped = True
        self._http.connection.stop()

    def get(self, path: str, expand: bool = False) -> Resource:
        """One resource; expand: with the members of a collection in it. Sent twice when the connection was dropped."""
        return self._answer("GET", path, args=EXPAND if expand else None)[0]

    def post(self, path: str, body: Resource) -> Resource:
        """Run an action. Never sent twice. Where it started a task, ``location`` has its path."""
        self.wrote = True
        return self._answer("POST", path, body=body)[0]

    def patch(self, path: str, body: Resource) -> Resource:
        """Change a resource. Sent again only after an answer that asks for or refuses an ETag: that changed nothing."""
        self.wrote = True
        try:
            return self._answer("PATCH", path, body=body)[0]
        except Refused as error:
            if error.status != 428:
                raise
        _resource, response = self._answer("GET", path)
        tag = response.getheader("etag") or "*"
        try:
            return self._answer("PATCH", path, body=body, headers={"If-Match": tag})[0]
        except Refused as error:
            if error.status != 412:
                raise
        return self._answer("PATCH", path, body=body, headers={"If-Match": "*"})[0]

    def etag(self, path: str) -> str:
        """The version of a resource that a change of it must name, "*" where the BMC tells none."""
        resource, response = self._answer("GET", path)
        told = response.getheader("etag") or resource.get("@odata.etag")
        return told if isinstance(told, str) and told.isprintable() else "*"

    def upload(self, path: str, stream: Any, content_type: str, seconds: float, if_match: str = "") -> Resource:
        """POST a stream of bytes (it has a length) to a push URI of the UpdateService. Never sent twice.

        path: may lie beside /redfish/v1 (Lenovo's does), on this BMC all the same. seconds: for the answer at the end.
        """
        if not path.startswith("/") or path.startswith("//") or not _is_path(f"{ROOT}{path}"):
            raise HalfAnswering(f"a push URI that is none: {path}")
        self.wrote = True
        doing, left = f"POST {path}", self._until - time.monotonic()
        if left <= 0 or self._stopped:
            raise self._late(doing)
        self.requests += 1
        timeout = (min(UPLOAD_PAUSE, left), min(seconds, left))
        try:
            response = self._http.send_stream(path, stream, content_type, timeout, if_match)
        except Exception as error:
            raise self._late(doing) if self._stopped else transport_error(error, doing) from None
        data = _decode(response.content)
        if not 200 <= response.status_code < 300:
            raise self._clean(error_for("POST", path, response.status_code, data))
        self.location = urlsplit(response.headers.get("location") or "").path
        return data or {}

    def leads_to(self, path: str) -> str:
        """Where the answer to a GET points (its Location), "" where it does not: a finished job to what it made."""
        _resource, response = self._answer("GET", path)
        return urlsplit(response.getheader("location") or "").path

    def download(self, path: str, write: Callable[[bytes], None], most: int) -> int:
        """GET a file, block by block to ``write``, at most so many bytes; returns its size. Never asked twice."""
        if not _is_path(path):
            raise HalfAnswering(f"a link that leads out of {ROOT}: {path}")
        doing, left = f"GET {path}", self._until - time.monotonic()
        if left <= 0 or self._stopped:
            raise self._late(doing)
        self.requests += 1
        try:
            timeout = (min(CONNECT_SECONDS, left), min(UPLOAD_PAUSE, left))
            answer = self._http.receive(path, write, most, timeout)
        except TooLarge:
            raise HalfAnswering(f"{doing}: the file is larger than {most} bytes") from None
        except (OSError, NoConnection, http.client.HTTPException) as error:
            raise self._late(doing) if self._stopped else transport_error(error, doing) from None
        if answer.status_code != 200:
            raise self._clean(error_for("GET", path, answer.status_code, _decode(answer.content)))
        return int(answer.content)

    def _start_session(self) -> None:
        path = _link(self.root, "Links", "Sessions") or f"{ROOT}/SessionService/Sessions"
        body, response = self._answer("POST", path, body={"UserName": self._username, "Password": self._password})
        token = response.getheader("x-auth-token")
        location = response.getheader("location") or body.get("@odata.id")
        location = urlsplit(location).path if isinstance(location, str) else ""
        if not token:
            raise HalfAnswering(f"POST {path}: a session without a token", response.status)
        self._http.set_session_key(token)
        self._session_path = location if _is_path(location) else None

    def _use_basic(self) -> None:
        # Newer iDRACs do not ask for basic authentication, so it is sent unasked.
        pair = base64.b64encode(f"{self._username}:{self._password}".encode()).decode()
        self._http.set_authorization_key(f"Basic {pair}")

    def _answer(
        self,
        method: str,
        path: str,
        *,
        body: Resource | None = None,
        args: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        once: bool = False,
    ) -> tuple[Resource, Any]:
        """The decoded body ({} when empty) and the response; an error status raises. once: also a GET, see _send."""
        response = self._send(method, path, body=body, args=args, headers=headers, once=once)
        if self._stopped:  # a connection that was cut in the middle can look like a short answer
            raise self._late(f"{method} {path}")
        # A resource is never empty; after a change there is often nothing to say.
        data = _decode(response.read) if response.read or method != "GET" else None
        if response.status == 401 and self._session_path and method == "GET":
            raise SessionLost(f"{method} {path}: 401: our session has ended; it restarted, or somebody closed it", 401)
        if not 200 <= response.status < 300:
            retry_after = response.getheader("retry-after")
            raise self._clean(error_for(method, path, response.status, data, bool(retry_after)))
        if data is None:
            raise HalfAnswering(f"{method} {path}: {response.status} without a proper JSON object", response.status)
        if method != "GET":
            self.location = urlsplit(response.getheader("location") or "").path
        return data, response

    def _send(
        self,
        method: str,
        path: str,
        *,
        body: Resource | None = None,
        args: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        seconds: float | None = None,
        once: bool = False,
    ) -> Any:
        """The package's response. A GET is sent twice when the connection was dropped, unless it may be only once."""
        if not _is_path(path):
            raise HalfAnswering(f"a link that leads out of {ROOT}: {path}")
        doing = f"{method} {path}"
        path = path.partition("#")[0]
        attempts = 2 if method == "GET" and not once else 1
        while True:
            attempts -= 1
            left = self._until - time.monotonic()
            if left <= 0 or self._stopped:
                raise self._late(doing)
            timeout = (min(CONNECT_SECONDS, left), min(seconds or self._request_seconds, left))
            self.requests += 1
            options: dict[str, Any] = {"headers": dict(headers or {}), "timeout": timeout, "max_retry": 0}
            sent = time.monotonic()
            try:
                if method == "GET":
                    response = self._http.get(path, args=args, **options)
                elif method == "DELETE":
                    response = self._http.delete(path, **options)
                else:
                    call = self._http.post if method == "POST" else self._http.patch
                    response = call(path, body=body, **options)
                self.heard = time.monotonic()
                self.answers, self.spent = self.answers + 1, self.spent + self.heard - sent
                return response
            except RetriesExhaustedError as error:
                late = self._stopped or time.monotonic() >= self._until
                if late and not never_connected(error):
                    raise self._late(doing) from None
                if attempts and not late and was_dropped(error):
                    time.sleep(min(0.3, max(0.0, self._until - time.monotonic())))
                    continue
                raise transport_error(error, doing) from None
            except BmcError:
                raise
            except Exception as error:  # the BMC's answer may upset any layer below; that is the BMC's fault
                raise transport_error(error, doing) from None

    def _late(self, doing: str) -> TimedOut:
        return TimedOut(f"{doing}: not answered within the {self._deadline:g} s that this BMC has")

    def _clean(self, error: BmcError) -> BmcError:
        """The same error; should a BMC send our password back in its message, without it."""
        if self._password and self._password in error.evidence:
            return type(error)(error.evidence.replace(self._password, "***"), error.status, error.codes)
        return error


def _is_path(path: Any) -> bool:
    """True for a link within the Redfish tree. A BMC's links are data from a stranger."""
    return (
        isinstance(path, str)
        and (path == ROOT or path.startswith((f"{ROOT}/", f"{ROOT}?")))
        and len(path) < 1000
        and ".." not in path
        and path.isprintable()
        and not any(c.isspace() or c == "\\" for c in path)
    )


def _link(resource: Resource, *keys: str) -> str | None:
    node: Any = resource
    for key in keys:
        node = node.get(key) if isinstance(node, dict) else None
    target = node.get("@odata.id") if isinstance(node, dict) else None
    return target if _is_path(target) else None


def _decode(content: bytes | str | None) -> Resource | None:
    """A JSON object; {} for no content; None for anything else."""
    if not content:
        return {}
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None
