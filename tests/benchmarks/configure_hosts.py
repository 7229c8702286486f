"""What a run that changes nothing costs the controller, beside two well-known roles. By hand: make bench; never a test.

Docker and the node exporter in containers with systemd: by the roles docker_engine and node_exporter, and by
geerlingguy.docker and prometheus.prometheus.node_exporter. The upstream ones are installed with ansible-galaxy into
.cache/benchmarks, or taken from the folder that --upstream names (collections/ and roles/); without them only ours
is measured.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import http.server
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import yaml
from bench_hosts import IMAGE, PROJECT, SETTINGS, Cost, Hosts, engine
from bmc_discovery import machine

AIM = 0.5
OURS = ["docker_engine", "node_exporter"]
THEIRS = ["geerlingguy.docker", "prometheus.prometheus.node_exporter"]
FACTS = {"geerlingguy.docker": ["mounts"]}  # what prometheus.prometheus.node_exporter needs besides
DAEMON = {"log-driver": "json-file", "log-opts": {"max-size": "50m", "max-file": "3"}, "live-restore": True}
OUR_SETTINGS: dict[str, Any] = {"docker_engine_ulimits": {"nofile": 4096}}  # a container cannot raise limits
THEIR_SETTINGS: dict[str, Any] = {
    # Docker from the distribution, as ours has it; by default each run would remove what the one before installed
    "docker_add_repo": False,
    "docker_packages": ["docker.io"],
    "docker_obsolete_packages": ["docker-engine"],
    "docker_install_compose_plugin": False,
    "docker_daemon_options": {**DAEMON, "default-ulimits": {"nofile": {"Name": "nofile", "Hard": 4096, "Soft": 4096}}},
}


def playbook_of(folder: Path, roles: list[str], settings: dict[str, Any]) -> Path:
    play = {
        "hosts": "{{ host | default('all') }}",  # as playbooks/ have it
        "gather_facts": False,
        "tasks": [
            {"ansible.builtin.setup": {"gather_subset": ["min", "pkg_mgr", "service_mgr", *FACTS.get(roles[0], [])]}},
            *({"ansible.builtin.include_role": {"name": role}} for role in roles),
        ],
    }
    path = folder / f"{roles[0]}.yml"
    path.write_text(yaml.safe_dump([play]))
    # as extra variables: geerlingguy.docker includes some of its own, which go before a play's
    (folder / SETTINGS).write_text(json.dumps(settings))
    return path


def upstream_of(named: str | None) -> Path | None:
    """The folder with the roles to compare with, or None; says which, and why not."""
    folder = Path(named) if named else PROJECT / ".cache" / "benchmarks"
    collection = folder / "collections" / "ansible_collections" / "prometheus" / "prometheus"
    if not collection.is_dir() and not named:
        folder.mkdir(parents=True, exist_ok=True)
        galaxy = str(PROJECT / ".venv" / "bin" / "ansible-galaxy")
        for words in (
            ["collection", "install", "-p", str(folder / "collections"), "prometheus.prometheus"],
            ["role", "install", "-p", str(folder / "roles"), "geerlingguy.docker"],
        ):
            done = subprocess.run([galaxy, *words], capture_output=True, text=True, timeout=600, check=False)
            if done.returncode:
                print(f"not compared: {' '.join([*done.stderr.split()][:40])}")
                return None
    if not collection.is_dir():
        raise SystemExit(f"{folder}: no collections/ansible_collections/prometheus/prometheus in it")
    version = yaml.safe_load((collection / "galaxy.yml").read_text())["version"] if (
        collection / "galaxy.yml").exists() else json.loads((collection / "MANIFEST.json").read_text())[
        "collection_info"]["version"]  # fmt: skip
    print(f"beside prometheus.prometheus {version} and geerlingguy.docker")
    return folder


class Release:
    """The exporter of the distribution, packed and served as the project serves its releases."""

    def __init__(self, folder: Path, hosts: Hosts) -> None:
        name = hosts.names[0]
        script = (PROJECT / "molecule" / "node_exporter_upstream" / "make-release").read_text()
        engine("run", "podman", "exec", name, "sh", "-c", script)
        fact = json.loads(engine("run", "podman", "exec", name, "cat", "/etc/ansible/facts.d/release.fact"))
        self.version = fact["version"]
        archive = f"node_exporter-{self.version}.linux-amd64.tar.gz"
        served = folder / "release"
        served.mkdir()
        engine("run", "podman", "cp", f"{name}:/srv/release.tar.gz", str(served / archive))
        checksum = hashlib.sha256((served / archive).read_bytes()).hexdigest()
        (served / "sha256sums.txt").write_text(f"{checksum}  {archive}\n")

        class Quiet(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *words: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(served)))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{self.server.server_port}"
        self.settings = {
            "node_exporter_version": self.version,
            "node_exporter_binary_url": f"{url}/{archive}",
            "node_exporter_checksums_url": f"{url}/sha256sums.txt",
            "node_exporter_local_cache_path": str(folder / "exporter-cache"),
        }


class Side:
    """Containers that one of the two has configured."""

    def __init__(self, kind: str, roles: list[str], settings: dict[str, Any], upstream: Path | None) -> None:
        self.roles, self.settings, self.upstream = roles, settings, upstream
        self.folder = Path(tempfile.mkdtemp(prefix="firstlight-bench-"))
        self.hosts = Hosts(self.folder, kind)
        self.release: Release | None = None
        self.costs: list[Cost] = []

    def prepare(self, count: int) -> None:
        self.hosts.start(1, IMAGE)
        if self.upstream:
            self.release = Release(self.folder, self.hosts)
            self.settings = {**self.settings, **self.release.settings}
        engine("run", "podman", "exec", self.hosts.names[0], "apt-get", "update", "-qq")
        self.playbook = playbook_of(self.folder, self.roles, self.settings)
        self._play()
        self.hosts.snapshot()
        self.hosts.start(count, self.hosts.image)
        self._play()  # what a new container still lacks

    def measure(self) -> None:
        self.costs.append(self._play())

    def _play(self) -> Cost:
        return self.hosts.play(self.playbook, self.upstream)

    def middle(self) -> Cost:
        return sorted(self.costs, key=lambda cost: cost.cpu)[len(self.costs) // 2]

    def remove(self) -> None:
        self.hosts.remove()
        if self.release:
            self.release.server.shutdown()
        shutil.rmtree(self.folder, ignore_errors=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20, help="containers (20)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each, by turns (3)")
    parser.add_argument("--upstream", help="a folder with collections/ and roles/ to compare with")
    chosen = parser.parse_args(arguments)
    rounds = f"the middle one of {chosen.rounds} by turns"
    print(f"{chosen.count} containers, a run that changes nothing, {rounds}; {machine()}")
    upstream = upstream_of(chosen.upstream)
    engine("image", "debian", "12", seconds=1800)
    sides = [Side("ours", OURS, OUR_SETTINGS, None)]
    if upstream:
        sides.append(Side("theirs", THEIRS, THEIR_SETTINGS, upstream))
    try:
        for side in sides:
            side.prepare(chosen.count)
        for _ in range(chosen.rounds):
            for side in sides:  # by turns, for what else the machine does changes
                side.measure()
    finally:
        for side in sides:
            side.remove()
    print(f"{'':44} {'CPU s a host':>12} {'wall s':>8} {'tasks a host':>13} {'skipped':>8} {'changed':>8}")
    costs = [side.middle() for side in sides]
    for side, cost in zip(sides, costs, strict=True):
        print(
            f"{' + '.join(side.roles):44.44} {cost.cpu / chosen.count:12.2f} {cost.wall:8.1f} {cost.ran:13.1f}"
            f" {cost.skipped:8.1f} {cost.changed:8}"
        )
    if len(costs) == 2:
        ratio, tasks = costs[0].cpu / costs[1].cpu, costs[0].ran / costs[1].ran
        print(f"ours to theirs: CPU {ratio:.2f}, tasks {tasks:.2f} (aim {AIM}){'' if ratio <= AIM else '  MISSED'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
