"""Why a machine did not come: events as MAAS has them, consoles and logs as firmware, kernel and curtin write them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstlight.findings import ACTIONS, EVIDENCE_MAX
from firstlight.maas import machines as m
from firstlight.maas.reasons import (
    INSTALLED,
    KERNEL,
    NETWORK,
    NO,
    NOTHING,
    REASONS,
    RUNNING,
    BmcState,
    Look,
    again,
    boots,
    judge,
    judge_stalled,
    reached,
)

ROOT = Path(__file__).resolve().parents[3]


def machine(status=m.DEPLOYING, **more):
    return {"system_id": "abc123", "hostname": "r1-n01", "status": status, "tag_names": ["firstlight"], **more}


def events(*newest_first):
    return [{"type": t, "description": d, "level": lv} for t, d, lv in newest_first]


BEGAN = ("Deploying", "", "INFO")
ON = ("Node powered on", "", "DEBUG")
PXE = [("Performing PXE boot", "", "INFO"), ("TFTP Request", "bootx64.efi", "DEBUG"), ON, BEGAN]
LOADED = [("Loading ephemeral", "", "INFO"), *PXE]
RUNS = [("Node installation", "'cloudinit' running modules for final", "DEBUG"), *LOADED]
INSTALLS = [("Installing OS", "", "INFO"), ("Configuring storage", "", "INFO"), *RUNS]
BOOTS_AGAIN = [("Rebooting", "", "INFO"), ("Installation complete", "Node disabled netboot", "DEBUG"), *INSTALLS]
FAILED = ("Marking node failed", "Installation failed (refer to the installation log for more information).", "ERROR")

# console, its machine's events, what it means
CONSOLES = [
    ("PXE-E51: No DHCP or proxyDHCP offers were received.\r\nPXE-M0F: Exiting PXE ROM.\r\n", [ON, BEGAN], "no_dhcp"),
    (">>Start PXE over IPv4.\r\n  PXE-E18: Server response timeout.\r\n", [ON, BEGAN], "no_dhcp"),
    (
        "Configuring (net0 52:54:00:12:34:56)...... No configuration methods succeeded (https://ipxe.org/040ee119)\n"
        "No more network devices\n",
        [ON, BEGAN],
        "no_dhcp",
    ),
    ("IP-Config: no response after 60 secs - giving up\n", [ON, BEGAN], "no_dhcp"),
    ("PXE-E61: Media test failure, check cable\r\n", [ON, BEGAN], "no_link"),
    ("net0: Waiting for link-up on net0... Down (https://ipxe.org/38086101)\n", [ON, BEGAN], "no_link"),
    ("\x1b[1;1HPXE-E32: TFTP open timeout\x1b[0m\r\n", PXE, "no_kernel"),
    ("PXE-T01: File not found\r\nPXE-E3B: TFTP Error - File Not found\r\n", PXE, "no_kernel"),
    ("http://10.31.0.2:5248/boot-kernel... Connection timed out (https://ipxe.org/4c0a6092)\n", PXE, "no_kernel"),
    ("error: timeout reading `/images/ubuntu/amd64/ga-24.04/boot-initrd'.\n", PXE, "no_kernel"),
    ("[   12.1] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)\n", PXE, "kernel_panic"),
    (
        "url_helper.py[WARNING]: Calling 'http://10.31.0.2:5248/MAAS/metadata/' failed [401]: Authorization Error: "
        "'Expired timestamp: given 1446087606 and now 1446094822 has a greater difference than threshold 300'\n",
        LOADED,
        "clock",
    ),
    ("E: Release file for http://archive.ubuntu.com/ubuntu/dists/noble/InRelease is not valid yet "
     "(invalid for another 3h 12min 4s).\n", RUNS, "clock"),
    ("x509: certificate has expired or is not yet valid: current time 2019-01-01T00:00:09Z is before "
     "2026-02-01T00:00:00Z\n", RUNS, "clock"),
    ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate is not yet valid (_ssl.c:1006)\n", RUNS,
     "clock"),
    ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate (_ssl.c:1006)\n", RUNS,
     "certificate"),
    ("curl: (60) SSL certificate problem: unable to get local issuer certificate\n", RUNS, "certificate"),
    ("Get \"https://10.31.0.2/\": x509: certificate signed by unknown authority\n", RUNS, "certificate"),
    ("[  130.9] I/O error, dev nvme3n1, sector 2048 op 0x1:(WRITE) flags 0x800 phys_seg 1\n", INSTALLS, "disk_write"),
    ("[  130.9] blk_update_request: critical medium error, dev sda, sector 12345678\n", INSTALLS, "disk_write"),
    ("[  131.0] nvme nvme2: I/O 24 QID 5 timeout, aborting\n[ 161.0] nvme nvme2: I/O 24 QID 5 timeout, reset "
     "controller\n", INSTALLS, "disk_write"),
    ("[   61.0] Out of memory: Killed process 1402 (curtin) total-vm:81920kB, anon-rss:8kB\n", RUNS, "out_of_memory"),
]  # fmt: skip


@pytest.mark.parametrize(("console", "log", "symptom"), CONSOLES)
def test_what_a_console_tells(console, log, symptom):
    finding = judge("deploy", machine(), Look(events(*log), None, console), 45)
    assert finding.symptom == f"install.{symptom}"
    assert "console: " in finding.evidence and "\x1b" not in finding.evidence
    assert finding.action == REASONS[finding.symptom][0]


@pytest.mark.parametrize(
    "console",
    [
        "",
        "[    1.2] blk_update_request: I/O error, dev fd0, sector 0 op 0x0:(READ)\n",  # a floppy that is not there
        "[    2.0] I/O error, dev sr0, sector 0 op 0x0:(READ) flags 0x0\n[    2.0] I/O error, dev loop3, sector 8\n",
        "DataSourceMAAS.py[WARNING]: Setting oauth clockskew for 10.31.0.2 to -2\n",
        "[  OK  ] Started cloud-init.service - Initial cloud-init job\n[ 30.1] cloud-init[1]: Cloud-init v. 24.1\n",
        "Setting up openssl and x509 utilities\nnode login: \n",
        "PXE-E51: No DHCP or proxyDHCP offers were received.\n",  # from the second port, after the first one booted
    ],
)
def test_what_a_console_does_not_tell(console):
    """A machine that runs, with lines that look alarming and are not."""
    assert judge("deploy", machine(), Look(events(*RUNS), None, console), 45).symptom == "install.timed_out"


def test_the_installers_log_comes_before_the_console():
    log = (
        "An error occured handling 'sda': OSError - [Errno 5] Input/output error\n"
        "curtin: Installation failed with exception: [Errno 5] Input/output error\n"
    )
    finding = judge("deploy", machine(m.FAILED_DEPLOYMENT), Look(events(FAILED, *INSTALLS), None, "", log))
    assert finding.symptom == "install.disk_write"
    assert "installation log: curtin: Installation failed with exception: [Errno 5]" in finding.evidence


@pytest.mark.parametrize(
    ("log", "symptom", "text"),
    [
        (
            [FAILED, ("Script result", "/tmp/install.log changed status from 'Running' to 'Failed'", "DEBUG"),
             ("Node installation failure", "'curtin' curtin command install", "ERROR"), *INSTALLS],
            "curtin_failed", "/tmp/install.log changed status",
        ),
        (
            [FAILED, ("Node post-installation failure", "'cloudinit' running modules for final", "ERROR"),
             *BOOTS_AGAIN],
            "cloud_init_failed", "running modules for final",
        ),
        (
            [("Marking node failed", "Node operation 'Deploying' timed out after 30 minutes.", "ERROR"), *BOOTS_AGAIN],
            "no_first_boot", "the installed system has not reported",
        ),
        (
            [("Marking node failed", "Node operation 'Deploying' timed out after 30 minutes.", "ERROR"), *PXE],
            "no_kernel", "loaded no kernel; last: Performing PXE boot",
        ),
        (
            [("Marking node failed", "Node operation 'Deploying' timed out after 30 minutes.", "ERROR"), ON, BEGAN],
            "no_pxe", "no network boot was seen",
        ),
    ],
)  # fmt: skip
def test_what_events_tell(log, symptom, text):
    finding = judge("deploy", machine(m.FAILED_DEPLOYMENT), Look(events(*log)))
    assert finding.symptom == f"install.{symptom}"
    assert text in finding.evidence


def test_a_commissioning_script_that_failed_is_named():
    log = events(
        ("Marking node failed", "1 script failed", "ERROR"),
        ("Script result", "firstlight-disks changed status from 'Running' to 'Timed out'", "DEBUG"),
        ("Gathering information", "", "INFO"),
        ("Performing PXE boot", "", "INFO"),
        ("Commissioning", "", "INFO"),
    )
    finding = judge("commission", machine(m.FAILED_COMMISSIONING), Look(log))
    assert (finding.symptom, again(finding)) == ("install.script_failed", NO)
    assert "firstlight-disks" in finding.evidence


def test_what_the_bmc_tells():
    look = Look(events(ON, BEGAN), BmcState("On", "down", "NIC.Embedded.1-1-1", "OSBootStarted"))
    finding = judge("deploy", machine(), look, 15)
    assert (finding.symptom, finding.locator) == ("install.no_link", "NIC.Embedded.1-1-1")
    look = Look(events(ON, BEGAN), BmcState("Off", "up", "NIC.1", logs=("2026 PSU 2 lost its input",)))
    finding = judge("deploy", machine(), look, 15)
    assert finding.symptom == "install.power_failed"
    assert "its BMC says that it is off" in finding.evidence and "PSU 2 lost its input" in finding.evidence
    look = Look(events(ON, BEGAN), BmcState("On", "up", "NIC.1", "MemoryInitializationStarted"))
    finding = judge("deploy", machine(), look, 15)
    assert finding.symptom == "install.no_pxe" and "firmware at MemoryInitializationStarted" in finding.evidence
    look = Look(events(ON, BEGAN), BmcState(error="bmc.unreachable: no route"))
    assert "bmc.unreachable: no route" in judge("deploy", machine(), look, 15).evidence
    # its state now says nothing of a machine that was booted and has failed since
    look = Look(events(FAILED, *INSTALLS), BmcState("Off", "down", "NIC.1"))
    assert judge("deploy", machine(m.FAILED_DEPLOYMENT), look).symptom == "install.failed"


@pytest.mark.parametrize(
    ("log", "far"),
    [([ON, BEGAN], NOTHING), (PXE, NETWORK), (LOADED, KERNEL), (INSTALLS, RUNNING), (BOOTS_AGAIN, INSTALLED)],
)
def test_how_far_it_came(log, far):
    assert reached("deploy", Look(events(*log))) == far


def test_a_stalled_machine_is_given_up_only_where_waiting_is_in_vain():
    quiet = Look(events(ON, BEGAN))
    assert judge_stalled("deploy", machine(), quiet, 15, None).symptom == "install.no_pxe"
    loading = Look(events(*PXE))
    assert judge_stalled("deploy", machine(), loading, 15, None) is None  # perhaps this very moment
    assert judge_stalled("deploy", machine(), loading, 30, NETWORK).symptom == "install.no_kernel"
    working = Look(events(*INSTALLS))
    assert judge_stalled("deploy", machine(), working, 30, RUNNING) is None  # until its deadline
    panic = Look(events(*INSTALLS), None, "Kernel panic - not syncing: Fatal exception\n")
    assert judge_stalled("deploy", machine(), panic, 15, None).symptom == "install.kernel_panic"
    late = Look(events(*RUNS), None, "'Expired timestamp: given 1 and now 2'\n")
    assert judge_stalled("deploy", machine(), late, 15, KERNEL) is None
    assert judge_stalled("deploy", machine(), late, 30, RUNNING).symptom == "install.clock"


def test_the_list_says_by_itself_that_a_machine_boots():
    assert boots(machine(status_message="Loading ephemeral"))
    assert boots(machine(status_message="Performing PXE boot - "))
    assert not boots(machine(status_message="Deploying"))
    assert not boots(machine())


def test_every_reason_is_complete_and_explained():
    triage, install = (ROOT / "docs" / name for name in ("triage.md", "maas.md"))
    for symptom, (action, how) in REASONS.items():
        assert action in ACTIONS and how in ("retry", "power_cycle", "no")
        assert f"`{symptom}`" in triage.read_text() and f"`{symptom}`" in install.read_text(), symptom
    listed = set(re.findall(r"`(install\.[a-z_]+)`", install.read_text()))
    assert listed >= set(REASONS)


TEXT = st.text(max_size=300) | st.sampled_from([text for text, _log, _symptom in CONSOLES])
VALUE = st.none() | st.integers() | TEXT | st.lists(TEXT, max_size=2)
TYPES = st.sampled_from(["PXE Request", "Deploying", "Script result", "Node installation failure", "Rebooting"])
EVENT = st.dictionaries(st.sampled_from(["type", "description", "level", "created"]), VALUE | TYPES)
FOREIGN = st.builds(
    Look,
    st.lists(EVENT | VALUE, max_size=6),
    st.none() | st.builds(BmcState, TEXT, TEXT, TEXT, TEXT, st.lists(TEXT, max_size=2).map(tuple), TEXT),
    TEXT,
    TEXT,
)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["commission", "deploy", "release", ""]),
    st.dictionaries(st.sampled_from(["status_message", "error_description", "hostname", "system_id"]), VALUE),
    FOREIGN,
    st.none() | st.floats(0, 1e6),
    st.none() | st.integers(0, 4),
)
def test_foreign_text_is_bounded_and_upsets_nothing(phase, known, look, minutes, before):
    given_machine = machine(m.FAILED_DEPLOYMENT) | known
    for finding in (
        judge(phase, given_machine, look, minutes),
        judge_stalled(phase, given_machine, look, minutes or 0, before),
    ):
        if finding is not None:
            assert finding.symptom in REASONS and finding.status == "fail"
            assert len(finding.evidence) <= EVIDENCE_MAX and "\n" not in finding.evidence
            assert finding.evidence.isprintable() and finding.locator.isprintable()


@pytest.mark.parametrize(
    "text", ["a" * 500_000, "TFTP" * 100_000, "\x1b]" * 100_000, "x509" * 90_000, "\x1b[0;" * 90_000]
)
def test_long_text_takes_no_time(text):
    import time

    begun = time.monotonic()
    judge("deploy", machine(), Look(events(*PXE), None, text, text), 45)
    assert time.monotonic() - begun < 2
