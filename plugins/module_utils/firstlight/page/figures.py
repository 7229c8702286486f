"""Geometry of the page's figures: from what overview.py gives to coordinates of SVG. Pure; units are the figure's own.

Colours, fonts and texts for screen readers are the template's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

WIDTH, HEIGHT = 540, 250
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 14, 34  # margins, with room for the labels
_TIMES = (
    (1, "1 s"), (10, "10 s"), (60, "1 min"), (600, "10 min"), (3600, "1 h"), (6 * 3600, "6 h"), (86400, "1 day"),
    (7 * 86400, "1 week"), (30 * 86400, "30 days"), (365 * 86400, "1 year"),
)  # fmt: skip
# Where the axis of a share may end; at least so far, that one failed host of a hundred does not look like all of them.
_SHARES = (0.05, 0.1, 0.2, 0.4, 0.6, 1)


def timeline(bring_up: Sequence[Mapping[str, Any]], hosts: int) -> dict[str, Any] | None:
    """How many hosts had passed each stage after how long; None where no host passed any.

    The time's axis is logarithmic, from the last mark before the first pass on: minutes of a bring-up and days of a
    repair are both to be read. hosts: how many the fleet has. Gives lines [{stage, points}] as ``x,y x,y``, marks of
    both axes [{x or y, label}].
    """
    moments = [max(1.0, seconds) for stage in bring_up for seconds, _ in stage["points"]]
    if not moments:
        return None
    first = max(mark for mark, _ in _TIMES if mark <= max(1.0, min(moments)))
    last = max(max(moments) * 1.1, first * 2)
    scale = (WIDTH - LEFT - RIGHT) / math.log(last / first)

    def x(seconds: float) -> float:
        return round(LEFT + math.log(max(first, seconds) / first) * scale, 1)

    most = max(hosts, *(stage["hosts"] for stage in bring_up))
    lines = []
    for stage in bring_up:
        height, points = y(0, most), [f"{x(stage['points'][0][0])},{y(0, most)}"]
        for seconds, number in stage["points"]:  # a step for each host
            points.append(f"{x(seconds)},{height}")
            height = y(number, most)
            points.append(f"{x(seconds)},{height}")
        points.append(f"{WIDTH - RIGHT},{height}")
        lines.append({"stage": stage["stage"], "points": " ".join(points)})
    return {
        "lines": lines,
        "times": [{"x": x(mark), "label": label} for mark, label in _TIMES if first <= mark <= last],
        "counts": [{"y": y(count, most), "label": str(count)} for count in _counts(most)],
    }


def weeks(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Bars of the share of hosts that failed in each week; None where no host was ever ready.

    Gives bars [{x, y, width, height, label, week}] (no height where none was ready), marks of the share's axis.
    """
    shares = [row["share"] for row in rows if row["share"] is not None]
    if not shares:
        return None
    most = next(end for end in _SHARES if end >= max(shares))
    step = (WIDTH - LEFT - RIGHT) / len(rows)
    bars = []
    for number, row in enumerate(rows):
        top = y(row["share"] or 0, most)
        bars.append(
            {
                "x": round(LEFT + number * step + step * 0.15, 1),
                "middle": round(LEFT + (number + 0.5) * step, 1),
                "y": top,
                "width": round(step * 0.7, 1),
                "height": round(y(0, most) - top, 1),
                "label": "" if row["share"] is None else percent(row["share"]),
                "week": row["week"].partition("-")[2],
            }
        )
    marks = [{"y": y(most * part, most), "label": percent(most * part)} for part in (0, 0.5, 1)]
    return {"bars": bars, "shares": marks}


def y(value: float, most: float) -> float:
    """Where a value from 0 to ``most`` stands."""
    return round(HEIGHT - BOTTOM - value / most * (HEIGHT - TOP - BOTTOM), 1)


def percent(share: float) -> str:
    """``3.1%``; whole from ten on and for nothing."""
    text = f"{share * 100:.1f}" if 0 < share < 0.0995 else f"{share * 100:.0f}"
    return f"{text.removesuffix('.0')}%"


def duration(seconds: float) -> str:
    """In words as short as they may be: ``42 s``, ``12 min``, ``3.5 h``, ``2.1 days``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"


def _counts(most: int) -> list[int]:
    """Round numbers from 0 to ``most``, and ``most`` itself."""
    step = 10 ** math.floor(math.log10(most)) if most > 1 else 1
    step = next((s for s in (step // 4, step // 2, step, step * 2) if s >= 1 and most / s <= 5), step)
    marks = [mark for mark in range(0, most, step) if most - mark > step / 3]
    return [*marks, most]
