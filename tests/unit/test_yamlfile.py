"""YAML files of people: the line of each value, and errors that name file, line and key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firstlight import yamlfile
from firstlight.errors import InputError
from firstlight.yamlfile import YamlFile, read_yaml

TEXT = """\
# a comment
site: one
hosts:
  - name: a
    unit: 4
  - name: b
    unit: x
7: seven
"""

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["site"],
    "additionalProperties": False,
    "properties": {
        "site": {"type": "string"},
        "hosts": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name"],
                "additionalProperties": False,
                "properties": {"name": {"type": "string"}, "unit": {"type": "integer", "x-hint": "a unit from 1"}},
            },
        },
    },
}


def read(tmp_path: Path, text: str) -> YamlFile:
    path = tmp_path / "fleet.yml"
    path.write_text(text)
    return read_yaml(path)


def error_of(tmp_path: Path, text: str, schema: dict[str, Any] = SCHEMA) -> str:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text).check(schema)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(f"{tmp_path}/", "")


def test_the_line_of_each_value(tmp_path: Path) -> None:
    file = read(tmp_path, TEXT)
    path = tmp_path / "fleet.yml"

    assert file.data["hosts"][1] == {"name": "b", "unit": "x"}
    assert file.where() == f"{path}:2"
    assert file.where(["hosts"]) == f"{path}:3"
    assert file.where(["hosts", 1]) == f"{path}:6"
    assert file.where(["hosts", 1, "unit"]) == f"{path}:7"
    assert file.where([7]) == f"{path}:8"
    assert file.where(["hosts", 1, "no such", "key"]) == f"{path}:6"
    assert file.where(["hosts", 9]) == f"{path}:3"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("site: 1\n", "fleet.yml:1: site: 1 must be text (in quotes)"),
        ("hosts: []\n", "fleet.yml:1: 'site' is a required property"),
        ("site: a\nhosts:\n  - name: b\n  - unit: 1\n", "fleet.yml:4: hosts[1]: 'name' is a required property"),
        (
            "site: a\nhosts:\n  - name: b\n    unit: four\n",
            "fleet.yml:4: hosts[0].unit: 'four' is not right; a unit from 1",
        ),
        ("site: a\n\nhost: []\n", "fleet.yml:3: unknown key 'host'; known are site, hosts"),
        ("site: a\n7: b\n", "fleet.yml:2: unknown key 7; known are site, hosts"),
        (
            "site: a\nhosts:\n  - name: b\n    rack: c\n",
            "fleet.yml:4: hosts[0]: unknown key 'rack'; known are name, unit",
        ),
        ("- a\n", "fleet.yml:1: ['a'] must be keys with values (key: value)"),
        ("", "fleet.yml: is empty; see the example site for what belongs in it"),
        ("# nothing\n", "fleet.yml: is empty; see the example site for what belongs in it"),
        ("site: a\nhosts:\n  - name: b\nsite: c\n", "fleet.yml:4: key 'site' is already on line 1; keep one"),
        (
            "site: a\nhosts:\n  - name: b\n    unit: 1\n    unit: 2\n",
            "fleet.yml:5: key 'unit' is already on line 4; keep one",
        ),
        ("site: a\nhosts: [\n", "fleet.yml:3: not valid YAML: expected the node content, but found '<stream end>'"),
        ("site: a\n\tb: c\n", "fleet.yml:2: not valid YAML: found character '\\t' that cannot start any token"),
        ("site: a\n--- \nsite: b\n", "fleet.yml:2: not valid YAML: but found another document"),
        ("site: 2027-13-45\n", "fleet.yml: not valid YAML: month must be in 1..12"),
        ("site: !vault x\n", "fleet.yml:1: not valid YAML: could not determine a constructor for the tag '!vault'"),
        ("site: a\nhosts: &x [*x]\n", "fleet.yml:2: hosts[0]: [[...]] must be keys with values (key: value)"),
    ],
)
def test_errors_name_file_line_key_and_what_would_be_right(tmp_path: Path, text: str, message: str) -> None:
    assert error_of(tmp_path, text) == message


def test_a_huge_wrong_value_gives_a_short_line(tmp_path: Path) -> None:
    assert len(error_of(tmp_path, f"site: [{'x, ' * 5000}]\n")) < 400


def test_a_sound_file_passes(tmp_path: Path) -> None:
    read(tmp_path, "site: a\nhosts:\n  - &one {name: b, unit: 1}\n  - *one\n").check(SCHEMA)


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"none.yml: cannot be read: No such file"):
        read_yaml(tmp_path / "none.yml")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_yaml(tmp_path)
    (tmp_path / "latin.yml").write_bytes(b"site: caf\xe9\n")
    with pytest.raises(InputError, match=r"latin.yml: not a UTF-8 text file"):
        read_yaml(tmp_path / "latin.yml")
    monkeypatch.setattr(yamlfile, "MAX_BYTES", 10)
    (tmp_path / "large.yml").write_text("site: abcdefghij\n")
    with pytest.raises(InputError, match="larger than 10 bytes"):
        read_yaml(tmp_path / "large.yml")


PIECES = st.sampled_from(
    [
        "site",
        "hosts",
        ":",
        " ",
        "\n",
        "- ",
        "name",
        "unit",
        "1",
        "[",
        "]",
        "{",
        "}",
        "&a ",
        "*a",
        "\t",
        "!x ",
        "? ",
        "'",
    ]
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(PIECES, max_size=25).map("".join) | st.text(max_size=60))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    try:
        YamlFile(Path("f.yml"), text).check(SCHEMA)
    except InputError as error:
        assert str(error).startswith("f.yml")
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("text", "schema", "said"),
    [
        ("- a\n", {"type": "object"}, r":1: \['a'\] must be keys with values \(key: value\)$"),
        ("a: b\n", {"properties": {"a": {"type": "array"}}}, r":1: a: 'b' must be a list \(- item\)$"),
        (
            "a: 1\n",
            {"properties": {"a": {"type": ["string", "null"]}}},
            r":1: a: 1 must be text \(in quotes\) or empty$",
        ),
    ],
)
def test_a_value_of_a_wrong_kind_is_told_in_words_of_people(tmp_path, text, schema, said):
    path = tmp_path / "x.yml"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        read_yaml(path).check(schema)


def test_a_file_in_which_every_key_may_be_left_out_may_have_none(tmp_path: Path) -> None:
    every = {**SCHEMA, "required": []}
    for text in ("", "# nothing\n", "---\n"):
        file = read(tmp_path, text)
        file.check(every)
        assert file.data == {}
    assert error_of(tmp_path, "[]\n", every).startswith("fleet.yml:1: [] must be keys")


def test_a_pattern_holds_to_the_end_of_the_text(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"site": {"type": "string", "pattern": "^[a-z]+$"}}}
    schema["propertyNames"] = {"pattern": "^[a-z]+$"}
    read(tmp_path, "site: a\n").check(schema)
    assert error_of(tmp_path, 'site: "a\\n"\n', schema).startswith("fleet.yml:1: site: ")
    assert "does not match" in error_of(tmp_path, '"site\\n": a\n', schema)
