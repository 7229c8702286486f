"""scripts/fleet as operators meet it, on simulated BMCs and a simulated region; and ansible-runner's workers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from maas_product_lab import KEY, PASSWORD, ROOT, USER, ProductLab
from maas_site import BIN, SECRETS, Site

from firstlight.fleet import locks
from firstlight.ledger.claim import ServerClaims
from tests.integration.postgresql import running

MARKER = "marker-that-must-not-be-written-down"


@pytest.fixture(scope="module")
def running_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProductLab]:
    lab = ProductLab(tmp_path_factory.mktemp("lab"), machines=3, node_timeout_seconds=120, commission_seconds=30)
    yield lab
    lab.stop()


@pytest.fixture
def fleet(running_lab: ProductLab, tmp_path: Path) -> Fleet:
    """Three hosts in two racks."""
    site = Site(running_lab.fresh(), tmp_path, install_retries=0)
    site.hosts[2] |= {"rack": "r2", "unit": 1}
    site.write()
    return Fleet(site)


class Fleet:
    def __init__(self, site: Site) -> None:
        self.site, self.runs = site, site.folder / "runs"

    def call(self, command: str, *arguments: str, **environment: str) -> tuple[int, str]:
        done = subprocess.run(
            [f"{ROOT}/scripts/fleet", command, "--runs", str(self.runs), *arguments],
            env=self.site.environment() | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
        )
        screen = done.stdout + done.stderr
        assert "Traceback" not in screen, screen
        return done.returncode, screen

    def good(self, command: str, *arguments: str, **environment: str) -> str:
        status, screen = self.call(command, *arguments, **environment)
        assert status == 0, screen + self.logs()
        return screen

    def status(self) -> dict[str, Any]:
        return dict(json.loads(self.good("status", "--json")))

    def states(self) -> dict[str, str]:
        return {name: shard["state"] for name, shard in self.status()["shards"].items()}

    def wait_until(self, holds: Callable[[], Any], seconds: float = 90) -> None:
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, self.logs()
            time.sleep(0.3)

    def logs(self) -> str:
        found = [*self.runs.rglob("runner.log"), *self.runs.rglob("stdout"), *self.runs.rglob("state.json")]
        return "".join(f"\n--- {path}\n{path.read_text()}" for path in found)

    def runs_in_ledger(self) -> list[tuple[str, str | None, str]]:
        return [tuple(row) for row in self.site.query("select playbook, outcome, message from run order by id")]


# a stage that somebody must end; then hosts of which one is not reached, and one fails a task, outside of every stage
HELD_UP = """
- name: Own
  hosts: fleet
  gather_facts: false
  vars: {stage: discover, held_up: true}
  tasks:
    - {name: Open, fleet_stage: {stage: discover, event: open}, run_once: true}
    - {name: Hold it up, ansible.builtin.raw: "true", register: r, until: not held_up, retries: 600, delay: 1}
    - {name: Close, fleet_stage: {stage: discover, event: close}, run_once: true}
"""
NO_STAGE = """
- name: Own
  hosts: fleet
  gather_facts: false
  vars:
    ansible_host: 127.0.0.1
    ansible_port: 1
    ansible_connection: "{{ 'ssh' if inventory_hostname == 'r1-n01' and not done | default(false) else 'local' }}"
  tasks:
    - {name: Reach it, ansible.builtin.raw: "true"}
    - {name: Look, ansible.builtin.fail: {msg: it is not there}, when: "inventory_hostname == 'r1-n02'"}
