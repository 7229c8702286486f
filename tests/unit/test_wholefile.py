"""Files are written whole or stay as they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstlight.wholefile import write_whole


def test_the_file_is_whole_or_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "x.prom"
    write_whole(str(target), "one 1\n")
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("one 1\n", 0o644)
    names = []
    full = OSError(28, "No space left on device", "in between")
    monkeypatch.setattr(Path, "replace", lambda self, to: names.append(self.name) or (_ for _ in ()).throw(full))

    with pytest.raises(OSError, match="28") as refused:
        write_whole(str(target), "two 2\n")

    assert refused.value.filename == str(target)
    assert target.read_text() == "one 1\n"
    assert [path.name for path in tmp_path.iterdir()] == ["x.prom"]
    assert names[0].startswith(".x.prom.")
    assert not names[0].endswith(".prom")


# ---------------------------------------------------------------- scripts/health


def test_permissions_and_bytes_are_as_asked_for(tmp_path: Path) -> None:
    target = tmp_path / "key"
    write_whole(target, b"\xff\n", 0o600)
    assert (target.read_bytes(), target.stat().st_mode & 0o777) == (b"\xff\n", 0o600)


def test_no_such_folder_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as refused:
        write_whole(tmp_path / "none" / "x.prom", "one 1\n")
    assert refused.value.filename == str(tmp_path / "none" / "x.prom")
