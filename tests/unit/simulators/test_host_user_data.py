"""The shim for cloud-init: what it makes of user data, in a folder that stands for the root file system."""

from __future__ import annotations

import base64
import importlib.machinery
import importlib.util
import json
import os
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SHIM = Path(__file__).resolve().parents[3] / "simulators" / "host" / "shims" / "cloud-init"


class Server:
    """The shim with a root of its own, and the commands that it would have run."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.simulator = tmp_path / "root", tmp_path / "simulator"
        self.root.mkdir()
        self.simulator.mkdir()
        monkeypatch.setenv("FIRSTLIGHT_ROOT", str(self.root))
        monkeypatch.setenv("FIRSTLIGHT_SIMULATOR", str(self.simulator))
        loader = importlib.machinery.SourceFileLoader("cloud_init_shim", str(SHIM))
        spec = importlib.util.spec_from_loader("cloud_init_shim", loader)
        assert spec
        self.shim: ModuleType = importlib.util.module_from_spec(spec)
        loader.exec_module(self.shim)
        self.commands: list[tuple[str, ...]] = []
        monkeypatch.setattr(self.shim, "run", lambda *words: self.commands.append(words))

    def boot(self, user_data: str | None, installed_at: str = "1") -> dict[str, Any]:
        """Both stages of a boot; returns the status."""
        disk = {"hostname": "h", "installed_at": installed_at, "user_data": user_data}
        (self.simulator / "state.json").write_text(json.dumps({"disk": disk}))
        for stage in ("init", "final"):
            self.shim.stage(stage)
        return self.shim.load_status()

    def read(self, path: str) -> str:
        return (self.root / path).read_text()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    return Server(tmp_path, monkeypatch)


def test_users_sudo_and_groups(server: Server) -> None:
    status = server.boot(
        "#cloud-config\nusers:\n- {name: ops-new, shell: /bin/sh, groups: [root], sudo: 'ALL=(ALL) NOPASSWD:ALL'}\n"
    )
    assert status == {"status": "done", "errors": []}
    assert ("useradd", "--create-home", "--shell", "/bin/sh", "ops-new") in server.commands
    assert ("usermod", "-aG", "root", "ops-new") in server.commands
    assert server.read("etc/sudoers.d/90-cloud-init-users") == "ops-new ALL=(ALL) NOPASSWD:ALL\n"


def test_keys_of_an_existing_user_are_written_with_the_right_mode(server: Server) -> None:
    server.boot("#cloud-config\nusers:\n- {name: root, ssh_authorized_keys: [ssh-ed25519 AAAA me]}\n")
    path = server.root / "root" / ".ssh" / "authorized_keys"
    assert path.read_text() == "ssh-ed25519 AAAA me\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_write_files_with_mode_encoding_and_append(server: Server) -> None:
    secret = base64.b64encode(b"\x00binary").decode()
    server.boot(
        "#cloud-config\nusers: []\nwrite_files:\n"
        f"- {{path: /etc/one, content: {secret}, encoding: b64, permissions: '0640'}}\n"
        "- {path: /etc/two, content: 'a'}\n- {path: /etc/two, content: 'b', append: true}\n"
    )
    assert (server.root / "etc/one").read_bytes() == b"\x00binary"
    assert (server.root / "etc/one").stat().st_mode & 0o777 == 0o640
    assert server.read("etc/two") == "ab"


def test_base64_user_data_as_maas_takes_it(server: Server) -> None:
    text = base64.b64encode(b"#cloud-config\nusers: []\nwrite_files: [{path: /etc/one, content: x}]\n").decode()
    assert server.boot(text)["status"] == "done"
    assert server.read("etc/one") == "x"


def test_runcmd_runs_once_for_one_installation_and_again_after_a_reinstall(server: Server) -> None:
    data = f"#cloud-config\nusers: []\nruncmd:\n- echo x >> {server.root}/count\n- [touch, {server.root}/list]\n"
    server.boot(data)
    server.boot(data)
    assert server.read("count") == "x\n"
    assert (server.root / "list").exists()
    server.boot(data, installed_at="2")
    assert server.read("count") == "x\nx\n"


def test_bootcmd_runs_at_every_boot_and_before_the_users_are_there(server: Server) -> None:
    data = f"#cloud-config\nusers: [new]\nbootcmd:\n- [sh, -c, 'ls {server.root}/etc >> {server.root}/seen; echo']\n"
    (server.root / "etc").mkdir()
    server.boot(data)
    assert server.read("seen") == ""
    server.boot(data)
    assert "ssh" in server.read("seen")


def test_cloud_init_per_runs_once_and_again_only_after_a_failure(server: Server) -> None:
    def per(*words: str) -> int:
        environment = os.environ | {"FIRSTLIGHT_ROOT": str(server.root)}
        return subprocess.run([SHIM.parent / "cloud-init-per", *words], env=environment, timeout=20).returncode

    count = f"echo x >> {server.root}/count"
    assert per("instance", "a", "sh", "-c", f"{count}; false") == 1
    assert per("instance", "a", "sh", "-c", count) == 0
    assert per("instance", "a", "sh", "-c", count) == 0
    assert per("always", "b", "sh", "-c", count) == 0
    assert server.read("count") == "x\nx\nx\n"
    assert per("once") == 2


def test_host_keys_of_the_user_data_are_the_only_ones(server: Server) -> None:
    (server.root / "etc/ssh").mkdir(parents=True)
    for name in ("ssh_host_rsa_key", "ssh_host_rsa_key.pub", "sshd_config"):
        (server.root / "etc/ssh" / name).write_text("of the image\n")
    keys = "{ed25519_private: 'PRIVATE\n\n', ed25519_public: PUBLIC}"
    server.boot(f"#cloud-config\nusers: []\nssh_keys: {keys}\nssh_deletekeys: true\n")
    found = {path.name for path in (server.root / "etc/ssh").glob("ssh*") if path.is_file()}
    assert found == {"ssh_host_ed25519_key", "ssh_host_ed25519_key.pub", "sshd_config"}
    assert server.read("etc/ssh/ssh_host_ed25519_key.pub") == "PUBLIC"
    assert (server.root / "etc/ssh/ssh_host_ed25519_key").stat().st_mode & 0o777 == 0o600
    assert not [words for words in server.commands if words[0] == "ssh-keygen"]


@pytest.mark.parametrize(
    "data", ["#cloud-config\nusers: []\nssh_genkeytypes: [ed25519]\n", "#cloud-config\nusers: 3\n"]
)
def test_a_host_without_keys_in_its_user_data_makes_some(server: Server, data: str) -> None:
    server.boot(data)
    made = [words[3] for words in server.commands if words[:1] == ("ssh-keygen",)]
    assert made == (["ed25519"] if "genkeytypes" in data else ["rsa", "ecdsa", "ed25519"])


def test_password_logins_and_root_logins_are_as_asked(server: Server) -> None:
    server.boot("#cloud-config\nusers: []\nssh_pwauth: false\n")
    text = server.read("etc/ssh/sshd_config.d/50-cloud-init.conf")
    assert text == "PasswordAuthentication no\nPermitRootLogin no\n"


def test_unknown_keys_are_named_in_the_log_not_swallowed(server: Server) -> None:
    assert server.boot("#cloud-config\nusers: []\nswap: {size: 1}\n")["status"] == "done"
    assert "not applied: swap" in server.read("var/log/cloud-init.log")


@pytest.mark.parametrize(
    ("user_data", "reason"),
    [
        ("#cloud-config\nusers: [", "not YAML"),
        ("#cloud-config\n- a\n", "must be a mapping"),
        ("#!/bin/sh\ntrue\n", "must begin with #cloud-config"),
        ("%%%", "neither #cloud-config nor base64"),
        ("#cloud-config\nusers: [{name: 'a b; rm'}]\n", "not a user name"),
        ("#cloud-config\nusers: []\nruncmd: ['exit 3']\n", "runcmd 0 failed with 3"),
        ("#cloud-config\nusers: []\nwrite_files: [{content: x}]\n", "path"),
    ],
)
def test_what_cannot_be_applied_is_an_error_status(server: Server, user_data: str, reason: str) -> None:
    status = server.boot(user_data)
    assert status["status"] == "error"
    assert reason in " ".join(status["errors"])
    assert server.shim.status([]) == 1


def test_status_says_what_the_real_one_says(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert server.shim.status([]) == 0
    assert capsys.readouterr().out == "status: not started\n"
    server.shim.save_status("running", [])
    server.shim.status([])
    assert capsys.readouterr().out == "status: running\n"
    server.boot(None)
    capsys.readouterr()
    assert server.shim.status(["--wait"]) == 0
    assert capsys.readouterr().out == "status: done\n"
    server.shim.status(["--format", "json"])
    assert json.loads(capsys.readouterr().out)["status"] == "done"