"""


def written(folder: Path) -> list[Path]:
    """Files below the folder that hold a secret."""
    secrets = [text.encode() for text in (*SECRETS, MARKER)]
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [path for path in files if any(secret in path.read_bytes() for secret in secrets)]


def test_two_shards_side_by_side_and_no_secret_on_the_disk(fleet: Fleet) -> None:
    screen = fleet.good("start", "playbooks/discover.yml", "--wait", FIRSTLIGHT_MARKER=MARKER)
    assert "2 shards, 3 hosts" in screen
    assert "r1: done, met (exit status 0)" in screen and "2 discovered" in screen
    assert "r2: done, met (exit status 0)" in screen and "1 discovered" in screen
    assert fleet.site.states() == dict.fromkeys(fleet.site.lab.names, "discovered")
    assert fleet.runs_in_ledger() == [("discover.yml", "done", "")] * 2
    told = fleet.status()
    assert {name: shard["hosts"] for name, shard in told["shards"].items()} == {"r1": 2, "r2": 1}
    # they went side by side: started before the other had ended
    runs = [json.loads(path.read_text()) for path in fleet.runs.glob("*/*/state.json")]
    assert max(run["started"] for run in runs) < min(run["ended"] for run in runs)
    assert written(fleet.runs) == []
    assert not [path for path in fleet.runs.glob("*") if path.is_dir() and path.stat().st_mode & 0o077]
    events = [json.loads(path.read_text())["event"] for path in fleet.runs.rglob("job_events/*.json")]
    assert events == ["playbook_on_stats"] * 2
    # what ansible-runner would set by itself
    command = json.loads(next(fleet.runs.glob("*/r1/artifacts/1/command")).read_text())
    assert command["env"]["ANSIBLE_HOST_KEY_CHECKING"] == "True"
    assert "FIRSTLIGHT_MARKER" not in command["env"] and "FIRSTLIGHT_BMC_PASSWORD" not in command["env"]
    assert "3 hosts, 2 shards: 2 done; exit status 0" in fleet.good("list")
    assert "nothing to resume" in fleet.good("resume")
    # as if its first shard went on
    hold = "import sys; from pathlib import Path; from firstlight.fleet.locks import hold; hold(Path(sys.argv[1]))"
    command = [sys.executable, "-c", f"{hold}; print(flush=True); sys.stdin.read()"]
    lock = next(fleet.runs.glob("*/r1/runner.lock"))
    with subprocess.Popen([*command, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        status, screen = fleet.call("start", "playbooks/discover.yml", "-l", "r1-n02")
        process.kill()
    assert status == 1 and f"shard r1 (process {process.pid}) works on r1-n02; wait for its end" in screen


def test_the_whole_pipeline_in_one_shard(fleet: Fleet) -> None:
    """There are no hosts behind these BMCs: they leave when SSH is tried, and the policy is not met."""
    status, screen = fleet.call("start", "--shards", "1", "--wait")
    assert status == 2, screen + fleet.logs()
    assert "1: done, not met (exit status 2)" in screen
    assert {m["status_name"] for m in fleet.site.lab.by_name().values()} == {"Deployed"}
    assert list(fleet.site.findings("r1-n01")) == ["install.no_ssh"]
    assert fleet.runs_in_ledger() == [("site.yml", "done", "")]
    assert "exit status 2" in fleet.good("list")


def test_stop_in_the_middle_and_resume(fleet: Fleet) -> None:
    site = fleet.site
    site.good("discover")
    site.good("enlist")
    fleet.good("start", "playbooks/install.yml")
    fleet.wait_until(lambda: [m["status_name"] for m in site.lab.by_name().values()].count("Commissioning") == 3)
    assert fleet.states() == {"r1": "running", "r2": "running"}
    screen = fleet.good("stop")
    assert "r1: interrupted: 2 hosts were in the install stage; machines that MAAS has begun with go on" in screen
    assert fleet.states() == {"r1": "stopped", "r2": "stopped"}
    assert fleet.runs_in_ledger()[2:] == [("install.yml", "stopped", "")] * 2
    assert fleet.call("watch")[0] == 1
    screen = fleet.call("resume", "--wait")[1]
    assert "r1, r2 started again" in screen
    assert {m["status_name"] for m in site.lab.by_name().values()} == {"Deployed"}
    assert [shard["tries"] for shard in fleet.status()["shards"].values()] == [2, 2]


def test_a_killed_controller_is_seen_and_resumed(fleet: Fleet) -> None:
    site = fleet.site
    site.good("discover")
    site.good("enlist")
    fleet.good("start", "playbooks/install.yml")
    fleet.wait_until(lambda: [m["status_name"] for m in site.lab.by_name().values()].count("Commissioning") == 3)
    shards = fleet.status()["shards"]
    assert all(shard["ledger_run"] for shard in shards.values())
    # of r1 the driver alone: its ansible-playbook must not go on without it; of r2 both at once
    os.kill(shards["r1"]["pid"], signal.SIGKILL)
    inner = _children(shards["r2"]["pid"])
    for pid in (*inner, shards["r2"]["pid"]):
        os.kill(pid, signal.SIGKILL)
    fleet.wait_until(lambda: set(fleet.states().values()) == {"died"}, 30)
    assert "2 died; exit status 1" in fleet.good("list")
    rows = fleet.runs_in_ledger()[2:]
    assert [row[:2] for row in rows] == [("install.yml", "stopped")] * 2
    # of r1 ansible-playbook had closed it, and knew no reason
    assert {word for row in rows for word in ("r1", "r2") if f"shard {word}: its process was killed" in row[2]} == {
        "r1", "r2",
    }  # fmt: skip
    assert [list(site.findings(name)) for name in site.lab.names] == [["run.ended_early"]] * 3
    fleet.call("resume", "--wait")
    assert {m["status_name"] for m in site.lab.by_name().values()} == {"Deployed"}
    assert set(fleet.states().values()) == {"done"}


def test_what_the_run_could_not_note_is_noted_from_the_events(fleet: Fleet) -> None:
    site, book, held = fleet.site, fleet.site.folder / "own.yml", fleet.site.findings
    book.write_text(HELD_UP)
    fleet.good("start", str(book), "-e", "ansible_host=127.0.0.1 ansible_connection=local")
    fleet.wait_until(lambda: {s.get("task") for s in fleet.status()["shards"].values()} == {"Hold it up"})
    os.kill(locks.holder(next(fleet.runs.glob("*/r1/playbook.lock"))), signal.SIGKILL)
    fleet.wait_until(lambda: fleet.states() == {"r1": "died", "r2": "running"}, 30)
    ((_, outcome, message),) = [row for row in fleet.runs_in_ledger() if row[1]]
    said = "ansible-playbook was killed; last task: Own: Hold it up"
    assert outcome == "stopped" and f", shard r1: {said}; 2 hosts were in a stage" in message
    assert [list(held(name)) for name in site.lab.names] == [["run.ended_early"], ["run.ended_early"], []]
    assert f"shard r1: {said}" in held("r1-n01")["run.ended_early"]
    assert "last in Own: Hold it up; ansible-playbook was killed" in fleet.good("status")
    fleet.good("stop")
    assert held(site.lab.names[2]) == {}  # who stopped it knows
    rows = fleet.runs_in_ledger()
    book.write_text(HELD_UP.replace("held_up: true", "held_up: false"))
    fleet.good("resume", "--wait")
    assert fleet.runs_in_ledger() == [*rows, *[("own.yml", "done", "")] * 2]
    assert [held(name) for name in site.lab.names] == [{}] * 3

    book.write_text(NO_STAGE)
    status, screen = fleet.call("start", str(book), "--wait")
    assert status == 2 and "r1: done, not met" in screen, screen + fleet.logs()
    assert list(held("r1-n01")) == ["ssh.unreachable"] and held("r1-n02") == {
        "run.task_failed": "Look: it is not there"
    }
    assert len(fleet.runs_in_ledger()) == len(rows) + 2  # such a playbook is no run of the ledger
    fleet.call("start", str(book), "--wait", "-e", "done=true", "-l", "r1-n01")
    assert held("r1-n01") == {} and list(held("r1-n02")) == ["run.task_failed"]


def test_what_cannot_be_started_is_one_line(fleet: Fleet) -> None:
    for arguments, said in (
        (["playbooks/none.yml"], "no such playbook: playbooks/none.yml"),
        (["-i", "/none"], "no such inventory: /none"),
        (["-e", f"bmc_password={MARKER}"], "-e bmc_password=… looks like a secret"),
        (["--shards", "row"], "--shards is 'row'; it must be rack, or a number"),
        (["--ask-vault-pass"], "unrecognized arguments"),
    ):
        status, screen = fleet.call("start", *arguments)
        assert status == 1 and said in screen and MARKER not in screen, screen
    assert not fleet.runs.exists() or not list(fleet.runs.glob("*/run.json"))


def test_two_workers_of_ansible_runner_and_a_ledger_on_postgresql(fleet: Fleet, tmp_path: Path) -> None:
    """As docs/scaling.md has it: transmit here, worker there, process here; the secrets are the worker's own."""
    site = fleet.site
    password = tmp_path / "vault-password"
    password.write_text(MARKER)
    secrets = site.inventory / "group_vars" / "all" / "secrets.yml"
    secrets.write_text(yaml.safe_dump({"bmc_username": USER, "bmc_password": PASSWORD, "maas_api_key": KEY}))
    environment = {k: v for k, v in site.environment().items() if not k.startswith("FIRSTLIGHT_")}
    environment |= {"ANSIBLE_VAULT_PASSWORD_FILE": str(password), "PATH": f"{BIN}:{os.environ['PATH']}"}
    subprocess.run([BIN / "ansible-vault", "encrypt", secrets], env=environment, check=True, capture_output=True)
    with running() as server:
        config = site.inventory / "test.redfish_bmc.yml"
        config.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | {"ledger": server.url("site")}))
        jobs = {rack: Job(tmp_path, rack, site.inventory, environment) for rack in ("r1", "r2")}
        for job in jobs.values():
            job.begin()
        assert [job.end() for job in jobs.values()] == [0, 0], "".join(job.screen for job in jobs.values())
        known = server.execute("SELECT name, state FROM host ORDER BY name", "site")
        assert known == [(name, "discovered") for name in site.lab.names]
        assert server.execute("SELECT playbook, outcome FROM run", "site") == [("discover.yml", "done")] * 2
        # a third node has one of the hosts
        claims = ServerClaims(server.url("site"))
        claims.take(["r1-n02"])
        jobs["r1"].begin()
        assert jobs["r1"].end() == 1
        assert re.search(r"another run \(process \d+ of \S+ on \S+\) works on r1-n02", jobs["r1"].screen)
        claims._connection.close()
    for rack in jobs:
        assert written(tmp_path / f"job-{rack}") == written(tmp_path / f"worker-{rack}") == []


