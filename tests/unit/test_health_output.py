"""What strangers' texts come to on a screen: one line each, nothing that a terminal obeys, in any encoding."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_health import NOTHING, PROFILE, a_capture, health_of

from firstlight import commandline
from firstlight.errors import FirstlightError
from firstlight.findings import printable
from firstlight.fleet import watch
from firstlight.health import cli
from firstlight.health.settings import read_settings
from firstlight.ledger import cli as ledger
from firstlight.policy import cli as policy
from firstlight.tickets import cli as tickets

FORGED = "x\x1b[31m\nr1-n01: yes\n"


def changed(folder: Path, **facts: Any) -> Path:
    """A capture of nothing whose index says this."""
    a_capture(folder, PROFILE, NOTHING)
    index = folder / "index.json"
    index.write_text(json.dumps({**json.loads(index.read_text()), **facts}))
    return folder


def run(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "firstlight.health.onhost", "judge", str(folder), "--check", "disk_usage", *words]
    known = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "LANG", "PYTHON"))}
    return subprocess.run(command, env={**known, **environment}, capture_output=True, timeout=120, check=False)


def test_a_stranger_cannot_forge_a_hosts_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, errors = health_of(capsys, "judge", str(changed(tmp_path / "c", host=FORGED, time=FORGED)))

    assert "\x1b" not in out + errors
    assert out.splitlines()[0] == "x?[31m r1-n01: yes: no"
    assert not any(line.startswith("r1-n01") for line in out.splitlines())


@pytest.mark.parametrize(
    "facts",
    [
        {"profile": {**PROFILE, "limits": {FORGED: "x"}}},
        {"profile": {**PROFILE, "hcas": {"module_firmware": {FORGED: "x"}}}},
        {"profile": {**PROFILE, FORGED: "x"}},
        {"expect": {"exporters": {FORGED: "x"}}},
        {"expect": {"versions": {FORGED: "x"}}},
        {"expect": {"versions": {"any": {FORGED: "x"}}}},
        {"tier": FORGED},
        {"checks": [FORGED]},
    ],
)
def test_nor_a_line_of_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str], facts: dict[str, Any]) -> None:
    code, out, errors = health_of(capsys, "judge", str(changed(tmp_path / "c", **facts)))

    assert (code, out) == (2, "")
    assert errors.count("\n") == 2  # the other is that the capture's own profile judges
    assert errors.replace("\n", "").isprintable()


@pytest.mark.parametrize("expect", [{"exporters": {FORGED: "x"}}, {"versions": {FORGED: {}, "any": {FORGED: 1}}}])
def test_settings_name_a_key_on_one_line(expect: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expect") as refused:
        read_settings({"expect": expect})
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(("host", "said"), [("a\udc80", b"a?: no\n"), ("caf\u00e9", b"caf\\xe9: no\n")])
def test_no_encoding_takes_the_verdict_away(tmp_path: Path, host: str, said: bytes) -> None:
    profile = tmp_path / "p.json"
    profile.write_text(json.dumps(PROFILE))
    folder = changed(tmp_path / "c", host=host)

    done = run(folder, "--profile", str(profile), PYTHONIOENCODING="ascii")

    assert (done.returncode, done.stdout.splitlines(keepends=True)[0]) == (1, said), done.stderr


def test_a_reader_that_has_enough_changes_no_exit_status(tmp_path: Path) -> None:
    folder = changed(tmp_path / "c")
    source, end = os.pipe()
    os.close(source)
    command = [sys.executable, "-m", "firstlight.health.onhost", "judge", str(folder), "--check", "disk_usage"]
    done = subprocess.run(command, stdout=end, stderr=subprocess.PIPE, timeout=120, check=False)
    os.close(end)

    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1, done.stderr
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=120, check=False)
    assert done.returncode == 2
    assert b"firstlight-checks: standard output: No space left on device\n" in done.stderr


def test_text_of_many_lines_keeps_its_lines_alone() -> None:
    assert printable("a\n\tb") == "a\n b"
    assert printable("a\x1b[1m\rb\udc80\x9b\u2028") == "a?[1m b?? "
    assert printable("é…\n") == "é…\n"


def test_errors_of_all_command_lines_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> int:
        raise FirstlightError(f"BMC says {FORGED}")

    assert commandline.run("ledger", fail) == 1
    assert capsys.readouterr().err == "ledger: BMC says x?[31m r1-n01: yes\n"


def test_what_the_ledger_tells_is_printed_plain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ledger may be imported, and is what hosts, BMCs and people said."""
    escape = "a\x1b[2Jb"
    monkeypatch.setattr(ledger, "find_ledger", lambda *a, **k: "")
    monkeypatch.setattr(ledger, "Ledger", lambda *a, **k: None)
    monkeypatch.setattr(ledger, "host_tale", lambda *a: {})
    monkeypatch.setattr(ledger, "tale_lines", lambda *a, **k: [escape, "two"])
    monkeypatch.setattr(ledger, "all_hosts", lambda *a: [])
    monkeypatch.setattr(ledger, "host_lines", lambda *a: [escape, "two"])
    for words in (["show", "n1"], ["list"]):
        assert ledger.main(words) == 0
        assert capsys.readouterr().out == "a?[2Jb\ntwo\n"
    for module in (tickets, policy):
        monkeypatch.setattr(module, "find_ledger", lambda *a, **k: "")
        monkeypatch.setattr(module, "Ledger", lambda *a, **k: None)
    monkeypatch.setattr(tickets.kept, "tickets", lambda *a, **k: [])
    monkeypatch.setattr(tickets, "lines", lambda found: [escape])
    assert tickets.main(["list"]) == 0
    monkeypatch.setattr(policy, "_policy", lambda *a: (None, ""))
    monkeypatch.setattr(policy, "read_past", lambda *a: None)
    monkeypatch.setattr(policy, "dry_run", lambda *a: {})
    monkeypatch.setattr(policy, "lines", lambda told: [escape])
    assert policy.main([]) == 0
    monkeypatch.setattr(watch, "going", lambda run: False)
    monkeypatch.setattr(watch, "lines", lambda run: [escape])
    shard = type("Shard", (), {"state": lambda self: {"state": "done", "rc": 0}})()
    watch.follow(type("Run", (), {"shards": [shard]})(), lambda run: None)
    assert capsys.readouterr().out == "a?[2Jb\n" * 3


