"""Shards of hosts, and what a command line may not say."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstlight.errors import InputError
from firstlight.fleet.shards import divide, racks_of, refuse_secrets, with_whole_paths

INVENTORY = {
    "_meta": {"hostvars": {}},
    "all": {"children": ["ungrouped", "fleet", "head_node"]},
    "fleet": {"children": ["rack_r1", "rack_r2", "rack_r3"]},
    "rack_r2": {"hosts": ["b1", "b2", "b3"]},
    "rack_r1": {"hosts": ["a1"]},
    "rack_r3": {"hosts": ["c1", "c2"]},
    "rack_r4": {},
    "profile_xe9680": {"hosts": ["a1", "b1"]},
    "head_node": {"hosts": ["head1"]},
}


def test_racks_are_those_with_hosts() -> None:
    assert racks_of(INVENTORY) == {"r1": ["a1"], "r2": ["b1", "b2", "b3"], "r3": ["c1", "c2"]}


def test_a_shard_a_rack() -> None:
    assert divide(racks_of(INVENTORY), "rack") == racks_of(INVENTORY)


@pytest.mark.parametrize(
    ("how", "shards"),
    [
        ("1", {"1": ["b1", "b2", "b3", "c1", "c2", "a1"]}),
        ("2", {"1": ["b1", "b2", "b3"], "2": ["c1", "c2", "a1"]}),
        ("9", {"1": ["b1", "b2", "b3"], "2": ["c1", "c2"], "3": ["a1"]}),
    ],
)
def test_so_many_shards_of_whole_racks(how: str, shards: dict[str, list[str]]) -> None:
    assert divide(racks_of(INVENTORY), how) == shards


def test_no_host_is_no_shard() -> None:
    assert divide({}, "rack") == divide({}, "4") == {}


@pytest.mark.parametrize("how", ["0", "-1", "row", "1000", "2 ", ""])
def test_another_division_is_refused(how: str) -> None:
    with pytest.raises(InputError, match="it must be rack, or a number from 1 to 999"):
        divide({"r1": ["a1"]}, how)


@pytest.mark.parametrize(
    "text",
    [
        "bmc_password=x",
        "a=1 maas_api_key='x y'",
        "ansible_become_pass=x",
        '{"site": {"smtp_Token": "x"}}',
        '[{"client_secret": "x"}]',
    ],
)
def test_a_secret_is_refused_without_its_value(text: str) -> None:
    with pytest.raises(InputError, match="looks like a secret") as caught:
        refuse_secrets(["a=1", text])
    assert "x y" not in str(caught.value) and "=x" not in str(caught.value)


def test_what_is_no_secret_passes() -> None:
    refuse_secrets(
        ["@/etc/passwords.yml", "vault_password_file=/x", "configure_skip=[]", '{"a": {"b": 1}}', "a=b c='d e'"]
    )


@pytest.mark.parametrize("text", ["", "word", "a=1 word", "a='1", '{"a": '])
def test_what_gives_no_value_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="-e NAME=VALUE or -e @FILE"):
        refuse_secrets([text])


def test_a_file_of_extra_variables_must_be_there_and_has_its_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.yml").write_text("a: 1\n")
    assert with_whole_paths(["@x.yml", "a=1"]) == [f"@{tmp_path}/x.yml", "a=1"]
    for named, said in (
        ("@/nosuch", r"^-e @/nosuch: No such file or directory; name a file that is there"),
        ("@.", "Is a directory"),
        ("@", "Is a directory"),
        ("@~nosuchuser/x", "-e @~nosuchuser/x: "),
        ("@a\0b", "-e @a"),
    ):
        with pytest.raises(InputError, match=said):
            with_whole_paths(["a=1", named])
