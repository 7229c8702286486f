"""What this machine's own apt says: which Debian it is, and where its packages come from. No mirror is written down."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from simulators.lab_files import LabError

_FORM = "$(ORIGIN)|$(CODENAME)|$(COMPONENT)|$(REPO_URI)"


def debian() -> tuple[str, list[str]]:
    """The Debian suite that apt is set up with (bookworm), and the lines of its sources.list.

    LabError where apt knows no Debian archive.
    """
    return read(_indextargets())


def read(text: str) -> tuple[str, list[str]]:
    """The same from apt's own table. text: a component a line, ORIGIN|CODENAME|COMPONENT|URI."""
    rows = [line.split("|") for line in text.splitlines() if line.count("|") == 3]
    found = [(codename, _plain(uri)) for origin, codename, component, uri in rows
             if origin == "Debian" and component == "main"]  # fmt: skip
    suites = [codename for codename, _ in found if re.fullmatch(r"[a-z]+", codename)]
    if not suites:
        raise LabError("apt is set up with no Debian archive; the machine's image is made from Debian packages")
    suite = suites[0]
    lines = [f"deb {uri} {codename} main" for codename, uri in found if codename.partition("-")[0] == suite]
    return suite, list(dict.fromkeys(lines))


def _indextargets() -> str:
    command = ["apt-get", "indextargets", "--format", _FORM, "Identifier: Packages"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise LabError(f"apt-get indextargets: {error}") from None


def _plain(uri: str) -> str:
    """Some images of Debian name a file that lists mirrors; the first one in it is as good."""
    if uri.startswith("mirror+file:"):
        listed = re.search(r"^https?://\S+", Path(uri.removeprefix("mirror+file:").rstrip("/")).read_text(), re.M)
        return listed.group(0) if listed else uri
    return uri
