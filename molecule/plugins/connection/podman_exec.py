"""Runs tasks in a container of the molecule scenarios by ``podman exec``: for tests, not part of the product."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleFileNotFound
from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = """
    name: podman_exec
    short_description: run tasks in a container by podman exec
    description:
      - Runs tasks as root in the running container that has the host's name.
    author: The Firstlight authors
    extends_documentation_fragment:
      - connection_pipelining
"""


class Connection(ConnectionBase):
    transport = "podman_exec"
    has_pipelining = True

    def _connect(self) -> Connection:
        self._connected = True
        return self

    def close(self) -> None:
        self._connected = False

    def _podman(self, command: list[str], data: bytes = b"") -> tuple[int, bytes, bytes]:
        name = self._play_context.remote_addr
        done = subprocess.run(
            ["podman", "exec", "--interactive", name, *command], input=data, capture_output=True, check=False
        )
        if done.returncode == 125:  # podman itself failed, not the command: podman-exec(1)
            raise AnsibleConnectionFailure(done.stderr.decode(errors="replace").strip())
        return done.returncode, done.stdout, done.stderr

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        return self._podman(["/bin/sh", "-c", cmd], in_data or b"")

    def put_file(self, in_path: str, out_path: str) -> None:
        super().put_file(in_path, out_path)
        if not Path(in_path).is_file():
            raise AnsibleFileNotFound(f"no such file: {in_path}")
        code, _, error = self._podman(["/bin/sh", "-c", 'cat >"$0"', out_path], Path(in_path).read_bytes())
        if code != 0:
            raise AnsibleConnectionFailure(f"{out_path} cannot be written: {error.decode(errors='replace').strip()}")

    def fetch_file(self, in_path: str, out_path: str) -> Any:
        super().fetch_file(in_path, out_path)
        code, content, error = self._podman(["cat", in_path])
        if code != 0:
            raise AnsibleConnectionFailure(f"{in_path} cannot be read: {error.decode(errors='replace').strip()}")
        Path(out_path).write_bytes(content)
