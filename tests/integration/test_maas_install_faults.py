"""Every way in which a machine does not come is named, and helped once where that helps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from maas_product_lab import PASSWORD, USER, ProductLab

from firstlight.bmc.pool import Target
from firstlight.maas import power as power_module
from firstlight.maas.enlist import enlist
from firstlight.maas.install import install
from firstlight.maas.power import RedfishPower
from firstlight.maas.wait import wait_for_ssh


@pytest.fixture(scope="module")
def running_lab(tmp_path_factory) -> Iterator[ProductLab]:
    lab = ProductLab(tmp_path_factory.mktemp("lab"), machines=3, node_timeout_seconds=10)
    yield lab
    lab.stop()


@pytest.fixture
def lab(running_lab, monkeypatch) -> ProductLab:
    monkeypatch.setattr(power_module, "PACE_SECONDS", 0.1)
    for log in (running_lab.folder / "console").glob("*.log"):
        log.unlink()
    return running_lab.fresh()


def enlisted(lab: ProductLab, *names: str) -> dict[str, str]:
    with lab.client() as client:
        results = enlist(client, [d for d in lab.desired() if d.name in names])
    assert not any(r.findings for r in results.values())
    return {name: str(r.system_id) for name, r in results.items()}


def redfish(lab: ProductLab) -> RedfishPower:
    desired = lab.desired()
    targets = {d.name: Target(d.name, d.bmc_address, d.bmc_port, USER, PASSWORD) for d in desired}
    nics = {d.name: lab.hardware(d.name).nics[0].fqdd for d in desired}
    return RedfishPower(targets, lab.ca, nics, {d.name: d.power() for d in desired})


def run(lab: ProductLab, ids: dict[str, str], news: list[str] | None = None, power: bool = True, **options):
    given = {"console_log": str(lab.folder / "console" / "{name}.log"), "retries": 0, **options}
    with lab.client() as client:
        return install(
            client,
            lab.wanted(ids),
            lab.options(**given),
            on_progress=lambda p: news.extend(p.news) if news is not None else None,
            power=redfish(lab) if power else None,
        )


def ready(lab: ProductLab, name: str) -> dict[str, str]:
    ids = enlisted(lab, name)
    assert lab.op(ids[name], "commission").ok
    lab.wait_for(name, "Ready")
    return ids


@pytest.mark.parametrize(
    ("fault", "symptom", "action", "text"),
    [
        ("no_dhcp", "install.no_dhcp", "escalate", "console: PXE-E51: No DHCP or proxyDHCP offers were received."),
        ("no_kernel", "install.no_kernel", "escalate", "console: PXE-E23: Client received TFTP error"),
        ("certificate", "install.certificate", "escalate", "CERTIFICATE_VERIFY_FAILED"),
        ("clock", "install.clock", "reset_bmc", "Expired timestamp: given 1546300800"),
        ("kernel_panic", "install.kernel_panic", "power_cycle", "not syncing: Fatal machine check"),
        ("out_of_memory", "install.out_of_memory", "escalate", "Killed process 1402 (curtin)"),
        ("disk_write", "install.disk_write", "replace", "installation log: "),
        ("curtin", "install.curtin_failed", "escalate", "installation log: curtin: Installation failed with exception"),
        ("cloud_init", "install.cloud_init_failed", "escalate", "Failed running module scripts-user"),
    ],
)
def test_each_fault_has_its_name(lab, fault, symptom, action, text):
    """A machine beside it is installed all the same."""
    ids = {**ready(lab, "r1-n01"), **enlisted(lab, "r1-n02")}
    lab.fault(fault, machines=["r1-n01"])
    results = run(lab, ids)
    (finding,) = results["r1-n01"].findings
    assert (finding.symptom, finding.status, finding.action) == (symptom, "fail", action)
    assert text in finding.evidence and "r1-n01" in finding.locator
    assert results["r1-n02"].status == "deployed" and not results["r1-n02"].findings


def test_no_link_is_told_by_the_bmc_and_not_tried_again(lab):
    ids = ready(lab, "r1-n01")
    lab.bmc_fault("r1-n01", "no_link")
    news: list[str] = []
    results = run(lab, ids, news, retries=1, pxe_minutes=0.01)
    (finding,) = results["r1-n01"].findings
    assert (finding.symptom, finding.action) == ("install.no_link", "reseat")
    assert finding.locator == lab.hardware("r1-n01").nics[0].fqdd
    assert lab.stats()["requests"]["POST deploy"] == 1
    assert not any("trying once more" in line for line in news)


def test_no_dhcp_is_found_long_before_the_deadline(lab):
    """install_pxe_minutes: the place in the wave is free as soon as it is judged."""
    ids = ready(lab, "r1-n01")
    lab.fault("no_dhcp", machines=["r1-n01"])
    results = run(lab, ids, pxe_minutes=0.01)
    assert results["r1-n01"].findings[0].symptom == "install.no_dhcp"
    assert "still deploying" in results["r1-n01"].findings[0].evidence
    assert lab.by_name()["r1-n01"]["status_name"] == "Deploying"


def test_old_words_on_the_console_do_not_count(lab):
    console = Path(lab.folder / "console")
    console.mkdir(exist_ok=True)
    (console / "r1-n01.log").write_text("PXE-E51: No DHCP or proxyDHCP offers were received.\n" * 10)
    ids = ready(lab, "r1-n01")
    lab.fault("curtin", machines=["r1-n01"])
    results = run(lab, ids)
    assert results["r1-n01"].findings[0].symptom == "install.curtin_failed"


def test_a_curtin_error_is_tried_once_more(lab):
    ids = ready(lab, "r1-n01")
    lab.fault("curtin", machines=["r1-n01"])
    news: list[str] = []
    results = run(lab, ids, news, retries=1)
    (finding,) = results["r1-n01"].findings
    assert finding.evidence.startswith("tried twice (again): ")
    assert [deed.split()[0] for deed in results["r1-n01"].deeds] == ["deploy", "release", "deploy"]
    assert any("trying once more" in line for line in news)


@pytest.mark.parametrize("fault", ["disk_write", "certificate", "clock", "out_of_memory"])
def test_what_no_second_try_helps_is_not_tried_again(lab, fault):
    ids = ready(lab, "r1-n01")
    lab.fault(fault, machines=["r1-n01"])
    results = run(lab, ids, retries=1)
    assert results["r1-n01"].findings
    assert lab.stats()["requests"]["POST deploy"] == 1


def test_a_failing_driver_is_gone_past_and_the_settings_are_put_back(lab):
    """MAAS's BMC driver fails at everything, and the machine is installed from New to Deployed all the same."""
    ids = enlisted(lab, "r1-n01", "r1-n02")
    lab.fault("driver_fails", machines=["r1-n01"])
    news: list[str] = []
    results = run(lab, ids, news)
    assert {r.status for r in results.values()} == {"deployed"}
    (finding,) = results["r1-n01"].findings
    assert (finding.symptom, finding.status) == ("install.power_by_redfish", "warn")
    assert any("r1-n01: MAAS cannot switch its power, Redfish does" in line for line in news)
    assert not results["r1-n02"].findings
    machine = lab.by_name()["r1-n01"]
    assert machine["power_type"] == "redfish"
    with lab.client() as client:
        again = enlist(client, [d for d in lab.desired() if d.name == "r1-n01"])
    assert not again["r1-n01"].changed


