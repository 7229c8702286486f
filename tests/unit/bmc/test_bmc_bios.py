"""BIOS attributes: the plan, and BMCs that refuse, race, fail or want it another way than Dell."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bmc_server import FakeBmc, error

from firstlight.bmc.bios import Bios, plan, set_bios
from firstlight.bmc.client import BmcClient
from firstlight.bmc.control import Change
from firstlight.bmc.errors import HalfAnswering, Refused
from firstlight.bmc.transport import tls_context

SYSTEM = "/redfish/v1/Systems/1"
BIOS = f"{SYSTEM}/Bios"
SETTINGS = f"{BIOS}/Settings"
JOBS = "/redfish/v1/Managers/1/Oem/Dell/Jobs"
NOW = {"Boot": "Uefi", "Cores": 56, "Turbo": "On", "Flag": True}


def bios(**waiting: Any) -> Bios:
    return Bios(BIOS, NOW, waiting, SETTINGS)


def test_plan_names_what_differs() -> None:
    found = plan({"Boot": "Bios", "Cores": "56", "Turbo": "On", "Flag": True}, bios())
    assert (found.before, found.after) == ({"Boot": "Uefi"}, {"Boot": "Bios"})
    assert plan({"Cores": "48"}, bios()).after == {"Cores": 48}


@pytest.mark.parametrize("odd", ["\u00b2", "--5", "9" * 5000])  # like a number, and none that could be sent
def test_plan_leaves_what_is_no_number_as_it_is(odd: str) -> None:
    assert plan({"Cores": odd}, bios()).after == {"Cores": odd}


def test_plan_refuses_what_cannot_be() -> None:
    found = plan({"Nothing": "1", "Turbo": False, "Boot": ["x"]}, bios())
    assert set(found.wrong) == {"Nothing", "Turbo", "Boot"}
    assert "quote words as On and Off" in found.wrong["Turbo"]


def test_plan_tells_ours_from_others() -> None:
    found = plan({"Boot": "Bios", "Cores": 48}, bios(Boot="Bios", Turbo="Off", Flag=True))
    assert found.sent == {"Boot"}
    assert found.others == {"Turbo": "Off"}  # Flag waits with the value that it has
    assert plan({"Boot": "Bios"}, bios(Boot="Legacy")).others == {"Boot": "Legacy"}


@pytest.fixture
def bmc(tmp_path: Path) -> Iterator[FakeBmc]:
    server = FakeBmc(tmp_path)
    server.answers["GET /redfish/v1/Systems"] = (200, {"Members": [{"@odata.id": SYSTEM}]})
    manager = {"Links": {"ManagedBy": [{"@odata.id": "/redfish/v1/Managers/1"}]}}
    server.answers[f"GET {SYSTEM}"] = (200, {"@odata.id": SYSTEM, "Bios": {"@odata.id": BIOS}, **manager})
    server.answers["GET /redfish/v1/Managers/1"] = (200, {"@odata.id": "/redfish/v1/Managers/1"})
    now(server)
    waiting(server)
    yield server
    server.close()


@pytest.fixture
def client(bmc: FakeBmc) -> Iterator[BmcClient]:
    context = tls_context(bmc.ca_file)
    with BmcClient(bmc.address, bmc.port, "root", "pw", context=context, ca_file=bmc.ca_file) as session:
        yield session


def now(bmc: FakeBmc, **values: Any) -> None:
    settings = {"SettingsObject": {"@odata.id": SETTINGS}, "SupportedApplyTimes": values.pop("times", [])}
    bmc.answers[f"GET {BIOS}"] = (200, {"@odata.id": BIOS, "Attributes": NOW | values, "@Redfish.Settings": settings})


def waiting(bmc: FakeBmc, *attributes: dict[str, Any], **more: Any) -> None:
    answers = [(200, {"@odata.id": SETTINGS, "Attributes": each, **more}) for each in attributes or ({},)]
    bmc.answers[f"GET {SETTINGS}"] = list(answers)


def dells(bmc: FakeBmc, *jobs: dict[str, Any]) -> None:
    """Dell's job queue, with these jobs."""
    queue = {"Links": {"Oem": {"Dell": {"Jobs": {"@odata.id": JOBS}}}}}
    bmc.answers["GET /redfish/v1/Managers/1"] = (200, {"@odata.id": "/redfish/v1/Managers/1", **queue})
    bmc.answers[f"GET {JOBS}"] = (200, {"Members": list(jobs)})


def job(state: str, message: str = "") -> dict[str, Any]:
    path = f"{JOBS}/JID_1"
    name = "Configure: BIOS.Setup.1-1"
    return {"@odata.id": path, "Id": "JID_1", "Name": name, "JobType": "BIOSConfiguration", "JobState": state,
            "Message": message, "PercentComplete": 0}  # fmt: skip


def sent(bmc: FakeBmc, method: str, path: str) -> list[Any]:
    return [json.loads(body) for m, p, _headers, body in bmc.requests if (m, p) == (method, path)]


def symptoms(change: Change) -> list[str]:
    return [f"{finding.status} {finding.symptom}" for finding in change.findings]


def test_a_bmc_without_jobs(bmc: FakeBmc, client: BmcClient) -> None:
    """The standard's way: what is in the settings object is set at the next boot."""
    waiting(bmc, {}, {"Boot": "Bios"})
    bmc.answers[f"PATCH {SETTINGS}"] = (200, {})
    change = set_bios(client, {"Boot": "Bios"})
    assert change.changed
    assert symptoms(change) == ["warn bios.waits_for_boot"]
    assert sent(bmc, "PATCH", SETTINGS) == [{"Attributes": {"Boot": "Bios"}}]


