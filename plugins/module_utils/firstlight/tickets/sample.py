"""Tickets that are none: on them a site's templates are tried before a run needs them."""

from __future__ import annotations

from ..findings import Finding
from ..policy.causes import Cause
from .model import OPEN, Place, Ticket, Update

_AT = "2026-01-01T00:00:00+00:00"
_NEW = Ticket(
    id="SAMPLE1-gpu-1",
    host="sample",
    service_tag="SAMPLE1",
    place=Place("site", "r1", 1, "profile"),
    cause=Cause("gpu", "Slot.1"),
    state=OPEN,
    action="reseat",
    findings=(
        Finding("gpus", "fail", "gpu.missing", "Slot.1", "7 of 8", "reseat"),
        Finding("gpu_links", "fail", "gpu.link", "Slot.1", "8 of 16 lanes", "reseat"),
    ),
    stages=("discover", "smoke"),
    opened=_AT,
    updated=_AT,
    history=(Update(_AT, "opened: reseat"),),
)
SAMPLES = (_NEW, _NEW.changed(_AT, "closed: mended", state="closed", action="replace", why="tried before"))
