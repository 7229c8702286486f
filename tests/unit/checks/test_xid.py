"""Xids and SXids: every form of the lines, what is made of them, and what must not break the parser."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstlight.checks import xid
from firstlight.checks.kernel_log_lines import parse as parse_lines
from firstlight.findings import ACTIONS, STATUSES, Finding

FOLDER = Path(__file__).parents[2] / "fixtures" / "kernel_log"


def events(text: str) -> list[xid.Event]:
    return xid.parse(line.text for line in parse_lines(text, words=xid.WORDS))[0]


def judged(text: str) -> list[Finding]:
    return xid.judge("kernel_xid", [events(text)])


def brief(findings: Iterable[Finding]) -> list[tuple[str, str, str, str]]:
    return [(f.status, f.symptom, f.locator, f.action) for f in findings]


def test_every_form_of_an_xid() -> None:
    findings = judged((FOLDER / "xid.forms.txt").read_text())

    assert brief(findings) == [
        ("fail", "xid.62", "GPU 0000:0005:00", "reboot"),
        ("fail", "xid.79", "GPU 0000:18:00", "power_cycle"),
        ("fail", "xid.79", "GPU 0000:29:00", "power_cycle"),
        ("fail", "xid.79", "GPU 0000:2a:00", "power_cycle"),
        ("fail", "xid.31337", "GPU 0000:2b:00", "escalate"),
        ("warn", "xid.31", "GPU 0000:3b:00", "none"),
        ("warn", "xid.94", "GPU 0000:4d:00 gpu-i:05", "none"),
        ("warn", "xid.13", "GPU 0000:4d:00 gpu-i:05 gpu-ci:02", "none"),
        ("fail", "xid.48", "GPU 0000:5d:00", "reboot"),
        ("warn", "xid.69", "GPU 0000:5d:00", "none"),
        ("fail", "xid.154", "GPU 0008:01:00", "reboot"),
    ]
    said = {f.symptom + f.locator[3:]: f.evidence for f in findings}
    assert "2 times" in said["xid.31 0000:3b:00"]
    assert "usually application" in said["xid.31 0000:3b:00"]
    assert "times" not in said["xid.79 0000:2a:00"], "the GPU was lost once, however often that is said"
    assert "reboot the host" in said["xid.154 0008:01:00"], "the last advice counts"
    assert "in no catalogue" in said["xid.31337 0000:2b:00"]


def test_the_decoded_forms_of_nvlink() -> None:
    findings = judged((FOLDER / "xid.nvlink.txt").read_text())

    assert brief(findings) == [
        ("warn", "xid.145", "GPU 0018:01:00", "none"),
        ("fail", "xid.149", "GPU 0018:01:00", "reboot"),
        # a corrected 144 is nothing; of two bits at once the worse one counts; a new unit is what it calls itself
        ("warn", "xid.145", "GPU 0019:01:00", "none"),
        ("fail", "xid.146", "GPU 0019:01:00", "reboot"),
        ("fail", "xid.149", "GPU 001a:01:00", "reboot"),
        ("fail", "xid.149", "GPU 001b:01:00", "escalate"),
        ("warn", "xid.149", "GPU 001c:01:00", "none"),
        ("fail", "xid.150", "GPU 001d:01:00", "reboot"),
        # and one that fails of each of the others
        *[("fail", f"xid.{number}", "GPU 001e:01:00", "reboot") for number in (144, 145, 147, 148)],
    ]
    assert "caused at its other end (usually hardware; 2 times; links 1, 14)" in findings[1].evidence
    assert "SAW_NEW" in findings[2].evidence


def test_switches() -> None:
    findings = judged((FOLDER / "sxid.txt").read_text())

    assert brief(findings) == [
        ("warn", "sxid.10004", "NVSwitch 2 0000:0b:00", "escalate"),
        ("warn", "sxid.20001", "NVSwitch 2 0000:0b:00", "none"),
        ("warn", "sxid.12028", "NVSwitch 3 0000:05:00", "none"),
        ("fail", "sxid.20034", "NVSwitch 0 0000:a9:00", "reboot"),
        (
            "fail",
            "sxid.19049",
            "NVSwitch 1 0000:0a:00",
            "reboot",
        ),  # corrected by the catalogue, but the line says Fatal
        ("fail", "sxid.20012", "NVSwitch 2 0000:0b:00", "reboot"),  # only its details are left in the log
        ("fail", "sxid.26006", "NVSwitch 2 0000:0b:00", "reboot"),
        ("fail", "sxid.77777", "NVSwitch 2 0000:0b:00", "escalate"),
    ]
    assert "2 times; links 30, 31" in findings[3].evidence, "lines with details are no events of their own"
    assert "times" not in findings[2].evidence


def test_details_alone_say_how_bad_it_was() -> None:
    line = "nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, "

    assert brief(judged(line + "Severity 0 Engine instance 1")) == [
        ("warn", "sxid.20034", "NVSwitch 0 0000:a9:00", "none")
    ]
    assert brief(judged(line + "Severity 1 Engine instance 1"))[0][0] == "fail"
    assert judged(line + "Data {0x50610002, 0x10100030}") == []


@pytest.mark.parametrize(
    ("said", "want"),
    [
        ("94, pid=1, name=x, Contained: LTC (0x9). RST: No, D-RST: No", ("warn", "none")),
        ("94, pid=1, name=x, Contained: LTC (0x9). RST: No, D-RST: Yes", ("fail", "reboot")),
        ("94, pid=1, name=x, Contained: LTC (0x9). RST: Yes, D-RST: No", ("fail", "reboot")),
        ("154, GPU recovery action changed from 0x0 (None) to 0x3 (Drain P2P)", ("warn", "none")),
        ("154, GPU recovery action changed from 0x0 (None) to 0x5 (Recover IMEX domain)", ("fail", "escalate")),
        ("154, GPU recovery action changed from 0x0 (None) to 0x9 (Bake)", ("fail", "escalate")),
        ("154, in other words", ("warn", "none")),
        ("149, in other words", ("fail", "reboot")),
        ("145, RLW_REMAP Nonfatal XC0 i0 Link 00 (0x00000004 0x00000041 0x0)", ("fail", "reboot")),
        ("145, RLW_REMAP Nonfatal XC0 i0 Link 00 (0x00000004 0x00000300 0x0)", None),  # two corrected ones
        (
            "145, RLW_REMAP Nonfatal XC0 i0 Link 00 (0x00000004 0x00001001 0x0)",
            ("warn", "none"),
        ),  # one bit is not known
        ("145, RLW_REMAP Fatal XC0 i0 Link 00 (0x00000004 0x00001001 0x0)", ("fail", "reboot")),
        ("149, NETIR_LINK_EVT/NETIR_LINK_DOWN Fatal XC0 i0 Link 00 (0x02600011 0x00000000 0x0)", ("warn", "none")),
        ("107, test", None),
    ],
)
def test_lines_that_say_more_than_their_number(said: str, want: tuple[str, str] | None) -> None:
    findings = judged(f"NVRM: Xid (PCI:0000:3b:00): {said}")

    assert [(f.status, f.action) for f in findings] == ([want] if want else [])


def test_lines_that_are_not_understood_are_given_back() -> None:
    lines = [line.text for line in parse_lines((FOLDER / "xid.broken.txt").read_text(), words=xid.WORDS)]

    found, broken = xid.parse(lines)

    assert found == []
    assert len(broken) == 12
    assert broken == [line for line in lines if xid.is_one(line)], (
        "what the check of the other lines leaves to this one"
    )
    assert broken[0] == "NVRM: Xid (PCI:0000:04:00): %d, unknown"


def test_a_lost_gpu_is_named_only_by_the_lines_just_before() -> None:
    far = [
        "NVRM: The NVIDIA GPU 0000:18:00.0",
        *["NVRM: x"] * 9,
        "NVRM: fallen off the bus and is not responding to commands.",
    ]

    assert xid.parse(far)[0] == []
    assert [e.place for e in xid.parse([far[0], far[1], far[-1]])[0]] == ["GPU 0000:18:00"]


def test_two_logs_hold_the_same_lines() -> None:
    line = "NVRM: Xid (PCI:0000:3b:00): 31, pid=1, name=x, y"
    one, two = events("\n".join([line] * 3)), events("\n".join([line] * 5))

    assert "5 times" in xid.judge("kernel_xid", [one, two])[0].evidence
    assert "5 times" in xid.judge("kernel_xid", [two, one])[0].evidence


BDF = st.builds("{:04x}:{:02x}:{:02x}".format, st.integers(0, 0xFFFF), st.integers(0, 0xFF), st.integers(0, 0x1F))
WORDS = st.text(st.characters(blacklist_categories=("Cc", "Cs", "Zl", "Zp")), max_size=40)
INSTANCE = st.sampled_from(["", " GPU-I:05", " GPU-I:00 GPU-CI:11"])
PREFIX = st.sampled_from(
    ["", "[  12.345678] ", "kern  :warn  : 2027-03-01T06:00:00,000000+00:00 ", "<4>[ 1.0] ", "6,1,2,-;",
     "Mar 01 09:40:10 gpu-01 kernel: ", "1803880800.000000 gpu-01 kernel: ", "[Mon Mar  1 06:00:00 2027] "]
)  # fmt: skip


@given(BDF, INSTANCE, st.integers(0, 999_999), st.sampled_from(["", "pid=7, name=a b, "]), WORDS, PREFIX, st.booleans())
@settings(deadline=None)
def test_what_is_written_is_read(
    bdf: str, instance: str, number: int, process: str, words: str, prefix: str, old: bool
) -> None:
    place = bdf.upper() if old else f"PCI:{bdf}"
    (event,) = events(f"{prefix}NVRM: Xid ({place}{instance}): {number}, {process}{words}")

    assert (event.kind, event.number) == ("xid", number)
    assert event.place == f"GPU {bdf}{instance.lower()}"


@given(
    BDF,
    st.integers(0, 9999),
    st.integers(0, 99_999),
    st.sampled_from(["Fatal", "Non-fatal"]),
    st.integers(0, 999),
    PREFIX,
)
@settings(deadline=None)
def test_what_is_written_of_switches_is_read(
    bdf: str, switch: int, number: int, severity: str, link: int, prefix: str
) -> None:
    (event,) = events(
        f"{prefix}nvidia-nvswitch{switch}: SXid (PCI:{bdf}.0): {number:05d}, {severity}, Link {link:02d} x"
    )

    assert (event.kind, event.number, event.link) == ("sxid", number, link)
    assert event.place == f"NVSwitch {switch} {bdf}"
    assert (event.entry.status == "fail") == (severity == "Fatal")


UNITS = st.sampled_from(["SAW_MVB", "RLW_REMAP", "TLW_CTRL", "TREX", "NETIR", "NETIR_LINK_EVT", "MSE_WATCHDOG", "NEW"])


@given(
    st.integers(144, 150),
    UNITS,
    st.booleans(),
    st.integers(-1, 99),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
)
@settings(deadline=None)
def test_decoded_forms_are_always_judged(
    number: int, unit: str, fatal: bool, link: int, first: int, second: int
) -> None:
    severity = "Fatal" if fatal else "Nonfatal"
    (event,) = events(
        f"NVRM: Xid (PCI:0000:01:00): {number}, {unit} {severity} XC0 i0 Link {link:02d} (0x{first:08x} 0x{second:08x})"
    )

    assert event.link == (link if link >= 0 else None)
    assert event.entry.status in STATUSES
    known = any(key[:3] == (number, unit, first >> 20 & 63) for key in xid.nvlink_rules())
    if not known:
        assert event.entry.status == ("fail" if fatal else "warn")


PIECES = st.sampled_from(
    ["NVRM: ", "Xid (", "SXid (", "PCI:", "0000:3b:00", "): ", "79", ", ", "nvidia-nvswitch0: ", "Fatal", "Link 3",
     "GPU recovery action changed from 0x0 (None) to 0x", "(0x1 0x2", "fallen off the bus", " GPU-I:1", "Severity 9",
     "\n", "\x00", "\ud83d"]
)  # fmt: skip


@given(st.lists(PIECES | st.text(max_size=12), max_size=30).map("".join))
@settings(deadline=None)
def test_no_text_breaks_it(text: str) -> None:
    found, _ = xid.parse(text.splitlines())
    findings = xid.judge("kernel_xid", [found, found])

    assert len({(f.symptom, f.locator) for f in findings}) == len(findings)
    assert all(f.status in STATUSES and f.action in ACTIONS for f in findings)
    assert all(len(f.evidence) <= 500 and len(f.locator) <= 120 for f in findings)
