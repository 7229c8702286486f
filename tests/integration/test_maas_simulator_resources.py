"""The MAAS simulator's interfaces, tags, events and small lists, its counters and faults; python-libmaas unchanged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest
import requests
from maas_lab import KEY, PASSWORD, Lab, lab_fixture, running_fixture  # noqa: F401

# -- tags, events and the rest ------------------------------------------------------------------------------------


def test_interfaces(lab: Lab) -> None:
    """As maasserver/api/interfaces.py of 3.4 to 3.7 has it; what was not seen on a region is marked in the README."""
    system_id = lab.create("n1").json()["system_id"]
    other = lab.create("n2").json()
    path, wrong = f"nodes/{system_id}/interfaces/", "because the machine is not New, Ready, Allocated, or Broken."
    (first,) = lab.get(path)
    answer = lab.post(path, "create_physical", mac_address="02-00-00-00-0A-01")
    assert (answer.status_code, answer.json()["mac_address"]) == (200, "02:00:00:00:0a:01")
    second = answer.json()
    assert second["links"] == [] and second["name"] != first["name"]
    for data, status, text in (
        ({}, 400, "This field is required."),
        ({"mac_address": "x"}, 400, "is not a valid MAC address"),
        ({"mac_address": "02:00:00:00:0a:01"}, 400, "This MAC address is already in use by eth1 (physical) on n1."),
        ({"mac_address": lab.bmcs.mac("n2")}, 400, "already in use by eth0 (physical) on n2."),
        ({"mac_address": "02:00:00:00:0a:02", "name": "eth0"}, 400, "already has an interface named"),
    ):
        answer = lab.post(path, "create_physical", **data)
        assert (answer.status_code, text in answer.text) == (status, True), answer.text
    answer = lab.raw("PUT", f"{path}{first['id']}/", data={"mac_address": "02:00:00:00:0a:03"})
    assert (answer.status_code, answer.json()["id"]) == (200, first["id"])
    assert lab.machine(system_id)["boot_interface"]["mac_address"] == "02:00:00:00:0a:03"
    assert lab.raw("PUT", f"{path}{first['id']}/", data={"mac_address": lab.bmcs.mac("n2")}).status_code == 400
    assert lab.raw("PUT", f"{path}{other['interface_set'][0]['id']}/", data={"name": "x"}).status_code == 404
    answer = lab.raw("DELETE", f"{path}{first['id']}/")
    assert (answer.status_code, answer.text) == (204, "")
    assert lab.raw("DELETE", f"{path}{first['id']}/").status_code == 404
    assert lab.machine(system_id)["boot_interface"]["id"] == second["id"]
    lab.bmcs.no_network.add("n1")
    lab.op(system_id, "commission")
    for method, where, op in (
        ("POST", path, "create_physical"),
        ("PUT", f"{path}{second['id']}/", ""),
        ("DELETE", f"{path}{second['id']}/", ""),
    ):
        answer = lab.raw(method, where, params={"op": op} if op else None, data={"mac_address": "02:00:00:00:0a:09"})
        assert (answer.status_code, wrong in answer.text) == (409, True), answer.text


def test_a_nic_of_a_deployed_machine_may_change_its_mac_alone(lab: Lab) -> None:
    machine = lab.ready("n1")
    lab.op(machine["system_id"], "deploy")
    lab.wait(machine["system_id"], "Deployed")
    path = f"nodes/{machine['system_id']}/interfaces/"
    nic = lab.get(path)[0]
    assert lab.raw("PUT", f"{path}{nic['id']}/", data={"mac_address": "02:00:00:00:0a:03"}).status_code == 200
    assert lab.get(path)[0]["links"] == nic["links"]
    assert lab.post(path, "create_physical", mac_address="02:00:00:00:0a:04").status_code == 409
    assert lab.raw("DELETE", f"{path}{nic['id']}/").status_code == 409
    lab.op(machine["system_id"], "lock")
    assert lab.raw("PUT", f"{path}{nic['id']}/", data={"mac_address": "02:00:00:00:0a:05"}).status_code == 403
    assert lab.raw("DELETE", f"machines/{machine['system_id']}/").status_code == 403


def test_the_nic_that_boots_is_the_boot_interface(lab: Lab) -> None:
    data = {"mac_addresses": ["02:00:00:00:0a:01", lab.bmcs.mac("n1")]}
    machine = lab.create("n1", **data).json()
    assert machine["boot_interface"]["mac_address"] == "02:00:00:00:0a:01"
    lab.op(machine["system_id"], "commission")
    machine = lab.wait(machine["system_id"], "Ready")
    assert machine["boot_interface"]["mac_address"] == lab.bmcs.mac("n1")
    assert machine["boot_interface"]["links"]


def test_tags(lab: Lab) -> None:
    system_id = lab.create("n1").json()["system_id"]
    assert lab.post("tags/", name="ready", comment="for jobs").status_code == 200
    assert lab.post("tags/", name="ready").status_code == 400
    answer = lab.post("tags/ready/", "update_nodes", add=[system_id, "zzzzzz"])
    assert (answer.status_code, answer.json()) == (200, {"added": 1, "removed": 0})
    assert lab.machine(system_id)["tag_names"] == ["ready"]
    assert "ready" in [tag["name"] for tag in lab.get("tags/")]
    assert lab.post("tags/ready/", "update_nodes", remove=system_id).json() == {"added": 0, "removed": 1}
    assert lab.post("tags/other/", "update_nodes", add=system_id).status_code == 404
    assert lab.raw("DELETE", "tags/ready/").status_code == 204


def test_events_are_paged_newest_first(lab: Lab) -> None:
    system_id = lab.ready("n1")["system_id"]
    page = lab.get("events/", op="query", id=system_id, level="DEBUG", limit=3)
    ids = [event["id"] for event in page["events"]]
    assert (page["count"], ids) == (3, sorted(ids, reverse=True))
    older = lab.raw("GET", page["prev_uri"].removeprefix("/MAAS/api/2.0/") + f"&id={system_id}").json()["events"]
    assert older
    assert older[0]["id"] < ids[-1]
    newer = lab.get("events/", op="query", hostname="n1", level="DEBUG", after=ids[-1])["events"]
    assert [event["id"] for event in newer] == ids[:-1]
    assert {event["level"] for event in lab.get("events/", op="query", level="WARNING", id=system_id)["events"]} <= {
        "WARNING",
        "ERROR",
    }
    assert lab.raw("GET", "events/", params={"op": "query", "limit": 5000}).status_code == 400


def test_the_small_resources(lab: Lab) -> None:
    assert lab.raw("GET", "version/", "").json()["version"] == "3.7.3"
    assert [zone["name"] for zone in lab.get("zones/")] == ["default", "r1", "r2"]
    assert [pool["name"] for pool in lab.get("resourcepools/")] == ["default", "gpu"]
    assert [domain["name"] for domain in lab.get("domains/")] == ["maas"]
    images = {(image["name"], image["architecture"]) for image in lab.get("boot-resources/")}
    ubuntu = {("ubuntu/jammy", "amd64/ga-22.04"), ("ubuntu/jammy", "amd64/hwe-22.04")}
    assert images == {*ubuntu, ("custom/bookworm", "amd64/generic")}
    assert lab.get("users/", op="whoami")["is_superuser"] is True
    assert lab.post("zones/", name="r1").status_code == 400
    description = lab.raw("GET", "describe/", "").json()
    assert all(resource["auth"]["uri"].startswith(lab.url) for resource in description["resources"])


def test_statistics_and_faults(lab: Lab) -> None:
    lab.admin("POST", "/stats/reset")
    system_id = lab.create("n1").json()["system_id"]
    fault = {"status": 502, "when": "after", "op": "mark_broken"}
    lab.admin("PUT", "/faults/failing", fault)
    assert lab.op(system_id, "mark_broken", comment="x").status_code == 502
    assert lab.machine(system_id)["status_name"] == "Broken", "the answer was lost, not the work"
    lab.admin("PUT", "/faults/failing", {"drop": True, "method": "GET"})
    with pytest.raises(requests.ConnectionError):
        lab.raw("GET", "zones/")
    lab.admin("PUT", "/faults/slow", {"seconds": 0.3})
    start = time.monotonic()
    lab.get("zones/")
    assert time.monotonic() - start > 0.3
    stats = lab.admin("GET", "/stats").json()
    assert (stats["writes"], stats["requests"]["POST mark_broken"]) == (2, 1)
    assert (
        stats["last"][1].items()
        >= {
            "method": "POST",
            "path": f"/MAAS/api/2.0/machines/{system_id}/",
            "op": "mark_broken",
            "status": 502,
        }.items()
    )
    assert PASSWORD not in json.dumps(stats)
    assert lab.admin("PUT", "/faults/magic").status_code == 404
    assert lab.admin("POST", "/pxe", {"mac": "zz"}).status_code == 400


# -- python-libmaas -----------------------------------------------------------------------------------------------


LIBMAAS = """
import json, sys
import maas.client
from maas.client.bones import CallError
from maas.client.enum import NodeStatus
from maas.client.viscera.machines import MachineNotFound

