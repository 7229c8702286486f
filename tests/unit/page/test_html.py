"""The page: nothing of a host becomes markup, nothing else may run, and it can be read and found one's way in."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight import report
from firstlight.errors import FirstlightError
from firstlight.findings import Finding
from firstlight.ledger.history import Failure, HostHistory
from firstlight.ledger.store import STAGES
from firstlight.page import html
from firstlight.page.overview import overview
from tests.made_fleet import made_data

VOID = ("meta", "link", "input", "br", "line", "polyline", "rect")
ALLOWED = {"'none'", "data:"}


class Page(HTMLParser):
    """What a test wants to know of a page; AssertionError where elements are not nested."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.open, self.texts = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        assert len({name for name, _ in attributes}) == len(attributes)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    def inside(self, tag):
        return "".join(data for name, data in self.texts if name == tag)


def story(name="n1", findings=(), **more):
    stages = {stage: {"result": "passed", "seconds": 2.0} for stage in STAGES}
    held = [{**finding.to_dict(), "stage": "smoke", "first_seen": "2026-01-01"} for finding in findings]
    place = {"rack": "r1", "unit": 4, "service_tag": "T1", "profile": "xe9680", "state": "ready"}
    return {"name": name, "findings": held, "stages": stages, **place, **more}


def data_of(*stories, machines=(), values=None, site="lab"):
    return overview(report.build(site, stories, "50%"), machines, values)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return made_data(tmp_path_factory.mktemp("made"), hosts=500)


@pytest.fixture(scope="module")
def text(made):
    return html.page(made)


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_it_names_site_hosts_and_policy(text):
    plain = " ".join(re.sub(r"<[^>]+>", "", text[text.index("<header>") :]).split())
    assert re.search(r"made-up: \d+ of 500 hosts ready Policy met: fleet_min_ready=85%, \d+ of 500 hosts ready", plain)
    assert "Written 2026-03-05 14:20 by site.yml, begun 2026-03-05 14:08." in plain


def test_every_host_stands_in_its_rack_and_those_not_ready_in_the_table(made, page):
    slots = [attributes for attributes in page.all("li") if attributes.get("class", "").startswith("slot ")]
    rows = [attributes for attributes in page.all("tr") if attributes.get("class") == "row"]
    assert len(slots) == 500
    assert 10 < len(rows) == sum(host["verdict"] != "ready" for host in made["hosts"])
    assert len([attributes for attributes in page.all("section") if attributes.get("class") == "rack"]) == 63


def test_five_hundred_hosts_are_a_small_page(text):
    assert len(text.encode()) < 600_000


def test_the_worst_page_is_bounded():
    """Every host with twenty findings as long as the ledger keeps them; texts of &, five bytes each when escaped."""
    sizes = []
    for c in "a&":
        loud = [Finding("x", "fail", f"x.{n}" + c * 60, c * 120, c * 500, "escalate") for n in range(20)]
        stories = [story(f"host-{n}", loud, service_tag=c * 200) for n in range(500)]
        sizes.append(len(html.page(data_of(*stories)).encode()))
    assert sizes[0] < 3_000_000
    assert sizes[1] < 10_000_000


HOSTILE = "</script></style><script>alert(1)</script><img src=x onerror=alert(1)>\" onfocus='x' {{ 7*7 }} {% raw %}"


def test_nothing_of_a_host_becomes_markup():
    found = Finding("x", "fail", HOSTILE, HOSTILE, HOSTILE, "replace")
    at = "2026-03-04T10:00:00+00:00"
    failures = [
        Failure("smoke", HOSTILE, HOSTILE, "reseat", moment, at) for moment in (at, "2026-03-01T10:00:00+00:00")
    ]
    machine = HostHistory("T1", "n1", "ready", failures=failures, last_deed=(at, HOSTILE))
    hostile = data_of(
        story(findings=[found], rack=HOSTILE, service_tag=HOSTILE, profile=HOSTILE, state=HOSTILE),
        machines=[machine],
        values={"n1": {"profile": HOSTILE, "values": {HOSTILE: HOSTILE}}},
        site=HOSTILE,
    )
    calm = data_of(
        story(findings=[Finding("x", "fail", "a", "b", "c", "replace")]),
        machines=[HostHistory("T1", "n1", "ready", failures=[*failures], last_deed=(at, "released"))],
        values={"n1": {"profile": "p", "values": {"x": "y"}}},
    )
    tags = [tag for tag, _ in Page(html.page(hostile)).elements]
    assert tags.count("script") == tags.count("style") == 1
    assert "img" not in tags
    assert set(tags) == {tag for tag, _ in Page(html.page(calm)).elements}
    assert "7*7" in Page(html.page(hostile)).inside("h1")


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=60))
def test_a_page_of_any_text_is_whole(symptom, evidence, rack):
    page = Page(html.page(data_of(story(findings=[Finding("x", "fail", symptom, evidence=evidence)], rack=rack))))
    assert [tag for tag, _ in page.elements].count("script") == 1


