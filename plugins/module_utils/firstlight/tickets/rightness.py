"""Whether what ``tickets.yml`` says can be used: its shape where that may be a secret, places, and each output."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..findings import shorten
from ..yamlfile import YamlFile
from .telling import bare_address, wrong_ca, wrong_header, wrong_host, wrong_url
from .text import Texts

KINDS = ("folder", "webhook", "mail")
URLS = {"url": "", "update_url": "{reference}", "search_url": "{id}"}  # and what is in each
SECRETS = ("token_from", "password_from", *(f"{key}_from" for key in URLS))
_NEEDS = {"update_url": "reference", "search_url": "search_reference"}
_SECRET = re.compile(r"(?i)auth|token|key|secret|password|cookie")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
# of an inventory folder Ansible reads everything but these names, most of them by ansible.cfg
_INVENTORY = (".redfish_bmc.yml", ".redfish_bmc.yaml", ".maas.yml", ".maas.yaml")
_PASSED_OVER = re.compile(r"^(\.|tickets$|ticket_templates$)|\.(j2|pem|crt|cer)$")


def wrong_at(file: YamlFile, where: Sequence[str | int], said: str) -> InputError:
    """An error with the file, the line and the key, as a schema's have them."""
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where).lstrip(".")
    return InputError(f"{shorten(key, 120)}: {said}", file.where(where))


def check_shape(file: YamlFile) -> None:
    """What a schema would show in its error, and may be a secret: InputError says only what would be right."""
    if file.data is None:
        return  # the schema says it
    if not isinstance(file.data, dict):
        raise InputError("must be keys with values (key: value)", file.where())
    outputs = file.data.get("outputs", [])
    if isinstance(outputs, (str, dict)):
        raise wrong_at(file, ["outputs"], "must be a list (- item)")
    for number, item in enumerate(outputs if isinstance(outputs, list) else []):
        where: list[Any] = ["outputs", number]
        if not isinstance(item, dict) or len(item) != 1:
            raise wrong_at(file, where, f"each output is one of {', '.join(KINDS)}")
        ((kind, values),) = item.items()
        where.append(kind)
        if kind == "folder" and not isinstance(values, str):
            raise wrong_at(file, where, "must be text (in quotes)")
        if kind in ("webhook", "mail"):
            if not isinstance(values, dict):
                raise wrong_at(file, where, "must be keys with values (key: value)")
            for key, value in values.items():
                if wrong := _wrong_shape(key, value):
                    raise wrong_at(file, [*where, key], wrong)


def _wrong_shape(key: Any, value: Any) -> str:
    if key in SECRETS and not (isinstance(value, str) and _VARIABLE.fullmatch(value)):
        return "the name of an environment variable that holds the secret, like FIRSTLIGHT_JIRA_TOKEN"
    if key in (*URLS, "scheme") and not (isinstance(value, str) and 0 < len(value) <= 2000):
        return "must be text (in quotes), of at most 2000 characters"
    if key == "headers":
        if not isinstance(value, dict) or len(value) > 20:
            return "must be at most 20 keys with values (key: value)"
        for name, text in value.items():
            if not isinstance(name, str) or not isinstance(text, str):
                return f"{shorten(str(name), 80)}: must be text (in quotes)"
    return ""


def check_place(file: YamlFile, where: list[Any], named: str, written: bool = False) -> Path:
    """A folder or file that the settings name, relative to their own. written: by us, a folder that may be made.

    InputError: it can be none, or it lies in the inventory, where Ansible would read it.
    """
    if not named.isprintable():
        raise wrong_at(file, where, "a path has no control characters")
    try:
        path = file.path.parent / Path(named).expanduser()
    except RuntimeError:
        raise wrong_at(file, where, f"{shorten(named, 80)}: there is no such user") from None
    within = Path(os.path.relpath(path, file.path.parent)).parts[:1]
    if within and within[0] != ".." and not _PASSED_OVER.search(within[0]) and _is_inventory(file.path.parent):
        said = (
            f"{shorten(named, 80)} lies in the inventory, where Ansible reads it as one; it may be named "
            "ticket_templates, tickets, *.j2, *.pem or *.crt there, or lie outside"
        )
        raise wrong_at(file, where, said)
    if written and (wrong := _wrong_folder(path)):
        raise wrong_at(file, where, f"{path}: {wrong}")
    return path


def _is_inventory(folder: Path) -> bool:
    try:
        return any(entry.name.endswith(_INVENTORY) for entry in folder.iterdir())
    except OSError:
        return False


def _wrong_folder(path: Path) -> str:
    """Why no file can be written there; "" where the folder can be used or made."""
    try:
        there = next(place for place in (path, *path.parents) if place.exists())
        if not there.is_dir():
            return "Not a directory"
        return "" if os.access(there, os.W_OK | os.X_OK) else "Permission denied"
    except OSError as error:
        return error.strerror or "cannot be used"


def check_output(file: YamlFile, where: list[Any], kind: str, values: Mapping[str, Any], texts: Texts) -> None:
    """InputError, with the line, where a webhook or mail cannot work as it is written."""

    def refuse(key: str, said: str, *deeper: Any) -> InputError:
        return wrong_at(file, [*where, key, *deeper], said)

    if "ca_file" in values and (wrong := wrong_ca(values["ca_file"])):
        raise refuse("ca_file", wrong)
    if kind == "mail":
        for number, recipient in enumerate(values["recipients"]):
            if not bare_address(recipient):
                raise refuse("recipients", f"{shorten(recipient, 80)!r} is no address like dc@example.com", number)
        if not bare_address(values["sender"]):
            raise refuse("sender", f"{shorten(values['sender'], 80)!r} is no address like firstlight@example.com")
        if wrong := wrong_host(values["host"]):
            raise refuse("host", f"{shorten(values['host'], 80)!r} is not right; {wrong}")
        if "username" in values and "password_from" not in values:
            raise wrong_at(file, where, "username needs password_from, an environment variable")
        if not values.get("username", "").isascii() or not values.get("username", "").isprintable():
            raise refuse("username", "only printable ASCII")
        return
    _check_urls(file, where, values)
    if "scheme" in values and (wrong := wrong_header("Authorization", values["scheme"])):
        raise refuse("scheme", wrong)
    for header, value in values.get("headers", {}).items():
        if _SECRET.search(header):
            raise refuse("headers", "a secret does not belong into this file; use token_from, and scheme", header)
        if wrong := wrong_header(header, value):
            raise refuse("headers", wrong, header)
    for key in ("template", "update_template"):
        if key in values:
            try:
                texts.check(values[key])
            except InputError as error:
                raise refuse(key, str(error)) from None


def _check_urls(file: YamlFile, where: list[Any], values: Mapping[str, Any]) -> None:
    for key, placeholder in URLS.items():
        hidden = f"{key}_from"
        if key in values and hidden in values:
            raise wrong_at(file, where, f"{key} or {hidden}, not both")
        if key == "url" and key not in values and hidden not in values:
            raise wrong_at(file, where, f"needs url, or {hidden} for one that is a secret")
        if key in values and (wrong := wrong_url(values[key])):
            raise wrong_at(file, [*where, key], wrong)
        if key in _NEEDS and (key in values or hidden in values):
            named = key if key in values else hidden
            if placeholder not in values.get(key, placeholder) or not values.get(_NEEDS[key]):
                raise wrong_at(file, [*where, named], f"needs {placeholder} in it, and {_NEEDS[key]} beside it")
