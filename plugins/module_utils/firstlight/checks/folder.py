"""A capture: what every source of the checks gave on one host, kept as a folder and judged anywhere, later.

``index.json`` has who made it and when, profile, expectations, tier, and a row for every source: how to know it again,
exit status, problem, seconds, and the names of the files beside it that have its output. The same as one .tar.gz is how
a capture travels. Reading is bounded and takes plain files with the index's kind of names alone: a capture comes from a
host, or from a stranger's support bundle.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import json
import os
import platform
import re
import stat
import tarfile
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Callable, Dict, Iterable, List, Mapping, Optional, Tuple

from . import ALL_CHECKS
from .capture import _READER, _USAGE, Command, Output, Source, run_all
from .engine import TIERS, Check, Expect, Plan, Profile, Run, plan

FORMAT = 1
INDEX = "index.json"
NOT_CAPTURED = "not_captured"  # the problem of a source that the capture does not have
FILE_MAX = 64 * 1024 * 1024  # no source gives more than 16 MiB; what is no UTF-8 grows threefold as text
ALL_MAX = 256 * 1024 * 1024
SOURCES_MAX = 2000
_NAME = re.compile(r"[0-9]{3,4}-[a-z0-9-]{1,40}\.(out|err)")
_PROBLEM = re.compile(r"[a-z_]{0,40}")
_CHILD = ("-I", "-S", "-c")  # how the checks start a Python of their own
_SCRIPTS = {_READER: "files", _USAGE: "file_systems"}


@dataclass(frozen=True)
class Capture:
    """facts: tool, version, time (ISO 8601), host, tier, checks (those asked for by name), profile, expect, system
    (distribution, architecture). outputs: by source, as ``describe`` has it. read_by: check to reading to source."""

    facts: Dict[str, Any]
    outputs: Dict[str, Output]
    read_by: Dict[str, Dict[str, str]] = field(default_factory=dict)


def facts_here(version: str) -> Dict[str, Any]:
    """Who captures, when, on which host and system, as facts of a capture."""
    told: Dict[str, str] = {}
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        try:
            with Path(path).open("rb") as file:
                lines = file.read(65536).decode("utf-8", "replace").splitlines()
        except OSError:
            continue
        told = {k: v.strip("\"'") for k, _, v in (line.partition("=") for line in lines)}
        break
    system = {"distribution": told.get("ID", ""), "version": told.get("VERSION_ID", "")}
    system["architecture"] = platform.machine()
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"tool": "firstlight-checks", "version": version, "time": now, "host": platform.node(), "system": system}


def describe(source: Source) -> Dict[str, Any]:
    """What tells a source from all others, whichever Python runs it: what is run or read, and its bounds."""
    if not isinstance(source, Command):
        return {"get": [source.address, source.path], "limit": source.limit, "max_bytes": source.max_bytes}
    bounds: Dict[str, Any] = {"limit": source.limit, "max_bytes": source.max_bytes, "keep": source.keep}
    argv = source.argv
    if len(argv) < 5 or argv[1:4] != _CHILD:
        return {"command": list(argv), **bounds}
    if argv[4] in _SCRIPTS:
        return {_SCRIPTS[argv[4]]: list(argv[5:]), **bounds}
    return {"script": hashlib.sha256(argv[4].encode()).hexdigest(), "arguments": list(argv[5:]), **bounds}


def key(described: Mapping[str, Any], bounds: bool = True) -> str:
    """A source's description as one text; without ``bounds`` only what is run or read."""
    kept = {k: v for k, v in described.items() if bounds or k not in ("limit", "max_bytes", "keep")}
    return json.dumps(kept, sort_keys=True)


class Keeper:
    """A ``run`` for ``run_checks`` that runs on this host and keeps what it gave."""

    def __init__(self, run: Run = run_all) -> None:
        self._run, self.outputs = run, {}  # type: Run, Dict[str, Output]

    def __call__(self, sources: Iterable[Source], limit: float) -> Dict[Source, Output]:
        asked = list(sources)
        outputs = self._run(asked, limit)
        # In the order in which they were asked for, whichever answered first: captures of two hosts can be compared.
        # What was given beside these comes after them.
        order = [source for source in dict.fromkeys(asked) if source in outputs]
        order += [source for source in outputs if source not in order]
        self.outputs.update({key(describe(source)): outputs[source] for source in order})
        return outputs

    def kept(
        self,
        planned: Plan,
        profile: Profile,
        expect: Expect,
        facts: Mapping[str, Any],
        tier: str,
        only: Iterable[str] = (),
    ) -> "Capture":
        """What was kept, as a capture. planned: the checks that it was run for, as ``engine.plan`` has them."""
        about = {**facts, "tier": tier, "checks": sorted(only), "expect": expect, "profile": _profile(profile)}
        return Capture(about, self.outputs, read_by(planned, self.outputs))


