"""Captures: what they keep, that a judgement of one equals a live run, and what of a stranger's is refused."""

from __future__ import annotations

import datetime
import gzip
import io
import json
import os
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from check_cases import CASES, PROFILE, Case
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firstlight.checks import ALL_CHECKS, Check, run_checks
from firstlight.checks import folder as folders
from firstlight.checks.capture import Command, Get, Output, Source, file_systems, read_files
from firstlight.checks.engine import plan
from firstlight.checks.folder import INDEX, Capture, Keeper, capture, describe, from_files, key, replay, to_files
from firstlight.findings import Finding
from firstlight.profile import Profile

BY_NAME = {check.name: check for check in ALL_CHECKS}
FACTS = {"time": "2027-03-01T08:00:00Z", "host": "h"}
TODAY = datetime.date(2027, 3, 1)
ABSENT = Output(errors="not found", code=127, problem="no_tool")


def recorded(case: Case) -> tuple[Any, int]:
    """A ``run`` that gives each of the case's sources what the case has, and how many of them it has."""
    reads = plan([BY_NAME[case.check]], case.wanted_profile(), case.expect, "long", [case.check])[0][1]
    known = {source: case.captured[name] for name, source in reads.items() if name in case.captured}

    def run(sources: Iterable[Source], limit: float) -> dict[Source, Output]:
        return {source: known.get(source, ABSENT) for source in sources}

    return run, len(known)


def through_files(kept: Capture) -> Capture:
    return from_files(to_files(kept).get)


@pytest.mark.parametrize("check", sorted({case.check for case in CASES}))
def test_judging_a_capture_equals_a_live_run(check: str, tmp_path: Path) -> None:
    """For every sample that there is of every check: kept as files and read back, it is judged as at once."""
    cases = [case for case in CASES if case.check == check]
    judged = 0
    for number, case in enumerate(cases):
        run, known = recorded(case)
        judged += known > 0
        profile, only = case.wanted_profile(), [check]
        keeper = Keeper(run)
        live = run_checks(ALL_CHECKS, profile, case.expect, only=only, today=TODAY, run=keeper)
        kept = capture(ALL_CHECKS, profile, case.expect, FACTS, only=only, run=run)
        assert kept.outputs == keeper.outputs
        if number == 0:  # the folder and the archive are thin; once is enough
            folders.write_folder(kept, str(tmp_path / "capture"))
            kept = folders.read_folder(str(tmp_path / "capture"))
            packed = io.BytesIO()
            folders.write_archive(kept, packed)
            assert folders.read_archive(io.BytesIO(packed.getvalue())) == kept
        back = through_files(kept)
        later = run_checks(ALL_CHECKS, profile, case.expect, only=only, today=TODAY, run=replay(back))

        assert later.findings == live.findings, case.name
        assert later.verdict == live.verdict, case.name
        assert live.findings
        assert back.facts["profile"] == {k: v for k, v in vars(profile).items() if v != {}}
        assert Profile.from_dict(back.facts["profile"]) == profile
    assert judged > 0, "no sample of this check was read through its sources"


OUTPUT = st.builds(
    Output,
    st.text(max_size=200),
    st.text(max_size=50),
    st.integers(-64, 600),
    st.sampled_from(["", "timed_out", "no_tool", "not_permitted", "too_much_output", "refused", "failed"]),
    st.booleans(),
    st.floats(0, 3600, allow_nan=False),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(outputs=st.lists(OUTPUT, min_size=1, max_size=8))
def test_whatever_a_host_says_all_checks_judge_it_the_same_later(outputs: list[Output]) -> None:
    profile = Profile.from_dict(PROFILE)

    def run(sources: Iterable[Source], limit: float) -> dict[Source, Output]:
        return {source: outputs[len(str(source)) % len(outputs)] for source in sources}

    live = run_checks(ALL_CHECKS, profile, {}, "long", today=TODAY, run=run)
    kept = through_files(capture(ALL_CHECKS, profile, {}, FACTS, "long", run=run))
    later = run_checks(ALL_CHECKS, profile, {}, "long", today=TODAY, run=replay(kept))

    assert later.findings == live.findings
    assert later.verdict == live.verdict


def shell(script: str) -> Command:
    return Command(("sh", "-c", script), 5.0)


def check(name: str, *sources: Source, tier: str = "quick") -> Check:
    def judge(captured: dict[str, Output], profile: Profile, expect: dict) -> list[Finding]:
        output = captured["0"]
        status = "unknown" if output.problem else "ok"
        return [Finding(name, status, f"{name}.{output.problem or 'read'}", evidence=output.text + output.errors)]

    return Check(name, tier, lambda profile, expect: {str(n): s for n, s in enumerate(sources)}, judge)


BARE = Profile("x", "v", "m")


def test_a_real_capture_has_what_each_source_gave(tmp_path: Path) -> None:
    once = shell(f"echo ran >>{tmp_path}/ran; echo out; echo err >&2; exit 3")
    checks = [check("one", once), check("two", once, read_files("/proc/sys/kernel/ostype"))]

    kept = capture(checks, BARE, {"clock": False}, FACTS)
    count = folders.write_folder(kept, str(tmp_path / "c"))

    index = json.loads((tmp_path / "c" / INDEX).read_text())
    assert (tmp_path / "ran").read_text() == "ran\n"
    assert count == len(list((tmp_path / "c").iterdir())) == 4
    assert (tmp_path / "c" / index["sources"][0]["out"]).read_text() == "out\n"
    assert (tmp_path / "c" / index["sources"][0]["err"]).read_text() == "err\n"
    assert index["sources"][0]["code"] == 3
    assert "Linux" in (tmp_path / "c" / index["sources"][1]["out"]).read_text()
    assert index["sources"][1]["source"]["files"] == ["/proc/sys/kernel/ostype"]
    assert index["read_by"] == {"one": {"0": 0}, "two": {"0": 0, "1": 1}}
    assert (index["tier"], index["host"], index["expect"]) == ("quick", "h", {"clock": False})
    assert index["profile"] == {"name": "x", "vendor": "v", "model": "m"}
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "c").iterdir()} == {0o600}


