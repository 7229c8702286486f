"""Where tickets go: a folder of Markdown files, a webhook, e-mail. Each tells one version of one ticket."""

from __future__ import annotations

import json
import re
import smtplib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.utils import formatdate
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import requests
from urllib3.exceptions import HTTPError

from ..errors import FirstlightError, InputError
from ..findings import shorten
from ..wholefile import write_whole
from .model import Ticket
from .telling import bare_address, network_reason, origin, without, wrong_ca, wrong_url
from .text import Texts

SECONDS = 20.0
ANSWER_MAX = 1024 * 1024
TOLD_MAX = 8 * 1024  # bytes of an answer that are read for people
_OF_ONE = (400, 409, 410, 413, 422)  # what a receiver says of one request, not of all


class OutputError(FirstlightError):
    """One ticket was not delivered; it is tried again."""


class Refused(OutputError):
    """The receiver does not take this ticket; it may take others."""


class Output(Protocol):
    """name: of this output, never changes: what was delivered is noted under it."""

    @property
    def name(self) -> str: ...

    def send(self, ticket: Ticket, reference: str) -> str:
        """Tell this version. reference: what an earlier send of this ticket returned, "" for none.

        Returns the receiver's own reference, "" where it has none. OutputError, one line, where it was not taken.
        """
        ...


@dataclass(frozen=True)
class Folder:
    """A file ID.md for each ticket, whole or not at all."""

    path: Path
    texts: Texts
    name: str = "folder"

    def has(self, ticket: Ticket) -> bool:
        """Whether its file is there: the folder may be another one than it was, or have been emptied."""
        try:
            return (self.path / f"{file_name(ticket)}.md").exists()
        except (OSError, ValueError):
            return False

    def send(self, ticket: Ticket, reference: str) -> str:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            write_whole(self.path / f"{file_name(ticket)}.md", self.texts.markdown(ticket))
        except (OSError, ValueError) as error:
            raise OutputError(f"{self.path}: {getattr(error, 'strerror', None) or 'is no path'}") from None
        return ""


@dataclass(frozen=True)
class Webhook:
    """A ticket system with an HTTP API that takes JSON.

    url, template: to open a ticket: POST, and the Jinja2 template of its body. update_url, update_template,
    update_method: to change one; ``{reference}`` in the URL is the receiver's own. Without update_url each version is
    sent to url. reference: where the answer has the receiver's reference, as keys with dots between. search_url: a GET
    with ``{id}`` that finds a ticket whose reference was not noted, at search_reference in its answer: asked before
    anything is opened. token: of the environment; the header Authorization is ``scheme token``.
    URLs may be secrets too: of them only scheme and host are told.
    TLS is always verified, with ca_file where given.
    """

    url: str = field(repr=False)
    template: str
    texts: Texts
    token: str = field(default="", repr=False)
    scheme: str = "Bearer"
    name: str = "webhook"
    headers: Mapping[str, str] = field(default_factory=dict)
    update_url: str = field(default="", repr=False)
    update_template: str = ""
    update_method: str = "POST"
    reference: str = ""
    search_url: str = field(default="", repr=False)
    search_reference: str = ""
    ca_file: str = ""
    seconds: float = SECONDS

    def __post_init__(self) -> None:
        for url in (self.url, self.update_url, self.search_url):
            if url and (wrong := wrong_url(url, from_file=False)):
                raise InputError(f"webhook {self.name}: {wrong}")

    def send(self, ticket: Ticket, reference: str) -> str:
        if not reference and self.search_url:
            answer = self._ask("GET", self.search_url.replace("{id}", quote(ticket.id, safe="")), ticket, None)
            reference = _at(answer, self.search_reference)
        if reference and self.update_url:
            url = self.update_url.replace("{reference}", quote(reference, safe=""))
            self._ask(
                self.update_method,
                url,
                ticket,
                self.texts.body(self.update_template or self.template, ticket, reference),
            )
            return reference
        answer = self._ask("POST", self.url, ticket, self.texts.body(self.template, ticket, reference))
        return _at(answer, self.reference) or reference

    def _ask(self, method: str, url: str, ticket: Ticket, body: bytes | None) -> Any:
        headers = {"Content-Type": "application/json", "Accept": "application/json", **self.headers}
        headers["Idempotency-Key"] = f"{ticket.id}-{ticket.version}"
        if self.token:
            headers["Authorization"] = f"{self.scheme} {self.token}"
        shown = f"{method} {origin(url)}"
        _trust(self.ca_file)
        try:
            # nothing of the environment: its proxies and .netrc would see the token, or replace it
            with requests.Session() as session:
                session.trust_env = False
                response = session.request(
                    method, url, data=body, headers=headers, timeout=self.seconds, stream=True,
                    verify=self.ca_file or True, allow_redirects=False,
                )  # fmt: skip
                answer = response.raw.read(ANSWER_MAX, decode_content=True)
        except (requests.RequestException, HTTPError, OSError, ValueError) as error:
            raise OutputError(f"{shown}: {network_reason(error)}") from None
        if not 200 <= response.status_code < 300:
            urls = (url, self.url, self.update_url, self.search_url)
            told = shorten(without(answer[:TOLD_MAX].decode("utf-8", "replace"), [self.token], urls), 200)
            kind = Refused if response.status_code in _OF_ONE else OutputError
            raise kind(f"{shown}: {response.status_code} {told}".rstrip())
        try:
            return json.loads(answer)
        except (ValueError, RecursionError):
            return None


