"""Outputs against real receivers. A failing one never loses a ticket, and tells nothing twice that was noted."""

from __future__ import annotations

import base64
import email
import email.policy
import json
import re
from dataclasses import replace

import pytest
import trustme
from test_text import REAL, ROOT, ticket
from ticket_receivers import MailReceiver, Receiver, closed_port

from firstlight.errors import FirstlightError, InputError
from firstlight.ledger.store import Ledger, ledger_url
from firstlight.ledger.tickets import delivered, note_delivery, save
from firstlight.sitefiles import PlannedHost
from firstlight.tickets.model import CLOSED
from firstlight.tickets.outbox import Outbox
from firstlight.tickets.outputs import Folder, Mail, OutputError, Refused, Webhook, file_name
from firstlight.tickets.plan import Plan
from firstlight.tickets.text import Texts

BODY = '{"title": {{ title | tojson }}, "id": {{ ticket.id | tojson }}, "text": {{ text | tojson }}}'
ONE, TWO = ticket(*REAL["gpu"]), ticket(*REAL["drive"])


@pytest.fixture(scope="module")
def ca(tmp_path_factory):
    authority = trustme.CA()
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return authority, str(path), authority.issue_cert("127.0.0.1", "localhost")


@pytest.fixture
def receiver(ca):
    made = Receiver(ca[2])
    yield made
    made.stop()


@pytest.fixture
def mailbox(ca):
    made = MailReceiver(ca[2])
    yield made
    made.stop()


@pytest.fixture
def texts(tmp_path):
    folder = tmp_path / "templates"
    folder.mkdir()
    (folder / "body.json.j2").write_text(BODY)
    return Texts(folder)


@pytest.fixture
def hook(ca, receiver, texts):
    def made(**options):
        values = {"url": f"{receiver.url}/new", "template": "body.json.j2", "ca_file": ca[1], "token": "secret-1"}
        return Webhook(texts=texts, **{**values, **options})

    return made


@pytest.fixture
def mail(ca, mailbox, texts):
    def made(**options):
        values = {"host": "localhost", "port": mailbox.port, "sender": "fl@a.example", "recipients": ("dc@a.example",)}
        return Mail(texts=texts, **{**values, "ca_file": ca[1], "seconds": 5.0, **options})

    return made


def tracked(receiver):
    return {
        "url": f"{receiver.url}/new", "reference": "key", "update_url": f"{receiver.url}/issue/{{reference}}",
        "update_method": "PUT", "search_url": f"{receiver.url}/search?q={{id}}", "search_reference": "issues.0.key",
    }  # fmt: skip


def test_a_folder_has_a_file_for_each_ticket_with_its_last_text(tmp_path):
    folder = Folder(tmp_path / "tickets", Texts())
    folder.send(ONE, "")
    folder.send(ONE.changed("2026-12-01T00:00:00+00:00", "gone"), "")
    (file,) = (tmp_path / "tickets").iterdir()
    assert file.name == "FLB0003-gpu-1.md"
    assert "gone" in file.read_text()
    assert file_name(replace(ONE, id="../../etc/x")) == "______etc_x"


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"Not a directory|File exists"):
        Folder(tmp_path / "file", Texts()).send(ONE, "")


def test_a_webhook_opens_with_token_and_key(receiver, hook):
    receiver.answers["POST", "/new"] = 201, '{"key": "OPS-7"}'
    assert hook(reference="key").send(ONE, "") == "OPS-7"
    ((method, path, headers, body),) = receiver.requests
    assert (method, path, headers["Authorization"]) == ("POST", "/new", "Bearer secret-1")
    assert headers["Idempotency-Key"] == "FLB0003-gpu-1-1"
    assert body["id"] == "FLB0003-gpu-1"
    assert "What to do" in body["text"]
    assert "secret-1" not in repr(hook())


def test_a_webhook_changes_what_it_opened(receiver, hook):
    hook(**tracked(receiver)).send(ONE, "OPS 7/x")
    assert [(r[0], r[1]) for r in receiver.requests] == [("PUT", "/issue/OPS%207%2Fx")]


def test_what_was_opened_and_not_noted_is_found_again(receiver, hook):
    receiver.answers["GET", "/search"] = 200, '{"issues": [{"key": "OPS-7"}]}'
    assert hook(**tracked(receiver)).send(ONE, "") == "OPS-7"
    assert [(r[0], r[1]) for r in receiver.requests] == [("GET", "/search?q=FLB0003-gpu-1"), ("PUT", "/issue/OPS-7")]
    receiver.answers["GET", "/search"] = 200, '{"issues": []}'
    receiver.answers["POST", "/new"] = 201, '{"key": "OPS-8"}'
    assert hook(**tracked(receiver)).send(ONE, "") == "OPS-8"


