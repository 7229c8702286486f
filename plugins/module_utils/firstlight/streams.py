"""Standard output and error of a command, which may lead to a terminal or file of any encoding.

Standard library only, Python 3.8 or later: the self-contained file of the checks carries this.
"""

from __future__ import annotations

import io
import sys


def plain_output() -> None:
    """From now on what the terminal's or file's encoding does not have is printed as an escape, and is no error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
