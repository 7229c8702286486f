"""What a site says of its kernel logs: patterns for harmless and bad lines, and what is wrong with them."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstlight.checks import kernel_log
from firstlight.checks.capture import Output
from firstlight.checks.kernel_log import judge_log, judge_xids
from firstlight.checks.kernel_log_site import LOOKED_AT, read_site
from firstlight.findings import Finding
from firstlight.profile import Profile

PROFILE = Profile("x", "v", "m", gpus={"count": 8})
WIDGET = "kern  :warn  : 2027-03-01T06:00:00,000000+00:00 widget 7: lost its phase\n"
NOTICE = "kern  :info  : 2027-03-01T06:00:00,000000+00:00 widget 7: wobbles\n"
NVME = "kern  :warn  : 2027-03-01T06:00:00,000000+00:00 nvme nvme3: I/O 320 QID 4 timeout, aborting\n"


BOOT = "kern  :notice: 2027-03-01T05:59:59,000000+00:00 Linux version 6.8.0-60-generic\n"


def judged(text: str, **settings: Any) -> list[Finding]:
    captured = {"dmesg": Output(BOOT + text), "journal": Output(BOOT + text), "warnings": Output("")}
    return judge_log(captured, PROFILE, {"kernel_log": settings})


def brief(findings: list[Finding]) -> list[tuple[str, str, str]]:
    return [(f.status, f.symptom, f.action) for f in findings]


def test_nothing_said() -> None:
    assert read_site({}) == (None, (), ())
    assert read_site({"kernel_log": None}) == read_site({"kernel_log": {"since": "", "harmless": [], "bad": None}})


def test_harmless_here() -> None:
    assert brief(judged(WIDGET)) == [("warn", "kernel.new", "none")]
    assert brief(judged(WIDGET, harmless=[r"^widget \d: lost"])) == [("ok", "kernel_log", "none")]
    assert brief(judged(WIDGET + NVME, harmless=[r"^widget \d: lost"])) == [("fail", "kernel.nvme_timeout", "reseat")]


def test_harmless_here_though_bad_elsewhere() -> None:
    assert brief(judged(NVME, harmless=["nvme nvme3: I/O"])) == [("ok", "kernel_log", "none")]
    along = NVME.replace("I/O", "Abort status: I/O")
    assert brief(judged(NVME + along, harmless=["nvme3: I/O"])) == [("ok", "kernel_log", "none")], (
        "nor what comes along"
    )


def test_bad_here_also_as_a_notice() -> None:
    bad = [{"name": "wobble", "pattern": "widget .: wobbles", "action": "reseat", "meaning": "the widget is loose"}]

    (finding,) = judged(NOTICE * 2, bad=bad)

    assert brief([finding]) == [("fail", "site.wobble", "reseat")]
    assert finding.evidence == "the widget is loose (2 times): widget 7: wobbles"
    assert brief(judged(NOTICE, bad=[{"name": "w", "pattern": "wobbles"}])) == [("fail", "site.w", "escalate")]
    assert brief(judged(NOTICE, bad=[{"name": "w", "pattern": "wobbles", "status": "warn", "action": "none"}])) == [
        ("warn", "site.w", "none")
    ]


def test_the_sites_rule_comes_first_and_its_harmless_before_that() -> None:
    bad = [{"name": "drive", "pattern": "nvme3: I/O", "action": "replace"}]

    assert brief(judged(NVME, bad=bad)) == [("fail", "site.drive", "replace")]
    assert brief(judged(NVME, bad=bad, harmless=["aborting"])) == [("ok", "kernel_log", "none")]


WRONG = [
    ("x", "expect.kernel_log: must be a mapping, not str"),
    ({"harmles": []}, "expect.kernel_log: unknown key 'harmles'; known are since, harmless, bad"),
    ({"since": "yesterday"}, "expect.kernel_log.since: 'yesterday' is no moment such as 2027-03-01T08:00:00Z"),
    ({"since": "2027-03-01T08:00:00"}, "expect.kernel_log.since: '2027-03-01T08:00:00' is no moment"),  # no zone
    ({"since": True}, "expect.kernel_log.since: 'True' is no moment"),
    ({"harmless": "a"}, "expect.kernel_log.harmless: must be a list, not str"),
    ({"harmless": ["a"] * 101}, "expect.kernel_log.harmless: has 101 patterns, at most 100"),
    ({"harmless": ["fine", "("]}, "expect.kernel_log.harmless[1]: '(' is no regular expression: missing )"),
    ({"harmless": ["[[a]"]}, "expect.kernel_log.harmless[0]: '[[a]' is no regular expression: Possible nested set"),
    ({"harmless": [7]}, "expect.kernel_log.harmless[0]: must be a pattern, not '7'"),
    ({"harmless": ["x" * 201]}, "expect.kernel_log.harmless[0]: has 201 characters, at most 200 are allowed"),
    ({"harmless": ["x?"]}, "expect.kernel_log.harmless[0]: 'x?' fits every line"),
    ({"harmless": ["."]}, "expect.kernel_log.harmless[0]: '.' fits every line"),
    ({"harmless": ["(a+)+$"]}, "could take too long: a repeat has a repeat or a choice within"),
    ({"harmless": ["(?:a|b)*c"]}, "could take too long: a repeat has a repeat or a choice within"),
    ({"harmless": ["a?" * 40 + "b"]}, "could take too long: too many repeats and choices"),
    ({"harmless": ["(a|a)" * 30]}, "could take too long: too many repeats and choices"),
    ({"harmless": [".*.*.*x"]}, "could take too long: too many repeats and choices"),
    ({"harmless": ["^x|.*.*.*y"]}, "could take too long: too many repeats and choices"),
    ({"harmless": [r"(x).{0,9}\1"]}, "could take too long: it refers back to a group"),
    ({"harmless": ["(?=x)y"]}, "could take too long: of groups with (? only (?: is allowed"),
    ({"bad": ["x"]}, "expect.kernel_log.bad[0]: must be a mapping with name and pattern, not str"),
    ({"bad": [{"name": "x", "patern": "y"}]}, "expect.kernel_log.bad[0]: unknown key 'patern'"),
    ({"bad": [{"pattern": "y"}]}, "expect.kernel_log.bad[0].name: '' is no name"),
    ({"bad": [{"name": "X Y", "pattern": "y"}]}, "expect.kernel_log.bad[0].name: 'X Y' is no name"),
    ({"bad": [{"name": "x"}]}, "expect.kernel_log.bad[0].pattern: must be a pattern, not 'None'"),
    ({"bad": [{"name": "x", "pattern": "["}]}, "expect.kernel_log.bad[0].pattern: '[' is no regular expression"),
    ({"bad": [{"name": "x", "pattern": "y", "action": "pray"}]}, "expect.kernel_log.bad[0].action: 'pray' is none of"),
    ({"bad": [{"name": "x", "pattern": "y", "status": "ok"}]}, "expect.kernel_log.bad[0].status: 'ok' is neither"),
]


@pytest.mark.parametrize(("settings", "words"), WRONG)
def test_what_is_wrong_is_said_in_one_line_where_it_was_written(settings: Any, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)) as error:
        read_site({"kernel_log": settings})
    assert "\n" not in str(error.value)

    captured = {name: Output(BOOT + WIDGET) for name in ("dmesg", "journal", "warnings")}
    for judge, check in ((judge_log, "kernel_log"), (judge_xids, "kernel_xid")):
        (finding,) = judge(captured, PROFILE, {"kernel_log": settings})
        assert (finding.status, finding.symptom) == ("unknown", f"{check}.wrong_setting")
        assert finding.locator.startswith("expect.kernel_log")
        assert f"{finding.locator}: {finding.evidence}"[:60] == str(error.value)[:60]


@pytest.mark.parametrize(
    "pattern",
    [
        r"^mlx5_core .*: Port module event: module \d, Cable unplugged$",
        r"widget.*lost.*phase",
        r"nvme nvme[0-9]{1,2}: (?:Abort|Identify) status",
        r"[^]a-z]{2}x",
        r"a\*\(b\?",
        r"(?:ab){3} c",
        r"widget .{0,40}? lost",
    ],
)
def test_usual_patterns_are_taken(pattern: str) -> None:
    assert read_site({"kernel_log": {"harmless": [pattern]}}).harmless[0].pattern == pattern


def test_a_sites_patterns_that_take_too_long_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_log, "_SITE_SECONDS", -1.0)

    (finding,) = judged(WIDGET, harmless=["widget"])

    assert (finding.status, finding.symptom) == ("unknown", "kernel_log.patterns_too_slow")
    assert brief(judged(WIDGET)) == [("warn", "kernel.new", "none")], "without patterns nothing is slow"


PIECE = st.sampled_from(
    ["a", "b", "x", ".", "*", "+", "?", "{1,9}", "{3}", "{2,}", "(", "(?:", ")", "|", "^", "$", "[ab]", "[^", "]", "[[",
     "\\", "\\d"]
)  # fmt: skip


@given(st.lists(PIECE, min_size=1, max_size=14).map("".join) | st.text(max_size=12))
@settings(max_examples=300, deadline=None)
def test_a_pattern_is_refused_with_one_line_or_fast(pattern: str) -> None:
    try:
        site = read_site({"kernel_log": {"harmless": [pattern]}})
    except ValueError as error:
        assert str(error).startswith("expect.kernel_log.harmless[0]: ")
        assert len(str(error)) < 500
        return
    started = time.process_time()
    for line in ("a" * LOOKED_AT, "ab" * (LOOKED_AT // 2), "1" * LOOKED_AT):
        site.harmless[0].search(line)
    assert time.process_time() - started < 10


KEYS = ["since", "harmless", "bad", "name", "pattern", "action", "status", "meaning", "x"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
)


@given(VALUES)
@settings(deadline=None)
def test_no_setting_breaks_it(value: Any) -> None:
    try:
        read_site({"kernel_log": value})
    except ValueError as error:
        assert str(error).startswith("expect.kernel_log")
