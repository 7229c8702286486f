"""Power, restarts and lights on BMCs that offer something else, ignore it, or go before they answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bmc_server import Answer, FakeBmc, drop, error

from firstlight.bmc.client import BmcClient
from firstlight.bmc.control import Change
from firstlight.bmc.errors import HalfAnswering, Refused
from firstlight.bmc.power import power, reset_bmc, set_locator
from firstlight.bmc.transport import tls_context

SYSTEM = "/redfish/v1/Systems/1"
MANAGER = "/redfish/v1/Managers/1"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"
BMC_RESET = f"{MANAGER}/Actions/Manager.Reset"


@pytest.fixture
def bmc(tmp_path: Path) -> Iterator[FakeBmc]:
    server = FakeBmc(tmp_path)
    server.answers["GET /redfish/v1/Systems"] = (200, {"Members": [{"@odata.id": SYSTEM}]})
    server.answers[f"GET {SYSTEM}"] = system("On")
    server.answers[f"GET {MANAGER}"] = (200, {"@odata.id": MANAGER, "Model": "iLO 6"})
    yield server
    server.close()


@pytest.fixture
def client(bmc: FakeBmc) -> Iterator[BmcClient]:
    context = tls_context(bmc.ca_file)
    with BmcClient(bmc.address, bmc.port, "root", "pw", context=context, ca_file=bmc.ca_file) as session:
        yield session


def system(state: str, allowed: list[str] | None = None, **values: Any) -> Answer:
    action = {"target": RESET, "ResetType@Redfish.AllowableValues": allowed or ["On", "ForceOff", "ForceRestart"]}
    links = {"Links": {"ManagedBy": [{"@odata.id": MANAGER}]}}
    return 200, {
        "@odata.id": SYSTEM,
        "PowerState": state,
        "Actions": {"#ComputerSystem.Reset": action},
        **links,
        **values,
    }


def sent(bmc: FakeBmc, method: str, path: str) -> list[Any]:
    return [json.loads(body) for m, p, _headers, body in bmc.requests if (m, p) == (method, path)]


def test_a_cycle_where_there_is_none(bmc: FakeBmc, client: BmcClient) -> None:
    """HPE offers no PowerCycle: off, seen off, on."""
    bmc.answers[f"GET {SYSTEM}"] = [system("On"), system("On"), system("Off"), system("On")]
    bmc.answers[f"POST {RESET}"] = (200, {})
    assert power(client, "cycle", wait=2) == Change(True, "On", "On")
    assert sent(bmc, "POST", RESET) == [{"ResetType": "ForceOff"}, {"ResetType": "On"}]


def test_a_deed_that_cannot_be_noted_is_not_done(bmc: FakeBmc, client: BmcClient) -> None:
    def note(what: str) -> None:
        raise Refused("the ledger cannot note it")

    with pytest.raises(Refused, match="the ledger"):
        power(client, "off", note=note)
    assert sent(bmc, "POST", RESET) == []


def test_power_that_does_not_change(bmc: FakeBmc, client: BmcClient) -> None:
    bmc.answers[f"POST {RESET}"] = (200, {})
    change = power(client, "off", wait=0.3)
    assert [f.symptom for f in change.findings] == ["power.not_reached"]
    assert "still reads On" in change.findings[0].evidence


def test_a_restart_whose_answer_is_lost_is_sent_once(bmc: FakeBmc, client: BmcClient) -> None:
    bmc.answers[f"POST {RESET}"] = drop
    with pytest.raises(HalfAnswering, match="closed the connection instead of answering"):
        power(client, "restart")
    assert bmc.asked("POST").count(f"POST {RESET}") == 1


def test_a_bmc_that_goes_before_it_answers(bmc: FakeBmc, client: BmcClient) -> None:
    bmc.answers[f"POST {BMC_RESET}"] = drop
    manager = bmc.answers[f"GET {MANAGER}"]
    bmc.answers[f"GET {MANAGER}"] = [manager, error(503, "IDRAC.2.8.SYS518"), manager]  # type: ignore[list-item]
    change = reset_bmc(client, 5, pause=0.05)
    assert [f.status for f in change.findings] == ["ok"]
    assert bmc.asked("POST").count(f"POST {BMC_RESET}") == 1


def test_a_bmc_that_ignores_its_restart(bmc: FakeBmc, client: BmcClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firstlight.bmc.power.AWAY_SECONDS", 0.3)
    bmc.answers[f"POST {BMC_RESET}"] = (204, {})
    change = reset_bmc(client, 5, pause=0.05)
    assert [f.symptom for f in change.findings] == ["bmc.reset_ignored"]


def test_a_bmc_that_refuses_its_restart(bmc: FakeBmc, client: BmcClient) -> None:
    bmc.answers[f"POST {BMC_RESET}"] = error(400, "Base.1.12.ActionNotSupported")
    with pytest.raises(Refused, match="ActionNotSupported"):
        reset_bmc(client, 5, pause=0.05)


@pytest.mark.parametrize(
    ("before", "body", "after"),
    [
        ({"LocationIndicatorActive": False}, {"LocationIndicatorActive": True}, {"LocationIndicatorActive": True}),
        ({"IndicatorLED": "Lit"}, {"IndicatorLED": "Blinking"}, {"IndicatorLED": "Blinking"}),
        ({"IndicatorLED": "Off"}, {"IndicatorLED": "Blinking"}, {"IndicatorLED": "Blinking"}),
    ],
)
def test_lights(
    bmc: FakeBmc, client: BmcClient, before: dict[str, Any], body: dict[str, Any], after: dict[str, Any]
) -> None:
    bmc.answers[f"GET {SYSTEM}"] = [system("On", **before), system("On", **before), system("On", **after)]
    bmc.answers[f"PATCH {SYSTEM}"] = (200, {})
    assert set_locator(client, True, check=True) == Change(True, "off", "on")
    assert set_locator(client, True) == Change(True, "off", "on")
    assert sent(bmc, "PATCH", SYSTEM) == [body]
    assert set_locator(client, True) == Change(False, "on", "on")


def test_no_light(bmc: FakeBmc, client: BmcClient) -> None:
    with pytest.raises(Refused, match="tells of no locator light"):
        set_locator(client, True)
