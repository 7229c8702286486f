"""tickets.yml of a site: what is in it, and every wrong one is one line."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from firstlight.errors import InputError
from firstlight.tickets.outputs import Folder, Mail, Webhook
from firstlight.tickets.settings import TicketSettings, load_tickets, make_outputs

ROOT = Path(__file__).resolve().parents[3]
WHOLE = """\
locator_led: true
templates: words
outputs:
  - folder: out
  - webhook:
      name: jira
      url: https://jira.example.com/rest/api/2/issue
      template: jira.json.j2
      token_from: JIRA_TOKEN
      headers: {X-Team: dc}
      reference: key
      update_url: https://jira.example.com/rest/api/2/issue/{reference}
      update_method: PUT
      search_url: https://jira.example.com/search?q={id}
      search_reference: issues.0.key
      ca_file: ca.pem
  - mail:
      host: smtp.example.com
      sender: f@example.com
      recipients: [dc@example.com]
      username: f
      password_from: SMTP_PASSWORD
"""
SECRETS = {"JIRA_TOKEN": "token-of-jira", "SMTP_PASSWORD": "password-of-mail"}


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def load(tmp_path, authority):
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "jira.json.j2").write_text('{"fields": {{ title | tojson }}}')

    def loaded(text, **options):
        (tmp_path / "tickets.yml").write_text(text)
        return load_tickets(tmp_path / "tickets.yml", **options)

    return loaded


def test_everything_that_a_file_can_say(load, tmp_path):
    settings = load(WHOLE)
    assert (settings.locator_led, settings.templates) == (True, tmp_path / "words")
    (folder, hook, mail), left_out = make_outputs(settings, tmp_path / "default", SECRETS)
    assert left_out == []
    assert isinstance(folder, Folder)
    assert folder.path == tmp_path / "out"
    assert isinstance(hook, Webhook)
    assert (hook.name, hook.token, hook.update_method, hook.ca_file) == (
        "jira",
        "token-of-jira",
        "PUT",
        str(tmp_path / "ca.pem"),
    )
    assert isinstance(mail, Mail)
    assert (mail.name, mail.password, mail.recipients, mail.port) == (
        "mail",
        "password-of-mail",
        ("dc@example.com",),
        587,
    )
    assert "token-of-jira" not in f"{settings!r}{hook!r}"
    assert "password-of-mail" not in f"{settings!r}{mail!r}"


def test_a_site_that_says_nothing_has_the_folder_of_its_reports(load, tmp_path):
    (default,), _ = make_outputs(TicketSettings(), tmp_path / "default", {})
    assert (default.name, default.path) == ("folder", tmp_path / "default")
    (same,), _ = make_outputs(load("locator_led: false\n"), tmp_path / "default", {})
    assert same.path == default.path
    assert make_outputs(load("outputs: []\n"), tmp_path / "default", {}) == ([], [])


def test_an_output_whose_secret_is_missing_is_left_out_and_said(load, tmp_path):
    settings = load(WHOLE)
    some = {"SMTP_PASSWORD": "password-of-mail", "JIRA_TOKEN": ""}
    made, left_out = make_outputs(settings, tmp_path, some)
    assert [one.name for one in made] == ["folder", "mail"]
    assert left_out == ["jira: the environment variable JIRA_TOKEN is not set"]


def test_a_webhook_without_a_template_has_ours(load):
    (hook,) = load("outputs:\n  - webhook: {url: 'https://x.example/new'}\n").outputs
    assert hook.values["template"] == "webhook.json.j2"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "must be keys with values"),
        ("outputs: yes", "outputs: True must be a list"),
        ("outputs:\n  - folder: x\n  - {}", "outputs[1]: each output is one of folder"),
        ("outputs:\n  - {folder: x, mail: y}", "outputs"),
        ("outputs:\n  - folder: x\n  - folder: y", "3: outputs[1].folder: another output has the name folder"),
        ("outputs:\n  - jira: {}", "unknown key 'jira'; known are folder, webhook, mail"),
        ("outputs:\n  - webhook: {url: 'http://x.example/'}", "must begin with https://"),
        ("outputs:\n  - webhook: {url: 'https://x', token: s3cret}", "unknown key 'token'"),
        ("outputs:\n  - webhook: {url: 'https://x', token_from: s3cret-x}", "the name of an environment variable"),
        ("outputs:\n  - webhook: {url: 'https://x', headers: {Authorization: s3cret}}", "use token_from"),
        (
            "outputs:\n  - webhook: {url: 'https://x', template: none.j2}",
            "outputs[0].webhook.template: no ticket template none.j2",
        ),
        ("outputs:\n  - webhook: {url: 'https://x', template: ../../x}", "the name of a file in the folder"),
        ("templates: words\noutputs:\n  - webhook: {url: 'https://x', template: wrong.j2}", "wrong.j2:1: "),
        (
            "outputs:\n  - webhook: {url: 'https://x', update_url: 'https://x/y'}",
            "webhook.update_url: needs {reference} in it",
        ),
        ("outputs:\n  - webhook: {url: 'https://x', search_url: 'https://x/{id}'}", "and search_reference beside it"),
        ("outputs:\n  - mail: {host: x, sender: y, recipients: []}", "recipients"),
        ("outputs:\n  - mail: {host: x, sender: y@x, recipients: [z@x], username: f}", "username needs password_from"),
        ("templates: none", "1: "),
        ("locator_led: maybe", "must be true or false"),
    ],
)
def test_a_wrong_file_is_one_line_with_its_place_and_no_secret(load, tmp_path, text, said):
    (tmp_path / "words" / "wrong.j2").write_text("{% if %}")
    with pytest.raises(InputError) as caught:
        load(text)
    assert said in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path}/tickets.yml")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("outputs: 'https://x/hooks/S3CRET-hook'", "outputs: must be a list"),
        ("outputs: {webhook: {url: 'https://x/S3CRET-hook'}}", "outputs: must be a list"),
        ("- webhook: {url: 'https://x/S3CRET-hook'}", "must be keys with values"),
        ("outputs:\n  - webhook: 'https://x/S3CRET-hook'", "outputs[0].webhook: must be keys with values"),
        ("outputs:\n  - webhook:\n    url: https://x/S3CRET-hook", "each output is one of"),
        ("outputs:\n  - folder: {url: 'https://x/S3CRET-hook'}", "outputs[0].folder: must be text"),
        ("outputs:\n  - webhook: {url: ['https://x/S3CRET-hook']}", "outputs[0].webhook.url: must be text"),
        ("outputs:\n  - webhook: {url: 'https://u:S3CRET@x/y'}", "use token_from with scheme: Basic"),
        ("outputs:\n  - webhook: {url: 'https://x/y?token=S3CRET'}", "name that variable with url_from"),
        ("outputs:\n  - webhook: {url: 'http://localhost:S3CRET@x.example/'}", "http://x.example must begin with"),
        ("outputs:\n  - webhook: {url: 'https://[::1/S3CRET'}", "url: its host is none"),
        ("outputs:\n  - webhook: {url: 'https://x:99999/S3CRET'}", "url: its port is none of 1 to 65535"),
        ('outputs:\n  - webhook: {url: "https://x/S3C\\nRET"}', "no white space"),
        ("outputs:\n  - webhook: {url: 'https://x/S3CRET', url_from: HOOK}", "url or url_from, not both"),
        ("outputs:\n  - webhook: {name: x}", "needs url, or url_from for one that is a secret"),
        ("outputs:\n  - webhook: {url_from: 'https://x/S3CRET-hook'}", "the name of an environment variable"),
        ("outputs:\n  - webhook: {url: 'https://x', token_from: S3CRET-token}", "the name of an environment variable"),
        ("outputs:\n  - webhook: {url: 'https://x', token_from: [S3CRET]}", "the name of an environment variable"),
        ("outputs:\n  - webhook: {url: 'https://x', headers: {X-Key: S3CRET}}", "use token_from"),
        ("outputs:\n  - webhook: {url: 'https://x', headers: {X-A: [S3CRET]}}", "headers: X-A: must be text"),
        ("outputs:\n  - webhook: {url: 'https://x', headers: {X-A: \"S3CRET\\nB: c\"}}", "only printable ASCII"),
        ("outputs:\n  - webhook: {url: 'https://x', headers: {X A: S3CRET}}", "a header's name"),
        ("outputs:\n  - webhook: {url: 'https://x', scheme: \"S3CRET\\nx\"}", "only printable ASCII"),
        (
            "outputs:\n  - webhook: {url: 'https://x', update_url_from: HOOK}",
            "webhook.update_url_from: needs {reference} in it",
        ),
        (
            "outputs:\n  - mail: {host: x, sender: a@x, recipients: [b@x], password_from: S3CRET-p}",
            "the name of an env",
        ),
    ],
)
def test_what_may_be_a_secret_is_not_shown_when_it_is_wrong(load, text, said):
    with pytest.raises(InputError) as caught:
        load(text)
    assert said in str(caught.value)
    assert "S3C" not in str(caught.value)


MAIL = "outputs:\n  - mail: {host: %s, sender: %s, recipients: [%s]%s}"
HOOK = "outputs:\n  - webhook: {url: 'https://x', ca_file: %s}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (MAIL % ("x", "a@x", "b@x", ", ca_file: none.pem"), "none.pem: No such file or directory"),
        (MAIL % ("x", "a@x", "b@x", ", ca_file: tickets.yml"), "tickets.yml: holds no certificate in PEM"),
        (HOOK % "none.pem", "none.pem: No such file or directory"),
        (HOOK % "words", "ca_file"),
        (HOOK % '"a\\0b"', "a path has no control characters"),
        (MAIL % ("x", '"a@x\\nb"', "b@x", ""), "sender: 'a@x b' is no address"),
        (MAIL % ("x", "a@x", '"b@x\\nBcc: c@x"', ""), "recipients[0]: 'b@x Bcc: c@x' is no address"),
        (MAIL % ("x", "a@x", '"b@x, c@x"', ""), "recipients[0]: 'b@x, c@x' is no address"),
        (MAIL % ("x", '"@"', "b@x", ""), "sender: '@' is no address"),
        (MAIL % ("a..b", "a@x", "b@x", ""), "host: 'a..b' is not right"),
        (MAIL % ('"a\\0b"', "a@x", "b@x", ""), "host: 'a?b' is not right"),
        ("outputs:\n  - folder: ~nouser-of-this-name/x", "there is no such user"),
        ('outputs:\n  - folder: "a\\0b"', "a path has no control characters"),
        ('outputs:\n  - folder: "a\\ud800b"', "a path has no control characters"),
        ("outputs:\n  - folder: tickets.yml/x", "tickets.yml/x: Not a directory"),
        ('templates: "a\\0b"', "a path has no control characters"),
        ("templates: ~nouser-of-this-name/x", "there is no such user"),
    ],
)
def test_what_cannot_work_is_told_when_the_file_is_read_and_holds_up_no_other_output(load, tmp_path, text, said):
    with pytest.raises(InputError) as caught:
        load(text)
    assert said in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path}/tickets.yml:{1 if 'templates' in text else 2}: ")
    assert "\n" not in str(caught.value)
    hook = "\n  - webhook: {name: other, url: 'https://x.example'}"
    settings = load(text if "templates" in text else text + hook, strict=False)
    (line,) = settings.wrong
    assert said in line
    assert [one.name for one in settings.outputs] == ([] if "templates" in text else ["other"])


def test_names_and_addresses_that_people_write_are_right(load):
    load(MAIL % ("smtp.example.com", '"Firstlight <f@x.example>"', 'root@localhost, "Jo Doe <jo@x.example>"', ""))
    load(MAIL % ('"::1"', "f@x.example", "b@x.example", ""))
    load("outputs:\n  - webhook: {url: 'https://[::1]:8443/a?fields=key&x=1', headers: {X-Team: dc 1}, scheme: Basic}")
    load("outputs:\n  - webhook: {url: 'https://x/y', search_url: 'https://x/y?issue_key={id}', search_reference: key}")


TEMPLATES = {
    "ticket.md.j2: it extends itself": '{% extends "ticket.md.j2" %}',
    "ticket.md.j2:1: it calls itself without end": "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
    "ticket.md.j2: it, or one that it names, is no UTF-8 text": b"\xff\xfe",
    "ticket.md.j2: makes half a surrogate pair": '{{ "\\ud800" }}',
    "ticket.md.j2:2: Expected an expression": "a\n{% if %}",
    "ticket.md.j2:2: 'tickt' is undefined": "a\n{{ tickt }}",
    "other.j2:1: Expected an expression": '{% if ticket.why == "never" %}{% include "other.j2" %}{% endif %}',
    "no ticket template none.j2": '{% extends "none.j2" %}',
}


@pytest.mark.parametrize("said", TEMPLATES)
def test_a_template_that_cannot_work_is_told_when_the_file_is_read(load, tmp_path, said):
    text = TEMPLATES[said]
    (tmp_path / "words" / "other.j2").write_text("{% if %}")
    (tmp_path / "words" / "ticket.md.j2").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as caught:
        load("locator_led: true\ntemplates: words\n")
    assert str(caught.value).startswith(f"{tmp_path}/tickets.yml:2: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    settings = load("locator_led: true\ntemplates: words\n", strict=False)
    assert (settings.locator_led, settings.outputs, len(settings.wrong)) == (True, (), 1)


@pytest.mark.parametrize("text", ["no", "NaN", '{% extends "wrong.j2" %}', '{"a": "\\ud800"}', "[" * 9999])
def test_a_template_that_makes_no_json_is_told_when_the_file_is_read(load, tmp_path, text):
    (tmp_path / "words" / "wrong.j2").write_text(text)
    with pytest.raises(InputError, match=rf"{tmp_path}/tickets.yml:2: outputs\[0\].webhook.template: wrong\.j2: "):
        load("templates: words\noutputs: [webhook: {url: 'https://x', template: wrong.j2}]")


def test_optional_templates_may_be_missing(load, tmp_path):
    (tmp_path / "words" / "ticket.md.j2").write_text('{% include "mine.j2" ignore missing %}{{ ticket.id }}')
    load("templates: words\n")


def test_a_url_that_is_a_secret_comes_from_the_environment(load, tmp_path):
    settings = load(
        "outputs:\n  - webhook: {name: slack, url_from: HOOK, search_url_from: SEARCH, search_reference: id}\n"
        "  - folder: out\n"
    )
    good = {"HOOK": "https://hooks.example/T0/S3CRET\n", "SEARCH": "https://hooks.example/{id}?token=S3CRET"}
    (hook, folder), left_out = make_outputs(settings, tmp_path, good)
    assert (hook.url, hook.search_url, folder.name, left_out) == (good["HOOK"].strip(), good["SEARCH"], "folder", [])
    assert "S3CRET" not in repr(hook)
    for wrong, said in (
        ({}, "HOOK is not set"),
        ({"HOOK": "http://x/S3CRET"}, "HOOK: http://x must begin with https://"),
        ({"HOOK": "https://u:S3CRET@x/"}, "HOOK: user and password do not belong"),
        ({"HOOK": "https://[::1/S3CRET"}, "HOOK: its host is none"),
        ({"HOOK": "https://x/S3CRET\nhttps://y"}, "HOOK is not one line of printable ASCII"),
        ({"SEARCH": "https://x/S3CRET"}, "SEARCH: its URL needs {id} in it"),
    ):
        made, (line,) = make_outputs(settings, tmp_path, {**good, **wrong} if wrong else {})
        assert [one.name for one in made] == ["folder"]
        assert line.startswith("slack: the environment variable ")
        assert said in line
        assert "S3CRET" not in line


@pytest.mark.parametrize("secret", ["a\nS3CRET", "S3CRET\u20ac", "S3CRET\x00"])
def test_a_secret_that_no_header_can_carry_is_refused_unseen(load, tmp_path, secret):
    made, (one, two) = make_outputs(load(WHOLE), tmp_path, {"JIRA_TOKEN": secret, "SMTP_PASSWORD": secret})
    assert [one.name for one in made] == ["folder"]
    assert "S3CRET" not in one + two
    assert (one, two) == (
        "jira: the environment variable JIRA_TOKEN is not one line of printable ASCII",
        "mail: the environment variable SMTP_PASSWORD is not one line of printable ASCII",
    )
    (_, hook, mail), _ = make_outputs(load(WHOLE), tmp_path, {"JIRA_TOKEN": "tok\r\n", "SMTP_PASSWORD": " pw\n"})
    assert (hook.token, mail.password) == ("tok", "pw")


def test_what_ansible_would_read_as_inventory_is_refused(load, tmp_path):
    (tmp_path / "lab.redfish_bmc.yml").write_text("")
    (tmp_path / "certs").mkdir()
    (tmp_path / "certs" / "ca.pem").write_text("")
    for text in (
        "templates: words",
        "outputs:\n  - folder: out",
        HOOK % "certs/ca.pem",
        f"templates: {tmp_path}/words",
    ):
        with pytest.raises(InputError, match=r"tickets\.yml:\d: .* lies in the inventory, where Ansible reads it"):
            load(text)
    (tmp_path / "words").rename(tmp_path / "ticket_templates")
    load(f"templates: ticket_templates\noutputs:\n  - folder: tickets\n{HOOK[9:] % 'ca.pem'}")
    load("templates: .\noutputs:\n  - folder: ../tickets-of-this-test")


def test_the_example_site_s_file_is_right():
    settings = load_tickets(ROOT / "inventory" / "example" / "tickets.yml")
    assert [one.kind for one in settings.outputs] == ["folder"]