@dataclass(frozen=True)
class Mail:
    """E-mail through SMTP with STARTTLS, or TLS from the first byte (port 465); verified.

    Each version of a ticket has a Message-ID of its own, always the same, and answers that of the first.
    """

    host: str
    sender: str
    recipients: tuple[str, ...]
    texts: Texts
    port: int = 587
    username: str = ""
    password: str = field(default="", repr=False)
    ca_file: str = ""
    name: str = "mail"
    seconds: float = SECONDS

    def send(self, ticket: Ticket, reference: str) -> str:
        server_named, login = f"{self.host}:{self.port}", False
        _trust(self.ca_file)
        try:
            message = self.message(ticket)
            context = ssl.create_default_context(cafile=self.ca_file or None)
            if self.port == 465:
                server: smtplib.SMTP = smtplib.SMTP_SSL(self.host, self.port, timeout=self.seconds, context=context)
            else:
                server = smtplib.SMTP(self.host, self.port, timeout=self.seconds)
            with server:
                if self.port != 465:
                    server.starttls(context=context)
                if self.username:
                    login = True
                    server.login(self.username, self.password)
                    login = False
                refused = server.send_message(message)
        except (smtplib.SMTPException, OSError, ValueError) as error:
            raise OutputError(f"{server_named}: {_mail_reason(error, login)}") from None
        if refused:  # the others get it again, with the same Message-ID
            raise OutputError(f"{server_named}: refused {', '.join(sorted(refused))}")
        return ""

    def message(self, ticket: Ticket) -> EmailMessage:
        """The message for this version."""
        message = EmailMessage()
        domain = bare_address(self.sender).rpartition("@")[2] or "localhost"
        first = f"<{file_name(ticket)}-1@{domain}>"
        message["Subject"] = self.texts.title(ticket)
        message["From"], message["To"] = self.sender, ", ".join(self.recipients)
        message["Date"] = formatdate(localtime=False)
        message["Message-ID"] = f"<{file_name(ticket)}-{ticket.version}@{domain}>"
        if ticket.version > 1:
            message["In-Reply-To"] = message["References"] = first
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(self.texts.markdown(ticket))
        return message


def file_name(ticket: Ticket) -> str:
    """Its id as a file's name; nothing in it leads elsewhere."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", ticket.id)[:120]


def _at(answer: Any, path: str) -> str:
    """The value at ``a.0.b`` of an answer as text, "" where there is none."""
    if not path:
        return ""
    for key in path.split("."):
        if isinstance(answer, dict):
            answer = answer.get(key)
        elif isinstance(answer, list) and key.isdecimal() and int(key) < len(answer):
            answer = answer[int(key)]
        else:
            return ""
    return shorten(str(answer), 200) if isinstance(answer, (str, int)) and not isinstance(answer, bool) else ""


def _trust(ca_file: str) -> None:
    """OutputError where it is named, and cannot say whom to trust."""
    if ca_file and (wrong := wrong_ca(ca_file)):
        raise OutputError(f"ca_file {wrong}")


def _mail_reason(error: Exception, login: bool) -> str:
    """login: while it was logged in; what a server answers then may repeat the password."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        error = smtplib.SMTPResponseException(*next(iter(error.recipients.values()), (0, b"")))
    if isinstance(error, smtplib.SMTPResponseException):
        said = error.smtp_error.decode("utf-8", "replace") if isinstance(error.smtp_error, bytes) else error.smtp_error
        return shorten(f"{type(error).__name__} {error.smtp_code} {'' if login else said}", 200)
    return network_reason(error)
