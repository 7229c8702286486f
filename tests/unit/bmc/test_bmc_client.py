"""The client and the pool against servers that misbehave: each trouble named, nothing sent twice that may not be."""

from __future__ import annotations

import logging
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bmc_server import ROOT_BODY, SESSIONS, FakeBmc, drip, drop, error, hang

from firstlight.bmc.client import BmcClient
from firstlight.bmc.discover import Target, discover
from firstlight.bmc.errors import AuthFailed, Blocked, BmcError, Busy, HalfAnswering, NotReady, Refused, TimedOut
from firstlight.bmc.pool import run
from firstlight.bmc.transport import MAX_BYTES, tls_context
from firstlight.errors import InputError

THING = "/redfish/v1/Thing"
PASSWORD = "hunter2-secret"
ROOT_EXPANDS = ROOT_BODY | {"ProtocolFeaturesSupported": {"ExpandQuery": {"ExpandAll": True}}}


@pytest.fixture
def bmc(tmp_path: Path) -> Iterator[FakeBmc]:
    server = FakeBmc(tmp_path)
    yield server
    server.close()


def client(bmc: FakeBmc, **options: Any) -> BmcClient:
    context = tls_context(bmc.ca_file)
    return BmcClient(bmc.address, bmc.port, "root", PASSWORD, context=context, ca_file=bmc.ca_file, **options)


def asking(bmc: FakeBmc, **options: Any) -> Any:
    with client(bmc, **options) as session:
        return session.get(THING)


def test_login_work_logout(bmc: FakeBmc) -> None:
    bmc.answers[f"GET {THING}"] = (200, {"Name": "thing"})
    assert asking(bmc) == {"Name": "thing"}
    assert bmc.asked() == ["GET /redfish/v1", f"POST {SESSIONS}", f"GET {THING}", f"DELETE {SESSIONS}/7"]
    assert bmc.requests[2][2]["x-auth-token"] == "t0k3n"
    assert "authorization" not in bmc.requests[2][2]


def test_the_session_is_closed_after_an_error(bmc: FakeBmc) -> None:
    with pytest.raises(Refused):
        asking(bmc)
    assert bmc.asked("DELETE") == [f"DELETE {SESSIONS}/7"]


def test_expand_is_asked_for(bmc: FakeBmc) -> None:
    bmc.answers["GET /redfish/v1"] = (200, ROOT_EXPANDS)
    bmc.answers[f"GET {THING}"] = (200, {})
    with client(bmc) as session:
        assert session.can_expand
        session.get(THING, expand=True)
    assert f"GET {THING}?$expand=*($levels=1)" in bmc.asked()


def test_a_refused_password_is_tried_once(bmc: FakeBmc) -> None:
    bmc.answers[f"POST {SESSIONS}"] = error(401, "Base.1.12.AccessDenied", "wrong")
    with pytest.raises(AuthFailed, match="401 AccessDenied"):
        asking(bmc)
    assert bmc.asked() == ["GET /redfish/v1", f"POST {SESSIONS}"]


def test_a_401_whose_body_never_ends(bmc: FakeBmc) -> None:
    """iDRAC8: chunked, and no chunk comes."""
    bmc.answers[f"POST {SESSIONS}"] = b"HTTP/1.1 401 Unauthorized\r\nTransfer-Encoding: chunked\r\n\r\n"
    with pytest.raises(AuthFailed):
        asking(bmc)
    assert bmc.asked("POST") == [f"POST {SESSIONS}"]


def test_sessions_all_taken_basic_instead(bmc: FakeBmc) -> None:
    bmc.answers[f"POST {SESSIONS}"] = error(503, "IDRAC.2.8.RAC0218")
    bmc.answers["GET /redfish/v1/Systems"] = (200, {"Members": []})
    bmc.answers[f"GET {THING}"] = (200, {})
    asking(bmc)
    assert bmc.requests[-1][2]["authorization"].startswith("Basic ")
    assert bmc.asked("DELETE") == []


