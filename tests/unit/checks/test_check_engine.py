"""The engine with real commands: hanging, flooding, missing, refusing; what it makes of them; skips."""

from __future__ import annotations

import datetime
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hanging import never_begins
from hypothesis import given
from hypothesis import strategies as st

import firstlight
from firstlight.checks import Check, Skip, run_checks
from firstlight.checks.capture import Command, Get, Output, file_systems, http_get, read_files, run_all, run_command
from firstlight.checks.engine import bounded_values, not_known, not_run, ok, plan, unknown
from firstlight.findings import Finding
from firstlight.profile import Profile

PROFILE = Profile("x", "v", "m")
TODAY = datetime.date(2027, 3, 1)


def shell(script: str, limit: float = 5.0, **more) -> Command:
    return Command(("sh", "-c", script), limit, **more)


def check(name: str, *sources: Command | Get, required: bool = True, judge=None) -> Check:
    """A check that is ok when all that it reads could be read."""

    def by_default(captured: dict[str, Output], profile: Profile, expect: dict) -> list[Finding]:
        failed = [o for o in captured.values() if o.problem or o.code]
        return not_known(name, failed[0], "the command") if failed else ok(name, "read")

    reads = {str(number): source for number, source in enumerate(sources)}
    return Check(name, "quick", lambda profile, expect: reads, judge or by_default, required=required)


