"""The commissioning script, the layout and the clocks, through the real client against the simulated MAAS."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from maas_product_lab import ProductLab

from firstlight.maas.client import MaasClient, MaasError
from firstlight.maas.commissioning import (
    BLANK,
    HEAD_BYTES,
    SCRIPT,
    commissioned,
    ensure_script,
    parse,
    read_results,
    script_text,
)
from firstlight.maas.disks import choose_os_disk, wrong_layout
from firstlight.maas.enlist import enlist
from firstlight.maas.install import install
from firstlight.maas.machines import disks_of
from simulators import disk_heads

NAME = "r1-n01"


@pytest.fixture(scope="module")
def running_lab(tmp_path_factory) -> Iterator[ProductLab]:
    lab = ProductLab(tmp_path_factory.mktemp("lab"), machines=2)
    yield lab
    lab.stop()


@pytest.fixture
def lab(running_lab) -> ProductLab:
    return running_lab.fresh()


def enlisted(lab: ProductLab) -> dict[str, str]:
    with lab.client() as client:
        results = enlist(client, [d for d in lab.desired() if d.name == NAME])
    return {name: str(r.system_id) for name, r in results.items()}


def wait_for(lab: ProductLab, system_id: str, status: str) -> None:
    deadline = time.monotonic() + 30
    with lab.client() as client:
        while client.machine(system_id)["status_name"] != status:
            assert time.monotonic() < deadline, client.machine(system_id)["status_name"]
            time.sleep(0.1)


def commission(lab: ProductLab, system_id: str) -> None:
    with lab.client() as client:
        client.commission(system_id)
    wait_for(lab, system_id, "Ready")


def test_the_script_is_uploaded_once_and_again_when_it_changes(lab, monkeypatch):
    with lab.client() as client:
        ensure_script(client)  # an earlier test may have done it
        client.reads = client.writes = 0
        assert ensure_script(client) is False
        assert (client.reads, client.writes) == (1, 0)
        monkeypatch.setattr("firstlight.maas.commissioning.script_text", lambda: script_text() + "# newer\n")
        assert ensure_script(client) is True
        assert ensure_script(client) is False
        stored = client.script(SCRIPT)
        assert (stored["type"], stored["timeout"], stored["tags"]) == (0, "0:10:00", ["firstlight"])
        assert len(stored["history"]) >= 2
        assert client.script("no-such-script") is None
        monkeypatch.undo()
        assert ensure_script(client) is True


def test_a_script_that_another_run_has_uploaded_meanwhile_is_no_error(lab):
    """Two shards look, see that there is none, and both make it."""
    with lab.client() as client:
        for text in ("#!/bin/sh\n# of the first\n", "#!/bin/sh\n# of the second\n"):
            client.upload_script("firstlight-test-race", text, is_new=True, type="commissioning")
        stored = client.script("firstlight-test-race")
        assert stored is not None
        assert b"of the second" in base64.b64decode(stored["history"][0]["data"])
        with pytest.raises(MaasError) as refused:  # what MAAS does not take is told as before
            client.upload_script("firstlight test", "no interpreter", is_new=True, type="commissioning")
        assert refused.value.status == 400


def test_the_disks_as_they_were_before_the_installation(lab):
    (system_id,) = enlisted(lab).values()
    lab.bmc_fault(NAME, "data_drive_used")
    with lab.client() as client:
        ensure_script(client)
        assert read_results(client, system_id) is None  # it was never commissioned
        commission(lab, system_id)
        results = read_results(client, system_id)
        disks = disks_of(client.machine(system_id))
    assert results is not None
    by_serial = results.by_serial()
    assert set(by_serial) == {d["serial"] for d in disks}
    used = lab.hardware(NAME).drives[1].serial
    assert [s for s, disk in by_serial.items() if not disk["blank"]] == [used]
    assert all(disk["sha256"] == BLANK for s, disk in by_serial.items() if s != used)
    assert abs(results.clock - time.time()) < 60


def test_after_a_deployment_what_was_seen_before_counts_no_more(lab):
    ids = enlisted(lab)
    system_id = ids[NAME]
    with lab.client() as client:
        ensure_script(client)
        done = install(client, [w for w in lab.wanted(ids) if w.name == NAME], lab.options(), commissioned=commissioned)
        assert done[NAME].status == "deployed"
        assert len(done[NAME].disks_before) == 9
        assert done[NAME].os_disk["serial"] not in {d.serial for d in lab.hardware(NAME).drives}
        assert read_results(client, system_id) is None
        assert read_results(client, system_id, installations=1) is not None
        client.release(system_id)
        wait_for(lab, system_id, "Ready")
        assert read_results(client, system_id) is None
        commission(lab, system_id)
        root = read_results(client, system_id).by_serial()[done[NAME].os_disk["serial"]]
        assert not root["blank"]


def test_a_layout_with_root_elsewhere_is_seen(lab):
    (system_id,) = enlisted(lab).values()
    commission(lab, system_id)
    with lab.client() as client:
        (wanted,) = (w for w in lab.wanted({NAME: system_id}))
        machine = client.machine(system_id)
        disk = choose_os_disk(disks_of(machine), wanted.os_disk, NAME)
        other = next(d for d in disks_of(machine) if d["id"] != disk["id"])
        client.set_os_disk(system_id, other["id"], False)
        assert wrong_layout(client.machine(system_id), disk, NAME).symptom == "install.wrong_layout"
        # the boot disk alone does not move the root file system
        client.call("BlockDevice.set_boot_disk", {"system_id": system_id, "id": disk["id"]})
        said = wrong_layout(client.machine(system_id), disk, NAME).evidence
        assert "its root file system is not there" in said
        client.set_os_disk(system_id, disk["id"], True)
        assert wrong_layout(client.machine(system_id), disk, NAME) is None


def test_a_machine_whose_layout_reads_back_wrong_is_not_deployed(lab, monkeypatch):
    ids = enlisted(lab)
    commission(lab, ids[NAME])
    data = {drive.serial for drive in lab.hardware(NAME).drives}
    real = MaasClient.set_os_disk

    def elsewhere(client, system_id, device_id, is_boot_disk):
        """A MAAS that takes the request and plans something else."""
        other = next(d for d in disks_of(client.machine(system_id)) if d["serial"] in data)
        return real(client, system_id, other["id"], False)

    monkeypatch.setattr(MaasClient, "set_os_disk", elsewhere)
    with lab.client() as client:
        lab.reset_stats()
        done = install(client, lab.wanted(ids), lab.options())
        assert [f.symptom for f in done[NAME].findings] == ["install.wrong_layout"]
        assert "would be written too" in done[NAME].findings[0].evidence
        assert "POST deploy" not in lab.stats()["requests"]
        assert client.machine(ids[NAME])["status_name"] == "Ready"


def test_a_clock_that_is_off_is_told_at_commissioning(lab):
    ids = enlisted(lab)
    lab.bmc_fault(NAME, "clock_wrong")  # a year behind
    with lab.client() as client:
        ensure_script(client)
        commission(lab, ids[NAME])
        (wanted,) = lab.wanted(ids)
        known = commissioned(client, wanted, client.machine(ids[NAME]), bmc_skew=-31536000.0)
        assert abs(client.clock.skew) <= 2 + client.clock.uncertainty
    (finding,) = known.findings
    assert (finding.symptom, finding.status, finding.locator) == ("clock.skew", "warn", "host")
    assert "behind MAAS's clock at commissioning" in finding.evidence
    assert "its BMC's clock, with which it starts, is 3153" in finding.evidence


@pytest.mark.parametrize("shell", [["sh"], ["busybox", "sh"]])
def test_the_simulated_output_is_that_of_the_script(lab, tmp_path: Path, shell: list[str]):
    """The simulator works its output out; here the script itself runs, on a tree of files with the same disks."""
    if shutil.which(shell[0]) is None:
        pytest.skip(f"no {shell[0]} here")
    (system_id,) = enlisted(lab).values()
    lab.bmc_fault(NAME, "data_drive_used")
    with lab.client() as client:
        ensure_script(client)
        commission(lab, system_id)
        simulated = read_results(client, system_id)
        disks = disks_of(client.machine(system_id))
    used = lab.hardware(NAME).drives[1].serial
    (tmp_path / "dev").mkdir()
    for disk in disks:
        block = tmp_path / "sys" / "block" / disk["name"]
        (block / "device").mkdir(parents=True)
        (block / "size").write_text(f"{disk['size'] // 512}\n")
        (block / "device" / "serial").write_text(f"{disk['serial']}   \n")
        (block / "device" / "model").write_text(f" {disk['model']}\n")
        state = {"faults": ["data_drive_used"]}
        heads = disk_heads.heads(state, [{"number": 1, "serial": used}])
        content = heads.get(disk["serial"], b"\0" * HEAD_BYTES) + b"more"
        (tmp_path / "dev" / disk["name"]).write_bytes(content)
    environment = {
        **os.environ,
        "FIRSTLIGHT_SYS": str(tmp_path / "sys"),
        "FIRSTLIGHT_DEV": str(tmp_path / "dev"),
    }
    ran = subprocess.run(
        [*shell, "-c", script_text()], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stderr == ""
    real = parse(ran.stdout)
    assert real is not None
    assert real.by_serial() == simulated.by_serial()
    assert hashlib.sha256(bytes(HEAD_BYTES)).hexdigest() == BLANK