def test_a_capture_has_its_sources_in_the_order_in_which_they_were_asked_for() -> None:
    def last_first(sources: Iterable[Source], limit: float) -> dict[Source, Output]:
        return {source: Output(text="x") for source in reversed(list(sources))}

    commands = [Command((name,)) for name in ("b", "a", "c")]
    kept = capture([check("one", *commands)], BARE, {}, FACTS, run=last_first)
    assert list(kept.outputs) == [key(describe(command)) for command in commands]


def test_a_tier_has_those_before_it() -> None:
    checks = [check("one", shell("true")), check("two", shell("true"), tier="long")]

    assert [f.check for f in run_checks(checks, BARE, tier="quick").findings] == ["one"]
    assert [f.check for f in run_checks(checks, BARE, tier="long").findings] == ["one", "two"]
    assert set(capture(checks, BARE, {}, FACTS, "long").read_by) == {"one", "two"}


def test_what_the_capture_has_not_is_unknown_so_not_ready() -> None:
    kept = capture([check("one", shell("true"))], BARE, {}, FACTS)

    result = run_checks([check("one", shell("true")), check("two", shell("false"))], BARE, run=replay(kept))

    assert [(f.status, f.symptom) for f in result.findings] == [("ok", "one.read"), ("unknown", "two.not_captured")]
    assert "2027-03-01T08:00:00Z" in result.findings[1].evidence
    assert not result.verdict.ready


def test_a_source_is_known_again_with_another_python_and_other_bounds() -> None:
    files, here = read_files("/a", "/b*", limit=1.0), file_systems("/")
    elsewhere = Command(("/opt/python3", *files.argv[1:]), 1.0, files.max_bytes)

    assert describe(elsewhere) == describe(files)
    assert len({key(describe(s)) for s in (files, here, read_files("/a"), shell("x"), Get("127.0.0.1:1", "/"))}) == 5
    kept = Capture({}, {key(describe(files)): Output("said")})
    other = read_files("/a", "/b*", limit=9.0)
    assert replay(kept)([other], 1.0)[other].text == "said"
    assert replay(kept)([read_files("/a")], 1.0)[read_files("/a")].problem == "not_captured"


def test_every_check_describes_its_sources_apart() -> None:
    """Two sources of one description would get each other's outputs."""
    profile = Profile.from_dict(PROFILE)
    for only in ([], [c.name for c in ALL_CHECKS]):
        sources = {s for _, reads in plan(ALL_CHECKS, profile, {}, "long", only) for s in reads.values()}
        assert len({key(describe(source)) for source in sources}) == len(sources) > 10