INVENTORY: dict[str, Any] = {
    "_meta": {"hostvars": {}},
    "all": {"children": ["ungrouped", "fleet", "rack_r1"]},
    "fleet": {"children": ["rack_r1"]},
    "rack_r1": {"hosts": ["r1-n01"]},
}


@pytest.mark.parametrize(
    ("inventory", "names", "said"),
    [
        (INVENTORY, ["r1-n01", "rack_r1", "fleet", "all", "r*"], ""),
        (INVENTORY, ["r1-n99"], "r1-n99: no such host or group in the inventory"),
        (INVENTORY, ["-x"], "-x: no such host or group in the inventory"),
        (
            {"_meta": {}, "all": {"children": ["ungrouped", "fleet"]}},
            [],
            "the inventory has no host in its group fleet",
        ),
        ({"_meta": {}}, [], "the inventory has no host in its group fleet"),
    ],
)
def test_which_mistake_kept_a_run_from_beginning(inventory: dict[str, Any], names: list[str], said: str) -> None:
    assert cli._mistake(inventory, names) == said


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["[WARNING]: x", "[ERROR]: the run broke: no ledger"], "the run broke: no ledger"),
        (
            ["TASK [x] ***", "fatal: [n1]: UNREACHABLE! => ssh.unreachable: refused", "PLAY RECAP ***", "n1 : ok=2"],
            "ssh.unreachable: refused",
        ),
        (["PLAY RECAP ***"], "--verbose shows what Ansible says"),
    ],
)
def test_of_what_ansible_says_one_line_is_told(lines: list[str], said: str) -> None:
    assert cli._Ended(2, lines).reason == said
    assert cli._Ended(2, [], shown=True).reason == "what Ansible says stands above"


def test_a_host_that_begins_with_a_dash_is_no_option_of_ansibles(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []

    class Process:
        def __init__(self, command: list[str], **more: Any) -> None:
            ran.append(command)

        def wait(self) -> int:
            return 2

    monkeypatch.setattr(cli.subprocess, "Popen", Process)
    options = cli._hosts_parser().parse_args(["--inventory=-i", "--", "-x"])

    assert cli._play("health.yml", options, options.hosts, {}).code == 2
    assert ran[0][-2:] == ["--limit=-x", "--inventory=-i"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["r1-n99"], "health: r1-n99: no such host or group in the inventory\n"),
        (["--", "-x"], "health: -x: no such host or group in the inventory\n"),
        ([], "health: the inventory has no host in its group fleet\n"),
        (["capture", "r1-n99", "{tmp}/c"], "health: r1-n99: no such host or group in the inventory\n"),
    ],
)
def test_through_ansible_a_mistake_is_one_line(tmp_path: Path, words: list[str], said: str) -> None:
    root = Path(__file__).parents[2]
    (tmp_path / "hosts.yaml").write_text("fleet: {hosts: {%s}}\n" % ("r1-n01: {}" if words else ""))
    words = [word.format(tmp=tmp_path) for word in words]
    inventory = {"ANSIBLE_INVENTORY": str(tmp_path / "hosts.yaml"), "ANSIBLE_HOME": str(tmp_path / "home")}
    known = {**os.environ, **inventory, "ANSIBLE_CONFIG": str(root / "ansible.cfg")}
    command = [sys.executable, "-m", "firstlight.health.cli", *words]
    done = subprocess.run(command, cwd=root, env=known, capture_output=True, text=True, timeout=240, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)