def test_sessions_all_taken_and_basic_refused(bmc: FakeBmc) -> None:
    bmc.answers[f"POST {SESSIONS}"] = error(503, "IDRAC.2.8.RAC0218")
    bmc.answers["GET /redfish/v1/Systems"] = error(503, "IDRAC.2.8.RAC0218")
    with pytest.raises(Busy):
        asking(bmc)
    bmc.answers["GET /redfish/v1/Systems"] = error(401, "Base.1.12.AccessDenied")
    with pytest.raises(AuthFailed):
        asking(bmc)


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (error(503, "IDRAC.2.8.SYS518", "no data"), NotReady, "503 SYS518 no data"),
        (error(400, "IDRAC.1.6.SWC0700"), NotReady, "400 SWC0700"),
        (error(500, "IDRAC.2.8.SYS446"), NotReady, "500 SYS446"),
        (error(404, "Base.1.12.ResourceMissingAtURI"), Refused, "404 ResourceMissingAtURI"),
        (error(403, "Base.1.12.InsufficientPrivilege"), AuthFailed, "403 InsufficientPrivilege"),
        (error(429, "X.1.0.TooMany"), Blocked, "429"),
        ((503, {}), NotReady, "503"),
        ((500, ["odd"]), Refused, "500"),
        ((200, ["a", "list"]), HalfAnswering, "without a proper JSON object"),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"a": 1,', HalfAnswering, "not proper HTTP"),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{"a": 1,', HalfAnswering, "without a proper JSON"),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{"a":1}\n{"b":2}\n', HalfAnswering, "a proper JSON"),
        (b"HTTP/1.1 200 OK\r\n\r\n", HalfAnswering, "a proper JSON"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000, HalfAnswering, "without a proper JSON"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n" + b" " * (MAX_BYTES + 70_000),
            HalfAnswering,
            "larger",
        ),
        (b"gibberish\r\n\r\n", HalfAnswering, "not proper HTTP"),
        (drop, HalfAnswering, "closed the connection instead of answering"),
        ((302, {}, {"Location": "https://192.0.2.9/steal"}), Refused, "302"),
    ],
)
def test_answers_and_what_they_mean(bmc: FakeBmc, answer: Any, kind: type[BmcError], words: str) -> None:
    bmc.answers[f"GET {THING}"] = answer
    with pytest.raises(kind) as caught:
        asking(bmc)
    assert type(caught.value) is kind
    assert words in caught.value.evidence
    assert "\n" not in caught.value.evidence
    assert bmc.asked("DELETE") == [f"DELETE {SESSIONS}/7"]


@pytest.mark.parametrize(
    "link",
    ["@192.0.2.9/", "//192.0.2.9/redfish/v1", "https://192.0.2.9/redfish/v1", "/redfish/v1/../../etc", "/other", "", 7],
)
def test_links_out_of_the_tree_are_not_followed(bmc: FakeBmc, link: Any) -> None:
    with client(bmc) as session, pytest.raises(HalfAnswering, match="leads out"):
        session.get(link)
    assert bmc.asked("GET") == ["GET /redfish/v1"]


def test_a_dropped_get_is_sent_once_more(bmc: FakeBmc) -> None:
    bmc.answers[f"GET {THING}"] = [drop, (200, {"Name": "second"})]
    assert asking(bmc) == {"Name": "second"}


def test_a_dropped_post_is_not(bmc: FakeBmc) -> None:
    """A reset whose answer was lost must not become two."""
    bmc.answers[f"POST {THING}"] = [drop, (200, {})]
    with client(bmc) as session, pytest.raises(HalfAnswering):
        session.post(THING, {"ResetType": "ForceRestart"})
    assert bmc.asked("POST").count(f"POST {THING}") == 1


@pytest.mark.parametrize(
    ("answers", "tags"),
    [
        ([(200, {})], [None]),
        ([error(428, "Ami.1.0.PreconditionHeaderMissing"), (200, {})], [None, '"e1"']),
        ([error(428, "A"), error(412, "Base.1.8.PreconditionFailed"), (200, {})], [None, '"e1"', "*"]),
    ],
)
def test_patch_and_etags(bmc: FakeBmc, answers: list[Any], tags: list[str | None]) -> None:
    bmc.answers[f"GET {THING}"] = (200, {}, {"ETag": '"e1"'})
    bmc.answers[f"PATCH {THING}"] = answers
    with client(bmc) as session:
        session.patch(THING, {"a": 1})
    assert [headers.get("if-match") for method, _p, headers, _b in bmc.requests if method == "PATCH"] == tags


