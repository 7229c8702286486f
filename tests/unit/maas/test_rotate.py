"""The first host key is replaced by the host's own; stopped anywhere, the host stays reachable and is finished later.

The module runs as it runs on a host, in a folder of its own and without sshd.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

from firstlight.maas.hostkeys import BOOTSTRAP, KnownHosts, new_key_pair, parse_public, rotate

MODULE = Path(__file__).parents[3] / "plugins" / "modules" / "host_key.py"
CALLS = ("rename", "chmod", "fsync", "unlink")  # of the module, each a point where the power can go


class Killed(BaseException):
    pass


class Host:
    """An installed host: the files that its sshd reads, and a countdown until the power goes."""

    def __init__(self, folder, monkeypatch):
        self.folder = folder
        spec = importlib.util.spec_from_file_location("host_key_module", MODULE)
        self.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)
        self.left = None
        self.reloaded = None
        for name in CALLS:
            monkeypatch.setattr(self.module.os, name, self._counted(getattr(os, name)))
        monkeypatch.setattr(self.module, "_run", self._counted(self.module._run))
        monkeypatch.setattr(self.module.subprocess, "run", self._systemctl(subprocess.run))
        self.refuses_reload = False

    def install(self):
        pair = new_key_pair()
        for name, text in ((self.module.KEY, pair.private), (self.module.KEY + ".pub", pair.public + "\n")):
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o600)
        self.reloaded = pair.public
        return pair.public

    def _point(self):
        """Something may stop it here."""
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Killed

    def _counted(self, function):
        def call(*arguments, **more):
            self._point()
            done = function(*arguments, **more)
            self._point()
            return done

        return call

    def _systemctl(self, function):
        def call(words, **more):
            if words[0] == "systemctl":
                assert words == ["systemctl", "try-reload-or-restart", "ssh.service"]
                if self.refuses_reload:
                    return subprocess.CompletedProcess(words, 1, b"Unit ssh.service not found.\n")
                self.reloaded = self.on_disk()
                return subprocess.CompletedProcess(words, 0, b"")
            return function(words, **more)

        return call

    def on_disk(self):
        done = subprocess.check_output(["ssh-keygen", "-y", "-f", self.folder / "ssh_host_ed25519_key"], text=True)
        return parse_public(done)

    def answer(self, step, arguments):
        self._point()
        if step == "prepare":
            said = self.module.prepare(self.folder, arguments["bootstrap"])
        else:
            self.module.switch(self.folder, arguments["key"], "ssh.service")
            said = arguments["key"]
        self._point()
        return said


@pytest.fixture
def host(tmp_path, monkeypatch):
    (tmp_path / "etc").mkdir()
    return Host(tmp_path / "etc", monkeypatch)


@pytest.fixture
def known(tmp_path):
    return KnownHosts(tmp_path / "known_hosts")


def go(host, known):
    def reconnect():
        host._point()
        assert known.keys("n1") == [host.reloaded]

    return rotate(known, "n1", host.answer, reconnect)


def test_the_host_ends_with_a_key_that_the_controller_never_had(host, known):
    first = host.install()
    known.replace("n1", first, BOOTSTRAP)
    assert go(host, known)
    assert known.keys("n1") == [host.on_disk()] == [host.reloaded]
    assert host.on_disk() != first
    assert known.keys("n1", BOOTSTRAP) == []
    assert (host.folder / "ssh_host_ed25519_key.pub").read_text() == host.on_disk() + "\n"
    assert (host.folder / "ssh_host_ed25519_key").stat().st_mode & 0o777 == 0o600
    assert (host.folder / "ssh_host_ed25519_key.pub").stat().st_mode & 0o777 == 0o644
    assert len(list(host.folder.iterdir())) == 2


def test_a_second_time_the_host_is_not_even_asked(host, known):
    known.replace("n1", host.install(), BOOTSTRAP)
    go(host, known)
    host.left = 0
    assert not go(host, known)


def test_it_may_be_stopped_at_any_point_and_begun_again(host, known):
    """Whatever sshd serves, the file on disk or the key that it read when it was reloaded last, is accepted."""
    stops = 0
    while True:
        for path in host.folder.iterdir():
            path.unlink()
        host.left = None
        known.replace("n1", host.install(), BOOTSTRAP)
        host.left = stops
        try:
            go(host, known)
        except Killed:
            stops += 1
        else:
            break
        host.left = None
        assert {host.on_disk(), host.reloaded} <= set(known.keys("n1")), f"locked out when stopped at {stops}"
        go(host, known)
        assert known.keys("n1") == [host.on_disk()] == [host.reloaded]
        assert known.keys("n1", BOOTSTRAP) == []
        assert len(list(host.folder.iterdir())) == 2, f"left behind when stopped at {stops}"
    assert stops > 15


def test_a_torn_key_is_made_again(host, known):
    known.replace("n1", host.install(), BOOTSTRAP)
    (host.folder / host.module.PENDING).write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blb")
    assert go(host, known)
    assert known.keys("n1") == [host.on_disk()]


def test_a_reload_that_fails_leaves_both_accepted(host, known):
    first = host.install()
    known.replace("n1", first, BOOTSTRAP)
    host.refuses_reload = True
    with pytest.raises(host.module.NoKey, match=r"ssh.service could not be reloaded: Unit ssh.service not found\."):
        go(host, known)
    assert set(known.keys("n1")) == {first, host.on_disk()}
    host.refuses_reload = False
    assert go(host, known)


def test_a_connection_that_fails_leaves_both_accepted(host, known):
    first = host.install()
    known.replace("n1", first, BOOTSTRAP)

    def reconnect():
        raise ConnectionError

    with pytest.raises(ConnectionError):
        rotate(known, "n1", host.answer, reconnect)
    assert set(known.keys("n1")) == {first, host.on_disk()}
    assert go(host, known)


@pytest.mark.parametrize("said", [None, "", "ssh-rsa AAAA", "ssh-ed25519 AAAA", "ssh-ed25519 " + "A" * 68, "x\ny z"])
def test_what_is_no_key_is_never_written_down(known, said):
    first = new_key_pair().public
    known.replace("n1", first, BOOTSTRAP)
    with pytest.raises(ValueError, match="is not a public ed25519 key"):
        rotate(known, "n1", lambda step, arguments: said, lambda: None)
    assert known.keys("n1") == [first]


def test_the_old_key_is_no_answer(known):
    first = new_key_pair().public
    known.replace("n1", first, BOOTSTRAP)
    with pytest.raises(ValueError, match="gives the key that it shall replace"):
        rotate(known, "n1", lambda step, arguments: first, lambda: None)
