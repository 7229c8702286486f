"""From findings to yes or no, to metrics, to exit statuses; what a site may say; the tools for people."""

from __future__ import annotations

import ast
import datetime
import json
import re
import sys
import tomllib
import unittest.mock
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstlight import health
from firstlight.checks import ALL_CHECKS
from firstlight.checks.capture import Output
from firstlight.checks.folder import capture, write_folder
from firstlight.findings import ACTIONS, STATUSES, Finding, verdict
from firstlight.health import cli, metrics
from firstlight.health import settings as site
from firstlight.health.verdicts import lines, reason_lines, record, record_of_report, status
from firstlight.profile import Profile
from firstlight.report import build, host_report

ROOT = Path(__file__).parents[2]
FOLDER = Path(health.__file__).parent
GOOD = Finding("gpu_count", "ok", "gpu_count", evidence="8 GPUs")
BAD = Finding("gpu_count", "fail", "gpu.missing", "1 of 8 GPUs", "7 GPUs, 8 expected", "reseat")
ODD = Finding("failed_units", "warn", "unit.failed", "zfs.service")
PROFILE = {"name": "x", "vendor": "v", "model": "m"}


def of(*findings: Finding, told: bool = True) -> dict[str, Any]:
    return record("h", findings, verdict(findings), told)


# ---------------------------------------------------------------- yes or no


def test_a_record_says_yes_or_no_with_reasons() -> None:
    assert of(GOOD) == {"name": "h", "fit": True, "action": "none", "reasons": [], "findings": [GOOD.to_dict()]}
    bad = of(GOOD, BAD)
    assert (bad["fit"], bad["action"], bad["reasons"]) == (False, "reseat", [BAD.to_dict()])
    assert of(Finding("a", "unknown", "a.no_tool"))["fit"] is False
    assert of(BAD, told=False)["fit"] is None


def test_lines_for_people() -> None:
    assert lines([of(GOOD, ODD), of(GOOD, BAD, ODD), of(BAD, told=False)]) == [
        "h: yes",
        "    warning: unit.failed, zfs.service",
        "h: no",
        "    gpu.missing, 1 of 8 GPUs, 7 GPUs, 8 expected (reseat)",
        "    warning: unit.failed, zfs.service",
        "h: not told",
        "    gpu.missing, 1 of 8 GPUs, 7 GPUs, 8 expected (reseat)",
    ]


def test_what_many_hosts_have_is_said_first_and_once() -> None:
    hosts = [{**story(BAD if n < 3 else GOOD), "name": f"n{n}", "rack": f"r{n}"} for n in range(4)]
    built = build("s", hosts, "0%")

    assert lines([record_of_report(host) for host in built["hosts"]], built["common"]) == [
        f"gpu.missing on 3 of 4 hosts: {built['common'][0]['says']}",
        "    n0 says: 1 of 8 GPUs, 7 GPUs, 8 expected",
        "    n0, n1, n2",
        *(line for n in range(3) for line in (f"n{n}: no", "    gpu.missing, 1 of 8 GPUs, as on 3 hosts (reseat)")),
        "n3: yes",
    ]


def test_parts_of_one_host_that_fail_alike_are_each_a_line() -> None:
    other = Finding("gpu_count", "fail", "gpu.missing", "2 of 8 GPUs", "x", "reseat")
    common = [{"check": "gpu_count", "symptom": "gpu.missing", "task": "", "count": 9, "hosts": ["h"]}]

    assert reason_lines([BAD.to_dict(), other.to_dict(), ODD.to_dict()], "h", common) == [
        "gpu.missing, 1 of 8 GPUs, as on 9 hosts (reseat)",
        "gpu.missing, 2 of 8 GPUs, as on 9 hosts (reseat)",
        "unit.failed, zfs.service",
    ]
    assert "7 GPUs, 8 expected" in reason_lines([BAD.to_dict()], "another", common)[0]


def test_exit_status() -> None:
    yes, no, unheard = of(GOOD), of(BAD), of(BAD, told=False)

    assert status([yes, yes]) == 0
    assert status([yes, no]) == 1
    assert status([yes, no, unheard]) == 2
    assert status([]) == 2


def story(*held: Finding, smoke: str = "passed") -> dict[str, Any]:
    before = {stage: {"result": "passed", "seconds": 1.0} for stage in ("discover", "enlist", "install", "configure")}
    place = {"name": "h", "rack": "r", "unit": "1", "service_tag": "T", "profile": "x", "state": "ready"}
    stages = {**before, "smoke": {"result": smoke, "seconds": 1.0}}
    return {**place, "findings": [f.to_dict() for f in held], "stages": stages}


