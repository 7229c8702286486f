"""Which clock is wrong: pure judgements over readings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight.clocks import CONTROLLER, Reading, apart, between, difference, judge_bmc, judge_host, judge_site


def maas(skew: float, uncertainty: float = 0.5) -> Reading:
    return Reading("MAAS's clock", skew, uncertainty)


def bmcs(*skews: float) -> list[Reading]:
    return [Reading("BMC", skew, 1.0) for skew in skews]


def test_clocks_are_apart_only_as_far_as_is_certain():
    assert apart(Reading("a", 100, 5), Reading("b", 80, 5)) == 10
    assert apart(Reading("a", 100, 15), Reading("b", 80, 15)) == 0
    assert difference(Reading("a", -12), CONTROLLER) == "12 s behind this controller's clock"
    reading = between(100, 104, 150, "host")
    assert (reading.skew, reading.uncertainty) == (48, 2)


def test_maas_and_controller_agree():
    assert judge_site(maas(3), bmcs(0, 4000, 4000, 4000)) == []
    assert judge_site(None, bmcs(0, 1)) == []


def test_the_controller_is_the_wrong_one():
    (finding,) = judge_site(maas(400), bmcs(398, 401, 399, -20000))
    assert (finding.status, finding.locator, finding.action) == ("warn", "this controller's clock", "escalate")
    assert finding.evidence.startswith("400 s behind MAAS's clock, and 3 of 4 BMCs agree with MAAS")
    (alone,) = judge_site(None, bmcs(398, 401, 399))
    assert alone.locator == "this controller's clock"
    assert "most of 3 BMCs agree" in alone.evidence


def test_maas_is_the_wrong_one():
    (finding,) = judge_site(maas(-400), bmcs(0, 2, -3))
    assert finding.locator == "MAAS's clock"
    assert finding.evidence == "400 s behind this controller's clock, and 3 of 3 BMCs agree with the controller"


@pytest.mark.parametrize("readings", [bmcs(), bmcs(400, 400), bmcs(0, 400, 9000), bmcs(5000, 5000, 5000)])
def test_without_a_majority_nobody_is_blamed(readings):
    (finding,) = judge_site(maas(400), readings)
    assert "the BMCs do not tell which of the two is wrong" in finding.evidence


@pytest.mark.parametrize(
    ("skew", "status"), [(0, "ok"), (29, "ok"), (40, "warn"), (300, "warn"), (400, "fail"), (-9e6, "fail")]
)
def test_a_bmc_against_maas(skew, status):
    (finding,) = judge_bmc(Reading("BMC", skew, 1.0), maas(0))
    assert finding.status == status
    assert finding.symptom == ("clock" if status == "ok" else "clock.skew")


def test_a_bmc_that_agrees_with_maas_is_right_however_far_the_controller_is_off():
    (finding,) = judge_bmc(Reading("BMC", 5000, 1.0), maas(5000))
    assert finding.status == "ok"
    (finding,) = judge_bmc(Reading("BMC", 0, 1.0), maas(5000))
    assert finding.status == "fail"
    assert "5000 s behind MAAS's clock" in finding.evidence and "this controller's clock" in finding.evidence


def test_a_host_against_the_others():
    host = Reading("host", 100, 0.1)
    assert judge_host(host, [CONTROLLER], limit=120) == []
    assert judge_host(host, []) == []
    (finding,) = judge_host(host, [maas(0), CONTROLLER], when=" at the first SSH")
    assert (finding.locator, finding.status) == ("host", "warn")
    assert finding.evidence.startswith("100 s ahead of MAAS's clock, 100 s ahead of this controller's clock at the")
    (other,) = judge_host(Reading("host", 1), [maas(-500), CONTROLLER])
    assert other.locator == "MAAS's clock"
    assert "with which this controller's clock agrees" in other.evidence


ANY = st.builds(
    Reading,
    st.sampled_from(["BMC", "x"]),
    st.floats(-1e9, 1e9),
    st.floats(0, 1e6),
)


@given(st.none() | ANY, st.lists(ANY, max_size=6), ANY, st.floats(0, 1e4))
def test_any_readings_are_judged_and_never_twice(of_maas, of_bmcs, host, limit):
    assert len(judge_site(of_maas, of_bmcs, limit)) <= 1
    assert len(judge_host(host, of_bmcs, limit)) <= 1
    if of_maas:
        assert len(judge_bmc(host, of_maas, limit)) == 1
