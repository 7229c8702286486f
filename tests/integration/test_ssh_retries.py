"""A connection to a host that breaks once: the run goes on (ansible.cfg)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# does what it is told on this machine, but for the first connections
SSH = """#!/bin/sh
echo >>"$0.calls"
[ "$(wc -l <"$0.calls")" -gt {broken} ] || exit 255
for last; do :; done
exec sh -c "$last"
"""


def ping(folder: Path, broken: int) -> tuple[int, str]:
    """Exit status and output of a module on a host whose first connections break."""
    ssh = folder / "ssh"
    ssh.write_text(SSH.format(broken=broken))
    ssh.chmod(0o755)
    inventory = folder / "hosts.yaml"
    variables = f"ansible_ssh_executable: {ssh}, ansible_python_interpreter: {sys.executable}"
    inventory.write_text(f"all: {{hosts: {{one: {{{variables}}}}}}}")
    known = {k: v for k, v in os.environ.items() if not k.startswith(("ANSIBLE_", "FIRSTLIGHT_"))}
    environment = {**known, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_REMOTE_TEMP": str(folder / "tmp")}
    command = [sys.executable, "-m", "ansible", "adhoc", "one", "-i", str(inventory), "-m", "ansible.builtin.ping"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def test_one_broken_connection_is_opened_again(tmp_path: Path) -> None:
    status, screen = ping(tmp_path, broken=1)
    assert status == 0 and '"ping": "pong"' in screen, screen


def test_a_host_that_is_not_there_is_unreachable(tmp_path: Path) -> None:
    status, screen = ping(tmp_path, broken=9)
    assert status == 4 and "UNREACHABLE" in screen, screen
