"""By what a pin names one repository and no other: what its Release file says, or else its host.

A host alone does not do: a site's mirror has the distribution and its vendors on one, and so may a vendor. Standard
library only, this file also runs on the hosts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Dict, Iterable, List, Optional, Sequence, Tuple
from urllib.parse import urlsplit

# for apt-get indextargets --no-release-info: what a Release file says is otherwise left out until its lists are there
FORMAT = "$(SOURCESENTRY)\t$(REPO_URI)\t$(RELEASE)\t$(METAKEY)\t$(FILENAME)"
_FIELDS = {"Origin": "o", "Label": "l", "Codename": "n", "Suite": "a"}
_ROWS_MAX = 10_000
_HEAD = 65536


class NotToldApart(Exception):
    """One line: whose pins would be another repository's too."""


@dataclass(frozen=True)
class Target:
    """One suite of a repository. source: the name of its file; release: of its Release file, without In or ending.

    said: by the letters of apt_preferences(5) what that file says.
    """

    source: str
    uri: str
    suite: str
    release: str = ""
    said: Tuple[Tuple[str, str], ...] = ()

    @property
    def host(self) -> str:
        return (urlsplit(self.uri).hostname or "").lower()

    @property
    def told(self) -> Dict[str, str]:
        """What it is told apart by: the suite, which moves on, only without a codename."""
        said = {letter: value for letter, value in self.said if value}
        return {letter: value for letter, value in said.items() if letter != "a" or "n" not in said}


def parse(text: str) -> List[Target]:
    """Of ``apt-get indextargets --format FORMAT``, which has a row for each list of a suite."""
    found: Dict[Target, None] = {}
    for line in text.splitlines()[:_ROWS_MAX]:
        fields = [field.strip() for field in line.split("\t")]
        if len(fields) != FORMAT.count("\t") + 1:
            continue
        entry, uri, suite, key, path = fields
        source = entry.rpartition(":")[0].rpartition("/")[2]
        tail = key.replace("/", "_")
        release = f"{path[: -len(tail)]}Release" if tail and path.endswith(tail) else ""
        found[Target(source, uri.rstrip("/"), suite.rstrip("/") or "/", release)] = None
    return list(found)


def parse_release(text: str) -> Tuple[Tuple[str, str], ...]:
    """What a Release file says of itself, signed or not, in the order of the letters."""
    found: Dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon and name in _FIELDS:
            found.setdefault(_FIELDS[name], value.strip())
    return tuple((letter, found[letter]) for letter in _FIELDS.values() if letter in found)


def with_release(target: Target) -> Optional[Target]:
    """With what its Release file says, where apt has fetched that."""
    path = Path(target.release)
    for file in (path.with_name(path.name[: -len("Release")] + "InRelease"), path):
        if target.release and file.is_file():
            with file.open(encoding="utf-8", errors="replace") as stream:
                return replace(target, said=parse_release(stream.read(_HEAD)))
    return None


def of(targets: Iterable[Target], source: str, uri: str, suites: Sequence[str]) -> List[Target]:
    """Those of one repository. apt does not tell the suite of a flat one that is not in a folder."""
    wanted = {suite.rstrip("/") or "/" for suite in suites}
    return [t for t in targets if t.source == source and t.uri == uri.rstrip("/") and t.suite in wanted]


def pins(name: str, own: Sequence[Target], others: Iterable[Target]) -> List[str]:
    """What follows ``Pin:`` for this repository, a line for each of its suites; NotToldApart where nothing does."""
    others = list(others)
    lines = []
    for target in own:
        alike = [t for t in others if _covers(target.told, t)]
        if target.told and not alike:
            lines.append("release " + ",".join(f"{letter}={_plain(v)}" for letter, v in target.told.items()))
            continue
        beside = [t for t in others if t.host == target.host]
        if beside:
            said = ", ".join(f"{letter}={value}" for letter, value in target.told.items()) or "nothing"
            raise NotToldApart(
                f"{name}: its pins would hold for {(alike or beside)[0].source} too: its Release file says {said}, and "
                f"{beside[0].source} is on {target.host} as well; give it no pins, or an Origin or a Label of its own"
            )
        lines.append(f'origin "{target.host}"')
    return list(dict.fromkeys(lines))


def _covers(told: Dict[str, str], other: Target) -> bool:
    """Whether a pin by these would hold for the other; apt goes by no case."""
    has = dict(other.said)
    return bool(told) and all(has.get(letter, "").lower() == value.lower() for letter, value in told.items())


def _plain(value: str) -> str:
    """As apt takes it for itself: a comma would end it, and a pattern's signs or a leading slash would mean more."""
    return "".join("?" if c in ",*?[]\\" or (c == "/" and i == 0) else c for i, c in enumerate(value))