def test_a_password_that_the_bmc_sends_back_is_not_kept(bmc: FakeBmc, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    bmc.answers[f"POST {SESSIONS}"] = error(400, "Base.1.0.Odd", f"no user with {PASSWORD}")
    with pytest.raises(Refused) as caught:
        asking(bmc)
    assert PASSWORD not in caught.value.evidence
    assert "no user with ***" in caught.value.evidence
    assert PASSWORD not in repr(Target("n", "192.0.2.1", 443, "root", PASSWORD))


def test_an_address_that_is_refused_altogether(bmc: FakeBmc) -> None:
    bmc.answers["GET /redfish/v1"] = error(401, "Base.1.12.AccessDenied")
    with pytest.raises(Blocked, match="refuses our address"):
        asking(bmc)
    assert bmc.asked("POST") == []


@pytest.mark.parametrize("behaviour", [hang, drip])
def test_time_is_kept(bmc: FakeBmc, behaviour: Any) -> None:
    """A reader of single bytes never times out by itself: the pool ends it."""
    bmc.answers[f"GET {THING}"] = behaviour
    started = time.monotonic()
    target = Target("n", bmc.address, bmc.port, "root", PASSWORD)
    outcome = run([target], lambda session: session.get(THING), ca_file=bmc.ca_file, deadline=1.0)["n"]
    assert isinstance(outcome.error, TimedOut)
    assert 0.9 < time.monotonic() - started < 3
    assert bmc.asked("DELETE") == [f"DELETE {SESSIONS}/7"]


def test_one_that_hangs_does_not_hold_up_the_others(tmp_path: Path) -> None:
    bmc = FakeBmc(tmp_path)
    bmc.answers[f"GET {THING}"] = [hang, hang, (200, {"Name": "thing"})]
    targets = [Target(f"n{n}", bmc.address, bmc.port, "root", PASSWORD) for n in range(8)]
    came: list[tuple[float, bool]] = []
    started = time.monotonic()
    outcomes = run(
        targets,
        lambda session: session.get(THING),
        ca_file=bmc.ca_file,
        workers=3,
        deadline=2.0,
        on_outcome=lambda _name, outcome: came.append((time.monotonic() - started, outcome.error is None)),
    )
    bmc.close()
    assert len(outcomes) == 8
    assert [at for at, good in came if good][-1] < 1.5
    assert [good for _at, good in came] == [True] * 6 + [False] * 2


def discovered(address: str, port: int, ca_file: str, deadline: float = 3.0) -> Any:
    target = Target("n", address, port, "root", PASSWORD)
    return discover([target], ca_file=ca_file, deadline=deadline)["n"]


def test_a_certificate_of_another_ca(bmc: FakeBmc, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = FakeBmc(tmp_path / "other")
    record = discovered(bmc.address, bmc.port, other.ca_file)
    other.close()
    assert (record.condition, bmc.asked()) == ("tls_failed", [])
    assert "certificate is not trusted" in record.evidence


def test_a_certificate_for_another_address(tmp_path: Path) -> None:
    bmc = FakeBmc(tmp_path, certificate_for="127.0.0.9")
    record = discovered(bmc.address, bmc.port, bmc.ca_file)
    bmc.close()
    assert (record.condition, bmc.asked()) == ("tls_failed", [])
    assert "127.0.0.1" in record.evidence


def test_no_tls_at_all(bmc: FakeBmc) -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain:
        plain.settimeout(5)
        import threading

        def serve() -> None:
            for _ in range(3):
                try:
                    connection, _ = plain.accept()
                except OSError:
                    return
                connection.sendall(b"HTTP/1.1 400 use https\r\n\r\n")
                connection.close()

        threading.Thread(target=serve, daemon=True).start()
        record = discovered("127.0.0.1", plain.getsockname()[1], bmc.ca_file)
    assert record.condition in ("tls_failed", "unreachable")
    assert record.evidence


def test_nobody_listens_and_it_is_tried_once_more(bmc: FakeBmc) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        started = time.monotonic()
        record = discovered("127.0.0.1", unused.getsockname()[1], bmc.ca_file)
    assert (record.condition, record.evidence) == ("unreachable", "connection refused")
    assert time.monotonic() - started > 1.0


def test_one_that_listens_a_little_later_is_found(bmc: FakeBmc) -> None:
    """The first probe is refused, the second is not."""
    import threading

    late = socket.socket()
    late.bind(("127.0.0.1", 0))
    threading.Timer(0.6, late.listen).start()
    record = discovered("127.0.0.1", late.getsockname()[1], bmc.ca_file, deadline=3.0)
    late.close()
    assert record.condition == "timed_out"  # it accepts now, and says nothing


def test_a_missing_ca_is_the_operators_matter(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no-such\.pem: the CA of the BMCs cannot be read: No such file"):
        tls_context(tmp_path / "no-such.pem")
    (tmp_path / "empty.pem").write_text("not a certificate")
    with pytest.raises(InputError, match="not a PEM file"):
        tls_context(tmp_path / "empty.pem")


def test_the_shared_context_always_verifies(bmc: FakeBmc) -> None:
    context = tls_context(bmc.ca_file)
    with BmcClient(bmc.address, bmc.port, "root", PASSWORD, context=context, ca_file=bmc.ca_file):
        pass
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert len(context.get_ca_certs()) == 1
