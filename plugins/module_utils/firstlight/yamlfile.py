"""YAML files that people write: read with the line of each value, so that an error can name it."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from .errors import InputError
from .findings import shorten

if TYPE_CHECKING:
    import jsonschema

MAX_BYTES = 16 * 1024 * 1024


def _pattern(validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[jsonschema.ValidationError]:
    """As in JSON Schema, where $ is the end of the text; in Python it also matches before a newline there."""
    import jsonschema

    whole = rf"{pattern[:-1]}\Z" if pattern.endswith("$") and not pattern.endswith(r"\$") else pattern
    if validator.is_type(instance, "string") and not re.search(whole, instance):
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


@functools.cache
def _validator() -> Any:
    """The class that validates; loaded when there is a file to validate, for Ansible loads filters for every task."""
    import jsonschema

    return jsonschema.validators.extend(jsonschema.Draft202012Validator, {"pattern": _pattern})


class SchemaFile:
    """A file of plain values (``data``) that people write. ``where(path)``: "file:line" of a value."""

    path: Path
    data: Any

    def where(self, path: Sequence[str | int] = ()) -> str:
        raise NotImplementedError

    def check(self, schema: dict[str, Any]) -> None:
        """Validate against a JSON schema; the first error becomes an InputError with file, line and key.

        Of a file in which every key may be left out all may be: ``data`` is {} then.
        """
        if self.data is None and schema.get("type") == "object" and not schema.get("required"):
            self.data = {}
        if self.data is None:
            raise InputError("is empty; see the example site for what belongs in it", str(self.path))
        errors = _validator()(schema).iter_errors(self.data)
        try:
            error = min(errors, key=_order, default=None)
        except RecursionError:
            raise InputError("a value contains itself (an alias within its anchor)", str(self.path)) from None
        if error is None:
            return
        path = list(error.absolute_path)
        key = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path).lstrip(".")
        message = str(error.schema.get("x-hint") or error.message)
        if error.validator == "additionalProperties":
            known = ", ".join(error.schema.get("properties", {}))
            extra = next(k for k in error.instance if k not in error.schema.get("properties", {}))
            path, message = [*path, extra], f"unknown key {extra!r}; known are {known}"
        elif error.validator == "type" and not error.schema.get("x-hint"):
            wanted = error.validator_value
            kinds = [wanted] if isinstance(wanted, str) else list(wanted)
            message = f"{shorten(repr(error.instance), 80)} must be {' or '.join(_KINDS.get(k, k) for k in kinds)}"
        elif error.schema.get("x-hint"):
            message = f"{shorten(repr(error.instance), 80)} is not right; {message}"
        message = shorten(message, 300)
        raise InputError(f"{key}: {message}" if key else message, self.where(path))


class YamlFile(SchemaFile):
    """One YAML document. ``data``: plain Python values. ``where(path)``: "file:line" of a value."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        try:
            self._node = yaml.compose(text, Loader=yaml.SafeLoader)
            self.data: Any = yaml.safe_load(text)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = f":{mark.line + 1}" if mark else ""
            problem = getattr(error, "problem", None) or "not readable"
            raise InputError(f"not valid YAML: {problem}", f"{path}{line}") from None
        except (ValueError, RecursionError) as error:  # e.g. a date that does not exist; nested without end
            raise InputError(f"not valid YAML: {error}", str(path)) from None
        self._refuse_repeated_keys()

    def _refuse_repeated_keys(self) -> None:
        """YAML would silently keep only the last of two equal keys, and lose what people wrote under the first."""
        seen_nodes: set[int] = set()
        waiting = [self._node] if self._node is not None else []
        while waiting:
            node = waiting.pop()
            if id(node) in seen_nodes:
                continue
            seen_nodes.add(id(node))
            if isinstance(node, yaml.SequenceNode):
                waiting += node.value
            elif isinstance(node, yaml.MappingNode):
                lines: dict[tuple[str, str], int] = {}
                for key, value in node.value:
                    waiting += [key, value]
                    line = key.start_mark.line + 1
                    if isinstance(key, yaml.ScalarNode) and lines.setdefault((key.tag, key.value), line) != line:
                        first = lines[key.tag, key.value]
                        raise InputError(
                            f"key {key.value!r} is already on line {first}; keep one", f"{self.path}:{line}"
                        )

    def where(self, path: Sequence[str | int] = ()) -> str:
        """ "file:line" of the value at ``path``, or of its nearest existing parent."""
        node = self._node
        if node is None:
            return str(self.path)
        line = node.start_mark.line
        for key in path:
            found = None
            if isinstance(node, yaml.MappingNode):
                found = next(((k, v) for k, v in node.value if k.value == str(key)), None)
            elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
                found = (node.value[key], node.value[key])
            if found is None:
                break
            line, node = found[0].start_mark.line, found[1]
        return f"{self.path}:{line + 1}"


_KINDS = {
    "object": "keys with values (key: value)",
    "array": "a list (- item)",
    "string": "text (in quotes)",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "empty",
}


def _order(error: jsonschema.ValidationError) -> tuple[int, bool, str]:
    """Outermost first; of one place a key that does not belong before one that is missing: it is that one misspelt."""
    return len(error.absolute_path), error.validator != "additionalProperties", str(list(error.absolute_path))


def read_text(path: Path) -> str:
    """The text of one file written by people; InputError when it is none."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"larger than {MAX_BYTES} bytes; is this the right file?", str(path))
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError("not a UTF-8 text file", str(path)) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", str(path)) from None


def read_yaml(path: Path | str) -> YamlFile:
    """Read one YAML file written by people; InputError names what is wrong with it."""
    path = Path(path)
    return YamlFile(path, read_text(path))