def test_only_its_own_style_and_script_may_run(text, page):
    policy = next(m["content"] for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    allowed = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    for kind in ("style", "script"):
        inner = re.search(rf"<{kind}>(.*?)</{kind}>", text, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        assert allowed.pop(f"{kind}-src") == f"'sha256-{digest}'"
    assert set(allowed.values()) == ALLOWED
    assert allowed["default-src"] == "'none'"


def test_no_element_has_a_style_a_handler_or_fetches(page):
    for tag, attributes in page.elements:
        assert "style" not in attributes and not any(name.startswith("on") for name in attributes), tag
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith(("#", "data:,")), attributes


def test_headings_landmarks_and_labels(page):
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    for landmark in ("header", "nav", "main", "footer"):
        assert len(page.all(landmark)) == 1
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    for tag, attributes in page.elements:
        for name in ("aria-labelledby", "aria-describedby"):
            assert set(attributes.get(name, "").split()) <= set(ids), attributes
        if attributes.get("href", "").startswith("#"):
            assert attributes["href"][1:] in ids
        if tag == "svg":
            assert attributes.get("aria-hidden") == "true" or attributes["role"] == "img"
    skip, first = page.all("a")[0], next(tag for tag, _ in page.elements[page.elements.index(("body", {})) + 1 :])
    assert (first, skip["href"]) == ("a", "#main")
    assert page.all("html") == [{"lang": "en"}]


def test_a_state_is_told_by_more_than_its_colour(text):
    marks = [look["mark"] for look in html.LOOKS.values()]
    assert len(set(marks)) == len(marks) == len(html.LOOKS)
    for standing in html.LOOKS:
        assert f".s-{standing} " in (html.FOLDER / "page.css").read_text()


def palettes():
    light, dark = re.findall(r":root \{\n(.*?)\}", (html.FOLDER / "page.css").read_text(), re.DOTALL)
    found = [dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", block)) for block in (light, dark)]
    assert set(found[0]) == set(found[1])
    return found


def contrast(one, other):
    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_computed_as_wcag_says():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("palette", palettes(), ids=["light", "dark"])
def test_colours_can_be_told_apart(palette):
    """WCAG 2.2, level AA: 4.5 for text, 3 for lines and shapes that mean something."""
    texts = [
        ("ink", "page"),
        ("ink", "soft"),
        ("muted", "page"),
        ("link", "page"),
        ("ready", "page"),
        ("failed", "page"),
    ]
    texts += [(name, name.removesuffix("-ink")) for name in palette if name.endswith("-ink")]
    shapes = [("focus", "page"), ("muted", "page"), ("failed", "soft")]
    shapes += [(name, "page") for name in palette if name.startswith("g-") or name == "lately"]
    shapes += [
        (name.removesuffix("-ink"), "page") for name in palette if name.endswith("-ink") and "planned" not in name
    ]
    assert len(texts) > 10 and len(shapes) > 10
    for pairs, least in ((texts, 4.5), (shapes, 3.0)):
        for one, other in pairs:
            assert contrast(palette[one], palette[other]) >= least, (one, other)


def test_a_fleet_of_none_and_one_that_never_ran():
    assert "The ledger knows no host" in html.page(data_of())
    waiting = story(stages={}, state="planned")
    said = html.page(data_of(waiting))
    assert "No host has passed a stage yet." in said and "discover was not reached" in said


def test_check_mode_is_said():
    assert "check mode" in html.page(data_of(story()), check=True)
    assert "check mode" not in html.page(data_of(story()))


def test_what_many_hosts_have_is_said_once_at_the_top():
    bad = Finding("exporters", "fail", "exporter.not_answering", "node_exporter", "refused", "retry")
    said = html.page(data_of(*(story(f"n{n}", [bad]) for n in range(6))))
    assert said.index("On many hosts at once") < said.index('id="racks"')
    assert "on 6 of 6 hosts" in said


def test_written_whole_beside_its_data(tmp_path, made):
    html.write(made, tmp_path / "reports", "latest")
    assert sorted(path.name for path in (tmp_path / "reports").iterdir()) == ["latest.html", "latest.page.json"]
    assert json.loads((tmp_path / "reports/latest.page.json").read_text()) == made
    assert (tmp_path / "reports/latest.html").read_text().endswith("</html>")


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "reports").write_text("in the way")
    with pytest.raises(FirstlightError, match=r"the page cannot be written to .*reports.*name another reports_dir"):
        html.write(data_of(story()), tmp_path / "reports", "latest")


def test_hosts_that_were_in_no_run_are_named_and_their_number_is_bounded():
    fleet = [f"n{number:03d}" for number in range(140)]
    said = html.page(overview(report.build("lab", [story("n000")], 1, fleet=fleet), []))
    assert "In no run yet: n001, n002" in said and "n100 and 39 more." in said
    assert "In no run yet" not in html.page(data_of(story()))


@pytest.mark.parametrize(("outcome", "said"), [("broken", ", which broke"), ("stopped", ", which was stopped")])
def test_a_run_that_did_not_come_to_its_end_is_said(outcome, said):
    run = {"playbook": "site.yml", "started": "2026-03-05T14:08:00.000+00:00"}
    for end, there in ((outcome, True), ("done", False), (None, False)):
        page = html.page(overview(report.build("lab", [story()], 1, run={**run, "outcome": end}), []))
        assert (said in page) is there


def test_open_tickets_are_told_at_their_host_and_in_all():
    found = Finding("gpu_count", "fail", "gpu.missing", "Video.Slot.6-1", "7 of 8", "replace")
    told = report.build("lab", [story("n1", [found]), story("n2", unit=5)], "50%")
    assert "icket" not in html.page(overview(told, []))
    told["hosts"][0]["tickets"] = [{"id": "T1-<b>gpu</b>-1", "action": "replace", "kind": "gpu"}]
    told["tickets"] = {"open": 1, "by_action": {"replace": 1}}
    text = html.page(overview(told, []))
    assert Page(text).inside("div").count("T1-<b>gpu</b>-1: replace") == 1
    assert "1 ticket open: 1 replace." in " ".join(text.split())
    assert text.count("Ticket T1-&lt;b&gt;gpu&lt;/b&gt;-1: replace") == 1
