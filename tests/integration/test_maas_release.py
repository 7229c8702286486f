"""Release against the simulated region: everything that is given back, and nothing else."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import requests
from maas_product_lab import ProductLab

from firstlight.maas.enlist import enlist
from firstlight.maas.install import install
from firstlight.maas.release import ReleaseOptions, ReleaseResult, Releasing, release


@pytest.fixture(scope="module")
def running_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProductLab]:
    lab = ProductLab(tmp_path_factory.mktemp("lab"), machines=4)
    yield lab
    lab.stop()


@pytest.fixture
def lab(running_lab: ProductLab) -> ProductLab:
    return running_lab.fresh()


OPTIONS = ReleaseOptions(minutes=0.4, poll_seconds=0.2)


def hosts(lab: ProductLab, *names: str) -> list[Releasing]:
    return [Releasing(d.name, d.macs) for d in lab.desired() if d.name in (names or lab.names)]


def deployed(lab: ProductLab, *names: str) -> dict[str, str]:
    """Enlist all, deploy these; system ids by name."""
    with lab.client() as client:
        ids = {name: str(r.system_id) for name, r in enlist(client, lab.desired()).items()}
        results = install(client, lab.wanted({n: ids[n] for n in names}), lab.options())
        assert {r.status for r in results.values()} <= {"deployed"}, results
    return ids


def run(lab: ProductLab, *names: str, **more: Any) -> dict[str, ReleaseResult]:
    with lab.client() as client:
        options = more.pop("options", OPTIONS)
        return release(client, hosts(lab, *names), options, **more)


def power(lab: ProductLab, name: str) -> str:
    return str(requests.get(f"{lab.bmc_admin}/machines/{name}", timeout=10).json()["power"])


def test_machines_become_ready_and_are_off_and_a_second_run_changes_nothing(lab: ProductLab) -> None:
    deployed(lab, "r1-n01", "r1-n02")
    deeds: list[tuple[str, str]] = []
    lab.reset_stats()
    checked = run(lab, options=replace(OPTIONS, check=True))
    assert lab.stats()["writes"] == 0
    assert {n: (r.changed, r.before, r.after) for n, r in checked.items()} == {
        "r1-n01": (True, "deployed", "ready"),
        "r1-n02": (True, "deployed", "ready"),
        "r1-n03": (False, "new", "new"),
        "r1-n04": (False, "new", "new"),
    }
    assert checked["r1-n01"].deeds[0].startswith("would release r1-n01 (")
    results = run(lab, on_deed=lambda name, line: deeds.append((name, line)))
    assert all(r.ready and not r.findings for r in results.values()), results
    assert [name for name, _line in deeds] == ["r1-n01", "r1-n02"]
    assert "which is deployed" in deeds[0][1]
    assert {n: m["status_name"] for n, m in lab.by_name().items()} == {
        "r1-n01": "Ready", "r1-n02": "Ready", "r1-n03": "New", "r1-n04": "New",
    }  # fmt: skip
    assert power(lab, "r1-n01") == power(lab, "r1-n02") == "Off"
    lab.reset_stats()
    assert not any(r.changed or r.findings for r in run(lab).values())
    assert lab.stats()["writes"] == 0
    # and they can be installed again
    ids = {n: m["system_id"] for n, m in lab.by_name().items() if n == "r1-n01"}
    with lab.client() as client:
        assert install(client, lab.wanted(ids), lab.options())["r1-n01"].status == "deployed"


def test_locked_foreign_and_broken_machines_stay(lab: ProductLab) -> None:
    ids = deployed(lab, "r1-n01", "r1-n02", "r1-n03", "r1-n04")
    assert lab.op(ids["r1-n01"], "lock").ok
    with lab.client() as client:
        client.tag_machines("firstlight", [], [ids["r1-n02"]])
    assert lab.op(ids["r1-n03"], "mark_broken", comment="smells of smoke").ok
    results = run(lab)
    assert {n: [f.symptom for f in r.findings] for n, r in results.items()} == {
        "r1-n01": ["maas.locked"], "r1-n02": ["maas.foreign"], "r1-n03": ["maas.broken"], "r1-n04": [],
    }  # fmt: skip
    assert "smells of smoke" in results["r1-n03"].findings[0].evidence
    assert {n: m["status_name"] for n, m in lab.by_name().items()} == {
        "r1-n01": "Deployed", "r1-n02": "Deployed", "r1-n03": "Broken", "r1-n04": "Ready",
    }  # fmt: skip
    assert lab.stats()["requests"].get("POST release") == 1
    assert power(lab, "r1-n01") == power(lab, "r1-n02") == "On"


def test_what_commissions_or_deploys_is_aborted(lab: ProductLab) -> None:
    ids = deployed(lab)
    with lab.client() as client:
        client.commission(ids["r1-n01"])
        install(client, lab.wanted({"r1-n02": ids["r1-n02"]}), lab.options())
        run(lab, "r1-n02")
        machine = client.machine(ids["r1-n02"])
        client.set_os_disk(ids["r1-n02"], machine["physicalblockdevice_set"][0]["id"], False)
        client.commission(ids["r1-n03"])
        client.deploy(ids["r1-n02"], "bookworm")
        lab.reset_stats()
        results = run(lab, "r1-n01", "r1-n02")
    assert all(r.ready and not r.findings for r in results.values()), results
    status = {n: m["status_name"] for n, m in lab.by_name().items()}
    assert status["r1-n01"] in ("New", "Ready") and status["r1-n02"] == "Ready"
    assert lab.stats()["requests"]["POST abort"] >= 1  # r1-n01 may have been faster


@pytest.mark.parametrize(("erase", "words"), [("quick", "the ends of its disks"), ("secure", "erasing its disks")])
def test_erasing(lab: ProductLab, erase: str, words: str) -> None:
    deployed(lab, "r1-n01")
    with lab.client() as client:
        request = client._maker.make("Machine.release", {"system_id": "x"}, {"comment": "c", f"{erase}_erase": True})
    assert f'name="{erase}_erase"'.encode() in (request.body or b"")
    seen: list[str] = []
    results = run(lab, "r1-n01", options=replace(OPTIONS, erase=erase), on_progress=seen.append)
    assert results["r1-n01"].ready and words in results["r1-n01"].deeds[0]
    assert any("disk_erasing" in line for line in seen)
    assert requests.get(f"{lab.bmc_admin}/machines/r1-n01", timeout=10).json().get("disk") is None


def test_a_bmc_that_does_not_switch_off_is_named_and_stops_no_other(lab: ProductLab) -> None:
    deployed(lab, "r1-n01", "r1-n02")
    lab.bmc_fault("r1-n01", "unreachable")
    results = run(lab, "r1-n01", "r1-n02")
    (finding,) = results["r1-n01"].findings
    assert (finding.symptom, finding.action) == ("release.power_failed", "reset_bmc")
    assert "Failed to power off node" in finding.evidence
    assert results["r1-n02"].ready
    # once the BMC answers again it is given back from where it was left
    lab.bmc_fault("r1-n01", "unreachable", on=False)
    assert lab.by_name()["r1-n01"]["status_name"] == "Failed releasing"
    assert run(lab, "r1-n01")["r1-n01"].ready


@pytest.mark.parametrize(
    "how",
    [
        {"status": 503, "when": "before"},
        {"status": 503, "when": "after"},
        {"drop": True, "when": "after"},
        {"status": 409, "when": "before"},
    ],
)
def test_a_lost_or_failed_call_is_no_second_release(lab: ProductLab, how: dict[str, Any]) -> None:
    deployed(lab, "r1-n01")
    lab.fault("failing", method="POST", op="release", count=1, **how)
    results = run(lab, "r1-n01")
    assert results["r1-n01"].ready and not results["r1-n01"].findings
    assert results["r1-n01"].changed


def test_what_somebody_took_after_our_release_is_left_alone(lab: ProductLab) -> None:
    deployed(lab, "r1-n01")
    lab.reset_stats()
    taken: list[Any] = []

    def take(seconds: float) -> None:
        if lab.stats()["requests"].get("POST release", 0) == 0 or taken:
            time.sleep(seconds)
            return
        while (machine := lab.by_name()["r1-n01"])["status_name"] != "Ready":
            time.sleep(0.1)
        with lab.client() as somebody:
            taken.append(somebody.deploy(machine["system_id"], "bookworm"))

    with lab.client() as client:
        results = release(client, hosts(lab, "r1-n01"), OPTIONS, pause=take)
    (finding,) = results["r1-n01"].findings
    assert finding.symptom == "maas.taken" and "left alone" in finding.evidence
    assert lab.by_name()["r1-n01"]["status_name"] in ("Deploying", "Deployed")
    assert lab.stats()["requests"]["POST release"] == 1


def test_maas_away_for_a_while_and_for_good(lab: ProductLab) -> None:
    deployed(lab, "r1-n01", "r1-n02")
    back = threading.Timer(1.5, lambda: lab.start("maas"))
    with lab.client(pause=lambda seconds: None, timeout=2) as client:

        def gone(name: str, line: str) -> None:
            if name == "r1-n02" and not back.ident:
                lab.kill("maas")
                back.start()

        results = release(client, hosts(lab, "r1-n01", "r1-n02"), replace(OPTIONS, minutes=1), on_deed=gone)
    back.join()
    assert all(r.ready for r in results.values()), results
    deployed(lab, "r1-n01")
    with lab.client(pause=lambda seconds: None, timeout=2) as client:
        options = replace(OPTIONS, outage_minutes=0.01)
        results = release(client, hosts(lab, "r1-n01"), options, on_deed=lambda name, line: lab.kill("maas"))
    (finding,) = results["r1-n01"].findings
    assert (finding.symptom, finding.status) == ("maas.unreachable", "unknown")
    lab.start("maas")


def test_interrupted_it_says_what_goes_on_and_the_next_run_follows(lab: ProductLab) -> None:
    deployed(lab, "r1-n01", "r1-n02")
    said: list[str] = []
    asked: list[str] = []

    def interrupt(seconds: float) -> None:
        if lab.stats()["requests"].get("POST release", 0) >= 1:
            raise KeyboardInterrupt
        time.sleep(seconds)

    with pytest.raises(KeyboardInterrupt):
        run(lab, "r1-n01", "r1-n02", pause=interrupt, on_progress=said.append, options=replace(OPTIONS, max_parallel=1))
    assert said[-1] == "interrupted: 1 machines go on being released in MAAS; run release again to follow them"
    results = run(lab, "r1-n01", "r1-n02", on_deed=lambda name, line: asked.append(name))
    assert all(r.ready for r in results.values()) and "r1-n02" in asked
    assert lab.stats()["requests"]["POST release"] == 2


def test_a_deadline(lab: ProductLab) -> None:
    ids = deployed(lab, "r1-n01")
    with lab.client() as client:
        client.release(ids["r1-n01"], quick_erase=True)
        lab.fault("slow", seconds=0.01)
        results = run(lab, "r1-n01", options=replace(OPTIONS, minutes=0.0001))
    assert results["r1-n01"].ready or results["r1-n01"].findings[0].symptom == "release.timed_out"


def test_one_list_a_look_and_no_more_than_allowed_at_once(lab: ProductLab) -> None:
    deployed(lab, "r1-n01", "r1-n02", "r1-n03")
    lab.reset_stats()
    seen: list[str] = []
    results = run(lab, options=replace(OPTIONS, max_parallel=1), on_progress=seen.append)
    assert all(r.ready for r in results.values())
    stats = lab.stats()
    assert stats["writes"] == 3
    # whoami; all other reads are of the whole list
    assert stats["requests"]["GET whoami"] == 1 and stats["reads"] == stats["requests"]["GET"] + 1
    assert not any("2 releasing" in line for line in seen)
