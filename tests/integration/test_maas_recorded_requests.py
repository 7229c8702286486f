"""What our client sends is what python-libmaas itself sends, and the simulated region accepts both.

python-libmaas was tried on real regions; its own calls are the record of what MAAS accepts. It runs in a process of its
own: it wants one event loop, and distutils, which since Python 3.12 only setuptools has.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from maas_lab import KEY, Lab

from firstlight.maas.client import MaasClient

NETWORK = 60 + (os.getpid() + 45) % 90

LIBMAAS = """
import json, sys, time
import maas.client

url, key, power = sys.argv[1], sys.stdin.readline().strip(), json.loads(sys.stdin.readline())
client = maas.client.connect(url, apikey=key)
handlers = client._origin
assert client.users.whoami().username == "admin"
client.version.get()

def until(status):
    while True:
        machine = client.machines.list()[0]
        if machine.status_name == status:
            return machine
        time.sleep(0.1)

made = handlers.Machines._handler.create(
    hostname="n1", mac_addresses=power.pop("macs"), architecture="amd64/generic", commission="false",
    description="d", pool="gpu", zone="r1", **power)
handlers.Machines._handler.read(mac_address=["02:00:00:00:01:01"])
machine = client.machines.get(made["system_id"])
handlers.Machine._handler.update(system_id=machine.system_id, hostname="n2", description="e", **power)
client.tags.list()
tag = client.tags.create("firstlight", comment="c")
machine.tags.add(tag)
machine.tags.remove(tag)
machine.tags.add(tag)
machine.commission(testing_scripts=[])
machine = until("Ready")
machine.query_power_state()
disk = handlers.BlockDevices.read(machine)[0]
disk.set_as_boot_disk()
handlers.Machine._handler.set_storage_layout(
    system_id=machine.system_id, storage_layout="flat", root_device=str(disk.id))
machine.deploy(distro_series="bookworm", user_data=b"#cloud-config", comment="c")
machine.abort(comment="c")
machine = until("Allocated")
machine.release(comment="c")
machine = until("Ready")
machine.deploy(distro_series="bookworm", user_data=b"#cloud-config", comment="c")
machine = until("Deployed")
machine.mark_broken(comment="c")
machine.mark_fixed(comment="c")
machine.power_off(comment="c")
time.sleep(0.5)
machine.power_on(comment="c")
time.sleep(0.5)
machine.release(comment="c", erase=True, quick_erase=True)
machine = until("Ready")
machine.deploy(distro_series="bookworm")
machine = until("Deployed")
machine.release()
machine = until("Ready")
client.events.query(system_ids=[machine.system_id], level="DEBUG", limit=100)
machine.delete()
print("all of it")
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    lab = Lab(tmp_path_factory.mktemp("maas-lab"), NETWORK, machines=1)
    yield lab
    lab.stop()


Key = tuple[str, str, str]


def recorded(lab: Lab) -> dict[Key, set[tuple[str, ...]]]:
    """By method, path and op, the names of the fields that were sent; every request was accepted."""
    found: dict[Key, set[tuple[str, ...]]] = {}
    for request in lab.admin("GET", "/stats").json()["last"]:
        path = re.sub(
            r"(machines|nodes|blockdevices)/[a-z0-9]+/", r"\1/X/", request["path"].removeprefix("/MAAS/api/2.0")
        )
        if path in ("/describe/", "/version/"):
            continue
        assert 200 <= request["status"] < 300, request
        if request["method"] in ("POST", "PUT", "DELETE"):
            assert request["type"] == "multipart/form-data", request
        key = request["method"], path, request["op"]
        found.setdefault(key, set()).add(tuple(sorted(request["fields"])))
    return found


def power(lab: Lab) -> dict[str, Any]:
    return {**lab.power("n1"), "macs": [lab.bmcs.mac("n1"), "02:00:00:00:02:01"]}