def capture(
    checks: Iterable[Check],
    profile: Profile,
    expect: Expect,
    facts: Mapping[str, Any],
    tier: str = "quick",
    only: Iterable[str] = (),
    timeout: Optional[float] = None,
    run: Run = run_all,
) -> Capture:
    """Read everything that the checks of a tier would read, judging nothing. ``facts`` are added to the capture's."""
    names = sorted(only)
    keeper = Keeper(run)
    planned = plan(checks, profile, expect, tier, names)
    keeper((source for _, reads in planned for source in reads.values()), timeout or TIERS[tier])
    return keeper.kept(planned, profile, expect, facts, tier, names)


def _profile(profile: Profile) -> Dict[str, Any]:
    return {name: value for name, value in vars(profile).items() if value != {}}


def read_by(planned: Plan, outputs: Mapping[str, Output]) -> Dict[str, Dict[str, str]]:
    """By check and reading the source, of those that have an output."""
    named = {c.name: {name: key(describe(source)) for name, source in reads.items()} for c, reads in planned if reads}
    return {c: reads for c, reads in named.items() if all(source in outputs for source in reads.values())}


def replay(kept: Capture) -> Run:
    """A ``run`` for ``run_checks`` that gives what the capture has. What it has not is a problem, so unknown."""
    loose: Dict[str, Output] = {}
    for name, output in kept.outputs.items():
        loose.setdefault(key(json.loads(name), bounds=False), output)
    older = _of_older_scripts(kept)
    when = str(kept.facts.get("time", ""))[:40]
    nothing = Output(errors=f"the capture of {when} does not have it", code=-1, problem=NOT_CAPTURED)

    def run(sources: Iterable[Source], limit: float) -> Dict[Source, Output]:
        given = {}
        for source in sources:
            told = describe(source)
            known = kept.outputs.get(key(told)) or loose.get(key(told, bounds=False)) or older.get(key(told))
            given[source] = known or nothing
        return given

    return run


def _of_older_scripts(kept: Capture) -> Dict[str, Output]:
    """By source what the capture has of a script of the checks that was another then: that of the same reading."""
    try:
        profile = Profile.from_dict(dict(kept.facts.get("profile") or {}))
        planned = plan(ALL_CHECKS, profile, dict(kept.facts.get("expect") or {}), "long", [c.name for c in ALL_CHECKS])
    except (ValueError, TypeError):  # a stranger's
        return {}
    found: Dict[str, Output] = {}
    for check, reads in planned:
        for name, source in reads.items():
            before = kept.read_by.get(check.name, {}).get(name, "{}")
            if "script" in describe(source) and "script" in json.loads(before) and before in kept.outputs:
                found[key(describe(source))] = kept.outputs[before]
    return found


# -- as files -------------------------------------------------------------------------------------------------------


def to_files(kept: Capture) -> Dict[str, bytes]:
    """The capture as files by name, the index among them."""
    files: Dict[str, bytes] = {}
    numbers: Dict[str, int] = {}
    rows: List[Dict[str, Any]] = []
    for number, (name, output) in enumerate(kept.outputs.items()):
        numbers[name] = number
        told = json.loads(name)
        row: Dict[str, Any] = {"source": told, "code": output.code, "problem": output.problem}
        row.update(truncated=output.truncated, seconds=output.seconds)
        for end, text in (("out", output.text), ("err", output.errors)):
            if text:
                file = f"{number:03d}-{_slug(told)}.{end}"
                files[file] = text.encode("utf-8", "replace")
                row[end] = file
        rows.append(row)
    checks = {c: {r: numbers[name] for r, name in reads.items()} for c, reads in kept.read_by.items()}
    about = {"format": FORMAT, **kept.facts, "read_by": checks, "sources": rows}
    files[INDEX] = (json.dumps(about, indent=1, sort_keys=True) + "\n").encode()
    return files


def _slug(told: Mapping[str, Any]) -> str:
    kind = next(k for k in ("get", "command", "files", "file_systems", "script") if k in told)
    words = told[kind] if isinstance(told[kind], list) else [told[kind][:12]]
    said = " ".join(words) if kind in ("get", "command") else " ".join([kind, *words])
    return re.sub(r"[^a-z0-9]+", "-", said.lower())[:40].strip("-") or "source"


def from_files(read: Callable[[str], Optional[bytes]]) -> Capture:
    """The capture from its files; ``read`` gives a file's content by name, None where there is none.

    ValueError with one line where it is none, or breaks a bound.
    """
    index = read(INDEX)
    if index is None:
        raise ValueError(f"no {INDEX} in it: this is no capture of the checks")
    try:
        about = json.loads(index.decode("utf-8"))
        rows, checks = list(about.pop("sources")), dict(about.pop("read_by"))
        form = about.pop("format")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"{INDEX} is not that of a capture") from None
    if form != FORMAT:
        raise ValueError(f"{INDEX}: format {str(form)[:20]!r} is another than {FORMAT}; use the release that wrote it")
    if len(rows) > SOURCES_MAX:
        raise ValueError(f"{INDEX}: {len(rows)} sources, at most {SOURCES_MAX} are read")
    names: List[str] = []
    outputs: Dict[str, Output] = {}
    taken = len(index)
    for number, row in enumerate(rows):
        try:
            name, output, size = _row(row, read)
        except KeyError as error:
            raise ValueError(f"{INDEX}: sources[{number}]: key {error} is missing") from None
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{INDEX}: sources[{number}]: {str(error)[:200]}") from None
        names.append(name)
        outputs[name] = output
        taken += size
        if taken > ALL_MAX:
            raise ValueError(f"more than {ALL_MAX} bytes in all")
    try:
        reads = {str(c): {str(r): names[n] for r, n in by.items()} for c, by in checks.items()}
    except (TypeError, IndexError, AttributeError):
        raise ValueError(f"{INDEX}: read_by names sources that are not there") from None
    return Capture(about, outputs, reads)


