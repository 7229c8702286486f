"""The pool's promises, with few BMCs: time is bounded, the broken cost only their own, no password is tried twice."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bmc_server import ROOT_BODY, SESSIONS, FakeBmc, drip, drop, error, hang

from firstlight.bmc.client import BmcClient
from firstlight.bmc.errors import (
    AuthFailed,
    Blocked,
    BmcError,
    Busy,
    HalfAnswering,
    NotReady,
    SessionLost,
    TimedOut,
    Unreachable,
    error_for,
)
from firstlight.bmc.pace import Pace
from firstlight.bmc.pool import Outcome, Target, run

THING = "/redfish/v1/Thing"
PASSWORD = "hunter2-secret"


@pytest.fixture
def bmc(tmp_path: Path) -> Iterator[FakeBmc]:
    server = FakeBmc(tmp_path)
    server.answers[f"GET {THING}"] = (200, {"Name": "thing"})
    yield server
    server.close()


@pytest.fixture
def black_hole() -> Iterator[int]:
    """The port of a listener whose queue is full: the kernel drops further connections."""
    with contextlib.ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(3):
            filler = sockets.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def targets(bmc: FakeBmc, count: int, first: int = 0) -> list[Target]:
    return [Target(f"n{n}", bmc.address, bmc.port, "root", PASSWORD) for n in range(first, first + count)]


def ask(session: BmcClient) -> Any:
    return session.get(THING)


def timed(asked: list[Target], bmc: FakeBmc, **options: Any) -> tuple[dict[str, Outcome], float]:
    started = time.monotonic()
    outcomes = run(asked, ask, ca_file=bmc.ca_file, **options)
    return outcomes, time.monotonic() - started


@pytest.mark.parametrize(
    ("behaviour", "places"),
    [
        (hang, ["GET /redfish/v1"]),
        (drip, [f"POST {SESSIONS}"]),
        (hang, [f"GET {THING}", f"DELETE {SESSIONS}/7"]),
    ],
)
def test_all_broken_and_five_times_as_many_as_workers(bmc: FakeBmc, behaviour: Any, places: list[str]) -> None:
    """As 500 are to 100: done within the deadline and 5 seconds, wherever they stop to answer."""
    bmc.answers |= dict.fromkeys(places, behaviour)
    outcomes, took = timed(targets(bmc, 20), bmc, workers=4, deadline=3.0)
    assert {type(outcome.error) for outcome in outcomes.values()} == {TimedOut}
    assert len(outcomes) == 20
    assert took < 3.0 + 5.0


def test_black_holes_cost_only_their_own_time(bmc: FakeBmc, black_hole: int) -> None:
    holes = [Target(f"hole{n}", "127.0.0.1", black_hole, "root", PASSWORD) for n in range(8)]
    came: list[tuple[str, float]] = []
    started = time.monotonic()
    outcomes = run(
        [*holes, *targets(bmc, 8)],
        ask,
        ca_file=bmc.ca_file,
        workers=4,
        deadline=3.0,
        on_outcome=lambda name, _outcome: came.append((name, time.monotonic() - started)),
    )
    assert {type(o.error) for name, o in outcomes.items() if name.startswith("hole")} == {Unreachable}
    assert [o.value for name, o in outcomes.items() if not name.startswith("hole")] == [{"Name": "thing"}] * 8
    assert max(at for name, at in came if not name.startswith("hole")) < 3.0
    assert max(at for _name, at in came) < 3.0 + 5.0


def test_waiting_for_its_turn_costs_a_bmc_nothing(bmc: FakeBmc) -> None:
    """Each takes a while; all are done although the last ones begin after the deadline has passed since the start."""

    def slowly(tls: Any) -> None:
        time.sleep(0.5)
        body = b'{"Name": "slow"}'
        tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    bmc.answers[f"GET {THING}"] = slowly
    outcomes, took = timed(targets(bmc, 8), bmc, workers=1, deadline=1.5)
    assert [outcome.error for outcome in outcomes.values()] == [None] * 8
    assert took > 1.5
    assert max(outcome.seconds for outcome in outcomes.values()) < 1.5


def test_the_slowest_to_answer_are_worked_with_first(tmp_path: Path, bmc: FakeBmc) -> None:
    (tmp_path / "slow").mkdir()
    slow = FakeBmc(tmp_path / "slow")

    def late(tls: Any) -> None:
        time.sleep(0.4)
        tls.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 8\r\nConnection: close\r\n\r\n{"a": 1}')

    slow.answers["GET /redfish/v1"] = late
    order: list[str] = []
    ca = tmp_path / "both.pem"
    ca.write_text(Path(bmc.ca_file).read_text() + Path(slow.ca_file).read_text())
    asked = [*targets(bmc, 4), Target("slow", slow.address, slow.port, "root", PASSWORD)]

    def note(session: BmcClient) -> None:
        order.append(session.name)
        time.sleep(0.05)

    run(asked, note, ca_file=str(ca), workers=1)
    slow.close()
    assert order[0] == "slow"
    assert sorted(order) == ["n0", "n1", "n2", "n3", "slow"]


@pytest.mark.parametrize(
    "refusal",
    [
        error(401, "Base.1.12.AccessDenied"),
        error(403, "Base.1.12.InsufficientPrivilege"),
        (401, {}, {"Connection": "close"}),
        drop,
        hang,
    ],
)
def test_the_password_is_sent_once(bmc: FakeBmc, refusal: Any) -> None:
    """Also when the login was not answered: it may have been counted as a wrong one."""
    bmc.answers[f"POST {SESSIONS}"] = refusal
    outcomes, _took = timed(targets(bmc, 1), bmc, deadline=1.5)
    assert outcomes["n0"].error is not None
    assert bmc.asked("POST") == [f"POST {SESSIONS}"]
    assert not any("authorization" in headers for _m, _p, headers, _b in bmc.requests)


def test_basic_authentication_is_tried_once_too(bmc: FakeBmc) -> None:
    bmc.answers[f"POST {SESSIONS}"] = error(503, "IDRAC.2.8.RAC0218")
    bmc.answers["GET /redfish/v1/Systems"] = drop
    outcomes, _took = timed(targets(bmc, 1), bmc, deadline=4.0)
    assert outcomes["n0"].error is not None
    assert bmc.asked().count("GET /redfish/v1/Systems") == 1


@pytest.mark.parametrize(
    ("status", "code", "retry_after", "kind"),
    [
        (401, "Base.1.12.AccessDenied", False, AuthFailed),
        (401, "Base.1.12.AccessDenied", True, Blocked),  # a wrong password has no time to come again
        (401, "iLO.2.14.LoginAttemptDelayed", False, Blocked),
        (403, "Vendor.1.0.AccountLocked", False, Blocked),
        (403, "Vendor.1.0.IPBlocked", False, Blocked),
        (403, "Base.1.5.PasswordChangeRequired", False, AuthFailed),
        (429, "", False, Blocked),
        (503, "IDRAC.2.8.RAC0218", False, Busy),
        (400, "Base.1.5.SessionLimitExceeded", False, Busy),
        (503, "Base.1.12.ServiceTemporarilyUnavailable", True, NotReady),
    ],
)
def test_blocked_busy_and_wrong_password_are_told_apart(
    status: int, code: str, retry_after: bool, kind: type[BmcError]
) -> None:
    body = {"error": {"@Message.ExtendedInfo": [{"MessageId": code, "Message": "m"}]}}
    assert type(error_for("POST", SESSIONS, status, body, retry_after)) is kind


def test_a_blocked_address_by_retry_after(bmc: FakeBmc) -> None:
    bmc.answers[f"POST {SESSIONS}"] = (401, {}, {"Retry-After": "60"})
    outcomes, _took = timed(targets(bmc, 1), bmc)
    assert isinstance(outcomes["n0"].error, Blocked)


def test_a_session_that_ended_is_no_wrong_password(bmc: FakeBmc) -> None:
    bmc.answers[f"GET {THING}"] = error(401, "Base.1.12.AccessDenied")
    outcomes, _took = timed(targets(bmc, 1), bmc)
    assert isinstance(outcomes["n0"].error, SessionLost)
    assert bmc.asked("POST") == [f"POST {SESSIONS}"]
    assert outcomes["n0"].error.condition == "not_ready"


def test_a_bmc_that_closes_after_each_answer(bmc: FakeBmc) -> None:
    """Some do; the TLS session is taken up again, and nothing is asked twice."""
    for name in ("GET /redfish/v1", f"POST {SESSIONS}", f"GET {THING}"):
        status, body, *more = bmc.answers[name]  # type: ignore[misc]
        bmc.answers[name] = (status, body, {**(more[0] if more else {}), "Connection": "close"})
    outcomes, _took = timed(targets(bmc, 1), bmc)
    assert outcomes["n0"].error is None
    assert bmc.asked() == ["GET /redfish/v1", f"POST {SESSIONS}", f"GET {THING}", f"DELETE {SESSIONS}/7"]


def test_a_connection_that_died_while_waiting_is_made_anew(bmc: FakeBmc) -> None:
    bmc.answers["GET /redfish/v1"] = _then_close(ROOT_BODY)
    outcomes, _took = timed(targets(bmc, 3), bmc, workers=1)
    assert [outcome.error for outcome in outcomes.values()] == [None] * 3
    assert bmc.asked("POST") == [f"POST {SESSIONS}"] * 3


def _then_close(body: dict[str, Any]) -> Callable[[Any], None]:
    """Answer as if the connection were kept, and close it."""
    import json

    content = json.dumps(body).encode()

    def answer(tls: Any) -> None:
        tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(content), content))

    return answer


def test_a_bug_in_the_work_is_that_hosts_alone(bmc: FakeBmc) -> None:
    def work(session: BmcClient) -> Any:
        if session.name == "n1":
            raise KeyError("odd")
        return session.get(THING)

    outcomes = run(targets(bmc, 3), work, ca_file=bmc.ca_file)
    assert isinstance(outcomes["n1"].error, HalfAnswering)
    assert outcomes["n0"].error is outcomes["n2"].error is None
    assert bmc.asked("DELETE") == [f"DELETE {SESSIONS}/7"] * 3


def test_an_interruption_logs_out_and_leaves_no_thread(bmc: FakeBmc) -> None:
    bmc.answers[f"GET {THING}"] = hang

    def interrupt() -> None:
        if f"GET {THING}" in bmc.asked():
            raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        run(targets(bmc, 2), ask, ca_file=bmc.ca_file, workers=1, on_tick=interrupt)
    until = time.monotonic() + 3
    while threading.active_count() > before + 6 and time.monotonic() < until:
        time.sleep(0.05)
    assert bmc.asked("POST").count(f"POST {SESSIONS}") == bmc.asked("DELETE").count(f"DELETE {SESSIONS}/7")


def test_pace_goes_up_while_calm_and_back_when_slow() -> None:
    pace = Pace(100)
    for _ in range(30):
        pace.judge(0.2, 0.3)
    assert (pace.limit, pace.usual) == (200, 0.2)
    pace.judge(0.2, 0.9)  # this process is at its end
    assert pace.limit == 180
    pace.judge(0.3, 0.3)  # a little slower: neither more nor less
    assert pace.limit == 180
    for _ in range(30):
        pace.judge(0.5, 0.3)
    assert pace.limit == 100
    for _ in range(30):
        pace.judge(0.9, 0.1, starved=True)
    assert pace.limit == 25
    for _ in range(30):
        pace.judge(0.9, 0.1)  # slow, but not for want of CPU: the BMCs are
    assert pace.limit == 100