url, key, power = sys.argv[1], sys.stdin.readline().strip(), json.loads(sys.stdin.readline())
login = json.loads(sys.stdin.readline())
client = maas.client.login(url, **login)
assert client.users.whoami().username == "admin"
client = maas.client.connect(url, apikey=key)
assert client.users.whoami().is_admin
assert client.version.get().version == "3.7.3"
machine = client.machines.create("amd64", [power.pop("mac")], "redfish", power, hostname="lib1")
assert machine.status == NodeStatus.COMMISSIONING
while machine.status == NodeStatus.COMMISSIONING:
    machine = client.machines.get(machine.system_id)
assert machine.status == NodeStatus.READY, machine.status
machine.commission(testing_scripts=[], wait=True, wait_interval=0.1)
assert [m.hostname for m in client.machines.list()] == ["lib1"]
assert [m.hostname for m in client.machines.list(hostnames=["nobody"])] == []
assert client._origin.Machines._handler.read(mac_address=["02:00:00:00:01:05"])[0]["hostname"] == "lib1"
disk = machine.block_devices.get_by_name("sda")
disk.set_as_boot_disk()
tag = client.tags.create("rack-r1")
machine.tags.add(tag)
machine.zone = client.zones.get("r2")
machine.save()
assert client.machines.get(machine.system_id).zone.name == "r2"
assert client.machines.allocate(hostname="lib1").system_id == machine.system_id
try:
    client.machines.allocate(hostname="lib1")
