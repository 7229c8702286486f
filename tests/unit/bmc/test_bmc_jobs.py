"""Jobs in the words of Dell, of the standard's Job and Task; waiting for one that ends, fails, hangs or goes away."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bmc_server import SESSIONS, FakeBmc, drop, error
from hypothesis import given
from hypothesis import strategies as st

from firstlight.bmc.client import BmcClient
from firstlight.bmc.errors import AuthFailed, HalfAnswering, TimedOut
from firstlight.bmc.jobs import parse_job, unfinished_jobs, wait_for_job
from firstlight.bmc.transport import tls_context

TASK = "/redfish/v1/TaskService/Tasks/7"


@pytest.fixture
def bmc(tmp_path: Path) -> Iterator[FakeBmc]:
    server = FakeBmc(tmp_path)
    system = "/redfish/v1/Systems/1"
    server.answers["GET /redfish/v1/Systems"] = (200, {"Members": [{"@odata.id": system}]})
    server.answers[f"GET {system}"] = (200, {"@odata.id": system, "PowerState": "On"})
    yield server
    server.close()


@pytest.fixture
def client(bmc: FakeBmc) -> Iterator[BmcClient]:
    context = tls_context(bmc.ca_file)
    with BmcClient(bmc.address, bmc.port, "root", "pw", context=context, ca_file=bmc.ca_file) as session:
        yield session


def task(state: str, percent: int | None = None, **values: Any) -> tuple[int, dict[str, Any]]:
    body = {"@odata.id": TASK, "Id": "7", "Name": "Update", "TaskState": state, "PercentComplete": percent}
    return 200, {**body, **values}


@pytest.mark.parametrize(
    ("body", "state"),
    [
        ({"JobState": "Scheduled", "JobType": "BIOSConfiguration"}, "scheduled"),
        ({"JobState": "Scheduling", "JobType": "BIOSConfiguration"}, "preparing"),
        ({"JobState": "New"}, "preparing"),
        ({"JobState": "CompletedWithErrors", "JobType": "BIOSConfiguration"}, "failed"),
        ({"JobState": "Completed with Errors"}, "failed"),
        ({"JobState": "RebootFailed"}, "failed"),
        ({"JobState": "Pending", "JobStatus": "OK"}, "scheduled"),
        ({"JobState": "Exception", "JobStatus": "Critical"}, "failed"),
        ({"TaskState": "Completed", "TaskStatus": "OK"}, "done"),
        ({"TaskState": "Completed", "TaskStatus": "Critical"}, "failed"),
        ({"TaskState": "Running"}, "running"),
        ({"TaskState": "SomethingNew"}, "running"),
        ({"TaskState": "Starting", "Oem": {"Dell": {"JobState": "Scheduled", "JobType": "RAID"}}}, "scheduled"),
        (
            {"TaskState": "Starting", "PercentComplete": 0, "Messages": [{"MessageId": "IDRAC.2.5.JCP001"}]},
            "scheduled",
        ),
    ],
)
def test_words_for_states(body: dict[str, Any], state: str) -> None:
    assert parse_job({"@odata.id": "/redfish/v1/x", "Id": "x", **body}).state == state


@given(
    st.dictionaries(
        st.sampled_from(["Id", "JobState", "TaskState", "Oem", "Messages", "PercentComplete", "Name", "TaskStatus"]),
        st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda inner: st.lists(inner), max_leaves=5),
    )
)
def test_whatever_a_bmc_sends_is_a_job_or_an_error(body: dict[str, Any]) -> None:
    try:
        job = parse_job(body)
    except HalfAnswering:
        return
    assert job.percent is None or 0 <= job.percent <= 100
    assert len(str(job)) <= 200


def test_a_task_is_followed_to_its_end(bmc: FakeBmc, client: BmcClient) -> None:
    bmc.answers[f"GET {TASK}"] = [task("New"), task("Running", 5), task("Running", 55), task("Completed", 100)]
    said: list[str] = []
    job = wait_for_job(client, TASK, 10, say=said.append, pause=0.02)
    assert (job.state, job.percent) == ("done", 100)
    assert said == [
        "7 (Update): preparing,",
        "7 (Update): running, 5 %,",
        "7 (Update): running, 55 %,",
        "7 (Update): done, 100 %,",
    ]


def test_a_task_that_never_ends_is_left(bmc: FakeBmc, client: BmcClient) -> None:
    bmc.answers[f"GET {TASK}"] = task("Running", 95)
    begun = time.monotonic()
    assert wait_for_job(client, TASK, 0.3, pause=0.05).state == "running"
    assert time.monotonic() - begun < 2


def test_a_bmc_that_drops_out_meanwhile(bmc: FakeBmc, client: BmcClient) -> None:
    """It restarts: the connection is lost, then the session; the password is sent once more, and right."""
    lost = error(401, "Base.1.12.AccessDenied")
    bmc.answers[f"GET {TASK}"] = [task("Running", 10), drop, drop, lost, task("Completed", 100)]
    assert wait_for_job(client, TASK, 10, pause=0.02).state == "done"


def test_a_password_that_is_refused_is_not_tried_again(bmc: FakeBmc, client: BmcClient) -> None:
    logins = bmc.asked("POST").count(f"POST {SESSIONS}")
    bmc.answers[f"GET {TASK}"] = error(401, "Base.1.12.AccessDenied")
    bmc.answers[f"POST {SESSIONS}"] = error(401, "Base.1.12.AccessDenied")
    with pytest.raises(AuthFailed):
        wait_for_job(client, TASK, 10, pause=0.02)
    assert bmc.asked("POST").count(f"POST {SESSIONS}") <= logins + 1


def test_a_bmc_that_stays_away(bmc: FakeBmc, client: BmcClient) -> None:
    bmc.answers[f"GET {TASK}"] = drop
    threading.Timer(0.1, bmc.close).start()
    with pytest.raises(TimedOut, match="does not answer as it should after"):
        wait_for_job(client, TASK, 1.0, pause=0.1, away_seconds=0.5)


def test_a_queue_with_members_that_are_no_jobs(bmc: FakeBmc, client: BmcClient) -> None:
    service = "/redfish/v1/TaskService"
    client.root["Tasks"] = {"@odata.id": service}
    bmc.answers["GET /redfish/v1/Systems/1"] = (
        200,
        {"@odata.id": "/redfish/v1/Systems/1", "Links": {"ManagedBy": [{"@odata.id": "/redfish/v1/Managers/1"}]}},
    )
    bmc.answers["GET /redfish/v1/Managers/1"] = (200, {"@odata.id": "/redfish/v1/Managers/1"})
    bmc.answers[f"GET {service}"] = (200, {"Tasks": {"@odata.id": f"{service}/Tasks"}})
    members = [{"@odata.id": TASK}, {"@odata.id": f"{service}/Tasks/8"}, {"@odata.id": f"{service}/Tasks/9"}]
    bmc.answers[f"GET {service}/Tasks"] = (200, {"Members": members})
    bmc.answers[f"GET {TASK}"] = task("Running", 1)
    bmc.answers[f"GET {service}/Tasks/8"] = (200, {"@odata.id": f"{service}/Tasks/8", "TaskState": None})
    assert [job.id for job in unfinished_jobs(client)] == ["7"]
