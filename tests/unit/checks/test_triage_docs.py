"""The tables for people, docs/triage-hosts.md and docs/xid.md: a row for every symptom of the checks on hosts and of
roles, with what the code says of it; and no row for what nothing says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from check_cases import CASES
from value_cases import value_names

from firstlight import checks, zfs
from firstlight.checks import ALL_CHECKS, capture, folder
from firstlight.checks.kernel_log_rules import RULES
from firstlight.cohort import NUMBERS
from firstlight.findings import ACTIONS, STATUSES

ROOT = Path(__file__).parents[3]
LIBRARY = Path(checks.__file__).parents[1]
CHECK_NAMES = {check.name for check in ALL_CHECKS} | {"host_check"}
SYMPTOM = re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*[a-z0-9]")
# of the same form, and none of a check or role: a unit, a sysctl, files, keys of nvidia-smi and the inventory
OTHERS = {"docker.service", "index.json", "kernel.numa_balancing", "pci.bus_id"}
# what of this a check says in another way: as ..._not_answering, with a symptom of its own
SAID_OTHERWISE = {capture.REFUSED}
# said at install, which docs/triage.md and docs/maas.md tell of
AT_INSTALL = {"install.wrong_image", "install.wrong_kernel"}


def rows(name: str) -> Iterator[tuple[set[str], list[str]]]:
    """The symptoms in the first cell of each row that has some, and its cells."""
    for line in (ROOT / "docs" / name).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            yield set(re.findall(r"`((?:CHECK|STAGE|[a-z][a-z0-9_]*)\.(?:NAME|[a-z][a-z0-9_]*))`", cells[0])), cells


def pairs(cell: str) -> set[tuple[str, str]]:
    """``fail, reseat; warn, none`` as (status, action)."""
    found = set()
    for part in cell.split(";"):
        status, _, action = part.strip().partition(", ")
        assert status in STATUSES, cell
        assert action in ACTIONS, cell
        found.add((status, action))
    return found


def texts(node: ast.AST) -> Iterator[str]:
    return (n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str))


def called(name: str, tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == name:
            yield node


@lru_cache
def sources() -> list[ast.Module]:
    files = [*Path(checks.__file__).parent.glob("*.py"), *Path(zfs.__file__).parent.glob("*.py")]
    return [ast.parse(path.read_text()) for path in files]


@lru_cache
def of_code() -> set[str]:
    """Every symptom that checks and the planning of pools can give, other than those made of a check's name."""
    needs = {need for check in ALL_CHECKS for need in check.needs}
    found = {text for tree in sources() for text in texts(tree) if SYMPTOM.fullmatch(text)}
    found = found - needs - OTHERS - AT_INSTALL - value_names() - set(NUMBERS)
    found |= {text for text in texts(ast.parse((LIBRARY / "cohort.py").read_text())) if text.startswith("cohort.")}
    found |= {rule.symptom for rule in RULES}
    found |= {symptom for case in CASES for status, symptom, *_ in case.want if status != "ok"}
    return {symptom for symptom in found if not re.fullmatch(r"s?xid\.\d+", symptom)}


