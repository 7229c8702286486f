"""What a check read, with one value of it broken: every value of JSON, XML, and lines of ``key: value`` in its turn."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from typing import Any

GONE = object()
VALUES: tuple[Any, ...] = ("N/A", "", "garbage", GONE)
_LINE = re.compile(r"^(\s*[^\s:=|][^:=|]{0,80}?)(\s*[:=|]\s*)(\S.*)$")


def name_of(value: Any) -> str:
    return "gone" if value is GONE else repr(value)


def broken(text: str) -> Iterator[tuple[str, Any, str]]:
    """(which value, what it is now, the text), of a structured text; nothing of another."""
    try:
        said = json.loads(text)
    except ValueError:
        said = None
    if isinstance(said, (dict, list)):
        yield from _of_json(said)
    elif "<nvidia_smi_log>" in text:
        yield from _of_xml(text)
    else:
        yield from _of_lines(text)


def _of_json(said: Any) -> Iterator[tuple[str, Any, str]]:
    """Of a list the first, and of many alike the first too: what is in a text is JSON once more."""
    for path in _leaves(said):
        inner = said
        for key in path[:-1]:
            inner = inner[key]
        old = inner[path[-1]]
        where = "/".join(str(key) for key in path)
        if isinstance(old, str) and old[:1] in ("{", "["):
            for below, value, text in broken(old):
                inner[path[-1]] = text
                yield f"{where}/{below}", value, json.dumps(said)
        for value in VALUES:
            if value is GONE and isinstance(inner, list):
                continue
            if value is GONE:
                del inner[path[-1]]
            else:
                inner[path[-1]] = value
            yield where, value, json.dumps(said)
            inner[path[-1]] = old
        inner[path[-1]] = old


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict) and value:
        for key in list(value):
            yield from _leaves(value[key], (*path, key))
    elif isinstance(value, list) and value:
        yield from _leaves(value[0], (*path, 0))
    elif path:
        yield path


def _of_xml(text: str) -> Iterator[tuple[str, Any, str]]:
    """The values of the first GPU, and those above all."""
    head = text[: text.index("<nvidia_smi_log>")]
    root = ElementTree.fromstring(text)
    first = root.find("gpu")
    assert first is not None
    for top, parent, element in [("", root, e) for e in root if not len(e)] + [
        ("gpu/", p, e) for p, e in _below(first)
    ]:
        if len(element) or not (element.text or "").strip():
            continue
        where = f"{top}{parent.tag + '/' if parent not in (root, first) else ''}{element.tag}"
        old = element.text
        for value in VALUES:
            place = list(parent).index(element)
            if value is GONE:
                parent.remove(element)
            else:
                element.text = value
            yield where, value, f"{head}{ElementTree.tostring(root, encoding='unicode')}\n"
            if value is GONE:
                parent.insert(place, element)
            element.text = old


def _below(element: ElementTree.Element) -> list[tuple[ElementTree.Element, ElementTree.Element]]:
    return [(parent, child) for parent in element.iter() for child in parent]


def _of_lines(text: str) -> Iterator[tuple[str, Any, str]]:
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines[:60]):
        found = _LINE.match(line.rstrip("\n"))
        if not found:
            continue
        for value in VALUES:
            new = "" if value is GONE else f"{found.group(1)}{found.group(2)}{value}\n"
            yield found.group(1).strip(), value, "".join([*lines[:number], new, *lines[number + 1 :]])
