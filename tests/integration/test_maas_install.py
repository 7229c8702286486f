"""Install against the simulated region, its power driver and simulated BMCs."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
import requests
from maas_product_lab import ProductLab

from firstlight.maas.client import MaasError
from firstlight.maas.disks import OsDisk
from firstlight.maas.enlist import enlist
from firstlight.maas.install import install


@pytest.fixture(scope="module")
def running_lab(tmp_path_factory) -> Iterator[ProductLab]:
    lab = ProductLab(tmp_path_factory.mktemp("lab"), node_timeout_seconds=8)
    yield lab
    lab.stop()


@pytest.fixture
def lab(running_lab) -> ProductLab:
    return running_lab.fresh()


def enlisted(lab: ProductLab, *names: str) -> dict[str, str]:
    with lab.client() as client:
        results = enlist(client, [d for d in lab.desired() if not names or d.name in names])
    assert not any(r.findings for r in results.values())
    return {name: str(r.system_id) for name, r in results.items()}


def symptoms(results) -> dict[str, list[str]]:
    return {name: [f.symptom for f in r.findings] for name, r in results.items() if r.findings}


def test_from_new_to_deployed_on_the_right_disk_and_then_nothing(lab):
    ids = enlisted(lab)
    told, deeds = [], []
    with lab.client() as client:
        results = install(
            client,
            lab.wanted(ids),
            lab.options(user_data="#cloud-config\nssh_pwauth: false\n", subnets=("127.253.0.0/24",)),
            on_progress=told.append,
            on_deed=lambda name, line: deeds.append((name, line)),
        )
    assert symptoms(results) == {}
    for name, result in results.items():
        assert (result.changed, result.status) == (True, "deployed")
        assert result.address.startswith("127.253.0.")
        assert result.seconds > 0
        (deed,) = result.deeds
        assert deed.startswith(f"deploy bookworm to {name} ({ids[name]}), overwriting ")
        assert "BOSS-N1 serial " in deed and deed.endswith(" 480 GB")
    assert sorted(name for name, _ in deeds) == lab.names
    assert len({r.address for r in results.values()}) == len(lab.names)
    machine = lab.by_name()["r1-n01"]
    root = [
        d for d in machine["blockdevice_set"] if any(p["filesystem"]["mount_point"] == "/" for p in d["partitions"])
    ]
    assert [d["model"] for d in root] == ["DELL BOSS-N1"]
    assert machine["boot_disk"]["model"] == "DELL BOSS-N1"
    written = requests.get(f"{lab.bmc_admin}/machines/r1-n01", timeout=10).json()["disk"]
    assert written["hostname"] == "r1-n01"
    assert written["user_data"] == "#cloud-config\nssh_pwauth: false\n"
    last = told[-1]
    assert last.counts == {"done": len(lab.names)}
    news = [line for progress in told for line in progress.news]
    assert "r1-n01: commission (new)" in news and "r1-n01: deploy (ready)" in news

    lab.reset_stats()
    with lab.client() as client:
        again = install(client, lab.wanted(ids), lab.options())
    assert not any(r.changed or r.deeds or r.findings for r in again.values())
    assert {r.address for r in again.values()} == {r.address for r in results.values()}
    stats = lab.stats()
    assert (stats["reads"], stats["writes"]) == (1, 0)


def test_one_list_a_tick_and_few_writes(lab):
    ids = enlisted(lab)
    lab.reset_stats()
    ticks = []
    with lab.client() as client:
        install(client, lab.wanted(ids), lab.options(), on_progress=ticks.append)
    requests_made = lab.stats()["requests"]
    assert requests_made["GET"] == len(ticks)
    assert "GET query" not in requests_made  # no machine stalled
    for op in ("commission", "set_storage_layout", "deploy"):
        assert requests_made[f"POST {op}"] == len(ids)
    assert "POST release" not in requests_made


def test_check_mode_says_what_would_be_done(lab):
    ids = enlisted(lab)
    with lab.client() as client:
        client.commission(ids["r1-n01"])
        lab.wait_for("r1-n01", "Ready")
        lab.reset_stats()
        results = install(client, lab.wanted(ids), lab.options(check=True))
    assert lab.stats()["writes"] == 0
    assert all(r.changed for r in results.values())
    assert results["r1-n01"].deeds[0].startswith("would deploy bookworm to r1-n01")
    assert results["r1-n02"].deeds == [f"would commission and deploy r1-n02 ({ids['r1-n02']}), which is new"]


def test_waves(lab):
    ids = enlisted(lab)
    busy = []
    with lab.client() as client:
        results = install(
            client,
            lab.wanted(ids, rack="r1"),
            lab.options(max_parallel=3, max_per_rack=2),
            on_progress=lambda p: busy.append(
                sum(n for what, n in p.counts.items() if what not in ("waiting", "done"))
            ),
        )
    assert symptoms(results) == {}
    assert max(busy) == 2


def test_bad_machines_stop_no_good_one(lab):
    """No power, no network boot, a locked and a foreign machine, one whose disk is missing; one is sound."""
    ids = enlisted(lab)
    lab.bmc_fault("r1-n01", "unreachable")
    lab.bmc_fault("r1-n02", "no_link")
    wanted = lab.wanted(ids)
    wanted[2] = replace(wanted[2], os_disk=OsDisk(serials=("NOT-THERE",)), bmc="127.0.0.9")
    done_at = {}
    began = time.monotonic()

    def progress(p):
        for line in p.news:
            if ": deployed" in line:
                done_at[line.split(":")[0]] = time.monotonic() - began

    with lab.client() as client:
        results = install(client, wanted, lab.options(retries=0), on_progress=progress)
    found = symptoms(results)
    assert found == {
        "r1-n01": ["install.power_failed"],
        "r1-n02": ["install.no_pxe"],
        "r1-n03": ["os_disk.missing"],
    }
    assert results["r1-n04"].status == "deployed" and results["r1-n04"].address
    assert "NOT-THERE" in results["r1-n03"].findings[0].evidence
    assert results["r1-n03"].deeds == []
    assert done_at["r1-n04"] < max(r.seconds for r in results.values())


def test_a_failed_deployment_is_tried_once_more(lab):
    ids = enlisted(lab, "r1-n01")
    with lab.client() as client:
        client.commission(ids["r1-n01"])
        lab.wait_for("r1-n01", "Ready")
        lab.bmc_fault("r1-n01", "no_link")
        timer = None

        def progress(p):
            nonlocal timer
            if any("release (failed_deployment)" in line for line in p.news):
                lab.bmc_fault("r1-n01", "no_link", on=False)
                timer = True

        results = install(client, lab.wanted(ids), lab.options(), on_progress=progress)
    assert timer and symptoms(results) == {}
    assert [deed.split()[0] for deed in results["r1-n01"].deeds] == ["deploy", "release", "deploy"]


def test_time_out_of_ours_names_the_reason(lab):
    ids = enlisted(lab, "r1-n01")
    lab.bmc_fault("r1-n01", "no_link")
    with lab.client() as client:
        results = install(client, lab.wanted(ids), lab.options(commission_minutes=0.02))
    (finding,) = results["r1-n01"].findings
    assert finding.symptom == "install.no_pxe"
    assert "still commissioning after 0.02 minutes" in finding.evidence


def test_locked_foreign_and_broken_are_left_alone(lab):
    ids = enlisted(lab)
    with lab.client() as client:
        for name in ("r1-n01", "r1-n02"):
            client.commission(ids[name])
        for name in ("r1-n01", "r1-n02"):
            lab.wait_for(name, "Ready")
        assert lab.op(ids["r1-n03"], "mark_broken", comment="NVMe on fire").ok
        lab.maas("POST", "tags/firstlight/?op=update_nodes", data={"remove": ids["r1-n04"]})
        client.update(ids["r1-n01"], description="x")
        lab.reset_stats()
        wanted = [*lab.wanted({n: ids[n] for n in ("r1-n03", "r1-n04")}), *lab.wanted({"r1-n02": "zzzzzz"})]
        results = install(client, wanted, lab.options())
    assert symptoms(results) == {"r1-n03": ["maas.broken"], "r1-n04": ["maas.foreign"], "r1-n02": ["maas.missing"]}
    assert "NVMe on fire" in results["r1-n03"].findings[0].evidence
    assert lab.stats()["writes"] == 0


def _installer(folder_lab, ids):
    """A run of its own process, to be killed."""
    with folder_lab.client() as client:
        install(client, folder_lab.wanted(ids), folder_lab.options())


@pytest.mark.parametrize("status", ["Commissioning", "Deploying"])
def test_a_killed_run_is_taken_up_and_nothing_done_twice(lab, status):
    ids = enlisted(lab)
    lab.reset_stats()
    process = multiprocessing.get_context("fork").Process(target=_installer, args=(lab, ids))
    process.start()
    end = time.monotonic() + 30
    while not any(m["status_name"] == status for m in lab.by_name().values()):
        assert time.monotonic() < end
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.join(10)
    with lab.client() as client:
        results = install(client, lab.wanted(ids), lab.options())
    assert symptoms(results) == {}
    assert {r.status for r in results.values()} == {"deployed"}
    requests_made = lab.stats()["requests"]
    assert requests_made["POST commission"] == len(ids)
    assert requests_made["POST deploy"] == len(ids)
    assert "POST release" not in requests_made


def test_an_interrupt_leaves_machines_that_go_on(lab):
    ids = enlisted(lab)
    news = []

    def progress(p):
        news.extend(p.news)
        if p.counts.get("commission") == len(ids):
            raise KeyboardInterrupt

    with lab.client() as client, pytest.raises(KeyboardInterrupt):
        install(client, lab.wanted(ids), lab.options(), on_progress=progress)
    assert "interrupted: 4 machines go on installing" in news[-1]
    for name in ids:
        lab.wait_for(name, "Ready")


def test_a_restart_of_maas_in_the_middle(lab):
    ids = enlisted(lab)
    seen = threading.Event()

    def restart():
        seen.wait(20)
        lab.kill("maas")
        time.sleep(1)
        lab.start("maas")

    thread = threading.Thread(target=restart)
    thread.start()
    news = []

    def progress(p):
        news.extend(p.news)
        if p.counts.get("commission"):
            seen.set()

    with lab.client(attempts=1) as client:
        results = install(client, lab.wanted(ids), lab.options(), on_progress=progress)
    thread.join()
    assert symptoms(results) == {}
    assert {r.status for r in results.values()} == {"deployed"}
    assert any("MAAS is away" in line for line in news)


def test_maas_gone_for_good_is_said_of_every_host(lab):
    ids = enlisted(lab)

    def progress(p):
        if p.counts.get("commission") and "maas" in lab.processes:
            lab.kill("maas")

    with lab.client(attempts=1) as client:
        results = install(client, lab.wanted(ids), lab.options(outage_minutes=0.01), on_progress=progress)
    assert symptoms(results) == {name: ["maas.unreachable"] for name in ids}
    assert {r.findings[0].status for r in results.values()} == {"unknown"}
    with lab.client(attempts=1) as client, pytest.raises(MaasError):
        install(client, lab.wanted(ids), lab.options())


@pytest.mark.parametrize("op", ["commission", "deploy", "set_storage_layout"])
def test_a_lost_answer_does_not_start_twice(lab, op):
    ids = enlisted(lab, "r1-n01")
    lab.fault("failing", method="POST", op=op, count=1, when="after", drop=True)
    lab.reset_stats()
    with lab.client() as client:
        results = install(client, lab.wanted(ids), lab.options())
    assert symptoms(results) == {}
    made = lab.stats()["requests"]
    assert made["POST commission"] == made["POST deploy"] == 1


def test_a_machine_that_came_by_pxe_is_installed_as_it_goes(lab):
    lab.boot_from_network("r1-n02")
    with lab.client() as client:
        end = time.monotonic() + 20
        while not client.machines():
            assert time.monotonic() < end
            time.sleep(0.05)
        ids = {name: str(r.system_id) for name, r in enlist(client, lab.desired()).items()}
        results = install(client, lab.wanted(ids), lab.options())
    assert symptoms(results) == {}
    assert sorted(lab.by_name()) == lab.names


def test_a_bad_series_is_named(lab):
    ids = enlisted(lab, "r1-n01")
    with lab.client() as client:
        results = install(client, lab.wanted(ids), lab.options(distro_series="hirsute"))
    (finding,) = results["r1-n01"].findings
    assert finding.symptom == "install.failed"
    assert "'hirsute' is not a valid distro_series" in finding.evidence
