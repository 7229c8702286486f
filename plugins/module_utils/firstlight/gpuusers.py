"""Which processes use the GPUs of this host: whether it may be disturbed. Standard library only, for hosts.

nvidia-smi knows. One of another version than the loaded driver fails while jobs go on; then who holds a GPU's device
file open tells.
"""

from __future__ import annotations

import re
from pathlib import Path

QUERY = ("nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader")
LIMIT_SECONDS = 60.0
# names as the kernel has them, 15 characters: those that hold a GPU open on a host at rest
DAEMONS = ("nvidia-persiste", "nv-fabricmanage", "nv-hostengine", "dcgm-exporter", "nvidia-smi")
_GPU = re.compile(r"/dev/nvidia[0-9]+")


def parse(text: str) -> list[int]:
    """The processes that nvidia-smi names, a line each; what is no number (``[N/A]`` in a container) is left out."""
    return sorted({int(line) for line in map(str.strip, text.splitlines()) if re.fullmatch(r"[0-9]{1,9}", line)})


def holders(proc: Path) -> list[int]:
    """The processes that have a GPU open, but for the daemons. proc: the root of procfs. One that ends is left out."""
    found = []
    for folder in proc.glob("[0-9]*"):
        try:
            opened = [str(file.readlink()) for file in (folder / "fd").iterdir()]
            name = (folder / "comm").read_text(errors="replace").strip()
        except OSError:
            continue
        if name not in DAEMONS and any(map(_GPU.fullmatch, opened)):
            found.append(int(folder.name))
    return sorted(found)
