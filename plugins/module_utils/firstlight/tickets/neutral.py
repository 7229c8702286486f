"""Values of strangers within Markdown and within commands that people copy."""

from __future__ import annotations

import re
from typing import Any

from ..findings import shorten

_MARKUP = re.compile(r"([\\`*_{}\[\]<>()#+!|~&@])")
_ADDRESS = re.compile(r"(?i)\b([a-z][a-z0-9+.-]{1,15}):(?=//)|\bwww\.")


def neutral(value: Any) -> str:
    """A value in Markdown as the plain text that it is: one line, no markup, no link, no HTML, nobody is notified."""
    text = shorten(str(value), 600)
    text = _ADDRESS.sub(lambda match: f"{match[0][:-1]}&#{ord(match[0][-1])};", text.replace("&", "&amp;"))
    kept = re.split(r"(&(?:amp|#\d+);)", text)
    return "".join(part if n % 2 else _MARKUP.sub(r"\\\1", part) for n, part in enumerate(kept))


def in_command(value: Any) -> str:
    """A value within a command that people copy: only what a host's name may have."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", shorten(str(value), 64))
