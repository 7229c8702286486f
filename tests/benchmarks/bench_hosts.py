"""Containers with systemd that benchmarks configure, and what a run of Ansible on them costs."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
sys.path.append(str(PROJECT))  # the simulators are no installed package

from simulators.host.containers import make_room  # noqa: E402

ENGINE = str(PROJECT / "scripts" / "container-engine")
IMAGE = "localhost/firstlight-debian:12"
VOLUMES = ("/var/lib/docker", "/var/lib/containerd")  # an overlay on an overlay does not work
SETTINGS = "settings.json"  # extra variables, where a benchmark's folder has them
RECAP = re.compile(r"^(\S+)\s+: ok=(\d+)\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)\s+skipped=(\d+)", re.M)


@dataclass
class Cost:
    wall: float
    cpu: float
    ran: float  # tasks a host, those that were skipped left out
    skipped: float
    changed: int


def engine(*words: str, seconds: float = 900) -> str:
    done = subprocess.run([ENGINE, *words], capture_output=True, text=True, timeout=seconds, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words[:4])}: {(done.stderr or done.stdout).strip()[-800:]}")
    return done.stdout


class Hosts:
    """Containers that all start from one that was configured."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind = folder, kind
        self.image = f"localhost/firstlight-bench-{kind}:latest"
        self.names: list[str] = []

    def start(self, count: int, image: str = IMAGE, *options: str) -> None:
        if said := make_room(count):
            print(said)
        start = str(PROJECT / "molecule" / "shared" / "start-container")
        volumes = [word for volume in VOLUMES for word in ("--volume", volume)]
        for _ in range(count):
            name = f"firstlight-bench-{self.kind}-{len(self.names)}"
            self.names.append(name)
            engine("run", start, name, image, *volumes, *options)

    def snapshot(self) -> None:
        engine("run", "podman", "commit", "-q", self.names[0], self.image)
        self.stop()

    def stop(self) -> None:
        if self.names:
            engine("run", "podman", "rm", "-f", "-v", "-t", "0", *self.names)
        self.names = []

    def remove(self) -> None:
        self.stop()
        engine("run", "podman", "rmi", "-f", "-i", self.image)

    def play(self, playbook: Path, upstream: Path | None = None, only: Sequence[str] = (), times: int = 1) -> Cost:
        """Run the playbook on all, or on some only; its cost is that of ansible-playbook and what it starts.

        times: how many of the inventory's hosts each container is.
        """
        lines = [
            f"{name}-as-{number} ansible_host={name} ansible_connection=podman_exec\n"
            for name in only or self.names
            for number in range(times)
        ]
        (self.folder / "hosts").write_text("".join(lines))
        environment = {
            **os.environ,
            "PATH": f"{PROJECT / '.venv' / 'bin'}:{os.environ['PATH']}",
            "ANSIBLE_CONFIG": str(self.folder / "ansible.cfg"),
        }
        kinds = {
            "library": "modules",
            "module_utils": "module_utils",
            "action_plugins": "action",
            "filter_plugins": "filter",
        }
        # others' roles go without what they do not use, for Ansible loads filters anew for every task
        ours = [f"{setting} = {PROJECT / 'plugins' / kind}" for setting, kind in kinds.items() if not upstream]
        (self.folder / "ansible.cfg").write_text(
            "\n".join(
                [
                    "[defaults]",
                    f"inventory = {self.folder / 'hosts'}",
                    f"roles_path = {upstream / 'roles' if upstream else PROJECT / 'roles'}",
                    f"collections_path = {upstream / 'collections' if upstream else self.folder}",
                    *ours,
                    f"connection_plugins = {PROJECT / 'molecule/plugins/connection'}",
                    "forks = 20",
                    "nocows = true",
                    "pipelining = true",
                    "interpreter_python = /usr/bin/python3",
                ]
            )
        )
        extra = ["-e", f"@{self.folder / SETTINGS}"] if (self.folder / SETTINGS).exists() else []
        before, since = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        done = subprocess.run(
            [ENGINE, "run", "ansible-playbook", str(playbook), *extra],
            env=environment, capture_output=True, text=True, timeout=1800, check=False,
        )  # fmt: skip
        wall, after = time.monotonic() - since, resource.getrusage(resource.RUSAGE_CHILDREN)
        rows = [[int(n) for n in found[1:]] for found in RECAP.findall(done.stdout)]
        if done.returncode or len(rows) != len(lines):
            raise SystemExit(f"{self.kind}: ansible-playbook failed:\n{done.stdout[-3000:]}{done.stderr[-500:]}")
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        share = len(rows)
        return Cost(
            wall, cpu, sum(r[0] for r in rows) / share, sum(r[4] for r in rows) / share, sum(r[1] for r in rows)
        )
