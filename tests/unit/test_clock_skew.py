"""The action clock_skew: what a host's answer says, and what two readings of the controller's clock prove."""

import importlib.util
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "plugins/action/clock_skew.py"
spec = importlib.util.spec_from_file_location("clock_skew", PATH)
clock_skew = importlib.util.module_from_spec(spec)
spec.loader.exec_module(clock_skew)

REAL = "capabilities=000001ffffffffff\nuid_map=         0          0 4294967295\n"
CONTAINER = "capabilities=00000000a82c35fb\nuid_map=         0          0 4294967295\n"
USER_NAMESPACE = "capabilities=000001ffffffffff\nuid_map=         0     100000      65536\n"
CLOCK = "clock=1764445973.123456789\n"
# chronyc -c tracking: as printed by chrony 4.3, and by one that follows nobody yet
FOLLOWS = (
    "tracking=7F000001,127.0.0.1,2,1764445965.1,0.000000011,-0.000011,0.000011,-0.2,-0.0,0.1,0.0002,0.0001,2.0,Normal\n"
)
NOBODY = "tracking=00000000,,0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,1.0,1.0,0.0,Not synchronised\n"


def test_a_real_host_may_set_its_clock_and_says_what_it_follows():
    assert clock_skew.parse(CLOCK + REAL + FOLLOWS) == {
        "clock": pytest.approx(1764445973.123456),
        "settable": True,
        "synchronised": True,
        "source": "127.0.0.1",
    }


@pytest.mark.parametrize("host", [CONTAINER, USER_NAMESPACE, "capabilities=\nuid_map=\n", ""])
def test_a_host_without_the_right_may_not(host):
    assert clock_skew.parse(CLOCK + host)["settable"] is False


@pytest.mark.parametrize("tracking", [NOBODY, "tracking=\n", "tracking=506 Cannot talk to daemon\n", ""])
def test_no_answer_is_not_synchronised(tracking):
    answer = clock_skew.parse(CLOCK + REAL + tracking)
    assert (answer["synchronised"], answer["source"]) == (False, "")


@pytest.mark.parametrize(
    "text", ["", "clock=\n", "clock=1764445973.%N\n", "clock=$(reboot)\n", "Welcome!\n" * 900 + CLOCK]
)
def test_an_answer_without_a_time_is_an_error(text):
    with pytest.raises(ValueError, match="no time in the answer"):
        clock_skew.parse(text)


@pytest.mark.parametrize(
    ("before", "clock", "after", "skew", "at_least"),
    [
        (100.0, 100.1, 100.2, 0.0, 0.0),
        (100.0, 100.2, 100.2, 0.1, 0.0),  # read at the very end: no skew is proven
        (100.0, 105.1, 100.2, 5.0, 4.9),
        (100.0, 95.1, 100.2, -5.0, 4.9),
        (100.0, 105.0, 110.0, 0.0, 0.0),  # a slow answer proves little
    ],
)
def test_only_what_the_round_trip_cannot_explain_is_held_against_the_host(before, clock, after, skew, at_least):
    judged = clock_skew.judge(before, clock, after)
    assert judged["skew"] == pytest.approx(skew)
    assert judged["at_least"] == pytest.approx(at_least)