def test_accepted_and_ignored(bmc: FakeBmc, client: BmcClient) -> None:
    bmc.answers[f"PATCH {SETTINGS}"] = (200, {})
    with pytest.raises(HalfAnswering, match="accepted, but the values do not wait there"):
        set_bios(client, {"Boot": "Bios"})


def test_if_match_is_named_where_it_is_wanted(bmc: FakeBmc, client: BmcClient) -> None:
    bmc.answers[f"PATCH {SETTINGS}"] = [error(428, "Ami.1.0.PreconditionHeaderMissing"), (200, {})]
    waiting(bmc, {}, {}, {"Boot": "Bios"})
    assert set_bios(client, {"Boot": "Bios"}).changed


def test_an_apply_time_that_is_offered_and_not_taken(bmc: FakeBmc, client: BmcClient) -> None:
    now(bmc, times=["OnReset"])
    waiting(bmc, {}, {"Boot": "Bios"})
    refused = error(400, "Base.1.12.PropertyUnknown", "The property @Redfish.SettingsApplyTime is unknown.")
    bmc.answers[f"PATCH {SETTINGS}"] = [refused, (200, {})]
    assert set_bios(client, {"Boot": "Bios"}).changed
    assert sent(bmc, "PATCH", SETTINGS)[1] == {"Attributes": {"Boot": "Bios"}}


def test_dells_job_is_made_where_the_patch_makes_none(bmc: FakeBmc, client: BmcClient) -> None:
    dells(bmc)
    waiting(bmc, {}, Oem={"Dell": {"Jobs": {"@odata.id": JOBS}}})
    bmc.answers[f"PATCH {SETTINGS}"] = (200, {})
    bmc.answers[f"POST {JOBS}"] = (200, {}, {"Location": f"{JOBS}/JID_1"})
    bmc.answers[f"GET {JOBS}/JID_1"] = (200, job("Scheduled"))
    change = set_bios(client, {"Boot": "Bios"})
    assert "JID_1" in change.findings[0].evidence
    assert sent(bmc, "POST", JOBS) == [{"TargetSettingsURI": SETTINGS}]


def test_somebody_was_faster(bmc: FakeBmc, client: BmcClient) -> None:
    """Between the look at the queue and the change another job was committed."""
    bmc.answers[f"PATCH {SETTINGS}"] = error(400, "IDRAC.2.8.SYS011", "already committed")
    change = set_bios(client, {"Boot": "Bios"})
    assert not change.changed
    assert symptoms(change) == ["fail bios.job_pending"]


def test_a_value_that_the_bios_refuses(bmc: FakeBmc, client: BmcClient) -> None:
    bmc.answers[f"PATCH {SETTINGS}"] = error(
        400, "Base.1.12.PropertyValueNotInList", "The value Bois is not in the list"
    )
    with pytest.raises(Refused, match="PropertyValueNotInList The value Bois"):
        set_bios(client, {"Boot": "Bois"})


@pytest.mark.parametrize(
    ("ends", "symptom", "evidence"),
    [
        (job("CompletedWithErrors", "Unable to apply."), "fail bios.job_failed", "Unable to apply."),
        (job("Running"), "fail bios.job_unfinished", "after 0.3 s"),
        (job("Completed"), "fail bios.not_applied", "Boot is Uefi"),
    ],
)
def test_a_job_that_fails_hangs_or_lies(
    bmc: FakeBmc, client: BmcClient, monkeypatch: pytest.MonkeyPatch, ends: dict[str, Any], symptom: str, evidence: str
) -> None:
    monkeypatch.setattr("firstlight.bmc.bios.READ_BACK_SECONDS", 0.1)
    dells(bmc)
    now(bmc, times=["OnReset"])
    bmc.answers[f"PATCH {SETTINGS}"] = (202, {}, {"Location": "/redfish/v1/TaskService/Tasks/JID_1"})
    bmc.answers[f"GET {JOBS}/JID_1"] = [(200, job("New")), (200, job("Scheduled")), (200, ends)]
    bmc.answers[f"POST {SYSTEM}/Actions/ComputerSystem.Reset"] = (204, {})
    change = set_bios(client, {"Boot": "Bios"}, when="now", wait=0.3, pause=0.05)
    assert change.changed
    assert symptoms(change) == [symptom]
    assert evidence in change.findings[0].evidence
    assert bmc.asked("DELETE") == []


@pytest.mark.parametrize("attributes", [None, [], {}, "x"])
def test_attributes_that_are_none(bmc: FakeBmc, client: BmcClient, attributes: Any) -> None:
    bmc.answers[f"GET {BIOS}"] = (200, {"@odata.id": BIOS, "Attributes": attributes})
    with pytest.raises(HalfAnswering, match="Attributes is not a mapping"):
        set_bios(client, {"Boot": "Bios"})


def test_settings_that_cannot_be_set(bmc: FakeBmc, client: BmcClient) -> None:
    bmc.answers[f"GET {BIOS}"] = (200, {"@odata.id": BIOS, "Attributes": NOW})
    with pytest.raises(Refused, match="names no settings object"):
        set_bios(client, {"Boot": "Bios"})
