"""What a signal to the checks leaves behind: nothing. And docs/health.md's hooks, with an nvidia-smi that hangs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from firstlight.health.selfcontained import build

ROOT = Path(__file__).parents[2]
PROFILE = {"name": "x", "vendor": "v", "model": "m", "gpus": {"count": 8}}
LIMIT = 60.0


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("pyz") / "firstlight-checks.pyz")


def tool(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    return folder / name


def until(true: Callable[[], bool]) -> bool:
    end = time.monotonic() + LIMIT
    while not true() and time.monotonic() < end:
        time.sleep(0.05)
    return true()


def alive(pid: int) -> bool:
    """Whether it runs; one that nobody has reaped yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def that_name(path: Path) -> list[int]:
    """Processes whose command line has this path."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(path).encode() in (process / "cmdline").read_bytes():
                found.append(int(process.name))
    return found


def ended(tmp_path: Path, command: list[str], number: signal.Signals) -> tuple[int, str, str]:
    """Exit status, output and errors of the checks that a signal ends while nvidia-smi hangs; nothing is left of it."""
    tool(tmp_path / "bin", "nvidia-smi", f"echo $$ >>{tmp_path}/pids\nsleep 300 & echo $! >>{tmp_path}/pids\nwait")
    environment = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )  # fmt: skip
    pids: list[int] = []
    try:
        assert until(lambda: (tmp_path / "pids").exists() and len((tmp_path / "pids").read_text().split()) == 2)
        pids = [int(word) for word in (tmp_path / "pids").read_text().split()]
        process.send_signal(number)
        out, errors = process.communicate(timeout=20)
        left = not until(lambda: not any(map(alive, pids)))
    finally:
        process.kill()
        for pid in filter(alive, pids):
            os.kill(pid, signal.SIGKILL)

    assert not left, "commands of the checks run on"
    return process.returncode, out, errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_checks_and_all_that_they_run(tmp_path: Path, program: Path, number: signal.Signals) -> None:
    (tmp_path / "p.json").write_text(json.dumps(PROFILE))
    command = [sys.executable, str(program), "--profile", str(tmp_path / "p.json"), "--check", "gpu_count"]

    told = ended(tmp_path, command, number)

    assert told == (2, "", f"firstlight-checks: ended by {number.name}, and with it all that it ran\n")


def test_so_does_the_module(tmp_path: Path) -> None:
    code = f"""
import runpy
from ansible import module_utils
from ansible.module_utils.testing import patch_module_args
module_utils.__path__.append({str(ROOT / "plugins" / "module_utils")!r})
with patch_module_args({{"profile": {PROFILE!r}, "checks": ["gpu_count"]}}):
    runpy.run_path({str(ROOT / "plugins" / "modules" / "host_check.py")!r}, run_name="__main__")
