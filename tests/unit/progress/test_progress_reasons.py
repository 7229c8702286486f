"""A symptom and one line from whatever a result holds."""

from __future__ import annotations

from typing import Any

import pytest

from firstlight.progress.reasons import Closed, alike, clean, closed, why_failed, why_unreachable
from firstlight.progress.told import IN_FULL, Told

GOOD = {"status": "ok", "symptom": "docker", "locator": "", "evidence": "well"}
BAD = {"status": "fail", "symptom": "docker.not_answering", "locator": "Docker", "evidence": "no socket"}


def test_findings_name_the_symptom() -> None:
    reason = why_failed("configure", {"msg": "m", "findings": [GOOD, BAD]})
    assert (reason.symptom, reason.said) == ("docker.not_answering", "Docker: no socket")


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"msg": "no room"}, "no room"),
        ({"msg": "non-zero return code", "rc": 3, "stderr": "a\nthe last\n"}, "exit status 3: the last"),
        ({"results": [{"item": "a"}, {"item": "b", "failed": True, "msg": "gone"}], "msg": "all"}, "b: gone"),
        ({"results": [{"item": 7, "failed": True, "msg": "gone"}]}, "7: gone"),
        ({"censored": "the output has been hidden"}, "the output has been hidden"),
        ({}, "no message"),
        ({"findings": "x", "msg": 5}, "5"),
        ({"findings": [None, 7, {"status": "fail"}, GOOD], "msg": "m"}, "m"),
        ({"findings": [{"status": ["fail"], "symptom": {}}], "results": 3, "msg": "m"}, "m"),
    ],
)
def test_without_findings_the_task_says_it(result: dict[str, Any], said: str) -> None:
    reason = why_failed("configure", result)
    assert (reason.symptom, reason.said) == ("configure.task_failed", said)
    assert why_failed(None, result).symptom == "task_failed"


def test_what_a_host_sends_moves_no_cursor_and_is_short() -> None:
    hostile = "\x1b[2J\x9b31m\r\nrm\u202e\x07" + "x" * 5000
    for reason in (
        why_failed("s", {"msg": hostile}),
        why_failed("s", {"findings": [{"status": "fail", "symptom": hostile, "evidence": hostile}]}),
        why_unreachable({"msg": hostile}),
    ):
        assert (reason.symptom + reason.said).isprintable()
        assert len(reason.said) <= 2000 and len(reason.symptom) <= 64


def test_unreachable_hosts_are_told_apart() -> None:
    assert why_unreachable({"msg": "Permission denied (publickey)"}).symptom == "ssh.login_refused"
    assert why_unreachable({}).symptom == "ssh.unreachable"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("discover: 488 of 500 passed", Closed(488, 500, {})),
        (
            "smoke: 1 of 4 passed; 2 gpu.missing, 1 nic.no_link (found before)",
            Closed(1, 4, {"gpu.missing": 2, "nic.no_link (found before)": 1}),
        ),
        ("install: 3 to prove", None),
        ("", None),
        (None, None),
        (["discover: 1 of 1 passed"], None),
    ],
)
def test_the_end_of_a_stage_is_read_back(message: Any, expected: Closed | None) -> None:
    assert closed(message) == expected


def test_the_same_trouble_of_two_hosts_is_the_same() -> None:
    assert alike("n1", "n1: GPU 3 gone") == alike("n2", "n2: GPU 11 gone")
    assert alike("n1", "GPU gone") != alike("n1", "NIC gone")


def test_values_lose_what_a_terminal_obeys_and_keep_their_lines() -> None:
    assert clean({"a\x1b": ["x\x1b[2J\n\ty", 7, ("\x9b",)]}) == {"a?": ["x?[2J\n\ty", 7, ["?"]]}


def test_of_many_different_things_the_first_few_are_told() -> None:
    told = Told()
    assert sum(told.may("failure", f"kind {i}") for i in range(500)) == IN_FULL
    assert not told.may("failure", "kind 0")
    assert sum(told.may("difference", f"kind {i % 7}") for i in range(10)) == 7
    assert told.rest() == [
        "495 other failures: see reports/latest.txt, or use -v",
        "3 hosts have a difference that is shown above",
    ]
