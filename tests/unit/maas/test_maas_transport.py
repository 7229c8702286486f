"""Requests, errors and retries of the MAAS client, without a network."""

from __future__ import annotations

import base64
import json
from types import SimpleNamespace

import pytest

from firstlight.errors import InputError
from firstlight.maas.api import OPERATIONS, api_root
from firstlight.maas.client import MaasClient, MaasError
from firstlight.maas.hostkeys import new_key_pair

URL = "https://maas.example.org:5443/MAAS"
KEY = "consumerpart1:tokenpart22:secretpart333"


class Scripted(MaasClient):
    """Answers from a list: (status, body) or (status, body, headers), or an exception to raise."""

    def __init__(self, *answers, key=KEY):
        self.answers, self.sent, self.waits = list(answers), [], []
        super().__init__(URL, key, None, pause=self.waits.append)

    def _send(self, request):
        self.sent.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, body, *headers = answer
        kind = {"Content-Type": "text/plain" if isinstance(body, str) else "application/json"}
        text = body if isinstance(body, str) else json.dumps(body)
        return SimpleNamespace(status_code=status, headers={**kind, **(headers or [{}])[0]}, reason="x"), text.encode()


def test_what_is_sent():
    client = Scripted((200, []), (200, {}), (200, {}))
    client.machines(mac_address=["02:AA:00:00:00:01", "02:AA:00:00:00:02"])
    client.deploy("abc", "noble", "Zm9v")
    get, post = client.sent
    assert get.method == "GET" and get.body is None
    assert get.url == (
        "https://maas.example.org:5443/MAAS/api/2.0/machines/"
        "?mac_address=02%3Aaa%3A00%3A00%3A00%3A01&mac_address=02%3Aaa%3A00%3A00%3A00%3A02"
    )
    authorization = get.headers["Authorization"]
    assert 'oauth_signature_method="PLAINTEXT"' in authorization and 'oauth_token="tokenpart22"' in authorization
    assert post.url == "https://maas.example.org:5443/MAAS/api/2.0/machines/abc/?op=deploy"
    assert b'name="distro_series"' in post.body and b"hwe_kernel" not in post.body


@pytest.mark.parametrize("encode", [lambda text: base64.b64encode(text.encode()).decode(), lambda text: text])
def test_an_answer_that_repeats_user_data_shows_nothing_of_it(encode):
    private = new_key_pair().private
    sent = encode(f"#cloud-config\nssh_keys: {private}")
    for body in (f"cannot take {sent}", {"user_data": [f"bad: {sent}"]}):
        client = Scripted((400, body))
        with pytest.raises(MaasError) as caught:
            client.deploy("abc", "noble", "Zm9v")
        said = str(caught.value) + str(caught.value.fields)
        assert "***" in said
        assert not [line for line in (*private.splitlines()[1:-1], sent[40:100]) if line in said]


def test_commissioning_leaves_the_bmc_its_accounts():
    client = Scripted((200, {}))
    client.commission("abc")
    _, _, after = client.sent[0].body.partition(b'name="skip_bmc_config"')
    assert b"\r\n\r\nMQ==\r\n" in after  # 1, in base64


def test_every_try_is_signed_anew():
    client = Scripted((503, ""), (502, ""), (200, []))
    assert client.machines() == []
    nonces = {r.headers["Authorization"].split('oauth_nonce="')[1].split('"')[0] for r in client.sent}
    assert len(nonces) == 3
    assert client.waits == [1.0, 2.0]
    assert (client.reads, client.writes) == (3, 0)


@pytest.mark.parametrize(
    ("call", "answer", "tries"),
    [
        (lambda c: c.machines(), (500, ""), 1),  # an error of its own, not of the way there
        (lambda c: c.machines(), (401, "no"), 1),
        (lambda c: c.machines(), (400, "no"), 1),
        (lambda c: c.machines(), MaasError("", "timed_out"), 3),
        (lambda c: c.power_state("a"), MaasError("", "timed_out"), 1),
        (lambda c: c.deploy("a"), (503, "", {"Retry-After": "10"}), 1),
        (lambda c: c.deploy("a"), (409, "wrong state"), 1),
        (lambda c: c.deploy("a"), (409, "", {"Retry-After": "5"}), 3),  # rolled back
        (lambda c: c.deploy("a"), MaasError("", "lost"), 1),
        (lambda c: c.deploy("a"), MaasError("", "unreachable"), 3),  # never sent
        (lambda c: c.commission("a"), (504, ""), 1),
        (lambda c: c.release("a"), (503, ""), 1),
        (lambda c: c.update("a", hostname="b"), (503, ""), 3),  # the same twice is the same
        (lambda c: c.update("a", hostname="b"), MaasError("", "lost"), 3),
        (lambda c: c.update("a", hostname="b"), (400, ""), 1),
        (lambda c: c.tag_machines("t", ["a"]), (504, ""), 3),
    ],
)
def test_only_what_is_safe_is_sent_again(call, answer, tries):
    client = Scripted(*[answer] * 3)
    with pytest.raises(MaasError):
        call(client)
    assert len(client.sent) == tries


def test_retry_after_is_believed_within_reason():
    client = Scripted((503, "", {"Retry-After": "4"}), (503, "", {"Retry-After": "86400"}), (200, []))
    client.machines()
    assert client.waits == [4.0, 10.0]


