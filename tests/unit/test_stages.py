"""A host enters a stage only when it passed all before."""

from __future__ import annotations

from firstlight.findings import Finding
from firstlight.ledger.store import Ledger, ledger_url
from firstlight.sitefiles import PlannedHost
from firstlight.stages import admit

OK = Finding("x", "ok", "x")
BAD = Finding("x", "fail", "x.y")


def ledger_with(tmp_path, names):
    ledger = Ledger(ledger_url("ledger.sqlite", tmp_path))
    ledger.plan("test", [PlannedHost(n, "r1", i, f"10.0.0.{i}", "p") for i, n in enumerate(names, 1)])
    return ledger


def test_everyone_enters_discover(tmp_path):
    assert admit(ledger_with(tmp_path, ["a", "b"]), "discover", ["a", "b"]).admitted == ["a", "b"]


def test_failed_and_unseen_hosts_stay_out_with_the_reason(tmp_path):
    ledger = ledger_with(tmp_path, ["a", "b", "c"])
    ledger.end_stage("discover", "a", [OK])
    ledger.end_stage("discover", "b", [BAD])
    admission = admit(ledger, "enlist", ["a", "b", "c"])
    assert admission.admitted == ["a"]
    assert admission.left_out == {"b": "did not pass discover", "c": "did not pass discover"}


def test_the_earliest_missed_stage_is_named(tmp_path):
    ledger = ledger_with(tmp_path, ["a"])
    ledger.end_stage("discover", "a", [OK])
    ledger.end_stage("install", "a", [OK])
    assert admit(ledger, "smoke", ["a"]).left_out == {"a": "did not pass enlist"}
