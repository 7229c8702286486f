"""Taking SSH host keys on a person's word: what is shown, what is compared, and what the code stands for."""

from __future__ import annotations

import pytest

from firstlight.errors import FirstlightError
from firstlight.maas import enrol
from firstlight.maas.enrol import CHANGED, KNOWN, SILENT, UNKNOWN, code_of, compare, scan
from firstlight.maas.hostkeys import KnownHosts, fingerprint, new_key_pair

A, B, C = (new_key_pair().public for _ in range(3))
TARGETS = {"n1": ("10.0.0.1", 22), "n2": ("10.0.0.2", 22), "n3": ("fd00::3", 2222), "n4": ("10.0.0.4", 22)}


@pytest.fixture
def keyscan(tmp_path, monkeypatch):
    """ssh-keyscan, as far as it is asked here. Returns how it was called."""
    calls = tmp_path / "calls"

    def answer(text):
        program = tmp_path / "ssh-keyscan"
        program.write_text(f"#!/bin/sh\necho \"$*\" $(cat) >> {calls}\ncat <<'END'\n{text}\nEND\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        return calls

    return answer


def test_hosts_are_asked_together_one_run_for_each_port(keyscan):
    calls = keyscan(f"10.0.0.1 {A}\n10.0.0.9 {A}\n10.0.0.2 ssh-rsa AAAA\n[fd00::3]:2222 {C}\n# 10.0.0.4 nothing\nx")
    assert scan({**TARGETS, "n5": ("10.0.0.5 10.0.0.6", 22)}) == {"n1": A, "n3": C}
    assert calls.read_text().splitlines() == [
        "-t ed25519 -T 5 -p 22 -f - 10.0.0.1 10.0.0.2 10.0.0.4",
        "-t ed25519 -T 5 -p 2222 -f - fd00::3",
    ]


def test_without_the_program_one_line_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FirstlightError, match="ssh-keyscan is not installed"):
        scan(TARGETS)


def test_a_program_that_hangs_is_given_up(keyscan, monkeypatch):
    def hang(*arguments, **more):
        raise enrol.subprocess.TimeoutExpired("ssh-keyscan", 1)

    monkeypatch.setattr(enrol.subprocess, "run", hang)
    with pytest.raises(FirstlightError, match="did not end within"):
        scan(TARGETS)


@pytest.fixture
def shown(tmp_path):
    known = KnownHosts(tmp_path / "known_hosts")
    known.add("n1", A)
    known.add("n2", A)
    return compare(TARGETS, {"n1": A, "n2": B, "n3": C}, dict.fromkeys(TARGETS, known))


def test_each_host_is_known_unknown_changed_or_silent(shown):
    assert [host.state for host in shown] == [KNOWN, CHANGED, UNKNOWN, SILENT]
    lines = [host.line() for host in shown]
    assert lines[0] == f"n1 at 10.0.0.1: {fingerprint(A)} is in known_hosts_file"
    assert lines[1] == f"n2 at 10.0.0.2: {fingerprint(B)} is NOT the one in known_hosts_file, {fingerprint(A)}"
    assert lines[2] == f"n3 at fd00::3: {fingerprint(C)} is not known"
    assert lines[3] == "n4 at 10.0.0.4: shows no ed25519 key"


def test_the_code_is_of_these_keys_of_these_hosts_alone(shown):
    assert code_of(shown) == code_of(list(reversed(shown)))
    assert code_of(shown) == code_of(shown[1:])  # what is known is not taken
    assert code_of(shown) != code_of(shown[:2])
    other = enrol.Shown("n3", "fd00::3", UNKNOWN, B)
    assert code_of(shown) != code_of([*shown[:2], other])


def test_the_real_program_takes_what_we_tell_it(monkeypatch):
    """Nobody listens at these addresses; a wrong option would end it with its usage."""
    seen = []
    run = enrol.subprocess.run

    def note(*arguments, **more):
        seen.append(run(*arguments, **more))
        return seen[-1]

    monkeypatch.setattr(enrol.subprocess, "run", note)
    assert scan({"n1": ("127.0.0.1", 1), "n2": ("::1", 1)}, seconds=1) == {}
    assert "usage" not in seen[0].stderr