def test_a_driver_that_fails_in_the_middle(lab):
    """MAAS knows the BMC, starts to deploy, and then its driver fails: it marks the machine failed."""
    ids = ready(lab, "r1-n01")
    lab.fault("driver_fails", machines=["r1-n01"])
    results = run(lab, ids)
    assert results["r1-n01"].status == "deployed"
    assert [f.symptom for f in results["r1-n01"].findings] == ["install.power_by_redfish"]
    assert "Failed talking to node's BMC" in results["r1-n01"].findings[0].evidence


def test_without_leave_redfish_is_not_used(lab):
    ids = ready(lab, "r1-n01")
    lab.fault("driver_fails", machines=["r1-n01"])
    with lab.client() as client:
        results = install(client, lab.wanted(ids), lab.options(retries=0, power="maas"), power=redfish(lab))
    assert [f.symptom for f in results["r1-n01"].findings] == ["install.power_failed"]
    assert lab.by_name()["r1-n01"]["power_type"] == "redfish"


def test_a_site_that_wants_redfish_alone(lab):
    ids = enlisted(lab, "r1-n01")
    lab.fault("driver_fails", machines=["r1-n01"])
    with lab.client() as client:
        results = install(client, lab.wanted(ids), lab.options(retries=0, power="redfish"), power=redfish(lab))
    assert (results["r1-n01"].status, results["r1-n01"].findings) == ("deployed", [])
    assert lab.by_name()["r1-n01"]["power_type"] == "redfish"


