"""Host keys and the file of known hosts, checked against OpenSSH's own tools."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight.errors import InputError
from firstlight.maas.hostkeys import BOOTSTRAP, KnownHosts, fingerprint, new_key_pair, parse_public

A, B, C = (new_key_pair().public for _ in range(3))


@pytest.fixture
def known(tmp_path):
    return KnownHosts(tmp_path / "site" / "known_hosts")


def found_by_openssh(known, name):
    done = subprocess.run(["ssh-keygen", "-F", name, "-f", known.path], capture_output=True, text=True, timeout=120)
    return [" ".join(line.split()[1:3]) for line in done.stdout.splitlines() if not line.startswith("#")]


def test_openssh_reads_the_pair_and_its_fingerprint(tmp_path):
    pair = new_key_pair()
    path = tmp_path / "key"
    path.touch(mode=0o600)
    path.write_text(pair.private)
    made = subprocess.run(["ssh-keygen", "-y", "-f", path], capture_output=True, text=True, timeout=120, check=True)
    assert parse_public(made.stdout) == pair.public
    shown = subprocess.run(["ssh-keygen", "-lf", path], capture_output=True, text=True, timeout=120, check=True)
    assert shown.stdout.split()[1] == fingerprint(pair.public)


def test_a_pair_shows_no_private_key_and_is_never_the_same_twice():
    pair, other = new_key_pair(), new_key_pair()
    assert "PRIVATE" not in repr(pair) + str(pair)
    assert pair.private != other.private
    assert pair.public != other.public


def test_add_replace_and_forget_are_what_openssh_sees(known):
    assert not known.has("n1")
    assert known.add("n1", A, BOOTSTRAP)
    assert not known.add("n1", A)  # the comment stays
    assert known.add("n1", B)
    assert known.add("n10", C)
    assert known.keys("n1") == found_by_openssh(known, "n1") == [A, B]
    assert known.keys("n1", BOOTSTRAP) == [A]
    assert known.replace("n1", B)
    assert not known.replace("n1", B)
    assert known.keys("n1") == found_by_openssh(known, "n1") == [B]
    assert known.keys("n1", BOOTSTRAP) == []
    assert known.forget("n1")
    assert not known.forget("n1")
    assert found_by_openssh(known, "n1") == []
    assert known.keys("n10") == found_by_openssh(known, "n10") == [C]


def test_replace_takes_the_mark_of_a_bootstrap_key_away(known):
    known.replace("n1", A, BOOTSTRAP)
    assert known.replace("n1", A)
    assert known.keys("n1", BOOTSTRAP) == []


def test_hashed_lines_are_found_and_forgotten(known):
    known.add("n1", A)
    known.add("n2", B)
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", known.path], capture_output=True, timeout=120, check=True)
    assert "n1" not in known.path.read_text()
    assert known.keys("n1") == [A]
    known.replace("n1", C)
    assert found_by_openssh(known, "n1") == [C]
    assert found_by_openssh(known, "n2") == [B]


def test_what_others_wrote_stays_byte_for_byte(known):
    known.path.parent.mkdir()
    others = b"# mine\n\n@revoked * ssh-ed25519 AAAA\nold,10.0.0.1 ssh-rsa AAAAB3 ops\n|1|xx|yy ssh-rsa A\ncaf\xe9 x\n"
    known.path.write_bytes(others)
    known.path.chmod(0o600)
    known.add("n1", A)
    known.forget("n1")
    assert known.path.read_bytes() == others
    assert known.path.stat().st_mode & 0o777 == 0o600


def test_a_link_stays_a_link(known, tmp_path):
    known.path.parent.mkdir()
    (tmp_path / "real").write_text("")
    known.path.symlink_to(tmp_path / "real")
    known.add("n1", A)
    assert known.path.is_symlink()
    assert A in (tmp_path / "real").read_text()


def test_many_at_once_lose_nothing(known):
    names = [f"n{i}" for i in range(60)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: KnownHosts(known.path).replace(name, A, BOOTSTRAP), names))
    assert all(known.keys(name) == [A] for name in names)
    assert not [p for p in known.path.parent.iterdir() if p.name not in ("known_hosts", ".known_hosts.lock")]


def test_what_cannot_be_written_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"known_hosts_file: .* cannot be (read|written)"):
        KnownHosts(tmp_path / "file" / "known_hosts").add("n1", A)
    with pytest.raises(InputError, match="cannot be the name of a host"):
        KnownHosts(tmp_path / "known_hosts").add("n1 *", A)


@given(st.text(max_size=120))
def test_no_text_is_taken_for_a_key(text):
    with pytest.raises(ValueError, match="is not a public ed25519 key"):
        parse_public(text)


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=60), max_size=8))
def test_no_file_makes_it_stumble(tmp_path_factory, lines):
    known = KnownHosts(tmp_path_factory.mktemp("k") / "known_hosts")
    known.path.write_text("\n".join(lines))
    known.replace("n1", A)
    assert known.keys("n1") == [A]
