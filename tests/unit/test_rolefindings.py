"""What roles found: collected on the host, refused at once where nothing collects it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from firstlight import rolefindings
from firstlight.errors import InputError
from firstlight.findings import Finding

ROOT = Path(__file__).parents[2]
WARN = Finding("c", "warn", "c.odd", "CPU 3", "1 of 2").to_dict()
FAIL = Finding("c", "fail", "c.wrong", "CPU 4", "2 of 2", "escalate").to_dict()
UNKNOWN = Finding("c", "unknown", "c.no_tool", "", "lspci: not found", "escalate").to_dict()


def test_a_role_s_findings_take_the_place_of_its_earlier_ones():
    before = rolefindings.add(None, "one", [Finding.from_dict(FAIL)])
    both = rolefindings.add(before, "two", [Finding.from_dict(WARN)])

    after = rolefindings.add(both, "one", [])

    assert [row["role"] for row in both] == ["one", "two"]
    assert after == [{**WARN, "role": "two"}]


def test_a_check_that_the_site_switched_off_is_not_held_against_the_role():
    skipped = Finding("c", "warn", "c.skipped", evidence="switched off until 2999-01-01: x").to_dict()
    nothing = Finding("host_check", "unknown", "host_check.nothing_checked", "", "x", "escalate").to_dict()

    findings = rolefindings.read("r", [skipped, nothing])

    assert [finding.symptom for finding in findings] == ["c.skipped"]
    assert rolefindings.refusal("r", findings) == ""


@pytest.mark.parametrize(
    "rows",
    [None, "none", [{"check": "c"}], [{**FAIL, "status": "bad"}], ["x"], [FAIL] * (rolefindings.OF_A_ROLE_MAX + 1)],
)
def test_what_is_no_finding_is_refused(rows):
    with pytest.raises(InputError, match=r"role_findings: (a finding|findings) of r "):
        rolefindings.read("r", rows)


def test_only_what_says_no_is_a_refusal():
    known = [Finding.from_dict(row) for row in (UNKNOWN, WARN, FAIL)]

    assert rolefindings.refusal("r", known[1:2]) == ""
    assert rolefindings.refusal("r", known) == "r: c.wrong CPU 4 (2 of 2); c.no_tool (lspci: not found)"
    assert rolefindings.refusal("r", known[2:] * 7).endswith("; and 2 more")


def play(tmp_path: Path, tasks: list[dict[str, Any]], variables: dict[str, Any]) -> tuple[int, str]:
    """Run tasks on localhost with the real plugins; exit status and what was printed."""
    book = tmp_path / "play.yml"
    book.write_text(
        yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": tasks, "name": "p"}])
    )
    environment = {
        **os.environ,
        "ANSIBLE_ACTION_PLUGINS": str(ROOT / "plugins/action"),
        "ANSIBLE_LIBRARY": str(ROOT / "plugins/modules"),
        "ANSIBLE_LOCAL_TEMP": str(tmp_path / "local"),
        "ANSIBLE_HOME": str(tmp_path / "home"),
        "ANSIBLE_INJECT_FACT_VARS": "false",
        "ANSIBLE_NOCOLOR": "1",
    }
    environment.pop("ANSIBLE_CONFIG", None)
    done = subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", "-i", "localhost,", "-c", "local", str(book), "-e",
         f"ansible_python_interpreter={sys.executable}"],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def hand_over(role: str, *rows: dict[str, str]) -> dict[str, Any]:
    return {"name": role, "role_findings": {"role": role, "findings": list(rows)}}


def test_findings_are_collected_where_the_play_says_so(tmp_path: Path):
    kept = {"name": "k", "ansible.builtin.copy": {
        "dest": str(tmp_path / "kept.json"), "content": "{{ ansible_facts['firstlight_findings'] | to_json }}"
    }}  # fmt: skip

    status, said = play(
        tmp_path,
        [hand_over("one", FAIL), hand_over("two", WARN), hand_over("one", UNKNOWN), kept],
        {"findings_collected": "{{ [1] | length == 1 }}"},
    )

    assert status == 0, said
    assert "localhost: two: warning: c.odd CPU 3 (1 of 2)" in said
    assert json.loads((tmp_path / "kept.json").read_text()) == [{**WARN, "role": "two"}, {**UNKNOWN, "role": "one"}]


@pytest.mark.parametrize(("row", "words"), [(FAIL, "r: c.wrong CPU 4 (2 of 2)"), (UNKNOWN, "r: c.no_tool")])
def test_elsewhere_a_host_that_is_not_as_it_should_be_fails_with_one_line(tmp_path: Path, row, words):
    status, said = play(tmp_path, [hand_over("w", WARN), hand_over("r", row)], {})

    assert status == 2
    assert words in said
    assert "Traceback" not in said


def test_a_host_that_is_refused_at_once_leaves_with_the_finding(tmp_path: Path):
    """What nothing after it could work with does not wait for the stage's end."""
    refused = hand_over("r", FAIL)
    refused["role_findings"]["at_once"] = True
    kept = tmp_path / "kept.json"
    keep = {"ansible.builtin.copy": {"content": "{{ ansible_failed_result.findings | to_json }}", "dest": str(kept)}}
    rescued = {"block": [refused], "rescue": [keep]}

    status, said = play(tmp_path, [rescued], {"findings_collected": True})

    assert status == 0, said
    assert json.loads(kept.read_text()) == [FAIL]


def test_a_reboot_is_asked_for_by_role():
    asked = rolefindings.ask(None, "gpu_driver", "570 is loaded,\n580 is installed")
    assert asked == {"gpu_driver": "570 is loaded, 580 is installed"}
    both = rolefindings.ask(asked, "host_tuning", "hugepages")
    assert both == {"gpu_driver": "570 is loaded, 580 is installed", "host_tuning": "hugepages"}
    assert rolefindings.ask(both, "gpu_driver", " ") == {"host_tuning": "hugepages"}
    assert rolefindings.ask("nonsense", "gpu_driver", "") == {}
