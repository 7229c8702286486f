"""Errors that people make or have to act on: one line each, never a traceback."""

from __future__ import annotations


class FirstlightError(Exception):
    """Something the operator must correct or know; its text is one line: what, where, what would be right."""


class InputError(FirstlightError):
    """A file, option or secret is wrong. Nothing was started."""

    def __init__(self, message: str, where: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message)
