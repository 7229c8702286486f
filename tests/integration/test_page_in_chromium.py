"""The report's page in a browser: it fetches nothing, and mouse, keyboard and finger find the same.

A fleet is made up (tests/made_fleet.py). Pictures of what was seen are left in .cache/page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from firstlight import report
from firstlight.findings import Finding
from firstlight.page import html
from firstlight.page.overview import overview
from tests.integration.chromium import Chromium
from tests.made_fleet import made_data

PICTURES = Path(__file__).parents[2] / ".cache" / "page"
TIP = "[...document.querySelectorAll('.tip')].filter((tip) => getComputedStyle(tip).display !== 'none')"
ROWS = "[...document.querySelectorAll('tr.row')].filter((row) => row.offsetParent !== null)"
BACKGROUND = "getComputedStyle(document.documentElement).backgroundColor"
FOCUSED = "document.activeElement"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return made_data(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def page(tmp_path_factory, data) -> Path:
    folder = tmp_path_factory.mktemp("page")
    html.write(data, folder, "latest")
    return folder / "latest.html"


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Chromium]:
    PICTURES.mkdir(parents=True, exist_ok=True)
    chromium = Chromium(tmp_path_factory.mktemp("chromium"))
    yield chromium
    chromium.close()


@pytest.fixture
def opened(browser, page) -> Chromium:
    browser.screen(1280, 900)
    browser.scheme("light")
    browser.open(page)
    return browser


def complaints(browser):
    """What the console or the page's script complained about."""
    return [
        parameters
        for method, parameters in browser.events
        if method in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")
    ]


def wrong(data):
    return [host for host in data["hosts"] if host["verdict"] != "ready"]


def host_with_reason(data):
    number = next(n for n, host in enumerate(data["hosts"]) if host["standing"] == "failed")
    return f"#h{number}", data["hosts"][number]


def one_host(finding, **more):
    """The story of a host that has this finding."""
    held = [{**finding.to_dict(), "stage": "discover", "first_seen": "2026-01-01"}]
    place = {"name": "n1", "rack": "r1", "unit": 4, "service_tag": "ABC1234", "profile": "xe9680"}
    return {**place, "state": "quarantined", "stages": {}, "findings": held, **more}


def test_it_opens_without_a_complaint_and_fetches_nothing(opened, page):
    asked = [what["request"]["url"] for method, what in opened.events if method == "Network.requestWillBeSent"]
    assert [url for url in asked if not url.startswith("data:")] == [page.as_uri()]
    assert complaints(opened) == []
    assert opened.ask("document.querySelectorAll('.slot').length") == 96
    assert len(opened.picture(PICTURES / "light.png")) > 20_000


def test_the_test_sees_complaints(opened):
    """And the page's own policy keeps what is not its own from running."""
    opened.ask("document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'}))")
    opened.ask("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.ran = 1\">')")
    opened.ask("new Promise((done) => setTimeout(done, 100))")
    assert opened.ask("window.ran === undefined")
    said = " ".join(what["entry"]["text"] for what in complaints(opened))
    assert "Content Security Policy" in said


def test_filter_by_symptom_state_and_text(opened, data):
    assert opened.ask(f"{ROWS}.length") == len(wrong(data)) > 3
    symptom = next(one["symptom"] for one in data["causes"] if one["now"])
    having = [host["name"] for host in data["hosts"] if symptom in host["symptoms"]]
    opened.click(f'.pick[data-symptom="{symptom}"]')
    assert opened.ask(f"{ROWS}.map((row) => row.querySelector('a').textContent)") == having
    assert opened.ask("document.querySelectorAll('.slot:not(.off)').length") == len(having)
    assert opened.ask("document.getElementById('f-said').textContent") == f"{len(having)} of 96 hosts"
    opened.click("#f-clear")
    assert opened.ask(f"{ROWS}.length") == len(wrong(data))
    opened.ask("document.getElementById('f-state').value = 'in_repair'")
    opened.ask("document.getElementById('f-state').dispatchEvent(new Event('input'))")
    repaired = [host["name"] for host in data["hosts"] if host["standing"] == "in_repair"]
    assert repaired and opened.ask(f"{ROWS}.map((row) => row.querySelector('a').textContent)") == repaired
    _, host = host_with_reason(data)
    opened.click("#f-clear")
    opened.ask("document.getElementById('f-text').focus()")
    opened.type(f" {host['service_tag'].lower()} ")
    assert opened.ask(f"{ROWS}.map((row) => row.querySelector('a').textContent)") == [host["name"]]
    assert opened.ask("document.querySelectorAll('.slot:not(.off)').length") == 1
    assert complaints(opened) == []


def test_the_mouse_shows_a_reason_and_takes_it_away(opened, data):
    selector, host = host_with_reason(data)
    opened.point(selector)
    (said,) = opened.ask(f"{TIP}.map((tip) => tip.textContent)")
    assert host["reasons"][0]["symptom"] in said and host["action"] in said
    opened.point("h1")
    assert opened.ask(f"{TIP}.length") == 0