class Job:
    """A playbook on a rack, sent to a worker of ansible-runner that has a folder, and a cache, of its own."""

    def __init__(self, folder: Path, rack: str, inventory: Path, environment: dict[str, str]) -> None:
        self.folder, self.worker = folder / f"job-{rack}", folder / f"worker-{rack}"
        self.environment = environment | {"ANSIBLE_INVENTORY_CACHE_CONNECTION": str(folder / f"cache-{rack}")}
        (self.folder / "env").mkdir(parents=True)
        settings = {
            "ANSIBLE_CONFIG": f"{ROOT}/ansible.cfg",
            "ANSIBLE_CALLBACK_PLUGINS": f"{ROOT}/plugins/callback",
            "ANSIBLE_HOST_KEY_CHECKING": "True",
        }
        (self.folder / "env" / "envvars").write_text(yaml.safe_dump(settings))
        self.what = ["-p", f"{ROOT}/playbooks/discover.yml", "--inventory", str(inventory), "--limit", f"rack_{rack}"]
        self.screen = ""

    def begin(self) -> None:
        sent = self.runner("transmit", str(self.folder), *self.what).stdout
        command = [BIN / "ansible-runner", "worker", "--private-data-dir", str(self.worker)]
        self.process = subprocess.Popen(
            command, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self.process.stdin is not None
        self.process.stdin.write(sent)
        self.process.stdin.close()
        self.process.stdin = None

    def end(self) -> int:
        """The exit status of its ansible-playbook."""
        came = self.process.communicate(timeout=200)[0]
        done = self.runner("process", str(self.folder), input=came)
        self.screen = done.stdout.decode()
        return int((self.folder / "artifacts" / "rc").read_text())

    def runner(self, *words: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
        command = [str(BIN / "ansible-runner"), *words]
        return subprocess.run(command, env=self.environment, capture_output=True, timeout=60, check=False, **more)


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
