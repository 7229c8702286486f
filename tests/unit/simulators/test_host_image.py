"""When the image of the simulated servers is built again."""

from __future__ import annotations

from pathlib import Path

from simulators.host.containers import recipe_of


def folder(tmp_path: Path) -> Path:
    for name in ("shims/nvidia-smi", "units/cloud-init.service", "Containerfile"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def test_another_shim_or_base_is_another_image(tmp_path: Path) -> None:
    recipe = folder(tmp_path)
    before = recipe_of(recipe, "base")
    assert recipe_of(recipe, "other base") != before
    (recipe / "shims" / "nvidia-smi").write_text("changed")
    assert recipe_of(recipe, "base") != before


def test_bytecode_among_the_shims_changes_nothing(tmp_path: Path) -> None:
    recipe = folder(tmp_path)
    before = recipe_of(recipe, "base")
    (recipe / "shims" / "__pycache__").mkdir()
    (recipe / "shims" / "__pycache__" / "ibstat.pyc").write_bytes(b"\0")
    assert recipe_of(recipe, "base") == before
