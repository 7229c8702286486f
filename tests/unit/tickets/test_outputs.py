"""Outputs against real receivers. A failing one never loses a ticket, and tells nothing twice that was noted."""

from __future__ import annotations

import email
import email.policy
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import trustme
from test_text import REAL, ROOT, ticket
from ticket_receivers import MailReceiver, Receiver, closed_port

from firstlight.errors import FirstlightError, InputError
from firstlight.tickets.outbox import Outbox
from firstlight.tickets.outputs import Folder, Mail, OutputError, Webhook, file_name
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
    with pytest.raises(OutputError, match=r"GET https://127.*/search: 503 later"):
        hook(**tracked(receiver)).send(ONE, "")
    assert [r[0] for r in receiver.requests] == ["GET"]


@pytest.mark.parametrize(("status", "said"), [(401, "no"), (500, "<h1>\x1b[31m"), (302, "")])
def test_an_answer_that_is_no_yes_is_an_error_of_one_line(receiver, hook, status, said):
    receiver.answers["POST", "/new"] = status, said
    with pytest.raises(OutputError, match=f"/new: {status}") as error:
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


def test_what_is_wrong_with_a_webhook_is_said(hook, texts, tmp_path):
    with pytest.raises(InputError, match=r"http://jira.example/x must begin with https://"):
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


def test_what_was_delivered_is_not_told_again_and_a_change_is(tmp_path, receiver, hook):
    for _ in range(2):
        assert Outbox(tmp_path / "notes.json").deliver([ONE, TWO], [hook()]) == []
    assert len(receiver.requests) == 2
    changed = ONE.changed("2026-12-01T00:00:00+00:00", "gone")
    Outbox(tmp_path / "notes.json").deliver([changed, TWO], [hook()])
    assert [r[3]["id"] for r in receiver.requests[2:]] == [ONE.id]


def test_a_failing_output_holds_up_no_other_and_gets_everything_later(tmp_path, receiver, hook):
    receiver.answers["POST", "/new"] = 503, "down"
    outputs = [hook(), Folder(tmp_path / "out", Texts())]
    (line,) = Outbox(tmp_path / "notes.json").deliver([ONE, TWO], outputs)
    assert line.startswith("webhook: 2 tickets wait, from FLB0003-drive-1 on: POST https://")
    assert len(receiver.requests) == 1  # it is not asked for each
    assert len(list((tmp_path / "out").iterdir())) == 2
    del receiver.answers["POST", "/new"]
    assert Outbox(tmp_path / "notes.json").deliver([ONE, TWO], outputs) == []
    assert {r[3]["id"] for r in receiver.requests[1:]} == {ONE.id, TWO.id}


def test_a_crash_between_sending_and_noting_opens_no_second_ticket(tmp_path, receiver, hook):
    receiver.answers["POST", "/new"] = 201, '{"key": "OPS-7"}'
    receiver.answers["GET", "/search"] = 200, '{"issues": []}'
    output = hook(**tracked(receiver))
    output.send(ONE, "")  # and then the power went
    receiver.answers["GET", "/search"] = 200, '{"issues": [{"key": "OPS-7"}]}'
    assert Outbox(tmp_path / "notes.json").deliver([ONE], [output]) == []
    assert [r[0] for r in receiver.requests].count("POST") == 1
    assert json.loads((tmp_path / "notes.json").read_text())["webhook"][ONE.id] == {"version": 1, "reference": "OPS-7"}


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', '{"a": {"b": {"version": "1"}}}', "{", "\x00"])
def test_notes_that_cannot_be_read_are_said_and_not_taken_for_none(tmp_path, text):
    (tmp_path / "notes.json").write_text(text)
    with pytest.raises(FirstlightError, match="move it away") as error:
        Outbox(tmp_path / "notes.json")
    assert "\n" not in str(error.value)


def test_notes_that_cannot_be_written_stop_before_anything_is_told_twice(tmp_path, receiver, hook):
    (tmp_path / "file").write_text("")
    outbox = Outbox(Path(tmp_path / "file" / "notes.json"))
    with pytest.raises(FirstlightError, match="cannot be noted"):
        outbox.deliver([ONE, TWO], [hook()])
    assert len(receiver.requests) == 1


def test_the_examples_in_the_docs_make_json_that_names_the_ticket(tmp_path, receiver, hook):
    blocks = re.findall(r'^    (\{".*\})$', (ROOT / "docs" / "tickets.md").read_text(), re.MULTILINE)
    assert len(blocks) == 3
    for number, block in enumerate(blocks):
        (tmp_path / "templates" / f"docs{number}.j2").write_text(block)
        hook(template=f"docs{number}.j2").send(ONE, "")
        assert ONE.id in json.dumps(receiver.requests[-1][3])
