"""What several hosts cost the upstream link through the cache of the role apt_cache. By hand: make bench; never a test.

Lists and packages of chrony, Docker and the node exporter, from the distribution's archive, in the order of
playbooks/configure.yml; bytes as the cache counts them, and as the kernel of the machine with the cache does. What
hosts receive is counted too: what is much more than the cache served went past it.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from bench_hosts import PROJECT, Hosts, engine
from bmc_discovery import machine

PROM = "/var/lib/prometheus/node-exporter/firstlight_apt_cache.prom"
LIMIT = 1.1


def playbook_of(folder: Path, name: str, roles: list[dict[str, str]], settings: dict[str, Any]) -> Path:
    tasks = [
        # as on a machine that was just installed: no lists, and nothing that says how old they are
        {"ansible.builtin.shell": "rm -rf /var/lib/apt/lists/* && touch -d @0 /var/lib/apt/lists && apt-get clean"},
        {"ansible.builtin.setup": {"gather_subset": ["min", "pkg_mgr", "service_mgr"]}},
        *({"ansible.builtin.include_role": role} for role in roles),
    ]
    path = folder / f"{name}.yml"
    path.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "vars": settings, "tasks": tasks}]))
    return path


def roles_until(last: str) -> list[dict[str, str]]:
    """The first of playbooks/configure.yml, in its order."""
    play = yaml.safe_load((PROJECT / "playbooks/configure.yml").read_text())[0]
    included = [
        task["ansible.builtin.include_role"] for task in play["tasks"] if "ansible.builtin.include_role" in task
    ]
    roles = [{key: role[key] for key in ("name", "tasks_from") if key in role} for role in included]
    return roles[: 1 + max(number for number, role in enumerate(roles) if role["name"] == last)]


def received_by(names: list[str]) -> int:
    path = "/sys/class/net/eth0/statistics/rx_bytes"
    return sum(int(engine("run", "podman", "exec", name, "cat", path)) for name in names)


def counted(server: str) -> tuple[int, int, int]:
    """Bytes fetched and served as the cache counts them, and received as the kernel does."""
    script = f"systemctl start firstlight-apt-cache-metrics.service && cat {PROM}"
    values = dict(
        line.rsplit(" ", 1)
        for line in engine("run", "podman", "exec", server, "sh", "-c", script).splitlines()
        if line and not line.startswith("#")
    )
    received = engine("run", "podman", "exec", server, "cat", "/sys/class/net/eth0/statistics/rx_bytes")
    fetched, served = (values[f"firstlight_apt_cache_{what}_bytes_total"] for what in ("fetched", "served"))
    return int(float(fetched)), int(float(served)), int(received)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=6, help="hosts (6)")
    chosen = parser.parse_args(arguments)
    print(f"{chosen.count} hosts behind one cache; {machine()}")
    engine("image", "debian", "12", seconds=1800)
    folder = Path(tempfile.mkdtemp(prefix="firstlight-bench-"))
    server, clients = Hosts(folder, "apt-server"), Hosts(folder, "apt-client")
    try:
        server.start(1)
        address = engine("run", "podman", "exec", server.names[0], "hostname", "-I").split()[0]
        network = f"{address.rsplit('.', 1)[0]}.0/24"
        server.play(
            playbook_of(
                folder,
                "server",
                [{"name": "apt_cache"}],
                {"apt_cache_mode": "server", "apt_cache_allowed_clients": [network]},
            )
        )
        clients.start(chosen.count)
        playbook = playbook_of(
            folder,
            "client",
            [*roles_until("time_sync"), {"name": "docker_engine"}, {"name": "node_exporter"}],
            {"apt_cache_url": f"http://{address}:3142", "docker_engine_ulimits": {"nofile": 4096}},
        )
        counts, received = [counted(server.names[0])], received_by(clients.names)
        for some in (clients.names[:1], clients.names[1:]):
            clients.play(playbook, only=some)
            counts.append(counted(server.names[0]))
        received = received_by(clients.names) - received
        one, others = ([b - a for a, b in zip(*pair, strict=True)] for pair in itertools.pairwise(counts))
        print(f"{'':24} {'fetched':>14} {'served':>14} {'received':>14}  bytes")
        for what, row in (("the first host", one), (f"the other {chosen.count - 1}", others)):
            print(f"{what:24} {row[0]:14,} {row[1]:14,} {row[2]:14,}")
        for what, number in (("fetched", 0), ("received", 2)):
            ratio = (one[number] + others[number]) / one[number]
            missed = "" if ratio <= LIMIT else "  MISSED"
            print(f"all of them cost {ratio:.3f} times the first one, as {what} (at most {LIMIT}){missed}")
        ratio = received / (one[1] + others[1])
        missed = "" if ratio <= LIMIT else "  MISSED"
        print(f"hosts received {received:,} bytes, {ratio:.3f} times what the cache served (at most {LIMIT}){missed}")
    finally:
        clients.remove()
        server.remove()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
