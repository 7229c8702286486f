"""The policy file: what is wrong with it is one line with file, line and key."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight.errors import InputError
from firstlight.findings import Finding
from firstlight.policy import required_ready
from firstlight.policy.ready import at_least, at_most
from firstlight.policy.settings import POLICY_SCHEMA, Policy, load_policy
from firstlight.tickets.settings import TicketSettings, load_tickets

ROOT = Path(__file__).resolve().parents[3]


def write(folder: Path, text: str) -> Path:
    path = folder / "policy.yml"
    path.write_text(text)
    return path


def test_the_example_is_the_defaults_but_for_its_two_lists():
    policy = load_policy(ROOT / "inventory" / "example" / "policy.yml")
    differ = {f.name for f in fields(Policy) if getattr(policy, f.name) != f.default}
    assert differ == {"quarantine_never", "quarantine_warnings"}


def test_every_key_is_in_the_schema_and_in_the_docs_with_its_default():
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| (.*?) \|", (ROOT / "docs" / "policy.md").read_text(), re.MULTILINE))
    for field in fields(Policy):
        default = "none" if field.default == () else str(field.default)
        assert rows.pop(field.name).strip("`") == default, field.name
    assert not rows
    assert set(POLICY_SCHEMA["properties"]) == {f.name for f in fields(Policy)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("---\nlemon_day: 3\n", r"policy\.yml:2: unknown key 'lemon_day'; known are .*lemon_days"),
        ("---\nlemon_days: 3\nspares: 101%\n", r"policy\.yml:3: spares is '101%'; write a count"),
        ("spares: -1\n", r"policy\.yml:1: spares: -1 is not right; write a count like 40 or a share"),
        ('fleet_min_ready: "15%\\n"\n', r"policy\.yml:1: fleet_min_ready: '15%\\n' is not right"),
        ("spares: 1.5\n", r"policy\.yml:1: spares: 1\.5 is not right"),
        ("lemon_failures: 1\n", r"policy\.yml:1: lemon_failures: 1 is not right; a whole number from 2 to 100"),
        ("golden_days: true\n", r"golden_days: True is not right"),
        ("ticket_min_action: hit\n", r"ticket_min_action: 'hit' is not right; one of wait, "),
        ("quarantine_never: [a.b, '*']\n", r"quarantine_never\[1\]: '\*' is not right; a symptom like"),
        ("quarantine_never: [a.b]\nquarantine_warnings: [a.b]\n", r"policy\.yml:2: a\.b is also in quarantine_never"),
        ("- 1\n", r"must be keys with values"),
        ("spares: [\n", r"policy\.yml:2: not valid YAML"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path, text, said):
    with pytest.raises(InputError) as error:
        load_policy(write(tmp_path, text))
    assert re.search(said, str(error.value)), error.value
    assert "\n" not in str(error.value)


def test_no_such_file_is_one_line(tmp_path):
    with pytest.raises(InputError, match="cannot be read: No such file"):
        load_policy(tmp_path / "none.yml")


@given(st.text(max_size=60))
def test_any_text_is_a_policy_or_an_error_of_one_line(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("policy") / "policy.yml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass" if text.isprintable() else "replace")
    try:
        assert isinstance(load_policy(path), Policy)
    except InputError as error:
        assert "\n" not in str(error)


def test_what_quarantines(tmp_path):
    policy = load_policy(
        write(tmp_path, "quarantine_never: [kernel.*, b.c]\nquarantine_warnings: [gpu.rows_used_up]\n")
    )
    told = {
        (status, symptom): policy.quarantines(Finding("c", status, symptom))
        for status in ("ok", "warn", "fail", "unknown")
        for symptom in ("gpu.rows_used_up", "kernel.oops", "b.c", "b.cd")
    }
    yes = {key for key, value in told.items() if value}
    assert yes == {(s, x) for s in ("fail", "unknown") for x in ("gpu.rows_used_up", "b.cd")} | {
        ("warn", "gpu.rows_used_up")
    }


def test_amounts_are_rounded_to_the_side_that_is_safe():
    assert (at_least("k", "15%", 511), at_most("k", "15%", 511)) == (77, 76)
    assert (at_least("k", 600, 511), at_most("k", "7", 511)) == (511, 7)
    assert (required_ready("90%", 10), at_least("spares", Policy().spares, 511)) == (9, 77)


def test_a_file_of_comments_alone_is_the_defaults(tmp_path):
    for name, load, want in (("policy.yml", load_policy, Policy()), ("tickets.yml", load_tickets, TicketSettings())):
        (tmp_path / name).write_text("---\n# spares: 10%\n")
        assert load(tmp_path / name) == want
