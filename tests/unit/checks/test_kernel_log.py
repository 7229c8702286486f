"""The kernel log: its forms, what is known to be bad or harmless, what is new; since boot or since a moment."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstlight.checks.capture import CONTAINER, Output
from firstlight.checks.engine import Check, judge_check, ok, run_checks
from firstlight.checks.kernel_log import LOG_CHECK, XID_CHECK, judge_log, judge_xids, look
from firstlight.checks.kernel_log_lines import LEVELS, Line, is_log, moment, parse
from firstlight.checks.kernel_log_rules import BESIDE, COMPANIONS, HARMLESS, RULES, is_harmless
from firstlight.checks.kernel_log_site import Site
from firstlight.findings import ACTIONS, STATUSES, Finding
from firstlight.profile import Profile

FOLDER = Path(__file__).parents[2] / "fixtures" / "kernel_log"
PROFILE = Profile("x", "v", "m", gpus={"count": 8})
SIX = 1803880800.0  # 2027-03-01T06:00:00Z

BAD = [row.split(" | ", 2) for row in (FOLDER / "bad.txt").read_text().splitlines()]


def captured(dmesg: str = "", journal: str = "", warnings: str = "") -> dict[str, Output]:
    return {"dmesg": Output(dmesg), "journal": Output(journal), "warnings": Output(warnings)}


def brief(findings: list[Finding]) -> list[tuple[str, str, str, str]]:
    return [(f.status, f.symptom, f.locator, f.action) for f in findings]


BOOT = "kern  :notice: 2027-03-01T05:59:59,000000+00:00 Linux version 6.8.0-60-generic\n"


def log(*texts: str, level: str = "warn") -> str:
    """The log of a boot with these lines."""
    return BOOT + "".join(
        f"kern  :{level:5}: 2027-03-01T06:00:{n % 60:02d},000000+00:00 {text}\n" for n, text in enumerate(texts)
    )


def fixture(name: str) -> str:
    return (FOLDER / name).read_text()


# ---------------------------------------------------------------- what is known


@pytest.mark.parametrize(("symptom", "place", "line"), BAD, ids=[f"{row[0]}-{n}" for n, row in enumerate(BAD)])
def test_bad_lines(symptom: str, place: str, line: str) -> None:
    rule = next(rule for rule in RULES if rule.symptom == f"kernel.{symptom}")

    # a notice is enough: the kernel says many of these without calling them warnings
    findings = judge_log(captured(log(*[line] * rule.least, level="info")), PROFILE, {})

    assert brief(findings) == [(rule.status, rule.symptom, place, rule.action)]
    assert line[:60] in findings[0].evidence
    assert ("times" in findings[0].evidence) == (rule.least > 1)


def test_every_form_of_every_rule_has_a_sample() -> None:
    first = []
    for *_, line in BAD:
        first.append(next(rule for rule in RULES if rule.word in line and rule.pattern.search(line)))

    assert [rule.pattern.pattern for rule in RULES if rule not in first] == []
    assert all(rule.word and rule.action in ACTIONS and rule.status in ("warn", "fail") for rule in RULES)
    assert all(rule.status != "fail" or rule.action != "none" for rule in RULES)


def test_a_healthy_server() -> None:
    findings = judge_log(captured(fixture("boot.good.txt")), PROFILE, {})

    assert brief(findings) == [("ok", "kernel_log", "", "none")]
    assert brief(judge_xids(captured(fixture("boot.good.txt")), PROFILE, {})) == [("ok", "kernel_xid", "", "none")]


def test_a_bad_one() -> None:
    findings = judge_log(captured(fixture("boot.bad.txt")), PROFILE, {})

    assert brief(findings) == [
        ("fail", "kernel.nvme_timeout", "nvme3", "reseat"),
        ("warn", "kernel.out_of_memory", "process pt_main_thread", "none"),
        ("warn", "kernel.pcie_corrected", "PCI 0000:17:00.0", "none"),
        ("warn", "kernel.pcie_width", "PCI 0000:9c:00.0", "none"),
        ("warn", "kernel.new", "", "none"),
    ]
    assert "times" not in findings[2].evidence, "two lines tell of one error"
    assert "PCIe x8 link" in findings[3].evidence
    assert "3 lines of 2 kinds" in findings[4].evidence
    assert findings[4].evidence.index("giving up") < findings[4].evidence.index("2x frobnicator"), "the worst first"
    assert "9b:00" not in findings[4].evidence, "Xids are the other check's"
    assert brief(judge_xids(captured(fixture("boot.bad.txt")), PROFILE, {})) == [
        ("fail", "xid.79", "GPU 0000:9b:00", "power_cycle")
    ]


def test_the_lines_of_a_dump_are_its_own() -> None:
    findings = judge_log(captured(fixture("trace.txt")), PROFILE, {})

    assert brief(findings) == [
        ("fail", "kernel.hung_task", "process zpool", "reboot"),
        ("warn", "kernel.warning", "at drivers/iommu/dma-iommu.c:1041", "none"),
    ]


def test_a_dump_without_an_end_does_not_hide_the_rest_for_ever() -> None:
    start = "------------[ cut here ]------------"

    hidden = look(parse(log(start, *["odd line"] * 500)), Site())
    seen = look(parse(log(start, *["odd line"] * 700)), Site())

    assert hidden.kinds == {}
    assert sum(seen.kinds.values()) == 101
    assert look(parse(log(start, "---[ end trace 0 ]---", "odd line")), Site()).kinds == {
        "---[ end trace # ]---": 1,  # nothing in it was known
        "odd line": 1,
    }


def test_bad_lines_within_a_dump_count() -> None:
    text = log(
        "------------[ cut here ]------------", "nvme nvme1: I/O 1 QID 4 timeout, aborting", "---[ end trace 0 ]---"
    )

    assert brief(judge_log(captured(text), PROFILE, {})) == [("fail", "kernel.nvme_timeout", "nvme1", "reseat")]


def test_a_link_may_go_down_twice() -> None:
    line = "mlx5_core 0000:9c:00.0 enp156s0np0: Link down"

    assert brief(judge_log(captured(log(line, line)), PROFILE, {})) == [("ok", "kernel_log", "", "none")]
    assert "3 times" in judge_log(captured(log(line, line, line)), PROFILE, {})[0].evidence


COMPANY = [
    ("[Hardware Error]: cache level: L2, tx: INSN", "[Hardware Error]: Corrected error, no action required."),
    ("EDAC skx MC2: HANDLING MCE MEMORY ERROR", "EDAC MC3: 1 UE memory read error on x"),
    ("nvme nvme3: resetting controller", "nvme nvme3: I/O 320 QID 4 timeout, reset controller"),
    ("nvme nvme3: Abort status: 0x371", "nvme nvme3: I/O 320 QID 4 timeout, aborting"),
    ("EXT4-fs (sda2): something odd", "EXT4-fs error (device sda2): ext4_lookup:1855: inode #2"),
    ("pcieport 0000:15:01.0: AER: device recovery failed", "pcieport 0000:15:01.0: DPC: containment event, status:0x1"),
    ("NVRM: GPU0 GSP RPC buffer contains function 103", "NVRM: Xid (PCI:0000:5d:00): 119, x"),
    ("Call Trace:", "NVRM: Xid (PCI:0000:5d:00): 119, x"),
    ("DMAR: DRHD: handling fault status reg 2", "DMAR: [DMA Read] Request device [3b:00.0] fault addr 0x1000"),
]


@pytest.mark.parametrize(("text", "rule"), COMPANY, ids=[text for text, _ in COMPANY])
def test_what_comes_along_is_known_only_beside_what_it_comes_with(text: str, rule: str) -> None:
    def new(*lines: str) -> bool:
        return "kernel.new" in {f.symptom for f in judge_log(captured(log(*lines, level="err")), PROFILE, {})}

    other, harmless = "nfs: server 10.0.96.201 not responding, still trying", "perf: interrupt took too long (1 > 2)"
    assert new(text), "alone"
    assert not new(rule, text), "after it"
    assert not new(text, rule), "before it"
    assert new(rule, *[harmless] * BESIDE, text), "far after it"
    assert new(text, *[harmless] * BESIDE, rule), "far before it"
    assert new(other, text) or text == "Call Trace:", "beside something else"


def test_a_long_dump_keeps_together() -> None:
    text = log("NVRM: Xid (PCI:0000:5d:00): 119, x", *[f" f{n}+0x1/0x2" for n in range(5 * BESIDE)])

    assert [f.status for f in judge_log(captured(text), PROFILE, {})] == ["ok"]


TROUBLES = [
    "EDAC amd64: Error: F0 not found",
    "megaraid_sas 0000:65:00.0: Init cmd return status FAILED for SCSI host 0",
    "mpt3sas_cm0: diag reset: FAILED",
    "ice 0000:4b:00.0: VSI rebuild failed, err -5",
    "nf_conntrack: hash table corrupted",
    "pci 0000:17:00.0: BAR 0: no space for [mem size 0x00001000]",
    "mlx5_core 0000:17:00.0: mlx5e_open_locked: failed",
    "smpboot: do_boot_cpu failed(-1) to wakeup CPU#5",
    "BERT: Error records from previous boot:",
    "GHES: something failed",
    "idxd 0000:6a:01.0: Device is HALTED!",
]
TALK = [
    "EDAC MC0: Giving out device to module amd64_edac controller F19h",
    "megaraid_sas 0000:65:00.0: unevenspan support    : yes",
    "mpt3sas_cm0: overriding NVDATA EEDPTagMode setting",
    "ice 0000:4b:00.0: The DDP package was successfully loaded",
    "TCP: eno1: Driver has suspect GRO implementation, TCP performance may be compromised.",
    "TCP: request_sock_TCP: Possible SYN flooding on port 443. Sending cookies.",
    "nf_conntrack: default automatic helper assignment has been turned off",
    "pci 0000:17:00.0: BAR 6: no space for [mem size 0x00080000 pref]",
    "pci 0000:17:00.0: VF BAR 0 [mem size 0x2000000000 64bit pref]: can't assign; no space",
    "pci 0000:17:00.0: BAR 0: no space for [io  size 0x0100]",
    "pci 0000:15:01.0: bridge window [mem size 0x00200000 64bit pref]: failed to assign",
    "GHES: HEST is not enabled!",
    "idxd 0000:6a:01.0: Unable to turn on user SVA feature.",
    "mlx5_core 0000:17:00.0: Port module event: module 0, Cable unplugged",
    "EXT4-fs (sda2): warning: maximal mount count reached, running e2fsck is recommended",
]


@pytest.mark.parametrize("text", TROUBLES)
def test_drivers_that_talk_much_are_heard_when_they_speak_of_trouble(text: str) -> None:
    assert not is_harmless(text)
    assert brief(judge_log(captured(log(text)), PROFILE, {})) == [("warn", "kernel.new", "", "none")]


@pytest.mark.parametrize("text", TALK)
def test_the_talk_of_healthy_hosts_is_passed_over(text: str) -> None:
    assert brief(judge_log(captured(log(text)), PROFILE, {})) == [("ok", "kernel_log", "", "none")]


@pytest.mark.parametrize("status", range(16))
def test_a_machine_check_is_judged_by_its_status_word(status: int) -> None:
    """Bits 61 (uncorrected) and 57 (context corrupt), whatever the others of these two digits."""
    for other in range(16):
        word = f"{status:x}{other:x}00004000010092"
        (finding,) = judge_log(
            captured(log(f"mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 7: {word}")), PROFILE, {}
        )
        bad = bool(int(word, 16) >> 61 & 1 or int(word, 16) >> 57 & 1)
        assert finding.symptom == ("kernel.machine_check" if bad else "kernel.hardware_corrected"), word


def test_harmless_and_bad_do_not_overlap() -> None:
    """A pattern for what comes along must not be so wide that it would hide every bad line of a new wording."""
    wide = {line for *_, line in BAD if is_harmless(line)}

    assert len(wide) <= 5, wide
    assert not HARMLESS.search("something that nobody has ever seen")
    assert not COMPANIONS.search("something that nobody has ever seen")


# ---------------------------------------------------------------- what is new


def test_new_lines_are_counted_by_kind() -> None:
    lines = [f"widget 0000:{n:02x}:00.0: lost {n} of 0x{n:08x}" for n in range(50)] + ["widget: on fire"]

    (finding,) = judge_log(captured(log(*lines)), PROFILE, {})

    assert (finding.status, finding.symptom, finding.action) == ("warn", "kernel.new", "none")
    assert "50x widget" in finding.evidence
    assert "1x widget: on fire" in finding.evidence


@pytest.mark.parametrize("level", ["notice", "info", "debug"])
def test_what_is_no_warning_is_not_new(level: str) -> None:
    assert brief(judge_log(captured(log("widget: fine", level=level)), PROFILE, {})) == [
        ("ok", "kernel_log", "", "none")
    ]


def test_a_line_of_unknown_level_is_not_new() -> None:
    text = "[    0.0] Linux version 6.8.0\n[   12.5] widget: hm\n"

    assert brief(judge_log(captured(text), PROFILE, {})) == [("ok", "kernel_log", "", "none")]


def test_the_journals_warnings_are_warnings() -> None:
    line = "1803880801.500000 gpu-01 kernel: widget: on fire\n"
    program = "1803880801.500000 gpu-01 systemd[1]: widget: on fire\n"

    boot = fixture("journal.txt").splitlines(keepends=True)[0]
    findings = judge_log(captured(journal=boot + line + program, warnings=line * 2 + program), PROFILE, {})

    assert brief(findings) == [("warn", "kernel.new", "", "none")]
    assert "2 lines of 1 kinds" in findings[0].evidence


def test_many_kinds_stay_bounded() -> None:
    names = ["w" + a + b + c for a in "abcdefghijklmno" for b in "pqrstuvwxyz" for c in "ghijklmnopqrstuvwxyz"]
    text = log(*[f"{name}: y" for name in names], level="err")

    seen = look(parse(text), Site())
    (finding,) = judge_log(captured(text), PROFILE, {})

    assert len(seen.kinds) <= 2001
    assert f"{len(names)} lines" in finding.evidence
    assert len(finding.evidence) <= 500


# ---------------------------------------------------------------- several logs, and when


def test_the_longer_count_is_the_true_one() -> None:
    line = "nvme nvme3: I/O 320 QID 4 timeout, aborting"
    journal = fixture("journal.txt")

    assert "3 times" in judge_log(captured(log(line), journal), PROFILE, {})[0].evidence
    assert "4 times" in judge_log(captured(log(*[line] * 4), journal), PROFILE, {})[0].evidence


def test_what_a_program_says_through_the_kernel_is_not_the_kernels() -> None:
    assert not [f for f in judge_log(captured(journal=fixture("journal.txt")), PROFILE, {}) if "oops" in f.symptom]


@pytest.mark.parametrize(
    ("since", "times"),
    [
        ("2027-03-01T06:00:00Z", 3),
        ("2027-03-01T07:03:40+01:00", 2),
        (SIX + 230, 2),
        (str(SIX + 230), 2),
        (SIX + 230.5, 2),  # the very moment of a line
        (SIX + 240, 1),
    ],
)
def test_since_a_moment(since: Any, times: int) -> None:
    findings = judge_log(captured(journal=fixture("journal.txt")), PROFILE, {"kernel_log": {"since": since}})

    assert [f.symptom for f in findings] == ["kernel.nvme_timeout"]
    assert (f"({times} times)" in findings[0].evidence) == (times > 1)


def test_nothing_since_then_is_ok_and_says_since_when() -> None:
    later = {"kernel_log": {"since": "2027-03-01T12:00:00Z"}}

    for judge in (judge_log, judge_xids):
        (finding,) = judge(captured(fixture("boot.bad.txt"), fixture("journal.txt")), PROFILE, later)
        assert finding.status == "ok"
        assert "since 2027-03-01T12:00:00Z" in finding.evidence


def test_a_line_of_unknown_time_counts_whatever_since() -> None:
    text = "[   12.5] NVRM: Xid (PCI:0000:5d:00): 48, x\n[   12.6] nvme nvme3: I/O 320 QID 4 timeout, aborting\n"
    expect = {"kernel_log": {"since": "2099-01-01T00:00:00Z"}}

    # and whether it reaches back to that moment is not known either
    said = [f.symptom for f in judge_xids(captured(text), PROFILE, expect)]
    assert said == ["xid.48", "kernel_xid.incomplete"]
    said = [f.symptom for f in judge_log(captured(text), PROFILE, expect)]
    assert said == ["kernel.nvme_timeout", "kernel_log.incomplete"]


@pytest.mark.parametrize("problem", ["timed_out", "no_tool", "not_permitted", "failed"])
@pytest.mark.parametrize("check", [LOG_CHECK, XID_CHECK], ids=lambda check: check.name)
def test_what_cannot_be_read_is_unknown(check: Any, problem: str) -> None:
    lost = dict.fromkeys(captured(), Output("", "it is lost", 1, problem))

    assert [(f.status, f.symptom) for f in check.judge(lost, PROFILE, {})] == [("unknown", f"{check.name}.{problem}")]
    for container, status in (
        (Output("docker\n"), "warn"),
        (Output("none\n", "", 1), "unknown"),
        (Output("", "", 127, "no_tool"), "unknown"),
    ):
        (finding,) = judge_check(check, {**lost, "container": container}, PROFILE, {})
        assert finding.status == status
        assert finding.evidence.startswith("unknown: ") == (status == "warn")


@pytest.mark.parametrize("check", [LOG_CHECK, XID_CHECK], ids=lambda check: check.name)
@pytest.mark.parametrize(
    ("container", "require", "ready"),
    [("docker\n", [], True), ("none\n", [], False), ("docker\n", ["kernel_log", "kernel_xid"], False)],
)
def test_a_container_may_be_without_a_kernel_log_unless_it_is_required(
    check: Any, container: str, require: list[str], ready: bool
) -> None:
    def run(sources: Any, limit: float) -> dict[Any, Output]:
        lost = Output("", "dmesg: Operation not permitted", 1, "not_permitted")
        return {source: Output(container) if source == CONTAINER else lost for source in sources}

    sound = Check("sound", "quick", lambda profile, expect: {"x": CONTAINER}, lambda *_: ok("sound", "it is"))

    assert run_checks([sound, check], PROFILE, require=require, run=run).verdict.ready is ready


NO_LOGS = [
    "garbage\n",
    "Usage: dmesg [-c]\n",
    "Usage:\n dmesg [options]\n\nDisplay the kernel ring buffer.\n",
    "-- No entries --\n",
]


@pytest.mark.parametrize("judge", [judge_log, judge_xids])
@pytest.mark.parametrize("text", NO_LOGS)
def test_a_text_that_is_no_kernel_log_is_not_a_clean_one(judge: Any, text: str) -> None:
    (finding,) = judge(captured(text), PROFILE, {})

    assert (finding.status, finding.symptom[-11:]) == ("unknown", ".unreadable")
    assert judge(captured(text, fixture("journal.txt")), PROFILE, {})[0].status == "fail", "the journal is one"


@pytest.mark.parametrize(
    "text",
    ["[    0.0] a", "<6>[    0.0] a", "6,1,2,-;a", "kern  :warn  : [    0.0] a", "[Mon Mar  1 06:00:00 2027] a",
     "1803880800.250000 gpu-01 kernel: a", "Mar 01 06:00:00 gpu-01 kernel: a", "cut off\n[    0.0] a\n  goes on"],
)  # fmt: skip
def test_every_form_is_a_kernel_log(text: str) -> None:
    assert is_log(text)


@pytest.mark.parametrize("judge", [judge_log, judge_xids])
def test_an_empty_log_is_not_a_clean_one(judge: Any) -> None:
    assert judge(captured("\n"), PROFILE, {})[0].symptom.endswith(".unreadable")


@pytest.mark.parametrize("judge", [judge_log, judge_xids])
def test_one_log_of_two_is_enough(judge: Any) -> None:
    outputs = {**captured(journal=fixture("journal.txt")), "dmesg": Output("", "no", 1, "not_permitted")}

    assert judge(outputs, PROFILE, {})[0].status == "fail"


def test_xids_that_are_not_understood_are_unknown() -> None:
    text = fixture("xid.broken.txt")
    (finding,) = judge_xids(captured(BOOT + text, BOOT + text), PROFILE, {})

    assert (finding.status, finding.symptom) == ("unknown", "kernel_xid.unreadable")
    assert finding.evidence.startswith("12 lines not understood")


@pytest.mark.parametrize("judge", [judge_log, judge_xids])
def test_a_log_that_begins_after_the_boot_is_not_a_clean_one(judge: Any) -> None:
    whole = fixture("boot.good.txt")
    rest = whole.split("\n", 5)[5]
    name = "kernel_log" if judge is judge_log else "kernel_xid"

    assert brief(judge(captured(rest), PROFILE, {})) == [("warn", f"{name}.incomplete", "", "none")]
    assert "begins at 2027-03-01T06:00:00Z" in judge(captured(rest), PROFILE, {})[0].evidence
    for text, journal in ((whole, ""), (rest, fixture("journal.txt").split("\n")[0])):
        assert brief(judge(captured(text, journal), PROFILE, {})) == [("ok", name, "", "none")]


@pytest.mark.parametrize("judge", [judge_log, judge_xids])
def test_it_need_only_reach_back_to_the_last_clean_verdict(judge: Any) -> None:
    rest = log("all is well", level="info").replace(BOOT, "")

    assert [f.status for f in judge(captured(rest), PROFILE, {"kernel_log": {"since": SIX + 60}})] == ["ok"]
    (finding,) = judge(captured(rest), PROFILE, {"kernel_log": {"since": SIX - 60}})
    assert (finding.status, finding.symptom.partition(".")[2]) == ("warn", "incomplete")
    assert "should with 2027-03-01T05:59:00Z" in finding.evidence


def test_xids_are_read_where_gpus_are_expected_and_the_rest_everywhere() -> None:
    bare = Profile("x", "v", "m")

    assert XID_CHECK.reads(bare, {}) == {}
    assert set(XID_CHECK.reads(PROFILE, {})) == {"dmesg", "journal", "container"}
    assert set(LOG_CHECK.reads(bare, {})) == {"dmesg", "journal", "warnings", "container"}
    line = log("NVRM: Xid (PCI:0000:5d:00): 48, x")
    assert brief(judge_log(captured(line), bare, {})) == [("warn", "kernel.new", "", "none")], "nobody else looks at it"


# ---------------------------------------------------------------- lines


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        ("kern  :warn  : 2027-03-01T07:00:00,250000+01:00 a b", Line("a b", SIX + 0.25, 4, True)),
        ("daemon:info  : 2027-03-01T06:00:00,000000+00:00 systemd[1]: a", Line("systemd[1]: a", SIX, 6, False)),
        ("kern  :err   : [   12.345678] a", Line("a", None, 3, True)),
        ("[   12.345678] a", Line("a", None, None, True)),
        ("[12345.678901]  a", Line(" a", None, None, True)),
        ("[Mon Mar  1 06:00:00 2027] a", Line("a", None, None, True)),
        ("<3>[   12.345678] a", Line("a", None, 3, True)),
        ("<30>[   12.345678] systemd[1]: a", Line("systemd[1]: a", None, 6, False)),
        ("4,3973,227996636,-;a;b", Line("a;b", None, 4, True)),
        ("1803880800.250000 gpu-01 kernel: a", Line("a", SIX + 0.25, None, True)),
        ("1803880800.250000 gpu-01 systemd[1]: a", Line("a", SIX + 0.25, None, False)),
        ("2027-03-01T06:00:00.250000+0000 gpu-01 kernel: a", Line("a", SIX + 0.25, None, True)),
        ("Mar 01 06:00:00 gpu-01 kernel: a", Line("a", None, None, True)),
        ("kern  :odd   : a", Line("kern  :odd   : a", None, None, True)),
        ("kern  :warn  : 2027-13-41T06:00:00,250000+00:00 a", Line("a", None, 4, True)),
        ("a", Line("a", None, None, True)),
    ],
)
def test_every_form_of_a_line(raw: str, line: Line) -> None:
    assert list(parse(raw, since=0.0)) == [line]
    assert list(parse(raw)) == [line._replace(time=None)]


def test_a_line_may_go_on() -> None:
    text = log("one\n     two\n\t three", "four")

    assert [line.text for line in parse(text)][1:] == ["one two three", "four"]
    assert [line.text for line in parse(text, words=("one",))] == ["one two three"]
    assert [line.text for line in parse(text, words=("three", "four"))] == ["four"], (
        "the line that it belongs to is not wanted"
    )


TEXTS = st.text(st.characters(blacklist_categories=("Cc", "Cs", "Zl", "Zp", "Zs")), min_size=1, max_size=60)


@given(st.integers(0, 4_000_000_000), st.sampled_from(sorted(LEVELS)), TEXTS, st.integers(-720, 720))
@settings(deadline=None)
def test_what_is_written_is_read(seconds: int, level: str, text: str, minutes: int) -> None:
    zone = datetime.timezone(datetime.timedelta(minutes=minutes))
    stamp = datetime.datetime.fromtimestamp(seconds, zone).strftime("%Y-%m-%dT%H:%M:%S,250000%z")

    (line,) = parse(f"kern  :{level:6}: {stamp[:-2]}:{stamp[-2:]} {text}", since=0.0)
    assert line == Line(text, seconds + 0.25, LEVELS[level], True)
    assert moment(stamp) == seconds + 0.25
    if seconds >= 100_000_000:
        assert list(parse(f"{seconds}.250000 host kernel: {text}", since=0.0)) == [Line(text, seconds + 0.25)]


@given(st.text(max_size=300) | st.lists(st.sampled_from([row[2] for row in BAD]) | st.text(max_size=9)).map("\n".join))
@settings(deadline=None)
def test_no_text_breaks_it(text: str) -> None:
    for forms in (text, log(*text.split("\n")), log(*text.split("\n"), level="emerg")):
        outputs = captured(forms, forms, forms)
        for check in (LOG_CHECK, XID_CHECK):
            findings = judge_check(check, outputs, PROFILE, {})
            assert findings
            assert not any(f.symptom.endswith(".judge_failed") for f in findings)
            assert all(f.status in STATUSES and len(f.evidence) <= 500 for f in findings)
            assert len({(f.symptom, f.locator) for f in findings}) == len(findings)
