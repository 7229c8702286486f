"""The site's settings for tickets (``tickets.yml``): where they are told, by which templates, and the locator light."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..yamlfile import YamlFile, read_yaml
from .outputs import Folder, Mail, Output, Webhook
from .rightness import URLS, check_output, check_place, check_shape, wrong_at
from .telling import reason, secret_of, wrong_url
from .text import Texts

NAME = "tickets.yml"
WEBHOOK_TEMPLATE = "webhook.json.j2"
_TEXT = {"type": "string", "minLength": 1, "maxLength": 500}
_NAME = {
    "type": "string",
    "pattern": r"^[a-z][a-z0-9_-]{0,31}$",
    "x-hint": "small letters, digits, - and _, like jira",
}
_QUIET: dict[str, Any] = {}  # what may be a secret, so that no error may show it: looked at by check_shape
_TEMPLATE = {
    "type": "string",
    "pattern": r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$",
    "x-hint": "the name of a file in the folder templates, like jira.json.j2",
}
_METHOD = {"enum": ["POST", "PUT", "PATCH"], "x-hint": "POST, PUT or PATCH"}


def _object(required: list[str], properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "required": required, "properties": properties}


TICKETS_SCHEMA: dict[str, Any] = _object(
    [],
    {
        "locator_led": {"type": "boolean"},
        "templates": _TEXT,
        "outputs": {
            "type": "array",
            "maxItems": 20,
            "items": {
                **_object(
                    [],
                    {
                        "folder": _TEXT,
                        "webhook": _object(
                            [],
                            {
                                "name": _NAME, "url": _QUIET, "url_from": _QUIET, "template": _TEMPLATE,
                                "token_from": _QUIET, "scheme": _QUIET, "headers": _QUIET,
                                "update_url": _QUIET, "update_url_from": _QUIET, "update_template": _TEMPLATE,
                                "update_method": _METHOD, "reference": _TEXT,
                                "search_url": _QUIET, "search_url_from": _QUIET, "search_reference": _TEXT,
                                "ca_file": _TEXT,
                            },
                        ),
                        "mail": _object(
                            ["host", "sender", "recipients"],
                            {
                                "name": _NAME, "host": _TEXT, "sender": _TEXT,
                                "port": {"type": "integer", "minimum": 1, "maximum": 65535},
                                "recipients": {"type": "array", "minItems": 1, "maxItems": 50, "items": _TEXT},
                                "username": _TEXT, "password_from": _QUIET, "ca_file": _TEXT,
                            },
                        ),
                    },
                ),
            },
        },
    },
)  # fmt: skip


@dataclass(frozen=True)
class OutputSettings:
    """One output as the file has it. kind: folder, webhook or mail. name: what was told is noted under it."""

    kind: str
    name: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TicketSettings:
    """A site's settings. outputs: None where the file names none: the folder tickets/ of the reports.

    wrong: a line for each output that is not among them, because it cannot be used.
    """

    outputs: tuple[OutputSettings, ...] | None = None
    templates: Path | None = None
    locator_led: bool = False
    wrong: tuple[str, ...] = ()


def load_tickets(path: Path | str, strict: bool = True) -> TicketSettings:
    """Read one settings file, with its templates and certificates; secrets are not read.

    Folders and files in it are relative to its own. InputError, one line with file, line and key, where it is wrong;
    not strict, for who tells of tickets: an output that cannot be used, or templates, are lines in ``wrong`` instead.
    """
    file = read_yaml(path)
    check_shape(file)
    file.check(TICKETS_SCHEMA)
    led = bool(file.data.get("locator_led", False))
    items, templates = file.data.get("outputs"), None
    try:
        if "templates" in file.data:
            templates = check_place(file, ["templates"], file.data["templates"])
        texts = _texts(file, templates)
    except InputError as error:
        if strict:
            raise
        return TicketSettings((), templates, led, (str(error),))
    outputs: list[OutputSettings] = []
    wrong: list[str] = []
    for number, item in enumerate(items or ()):
        ((kind, values),) = item.items()
        where = ["outputs", number, kind]
        try:
            one = _output(file, where, kind, values, texts)
            if one.name in [other.name for other in outputs]:
                said = f"another output has the name {one.name}; give each webhook or mail a name"
                raise wrong_at(file, where, said)
        except InputError as error:
            if strict:
                raise
            wrong.append(f"{error}; nothing is told there")
        else:
            outputs.append(one)
    return TicketSettings(None if items is None else tuple(outputs), templates, led, tuple(wrong))


def make_outputs(
    settings: TicketSettings, default: Path, environment: Mapping[str, str] = os.environ
) -> tuple[list[Output], list[str]]:
    """The outputs of a site, and a line for each that is left out: its secret is missing, or is wrong.

    default: the folder for a site that names none.
    """
    if settings.outputs == ():
        return [], []
    texts = Texts(settings.templates)
    if settings.outputs is None:
        return [Folder(default, texts)], []
    made: list[Output] = []
    left_out: list[str] = []
    for one in settings.outputs:
        try:
            made.append(_made(one, texts, environment))
        except Exception as error:
            left_out.append(f"{one.name}: {reason(error)}")
    return made, left_out


def _made(one: OutputSettings, texts: Texts, environment: Mapping[str, str]) -> Output:
    """InputError, without the secret, where it has none that can be used."""
    if one.kind == "folder":
        return Folder(Path(one.values["path"]), texts, one.name)
    values: dict[str, Any] = {}
    for key, value in one.values.items():
        name, _, of_environment = key.rpartition("_from")
        values[name or key] = secret_of(value, environment) if name and not of_environment else value
    if one.kind == "mail":
        return Mail(texts=texts, **values)
    for key, placeholder in URLS.items():
        if variable := one.values.get(f"{key}_from"):
            wrong = wrong_url(values[key], from_file=False)
            if wrong or placeholder not in values[key]:
                wrong = wrong or f"its URL needs {placeholder} in it"
                raise InputError(f"the environment variable {variable}: {wrong}")
    return Webhook(texts=texts, **values)


def _texts(file: YamlFile, templates: Path | None) -> Texts:
    try:
        texts = Texts(templates)
        if templates:
            texts.check()
    except InputError as error:
        raise wrong_at(file, ["templates"], str(error)) from None
    return texts


def _output(file: YamlFile, where: list[Any], kind: str, values: Any, texts: Texts) -> OutputSettings:
    if kind == "folder":
        return OutputSettings(kind, "folder", {"path": str(check_place(file, where, values, written=True))})
    values = {"name": kind, **values}
    if kind == "webhook":
        values.setdefault("template", WEBHOOK_TEMPLATE)
    if "ca_file" in values:
        values["ca_file"] = str(check_place(file, [*where, "ca_file"], values["ca_file"]))
    if kind == "mail":
        values["recipients"] = tuple(values["recipients"])
    check_output(file, where, kind, values, texts)
    return OutputSettings(kind, values["name"], values)
