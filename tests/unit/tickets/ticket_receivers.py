"""Real receivers for the tests: an HTTPS server and an SMTP server, that take, refuse, fail or hang."""

from __future__ import annotations

import contextlib
import json
import socket
import socketserver
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver:
    """requests: (method, path, headers, body). answers: {(method, path before ?): (status, body)}, else 201 and {}."""

    def __init__(self, certificate):
        self.requests, self.answers, self.hang = [], {}, threading.Event()
        self.hangs = False
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def _do(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                receiver.requests.append((self.command, self.path, dict(self.headers), json.loads(body or "null")))
                if receiver.hangs:
                    receiver.hang.wait(30)
                status, said = receiver.answers.get((self.command, self.path.partition("?")[0])) or (201, "{}")
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", str(len(said.encode())))
                self.end_headers()
                self.wfile.write(said.encode())

            do_GET = do_POST = do_PUT = do_PATCH = _do

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(context)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self):
        self.hang.set()
        self._server.shutdown()
        self._server.server_close()


class MailReceiver:
    """messages: (recipients, text). certificate None: no STARTTLS. refuses: recipients that are not taken.

    refuses_login: and repeats what it was told.
    """

    def __init__(self, certificate):
        self.messages, self.logins, self.refuses, self.fails_after_data = [], [], set(), False
        self.refuses_login = False
        receiver = self
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if certificate else None
        if certificate:
            certificate.configure_cert(context)

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                with contextlib.suppress(OSError):  # the client gave up: that is what some tests are about
                    self._talk()

            def _say(self, line):
                self.request.sendall(line.encode() + b"\r\n")

            def _talk(self):
                lines, secure, to = self.request.makefile("rb"), False, []
                self._say("220 test")
                while line := lines.readline().decode().rstrip():
                    word = line.split(":")[0].split()[0].upper()
                    if word == "EHLO":
                        offers = ["test"] + (["STARTTLS"] if context and not secure else ["AUTH PLAIN"])
                        for n, offer in enumerate(offers):
                            self._say(f"250{'-' if n < len(offers) - 1 else ' '}{offer}")
                    elif word == "STARTTLS" and context:
                        self._say("220 go")
                        self.request = context.wrap_socket(self.request, server_side=True)
                        lines, secure = self.request.makefile("rb"), True
                    elif word == "AUTH":
                        receiver.logins.append((secure, line.split()[-1]))
                        self._say(f"535 not by {line}" if receiver.refuses_login else "235 yes")
                    elif word == "RCPT":
                        address = line.split("<")[1].split(">")[0]
                        if address in receiver.refuses:
                            self._say("550 no such user")
                        else:
                            to.append(address)
                            self._say("250 ok")
                    elif word == "DATA":
                        self._say("354 go")
                        text = b""
                        while (part := lines.readline()) != b".\r\n":
                            text += part
                        receiver.messages.append((to, text.decode()))
                        self._say("451 full" if receiver.fails_after_data else "250 ok")
                    elif word == "QUIT":
                        self._say("221 bye")
                        return
                    else:
                        self._say("250 ok" if word in ("MAIL", "RSET") else "502 what?")

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()


def closed_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