def test_neither_maas_nor_redfish_reaches_the_bmc(lab):
    ids = enlisted(lab, "r1-n01", "r1-n02")
    lab.bmc_fault("r1-n01", "refused")
    results = run(lab, ids)
    symptoms = {f.symptom: f for f in results["r1-n01"].findings}
    assert list(symptoms) == ["install.power_by_redfish", "install.power_failed"]
    assert "bmc.unreachable" in symptoms["install.power_failed"].evidence
    assert PASSWORD not in json.dumps([f.to_dict() for f in results["r1-n01"].findings])
    assert results["r1-n02"].status == "deployed"


def test_the_disk_first_in_the_boot_order(lab):
    """A machine that boots the old system from its disk is made to boot from the network, once."""
    ids = ready(lab, "r1-n01")
    lab.fault("disk_first", machines=["r1-n01"])
    old = {"hostname": "old", "address": "127.253.0.99", "image": "bookworm", "user_data": None}
    assert lab.reset("r1-n01", "On").ok
    assert requests.put(f"{lab.bmc_admin}/machines/r1-n01/disk", json=old, timeout=10).ok
    assert lab.reset("r1-n01", "ForceOff").ok
    system = lab.redfish("GET", "r1-n01", "", {}).json()
    order = system["Boot"]["BootOrder"]
    assert lab.redfish("PATCH", "r1-n01", "", {"Boot": {"BootOrder": [*order[1:], order[0]]}}).ok
    news: list[str] = []
    results = run(lab, ids, news, retries=1, pxe_minutes=0.01)
    assert results["r1-n01"].status == "deployed", (results["r1-n01"].findings, news)
    assert any("one-time network boot set and restarted over Redfish" in line for line in news)
    assert lab.stats()["requests"]["POST deploy"] == 1


def test_a_console_that_is_no_file_holds_nobody_up(lab, tmp_path):
    ids = ready(lab, "r1-n01")
    lab.fault("curtin", machines=["r1-n01"])
    news: list[str] = []
    results = run(lab, ids, news, console_log="/dev/zero{name}")
    assert results["r1-n01"].findings[0].symptom == "install.curtin_failed"
    assert any("console log /dev/zeror1-n01: No such file" in line for line in news)


def test_stalls_are_named_while_they_last(lab):
    ids = ready(lab, "r1-n01")
    lab.fault("no_dhcp", machines=["r1-n01"])
    said: list[str] = []
    with lab.client() as client:
        install(
            client,
            lab.wanted(ids),
            lab.options(retries=0, pxe_minutes=0.02),
            on_progress=lambda p: said.append(str(p)),
        )
    assert any("1 deploy; 1 stall: r1-n01 no PXE for " in line for line in said)


def test_a_machine_that_is_deleted_in_the_middle(lab):
    ids = {**ready(lab, "r1-n01"), **enlisted(lab, "r1-n02")}
    gone: list[str] = []

    def progress(p):
        if p.counts.get("deploy") and not gone:
            gone.append(ids["r1-n01"])
            assert lab.maas("DELETE", f"machines/{ids['r1-n01']}/").status_code == 204

    with lab.client() as client:
        results = install(client, lab.wanted(ids), lab.options(), on_progress=progress)
    assert [f.symptom for f in results["r1-n01"].findings] == ["maas.missing"]
    assert results["r1-n02"].status == "deployed"