def _row(row: Mapping[str, Any], read: Callable[[str], Optional[bytes]]) -> Tuple[str, Output, int]:
    if not isinstance(row, dict):
        raise ValueError(f"must be a mapping, not {type(row).__name__}")
    texts, size = [], 0
    for end in ("out", "err"):
        file = row.get(end, "")
        if file and not (isinstance(file, str) and _NAME.fullmatch(file)):
            raise ValueError(f"{str(file)[:60]!r} is no name of a file that a capture has")
        content = read(file) if file else b""
        if content is None:
            raise ValueError(f"file {file} is missing")
        size += len(content)
        texts.append(content.decode("utf-8", "replace"))
    problem = row["problem"]
    if not isinstance(problem, str) or not _PROBLEM.fullmatch(problem):
        raise ValueError(f"problem {str(problem)[:60]!r} is none")
    if not isinstance(row["source"], dict):
        raise ValueError("source is no mapping")
    name = key(row["source"])
    seconds = float(row["seconds"])
    if not 0 <= seconds < 1e6:
        raise ValueError("seconds are out of range")
    return name, Output(texts[0], texts[1], int(row["code"]), problem, row["truncated"] is True, seconds), size


def write_folder(kept: Capture, folder: str) -> int:
    """Write the capture into a new or an empty folder, readable by its owner alone; returns the number of files.

    ValueError where there is something in it, OSError as the system has it. The index comes last: a folder without one
    is half a capture, and is refused.
    """
    Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(Path(folder).iterdir()):
        raise ValueError(f"{folder} is not empty; name a new folder")
    files = to_files(kept)
    for name in [*(n for n in files if n != INDEX), INDEX]:
        handle = os.open(Path(folder) / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(files[name])
    return len(files)


def read_folder(folder: str) -> Capture:
    """The capture that is in a folder; ValueError with one line where it is none, OSError as the system has it."""

    def read(name: str) -> Optional[bytes]:
        try:
            # a link could name any file, and opening a pipe waits for whoever writes into it
            handle = os.open(Path(folder) / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise ValueError(f"{name} is a link; a capture has plain files alone") from None
            raise
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise ValueError(f"{name} is no plain file")
            return _bounded(file, name)

    next(Path(folder).iterdir(), None)  # is it a folder at all
    return from_files(read)


def write_archive(kept: Capture, file: BinaryIO) -> None:
    """Write the capture as .tar.gz."""
    files = to_files(kept)
    with tarfile.open(fileobj=file, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o600
            archive.addfile(member, io.BytesIO(content))


def read_archive(file: BinaryIO) -> Capture:
    """The capture that a .tar.gz has; ValueError with one line where it is none."""
    files: Dict[str, bytes] = {}
    taken = 0
    try:
        with gzip.open(file) as plain, tarfile.open(fileobj=_Limited(plain), mode="r|") as archive:  # type: ignore[call-overload]
            for member in archive:
                if not member.isfile() or not (member.name == INDEX or _NAME.fullmatch(member.name)):
                    raise ValueError(f"{member.name[:60]!r} is nothing that a capture has")
                taken += member.size
                if member.size > FILE_MAX or taken > ALL_MAX or len(files) > 2 * SOURCES_MAX:
                    raise ValueError(_TOO_LARGE)
                content = archive.extractfile(member)
                files[member.name] = content.read(member.size) if content else b""
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise ValueError(f"no archive of a capture: {str(error)[:120]}") from None
    return from_files(files.get)


_TOO_LARGE = f"it holds more than {ALL_MAX} bytes, or too many files"


class _Limited:
    """Of an unpacked archive only so much: a header may say any size, and little packs into a lot."""

    def __init__(self, file: Any) -> None:
        self._file, self._left = file, ALL_MAX + 4096 * SOURCES_MAX

    def read(self, size: int) -> bytes:
        content = bytes(self._file.read(min(size, self._left + 1)))
        self._left -= len(content)
        if self._left < 0:
            raise ValueError(_TOO_LARGE)
        return content


def _bounded(file: BinaryIO, name: str) -> bytes:
    content = file.read(FILE_MAX + 1)
    if len(content) > FILE_MAX:
        raise ValueError(f"{name} has more than {FILE_MAX} bytes")
    return content
