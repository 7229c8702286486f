"""A small HTTPS server that answers as a test tells it, also as no proper server would."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trustme

ROOT_BODY = {"@odata.id": "/redfish/v1", "Links": {"Sessions": {"@odata.id": "/redfish/v1/SessionService/Sessions"}}}
SESSIONS = "/redfish/v1/SessionService/Sessions"

# What an answer can be: (status, JSON body, headers), raw bytes, or a function that does as it likes with the socket.
Answer = tuple[int, Any] | tuple[int, Any, dict[str, str]] | bytes | Callable[[ssl.SSLSocket], None]


class FakeBmc:
    """Listens on loopback. answers: by "METHOD /path" (without query); a list is used up one by one."""

    def __init__(self, folder: Path, address: str = "127.0.0.1", certificate_for: str = "") -> None:
        authority = trustme.CA()
        self.ca_file = str(folder / "ca.pem")
        authority.cert_pem.write_to_path(self.ca_file)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(certificate_for or address).configure_cert(context)
        self._context = context
        self._listener = socket.create_server((address, 0))
        self.address, self.port = self._listener.getsockname()[:2]
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.answers: dict[str, Answer | list[Answer]] = {
            "GET /redfish/v1": (200, ROOT_BODY),
            f"POST {SESSIONS}": (201, {"@odata.id": f"{SESSIONS}/7"}, {"X-Auth-Token": "t0k3n"}),
            f"DELETE {SESSIONS}/7": (200, {}),
        }
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._closed = True
        self._listener.close()

    def asked(self, method: str = "") -> list[str]:
        """The requests so far, e.g. "GET /redfish/v1"."""
        return [f"{m} {path}" for m, path, _headers, _body in self.requests if not method or m == method]

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), self._context.wrap_socket(connection, server_side=True) as tls:
            stream = tls.makefile("rb")
            while True:
                method, path, _version = stream.readline().decode().split()
                headers: dict[str, str] = {}
                while (line := stream.readline().decode().strip()) != "":
                    name, _, value = line.partition(":")
                    headers[name.lower()] = value.strip()
                body = stream.read(int(headers.get("content-length", 0)))
                self.requests.append((method, path, headers, body))
                answer = self.answers.get(f"{method} {path.partition('?')[0]}", (404, {}))
                if isinstance(answer, list):
                    answer = answer.pop(0) if len(answer) > 1 else answer[0]
                if callable(answer):
                    answer(tls)
                    return
                tls.sendall(answer if isinstance(answer, bytes) else _http(*answer))
                if isinstance(answer, bytes):
                    return


def _http(status: int, body: Any, headers: dict[str, str] | None = None) -> bytes:
    content = json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", "Content-Type: application/json", f"Content-Length: {len(content)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, "", ""]).encode() + content


def error(status: int, message_id: str, message: str = "") -> Answer:
    """An error body in Redfish's shape."""
    return status, {"error": {"@Message.ExtendedInfo": [{"MessageId": message_id, "Message": message}]}}


def drop(tls: ssl.SSLSocket) -> None:
    """Close without an answer."""


def hang(tls: ssl.SSLSocket) -> None:
    """Say nothing until the client goes."""
    tls.recv(1)


def drip(tls: ssl.SSLSocket) -> None:
    """An answer that never ends: a byte now and then, so that no single read takes long."""
    tls.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    for _ in range(1000):
        time.sleep(0.05)
        tls.sendall(b"y")
