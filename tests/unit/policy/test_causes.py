"""Findings of one root are one cause, whoever tells them and in which words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight.findings import ACTIONS, STATUSES, Finding
from firstlight.policy.causes import LINKS, UNSEEN, Cause, group, kind_of, part_of


def found(symptom, locator="", action="reseat", status="fail", evidence=""):
    return Finding(symptom.partition(".")[0], status, symptom, locator, evidence, action)


@pytest.mark.parametrize(
    ("symptom", "locator", "cause"),
    [
        ("gpu.missing", "Video.Slot.26-1", Cause("gpu", "video.slot.26")),
        ("gpu.missing", "1 of 8 GPUs", Cause("gpu", "")),
        ("gpu.lost", "GPU 0000:1B:00.0", Cause("gpu", "0000:1b:00")),
        ("xid.79", "GPU 0000:1b:00", Cause("gpu", "0000:1b:00")),
        ("pcie.narrow", "Video.Slot.26-1", Cause("gpu", "video.slot.26")),
        ("pcie.missing", "1 of 8 HCAs", Cause("hca", "")),
        ("pcie.slow", "bridge 0000:16:00.0", Cause("board", "0000:16:00")),
        ("nvme.failed", "Disk.Bay.3:Enclosure.Internal.0-1", Cause("drive", "disk.bay.3")),
        ("disk.read_error", "nvme0n1, serial S4EVNX0", Cause("drive", "serial S4EVNX0")),
        ("zfs.drive_failed", "serial S4EVNX0, nvme-eui.03", Cause("drive", "serial S4EVNX0")),
        ("kernel.disk_error", "sda1", Cause("drive", "sda")),
        ("hca.no_link", "HCA mlx5_3 port 1", Cause("hca", "mlx5_3")),
        ("nic.no_link", "NIC.Embedded.1-1-1", Cause("nic", "nic.embedded.1-1-1")),
        ("bmc.auth_failed", "BMC 10.0.0.1", Cause("bmc", "")),
        ("clock.skew", "BMC", Cause("bmc", "")),
        ("clock.skew", "", Cause("clock", "")),
        ("gpu.driver_mismatch", "", Cause("driver", "")),
        ("psu.redundancy_lost", "System Board PS Redundancy", Cause("psu", "")),
        ("docker.not_running", "docker.service", Cause("docker", "")),
        ("../../etc.x", "y", Cause("other", "")),
    ],
)
def test_kind_and_part(symptom, locator, cause):
    finding = found(symptom, locator)
    assert Cause(kind_of(finding), part_of(finding)) == cause


def test_a_lost_gpu_is_one_cause_with_everything_that_follows_from_it():
    lost = [
        found("gpu.lost", "GPU 0000:1b:00.0", "power_cycle"),
        found("xid.79", "GPU 0000:1b:00", "power_cycle"),
        found("pcie.missing", "1 of 8 GPUs"),
        found("nvlink.inactive", "GPU 0000:43:00.0", "reboot"),
        found("gpu.wrong_link", "GPU 0000:52:00.0 (GPU2)", "reboot"),
        found("dcgm.gpu_missing", "1 of 8 GPUs", "escalate"),
        found("docker.gpu_missing", "", "escalate"),
    ]
    assert group(lost) == {
        Cause("gpu", "0000:1b:00"): sorted(lost, key=lambda f: (-ACTIONS.index(f.action), f.symptom))
    }


def test_what_nvidia_smi_could_not_tell_goes_with_the_gpu_that_is_lost():
    lost = found("gpu.lost", "GPU 0000:1b:00.0", "power_cycle")
    untold = [found(f"{check}.failed", action="power_cycle", status="unknown") for check in ("gpu_memory", "nvlink")]
    hangs = found("nvme_count.timed_out", action="retry", status="unknown")
    groups = group([lost, *untold, hangs])
    assert set(groups) == {Cause("gpu", "0000:1b:00"), Cause(UNSEEN)}
    assert groups[Cause(UNSEEN)] == [hangs]
    assert set(group(untold)) == {Cause(UNSEEN)}


def test_links_without_a_dead_gpu_are_one_cause_of_their_own():
    links = [found("nvlink.inactive", f"GPU 0000:{n}:00.0", "reboot") for n in ("1b", "43", "52")]
    hot = found("gpu.ecc_errors", "GPU 0000:8a:00.0", "reboot")
    assert set(group([*links, hot])) == {Cause("gpu", LINKS), Cause("gpu", "0000:8a:00")}


def test_the_slot_of_the_bmc_and_the_address_of_the_kernel_are_one_dead_part():
    both = [found("gpu.missing", "Video.Slot.26-1"), found("gpu.lost", "GPU 0000:1b:00.0", "power_cycle")]
    assert list(group(both)) == [Cause("gpu", "video.slot.26")]
    # with two dead ones nobody can tell which is which
    assert len(group([*both, found("gpu.lost", "GPU 0000:43:00.0")])) == 3


def test_two_drives_are_two_causes_and_a_drive_and_its_pool_are_one():
    drives = [found("nvme.failed", f"Disk.Bay.{n}:Enclosure.Internal.0-1", "replace") for n in (1, 2)]
    assert len(group(drives)) == 2
    pool = found("zfs.pool_degraded", "data", "escalate")
    assert list(group([drives[0], pool])) == [Cause("drive", "disk.bay.1")]
    assert list(group([pool])) == [Cause("zfs", "")]


def test_what_could_not_be_looked_at_is_no_fault_of_a_part():
    assert kind_of(found("gpu_count.timed_out", status="unknown", action="retry")) == UNSEEN
    assert kind_of(found("gpu.missing", status="unknown", action="reset_bmc")) == UNSEEN


SYMPTOMS = st.sampled_from(
    [
        "gpu.missing",
        "gpu.lost",
        "xid.79",
        "nvlink.inactive",
        "pcie.missing",
        "nvme.failed",
        "zfs.pool_degraded",
        "psu.failed",
        "bmc.busy",
        "psu.redundancy_lost",
        "rdma.no_device",
        "hca.no_link",
        "docker.no_gpu",
        "gpu_count.timed_out",
        "a.b",
    ]
) | st.text(max_size=30)
LOCATORS = st.sampled_from(
    ["", "1 of 8 GPUs", "Video.Slot.26-1", "GPU 0000:1b:00.0", "HCA mlx5_1", "data", "Disk.Bay.1:E"]
) | st.text(max_size=40)
FINDINGS = st.builds(
    Finding,
    check=st.just("c"),
    status=st.sampled_from(STATUSES),
    symptom=SYMPTOMS,
    locator=LOCATORS,
    evidence=st.text(max_size=20),
    action=st.sampled_from(ACTIONS),
)


@given(st.lists(FINDINGS, max_size=12))
def test_each_finding_is_in_exactly_one_group_and_neither_order_nor_evidence_matters(findings):
    grouped = group(findings)
    together = [id(f) for known in grouped.values() for f in known]
    assert sorted(together) == sorted(map(id, findings))
    assert all(grouped.values())
    assert set(group(reversed(findings))) == set(grouped)
    other = [Finding(f.check, f.status, f.symptom, f.locator, "7 instead", f.action) for f in findings]
    assert set(group(other)) == set(grouped)
    assert all(cause.kind.isidentifier() for cause in grouped)
