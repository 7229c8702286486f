"""The page itself: one file of HTML with its style and script, which fetches nothing and lets nothing else run."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import statistics
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from ..errors import FirstlightError
from ..ledger.store import STAGES
from ..wholefile import write_whole
from . import figures
from .racks import natural, places, racks

FOLDER = Path(__file__).parent
CAUSES_MAX, VERSIONS_MAX = 40, 60  # rows of a table; the JSON has all
HOST_PIXELS = 26  # least height of a host in its rack: to be hit with a finger
# by how a host stands, in the order of the legend: a mark beside the colour, and the word
LOOKS = {
    "ready": {"mark": "✓", "word": "ready"},
    "failed": {"mark": "✗", "word": "failed"},
    "quarantined": {"mark": "Q", "word": "quarantined"},
    "in_repair": {"mark": "R", "word": "in repair"},
    "under_way": {"mark": "→", "word": "under way"},
    "planned": {"mark": "○", "word": "planned"},
}
_TITLES = {
    "common": "On many hosts at once",
    "racks": "Racks",
    "not-ready": "Not ready",
    "bring-up": "Bring-up",
    "causes": "Causes",
    "offenders": "Repeat offenders",
    "weeks": "Failures by week",
    "versions": "Firmware and software",
}


def page(data: Mapping[str, Any], *, check: bool = False) -> str:
    """The page for what ``overview`` gives. check: it is of a run in check mode."""
    hosts = data["hosts"]
    columns, span = racks(hosts)
    counts = Counter(host["standing"] for host in hosts)
    style = _read("page.css") + _places_css(places(columns), span)
    script = _read("page.js")
    empty = {section for section in ("common", "versions") if not data[section]}
    return _template().render(
        data=data,
        check=check,
        policy=_policy(style, script),
        style=Markup(style),  # noqa: S704 - our own file, and whole numbers
        script=Markup(script),  # noqa: S704 - our own file
        sections=[(name, title) for name, title in _TITLES.items() if name not in empty],
        racks=columns,
        ids={host["name"]: number for number, host in enumerate(hosts)},
        looks=LOOKS,
        counts=counts,
        standings=[word for word in LOOKS if counts[word]],
        symptoms=sorted({symptom for host in hosts for symptom in host["symptoms"]}),
        profiles=sorted({host["profile"] for host in hosts}),
        not_ready=sorted(
            (host for host in hosts if host["standing"] != "ready"),
            key=lambda host: (natural(host["rack"]), host["unit"] or 0, host["name"]),
        ),
        timeline=figures.timeline(data["bring_up"], len(hosts)),
        stage_seconds=_stage_seconds(hosts),
        weeks=figures.weeks(data["weeks"]),
        causes_max=CAUSES_MAX,
        causes_most=max((one["lately"] for one in data["causes"]), default=1),
        versions_max=VERSIONS_MAX,
        width=figures.WIDTH,
        height=figures.HEIGHT,
        left=figures.LEFT,
        right=figures.RIGHT,
        top=figures.TOP,
        bottom=figures.BOTTOM,
    )


def write(data: Mapping[str, Any], folder: Path, name: str, *, check: bool = False) -> None:
    """Write NAME.html and NAME.page.json, each whole or not at all; FirstlightError where that is not possible."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / f"{name}.html", page(data, check=check))
        write_whole(folder / f"{name}.page.json", json.dumps(data) + "\n")
    except OSError as error:
        said = f"the page cannot be written to {folder}: {error.strerror}; free it, or name another reports_dir"
        raise FirstlightError(said) from None


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(time=_time, duration=figures.duration, percent=figures.percent)
    return environment.get_template("page.html.j2")


@functools.cache
def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Nothing is fetched, nothing is sent, and of styles and scripts only these two run."""
    allowed = [f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}"]
    return "; ".join([*allowed, "img-src data:", "base-uri 'none'", "form-action 'none'"])


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _places_css(used: list[tuple[int, int]], span: int) -> str:
    """Rows of the racks. As classes, since the page's own policy forbids styles in elements."""
    row = -(-HOST_PIXELS // span)
    rules = [f".p{first}-{rows}{{grid-row:{first}/span {rows}}}" for first, rows in used]
    return "\n".join([f".units{{grid-auto-rows:{row}px}}", *rules]) + "\n"


def _stage_seconds(hosts: list[dict[str, Any]]) -> dict[str, float]:
    """By stage the median of the seconds that hosts last spent in it."""
    taken = {stage: [h["seconds"][stage] for h in hosts if h["seconds"].get(stage) is not None] for stage in STAGES}
    return {stage: statistics.median(seconds) for stage, seconds in taken.items() if seconds}


def _time(text: str) -> Markup:
    """``2026-03-01 08:05``, UTC."""
    at = datetime.fromisoformat(text).astimezone(UTC)
    return Markup('<time datetime="{}">{}</time>').format(text, at.strftime("%Y-%m-%d %H:%M"))