def test_nothing_is_opened_while_the_search_fails(receiver, hook):
    receiver.answers["GET", "/search"] = 503, "later"
    with pytest.raises(OutputError, match=r"^GET https://127\.0\.0\.1:\d+: 503 later"):
        hook(**tracked(receiver)).send(ONE, "")
    assert [r[0] for r in receiver.requests] == ["GET"]


@pytest.mark.parametrize(("status", "said"), [(401, "no"), (500, "<h1>\x1b[31m"), (302, "")])
def test_an_answer_that_is_no_yes_is_an_error_of_one_line(receiver, hook, status, said):
    receiver.answers["POST", "/new"] = status, said
    with pytest.raises(OutputError, match=rf"^POST https://127\.0\.0\.1:\d+: {status}") as error:
        hook().send(ONE, "")
    assert str(error.value).isprintable()
    assert "secret-1" not in str(error.value)
    assert len(receiver.requests) == 1  # a redirection is not followed: the token stays here


def test_a_receiver_that_hangs_or_is_not_there_or_is_not_known_fails_in_time(receiver, hook):
    with pytest.raises(OutputError, match="SSLError"):
        hook(ca_file="").send(ONE, "")
    assert receiver.requests == []
    with pytest.raises(OutputError, match="ConnectionError"):
        hook(url=f"https://127.0.0.1:{closed_port()}/new").send(ONE, "")
    receiver.hangs = True
    with pytest.raises(OutputError, match="Timeout"):
        hook(seconds=0.5).send(ONE, "")


SECRET = "T0/B0/S3CRET-of-a-hook"


@pytest.mark.parametrize(
    "answer",
    [
        (404, "The requested URL /hooks/T0/B0/S3CRET-of-a-hook?sig=S3CRET-query was not found"),
        (400, "no /hooks/T0%2FB0, S3CRET-of-a-hook, sig S3CRET-query; Bearer secret-1"),
        (302, ""),
        None,
    ],
)
def test_of_a_url_only_scheme_and_host_are_told(receiver, hook, answer):
    receiver.answers["POST", f"/hooks/{SECRET}"] = answer
    url = f"{receiver.url if answer else f'https://127.0.0.1:{closed_port()}'}/hooks/{SECRET}?sig=S3CRET-query"
    with pytest.raises(
        OutputError, match=r"^POST https://127\.0\.0\.1:\d+: (\d+|ConnectionError: Connection refused)"
    ) as e:
        hook(url=url).send(ONE, "")
    assert "S3CRET" not in f"{e.value}{hook(url=url)!r}"
    assert "secret-1" not in str(e.value)


def test_no_secret_of_a_header_or_url_that_cannot_be_sent_is_shown(receiver, hook):
    for wrong in ({"token": "S3CRET\n"}, {"token": "S3CRET\u20ac"}, {"headers": {"X-A": "S3CRET\r\n"}}):
        with pytest.raises(OutputError) as e:
            hook(**wrong).send(ONE, "")
        assert "S3CRET" not in str(e.value)
        assert "20ac" not in str(e.value)
    assert receiver.requests == []
    for url in (
        "https://u:S3CRET@x/",
        "https://[::1/S3CRET",
        "https://x:99999/S3CRET",
        "https://a..b/S3CRET",
        "S3CRET",
    ):
        with pytest.raises(InputError) as e:
            hook(url=url)
        assert "S3CRET" not in str(e.value)


def test_an_answer_that_is_no_sensible_json_is_a_yes_without_a_reference(receiver, hook):
    receiver.answers["POST", "/new"] = 201, "[" * 100000
    assert hook(reference="key").send(ONE, "") == ""


