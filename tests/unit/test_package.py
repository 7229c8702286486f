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


def test_every_file_that_is_no_python_is_packaged():
    library = ROOT / "plugins" / "module_utils"
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    others = [p for p in library.rglob("*") if p.is_file() and p.suffix not in (".py", ".pyc")]
    assert "user_data.yml.j2" in {path.name for path in others}
    for path in others:
        package = ".".join(path.parent.relative_to(library).parts)
        assert any(path.match(pattern) for pattern in data.get(package, [])), path


def test_nothing_of_the_product_imports_a_simulator():
    for folder in ("plugins", "playbooks", "roles"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".yml", ".j2"):
                assert "simulators" not in path.read_text(), path
