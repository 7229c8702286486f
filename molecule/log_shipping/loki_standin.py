"""A stand-in for Loki: takes pushes at 127.0.0.1:3100 from the user ``site``, and appends them to /srv/loki.jsonl."""

import base64
import http.server
from pathlib import Path

KEPT = Path("/srv/loki.jsonl")
WANTED = "Basic " + base64.b64encode(b"site:correct horse").decode()


class Loki(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        data = self.rfile.read(int(self.headers["Content-Length"]))
        good = self.path == "/loki/api/v1/push" and self.headers.get("Authorization") == WANTED
        if good:
            with KEPT.open("ab") as file:
                file.write(data + b"\n")
        self.send_response(204 if good else 401)
        self.end_headers()

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", 3100), Loki).serve_forever()
