"""The containers that play installed servers: their image, their network, and their life from install to reinstall.

Everything runs through scripts/container-engine, which knows where podman works on this machine.
"""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from simulators import lab_files
from simulators.bmc.hardware import GPU_SLOTS, Hardware
from simulators.host import disks
from simulators.lab_files import Lab, LabError

REPOSITORY = Path(__file__).resolve().parents[2]
ENGINE = REPOSITORY / "scripts" / "container-engine"
RECIPE = Path(__file__).resolve().parent
CAPABILITIES = "SYS_ADMIN,NET_ADMIN,NET_RAW,SYS_PTRACE"  # what systemd and dockerd need; never all of them
INSTALLATION = "firstlight.installation"  # label: which installation this container is
STOP_SECONDS = 3
COMMAND_SECONDS = 300
BUILD_SECONDS = 1800
INOTIFY_LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
INOTIFY_PER_SERVER = 12  # eleven: ten were seen with Docker and the exporters running, one is simulated-faults.path's
INOTIFY_SPARE = 32


def podman(*words: str, timeout: float = COMMAND_SECONDS, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run podman in the engine's environment; LabError with podman's own last lines when it fails (and check)."""
    command = [str(ENGINE), "run", "podman", *words]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise LabError(f"podman {words[0]}: no end after {timeout:.0f} s") from None
    if check and result.returncode:
        raise LabError(f"podman {words[0]}: {_tail(result.stderr) or f'exit status {result.returncode}'}")
    return result


def container_name(lab: Lab, name: str) -> str:
    """Two labs on one machine differ in their network's name, and so do their containers."""
    return f"{lab['host']['network']}-{name}"


# ---------------------------------------------------------------- image and network


def build_image(image: str) -> str:
    """Build the servers' image unless it is there as this recipe makes it; returns the name of the base image."""
    base = _engine("image", "base").strip().splitlines()[-1]
    base_id = podman("image", "inspect", "--format", "{{.Id}}", base).stdout.strip()
    label = f"firstlight.recipe={recipe_of(RECIPE, base_id)}"
    if podman("images", "-q", "--filter", f"label={label}", "--filter", f"reference={image}").stdout.strip():
        return base
    podman("build", "-q", "--format", "docker", "--build-arg", f"BASE={base}", "--label", label, "-t", image,
           "-f", str(RECIPE / "Containerfile"), str(RECIPE), timeout=BUILD_SECONDS)  # fmt: skip
    podman("image", "prune", "-f", check=False)
    return base


def recipe_of(folder: Path, base_id: str) -> str:
    """What the image is made of, as a short sum. Bytecode that Python leaves among the shims is no part of it."""
    recipe = hashlib.sha256(base_id.encode())
    files = [path for path in (*folder.glob("shims/*"), *folder.glob("units/*")) if path.is_file()]
    for path in [*sorted(files), folder / "Containerfile"]:
        recipe.update(path.name.encode() + path.read_bytes())
    return recipe.hexdigest()[:16]


def make_room(servers: int, limit_file: Path = INOTIFY_LIMIT) -> str:
    """Let the kernel give that many more systemds their inotify instances; returns what was changed, or "".

    The limit counts all containers of this user together; a systemd that gets none ends without a word, or its
    services do. LabError when it is too low and cannot be raised.
    """
    limit, needed = int(limit_file.read_text()), _inotify_instances() + INOTIFY_SPARE + INOTIFY_PER_SERVER * servers
    if limit >= needed:
        return ""
    try:
        limit_file.write_text(f"{needed}\n")
    except OSError:
        raise LabError(f"fs.inotify.max_user_instances is {limit}, {servers} servers need {needed}: raise it") from None
    return f"fs.inotify.max_user_instances raised from {limit} to {needed}, until this machine's next start"


def _inotify_instances() -> int:
    """How many the processes of all users have now."""
    count = 0
    for folder in Path("/proc").glob("[0-9]*/fd"):
        try:
            count += sum(str(entry.readlink()) == "anon_inode:inotify" for entry in folder.iterdir())
        except OSError:
            continue  # a process that just ended
    return count


def make_network(lab: Lab) -> None:
    """Make the lab's network, or keep it. LabError when its subnet is taken by another network."""
    network, subnet = lab["host"]["network"], lab["host"]["subnet"]
    if podman("network", "exists", network, check=False).returncode == 0:
        return
    podman("network", "create", "--disable-dns", "--subnet", subnet, network)


def remove_all(lab: Lab) -> None:
    """Remove every container of this lab with its volumes, and the lab's network; the images stay."""
    label = f"label=firstlight.lab={lab['host']['network']}"
    ids = podman("ps", "-aq", "--filter", label).stdout.split()
    if ids:
        podman("rm", "-f", "-v", "-t", "0", *ids)
    podman("network", "rm", "-f", lab["host"]["network"], check=False)


def end_engine() -> None:
    """End a private engine unless somebody else uses it; a machine's own podman is left alone."""
    _engine("down", "--if-unused")


def running(lab: Lab) -> dict[str, str]:
    """The lab's machines that have a container: name and "running" or "stopped"."""
    label = f"label=firstlight.lab={lab['host']['network']}"
    lines = podman("ps", "-a", "--filter", label, "--format", "{{.Names}} {{.State}}").stdout.splitlines()
    prefix = container_name(lab, "")
    found = {}
    for name, _, state in (line.partition(" ") for line in lines):
        # older podmans say "Up 3 seconds ago" here
        found[name.removeprefix(prefix)] = "running" if state.lower().startswith(("up", "running")) else "stopped"
    return found


# ---------------------------------------------------------------- one machine


def switch_on(lab_dir: Path, lab: Lab, name: str) -> str:
    """Start what is on the machine's OS disk; returns what was done.

    Another installation than last time means a fresh container; the same one keeps its file system. LabError when
    nothing is installed, or the container does not start.
    """
    entry = lab_files.machine(lab, name)
    folder = lab_dir / "machines" / name
    machine_state = lab_files.read_json(folder / "state.json") or {}
    disk = machine_state.get("disk")
    if not disk:
        raise LabError(f"{name}: nothing is installed on its disk")
    with _one_at_a_time(lab_dir, name):
        facts = hardware_facts(entry["index"], entry["service_tag"], machine_state.get("replaced") or {})
        lab_files.write_json(folder / "hardware.json", facts)
        disks.write(folder, machine_state, facts["drives"])
        container = container_name(lab, name)
        state, installation = _inspect(container)
        if state == "running" and installation == str(disk["installed_at"]):
            return "already running"
        done = "started"
        if installation != str(disk["installed_at"]):
            podman("rm", "-f", "-v", "-t", "0", "-i", container)
            _create(lab, container, folder, disk)
            done = "started as freshly installed"
        _start(container)
        return done


def switch_off(lab_dir: Path, lab: Lab, name: str) -> str:
    """Stop the machine's container; its file system stays. Returns what was done."""
    lab_files.machine(lab, name)
    with _one_at_a_time(lab_dir, name):
        container = container_name(lab, name)
        if _inspect(container)[0] != "running":
            return "not running"
        podman("stop", "-t", str(STOP_SECONDS), container)
        return "stopped"


def hardware_facts(index: int, service_tag: str, replaced: Mapping[str, int] | None = None) -> dict[str, Any]:
    """What the shims say is built in: the same parts that the machine's BMC reports."""
    hardware = Hardware(index, service_tag, replaced or {})
    return {
        "gpus": [
            {"number": gpu.number, "slot": GPU_SLOTS[gpu.number], "serial": gpu.serial, "uuid": gpu.uuid}
            for gpu in hardware.gpus
        ],
        "hcas": [{"number": number, "mac": port.mac} for number, port in enumerate(hardware.hcas)],
        "drives": [
            {"number": disk.number, "serial": disk.serial, "model": disk.model, "size": disk.size}
            for disk in hardware.drives
        ],
    }


def _create(lab: Lab, container: str, folder: Path, disk: dict[str, Any]) -> None:
    podman(
        "create", "--pull", "never", "--name", container, "--hostname", disk["hostname"],
        "--network", lab["host"]["network"], "--ip", disk["address"],
        "--label", f"firstlight.lab={lab['host']['network']}", "--label", f"{INSTALLATION}={disk['installed_at']}",
        "--systemd=always", f"--cap-add={CAPABILITIES}",
        "--volume", f"{folder.resolve()}:/run/simulator:ro",
        # an overlay on an overlay does not work: Docker's own storage needs a real file system
        "--mount", "type=volume,destination=/var/lib/docker",
        "--mount", "type=volume,destination=/var/lib/containerd",
        lab["host"]["image"],
    )  # fmt: skip


def _start(container: str) -> None:
    """Start, once more if it fails: a network that is just being taken down by another container can be in the way."""
    for attempt in (1, 2):
        result = podman("start", container, check=attempt == 2)
        if result.returncode == 0:
            break
        time.sleep(1)
    time.sleep(0.3)
    if _inspect(container)[0] != "running":
        logs = podman("logs", "--tail", "5", container, check=False)
        raise LabError(f"{container} stopped at once: {_tail(logs.stdout + logs.stderr) or 'without a word'}")


def _inspect(container: str) -> tuple[str, str]:
    """The container's state and installation; two empty strings when there is none."""
    form = f'{{{{.State.Status}}}} {{{{index .Config.Labels "{INSTALLATION}"}}}}'
    result = podman("inspect", "--type", "container", "--format", form, container, check=False)
    if result.returncode:
        return "", ""
    state, _, installation = result.stdout.strip().partition(" ")
    return state, installation


@contextmanager
def _one_at_a_time(lab_dir: Path, name: str) -> Iterator[None]:
    """A power switch that is pressed twice: the second press waits for the first."""
    path = lab_dir / "pid" / f"host-{name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _engine(*words: str) -> str:
    result = subprocess.run(
        [str(ENGINE), *words], stdout=subprocess.PIPE, text=True, timeout=BUILD_SECONDS, check=False
    )
    if result.returncode:
        raise LabError(f"scripts/container-engine {' '.join(words)} failed; its reason is above")
    return result.stdout


def _tail(text: str, lines: int = 3) -> str:
    return " | ".join(line.strip() for line in text.strip().splitlines()[-lines:])
