"""The text of a ticket: what a person in the data centre needs, whatever a host wrote into its findings."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from firstlight.errors import InputError
from firstlight.findings import ACTIONS, Finding
from firstlight.policy.causes import group
from firstlight.tickets.model import OPEN, Place, Ticket, Update
from firstlight.tickets.neutral import in_command, neutral
from firstlight.tickets.text import Texts
from firstlight.tickets.words import _REPLACE, _RESEAT, NOUNS, part_named, steps

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = Path(__file__).with_name("golden")


def ticket(*findings, action=None):
    ((cause, found),) = group(findings).items()
    return Ticket(
        id=f"FLB0003-{cause.kind}-1", host="r1-n03", service_tag="FLB0003", place=Place("lab", "r1", 16, "xe9680"),
        cause=cause, state=OPEN, action=action or found[0].action, findings=tuple(found), stages=("smoke",),
        opened="2026-11-30T08:00:00+00:00", updated="2026-11-30T08:00:00+00:00",
        history=(Update("2026-11-30T08:00:00+00:00", f"opened: {action or found[0].action}"),),
    )  # fmt: skip


REAL = {
    "gpu": [
        Finding("gpus", "fail", "gpu.missing", "Video.Slot.26-1", "7 of 8 GPUs: present Video.Slot.21-1", "reseat"),
        Finding("nvlink", "fail", "nvlink.inactive", "GPU 0000:43:00.0", "17 of 18 links", "reboot"),
    ],
    "drive": [
        Finding("disk_read", "fail", "disk.read_error", "nvme3n1, serial S4EVNX0", "[Errno 5] at 4096", "replace")
    ],
    "cable": [Finding("hca_state", "fail", "hca.no_link", "HCA mlx5_3 port 1", "Down, Polling", "reseat")],
    "cable_replace": [Finding("hca_state", "fail", "hca.no_link", "HCA mlx5_3 port 1", "Down, Polling", "replace")],
    "cable_escalate": [Finding("hca_state", "fail", "hca.no_link", "HCA mlx5_3 port 1", "Down", "escalate")],
    "ethernet": [Finding("link", "fail", "nic.no_link", "NIC.Slot.3-1-1", "link down, others have link", "replace")],
    "module": [Finding("hca_module", "fail", "hca.module_hot", "HCA mlx5_3, MMA1Z00 MT1", "78 °C", "escalate")],
    "bmc": [Finding("bmc", "fail", "bmc.auth_failed", "BMC 10.1.1.3", "401 AccessDenied", "escalate")],
    "docker": [Finding("docker", "fail", "docker.not_running", "docker.service", "failed", "escalate")],
}


@pytest.mark.parametrize("name", REAL)
def test_real_findings_read_as_they_should(name):
    assert Texts().markdown(ticket(*REAL[name])) == (GOLDEN / f"{name}.md").read_text()


PLACED = [
    # what the checks of the host tell, what the part is called
    (("pcie_link", "pcie.slow", "GPU 0000:1b:00.0", "x8; sits in PCIe Slot 33, Video.Slot.25-1"),
     "GPU 0000:1b:00.0 in PCIe Slot 33, Video.Slot.25-1"),
    (("hca_state", "hca.no_link", "HCA mlx5_3 port 1", "Down; sits in PCIe Slot 31"),
     "transceiver or cable of HCA mlx5_3 port 1 in PCIe Slot 31"),
    (("nvlink", "nvlink.inactive", "GPU 0000:43:00.0 link 3", "17 of 18 links; sits in Video.Slot.25-1"),
     "the GPU (GPU 0000:43:00.0 link 3 in Video.Slot.25-1)"),
    (("gpus", "gpu.failed", "Video.Slot.25-1", "Critical; sits in Video.Slot.25-1"), "GPU Video.Slot.25-1"),
    (("pcie_link", "pcie.slow", "GPU 0000:1b:00.0", "x8 sits in a <b>; sits in *x*"), "GPU 0000:1b:00.0"),
]  # fmt: skip


@pytest.mark.parametrize(("told", "named"), PLACED)
def test_a_part_is_called_by_where_it_sits(told, named):
    check, symptom, locator, evidence = told
    made = ticket(Finding(check, "fail", symptom, locator, evidence, "reseat"))
    assert part_named(made) == named
    assert f"reseat {named}" in Texts().title(made)
    assert made.cause.part in (locator.lower(), "0000:1b:00", "mlx5_3", "links", "video.slot.25")
    if made.cause.part != "links":
        assert neutral(named.removeprefix("transceiver or cable of ")) in " ".join(steps(made))


LINKS = ["hca.no_link", "hca.slow", "hca.errors", "hca.link_flaps", "nic.no_link", "install.no_link"]


@pytest.mark.parametrize("symptom", [*LINKS, "hca.module_hot"])
@pytest.mark.parametrize("action", ["reseat", "replace", "escalate"])
def test_of_a_link_the_adapter_comes_last(symptom, action):
    made = ticket(Finding("c", "fail", symptom, "HCA mlx5_3 port 1", "Down", action))
    text = " ".join(steps(made))
    order = [text.find(word) for word in ("transceiver", "of the switch", "replace the adapter") if word in text]
    assert order == sorted(order)
    assert order[0] < text.find("cable") if symptom in LINKS and action == "replace" else order[0] >= 0
    assert "transceiver" in Texts().title(made)
    assert not re.match(r"(Shut|Replace InfiniBand)", text)
    if action == "replace" and symptom in LINKS:
        assert text.startswith("Replace the transceiver of HCA")


@pytest.mark.parametrize("action", ["reseat", "replace"])
def test_an_adapter_that_is_gone_is_no_matter_of_its_cable(action):
    gone = Finding("hca_count", "fail", "hca.missing", "HCA mlx5_3", "7 of 8", action)
    down = Finding("hca_state", "fail", "hca.no_link", "HCA mlx5_3 port 1", "Down", "reseat")
    made = ticket(gone, down)
    assert part_named(made).startswith("InfiniBand adapter")
    assert "transceiver" not in " ".join(steps(made)) or action == "replace"


def test_heat_elsewhere_is_a_matter_of_the_air():
    hot = Finding("hca_module", "fail", "hca.module_hot", "HCA mlx5_3, MMA1Z00 MT1", "78 °C", "escalate")
    made = ticket(hot, Finding("gpu_heat", "fail", "gpu.hot", "GPU 0000:1b:00.0", "92 °C", "escalate"))
    assert steps(made) == [
        "Feel the air at front and back of r1-n03, close gaps with blind covers, compare its neighbours."
    ]


def test_any_finding_of_the_part_may_tell_where_it_sits():
    lost = Finding("gpu_count", "fail", "gpu.lost", "GPU 0000:1b:00.0", "GPU is lost", "power_cycle")
    slow = Finding("pcie_link", "fail", "pcie.no_answer", "GPU 0000:1b:00.0", "?; sits in PCIe Slot 33", "reseat")
    assert part_named(ticket(lost, slow)) == "GPU 0000:1b:00.0 in PCIe Slot 33"


def rows():
    """(symptom, actions) of every row of the triage tables."""
    for file in ("triage.md", "triage-hosts.md"):
        for line in (ROOT / "docs" / file).read_text().splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if not line.startswith("| `") or len(cells) < 3:
                continue
            actions = [a for a in ACTIONS[1:] if re.search(rf"\b{a}\b", cells[-1])]
            for symptom in re.findall(r"`((?:CHECK|STAGE|[a-z_0-9]+)\.[a-z_0-9]+)`", cells[0]):
                yield symptom, actions or ["escalate"]


DUE = sorted({(symptom, action) for symptom, actions in rows() for action in actions})


def test_the_tables_have_what_is_tried_here():
    assert len({symptom for symptom, _ in DUE}) > 250
    assert ("gpu.missing", "reseat") in DUE


@pytest.mark.parametrize("status", ["fail", "unknown"])
def test_every_symptom_of_the_tables_has_steps_that_say_something(status):
    for symptom, action in DUE:
        real = symptom.replace("CHECK", "gpu_count").replace("STAGE", "configure")
        told = ticket(Finding("gpu_count", status, real, "Video.Slot.26-1", "evidence", action))
        said = steps(told)
        assert said, symptom
        for step in said:
            assert re.fullmatch(r"[A-Z].{15,}", step), (symptom, step)
            assert not re.search(r"[{}]|None|\bsomething\b", step.replace("\\{", "")), (symptom, step)
        text = " ".join(said)
        # where it is: the host, the part, or the row of the symptom
        assert (
            "r1-n03" in text or "26-1" in text or neutral(real) in text or NOUNS.get(told.cause.kind, symptom) in text
        ), (symptom, action, text)
        assert "rack r1, unit 16" in Texts().markdown(told).lower()


def test_every_part_that_can_be_worn_out_has_its_own_words():
    assert set(_RESEAT) == set(_REPLACE) == set(NOUNS)


def test_every_playbook_and_script_that_is_named_exists():
    words = (ROOT / "plugins/module_utils/firstlight/tickets/words.py").read_text() + Texts().markdown(
        ticket(*REAL["gpu"])
    )
    named = set(re.findall(r"(?:playbooks/[a-z_]+\.yml|scripts/[a-z]+|docs/[a-z-]+\.md|site\.yml)", words))
    assert len(named) > 5
    for name in named:
        assert (ROOT / name).exists(), name


HOSTILE = st.text(max_size=80) | st.sampled_from(
    ["<script>alert(1)</script>", "[x](javascript:a)", "http://evil.example/x", "www.evil.example", "`rm -rf /`",
     "a | b |", "# head\n\n- item", "![i](http://e/i.png)", "@everyone", "&lt;b&gt;", "<http://e>", "\x1b[31m\u202e",
     "https&colon;//x", "mailto:a@b.example", "{{ 7 * 7 }}", "{name}", "*a* __b__ ~~c~~", "```", "<!--", "$(reboot)"]
)  # fmt: skip


@given(HOSTILE, HOSTILE, HOSTILE)
def test_whatever_a_host_says_it_stays_text(symptom, locator, evidence):
    finding = Finding("c", "fail", symptom, locator, evidence, "escalate")
    told = replace(ticket(finding), history=(Update("2026-11-30", f"new: {symptom} {locator}"),))
    text = Texts().markdown(told)
    tokens = MarkdownIt("commonmark", {"html": True, "linkify": False}).enable("table").parse(text)
    flat = [t for token in tokens for t in (token, *(token.children or []))]
    kinds = {t.type for t in flat}
    assert not kinds & {"html_block", "html_inline", "link_open", "image", "em_open", "strong_open", "fence"}, text
    assert [t.content for t in flat if t.type == "code_block"] == [
        "ansible-playbook playbooks/locate.yml -l r1-n03\n"
        "ansible-playbook playbooks/locate.yml -l r1-n03 -e lit=false\n",
        "ansible-playbook site.yml -l r1-n03 --flush-cache\n",
    ]
    assert sum(t.type == "heading_open" for t in flat) == 6
    assert not re.search(r"(?i)https?://|www\.", text)
    assert all(c.isprintable() or c == "\n" for c in text)


@given(HOSTILE)
def test_what_is_put_into_a_command_is_one_word_of_it(value):
    assert re.fullmatch(r"[A-Za-z0-9._-]*", in_command(value))


def test_a_neutral_value_reads_as_it_was():
    for value in ("a_b*c", "<b> & `x` | [y](z)", "http://x/y", "www.x.y", "#1 + 2 ~ @me !"):
        tokens = MarkdownIt("commonmark").parse(f"- {neutral(value)}")
        said = "".join(t.content for token in tokens for t in token.children or [])
        assert said == value


def test_a_site_replaces_a_part_or_the_whole(tmp_path):
    (tmp_path / "ticket.md.j2").write_text('{% extends "default/ticket.md.j2" %}{% block find %}Ask Jo.{% endblock %}')
    text = Texts(tmp_path).markdown(ticket(*REAL["gpu"]))
    assert "Ask Jo." in text
    assert "locate.yml" not in text
    assert "Take GPU Video.Slot.26-1 out" in text


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("a\n{% if %}", r"ticket\.md\.j2:2: Expected an expression"),
        ("{{ tickt }}", r"ticket\.md\.j2:1: 'tickt' is undefined"),
        ("{{ ticket.__class__.__mro__ }}", r"ticket\.md\.j2:1: access to attribute '__class__'"),
        ("{{ 1 / 0 }}", r"ticket\.md\.j2:1: ZeroDivisionError in it"),
        ("{% for _ in range(9999) %}0123456789{% endfor %}", r"99990 characters .* 65536 are the most"),
        ('{% include "none.j2" %}', "no ticket template none.j2"),
        ('{% extends "ticket.md.j2" %}', "RecursionError|calls itself without end"),
        ("{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", r"ticket\.md\.j2:1: it calls itself without end"),
        ('{{ "\\ud800" }}', r"ticket\.md\.j2: makes half a surrogate pair"),
    ],
)
def test_a_wrong_template_is_one_line(tmp_path, template, said):
    (tmp_path / "ticket.md.j2").write_text(template)
    with pytest.raises(InputError, match=said) as error:
        Texts(tmp_path).markdown(ticket(*REAL["gpu"]))
    assert "\n" not in str(error.value)


def test_no_such_folder_of_templates_is_one_line(tmp_path):
    with pytest.raises(InputError, match="no such folder of ticket templates"):
        Texts(tmp_path / "none")
