"""Docker's GPU access and containers, errors of memory, C-states: what is read, and what the checks must say of it.

Docker's answers have the form of its API 1.50; EDAC and cpuidle are as in Linux 6.1 to 6.8 on servers of two sockets.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Want = list[tuple[str, str, str, str]]
Row = tuple[str, str, dict[str, Any], Want, dict[str, Any], dict[str, Any]]
FIXTURES = Path(__file__).parents[2] / "fixtures" / "hardware"

# ---------------------------------------------------------------- docker

LISTED = (FIXTURES / "docker-containers.json").read_text()
RUNC, NVIDIA = {"runc": {"path": "runc"}}, {"runc": {"path": "runc"}, "nvidia": {"path": "nvidia-container-runtime"}}
CDI = json.dumps({"files": {"/var/run/cdi/nvidia.yaml": "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\n"}, "errors": {}})
NO_CDI = json.dumps({"files": {}, "errors": {}})


def info(**more: Any) -> tuple[str, int]:
    return json.dumps({"ServerVersion": "28.3.2", "Runtimes": RUNC, **more}), 200


def containers(*rows: dict[str, Any], more: int = 0) -> str:
    return json.dumps({"containers": rows, "more": more})


def container(name: str = "job", state: str = "running", **more: Any) -> dict[str, Any]:
    row = {"id": "1f2e3d4c5b6a", "name": name, "image": "train:1", "state": state, "status": "Up 3 hours"}
    return {**row, "privileged": False, "pid": "", "caps": [], **more}


def _docker(
    name: str,
    want: Want,
    listed: Any = LISTED,
    daemon: Any = None,
    cdi: Any = NO_CDI,
    **expect: Any,
) -> Row:
    outputs = {"unit": "active\n", "info": daemon or info(), "containers": listed, "cdi": cdi}
    return ("docker", name, outputs, want, {}, {"containers": ["dcgm-*", "pretrain-*"], **expect})


FINE: Want = [("ok", "docker", "", "none")]
NO_GPU: Want = [("fail", "docker.no_gpu", "docker.service", "escalate")]
LEFT = ("container.leftover", "container job")
RUNNING: Want = [("warn", "container.running", "1 containers", "none")]
OVER, ANY = container(state="exited", status="Exited (137) 2 days ago"), {"containers": None}
DISCOVERED = [{"Source": "cdi", "ID": "nvidia.com/gpu=all"}]
DOCKER_CASES: list[Row] = [
    _docker("those that may", FINE),
    _docker("none, none may", FINE, containers(), containers=[]),
    _docker("any may, a job where none runs", RUNNING, containers(container()), **ANY),
    _docker("any may, a job where jobs run", FINE, containers(container()), gpu_processes=["*"], **ANY),
    _docker("a job, none may", [("fail", *LEFT, "escalate")], containers(container()), containers=[]),
    _docker("left over", [("fail", *LEFT, "escalate")], containers(OVER)),
    _docker("left over, any may", [("warn", *LEFT, "none")], containers(OVER), **ANY),
    _docker(
        "privileged",
        [("fail", "container.privileged", "container job", "escalate")],
        containers(container(privileged=True)),
    ),
    _docker(
        "privileged, any may",
        [("warn", "container.privileged", "container job", "none")],
        containers(container(privileged=True)),
        **ANY,
    ),
    _docker(
        "the host's processes",
        [("warn", "container.privileged", "container job", "none")],
        containers(container(pid="host")),
        **ANY,
    ),
    _docker(
        "a capability that is as much",
        [("warn", "container.privileged", "container job", "none")],
        containers(container(caps=["CAP_SYS_ADMIN", "NET_RAW"])),
        **ANY,
    ),
    _docker(
        "privileged and over",
        [("fail", "container.privileged", "container job", "escalate"), ("fail", *LEFT, "escalate")],
        containers(container(state="dead", privileged=True)),
    ),
    _docker(
        "one cannot be asked",
        [("unknown", "docker.unreadable", "container job", "escalate")],
        containers(container(error="GET /containers/1f/json: HTTP 500")),
        **ANY,
    ),
    _docker("more than are looked at", [("unknown", "docker.too_many", "", "escalate")], containers(more=9)),
    _docker("their list hangs", [("unknown", "docker.timed_out", "", "retry")], "timed_out"),
    _docker("their list fails", [("unknown", "docker.failed", "", "escalate")], ("Traceback", 1)),
    _docker("their list is odd", [("unknown", "docker.unreadable", "", "escalate")], "{}"),
    _docker("runtime", FINE, daemon=info(Runtimes=NVIDIA), docker_gpu="runtime"),
    _docker("no runtime", NO_GPU, docker_gpu="runtime"),
    _docker("auto, runtime", FINE, daemon=info(Runtimes=NVIDIA), docker_gpu="auto"),
    _docker("auto, description", FINE, cdi=CDI, docker_gpu="auto"),
    _docker("auto, neither", NO_GPU, docker_gpu="auto"),
    _docker(
        "auto, too old for the description",
        NO_GPU,
        daemon=info(ServerVersion="20.10.24+dfsg1"),
        cdi=CDI,
        docker_gpu="auto",
    ),
    _docker("auto, odd version", NO_GPU, daemon=info(ServerVersion="dev"), cdi=CDI, docker_gpu="auto"),
    _docker("devices", FINE, daemon=info(DiscoveredDevices=DISCOVERED), docker_gpu="cdi"),
    _docker("no device", NO_GPU, daemon=info(DiscoveredDevices=[]), docker_gpu="cdi"),
    _docker("description", FINE, cdi=CDI, docker_gpu="cdi"),
    _docker("no description", NO_GPU, docker_gpu="cdi"),
    _docker("description hangs", [("unknown", "docker.timed_out", "", "retry")], cdi="timed_out", docker_gpu="cdi"),
]

# ---------------------------------------------------------------- memory_errors

EDAC = "/sys/devices/system/edac/mc"
LABEL = "CPU_SrcID#1_MC#2_Chan#0_DIMM#0"
DAYS_10 = 864000


def edac(corrected: Any = 0, uncorrected: Any = 0, given_up: int = 0, kind: str = "dimm", **more: Any) -> str:
    """Two controllers with two modules each; the errors are those of the last module."""
    values: dict[str, Any] = {"/proc/meminfo": f"MemTotal:  2113386512 kB\nHardwareCorrupted: {given_up:5} kB\n"}
    for controller in range(2):
        top = f"{EDAC}/mc{controller}"
        names = {"seconds_since_reset": DAYS_10, "ce_noinfo_count": 0, "ue_noinfo_count": 0, "ce_count": 0}
        values.update({f"{top}/{name}": value for name, value in {**names, "ue_count": 0}.items()})
        for module in range(2):
            last = controller == module == 1
            label = LABEL if last else f"CPU_SrcID#0_MC#{controller}_Chan#0_DIMM#{module}"
            counts = {"dimm_label": label, "dimm_ce_count": corrected if last else 0}
            counts["dimm_ue_count"] = uncorrected if last else 0
            values.update({f"{top}/{kind}{module}/{name}": value for name, value in counts.items()})
    values.update(more)
    return json.dumps({"files": {path: f"{value}\n" for path, value in values.items()}, "errors": {}})


NONE = json.dumps({"files": {"/proc/meminfo": "HardwareCorrupted:     0 kB\n"}, "errors": {}})
NO_MODULES = {f"{EDAC}/mc0/{name}": 0 for name in ("ce_noinfo_count", "ue_noinfo_count", "ce_count")}
PLACE = f"DIMM {LABEL}, mc1/dimm1"


def _memory(name: str, text: Any, want: Want, machine: Any = ("none\n", 1), **limits: float) -> Row:
    profile = {"dimms": {"count": 32}, "limits": limits}
    return ("memory_errors", name, {"edac": text, "virtualization": machine}, want, profile, {})


MEMORY_FINE: Want = [("ok", "memory_errors", "", "none")]
MEMORY_UNREAD: Want = [("unknown", "memory_errors.unreadable", "", "escalate")]
MEMORY_CASES: list[Row] = [
    _memory("none", edac(), MEMORY_FINE),
    _memory("a few corrected", edac(1000), [("warn", "memory.corrected", PLACE, "none")]),
    _memory("many corrected", edac(1001), [("fail", "memory.corrected", PLACE, "replace")]),
    _memory("a lower limit", edac(101), [("fail", "memory.corrected", PLACE, "replace")], memory_corrected_per_day=10),
    _memory("uncorrectable", edac(5, 1), [("fail", "memory.uncorrectable", PLACE, "replace")]),
    _memory("by rank", edac(0, 1, kind="rank"), [("fail", "memory.uncorrectable", "mc1/rank1", "replace")]),
    _memory(
        "of no module",
        edac(**{f"{EDAC}/mc1/ue_noinfo_count": 2}),
        [("fail", "memory.uncorrectable", "mc1", "replace")],
    ),
    _memory(
        "a controller that knows no modules",
        json.dumps({"files": {**{k: str(v) for k, v in NO_MODULES.items()}, f"{EDAC}/mc0/ue_count": "3"}}),
        [("fail", "memory.uncorrectable", "mc0", "replace")],
    ),
    _memory("pages given up", edac(given_up=8), [("fail", "memory.given_up", "", "reboot")]),
    _memory("pages given up below", edac(given_up=8), [("fail", "memory.given_up", "", "reboot")], "podman\n"),
    _memory("not bare metal", edac(), [("warn", "memory_errors.virtual", "", "none")], "kvm\n"),
    _memory("no EDAC", NONE, [("unknown", "memory_errors.no_edac", "", "escalate")]),
    _memory("no number", edac("many"), [("unknown", "memory_errors.unreadable", PLACE, "escalate")]),
    _memory("not JSON", "x", MEMORY_UNREAD),
    _memory("hangs", "timed_out", [("unknown", "memory_errors.timed_out", "", "retry")]),
]

# ---------------------------------------------------------------- cpu_idle

POLL, C1, C1E, C6 = ["POLL", "0", "0"], ["C1", "1", "0"], ["C1E", "2", "0"], ["C6", "170", "0"]


def idle(*states: list[Any], driver: str | None = "intel_idle", qos: Any = 2000000000) -> str:
    rows = [[*state, 112, 0] if len(state) == 3 else state for state in states]
    return json.dumps({"driver": driver, "qos": qos, "states": rows})


def _idle(name: str, text: Any, want: Want, machine: Any = ("none\n", 1), limit: float | None = 10) -> Row:
    limits = {} if limit is None else {"cpu_idle_microseconds": limit}
    return ("cpu_idle", name, {"sysfs": text, "virtualization": machine}, want, {"limits": limits}, {})


AWAKE: Want = [("ok", "cpu_idle", "", "none")]
DEEP: Want = [("fail", "cpu.deep_sleep", "CPU 0", "escalate")]
UNREAD: Want = [("unknown", "cpu_idle.unreadable", "", "escalate")]
OFF = ["C6", "170", "1"]
IDLE_CASES: list[Row] = [
    _idle("C6 is off", idle(POLL, C1, C1E, OFF), AWAKE),
    _idle("C6 is on", idle(POLL, C1, C1E, C6), DEEP),
    _idle(
        "on for one CPU", idle(POLL, C1, [*OFF, 111, 0], [*C6, 1, 77]), [("fail", *DEEP[0][1:2], "CPU 77", "escalate")]
    ),
    _idle("held back", idle(POLL, C1, C6, qos=1), AWAKE),
    _idle("held back too little", idle(POLL, C1, C6, qos=200), DEEP),
    _idle("a higher limit", idle(POLL, C1, C6), AWAKE, limit=170),
    _idle("all are off", idle(["C6", "170", "1"]), AWAKE),
    _idle("idle=poll", idle(driver=None), AWAKE),
    _idle("a driver without states", idle(), [("unknown", "cpu_idle.no_states", "", "escalate")]),
    _idle("a virtual machine", idle(driver=None), [("warn", "cpu_idle.virtual", "", "none")], "kvm\n"),
    _idle("no states, no word", idle(driver=None), [("unknown", "cpu_idle.no_states", "", "escalate")], "failed"),
    _idle("asked for without a limit", idle(C1), [("unknown", "cpu_idle.not_expected", "", "escalate")], limit=None),
    _idle("no latency", idle(["C6", None, "0"]), UNREAD),
    _idle("not JSON", "x", UNREAD),
    _idle("hangs", "timed_out", [("unknown", "cpu_idle.timed_out", "", "retry")]),
]

# ---------------------------------------------------------------- system

RELEASE = 'NAME="Ubuntu"\nVERSION_ID="24.04"\nPRETTY_NAME="Ubuntu 24.04.3 LTS"\nID=ubuntu\n'
CPU_FOLDER = "/sys/devices/system/cpu"


def system_files(online: str = "0-127", present: str = "0-127", smt: str = "on", **more: str) -> str:
    """What read_files prints of a host with 2 TiB of memory; empty texts are not there."""
    files = {
        "/etc/os-release": RELEASE,
        "/proc/sys/kernel/osrelease": "6.8.0-79-generic\n",
        "/sys/class/dmi/id/bios_version": "2.5.4\n",
        f"{CPU_FOLDER}/online": f"{online}\n",
        f"{CPU_FOLDER}/present": f"{present}\n",
        f"{CPU_FOLDER}/smt/control": f"{smt}\n",
        f"{CPU_FOLDER}/cpu0/microcode/version": "0x2b000639\n",
        "/proc/meminfo": "MemTotal:       2113408352 kB\nMemFree:        2000000000 kB\n",
        **more,
    }
    return json.dumps({"files": {path: text for path, text in files.items() if text.strip()}, "errors": {}})


def _system(name: str, want: Want, files: Any = None, machine: Any = "none\n") -> Row:
    return ("system", name, {"files": files or system_files(), "virtualization": machine}, want, {}, {})


WHOLE: Want = [("ok", "system", "", "none")]
SYSTEM_CASES: list[Row] = [
    _system("all CPUs on", WHOLE),
    _system("two are off", [("fail", "cpu.offline", "2 of 128 CPUs", "reboot")], system_files("0-6,8-126")),
    _system("many are off", [("fail", "cpu.offline", "64 of 128 CPUs", "reboot")], system_files("0-63")),
    _system("SMT is off", WHOLE, system_files("0-63", smt="off")),
    _system("SMT is off for good", WHOLE, system_files("0-63", smt="forceoff")),
    _system(
        "SMT is off, and cores are too",
        [("fail", "cpu.offline", "8 of 64 CPUs", "reboot")],
        system_files("0-55", smt="off"),
    ),
    _system("a kernel without that switch", WHOLE, system_files(smt="")),
    _system(
        "off, without that switch", [("fail", "cpu.offline", "", "reboot")], system_files("0-63", smt="notsupported")
    ),
    _system("off, in a virtual machine", WHOLE, system_files("0-3"), "kvm\n"),
    _system("machine not known", [("unknown", "system.no_tool", "", "escalate")], machine="no_tool"),
    _system("no list of CPUs", [("unknown", "system.unreadable", "", "escalate")], system_files(online="all")),
    _system("no present CPU", [("unknown", "system.unreadable", "", "escalate")], system_files(present="")),
    _system("not JSON", [("unknown", "system.unreadable", "", "escalate")], "x"),
    _system("hangs", [("unknown", "system.timed_out", "", "retry")], "timed_out"),
]
CASES = [*DOCKER_CASES, *MEMORY_CASES, *IDLE_CASES, *SYSTEM_CASES]