@pytest.fixture(scope="module")
def theirs(lab: Lab) -> dict[Key, set[tuple[str, ...]]]:
    lab.forget_all()
    lab.admin("POST", "/stats/reset")
    done = subprocess.run(
        [sys.executable, "-c", LIBMAAS, lab.url],
        input=f"{KEY}\n{json.dumps(power(lab))}\n",
        env={**os.environ, "SSL_CERT_FILE": str(lab.ca), "USER": "tester"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "all of it\n"), done.stderr[-3000:]
    return recorded(lab)


@pytest.fixture(scope="module")
def ours(lab: Lab, theirs: Any) -> dict[Key, set[tuple[str, ...]]]:
    """The same story through our client."""
    lab.forget_all()
    lab.raw("DELETE", "tags/firstlight/")
    lab.admin("POST", "/stats/reset")
    parameters = power(lab)
    macs = parameters.pop("macs")
    with MaasClient(lab.url, KEY, str(lab.ca)) as client:

        def until(status: str) -> None:
            lab.wait(system_id, status)

        def until_power(state: str) -> None:
            end = time.monotonic() + 10
            while lab.machine(system_id)["power_state"] != state:
                assert time.monotonic() < end
                time.sleep(0.05)

        assert client.whoami()["username"] == "admin"
        client.machines()
        made = client.create("n1", macs, "amd64/generic", parameters, description="d", pool="gpu", zone="r1")
        system_id = made["system_id"]
        client.machines(mac_address=[macs[0].upper()])
        client.machine(system_id)
        client.update(system_id, hostname="n2", description="e", **parameters)
        client.tags()
        client.ensure_tag("firstlight", "c")
        client.tag_machines("firstlight", [system_id])
        client.tag_machines("firstlight", [], [system_id])
        client.tag_machines("firstlight", [system_id])
        client.commission(system_id, "none")
        until("Ready")
        client.power_state(system_id)
        disks = client.block_devices(system_id)
        client.set_os_disk(system_id, disks[0]["id"], False)
        user_data = "I2Nsb3VkLWNvbmZpZw=="
        client.deploy(system_id, "bookworm", user_data, comment="c")
        client.abort(system_id, "c")
        until("Allocated")
        client.release(system_id, "c")
        until("Ready")
        client.deploy(system_id, "bookworm", user_data, comment="c")
        until("Deployed")
        client.power_off(system_id, "c")
        until_power("off")
        client.power_on(system_id, "c")
        until_power("on")
        client.release(system_id, "c", quick_erase=True)
        until("Ready")
        client.events(system_id)
        client.delete_machine(system_id)
    return recorded(lab)


# Both are in the OpenAPI files of 3.4 and 3.7 as optional; python-libmaas has no argument for the one, and always sends
# the other.
OURS_ALONE = {"commission": {"skip_bmc_config"}}
THEIRS_ALONE = {"power_off": {"stop_mode"}}


def _alike(op: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """The fields of a request of ours as theirs would have them."""
    kept = [name for name in names if name not in OURS_ALONE.get(op, ())]
    return tuple(sorted([*kept, *THEIRS_ALONE.get(op, ())]))


def test_ours_are_theirs(ours: dict[Key, set[tuple[str, ...]]], theirs: dict[Key, set[tuple[str, ...]]]) -> None:
    assert set(ours) <= set(theirs), set(ours) - set(theirs)
    differ = {
        key: found - theirs[key]
        for key, fields in ours.items()
        if (found := {_alike(key[2], names) for names in fields}) - theirs[key]
    }
    assert differ == {}, theirs


def test_what_was_compared(ours: dict[Key, set[tuple[str, ...]]]) -> None:
    """A story that lost its steps would agree with anything."""
    assert {op for method, path, op in ours if path == "/machines/X/" and method == "POST"} == {
        "commission", "deploy", "abort", "release", "power_on", "power_off", "set_storage_layout",
    }  # fmt: skip
    create = ours["POST", "/machines/", ""]
    assert create == {
        (
            "architecture", "commission", "description", "hostname", "mac_addresses", "mac_addresses", "pool",
            "power_parameters_power_address", "power_parameters_power_pass", "power_parameters_power_user",
            "power_type", "zone",
        )
    }  # fmt: skip
    assert ours["POST", "/machines/X/", "release"] == {("comment",), ("comment", "erase", "quick_erase")}
    assert ours["POST", "/tags/firstlight/", "update_nodes"] == {("add",), ("remove",)}
    assert ours["DELETE", "/machines/X/", ""] == {()}


def test_an_empty_release_is_accepted_and_never_ours(
    ours: dict[Key, set[tuple[str, ...]]], theirs: dict[Key, set[tuple[str, ...]]]
) -> None:
    """Some releases of MAAS answer 400 to a release without a field."""
    assert () in theirs["POST", "/machines/X/", "release"]
    assert () not in ours["POST", "/machines/X/", "release"]