@pytest.mark.parametrize(
    "secret", ["secretpart333", "tokenpart22", "consumerpart1", KEY, "%26secretpart333", "pass/word 1"]
)
def test_secrets_are_in_no_error(secret):
    client = Scripted((400, {"power_parameters": [f"bad {secret} here"]}), (500, f"trace {secret}\nmore"))
    client.hide("pass/word 1")
    for _ in range(2):
        with pytest.raises(MaasError) as caught:
            client.commission("abc")
        shown = f"{caught.value} {caught.value.fields}"
        assert "\n" not in str(caught.value)
        for part in [*KEY.split(":"), "pass/word 1", "pass%2Fword"]:
            assert part not in shown
        assert "***" in shown


def test_short_secrets_do_not_eat_the_text():
    client = Scripted((400, "it is so: s was wrong"), key="c:t:s")
    with pytest.raises(MaasError) as caught:
        client.machines()
    assert str(caught.value).endswith("it is so: *** was wrong")


def test_html_from_a_proxy_is_shown_as_text():
    client = Scripted((502, "<html><h1>502 Bad Gateway</h1>nginx</html>", {"Content-Type": "text/html"}))
    with pytest.raises(MaasError) as caught:
        client.release("abc")
    assert str(caught.value).endswith("answered 502: 502 Bad Gateway nginx")


def test_an_answer_that_is_something_else():
    for body in ("{", {"a": 1}):
        with pytest.raises(MaasError):
            Scripted((200, body)).machines()
    assert Scripted((200, [1, {"no": "id"}, {"system_id": "a"}])).machines() == [{"system_id": "a"}]


def test_a_redirect_is_not_followed():
    client = Scripted((301, "", {"Location": "https://elsewhere.example.org/"}))
    with pytest.raises(MaasError, match="elsewhere"):
        client.machines()
    assert len(client.sent) == 1


@pytest.mark.parametrize(
    ("url", "root"),
    [
        (URL, URL + "/api/2.0/"),
        (URL + "/", URL + "/api/2.0/"),
        (URL + "/api/2.0/", URL + "/api/2.0/"),
    ],
)
def test_urls_as_people_write_them(url, root):
    assert api_root(url) == root


@pytest.mark.parametrize(
    "url",
    ["http://maas/MAAS", "maas:5443", "", "https://", "https://u:p@maas/MAAS", "http://u:p@maas/MAAS", "https://m/?a"],
)
def test_urls_that_are_none(url):
    with pytest.raises(InputError) as caught:
        api_root(url)
    assert "https://" in str(caught.value) and "u:p" not in str(caught.value)


@pytest.mark.parametrize("key", ["", "a", "a:b", "a:b:c:d", "a::c", "a:b c:d", "a:b:c\nd"])
def test_keys_that_are_none(key):
    with pytest.raises(InputError, match="consumer:token:secret"):
        MaasClient(URL, key)


def test_every_operation_can_be_made():
    client = Scripted()
    for handler, (path, actions) in OPERATIONS.items():
        for action, (method, op) in actions.items():
            needed = {p.split("}")[0]: "x1" for p in path.split("{")[1:]}
            request = client._maker.make(f"{handler}.{action}", needed, {"a": "b"} if method != "GET" else {})
            assert request.method == method
            end = "/x1" if handler == "Script" else "/"  # the one path that MAAS has without a slash behind it
            assert request.url.endswith(f"{end}?op={op}" if op else end) and "{" not in request.url


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        # what regions of 3.4.10 and 3.7.3 were seen to answer
        ((401, "Authorization Error: 'Expired timestamp: given 1 and now 9 has a greater difference'",
          {"Date": "Sun, 29 Nov 2099 23:00:00 GMT"}), "clock", "takes our requests for old ones: this machine's clock"),
        ((401, "Authorization Error: 'Invalid access token: tokenpart22'"), "auth_failed", "refuses the API key"),
        ((400, "Unrecognised signature: method=GET op=None"), "auth_failed", "refuses the API key (HTTP 400)"),
        ((403, ""), "refused", "forbidden (is the machine locked"),
        ((404, "Not Found"), "refused", "answered 404: Not Found"),
        ((409, "Can't deploy a machine that is in the 'Failed deployment' state"), "refused", "answered 409"),
        ((400, {"__all__": ["Commission is not available because of the current state of the node."]}), "refused",
         "__all__: Commission is not available"),
        ((400, {"network": ["Node must be configured to use a network"]}), "refused",
         "network: Node must be configured to use a network"),
        # 3.4, and 3.7
        ((400, "Ephemeral operating system ubuntu jammy is unavailable."), "refused", "Ephemeral operating"),
        ((500, "No rack controllers can access the BMC of node: r1-n01"), "failed", "can access the BMC"),
        ((503, "Unable to connect to any rack controller", {"Retry-After": "10"}), "failed", "answered 503: Unable"),
        ((504, "Timed out waiting for the rack controller."), "failed", "answered 504: Timed out"),
    ],
)  # fmt: skip
def test_error_bodies_are_told_in_one_line(answer, kind, said):
    client = Scripted(answer)
    with pytest.raises(MaasError) as caught:
        client.deploy("abc123", "noble")
    assert (caught.value.kind, caught.value.status) == (kind, answer[0])
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert caught.value.no_use is (kind in ("clock", "auth_failed"))
    assert caught.value.outcome_unknown is (answer[0] >= 500)


@pytest.mark.parametrize(("header", "seconds"), [("10", 10.0), ("5", 5.0), ("86400", 10.0), ("soon", 0.0), (None, 0.0)])
def test_an_error_says_how_long_maas_wants_us_to_wait(header, seconds):
    """deploy is not sent again after a 503 by the client: who asked decides, and knows when."""
    client = Scripted((503, "", {"Retry-After": header} if header else {}))
    with pytest.raises(MaasError) as caught:
        client.deploy("abc123")
    assert (caught.value.retry_after, client.waits) == (seconds, [])