def test_a_capture_does_not_go_into_a_folder_that_has_something(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")

    with pytest.raises(ValueError, match="is not empty"):
        folders.write_folder(capture([], BARE, {}, FACTS), str(tmp_path))


# ---------------------------------------------------------------- what a stranger sends


def a_capture(tmp_path: Path) -> Path:
    target = tmp_path / "c"
    folders.write_folder(capture([check("one", shell("echo out"))], BARE, {}, FACTS), str(target))
    return target


def spoilt(target: Path, change: Any) -> str:
    index = json.loads((target / INDEX).read_text())
    change(index)
    (target / INDEX).write_text(json.dumps(index))
    with pytest.raises(ValueError) as refused:
        folders.read_folder(str(target))
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda i: i["sources"][0].update(out="../../etc/passwd"), "is no name of a file that a capture has"),
        (lambda i: i["sources"][0].update(out="/etc/passwd"), "is no name of a file"),
        (lambda i: i["sources"][0].update(out=["x"]), "is no name of a file"),
        (lambda i: i["sources"][0].update(out="007-gone.out"), "file 007-gone.out is missing"),
        (lambda i: i["sources"][0].update(problem="x\ny"), "problem"),
        (lambda i: i["sources"][0].update(seconds="nan"), "seconds are out of range"),
        (lambda i: i["sources"][0].update(source="sh"), "source is no mapping"),
        (lambda i: i["sources"][0].pop("code"), "sources[0]: key 'code' is missing"),
        (lambda i: i["sources"].append(3), "sources[1]: must be a mapping, not int"),
        (lambda i: i.update(sources=["x"]), "sources[0]: must be a mapping, not str"),
        (lambda i: i["sources"].extend([{}] * 3000), "3001 sources, at most 2000"),
        (lambda i: i.update(format=99), "format '99' is another than 1"),
        (lambda i: i.update(read_by={"one": {"0": 7}}), "read_by names sources that are not there"),
        (lambda i: i.update(read_by={"one": [1]}), "read_by names sources that are not there"),
        (lambda i: i.pop("sources"), "is not that of a capture"),
    ],
)
def test_a_spoilt_index_is_refused_in_one_line(tmp_path: Path, change: Any, words: str) -> None:
    assert words in spoilt(a_capture(tmp_path), change)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff\xfe", b'{"sources": 1}', b"[" * 100000])
def test_an_index_that_is_none_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="is not that of a capture"):
        from_files({INDEX: content}.get)


def test_links_pipes_and_large_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = a_capture(tmp_path)
    out = next(target.glob("*.out"))
    out.unlink()
    out.symlink_to("/etc/hostname")
    with pytest.raises(ValueError, match=r"\.out is a link; a capture has plain files alone$"):
        folders.read_folder(str(target))
    out.unlink()
    os.mkfifo(out)
    with pytest.raises(ValueError, match="is no plain file"):
        folders.read_folder(str(target))
    out.unlink()
    out.write_text("x" * 4000)
    monkeypatch.setattr(folders, "FILE_MAX", 3000)
    with pytest.raises(ValueError, match="has more than 3000 bytes"):
        folders.read_folder(str(target))
    monkeypatch.undo()
    monkeypatch.setattr(folders, "ALL_MAX", 4000)
    with pytest.raises(ValueError, match="more than 4000 bytes in all"):
        folders.read_folder(str(target))


def test_a_folder_that_is_no_capture(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no index\.json in it"):
        folders.read_folder(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        folders.read_folder(str(tmp_path / "gone"))


def archive(*members: tarfile.TarInfo) -> io.BytesIO:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"0" * member.size))
    return io.BytesIO(packed.getvalue())


def member(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = size, kind, "/etc/passwd" if kind == tarfile.SYMTYPE else ""
    return info


@pytest.mark.parametrize(
    "packed",
    [
        archive(member("../index.json", 2)),
        archive(member("index.json", kind=tarfile.SYMTYPE)),
        archive(member("000-x.out", kind=tarfile.DIRTYPE)),
        archive(member("authorized_keys", 2)),
        archive(member("000-x.out", folders.FILE_MAX + 1)),
        archive(),
        io.BytesIO(b"no archive"),
        io.BytesIO(gzip.compress(b"no archive" * 100)),
        io.BytesIO(archive(member("index.json", 200)).getvalue()[:60]),
        io.BytesIO(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03" + b"\xff" * 50),
    ],
)
def test_an_archive_with_anything_else_is_refused_in_one_line(packed: io.BytesIO) -> None:
    with pytest.raises(ValueError, match=r".{10,}") as refused:
        folders.read_archive(packed)
    assert "\n" not in str(refused.value)


def test_little_that_unpacks_into_a_lot_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "ALL_MAX", 1000)
    monkeypatch.setattr(folders, "SOURCES_MAX", 1)
    header = tarfile.TarInfo("x" * 200)  # a long name has a record of its own, of any size
    bomb = io.BytesIO()
    with tarfile.open(fileobj=bomb, mode="w:gz", format=tarfile.GNU_FORMAT) as tar:
        header.name = "n" * 50000
        tar.addfile(header)

    with pytest.raises(ValueError, match="it holds more than"):
        folders.read_archive(io.BytesIO(bomb.getvalue()))