except MachineNotFound:
    pass
else:
    raise AssertionError("allocated twice")
machine.deploy(distro_series="bookworm", user_data=b"#cloud-config", wait=True, wait_interval=0.1)
assert machine.status == NodeStatus.DEPLOYED
assert machine.query_power_state().value == "on"
machine.lock(comment="mine")
try:
    machine.release(comment="no")
except CallError as error:
    assert error.status == 403
machine.unlock(comment="free")
machine.mark_broken(comment="broken")
machine.mark_fixed(comment="fixed")
assert machine.status == NodeStatus.DEPLOYED
machine.release(comment="done", wait=True, wait_interval=0.1)
assert machine.status == NodeStatus.READY
events = client.events.query(system_ids=[machine.system_id], limit=200)
assert "Deployed" in {event.event_type for event in events}
assert [pool.name for pool in client.resource_pools.list()] == ["default", "gpu"]
assert {image.name for image in client.boot_resources.list()} == {"ubuntu/jammy", "custom/bookworm"}
handler = client._origin.Machines._handler
more = handler.create(commission="false", architecture="amd64", mac_addresses=["02:00:00:00:09:09"], pool="gpu")
assert more["status"] == 0
machine.delete()
print("all of it")
"""


def test_python_libmaas_unchanged(lab: Lab) -> None:
    fields = lab.power("n5")
    power = {key.removeprefix("power_parameters_"): value for key, value in fields.items() if key != "power_type"}
    power["mac"] = lab.bmcs.mac("n5")
    login = {"username": "admin", "password": "maas-password-01"}
    done = subprocess.run(
        [sys.executable, "-c", LIBMAAS, lab.url],
        input="\n".join((KEY, json.dumps(power), json.dumps(login))),
        env={**os.environ, "SSL_CERT_FILE": str(lab.ca), "USER": "tester"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "all of it\n"), done.stderr[-3000:]
