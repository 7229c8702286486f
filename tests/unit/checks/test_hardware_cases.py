"""The table of cases of PCIe, drives, HCAs and hosts is whole, and their judges take whatever a host says."""

from __future__ import annotations

import ast
import copy
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import disk_cases
import hca_cases
import host_cases
import pcie_cases
from check_cases import HARDWARE, Case
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firstlight import checks
from firstlight.checks import ALL_CHECKS
from firstlight.checks.capture import Output
from firstlight.findings import ACTIONS, STATUSES
from firstlight.profile import Profile

FIXTURES = Path(__file__).parents[2] / "fixtures" / "hardware"
FOLDER = Path(checks.__file__).parent
OWN = (
    "cpu_idle",
    "disk_health",
    "disks",
    "hca_errors",
    "hca_module",
    "infiniband",
    "memory",
    "nvme",
    "pcie",
    "services",
    "zfs",
)
BY_NAME = {check.name: check for check in ALL_CHECKS}


def test_every_fixture_is_used() -> None:
    here = Path(__file__).parent
    text = "".join(
        (here / f"{name}.py").read_text() for name in ("disk_cases", "hca_cases", "host_cases", "pcie_cases")
    )

    assert {path.name for path in FIXTURES.iterdir() if path.name not in text} == {"README.md"}


def test_what_a_judge_is_given_has_the_names_of_what_is_read() -> None:
    first = {case.check: case for case in reversed(HARDWARE)}

    for name, case in first.items():
        reads = BY_NAME[name].reads(case.wanted_profile(), {**case.expect, "docker": True})
        assert set(reads) == set(case.captured), name


def test_every_symptom_has_a_sample() -> None:
    found = set()
    for name in OWN:
        for node in ast.walk(ast.parse((FOLDER / f"{name}.py").read_text())):
            if isinstance(node, ast.Constant) and re.fullmatch(r"(pcie|container|firmware)\.[a-z_]+", str(node.value)):
                found.add(node.value)
    # those that the code puts together
    found |= {f"{kind}.{what}" for kind in ("nvme", "disk") for what in ("failed", "worn")} | {"nvme.hot"}
    found |= {f"{check}.virtual" for check in ("pcie_link", "disk_read", "memory_errors", "cpu_idle")}
    found |= {f"{check}.no_device" for check in ("hca_firmware", "hca_errors", "hca_module")}

    assert len(found) > 15
    assert found <= {symptom for case in HARDWARE for _, symptom, *_ in case.want}


def test_a_host_of_containers_on_another_machine_is_not_failed_for_what_it_cannot_have() -> None:
    profile = {**pcie_cases.PROFILE, "dimms": {"count": 32}}
    nothing = {"counters": Output(hca_cases.files({"/proc/uptime": "1.0 1"}))}
    known = Profile.from_dict({"name": "x", "vendor": "v", "model": "m", **profile})
    there = {
        "pcie_link": {"sysfs": Output(pcie_cases.BARE_HOST), "virtualization": Output("podman\n")},
        "memory_errors": {"edac": Output(host_cases.NONE), "virtualization": Output("podman\n")},
        "hca_errors": nothing,
        "hca_module": {"hwmon": Output(hca_cases.files({})), "mlxlink": Output(hca_cases.NO_TOOL)},
        "disk_health": {
            "drives": Output(disk_cases.drives({**disk_cases.nvme("", 1), "model": "Dell BOSS-N1"})["drives"])
        },
    }

    statuses = {name: [f.status for f in BY_NAME[name].judge(said, known, {})] for name, said in there.items()}

    assert set(statuses) == {name for name, found in statuses.items() if found == ["warn"]}


VALUES = st.none() | st.booleans() | st.integers(-1, 1 << 70) | st.floats() | st.text(max_size=6)
ANY = st.recursive(
    VALUES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2)
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, inner in below for place in places(inner, (*path, key)))]


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    value = copy.deepcopy(value)
    inner = value
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return value


def in_json(case: Case) -> list[str]:
    return [key for key, output in case.captured.items() if output.text[:1] == "{"]


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_any_value_in_the_place_of_another_is_judged(data: Any) -> None:
    case = data.draw(st.sampled_from([case for case in HARDWARE if in_json(case)]))
    key = data.draw(st.sampled_from(in_json(case)))
    said = json.loads(case.captured[key].text)
    spot = data.draw(st.sampled_from(places(said)))
    text = json.dumps(put(said, spot, data.draw(ANY)))

    findings = BY_NAME[case.check].judge(
        {**case.captured, key: replace(case.captured[key], text=text)}, case.wanted_profile(), case.expect
    )

    assert findings
    assert all(f.status in STATUSES and f.action in ACTIONS and len(f.evidence) <= 500 for f in findings)


def test_a_value_of_another_type_is_judged_wherever_it_stands() -> None:
    """Each place once, of a list its first item: what chance above meets only now and then."""
    seen = set()
    for case in HARDWARE:
        for key in in_json(case):
            said = json.loads(case.captured[key].text)
            for spot in places(said):
                place = (case.check, key, spot, json.dumps(case.expect, sort_keys=True, default=str))
                if place in seen or any(isinstance(step, int) and step for step in spot):
                    continue
                seen.add(place)
                for value in (1, "x", [[]], {"a": {}}, None):
                    output = replace(case.captured[key], text=json.dumps(put(said, spot, value)))
                    judge = BY_NAME[case.check].judge
                    assert judge({**case.captured, key: output}, case.wanted_profile(), case.expect), place
    assert seen