@pytest.mark.parametrize(
    ("held", "smoke", "fit"),
    [
        ([GOOD], "passed", True),
        ([GOOD, BAD], "failed", False),
        ([Finding("gpu_count", "unknown", "gpu_count.no_tool")], "failed", False),
        ([Finding("smoke", "fail", "ssh.unreachable", "SSH at 10.0.0.1")], "failed", None),
        ([Finding("smoke", "fail", "smoke.task_failed")], "failed", None),
        ([Finding("smoke", "unknown", "smoke.no_answer")], "failed", None),
    ],
)
def test_what_the_report_has_of_a_host(held: list[Finding], smoke: str, fit: bool | None) -> None:
    row = record_of_report(host_report(story(*held, smoke=smoke)))

    assert row["fit"] is fit
    assert (row["name"], row["rack"], row["service_tag"]) == ("h", "r", "T")
    assert json.loads(json.dumps(row)) == row


# ---------------------------------------------------------------- what a site says


def test_settings_of_a_site() -> None:
    row = {"check": "clock", "reason": "no server yet", "until": "2027-03-01"}
    read = site.read_settings({"expect": {"docker": False}, "skip": [row], "require": ["kernel_xid"]})

    assert (read.expect, read.require) == ({"docker": False}, ["kernel_xid"])
    assert [(s.check, s.reason, s.until.isoformat()) for s in read.skips] == [tuple(row.values())]
    assert site.read_settings({}) == site.Settings()
    assert site.in_use({"docker": False}) == {"docker": False, "gpu_processes": ["*"]}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([], "settings are a mapping, not list"),
        ({"skips": []}, "unknown key 'skips'; known are expect, skip, require"),
        ({"expect": []}, None),
        ({"expect": ["clock"]}, "expect: must be a mapping, not list"),
        ({"expect": {"versions": {"any": {"any": {"kernel": "6"}}}}}, "expect.versions.any.any: unknown key 'kernel'"),
        (
            {"expect": {"versions": {"any": {"any": {"gpu_driver": 1}}}}},
            "expect.versions.any.any: must be a mapping of texts",
        ),
        ({"expect": {"versions": {"any": []}}}, "expect.versions.any: must be a mapping, not list"),
        ({"expect": {"ntp": []}}, "expect: unknown key 'ntp'; known are ntp_servers"),
        ({"expect": {"clock": "no"}}, "expect.clock: must be true or false, not str"),
        ({"expect": {"ntp_servers": "10.0.0.1"}}, "expect.ntp_servers: must be a list, not str"),
        ({"expect": {"exporters": {"x": True}}}, "expect.exporters.x: True is no port"),
        ({"require": "clock"}, "require: must be a list of checks, not str"),
        ({"require": ["gpu"]}, "require: 'gpu' is no check; there are "),
        ({"skip": {"check": "clock"}}, "skip: must be a list, not dict"),
        ({"skip": [{"check": "clock"}]}, "skip[0]: must have check, reason and until"),
        ({"skip": [{"check": "x", "reason": "r", "until": "2027-01-01"}]}, "skip[0].check: 'x' is no check"),
        ({"skip": [{"check": "clock", "reason": " ", "until": "2027-01-01"}]}, "skip[0].reason: say why"),
        ({"skip": [{"check": "clock", "reason": "r", "until": 20270101}]}, "skip[0].until: 20270101 is no date"),
    ],
)
def test_wrong_settings_are_one_line(data: Any, words: str | None) -> None:
    if words is None:
        assert site.read_settings(data) == site.Settings()
        return
    with pytest.raises(ValueError) as refused:
        site.read_settings(data)
    assert str(refused.value).startswith(words)
    assert "\n" not in str(refused.value)


