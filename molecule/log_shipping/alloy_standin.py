#!/usr/bin/python3
"""A stand-in for Grafana Alloy, as far as the role log_shipping goes: ``fmt FILE`` and ``run ... FILE``.

It reads blocks and attributes of Alloy's syntax, follows the journal, and pushes JSON to the Loki that the settings
name. What real Alloy makes of the settings is not shown by it.
"""

import base64
import http.server
import json
import re
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

TOKENS = re.compile(
    r'\s+|//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*"|[A-Za-z_][A-Za-z0-9_.]*|[{}\[\](),=]|[0-9]+)', re.DOTALL
)
SENT = {"sent": 0, "dropped": 0}


def tokens(text):
    found, at = [], 0
    while at < len(text):
        match = TOKENS.match(text, at)
        if not match:
            raise SystemExit(f"Error: illegal character {text[at]!r}")
        found += [match.group(1)] if match.group(1) else []
        at = match.end()
    return found


def value(words):
    """One expression: a text, a name, a number, a list or a map."""
    word = words.pop(0)
    if word == "[":
        found = []
        while words[0] != "]":
            found.append(value(words))
            if words[0] == ",":
                words.pop(0)
        words.pop(0)
        return found
    if word == "{":
        found = {}
        while words[0] != "}":
            key = words.pop(0)
            expect(words, "=")
            found[key] = value(words)
            if words[0] == ",":
                words.pop(0)
            elif words[0] != "}":
                raise SystemExit("Error: missing ',' in object")
        words.pop(0)
        return found
    if word in "}]),=":
        raise SystemExit(f"Error: expected expression, got {word}")
    return json.loads(word) if word.startswith('"') else word


def expect(words, wanted):
    if not words or words.pop(0) != wanted:
        raise SystemExit(f"Error: expected {wanted}")


def body(words, end=True):
    """Attributes and blocks, by name (and label)."""
    found = {}
    while words and words[0] != "}":
        name = words.pop(0)
        if words[0] == "=":
            words.pop(0)
            found[name] = value(words)
            continue
        label = json.loads(words.pop(0)) if words[0].startswith('"') else ""
        expect(words, "{")
        found[f"{name} {label}".strip()] = body(words)
    if end:
        expect(words, "}")
    elif words:
        raise SystemExit("Error: unexpected }")
    return found


class Metrics(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = "".join(f'loki_write_{kind}_entries_total{{host="x"}} {count}\n' for kind, count in SENT.items())
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


def push(endpoint, labels, entry):
    stream = {**labels, "transport": entry.get("_TRANSPORT", ""), "unit": entry.get("_SYSTEMD_UNIT", "")}
    line = [str(int(entry["__REALTIME_TIMESTAMP"]) * 1000), str(entry.get("MESSAGE", ""))]
    data = json.dumps({"streams": [{"stream": stream, "values": [line]}]}).encode()
    request = urllib.request.Request(endpoint["url"], data, {"Content-Type": "application/json"})  # noqa: S310
    auth = endpoint.get("basic_auth")
    if auth:
        secret = f"{auth['username']}:{Path(auth['password_file']).read_text()}"
        request.add_header("Authorization", "Basic " + base64.b64encode(secret.encode()).decode())
    try:
        urllib.request.urlopen(request, timeout=10).close()  # noqa: S310
        SENT["sent"] += 1
    except OSError as error:
        SENT["dropped"] += 1
        print(f"push failed: {error}", flush=True)


def run(arguments):
    settings = body(tokens(Path(arguments[-1]).read_text()), end=False)
    listen = next(a.partition("=")[2] for a in arguments if a.startswith("--server.http.listen-addr="))
    address, _, port = listen.rpartition(":")
    server = http.server.ThreadingHTTPServer((address, int(port)), Metrics)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    write = settings["loki.write site"]
    labels = {**write["external_labels"], **settings["loki.source.journal all"]["labels"]}
    command = ["journalctl", "--follow", "--lines=20", "--output=json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as journal:
        for line in journal.stdout:
            push(write["endpoint"], labels, json.loads(line))


if __name__ == "__main__":
    if sys.argv[1] == "fmt":
        body(tokens(Path(sys.argv[2]).read_text()), end=False)
    elif sys.argv[1] == "run":
        run(sys.argv[2:])
