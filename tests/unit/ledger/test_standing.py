"""Hosts that a person keeps out of use, hosts in repair, and how they come back."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstlight.errors import FirstlightError
from firstlight.findings import Finding
from firstlight.ledger import repairs, store
from firstlight.ledger.store import STAGES, Ledger, ledger_url
from firstlight.sitefiles import PlannedHost

OK = Finding("gpu_count", "ok", "gpu_count")
LOST = Finding("xid", "fail", "xid.79", "GPU 0000:1b:00.0", "fell off the bus", "power_cycle")


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.setattr(store, "operator", lambda: "anna")
    made = Ledger(ledger_url("ledger.sqlite", tmp_path))
    made.plan("s", [PlannedHost("n1", "r1", 1, "10.0.0.1", "p"), PlannedHost("n2", "r1", 2, "10.0.0.2", "p")])
    through(made)
    return made


def through(ledger: Ledger, *found: Finding) -> None:
    for stage in STAGES:
        ledger.end_stage(stage, "n1", [OK, *(found if stage == "smoke" else ())])


def state(ledger: Ledger) -> str:
    return ledger.states()["n1"]


def test_a_held_host_is_quarantined_whatever_it_passes_until_it_is_readmitted(ledger):
    ledger.hold("n1", "noisy\nfan")
    assert ledger.held(["n1", "n2"]) == {"n1": "anna: noisy fan"}
    assert ledger.story(["n1"])[0]["held"] == "anna: noisy fan"
    through(ledger)
    assert state(ledger) == "quarantined"
    ledger.readmit("n1", "fan replaced")
    assert (state(ledger), ledger.held(["n1"])) == ("ready", {})


def test_a_host_that_is_held_no_more_is_ready_with_the_next_smoke(ledger):
    ledger.hold("n1", "noisy fan")
    ledger.unhold("n1")
    assert (state(ledger), ledger.held(["n1"])) == ("quarantined", {})
    ledger.end_stage("smoke", "n1", [OK])
    assert state(ledger) == "ready"


@pytest.mark.parametrize("held", [True, False])
def test_a_host_in_repair_stays_so_while_it_is_installed_and_tested(ledger, held):
    if held:
        ledger.hold("n1", "noisy fan")
    repairs.begin(ledger, "n1", "fan")
    ledger.undo("n1", "install", "released")
    ledger.begin_install("n1", "deploy bookworm to n1")
    through(ledger)
    assert state(ledger) == "in_repair"
    ledger.readmit("n1", "fan replaced")
    assert (state(ledger), ledger.held(["n1"])) == ("ready", {})


def test_a_quarantined_host_may_be_installed_and_become_ready_by_itself(ledger):
    ledger.set_state("n1", "quarantined", "smoke: xid.79")
    ledger.begin_install("n1", "deploy bookworm to n1")
    assert state(ledger) == "installing"
    ledger.hold("n1", "wait")
    ledger.begin_install("n1", "deploy bookworm to n1")
    assert state(ledger) == "quarantined"


def test_a_release_does_not_move_a_held_host(ledger):
    ledger.hold("n1", "noisy fan")
    ledger.undo("n1", "install", "released")
    assert state(ledger) == "quarantined"


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda ledger: ledger.end_stage("smoke", "n1", [LOST]), "its last smoke failed (xid.79)"),
        (lambda ledger: ledger.undo("n1", "install", "x"), "its last install was undone: the machine was released"),
        (lambda ledger: ledger.begin_stage("configure", ["n1"]), "its last configure was begun and not ended"),
        (lambda ledger: [ledger.identify("n1", tag) for tag in ("TAG2", "TAG3")] and repairs.begin(ledger, "n1", ""),
         "it did not go through discover"),
    ],
)  # fmt: skip
def test_who_has_not_passed_every_stage_is_not_readmitted(ledger, spoil, said):
    repairs.begin(ledger, "n1", "fan")
    spoil(ledger)
    with pytest.raises(FirstlightError) as caught:
        ledger.readmit("n1", "fan replaced")
    assert str(caught.value).startswith(f"n1 cannot be readmitted: {said}; playbooks/reprovision.yml -e host=n1 ")
    assert "\n" not in str(caught.value)
    assert state(ledger) == "in_repair"


def test_there_is_nothing_to_readmit_of_a_host_that_is_in_use(ledger):
    with pytest.raises(FirstlightError, match="n1 is ready: there is nothing to readmit; nothing was done"):
        ledger.readmit("n1", "?")


@pytest.mark.parametrize("act", [Ledger.hold, repairs.begin, Ledger.readmit])
def test_an_unknown_host_is_one_line(ledger, act):
    with pytest.raises(FirstlightError, match=r"does not know host n9; run playbooks/validate\.yml first"):
        act(ledger, "n9", "x")


def test_who_was_being_installed_when_a_run_was_killed_is_known_in_repair_too(ledger):
    for name in ("n1", "n2"):
        ledger.undo(name, "install", "released")
    repairs.begin(ledger, "n1", "fan")
    assert ledger.installing(["n1", "n2"]) == set()
    for name in ("n1", "n2"):
        ledger.deed(name, f"deploy bookworm to {name}")
        ledger.begin_install(name, "deploy")
    ledger.deed("n1", "took an SSH host key")
    assert ledger.installing(["n1", "n2"]) == {"n1", "n2"}
    assert ledger.installing(["n2"]) == {"n2"}
    for name in ("n1", "n2"):
        ledger.end_stage("install", name, [OK])
    assert ledger.installing(["n1", "n2"]) == set()