"""

    status, out, _ = ended(tmp_path, [sys.executable, "-c", code], signal.SIGTERM)

    assert status == 1
    assert json.loads(out) == {"failed": True, "msg": "ended by SIGTERM, and with it all that it ran"}


def blocks(heading: str) -> list[str]:
    """The indented blocks of a section of docs/health.md."""
    section = re.search(rf"\n## {heading}\n(.*?)\n## ", (ROOT / "docs" / "health.md").read_text(), re.S)
    assert section is not None
    found = re.findall(r"(?:^(?:    .*)?\n)+", section[1], re.M)
    return [re.sub(r"(?m)^    ", "", block).strip() + "\n" for block in found if block.strip()]


def scripts() -> dict[str, str]:
    """The Slurm scripts by file name."""
    shell = [block for block in blocks("Slurm") if block.startswith("#!/bin/sh\n")]
    return {Path(block.splitlines()[1].split()[1].rstrip(";")).name: block for block in shell}


def of_option(text: str, name: str) -> int:
    return int(re.search(rf"{name}\s+([0-9]+)", text)[1])


def test_each_hook_ends_its_commands_before_it_is_ended_itself() -> None:
    assert set(scripts()) == {"firstlight-slurm-health", "50-firstlight"}
    for name, text in scripts().items():
        assert of_option(text, "--timeout") + 10 <= of_option(text, r"timeout(?: -k [0-9]+)?"), name
    health = scripts()["firstlight-slurm-health"]
    assert of_option(health, r"timeout(?: -k [0-9]+)?") < 60  # Slurm's own
    (monitor,) = (json.loads(block) for block in blocks("Kubernetes"))
    rule = monitor["rules"][0]
    inner = int(rule["args"][rule["args"].index("--timeout") + 1])
    assert inner + 10 <= 60 * int(re.fullmatch(r"([0-9]+)m", rule["timeout"])[1])


@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_the_shell_takes_the_hooks(shell: str, tmp_path: Path) -> None:
    if not shutil.which(shell):
        pytest.skip(f"no {shell}")
    for name, text in scripts().items():
        (tmp_path / name).write_text(text)
        done = subprocess.run([shell, "-n", str(tmp_path / name)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["firstlight-slurm-health", "50-firstlight"])
def test_a_hook_tells_why_where_nvidia_smi_hangs(tmp_path: Path, program: Path, name: str) -> None:
    """The program's own limit a tenth of what it is, so that the test does not take as long."""
    tool(tmp_path / "bin", "nvidia-smi", "exec sleep 300")
    tool(tmp_path / "bin", "scontrol", f'printf "%s\\n" "$*" >{tmp_path}/scontrol')
    (tmp_path / "p.json").write_text(json.dumps(PROFILE))
    only = "" if "--check" in scripts()[name] else " --check gpu_count"
    checks = f"{sys.executable} {program} --profile {tmp_path / 'p.json'}{only}"
    text = scripts()[name].replace("/usr/local/sbin/firstlight-checks", checks)
    assert checks in text
    text = re.sub(r"(--timeout )([0-9]+)", lambda found: f"{found[1]}{int(found[2]) / 10:g}", text)
    hook = tmp_path / name
    hook.write_text(text)
    hook.chmod(0o755)
    environment = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}

    done = subprocess.run([str(hook)], env=environment, capture_output=True, text=True, timeout=LIMIT, check=False)

    if name == "50-firstlight":
        assert done.returncode == 1, done.stdout + done.stderr
        assert "gpu_count.timed_out" in done.stdout
    else:
        assert done.returncode == 0, done.stderr
        told = (tmp_path / "scontrol").read_text()
        assert "state=drain" in told
        assert "reason=firstlight: gpu_count.timed_out" in told


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_scripts_health_ends_the_playbook_too(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "playbooks").mkdir()
    play = {"hosts": "localhost", "gather_facts": False, "tasks": [{"ansible.builtin.pause": {"seconds": 300}}]}
    (tmp_path / "playbooks" / "health.yml").write_text(json.dumps([play]))
    (tmp_path / "inventory.yml").write_text(json.dumps({"all": {"hosts": {"localhost": {}}}}))
    code = f"""
import pathlib, sys
from firstlight.health import cli
cli.PROJECT = pathlib.Path({str(tmp_path)!r})
sys.exit(cli.main(["--verbose", "--inventory", {str(tmp_path / "inventory.yml")!r}]))
"""
    (tmp_path / "ansible.cfg").touch()
    environment = {**os.environ, "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg"), "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stderr is not None
    playbook: list[int] = []
    try:
        while "TASK" not in (line := process.stderr.readline()):
            assert line, "the playbook did not begin"
        playbook = children(process.pid)
        process.send_signal(number)
        over = until(lambda: process.poll() is not None)
        left = [pid for pid in playbook if alive(pid)]
    finally:
        process.kill()
        for pid in that_name(tmp_path / "playbooks"):  # the workers, which the project's own callback would end
            os.kill(pid, signal.SIGKILL)
    errors = process.communicate(timeout=LIMIT)[1]

    assert playbook and over and not left
    assert (process.returncode, errors.splitlines()[-1]) == (2, f"health: ended by {number.name}")
    assert not list(tmp_path.glob("firstlight-health-*"))
