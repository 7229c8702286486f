"""Golden, lemon or neither, and the next action when the last one did not help."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight.findings import ACTIONS
from firstlight.policy.causes import HARDWARE, UNSEEN, Cause
from firstlight.policy.grade import Failure, Grade, grade, next_action
from firstlight.policy.settings import Policy

NOW = datetime(2026, 11, 30, tzinfo=UTC)
GPU = Cause("gpu", "0000:1b:00")
POLICY = Policy()


def ago(days):
    return NOW - timedelta(days=days)


def failure(began, ended, cause=GPU, action="reboot", certain=True):
    return Failure(cause, ago(began), None if ended is None else ago(ended), action, certain)


def test_three_failures_of_one_kind_in_thirty_days_make_a_lemon():
    known = [failure(29, 28), failure(20, 19), failure(5, 4)]
    graded = grade(POLICY, known, ago(4), NOW)
    assert graded == Grade("lemon", "3 failures of gpu in 30 days", "gpu")
    assert grade(POLICY, known[1:], ago(4), NOW).grade == ""
    assert grade(POLICY, [failure(31, 28), *known[1:]], ago(4), NOW).grade == ""


@pytest.mark.parametrize(
    "known",
    [
        [failure(20, 19, Cause("gpu", "a")), failure(10, 9, Cause("drive")), failure(5, 4)],  # of two kinds
        [failure(20, 10), failure(15, 12), failure(12, 9)],  # one time: they were there together
        [failure(20, None), failure(15, 14), failure(12, 9)],
        [failure(n, n - 1, Cause("clock")) for n in (20, 10, 5)],  # a setting is not worn out
        [failure(n, n - 1, certain=False) for n in (20, 10, 5)],  # nothing was seen to fail
    ],
)
def test_what_makes_no_lemon(known):
    assert grade(POLICY, known, None, NOW).grade == ""


def test_golden_is_who_was_ready_long_enough_without_a_failure():
    assert grade(POLICY, [], ago(14), NOW) == Grade("golden", "14 days without a failure")
    assert grade(POLICY, [], ago(13), NOW).grade == ""
    assert grade(POLICY, [], None, NOW) == Grade("", "not ready")
    # ready in name, and it failed nevertheless
    assert grade(POLICY, [failure(40, 3, Cause("docker"))], ago(60), NOW).grade == ""
    assert grade(POLICY, [failure(40, 20, Cause("docker"))], ago(60), NOW).grade == "golden"


@pytest.mark.parametrize(
    ("cause", "asked", "earlier", "action"),
    [
        (GPU, "reboot", [], "reboot"),
        (GPU, "reboot", [failure(3, 2)], "power_cycle"),
        (GPU, "reboot", [failure(9, 8), failure(3, 2)], "reseat"),
        (GPU, "reboot", [failure(3, 2, action="reseat")], "replace"),
        (GPU, "reseat", [failure(3, 2, action="replace")], "escalate"),
        (GPU, "reboot", [failure(30, 20)], "reboot"),  # so long ago that it did help
        (GPU, "reboot", [failure(3, 2, Cause("gpu", "0000:43:00"))], "reboot"),  # another GPU
        (GPU, "reboot", [failure(3, 2, Cause("gpu"))], "power_cycle"),  # which one was not told
        (GPU, "update_firmware", [failure(3, 2, action="update_firmware")], "reseat"),
        (Cause("bmc"), "retry", [failure(3, 2, Cause("bmc"), "retry")], "reset_bmc"),
        (Cause("docker"), "reboot", [failure(3, 2, Cause("docker"), "reboot")], "escalate"),
        (Cause(UNSEEN), "retry", [failure(3, 2, Cause(UNSEEN), "retry")], "retry"),
        (GPU, "escalate", [failure(3, 2)], "escalate"),
        (GPU, "none", [failure(3, 2)], "none"),
    ],
)
def test_what_did_not_help_is_followed_by_the_next_step(cause, asked, earlier, action):
    assert next_action(POLICY, cause, asked, earlier, NOW).action == action


def test_the_reason_says_what_was_tried():
    assert next_action(POLICY, GPU, "reboot", [failure(3, 2)], NOW).why == (
        "reboot was tried within 14 days and did not last"
    )


def test_a_lemons_part_is_replaced_not_rebooted():
    lemon = Grade("lemon", "3 failures of gpu in 30 days", "gpu")
    before = [failure(25, 24), failure(22, 21, Cause("gpu", "0000:43:00"))]
    told = next_action(POLICY, GPU, "reboot", before, NOW, lemon)
    assert (told.action, told.why) == ("replace", "a lemon: 3 failures of gpu in 30 days")
    # which part it was that failed then is not known; or which fails now
    assert next_action(POLICY, GPU, "reboot", [failure(25, 24, Cause("gpu"))], NOW, lemon).action == "replace"
    assert next_action(POLICY, Cause("gpu"), "reboot", before, NOW, lemon).action == "replace"
    # one of two parts, for the first time
    assert next_action(POLICY, Cause("gpu", "0000:5d:00"), "reboot", before[:1] * 2, NOW, lemon).action == "reboot"
    assert next_action(POLICY, Cause("drive", "x"), "reboot", [], NOW, lemon).action == "reboot"
    assert next_action(POLICY, GPU, "escalate", [], NOW, lemon).action == "escalate"


def test_different_parts_of_one_kind_point_to_what_they_share():
    drives = [failure(20 - 2 * n, 19 - 2 * n, Cause("drive", f"nvme{n}")) for n in range(3)]
    lemon = grade(POLICY, [*drives, failure(1, None, Cause("drive", "nvme3"))], None, NOW)
    told = next_action(POLICY, Cause("drive", "nvme3"), "reboot", drives, NOW, lemon)
    assert told.action == "escalate"
    assert told.why.startswith("a lemon: 4 failures of drive in 30 days, of 4 parts; look at the backplane, cable or ")
    assert next_action(POLICY, Cause("drive", "nvme3"), "replace", drives, NOW, lemon).action == "replace"
    # the one that failed before is worn out
    assert next_action(POLICY, Cause("drive", "nvme0"), "reboot", drives, NOW, lemon).action == "replace"
    # those of long ago do not count
    long_ago = [failure(40, 39, Cause("drive", "nvme8")), failure(35, 34, Cause("drive", "nvme9"))]
    assert next_action(POLICY, Cause("drive", "nvme3"), "reboot", [*long_ago, drives[2]], NOW, lemon).action == "reboot"


CAUSES = st.sampled_from([Cause(kind, part) for kind in (*HARDWARE, "docker", UNSEEN) for part in ("", "a", "b")])
PAST = st.lists(
    st.builds(
        lambda cause, began, length, action: failure(began, began - length, cause, action),
        CAUSES, st.integers(2, 40), st.integers(0, 1), st.sampled_from(ACTIONS),
    ),
    max_size=8,
)  # fmt: skip


@given(CAUSES, st.sampled_from(ACTIONS), PAST)
def test_an_action_is_never_lower_than_what_is_asked_for_nor_than_what_was_tried(cause, asked, earlier):
    told = next_action(POLICY, cause, asked, earlier, NOW)
    assert ACTIONS.index(told.action) >= ACTIONS.index(asked)
    if told.why:
        assert told.action == "escalate" or ACTIONS.index(told.action) > ACTIONS.index(asked)
    assert (told.why == "") == (told.action == asked)
