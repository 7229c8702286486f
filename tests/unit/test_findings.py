"""Findings, actions and verdicts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight.findings import ACTIONS, EVIDENCE_MAX, Finding, blocking, highest_action, shorten, verdict

OK = Finding("clock", "ok", "clock")
WARN = Finding("docker", "warn", "docker.skipped")
NO_GPU = Finding("gpu_count", "fail", "gpu.missing", "1 of 8 GPUs", "7 GPUs, 8 expected", "reseat")
SKEW = Finding("clock", "fail", "clock.skew", action="wait")
HUNG = Finding("nvme_count", "unknown", "nvme_count.timed_out", action="escalate")


def test_all_ok_or_warn_is_ready() -> None:
    judged = verdict([OK, WARN])

    assert (judged.ready, judged.reasons, judged.action) == (True, [], "none")


@pytest.mark.parametrize("bad", [NO_GPU, SKEW, HUNG])
def test_one_failure_or_unknown_is_not_ready(bad: Finding) -> None:
    judged = verdict([OK, WARN, bad, OK])

    assert (judged.ready, judged.reasons, judged.action) == (False, [bad], bad.action)


def test_nothing_checked_is_not_ready() -> None:
    judged = verdict([])

    assert not judged.ready
    assert [f.symptom for f in judged.reasons] == ["verdict.no_findings"]
    assert judged.action == "retry"


def test_reasons_are_failures_first_then_worst_action() -> None:
    assert blocking([HUNG, SKEW, OK, NO_GPU, WARN]) == [NO_GPU, SKEW, HUNG]
    assert verdict([HUNG, SKEW, NO_GPU]).action == "escalate"


def test_a_generator_is_judged_whole() -> None:
    assert verdict(f for f in (OK, NO_GPU)).reasons == [NO_GPU]


@given(st.lists(st.sampled_from(ACTIONS)))
def test_the_highest_action_is_the_last_of_the_scale(actions: list[str]) -> None:
    findings = [Finding("x", "fail", "x.y", action=action) for action in actions]

    highest = highest_action(findings)

    assert highest == (max(actions, key=ACTIONS.index) if actions else "none")


def test_the_scale() -> None:
    assert ACTIONS == (
        "none",
        "wait",
        "retry",
        "reset_bmc",
        "reboot",
        "power_cycle",
        "update_firmware",
        "reseat",
        "replace",
        "escalate",
    )


@pytest.mark.parametrize(
    ("given_values", "words"),
    [({"status": "bad"}, "status 'bad' is none of ok"), ({"status": "ok", "action": "hit"}, "action 'hit' is none of")],
)
def test_words_outside_the_vocabulary_are_refused(given_values: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Finding(**{"check": "x", "symptom": "x.y", **given_values})


@given(st.text(max_size=3000))
def test_evidence_is_one_short_printable_line(text: str) -> None:
    finding = Finding("x", "fail", "x.y", locator=text, evidence=text)

    assert len(finding.evidence) <= EVIDENCE_MAX
    assert len(finding.locator) <= 120
    assert finding.evidence.isprintable()
    assert len(finding.evidence.splitlines()) <= 1


def test_shorten() -> None:
    assert shorten("a\n  b\tc\x1b[31m\x00") == "a b c?[31m?"
    assert shorten("x" * 501) == "x" * 499 + "…"
    assert shorten("x" * 500) == "x" * 500
    assert shorten(5) == "5"  # type: ignore[arg-type]


def test_there_and_back() -> None:
    assert Finding.from_dict(NO_GPU.to_dict()) == NO_GPU
    assert Finding.from_dict({"check": "a", "status": "ok", "symptom": "a", "more": 1}) == Finding("a", "ok", "a")


@pytest.mark.parametrize("data", [None, [], "x", {}, {"check": "a"}, {"check": "a", "status": "no", "symptom": "x"}])
def test_what_is_no_finding(data: object) -> None:
    with pytest.raises((ValueError, KeyError)):
        Finding.from_dict(data)  # type: ignore[arg-type]


def test_every_text_of_a_stranger_is_bounded_and_printable() -> None:
    evil = "\x1b[31m{{ 7 * 7 }}\n" * 1000
    finding = Finding(evil, "fail", evil, evil, evil)

    for text, limit in ((finding.check, 64), (finding.symptom, 64), (finding.locator, 120), (finding.evidence, 500)):
        assert len(text) <= limit
        assert text.isprintable()
