"""YAML files that people write: read with the line of each value, so that an error can name it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from .errors import InputError

MAX_BYTES = 16 * 1024 * 1024


class YamlFile:
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

    def check(self, schema: dict[str, Any]) -> None:
        """Validate against a JSON schema; the first error becomes an InputError with file, line and key."""
        errors = jsonschema.Draft202012Validator(schema).iter_errors(self.data)
        error = min(errors, key=lambda e: (len(e.absolute_path), str(list(e.absolute_path))), default=None)
        if error is None:
            return
        path = list(error.absolute_path)
        key = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path).lstrip(".")
        message = str(error.schema.get("x-hint") or error.message)
        if error.validator == "additionalProperties":
            known = ", ".join(error.schema.get("properties", {}))
            extra = next(k for k in error.instance if k not in error.schema.get("properties", {}))
            path, message = [*path, extra], f"unknown key {extra!r}; known are {known}"
        elif error.schema.get("x-hint"):
            message = f"{error.instance!r} is not right; {message}"
        raise InputError(f"{key}: {message}" if key else message, self.where(path))


def read_yaml(path: Path | str) -> YamlFile:
    """Read one YAML file written by people; InputError names what is wrong with it."""
    path = Path(path)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"larger than {MAX_BYTES} bytes; is this the right file?", str(path))
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError("not a UTF-8 text file", str(path)) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", str(path)) from None
    return YamlFile(path, text)
