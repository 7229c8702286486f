#!/usr/bin/python3
"""Counts the bytes that apt-cacher-ng fetched and served, and writes them as metrics for the node exporter.

apt-cacher-ng's log has a line per transfer: ``seconds|I|bytes|client|file`` for what it fetched, ``O`` for what it
served, ``E`` for what failed (VerboseLog: 1). It is read from where the last call ended, also across its rotation.
Installed by the role apt_cache. Standard library only, Python 3.9 or later.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any, Dict, Iterable, Optional, Tuple

LOG = "/var/log/apt-cacher-ng/apt-cacher.log"
STATE = "/var/lib/firstlight-apt-cache/state.json"
KINDS = {"I": "fetched", "O": "served", "E": "failed"}
LINE_MAX = 16384
_LINE = re.compile(r"^[0-9]{1,12}\|([IOE])\|([0-9]{1,15})(\||$)")

Counts = Dict[str, int]


def count(lines: Iterable[str]) -> Counts:
    """Sums of the log's lines: fetched and served in bytes, transfers that failed. Other lines count for nothing."""
    found = dict.fromkeys(KINDS.values(), 0)
    for line in lines:
        match = _LINE.match(line)
        if match:
            kind = KINDS[match.group(1)]
            found[kind] += 1 if kind == "failed" else int(match.group(2))
    return found


def metrics(counts: Counts) -> str:
    """The text that Prometheus reads."""
    rows = (
        ("fetched_bytes_total", "Bytes fetched from the repositories.", counts["fetched"]),
        ("served_bytes_total", "Bytes served to hosts.", counts["served"]),
        ("failures_total", "Transfers that failed.", counts["failed"]),
    )
    name = "firstlight_apt_cache"
    return "".join(f"# HELP {name}_{n} {text}\n# TYPE {name}_{n} counter\n{name}_{n} {v}\n" for n, text, v in rows)


def read_from(path: Path, offset: int) -> Tuple[Counts, int]:
    """Count the whole lines of a file from this octet on, and where the next call begins."""
    total = count(())
    with path.open("rb") as file:
        file.seek(offset)
        while True:
            line = file.readline(LINE_MAX)
            if not line:
                break
            if not line.endswith(b"\n") and len(line) < LINE_MAX:
                break  # still being written
            offset += len(line)
            for kind, value in count([line.decode("utf-8", "replace")]).items():
                total[kind] += value
    return total, offset


def read_state(text: str) -> Dict[str, Any]:
    """What the last call left: inode, offset and counts; all 0 when there is none, or it is broken."""
    try:
        data = json.loads(text)
        keys = ("inode", "offset", *KINDS.values())
        state = {key: data[key] for key in keys}
        if all(isinstance(value, int) and value >= 0 for value in state.values()):
            return state
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    return {"inode": 0, "offset": 0, **count(())}


def update(state: Dict[str, Any], log: Path) -> Dict[str, Any]:
    """The state after what the log has had since; the log before its last rotation is ``LOG.1``."""
    new = dict(state)
    for path in (Path(f"{log}.1"), log):
        inode = _inode(path)
        if inode is None or (path != log and inode != state["inode"]):
            continue
        same = inode == state["inode"] and path.stat().st_size >= state["offset"]
        counts, offset = read_from(path, state["offset"] if same else 0)
        for kind, value in counts.items():
            new[kind] += value
        new.update(inode=inode, offset=offset)
    return new


def _inode(path: Path) -> Optional[int]:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def _write(path: Path, text: str) -> None:
    """Whole or not at all: whoever reads it may do so at any time."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(text)
    fresh.chmod(0o644)
    fresh.replace(path)


def main() -> int:
    parser = argparse.ArgumentParser(description="Count what the apt cache fetched and served")
    parser.add_argument("--log", type=Path, default=Path(LOG))
    parser.add_argument("--state", type=Path, default=Path(STATE))
    parser.add_argument("--metrics", type=Path, required=True, help="the file for the node exporter, *.prom")
    options = parser.parse_args()
    try:
        before = options.state.read_text() if options.state.exists() else ""
        state = update(read_state(before), options.log)
        _write(options.state, json.dumps(state))
        _write(options.metrics, metrics(state))
    except OSError as error:
        print(f"apt_cache_metrics: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