def test_slow_answers_of_maas(lab):
    ids = enlisted(lab, "r1-n01", "r1-n02", "r1-n03")
    lab.fault("slow", seconds=0.5)
    results = run(lab, ids)
    assert {r.status for r in results.values()} == {"deployed"} and not any(r.findings for r in results.values())


def test_maas_asks_to_come_again_later(lab):
    """409 with Retry-After 5 and 503 with Retry-After 10 are waited for, and nothing is done twice."""
    ids = ready(lab, "r1-n01")
    lab.fault("failing", method="POST", op="deploy", count=1, status=409, headers={"Retry-After": "1"})
    results = run(lab, ids)
    assert results["r1-n01"].status == "deployed" and not results["r1-n01"].findings
    assert lab.stats()["requests"]["POST deploy"] == 2


def test_the_same_on_3_4(tmp_path_factory, monkeypatch):
    """Without a rack 3.4 answers 400, mark_broken drops the owner, ...: the causes are named all the same."""
    monkeypatch.setattr(power_module, "PACE_SECONDS", 0.1)
    old = ProductLab(tmp_path_factory.mktemp("old"), machines=3, node_timeout_seconds=10, version="3.4.10")
    try:
        ids = enlisted(old, *old.names)
        old.fault("driver_fails", machines=["r1-n01"])
        old.fault("curtin", machines=["r1-n02"])
        results = run(old, ids)
        assert {name: [f.symptom for f in r.findings] for name, r in results.items()} == {
            "r1-n01": ["install.power_by_redfish"],
            "r1-n02": ["install.curtin_failed"],
            "r1-n03": [],
        }
        assert results["r1-n01"].status == results["r1-n03"].status == "deployed"
        old.fault("no_rack")
        assert old.op(ids["r1-n02"], "release").ok
        old.wait_for("r1-n02", "Ready")
        said = run(old, {"r1-n02": ids["r1-n02"]})["r1-n02"].findings[0]
        assert said.symptom == "install.failed" and "Ephemeral operating system" in said.evidence
    finally:
        old.stop()


def test_faults_of_one_machine_more_and_less(lab):
    """The simulator's own door for them."""
    for name in ("r1-n01", "r1-n02"):
        assert requests.put(f"{lab.admin}/machines/{name}/faults/curtin", timeout=10).status_code == 204
    assert requests.delete(f"{lab.admin}/machines/r1-n01/faults/curtin", timeout=10).status_code == 204
    assert requests.get(f"{lab.admin}/faults", timeout=10).json() == {"curtin": {"machines": ["r1-n02"]}}
    assert requests.put(f"{lab.admin}/machines/r1-n01/faults/nonsense", timeout=10).status_code == 404


def test_a_host_that_is_not_where_maas_says(lab):
    ids = ready(lab, "r1-n01")
    lab.fault("no_ssh", machines=["r1-n01"])
    address = run(lab, ids)["r1-n01"].address
    written = requests.get(f"{lab.bmc_admin}/machines/r1-n01", timeout=10).json()["disk"]
    assert address and written["address"] != address
    (finding,) = wait_for_ssh({"r1-n01": ("127.0.0.1", 9)}, 0.01).values()
    assert (finding.symptom, finding.locator) == ("install.no_ssh", "127.0.0.1:9")


def test_what_a_bmc_tells_of_a_machine_that_stalls(lab):
    power = redfish(lab)
    state = power.look("r1-n01")
    assert (state.power, state.link, state.nic) == ("Off", "up", lab.hardware("r1-n01").nics[0].fqdd)
    lab.bmc_fault("r1-n01", "no_link")
    lab.bmc_fault("r1-n01", "psu_failed")
    state = power.look("r1-n01")
    assert state.link == "down"
    assert "Power supply 2 failed." in state.logs[0]
    lab.bmc_fault("r1-n02", "refused")
    assert power.look("r1-n02").error.startswith("bmc.unreachable: ")
    assert power.look("nobody").error and power.on("nobody").symptom == "install.power_failed"