def test_what_a_mail_server_says_to_a_login_is_not_shown(mailbox, mail):
    mailbox.refuses_login = True
    with pytest.raises(OutputError) as e:
        mail(username="u", password="S3CRET").send(ONE, "")
    assert "SMTPAuthenticationError 535" in str(e.value)
    assert base64.b64encode(b"\0u\0S3CRET").decode() not in str(e.value)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"ca_file": "/none.pem"}, "ca_file /none.pem: No such file or directory"),
        ({"ca_file": __file__}, "holds no certificate in PEM"),
        ({"sender": "a@b\nc"}, "ValueError"),
        ({"recipients": ("a@b\nBcc: c@d",)}, "ValueError"),
        ({"host": "a..b"}, "a..b:"),
    ],
)
def test_a_mail_that_cannot_be_made_is_one_line(mail, wrong, said):
    with pytest.raises(OutputError) as e:
        mail(**wrong).send(ONE, "")
    assert said in str(e.value)
    assert "\n" not in str(e.value)


def test_a_sender_with_a_name_makes_a_message_id_that_is_one(mail):
    assert mail(sender="Firstlight <fl@a.example>").message(ONE)["Message-ID"] == "<FLB0003-gpu-1-1@a.example>"


def test_what_is_wrong_with_a_webhook_is_said(hook, texts, tmp_path):
    with pytest.raises(InputError, match=r"http://jira.example must begin with https://"):
        hook(url="http://jira.example/x")
    (tmp_path / "templates" / "bad.j2").write_text("{{ title }}")
    with pytest.raises(InputError, match=r"bad\.j2: does not make JSON"):
        hook(template="bad.j2").send(ONE, "")


def test_mail_goes_over_verified_tls_with_a_login(mailbox, mail):
    mail(username="u", password="p").send(ONE, "")
    ((to, text),) = mailbox.messages
    message = email.message_from_string(text, policy=email.policy.default)
    assert to == ["dc@a.example"]
    assert message["Message-ID"] == "<FLB0003-gpu-1-1@a.example>"
    assert "reseat GPU Video.Slot.26-1" in message["Subject"]
    assert "What to do" in message.get_content()
    assert [secure for secure, _ in mailbox.logins] == [True]


def test_a_change_by_mail_answers_the_first_and_is_the_same_when_it_is_sent_again(mail):
    changed = ONE.changed("2026-12-01T00:00:00+00:00", "gone")
    message, again = (mail().message(changed) for _ in range(2))
    assert message["Message-ID"] == again["Message-ID"] == "<FLB0003-gpu-1-2@a.example>"
    assert message["In-Reply-To"] == "<FLB0003-gpu-1-1@a.example>"


def test_mail_is_not_sent_in_the_clear_nor_to_a_stranger(ca, mailbox, mail):
    with pytest.raises(OutputError, match="SSLCertVerificationError"):
        mail(ca_file="").send(ONE, "")
    plain = MailReceiver(None)
    try:
        with pytest.raises(OutputError, match="SMTPNotSupportedError"):
            mail(port=plain.port, username="u", password="p").send(ONE, "")
        assert (plain.messages, plain.logins, mailbox.messages) == ([], [], [])
    finally:
        plain.stop()


def test_mail_that_is_refused_says_by_whom(mailbox, mail):
    mailbox.refuses = {"x@a.example"}
    with pytest.raises(OutputError, match=r"refused x@a.example"):
        mail(recipients=("dc@a.example", "x@a.example")).send(ONE, "")
    mailbox.fails_after_data = True
    with pytest.raises(OutputError, match=r"SMTPDataError .*451"):
        mail().send(ONE, "")
    with pytest.raises(OutputError, match="Connection refused"):
        mail(port=closed_port()).send(ONE, "")


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(ledger_url("ledger.sqlite", tmp_path))
    made.plan("lab", [PlannedHost("r1-n03", "r1", 16, "10.0.0.3", "xe9680", service_tag="FLB0003")])
    save(made, Plan(opened=[ONE, TWO]))
    return made


def test_what_was_delivered_is_not_told_again_and_a_change_is(ledger, receiver, hook):
    for _ in range(2):
        assert Outbox(ledger).deliver([ONE, TWO], [hook()]) == []
    assert len(receiver.requests) == 2
    changed = ONE.changed("2026-12-01T00:00:00+00:00", "gone")
    Outbox(ledger).deliver([changed, TWO], [hook()])
    assert [r[3]["id"] for r in receiver.requests[2:]] == [ONE.id]