def names_in(tree: ast.Module) -> dict[str, str]:
    """The texts that the module's constants have: ``NAME = "clock"``, ``XIDS, LOG = "kernel_xid", "kernel_log"``."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
            several = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
            for one, text in zip(target.elts, value.elts, strict=True) if several else [(target, value)]:
                if isinstance(one, ast.Name) and isinstance(text, ast.Constant) and isinstance(text.value, str):
                    found[one.id] = text.value
    return found


@lru_cache
def reasons() -> set[str]:
    """What checks put behind their own name: why they could not look, or that it is not theirs to judge.

    ``clock.unreadable`` where the code says which check, ``CHECK.unreadable`` where it can be any.
    """
    problems = {value for key, value in vars(capture).items() if key.isupper() and SYMPTOM.fullmatch(f"x.{value}")}
    found = {f"CHECK.{reason}" for reason in (problems | {folder.NOT_CAPTURED}) - SAID_OTHERWISE}
    for tree in sources():
        names = names_in(tree)
        for call in called("unknown", tree):
            check, reason = call.args[:2]
            if isinstance(reason, ast.Constant):
                found.add(f"{names.get(getattr(check, 'id', ''), 'CHECK')}.{reason.value}")
        for call in called("Finding", tree):
            for node in [n for arg in call.args for n in ast.walk(arg) if isinstance(n, ast.JoinedStr)]:
                first, *rest = node.values
                text = "".join(str(v.value) if isinstance(v, ast.Constant) else "{}" for v in rest)
                if isinstance(first, ast.FormattedValue) and re.fullmatch(r"\.[a-z_]+", text):
                    found.add(names.get(getattr(first.value, "id", ""), "CHECK") + text)
    return found


@lru_cache
def of_roles() -> set[str]:
    """The symptoms in the findings that roles hand over."""

    def mappings(value: Any) -> Iterator[dict[str, Any]]:
        if isinstance(value, dict):
            yield value
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from mappings(inner)

    found = set()
    for path in [*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("roles/*/vars/*.yml")]:
        for row in mappings(yaml.safe_load(path.read_text())):
            if "symptom" in row and "evidence" in row:
                text = str(row["symptom"])
                found |= {text} if SYMPTOM.fullmatch(text) else set(re.findall(rf"'({SYMPTOM.pattern})'", text))
    plan = ast.parse((ROOT / "plugins" / "modules" / "apt_plan.py").read_text())
    found |= {call.args[1].value for call in called("refuse", plan) if isinstance(call.args[1], ast.Constant)}
    return found


def elsewhere() -> set[str]:
    """Of a host too, said around the checks: by SSH, by a stage, by a fleet run, by the engine where nothing was
    checked."""
    found = {"verdict.no_findings", "host_check.nothing_checked", "STAGE.no_answer", "STAGE.task_failed"}
    files = ("sshreason.py", "health/state.py", "health/answers.py", "fleet/noting.py")
    for path in (*(LIBRARY / name for name in files), ROOT / "plugins" / "action" / "fleet_stage.py"):
        found |= set(texts(ast.parse(path.read_text())))
    return found


HOSTS = [row for name in ("triage-hosts.md", "xid.md") for row in rows(name)]
DOCUMENTED = set().union(*(symptoms for symptoms, _ in HOSTS))


def documented(symptom: str) -> bool:
    check, _, reason = symptom.partition(".")
    return symptom in DOCUMENTED or (check in CHECK_NAMES and f"CHECK.{reason}" in DOCUMENTED)


def test_every_symptom_of_checks_has_a_row() -> None:
    assert len(of_code()) > 150
    assert {symptom for symptom in of_code() if not documented(symptom)} == set()


def test_every_reason_that_a_check_could_not_look_has_a_row() -> None:
    words = {symptom.partition(".")[2] for symptom in DOCUMENTED}
    of_any = {symptom for symptom in reasons() if symptom.startswith("CHECK.")}
    assert {"CHECK.timed_out", "CHECK.skipped", "CHECK.judge_failed"} <= of_any
    assert {"clock.unreadable", "pcie_link.virtual", "kernel_log.patterns_too_slow"} <= reasons()
    # of what is put together of something else than a check, as nvme.worn and disk.worn, only the word is known here
    assert {symptom for symptom in of_any if symptom.partition(".")[2] not in words} == set()
    assert {symptom for symptom in reasons() - of_any if not documented(symptom)} == set()


def test_every_symptom_of_roles_has_a_row() -> None:
    assert {"clock.was_off", "docker.no_cdi", "logs.not_shipped", "packages.refused"} <= of_roles()
    assert {symptom for symptom in of_roles() if not documented(symptom)} == set()


def test_what_is_said_about_what_is_remembered_has_a_row() -> None:
    said = {text for text in elsewhere() if re.fullmatch(r"earlier\.[a-z_]+", text)}
    assert {"earlier.unreadable", "earlier.not_written", "earlier.refused"} == said
    assert said <= DOCUMENTED


def test_no_row_is_of_what_nothing_says() -> None:
    of_any = {f"CHECK.{symptom.partition('.')[2]}" for symptom in reasons()}
    said = of_code() | of_roles() | elsewhere() | reasons() | of_any | {"site.NAME"}
    assert {symptom for symptom in DOCUMENTED if symptom not in said} == set()


def test_no_symptom_has_two_rows() -> None:
    named = [symptom for symptoms, _ in HOSTS for symptom in symptoms]
    assert sorted(named) == sorted(set(named))


def test_rows_say_status_and_action_as_the_code_does() -> None:
    told: dict[str, set[tuple[str, str]]] = {}
    for symptoms, cells in rows("triage-hosts.md"):
        assert len(cells) == 4, cells
        assert all(cells), cells
        for symptom in symptoms - {"CHECK.more"}:  # which has what it counts
            told[symptom] = pairs(cells[3])
    seen = [(symptom, (status, action)) for case in CASES for status, symptom, _, action in case.want]
    for symptom, pair in seen:
        row = told.get(symptom) or told.get(f"CHECK.{symptom.partition('.')[2]}")
        if pair[0] != "ok" and row is not None:
            assert pair in row, f"{symptom}: {pair} is not in its row"


def test_checks_that_are_not_required_are_named() -> None:
    text = (ROOT / "docs" / "triage-hosts.md").read_text()
    told = re.search(r"check that is not required\s+\(([^)]*)\)", text)
    assert told
    assert set(re.findall(r"`(\w+)`", told.group(1))) == {check.name for check in ALL_CHECKS if not check.required}
