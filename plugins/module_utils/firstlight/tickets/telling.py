"""What may be said of secrets, URLs and failures, and whether such a value can be used. Nothing here shows a secret.

The text of an exception is not shown: those of HTTP clients have the whole URL and the headers in them.
"""

from __future__ import annotations

import re
import smtplib
import ssl
from collections.abc import Iterable, Mapping
from email.message import EmailMessage
from pathlib import Path
from types import TracebackType
from urllib.parse import parse_qsl, unquote, urlsplit

import requests

from ..errors import FirstlightError, InputError
from ..findings import shorten

IN_THE_CLEAR = ("127.0.0.1", "localhost")  # hosts that may be told without TLS
PIECE = 8  # characters of a part of a URL that may be a secret: shorter ones are words such as issue
_IN_QUERY = re.compile(r"(?i)auth|token|secret|passw|cookie|credential|signature|api_?key|^(key|sig|pw|pwd)$")
_HEADER = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")


def reason(error: BaseException) -> str:
    """One line on what went wrong: the text of our own errors, of others their kind and, of ours, the line."""
    if isinstance(error, FirstlightError):
        return str(error)
    place = _place(error.__traceback__)
    return f"{type(error).__name__}{f' at {place}' if place else ''}, which was not foreseen"


def _place(trace: TracebackType | None) -> str:
    place = ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if "firstlight" in file:
            place = f"{Path(file).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def network_reason(error: BaseException) -> str:
    """Why a server could not be asked: the kind of the error, and what the system or TLS says of it."""
    kind, seen = type(error).__name__, 0
    at: BaseException | None = error
    while at is not None and seen < 20:
        if isinstance(at, ssl.SSLCertVerificationError):
            return f"{kind}: {at.verify_message}"
        theirs = isinstance(at, (requests.RequestException, smtplib.SMTPException))  # which are OSErrors by name only
        if isinstance(at, OSError) and not theirs and isinstance(at.errno, int) and at.strerror:
            return f"{kind}: {shorten(at.strerror, 100)}"
        at, seen = at.__cause__ or at.__context__, seen + 1
    return kind


def origin(url: str) -> str:
    """Scheme and host of a URL: path, query and user may be secrets."""
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{shorten(parts.netloc.rpartition('@')[2], 80)}"
    except ValueError:
        return "its URL"


def wrong_url(url: str, from_file: bool = True) -> str:
    """What is wrong with a URL, without showing more than its host; "" for nothing.

    from_file: of tickets.yml, where no secret belongs.
    """
    if not url.isprintable() or " " in url:
        return "a URL has no white space and no control characters"
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        host.encode("idna")
    except ValueError:
        return "its host is none"
    try:
        good_port = parts.port != 0
    except ValueError:
        good_port = False
    if parts.scheme != "https" and not (parts.scheme == "http" and host in IN_THE_CLEAR):
        return f"{origin(url)} must begin with https://" if host else "a URL must begin with https://"
    if parts.username is not None or parts.password is not None:
        return (
            "user and password do not belong into a URL; put the base64 of user:password into the environment, "
            "and use token_from with scheme: Basic"
        )
    if not host or "{" in parts.netloc:
        return "its host is none"
    if not good_port:
        return "its port is none of 1 to 65535"
    if from_file:
        for name, value in parse_qsl(parts.query, keep_blank_values=True):
            if _IN_QUERY.search(name) and value not in ("{id}", "{reference}"):
                return (
                    f"{shorten(name, 40)} in the query: a secret does not belong into this file; put the whole URL "
                    "into the environment, and name that variable with url_from (update_url_from, search_url_from)"
                )
    try:
        requests.Request("POST", url).prepare()
    except (requests.RequestException, ValueError):
        return "it is no URL"
    return ""


def wrong_header(name: str, value: str) -> str:
    """What is wrong with a header, without its value; "" for nothing."""
    if not _HEADER_NAME.fullmatch(name):
        return "a header's name has only letters, digits and -"
    return "" if _HEADER.fullmatch(value) else "a header has only printable ASCII, and no space at its ends"


def bare_address(text: str) -> str:
    """The address of ``Jo <jo@example.com>`` or ``jo@example.com``; "" where it is not exactly one."""
    message = EmailMessage()
    try:
        message["To"] = text
        header = message["To"]
        (found,) = header.addresses
        good = text.isprintable() and found.username and found.domain and not header.defects
    except Exception:  # the library's parser raises whatever it likes over a wrong one
        return ""
    return str(found.addr_spec) if good else ""


def wrong_host(host: str) -> str:
    """What is wrong with the name or address of a server; "" for nothing."""
    try:
        host.encode("idna")
    except UnicodeError:
        host = ""
    return "" if re.fullmatch(r"[^\s/@\x00-\x1f]{1,253}", host) else "the name of a server, like smtp.example.com"


def wrong_ca(path: str) -> str:
    """Why this file cannot say whom to trust; "" where it can."""
    try:
        ssl.create_default_context(cafile=path)
    except ssl.SSLError:
        return f"{path}: holds no certificate in PEM"
    except (OSError, ValueError) as error:
        return f"{path}: {getattr(error, 'strerror', None) or 'cannot be read'}"
    return ""


def secret_of(name: str, environment: Mapping[str, str]) -> str:
    """A secret of the environment, without white space around it; InputError: there is none, or it can be none."""
    value = environment.get(name, "").strip()
    if not value:
        raise InputError(f"the environment variable {name} is not set")
    if not _HEADER.fullmatch(value):
        raise InputError(f"the environment variable {name} is not one line of printable ASCII")
    return value


def without(text: str, secrets: Iterable[str], urls: Iterable[str]) -> str:
    """A receiver's answer without the secrets that it may repeat: those, and paths, queries, longer parts of URLs."""
    hidden = set(secrets)
    for url in urls:
        _, _, rest = url.partition("://")[2].partition("/")
        for spelled in (rest, unquote(rest)):
            hidden.update((spelled, *spelled.split("?", 1)))
            hidden.update(part for part in re.split(r"[/?&=;,#]", spelled) if len(part) >= PIECE)
    for secret in sorted((one for one in hidden if len(one) > 2), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text
