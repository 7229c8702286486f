"""What BMCs answer, bent and broken by hypothesis: findings come of it, never a traceback, never a false accusation."""

from __future__ import annotations

import copy
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from bmc_simulated import SimulatedReader, machine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_bmc_vendors import VENDORS, profile_for

from firstlight.bmc.errors import BmcError, HalfAnswering
from firstlight.bmc.fetch import read_tree
from firstlight.bmc.hardware import Hardware, Record
from firstlight.bmc.normalise import normalise
from firstlight.bmc.triage import triage, triage_fleet
from firstlight.findings import Finding, verdict
from firstlight.profile import Profile
from firstlight.sitefiles import PlannedHost

V1 = "/redfish/v1"


class WireReader:
    """Answers as bytes by path, decoded as strictly as the client does."""

    def __init__(self, wire: dict[str, bytes], can_expand: bool = False) -> None:
        self._wire = wire
        self.can_expand = can_expand

    def get(self, path: str, expand: bool = False) -> dict[str, Any]:
        answer = self._wire.get(path.rstrip("/"))
        if answer is None:
            raise HalfAnswering(f"GET {path}: 404", 404)
        try:
            body = json.loads(answer)
        except (ValueError, RecursionError):
            raise HalfAnswering(f"GET {path}: the answer is no JSON") from None
        if not isinstance(body, dict):
            raise HalfAnswering(f"GET {path}: the answer is no JSON object")
        return body


class Recorder(SimulatedReader):
    """Keeps what was answered."""

    can_expand = False

    def __init__(self, folder: Path, vendor: str) -> None:
        super().__init__(machine(folder, vendor, number=3))
        self.bodies: dict[str, dict[str, Any]] = {}

    def get(self, path: str, expand: bool = False) -> dict[str, Any]:
        body = super().get(path, expand)
        self.bodies[path.rstrip("/")] = copy.deepcopy(body)
        return body


def recorded(vendor: str) -> tuple[dict[str, dict[str, Any]], Profile]:
    with tempfile.TemporaryDirectory() as folder:
        reader = Recorder(Path(folder), vendor)
        tree = read_tree(reader)
    return reader.bodies, profile_for(vendor, normalise(tree.resources, tree.clock_read_at, tree.failures))


RECORDED = {vendor: recorded(vendor) for vendor in VENDORS}


def judged(wire: dict[str, bytes], profile: Profile) -> list[Finding]:
    """The findings that asking such a BMC ends in."""
    asked_at = "2026-11-29T12:00:00+00:00"
    try:
        tree = read_tree(WireReader(wire))
    except BmcError as error:
        record = Record("n3", error.condition, error.evidence, asked_at, 1.0)
    else:
        hardware = normalise(tree.resources, tree.clock_read_at, tree.failures)
        assert Hardware.from_dict(json.loads(json.dumps(hardware.to_dict()))) == hardware
        condition = "half_answering" if tree.failures else "ok"
        record = Record("n3", condition, "", asked_at, 1.0, hardware=hardware)
    findings = triage(PlannedHost("n3", "r1", 3, "127.0.0.3", profile.name), record, profile, previous=record)
    assert isinstance(triage_fleet({"n3": record, "n4": record}), dict)
    assert findings
    for finding in findings:
        assert "\n" not in finding.evidence + finding.locator
        assert finding.symptom
    return findings


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(
        ["LinkUp", "GPU", "NIC.Slot.1-1-1", "NVMe", "Critical", "Gen9", "x99", "9999-12-31T23:59:59+14:00", "\u202e"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in an answer where something stands."""
    found = [path] if path else []
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in children:
        found += places(value, (*path, key))
    return found


def bend(data: st.DataObject, body: dict[str, Any]) -> dict[str, Any]:
    """One answer with junk somewhere, or null where a list belongs."""
    body = copy.deepcopy(body)
    *above, last = data.draw(st.sampled_from(places(body)))
    node: Any = body
    for key in above:
        node = node[key]
    node[last] = None if isinstance(node[last], list) and data.draw(st.booleans()) else data.draw(JUNK)
    return body


def breaks(data: st.DataObject, answer: bytes) -> bytes | None:
    """One answer that cannot be read: cut off, sent twice, no JSON, no object, or not there at all."""
    how = data.draw(st.sampled_from(["gone", "cut", "twice", "html", "list", "empty"]))
    broken = {
        "gone": None,
        "cut": answer[: data.draw(st.integers(1, len(answer) - 1))],
        "twice": answer + b"\n" + answer,
        "html": b"<!DOCTYPE html><html><title>503</title></html>",
        "list": b"[" + answer + b"]",
        "empty": b"null",
    }
    return broken[how]


SETTINGS = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@pytest.mark.parametrize("vendor", VENDORS)
@SETTINGS
@given(data=st.data())
def test_wrong_types_and_nulls_end_in_findings(vendor: str, data: st.DataObject) -> None:
    bodies, profile = RECORDED[vendor]
    bent = dict(bodies)
    for path in data.draw(st.lists(st.sampled_from(sorted(bodies)), min_size=1, max_size=6, unique=True)):
        bent[path] = bend(data, bodies[path])
    judged({path: json.dumps(body).encode() for path, body in bent.items()}, profile)


@pytest.mark.parametrize("vendor", VENDORS)
@SETTINGS
@given(data=st.data())
def test_what_cannot_be_read_is_unknown_and_accuses_no_part(vendor: str, data: st.DataObject) -> None:
    """Everything that this machine says is sound; so nothing may fail but the BMC, and ready it is not."""
    bodies, profile = RECORDED[vendor]
    wire: dict[str, bytes] = {path: json.dumps(body).encode() for path, body in bodies.items()}
    for path in data.draw(st.lists(st.sampled_from(sorted(bodies)), min_size=1, max_size=6, unique=True)):
        broken = breaks(data, wire[path])
        if broken is None:
            del wire[path]
        else:
            wire[path] = broken
    findings = judged(wire, profile)
    assert [f for f in findings if f.status == "fail" and f.check != "bmc"] == []
    assert not verdict(findings).ready
    assert findings[0].symptom in ("bmc.half_answering", "bmc.not_ready")


@pytest.mark.parametrize("vendor", VENDORS)
def test_the_recorded_machines_are_sound(vendor: str) -> None:
    bodies, profile = RECORDED[vendor]
    findings = judged({path: json.dumps(body).encode() for path, body in bodies.items()}, profile)
    assert [f for f in findings if f.status in ("fail", "unknown")] == []
