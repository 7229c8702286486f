"""Whether apt's package lists are those of its sources as they stand now, and young enough.

Dates alone do not tell. A run that was stopped between naming a repository and fetching its lists leaves young lists
without that repository; an update that one archive refused leaves young ones of all others. So it is remembered for
which sources and keys lists were fetched. Standard library only, this file also runs on the hosts.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterable, List, Optional, Tuple

# where packages come from, and whom apt believes
SOURCES = (
    "etc/apt/sources.list",
    "etc/apt/sources.list.d/*.list",
    "etc/apt/sources.list.d/*.sources",
    "etc/apt/keyrings/*",
    "etc/apt/trusted.gpg.d/*",
)
# apt keeps a list as it came, or packed anew
PACKED = ("", ".lz4", ".gz", ".xz", ".bz2", ".zst", ".lzma", ".uncompressed")
_FILE_MAX = 4 * 1024 * 1024
_STATE_MAX = 4096


@dataclass(frozen=True)
class Fetched:
    """What is remembered of the last fetch. digest: empty while it goes on, and when it failed. at: Unix seconds."""

    digest: str
    at: float


@dataclass(frozen=True)
class Seen:
    """The host as it is. digest, changed_at: of the sources; lists_at: of the folder of lists (Unix seconds).

    lacking: sources (names of their files) of which there is no list. none: there is no list of any source, as in an
    image from which they were removed.
    """

    digest: str
    changed_at: float
    lists_at: float
    lacking: Tuple[str, ...] = ()
    none: bool = False


def read_sources(root: Path) -> Tuple[str, float]:
    """A digest of all sources and keys below root, and when the youngest was written (Unix seconds).

    OSError where one cannot be read.
    """
    digest, changed_at = hashlib.sha256(), 0.0
    for path in sorted({path for pattern in SOURCES for path in root.glob(pattern) if path.is_file()}):
        with path.open("rb") as file:
            content = file.read(_FILE_MAX)
        name = str(path.relative_to(root)).encode()
        digest.update(b"%d %s %d " % (len(name), name, len(content)) + content)
        changed_at = max(changed_at, path.stat().st_mtime)
    return digest.hexdigest(), changed_at


def parse_targets(text: str) -> Dict[str, List[str]]:
    """By the name of a source's file the lists that apt keeps of it.

    text: of ``apt-get indextargets --format '$(SOURCESENTRY)|$(FILENAME)'``, as in
    ``/etc/apt/sources.list.d/docker.sources:1|/var/lib/apt/lists/download.docker.com_..._Packages``.
    """
    found: Dict[str, List[str]] = {}
    for line in text.splitlines():
        entry, bar, path = line.partition("|")
        name = entry.rpartition(":")[0].rpartition("/")[2]
        if bar and name and path:
            found.setdefault(name, []).append(path.strip())
    return found


def lacking(wanted: Iterable[str], targets: Dict[str, List[str]]) -> Tuple[str, ...]:
    """Those of these sources of which not one list is there."""
    return tuple(name for name in wanted if not any(_there(path) for path in targets.get(name, [])))


def none_there(targets: Dict[str, List[str]]) -> bool:
    """Whether apt has not one list. It names none either where it has no archive's Release file."""
    return not any(_there(path) for some in targets.values() for path in some)


def _there(path: str) -> bool:
    return any(Path(path + packed).exists() for packed in PACKED)


def parse_state(text: str) -> Optional[Fetched]:
    """What was remembered; None where nothing was. What cannot be read counts as a fetch that failed."""
    if not text:
        return None
    try:
        known = json.loads(text[:_STATE_MAX])
        digest, at = known["digest"], float(known["at"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return Fetched("", 0.0)
    return Fetched(digest, at) if isinstance(digest, str) and math.isfinite(at) else Fetched("", 0.0)


def state_text(fetched: Fetched) -> str:
    return json.dumps({"digest": fetched.digest, "at": fetched.at}) + "\n"


def reason(seen: Seen, fetched: Optional[Fetched], max_age: float, now: float) -> str:
    """Why lists have to be fetched; empty where they need not. max_age: seconds."""
    if seen.lacking:
        return f"there is none of {', '.join(seen.lacking)}"
    if seen.none:
        return "there is none at all"
    if fetched is None:  # somebody else fetched them, and there is no more to go by than dates
        if seen.changed_at >= seen.lists_at:
            return "a source was written after them"
        age = now - seen.lists_at
    elif not fetched.digest:
        return "the last fetch did not come to its end"
    elif fetched.digest != seen.digest:
        return "sources or keys are others than when they were fetched"
    else:
        age = now - fetched.at
    if age < 0:
        return "they are dated in the future"
    return f"they are {age:.0f} s old" if age > max_age else ""


def errors(text: str) -> str:
    """apt's own words on what it did not take, on one line."""
    lines = [line.strip() for line in text.splitlines()]
    said = dict.fromkeys(line for line in lines if line.startswith(("E: ", "W: ")))
    return " ".join(said)[:600] or next((line[:600] for line in reversed(lines) if line), "it did not say why")


def is_locked(text: str) -> bool:
    """Whether an update failed only since another program holds the lock of the lists. text: in the C locale."""
    return "Could not get lock" in text or "Unable to lock directory" in text