def alive(pid_file: Path) -> bool:
    try:
        state = Path(f"/proc/{pid_file.read_text().strip()}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


# ---------------------------------------------------------------- one command


def test_output_exit_status_and_locale() -> None:
    output = run_command(shell('echo "$LANG $LC_ALL"; echo no >&2; exit 3'))

    assert (output.text, output.errors, output.code, output.problem) == ("C C\n", "no\n", 3, "")


def test_the_administrators_folders_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")

    assert ":/usr/sbin:" in run_command(shell('echo ":$PATH:"')).text


def test_a_hanging_command_is_killed_with_its_children(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    started = time.monotonic()

    output = run_command(shell(f"sleep 60 & echo $! > {pid}; echo begun; wait", limit=0.5))

    assert output.problem == "timed_out"
    assert output.text == "begun\n"
    assert time.monotonic() - started < 3
    time.sleep(0.1)
    assert not alive(pid)


def test_a_command_that_ignores_signals_is_killed() -> None:
    assert run_command(shell("trap '' TERM INT HUP; sleep 60; sleep 60", limit=0.3)).problem == "timed_out"


def test_a_command_that_closed_its_output_is_still_limited() -> None:
    started = time.monotonic()

    assert run_command(shell("exec >&- 2>&-; sleep 60", limit=0.3)).problem == "timed_out"
    assert time.monotonic() - started < 3


def test_a_child_that_holds_the_pipe_is_not_waited_for(tmp_path: Path) -> None:
    started = time.monotonic()

    output = run_command(shell("sleep 60 & echo done", limit=20))

    assert (output.text, output.problem) == ("done\n", "")
    assert time.monotonic() - started < 5


def test_a_flood_is_cut_off() -> None:
    started = time.monotonic()

    output = run_command(shell("yes", limit=30, max_bytes=1000))

    assert output.problem == "too_much_output"
    assert len(output.text) == 1000
    assert time.monotonic() - started < 5


def test_a_flood_of_errors_is_bounded_and_harmless() -> None:
    output = run_command(shell("head -c 300000 /dev/zero | tr '\\0' e >&2; echo ok"))

    assert (output.text, output.problem, len(output.errors)) == ("ok\n", "", 8192)


def test_the_end_is_kept_where_asked_for() -> None:
    output = run_command(shell("seq 1 100000", max_bytes=100, keep="tail"))

    assert output.text.endswith("99999\n100000\n")
    assert (len(output.text), output.problem, output.truncated) == (100, "", True)


def test_a_missing_tool() -> None:
    output = run_command(Command(("no-such-tool-here",)))

    assert output.problem == "no_tool"
    assert "no-such-tool-here" in output.errors


def test_a_file_that_may_not_be_run(tmp_path: Path) -> None:
    path = tmp_path / "tool"
    path.write_text("not executable")

    assert run_command(Command((str(path),))).problem == "not_permitted"


def test_a_tool_that_says_it_is_not_permitted() -> None:
    words = "dmesg: read kernel buffer failed: Operation not permitted"

    assert run_command(shell(f"echo '{words}' >&2; exit 1")).problem == "not_permitted"
    assert run_command(shell(f"echo '{words}' >&2; exit 0")).problem == ""


def test_bytes_that_are_no_text() -> None:
    assert run_command(shell("printf 'a\\377b'")).text == "a\ufffdb"


# ---------------------------------------------------------------- files and file systems


def test_files_are_read_by_pattern(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "state").write_text(f"{name}\n")

    said = json.loads(run_command(read_files(f"{tmp_path}/*/state", f"{tmp_path}/none", f"{tmp_path}/*/none")).text)

    assert said["files"] == {f"{tmp_path}/a/state": "a\n", f"{tmp_path}/b/state": "b\n"}
    assert said["errors"] == {f"{tmp_path}/none": "No such file or directory"}


def test_a_file_whose_reading_hangs_costs_its_limit(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    assert run_command(read_files(f"{tmp_path}/pipe", limit=0.5)).problem == "timed_out"


def test_file_systems(tmp_path: Path) -> None:
    said = json.loads(run_command(file_systems(str(tmp_path), "/no/such/path")).text)

    assert said[str(tmp_path)]["size"] >= said[str(tmp_path)]["available"] > 0
    assert said[str(tmp_path)]["device"] == tmp_path.stat().st_dev
    assert said["/no/such/path"] == {"error": "No such file or directory"}


# ---------------------------------------------------------------- HTTP


class Server(threading.Thread):
    """Answers one connection with these bytes, then waits ``pause`` seconds before it closes it."""

    def __init__(self, sock: socket.socket, answer: bytes, pause: float) -> None:
        super().__init__(daemon=True)
        self.sock, self.answer, self.asked, self.over, self.pause = sock, answer, b"", threading.Event(), pause
        self.start()

    def run(self) -> None:
        connection, _ = self.sock.accept()
        with connection:
            self.asked = connection.recv(4096)
            try:
                connection.sendall(self.answer)
            except OSError:
                return
            self.over.wait(self.pause)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator:
    servers: list[Server] = []

    def start(answer: bytes, pause: float = 0.0, unix: bool = False) -> tuple[str, Server]:
        sock = socket.socket(socket.AF_UNIX if unix else socket.AF_INET, socket.SOCK_STREAM)
        sock.bind(str(tmp_path / "socket") if unix else ("127.0.0.1", 0))
        sock.listen(1)
        servers.append(Server(sock, answer, pause))
        return (str(tmp_path / "socket") if unix else f"127.0.0.1:{sock.getsockname()[1]}"), servers[-1]

    yield start
    for server in servers:
        server.over.set()
        server.sock.close()
        server.join(5)


@pytest.mark.parametrize("unix", [False, True])
def test_http(serve, unix: bool) -> None:
    address, server = serve(b"HTTP/1.1 404 Not Found\r\nX: y\r\n\r\nbody", unix=unix)

    output = http_get(Get(address, "/metrics"))

    assert (output.code, output.text, output.problem) == (404, "body", "")
    assert server.asked.startswith(b"GET /metrics HTTP/1.0\r\n")


def test_http_that_never_ends(serve) -> None:
    address, _ = serve(b"HTTP/1.1 200 OK\r\n\r\n", pause=30)
    started = time.monotonic()

    assert http_get(Get(address, "/", 0.4)).problem == "timed_out"
    assert time.monotonic() - started < 3


def test_http_more_than_is_read(serve) -> None:
    address, _ = serve(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 500_000, pause=30)

    output = http_get(Get(address, "/", 5, max_bytes=10_000))

    assert output.truncated
    assert output.problem == ""
    assert len(output.text) < 80_000


def test_http_nobody_there(tmp_path: Path) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]

    assert http_get(Get(f"127.0.0.1:{port}", "/")).problem == "refused"
    assert http_get(Get(str(tmp_path / "none"), "/")).problem == "refused"


@pytest.mark.parametrize("said", [b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.0 \xb200 OK\r\n\r\n"])  # a digit, no number
def test_http_another_protocol(serve, said: bytes) -> None:
    address, _ = serve(said)

    assert http_get(Get(address, "/")).problem == "failed"


# ---------------------------------------------------------------- all of a host


def test_everything_runs_at_once_and_a_hanging_command_costs_only_its_own_limit() -> None:
    hanging = check("hanging", shell("sleep 60", limit=1.5))
    others = [check(f"sleeps_{n}", shell(f"sleep 1; : {n}")) for n in range(8)]
    started = time.monotonic()

    result = run_checks([hanging, *others], PROFILE)

    assert time.monotonic() - started < 4
    by_check = {f.check: f for f in result.findings}
    assert (by_check["hanging"].status, by_check["hanging"].symptom) == ("unknown", "hanging.timed_out")
    assert {by_check[other.name].status for other in others} == {"ok"}
    assert not result.verdict.ready
    assert [f.check for f in result.verdict.reasons] == ["hanging"]
    assert 1.4 < result.seconds["hanging"] < 3
    assert set(result.seconds) == set(by_check)


def test_a_command_that_cannot_even_be_begun_costs_little_more_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    begin, over = subprocess.Popen, threading.Event()

    def hang(argv: list[str], **how):
        if "hangs" in argv[-1]:
            over.wait(30)
        return begin(argv, **how)

    monkeypatch.setattr(subprocess, "Popen", hang)
    bad = [check(f"bad_{n}", shell(f": hangs {n}", limit=1)) for n in range(70)]  # more than run at once
    started = time.monotonic()

    try:
        result = run_checks([*bad, check("good", shell("echo hello"))], PROFILE)
    finally:
        over.set()

    assert time.monotonic() - started < 12
    by_check = {f.check: f for f in result.findings}
    assert by_check["good"].status == "ok"
    assert {(f.status, f.symptom) for name, f in by_check.items() if name != "good"} == {
        ("unknown", f"bad_{n}.timed_out") for n in range(70)
    }
    assert "did not end within 3 s" in by_check["bad_0"].evidence


TRIES = """
import sys, time
from firstlight.checks.capture import Command, run_all
bad, good = Command((sys.argv[1],), 1.0), Command(("echo", "hello"), 5.0)
outputs = run_all([bad, good], 30.0)
print(outputs[bad].problem, outputs[good].text.strip())
"""


@pytest.mark.parametrize("python", dict.fromkeys([sys.executable, shutil.which("python3", path="/usr/bin")]))
def test_a_program_on_a_drive_that_hangs_holds_up_neither_the_others_nor_the_end(
    python: str | None, tmp_path: Path
) -> None:
    if python is None:
        pytest.skip("the system has no Python of its own")
    program = tmp_path / "program"
    shutil.copy("/bin/true", program)
    library = {**os.environ, "PYTHONPATH": str(Path(firstlight.__file__).parents[1])}
    with never_begins(program):
        started = time.monotonic()
        done = subprocess.run(
            [python, "-c", TRIES, str(program)], env=library, capture_output=True, text=True, timeout=20, check=False
        )
        took = time.monotonic() - started

    assert (done.stdout, done.returncode) == ("timed_out hello\n", 0), done.stderr
    assert took < 8


def test_the_timeout_lowers_every_limit() -> None:
    started = time.monotonic()

    result = run_checks([check("hanging", shell("sleep 60", limit=50))], PROFILE, timeout=0.3)

    assert time.monotonic() - started < 3
    assert result.findings[0].symptom == "hanging.timed_out"


def test_a_command_of_two_checks_runs_once(tmp_path: Path) -> None:
    command = shell(f"echo ran >> {tmp_path}/log")

    result = run_checks([check("one", command), check("two", command)], PROFILE)

    assert (tmp_path / "log").read_text() == "ran\n"
    assert [f.status for f in result.findings] == ["ok", "ok"]


@pytest.mark.parametrize(
    ("command", "symptom"),
    [
        (Command(("no-such-tool-here",)), "it.no_tool"),
        (shell("yes", max_bytes=100), "it.too_much_output"),
        (shell("echo Permission denied >&2; exit 1"), "it.not_permitted"),
        (shell("exit 1"), "it.failed"),
    ],
)
def test_what_cannot_be_read_is_unknown_and_not_ready(command: Command, symptom: str) -> None:
    result = run_checks([check("it", command)], PROFILE)

    assert [(f.status, f.symptom) for f in result.findings] == [("unknown", symptom)]
    assert not result.verdict.ready


def test_in_a_check_that_is_not_required_it_is_a_warning_that_says_unknown() -> None:
    optional = check("it", Command(("no-such-tool-here",)), required=False)

    result = run_checks([optional, check("good", shell("true"))], PROFILE)

    assert [(f.status, f.symptom) for f in result.findings] == [("warn", "it.no_tool"), ("ok", "good")]
    assert result.findings[0].evidence.startswith("unknown: ")
    assert result.verdict.ready
    assert not run_checks([optional], PROFILE, require=["it"]).verdict.ready


def test_a_judge_that_breaks_or_says_nothing_is_unknown() -> None:
    def breaks(captured: dict, profile: Profile, expect: dict) -> list[Finding]:
        raise IndexError("no such row")

    result = run_checks(
        [check("breaks", shell("true"), judge=breaks), check("silent", shell("true"), judge=lambda *_: [])], PROFILE
    )

    assert [(f.status, f.symptom) for f in result.findings] == [
        ("unknown", "breaks.judge_failed"),
        ("unknown", "silent.no_result"),
    ]


def test_a_check_that_says_why_its_tool_answers_nobody_gives_the_others_its_action() -> None:
    def lost(captured: dict, profile: Profile, expect: dict) -> list[Finding]:
        return [Finding("count", "fail", "gpu.lost", "GPU 0000:4c:00.0", "fell off", "power_cycle")]

    count = replace(check("count", shell("exit 15"), judge=lost), explains=frozenset({"gpu.lost"}))
    memory = check("memory", shell("exit 15; :"), judge=lambda c, p, e: [unknown("memory", "failed", "no answer")])
    other = check("disks", Command(("false",)), judge=lambda c, p, e: [unknown("disks", "failed", "no answer")])
    found = {f.check: f for f in run_checks([count, memory, other], PROFILE).findings}
    assert found["memory"] == Finding(
        "memory", "unknown", "memory.failed", "", "see gpu.lost: no answer", "power_cycle"
    )
    assert found["disks"].action == "escalate"
    without = {f.check: f for f in run_checks([replace(count, explains=frozenset()), memory], PROFILE).findings}
    assert without["memory"].action == "escalate"


def test_findings_are_bounded_and_the_worst_are_kept() -> None:
    many = [Finding("many", "warn", "x.y", str(n)) for n in range(500)] + [
        Finding("many", "fail", "x.z", action="replace")
    ]

    result = run_checks([check("many", shell("true"), judge=lambda *_: many)], PROFILE)

    assert len(result.findings) == 20
    assert result.findings[0].symptom == "x.z"
    assert result.findings[-1].symptom == "many.more"
    assert result.findings[-1].evidence.startswith("482 more")


def test_no_check_at_all_is_not_ready() -> None:
    result = run_checks([], PROFILE)

    assert [f.symptom for f in result.findings] == ["host_check.nothing_checked"]
    assert not result.verdict.ready


# ---------------------------------------------------------------- skips


def test_a_skip_is_seen_and_nothing_is_run(tmp_path: Path) -> None:
    fails = check("bad", shell(f"touch {tmp_path}/ran; exit 1"))
    skip = Skip("bad", "cables come in week 31", TODAY)

    result = run_checks([fails, check("good", shell("true"))], PROFILE, skips=[skip], today=TODAY)

    assert [(f.status, f.symptom) for f in result.findings] == [("warn", "bad.skipped"), ("ok", "good")]
    assert "cables come in week 31" in result.findings[0].evidence
    assert "2027-03-01" in result.findings[0].evidence
    assert result.verdict.ready
    assert not (tmp_path / "ran").exists()


def test_a_skip_that_ended_skips_no_more() -> None:
    skip = Skip("bad", "cables come in week 31", TODAY)

    result = run_checks(
        [check("bad", shell("exit 1"))], PROFILE, skips=[skip], today=TODAY + datetime.timedelta(days=1)
    )

    assert [f.symptom for f in result.findings] == ["bad.failed"]


def test_everything_skipped_is_not_ready() -> None:
    result = run_checks([check("bad", shell("true"))], PROFILE, skips=[Skip("bad", "x", TODAY)], today=TODAY)

    assert not result.verdict.ready


NOTHING = "host_check.nothing_checked"


@pytest.mark.parametrize(
    ("checks", "only"),
    [
        ([check("off", shell("true"))], ["off"]),
        ([check("off", shell("true")), check("may", shell("exit 1"), required=False)], []),
        ([check("held_back", shell("true"), judge=lambda *_: not_run("held_back", "a job runs"))], ["held_back"]),
    ],
)
def test_where_nothing_was_judged_the_answer_is_no(checks: list[Check], only: list[str]) -> None:
    result = run_checks(checks, PROFILE, skips=[Skip("off", "x", TODAY)], today=TODAY, only=only)

    assert not result.verdict.ready
    assert result.findings[-1].symptom == NOTHING
    assert result.findings[0].symptom in result.findings[-1].evidence


def test_one_that_was_judged_is_enough_and_a_failure_says_no_by_itself() -> None:
    off, may = check("off", shell("true")), check("may", shell("true"), required=False)
    skips = [Skip("off", "x", TODAY)]

    assert run_checks([off, may], PROFILE, skips=skips, today=TODAY).verdict.ready
    failed = run_checks([off, check("bad", shell("exit 1"))], PROFILE, skips=skips, today=TODAY)
    assert [f.symptom for f in failed.findings] == ["off.skipped", "bad.failed"]


def test_a_check_that_cannot_say_what_it_reads_is_unknown_alone() -> None:
    wrong = replace(check("wrong"), reads=lambda profile, expect: {"x": profile.tuning["no"]})
    good = check("good", shell("true"))

    result = run_checks([wrong, good], PROFILE)
    assert [(f.status, f.symptom) for f in result.findings] == [("unknown", "wrong.judge_failed"), ("ok", "good")]
    assert "KeyError: 'no'" in result.findings[0].evidence
    assert result.ran == ["wrong", "good"]
    assert [(c.name, list(reads)) for c, reads in plan([wrong, good], PROFILE, {})] == [("wrong", []), ("good", ["0"])]

    optional = run_checks([replace(wrong, required=False), good], PROFILE)
    assert [(f.status, f.symptom) for f in optional.findings] == [("warn", "wrong.judge_failed"), ("ok", "good")]
    skipped = run_checks([wrong, good], PROFILE, skips=[Skip("wrong", "x", TODAY)], today=TODAY)
    assert [f.symptom for f in skipped.findings] == ["wrong.skipped", "good"]


def test_equal_sources_share_one_output() -> None:
    one, two = shell("echo $$"), shell("echo $$")

    assert list(run_all([one, two], 5.0)) == [one]


# ---------------------------------------------------------------- what is kept, and by what hosts are compared


def telling(name: str, keeps=None, values=None) -> Check:
    by_default = check(name, shell("echo read"))
    return replace(by_default, keeps=keeps or {}, values=values)


def test_what_the_next_run_is_to_know_is_kept_by_key() -> None:
    kept = run_checks(
        [
            telling("one", {"counters": lambda captured: {"said": captured["0"].text}}),
            telling("nothing_zero", {"zero": lambda captured: {}}),
            telling("cannot", {"none": lambda captured: None}),
            telling("breaks", {"broken": lambda captured: captured["no such"]}),
            telling("floods", {"too_much": lambda captured: {"x": "y" * 40_000}}),
            telling("no_json", {"set": lambda captured: {"x": {1}}, "nan": lambda captured: {"x": float("nan")}}),
        ],
        PROFILE,
    ).kept

    assert kept == {"counters": {"said": "read\n"}, "zero": {}}


def test_the_time_is_that_of_the_beginning() -> None:
    before = time.time()

    result = run_checks([check("sleeps", shell("sleep 1"))], PROFILE)

    assert before <= result.time < before + 0.9


def test_values_are_those_of_each_check_and_a_function_that_breaks_gives_none() -> None:
    result = run_checks(
        [
            telling("gpu", values=lambda captured, profile: {"gpu.driver": captured["0"].text, "gpu.watts": 700.5}),
            telling("breaks", values=lambda captured, profile: {"x": captured["no such"]}),
            telling("odd", values=lambda captured, profile: ["x"]),
            telling("none"),
        ],
        PROFILE,
    )

    assert result.values == {"gpu": {"gpu.driver": "read", "gpu.watts": 700.5}}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=300),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8) | st.integers(), inner),
        max_leaves=20,
    )
    | st.dictionaries(st.text(), st.dictionaries(st.from_regex(r"[a-z.]{1,3}", fullmatch=True), st.integers()))
)
def test_whatever_is_told_as_values_is_bounded(told) -> None:
    found = bounded_values(told)

    assert bounded_values(json.loads(json.dumps(found, allow_nan=False))) == found
    for values in found.values():
        for name, value in values.items():
            assert re.fullmatch(r"[a-z0-9_.]{1,64}", name)
            assert type(value) in (int, float) or len(value) <= 120


def test_values_are_counted_over_all_checks() -> None:
    told = {f"c{n}": {f"v{i}": i for i in range(60)} for n in range(3)}

    assert [len(values) for values in bounded_values(told).values()] == [60, 40]


def test_which_checks_have_said_what_holds_now(tmp_path: Path) -> None:
    nothing = replace(check("nothing_to_read"), reads=lambda profile, expect: {})
    held_back = check("held_back", shell("true"), judge=lambda *_: not_run("held_back", "a job runs"))
    long = replace(check("long", shell("true")), tier="long")
    skip = Skip("skipped", "cables", TODAY)

    result = run_checks(
        [check("good", shell("true")), check("skipped", shell("exit 1")), nothing, held_back, long],
        PROFILE, skips=[skip], today=TODAY,
    )  # fmt: skip

    assert result.ran == ["good", "skipped", "nothing_to_read"]
    assert [(f.status, f.symptom) for f in result.findings if f.check == "held_back"] == [("warn", "held_back.not_run")]
