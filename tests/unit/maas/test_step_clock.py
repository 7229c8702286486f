"""The clock step at the first boot, against a small NTP server. The machine's own clock is never touched."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight.maas import step_clock

SCRIPT = Path(step_clock.__file__)


class Server:
    """Answers on a loopback address of its own. answer: from the request to the reply, None for none."""

    def __init__(self, answer):
        self.asked = 0
        self._answer = answer
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while True:
            request, address = self._socket.recvfrom(512)
            if request == b"end":
                return
            self.asked += 1
            reply = self._answer(request)
            if reply is not None:
                self._socket.sendto(reply, address)

    def stop(self):
        self._socket.sendto(b"end", ("127.0.0.1", self.port))
        self._thread.join(5)
        self._socket.close()


def reply(request, ahead=0.0, first=0x24, stratum=2, cookie=None, at=None):
    now = (time.time() + ahead if at is None else at) + step_clock.EPOCH
    stamp = struct.pack("!II", int(now) % step_clock.ERA, int(now % 1 * step_clock.ERA))
    return struct.pack("!BB22x8s8s8s", first, stratum, cookie or request[40:48], stamp, stamp)


@pytest.fixture
def steps(monkeypatch):
    """Where the clock would have been set to, instead of setting it."""
    made = []
    monkeypatch.setattr(step_clock.time, "clock_settime", lambda clock, to: made.append((clock, to - time.time())))
    monkeypatch.setattr(step_clock, "SECONDS", 0.3)
    return made


@pytest.fixture
def serve(monkeypatch):
    servers = []

    def start(answer):
        servers.append(Server(answer))
        monkeypatch.setattr(step_clock, "PORT", servers[-1].port)
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.mark.parametrize("ahead", [86400 * 400.0, -3600.0, 1.7])
def test_a_clock_that_is_off_is_stepped_to_the_servers(steps, serve, capsys, ahead):
    serve(lambda request: reply(request, ahead))
    step_clock.main(["127.0.0.1"])
    [(clock, by)] = steps
    assert clock == time.CLOCK_REALTIME
    assert by == pytest.approx(ahead, abs=0.3)
    assert "127.0.0.1: stepped by " in capsys.readouterr().out


def test_a_clock_that_is_right_is_left_alone(steps, serve, capsys):
    serve(lambda request: reply(request, 0.2))
    step_clock.main(["127.0.0.1"])
    assert steps == []
    assert "left as it is" in capsys.readouterr().out


def test_the_era_that_begins_in_2036_is_understood(steps, serve):
    serve(lambda request: reply(request, at=2085978496 + 1000))  # 2036-02-07
    step_clock.main(["127.0.0.1"])
    assert time.time() + steps[0][1] == pytest.approx(2085978496 + 1000, abs=1)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda request: None, "no answer"),
        (lambda request: b"short", "a short answer"),
        (lambda request: reply(request, 5000, cookie=b"another!"), "another question"),
        (lambda request: reply(request, 5000, first=0x23), "another question"),  # a client's packet
        (lambda request: reply(request, 5000, first=0xE4), "not synchronised"),
        (lambda request: reply(request, 5000, stratum=0), "not synchronised"),  # kiss of death
        (lambda request: reply(request, 5000, stratum=16), "not synchronised"),
        (lambda request: reply(request, at=10.0), "impossible time"),
        (lambda request: reply(request, 5000)[:40] + bytes(8), "impossible time"),
    ],
)
def test_a_bad_answer_moves_nothing(steps, serve, capsys, answer, why):
    server = serve(answer)
    step_clock.main(["127.0.0.1"])
    assert steps == []
    assert why in capsys.readouterr().out
    assert server.asked == step_clock.TRIES


def test_the_next_server_is_asked_when_one_fails(steps, serve, capsys):
    serve(lambda request: reply(request, 900))
    step_clock.main(["no-such-host.invalid", "127.0.0.2", "127.0.0.1"])
    assert len(steps) == 1
    said = capsys.readouterr().out.splitlines()
    assert [line.split(":")[1].strip() for line in said] == ["no-such-host.invalid", "127.0.0.2", "127.0.0.1"]


def test_a_clock_that_cannot_be_set_is_no_failure(serve, monkeypatch, capsys):
    def refuse(clock, to):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(step_clock.time, "clock_settime", refuse)
    serve(lambda request: reply(request, 900))
    step_clock.main(["127.0.0.1"])
    assert "it cannot be set: [Errno 1]" in capsys.readouterr().out


def test_it_runs_as_user_data_runs_it_and_never_fails():
    command = [sys.executable, "-c", SCRIPT.read_text(), "no-such-host.invalid"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "nobody told the time" in done.stdout
    assert done.stderr == ""


@given(st.binary(max_size=60))
def test_no_answer_makes_it_stumble(answer):
    sock = Server(lambda request: answer)
    try:
        with pytest.raises(ValueError):
            step_clock.ask(("127.0.0.1", sock.port), socket.AF_INET)
    finally:
        sock.stop()