def test_a_failing_output_holds_up_no_other_and_gets_everything_later(ledger, tmp_path, receiver, hook):
    receiver.answers["POST", "/new"] = 503, "down"
    outputs = [hook(), Folder(tmp_path / "out", Texts())]
    (line,) = Outbox(ledger).deliver([ONE, TWO], outputs)
    assert line.startswith("webhook: 2 tickets wait, from FLB0003-drive-1 on: POST https://")
    assert len(receiver.requests) == 1  # it is not asked for each
    assert len(list((tmp_path / "out").iterdir())) == 2
    del receiver.answers["POST", "/new"]
    assert Outbox(ledger).deliver([ONE, TWO], outputs) == []
    assert {r[3]["id"] for r in receiver.requests[1:]} == {ONE.id, TWO.id}


def test_a_ticket_that_is_not_taken_holds_up_no_other(ledger, receiver, hook):
    class Picky:
        name = "picky"
        told = ()

        def send(self, ticket, reference):
            if ticket.id == TWO.id:
                raise Refused("POST https://x: 400 no such label")
            self.told = (*self.told, ticket.id)
            return ""

    picky = Picky()
    (line,) = Outbox(ledger).deliver([ONE, TWO], [picky])
    assert line == f"picky: 1 tickets wait; it does not take {TWO.id}: POST https://x: 400 no such label"
    assert picky.told == (ONE.id,)
    receiver.answers["POST", "/new"] = 422, "no such label"
    assert "2 tickets wait; it does not take FLB0003-drive-1" in Outbox(ledger).deliver([ONE, TWO], [hook()])[0]
    assert len(receiver.requests) == 2


@pytest.mark.parametrize("error", [KeyError("S3CRET"), RecursionError("S3CRET"), MemoryError(), UnicodeError("S3CRET")])
def test_whatever_an_output_raises_holds_up_no_other_and_is_told_later(ledger, tmp_path, error):
    class Broken:
        name = "broken"

        def send(self, ticket, reference):
            raise error

    outputs = [Broken(), Folder(tmp_path / "out", Texts())]
    (line,) = Outbox(ledger).deliver([ONE, TWO], outputs)
    assert line.startswith(f"broken: 2 tickets wait, from {TWO.id} on: {type(error).__name__}")
    assert "S3CRET" not in line
    assert len(list((tmp_path / "out").iterdir())) == 2
    assert Outbox(ledger).waiting("broken", [ONE, TWO]) == [TWO, ONE]


def test_a_slow_output_is_left_alone_in_time(ledger, tmp_path):
    (line,) = Outbox(ledger).deliver([ONE, TWO], [Folder(tmp_path / "out", Texts())], seconds=-1)
    assert line == "folder: 2 tickets wait, from FLB0003-drive-1 on: it is too slow"


def test_an_output_that_is_new_is_not_told_what_was_closed_long_ago(ledger):
    old = replace(ONE, state=CLOSED, updated="2020-01-01T00:00:00+00:00")
    assert Outbox(ledger).waiting("new", [old, TWO]) == [TWO]
    note_delivery(ledger, "new", ONE, "")
    assert Outbox(ledger).waiting("new", [replace(old, version=2)])


def test_a_crash_between_sending_and_noting_opens_no_second_ticket(ledger, receiver, hook):
    receiver.answers["POST", "/new"] = 201, '{"key": "OPS-7"}'
    receiver.answers["GET", "/search"] = 200, '{"issues": []}'
    output = hook(**tracked(receiver))
    output.send(ONE, "")  # and then the power went
    receiver.answers["GET", "/search"] = 200, '{"issues": [{"key": "OPS-7"}]}'
    assert Outbox(ledger).deliver([ONE], [output]) == []
    assert [r[0] for r in receiver.requests].count("POST") == 1
    assert delivered(ledger, "webhook") == {ONE.id: (1, "OPS-7")}


def test_notes_that_cannot_be_written_stop_before_anything_is_told_twice(ledger, receiver, hook):
    with ledger._engine.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TRIGGER full BEFORE INSERT ON delivery BEGIN SELECT RAISE(FAIL, 'full'); END"
        )
    with pytest.raises(FirstlightError, match="full"):
        Outbox(ledger).deliver([ONE, TWO], [hook()])
    assert len(receiver.requests) == 1


def test_the_examples_in_the_docs_make_json_that_names_the_ticket(tmp_path, receiver, hook):
    blocks = re.findall(r'^    (\{".*\})$', (ROOT / "docs" / "tickets.md").read_text(), re.MULTILINE)
    assert len(blocks) == 3
    for number, block in enumerate(blocks):
        (tmp_path / "templates" / f"docs{number}.j2").write_text(block)
        hook(template=f"docs{number}.j2").send(ONE, "")
        assert ONE.id in json.dumps(receiver.requests[-1][3])
