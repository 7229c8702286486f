"""The fleet as a table (CSV), read into what the YAML form of it has, with the line of each value for errors."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .errors import InputError
from .findings import shorten
from .yamlfile import SchemaFile, read_text

# What a row can say; one with "names" is a range.
_HOST = ("name", "rack", "unit", "bmc_address", "bmc_port", "profile", "service_tag", "mac")
_RANGE = ("names", "first_unit", "unit_step", "bmc_addresses")
COLUMNS = ("site", *_HOST, *_RANGE)
_NUMBERS = ("unit", "bmc_port", "first_unit", "unit_step")


class CsvFile(SchemaFile):
    """One fleet table. ``data``: {site, hosts, ranges} as in the YAML form. ``where(path)``: "file:line" of a row."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self._lines: dict[str, list[int]] = {"hosts": [], "ranges": []}
        self.data: Any = {"hosts": [], "ranges": []}
        self._header_line = 1
        try:
            self._read(text)
        except csv.Error as error:
            raise InputError(f"not valid CSV: {error}", str(path)) from None

    def where(self, path: Sequence[str | int] = ()) -> str:
        lines = self._lines.get(str(path[0]), []) if path else []
        number = path[1] if len(path) > 1 else None
        line = lines[number] if isinstance(number, int) and number < len(lines) else self._header_line
        return f"{self.path}:{line}"

    def _read(self, text: str) -> None:
        columns: list[str] = []
        for line, cells in _rows(text):
            if not columns:
                self._header_line = line
                columns = self._header([cell.lower() for cell in cells])
                continue
            if len(cells) > len(columns):
                raise InputError(f"has {len(cells)} cells, the first line names {len(columns)}", f"{self.path}:{line}")
            self._row(line, {c: v for c, v in zip(columns, cells, strict=False) if v})
        if not columns:
            raise InputError(
                f"is empty; the first line names the columns: {','.join(('site', *_HOST))}", str(self.path)
            )

    def _header(self, columns: list[str]) -> list[str]:
        where = self.where()
        for number, column in enumerate(columns):
            if column not in COLUMNS:
                raise InputError(f"unknown column {shorten(column, 40)!r}; known are {', '.join(COLUMNS)}", where)
            if column in columns[:number]:
                raise InputError(f"column {column!r} is there twice", where)
        return columns

    def _row(self, line: int, row: dict[str, Any]) -> None:
        where = f"{self.path}:{line}"
        site = row.pop("site", None)
        if site is not None and self.data.setdefault("site", site) != site:
            raise InputError(f"site {site!r} differs from {self.data['site']!r} above; a fleet has one site", where)
        for key in _NUMBERS:
            value = row.get(key, "")
            if value.isascii() and value.isdigit() and len(value) < 10:
                row[key] = int(value)
        kind = "ranges" if "names" in row else "hosts"
        if row:
            self._lines[kind].append(line)
            self.data[kind].append(row)


def _rows(text: str) -> list[tuple[int, list[str]]]:
    """(line, cells) of each row that is neither empty nor a comment; spreadsheets also separate by ; and tab."""
    head = next((line for line in text.splitlines() if line.strip() and not line.startswith("#")), "")
    separator = max(",;\t", key=head.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    found, line = [], 1
    for cells in reader:
        cells = [cell.strip() for cell in cells]
        if any(cells) and not cells[0].startswith("#"):
            found.append((line, cells))
        line = reader.line_num + 1
    return found


def read_csv(path: Path | str) -> CsvFile:
    """Read one fleet table; InputError names what is wrong with it."""
    path = Path(path)
    return CsvFile(path, read_text(path).removeprefix("\ufeff"))  # as spreadsheets begin their files
