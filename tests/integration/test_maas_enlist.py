"""Enlist, and the client under it, against the simulated region."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
import requests
from maas_product_lab import KEY, PASSWORD, ProductLab

from firstlight.errors import InputError
from firstlight.maas.client import MaasClient, MaasError
from firstlight.maas.enlist import enlist


@pytest.fixture(scope="module")
def running_lab(tmp_path_factory) -> Iterator[ProductLab]:
    lab = ProductLab(tmp_path_factory.mktemp("lab"))
    yield lab
    lab.stop()


@pytest.fixture
def lab(running_lab) -> ProductLab:
    return running_lab.fresh()


def test_whoami_and_version(lab):
    with lab.client() as client:
        assert client.whoami()["is_superuser"] is True
        assert client.version().startswith("3.")


def test_first_run_makes_them_second_run_writes_nothing(lab):
    with lab.client() as client:
        lab.reset_stats()
        first = enlist(client, lab.desired(pool="gpu", zone="r1"))
        assert {r.action for r in first.values()} == {"create"}
        assert all(r.changed and r.system_id and not r.findings for r in first.values())
        stats = lab.stats()
        # the machines and the tags; one POST a machine, the tag, and tagging them all at once
        assert (stats["reads"], stats["writes"]) == (2, len(lab.names) + 2)
        lab.reset_stats()
        second = enlist(client, lab.desired(pool="gpu", zone="r1"))
    assert {r.action for r in second.values()} == {"nothing"}
    assert not any(r.changed or r.diff for r in second.values())
    assert {n: r.system_id for n, r in first.items()} == {n: r.system_id for n, r in second.items()}
    stats = lab.stats()
    assert (stats["reads"], stats["writes"]) == (1, 0)
    machine = lab.by_name()["r1-n01"]
    assert machine["status_name"] == "New"
    assert machine["tag_names"] == ["firstlight"]
    assert (machine["pool"]["name"], machine["zone"]["name"]) == ("gpu", "r1")
    assert machine["description"].startswith("rack r1 unit 1 FLB0001 [power ")
    assert machine["boot_interface"]["mac_address"] == lab.desired()[0].pxe_mac


def test_check_mode_writes_nothing_and_shows_what_it_would(lab):
    lab.reset_stats()
    with lab.client() as client:
        results = enlist(client, lab.desired(), check=True)
    assert lab.stats()["writes"] == 0
    assert all(r.changed and "+ hostname: r1-n" in r.diff and r.system_id is None for r in results.values())
    assert not any(PASSWORD in r.diff for r in results.values())


def test_a_machine_that_came_by_pxe_is_adopted(lab):
    lab.boot_from_network("r1-n02")
    end = time.monotonic() + 20
    with lab.client() as client:
        while not client.machines():
            assert time.monotonic() < end
            time.sleep(0.1)
        (found,) = client.machines()
        assert found["hostname"] != "r1-n02" and found["power_type"] == ""
        results = enlist(client, lab.desired())
        assert results["r1-n02"].action == "adopt"
        assert results["r1-n02"].system_id == found["system_id"]
        assert f"- hostname: {found['hostname']}\n+ hostname: r1-n02" in results["r1-n02"].diff
        machine = lab.by_name()["r1-n02"]
        assert (machine["power_type"], machine["tag_names"]) == ("redfish", ["firstlight"])
        lab.reset_stats()
        assert not any(r.changed for r in enlist(client, lab.desired()).values())
    assert lab.stats()["writes"] == 0
    assert len(lab.by_name()) == len(lab.names)


def test_a_new_bmc_password_is_written_once(lab):
    with lab.client() as client:
        enlist(client, lab.desired())
        changed = [replace(d, bmc_password="another-password-1") for d in lab.desired()]
        results = enlist(client, changed)
        assert {r.action for r in results.values()} == {"update"}
        assert not any("another-password-1" in r.diff for r in results.values())
        lab.reset_stats()
        assert not any(r.changed for r in enlist(client, changed).values())
    assert lab.stats()["writes"] == 0


CHANGES = {
    "bmc address": ({"bmc_address": "127.0.0.9"}, "+ power: redfish root@127.0.0.9:8443"),
    "bmc port": ({"bmc_port": 443}, "- power: redfish, other address, user or password"),
    "bmc user": ({"bmc_username": "ops"}, "+ power: redfish ops@"),
    "pool": ({"pool": "gpu"}, "- pool: default\n+ pool: gpu"),
    "zone": ({"zone": "r1"}, "- zone: default\n+ zone: r1"),
    "description": (
        {"description": "rack r2 unit 1, service tag FLB0001"},
        "- description: rack r1 unit 1 FLB0001\n+ description: rack r2 unit 1, service tag FLB0001",
    ),
    "tags": ({"tags": ("rack-r2", "profile-b")}, "- tags: profile-a, rack-r1\n+ tags: rack-r2, profile-b"),
    "name": ({"name": "r1-n77"}, "- hostname: r1-n01\n+ hostname: r1-n77"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_every_change_is_shown_written_once_and_then_as_wanted(lab, what):
    change, diff = CHANGES[what]
    first = replace(lab.desired()[0], tags=("rack-r1", "profile-a"))
    with lab.client() as client:
        before = enlist(client, [first])["r1-n01"]
        wanted = replace(first, **change)
        lab.reset_stats()
        checked = enlist(client, [wanted], check=True)[wanted.name]
        assert lab.stats()["writes"] == 0
        result = enlist(client, [wanted])[wanted.name]
        assert result.diff == checked.diff
        assert diff in result.diff
        assert (result.action, result.system_id) == ("adopt" if what == "name" else "update", before.system_id)
        lab.reset_stats()
        assert enlist(client, [wanted])[wanted.name].action == "nothing"
        assert (lab.stats()["reads"], lab.stats()["writes"]) == (1, 0)
        (machine,) = client.machines()
    assert machine["hostname"] == wanted.name and machine["description"].startswith(wanted.description)
    assert set(machine["tag_names"]) == {"firstlight", *wanted.tags}


def test_a_swapped_nic_is_one_write_and_boots(lab):
    one = lab.desired()[0]
    other = "02:0d:0d:0d:0d:01"
    seen = replace(one, hardware_macs=one.macs, service_tag="FLB0001", description="service tag FLB0001")
    before = replace(seen, pxe_mac=other, macs=(other,), hardware_macs=(other,))
    with lab.client() as client:
        system_id = enlist(client, [before])["r1-n01"].system_id
        (machine,) = client.machines()
        link = machine["boot_interface"]["id"]
        result = enlist(client, [seen], check=True)["r1-n01"]
        assert result.diff == f"- nic: {other} (eth0)\n+ nic: {one.pxe_mac} (eth0)"
        lab.reset_stats()
        result = enlist(client, [seen])["r1-n01"]
        assert (result.action, result.system_id, lab.stats()["writes"]) == ("update", system_id, 1)
        (machine,) = client.machines()
        assert (machine["boot_interface"]["id"], machine["boot_interface"]["mac_address"]) == (link, one.pxe_mac)
        lab.reset_stats()
        assert enlist(client, [seen])["r1-n01"].action == "nothing"
        assert lab.stats()["writes"] == 0
        # where MAAS refuses, that is the finding, and no other host's
        taken = client.create("other", ["02:0d:0d:0d:0d:02"], "amd64/generic")
        with pytest.raises(MaasError, match=r"already in use by eth0 .physical. on other") as caught:
            client.set_mac(str(system_id), link, "02:0d:0d:0d:0d:02")
        assert "mac_address" in caught.value.fields
        client.add_nic(taken["system_id"], "02:0d:0d:0d:0d:03")
        assert len(client.machine(taken["system_id"])["interface_set"]) == 2


def test_a_nic_that_maas_will_not_change_now_is_a_finding(lab):
    one = lab.desired()[0]
    other = "02:0d:0d:0d:0d:01"
    seen = replace(one, hardware_macs=one.macs, service_tag="FLB0001", description="service tag FLB0001")
    with lab.client() as client:
        before = enlist(client, [replace(seen, pxe_mac=other, macs=(other,))])["r1-n01"]
        client.commission(str(before.system_id))
        (finding,) = enlist(client, [seen])["r1-n01"].findings
        assert (finding.symptom, finding.action) == ("maas.nic_unknown", "wait")
        nic = client.machine(str(before.system_id))["interface_set"][0]
        with pytest.raises(MaasError, match="because the machine is not New, Ready, Allocated, or Broken") as caught:
            client.set_mac(str(before.system_id), nic["id"], one.pxe_mac)
        assert caught.value.status == 409
        while len(client.machines()) < 2:  # the server boots by a NIC that MAAS does not know: that makes another
            time.sleep(0.1)


def test_a_machine_that_runs_already_is_taken_in_as_it_is(lab):
    one = lab.desired()[0]
    data = {"hostname": "gpu7", "architecture": "amd64", "mac_addresses": one.pxe_mac, "deployed": "true"}
    assert lab.maas("POST", "machines/", data=data | {"power_type": "manual"}).status_code == 200
    with lab.client() as client:
        (finding,) = enlist(client, [one])["r1-n01"].findings
        assert finding.symptom == "maas.foreign" and "enlist_adopt_deployed: true" in finding.evidence
        result = enlist(client, [one], adopt_deployed=True)["r1-n01"]
        assert result.action == "adopt" and "- hostname: gpu7" in result.diff and "- power: manual" in result.diff
        (machine,) = client.machines()
        assert (machine["status_name"], machine["hostname"], machine["power_type"]) == ("Deployed", "r1-n01", "redfish")
        lab.reset_stats()
        assert enlist(client, [one], adopt_deployed=True)["r1-n01"].action == "nothing"
    stats = lab.stats()
    assert (stats["reads"], stats["writes"]) == (1, 0)


def test_killed_and_started_again_in_the_middle(lab):
    """The region goes away while machines are made; the next run makes what is missing, and nothing twice."""
    lab.fault("slow", seconds=0.4)
    desired = lab.desired()
    stop = threading.Timer(1.0, lambda: lab.kill("maas"))
    stop.start()
    with lab.client(pause=lambda seconds: None, timeout=5) as client:
        results = enlist(client, desired)
        stop.join()
        assert {f.symptom for r in results.values() for f in r.findings} <= {"maas.unreachable", "maas.not_tagged"}
        assert any(r.findings for r in results.values())
        lab.start("maas")
        requests.delete(f"{lab.admin}/faults/slow", timeout=10)
        results = enlist(client, desired)
        assert not any(r.findings for r in results.values()), results
        assert sorted(lab.by_name()) == lab.names
        assert len(client.machines()) == len(lab.names)
        assert all(m["tag_names"] == ["firstlight"] for m in client.machines())
        lab.reset_stats()
        assert not any(r.changed for r in enlist(client, desired).values())
    assert lab.stats()["writes"] == 0


def test_writes_are_machines_and_two_for_a_new_tag(lab):
    """One POST a machine, and per tag one to make it and one for all its machines: MAAS has nothing less."""
    desired = [replace(d, tags=(f"rack-{n}", "profile-p", "site-s")) for n, d in enumerate(lab.desired())]
    tags = 3 + len(desired)
    with lab.client() as client:
        for tag in ("firstlight", "profile-p", "site-s", *(f"rack-{n}" for n in range(len(desired)))):
            lab.maas("DELETE", f"tags/{tag}/")
        lab.reset_stats()
        enlist(client, desired)
        assert (lab.stats()["reads"], lab.stats()["writes"]) == (2, len(desired) + 2 * tags)
        for machine in client.machines():
            client.delete_machine(machine["system_id"])
            client.delete_machine(machine["system_id"])  # that it is gone is fine
        lab.reset_stats()
        enlist(client, desired)
        assert (lab.stats()["reads"], lab.stats()["writes"]) == (2, len(desired) + tags)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("how", [{"status": 503}, {"drop": True}, {"status": 504}])
def test_a_lost_answer_makes_no_second_machine(lab, when, how):
    lab.fault("failing", method="POST", op="", count=1, when=when, **how)
    with lab.client(pause=lambda seconds: time.sleep(seconds / 20)) as client:
        results = enlist(client, lab.desired())
    assert not any(r.findings for r in results.values()), results
    assert sorted(lab.by_name()) == lab.names
    with lab.client() as client:
        assert len(client.machines()) == len(lab.names)


def test_conflicts_are_named_and_the_others_go_on(lab):
    one, two, *_ = lab.desired()
    with lab.client() as client:
        stranger = client.create("r1-n01", ["02:ff:00:00:00:01"], "amd64/generic")
        results = enlist(client, lab.desired())
        (finding,) = results["r1-n01"].findings
        assert finding.symptom == "maas.name_conflict"
        assert stranger["system_id"] in finding.evidence and one.pxe_mac in finding.evidence
        assert [n for n, r in results.items() if r.changed] == lab.names[1:]
        # and a MAC that belongs to a machine that is in use under another name
        client.update(results["r1-n02"].system_id, hostname="database7")
        again = enlist(client, [two])
        assert again["r1-n02"].action in ("adopt", "update")


def test_what_maas_refuses_is_a_finding_of_that_machine(lab):
    desired = lab.desired()
    desired[0] = replace(desired[0], zone="hall-9")
    with lab.client() as client:
        results = enlist(client, desired)
    (finding,) = results["r1-n01"].findings
    assert finding.symptom == "maas.refused"
    assert "zone: Select a valid choice" in finding.evidence
    assert [n for n, r in results.items() if r.changed] == lab.names[1:]


# -- the client's errors -------------------------------------------------------------------------------------------


def secrets_in(text: str) -> list[str]:
    return [part for part in [*KEY.split(":"), KEY, PASSWORD] if part in text]


@pytest.mark.parametrize("key", ["wrongconsumer:tokenpart22:secretpart333", "consumerpart1:tokenpart22:wrongsecret9"])
def test_a_wrong_key_is_said_in_one_line_without_the_key(lab, key):
    # MAAS answers a wrong signature with the right one, secret included
    with lab.client(api_key=key) as client, pytest.raises(MaasError) as caught:
        client.machines()
    error = caught.value
    assert (error.kind, error.status, error.no_use) == ("auth_failed", 401, True)
    assert "refuses the API key (HTTP 401)" in str(error) and "\n" not in str(error)
    assert not secrets_in(str(error)) and "wrongsecret9" not in str(error)
    assert lab.stats()["reads"] == 1  # never tried again


def test_a_clock_that_is_behind_is_named(lab, monkeypatch):
    # python-libmaas signs with this
    monkeypatch.setattr("oauthlib.oauth1.rfc5849.generate_timestamp", lambda: str(int(time.time())))
    monkeypatch.setattr("firstlight.maas.transport.time.time", lambda offset=time.time: offset() - 1000)
    with lab.client() as client, pytest.raises(MaasError) as caught:
        client.machines()
    assert caught.value.kind == "clock"
    assert "clock is 1000 s behind MAAS's" in str(caught.value) or "clock is 999 s behind" in str(caught.value)


def test_nobody_listens(lab):
    lab.kill("maas")
    with lab.client(pause=lambda s: None) as client, pytest.raises(MaasError) as caught:
        client.machines()
    assert caught.value.kind == "unreachable"
    assert str(caught.value).endswith("Connection refused")


def test_the_certificate_is_verified(lab, tmp_path):
    with MaasClient(lab.url, KEY, None) as client, pytest.raises(MaasError) as caught:
        client.machines()
    assert caught.value.kind == "tls_failed"
    assert "the system's CAs" in str(caught.value)
    with MaasClient(lab.url, KEY, str(tmp_path / "none.pem")) as client, pytest.raises(InputError, match=r"none\.pem"):
        client.machines()


def test_a_deadline(lab):
    lab.fault("slow", seconds=5)
    began = time.monotonic()
    with lab.client(timeout=0.5, attempts=1) as client, pytest.raises(MaasError) as caught:
        client.machines()
    assert caught.value.kind == "timed_out"
    assert time.monotonic() - began < 3


def test_reads_are_tried_again_and_writes_are_not(lab):
    with lab.client(pause=lambda s: None) as client:
        lab.fault("failing", method="GET", count=2, status=503)
        assert client.machines() == []
        machine = client.create("r1-n01", ["02:ff:00:00:00:01"], "amd64/generic")
        lab.reset_stats()
        lab.fault("failing", method="POST", op="commission", count=1, status=503)
        with pytest.raises(MaasError) as caught:
            client.commission(machine["system_id"])
        assert caught.value.outcome_unknown
    assert lab.stats()["requests"]["POST commission"] == 1


def test_field_errors_are_kept_and_in_the_text(lab):
    with lab.client() as client:
        machine = client.create("r1-n01", ["02:ff:00:00:00:01"], "amd64/generic")
        with pytest.raises(MaasError) as caught:
            client.commission(machine["system_id"]), client.commission(machine["system_id"])
        assert caught.value.status == 400
        assert caught.value.fields["__all__"][0].startswith("Commission is not available")
        assert "Machine.commission: MAAS at" in str(caught.value)


def test_a_taken_mac_gives_the_machine_that_has_it(lab):
    with lab.client() as client:
        first = client.create("r1-n01", ["02:FF:00:00:00:01"], "amd64/generic")
        second = client.create("r1-n09", ["02:ff:00:00:00:01"], "amd64/generic")
        assert first["system_id"] == second["system_id"]
        assert len(client.machines()) == 1


def test_releases_are_never_sent_empty(lab):
    """Some releases of MAAS answer 400 to a release without a body."""
    with lab.client() as client:
        request = client._maker.make("Machine.release", {"system_id": "abc"}, {"comment": "released"})
    assert b'name="comment"' in request.body and request.headers["Content-Type"].startswith("multipart/form-data")