def test_the_keyboard_alone_shows_every_reason(opened, data):
    opened.key("Tab")
    assert opened.ask(f"{FOCUSED}.className") == "skip"
    assert opened.ask(f"{FOCUSED}.getBoundingClientRect().left") >= 0
    for _ in range(30):
        opened.key("Tab")
        if opened.ask(f"{FOCUSED}.classList.contains('host')"):
            break
    assert "r1-n08" in opened.ask(f"{FOCUSED}.textContent")  # on top of the first rack
    assert opened.ask(f"parseFloat(getComputedStyle({FOCUSED}).outlineWidth)") >= 2
    selector, host = host_with_reason(data)
    opened.key("End")
    opened.key("Home")
    for _ in range(200):  # down each rack, then to the next one
        if opened.ask(f"{FOCUSED}.matches('{selector}')"):
            break
        before = opened.ask(f"{FOCUSED}.id")
        opened.key("ArrowDown")
        if opened.ask(f"{FOCUSED}.id") == before:
            opened.key("ArrowRight")
            for _ in range(10):
                opened.key("ArrowUp")
    (said,) = opened.ask(f"{TIP}.map((tip) => tip.textContent)")
    assert host["reasons"][0]["symptom"] in said
    assert opened.ask(f"document.getElementById({FOCUSED}.getAttribute('aria-describedby')).textContent") == said
    opened.picture(PICTURES / "keyboard.png")
    opened.key("Escape")
    assert opened.ask(f"{TIP}.length") == 0
    opened.key("Tab")  # the map is one stop
    assert not opened.ask(f"{FOCUSED}.classList.contains('host')")


@pytest.mark.parametrize("width", [360, 768, 1280, 1920])
def test_nothing_is_wider_than_the_screen(opened, width):
    opened.screen(width, 800, phone=width == 360)
    assert opened.ask("window.innerWidth") == width
    assert opened.ask("document.scrollingElement.scrollWidth - document.documentElement.clientWidth") == 0
    opened.picture(PICTURES / f"wide-{width}.png")


def test_a_finger_opens_a_reason_on_a_phone_and_closes_it(opened, data):
    opened.screen(360, 740, phone=True)
    selector, host = host_with_reason(data)
    opened.tap(selector)
    (said,) = opened.ask(f"{TIP}.map((tip) => tip.textContent)")
    assert host["reasons"][0]["symptom"] in said
    box = opened.ask(f"{TIP}[0].getBoundingClientRect().toJSON()")
    assert box["left"] >= 0 and box["right"] <= 360 and box["top"] >= 0 and box["bottom"] <= 740
    opened.picture(PICTURES / "phone.png")
    opened.tap("h1")
    assert opened.ask(f"{TIP}.length") == 0
    least = "Math.min(...[...document.querySelectorAll('.host')].map((host) => host.getBoundingClientRect().height))"
    assert opened.ask(least) >= 24  # WCAG 2.2: targets of 24 pixels


def test_dark_where_the_user_wants_it_dark(opened):
    assert opened.ask(BACKGROUND) == "rgb(255, 255, 255)"
    light = opened.picture(PICTURES / "light.png")
    opened.scheme("dark")
    red, green, blue = map(int, re.findall(r"\d+", opened.ask(BACKGROUND)))
    assert max(red, green, blue) < 40
    assert opened.picture(PICTURES / "dark.png") != light


def test_on_paper_there_are_no_filters_and_all_hosts(opened):
    opened.tell("Emulation.setEmulatedMedia", media="print")
    assert opened.ask("document.getElementById('filters').offsetParent === null")
    assert opened.ask("[...document.querySelectorAll('.host')].every((host) => host.offsetParent !== null)")
    opened.tell("Emulation.setEmulatedMedia", media="")


def test_without_scripts_reasons_still_show(browser, page, data):
    browser.screen(1280, 900)
    browser.tell("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(page)
        selector, host = host_with_reason(data)
        browser.point(selector)
        (said,) = browser.ask(f"{TIP}.map((tip) => tip.textContent)")
        assert host["reasons"][0]["symptom"] in said
        assert browser.ask("document.getElementById('filters').offsetParent === null")
    finally:
        browser.tell("Emulation.setScriptExecutionDisabled", value=False)


def test_what_hosts_say_does_not_run(browser, tmp_path):
    evil = "</script><script>window.ran=1</script><img src=x onerror=window.ran=1>\"' onfocus=window.ran=1 x='|"
    bad = Finding("x", "fail", evil, evil, evil, "replace")
    told = one_host(bad, rack=evil, service_tag=evil, profile=evil)
    html.write(overview(report.build(evil, [told], 1), []), tmp_path, "latest")
    for width in (1280, 360):
        browser.screen(width, 740, phone=width == 360)
        browser.open(tmp_path / "latest.html")
        assert browser.ask("document.scrollingElement.scrollWidth - document.documentElement.clientWidth") == 0
    browser.tap("#h0")
    assert browser.ask("window.ran === undefined")
    assert complaints(browser) == []
    assert browser.ask(f"{TIP}[0].textContent").count("onerror=window.ran=1") >= 3
    assert browser.ask("window.innerWidth") == 360


def test_long_reasons_do_not_break_names_and_actions(browser, tmp_path):
    bad = Finding("x", "fail", "bmc.unreachable", "BMC 10.0.0.1", "connection refused and so on " * 12, "power_cycle")
    told = one_host(bad, name="gpu-rack12-n01", rack="rack12")
    html.write(overview(report.build("lab", [told], 1), []), tmp_path, "latest")
    browser.screen(1280, 900)
    browser.open(tmp_path / "latest.html")
    lines = browser.ask("[...document.querySelectorAll('.whole > *')].map((word) => word.getClientRects().length)")
    assert lines == [1, 1]


def test_a_fleet_of_five_hundred_opens(browser, tmp_path):
    html.write(made_data(tmp_path, hosts=500), tmp_path, "latest")
    browser.screen(1280, 900)
    browser.open(tmp_path / "latest.html")
    assert browser.ask("document.querySelectorAll('.slot').length") == 500
    took = browser.ask("performance.getEntriesByType('navigation')[0].loadEventEnd")
    print(f"500 hosts: loaded after {took:.0f} ms")
    browser.picture(PICTURES / "500.png")
