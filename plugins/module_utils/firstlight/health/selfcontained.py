"""Builds the self-contained file of the checks: one zip that ``python3`` runs on any host (standard library's zipapp).

Equal sources give equal bytes, so that a host has nothing to do when nothing changed.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
import zipapp
from pathlib import Path

NAME = "firstlight-checks.pyz"
LIBRARY = Path(__file__).resolve().parents[1]
PARTS: tuple[str, ...] = (
    "__init__.py",
    "findings.py",
    "profile.py",
    "profile_kinds.py",
    "slots.py",
    "streams.py",
    "wholefile.py",
    "checks",
    "zfs",
    "health/__init__.py",
    "health/verdicts.py",
)
PARTS += ("health/settings.py", "health/earlier.py", "health/metrics.py", "health/state.py", "health/onhost.py")
_MAIN = "import sys\n\nfrom firstlight.health.onhost import main\n\nsys.exit(main())\n"
# a local time, as zip files keep them: the same bytes in every time zone
_DATE = time.mktime((2020, 1, 1, 12, 0, 0, 0, 0, -1))


def build(target: Path) -> Path:
    """Write the file; returns its path."""
    with tempfile.TemporaryDirectory(prefix="firstlight-checks-") as folder:
        root = Path(folder) / "root"
        for part in PARTS:
            source = LIBRARY / part
            for path in sorted(source.rglob("*.py")) if source.is_dir() else [source]:
                copy = root / "firstlight" / path.relative_to(LIBRARY)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
        (root / "__main__.py").write_text(_MAIN)
        for path in [root, *root.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
            os.utime(path, (_DATE, _DATE))
        zipapp.create_archive(root, target, interpreter="/usr/bin/env python3", compressed=True)
    target.chmod(0o755)
    return target


if __name__ == "__main__":
    print(build(Path(sys.argv[1] if len(sys.argv) > 1 else NAME)))
