"""Power past MAAS: one conversation at a time with a BMC, not too often, and none after a refused password."""

import itertools
import threading
import time

import pytest

from firstlight.bmc.errors import AuthFailed, Unreachable
from firstlight.bmc.pool import Target
from firstlight.maas import power as module
from firstlight.maas.power import RedfishPower, power_settings
from firstlight.maas.reasons import BmcState

TARGETS = {name: Target(name, "10.0.0.1", 443, "root", "bmc-password") for name in ("n1", "n2")}


@pytest.fixture
def asked(monkeypatch):
    """What many() is asked for, with its answers; times of the calls."""
    calls, answers, busy = [], {}, set()

    def many(targets, function, *, ca_file, deadline):
        (target,) = targets
        assert target.name not in busy, "two at a time with one BMC"
        busy.add(target.name)
        calls.append((target.name, time.monotonic()))
        time.sleep(0.02)
        busy.discard(target.name)
        return {target.name: answers.get(target.name, BmcState("On"))}

    monkeypatch.setattr(module, "many", many)
    return calls, answers


def test_a_bmc_is_spoken_with_by_one_and_not_too_often(asked, monkeypatch):
    monkeypatch.setattr(module, "PACE_SECONDS", 0.2)
    calls, _ = asked
    power = RedfishPower(TARGETS, "ca.pem")
    threads = [threading.Thread(target=power.look, args=(name,)) for name in ("n1", "n1", "n1", "n2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    times = [at for name, at in calls if name == "n1"]
    assert len(times) == 3 and min(b - a for a, b in itertools.pairwise(times)) >= 0.2
    assert next(at for name, at in calls if name == "n2") < times[1]  # others do not wait for it


def test_a_refused_password_is_tried_once(asked, monkeypatch):
    monkeypatch.setattr(module, "PACE_SECONDS", 0.0)
    calls, answers = asked
    answers["n1"] = AuthFailed("POST /redfish/v1/SessionService/Sessions: 401", 401)
    power = RedfishPower(TARGETS, "ca.pem", {"n1": "NIC.1"})
    assert power.look("n1").error.startswith("bmc.auth_failed: ")
    finding = power.on("n1")
    assert (finding.symptom, finding.locator) == ("install.power_failed", "BMC of n1")
    assert "bmc.auth_failed" in finding.evidence
    assert len(calls) == 1
    answers["n2"] = Unreachable("nobody there")
    assert power.look("n2").error and power.look("n2").error
    assert len(calls) == 3  # that may pass


def test_settings_are_those_of_enlist():
    assert power_settings("10.0.0.1", 443, "root", "pw")["power_parameters_power_address"] == "10.0.0.1"
    assert power_settings("fd00::1", 8443, "root", "pw")["power_parameters_power_address"] == "[fd00::1]:8443"
    assert RedfishPower(TARGETS, "ca.pem").settings("n1") == {}
