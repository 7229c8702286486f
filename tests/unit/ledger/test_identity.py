"""Which machine has a name when the fleet file and the BMC disagree, and what the ledger then tells of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from firstlight import report
from firstlight.findings import Finding
from firstlight.ledger.store import STAGES, Ledger, ledger_url
from firstlight.ledger.tale import host_tale
from firstlight.policy.dryrun import dry_run
from firstlight.policy.past import read_past
from firstlight.policy.settings import Policy
from firstlight.quarantine import settle
from firstlight.sitefiles import PlannedHost
from firstlight.tickets.run import decide

OK = Finding("gpu_count", "ok", "gpu_count")
WRONG = Finding(
    "service_tag", "fail", "host.wrong_service_tag", "BMC 10.0.0.1", "NEW9999, expected OLD1234", "escalate"
)
LOST = Finding("gpu_count", "fail", "gpu.lost", "GPU 0", "", "power_cycle")
OTHERS = [f"o{number}" for number in range(5)]


def plan(ledger: Ledger, tag: str | None = "OLD1234") -> None:
    others = [PlannedHost(other, "r2", n, f"10.0.1.{n}", "p") for n, other in enumerate(OTHERS, 1)]
    ledger.plan("s", [PlannedHost("n1", "r1", 1, "10.0.0.1", "p", service_tag=tag), *others])


@pytest.fixture
def ledger(tmp_path: Any) -> Ledger:
    """Six ready hosts; n1 is OLD1234, and had something once."""
    made = Ledger(ledger_url("ledger.sqlite", tmp_path))
    plan(made)
    made.start_run("site.yml")
    made.end_stage("smoke", "n1", [LOST])
    for name in ("n1", *OTHERS):
        for stage in STAGES:
            made.end_stage(stage, name, [OK])
    made.end_run(made.run_id or 0, "done")
    return made


def discover(ledger: Ledger, says: str, found: list[Finding], tag: str | None = "OLD1234") -> None:
    """A run of discover; each of its tasks plans first."""
    ledger.start_run("site.yml")
    plan(ledger, tag)
    ledger.begin_stage("discover", ["n1"])
    ledger.identify("n1", says)
    ledger.end_stage("discover", "n1", found)
    settle(ledger, Policy(), "discover")
    plan(ledger, tag)


def pass_all(ledger: Ledger, tag: str | None) -> None:
    for stage in STAGES:
        ledger.begin_stage(stage, ["n1"])
        ledger.end_stage(stage, "n1", [OK])
        plan(ledger, tag)


def of(ledger: Ledger, name: str = "n1") -> dict[str, Any]:
    (story,) = ledger.story([name])
    return {**story, "symptoms": [f["symptom"] for f in story["findings"] if f["status"] != "ok"]}


def told(ledger: Ledger) -> Any:
    fleet = ["n1", *OTHERS]
    return report.build(
        site="s", stories=ledger.story(fleet), fleet_min_ready="90%", spares=0, run=None, judged=["n1"], fleet=fleet
    )


def test_a_server_that_was_exchanged_is_not_ready_and_all_is_under_its_name(ledger):
    discover(ledger, "NEW9999", [WRONG])
    now = of(ledger)
    assert (now["service_tag"], now["state"], now["symptoms"]) == ("NEW9999", "quarantined", [WRONG.symptom])
    assert now["stages"].keys() == {"discover"} and now["rack"] == "r1"
    (ticket,) = decide(ledger, Policy(), names=["n1"]).opened
    assert (ticket.host, ticket.service_tag, ticket.action) == ("n1", "NEW9999", "escalate")
    built = told(ledger)
    assert built["counts"]["ready"] == 5
    (host,) = (host for host in built["hosts"] if host["name"] == "n1")
    assert (host["service_tag"], host["state"]) == ("NEW9999", "quarantined")
    assert [reason["symptom"] for reason in host["reasons"]] == [WRONG.symptom]


def test_the_history_of_neither_is_mixed_with_the_others(ledger):
    discover(ledger, "NEW9999", [WRONG])
    old, new = host_tale(ledger, "OLD1234"), host_tale(ledger, "NEW9999")
    assert (old["name"], old["state"]) == (None, "ready")
    assert all(stage["result"] for stage in old["stages"])  # what this run began is the new one's
    assert {f["symptom"] for f in old["findings"] if f["status"] != "ok"} == {"gpu.lost"}
    assert [stage["result"] for stage in new["stages"]] == ["failed"]
    assert [f["symptom"] for f in new["findings"]] == [WRONG.symptom]


def test_it_stays_so_in_the_next_run_too(ledger):
    for _ in range(2):
        discover(ledger, "NEW9999", [WRONG])
    assert (of(ledger)["state"], of(ledger)["service_tag"]) == ("quarantined", "NEW9999")


def test_with_the_fleet_file_corrected_the_new_one_goes_its_way(ledger):
    discover(ledger, "NEW9999", [WRONG])
    discover(ledger, "NEW9999", [OK], "NEW9999")
    assert (of(ledger)["state"], of(ledger)["symptoms"]) == ("quarantined", [])
    pass_all(ledger, "NEW9999")
    assert (of(ledger)["state"], of(ledger)["service_tag"]) == ("ready", "NEW9999")
    assert host_tale(ledger, "OLD1234")["name"] is None


def test_when_the_old_one_returns_smoke_says_whether_it_is_ready(ledger):
    discover(ledger, "NEW9999", [WRONG])
    discover(ledger, "OLD1234", [OK])
    now = of(ledger)
    assert (now["service_tag"], now["state"], now["symptoms"]) == ("OLD1234", "configured", [])
    pass_all(ledger, "OLD1234")
    assert of(ledger)["state"] == "ready"
    new = host_tale(ledger, "NEW9999")
    assert (new["name"], [f["symptom"] for f in new["findings"]]) == (None, [WRONG.symptom])


def test_without_a_tag_in_the_fleet_file_the_new_one_is_in_bring_up(ledger):
    discover(ledger, "NEW9999", [OK], None)
    assert (of(ledger)["service_tag"], of(ledger)["state"]) == ("NEW9999", "discovered")


def test_two_servers_that_changed_places_keep_their_histories(ledger):
    ledger.identify("o1", "OTHER01")
    ledger.start_run("site.yml")
    ledger.begin_stage("discover", ["n1", "o1"])
    ledger.identify("n1", "OTHER01")
    ledger.end_stage("discover", "n1", [WRONG])
    ledger.identify("o1", "OLD1234")
    ledger.end_stage("discover", "o1", [OK])
    settle(ledger, Policy(), "discover")
    plan(ledger)
    assert [(of(ledger, n)["service_tag"], of(ledger, n)["state"]) for n in ("n1", "o1")] == [
        ("OTHER01", "quarantined"),
        ("OLD1234", "configured"),
    ]
    assert all(stage["result"] for stage in host_tale(ledger, "o1")["stages"])


def test_the_dry_run_tells_it_as_the_run_did(ledger):
    discover(ledger, "NEW9999", [WRONG])
    last = dry_run(Policy(), read_past(ledger), datetime.now(UTC))["runs"][-1]
    assert [(one["name"], one["stage"]) for one in last["quarantined"]] == [("n1", "discover")]
