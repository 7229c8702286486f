"""Golden hosts and lemons of a fleet, read for its inventory."""

from __future__ import annotations

import pytest

from firstlight.ledger.store import Ledger
from firstlight.policy.dryrun import dry_run
from firstlight.policy.grades import grades
from firstlight.policy.past import read_past
from firstlight.policy.settings import Policy
from tests.made_fleet import AT, made_ledger


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    return made_ledger(tmp_path_factory.mktemp("made"), 200)


@pytest.mark.parametrize(
    "policy", [Policy(), Policy(golden_days=2, lemon_failures=2, lemon_days=50), Policy(golden_days=60, lemon_days=3)]
)
def test_they_are_those_that_the_whole_past_tells(made: Ledger, policy: Policy) -> None:
    whole = {host["name"]: host["grade"] for host in dry_run(policy, read_past(made), AT)["hosts"] if host["grade"]}
    assert grades(made, policy, AT) == whole
    assert "golden" in whole.values() or policy.golden_days == 60


def test_a_made_up_fleet_has_both(made: Ledger) -> None:
    found = set(grades(made, Policy(golden_days=2, lemon_failures=2, lemon_days=50), AT).values())
    assert found == {"golden", "lemon"}
