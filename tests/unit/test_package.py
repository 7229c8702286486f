"""The library as it is installed."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_folder_of_the_library_is_packaged():
    library = ROOT / "plugins" / "module_utils"
    folders = {".".join(p.parent.relative_to(library).parts) for p in library.rglob("__init__.py")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(project["tool"]["setuptools"]["packages"]) == folders


def test_nothing_of_the_product_imports_a_simulator():
    for folder in ("plugins", "playbooks", "roles"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".yml", ".j2"):
                assert "simulators" not in path.read_text(), path