def test_later_files_go_before_earlier_ones_and_errors_name_the_file(tmp_path: Path) -> None:
    one, two, bad = tmp_path / "one", tmp_path / "two", tmp_path / "bad"
    one.write_text('{"expect": {"docker": false, "clock": false}, "require": ["kernel_xid"]}')
    two.write_text('{"expect": {"docker": true}, "require": ["failed_units"]}')
    bad.write_text("{")

    read = site.load_settings([str(one), str(two)])

    assert (read.expect, read.require) == ({"docker": True, "clock": False}, ["kernel_xid", "failed_units"])
    for path, words in ((bad, "no JSON"), (tmp_path / "gone", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(ValueError, match=f"^{re.escape(str(path))}: {words}"):
            site.load_settings([str(path)])
    bad.write_text('{"name": "x"}')
    with pytest.raises(ValueError, match=f"^{re.escape(str(bad))}: key 'vendor' is missing"):
        site.load_profile(str(bad))


# ---------------------------------------------------------------- metrics

METRIC = re.compile(r'^([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\\\|\\"|\\n)*",?)+)\})? (-?[0-9.]+)$')


def series(text: str) -> dict[str, float]:
    """The text's series by name and labels, each once; fails on what Prometheus' text format does not allow."""
    found: dict[str, float] = {}
    for line in text.removesuffix("\n").split("\n"):
        if not re.match(r"# (HELP|TYPE) firstlight_[a-z_]+ ", line):
            matched = METRIC.match(line)
            assert matched, line
            name = f"{matched[1]}{{{matched[2] or ''}}}"
            assert name not in found
            found[name] = float(matched[3])
    assert text.endswith("\n")
    return found


def test_findings_as_metrics() -> None:
    found = series(metrics.text([GOOD, ODD, BAD], False, 1772352000.5, 1.25))

    labels = 'check="gpu_count",symptom="gpu.missing",locator="1 of 8 GPUs",status="fail",action="reseat"'
    other = 'check="failed_units",symptom="unit.failed",locator="zfs.service",status="warn",action="none"'
    assert found == {
        "firstlight_health_ready{}": 0,
        "firstlight_health_timestamp_seconds{}": 1772352000.5,
        "firstlight_health_duration_seconds{}": 1.25,
        "firstlight_health_findings{}": 2,
        f"firstlight_finding{{{labels}}}": 1,
        f"firstlight_finding{{{other}}}": 1,
    }
    assert series(metrics.text([GOOD], True, 1.0, 1.0))["firstlight_health_ready{}"] == 1


FINDING = st.builds(
    Finding,
    st.text(max_size=80),
    st.sampled_from(STATUSES),
    st.text(max_size=80),
    st.text(max_size=200) | st.sampled_from(['"', "\\", "a\nb", "\u2028", "é{}"]),
    st.text(max_size=80),
    st.sampled_from(ACTIONS),
)


@settings(max_examples=60, deadline=None)
@given(findings=st.lists(FINDING, max_size=12), times=st.sampled_from([1, 60]))
def test_whatever_is_found_the_metrics_are_bounded_and_readable(findings: list[Finding], times: int) -> None:
    many = [Finding(f"{f.check}{n}", f.status, f.symptom, f.locator) for n in range(times) for f in findings]

    text = metrics.text(many, False, 1.0, 1.0)

    assert len(series(text)) <= metrics.FINDINGS_MAX + 4
    assert len(text.encode()) < 300_000


def test_failures_are_kept_where_there_are_too_many() -> None:
    many = [Finding("a", "warn", "a.b", str(n)) for n in range(500)] + [BAD]

    found = series(metrics.text(many, False, 1.0, 1.0))

    assert found["firstlight_health_findings{}"] == 501
    assert sum('symptom="gpu.missing"' in name for name in found) == 1
    assert len(found) == 204


def health_of(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = cli.main(words)
    said = capsys.readouterr()
    return code, said.out, said.err


def a_capture(folder: Path, profile: dict[str, Any], expect: dict[str, Any], text: str = "", code: int = 0) -> None:
    """A capture of a host on which every command prints this."""
    facts = {"time": "2027-03-01T08:00:00Z", "host": "n1"}
    facts["system"] = {"distribution": "ubuntu", "version": "24.04", "architecture": "x86_64"}
    kept = capture(
        ALL_CHECKS, Profile.from_dict(profile), expect, facts, run=lambda s, _: dict.fromkeys(s, Output(text, "", code))
    )
    write_folder(kept, str(folder))


NOTHING = {"docker": False, "exporters": {}, "clock": False}
SEVEN = (ROOT / "tests" / "fixtures" / "gpu" / "smi-q.8x-h100.xml").read_text()


def test_a_capture_is_judged_without_its_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_capture(tmp_path / "c", {**PROFILE, "gpus": {"count": 8}}, NOTHING, SEVEN)
    profile = tmp_path / "p.yml"
    words = ("judge", str(tmp_path / "c"), "--check", "gpu_count", "--profile", str(profile))

    profile.write_text("name: x\nvendor: v\nmodel: m\ngpus: {count: 8}\n")
    assert health_of(capsys, *words) == (0, "n1: yes\n", "")
    profile.write_text(json.dumps({**PROFILE, "gpus": {"count": 9}}))
    code, said, errors = health_of(capsys, *words)
    assert (code, said.split("\n")[0], errors) == (1, "n1: no", "")
    assert "gpu.missing, 1 of 9 GPUs" in said
    code, said, _ = health_of(capsys, *words, "--json")
    row = json.loads(said)
    assert (code, row["fit"], row["action"], row["tier"]) == (1, False, "reseat", "quick")
    assert row["time"] == "2027-03-01T08:00:00Z"
    code, said, errors = health_of(capsys, "judge", str(tmp_path / "c"), "--check", "gpu_count")
    assert (code, said) == (0, "n1: yes\n")
    assert "judged by the profile that the capture brings" in errors


def test_skips_hold_by_the_captures_day(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_capture(tmp_path / "c", {**PROFILE, "gpus": {"count": 9}}, {"docker": False}, SEVEN)  # of 2027-03-01
    settings = tmp_path / "s.json"
    words = ("judge", str(tmp_path / "c"), "--check", "gpu_count", "--check", "system", "--settings", str(settings))
    for until, symptom in (("2027-03-01", "gpu_count.skipped"), ("2027-02-28", "gpu.missing")):
        row = {"check": "gpu_count", "reason": "being replaced", "until": until}
        settings.write_text(json.dumps({"skip": [row]}))
        for today in (datetime.date(2026, 1, 1), datetime.date(2030, 1, 1)):
            with unittest.mock.patch("firstlight.checks.engine.datetime.date", wraps=datetime.date) as clock:
                clock.today.return_value = today
                _, said, _ = health_of(capsys, *words, "--json")
            assert [f["symptom"] for f in json.loads(said)["findings"] if f["check"] == "gpu_count"] == [symptom]


def test_versions_yml_says_which_driver(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_capture(tmp_path / "c", {**PROFILE, "gpus": {"count": 8}}, NOTHING, SEVEN)
    had = re.search(r"<driver_version>([0-9.]+)<", SEVEN)[1]
    versions = tmp_path / "versions.yml"
    words = ("judge", str(tmp_path / "c"), "--check", "gpu_count", "--versions", str(versions))
    wanted = "versions:\n  gpu_driver:\n    any: {{any: {{version: '1.2.3'}}}}\n"
    wanted += "    ubuntu-24.04: {{any: {{version: '{}'}}}}\n"
    for version, code in ((had, 0), ("580.1.1", 1), (had.split(".")[0], 0)):
        versions.write_text(wanted.format(version))
        assert health_of(capsys, *words)[0] == code, version
    firmware = "  firmware: {{any: {{any: {{gpu_vbios: '{}'}}}}}}\n"
    for vbios, code in ((re.search(r"<vbios_version>([0-9A-F.]+)<", SEVEN)[1], 0), ("96.00.01.00.01", 1)):
        versions.write_text((wanted + firmware).format(had, vbios))
        assert health_of(capsys, *words, "--check", "gpu_firmware")[0] == code, vbios
    versions.write_text(wanted.format("580.1.1").replace("ubuntu-24.04", "debian-12"))
    code, said, _ = health_of(capsys, *words)
    assert (code, "gpu.driver_version" in said) == (1, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("judge",), "the following arguments are required: DIR"),
        (("judge", "/nonexistent"), "health: /nonexistent: No such file or directory"),
        (("judge", "{tmp}"), "no index.json in it: this is no capture"),
        (("judge", "{tmp}/c", "--profile", "nosuch"), "no file and no profile 'nosuch'; there are xe9680"),
        (("judge", "{tmp}/c", "--profile", "{tmp}/bad"), "unknown key"),
        (("judge", "{tmp}/c", "--check", "gpus"), "--check: 'gpus' is no check"),
        (("judge", "{tmp}/c", "--versions", "{tmp}/none"), "{tmp}/none"),
        (("judge", "{tmp}/c", "--settings", "{tmp}/none"), "{tmp}/none: No such file"),
        (("capture", "h"), "the following arguments are required: DIR"),
        (("capture", "h", "{tmp}"), "{tmp} is there and not an empty folder"),
        (("--tier", "slow"), "argument --tier: invalid choice"),
        (("file", "{tmp}/none/x.pyz"), "No such file or directory"),
    ],
)
def test_what_people_do_wrong_is_one_line_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    a_capture(tmp_path / "c", PROFILE, NOTHING)
    (tmp_path / "bad").write_text("name: x\nvendor: v\nmodel: m\ngpu: {}\n")
    try:
        code = cli.main([word.format(tmp=tmp_path) for word in words])
    except SystemExit as end:
        code = end.code
    out, errors = capsys.readouterr()

    assert code == 2
    assert said.format(tmp=tmp_path) in errors
    assert errors.count("\n") <= 2  # the other is that the capture's own profile judges
    assert out == ""


def test_a_hostile_capture_cannot_make_the_judge_raise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_capture(tmp_path / "c", PROFILE, NOTHING)
    index = json.loads((tmp_path / "c" / "index.json").read_text())
    changes: list[dict[str, Any]] = [{"expect": []}, {"expect": {"clock": 1}}, {"profile": {"name": 1}}, {"tier": "x"}]
    changes += [{"checks": ["no"]}, {"checks": [[]]}, {"profile": 3}, {"expect": {"exporters": {"a": "b"}}}]
    changes += [{"profile": {**PROFILE, "gpus": {"count": 1}, "tuning": {"sysctl": 3, "hugepages": 7}}, "checks": []}]
    for change in changes:
        (tmp_path / "c" / "index.json").write_text(json.dumps({**index, **change}))
        code, out, errors = health_of(capsys, "judge", str(tmp_path / "c"))
        assert (code == 2 and out == "") or change == {"expect": []}, change
        assert "Traceback" not in errors


def begun(**more: Any) -> dict[str, Any]:
    return {"report": "", "run_id": 7, "hosts": ["h", "i"], "groups": ["rack_r1", "all"], **more}


def test_the_report_of_another_run_or_of_one_that_broke_says_nothing(tmp_path: Path) -> None:
    report = tmp_path / "latest.json"
    hosts = [host_report(story(GOOD)), {**host_report(story(BAD)), "name": "other"}]
    run = {"id": 7, "outcome": "done", "ended": "2027-03-01T08:00:00Z"}
    brake = {"outcome": "broken", "message": "smoke: the brake stops the run: 6 of 8 hosts have clock.skew"}
    for change, there in (({}, True), ({"id": 8}, False), ({"outcome": "broken"}, False), (brake, True)):
        report.write_text(json.dumps({"site": "s", "run": {**run, **change}, "hosts": hosts}))
        document = cli._document(begun(report=str(report)), "quick")
        assert (document is not None) is there
    report.write_text(json.dumps({"site": "s", "run": run, "hosts": hosts}))
    document = cli._document(begun(report=str(report)), "long")
    assert document is not None
    assert [(row["name"], row["fit"]) for row in document["hosts"]] == [("h", True), ("i", None)]
    assert document["hosts"][1].keys() == document["hosts"][0].keys()
    assert lines(document["hosts"])[1:] == [
        "i: not told",
        "    smoke.no_answer, the ledger does not know this host; is it in the fleet file? (retry)",
    ]
    assert document["common"] == []
    assert (document["site"], document["tier"], document["run"]) == ("s", "long", 7)
    assert cli._document(begun(report=str(tmp_path / "gone")), "quick") is None


def test_a_name_that_is_not_in_the_inventory_is_told() -> None:
    assert cli._strange(["h", "rack_r1", "r*", "all:!h"], begun()) == ""
    assert cli._strange(["h", "typo"], begun()) == "typo"


# ---------------------------------------------------------------- the library's rules


@pytest.mark.parametrize("name", ["__init__", "onhost", "verdicts", "settings", "metrics", "earlier", "state"])
def test_what_goes_to_hosts_is_python_3_8_and_imports_only_the_standard_library(name: str) -> None:
    for node in ast.walk(ast.parse((FOLDER / f"{name}.py").read_text(), feature_version=(3, 8))):
        if isinstance(node, ast.Import):
            assert all(alias.name.split(".")[0] in sys.stdlib_module_names for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            assert (node.module or "").split(".")[0] in sys.stdlib_module_names
        if isinstance(node, ast.ImportFrom) and node.level == 2:
            assert (node.module or "").split(".")[0] in ("findings", "profile", "checks", "streams", "wholefile")
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            assert node.module in (None, "settings", "verdicts", "metrics", "earlier", "state")


def test_the_version_is_the_projects() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == health.VERSION


def test_the_docs_name_the_checks_that_are_not_required() -> None:
    text = (ROOT / "docs" / "health.md").read_text()
    line = next(line for line in text.split("\n\n") if line.startswith("Not required are"))

    assert set(re.findall(r"`([a-z_]+)`", line)) == {check.name for check in ALL_CHECKS if not check.required}
