"""A vendor's HTTPS server: one certificate for all names, one line of its log for each request: code, name, path.

All names serve the same folder. By the name that it was asked by, the log tells a mirror from what it is a copy of.
"""

from __future__ import annotations

import functools
import http.server
import ssl
import sys


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        with open("/var/log/upstream", "a") as file:  # noqa: PTH123
            file.write(f"{int(code)} {self.headers.get('Host')}{self.path}\n")

    def log_error(self, format: str, *arguments: object) -> None:
        pass


certificate, key, folder = sys.argv[1:]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
# the machine's own alone: no host can speak with it
server = http.server.ThreadingHTTPServer(("127.0.0.1", 443), functools.partial(Handler, directory=folder))
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
